#include "rill/ops/elementwise/elementwise_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "rill/devices/kernel/convert.h"
#include "rill/devices/params/elementwise_params.h"
#include "rill/devices/registry.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/samples.h"
#include "rill/ops/values/fill.h"
#include "rill/tensor/visit_dtype.h"

namespace rill {
extern const Op cast_op;
}

namespace rill::elementwise {

// --- Inference -------------------------------------------------------------------------------------------------------

namespace {
// Not by ==, which records a guard that an open size equals the number.
bool is_same(const Shape& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](Dim m, Dim n) { return m.plain() == n.plain(); });
}
}  // namespace

OutSpecs infer_same(const InferArgs& args) {
  OutSpecs out;
  Spec& spec = out.emplace_back(args[0]);
  for (int i = 1; i < args.count(); ++i) {
    const Spec& s = args[i];
    if (s.dtype != spec.dtype)
      args.reject(fmt::format("operands have different dtypes, {} and {}. convert one with astype()", name(spec.dtype),
                              name(s.dtype)));
    if (!is_same(s.shape, spec.shape) && !broadcast_into(spec.shape, s.shape))
      args.reject(fmt::format("shapes {} and {} do not broadcast: axes must be equal or 1, counted from the back",
                              to_string(args[0].shape), to_string(s.shape)));
    spec.weak = spec.weak && s.weak;
  }
  return out;
}

OutSpecs infer_bool(const InferArgs& args) {
  OutSpecs out = infer_same(args);
  out[0].dtype = DType::boolean;
  out[0].weak = false;
  return out;
}

OutSpecs infer_real(const InferArgs& args) {
  OutSpecs out = infer_same(args);
  out[0].dtype = real_of(out[0].dtype);
  return out;
}

// --- Operands --------------------------------------------------------------------------------------------------------

namespace {
bool is_scalar(const Tensor& t) { return t.spec().weak && t.ndim() == 0 && !t.is_symbolic(); }

// Calls f with the value of such a scalar of an integer dtype.
template <class F>
void visit_whole(const Tensor& t, F&& f) {
  visit_dtype(t.dtype(), [&](auto zero) {
    using From = decltype(zero);
    if constexpr (std::is_integral_v<From> && !std::is_same_v<From, bool>)
      f(*reinterpret_cast<const From*>(t.rep()->data));
  });
}

}  // namespace

bool overflows(const Tensor& t, DType dtype) {
  bool does = false;
  if (Dim size; is_integer(dtype) && is_open_size(t, size)) {
    visit_dtype(dtype, [&](auto zero) {
      using To = decltype(zero);
      if constexpr (std::is_integral_v<To> && sizeof(To) < sizeof(int64_t))
        does = size < std::numeric_limits<To>::min() || size > std::numeric_limits<To>::max();
      else does = is_unsigned(dtype) && size < 0;
    });
    return does;
  }
  if (!is_scalar(t) || !is_integer(dtype)) return false;
  visit_whole(t, [&](auto x) {
    visit_dtype(dtype, [&](auto zero) {
      using To = decltype(zero);
      if constexpr (std::is_integral_v<To> && !std::is_same_v<To, bool>) does = !std::in_range<To>(x);
    });
  });
  return does;
}

namespace {
// Whether `t` is a C++ number that a trace has as an argument: its value is known when the graph runs.
bool is_argument(const Tensor& t) {
  Dim size;
  return t.spec().weak && t.ndim() == 0 && t.is_symbolic() && !is_open_size(t, size);
}
// Whether n, an integer or a floating number, lies in the range of an integer dtype.
Tensor lies_in(const IntegerInfo& range, const Tensor& n) {
  if (is_floating(n.dtype())) return (n >= double(range.min)) & (n < 2 * double(range.max / 2 + 1));
  const Tensor low = n >= range.min;
  return low & (range.max > uint64_t(INT64_MAX) ? n <= range.max : n <= int64_t(range.max));
}
}  // namespace

bool may_overflow(const Tensor& t, DType dtype) {
  if (!is_argument(t) || !is_integer(t.dtype()) || !is_integer(dtype)) return false;
  const IntegerInfo own = iinfo(t.dtype()), range = iinfo(dtype);
  return own.min < range.min || own.max > range.max;
}

