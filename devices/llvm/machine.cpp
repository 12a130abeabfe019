// LLVM's view of the processor, and its code generator; see machine.h.
#include "rill/devices/llvm/machine.h"

#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <map>
#include <stdexcept>

namespace rill::kernel {

namespace {

// Every rewrite must keep bits, NaN and zeros of both signs included. InstCombine's do not: of "|x| > 0, or |x| is NaN"
// it makes "x > 0, or NaN" (LLVM 19), and of a selection among what another one selected, a maximum of a maximum, which
// at NaN and at zeros is another number (LLVM 16, 19). So nothing runs that makes new arithmetic of old: EarlyCSE drops
// repeated and dead instructions, and replaces one by an operand or a constant where it always gives that. Code
// generation, which cannot be left out, then meets maxima and minima as the processor's own instructions (Ops::better).
// What InstCombine was good for, the emitter does itself (Emitter::half_arithmetic).
// tests/devices/test_elementwise_bits.cpp looks at all of it.
//
// What was tried on 14 kernels (softmax, layer_norm + gelu, tanh(x*y+z)*0.5+x, ...): without any pass up to 14 %
// slower, with InstCombine no faster. No list takes less time to compile, as code generation is nine tenths of it (a
// third of that selects instructions, an eighth reduces loops' strength). Its lower optimisation level is neither
// faster nor slower. Without strength reduction it takes 15 % less, but that switch is one for all of the process.
constexpr const char* passes = "function(early-cse)";

// A string of LLVM's, which frees it.
std::string take(char* text) {
  std::string s = text ? text : "";
  LLVMDisposeMessage(text);
  return s;
}

bool has(const std::string& features, const char* name) {
  return ("," + features + ",").find(std::string(",+") + name + ",") != std::string::npos;
}

Machine make(const std::string& cpu) {
#if defined(__x86_64__)
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
#elif defined(__aarch64__)
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
#endif
  Machine m;
  m.triple = take(LLVMGetDefaultTargetTriple());
  std::string name = cpu, features;
  if (cpu.empty()) {
    name = take(LLVMGetHostCPUName());
    features = take(LLVMGetHostCPUFeatures());
  }
#if defined(__x86_64__)
  m.x86 = true;
  const bool v3 = cpu == "x86-64-v3";
  if (v3 || (has(features, "avx2") && has(features, "fma"))) m.vector_bytes = 32;
  m.masks =
      has(features, "avx512f") && has(features, "avx512vl") && has(features, "avx512bw") && has(features, "avx512dq");
  if (m.masks) m.vector_bytes = 64;
  m.halves = v3 || has(features, "f16c");
  m.half_arithmetic = m.masks && has(features, "avx512fp16");
#endif
  LLVMTargetRef target = nullptr;
  char* error = nullptr;
  if (LLVMGetTargetFromTriple(m.triple.c_str(), &target, &error)) throw std::runtime_error(take(error));
  // Position-independent: the loader may place the code anywhere, and constants are addressed relative to it.
  m.target = LLVMCreateTargetMachine(target, m.triple.c_str(), name.c_str(), features.c_str(), LLVMCodeGenLevelDefault,
                                     LLVMRelocPIC, LLVMCodeModelDefault);
  if (!m.target) throw std::runtime_error("LLVM has no code generator for " + m.triple);
  return m;
}

}  // namespace

const Machine& machine_for(const char* cpu) {
  static std::map<std::string, Machine> machines;  // the caller holds the lock of compile.cpp
  auto it = machines.find(cpu);
  if (it == machines.end()) it = machines.emplace(cpu, make(cpu)).first;
  return it->second;
}

std::string object_of(const Machine& machine, LLVMModuleRef module) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef fault = LLVMRunPasses(module, passes, machine.target, options);
  LLVMDisposePassBuilderOptions(options);
  if (fault) {
    char* text = LLVMGetErrorMessage(fault);
    std::string message = text;
    LLVMDisposeErrorMessage(text);
    throw std::runtime_error(message);
  }
  char* error = nullptr;
  LLVMMemoryBufferRef buffer = nullptr;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine.target, module, LLVMObjectFile, &error, &buffer))
    throw std::runtime_error(take(error));
  std::string object(LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
  LLVMDisposeMemoryBuffer(buffer);
  return object;
}

}  // namespace rill::kernel
