// The kernel IR: what one fused kernel computes. It is made by fusion (trace/fusion/fusion.h), from the same scalar
// definitions as the eager kernels (record.h), run by an interpreter that defines its meaning (interpret.h) and
// compiled by LLVM (devices/llvm). Start at Kernel.
//
// Semantics
// * A kernel computes rows. A row has n points; every instruction has one value for each point (element level), or one
// for
//   each row: then it depends only on constants, uniform inputs and reductions. Both levels look the same; row_level()
//   distinguishes them.
// * Instructions are in order: an operand is an earlier instruction. Arithmetic is that of the lanes contract in
//   lanes.h, operation by operation: floats round to nearest even, each operation by itself, nothing contracted or
//   reassociated; NaN propagates, its payload and sign are not defined; denormals are kept; integers wrap.
// * Types are dtypes. `boolean` is a mask: true or false, stored as a byte 1 or 0 and read as byte != 0. f16 and bf16
//   occur only in inputs, outputs and convert: lowering (trace/fusion/lower.cpp) widens everything else to f32.
// * A reduction over the row follows the tree of the eager reductions (devices/cpu/reduce/reduce_tree.h, with k = 1):
//   32 lanes, point i in lane i % 32, missing points of the last 32 are the identity; blocks of 1024 points fold from
//   the first to the last; blocks fold in pairs, pairs of pairs, from the left, and what remains from the right;
//   then lane i adds lane i + 16, i + 8, ..., i + 1. A sum adds +0 at the end. Sum and product round at each step;
//   max and min give NaN if any is NaN, and order -0 below +0. An empty row gives the identity (0, 1, lowest,
//   highest; for floats minus and plus infinity). Masked rows of reduce_sum_where need not be computed.
// * Inputs and outputs may be the same memory if both are dense and have one element size.
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
  scale,        // a 2^b, rounded once, for a in [1/2, 2] or NaN and an integer b of at most 190 (f64: 1534); else any
                // value. `imm` 1: b is less than 63 (511), for which AVX2 needs half the steps
  mul_high,     // u32: the upper half of the 64-bit product
  quotient,     // integers: toward zero; 0 if b is 0
  shift_left,   // integers; 0 if b is not in [0, bits)
  shift_right,  // integers, arithmetic if signed; if b is not in [0, bits) all bits are the sign's, or 0
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
  to_int,    // f32 to i32, f64 to i64, toward zero; any value if it does not fit
  to_float,  // i32 to f32, i64 to f64
  shl,       // by `imm` bits
  shr,       // by `imm` bits; arithmetic if signed
  // op a, b, c
  select,  // a ? b : c
  fma,     // a * b + c, rounded once
  clamp,   // y = c < a ? c : a; b > y ? b : y   (a if NaN)
  // If a, the value of scalar function `imm` (Patch) at c; else b.
  patch,
  // reductions of a over the row's points
  reduce_sum,
  reduce_prod,
  reduce_max,
  reduce_min,
  reduce_top,        // floats: as reduce_max; any value if one is NaN, and of zeros of either sign either
  reduce_sum_where,  // a, b: as reduce_sum of a if b, a mask of the row level, is true, else 0
};
inline constexpr int code_count = int(Code::reduce_sum_where) + 1;
std::string_view name(Code c);
// 0 for input and constant, else 1, 2 or 3.
int operand_count(Code c);
inline bool is_reduction(Code c) { return c >= Code::reduce_sum; }

// The scalar functions that `patch` calls, for f32 and f64: long code for rare arguments (math_scalar.h).
enum class Patch : uint8_t { sin, cos, tan, lgamma, digamma };
inline constexpr int patch_count = 5;
std::string_view name(Patch p);
// y[i] = f(x[i]) where flag[i] is not 0, for i < n; for f32 and f64.
using PatchF32 = void (*)(size_t n, const uint8_t* flag, float* y, const float* x);
using PatchF64 = void (*)(size_t n, const uint8_t* flag, double* y, const double* x);
// Index 2 * Patch + (1 for f64) is the function: passed to compiled kernels as their last argument.
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
    uniform,    // one element for each row
    counter,    // no memory: the operand's pointer, as a number (i64), plus i
    coordinate  // the same without i: one number for each row
  };
  DType dtype;
  Kind kind = Kind::dense;
  friend bool operator==(const Input&, const Input&) = default;
};

constexpr bool is_row_level(Input::Kind k) { return k == Input::Kind::uniform || k == Input::Kind::coordinate; }
// Whether the operand is its pointer's own value.
constexpr bool is_number(Input::Kind k) { return k == Input::Kind::counter || k == Input::Kind::coordinate; }

struct Output {
  int32_t value;
  DType dtype;           // as `value`'s, or f16 or bf16
  bool per_row = false;  // one element for each row: `value` is of the row level
  // Of f32 or f64, one element for each point, which is added to memory. With a row stride of 0 these are sums over
  // rows, row after row.
  bool added = false;
  friend bool operator==(const Output&, const Output&) = default;
};

struct Kernel {
  std::vector<Input> inputs;
  std::vector<Inst> body;
  std::vector<Output> outputs;
  // Full vectors of dense outputs use non-temporal stores, since nobody will read them soon, except those that are
  // added. Rows then start at multiples of 64 bytes.
  bool streaming = false;
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

// For each instruction, whether it has one value for the row.
std::vector<bool> row_level(const Kernel& k);
// One line for each instruction, the same text for equal kernels: "%3 = mul f32 %0, %2". It is the key of the kernel
// caches.
std::string to_string(const Kernel& k);
// Throws rill::Error if an operand is not an earlier instruction, types do not fit the code, an input or output does
// not exist, an output marked per_row is not of the row level, or one marked added is, or is no f32 or f64.
void verify(const Kernel& k);

// A compiled kernel. `operands`: the inputs' then the outputs' addresses for the first row; `row_strides`: bytes (of a
// counter: numbers) from one row to the next; `scratch`: schedule().scratch_bytes(n) bytes, 64-byte aligned; `patches`:
// patch_table().
using RowFunction = void (*)(char* const* operands, const int64_t* row_strides, int64_t rows, int64_t n, char* scratch,
                             const void* const* patches);

}  // namespace rill::kernel

#pragma GCC visibility pop
