// Opens NVRTC and compiles by it; see nvrtc.h.
#include "rill/devices/cuda/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <string_view>
#include <vector>

#include "rill/devices/cuda/kernel_text.h"
#include "rill/devices/cuda/shared_library.h"
#include "rill/devices/kernel/cache.h"
#include "rill/tensor/error.h"

namespace rill::cuda {

namespace {

using Program = struct ProgramTag*;

// The calls of nvrtc.h that we make; each returns 0 on success.
struct Nvrtc {
  int (*nvrtcVersion)(int* major, int* minor) = nullptr;
  int (*nvrtcGetNumSupportedArchs)(int* count) = nullptr;
  int (*nvrtcGetSupportedArchs)(int* list) = nullptr;
  int (*nvrtcCreateProgram)(Program*, const char* text, const char* name, int headers, const char* const* header_texts,
                            const char* const* header_names) = nullptr;
  int (*nvrtcCompileProgram)(Program, int options, const char* const*) = nullptr;
  int (*nvrtcGetProgramLogSize)(Program, size_t*) = nullptr;
  int (*nvrtcGetProgramLog)(Program, char*) = nullptr;
  int (*nvrtcGetCUBINSize)(Program, size_t*) = nullptr;
  int (*nvrtcGetCUBIN)(Program, char*) = nullptr;
  int (*nvrtcGetPTXSize)(Program, size_t*) = nullptr;
  int (*nvrtcGetPTX)(Program, char*) = nullptr;
  int (*nvrtcDestroyProgram)(Program*) = nullptr;
  const char* (*nvrtcGetErrorString)(int) = nullptr;
  int major = 0, minor = 0;
  std::vector<int> architectures;  // that it compiles for, ascending
  std::string missing;             // why it cannot be used

