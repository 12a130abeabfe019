// What librill_llvm.so exports to librill, which opens it on first need (devices/kernel/compiler.cpp): one function
// from a kernel to the bytes of an object file. Inside, start at compile.cpp: emitter.h makes LLVM's IR of the kernel
// (loops; ops.h does the arithmetic, fold.h the reductions), machine.h turns that into code for this processor.
#pragma once
#include <string>

#include "rill/devices/kernel/ir.h"

#pragma GCC visibility push(default)

extern "C" {

// Both libraries must come from one build; librill compares this with its own.
extern const char rill_llvm_version[];

// Compiles a verified kernel to a relocatable ELF object, whose function "rill_kernel" is a kernel::RowFunction. `cpu`
// is "" for this processor, or one that tests name: x86-64, x86-64-v3. Returns false if LLVM fails; `text` is then its
// message, and otherwise LLVM's IR if `want_ir`. Any thread may call it.
bool rill_llvm_compile(const rill::kernel::Kernel& k, const char* cpu, bool want_ir, std::string& object,
                       std::string& text);
}

#pragma GCC visibility pop

namespace rill::kernel {
using LlvmCompile = decltype(&rill_llvm_compile);
}
