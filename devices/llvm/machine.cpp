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

// Every rewrite must keep all bits, of NaN and of signed zeros too. InstCombine does not: it turns "|x| > 0, or |x| is
// NaN" into "x > 0, or NaN" (LLVM 19), and simplifies a maximum of a maximum in a way that differs at NaN and at zeros
// (LLVM 16, 19). So no pass runs that makes new arithmetic of old. EarlyCSE only drops repeated and dead instructions,
// and replaces those that always equal an operand or a constant. Code generation, which cannot be left out, then sees
// maxima and minima as the processor's own instructions (Ops::min_max). The useful part of InstCombine is in the
// emitter (Emitter::half_arithmetic). tests/devices/test_elementwise_bits.cpp tests all of it.
//
// Measured on 14 kernels (softmax, layer_norm + gelu, tanh(x*y+z)*0.5+x, ...): without any pass up to 14 % slower, with
// InstCombine no faster. No list of passes compiles faster, as code generation takes nine tenths of the time (a third
// of it instruction selection, an eighth loop strength reduction). The lower optimisation level is neither faster nor
// slower. Without strength reduction it takes 15 % less, but that switch holds for the whole process.
constexpr const char* passes = "function(early-cse)";

// Copies a string of LLVM, and frees it.
std::string take_message(char* text) {
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
  m.triple = take_message(LLVMGetDefaultTargetTriple());
  std::string name = cpu, features;
  if (cpu.empty()) {
    name = take_message(LLVMGetHostCPUName());
    features = take_message(LLVMGetHostCPUFeatures());
  }
#if defined(__x86_64__)
  m.x86 = true;
  const bool v3 = cpu == "x86-64-v3";
  if (v3 || (has(features, "avx2") && has(features, "fma"))) m.vector_bytes = 32;
  m.masked_moves =
      has(features, "avx512f") && has(features, "avx512vl") && has(features, "avx512bw") && has(features, "avx512dq");
  if (m.masked_moves) m.vector_bytes = 64;
  m.f16_conversions = v3 || has(features, "f16c");
  m.half_arithmetic = m.masked_moves && has(features, "avx512fp16");
#endif
  LLVMTargetRef target = nullptr;
  char* error = nullptr;
  if (LLVMGetTargetFromTriple(m.triple.c_str(), &target, &error)) throw std::runtime_error(take_message(error));
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
    throw std::runtime_error(take_message(error));
  std::string object(LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
  LLVMDisposeMemoryBuffer(buffer);
  return object;
}

}  // namespace rill::kernel
