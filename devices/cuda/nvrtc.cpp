#include "rill/devices/cuda/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <vector>

#include "rill/devices/cuda/kernel_text.h"
#include "rill/tensor/error.h"

namespace rill::cuda {

namespace {

using Program = struct ProgramTag*;

// The calls of nvrtc.h that we make; each gives 0 where it succeeds.
struct Nvrtc {
  int (*nvrtcCreateProgram)(Program*, const char* text, const char* name, int headers, const char* const* header_texts,
                            const char* const* header_names) = nullptr;
  int (*nvrtcCompileProgram)(Program, int options, const char* const*) = nullptr;
  int (*nvrtcGetProgramLogSize)(Program, size_t*) = nullptr;
  int (*nvrtcGetProgramLog)(Program, char*) = nullptr;
  int (*nvrtcGetCUBINSize)(Program, size_t*) = nullptr;
  int (*nvrtcGetCUBIN)(Program, char*) = nullptr;
  int (*nvrtcDestroyProgram)(Program*) = nullptr;
  const char* (*nvrtcGetErrorString)(int) = nullptr;
  std::string missing;  // why it cannot be used
};

void* open_library(std::string& missing) {
  const char* own = std::getenv("RILL_NVRTC");
  const std::vector<const char*> names = own ? std::vector{own} : std::vector{"libnvrtc.so.13", "libnvrtc.so.12"};
  for (const char* name : names)
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  missing = fmt::format("NVRTC of the CUDA Toolkit is not found: {}", dlerror());
  return nullptr;
}

Nvrtc load() {
  Nvrtc n;
  void* library = open_library(n.missing);
  if (!library) return n;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function) n.missing = fmt::format("this NVRTC has no {}", name);
  };
#define RILL_FIND(name) find(n.name, #name);
  RILL_FIND(nvrtcCreateProgram)
  RILL_FIND(nvrtcCompileProgram)
  RILL_FIND(nvrtcGetProgramLogSize)
  RILL_FIND(nvrtcGetProgramLog)
  RILL_FIND(nvrtcGetCUBINSize)
  RILL_FIND(nvrtcGetCUBIN)
  RILL_FIND(nvrtcDestroyProgram)
  RILL_FIND(nvrtcGetErrorString)
#undef RILL_FIND
  return n;
}

const Nvrtc& nvrtc() {
  static const Nvrtc loaded = load();
  return loaded;
}

void require(int code, const char* what) {
  if (code) fail("cuda", fmt::format("{}: {}", what, nvrtc().nvrtcGetErrorString(code)), Where());
}

// What math_scalar.h includes: NVRTC declares the functions by itself, in the global namespace.
constexpr const char* cmath_text = R"(#pragma once
namespace std {
using ::copysign; using ::cos; using ::fabs; using ::floor; using ::isnan; using ::lgamma; using ::log; using ::round;
using ::sin; using ::tan;
// On a device it is a double.
inline long double fabs(long double x) { return ::fabs(double(x)); }
inline long double log(long double x) { return ::log(double(x)); }
inline long double round(long double x) { return ::round(double(x)); }
inline long double tan(long double x) { return ::tan(double(x)); }
}
)";
constexpr const char* limits_text = R"(#pragma once
namespace std {
template <class T> struct numeric_limits;
template <> struct numeric_limits<double> {
  static double infinity() { return __longlong_as_double(0x7ff0000000000000ll); }
  static double quiet_NaN() { return __longlong_as_double(0x7ff8000000000000ll); }
};
}
)";

struct Held {
  Program program = nullptr;
  ~Held() {
    if (program) nvrtc().nvrtcDestroyProgram(&program);
  }
};

std::string log_of(Program p) {
  size_t bytes = 0;
  if (nvrtc().nvrtcGetProgramLogSize(p, &bytes)) return "";
  std::string log(bytes, '\0');
  nvrtc().nvrtcGetProgramLog(p, log.data());
  return log.c_str();
}

}  // namespace

std::string no_nvrtc_reason() { return nvrtc().missing; }

std::string compile(const std::string& kernels, int architecture) {
  if (!no_nvrtc_reason().empty()) fail("cuda", no_nvrtc_reason(), Where());
  const std::string text = std::string(prelude()) + kernels,
                    target = fmt::format("--gpu-architecture=sm_{}", architecture);
  const char* const header_texts[] = {cmath_text, limits_text};
  const char* const header_names[] = {"cmath", "limits"};
  const char* const options[] = {target.c_str(), "--fmad=false",
                                 "--std=c++17",  "--device-as-default-execution-space",
                                 "--restrict",   "--disable-warnings"};
  Held held;
  require(nvrtc().nvrtcCreateProgram(&held.program, text.c_str(), "rill.cu", 2, header_texts, header_names),
          "nvrtcCreateProgram");
  if (nvrtc().nvrtcCompileProgram(held.program, int(std::size(options)), options) != 0)
    fail("cuda", fmt::format("NVRTC does not take a kernel:\n{}", log_of(held.program)), Where());
  size_t bytes = 0;
  require(nvrtc().nvrtcGetCUBINSize(held.program, &bytes), "nvrtcGetCUBINSize");
  std::string code(bytes, '\0');
  require(nvrtc().nvrtcGetCUBIN(held.program, code.data()), "nvrtcGetCUBIN");
  return code;
}

}  // namespace rill::cuda
