// The records of attention and its gradient, for separate operands and for joined ones. Kernels are tiled; rare cases
// (second order, the gradient of a mask) are composed of public functions and do store queries by keys: start at
// Composed. The second output, which the gradient needs, is the logarithm of each query's sum of exponentials
// in two parts, [..., queries, 2]: the greatest score, and the rest. (With a single rounded number,
// scores with an offset of a million would give probabilities with errors of 3 %.) Both are 0 for a query without keys.
#include "rill/ops/attention.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/positions.h"
#include "rill/ops/samples.h"

namespace rill {

namespace {

DType sum_dtype(DType d) { return d == DType::f64 ? DType::f64 : DType::f32; }

Spec spec_of(const Spec& like, Shape shape, DType dtype) { return Spec{std::move(shape), dtype, false, like.device}; }

Shape with_last(Shape s, Dim size) {
  s.back() = size;
  return s;
}

// --- Operands --------------------------------------------------------------------------------------------------------

void check_qkv(const InferArgs& args) {
  const Shape &q = args[0].shape, &k = args[1].shape, &v = args[2].shape;
  const size_t n = q.size();
  if (n < 2) args.reject("q needs at least the axes [queries, d]");
  for (int i : {1, 2}) {
    if (args[i].shape.size() != n) args.reject("q, k and v differ in their number of axes");
    if (args[i].dtype != args[0].dtype) args.reject("q, k and v differ in dtype; convert one with astype()");
  }
  for (size_t a = 0; a + 2 < n; ++a) {
    const bool heads = a + 3 == n;
    if (k[a] != v[a]) args.reject(fmt::format("axis {} of k and v differs: {} != {}", a, k[a], v[a]));
    if (!heads && q[a] != k[a]) args.reject(fmt::format("axis {} of q and k differs: {} != {}", a, q[a], k[a]));
    const int64_t of_q = q[a].hint(), of_k = k[a].hint();
    if (heads && (of_k == 0 ? of_q != 0 : of_q % of_k != 0))
      args.reject(fmt::format("the {} heads of q are not a multiple of the {} of k", q[a], k[a]));
  }
  if (q[n - 1] != k[n - 1]) args.reject(fmt::format("q has width {}, k has {}", q[n - 1], k[n - 1]));
  if (k[n - 2] != v[n - 2]) args.reject(fmt::format("there are {} keys and {} values", k[n - 2], v[n - 2]));
}

void check_mask(const InferArgs& args, int i) {
  if (args.count() <= i) return;
  Shape scores = with_last(args[0].shape, args[1].shape[args[1].shape.size() - 2]);
  if (args[i].shape != scores)
    args.reject(fmt::format("the mask is {}, the scores are {}", to_string(args[i].shape), to_string(scores)));
  if (args[i].dtype != DType::boolean && args[i].dtype != args[0].dtype)
    args.reject("the mask is neither bool nor of q's dtype");
}

void check_is(const InferArgs& args, int i, std::string_view what, const Shape& shape, DType dtype) {
  if (args[i].shape != shape || args[i].dtype != dtype)
    args.reject(fmt::format("{} must be {}{}", what, name(dtype), to_string(shape)));
}

void check_count(const InferArgs& args, int least, int most) {
  if (args.count() < least || args.count() > most)
    args.reject(fmt::format("{} operands, but it takes {} to {}", args.count(), least, most));
}

// q, k, v[, mask] -> result, log_sums
OutSpecs infer_attention(const InferArgs& args) {
  check_count(args, 3, 4);
  check_qkv(args);
  check_mask(args, 3);
  return {spec_of(args[0], with_last(args[0].shape, args[2].shape.back()), args[0].dtype),
          spec_of(args[0], with_last(args[0].shape, 2), sum_dtype(args[0].dtype))};
}

// q, k, v, log_sums, delta, cotangent[, mask] -> gradients of q, k, v
OutSpecs infer_attention_grad(const InferArgs& args) {
  check_count(args, 6, 7);
  check_qkv(args);
  check_is(args, 3, "log_sums", with_last(args[0].shape, 2), sum_dtype(args[0].dtype));
  check_is(args, 4, "delta", with_last(args[0].shape, 1), sum_dtype(args[0].dtype));
  check_is(args, 5, "the cotangent", with_last(args[0].shape, args[2].shape.back()), args[0].dtype);
  check_mask(args, 6);
  OutSpecs out;
  for (int i = 0; i < 3; ++i) out.push_back(spec_of(args[i], args[i].shape, args[i].dtype));
  return out;
}

struct JoinedShapes {
  Shape result, sums;  // [..., tokens, heads, d], [..., heads, tokens, 2]
};
JoinedShapes joined_shapes(const InferArgs& args) {
  const Shape& x = args[0].shape;
  const size_t n = x.size();
  if (n < 4 || x[n - 3] != 3)
    args.reject(fmt::format("qkv must be [..., tokens, 3, heads, d], but it is {}", to_string(x)));
  JoinedShapes s;
  s.result = s.sums = Shape(x.begin(), x.begin() + (n - 4));
  for (Dim d : {x[n - 4], x[n - 2], x[n - 1]}) s.result.push_back(d);
  for (Dim d : {Dim(x[n - 2]), Dim(x[n - 4]), Dim(2)}) s.sums.push_back(d);
  return s;
}

// qkv -> result, log_sums
OutSpecs infer_self_attention(const InferArgs& args) {
  const JoinedShapes s = joined_shapes(args);
  return {spec_of(args[0], s.result, args[0].dtype), spec_of(args[0], s.sums, sum_dtype(args[0].dtype))};
}

// qkv, log_sums, delta, cotangent -> gradient of qkv
OutSpecs infer_self_attention_grad(const InferArgs& args) {
  const JoinedShapes s = joined_shapes(args);
  check_is(args, 1, "log_sums", s.sums, sum_dtype(args[0].dtype));
  check_is(args, 2, "delta", with_last(s.sums, 1), sum_dtype(args[0].dtype));
  check_is(args, 3, "the cotangent", s.result, args[0].dtype);
  return {spec_of(args[0], args[0].shape, args[0].dtype)};
}

// --- Composed of public functions ------------------------------------------------------------------------------------

// The terms of the gradient, in f32 at least, with keys and values repeated for the heads that share them:
//   P = exp(scale q k^T + mask - log_sums)     D = P (g v^T - delta)
//   dq = scale D k     dk = scale D^T q     dv = P^T g
struct Composed {
  Tensor q, k, v, g, probability, difference;  // difference: g v^T - delta
  double scale;
  Shape key_shape, value_shape;

