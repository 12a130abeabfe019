// Op: the record that describes one operation: name, dtypes, shape inference, kernels, gradient, test samples.
// Dispatch, tests, docs/ops.md and the export tables are all derived from the records.
//
// A record is a constant with static storage, made from an OpSpec in the file of its family (ops/elementwise/unary.cpp,
// ...):
//
//   const Op tanh_op({.name = "tanh", .doc = "...", .infer = ..., .vjp = ..., .cpu = ..., .ref = ..., .samples = ...});
//
// An op's identity is the record's address. Start reading at OpSpec; apply.h runs them.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rill/devices/kernel.h"
#include "rill/tensor/callback.h"

#pragma GCC visibility push(default)

namespace rill {

class Op;
namespace kernel {
enum class Code : uint8_t;  // devices/kernel/ir.h
class Recorder;
template <class T>
struct Rec;
}  // namespace kernel
class Graph;      // trace/graph.h
struct TailStep;  // devices/params/contraction_tail.h

// --- Shapes and dtypes of the outputs, and the only place that rejects bad operands ---------------------------------

using OutSpecs = SmallVec<Spec, 2>;

struct InferArgs {
  const Op& op;
  std::span<const Spec* const> in;
  AttrsView attrs;
  Where where;

  const Spec& operator[](int i) const { return *in[i]; }  // the spec of operand i
  int count() const { return int(in.size()); }            // the number of operands
  // Throws rill::Error("file:line: [op] message. operands: f32[2,3], f32[4]").
  [[noreturn]] void reject(std::string message) const;
  // Rejects an axis that is not one of ndim, counted from the first.
  void check_axis(int64_t axis, int64_t ndim) const;
  void check_axis(int64_t axis) const { check_axis(axis, in[0]->shape.ndim()); }  // one of operand 0
};
using Infer = OutSpecs (*)(const InferArgs&);

// --- Gradients -------------------------------------------------------------------------------------------------------

// A backward walk's sums of cotangents, as far as they have come when it reaches a call. A rule that stands for many
// ops adds its terms to them itself, in the order of a walk over those ops, so that it rounds as that would.
struct CotangentSums {
  std::span<Tensor> of;            // by operand; undefined where nothing has arrived
  std::span<const int32_t> first;  // by operand: the first that the tape takes for the same tensor; its sum is for both
};

// What the backward rule of one recorded call gets. Inputs and outputs that the record does not declare in `saves_*`
// are stand-ins: they have a shape and dtype and no elements.
struct VjpArgs {
  const Op& op;
  AttrsView attrs;
  std::span<const Tensor> in;
  std::span<const Tensor> out;
  // One an output, of its shape and dtype. Where none arrived: zeros, or, for an op with `call`, an undefined tensor.
  std::span<const Tensor> cotangent;
  uint64_t needed = ~uint64_t(0);  // bit i: somebody asks for input i's gradient
  CotangentSums sums = {};         // for an op with `call`, which may add to them and give nothing

