// Losses. The two cross entropies of softmax have records: forward reads the logits once and writes three numbers for
// each row, the loss and lse = log(sum(exp(logits))) in two parts, the largest logit and the rest; backward
// recomputes the probabilities from them. (From a single rounded lse, logits with an offset of a million would give
// probabilities with errors of 3 %.) The others are composed.
#include <fmt/format.h>

#include "rill/devices/params/nn_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/elementwise/record_row.h"
#include "rill/ops/neural/loss_operands.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/ops/samples.h"

namespace rill {

namespace {

// --- Shapes ----------------------------------------------------------------------------------------------------------

Shape without_last(const Shape& s) { return Shape(s.begin(), s.end() - 1); }

// Checks logits and labels; returns the spec of one number for each row.
Spec infer_row(const InferArgs& args, bool sparse) {
  if (args[0].shape.empty()) args.reject("logits have no axis of classes");
  Spec row = args[0];
  row.shape = without_last(args[0].shape);
  row.weak = false;
  if (sparse) {
    if (!is_integer(args[1].dtype))
      args.reject("labels are " + std::string(name(args[1].dtype)) +
                  " but must be integers, the numbers of classes. for probabilities use softmax_cross_entropy()");
    if (args[1].shape != row.shape)
      args.reject("labels are of shape " + to_string(args[1].shape) + " but must be of shape " + to_string(row.shape) +
                  ", that of logits without its last axis");
  } else if (args[1].shape != args[0].shape || args[1].dtype != args[0].dtype) {
    args.reject(
        "labels must be of the shape and dtype of logits. for numbers of classes use "
        "sparse_softmax_cross_entropy()");
  }
  return row;
}

template <bool sparse>
OutSpecs infer_loss(const InferArgs& args) {
  const Spec row = infer_row(args, sparse);
  return {row, row, row};
}

// logits, labels, top, lse - top, and the cotangents of loss and lse
template <bool sparse>
OutSpecs infer_loss_grad(const InferArgs& args) {
  const Spec row = infer_row(args, sparse);
  for (int i = 2; i < 6; ++i)
    if (args[i].shape != row.shape || args[i].dtype != row.dtype)
      args.reject("operand " + std::to_string(i) + " must be " + to_string(row));
  Spec out = args[0];
  out.weak = false;
  return {out};
}

// --- Gradients -------------------------------------------------------------------------------------------------------

Tensor column(const Tensor& t) { return expand_dims(t, -1); }
Tensor row_sum(const Tensor& t) { return sum(t, -1); }

extern const Op dense_grad_op, sparse_grad_op;

// log p = x - lse, with lse in two parts.
Tensor log_probability(const Tensor& x, const Tensor& top, const Tensor& rest) {
  return (x - column(top)) - column(rest);
}

// The gradients below only use the sum of the parts of lse: its cotangent is that of either part.
template <const Op& grad_op>
Tensor to_logits(const VjpArgs& a) {
  return apply1(grad_op, {&a.in[0], &a.in[1], &a.out[1], &a.out[2], &a.cotangent[0], &a.cotangent[2]}, a.attrs,
                Where::current());
}
Tensors dense_vjp(const VjpArgs& a) {
  Tensor to_labels;
  if (a.needs(1)) to_labels = multiply_no_nan(-log_probability(a.in[0], a.out[1], a.out[2]), column(a.cotangent[0]));
  return {to_logits<dense_grad_op>(a), to_labels};
}
Tensors sparse_vjp(const VjpArgs& a) { return {to_logits<sparse_grad_op>(a), Tensor()}; }

// The rule of dx = (g sum(labels) + l) p - g labels, where p = exp(x - lse) and l is the cotangent of lse.
Tensors dense_grad_vjp(const VjpArgs& a) {
  const Tensor &x = a.in[0], &labels = a.in[1], &g = a.in[4], &l = a.in[5], &c = a.cotangent[0];
  const Tensor mass = row_sum(labels), cp = multiply_no_nan(exp(log_probability(x, a.in[2], a.in[3])), c);
  const Tensor cp_sum = row_sum(cp), to_x = multiply_no_nan(cp, column(g * mass + l)), to_lse = -row_sum(to_x);
  return {to_x, column(g) * (column(cp_sum) - c), to_lse, to_lse, mass * cp_sum - row_sum(c * labels), cp_sum};
}

// The rule of dx = (g + l) p - g onehot(labels).
Tensors sparse_grad_vjp(const VjpArgs& a) {
  const Tensor &x = a.in[0], &labels = a.in[1], &g = a.in[4], &l = a.in[5], &c = a.cotangent[0];
  const Tensor cp = multiply_no_nan(exp(log_probability(x, a.in[2], a.in[3])), c), cp_sum = row_sum(cp);
  const Tensor to_x = multiply_no_nan(cp, column(g + l)), to_lse = -row_sum(to_x);
  const Tensor chosen = squeeze(take_along_axis(c, column(labels), -1), -1);
  return {to_x, Tensor(), to_lse, to_lse, cp_sum - chosen, cp_sum};
}

// --- Samples ---------------------------------------------------------------------------------------------------------

std::vector<Sample> dense_samples() {
  auto sample = [](const Shape& shape) {
    return Sample{{samples::uniform(shape, -4, 4), samples::uniform(shape, 0, 0.5, 2)}, {}};
  };
  return {sample({4, 5}), sample({2, 3, 7}), sample({33}), sample({3, 1}), sample({0, 4})};
}
std::vector<Sample> sparse_samples() {
  auto sample = [](const Shape& shape, DType dtype) {
    return Sample{{samples::uniform(shape, -4, 4), samples::integers(without_last(shape), 0, shape.back(), dtype)}, {}};
  };
  return {sample({4, 5}, DType::i64), sample({2, 3, 7}, DType::u8), sample({33}, DType::i32),
          sample({3, 1}, DType::i64), sample({0, 4}, DType::i64)};
}
std::vector<Sample> with_cotangents(std::vector<Sample> samples) {
  for (Sample& s : samples) {
    const Shape rows = without_last(s.in[0].shape());
    s.in.push_back(samples::uniform(rows, 3, 5, 3));
    s.in.push_back(samples::uniform(rows, 0, 1, 6));
    s.in.push_back(samples::uniform(rows, -1, 1, 4));
    s.in.push_back(samples::uniform(rows, -1, 1, 5));
  }
  return samples;
}

// --- Records ---------------------------------------------------------------------------------------------------------

// What the four records share.
OpSpec loss(OpSpec s) {
  s.dtypes = one_of({DType::f32, DType::f64});
  s.wants_contiguous = true;
  s.row_rank = [](const Spec&, AttrsView) { return 1; };
  s.norm_tolerance = 2;
  return s;
}

constexpr std::string_view parts_of_lse = "the two parts of lse have a derivative as a sum only";

const Op dense_op(loss({
    .name = "softmax_cross_entropy",
    .doc = "sum_i labels_i (lse - logits_i) over the last axis, where lse = log(sum_i exp(logits_i)); outputs the "
           "loss, top = max(logits), and lse - top",
    .inputs = 2,
    .outputs = 3,
    .infer = infer_loss<false>,
    .vjp = dense_vjp,
    .saves_in = save(0) | save(1),
    .saves_out = save(1) | save(2),
    .batch = batch_rows,
    .cpu = cpu::softmax_cross_entropy,
    .ref = ref::softmax_cross_entropy,
    .record_row = record_row<HWY_NAMESPACE::DenseEntropyRow>,
    .samples = dense_samples,
    .no_finite_difference = parts_of_lse,
    .exported = {"", "SoftmaxCrossEntropyWithLogits"},
}));

const Op dense_grad_op(loss({
    .name = "softmax_cross_entropy_grad",
    .doc = "(g sum(labels) + l) exp(logits - lse) - g labels, for the cotangents g of the loss and l of lse",
    .inputs = 6,
    .infer = infer_loss_grad<false>,
    .vjp = dense_grad_vjp,
    .saves_in = save_all,
    .batch = batch_rows,
    .cpu = cpu::softmax_cross_entropy_grad,
    .ref = ref::softmax_cross_entropy_grad,
    .record_row = record_row<HWY_NAMESPACE::DenseEntropyGradRow>,
    .row_numbers = save(2) | save(3) | save(4) | save(5),
    .samples = [] { return with_cotangents(dense_samples()); },
}));

const Op sparse_op(loss({
    .name = "sparse_softmax_cross_entropy",
    .doc = "lse - logits[label] over the last axis, where lse = log(sum_i exp(logits_i)); outputs the loss, top = "
           "max(logits), and lse - top",
    .inputs = 2,
    .outputs = 3,
    .infer = infer_loss<true>,
    .vjp = sparse_vjp,
    .saves_in = save(0) | save(1),
    .saves_out = save(1) | save(2),
    .batch = batch_rows,
    .cpu = cpu::sparse_softmax_cross_entropy,
    .ref = ref::sparse_softmax_cross_entropy,
    .record_row = record_row<HWY_NAMESPACE::SparseEntropyRow>,
    .row_numbers = save(1),
    .row_label = 1,
    .samples = sparse_samples,
    .no_finite_difference = parts_of_lse,
    .exported = {"SoftmaxCrossEntropyLoss", "SparseSoftmaxCrossEntropyWithLogits"},
}));

const Op sparse_grad_op(loss({
    .name = "sparse_softmax_cross_entropy_grad",
    .doc = "(g + l) exp(logits - lse), less g at the label, for the cotangents g of the loss and l of lse",
    .inputs = 6,
    .infer = infer_loss_grad<true>,
    .vjp = sparse_grad_vjp,
    .saves_in = save_all,
    .batch = batch_rows,
    .cpu = cpu::sparse_softmax_cross_entropy_grad,
    .ref = ref::sparse_softmax_cross_entropy_grad,
    .record_row = record_row<HWY_NAMESPACE::SparseEntropyGradRow>,
    .row_numbers = save(1) | save(2) | save(3) | save(4) | save(5),
    .row_label = 1,
    .samples = [] { return with_cotangents(sparse_samples()); },
}));

// The dtype in which a loss is computed: f64 for f64, f32 for all others.
DType wide_dtype(const Tensor& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }

// A result that was computed for halves, rounded to them.
Tensor rounded(const Tensor& y, DType result) { return is_floating(result) ? astype(y, result) : y; }

// prediction - target, in the dtype in which losses are computed. Throws unless their shapes are equal: broadcasting
// {n} against {n, 1} is the classic way to train on n * n errors by mistake.
Tensor error_of(const Tensor& prediction, const Tensor& target, std::string_view op, const Where& where) {
  require_operand(op, prediction, where);
  require_operand(op, target, where);
  if (prediction.shape() != target.shape())
    fail(op,
         "prediction is of shape " + to_string(prediction.shape()) + " and target of shape " +
             to_string(target.shape()) + ". both must have one shape (see reshape())",
         where);
  for (const Tensor* t : {&prediction, &target}) reject_float8(op, *t, where);
  const DType work = floating_dtypes(prediction, target).work;
  return astype(prediction, work) - astype(target, work);
}

}  // namespace

Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, Where where) {
  CallerScope caller(where);
  for (const Tensor* t : {&logits, &labels}) reject_float8("softmax_cross_entropy", *t, where);
  const DType wide = wide_dtype(logits);
  const Tensor x = astype(logits, wide, where), y = astype(labels, wide, where);
  return astype(apply(dense_op, {&x, &y}, {}, where)[0], to_floating(logits.dtype()), where);
}

