// From a kernel to machine code. Compiled kernels are cached in memory and on disk ($XDG_CACHE_HOME/rill), by the hash
// of their text, the processor and the compiler's version; one that is found there does not load LLVM. The compiler is
// librill_llvm.so (devices/llvm), opened when first needed: a program that never traces never loads it.
#pragma once
#include <memory>
#include <string>

#include "rill/devices/kernel/ir.h"

#pragma GCC visibility push(default)

namespace rill::kernel {

struct Compiled {
  RowFunction run = nullptr;
  std::shared_ptr<const void> code;  // keeps `run` in memory
  enum class From : uint8_t { memory, disk, compiler } from = From::memory;
  double milliseconds = 0;  // taken by this call
};

// The machine code of `k`. Any thread may call it; equal kernels are compiled once. The kernels used last stay in
// memory (most_kernels of them), others as long as somebody holds their `code`. Throws rill::Error if there is no
// compiler (no_compiler_reason() says why) or LLVM fails.
constexpr size_t most_kernels = 512;
Compiled compile(const Kernel& k);
// For the end of the program: from now on compile() throws, so that a graph with many kernels stops after the current
// one.
void stop_compiling();
void throw_if_stopped();
// "" if kernels can be compiled, else why not: "librill_llvm.so is not installed", "RILL_JIT=off".
std::string no_compiler_reason();
// Says once, on stderr, that traced functions stay on the eager kernels, and why; not if RILL_JIT=off is the reason.
void warn_without_compiler(const std::string& reason);

}  // namespace rill::kernel

#pragma GCC visibility pop