void check_argument(std::string_view op, const Tensor& t, DType dtype, const Where& where, bool whole) {
  if (!is_integer(dtype) || !is_argument(t)) return;
  const IntegerInfo range = iinfo(dtype);
  if (may_overflow(t, dtype))
    require_elements([&](const Tensor& n) { return lies_in(range, n); }, op,
                     fmt::format("a C++ integer must fit the {} that it has to become (convert the other operand with "
                                 "astype(), or make a tensor of the integer)",
                                 name(dtype)),
                     t, where);
  if (is_floating(t.dtype()))
    require_elements(
        [&](const Tensor& n) {
          const Tensor cut = trunc(n), fits = lies_in(range, cut);
          return whole ? fits & (cut == n) : fits;
        },
        op,
        fmt::format("a C++ number must {}fit the {} that it has to become", whole ? "be whole and " : "", name(dtype)),
        t, where);
}

bool loses_digits(const Tensor& t, DType dtype, bool whole) {
  if (!is_scalar(t) || is_complex(dtype) || dtype == DType::string) return false;
  if (is_complex(t.dtype())) return t.item<std::complex<double>>().imag() != 0;
  if (!is_floating(t.dtype()) || !is_integer(dtype)) return false;
  const double number = t.item<double>();
  return (whole && number != std::trunc(number)) || !holds(dtype, number);
}

Tensor as_operand(std::string_view op, const Tensor& t, DType dtype, Device device, const Where& where, bool weak) {
  if ((t.dtype() == dtype && t.device() == device) || dtype == DType::string) return weak ? t : t.astype(dtype, where);
  check_fits(op, t, dtype, where);
  // As the C++ number would be converted:
  if (Dim size; is_open_size(t, size)) return size_tensor(size, dtype, device, weak, where);
  if (!is_constant_scalar(t)) {
    const Tensor out = weak ? apply1(cast_op, {&t}, CastAttrs{dtype, true}, where) : t.astype(dtype, where);
    return t.spec().weak && t.ndim() == 0 ? out.to(device, where) : out;  // C++ scalars move implicitly
  }
  // Built without running an op.
  Tensor out = empty_tensor(Spec{Shape(), dtype, weak, Device()});
  visit_stored_dtype(t.dtype(), [&](auto zero) {
    const auto x = *reinterpret_cast<const decltype(zero)*>(t.rep()->data);
    visit_stored_dtype(dtype, [&](auto to) {
      *reinterpret_cast<decltype(to)*>(out.mutable_rep()->data) = convert_number<decltype(to)>(x);
    });
  });
  return device == out.device() ? out : out.to(device, where);
}

Tensor as_floating(const Tensor& x, const Where& where) {
  if (!x.defined() || is_differentiable(x.dtype()) || x.dtype() == DType::string) return x;
  return as_operand("", x, DType::f32, x.device(), where, x.spec().weak);
}

Tensor unary(const Op& op, const Tensor& x, bool floating, const Where& where) {
  if (!floating || !x.defined() || is_differentiable(x.dtype())) return apply1(op, {&x}, {}, where);
  const Tensor f = as_floating(x, where);
  return apply1(op, {&f}, {}, where);
}

Tensor binary(const Op& op, const Tensor& x, const Tensor& y, bool floating, const Where& where) {
  if (!x.defined() || !y.defined()) return apply1(op, {&x, &y}, {}, where);
  const Spec &a = x.spec(), &b = y.spec();
  if (a.dtype == b.dtype && a.device == b.device && (!floating || !is_integer(a.dtype))) {
    if (!(floating && is_bool(a.dtype))) return apply1(op, {&x, &y}, {}, where);
  }
  CallerScope caller(where, op.name.data());
  DType d = promote(a.dtype, a.weak, b.dtype, b.weak);
  if (floating) d = to_floating(d);
  const bool weak = a.weak && b.weak;
  const Device device = a.weak && x.ndim() == 0 ? b.device : a.device;
  Tensor p = as_operand(op.name, x, d, device, where, weak), q = as_operand(op.name, y, d, device, where, weak);
  return apply1(op, {&p, &q}, {}, where);
}

namespace {
bool is_bool_tensor(const Tensor& x) { return x.defined() && is_bool(x.dtype()); }
}  // namespace
Tensor unary_of_integers(const Op& op, const Tensor& x, const Where& where) {
  return unary(op, is_bool_tensor(x) ? x.astype(DType::i8, where) : x, false, where);
}
Tensor binary_counted(const Op& op, const Tensor& x, const Tensor& y, const Where& where) {
  if (!is_bool_tensor(x) || !is_bool_tensor(y)) return binary(op, x, y, false, where);
  CallerScope caller(where, op.name.data());
  return binary(op, x.astype(DType::i8), y.astype(DType::i8), false, where);
}