Tensor sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels, Where where) {
  CallerScope caller(where);
  reject_float8("sparse_softmax_cross_entropy", logits, where);
  const Tensor x = astype(logits, wide_dtype(logits), where);
  return astype(apply(sparse_op, {&x, &labels}, {}, where)[0], to_floating(logits.dtype()), where);
}

// |x| (1 - y or y) + log(1 + exp(-|x|)): both terms are positive, so that nothing cancels, also in the gradient with
// respect to the labels, -x; and both branches are smooth at 0, so that the gradient there is accurate as well.
Tensor sigmoid_cross_entropy(const Tensor& logits, const Tensor& labels, Where where) {
  CallerScope caller(where);
  require_operand("sigmoid_cross_entropy", logits, where);
  require_operand("sigmoid_cross_entropy", labels, where);
  for (const Tensor* t : {&logits, &labels}) reject_float8("sigmoid_cross_entropy", *t, where);
  reject_pairs("sigmoid_cross_entropy", {&logits, &labels}, where);
  const auto [result, work] = floating_dtypes(logits);
  const Tensor x = astype(logits, work), y = astype(labels, work);
  const Tensor positive = x > 0, magnitude = rill::where(positive, x, -x);
  return rounded(multiply_no_nan(magnitude, rill::where(positive, 1 - y, y)) + softplus(-magnitude), result);
}

