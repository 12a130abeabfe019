// The processor that kernels are compiled for, and what of it an emitter must know.
#pragma once
#include <llvm-c/TargetMachine.h>

#include <string>

namespace rill::kernel {

struct Machine {
  LLVMTargetMachineRef target = nullptr;
  std::string triple;
  int vector_bytes = 16;         // of its widest registers
  bool masks = false;            // masked loads and stores of every type are instructions (AVX-512)
  bool halves = true;            // f16 <-> f32 are instructions
  bool half_arithmetic = false;  // so are sums, products and quotients of f16
  bool x86 = false;
};

// The machine called `cpu` ("": the one this runs on); made once each, it lives on. Throws std::runtime_error. No
// std::string, which a caller would make for the call: g++ 14 takes the result for a part of that.
const Machine& machine_for(const char* cpu);

// Optimises the module and translates it. Throws std::runtime_error.
std::string object_of(const Machine& machine, LLVMModuleRef module);

}  // namespace rill::kernel
