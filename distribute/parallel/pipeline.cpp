// See pipeline.h. All stages follow the same table, tick by tick: first each does its work, then the results of the
// tick are passed on, by sends and receives in one order that all know. So there is no deadlock. Start at
// StageRun::run.
#include "rill/distribute/parallel/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <ostream>

#include "rill/autodiff/tape_impl.h"
#include "rill/distribute/collectives.h"
#include "rill/distribute/parallel/part_norms.h"
#include "rill/ops/listeners.h"
#include "rill/ops/ops.h"

namespace rill::distribute {

// --- Schedules -------------------------------------------------------------------------------------------------------

std::string_view name(Schedule s) { return s == Schedule::gpipe ? "GPipe" : "1F1B"; }

namespace {

using Work = PipelineTable::Work;
using Kind = Work::Kind;

// In the order in which a stage does it.
std::vector<Work> works(Schedule schedule, int64_t stage, int64_t stages, int64_t n) {
  std::vector<Work> all;
  const int64_t ahead = schedule == Schedule::gpipe ? n : std::min(n, stages - stage - 1);
  for (int64_t i = 0; i < ahead; ++i) all.push_back({Kind::forward, i});
  for (int64_t i = ahead; i < n; ++i) all.push_back({Kind::forward, i}), all.push_back({Kind::backward, i - ahead});
  for (int64_t i = n - ahead; i < n; ++i) all.push_back({Kind::backward, i});
  return all;
}

// Which ticks each stage has been through with a micro-batch, forward and back.
struct Passed {
  std::vector<int64_t> forward, backward;
};

// Whether the input of the work was computed before this tick.
bool is_ready(const Work& w, size_t stage, const std::vector<Passed>& done, int64_t tick) {
  const auto before = [&](int64_t at) { return at >= 0 && at < tick; };
  const size_t m = size_t(w.micro_batch);
  if (w.kind == Kind::forward) return stage == 0 || before(done[stage - 1].forward[m]);
  return stage + 1 == done.size() || before(done[stage + 1].backward[m]);
}

}  // namespace

PipelineTable pipeline_table(Schedule schedule, int64_t stages, int64_t micro_batches, Where where) {
  if (stages < 1 || micro_batches < 1)
    fail("pipeline_table",
         fmt::format("there are {} stages and {} micro-batches, and must be 1 or more of each", stages, micro_batches),
         where);
  PipelineTable table{schedule, micro_batches, std::vector<std::vector<Work>>(size_t(stages))};
  const std::vector<int64_t> never(size_t(micro_batches), -1);
  std::vector<Passed> done(size_t(stages), Passed{never, never});
  std::vector<std::vector<Work>> to_do;
  std::vector<size_t> next(size_t(stages), 0);
  for (int64_t s = 0; s < stages; ++s) to_do.push_back(works(schedule, s, stages, micro_batches));
  const auto left = [&](size_t s) { return next[s] < to_do[s].size(); };
  for (int64_t tick = 0; left(0); ++tick)  // the first stage ends last
    for (size_t s = 0; s < size_t(stages); ++s) {
      const bool works_now = left(s) && is_ready(to_do[s][next[s]], s, done, tick);
      table.stages[s].push_back(works_now ? to_do[s][next[s]++] : Work());
      const Work& w = table.stages[s].back();
      if (w.kind == Kind::forward) done[s].forward[size_t(w.micro_batch)] = tick;
      if (w.kind == Kind::backward) done[s].backward[size_t(w.micro_batch)] = tick;
    }
  return table;
}

double PipelineTable::bubbles() const {
  int64_t waiting = 0;
  for (const auto& line : stages)
    waiting += std::count_if(line.begin(), line.end(), [](const Work& w) { return w.kind == Kind::waits; });
  return double(waiting) / double(ticks() * int64_t(stages.size()));
}

int64_t PipelineTable::held(int64_t stage) const {
  int64_t now = 0, most = 0;
  for (const Work& w : stages[size_t(stage)]) {
    if (w.kind == Kind::forward) most = std::max(most, ++now);
    if (w.kind == Kind::backward) --now;
  }
  return most;
}

std::string to_string(const PipelineTable& table) {
  const size_t width = std::to_string(table.micro_batches - 1).size() + 1;
  std::string text = fmt::format("{}: {} stages, {} micro-batches, {} ticks, {:.1f} % waiting\n", name(table.schedule),
                                 table.stages.size(), table.micro_batches, table.ticks(), 100 * table.bubbles());
  for (size_t s = 0; s < table.stages.size(); ++s) {
    text += fmt::format("stage {} |", s);
    for (const Work& w : table.stages[s]) {
      const std::string cell = w.kind == Kind::waits
                                   ? std::string(width, '.')
                                   : fmt::format("{}{}", w.kind == Kind::forward ? 'F' : 'B', w.micro_batch);
      text += fmt::format(" {:<{}}", cell, width);
    }
    text += fmt::format("  holds {}\n", table.held(int64_t(s)));
  }
  return text;
}
std::ostream& operator<<(std::ostream& out, const PipelineTable& table) { return out << to_string(table); }

// --- Running ---------------------------------------------------------------------------------------------------------

namespace {

constexpr std::string_view pipeline_op = "Pipeline";

// A spec as numbers.
using Header = std::vector<int64_t>;
constexpr int64_t header_size = 12;

Header header_of(const Tensor& made, int64_t stage, const Where& where) {
  if (!is_floating(made.dtype()))
    fail(pipeline_op,
         fmt::format("stage {} gives {}, and what a stage gives must be floating", stage, to_string(made.spec())),
         where);
  Header header{int64_t(made.dtype())};
  for (const Dim d : made.shape()) header.push_back(int64_t(d));  // of an open size: traced again for others
  if (int64_t(header.size()) > header_size)
    fail(pipeline_op, fmt::format("stage {} gives {}, of too many axes", stage, to_string(made.spec())), where);
  header.resize(size_t(header_size), -1);
  return header;
}
Spec spec_of(const Header& header) {
  Shape shape;
  for (size_t i = 1; i < header.size() && header[i] >= 0; ++i) shape.push_back(header[i]);
  return Spec{std::move(shape), DType(header[0]), false, Device()};
}

// A tensor that is sent to a neighbour at the end of a tick.
struct Transfer {
  bool is_back;
  int64_t from, to, micro_batch;
};
// In an order that all stages know, and in which no two neighbours that hand on at once wait for a third.
std::vector<Transfer> transfers(const PipelineTable& table, int64_t tick) {
  std::vector<Transfer> all;
  const int64_t n = int64_t(table.stages.size());
  for (const int64_t odd : {0, 1})
    for (int64_t s = odd; s < n; s += 2) {
      const Work& w = table.stages[size_t(s)][size_t(tick)];
      if (w.kind == Kind::forward && s + 1 < n) all.push_back({false, s, s + 1, w.micro_batch});
      if (w.kind == Kind::backward && s > 0) all.push_back({true, s, s - 1, w.micro_batch});
    }
  return all;
}

// One run over the table, of this rank's stage.
class StageRun {
 public:
  StageRun(const PipelineTable& table, const PipelineOptions& options, int64_t me, const Where& where)
      : table_(table), options_(options), me_(me), where_(where), held_(size_t(options.micro_batches)) {}

