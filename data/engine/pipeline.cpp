// See pipeline.h.
#include "rill/data/pipeline.h"

#include <fmt/format.h>

#include "rill/data/engine/stats.h"
#include "rill/ops/creation.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/scopes.h"
#include "rill/ops/state/variable_state.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::data {

namespace {
constexpr std::string_view magic = "rill pipeline 2\n";

// A checksum that detects damaged states.
constexpr size_t sum_size = 8;
std::string sum_of(std::string_view bytes) {
  uint64_t h = bytes.size();
  for (const char c : bytes) h = mixed(h ^ uint8_t(c));
  std::string sum;
  for (size_t i = 0; i < sum_size; ++i) sum += char(h >> 8 * i);
  return sum;
}
}  // namespace

Pipeline::Pipeline(StagePtr stage, const IteratorOptions& options, const Where& where)
    : stage_(std::move(stage)), options_(options), forks_(fork_count()) {
  const CallerScope caller(where, "Dataset.iterator");
  if (stage_->draws()) seed_ = drawn_seed();
  if (options.stats || options.spans) stats_ = std::make_unique<Stats>(*stage_, options.spans);
  cursor_ = open();
}
Pipeline::~Pipeline() { leave_to_parent(); }
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&& other) noexcept {
  leave_to_parent();
  cursor_ = std::move(other.cursor_);
  stats_ = std::move(other.stats_), stage_ = std::move(other.stage_);
  options_ = other.options_, seed_ = other.seed_, forks_ = other.forks_;
  variable_ = std::move(other.variable_), written_ = std::move(other.written_);
  return *this;
}

CursorPtr Pipeline::open() const {
  return stage_->begin({.epoch = options_.epoch, .seed = seed_, .stats = stats_.get()});
}

bool Pipeline::is_of_parent() const { return forks_ != fork_count(); }
void Pipeline::leave_to_parent() {
  if (cursor_ && is_of_parent()) (void)cursor_.release();
  forks_ = fork_count();
}
void Pipeline::require_cursor(std::string_view op, const Where& where) const {
  if (!cursor_) [[unlikely]]
    fail(op, "the iterator was moved from: another one goes on with the pass. use that one", where);
}
void Pipeline::require_own(std::string_view op, const Where& where) const {
  require_cursor(op, where);
  if (is_of_parent())
    fail(op,
         "this iterator was made before fork(): its threads are in the other process. make one in this process, and "
         "restore() a state that was saved before",
         where);
}

Item Pipeline::next(const Where& where) {
  if (!executing_eagerly())
    fail("Iterator.next",
         "the elements of a dataset would be constants of the trace. go through the dataset outside of the traced "
         "function, and give it the elements",
         where);
  require_own("Iterator.next", where);
  if (variable_) [[unlikely]]
    take_restored(where);
  if (!stats_) [[likely]]
    return cursor_->next();
  const int64_t began = now_ns();
  struct Waited {
    Stats& stats;
    int64_t began;
    ~Waited() { stats.waited(now_ns() - began); }
  } waited{*stats_, began};
  return cursor_->next();
}

PassStats Pipeline::stats(const Where& where) const {
  require_cursor("Iterator.stats", where);
  if (!stats_) fail("Iterator.stats", "nothing was counted: make it by iterator({.stats = true})", where);
  return stats_->read();
}

// A checkpoint gets the variables when it is saved and when it is restored.
void Pipeline::name_variables(VariablePaths& paths) const {
  written_ = tensor(save(Where()), {.device = Device()});
  if (variable_) variable_->assign(written_);
  else variable_.emplace(written_, VariableOptions{.name = "state", .trainable = false});
  written_ = value_of(variable_->state());
  paths.add("state", *variable_);
}
void Pipeline::take_restored(const Where& where) {
  const Tensor now = value_of(variable_->state());
  if (now.rep() == written_.rep()) return;
  written_ = now;
  restore(now.item<std::string>(), where);
}

std::string Pipeline::save(const Where& where) const {
  require_own("Iterator.save", where);
  if (variable_) const_cast<Pipeline*>(this)->take_restored(where);
  StateWriter w;
  w.bytes = magic;
  w.text(names_of(*stage_));
  w.number(int64_t(options_.epoch)), w.number(int64_t(seed_));
  cursor_->save(w);
  w.bytes += sum_of(w.bytes);
  return std::move(w.bytes);
}

void Pipeline::restore(std::string_view state, const Where& where) {
  const CallerScope caller(where, "Iterator.restore");
  require_cursor("Iterator.restore", where);
  if (!state.starts_with(magic)) fail("Iterator.restore", "these bytes are no state that save() gave", where);
  const size_t end = state.size() - std::min(state.size() - magic.size(), sum_size);
  if (state.substr(end) != sum_of(state.substr(0, end)))
    fail("Iterator.restore", "the state is damaged, or was cut: its sum is not that of its bytes", where);
  StateReader r(state.substr(magic.size(), end - magic.size()));
  const std::string_view of = r.text();
  if (const std::string own = names_of(*stage_); of != own)
    fail("Iterator.restore", fmt::format("the state is one of another pipeline, {}. this one is {}", of, own), where);
  const auto epoch = uint64_t(r.number()), seed = uint64_t(r.number());
  // If it throws, nothing has changed.
  CursorPtr fresh = stage_->begin({.epoch = epoch, .seed = seed, .stats = stats_.get()});
  fresh->restore(r);
  if (!r.at_end()) fail("Iterator.restore", "the state is longer than that of this pipeline", where);
  leave_to_parent();
  options_.epoch = epoch, seed_ = seed;
  cursor_ = std::move(fresh);
}

}  // namespace rill::data
