// main() for every tests/test_*.cpp, compiled once because Catch2 2.13's implementation takes ten seconds. A test case
// or section that asserts nothing fails, and so does a run that finds no test case of the name it was asked for. In CI
// the test cases run in another order for each commit, for each is the same one alone and after any others.
#define CATCH_CONFIG_RUNNER
#include "catch.h"

#include <cstdio>
#include <cstdlib>
#include <set>

void skip_case(const std::string& reason) {
  static std::set<std::string> said;
  const std::string name = Catch::getResultCapture().getCurrentTestName();
  if (said.insert(name).second) std::printf("skipped: %s: %s\n", name.c_str(), reason.c_str());
  SUCCEED(reason);  // so that a skipped test case is not one without assertions
}

// Tests ask for more memory than there is; the address sanitizer then gives none, as the system does.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
// Children of fork() start threads. A call holds a lock for each Variable: more than the search for deadlocks takes.
extern "C" const char* __tsan_default_options() { return "die_after_fork=0:detect_deadlocks=0"; }

// The sanitizer of a program that a test starts, such as `rill`, reads this.
static void programs_get_no_memory_too() {
  const char* set = std::getenv("ASAN_OPTIONS");
  setenv("ASAN_OPTIONS", ((set ? std::string(set) + ":" : "") + "allocator_may_return_null=1").c_str(), 1);
}

#if CATCH_VERSION_MAJOR >= 3
static const auto no_match = Catch::WarnAbout::UnmatchedTestSpec;
static const auto any_order = Catch::TestRunOrder::Randomized;
#else
static const auto no_match = Catch::WarnAbout::NoTests;
static const auto any_order = Catch::RunTests::InRandomOrder;
#endif

int main(int argc, char** argv) {
  programs_get_no_memory_too();
  Catch::Session session;
  Catch::ConfigData& config = session.configData();
  config.warnings = Catch::WarnAbout::What(Catch::WarnAbout::NoAssertions | no_match);
  if (const char* turn = std::getenv("RILL_TEST_TURN")) {  // CI's, another one for each commit
    config.runOrder = any_order;
    config.rngSeed = unsigned(std::strtoul(turn, nullptr, 10));
  }
  return session.run(argc, argv);
}
