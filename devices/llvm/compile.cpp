// Compiles a kernel to an object file; see compile.h.
#include "rill/devices/llvm/compile.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>

#include <exception>
#include <mutex>
#include <stdexcept>

#include "rill/devices/llvm/emitter.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::kernel {
namespace {

// The LLVM objects of one compilation.
struct ContextAndModule {
  LLVMContextRef context = LLVMContextCreate();
  LLVMModuleRef module = LLVMModuleCreateWithNameInContext("rill", context);
  ~ContextAndModule() {
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
  }
};

std::string text_of(char* text) {
  std::string s = text;
  LLVMDisposeMessage(text);
  return s;
}

void compile_kernel(const Kernel& k, const char* cpu, bool want_ir, std::string& object, std::string& text) {
  // One at a time: machine_for() has a shared map, and compiling has one thread of its own anyway.
  static ForkMutex lock;
  const std::lock_guard hold(lock);
  const Machine& machine = machine_for(cpu);
  ContextAndModule llvm;
  LLVMSetTarget(llvm.module, machine.triple.c_str());
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine.target);
  LLVMSetModuleDataLayout(llvm.module, layout);
  LLVMDisposeTargetData(layout);
  Emitter(k, llvm.module, machine).run();
  if (want_ir) text = text_of(LLVMPrintModuleToString(llvm.module));
  char* fault = nullptr;
  if (LLVMVerifyModule(llvm.module, LLVMReturnStatusAction, &fault)) throw std::runtime_error(text_of(fault));
  LLVMDisposeMessage(fault);
  object = object_of(machine, llvm.module);
}

}  // namespace
}  // namespace rill::kernel

const char rill_llvm_version[] = RILL_VERSION " LLVM " RILL_LLVM_VERSION;

bool rill_llvm_compile(const rill::kernel::Kernel& k, const char* cpu, bool want_ir, std::string& object,
                       std::string& text) {
  try {
    rill::kernel::compile_kernel(k, cpu, want_ir, object, text);
    return true;
  } catch (const std::exception& e) {
    text = e.what();
    return false;
  }
}
