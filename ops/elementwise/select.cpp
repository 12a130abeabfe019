// The records that select, convert or copy elements: where, cast, bitcast, stop_gradient, copy, complex; and
// comparisons of whole tensors.
#include <fmt/format.h>

#include "rill/devices/cpu/elementwise/elementwise.h"
#include "rill/devices/params/elementwise_params.h"
#include "rill/devices/ref/elementwise.h"
#include "rill/devices/registry.h"
#include "rill/ops/apply.h"
#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/samples.h"
#include "rill/ops/values/fill.h"

namespace rill {

using namespace elementwise;

// --- where -----------------------------------------------------------------------------------------------------------

namespace {

OutSpecs infer_where(const InferArgs& args) {
  if (args[1].dtype != args[2].dtype)
    args.reject(fmt::format("the two values have different dtypes, {} and {}. convert one with astype()",
                            name(args[1].dtype), name(args[2].dtype)));
  OutSpecs out{args[1]};
  for (int i : {2, 0})
    if (!broadcast_into(out[0].shape, args[i].shape))
      args.reject(fmt::format("shapes {}, {} and {} do not broadcast: axes must be equal or 1, counted from the back",
                              to_string(args[0].shape), to_string(args[1].shape), to_string(args[2].shape)));
  out[0].weak = args[1].weak && args[2].weak;
  return out;
}

std::vector<Sample> where_samples() {
  auto triple = [](Shape c, Shape a, Shape b) {
    return Sample{
        {samples::integers(c, 0, 2, DType::boolean), samples::uniform(a, -2, 2, 1), samples::uniform(b, -2, 2, 2)}, {}};
  };
  return {triple({37}, {37}, {37}), triple({3, 1}, {3, 5}, {}), triple({}, {4}, {4}), triple({2, 3}, {3}, {2, 1}),
          triple({0, 3}, {3}, {})};
}

}  // namespace

extern const Op where_op;
const Op where_op({.name = "where",
                   .doc = "condition ? x : y, element by element",
                   .kind = OpKind::elementwise,
                   .dtypes = bool_set,
                   .inputs = 3,
                   .infer = infer_where,
                   .vjp =
                       [](const VjpArgs& a) {
                         const Tensor &c = a.in[0], &g = a.cotangent[0];
                         return Tensors{Tensor(), a.needs(1) ? unbroadcast(where(c, g, 0), a.in[1]) : Tensor(),
                                        a.needs(2) ? unbroadcast(where(c, 0, g), a.in[2]) : Tensor()};
                       },
                   .saves_in = save(0),
                   .cpu = cpu::select,
                   .ref = ref::select,
                   .samples = where_samples,
                   .exported = {"Where", "SelectV2"}});

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  if (!condition.defined() || !a.defined() || !b.defined()) return apply1(where_op, {&condition, &a, &b}, {}, where);
  if (a.dtype() == DType::string || b.dtype() == DType::string)
    fail("where",
         fmt::format("string tensors are not taken. operands: {}, {}", to_string(a.spec()), to_string(b.spec())),
         where);
  DType d = promote(a.dtype(), a.spec().weak, b.dtype(), b.spec().weak);
  Device device = condition.spec().weak ? (a.spec().weak ? b.device() : a.device()) : condition.device();
  Tensor c =
      is_bool(condition.dtype()) ? as_operand("where", condition, DType::boolean, device, where) : condition != 0;
  Tensor x = as_operand("where", a, d, device, where), y = as_operand("where", b, d, device, where);
  return apply1(where_op, {&c, &x, &y}, {}, where);
}

namespace {
// Whether the C++ integer `bound` is below (or above) the range of x's dtype, so that it has no effect.
bool bounds_nothing(const Tensor& x, const Tensor& bound, bool below) {
  if (!x.defined() || !bound.defined() || x.spec().weak || !overflows(bound, x.dtype())) return false;
  if (Dim size; is_open_size(bound, size)) return below == (size < 0);
  return below == (is_signed_int(bound.dtype()) && bound.item<int64_t>() < 0);
}
}  // namespace