Tensor mean_squared_error(const Tensor& prediction, const Tensor& target, Where where) {
  CallerScope caller(where);
  const Tensor error = error_of(prediction, target, "mean_squared_error", where);
  return rounded(mean(square(error)), floating_dtypes(prediction, target).result);
}

Tensor mean_absolute_error(const Tensor& prediction, const Tensor& target, Where where) {
  CallerScope caller(where);
  const Tensor error = error_of(prediction, target, "mean_absolute_error", where);
  return rounded(mean(abs(error)), floating_dtypes(prediction, target).result);
}

Tensor huber_loss(const Tensor& prediction, const Tensor& target, double delta, Where where) {
  CallerScope caller(where);
  if (!(delta > 0)) fail("huber_loss", fmt::format("delta is {} but must be positive", delta), where);
  // The second derivative of abs(error) would be 0 where the error is 0.
  const Tensor error = error_of(prediction, target, "huber_loss", where), inside = clip(error, -delta, delta);
  return rounded(inside * (error - 0.5 * inside), floating_dtypes(prediction, target).result);
}

Tensor hinge_loss(const Tensor& prediction, const Tensor& labels, Where where) {
  CallerScope caller(where);
  require_operand("hinge_loss", prediction, where);
  require_operand("hinge_loss", labels, where);
  reject_pairs("hinge_loss", {&prediction, &labels}, where);
  const auto [result, work] = floating_dtypes(prediction, labels);
  return rounded(relu(1 - astype(labels, work) * astype(prediction, work)), result);
}

Tensor kl_divergence(const Tensor& p, const Tensor& log_q, Where where) {
  CallerScope caller(where);
  require_operand("kl_divergence", p, where);
  require_operand("kl_divergence", log_q, where);
  reject_pairs("kl_divergence", {&p, &log_q}, where, 1);
  const auto [result, work] = floating_dtypes(p, log_q);
  const Tensor x = astype(p, work);
  return rounded(sum(xlogy(x, x) - multiply_no_nan(astype(log_q, work), x), -1), result);
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, Axis axis, Where where) {
  CallerScope caller(where);
  const std::vector<Tensor> both = broadcast_arrays({a, b});
  const int64_t along = normal_axis(axis, both[0], "cosine_similarity", where);
  return from_work(sum(unit_vectors(both[0], along) * unit_vectors(both[1], along), along),
                   promote(a.dtype(), b.dtype()));
}

}  // namespace rill