  // The architecture to compile for: this one or the nearest lower one; 0 if it is older than all.
  int nearest(int architecture) const {
    const auto after = std::upper_bound(architectures.begin(), architectures.end(), architecture);
    return after == architectures.begin() ? 0 : after[-1];
  }
};

int driver_version = 0;

// NVRTC opens libnvrtc-builtins by its name when it first compiles. If NVRTC was opened by its path, the loader
// may not find that file next to it (13.0's wheel has no RPATH); a library that is already open is found by its name.
void open_builtins(const Nvrtc& n) {
  Dl_info at{};
  if (!dladdr(reinterpret_cast<void*>(n.nvrtcVersion), &at) || !at.dli_fname) return;
  const std::string_view file = at.dli_fname;
  const size_t slash = file.rfind('/');
  if (slash == file.npos) return;
  const std::string builtins = fmt::format("{}/libnvrtc-builtins.so.{}.{}", file.substr(0, slash), n.major, n.minor);
  dlopen(builtins.c_str(), RTLD_NOW | RTLD_LOCAL);  // if it is not there, the loader may find another
}

// Queries the version of an open library.
void query_versions(Nvrtc& n) {
  int count = 0;
  if (n.nvrtcVersion(&n.major, &n.minor) != 0 || n.nvrtcGetNumSupportedArchs(&count) != 0) count = 0;
  n.architectures.resize(size_t(count));
  if (count == 0 || n.nvrtcGetSupportedArchs(n.architectures.data()) != 0) {
    n.missing = "NVRTC does not say what it compiles for";
    return;
  }
  std::sort(n.architectures.begin(), n.architectures.end());
  if (driver_version > 0 && n.major > driver_version / 1000)
    n.missing = fmt::format(
        "NVRTC {}.{} compiles for CUDA {}, and the driver takes what is for CUDA {}.{} at most. install "
        "NVRTC {} or a newer driver",
        n.major, n.minor, n.major, driver_version / 1000, driver_version % 1000 / 10, driver_version / 1000);
}

Nvrtc load(const char* file) {
  auto n = functions_of<Nvrtc>({"NVRTC of the CUDA Toolkit", "RILL_NVRTC", {file}}, [](Nvrtc& l, SharedLibrary& from) {
#define RILL_FIND(name) from.find(l.name, #name);
    RILL_FIND(nvrtcVersion)
    RILL_FIND(nvrtcGetNumSupportedArchs)
    RILL_FIND(nvrtcGetSupportedArchs)
    RILL_FIND(nvrtcCreateProgram)
    RILL_FIND(nvrtcCompileProgram)
    RILL_FIND(nvrtcGetProgramLogSize)
    RILL_FIND(nvrtcGetProgramLog)
    RILL_FIND(nvrtcGetCUBINSize)
    RILL_FIND(nvrtcGetCUBIN)
    RILL_FIND(nvrtcGetPTXSize)
    RILL_FIND(nvrtcGetPTX)
    RILL_FIND(nvrtcDestroyProgram)
    RILL_FIND(nvrtcGetErrorString)
#undef RILL_FIND
  });
  if (n.missing.empty()) query_versions(n);
  if (n.missing.empty()) open_builtins(n);
  return n;
}

// The newest one, and the one before, which is opened only if the newest does not support the GPU; both are RILL_NVRTC
// if that is set. Never destroyed: kernels may be compiled while a program ends.
const Nvrtc& newest() {
  static const Nvrtc& loaded = *new Nvrtc(load("libnvrtc.so.13"));
  return loaded;
}
const Nvrtc& older() {
  static const Nvrtc& loaded = *new Nvrtc(load("libnvrtc.so.12"));
  return loaded;
}

// The one for an architecture: the newest that supports it, else the newest that supports a lower one.
const Nvrtc& nvrtc_for(int architecture) {
  const auto knows = [&](const Nvrtc& n) { return n.missing.empty() && n.nearest(architecture) == architecture; };
  if (knows(newest())) return newest();
  if (knows(older())) return older();
  return newest().missing.empty() && newest().nearest(architecture) > 0 ? newest() : older();
}

void require(const Nvrtc& n, int code, const char* what) {
  if (code) fail("cuda", fmt::format("{}: {}", what, n.nvrtcGetErrorString(code)), Where());
}

// The headers that those of devices/kernel/math include. NVRTC declares C's functions itself, in the global namespace.
// On a device a long double is a double. NVRTC 12.1 and 12.2 have no builtin function for an infinity, a NaN or bits.
constexpr const char* cmath_text = R"(#pragma once
namespace std {
using ::isnan; using ::isinf;
#define RILL_CMATH_1(f) using ::f; inline long double f(long double x) { return ::f(double(x)); }
RILL_CMATH_1(abs) RILL_CMATH_1(asinh) RILL_CMATH_1(cbrt) RILL_CMATH_1(ceil) RILL_CMATH_1(cos) RILL_CMATH_1(erf)
RILL_CMATH_1(erfc) RILL_CMATH_1(exp) RILL_CMATH_1(expm1) RILL_CMATH_1(fabs) RILL_CMATH_1(floor) RILL_CMATH_1(lgamma)
RILL_CMATH_1(log) RILL_CMATH_1(log1p) RILL_CMATH_1(round) RILL_CMATH_1(sin) RILL_CMATH_1(sinh) RILL_CMATH_1(sqrt)
RILL_CMATH_1(tan) RILL_CMATH_1(tgamma)
#define RILL_CMATH_2(f) \
  using ::f; inline long double f(long double x, long double y) { return ::f(double(x), double(y)); }
RILL_CMATH_2(copysign) RILL_CMATH_2(fmod) RILL_CMATH_2(hypot) RILL_CMATH_2(pow) RILL_CMATH_2(remainder)
using ::fma;
inline long double fma(long double x, long double y, long double z) { return ::fma(double(x), double(y), double(z)); }
}
)";
constexpr const char* limits_text = R"(#pragma once
namespace std {
template <class T> struct numeric_limits;
template <> struct numeric_limits<double> {
  static constexpr double infinity() { return 1 / 0.0; }
  static constexpr double quiet_NaN() { return -(0.0 / 0.0); }  // the positive one
  static constexpr double epsilon() { return 0x1p-52; }
  static constexpr double min() { return 0x1p-1022; }
};
template <> struct numeric_limits<long double> : numeric_limits<double> {};
}
)";
constexpr const char* algorithm_text = R"(#pragma once
namespace std {
template <class T> constexpr const T& max(const T& x, const T& y) { return x < y ? y : x; }
template <class T> constexpr const T& min(const T& x, const T& y) { return y < x ? y : x; }
template <class T> void swap(T& x, T& y) { const T z = x; x = y; y = z; }
}
)";
constexpr const char* iterator_text = R"(#pragma once
namespace std {
template <class T, unsigned long n> constexpr unsigned long size(const T (&)[n]) { return n; }
}
)";
constexpr const char* array_text = R"(#pragma once
namespace std {
template <class T, int n>
struct array {
  T v[n];
  T& operator[](int i) { return v[i]; }
  const T& operator[](int i) const { return v[i]; }
};
}
)";
constexpr const char* cstdint_text = R"(#pragma once
typedef int int32_t;
typedef long long int64_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
)";

