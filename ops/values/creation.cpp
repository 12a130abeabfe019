// Creation of tensors. Literals (tensor(), linspace, eye) are computed on the host and captured by a trace as
// constants; `full` and `iota` are records, so that a trace can fold, fuse or hoist them.
#include "rill/ops/creation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <span>
#include <type_traits>

#include "rill/devices/cpu/move/shape_kernels.h"
#include "rill/devices/driver.h"
#include "rill/devices/host_memory.h"
#include "rill/devices/kernel/convert.h"
#include "rill/devices/params/shape_params.h"
#include "rill/devices/ref/shape_kernels.h"
#include "rill/ops/apply.h"
#include "rill/ops/join_numbers.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/values/fill.h"
#include "rill/tensor/limits.h"
#include "rill/tensor/visit_dtype.h"

namespace rill {

// --- full and iota ---------------------------------------------------------------------------------------------------

namespace {

template <class A>
OutSpecs infer_creation(const InferArgs& a) {
  const auto& p = a.attrs.as<A>();
  return {Spec{Shape(p.shape), p.dtype, false, p.device}};
}

OutSpecs infer_full(const InferArgs& a) {
  OutSpecs out = infer_creation<FullAttrs>(a);
  out[0].weak = a.attrs.as<FullAttrs>().weak;
  return out;
}

OutSpecs infer_iota(const InferArgs& a) {
  const auto& p = a.attrs.as<IotaAttrs>();
  a.check_axis(p.axis, int64_t(p.shape.size()));
  if (is_bool(p.dtype) || p.dtype == DType::string || is_complex(p.dtype))
    a.reject(fmt::format("{} does not count. use an integer or floating dtype and astype()", name(p.dtype)));
  return infer_creation<IotaAttrs>(a);
}

FillValue number(double v) { return {int64_t(v), v, 0}; }

const Op full_op({.name = "full",
                  .doc = "A tensor whose elements all are `value`.",
                  .kind = OpKind::creation,
                  .dtypes = every_set,
                  .inputs = 0,
                  .infer = infer_full,
                  .no_gradient = "it has no operands",
                  .cpu = cpu::full,
                  .ref = ref::full,
                  .samples =
                      [] {
                        return std::vector<Sample>{
                            {{}, FullAttrs{{2, 3}, f32, {}, number(0)}}, {{}, FullAttrs{{}, f64, {}, number(0.1)}},
                            {{}, FullAttrs{{5}, i8, {}, number(-3)}},    {{}, FullAttrs{{2}, boolean, {}, number(1)}},
                            {{}, FullAttrs{{3}, bf16, {}, number(1.5)}}, {{}, FullAttrs{{0, 2}, c64, {}, number(2)}}};
                      },
                  .exported = {"ConstantOfShape", "Fill"}});

const Op iota_op({.name = "iota",
                  .doc = "start + step * i, where i is the index along `axis`.",
                  .kind = OpKind::creation,
                  .dtypes = real_set,
                  .inputs = 0,
                  .infer = infer_iota,
                  .no_gradient = "it has no operands",
                  .cpu = cpu::iota,
                  .ref = ref::iota,
                  .generated = Generated::counts,
                  .samples =
                      [] {
                        return std::vector<Sample>{{{}, IotaAttrs{{5}, 0, i64, {}, {}}},
                                                   {{}, IotaAttrs{{2, 3}, 1, f32, {}, {}}},
                                                   {{}, IotaAttrs{{3, 2}, 0, f64, {}, number(0.5), number(-0.25)}},
                                                   {{}, IotaAttrs{{0}, 0, u8, {}, {}}},
                                                   {{}, IotaAttrs{{4}, 0, i16, {}, number(7), number(-3)}}};
                      },
                  .exported = {"Range", "Range"}});

Tensor filled(const Shape& shape, DType dtype, Device device, const FillValue& value, const Where& where) {
  require_dtype("full", dtype, where);
  return apply1(full_op, {}, FullAttrs{shape, dtype, device, value}, where);
}
Tensor filled(const Shape& shape, const TensorOptions& o, double value, const Where& where) {
  return filled(shape, o.dtype.value_or(f32), o.device.value_or(default_device()), number(value), where);
}
TensorOptions or_like(const Tensor& x, const TensorOptions& o) {
  return {o.dtype.value_or(x.dtype()), o.device.value_or(x.device())};
}

}  // namespace

namespace {
Tensor uninitialised(std::string_view op, Spec spec, const Where& where) {
  require_sound_size(op, spec, where);
  try {
    return empty_tensor(std::move(spec));
  } catch (const host_memory::OutOfMemory& e) {
    fail(op, e.reason, where);
  }
}
}  // namespace
bool is_open_size(const Tensor& value, Dim& out) {
  const Listeners& now = listeners();
  AttrsView attrs;
  if (!now.open_sizes || !now.trace || !value.spec().weak || !value.is_symbolic()) return false;
  if (!now.trace->made_by(value, full_op, attrs)) return false;
  out = attrs.as<FullAttrs>().value.whole;
  return out.is_open();
}

Tensor size_tensor(Dim size, DType dtype, Device device, bool weak, const Where& where) {
  FillValue value{is_bool(dtype) ? Dim(int(size != 0)) : size, double(size.hint()), 0};
  return apply1(full_op, {}, FullAttrs{{}, dtype, device, value, weak}, where);
}

Tensor::Tensor(Dim size) {
  if (size.is_open() && listeners().trace) [[unlikely]] {
    *this = size_tensor(size, DType::i64, Device(), true, Where::current());
  } else {
    int64_t n = size;
    *this = scalar(&n, DType::i64, true);
  }
}

Tensor size_of(const Tensor& x, Axis axis, Where where) {
  return size_tensor(x.dim(axis, where), DType::i64, x.device(), false, where);
}

bool constant_fill(const Tensor& value, DType dtype, FillValue& out) {
  const Spec& s = value.spec();
  if (Dim open; is_open_size(value, open)) {
    out = {is_bool(dtype) ? Dim(int(open != 0)) : open, double(open.hint()), 0};
    return true;
  }
  if (dtype == DType::string || !is_constant_scalar(value)) return false;
  if (is_complex(s.dtype)) {
    auto z = value.item<std::complex<double>>();
    out = {int64_t(z.real()), z.real(), z.imag()};
  } else if (is_floating(s.dtype)) {
    double v = value.item<double>();
    // The whole number as a cast makes it, so that what does not fit is the same in both.
    const int64_t whole = dtype == DType::u64 ? int64_t(convert_number<uint64_t>(v)) : convert_number<int64_t>(v);
    out = {is_bool(dtype) ? v != 0 : is_integer(dtype) ? whole : 0, v, 0};
  } else {
    int64_t v = s.dtype == DType::u64 ? int64_t(value.item<uint64_t>()) : value.item<int64_t>();
    out = {is_bool(dtype) ? v != 0 : v, s.dtype == DType::u64 ? double(uint64_t(v)) : double(v), 0};
    // What a double would round before the dtype does.
    if (dtype == DType::f32 || dtype == DType::c64)
      out.real = s.dtype == DType::u64 ? double(float(uint64_t(v))) : double(float(v));
    if (is_small_float(dtype)) out.real = s.dtype == DType::u64 ? halfway_double(uint64_t(v)) : halfway_double(v);
  }
  if (is_small_float(dtype)) out.real = halfway_float(out.real);  // so that it is rounded once
  return true;
}

Tensor zeros(const Shape& shape, const TensorOptions& options, Where where) {
  CallerScope caller(where);
  return filled(shape, options, 0, where);
}

Tensor ones(const Shape& shape, const TensorOptions& options, Where where) {
  CallerScope caller(where);
  return filled(shape, options, 1, where);
}

Tensor empty(const Shape& shape, const TensorOptions& options, Where where) {
  CallerScope caller(where);
  if (!executing_eagerly()) return zeros(shape, options, where);
  const DType dtype = options.dtype.value_or(f32);
  require_dtype("empty", dtype, where);
  if (is_bool(dtype)) return zeros(shape, options, where);  // kernels count on bytes of 0 and 1
  return uninitialised("empty", {shape, dtype, false, options.device.value_or(default_device())}, where);
}

Tensor full(const Shape& shape, const Tensor& value, const TensorOptions& options, Where where) {
  require_operand("full", value, where);
  DType own = value.dtype() == f64 && value.spec().weak ? f32 : value.dtype();
  DType dtype = options.dtype.value_or(own);
  FillValue constant;
  require_dtype("full", dtype, where);
  check_fits("full", value, dtype, where);
  if (constant_fill(value, dtype, constant))
    return filled(shape, dtype, options.device.value_or(default_device()), constant, where);
  CallerScope caller(where);
  Tensor v = value.dtype() == dtype ? value : astype(value, dtype);
  if (options.device && !(*options.device == v.device())) v = v.to(*options.device);
  return broadcast_to(v, shape);
}

Tensor zeros_like(const Tensor& x, const TensorOptions& options, Where where) {
  CallerScope caller(where);
  require_operand("zeros_like", x, where);
  return zeros(x.shape(), or_like(x, options), where);
}
Tensor ones_like(const Tensor& x, const TensorOptions& options, Where where) {
  CallerScope caller(where);
  require_operand("ones_like", x, where);
  return ones(x.shape(), or_like(x, options), where);
}
Tensor empty_like(const Tensor& x, const TensorOptions& options, Where where) {
  CallerScope caller(where);
  require_operand("empty_like", x, where);
  return empty(x.shape(), or_like(x, options), where);
}
Tensor full_like(const Tensor& x, const Tensor& value, const TensorOptions& options, Where where) {
  CallerScope caller(where);
  require_operand("full_like", x, where);
  return full(x.shape(), value, or_like(x, options), where);
}

namespace {
// The largest number of a dtype that can be a size: of wide ones and of floats none is too large.
int64_t greatest_below_i64(DType d) {
  return is_integer(d) && size_of(d) < 8 ? (int64_t(1) << (int(size_of(d)) * 8 - !is_unsigned(d))) - 1 : INT64_MAX;
}
}  // namespace

Tensor iota(const Shape& shape, Axis axis, const TensorOptions& options, Where where) {
  require_dtype("iota", options.dtype.value_or(i64), where);
  IotaAttrs a{shape,
              normal_axis(axis, shape.ndim(), "iota", where),
              options.dtype.value_or(i64),
              options.device.value_or(default_device()),
              {}};
  // Compared, not read, so that one trace serves all open sizes that fit.
  if (const int64_t last = greatest_below_i64(a.dtype); last < INT64_MAX && shape[size_t(a.axis)] - 1 > last)
    fail_unheld("iota", fmt::format("{}", int64_t(shape[size_t(a.axis)]) - 1), a.dtype, where);
  return apply1(iota_op, {}, a, where);
}

namespace {
using Wide = __int128;  // holds all of i64 and u64, and what the arithmetic on a range gives
Wide exact(const detail::Number& n) { return n.above ? Wide(uint64_t(int64_t(n.whole))) : Wide(int64_t(n.whole)); }

// Whether a range is left open in a trace; not where a number is above all sizes.
bool stays_open(const detail::Number& start, const detail::Number& stop, const detail::Number& step) {
  return (start.whole.is_open() || stop.whole.is_open() || step.whole.is_open()) &&
         !(start.above || stop.above || step.above);
}

// How many of the numbers start, start + step, ... come before stop.
Dim count_whole(const detail::Number& start, const detail::Number& stop, const detail::Number& step) {
  if (stays_open(start, stop, step)) {  // by arithmetic alone, so that one trace serves all sizes
    const bool up = step.whole > 0;
    const Dim distance = up ? stop.whole - start.whole : start.whole - stop.whole,
              stride = up ? step.whole : -step.whole;
    return (larger(distance, 0) + stride - 1) / stride;
  }
  const Wide stride = exact(step), distance = stride > 0 ? exact(stop) - exact(start) : exact(start) - exact(stop);
  if (distance <= 0) return 0;
  return int64_t(std::min((distance - 1) / (stride > 0 ? stride : -stride) + 1, Wide(INT64_MAX)));  // too many
}

// Throws if the integer dtype `dtype` cannot hold the numbers of arange().
void require_held(const detail::Number& start, const detail::Number& stop, const detail::Number& step, Dim count,
                  DType dtype, const Where& where) {
  if (!is_integer(dtype)) return;
  const bool whole = start.is_whole && step.is_whole, open = whole && stays_open(start, stop, step);
  if (open && dtype == i64) return;  // which holds every size
  if (count == 0) return;
  if (!whole) {
    for (const double v : {start.real(), start.real() + step.real() * double(count - 1)})
      if (!holds(dtype, v)) fail_unheld("arange", fmt::format("{}", v), dtype, where);
    return;
  }
  if (open) {  // compared, not read, as in iota()
    const int64_t greatest = greatest_below_i64(dtype), least = is_unsigned(dtype) ? 0 : -greatest - 1;
    for (const Dim v : {start.whole, Dim(start.whole + step.whole * (count - 1))})
      if (v < least || (greatest < INT64_MAX && v > greatest))
        fail_unheld("arange", fmt::format("{}", int64_t(v)), dtype, where);
    return;
  }
  const Wide last = exact(start) + exact(step) * (int64_t(count) - 1);
  for (const Wide v : {exact(start), int64_t(count) < INT64_MAX ? last : exact(stop) - 1}) {
    if (v > Wide(UINT64_MAX)) fail_unheld("arange", fmt::format("{}", double(v)), dtype, where);
    if (v >= 0 ? !holds(dtype, uint64_t(v)) : !holds(dtype, int64_t(v)))
      fail_unheld("arange", v >= 0 ? fmt::format("{}", uint64_t(v)) : fmt::format("{}", int64_t(v)), dtype, where);
  }
}
}  // namespace

Tensor arange(detail::Number start, detail::Number stop, detail::Number step, const TensorOptions& options,
              Where where) {
  CallerScope caller(where);
  if (step.real() == 0) fail("arange", "the step is 0. give a positive or negative one", where);
  bool whole = start.is_whole && stop.is_whole && step.is_whole;
  double distance = whole ? 0 : std::ceil((stop.real() - start.real()) / step.real());
  if (!whole && !(distance < 1e15))
    fail("arange", fmt::format("from {} to {} by {} has no end", start.real(), stop.real(), step.real()), where);
  Dim count = whole ? count_whole(start, stop, step) : Dim(int64_t(std::max(0.0, distance)));
  DType dtype = options.dtype.value_or(whole ? i64 : f32);
  require_dtype("arange", dtype, where);
  auto value = [&](const detail::Number& n) {
    if (!n.is_whole) return FillValue{0, n.fraction, 0};
    return FillValue{n.whole, n.above ? n.fraction : double(n.whole.hint()), 0};
  };
  require_held(start, stop, step, count, dtype, where);
  IotaAttrs a{{count}, 0, dtype, options.device.value_or(default_device()), value(start), value(step)};
  if (whole || !is_integer(dtype)) return apply1(iota_op, {}, a, where);
  // Fractions into integers: each is counted, then cut off.
  a.dtype = f64;
  return astype(apply1(iota_op, {}, a, where), dtype);
}

Tensor arange(detail::Number stop, const TensorOptions& options, Where where) {
  return arange(0, stop, 1, options, where);
}

// --- Literals --------------------------------------------------------------------------------------------------------

namespace {
void require_held(const Tensor& numbers, DType dtype, const Where& where) {
  if (!is_integer(dtype)) return;
  visit_dtype(numbers.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      using Most = std::conditional_t<std::is_floating_point_v<T>, double,
                                      std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
      const auto all = std::span(reinterpret_cast<const T*>(numbers.rep()->data), size_t(numbers.size()));
      for (const T& v : all)
        if (!holds(dtype, Most(v))) fail_unheld("tensor", fmt::format("{}", Most(v)), dtype, where);
    } else if constexpr (detail::ComplexOf<T, float> || detail::ComplexOf<T, double>) {
      const auto all = std::span(reinterpret_cast<const T*>(numbers.rep()->data), size_t(numbers.size()));
      for (const T& v : all)
        if (v.imag() != 0 || !holds(dtype, double(v.real())))
          fail_unheld("tensor", fmt::format("{}{:+}i", v.real(), v.imag()), dtype, where);
    }
  });
}