  // Forward and back give what goes to the neighbour.
  using Forward = Callback<Tensor(int64_t micro_batch, const Tensor& given)>;
  void run(const Forward& forward, const Forward& backward) {
    for (int64_t tick = 0; tick < table_.ticks(); ++tick) {
      const Work& w = table_.stages[size_t(me_)][size_t(tick)];
      Held& held = held_[size_t(w.micro_batch)];
      if (w.kind == Kind::forward) held.made = forward(w.micro_batch, std::exchange(held.given, Tensor()));
      if (w.kind == Kind::backward && backward)
        held.made = backward(w.micro_batch, std::exchange(held.given, Tensor()));
      for (const Transfer& t : transfers(table_, tick))
        if (!t.is_back || backward) hand_on(t);
    }
  }

 private:
  struct Held {
    Tensor given, made;  // by a neighbour, and for one
    Spec sent;           // forward: of its returning gradient
  };

  void hand_on(const Transfer& t) {
    Held& held = held_[size_t(t.micro_batch)];
    if (t.from == me_) {
      const Tensor made = std::exchange(held.made, Tensor());
      if (!t.is_back) send_spec(made, t.to), held.sent = made.spec();
      send(made, t.to, options_.group, where_);
    } else if (t.to == me_) {
      const Spec spec = t.is_back ? held.sent : receive_spec(t.from);
      held.given = receive(spec.shape, spec.dtype, t.from, options_.group, where_);
    }
  }

  // Sends the spec ahead of the tensor: the receiver need not know it. In a trace it is sent while the function is
  // traced.
  void send_spec(const Tensor& made, int64_t to) const {
    Header header = header_of(made, me_, where_);
    header.insert(header.begin(), {options_.micro_batches, int64_t(options_.schedule)});
    const EagerScope eager;
    const PauseTapes pause;
    send(tensor(header), to, options_.group, where_);
  }
  Spec receive_spec(int64_t from) const {
    const EagerScope eager;
    const PauseTapes pause;
    Header header = receive({header_size + 2}, i64, from, options_.group, where_).to_vector<int64_t>();
    if (header[0] != options_.micro_batches || header[1] != int64_t(options_.schedule))
      fail(
          pipeline_op,
          fmt::format("stage {} has {} micro-batches ({}), and stage {} has {} ({}). all stages must have the same",
                      from, header[0], name(Schedule(header[1])), me_, options_.micro_batches, name(options_.schedule)),
          where_);
    header.erase(header.begin(), header.begin() + 2);
    return spec_of(header);
  }