  Composed(const AttentionParams& a, const Tensor& q_, const Tensor& k_, const Tensor& v_, const Tensor& log_sums,
           const Tensor& delta, const Tensor& g_, const Tensor& mask)
      : scale(a.scale), key_shape(k_.shape()), value_shape(v_.shape()) {
    const DType wide = sum_dtype(q_.dtype());
    q = astype(q_, wide), g = astype(g_, wide);
    k = repeated(astype(k_, wide)), v = repeated(astype(v_, wide));
    Tensor scores = matmul(q, swapaxes(k, -1, -2)) * a.scale;
    const double inf = std::numeric_limits<double>::infinity();
    if (mask.defined())
      scores = mask.dtype() == DType::boolean ? where(mask, scores, -inf) : scores + astype(mask, wide);
    const Dim queries = scores.dim(-2), keys = scores.dim(-1);
    if (a.causal) {
      const TensorOptions there{i64, scores.device()};
      const Tensor i = iota({queries, keys}, 0, there), j = iota({queries, keys}, 1, there);
      scores = where(j <= i + (keys - queries), scores, -inf);
    }
    probability = exp((scores - part(log_sums, 0)) - part(log_sums, 1));
    difference = matmul(g, swapaxes(v, -1, -2)) - delta;
  }

  static Tensor part(const Tensor& log_sums, int64_t i) { return slice_axis(log_sums, -1, i, i + 1); }
  Tensor repeated(const Tensor& x) const {
    if (x.ndim() < 3 || x.dim(-3) == q.dim(-3)) return x;
    return repeat(x, q.dim(-3) / x.dim(-3), -3);
  }
  // The sum over the heads that share an operand of this shape.
  static Tensor shared(const Tensor& x, const Shape& shape) {
    if (x.shape() == shape) return x;
    Shape split = shape;
    const size_t heads = shape.size() - 3;
    split.insert(heads + 1, x.shape()[heads] / shape[heads]);
    return sum(reshape(x, split), Axes(int64_t(heads) + 1));
  }
};

// The cotangents of attention_grad's operands, from those of its results: a of dq, b of dk, c of dv. With
// X = scale (a k^T + q b^T) and W = P (X (g v^T - delta) + g c^T), differentiated by hand.
Tensors attention_grad_vjp(const VjpArgs& args) {
  const bool masked = args.in.size() > 6;
  const Composed x(args.attrs.as<AttentionParams>(), args.in[0], args.in[1], args.in[2], args.in[3], args.in[4],
                   args.in[5], masked ? args.in[6] : Tensor());
  const DType wide = sum_dtype(args.in[0].dtype());
  const Tensor a = astype(args.cotangent[0], wide), b = x.repeated(astype(args.cotangent[1], wide)),
               c = x.repeated(astype(args.cotangent[2], wide));
  auto transposed = [](const Tensor& t) { return swapaxes(t, -1, -2); };
  const Tensor to_d = (matmul(a, transposed(x.k)) + matmul(x.q, transposed(b))) * x.scale;
  const Tensor y = x.probability * to_d, d = x.probability * x.difference;
  const Tensor w = y * x.difference + x.probability * matmul(x.g, transposed(c));
  Tensors out{(matmul(w, x.k) + matmul(d, b)) * x.scale,
              Composed::shared((matmul(transposed(w), x.q) + matmul(transposed(d), a)) * x.scale, x.key_shape),
              Composed::shared(matmul(transposed(y), x.g), x.value_shape),
              broadcast_to(-sum(w, Axes(-1), true), args.in[3].shape()),
              -sum(y, Axes(-1), true),
              matmul(y, x.v) + matmul(x.probability, c)};
  if (masked) out.push_back(args.in[6].dtype() == DType::boolean ? Tensor() : w);
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i].defined()) out[i] = astype(out[i], args.in[i].dtype());
  return out;
}