// A number as the type that all of its list have in common.
template <class T>
T number_as(const detail::MixedNumber& n) {
  if constexpr (requires(T z) { z.imag(); }) {
    return T(number_as<typename T::value_type>(n), typename T::value_type(n.imag));
  } else {
    if (!is_integer(n.dtype) && !is_bool(n.dtype)) return T(n.real);
    return n.dtype == DType::u64 ? T(uint64_t(n.whole)) : T(n.whole);
  }
}
}  // namespace

namespace detail {

Tensor literal(const void* data, DType dtype, const Shape& shape, const TensorOptions& options, const Where& where) {
  CallerScope caller(where);
  require_sound_size("tensor", Spec{shape, dtype, false, {}}, where);
  require_dtype("tensor", options.dtype.value_or(dtype), where);
  if (!data && shape.numel() > 0)
    fail("from_data", fmt::format("the data is a null pointer, and {} elements are to be copied", shape.numel()),
         where);
  Device device = options.device.value_or(default_device());
  if (dtype == DType::string && !is_host(device)) {
    if (options.device)
      fail("tensor", fmt::format("strings live on the host, not on {}. leave the device out", to_string(device)),
           where);
    device = Device();
  }
  Tensor host = empty_tensor({shape, dtype, false, host_for(device)});
  size_t n = size_t(shape.numel());
  if (dtype == DType::string)
    std::copy_n(static_cast<const std::string*>(data), n, reinterpret_cast<std::string*>(host.mutable_rep()->data));
  else if (n) std::memcpy(host.mutable_rep()->data, data, n * size_of(dtype));
  if (is_bool(dtype))  // whatever the caller's memory holds: kernels count on 0 and 1
    for (char& c : std::span(host.mutable_rep()->data, n)) c = c != 0;
  if (is_host(device) && options.dtype.value_or(dtype) == dtype) return host;
  EagerScope eager;
  if (options.dtype) {
    require_held(host, *options.dtype, where);
    host = astype(host, *options.dtype);
  }
  return host.to(device);
}

Tensor mixed_literal(const std::vector<MixedNumber>& numbers, const Shape& shape, const TensorOptions& options,
                     const Where& where) {
  std::set<DType> dtypes;  // in order, so that the order of the numbers does not matter
  for (const MixedNumber& n : numbers) dtypes.insert(n.dtype);
  DType common = dtypes.empty() ? f32 : *dtypes.begin();
  for (const DType d : dtypes) common = promote(common, d);
  return visit_dtype(common, [&](auto zero) -> Tensor {
    using T = decltype(zero);
    std::vector<std::conditional_t<std::same_as<T, bool>, uint8_t, T>> elements;  // not vector<bool>
    elements.reserve(numbers.size());
    if constexpr (!std::same_as<T, std::string>)
      for (const MixedNumber& n : numbers) elements.push_back(number_as<T>(n));
    return literal(elements.data(), common, shape, options, where);
  });
}

void fail_ragged(size_t size, int64_t expected, size_t depth, const Where& where) {
  fail("tensor",
       fmt::format("lists at depth {} have {} and {} elements. make them equally long", depth, expected, size), where);
}
void fail_count(size_t count, const Shape& shape, const Where& where) {
  require_sound_size("tensor", Spec{shape, f32, false, {}}, where);
  fail("tensor",
       fmt::format("{} elements are given for shape {}, which has {}", count, to_string(shape), shape.numel()), where);
}

}  // namespace detail