struct OwnedProgram {
  const Nvrtc& n;
  Program program = nullptr;
  ~OwnedProgram() {
    if (program) n.nvrtcDestroyProgram(&program);
  }
};

std::string log_of(const OwnedProgram& h) {
  size_t bytes = 0;
  if (h.n.nvrtcGetProgramLogSize(h.program, &bytes)) return "";
  std::string log(bytes, '\0');
  h.n.nvrtcGetProgramLog(h.program, log.data());
  return log.c_str();
}

}  // namespace

void set_driver_version(int version) { driver_version = version; }

std::string no_nvrtc_reason() {
  if (newest().missing.empty() || older().missing.empty()) return "";
  return newest().missing;
}

std::string nvrtc_version(int architecture) {
  const Nvrtc& n = nvrtc_for(architecture);
  return n.missing.empty() ? fmt::format("{}.{}", n.major, n.minor) : "";
}

namespace {
[[noreturn]] void fail_for(int architecture, std::string_view why) {
  fail("cuda",
       fmt::format("this GPU has compute capability {}.{}, {}. RILL_CUDA=off keeps rill on the CPU", architecture / 10,
                   architecture % 10, why),
       Where());
}
}  // namespace

std::string compile(const std::string& kernels, int architecture) {
  if (!no_nvrtc_reason().empty()) fail("cuda", no_nvrtc_reason(), Where());
  // Older warps have no __match_any_sync, and diverged threads of one cannot meet at a shuffle.
  if (architecture < 70) fail_for(architecture, "and rill's kernels need 7.0 or a newer one");
  const Nvrtc& n = nvrtc_for(architecture);
  const int known = n.nearest(architecture);
  if (!n.missing.empty() || known == 0) fail_for(architecture, "for which no NVRTC that is installed compiles");
  const bool exact = known == architecture;
  const std::string text = std::string(prelude()) + kernels,
                    target = fmt::format("--gpu-architecture={}_{}", exact ? "sm" : "compute", known);
  const char* const header_texts[] = {cmath_text, limits_text, algorithm_text, iterator_text, array_text, cstdint_text};
  const char* const header_names[] = {"cmath", "limits", "algorithm", "iterator", "array", "cstdint"};
  const char* const options[] = {target.c_str(), "--fmad=false", "--std=c++17", "--device-as-default-execution-space",
                                 "--disable-warnings"};
  OwnedProgram held{n};
  require(n,
          n.nvrtcCreateProgram(&held.program, text.c_str(), "rill.cu", int(std::size(header_texts)), header_texts,
                               header_names),
          "nvrtcCreateProgram");
  if (n.nvrtcCompileProgram(held.program, int(std::size(options)), options) != 0)
    fail("cuda", fmt::format("NVRTC does not take a kernel:\n{}", log_of(held)), Where());
  size_t bytes = 0;
  require(n, (exact ? n.nvrtcGetCUBINSize : n.nvrtcGetPTXSize)(held.program, &bytes), "the size of NVRTC's code");
  std::string code(bytes, '\0');
  require(n, (exact ? n.nvrtcGetCUBIN : n.nvrtcGetPTX)(held.program, code.data()), "NVRTC's code");
  return code;
}

std::string machine_code(const std::string& kernels, int architecture) {
  static std::mutex mutex;
  static auto& disk =
      *new kernel::DiskCache(kernel::DiskCache::default_folder());  // kernels may start while a program ends
  const std::string key =
      fmt::format("{} {} sm_{}\n{}{}", RILL_VERSION, nvrtc_version(architecture), architecture, prelude(), kernels);
  {
    const std::lock_guard hold(mutex);
    if (std::string code = disk.find(key); !code.empty()) return code;
  }
  std::string code = compile(kernels, architecture);
  const std::lock_guard hold(mutex);
  disk.store(key, code);
  return code;
}

}  // namespace rill::cuda