// Gradients only use the sum of the parts of log_sums: its cotangent is that of either part.
Tensor to_log_sum(const Tensor& to_parts) { return Composed::part(to_parts, 1); }
// sum(g result) for each query; minus the cotangent of its log_sum, that is delta: the second half of softmax's
// gradient.
Tensor sum_of_products(const Tensor& g, const Tensor& result, DType wide) {
  return sum(astype(g, wide) * astype(result, wide), Axes(-1), true);
}

extern const Op attention_grad_op, self_attention_grad_op;

Tensors attention_vjp(const VjpArgs& args) {
  const bool masked = args.in.size() > 3;
  const Tensor &g = args.cotangent[0], &to_sums = args.cotangent[1];
  const Tensor delta = sum_of_products(g, args.out[0], to_sums.dtype()) - to_log_sum(to_sums);
  SmallVec<const Tensor*, 8> operands{&args.in[0], &args.in[1], &args.in[2], &args.out[1], &delta, &g};
  if (masked) operands.push_back(&args.in[3]);
  Tensors out = apply(attention_grad_op, Operands(operands.data(), operands.size()), args.attrs, Where::current());
  if (!masked) return out;
  if (args.in[3].dtype() == DType::boolean || !args.needs(3)) {
    out.push_back(Tensor());
  } else {
    const Composed x(args.attrs.as<AttentionParams>(), args.in[0], args.in[1], args.in[2], args.out[1], delta, g,
                     args.in[3]);
    out.push_back(astype(x.probability * x.difference, args.in[3].dtype()));
  }
  return out;
}

// Swaps the axes of [..., tokens, heads, d] and [..., heads, tokens, d].
Tensor heads_swapped(const Tensor& t) { return swapaxes(t, -2, -3); }
// Part 0, 1 or 2 of qkv, [..., heads, tokens, d].
Tensor part_of(const Tensor& qkv, int64_t i) { return heads_swapped(squeeze(slice_axis(qkv, -3, i, i + 1), Axes(-3))); }

Tensors self_attention_vjp(const VjpArgs& args) {
  const Tensor &g = args.cotangent[0], &to_sums = args.cotangent[1];
  const Tensor delta = heads_swapped(sum_of_products(g, args.out[0], to_sums.dtype())) - to_log_sum(to_sums);
  return {apply1(self_attention_grad_op, {&args.in[0], &args.out[1], &delta, &g}, args.attrs, Where::current())};
}

