// Calls random public functions with random arguments, eagerly, under tapes and traced, and checks that bad input never
// causes a crash, a hang, or an exception other than rill::Error. Made to be built with sanitizers; prints the numbers
// of functions and calls. The default device is that of tested_device.h.
//
//   RILL_FUZZ_COUNT   how many calls (a million by hand: some minutes)
//   RILL_FUZZ_SEED    which; on a GPU, where they are few, CI takes others for each commit
//   RILL_FUZZ_FIRST   the first one; what a failure prints, rounded down to a thousand, runs it again
//
// A new public function is a line in fuzz_functions.h, or in fuzz_transforms.h where it takes functions.
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "fuzz_functions.h"
#include "fuzz_transforms.h"
#include "own_new.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RILL_ADDRESS_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define RILL_ADDRESS_SANITIZER 1
#endif

// --- Memory has an end: absurd requests fail here and not in the kernel ----------------------------------------------

namespace {
constexpr size_t largest_allocation = size_t(256) << 20;
}  // namespace

static void* memory_for_new(size_t bytes) {
  return bytes <= largest_allocation ? std::malloc(bytes ? bytes : 1) : nullptr;
}

extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1:max_allocation_size_mb=256"; }

extern "C" const char* __ubsan_default_options() { return "halt_on_error=1:print_stacktrace=1"; }

namespace fuzz {
namespace {

// --- One call --------------------------------------------------------------------------------------------------------

void read(const Tensor& t) {
  if (!t.defined() || t.is_symbolic()) return;
  if (t.size() <= 1 << 16) {
    if (t.dtype() == DType::string) t.to_vector<std::string>();
    else if (is_complex(t.dtype())) t.to_vector<std::complex<double>>();
    else t.to_vector<double>();
    return;
  }
  Tensor last = t;  // of a view, perhaps, of more elements than there is memory
  while (last.ndim() > 0) last = last(-1);
  if (is_floating(last.dtype())) last.item<double>();
}

void differentiate(Arguments& a, GradientTape& tape, const Results& results) {
  if (a.watched.empty()) return;
  for (const Tensor& y : results) {
    if (!y.defined() || !is_floating(y.dtype()) || y.size() > 1 << 16) continue;
    for (const Tensor& g : tape.gradient(y, a.watched, {.unconnected = Unconnected::none})) read(g);
    return;  // the tape's memory is freed
  }
}

Results run(const Function& f, Arguments& a) {
  switch (a.below(8)) {
    case 0:
    case 1: {
      GradientTape tape;
      a.tape = &tape;
      Results out = f.run(a);
      differentiate(a, tape, out);
      return out;
    }
    case 2: {
      GradientTape outer;
      GradientTape tape;
      a.tape = &tape;
      Results out = f.run(a);
      for (const Tensor& x : a.watched) outer.watch(x);
      differentiate(a, tape, out);
      return out;
    }
    case 3: {
      const Arguments before = a;
      const auto traced = function("fuzz", [&]() -> Results {
        Arguments same = before;
        return f.run(same);
      });
      Results out = traced();
      return traced();
    }
    default: return f.run(a);
  }
}

// --- All of them -----------------------------------------------------------------------------------------------------

int64_t number = 0;
const char* name_now = "";
void report(const char* what) {
  std::fprintf(stderr, "fuzz_api: call %lld of %s: %s\n", static_cast<long long>(number), name_now, what);
}

int fuzz_all() {
  const auto first = int64_t(setting("RILL_FUZZ_FIRST", 0)), count = int64_t(setting("RILL_FUZZ_COUNT", 20000));
  const uint64_t seed = setting("RILL_FUZZ_SEED", 1 + (on_host ? 0 : setting("RILL_TEST_TURN", 0)));
  std::vector<Function> all(std::begin(functions), std::end(functions));
  all.insert(all.end(), std::begin(transforms), std::end(transforms));
  const int64_t n = int64_t(all.size());
  std::vector<int64_t> accepted(static_cast<size_t>(n), 0);
  int64_t errors = 0, wrong = 0;
  for (number = first; number < first + count; ++number) {
    if (number % 1000 == 0 || number == first) {  // a call depends on those since, and on no others
      Arguments::pool().clear();
      random::seed(seed);
    }
    Arguments a(seed * 1'000'000'007u + uint64_t(number));
    const size_t which = size_t(a.below(n));
    name_now = all[which].name;
    alarm(on_host ? 120 : 600);  // a simulated GPU is slow
    try {
      const Results results = run(all[which], a);
      ++accepted[which];
      for (const Tensor& t : results) read(t);
      for (const Tensor& t : results) a.remember(t);
    } catch (const Error&) {
      ++errors;
    } catch (const std::exception& e) {
      ++wrong;
      report(e.what());
    }
  }
  int64_t never = 0;
  for (size_t i = 0; i < accepted.size(); ++i) {
    if (accepted[i]) continue;
    ++never;
    std::printf("never accepted: %s\n", all[i].name);
  }
  std::printf(
      "%lld functions (%lld of them never accepted a call), %lld calls: %lld refused with rill::Error, %lld wrong\n",
      static_cast<long long>(n), static_cast<long long>(never), static_cast<long long>(count),
      static_cast<long long>(errors), static_cast<long long>(wrong));
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace fuzz

#ifdef RILL_ADDRESS_SANITIZER
extern "C" void __sanitizer_set_death_callback(void (*)());
#endif

int main() {
  const auto die = [](int signal) {
    fuzz::report(signal == SIGALRM ? "does not end" : "killed by a signal");
    _exit(3);
  };
  std::signal(SIGALRM, die);
#ifdef RILL_ADDRESS_SANITIZER
  __sanitizer_set_death_callback([] { fuzz::report("killed by a sanitizer"); });
#else
  const rlimit room{rlim_t(8) << 30, rlim_t(8) << 30};
  setrlimit(RLIMIT_DATA, &room);  // and not of addresses, of which a GPU's driver takes very many
  for (int signal : {SIGABRT, SIGBUS, SIGFPE, SIGSEGV}) std::signal(signal, die);
#endif
  rill::jit::set_mode(rill::jit::Mode::off);
  if (!on_host) rill::set_memory_limit(tested, size_t(1) << 30);
  return fuzz::fuzz_all();
}