namespace {

// A tensor whose T elements `fill` writes, with `options`. A size that is too large is rejected before allocating.
template <class T, class F>
Tensor computed(const char* op, const Shape& shape, const TensorOptions& options, const Where& where, F&& fill) {
  EagerScope eager;
  CallerScope caller(where, op);
  const Device device = options.device.value_or(default_device());
  detail::require_device(op, device, where);
  Tensor t = uninitialised(op, {shape, dtype_of<T>(), false, host_for(device)}, where);
  fill(reinterpret_cast<T*>(t.mutable_rep()->data));
  return (options.dtype.value_or(t.dtype()) == t.dtype() ? t : astype(t, *options.dtype)).to(device);
}

// `count` numbers map(start), ..., map(stop), counted in double; f32 unless `options` say otherwise.
template <class F>
Tensor spaced(const char* op, double start, double stop, int64_t count, bool endpoint, const TensorOptions& options,
              const Where& where, F&& map) {
  if (count < 0) fail(op, fmt::format("the number of samples is {}. it must not be negative", count), where);
  const auto fill = [&](auto* v) {
    int64_t gaps = endpoint ? count - 1 : count;
    double step = gaps > 0 ? (stop - start) / double(gaps) : 0;
    if (std::isinf(step) && std::isfinite(start) && std::isfinite(stop))  // only their distance has no double
      step = stop / double(gaps) - start / double(gaps);
    for (int64_t i = 0; i < count; ++i) {
      const bool last = endpoint && count > 1 && i + 1 == count;
      const double number = map(last ? stop : start + double(i) * step);
      if (options.dtype && !holds(*options.dtype, number))
        fail_unheld(op, fmt::format("{}", number), *options.dtype, where);
      v[i] = std::remove_cvref_t<decltype(*v)>(number);
    }
  };
  if (options.dtype.value_or(f32) == f32) return computed<float>(op, {count}, options, where, fill);
  return computed<double>(op, {count}, options, where, fill);
}

// The distance of each element of a matrix from the main diagonal, positive to the right.
Tensor diagonal_distance(Dim rows, Dim columns, Device device) {
  TensorOptions o{i64, device};
  return iota({1, columns}, 1, o) - iota({rows, 1}, 0, o);
}

// [rows, columns] with ones where keep(column - row).
template <class F>
Tensor band(const char* op, Dim rows, Dim columns, const TensorOptions& options, const Where& where, F&& keep) {
  if (!columns.is_open() && columns == -1) columns = rows;
  if (rows < 0 || columns < 0) fail(op, fmt::format("negative sizes are not allowed: {}, {}", rows, columns), where);
  if (!executing_eagerly()) {  // no constant as large as the matrix in a graph, and sizes that may be open
    CallerScope caller(where, op);
    return astype(keep(diagonal_distance(rows, columns, options.device.value_or(default_device()))),
                  options.dtype.value_or(f32));
  }
  return computed<float>(op, {rows, columns}, options, where, [&](float* v) {
    const int64_t across = columns, down = across ? int64_t(rows) : 0;
    for (int64_t i = 0; i < down; ++i)
      for (int64_t j = 0; j < across; ++j) *v++ = keep(j - i);
  });
}

// Rows and columns are compared by their numbers, so that inside a trace no constant as large as `x` is captured.
Tensor triangle(const Tensor& x, int64_t k, bool lower, const char* op, const Where& where) {
  CallerScope caller(where, op);
  if (x.ndim() < 2)
    fail(op, fmt::format("{} has no rows and columns. give it at least 2 axes", to_string(x.spec())), where);
  Tensor distance = diagonal_distance(x.dim(-2), x.dim(-1), x.device());
  return rill::where(lower ? distance <= k : distance >= k, x, zeros({}, {x.dtype(), x.device()}));
}

}  // namespace

