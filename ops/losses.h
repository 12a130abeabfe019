// More losses than those of nn_ops.h, under torch's names: of labels, of margins, of distributions, of sequences.
// Included by rill.h. Composed of public functions (neural/margin_losses.cpp, ctc_loss.cpp), so that they have
// derivatives of any order.
//
// Each gives a loss an element or an example, to take the mean() of. Classes are on the last axis. Operands broadcast
// where nothing else is said; integers and bools become f32; f16 and bf16 are computed in f32 and rounded once.
#pragma once
#include <optional>

#include "rill/ops/nn_ops.h"
#include "rill/ops/reductions.h"
#include "rill/tensor/callback.h"

#pragma GCC visibility push(default)

namespace rill {

// --- Of regression, element by element (margin_losses.cpp) -----------------------------------------------------------

// e^2 / (2 beta) where |e| < beta, else |e| - beta / 2, for the error e: huber_loss(..., beta) / beta. beta 0 gives
// |e|. Throws where shapes differ or beta < 0.
Tensor smooth_l1_loss(const Tensor& prediction, const Tensor& target, double beta = 1.0,
                      Where where = Where::current());
struct GaussianNllOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool full = false;      // with the constant log(2 pi) / 2
  double epsilon = 1e-6;  // the least variance: less counts as that, with the gradient 0
};
// (log(variance) + e^2 / variance) / 2: minus the log of the density of the target under a normal distribution with
// mean `prediction`.
Tensor gaussian_nll_loss(const Tensor& prediction, const Tensor& target, const Tensor& variance,
                         const GaussianNllOptions& options = {}, Where where = Where::current());
struct PoissonNllOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool log_input = true;  // `prediction` is the log of the rate
  bool full = false;      // with Stirling's approximation of log(target!), for targets above 1
  double epsilon = 1e-8;  // added to the rate where its log is taken
};
// exp(prediction) - target * prediction, or of the rate itself rate - target log(rate + epsilon): minus the log of the
// probability of `target` under a Poisson distribution, but for its constant.
Tensor poisson_nll_loss(const Tensor& prediction, const Tensor& target, const PoissonNllOptions& options = {},
                        Where where = Where::current());

// --- Of classes (margin_losses.cpp) ----------------------------------------------------------------------------------

// -(labels log(p) + (1 - labels) log(1 - p)), for probabilities p; logs are taken to be -100 at least, and
// their slopes 1e12 at most. Probabilities outside [0, 1] are not checked: the log of one above 1 is positive (p = 2 with
// label 1 gives -0.69), and that of a negative number NaN. From logits sigmoid_cross_entropy() is more exact.
Tensor binary_cross_entropy(const Tensor& p, const Tensor& labels, Where where = Where::current());
struct NllOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<Tensor> weights = {};   // of the classes
  std::optional<int64_t> ignored = {};  // a label, in [0, classes) or not, whose loss is 0
};
// -log_p[label] * weights[label], of log probabilities [..., classes] and integers [...]. From logits
// sparse_softmax_cross_entropy() is faster. Throws where a label is out of bounds.
Tensor nll_loss(const Tensor& log_p, const Tensor& labels, const NllOptions& options = {},
                Where where = Where::current());
// log(1 + exp(-labels * prediction)), element by element, for labels of -1 and 1.
Tensor soft_margin_loss(const Tensor& prediction, const Tensor& labels, Where where = Where::current());
struct MultiMarginOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int p = 1;  // or 2
  double margin = 1;
  std::optional<Tensor> weights = {};  // of the classes
};
// The sum over the wrong classes i of max(0, margin - x[label] + x[i])^p, times the label's weight, over the number of
// classes: of x [..., classes] and integers [...].
Tensor multi_margin_loss(const Tensor& x, const Tensor& labels, const MultiMarginOptions& options = {},
                         Where where = Where::current());
// The same where an example has several labels, integers [..., classes]: those before the first -1. The sum over the
// labels j and the other classes i of max(0, 1 - x[j] + x[i]), over the number of classes.
Tensor multilabel_margin_loss(const Tensor& x, const Tensor& labels, Where where = Where::current());
// The mean over the classes of sigmoid_cross_entropy() times `weights`, of logits and labels [..., classes] in [0, 1].
Tensor multilabel_soft_margin_loss(const Tensor& logits, const Tensor& labels,
                                   const std::optional<Tensor>& weights = {}, Where where = Where::current());

// --- Of likeness (margin_losses.cpp) ---------------------------------------------------------------------------------

// x where the label is 1, max(0, margin - x) where it is -1, for distances x.
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& labels, double margin = 1, Where where = Where::current());
// max(0, margin - labels * (a - b)): a is to be the larger where the label is 1, b where it is -1.
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& labels, double margin = 0,
                           Where where = Where::current());
// 1 - cosine_similarity(a, b) where the label is 1, max(0, cosine_similarity(a, b) - margin) where it is -1: of vectors
// [..., d] and labels [...].
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& labels, double margin = 0,
                             Where where = Where::current());
struct TripletMarginOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double margin = 1;
  double p = 2, epsilon = 1e-6;  // of pairwise_distance()
  bool swap = false;             // the negative's distance from the positive counts where it is less
  Callback<Tensor(const Tensor&, const Tensor&)> distance = {};  // instead of pairwise_distance()
};
// max(0, d(anchor, positive) - d(anchor, negative) + margin), of vectors [..., d]. Throws where margin is not positive.
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options = {}, Where where = Where::current());

// --- Of sequences (ctc_loss.cpp) -------------------------------------------------------------------------------------

struct CtcOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t blank = 0;           // the class that stands for no label
  bool zero_infinity = false;  // examples that no alignment fits have the loss 0, not infinity
};
// Connectionist temporal classification: -log of the sum of the probabilities of all alignments of `labels`, integers
// [batch, length], with the classes' log probabilities [time, batch, classes] (Graves et al., 2006); [batch]. Of each
// example input_lengths steps and label_lengths labels count (integers [batch]). In log space; time is unrolled, so
// that inside `function` the graph grows with it. The gradient of an infinite loss is 0.
Tensor ctc_loss(const Tensor& log_p, const Tensor& labels, const Tensor& input_lengths, const Tensor& label_lengths,
                const CtcOptions& options = {}, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
