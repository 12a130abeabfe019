// See stats.h.
#include "rill/data/engine/stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "rill/data/engine/placed_rows.h"
#include "rill/serialize/files.h"
#include "rill/tensor/json_string.h"

namespace rill::data {

namespace {

// The time of nested stages during the present measurement of the outer one, on this thread.
thread_local constinit int64_t inner_ns = 0;

class Timed {
 public:
  explicit Timed(Counters& c) : counters_(c), before_(std::exchange(inner_ns, 0)), began_(now_ns()) {}
  ~Timed() {
    const int64_t now = now_ns(), all = now - began_;
    if (counters_.spans) counters_.spans->add(counters_.stage, false, began_, now);
    counters_.own_ns.fetch_add(all - inner_ns, std::memory_order_relaxed);
    inner_ns = before_ + all;
  }
  Timed(const Timed&) = delete;

 private:
  Counters& counters_;
  int64_t before_, began_;
};

class Counted final : public Cursor, public MakesRows {
 public:
  Counted(const Stage& stage, CursorPtr of, Counters& c) : Cursor(stage), of_(std::move(of)), counters_(c) {}
  Item next() override {
    const Timed timed(counters_);
    Item x = of_->next();
    counters_.elements.fetch_add(bool(x), std::memory_order_relaxed);
    return x;
  }
  Item next_stacked(int64_t n, int64_t& count) override {
    const Timed timed(counters_);
    Item x = of_->next_stacked(n, count);
    if (x) counters_.elements.fetch_add(count, std::memory_order_relaxed);
    return x;
  }
  int64_t skip(int64_t n) override {
    const Timed timed(counters_);
    return of_->skip(n);
  }
  void save(StateWriter& w) const override { of_->save(w); }
  void restore(StateReader& r) override { of_->restore(r); }
  void lend_rows(std::shared_ptr<RowLoans> loans) override {
    if (auto* const maker = dynamic_cast<MakesRows*>(of_.get())) maker->lend_rows(std::move(loans));
  }

