// See pipeline.h.
#include "rill/data/pipeline.h"

#include <fmt/format.h>

#include "rill/ops/enclosing_trace.h"
#include "rill/ops/scopes.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::data {

namespace {
constexpr std::string_view magic = "rill pipeline 1\n";

// The stages' names, by which a state is known to be another pipeline's. Sizes and lines may have changed.
std::string names_of(const Stage& stage) {
  std::string names = stage.name();
  for (const StagePtr& input : stage.inputs()) names += fmt::format("({})", names_of(*input));
  return names;
}
}  // namespace

Pipeline::Pipeline(StagePtr stage, const IteratorOptions& options, const Where& where)
    : stage_(std::move(stage)), options_(options), forks_(fork_count()) {
  const CallerScope caller(where);
  cursor_ = stage_->open({.epoch = options.epoch});
}

Item Pipeline::next(const Where& where) {
  if (!executing_eagerly())
    fail("Iterator.next",
         "the elements of a dataset would be constants of the trace. go through the dataset outside of the traced "
         "function, and give it the elements",
         where);
  if (forks_ != fork_count())
    fail("Iterator.next",
         "this iterator was made before fork(): its threads are in the other process. make one in this process, and "
         "restore() the other one's state",
         where);
  return cursor_->next();
}

std::string Pipeline::save(const Where&) const {
  StateWriter w;
  w.bytes = magic;
  w.text(names_of(*stage_));
  w.number(int64_t(options_.epoch));
  cursor_->save(w);
  return std::move(w.bytes);
}

void Pipeline::restore(std::string_view state, const Where& where) {
  const CallerScope caller(where);
  if (!state.starts_with(magic)) fail("Iterator.restore", "these bytes are no state that save() gave", where);
  StateReader r(state.substr(magic.size()));
  const std::string_view of = r.text();
  if (const std::string own = names_of(*stage_); of != own)
    fail("Iterator.restore", fmt::format("the state is one of another pipeline, {}. this one is {}", of, own), where);
  options_.epoch = uint64_t(r.number());
  CursorPtr fresh = stage_->open({.epoch = options_.epoch});  // where it throws, nothing has changed
  fresh->restore(r);
  if (!r.at_end()) fail("Iterator.restore", "the state is longer than that of this pipeline", where);
  cursor_ = std::move(fresh);
}

}  // namespace rill::data