Scaled scaled(const Tensor& x, const Tensor& y) {
  const Tensor larger = stop_gradient(maximum(abs(x), abs(y))), nowhere = logical_or(larger == 0, isinf(larger));
  // Its reciprocal, which gradients need, must not overflow.
  const double least = x.dtype() == f64 ? 0x1p-1022 : x.dtype() == f32 ? 0x1p-126 : 0;
  const Tensor scale = where(nowhere, 1, maximum(larger, least));
  return {x / scale, y / scale, scale, nowhere};
}

Tensor unbroadcast(const Tensor& cotangent, const Tensor& operand) {
  return cotangent.shape() == operand.shape() ? cotangent : sum_to(cotangent, operand.shape());
}

Tensor safe_sqrt(const Tensor& x) {
  const Tensor zero = x == 0;
  return where(zero, 0, sqrt(where(zero, 1, x)));
}

// --- Samples ---------------------------------------------------------------------------------------------------------

std::vector<Sample> make_unary_samples(double lo, double hi) {
  return {{{samples::uniform({37}, lo, hi)}, {}},
          {{samples::uniform({3, 5}, lo, hi, 2)}, {}},
          {{samples::uniform({}, lo, hi, 3)}, {}},
          {{samples::uniform({0, 4}, lo, hi, 4)}, {}}};
}

std::vector<Sample> make_binary_samples(double x_lo, double x_hi, double y_lo, double y_hi) {
  auto pair = [&](Shape x, Shape y) {
    return Sample{{samples::uniform(x, x_lo, x_hi, 5), samples::uniform(y, y_lo, y_hi, 6)}, {}};
  };
  return {pair({37}, {37}), pair({3, 5}, {5}), pair({4, 1}, {1, 6}), pair({}, {7}),
          pair({2, 3}, {}), pair({}, {}),      pair({0, 3}, {3})};
}

std::vector<Sample> integer_unary_samples() {
  return {{{samples::integers({37}, 0, 100)}, {}},
          {{samples::integers({3, 5}, 0, 2)}, {}},
          {{samples::integers({}, 3, 9)}, {}}};
}

std::vector<Sample> integer_binary_samples() {
  auto pair = [](Shape x, Shape y) {
    return Sample{{samples::integers(x, 0, 100), samples::integers(y, 1, 7, DType::i64, 2)}, {}};
  };
  return {pair({37}, {37}), pair({3, 5}, {5}), pair({4, 1}, {1, 6}), pair({}, {7}), pair({2, 3}, {})};
}

}  // namespace rill::elementwise

namespace rill {

bool holds(DType dtype, double number) {
  if (!is_integer(dtype)) return true;
  const double limit = std::ldexp(1, int(size_of(dtype)) * 8 - !is_unsigned(dtype)), whole = std::trunc(number);
  return whole >= (is_unsigned(dtype) ? 0 : -limit) && whole < limit;
}

namespace {
template <class Whole>
bool holds_whole(DType dtype, Whole number) {
  bool does = true;
  visit_dtype(dtype, [&](auto zero) {
    using To = decltype(zero);
    if constexpr (std::is_integral_v<To> && !std::is_same_v<To, bool>) does = std::in_range<To>(number);
  });
  return does;
}
}  // namespace
bool holds(DType dtype, int64_t number) { return holds_whole(dtype, number); }
bool holds(DType dtype, uint64_t number) { return holds_whole(dtype, number); }

void fail_unheld(std::string_view op, const std::string& number, DType dtype, const Where& where) {
  fail(op,
       fmt::format("{} does not hold the number {}. choose a wider dtype, or convert with astype(), which wraps",
                   name(dtype), number),
       where);
}

void check_fits(std::string_view op, const Tensor& value, DType dtype, const Where& where) {
  if ((value.dtype() == DType::string) != (dtype == DType::string))
    fail(op,
         fmt::format("{} stands where the tensor has {}. {}", to_string(value.spec()), name(dtype),
                     dtype == DType::string ? "give a string; strings::as_string(...) makes one of a number"
                                            : "strings::to_number(...) reads numbers"),
         where);
  if (is_integer(value.dtype())) elementwise::check_argument(op, value, dtype, where, false);
  if (!elementwise::overflows(value, dtype)) return;
  std::string number;
  if (Dim size; is_open_size(value, size)) number = fmt::format("{}", size);
  else elementwise::visit_whole(value, [&](auto x) { number = fmt::format("{}", x); });
  fail(op,
       fmt::format("the C++ integer {} does not fit the {} that it has to become. convert the other operand with "
                   "astype(), or make a tensor of the integer",
                   number, name(dtype)),
       where);
}

}  // namespace rill
