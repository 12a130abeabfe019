// Connectionist temporal classification, by the forward algorithm in log space (Graves et al., 2006, section 4.1): for
// the labels with a blank before, between and after them, alpha[s] is the log of the probability of all alignments of
// the steps so far that end at position s. A step comes from the same position, the one before it, or, skipping a blank
// between unequal labels, from the one before that.
#include <fmt/format.h>

#include <limits>

#include "rill/ops/apply.h"
#include "rill/ops/index/from_front.h"
#include "rill/ops/losses.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/tensor/limits.h"

namespace rill {

namespace {

constexpr std::string_view ctc = "ctc_loss";
// Replaces log(0): finite, so that differences of two of them are not NaN, also in gradients; and so large that no
// sum of log probabilities comes near.
constexpr double never = -1e30;

void check(const Tensor& log_p, const Tensor& labels, const Tensor& input_lengths, const Tensor& label_lengths,
           int64_t blank, const Where& where) {
  for (const Tensor* t : {&log_p, &labels, &input_lengths, &label_lengths}) require_operand(ctc, *t, where);
  const auto rejects = [&](std::string_view rule) {
    fail(ctc,
         fmt::format("{}. operands: {}, {}, {}, {}", rule, to_string(log_p.spec()), to_string(labels.spec()),
                     to_string(input_lengths.spec()), to_string(label_lengths.spec())),
         where);
  };
  if (log_p.ndim() != 3 || !is_floating(log_p.dtype()))
    rejects("log probabilities are floating numbers [time, batch, classes]");
  if (log_p.shape()[0] < 1) rejects("there must be one step of time at least");
  const Dim batch = log_p.shape()[1];
  if (labels.ndim() != 2 || labels.shape()[0] != batch || !is_integer(labels.dtype()))
    rejects("labels are integers [batch, length]");
  for (const Tensor* t : {&input_lengths, &label_lengths})
    if (t->shape() != Shape{batch} || !is_integer(t->dtype())) rejects("lengths are integers [batch]");
  require_option(blank >= 0 && blank < log_p.shape()[2], ctc, "blank", blank,
                 fmt::format("a class, in [0, {})", log_p.shape()[2]), where);
  require_few_tensors(ctc, log_p.shape()[0], where);
  const auto within = [&](const Tensor& t, std::string_view what, Dim most) {
    require_elements([&](const Tensor& v) { return all((v >= 0) & (v <= most)); }, ctc,
                     fmt::format("{} must be from 0 to {}", what, most), t, where);
  };
  within(input_lengths, "input lengths", log_p.shape()[0]);
  within(label_lengths, "label lengths", labels.shape()[1]);
}

// alpha shifted by n positions, with `never` before the first.
Tensor shifted(const Tensor& alpha, int64_t n) {
  return slice_axis(pad(alpha, {{}, {n, 0}}, never), 1, 0, alpha.shape()[1]);
}

}  // namespace

Tensor ctc_loss(const Tensor& log_p, const Tensor& labels, const Tensor& input_lengths, const Tensor& label_lengths,
                const CtcOptions& o, Where where) {
  CallerScope caller(where);
  check(log_p, labels, input_lengths, label_lengths, o.blank, where);
  const Tensor x = maximum(to_work(log_p), never), numbers = astype(labels, DType::i64);
  const Dim batch = labels.shape()[0], length = labels.shape()[1], positions = 2 * length + 1;
  const TensorOptions integers{DType::i64, x.device()};
  // The valid labels (others may be anything) with blanks around them, [batch, positions].
  const Tensor counts = arange(length, integers) < expand_dims(astype(label_lengths, DType::i64), 1);
  const Tensor blank_filled = rill::where(counts, from_front(numbers), o.blank),
               gaps = full({batch, length, 1}, o.blank, integers);
  const Tensor path = concat({reshape(concat({gaps, expand_dims(blank_filled, 2)}, 2), {batch, 2 * length}),
                              full({batch, 1}, o.blank, integers)},
                             1);
  const Tensor before = slice_axis(pad(path, {{}, {2, 0}}, -1), 1, 0, positions);
  const Tensor may_skip = (path != o.blank) & (path != before);
  const auto log_probability = [&](int64_t t) { return take_along_axis(x(t), path, 1); };  // [batch, positions]
  const Tensor steps = expand_dims(astype(input_lengths, DType::i64), 1);

  const Tensor none = full({}, never, {x.dtype(), x.device()});
  Tensor alpha = rill::where(arange(positions, integers) < 2, log_probability(0), none);
  for (int64_t t = 1; t < log_p.shape()[0]; ++t) {
    const Tensor from = stack({alpha, shifted(alpha, 1), rill::where(may_skip, shifted(alpha, 2), none)});
    alpha = rill::where(steps > t, maximum(logsumexp(from, 0) + log_probability(t), never), alpha);
  }
  // The last step is at the last label or the blank after it.
  const Tensor last = expand_dims(2 * astype(label_lengths, DType::i64), 1);
  const Tensor at_blank = take_along_axis(alpha, last, 1), at_label = take_along_axis(alpha, maximum(last - 1, 0), 1);
  const Tensor total = logsumexp(concat({at_blank, rill::where(last > 0, at_label, none)}, 1), 1);
  const Tensor nothing = steps == 0;  // matches no labels, and an empty sequence with certainty
  const Tensor impossible = total < 0.5 * never;
  const double otherwise = o.zero_infinity ? 0 : std::numeric_limits<double>::infinity();
  const Tensor loss = rill::where(impossible, otherwise, -total);
  const Tensor of_nothing = rill::where(label_lengths == 0, 0, otherwise);
  return from_work(rill::where(squeeze(nothing, 1), of_nothing, loss), log_p.dtype());
}

}  // namespace rill
