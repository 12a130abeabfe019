// See calls.h. Start at call_all_reduce.
#include "rill/distribute/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "rill/devices/driver.h"
#include "rill/distribute/sums.h"
#include "rill/distribute/world.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"

namespace rill::distribute {

namespace {

// A call while it runs: the ranks have agreed on it, and data may move.
class Running {
 public:
  // `detail`: what must be equal beside the op and the operand. `expects`: what another rank must say, if not the same.
  Running(std::string_view op, const GroupAttrs& attrs, const Spec& spec, const std::string& detail)
      : Running(op, attrs) {
    check_size(op, spec);
    call_.what = call_.expects = described(op, spec, detail);
    if (world_) world_->agree(call_, *members_);
  }
  // Of two ranks.
  Running(std::string_view op, std::string_view other_op, const GroupAttrs& attrs, const Spec& spec, int64_t peer)
      : Running(op, attrs) {
    check_size(op, spec);
    call_.what = described(op, spec, ""), call_.expects = described(other_op, spec, "");
    const int places[] = {int(peer)};
    if (world_) world_->agree(call_, *members_, places);
  }

  bool alone() const { return !world_; }
  int me() const { return world_ ? members_->me : 0; }
  int size() const { return world_ ? members_->size() : 1; }
  const Mpi& mpi() const { return world_->mpi(); }
  void* channel(Channel what = Channel::calls) { return world_->channel(*members_, what); }
  World& world() { return *world_; }
  const Call& call() const { return call_; }
  void finish(void* request) { world_->finish(request, call_); }
  // Between two members, of whom the others need not know.
  void* send(const Tensor& x, int64_t to) {
    return mpi().send(world_->channel_of_all(), x.rep()->data, int64_t(x.size()), int(size_of(x.dtype())),
                      members_->ranks[size_t(to)], 1);
  }
  void* receive(Tensor& x, int64_t from) {
    return mpi().receive(world_->channel_of_all(), x.mutable_rep()->data, int64_t(x.size()), int(size_of(x.dtype())),
                         members_->ranks[size_t(from)], 1);
  }

 private:
  Running(std::string_view op, const GroupAttrs& attrs) : at_(attrs.place, function_) {
    World* world = World::now_or_alone(Where());
    const int64_t size = !attrs.ranks.empty() ? int64_t(attrs.ranks.size()) : world ? world->size() : 1;
    if (size != attrs.size)
      fail(op,
           fmt::format("the call was made for {} ranks, and there are {}. trace the function again", attrs.size, size));
    call_.op = op, call_.place = attrs.place;
    if (!world || world->alone()) return;
    if (!world->is_own()) fail(op, "this is a child of fork(), and no rank of the job. its parent is");
    lock_ = std::unique_lock(world->mutex);
    world_ = world, members_ = &world->members(attrs.ranks, op);
    group_ = attrs.ranks.empty() ? "" : fmt::format(" among ranks {}", to_string(Shape(attrs.ranks)));
  }
  // MPI counts in int.
  void check_size(std::string_view op, const Spec& spec) const {
    if (world_ && int64_t(spec.shape.numel()) > INT32_MAX)
      fail(op, fmt::format("{} has more than {} elements, which move at once. cut it into several", to_string(spec),
                           INT32_MAX));
  }
  std::string described(std::string_view op, const Spec& spec, const std::string& detail) const {
    return fmt::format("{} of {}{}{}", op, to_string(spec), detail, group_);
  }

