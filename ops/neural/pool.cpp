// Pooling: max_pool with the two linear maps of its gradients (scatter to, and pick from, the positions of the maxima),
// and avg_pool with its own. Composites at the end.
#include <fmt/format.h>

#include <algorithm>

#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/conv.h"
#include "rill/ops/images.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/ops/samples.h"
#include "rill/ops/shape/pads.h"
#include "rill/tensor/limits.h"

namespace rill {
namespace {

Shape activation(Layout l, Dim batch, Dim channels, const Dims& space) {
  Shape s{batch};
  if (l == Layout::nchw) s.push_back(channels);
  for (Dim d : space) s.push_back(d);
  if (l == Layout::nhwc) s.push_back(channels);
  return s;
}
Dim channels(Layout l, const Shape& x) { return x[l == Layout::nhwc ? x.size() - 1 : 1]; }
Dims space_of(Layout l, const Shape& x) {
  Dims out;
  for (size_t i = 0; i + 2 < x.size(); ++i) out.push_back(x[space_axis(l, i)]);
  return out;
}

void check_params(const InferArgs& args, const PoolParams& p, bool with_sizes) {
  const size_t n = p.window.size();
  if (n < 1 || n > 3) args.reject("there must be 1, 2 or 3 axes of space");
  for (const Dims* list : {&p.strides, &p.pads_lo, &p.pads_hi})
    if (list->size() != n) args.reject(fmt::format("parameters for {} and for {} axes of space", n, list->size()));
  if (p.sizes.size() != (with_sizes ? n : 0)) args.reject(fmt::format("`sizes` needs an entry for each of {} axes", n));
  for (size_t i = 0; i < n; ++i) {
    if (p.window[i] < 1 || p.strides[i] < 1) args.reject("window and strides must be at least 1");
    if (p.strides[i] > largest_step || p.window[i] > max_tensor_bytes)
      args.reject(fmt::format("strides are at most {}, and windows {}", largest_step, max_tensor_bytes));
    if (with_sizes && (p.sizes[i] < 0 || p.sizes[i] > max_tensor_bytes))
      args.reject(fmt::format("a size is {}", p.sizes[i]));
    if (p.pads_lo[i] < 0 || p.pads_hi[i] < 0 || p.pads_lo[i] >= p.window[i] || p.pads_hi[i] >= p.window[i])
      args.reject(fmt::format("padding {},{} of axis {} of space must be less than the window {}", p.pads_lo[i],
                              p.pads_hi[i], i, p.window[i]));
  }
  if (size_t(args[0].shape.ndim()) != n + 2)
    args.reject(fmt::format("the input has {} axes; {} axes of space need {}", args[0].shape.ndim(), n, n + 2));
}

Shape out_shape(const InferArgs& args, const PoolParams& p, Dim batch, Dim c, const Dims& in) {
  Dims out;
  for (size_t i = 0; i < in.size(); ++i) {
    const Dim n = window_count(in[i], p.window[i], p.strides[i], p.pads_lo[i], p.pads_hi[i], Dim(1));
    if (n.hint() < 1 || in[i] < 1)
      args.reject(fmt::format("a window of {} does not fit axis {} of space: {} elements with {} of padding",
                              p.window[i], i, in[i], p.pads_lo[i] + p.pads_hi[i]));
    out.push_back(n);
  }
  return activation(p.layout, batch, c, out);
}

OutSpecs one(const InferArgs& args, Shape shape) { return {Spec{shape, args[0].dtype, false, args[0].device}}; }

OutSpecs infer_pool(const InferArgs& args) {
  const PoolParams& p = args.attrs.as<PoolParams>();
  check_params(args, p, false);
  const Shape& x = args[0].shape;
  return one(args, out_shape(args, p, x[0], channels(p.layout, x), space_of(p.layout, x)));
}
// (x, cotangent of the pool): like x.
OutSpecs infer_max_grad(const InferArgs& args) {
  const OutSpecs out = infer_pool(args);
  if (!(args[1].shape == out[0].shape) || args[1].dtype != args[0].dtype)
    args.reject(fmt::format("the cotangent must be {}", to_string(out[0])));
  return one(args, args[0].shape);
}
// (x, a tensor of x's shape): like the pool.
OutSpecs infer_max_pick(const InferArgs& args) {
  if (!(args[0].shape == args[1].shape) || args[1].dtype != args[0].dtype)
    args.reject("operands must have one shape and dtype");
  return infer_pool(args);
}
OutSpecs infer_avg_grad(const InferArgs& args) {
  const PoolParams& p = args.attrs.as<PoolParams>();
  check_params(args, p, true);
  const Shape& g = args[0].shape;
  const Shape expected = out_shape(args, p, g[0], channels(p.layout, g), p.sizes);
  if (!(g == expected))
    args.reject(fmt::format("an input of {} gives {}", to_string(Shape(p.sizes)), to_string(expected)));
  return one(args, activation(p.layout, g[0], channels(p.layout, g), p.sizes));
}

PoolParams with_sizes(PoolParams p, const Dims& sizes) {
  p.sizes = sizes;
  return p;
}

Tensors vjp_max_pool(const VjpArgs& args);
Tensors jvp_max_pool(const JvpArgs& args);
Tensors vjp_max_pool_grad(const VjpArgs& args);
Tensors vjp_max_pool_pick(const VjpArgs& args);
Tensors vjp_avg_pool(const VjpArgs& args);
Tensors vjp_avg_pool_grad(const VjpArgs& args);

// A batch of inputs is a larger batch.
Tensors batch_pool(const BatchArgs& a) {
  Tensors in;
  SmallVec<const Tensor*, 8> pointers;
  for (size_t i = 0; i < a.in.size(); ++i) in.push_back(merge_batch(with_batch(a, i), 0));
  for (const Tensor& t : in) pointers.push_back(&t);
  return {split_batch(apply1(a.op, pointers, a.attrs, a.where), 0, a.size, row_shape(a, 0)[0])};
}

struct Case {
  Shape x;
  PoolParams p;
};
std::vector<Case> cases() {
  const Layout nhwc = Layout::nhwc, nchw = Layout::nchw;
  return {
      {{2, 6, 4, 3}, {{2, 2}, {2, 2}, {0, 0}, {0, 0}, nhwc, false, {}}},
      {{1, 5, 6, 17}, {{3, 2}, {2, 1}, {1, 1}, {1, 0}, nhwc, false, {}}},
      {{1, 5, 6, 18}, {{3, 3}, {1, 2}, {1, 2}, {2, 1}, nhwc, true, {}}},
      {{2, 3, 5, 6}, {{3, 2}, {2, 1}, {1, 1}, {1, 0}, nchw, false, {}}},
      {{2, 7, 2}, {{3}, {2}, {1}, {0}, nhwc, true, {}}},
      {{1, 2, 3, 4, 5}, {{2, 2, 3}, {1, 2, 2}, {0, 1, 1}, {1, 0, 1}, nchw, false, {}}},
      {{1, 3, 4, 5, 2}, {{2, 3, 2}, {1, 1, 3}, {1, 0, 0}, {0, 1, 1}, nhwc, true, {}}},
      {{0, 4, 4, 2}, {{2, 2}, {2, 2}, {0, 0}, {0, 0}, nhwc, false, {}}},
  };
}
Shape result_shape(const Case& c) {
  Dims out;
  const Dims in = space_of(c.p.layout, c.x);
  for (size_t i = 0; i < in.size(); ++i)
    out.push_back(window_count(in[i], c.p.window[i], c.p.strides[i], c.p.pads_lo[i], c.p.pads_hi[i], Dim(1)));
  return activation(c.p.layout, c.x[0], channels(c.p.layout, c.x), out);
}
std::vector<Sample> samples_pool() {
  std::vector<Sample> out;
  for (const Case& c : cases()) out.push_back({{samples::distinct(c.x)}, c.p});
  return out;
}
std::vector<Sample> samples_max_grad() {
  std::vector<Sample> out;
  // Positive x: the tests replace elements by their magnitudes, which must not move the maxima.
  for (const Case& c : cases()) out.push_back({{samples::distinct(c.x, 0, 4), samples::uniform(result_shape(c))}, c.p});
  return out;
}
std::vector<Sample> samples_max_pick() {
  std::vector<Sample> out;
  for (const Case& c : cases()) out.push_back({{samples::distinct(c.x), samples::uniform(c.x)}, c.p});
  return out;
}
std::vector<Sample> samples_avg_grad() {
  std::vector<Sample> out;
  for (const Case& c : cases())
    out.push_back({{samples::uniform(result_shape(c))}, with_sizes(c.p, space_of(c.p.layout, c.x))});
  return out;
}

}  // namespace

extern const Op max_pool_op, max_pool_grad_op, max_pool_pick_op, avg_pool_op, avg_pool_grad_op;
const Op max_pool_op({
    .name = "max_pool",
    .doc = "out[n, p, c] = max_k x[n, p * stride - pad + k, c] over the window; NaN wins",
    .kind = OpKind::library,
    .dtypes = real_set,
    .infer = infer_pool,
    .vjp = vjp_max_pool,
    .saves_in = save_all,
    .jvp = jvp_max_pool,
    .batch = batch_pool,
    .cpu = cpu::max_pool,
    .ref = ref::max_pool,
    .wants_contiguous = true,
    .samples = samples_pool,
    .exported = {.onnx = "MaxPool", .tensorflow = "MaxPool"},
});
const Op max_pool_grad_op({
    .name = "max_pool_grad",
    .doc = "(x, g): g of each window, added up where x has the window's first largest element; else 0",
    .kind = OpKind::library,
    .dtypes = float_set,
    .inputs = 2,
    .infer = infer_max_grad,
    .vjp = vjp_max_pool_grad,
    .saves_in = save(0),
    .linear_in = save(1),
    .batch = batch_pool,
    .cpu = cpu::max_pool_grad,
    .ref = ref::max_pool_grad,
    .wants_contiguous = true,
    .samples = samples_max_grad,
    .sum_tolerance = 2,
    .exported = {.tensorflow = "MaxPoolGrad"},
});
const Op max_pool_pick_op({
    .name = "max_pool_pick",
    .doc = "(x, c): the element of c, for each window, that stands where x has its first largest one",
    .kind = OpKind::library,
    .dtypes = float_set,
    .inputs = 2,
    .infer = infer_max_pick,
    .vjp = vjp_max_pool_pick,
    .saves_in = save(0),
    .linear_in = save(1),
    .batch = batch_pool,
    .cpu = cpu::max_pool_pick,
    .ref = ref::max_pool_pick,
    .wants_contiguous = true,
    .samples = samples_max_pick,
});
const Op avg_pool_op({
    .name = "avg_pool",
    .doc = "out[n, p, c] = mean_k x[n, p * stride - pad + k, c] over the window, without padding or with it as zeros",
    .kind = OpKind::library,
    .dtypes = float_set,
    .infer = infer_pool,
    .vjp = vjp_avg_pool,
    .linear_in = save(0),
    .batch = batch_pool,
    .cpu = cpu::avg_pool,
    .ref = ref::avg_pool,
    .wants_contiguous = true,
    .samples = samples_pool,
    .sum_tolerance = 2,
    .exported = {.onnx = "AveragePool", .tensorflow = "AvgPool"},
});
const Op avg_pool_grad_op({
    .name = "avg_pool_grad",
    .doc = "x[n, i, c] = sum of g[n, p, c] / count(p) over the windows p that hold i",
    .kind = OpKind::library,
    .dtypes = float_set,
    .infer = infer_avg_grad,
    .vjp = vjp_avg_pool_grad,
    .linear_in = save(0),
    .batch = batch_pool,
    .cpu = cpu::avg_pool_grad,
    .ref = ref::avg_pool_grad,
    .wants_contiguous = true,
    .samples = samples_avg_grad,
    .sum_tolerance = 2,
    .exported = {.tensorflow = "AvgPoolGrad"},
});

namespace {

Tensors vjp_max_pool(const VjpArgs& args) {
  return {apply1(max_pool_grad_op, {&args.in[0], &args.cotangent[0]}, args.attrs, Where::current())};
}
Tensors jvp_max_pool(const JvpArgs& args) {
  return {apply1(max_pool_pick_op, {&args.in[0], &args.tangent[0]}, args.attrs, Where::current())};
}
// The positions of the maxima are constants to derivatives: only the second operand has a gradient.
Tensors vjp_max_pool_grad(const VjpArgs& args) {
  return {Tensor(), apply1(max_pool_pick_op, {&args.in[0], &args.cotangent[0]}, args.attrs, Where::current())};
}
Tensors vjp_max_pool_pick(const VjpArgs& args) {
  return {Tensor(), apply1(max_pool_grad_op, {&args.in[0], &args.cotangent[0]}, args.attrs, Where::current())};
}
Tensors vjp_avg_pool(const VjpArgs& args) {
  const PoolParams& p = args.attrs.as<PoolParams>();
  return {apply1(avg_pool_grad_op, {&args.cotangent[0]}, with_sizes(p, space_of(p.layout, args.in[0].shape())),
                 Where::current())};
}
Tensors vjp_avg_pool_grad(const VjpArgs& args) {
  return {apply1(avg_pool_op, {&args.cotangent[0]}, with_sizes(args.attrs.as<PoolParams>(), {}), Where::current())};
}

// ceil_mode: how far a last window that starts among the elements, or in the padding before them, extends beyond the
// padding at the end. It may be the only window, larger than the input.
Dims overhang(const PoolParams& p, const Dims& in) {
  Dims extra;
  for (size_t i = 0; i < in.size(); ++i) {
    const Dim from = in[i] + p.pads_lo[i], slack = from + p.pads_hi[i] - p.window[i];
    Dim steps = (slack + p.strides[i] - 1) / p.strides[i];
    const bool begins = slack > -p.strides[i];
    if (begins && steps * p.strides[i] >= from) steps = steps - 1;
    const Dim more = steps * p.strides[i] - slack;
    extra.push_back(begins && more > 0 ? more : Dim(0));
  }
  return extra;
}

PoolParams pool_params(std::string_view op, const Tensor& x, const Dims& window, const PoolOptions& o,
                       const Where& where) {
  require_operand(op, x, where);
  const size_t n = space_count(x, op, where);
  PoolParams p;
  require_option(!window.empty(), op, "the window", "empty", "a size for each axis of space, or one for all", where);
  p.window = for_each_axis(window, n, 1, op, "window", where);
  p.strides = o.strides.empty() ? p.window : for_each_axis(o.strides, n, 1, op, "strides", where);
  p.layout = o.layout;
  p.count_include_pad = o.count_include_pad;
  resolve_padding(o.padding, space_of(p.layout, x.shape()), p.window, p.strides, Dims(n, 1), p.pads_lo, p.pads_hi, op,
                  where);
  return p;
}
// Extends the windows of `p` at the end, and returns by how much.
Dims extend_windows(PoolParams& p, const Tensor& x) {
  const Dims extra = overhang(p, space_of(p.layout, x.shape()));
  for (size_t i = 0; i < extra.size(); ++i) p.pads_hi[i] = p.pads_hi[i] + extra[i];
  return extra;
}

// Windows with `dilation`, as gathered elements that are contiguous. An element in the padding is replaced by one of
// the window: the maximum is the same, and the first of equal elements stays the first.
struct DilatedWindows {
  std::vector<Tensor> from;  // for each spatial axis: the elements' indices, i64
  PoolParams pool;           // the pooling of the gathered elements