 private:
  CursorPtr of_;
  Counters& counters_;
};

}  // namespace

CursorPtr counted_in(const Pass& pass, const Stage& stage, CursorPtr cursor) {
  Counters* const counters = counters_of(stage, pass);
  return counters ? std::make_unique<Counted>(stage, std::move(cursor), *counters) : std::move(cursor);
}
Counters* counters_of(const Stage& stage, const Pass& pass) { return pass.stats ? pass.stats->of(stage) : nullptr; }

namespace {
constexpr size_t most_spans = 200'000;  // 8 MB

int number_of_thread() {
  static std::atomic<int> threads = 0;
  thread_local const int own = threads++;
  return own;
}
}  // namespace

void Spans::add(size_t stage, bool is_function, int64_t began_ns, int64_t ended_ns) {
  const std::lock_guard lock(mutex_);
  if (all_.size() < most_spans)
    all_.push_back({.stage = stage,
                    .is_function = is_function,
                    .thread = number_of_thread(),
                    .start = double(began_ns),
                    .seconds = double(ended_ns - began_ns) * 1e-9});
}
std::vector<StageSpan> Spans::read(int64_t zero_ns) const {
  const std::lock_guard lock(mutex_);
  std::vector<StageSpan> all = all_;
  for (StageSpan& s : all) s.start = (s.start - double(zero_ns)) * 1e-9;
  return all;
}

Stats::Stats(const Stage& last, bool with_spans) : with_spans_(with_spans), began_ns_(now_ns()) { add(last, 0); }
void Stats::add(const Stage& stage, int depth) {
  if (by_stage_.contains(&stage)) return;  // one dataset used twice: counted once
  Row& row = rows_.emplace_back(&stage, depth);
  row.counters.stage = rows_.size() - 1;
  if (with_spans_) row.counters.spans = &spans_;
  by_stage_.emplace(&stage, &row);
  for (const StagePtr& input : stage.inputs()) add(*input, depth + 1);
}
Counters* Stats::of(const Stage& stage) {
  const auto found = by_stage_.find(&stage);
  return found == by_stage_.end() ? nullptr : &found->second->counters;
}

PassStats Stats::read() const {
  PassStats s;
  s.seconds = double(now_ns() - began_ns_) * 1e-9;
  s.waiting_seconds = double(waiting_ns_) * 1e-9;
  for (const Row& r : rows_)
    s.stages.push_back({.name = r.stage->name(),
                        .where = r.stage->where(),
                        .depth = r.depth,
                        .threads = r.stage->own_threads(),
                        .elements = r.counters.elements.load(),
                        .own_seconds = double(r.counters.own_ns.load()) * 1e-9,
                        .function_seconds = double(r.counters.function_ns.load()) * 1e-9});
  s.spans = spans_.read(began_ns_);
  return s;
}

namespace {
// The seconds that the stage alone would take for all its elements, on its threads.
double cost_of(const StageStats& s) { return std::max(s.own_seconds, s.function_seconds) / s.threads; }
}  // namespace

size_t PassStats::slowest() const {
  const auto at = std::ranges::max_element(stages, {}, cost_of);
  return size_t(at - stages.begin());
}

std::string to_string(const PassStats& s) {
  std::string text =
      fmt::format("{:<30} {:>10} {:>10} {:>12} {:>8}\n", "stage", "elements", "own", "functions", "threads");
  for (const StageStats& one : s.stages)
    text +=
        fmt::format("{:<30} {:>10} {:>8.3f} s {:>10.3f} s {:>8}\n", std::string(size_t(2 * one.depth), ' ') + one.name,
                    one.elements, one.own_seconds, one.function_seconds, one.threads);
  const double waiting = s.seconds > 0 ? s.waiting_seconds / s.seconds : 0;
  text += fmt::format("{:.3f} s in all, {:.0f} % of them spent waiting for elements", s.seconds, 100 * waiting);
  if (s.stages.empty() || waiting < 0.05) return text + "\n";
  const StageStats& slow = s.stages[s.slowest()];
  text += fmt::format(". the slowest stage is {}, made at {}", slow.name, rill::to_string(slow.where));
  const bool has_prefetch = std::ranges::any_of(s.stages, [](const StageStats& one) { return one.name == "prefetch"; });
  if (slow.name == "map" && slow.threads == 1) text += ": give it {.threads = n}";
  else if (slow.name == "interleave" && slow.threads == 1) text += ": give it {.threads = n}";
  if (!has_prefetch)
    text += slow.threads == 1 && slow.name == "map" ? ", and end with prefetch()" : ": end with prefetch()";
  return text + "\n";
}

namespace {

// A track for each stage, with the times when it is waited for, and one below it for each thread that calls its
// functions.
class Tracks {
 public:
  explicit Tracks(const PassStats& stats) : stats_(stats) {
    for (size_t i = 0; i < stats.stages.size(); ++i) number_of(i, -1);
    for (const StageSpan& s : stats.spans)
      if (s.is_function) number_of(s.stage, s.thread);
    int next = 1;
    for (auto& [track, number] : numbers_) number = next++;
  }
  std::string text() const {
    std::string out = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n";
    out += R"({"name": "process_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "input pipeline"}})";
    for (const auto& [track, number] : numbers_) {
      const StageStats& stage = stats_.stages[track.first];
      const std::string of = track.second < 0 ? "" : fmt::format(": functions, thread {}", track.second);
      out += fmt::format(
          ",\n{{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": {}, \"args\": {{\"name\": {}}}}}",
          number, json_string(std::string(size_t(2 * stage.depth), ' ') + stage.name + of));
      out += fmt::format(
          ",\n{{\"name\": \"thread_sort_index\", \"ph\": \"M\", \"pid\": 1, \"tid\": {0}, \"args\": {{\"sort_index\": "
          "{0}}}}}",
          number);
    }
    for (const StageSpan& s : stats_.spans) {
      const StageStats& stage = stats_.stages[s.stage];
      out += fmt::format(
          ",\n{{\"name\": {}, \"cat\": \"{}\", \"ph\": \"X\", \"ts\": {:.3f}, \"dur\": {:.3f}, \"pid\": 1, "
          "\"tid\": {}, \"args\": {{\"source\": {}}}}}",
          json_string(stage.name), s.is_function ? "function" : "stage", 1e6 * s.start, 1e6 * s.seconds,
          numbers_.at({s.stage, s.is_function ? s.thread : -1}), json_string(rill::to_string(stage.where)));
    }
    return out + "\n]}\n";
  }

 private:
  void number_of(size_t stage, int thread) { numbers_[{stage, thread}] = 0; }
  const PassStats& stats_;
  std::map<std::pair<size_t, int>, int> numbers_;
};

}  // namespace

void export_profile(const PassStats& stats, const std::string& path, Where where) {
  const CallerScope caller(where);
  if (!path.ends_with(".json"))
    fail("data::export_profile", fmt::format("'{}': a time line of stages is a .json file, for ui.perfetto.dev", path),
         where);
  if (stats.spans.empty())
    fail("data::export_profile",
         "there is no time line: make the iterator by iterator({.spans = true}), and go some way", where);
  write_file(path, Tracks(stats).text(), "data::export_profile", where);
}

}  // namespace rill::data
