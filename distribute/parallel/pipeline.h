// Pipelines: each rank of a group has a stage of a model, and micro-batches go through them, one after the other.
//
//   distribute::Pipeline pipe({.micro_batches = 8, .group = mesh.group("stage")});
//   auto [loss, gradients] = pipe.gradients(stage, mean_squared_error, variables(stage).values(), x, y);
//   adam.apply_gradients(gradients, variables(stage).values());
//   std::cout << pipe.table();
//
// The result of a stage is sent to the next, and its gradient comes back. The loss and the gradients are those of the
// full batch, each stage's for its own parameters: the mean over the micro-batches, added up in order, and the same
// bits by both schedules and in eager and traced code.
//
//   gpipe   all micro-batches forward, then all back (Huang et al.: GPipe, 2019)
//   1F1B    each stage goes back with one as soon as it can, and so holds no more of them than stages are left behind it
//           (Narayanan et al.: PipeDream, 2019; Megatron-LM, 2021)
#pragma once
#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rill/distribute/session.h"
#include "rill/ops/variable.h"
#include "rill/tensor/callback.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

enum class Schedule : uint8_t { gpipe, one_forward_one_backward };
std::string_view name(Schedule s);  // "GPipe", "1F1B"

// The work of each stage at each tick; a micro-batch takes one tick forward and one back.
struct PipelineTable {
  struct Work {
    enum class Kind : uint8_t { waits, forward, backward };
    Kind kind = Kind::waits;
    int64_t micro_batch = 0;
  };
  Schedule schedule = Schedule::one_forward_one_backward;
  int64_t micro_batches = 1;
  std::vector<std::vector<Work>> stages;  // by stage and tick

  // The number of columns: a stage does one piece of work in each, or waits.
  int64_t ticks() const { return int64_t(stages[0].size()); }
  // The fraction of ticks at which a stage waits: (stages - 1) / (micro_batches + stages - 1).
  double bubbles() const;
  // How many micro-batches a stage holds at most, between their way forward and back.
  int64_t held(int64_t stage) const;
};
// Throws unless both are 1 or more.
PipelineTable pipeline_table(Schedule schedule, int64_t stages, int64_t micro_batches, Where where = Where::current());
// A line a stage: F3 is micro-batch 3 forward, B3 its way back, .. waiting.
std::string to_string(const PipelineTable& table);
std::ostream& operator<<(std::ostream& out, const PipelineTable& table);

struct PipelineOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  int64_t micro_batches = 4;  // equal parts of the batch
  Schedule schedule = Schedule::one_forward_one_backward;
  Group group = {};  // whose ranks are the stages, in order
};

class Pipeline {
 public:
  // Throws if micro_batches is 0, and if this rank is not in the group.
  explicit Pipeline(const PipelineOptions& options = {}, Where where = Where::current());

  // This rank's stage in the group, and the number of stages.
  int64_t stage() const { return stage_; }
  int64_t stages() const { return int64_t(table_.stages.size()); }
  bool is_first() const { return stage_ == 0; }
  bool is_last() const { return stage_ + 1 == stages(); }
  const PipelineTable& table() const& { return table_; }
  PipelineTable table() const&& { return table_; }

  using Stage = Callback<Tensor(const Tensor& x)>;
  using Loss = Callback<Tensor(const Tensor& output, const Tensor& y)>;
  // The loss of the batch, on all stages, and its gradients by this stage's variables, undefined if the loss does not
  // depend on them. `x` [batch, ...] is only read by the first stage, `y` [batch, ...] by the last; `loss` returns the
  // mean over a micro-batch, a number. An optimizer's step of these variables is one of all stages: of its clip_norm, of
  // skip_not_finite and of a loss_scale, with which `loss` gives the scaled loss. Throws if the batch is not a multiple of
  // the micro-batches, stages have different numbers of them, or a stage returns no floating tensor.
  std::pair<Tensor, std::vector<Tensor>> gradients(const Stage& stage, const Loss& loss,
                                                   const std::vector<Variable>& variables, const Tensor& x,
                                                   const Tensor& y, Where where = Where::current()) const;
  // The last stage's result for the batch, on all stages, without gradients.
  Tensor forward(const Stage& stage, const Tensor& x, Where where = Where::current()) const;

 private:
  Tensor from_last(const Tensor& made, const Where& where) const;

  PipelineOptions options_;
  PipelineTable table_;
  int64_t stage_ = 0;
};

}  // namespace rill::distribute

#pragma GCC visibility pop