  Tensor operator()(const Tensor& x) const {
    Tensor y = x;
    for (size_t i = 0; i < from.size(); ++i) y = take(y, from[i], int64_t(space_axis(pool.layout, i)));
    return y;
  }
};
Tensor spread_axis(std::string_view op, const PoolParams& p, size_t i, int64_t dilation, int64_t in, bool ceil_mode,
                   const Tensor& x, const Where& where) {
  const int64_t lo = p.pads_lo[i], stride = p.strides[i], window = p.window[i], reach = (window - 1) * dilation + 1;
  const int64_t slack = in + lo + p.pads_hi[i] - reach;
  if (in < 1 || slack < (ceil_mode ? 1 - stride : 0))
    fail(op,
         fmt::format("a window of {} elements, {} apart, does not fit axis {} of space: {} elements with {} of padding",
                     window, dilation, i, in, lo + p.pads_hi[i]),
         where);
  int64_t last = ceil_mode ? (slack + stride - 1) / stride : slack / stride;
  if (last * stride >= in + lo) --last;
  require_few_numbers(op, multiply_sizes(last + 1, window), where);
  std::vector<int64_t> at;
  for (int64_t begin = -lo; begin <= last * stride - lo; begin += stride) {
    const int64_t first = begin >= 0 ? begin : begin + (-begin + dilation - 1) / dilation * dilation;
    const int64_t end = std::min(begin + reach, in), final = first + (end - 1 - first) / dilation * dilation;
    if (first >= end) fail(op, fmt::format("a window lies in the padding of axis {} of space alone", i), where);
    for (int64_t k = 0; k < window; ++k) at.push_back(std::clamp(begin + k * dilation, first, final));
  }
  return tensor(at, {.device = x.device()});
}
DilatedWindows spread_windows(std::string_view op, const Tensor& x, PoolParams p, const PoolOptions& o,
                              const Where& where) {
  const Dims in = space_of(p.layout, x.shape());
  const Dims dilation = for_each_axis(o.dilation, in.size(), 1, op, "dilation", where);
  DilatedWindows spread;
  Dims reach;
  for (size_t i = 0; i < in.size(); ++i) {
    for (int64_t n : {int64_t(p.window[i]), int64_t(dilation[i]), int64_t(p.strides[i])})
      require_option(n >= 1 && n <= largest_step, op, "a window, stride or dilation", n,
                     fmt::format("from 1 to {}", largest_step), where);
    if (in[i].is_open())
      fail(op, fmt::format("axis {} of space of {} is open, and a dilation needs its size", i, to_string(x.spec())),
           where);
    reach.push_back(multiply_sizes(p.window[i] - 1, dilation[i]) + 1);
  }
  resolve_padding(o.padding, in, p.window, p.strides, dilation, p.pads_lo, p.pads_hi, op, where);
  for (size_t i = 0; i < in.size(); ++i) {
    if (p.pads_lo[i] < 0 || p.pads_hi[i] < 0 || p.pads_lo[i] >= reach[i] || p.pads_hi[i] >= reach[i])
      fail(op,
           fmt::format("padding {},{} of axis {} of space must be less than the window's reach, {}", p.pads_lo[i],
                       p.pads_hi[i], i, reach[i]),
           where);
    spread.from.push_back(spread_axis(op, p, i, dilation[i], in[i], o.ceil_mode, x, where));
  }
  p.strides = p.window;
  p.pads_lo = p.pads_hi = Dims(in.size(), 0);
  spread.pool = std::move(p);
  return spread;
}
bool is_dilated(const PoolOptions& o) {
  return std::any_of(o.dilation.begin(), o.dilation.end(), [](Dim d) { return d != 1; });
}

// For max_pool and avg_pool, without a divisor.
Tensor pool(const Op& op, const Tensor& x, const Dims& window, const PoolOptions& o, const Where& where) {
  PoolParams p = pool_params(op.name, x, window, o, where);
  if (is_dilated(o)) {
    const DilatedWindows spread = spread_windows(op.name, x, std::move(p), o, where);
    const Tensor wide = spread(x);
    return apply1(op, {&wide}, spread.pool, where);
  }
  if (o.ceil_mode) extend_windows(p, x);
  return apply1(op, {&x}, p, where);
}

Tensor global_pool(const Op& op, const Tensor& x, Layout layout, bool keepdims, const Where& where) {
  CallerScope caller(where);
  space_count(x, op.name, where);
  const Tensor y = pool(op, x, space_of(layout, x.shape()), {.layout = layout}, where);
  return keepdims ? y : reshape(y, {x.shape()[0], channels(layout, x.shape())});
}

// One axis after the other: windows of equal size and distance are one pool; else one pool for each window,
// concatenated.
Tensor adaptive_axis(const Op& op, Tensor x, size_t axis, int64_t out, Layout layout, const Where& where) {
  const size_t n = size_t(x.ndim()) - 2;
  const int64_t at = int64_t(space_axis(layout, axis));
  const Dim in = x.shape()[size_t(at)];
  Dims window(n, 1);
  if (in % out == 0) {
    window[axis] = out == 1 ? in : Dim(in / out);
    return pool(op, x, window, {.layout = layout}, where);
  }
  require_few_tensors(op.name, out, Where::current());
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < out; ++i) {
    const Dim from = i * in / out, to = ((i + 1) * in + out - 1) / out;
    window[axis] = to - from;
    parts.push_back(pool(op, slice_axis(x, at, from, to), window, {.layout = layout}, where));
  }
  return concat(parts, at);
}
Tensor adaptive_pool(const Op& op, const Tensor& x, const Dims& out, Layout layout, const Where& where) {
  CallerScope caller(where);
  const size_t n = space_count(x, op.name, where);
  const Dims sizes = for_each_axis(out, n, 1, op.name, "out", where);
  Tensor y = x;
  for (size_t i = n; i-- > 0;) {  // the last axis first: the first of equal elements in row-major order wins
    const Dim in = x.shape()[space_axis(layout, i)];
    if (sizes[i] < 1 || in < 1)
      fail(op.name,
           fmt::format("axis {} of space has {} elements and is to have {}; both must be at least 1", i, in, sizes[i]),
           where);
    y = adaptive_axis(op, y, i, sizes[i], layout, where);
  }
  return y;
}

}  // namespace