Tensor clip(const Tensor& x, const Tensor& low, const Tensor& high, Where where) {
  CallerScope caller(where);
  const Tensor raised = bounds_nothing(x, low, true) ? x : maximum(x, low);
  return bounds_nothing(x, high, false) ? raised : minimum(raised, high);
}

// --- cast and bitcast ------------------------------------------------------------------------------------------------

namespace {

OutSpecs infer_cast(const InferArgs& args) {
  DType to = args.attrs.as<CastAttrs>().dtype;
  if ((args[0].dtype == DType::string) != (to == DType::string))
    args.reject(fmt::format("{} cannot become {}", name(args[0].dtype), name(to)));
  OutSpecs out{args[0]};
  out[0].dtype = to;
  out[0].weak = false;
  return out;
}

OutSpecs infer_bitcast(const InferArgs& args) {
  DType to = args.attrs.as<CastAttrs>().dtype;
  if (size_of(to) != size_of(args[0].dtype) || to == DType::string || is_bool(to))
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
  // The same bytes: copy as the input's dtype.
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
                  .cpu = cpu::cast,
                  .ref = ref::cast,
                  .samples = cast_samples,
                  .no_finite_difference = "narrower dtypes round the steps away",
                  .exported = {"Cast", "Cast"}});
const Op bitcast_op({.name = "bitcast",
                     .doc = "the same bits as another dtype of the same size",
                     .kind = OpKind::elementwise,
                     .dtypes = number_set,
                     .infer = infer_bitcast,
                     .no_gradient = "bits",
                     .ref = copy_bits,
                     .samples = bitcast_samples,
                     .exported = {"", "Bitcast"}});

Tensor Tensor::astype(DType dtype, Where where) const {
  if (defined() && this->dtype() == dtype && !spec().weak) return *this;
  require_dtype("cast", dtype, where);
  return apply1(cast_op, {this}, CastAttrs{dtype}, where);
}
Tensor astype(const Tensor& x, DType dtype, Where where) { return x.astype(dtype, where); }
Tensor bitcast(const Tensor& x, DType dtype, Where where) {
  require_dtype("bitcast", dtype, where);
  return apply1(bitcast_op, {&x}, CastAttrs{dtype}, where);
}

// --- copy, stop_gradient, transfers ----------------------------------------------------------------------------------

namespace {
OutSpecs infer_copy(const InferArgs& args) { return OutSpecs{args[0]}; }
std::vector<Sample> copy_samples() { return make_unary_samples(-2, 2); }
std::vector<Sample> transfer_samples() { return {{{samples::uniform({3, 5})}, TransferAttrs{"cpu:0"}}}; }
Tensor same_view(const Tensor& in, AttrsView, const Spec&) { return make_alias(in); }
OutSpecs infer_transfer(const InferArgs& args) {
  OutSpecs out{args[0]};
  out[0].device = Device(args.attrs.as<TransferAttrs>().device);
  return out;
}
void transfer(const KernelArgs& args) { copy_elements(args.input(0), args.output()); }
}  // namespace

extern const Op copy_op, identity_op, stop_gradient_op, transfer_op;
const Op copy_op({.name = "copy",
                  .doc = "x, dense and in memory of its own",
                  .kind = OpKind::elementwise,
                  .dtypes = every_set,
                  .infer = infer_copy,
                  .vjp = [](const VjpArgs& a) { return Tensors{a.cotangent[0]}; },
                  .cpu = cpu::copy,
                  .cpu_dtypes = plain_set,
                  .ref = ref::copy,
                  .samples = copy_samples,
                  .exported = {"Identity", "Identity"}});
