// A libnvrtc.so.13 for machines without one, or without the minutes that the real one takes: it compiles CUDA C++ for
// the host (../host_cuda.h). Its "cubin" is a shared library, which the simulated driver loads. Its version is
// that in its file's name, it needs its builtins (an empty library), and supports the architectures that
// RILL_SIMULATED_ARCHITECTURES lists.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "../math_functions.h"
#include "shared.h"

extern "C" int nvrtcVersion(int*, int*);

namespace {

struct Compiled {
  std::string text, log, code;
};

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

constexpr int compilation_error = 6;  // NVRTC_ERROR_COMPILATION

// The file that the real one opens by its name, when it first compiles.
std::string builtins() {
  int major = 0, minor = 0;
  nvrtcVersion(&major, &minor);
  return "libnvrtc-builtins.so." + std::to_string(major) + "." + std::to_string(minor);
}

// Links kernels with the functions of ../host_math.cpp in place of the C library's.
std::string wrapped_functions() {
  std::string options;
  const auto wrap = [&](const std::string& name) { options += " -Wl,--wrap=" + name; };
#define RILL_WRAP(name, ulps64, ulps32) wrap(#name), wrap(#name "f"), wrap(#name "l");
#define RILL_WRAP_EXACT(name) wrap(#name "l");
  RILL_MATH_OF_ONE(RILL_WRAP)
  RILL_MATH_OF_BESSEL(RILL_WRAP)
  RILL_MATH_OF_LGAMMA(RILL_WRAP)
  RILL_MATH_OF_TWO(RILL_WRAP)
  RILL_EXACT_OF_ONE(RILL_WRAP_EXACT)
  RILL_EXACT_OF_TWO(RILL_WRAP_EXACT)
  for (const char* name :
       {"lgamma_r", "lgammal_r", "sincos", "sincosl", "sincosf", "ldexpl", "scalbnl", "frexpl", "modfl", "ilogbl"})
    wrap(name);
  return options;
}

std::vector<int> architectures() {
  const char* given = std::getenv("RILL_SIMULATED_ARCHITECTURES");
  std::istringstream text(given ? given : "75 80 90 100");
  return {std::istream_iterator<int>(text), {}};
}

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  Dl_info here{};
  const bool found = dladdr(reinterpret_cast<void*>(&nvrtcVersion), &here) && here.dli_fname;
  const std::string name = found ? here.dli_fname : "";
  *major = std::atoi(name.substr(name.rfind('.') + 1).c_str()), *minor = 0;
  return 0;
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = int(architectures().size());
  return 0;
}
int nvrtcGetSupportedArchs(int* list) {
  for (const int a : architectures()) *list++ = a;
  return 0;
}
const char* nvrtcGetErrorString(int error) { return error == compilation_error ? "NVRTC_ERROR_COMPILATION" : "?"; }

int nvrtcCreateProgram(void** program, const char* text, const char*, int, const char* const*, const char* const*) {
  *program = new Compiled{text, {}, {}};
  return 0;
}
int nvrtcDestroyProgram(void** program) {
  delete static_cast<Compiled*>(*program);
  *program = nullptr;
  return 0;
}

int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  auto& p = *static_cast<Compiled*>(program);
  bool known = false;
  for (const int a : architectures())
    for (const char* kind : {"sm_", "compute_"})
      for (int i = 0; i < count; ++i)
        known = known || options[i] == "--gpu-architecture=" + std::string(kind) + std::to_string(a);
  if (!known) return 5;                                              // NVRTC_ERROR_INVALID_OPTION
  if (!dlopen(builtins().c_str(), RTLD_NOW | RTLD_LOCAL)) return 7;  // NVRTC_ERROR_BUILTIN_OPERATION_FAILURE
  char folder[] = "/tmp/rill-nvrtc-XXXXXX";
  if (!mkdtemp(folder)) return 1;
  const std::string at = folder, source = at + "/k.cpp", library = at + "/k.so", log = at + "/log";
  std::ofstream(source) << "#include \"" RILL_HOST_CUDA "\"\n" << p.text;
  if (const char* kept = std::getenv("RILL_SIMULATED_TEXTS"))  // for the true NVRTC (test_cuda_text.cpp)
    std::ofstream(std::string(kept) + "/" + std::to_string(std::hash<std::string>()(p.text)) + ".cu") << p.text;
  const std::string line =
      RILL_COMPILE " -o " + library + " " + source + wrapped_functions() + " " RILL_LINK " 2> " + log;
  const int status = std::system(line.c_str());
  p.log = "rill.cu\n" + contents(log);
  p.code = contents(library);
  for (const std::string& file : {source, library, log}) unlink(file.c_str());
  rmdir(folder);
  return status == 0 ? 0 : compilation_error;
}

int nvrtcGetProgramLogSize(void* program, size_t* bytes) {
  *bytes = static_cast<Compiled*>(program)->log.size() + 1;
  return 0;
}
int nvrtcGetProgramLog(void* program, char* log) {
  std::strcpy(log, static_cast<Compiled*>(program)->log.c_str());
  return 0;
}
int nvrtcGetPTXSize(void* program, size_t* bytes) {
  *bytes = std::strlen(ptx_begins) + 2 * static_cast<Compiled*>(program)->code.size() + 1;
  return 0;
}
int nvrtcGetPTX(void* program, char* text) {
  std::string all = ptx_begins;
  for (const char c : static_cast<Compiled*>(program)->code) {
    all += char('a' + (static_cast<unsigned char>(c) >> 4));
    all += char('a' + (c & 15));
  }
  std::strcpy(text, all.c_str());
  return 0;
}
int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  *bytes = static_cast<Compiled*>(program)->code.size();
  return 0;
}
int nvrtcGetCUBIN(void* program, char* code) {
  const std::string& s = static_cast<Compiled*>(program)->code;
  std::memcpy(code, s.data(), s.size());
  return 0;
}
}