  const PipelineTable& table_;
  const PipelineOptions& options_;
  const int64_t me_;
  const Where where_;
  std::vector<Held> held_;  // by micro-batch
};

// The equal parts of a batch, along the first axis.
class MicroBatches {
 public:
  MicroBatches(const Tensor& whole, int64_t n, std::string_view what, const Where& where) : whole_(whole) {
    require_defined(pipeline_op, whole, what, where);
    if (whole.ndim() == 0 || whole.dim(0) % n != 0)
      fail(pipeline_op,
           fmt::format("{} is {}, and its first axis must be a multiple of {}, the micro-batches", what,
                       to_string(whole.spec()), n),
           where);
    rows_ = whole.shape()[0] / n;
  }
  Tensor operator()(int64_t i) const { return whole_(slice(rows_ * i, rows_ * (i + 1))); }

 private:
  Tensor whole_;
  Dim rows_;
};

// A micro-batch between its way forward and back.
struct InFlight {
  std::unique_ptr<rill::GradientTape> tape;
  Tensor in, out;
};

Tensor checked_loss(const Tensor& loss, const Where& where) {
  if (loss.ndim() != 0)
    fail(pipeline_op, fmt::format("the loss is {}, and must be one number", to_string(loss.spec())), where);
  return loss;
}

}  // namespace

Pipeline::Pipeline(const PipelineOptions& options, Where where) : options_(options) {
  if (options.micro_batches < 1)
    fail(pipeline_op, fmt::format("micro_batches is {} and must be 1 or more", options.micro_batches), where);
  stage_ = options.group.rank(where);
  if (stage_ < 0)
    fail(pipeline_op,
         fmt::format("rank {} is none of the group's, {}", distribute::rank(where),
                     to_string(Shape(options.group.ranks()))),
         where);
  table_ = pipeline_table(options.schedule, options.group.size(where), options.micro_batches, where);
}

std::pair<Tensor, std::vector<Tensor>> Pipeline::gradients(const Stage& stage, const Loss& loss,
                                                           const std::vector<Variable>& variables, const Tensor& x,
                                                           const Tensor& y, Where where) const {
  CallerScope caller(where);
  const int64_t n = options_.micro_batches;
  for (const Variable& v : variables) stands_on(v, options_.group);
  std::optional<MicroBatches> xs, ys;
  if (is_first()) xs.emplace(x, n, "x", where);
  if (is_last()) ys.emplace(y, n, "y", where);
  std::vector<InFlight> flying{size_t(n)};
  std::vector<Tensor> sums(variables.size());
  Tensor total;  // of the loss; sums of halves are in f32, as a tape's are
  DType loss_dtype = f32;
  const auto forward = [&](int64_t m, const Tensor& given) {
    InFlight& f = flying[size_t(m)];
    f.tape = std::make_unique<rill::GradientTape>();
    f.in = xs ? (*xs)(m) : given;
    if (!xs) f.tape->watch(f.in, where);
    f.out = stage(f.in);
    if (ys) f.out = checked_loss(loss(f.out, (*ys)(m)), where) / double(n);
    f.tape->stop();
    if (ys) rill::detail::add_cotangent(total, Tensor(f.out)), loss_dtype = f.out.dtype();
    return f.out;
  };
  const auto backward = [&](int64_t m, const Tensor& given) {
    InFlight f = std::exchange(flying[size_t(m)], InFlight());
    std::vector<Source> sources(variables.begin(), variables.end());
    if (!xs) sources.emplace_back(f.in);
    GradientOptions how{.unconnected = Unconnected::none};
    if (given.defined()) how.output_gradients = {given};
    std::vector<Tensor> g = f.tape->gradient(std::vector<Tensor>{f.out}, sources, how, where);
    for (size_t i = 0; i < sums.size(); ++i)
      if (g[i].defined()) rill::detail::add_cotangent(sums[i], std::move(g[i]));
    return xs ? Tensor() : g.back().defined() ? g.back() : zeros_like(f.in);
  };
  StageRun(table_, options_, stage_, where).run(forward, backward);
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i] = rill::detail::rounded_sum(std::move(sums[i]), variables[i].dtype());
  return {from_last(rill::detail::rounded_sum(std::move(total), loss_dtype), where), std::move(sums)};
}

Tensor Pipeline::forward(const Stage& stage, const Tensor& x, Where where) const {
  CallerScope caller(where);
  std::optional<MicroBatches> xs;
  if (is_first()) xs.emplace(x, options_.micro_batches, "x", where);
  std::vector<Tensor> given(size_t(options_.micro_batches));
  const auto run = [&](int64_t m, const Tensor& in) {
    given[size_t(m)] = stage(xs ? (*xs)(m) : in);
    return is_last() ? std::as_const(given[size_t(m)]) : std::exchange(given[size_t(m)], Tensor());
  };
  StageRun(table_, options_, stage_, where).run(run, nullptr);
  return from_last(is_last() ? concat(given) : Tensor(), where);
}

Tensor Pipeline::from_last(const Tensor& made, const Where& where) const {
  const int64_t last = stages() - 1;
  Header header(size_t(header_size), -1);
  if (is_last()) header = header_of(made, last, where);
  {
    const EagerScope eager;
    const PauseTapes pause;
    header = broadcast(tensor(header), last, options_.group, where).to_vector<int64_t>();
  }
  const Spec spec = spec_of(header);
  return broadcast(is_last() ? made : zeros(spec.shape, {.dtype = spec.dtype}), last, options_.group, where);
}

}  // namespace rill::distribute