const Op identity_op({.name = "identity",
                      .doc = "x, as a new tensor",
                      .kind = OpKind::view,
                      .dtypes = every_set,
                      .infer = infer_copy,
                      .vjp = [](const VjpArgs& a) { return Tensors{a.cotangent[0]}; },
                      .view = same_view,
                      .samples = copy_samples,
                      .exported = {"Identity", "Identity"}});
const Op stop_gradient_op({.name = "stop_gradient",
                           .doc = "x; no gradient flows back",
                           .kind = OpKind::view,
                           .dtypes = every_set,
                           .infer = infer_copy,
                           .vjp = [](const VjpArgs&) { return Tensors{Tensor()}; },
                           .view = same_view,
                           .samples = copy_samples,
                           .no_finite_difference = "its gradient is zero by definition",
                           .exported = {"Identity", "StopGradient"}});
const Op transfer_op({.name = "transfer",
                      .doc = "x on another device",
                      .kind = OpKind::library,
                      .dtypes = every_set,
                      .infer = infer_transfer,
                      .vjp = [](const VjpArgs& a) { return Tensors{a.cotangent[0].to(a.in[0].device())}; },
                      .cpu = transfer,
                      .ref = transfer,
                      .samples = transfer_samples,
                      .exported = {"Identity", "Identity"}});

Tensor stop_gradient(const Tensor& x, Where where) { return apply1(stop_gradient_op, {&x}, {}, where); }
Tensor identity(const Tensor& x, Where where) { return apply1(identity_op, {&x}, {}, where); }

Tensor Tensor::contiguous(Where where) const {
  return defined() && (is_symbolic() || is_contiguous()) ? *this : apply1(copy_op, {this}, {}, where);
}

Tensor Tensor::to(Device device, Where where) const {
  if (defined() && this->device() == device) return *this;
  if (!has_device(device)) {
    std::string there;
    for (Device d : devices()) there += (there.empty() ? "" : ", ") + to_string(d);
    fail("to", fmt::format("there is no {} here. this machine has {}", to_string(device), there), where);
  }
  return apply1(transfer_op, {this}, TransferAttrs{to_string(device)}, where);
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
                     .ref = ref::scalar_kernel<[](auto x, auto y) { return ref::Complex(x, y); }, ref::floats, 2>,
                     .samples = pair_samples,
                     .no_finite_difference = "complex results are tested against known results",
                     .exported = {"", "Complex"}});
Tensor complex(const Tensor& x, const Tensor& y, Where where) { return binary(complex_op, x, y, true, where); }

// --- Whole-tensor comparisons ----------------------------------------------------------------------------------------

Tensor isclose(const Tensor& a, const Tensor& b, CloseOptions o, Where where) {
  CallerScope caller(where);
  require_option(o.rtol >= 0, "isclose", "rtol", o.rtol, "0 or more", where);
  require_option(o.atol >= 0, "isclose", "atol", o.atol, "0 or more", where);
  if (is_bool(a.dtype()) && is_bool(b.dtype())) return a == b;
  DType d = promote(a.dtype(), a.spec().weak, b.dtype(), b.spec().weak);
  DType wide = is_complex(d) ? DType::c128 : DType::f64;  // so that tolerances mean the same for every dtype
  Tensor x = astype(a, wide), y = astype(b, wide);
  Tensor close =
      logical_or(x == y, logical_and(abs(x - y) <= o.atol + o.rtol * abs(y), logical_and(isfinite(x), isfinite(y))));
  return o.equal_nan ? logical_or(close, logical_and(isnan(x), isnan(y))) : close;
}

bool allclose(const Tensor& a, const Tensor& b, CloseOptions o, Where where) {
  CallerScope caller(where);
  return all(isclose(a, b, o)).item<bool>(where);
}

bool array_equal(const Tensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  if (!(a.shape() == b.shape())) return false;
  if (a.dtype() == DType::string || b.dtype() == DType::string)
    return a.dtype() == b.dtype() && a.to_vector<std::string>(where) == b.to_vector<std::string>(where);
  return all(a == b).item<bool>(where);
}

}  // namespace rill
