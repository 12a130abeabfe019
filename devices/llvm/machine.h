// The processor that kernels are compiled for, and what the emitter needs to know of it.
#pragma once
#include <llvm-c/TargetMachine.h>

#include <string>

namespace rill::kernel {

struct Machine {
  LLVMTargetMachineRef target = nullptr;
  std::string triple;
  int vector_bytes = 16;         // of the widest registers
  bool masked_moves = false;     // it has masked loads and stores of every type (AVX-512)
  bool f16_conversions = true;   // it has instructions for f16 <-> f32
  bool half_arithmetic = false;  // and for sums, products and quotients of f16
  bool x86 = false;
};

// The machine called `cpu` ("": this one); cached for the whole process. Throws std::runtime_error. The argument is no
// std::string, for g++ 14 would take the result to refer to a caller's temporary one.
const Machine& machine_for(const char* cpu);

// Optimises the module and translates it. Throws std::runtime_error.
std::string object_of(const Machine& machine, LLVMModuleRef module);

}  // namespace rill::kernel