  bool needs(int i) const { return i >= 64 || (needed >> i & 1); }  // whether input i's gradient is asked for
};
// One cotangent an input, of the input's shape; an undefined tensor where there is none. Written with the public
// functions, so that one rule serves eager, traced and higher-order use.
using Vjp = Tensors (*)(const VjpArgs&);

// What the forward rule of a call gets.
struct JvpArgs {
  const Op& op;
  AttrsView attrs;
  std::span<const Tensor> in;
  std::span<const Tensor> out;
  std::span<const Tensor> tangent;  // one an operand, of its shape and dtype; undefined: zero
};
// One tangent an output, of its shape and dtype; an undefined tensor is zero. Written with the public functions, as a
// Vjp is.
using Jvp = Tensors (*)(const JvpArgs&);

// --- vmap ------------------------------------------------------------------------------------------------------------

// One call for each of a batch of rows, all made at once.
struct BatchArgs {
  const Op& op;
  AttrsView attrs;                // as the call of one row has them
  std::span<const Tensor> in;     // batched ones have the batch as their first axis
  std::span<const char> batched;  // by operand, 1 where it is; at least one is
  Dim size;                       // of the batch
  Where where;                    // the user's
};
// The outputs, each with the batch as its first axis. Written with the public functions, as a Vjp is.
using Batch = Tensors (*)(const BatchArgs&);

// For `saves_in` and `saves_out`: bit i saves operand i.
inline constexpr uint64_t save_none = 0, save_all = ~uint64_t(0);
constexpr uint64_t save(int i) { return uint64_t(1) << i; }  // the set of operand or result i

// --- Tests -----------------------------------------------------------------------------------------------------------

// One call to test an op with. Inputs are f32 (or whatever the op takes); the tests cast them to every dtype of
// `dtypes`, and turn them into views, empty and zero-dimensional tensors themselves.
struct Sample {
  std::vector<Tensor> in;
  Attrs attrs;
};

// --- The record ------------------------------------------------------------------------------------------------------

enum class OpKind : uint8_t {
  elementwise,  // out[i] depends on in[i] alone (after broadcasting); may run in place
  view,         // no kernel where the strides allow it
  reduction,
  library,  // a kernel of its own: contraction, convolution, sort, ...
  creation  // no tensor inputs
};
std::string_view name(OpKind k);  // "elementwise", "view", ...

// The dtypes an op's first input may have, as a set.
using DTypeSet = uint32_t;
constexpr DTypeSet one_of(std::initializer_list<DType> ds) {
  DTypeSet s = 0;
  for (DType d : ds) s |= 1u << int(d);
  return s;
}
constexpr bool contains(DTypeSet s, DType d) { return s >> int(d) & 1; }  // whether d is one of them
inline constexpr DTypeSet bool_set = one_of({DType::boolean});
inline constexpr DTypeSet float_set = one_of({DType::f16, DType::bf16, DType::f32, DType::f64});
inline constexpr DTypeSet complex_set = one_of({DType::c64, DType::c128});
inline constexpr DTypeSet signed_set = one_of({DType::i8, DType::i16, DType::i32, DType::i64});
inline constexpr DTypeSet unsigned_set = one_of({DType::u8, DType::u16, DType::u32, DType::u64});
inline constexpr DTypeSet int_set = signed_set | unsigned_set;
inline constexpr DTypeSet real_set = float_set | int_set;
inline constexpr DTypeSet number_set = real_set | complex_set;
inline constexpr DTypeSet plain_set = number_set | bool_set;
inline constexpr DTypeSet float8_set = one_of({DType::f8_e4m3fn, DType::f8_e5m2});  // for records that compute nothing
inline constexpr DTypeSet every_set = plain_set | float8_set | one_of({DType::string});

// The strided alias of `in` that a view op stands for, of the inferred `out`; an undefined tensor where the strides do
// not allow one (the input is then made dense first).
using View = Tensor (*)(const Tensor& in, AttrsView attrs, const Spec& out);

// --- Fusion ----------------------------------------------------------------------------------------------------------

// For views whose elements are the operand's in their order, perhaps repeated: how their axes pair up with the
// operand's. Fusion reads through such a view as if it were not there.
enum class ViewAxes : uint8_t {
  other,     // it is no such view
  trailing,  // from the back, as in broadcasting
  in_order   // the axes longer than 1 one by one, where these have the same sizes; else it is no such view
};

// What a fused kernel makes itself where it is used, rather than read it from memory.
enum class Generated : uint8_t { no, counts, random_words };

// The step that an op of two operands is in the tail of a product: see contraction_tail.h.
enum class TailOp : uint8_t { none, add, subtract, multiply };

// What a record's `record_row` gets: the operands as values of the kernel that is being recorded
// (devices/kernel/record.h has the lanes), floats as f32 or f64, each one of the row's `n` points or one for the row.
struct RowArgs {
  kernel::Recorder& recorder;
  std::span<const int32_t> in;
  AttrsView attrs;
  int64_t n;
  // Which point of its row it is: `counter`, an i64, is `first` at the row's first one.
  struct Point {
    int32_t counter;
    int64_t first;
  };
  const Callback<Point()>& point;

  template <class T>
  kernel::Rec<T> lane(int i) const;  // in record.h's terms; include it
};

struct ExportNames {
  std::string_view onnx = "", tensorflow = "";  // empty: written as a composite, or under rill's own name
};

struct OpSpec {
  std::string_view name;
  std::string_view doc;  // one line, with the formula
  OpKind kind = OpKind::library;
  DTypeSet dtypes = float_set;
  int inputs = 1;  // -1: any number
  int outputs = 1;

  Infer infer = nullptr;

  Vjp vjp = nullptr;
  uint64_t saves_in = save_none, saves_out = save_none;
  // Of `saves_in`, what the gradients by operand 0 and by operand 1 need, for an op of two: with a constant, a product
  // keeps the constant alone.
  std::array<uint64_t, 2> saves_for = {save_all, save_all};
  std::string_view no_gradient = "";  // why there is no vjp; a record has one or the other

  // Forward mode. Without `jvp`, autodiff/forward.h says how the tangent follows from the other fields.
  Jvp jvp = nullptr;
  uint64_t linear_in = save_none;  // bit i: the outputs are linear in operand i while the others stay as they are

  // For an op that reads a part of its operand: the record that writes such a part, with the same attributes.
  const Op* put_back = nullptr;

  // vmap. Without a rule, autodiff/batching.h says how the batched call follows from the other fields.
  Batch batch = nullptr;

