// A program that knows nothing of rill and opens a plug-in that uses it.
#include <dlfcn.h>

#include <cstdio>

int main(int argc, char** argv) {
  void* plug_in = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  void* use_rill = plug_in ? dlsym(plug_in, "use_rill") : nullptr;
  if (!use_rill) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  reinterpret_cast<void (*)()>(use_rill)();
}