Tensor joined(const Tensor& q, const Tensor& k, const Tensor& v) {
  return stack({heads_swapped(q), heads_swapped(k), heads_swapped(v)}, -3);
}

// By the rule of attention_grad.
Tensors self_attention_grad_vjp(const VjpArgs& args) {
  const Tensor &x = args.in[0], &c = args.cotangent[0];
  const Tensor in[] = {part_of(x, 0), part_of(x, 1), part_of(x, 2), args.in[1], args.in[2], heads_swapped(args.in[3])};
  const Tensor cotangent[] = {part_of(c, 0), part_of(c, 1), part_of(c, 2)};
  const Tensors r = attention_grad_vjp({args.op, args.attrs, in, {}, cotangent});
  return {joined(r[0], r[1], r[2]), r[3], r[4], heads_swapped(r[5])};
}

// --- Samples ---------------------------------------------------------------------------------------------------------

using samples::uniform;

struct Sizes {
  Shape q, k, v;
};
std::vector<Sizes> sizes() {
  return {{{5, 4}, {5, 4}, {5, 4}},
          {{2, 3, 7, 4}, {2, 3, 7, 4}, {2, 3, 7, 5}},
          {{2, 4, 3, 2}, {2, 2, 6, 2}, {2, 2, 6, 3}},  // grouped heads
          {{1, 67, 8}, {1, 70, 8}, {1, 70, 8}},        // more than a tile
          {{2, 0, 3}, {2, 4, 3}, {2, 4, 3}},
          {{2, 3, 3}, {2, 0, 3}, {2, 0, 3}}};
}
Shape scores_shape(const Sizes& s) { return with_last(s.q, s.k[s.k.size() - 2]); }
// Masks every third key, and all keys for every fifth query.
Tensor hidden(const Shape& shape) {
  std::vector<double> is_visible;
  const int64_t keys = shape.back();
  for (int64_t i = 0; i < shape.numel(); ++i) is_visible.push_back(i % keys % 3 != 1 && i / keys % 5 != 3);
  return samples::values(is_visible, shape, DType::boolean);
}

std::vector<Sample> with_masks(std::vector<Tensor> (*inputs)(const Sizes&)) {
  std::vector<Sample> all;
  int n = 0;
  for (const Sizes& s : sizes()) {
    std::vector<Tensor> in = inputs(s);
    all.push_back({in, AttentionParams{0.5, n++ % 2 == 0}});
    in.push_back(n % 2 ? hidden(scores_shape(s)) : uniform(scores_shape(s), -2, 2, 7));
    all.push_back({in, AttentionParams{0.7, n % 3 == 0}});
  }
  return all;
}

std::vector<Sample> attention_samples() {
  return with_masks(
      [](const Sizes& s) { return std::vector<Tensor>{uniform(s.q), uniform(s.k, -2, 2, 2), uniform(s.v, -2, 2, 3)}; });
}
std::vector<Sample> attention_grad_samples() {
  return with_masks([](const Sizes& s) {
    return std::vector<Tensor>{uniform(s.q),
                               uniform(s.k, -2, 2, 2),
                               uniform(s.v, -2, 2, 3),
                               uniform(with_last(s.q, 2), 1, 1.5, 4),
                               uniform(with_last(s.q, 1), -1, 1, 5),
                               uniform(with_last(s.q, s.v.back()), -1, 1, 6)};
  });
}
std::vector<Shape> joined_sizes() { return {{5, 3, 2, 4}, {2, 7, 3, 1, 3}, {70, 3, 2, 8}, {0, 3, 2, 2}}; }
std::vector<Sample> self_attention_samples() {
  std::vector<Sample> all;
  for (const Shape& s : joined_sizes()) all.push_back({{uniform(s)}, AttentionParams{0.6, all.size() % 2 == 0}});
  return all;
}
std::vector<Sample> self_attention_grad_samples() {
  std::vector<Sample> all;
  for (const Shape& s : joined_sizes()) {
    Shape result = s, sums = s;
    result.erase(s.size() - 3);
    sums = result;
    std::swap(sums[sums.size() - 3], sums[sums.size() - 2]);
    all.push_back({{uniform(s), uniform(with_last(sums, 2), 1, 1.5, 4), uniform(with_last(sums, 1), -1, 1, 5),
                    uniform(result, -1, 1, 6)},
                   AttentionParams{0.6, all.size() % 2 == 0}});
  }
  return all;
}

