// The kernel IR's arithmetic in LLVM's: each instruction for one number (lanes == 1: plain scalars) or for a vector.
// A value is held as i1 for boolean, i16 for the halves, else as LLVM's type of the same name. No flag is ever set that
// lets LLVM contract, reassociate or assume anything about NaN, infinity or zero.
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

  // What an instruction other than input, patch and reductions gives; `from` is its first operand's type.
  Value compute(const Inst& i, DType from, const Value* in, int lanes);
  Value convert(DType from, DType to, Value x, int lanes);
  Value splat(Value scalar, int lanes);
  // x where it is greater than y (or, unless `largest`, less), else y: so y where either is NaN, and of zeros.
  Value better(bool largest, DType d, Value x, Value y);
  // The number that all lanes have, where it is known now and no NaN.
  static std::optional<double> constant_number(Value v);
  // f32 to i32, toward zero; of what does not fit the lowest 8 bits are 0.
  Value near_integer(Value x, int lanes);
  // i16s that hold halves: x op y in their own arithmetic (add, sub, mul, div), where the machine has it.
  Value half_arithmetic(Code c, Value x, Value y);
  Value select(Value m, Value a, Value b) { return LLVMBuildSelect(b_(), m, a, b, ""); }
  Value intrinsic(const char* name, std::initializer_list<Type> overloads, std::initializer_list<Value> args);
  // A number of the type that memory holds, from one that a value has, and back: they differ for boolean.
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
  Value two(Code c, DType d, Value x, Value y, int lanes);
  Value quotient(DType d, Value x, Value y, int lanes);
  Value shift(Code c, DType d, Value x, Value y, int lanes);
  Value scale(DType d, Value x, Value n, int lanes, bool small);
  Value lane_numbers(int first, int lanes) const;  // as a shuffle takes them
  Value one(const Inst& i, DType from, Value x, int lanes);
  Value widen(DType from, Value x, int lanes);           // f16, bf16 -> f32
  Value narrow(DType to, Value x, int lanes);            // f32 -> f16, bf16
  Value halfway_float(Value x, int lanes);               // f64 -> f32, as convert.h's
  Value halfway_double(DType from, Value x, int lanes);  // an integer -> f64, as convert.h's
  Value to_integer(DType from, DType to, Value x, int lanes);
};

constexpr bool is_float(DType d) { return d == DType::f32 || d == DType::f64; }
constexpr int bits_of(DType d) { return d == DType::boolean ? 1 : int(8 * size_of(d)); }

}  // namespace rill::kernel