  std::string function_;
  ReplayScope at_;  // errors name the user's line, also from a graph
  std::unique_lock<UserCodeMutex> lock_;
  World* world_ = nullptr;  // null: alone
  Members* members_ = nullptr;
  std::string group_;
  Call call_;
};

Tensor empty_like(const Tensor& t, Shape shape) {
  return empty_tensor(Spec{std::move(shape), t.dtype(), false, t.spec().device});
}
char* bytes_of(Tensor& t) { return t.mutable_rep()->data; }
const char* bytes_of(const Tensor& t) { return t.rep()->data; }
int64_t count_of(const Tensor& t) { return int64_t(t.size()); }
int width(const Tensor& t) { return int(size_of(t.dtype())); }
std::unique_ptr<char[]> room(int64_t bytes) { return std::make_unique_for_overwrite<char[]>(size_t(bytes)); }

// Blocks of a length each, one after the other.
struct Cut {
  std::vector<int> counts, places;
  void add(int64_t count) {
    places.push_back(counts.empty() ? 0 : places.back() + counts.back());
    counts.push_back(int(count));
  }
  static Cut evenly(int64_t count, int n) {
    Cut cut;
    for (int i = 0; i < n; ++i) cut.add(count * (i + 1) / n - count * i / n);
    return cut;
  }
  static Cut same(int64_t count, int n) {
    Cut cut;
    for (int i = 0; i < n; ++i) cut.add(count);
    return cut;
  }
};

// Block i of `in` goes to rank i; gives those of this rank, one after the other.
std::unique_ptr<char[]> exchange(Running& run, const char* in, const Cut& cut, int size) {
  const Cut mine = Cut::same(cut.counts[size_t(run.me())], run.size());
  auto blocks = room(int64_t(mine.counts[0]) * run.size() * size);
  run.finish(run.mpi().all_to_all_blocks(run.channel(), in, cut.counts.data(), cut.places.data(), blocks.get(),
                                         mine.counts.data(), mine.places.data(), size));
  return blocks;
}

// What is small is sent to all, who add up all of it; else each adds up a part. The order of additions is the same.
constexpr int64_t small_bytes = 1 << 13;

Shape gathered(const Tensor& x, int64_t n) {
  Shape shape{Dim(n)};
  for (const Dim d : x.shape()) shape.push_back(d);
  return shape;
}

}  // namespace

Tensor dense(const Tensor& t) {
  Spec spec = t.spec();
  spec.weak = false;
  Tensor out = empty_tensor(std::move(spec));
  copy_elements(t, out);
  return out;
}

// --- Sums over ranks -------------------------------------------------------------------------------------------------

namespace {

// In two parts: block i of all ranks goes to rank i, which adds it up; then all get all sums. Of what is small, all get all
// blocks at once.
class AllReduce final : public Moving {
 public:
  // Alone.
  explicit AllReduce(const Tensor& x) : out_(x), stage_(Stage::done) {}
  AllReduce(Running& run, const Tensor& x, Reduce reduce)
      : x_(x), out_(empty_like(x, x.shape())), call_(run.call()), mpi_(&run.mpi()), world_(&run.world()) {
    me_ = run.me(), n_ = run.size(), reduce_ = reduce;
    const int64_t count = count_of(x), size = width(x);
    first_ = run.channel(Channel::first_parts);
    if (count * size <= small_bytes) {
      is_small_ = true, blocks_ = room(count * size * n_);
      request_ = mpi_->all_gather(first_, bytes_of(x_), blocks_.get(), count, int(size));
      return;
    }
    last_ = run.channel(Channel::last_parts);
    cut_ = Cut::evenly(count, n_), mine_ = Cut::same(cut_.counts[size_t(me_)], n_);
    blocks_ = room(int64_t(own_count()) * n_ * size);
    request_ = mpi_->all_to_all_blocks(first_, bytes_of(x), cut_.counts.data(), cut_.places.data(), blocks_.get(),
                                       mine_.counts.data(), mine_.places.data(), int(size));
  }

  void go_on(bool in_turn) override {
    if (stage_ == Stage::first && mpi_->test(request_)) add_up();
    if (stage_ == Stage::added && in_turn) begin_last();
    if (stage_ == Stage::last && mpi_->test(request_)) end();
  }
  bool has_begun_last() const override { return is_small_ || stage_ >= Stage::last; }
  bool is_done() const override { return stage_ == Stage::done; }

  const Tensor& wait() {
    if (is_done()) return out_;
    const std::unique_lock lock(world_->mutex);
    world_->finish(*this, call_);
    return out_;
  }