// --- Records ---------------------------------------------------------------------------------------------------------

constexpr std::string_view parts_of_log_sum = "the two parts of log_sums have a derivative as a sum only";

const Op attention_op({
    .name = "attention",
    .doc = "softmax(scale q k^T + mask) v over the keys, and log(sum(exp(scores))) of each query, as max(scores) and "
           "the rest; operands q, k, v[, mask]",
    .inputs = -1,
    .outputs = 2,
    .infer = infer_attention,
    .vjp = attention_vjp,
    .saves_in = save_all,
    .saves_out = save_all,
    .batch = batch_rows,
    .cpu = cpu::attention,
    .ref = ref::attention,
    .samples = attention_samples,
    .norm_tolerance = 6,
    .no_finite_difference = parts_of_log_sum,
});

const Op attention_grad_op({
    .name = "attention_grad",
    .doc = "gradients of attention for q, k, v, from q, k, v, log_sums, delta and the cotangent[, mask]: with P = "
           "exp(scores - log_sums), D = P (g v^T - delta): scale D k, scale D^T q, P^T g",
    .inputs = -1,
    .outputs = 3,
    .infer = infer_attention_grad,
    .vjp = attention_grad_vjp,
    .saves_in = save_all,
    .batch = batch_rows,
    .cpu = cpu::attention_grad,
    .ref = ref::attention_grad,
    .samples = attention_grad_samples,
    .norm_tolerance = 10,
});

const Op self_attention_op({
    .name = "self_attention",
    .doc =
        "attention of q, k and v joined as [..., tokens, 3, heads, d], and log(sum(exp(scores))) of each query in two "
        "parts",
    .outputs = 2,
    .infer = infer_self_attention,
    .vjp = self_attention_vjp,
    .saves_in = save_all,
    .saves_out = save_all,
    .batch = batch_rows,
    .cpu = cpu::self_attention,
    .ref = ref::self_attention,
    .samples = self_attention_samples,
    .norm_tolerance = 6,
    .no_finite_difference = parts_of_log_sum,
});

const Op self_attention_grad_op({
    .name = "self_attention_grad",
    .doc = "the gradient of self_attention, from qkv, log_sums, delta and the cotangent: see attention_grad",
    .inputs = 4,
    .infer = infer_self_attention_grad,
    .vjp = self_attention_grad_vjp,
    .saves_in = save_all,
    .batch = batch_rows,
    .cpu = cpu::self_attention_grad,
    .ref = ref::self_attention_grad,
    .samples = self_attention_grad_samples,
    .norm_tolerance = 10,
});

double scale_for(const std::optional<double>& scale, const Tensor& x) {
  return scale ? *scale : 1 / std::sqrt(double(std::max<int64_t>(1, x.shape().empty() ? Dim(1) : x.shape().back())));
}

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options, Where where) {
  CallerScope caller(where);
  const DType d = to_floating(
      promote(promote(q.dtype(), q.spec().weak, k.dtype(), k.spec().weak), false, v.dtype(), v.spec().weak));
  const Tensor a = astype(q, d), b = astype(k, d), c = astype(v, d);
  const AttentionParams params{scale_for(options.scale, a), options.causal};
  require_finite("attention", "scale", params.scale, where);
  if (!options.mask.defined()) return apply(attention_op, {&a, &b, &c}, params, where)[0];
  const DType m = options.mask.dtype();
  require_option(m == DType::boolean || is_floating(m), "attention", "the mask", name(m), "bool or floating", where);
  Tensor mask = m == DType::boolean ? options.mask : astype(options.mask, d);
  if (a.ndim() >= 2 && b.ndim() >= 2) mask = broadcast_to(mask, with_last(a.shape(), b.dim(-2)));
  return apply(attention_op, {&a, &b, &c, &mask}, params, where)[0];
}

Tensor self_attention(const Tensor& qkv, const SelfAttentionOptions& options, Where where) {
  CallerScope caller(where);
  const Tensor x = astype(qkv, to_floating(qkv.dtype()));
  const AttentionParams params{scale_for(options.scale, x), options.causal};
  require_finite("self_attention", "scale", params.scale, where);
  return apply(self_attention_op, {&x}, params, where)[0];
}

// --- Positions -------------------------------------------------------------------------------------------------------

