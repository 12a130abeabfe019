// What the environment's RILL_ variables do where their value is wrong: a line on stderr, and the default.
#include <rill/rill.h>

#include <cstdlib>
#include <string>

#include "catch.h"
#include "child.h"
#include "needs.h"
#include "rill/tensor/settings.h"

using namespace rill;

TEST_CASE("child: a traced function is compiled", "[.]") {
  auto f = function("traced", [](const Tensor& x) { return sum(tanh(x * 2) + 1); });
  CHECK(f(ones({64})).item<float>() > 64);
  jit::wait();
  f(ones({64}));
  has_device("gpu:0");
  CHECK_FALSE(settings::is_on("RILL_TEST_SWITCH", false));
  CHECK(settings::is_on("RILL_TEST_SWITCH", true));
}

namespace {

std::string printed(const std::string& variables) {
  std::string out;
  INFO(variables);
  const int status = child(variables + " RILL_TEST_SWITCH=", "child: a traced function is compiled", out);
  INFO(out);
  CHECK(status == 0);
  return out;
}

// Whether the build has vector code for this machine alone, which has AVX2 or more.
bool has_host_vectors() {
  const char* vectors = std::getenv("RILL_TEST_VECTORS");
  return vectors && std::string(vectors) == "host";
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("a variable whose value is none of its words is reported once, and ignored") {
  for (const auto& [variable, line] : std::initializer_list<std::pair<std::string, std::string>>{
           {"RILL_JIT=of",
            "rill: RILL_JIT=of: there is no such value, and this one is ignored. it may be off, wait, tiered"},
           {"RILL_ISA=avx",
            "rill: RILL_ISA=avx: there is no such value, and this one is ignored. it may be avx2, baseline"},
           {"RILL_CUDA=no", "rill: RILL_CUDA=no: there is no such value, and this one is ignored. it may be on, off"},
           {"RILL_TEST_SWITCH=1 RILL_TEST=", "rill: RILL_TEST_SWITCH=1: there is no such value"}}) {
    std::string out;
    child(variable, "child: a traced function is compiled", out);
    INFO(out);
    CHECK(count_of(out, line) == 1);
    CHECK(count_of(out, "rill: RILL_") == 1);
  }
}

TEST_CASE("RILL_LOG is a list of what is logged, and a word that is nothing is reported") {
  const std::string wrong = printed("RILL_LOG=pases,kernels");
  CHECK(count_of(wrong,
                 "rill: RILL_LOG=pases,kernels: nothing is logged as 'pases'. a list may have passes, kernels, vmap, "
                 "cudnn, placement") == 1);
  CHECK(count_of(wrong, "rill: traced: ") == 1);
  const std::string both = printed("RILL_LOG='passes, kernels'");
  CHECK(count_of(both, "rill: RILL_") == 0);
  CHECK(count_of(both, "rill: traced: dead code") > 0);
}

TEST_CASE("folders into which nothing can be written are reported") {
  if (!has_compiler()) return skip_case("nothing is compiled");
  CHECK(count_of(printed("RILL_CACHE_DIR=/proc/none"),
                 "rill: RILL_CACHE_DIR=/proc/none: kernels cannot be kept there: ") == 1);
  CHECK(count_of(printed("RILL_CACHE_DIR=/dev/null"), "rill: RILL_") == 0);
  CHECK(count_of(printed("RILL_CACHE_DIR=/dev/null RILL_DUMP=/proc/none"),
                 "rill: RILL_DUMP=/proc/none: nothing can be written there") == 1);
}

TEST_CASE("what is set as documented is not reported") {
  for (const char* variables : {"RILL_JIT=wait", "RILL_JIT=tiered", "RILL_JIT=", "RILL_CUDA=on", "RILL_CUDA=off"})
    CHECK(count_of(printed(variables), "rill: RILL_") == 0);
  if (!has_host_vectors()) CHECK(count_of(printed("RILL_ISA=avx2"), "rill: RILL_") == 0);
}

TEST_CASE("a limit that vector code for one machine cannot keep is reported") {
  const std::string out = printed("RILL_ISA=baseline");
  const size_t reports = has_host_vectors();
  CHECK(count_of(out, "rill: RILL_ISA=baseline: it limits compiled code alone") == reports);
  CHECK(count_of(out, "rill: RILL_") == reports);
}
