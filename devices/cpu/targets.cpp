// Which instruction sets this processor has, for Highway's choice of kernels at run time.
//
// Highway's library answers this too, but loading it costs a program 4 ms, half of our start-up time: a static object
// of a part that we do not use measures the clock. With these two functions a release build needs nothing of that
// library, and the linker drops it. They are hidden, so that a program that uses Highway itself keeps its own.
#undef HWY_SHARED_DEFINE  // else the declarations below would ask for default visibility
#include <hwy/targets.h>

#include "rill/devices/cpu/only_target.h"
#include "rill/devices/kernel/isa.h"

#if HWY_ARCH_X86

namespace hwy {

namespace {
// As in Highway's own table; features that every processor with a set also has (f16c and lzcnt with avx2, vaes with
// vpclmulqdq) are not tested again. __builtin_cpu_supports knows whether the system saves the wide registers.
int64_t allowed(std::string_view limit) {
  __builtin_cpu_init();
  int64_t targets = HWY_EMU128 | HWY_SCALAR;
#ifdef HWY_SSE2  // newer than Debian 12's Highway
  targets |= HWY_SSE2;
#endif
  if (limit == "baseline") return targets;
  const auto add = [&targets](int64_t target, bool has) {
    if (has) targets |= target;
    return has;
  };
#define HAS(name) (__builtin_cpu_supports(name) != 0)
  if (!add(HWY_SSSE3, HAS("ssse3"))) return targets;
  if (!add(HWY_SSE4, HAS("sse4.1") && HAS("sse4.2") && HAS("aes") && HAS("pclmul"))) return targets;
  if (!add(HWY_AVX2, HAS("avx2") && HAS("fma") && HAS("bmi") && HAS("bmi2"))) return targets;
  if (limit == "avx2") return targets;
  if (!add(HWY_AVX3, HAS("avx512f") && HAS("avx512vl") && HAS("avx512cd") && HAS("avx512bw") && HAS("avx512dq")))
    return targets;
  add(HWY_AVX3_DL, HAS("avx512vnni") && HAS("avx512vbmi") && HAS("avx512vbmi2") && HAS("avx512vpopcntdq") &&
                       HAS("avx512bitalg") && HAS("vpclmulqdq") && HAS("gfni"));
#undef HAS
  return targets;
}

// Kernels for one instruction set alone are chosen whatever the limit: there are no others.
int64_t detect() {
  const std::string_view limit = rill::isa_limit();
  const int64_t targets = allowed(limit), only = rill::cpu::only_target();
  if (!limit.empty() && (targets & only) != only)
    rill::settings::report("RILL_ISA",
                           "it limits compiled code alone, for this build has vector code for one machine "
                           "(-Dvectors=host)");
  return targets | only;
}
}  // namespace

[[gnu::visibility("hidden")]] int64_t SupportedTargets() {
  static const int64_t targets = detect();
  return targets;
}

[[gnu::visibility("hidden")]] ChosenTarget& GetChosenTarget() {
  static constinit ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy

#endif