 private:
  enum class Stage { first, added, last, done };
  int own_count() const { return cut_.counts[size_t(me_)]; }
  void add_up() {
    if (is_small_) {
      reduce_blocks(blocks_.get(), n_, count_of(x_), x_.dtype(), reduce_, bytes_of(out_));
      return end();
    }
    char* const part = bytes_of(out_) + int64_t(cut_.places[size_t(me_)]) * width(x_);
    reduce_blocks(blocks_.get(), n_, own_count(), x_.dtype(), reduce_, part);
    std::memcpy(blocks_.get(), part, size_t(own_count() * width(x_)));
    stage_ = Stage::added;
  }
  void begin_last() {
    request_ = mpi_->all_gather_blocks(last_, blocks_.get(), own_count(), bytes_of(out_), cut_.counts.data(),
                                       cut_.places.data(), width(x_));
    stage_ = Stage::last;
  }
  void end() { x_ = Tensor(), blocks_.reset(), stage_ = Stage::done; }

  Tensor x_, out_;
  Call call_;
  const Mpi* mpi_ = nullptr;
  World* world_ = nullptr;
  Reduce reduce_ = Reduce::sum;
  int me_ = 0, n_ = 1;
  bool is_small_ = false;
  void *first_ = nullptr, *last_ = nullptr, *request_ = nullptr;
  Cut cut_, mine_;
  std::unique_ptr<char[]> blocks_;
  Stage stage_ = Stage::first;
};

}  // namespace

Tensor Begun::wait() const { return static_cast<AllReduce&>(*moving_).wait(); }

void Begun::go_on() {
  World* world = World::now();
  if (!world || world->alone() || !world->is_own() || world->is_waiting()) return;
  const std::unique_lock lock(world->mutex);
  world->progress();
}

Begun begin_all_reduce(const Tensor& x, const ReduceAttrs& attrs) {
  Running run("all_reduce", attrs, x.spec(), fmt::format(" ({})", name(attrs.reduce)));
  Begun begun;
  if (run.alone() || run.size() == 1) {
    begun.moving_ = std::make_shared<AllReduce>(x);
  } else {
    begun.moving_ = std::make_shared<AllReduce>(run, x, attrs.reduce);
    run.world().hold(begun.moving_);
  }
  return begun;
}

Tensors call_all_reduce(Operands in, AttrsView attrs) {
  return {begin_all_reduce(dense(*in[0]), attrs.as<ReduceAttrs>()).wait()};
}

// --- Texts -----------------------------------------------------------------------------------------------------------

namespace {

bool is_text(const Tensor& x) { return x.dtype() == DType::string; }
std::string* texts_of(Tensor& t) { return reinterpret_cast<std::string*>(t.mutable_rep()->data); }
const std::string* texts_of(const Tensor& t) { return reinterpret_cast<const std::string*>(t.rep()->data); }

// One behind the other.
struct Texts {
  std::vector<int64_t> lengths;
  std::string all;
  explicit Texts(const Tensor& x) : lengths(size_t(count_of(x))) {
    for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = int64_t(texts_of(x)[i].size()), all += texts_of(x)[i];
  }
  explicit Texts(int64_t count) : lengths(size_t(count)) {}
  // How many characters those in [first, last) have. MPI counts in int, and all ranks find the same.
  int64_t characters(int64_t first, int64_t last, const Running& run) const {
    int64_t sum = 0;
    for (int64_t i = first; i < last; ++i) sum += lengths[size_t(i)];
    if (sum > INT32_MAX)
      fail(run.call().op, fmt::format("the texts have more than {} characters, which move at once", INT32_MAX));
    return sum;
  }
  void put(Tensor& out) const {
    size_t at = 0;
    for (size_t i = 0; i < lengths.size(); at += size_t(lengths[i++]))
      texts_of(out)[i] = all.substr(at, size_t(lengths[i]));
  }
};

// Those of all ranks, in the order of the group. Their lengths travel first.
void gather_texts(Running& run, const Tensor& x, Tensor& out) {
  const Texts mine(x);
  if (run.alone()) return mine.put(out);
  const int64_t count = count_of(x), n = run.size();
  Texts theirs(count * n);
  run.finish(run.mpi().all_gather(run.channel(), mine.lengths.data(), theirs.lengths.data(), count, 8));
  theirs.all.resize(size_t(theirs.characters(0, count * n, run)));
  Cut cut;
  for (int64_t r = 0; r < n; ++r) cut.add(theirs.characters(r * count, (r + 1) * count, run));
  run.finish(run.mpi().all_gather_blocks(run.channel(), mine.all.data(), int(mine.all.size()), theirs.all.data(),
                                         cut.counts.data(), cut.places.data(), 1));
  theirs.put(out);
}

void broadcast_texts(Running& run, Tensor& x, int64_t root) {
  if (run.alone()) return;
  Texts texts(x);
  run.finish(run.mpi().broadcast(run.channel(), texts.lengths.data(), count_of(x), 8, int(root)));
  texts.all.resize(size_t(texts.characters(0, count_of(x), run)));
  run.finish(run.mpi().broadcast(run.channel(), texts.all.data(), int64_t(texts.all.size()), 1, int(root)));
  texts.put(x);
}

}  // namespace

// --- The others ------------------------------------------------------------------------------------------------------

Tensors call_reduce_scatter(Operands in, AttrsView attrs) {
  const auto& a = attrs.as<ReduceAttrs>();
  const Tensor x = dense(*in[0]);
  Running run("reduce_scatter", a, x.spec(), fmt::format(" ({})", name(a.reduce)));
  if (run.alone() || run.size() == 1) return {x};
  Shape shape = x.shape();
  shape[0] = shape[0] / a.size;
  Tensor out = empty_like(x, std::move(shape));
  const auto blocks = exchange(run, bytes_of(x), Cut::same(count_of(out), run.size()), width(x));
  reduce_blocks(blocks.get(), run.size(), count_of(out), x.dtype(), a.reduce, bytes_of(out));
  return {out};
}

Tensors call_all_gather(Operands in, AttrsView attrs) {
  const auto& a = attrs.as<GroupAttrs>();
  const Tensor x = dense(*in[0]);
  Running run("all_gather", a, x.spec(), "");
  Tensor out = empty_like(x, gathered(x, a.size));
  if (is_text(x)) gather_texts(run, x, out);
  else if (run.alone()) std::memcpy(bytes_of(out), bytes_of(x), size_t(count_of(x) * width(x)));
  else run.finish(run.mpi().all_gather(run.channel(), bytes_of(x), bytes_of(out), count_of(x), width(x)));
  return {out};
}

Tensors call_broadcast(Operands in, AttrsView attrs) {
  const auto& a = attrs.as<RootAttrs>();
  Tensor x = dense(*in[0]);
  Running run("broadcast", a, x.spec(), fmt::format(" from place {}", a.root));
  if (is_text(x)) broadcast_texts(run, x, a.root);
  else if (!run.alone())
    run.finish(run.mpi().broadcast(run.channel(), bytes_of(x), count_of(x), width(x), int(a.root)));
  return {x};
}

Tensors call_scatter(Operands in, AttrsView attrs) {
  const auto& a = attrs.as<RootAttrs>();
  const Tensor x = dense(*in[0]);
  Running run("scatter", a, x.spec(), fmt::format(" from place {}", a.root));
  Shape shape;
  for (size_t i = 1; i < x.shape().size(); ++i) shape.push_back(x.shape()[i]);
  Tensor out = empty_like(x, std::move(shape));
  if (run.alone()) std::memcpy(bytes_of(out), bytes_of(x), size_t(count_of(out) * width(x)));
  else run.finish(run.mpi().scatter(run.channel(), bytes_of(x), bytes_of(out), count_of(out), width(x), int(a.root)));
  return {out};
}

Tensors call_gather(Operands in, AttrsView attrs) {
  const auto& a = attrs.as<RootAttrs>();
  const Tensor x = dense(*in[0]);
  Running run("gather", a, x.spec(), fmt::format(" to place {}", a.root));
  Tensor out = empty_like(x, gathered(x, a.size));
  if (is_text(x)) {
    gather_texts(run, x, out);
    return {run.me() == a.root ? out : empty_like(x, gathered(x, a.size))};
  }
  if (run.me() != a.root) std::memset(bytes_of(out), 0, size_t(count_of(out) * width(x)));
  if (run.alone()) std::memcpy(bytes_of(out), bytes_of(x), size_t(count_of(x) * width(x)));
  else run.finish(run.mpi().gather(run.channel(), bytes_of(x), bytes_of(out), count_of(x), width(x), int(a.root)));
  return {out};
}

Tensors call_all_to_all(Operands in, AttrsView attrs) {
  const auto& a = attrs.as<GroupAttrs>();
  const Tensor x = dense(*in[0]);
  Running run("all_to_all", a, x.spec(), "");
  if (run.alone()) return {x};
  Tensor out = empty_like(x, x.shape());
  const auto blocks = exchange(run, bytes_of(x), Cut::same(count_of(x) / run.size(), run.size()), width(x));
  std::memcpy(bytes_of(out), blocks.get(), size_t(count_of(x) * width(x)));
  return {out};
}

Tensors call_permute(Operands in, AttrsView attrs) {
  const auto& a = attrs.as<PermuteAttrs>();
  const Tensor x = dense(*in[0]);
  Running run("permute", a, x.spec(), fmt::format(" to {}", to_string(Shape(a.to))));
  const auto from = std::find(a.to.begin(), a.to.end(), Dim(run.me()));
  const int64_t to = a.to[size_t(run.me())];
  if (to == run.me()) return {x};
  Tensor out = empty_like(x, x.shape());
  void* coming = nullptr;
  if (from == a.to.end()) std::memset(bytes_of(out), 0, size_t(count_of(x) * width(x)));
  else coming = run.receive(out, from - a.to.begin());
  if (to >= 0) run.finish(run.send(x, to));
  if (coming) run.finish(coming);
  return {out};
}

Tensors call_send(Operands in, AttrsView attrs) {
  const auto& a = attrs.as<RootAttrs>();
  const Tensor x = dense(*in[0]);
  Running run("send", "receive", a, x.spec(), a.root);
  run.finish(run.send(x, a.root));
  return {x};
}

Tensors call_receive(Operands, AttrsView attrs) {
  const auto& a = attrs.as<ReceiveAttrs>();
  Tensor out = empty_tensor(Spec{Shape(a.shape), a.dtype, false, Device()});
  Running run("receive", "send", a, out.spec(), a.from);
  run.finish(run.receive(out, a.from));
  return {out};
}

Tensors call_barrier(Operands, AttrsView attrs) {
  Running run("barrier", attrs.as<GroupAttrs>(), Spec{Shape{}, DType::boolean, false, Device()}, "");
  return {};
}

// --- Begun, and waited for later --------------------------------------------------------------------------------------

namespace {

// What moves in one part: requests of MPI that are begun at once, and what is done when they are through.
class OnePart final : public Moving {
 public:
  OnePart(Running& run, const Tensor& x, const Tensor& out)
      : x_(x), out_(out), call_(run.call()), mpi_(&run.mpi()), world_(&run.world()) {}
  void go_on(bool) override {
    std::erase_if(requests, [&](void* r) { return mpi_->test(r) != 0; });
    if (!requests.empty() || is_done_) return;
    if (end) end();
    x_ = Tensor(), blocks.reset(), is_done_ = true;
  }
  bool has_begun_last() const override { return true; }
  bool is_done() const override { return is_done_; }
  Tensor wait() {
    if (is_done_) return out_;
    const std::unique_lock lock(world_->mutex);
    world_->finish(*this, call_);
    return out_;
  }

