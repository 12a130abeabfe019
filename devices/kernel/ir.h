// The kernel IR: what one fused kernel computes. It is made by fusion (trace/fusion/fusion.h), from the same scalar
// definitions as the eager kernels (record.h), run by an interpreter that defines its meaning (interpret.h) and
// compiled by LLVM (devices/llvm). Start at Kernel.
//
// Semantics
// * A kernel computes rows. A row has n points; every instruction has one value a point (element level), or one value a
//   row: then it depends on constants, uniform inputs and reductions alone. Both levels are written alike; level()
//   tells.
// * Instructions are in order: an operand is an earlier instruction. Arithmetic is that of the lanes contract in
//   lanes.h, operation by operation: floats round to nearest even, each operation by itself, nothing contracted or
//   reassociated; NaN propagates, its payload and sign are not defined; denormals are kept; integers wrap.
// * Types are dtypes. `boolean` is a mask: true or false, stored as a byte 1 or 0 and read as byte != 0. f16 and bf16
//   occur in inputs, outputs and convert alone: lowering (trace/fusion/lower.cpp) widens everything else to f32.
// * A reduction over the row follows the tree of the eager reductions (devices/cpu/reduce/reduce_tree.h, with k = 1):
//   32 lanes, point i in lane i % 32, missing points of the last 32 are the identity; blocks of 1024 points fold from
//   the first to the last; blocks fold in pairs, pairs of pairs, from the left, and what is left over from the right;
//   then lane i takes in lane i + 16, i + 8, ..., i + 1. A sum adds +0 at the end. Sum and product round at each step;
//   max and min give NaN where there is one, and order -0 below +0. Of an empty row: the identity (0, 1, lowest,
//   highest; for floats minus and plus infinity). What a sum does not want (reduce_sum_where) need not be computed.
// * Inputs and outputs may be the same memory where both are dense and of one element size.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rill/tensor/dtype.h"

#pragma GCC visibility push(default)

namespace rill::kernel {

enum class Code : uint8_t {
  input,     // input number `imm`, at this point
  constant,  // the bits `imm`, in the low bytes
  // a op b
  add,
  sub,
  mul,
  div,  // floats only
  bit_and,
  bit_or,
  bit_xor,
  eq,  // comparisons give boolean; false with NaN, but ne true
  ne,
  lt,
  le,
  gt,
  ge,
  min,  // NaN if either is NaN, of zeros of either sign b: (a != a) | (a < b) ? a : b
  max,  // (a != a) | (a > b) ? a : b
  copysign,
  scale,     // a 2^b, rounded once, for a in [1/2, 2] or NaN and a whole number b of at most 190 (f64: 1534); else any
             // value. `imm` 1: b is less than 63 (511), which is all that AVX2 needs to know to take half the steps
  mul_high,  // u32: the upper half of the 64-bit product
  quotient,  // integers: toward zero; 0 where b is 0
  shift_left,   // integers; 0 where b is not in [0, bits)
  shift_right,  // integers, arithmetic where signed; where b is not in [0, bits) all bits are the sign's, or 0
  // op a
  neg,
  bit_not,
  abs,
  sqrt,
  floor,
  ceil,
  trunc,
  round_even,
  bitcast,   // the same bits as another type of this size
  convert,   // as a cast of tensors: see convert_number in interpret.cpp
  to_int,    // f32 to i32, f64 to i64, toward zero; any value where it does not fit
  to_float,  // i32 to f32, i64 to f64
  shl,       // by `imm` bits
  shr,       // by `imm` bits; arithmetic where signed
  // op a, b, c
  select,  // a ? b : c
  fma,     // a * b + c, rounded once
  clamp,   // y = c < a ? c : a; b > y ? b : y   (a where NaN)
  // Where a, the number that scalar function `imm` (Patch) gives of c; elsewhere b.
  patch,
  // the row's points of a, folded
  reduce_sum,
  reduce_prod,
  reduce_max,
  reduce_min,
  reduce_top,        // floats: as reduce_max; any value where there is a NaN, and of zeros of either sign either
  reduce_sum_where,  // a, b: as reduce_sum of a where b, a mask of the row level, holds, else 0
};
inline constexpr int code_count = int(Code::reduce_sum_where) + 1;
std::string_view name(Code c);
// 0 for input and constant, else 1, 2 or 3.
int operand_count(Code c);
inline bool is_reduction(Code c) { return c >= Code::reduce_sum; }

// The scalar functions that `patch` calls, f32 and f64 of each: long code for rare arguments (math_scalar.h).
enum class Patch : uint8_t { sin, cos, tan, lgamma, digamma };
inline constexpr int patch_count = 5;
std::string_view name(Patch p);
// y[i] = f(x[i]) where flag[i] is not 0, for i < n; for f32 and f64.
using PatchF32 = void (*)(size_t n, const uint8_t* flag, float* y, const float* x);
using PatchF64 = void (*)(size_t n, const uint8_t* flag, double* y, const double* x);
// 2 * Patch + (1 for f64) gives the function: what compiled kernels get as their last argument.
std::span<const void* const> patch_table();

struct Inst {
  Code code;
  DType type;  // of the result
  int32_t in[3] = {-1, -1, -1};
  uint64_t imm = 0;
  friend bool operator==(const Inst&, const Inst&) = default;
};

struct Input {
  enum class Kind : uint8_t {
    dense,      // point i is the i-th element
    uniform,    // one element for the whole row
    counter,    // no memory: the operand's pointer, as a number (i64), plus i
    coordinate  // the same without i: one number for the whole row
  };
  DType dtype;
  Kind kind = Kind::dense;
  friend bool operator==(const Input&, const Input&) = default;
};

constexpr bool is_row_level(Input::Kind k) { return k == Input::Kind::uniform || k == Input::Kind::coordinate; }
// Whether it is the operand's pointer itself that counts.
constexpr bool is_number(Input::Kind k) { return k == Input::Kind::counter || k == Input::Kind::coordinate; }

struct Output {
  int32_t value;
  DType dtype;           // as `value`'s, f16 and bf16 included
  bool per_row = false;  // one element a row: `value` is of the row level
  // Of f32 or f64, one element for each point: it is added to memory. Without a stride between rows these are sums
  // over rows, row after row.
  bool added = false;
  friend bool operator==(const Output&, const Output&) = default;
};

struct Kernel {
  std::vector<Input> inputs;
  std::vector<Inst> body;
  std::vector<Output> outputs;
  // Whole vectors of dense outputs go past the caches, since nobody will read them soon, but for those that are added.
  // Their rows then begin at multiples of 64 bytes.
  bool streaming = false;
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

// Whether each instruction has one value a row.
std::vector<bool> row_level(const Kernel& k);
// One line an instruction, in one spelling for equal kernels: "%3 = mul f32 %0, %2". It is the key of the kernel
// caches.
std::string to_string(const Kernel& k);
// Throws rill::Error where an operand is not an earlier instruction, types do not fit the code, an input or output does
// not exist, an output marked per_row is not of the row level, or one marked added is, or is no f32 or f64.
void verify(const Kernel& k);

// A compiled kernel. `operands`: the inputs' then the outputs' addresses for the first row; `row_strides`: bytes (of a
// counter: numbers) from one row to the next; `scratch`: schedule().scratch_bytes(n) bytes, 64-byte aligned; `patches`:
// patch_table().
using RowFunction = void (*)(char* const* operands, const int64_t* row_strides, int64_t rows, int64_t n, char* scratch,
                             const void* const* patches);

}  // namespace rill::kernel

#pragma GCC visibility pop
