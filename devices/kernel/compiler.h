// From a kernel to machine code. Compiled kernels are kept in memory and on disk ($XDG_CACHE_HOME/rill), by the hash of
// their text, the processor and the compiler's version; one that is found there never loads LLVM. What compiles is
// librill_llvm.so (devices/llvm), opened on first need: a program that never traces never pays for it.
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
  double milliseconds = 0;  // that this call took
};

// The machine code of `k`. Any thread may call; equal kernels compile once. The kernels asked for last stay in memory
// (most_kernels of them), others as long as somebody has their `code`.
// Throws rill::Error where there is no compiler (no_compiler_reason() says why) or LLVM fails.
constexpr size_t most_kernels = 512;
Compiled compile(const Kernel& k);
// For the end of the program: from now on compile() throws, so that a graph with many kernels stops after the one that
// is being compiled.
void stop_compiling();
void throw_if_stopped();
// "" where kernels can be compiled, else why not: "librill_llvm.so is not installed", "RILL_JIT=off".
std::string no_compiler_reason();
// Says once, on stderr, that traced functions stay on the eager kernels, and why; not where RILL_JIT=off is the reason.
void warn_without_compiler(const std::string& reason);

}  // namespace rill::kernel

#pragma GCC visibility pop
