// Data parallel training: each rank has the full model and a part of the batch.
//
//   distribute::broadcast(model);           // all begin with rank 0's parameters
//   ...
//   distribute::GradientTape tape;          // whose gradients are means over the ranks
//   Tensor loss = mean_squared_error(model(x), y);
//   adam.minimize(loss, tape, model.parameters());
//
// The bits are equal on all ranks, which get the same gradients and so stay equal (is_same(model) checks it); and
// between two runs on the same number of ranks, eager or traced. They differ on another number of ranks, whose mean
// over a batch is added up in other pieces; gradients_of_parts() avoids that too. If the ranks' parts of a batch differ
// in length, the mean of their means is not the mean of the batch.
#pragma once
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "rill/autodiff/gradient_hook.h"
#include "rill/distribute/collectives.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

struct TapeOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  bool persistent = false;                   // as in rill::TapeOptions
  bool watch_variables = true;               // likewise
  int64_t bucket_bytes = int64_t(16) << 20;  // about so much is averaged at once: many small gradients as one
  // Gradients of tables stay the rows that were looked up, of all ranks. Each must look up equally many. Otherwise they
  // become tensors.
  bool rows = false;
  // Gradients of f32 and f64 are sent as this, f16 or bf16, in half the bytes: each rank's are rounded once, added up
  // in f32, and the mean is rounded again.
  std::optional<DType> compress = {};
  Group group = {};  // the ranks that the mean is over
};

// A tape whose gradients, from any of its functions, are means over the ranks. All of them must call it. A bucket is
// sent as soon as the walk back has found its gradients, while the walk continues; in a traced step too.
class GradientTape : public rill::GradientTape {
 public:
  [[nodiscard]] explicit GradientTape(const TapeOptions& options = {}, Where where = Where::current());

 private:
  GradientHook hook_;
};

// Makes the gradients of a plain tape means over the ranks, while it lives: GradientHook hook(tape, averaging()).
GradientHook::What averaging(const TapeOptions& options = {}, Where where = Where::current());

// The means of gradients that this rank has computed otherwise; undefined ones stay so.
std::vector<Tensor> mean_of_gradients(const std::vector<Tensor>& gradients, const TapeOptions& options = {},
                                      Where where = Where::current());

namespace detail {
struct Parts {
  Tensor loss;
  std::vector<Tensor> gradients;
};
Parts sum_of_parts(int64_t parts, const Callback<Parts(int64_t first, int64_t count)>& part, int64_t rows,
                   const Group& group, const Where& where);
}  // namespace detail

struct PartsOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  Group group = {};
};

// The loss and its gradients by `variables`, as means over `parts` equal parts of the batch of all ranks: the same bits
// on every number of ranks that divides `parts`, both powers of two, for the same batch in the same order. Each rank
// has an equal portion of the batch, x and y (and more), along their first axes; f(x, y) returns the loss of some rows,
// and is called for each part. The parts' results are added up in the order of a binary tree.
//
//   auto [loss, gradients] = distribute::gradients_of_parts(8, model.parameters(), f, x, y);
//   adam.apply_gradients(gradients, model.parameters());
//
// This holds if f depends only on its rows and the variables. A random draw without a key for the rows, and statistics
// over a batch (BatchNorm), are those of the part. On processors of different kinds kernels may round differently.
template <class F, class... X>
std::pair<Tensor, std::vector<Tensor>> gradients_of_parts(int64_t parts, const std::vector<Variable>& variables, F&& f,
                                                          const X&... x);

// --- How -------------------------------------------------------------------------------------------------------------

template <class F, class... X>
std::pair<Tensor, std::vector<Tensor>> gradients_of_parts(int64_t parts, const std::vector<Variable>& variables, F&& f,
                                                          const X&... x) {
  static_assert(sizeof...(X) > 0, "gradients_of_parts(parts, variables, f, x...): there is no batch to cut");
  const int64_t rows = [](const Tensor& first, const auto&...) { return int64_t(first.dim(0)); }(x...);
  const auto part = [&](int64_t from, int64_t to) {
    rill::GradientTape tape;
    const Tensor loss = f(Tensor(x)(slice(from, to))...);
    return detail::Parts{loss, tape.gradient(loss, variables)};
  };
  detail::Parts sum = detail::sum_of_parts(parts, part, rows, Group(), Where::current());
  return {std::move(sum.loss), std::move(sum.gradients)};
}

}  // namespace rill::distribute

#pragma GCC visibility pop