  Kernel cpu = nullptr;             // null: the ref kernel, whose memory is the host's too
  DTypeSet cpu_dtypes = every_set;  // of the first input (an output's, without one); others take the ref kernel
  Kernel ref = nullptr;             // plain, slow, obviously right; the oracle. Null only where `view` is set.
  View view = nullptr;
  bool wants_contiguous = false;  // inputs are made dense before the kernel runs
  bool packs = false;             // the kernel makes use of KernelArgs::packed

  // What lets a fused kernel hold the op. For elementwise ops: how to record the arithmetic on values of a dtype, the
  // last operand's (f32 for f16 and bf16); null where there is no such arithmetic.
  RecordPoint (*record_point)(DType dtype) = nullptr;
  std::optional<kernel::Code> fold = {};  // for reductions, whose attributes are ReduceParams: it folds numbers so
  Generated generated = Generated::no;
  ViewAxes view_axes = ViewAxes::other;
  // For ops that compute whole rows, the same arithmetic as the kernels' on recording lanes: how many of the first
  // operand's last axes make a row (0: not these operands), and the outputs' values.
  int (*row_rank)(const Spec& in, AttrsView attrs) = nullptr;
  std::vector<int32_t> (*record_row)(const RowArgs& args) = nullptr;
  uint64_t row_numbers = save_none;  // bit i: operand i has one number a row, and its shape lacks the row's axes
  uint64_t row_sums = save_none;     // bit k: output k is the sum of its values over all rows
  int row_label = -1;                // this operand names a point of each row: it is checked ahead of the kernel

  // For products, the cpu kernel with elementwise steps on its result before it is stored (contraction_tail.h), and for
  // which calls there is one: how many of the result's last axes a bias has; -1: none.
  bool (*cpu_with_tail)(const KernelArgs& args, std::span<const TailStep> steps) = nullptr;
  int (*tail_axes)(std::span<const Spec* const> in, const Spec& out, AttrsView attrs) = nullptr;
  TailOp tail_op = TailOp::none;

  // Multiplications and additions of a call, for profiles.
  double (*flops)(std::span<const Spec* const> in, const Spec& out, AttrsView attrs) = nullptr;
  // For ops that stand for others: theirs, as profiles name the kernel ("matmul, add, relu").
  std::string (*title)(AttrsView attrs) = nullptr;
  // Whether the elements of operands may make a call throw; null: they may where `kind` is library.
  bool (*may_throw)(AttrsView attrs) = nullptr;
  // Whether an output of the same shape may be written over operand `i`, of spec `s`, which is no other operand too:
  // each of its elements is read just before the output's is written. Null: it may where `kind` is elementwise.
  bool (*may_overwrite)(AttrsView attrs, size_t i, const Spec& s) = nullptr;
  bool stops_gradient = false;  // by definition, so that a gradient of 0 behind it is no mistake

  // Instead of kernels, for control flow and effects: gives the outputs itself, with any strides and perhaps aliases of
  // operands. Operands may lie on different devices.
  Tensors (*call)(Operands in, AttrsView attrs) = nullptr;
  // Does something besides giving outputs: runs at every call, in program order, and is never dropped, merged, folded.
  bool effect = false;
  // Only says something to tapes: what it computes is its first operand.
  bool marker = false;
  // The graphs that `call` runs, each with its role ("then", "body").
  std::vector<std::pair<std::string, const Graph*>> (*graphs)(AttrsView attrs) = nullptr;

  std::vector<Sample> (*samples)() = nullptr;
  // What the tests allow between cpu and ref, in units in the last place of the output's dtype; for ops that add many
  // terms, in epsilons of that dtype times the sum of the terms' magnitudes; for ops that add and subtract (x -
  // mean(x)), in epsilons times the largest magnitude in the output.
  double max_ulp = 0;
  double sum_tolerance = 0;
  double norm_tolerance = 0;
  std::string_view no_finite_difference = "";  // why the gradient test cannot use them (kinks, random, integers)

  std::string_view no_special_values = "";  // why the tests keep infinities and huge numbers from it
  ExportNames exported = {};
  bool listed = true;  // false for what only passes make: no part of all_ops()
};

class Op : public OpSpec {
 public:
  explicit Op(const OpSpec& spec);
  Op(const Op&) = delete;
  const Op* next = nullptr;  // the registry is a linked list through the records
};

// Every record of the library, by name: those that are registered at the first call, which opens librill_ops. Not for static
// initialisers.
const std::vector<const Op*>& all_ops();
// The record called `name`, or null. A name that is not registered makes it open librill_ops. Not for static initialisers.
const Op* find_op(std::string_view name);

}  // namespace rill

#pragma GCC visibility pop