Tensor rotary(const Tensor& x, const Tensor& positions, const RotaryOptions& o, Where where) {
  const CallerScope caller(where);
  if (x.ndim() < 2) fail("rotary", to_string(x.spec()) + " is not [..., tokens, d]", where);
  const int64_t d = int64_t(x.dim(-1)), n = o.size.value_or(d), half = n / 2;
  require_option(n >= 2 && n <= d && n % 2 == 0, "rotary", "size", n, fmt::format("even and at most {}", d), where);
  // Angles in f64: for large positions, f32 would leave few digits.
  const Tensor rates = pow(tensor(o.base), arange(half, TensorOptions{.dtype = f64}) * (-2. / double(n)));
  const Tensor angles = expand_dims(positions.astype(f64), -1) * rates;
  const Tensor cosine = cos(angles).astype(x.dtype()), sine = sin(angles).astype(x.dtype());
  const Tensor part = n < d ? slice_axis(x, -1, 0, n) : x;
  const Tensor a = o.interleaved ? part(ellipsis, slice(0, none, 2)) : slice_axis(part, -1, 0, half);
  const Tensor b = o.interleaved ? part(ellipsis, slice(1, none, 2)) : slice_axis(part, -1, half, n);
  const Tensor re = a * cosine - b * sine, im = a * sine + b * cosine;
  const Tensor rotated = o.interleaved ? reshape(stack({re, im}, -1), part.shape()) : concat({re, im}, -1);
  return n < d ? concat({rotated, slice_axis(x, -1, n, d)}, -1) : rotated;
}

Tensor alibi_bias(int64_t heads, Dim keys, Where where) {
  const CallerScope caller(where);
  require_option(heads >= 1, "alibi_bias", "heads", heads, "1 or more", where);
  const int64_t power = int64_t(std::bit_floor(uint64_t(heads)));
  std::vector<float> slopes;
  for (int64_t h = 0; h < heads; ++h)  // when the powers of two are used up, those between for twice as many heads
    slopes.push_back(float(h < power ? std::exp2(-8. * double(h + 1) / double(power))
                                     : std::exp2(-4. * double(2 * (h - power) + 1) / double(power))));
  return reshape(tensor(slopes), {heads, 1, 1}) * iota({keys}).astype(f32);
}

Tensor relative_buckets(const Tensor& distance, int64_t buckets, int64_t max_distance, bool bidirectional,
                        Where where) {
  const CallerScope caller(where);
  const int64_t n = bidirectional ? buckets / 2 : buckets, near = n / 2;
  require_option(near >= 1, "relative_buckets", "buckets", buckets, bidirectional ? "4 or more" : "2 or more", where);
  require_option(max_distance > near, "relative_buckets", "max_distance", max_distance,
                 fmt::format("more than {}", near), where);
  const Tensor absolute = bidirectional ? abs(distance) : maximum(negative(distance), 0);
  const Tensor logs = log(maximum(absolute, 1).astype(f32) / float(near)) /
                      float(std::log(double(max_distance) / double(near))) * float(n - near);
  const Tensor far = minimum(near + logs.astype(i64), n - 1);
  const Tensor bucket = rill::where(less(absolute, near), absolute.astype(i64), far);
  return bidirectional ? bucket + greater(distance, 0).astype(i64) * n : bucket;
}

Tensor sinusoids(const Tensor& positions, int64_t width, const SinusoidOptions& o, Where where) {
  const CallerScope caller(where);
  require_option(width >= 1, "sinusoids", "width", width, "1 or more", where);
  require_option(is_floating(o.dtype), "sinusoids", "dtype", name(o.dtype), "floating", where);
  const int64_t sines = (width + 1) / 2;
  const Tensor rates = pow(tensor(o.base), arange(sines, TensorOptions{.dtype = f64}) * (-2. / double(width)));
  const Tensor angles = expand_dims(positions.astype(f64), -1) * rates;
  Shape shape = positions.shape();
  shape.push_back(2 * sines);
  const Tensor all = o.interleaved ? reshape(stack({sin(angles), cos(angles)}, -1), shape)
                                   : concat({sin(angles), slice_axis(cos(angles), -1, 0, width / 2)}, -1);
  return slice_axis(all, -1, 0, width).astype(o.dtype);
}

}  // namespace rill