  std::vector<void*> requests;
  Cut cut, mine;  // live as long as the requests
  std::unique_ptr<char[]> blocks;
  Callback<void()> end;

 private:
  Tensor x_, out_;
  Call call_;
  const Mpi* mpi_ = nullptr;
  World* world_ = nullptr;
  bool is_done_ = false;
};

Rest rest_of(Running& run, const std::shared_ptr<OnePart>& part) {
  run.world().hold(part);
  return [part] { return part->wait(); };
}

Rest begin_reduce_scatter(const Tensor& x, const ReduceAttrs& a) {
  Running run("reduce_scatter", a, x.spec(), fmt::format(" ({})", name(a.reduce)));
  if (run.alone() || run.size() == 1) return [x] { return x; };
  Shape shape = x.shape();
  shape[0] = shape[0] / a.size;
  Tensor out = empty_like(x, std::move(shape));
  const auto part = std::make_shared<OnePart>(run, x, out);
  const int64_t count = count_of(out), n = run.size();
  part->cut = part->mine = Cut::same(count, int(n));
  part->blocks = room(count * n * width(x));
  part->end = [blocks = part->blocks.get(), out, count, n, reduce = a.reduce]() mutable {
    reduce_blocks(blocks, int(n), count, out.dtype(), reduce, bytes_of(out));
  };
  part->requests = {run.mpi().all_to_all_blocks(run.channel(Channel::first_parts), bytes_of(x), part->cut.counts.data(),
                                                part->cut.places.data(), part->blocks.get(), part->mine.counts.data(),
                                                part->mine.places.data(), width(x))};
  return rest_of(run, part);
}

Rest begin_all_gather(const Tensor& x, const GroupAttrs& a) {
  Running run("all_gather", a, x.spec(), "");
  Tensor out = empty_like(x, gathered(x, a.size));
  if (run.alone()) {
    std::memcpy(bytes_of(out), bytes_of(x), size_t(count_of(x) * width(x)));
    return [out] { return out; };
  }
  const auto part = std::make_shared<OnePart>(run, x, out);
  part->requests = {
      run.mpi().all_gather(run.channel(Channel::first_parts), bytes_of(x), bytes_of(out), count_of(x), width(x))};
  return rest_of(run, part);
}

Rest begin_broadcast(Tensor x, const RootAttrs& a) {
  Running run("broadcast", a, x.spec(), fmt::format(" from place {}", a.root));
  if (run.alone()) return [x] { return x; };
  const auto part = std::make_shared<OnePart>(run, x, x);
  part->requests = {
      run.mpi().broadcast(run.channel(Channel::first_parts), bytes_of(x), count_of(x), width(x), int(a.root))};
  return rest_of(run, part);
}

Rest begin_all_to_all(const Tensor& x, const GroupAttrs& a) {
  Running run("all_to_all", a, x.spec(), "");
  if (run.alone()) return [x] { return x; };
  Tensor out = empty_like(x, x.shape());
  const auto part = std::make_shared<OnePart>(run, x, out);
  part->cut = Cut::same(count_of(x) / run.size(), run.size());
  part->requests = {run.mpi().all_to_all_blocks(run.channel(Channel::first_parts), bytes_of(x), part->cut.counts.data(),
                                                part->cut.places.data(), bytes_of(out), part->cut.counts.data(),
                                                part->cut.places.data(), width(x))};
  return rest_of(run, part);
}

Rest begin_permute(const Tensor& x, const PermuteAttrs& a) {
  Running run("permute", a, x.spec(), fmt::format(" to {}", to_string(Shape(a.to))));
  const auto from = std::find(a.to.begin(), a.to.end(), Dim(run.me()));
  const int64_t to = a.to[size_t(run.me())];
  if (to == run.me()) return [x] { return x; };
  Tensor out = empty_like(x, x.shape());
  if (from == a.to.end()) std::memset(bytes_of(out), 0, size_t(count_of(x) * width(x)));
  if (run.alone()) return [out] { return out; };
  const auto part = std::make_shared<OnePart>(run, x, out);
  if (from != a.to.end()) part->requests.push_back(run.receive(out, from - a.to.begin()));
  if (to >= 0) part->requests.push_back(run.send(x, to));
  return rest_of(run, part);
}

}  // namespace

Rest begin(std::string_view name, const Tensor& given, AttrsView attrs) {
  const Tensor x = dense(given);
  if (name == "all_gather") return begin_all_gather(x, attrs.as<GroupAttrs>());
  if (name == "reduce_scatter") return begin_reduce_scatter(x, attrs.as<ReduceAttrs>());
  if (name == "broadcast") return begin_broadcast(x, attrs.as<RootAttrs>());
  if (name == "all_to_all") return begin_all_to_all(x, attrs.as<GroupAttrs>());
  if (name == "permute_ranks") return begin_permute(x, attrs.as<PermuteAttrs>());
  return [begun = begin_all_reduce(x, attrs.as<ReduceAttrs>())] { return begun.wait(); };
}

}  // namespace rill::distribute