Tensor max_pool(const Tensor& x, const Dims& window, const PoolOptions& options, Where where) {
  return pool(max_pool_op, x, window, options, where);
}

namespace {
// The fraction of each window that is padding or elements, rather than beyond the padding.
Tensor part_inside(const Tensor& x, const PoolParams& longer, const Dims& extra) {
  PoolParams p = longer;
  Dims space = space_of(p.layout, x.shape());
  for (size_t i = 0; i < space.size(); ++i) space[i] = space[i] + p.pads_lo[i] + p.pads_hi[i] - extra[i];
  p.pads_lo = Dims(space.size(), 0);
  p.pads_hi = extra;
  p.count_include_pad = true;
  const Tensor inside = ones(activation(p.layout, 1, 1, space), {x.dtype(), x.device()});
  return apply1(avg_pool_op, {&inside}, p, Where::current());
}
}  // namespace

Tensor avg_pool(const Tensor& x, const Dims& window, const PoolOptions& o, Where where) {
  constexpr std::string_view op = "avg_pool";
  if (is_dilated(o)) fail(op, "windows of averages have no dilation; depthwise_conv() does that", where);
  if (!o.divisor && !(o.ceil_mode && o.count_include_pad)) return pool(avg_pool_op, x, window, o, where);
  CallerScope caller(where);
  PoolOptions whole = o;
  whole.count_include_pad = true;
  PoolParams p = pool_params(op, x, window, whole, where);
  const Dims extra = o.ceil_mode ? extend_windows(p, x) : Dims(p.window.size(), 0);
  const auto [result, work] = floating_dtypes(x);
  const Tensor w = is_floating(x.dtype()) ? astype(x, work) : x;
  const Tensor mean = apply1(avg_pool_op, {&w}, p, where);
  if (!o.divisor) return astype(mean / part_inside(w, p, extra), result);
  require_option(*o.divisor != 0, op, "divisor", *o.divisor, "another number than 0", where);
  double pixels = 1;
  for (Dim n : p.window) pixels *= double(int64_t(n));
  return astype(mean * (pixels / double(*o.divisor)), result);
}
// The positions are numbered, and picked like a tangent: in f64, which represents every index and every element.
IndexedPool max_pool_with_indices(const Tensor& x, const Dims& window, const PoolOptions& options, Where where) {
  CallerScope caller(where);
  constexpr std::string_view op = "max_pool_with_indices";
  PoolParams p = pool_params(op, x, window, options, where);
  if (options.ceil_mode && !is_dilated(options)) extend_windows(p, x);
  if (!is_floating(x.dtype())) fail(op, fmt::format("takes floating numbers. got {}", to_string(x.spec())), where);
  Shape grid(size_t(x.ndim()), 1);
  Dim count = 1;
  for (size_t i = 0; i < p.window.size(); ++i) {
    const size_t axis = space_axis(p.layout, i);
    grid[axis] = x.shape()[axis], count *= grid[axis];
  }
  const Tensor numbers = reshape(arange(count, {DType::f64, x.device()}), grid);
  const Tensor wide = astype(stop_gradient(x), DType::f64), all = broadcast_to(numbers, x.shape());
  if (is_dilated(options)) {
    const DilatedWindows spread = spread_windows(op, x, std::move(p), options, where);
    const Tensor near = spread(x), near_wide = spread(wide), near_all = spread(all);
    return {apply1(max_pool_op, {&near}, spread.pool, where),
            astype(apply1(max_pool_pick_op, {&near_wide, &near_all}, spread.pool, where), DType::i64)};
  }
  return {apply1(max_pool_op, {&x}, p, where), astype(apply1(max_pool_pick_op, {&wide, &all}, p, where), DType::i64)};
}

Tensor global_max_pool(const Tensor& x, Layout layout, bool keepdims, Where where) {
  CallerScope caller(where);
  return global_pool(max_pool_op, x, layout, keepdims, where);
}
Tensor global_avg_pool(const Tensor& x, Layout layout, bool keepdims, Where where) {
  CallerScope caller(where);
  return global_pool(avg_pool_op, x, layout, keepdims, where);
}
Tensor adaptive_max_pool(const Tensor& x, const Dims& out, Layout layout, Where where) {
  CallerScope caller(where);
  return adaptive_pool(max_pool_op, x, out, layout, where);
}
Tensor adaptive_avg_pool(const Tensor& x, const Dims& out, Layout layout, Where where) {
  CallerScope caller(where);
  // Axis by axis, and rounded once.
  if (x.defined() && is_half(x.dtype()))
    return astype(adaptive_pool(avg_pool_op, astype(x, DType::f32), out, layout, where), x.dtype());
  return adaptive_pool(avg_pool_op, x, out, layout, where);
}

}  // namespace rill
