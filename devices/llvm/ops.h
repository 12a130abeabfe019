// The kernel IR's arithmetic in LLVM IR: each instruction for one number (lanes == 1: plain scalars) or for a vector. A
// value's type is i1 for boolean, i16 for f16 and bf16, else LLVM's type of the same name. No fast-math flag is ever
// set: LLVM may not contract, reassociate or assume anything about NaN, infinity or zero.
#pragma once
#include <llvm-c/Core.h>

#include <initializer_list>
#include <optional>

#include "rill/devices/kernel/ir.h"
#include "rill/devices/llvm/machine.h"

namespace rill::kernel {

using Value = LLVMValueRef;
using Type = LLVMTypeRef;
using Block = LLVMBasicBlockRef;

class Ops {
 public:
  Ops(LLVMModuleRef module, const Machine& machine);
  ~Ops() { LLVMDisposeBuilder(b); }
  Ops(const Ops&) = delete;

  // Types and constants.
  Type integer(int bits) const { return LLVMIntTypeInContext(context, unsigned(bits)); }
  Type wide(Type element, int lanes) const { return lanes == 1 ? element : LLVMVectorType(element, unsigned(lanes)); }
  Type type(DType d, int lanes) const { return wide(element(d), lanes); }
  Type memory_type(DType d, int lanes) const { return d == DType::boolean ? wide(integer(8), lanes) : type(d, lanes); }
  Value constant(DType d, uint64_t bits, int lanes) const;  // `bits` as in the IR's `constant`
  Value number(Type t, double value, int lanes) const;      // of a float type
  Value i64(int64_t v) const { return LLVMConstInt(integer(64), uint64_t(v), true); }

  // The result of an instruction other than input, patch and reductions; `from` is its first operand's type.
  Value compute(const Inst& i, DType from, const Value* in, int lanes);
  Value convert(DType from, DType to, Value x, int lanes);
  Value splat(Value scalar, int lanes);
  // x if it is greater than y (or, unless `largest`, less), else y: so y if either is NaN, or if both are zeros.
  Value min_max(bool largest, DType d, Value x, Value y);
  // The number in all lanes, if it is a known constant and not NaN.
  static std::optional<double> constant_number(Value v);
  // f32 to i32, toward zero; if the number does not fit, the lowest 8 bits are 0.
  Value truncate_to_i32(Value x, int lanes);
  // x op y on f16 held as i16, in f16 arithmetic (add, sub, mul, div), if the machine has it.
  Value half_arithmetic(Code c, Value x, Value y);
  Value select(Value m, Value a, Value b) { return LLVMBuildSelect(b_(), m, a, b, ""); }
  Value intrinsic(const char* name, std::initializer_list<Type> overloads, std::initializer_list<Value> args);
  // From the type of a value to the type in memory, and back; they differ only for boolean.
  Value to_memory(DType d, Value v, int lanes);
  Value from_memory(DType d, Value v, int lanes);

  LLVMModuleRef module;
  LLVMContextRef context;
  LLVMBuilderRef b;
  const Machine& machine;

 private:
  LLVMBuilderRef b_() const { return b; }
  Type element(DType d) const;
  Value compare(Code c, DType d, Value x, Value y);
  Value binary(Code c, DType d, Value x, Value y, int lanes);
  Value quotient(DType d, Value x, Value y, int lanes);
  Value shift(Code c, DType d, Value x, Value y, int lanes);
  Value scale(DType d, Value x, Value n, int lanes, bool small);
  Value lane_indices(int first, int lanes) const;  // the indices of a shuffle
  Value unary(const Inst& i, DType from, Value x, int lanes);
  Value widen(DType from, Value x, int lanes);           // f16, bf16 -> f32
  Value narrow(DType to, Value x, int lanes);            // f32 -> f16, bf16
  Value halfway_float(Value x, int lanes);               // f64 -> f32, as convert.h's
  Value halfway_double(DType from, Value x, int lanes);  // an integer -> f64, as convert.h's
  Value to_integer(DType from, DType to, Value x, int lanes);
};

constexpr bool is_float(DType d) { return d == DType::f32 || d == DType::f64; }
constexpr int bits_of(DType d) { return d == DType::boolean ? 1 : int(8 * size_of(d)); }

}  // namespace rill::kernel
