// where, and comparisons of complete tensors.
#include <fmt/format.h>

#include "rill/devices/cpu/elementwise/elementwise.h"
#include "rill/devices/ref/elementwise.h"
#include "rill/ops/apply.h"
#include "rill/ops/common_dtype.h"
#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/jvp_rules.h"
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
                   .jvp = linear_together,
                   .cpu = cpu::select,
                   .ref = ref::select,
                   .record_point = cpu::record_select,
                   .samples = where_samples,
                   .exported = {"Where", "SelectV2"}});

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  if (!condition.defined() || !a.defined() || !b.defined()) return apply1(where_op, {&condition, &a, &b}, {}, where);
  if ((a.dtype() == DType::string) != (b.dtype() == DType::string))
    fail("where",
         fmt::format("both values must be strings, or neither. convert one with strings::as_string() or "
                     "strings::to_number(). operands: {}, {}",
                     to_string(a.spec()), to_string(b.spec())),
         where);
  CommonDtype values;
  values.add(a.spec());
  values.add(b.spec());
  const Device device = condition.spec().weak ? values.device : condition.device();
  Tensor c =
      is_bool(condition.dtype()) ? as_operand("where", condition, DType::boolean, device, where) : condition != 0;
  const Tensor x = as_operand("where", a, values.dtype, device, where, values.weak);
  const Tensor y = as_operand("where", b, values.dtype, device, where, values.weak);
  return apply1(where_op, {&c, &x, &y}, {}, where);
}

// --- Whole-tensor comparisons ----------------------------------------------------------------------------------------

Tensor isclose(const Tensor& a, const Tensor& b, CloseOptions o, Where where) {
  CallerScope caller(where);
  require_option(o.rtol >= 0, "isclose", "rtol", o.rtol, "0 or more", where);
  require_option(o.atol >= 0, "isclose", "atol", o.atol, "0 or more", where);
  for (const Tensor* t : {&a, &b}) reject_float8("isclose", *t, where);
  if (is_bool(a.dtype()) && is_bool(b.dtype())) return a == b;
  DType d = promote(a.dtype(), a.spec().weak, b.dtype(), b.spec().weak);
  DType wide = is_complex(d) ? DType::c128 : DType::f64;  // so that tolerances mean the same for every dtype
  Tensor x = astype(a, wide), y = astype(b, wide);
  const Tensor same = x == y;  // first, because it rejects shapes that do not broadcast
  Tensor close =
      logical_or(same, logical_and(abs(x - y) <= o.atol + o.rtol * abs(y), logical_and(isfinite(x), isfinite(y))));
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

bool array_equiv(const Tensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  require_defined("array_equiv", a, "an operand", where);
  require_defined("array_equiv", b, "an operand", where);
  const size_t n = a.shape().size(), m = b.shape().size();
  for (size_t i = 1; i <= std::min(n, m); ++i) {
    const Dim p = a.shape()[n - i], q = b.shape()[m - i];
    if (p != q && p != 1 && q != 1) return false;
  }
  const std::vector<Tensor> both = broadcast_arrays({a, b}, where);
  return array_equal(both[0], both[1], where);
}

}  // namespace rill
