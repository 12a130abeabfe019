// Conversions: cast, bitcast, and complex numbers from their parts.
#include <fmt/format.h>

#include "rill/devices/cpu/elementwise/elementwise.h"
#include "rill/devices/params/elementwise_params.h"
#include "rill/devices/ref/elementwise.h"
#include "rill/devices/registry.h"
#include "rill/ops/apply.h"
#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/jvp_rules.h"
#include "rill/ops/ops.h"
#include "rill/ops/samples.h"

namespace rill {

using namespace elementwise;

// --- cast and bitcast ------------------------------------------------------------------------------------------------

namespace {

OutSpecs infer_cast(const InferArgs& args) {
  const auto& [to, weak] = args.attrs.as<CastAttrs>();
  if ((args[0].dtype == DType::string) != (to == DType::string))
    args.reject(fmt::format("{} cannot become {}. {}", name(args[0].dtype), name(to),
                            to == DType::string ? "strings::as_string() writes numbers as text"
                                                : "strings::to_number() reads numbers from text"));
  OutSpecs out{args[0]};
  out[0].dtype = to;
  out[0].weak = weak && args[0].weak;
  return out;
}

OutSpecs infer_bitcast(const InferArgs& args) {
  DType to = args.attrs.as<CastAttrs>().dtype;
  if (is_bool(to)) args.reject("bits are not seen as bools. ask for u8, or compare with 0");
  if (size_of(to) != size_of(args[0].dtype) || to == DType::string)
    args.reject(fmt::format("{} has {} bytes an element and {} has {}: the sizes must be equal", name(args[0].dtype),
                            size_of(args[0].dtype), name(to), size_of(to)));
  return infer_cast(args);
}

std::vector<Sample> cast_samples() {
  std::vector<Sample> s;
  for (DType to : {DType::boolean, DType::i8, DType::i32, DType::i64, DType::u8, DType::f16, DType::bf16, DType::f32,
                   DType::f64, DType::c64})
    s.push_back({{samples::uniform({3, 5}, -100, 100)}, CastAttrs{to}});
  return s;
}
std::vector<Sample> bitcast_samples() { return {{{samples::uniform({3, 5})}, CastAttrs{DType::i32}}}; }

void copy_bits(const KernelArgs& args) {
  // The same bytes: copied as the input's dtype.
  Tensor out = make_tensor(Spec{args.output().shape(), args.input(0).dtype(), false, args.output().device()},
                           args.output().rep()->buffer);
  out.mutable_rep()->data = args.output().mutable_rep()->data;
  copy_elements(args.input(0), out);
}

}  // namespace

extern const Op cast_op, bitcast_op;
const Op cast_op({.name = "cast",
                  .doc = "x as another dtype, as C++ converts; to bool, x != 0",
                  .kind = OpKind::elementwise,
                  .dtypes = every_set,
                  .infer = infer_cast,
                  .vjp =
                      [](const VjpArgs& a) {
                        return Tensors{is_differentiable(a.in[0].dtype()) ? astype(a.cotangent[0], a.in[0].dtype())
                                                                          : Tensor()};
                      },
                  .linear_in = save(0),
                  .cpu = cpu::cast,
                  .ref = ref::cast,
                  .record_point = cpu::record_operand,
                  .samples = cast_samples,
                  .no_finite_difference = "narrower dtypes round the steps away",
                  .exported = {"Cast", "Cast"}});
const Op bitcast_op({.name = "bitcast",
                     .doc = "the same bits as another dtype of the same size",
                     .kind = OpKind::elementwise,
                     .dtypes = number_set | float8_set,
                     .infer = infer_bitcast,
                     .no_gradient = "bits",
                     .ref = copy_bits,
                     .samples = bitcast_samples,
                     .exported = {"", "Bitcast"}});

Tensor Tensor::astype(DType dtype, Where where) const {
  if (defined() && this->dtype() == dtype && !spec().weak) return *this;
  const CallerScope caller(where, "astype");
  require_dtype("astype", dtype, where);
  return apply1(cast_op, {this}, CastAttrs{dtype}, where);
}
Tensor astype(const Tensor& x, DType dtype, Where where) { return x.astype(dtype, where); }
Tensor bitcast(const Tensor& x, DType dtype, Where where) {
  require_dtype("bitcast", dtype, where);
  return apply1(bitcast_op, {&x}, CastAttrs{dtype}, where);
}

// --- complex ---------------------------------------------------------------------------------------------------------

namespace {
OutSpecs infer_complex(const InferArgs& args) {
  OutSpecs out = infer_same(args);
  out[0].dtype = out[0].dtype == DType::f64 ? DType::c128 : DType::c64;
  return out;
}
std::vector<Sample> pair_samples() { return make_binary_samples(-3, 3, -3, 3); }
}  // namespace

extern const Op complex_op;
const Op complex_op({.name = "complex",
                     .doc = "x + i y",
                     .kind = OpKind::elementwise,
                     .dtypes = one_of({f32, f64}),
                     .inputs = 2,
                     .infer = infer_complex,
                     .vjp =
                         [](const VjpArgs& a) {
                           return Tensors{a.needs(0) ? unbroadcast(real(a.cotangent[0]), a.in[0]) : Tensor(),
                                          a.needs(1) ? unbroadcast(imag(a.cotangent[0]), a.in[1]) : Tensor()};
                         },
                     .jvp = linear_together,
                     .cpu = cpu::scalar_kernel<"complex">.run,
                     .ref = ref::scalar_kernel<[](auto x, auto y) { return ref::Complex(x, y); }, ref::floats, 2>,
                     .samples = pair_samples,
                     .no_finite_difference = "complex results are tested against known results",
                     .exported = {"", "Complex"}});
Tensor complex(const Tensor& x, const Tensor& y, Where where) { return binary(complex_op, x, y, true, where); }

}  // namespace rill