Tensor linspace(double start, double stop, int64_t count, bool endpoint, const TensorOptions& options, Where where) {
  require_dtype("linspace", options.dtype.value_or(f32), where);
  const bool whole = options.dtype && is_integer(*options.dtype);  // then rounded down, as numpy's
  return spaced("linspace", start, stop, count, endpoint, options, where,
                [whole](double x) { return whole ? std::floor(x) : x; });
}

Tensor detail::logspace(double start, double stop, int64_t count, double base, bool endpoint,
                        const TensorOptions& options, const Where& where) {
  return spaced("logspace", start, stop, count, endpoint, options, where,
                [base](double x) { return std::pow(base, x); });
}
Tensor logspace(double start, double stop, int64_t count, double base, const TensorOptions& options, Where where) {
  return detail::logspace(start, stop, count, base, true, options, where);
}

Tensor eye(Dim rows, Dim columns, int64_t k, const TensorOptions& options, Where where) {
  return band("eye", rows, columns, options, where, [k](const auto& d) { return d == k; });
}
Tensor identity(Dim n, const TensorOptions& options, Where where) { return eye(n, n, 0, options, where); }
Tensor tri(Dim rows, Dim columns, int64_t k, const TensorOptions& options, Where where) {
  return band("tri", rows, columns, options, where, [k](const auto& d) { return d <= k; });
}
Tensor tril(const Tensor& x, int64_t k, Where where) { return triangle(x, k, true, "tril", where); }
Tensor triu(const Tensor& x, int64_t k, Where where) { return triangle(x, k, false, "triu", where); }

std::vector<Tensor> meshgrid(const std::vector<Tensor>& axes, std::string_view indexing, Where where) {
  CallerScope caller(where);
  if (indexing != "xy" && indexing != "ij")
    fail("meshgrid", fmt::format("indexing is \"{}\". use \"xy\" or \"ij\"", indexing), where);
  const std::vector<Tensor> lines = join_numbers(axes);
  size_t n = axes.size();
  bool swap = indexing == "xy" && n >= 2;
  auto axis_of = [&](size_t i) { return swap && i < 2 ? 1 - i : i; };
  Shape shape(n);
  for (size_t i = 0; i < n; ++i) shape[axis_of(i)] = axes[i].size();
  std::vector<Tensor> out;
  for (size_t i = 0; i < n; ++i) {
    Shape one(n, 1);
    one[axis_of(i)] = axes[i].size();
    out.push_back(broadcast_to(reshape(lines[i], one), shape));
  }
  return out;
}

}  // namespace rill
