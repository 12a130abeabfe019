// See calls.h. Start at call_all_reduce.
#include "rill/distribute/engine/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "rill/devices/driver.h"
#include "rill/distribute/engine/device_calls.h"
#include "rill/distribute/engine/running.h"
#include "rill/distribute/engine/sums.h"
#include "rill/distribute/engine/world.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"

namespace rill::distribute {

Tensor dense(const Tensor& t) {
  Spec spec = t.spec();
  spec.weak = false;
  Tensor out = empty_tensor(std::move(spec));
  copy_elements(t, out);
  return out;
}

Tensor moved_to(const Tensor& t, Device d) {
  if (t.device() == d) return t;
  Spec spec = t.spec();
  spec.device = d;
  Tensor out = empty_tensor(std::move(spec));
  copy_elements(t, out);
  return out;
}
Tensor on_host(const Tensor& t) { return moved_to(t, host_for(t.device())); }

// --- Sums over ranks -------------------------------------------------------------------------------------------------

namespace {

// A tensor that moves while the program continues, and the result.
class MovingTensor : public Moving {
 public:
  const Tensor& wait() {
    if (is_done()) return out_;
    const std::unique_lock lock(world_->mutex);
    world_->finish(*this, call_);
    return out_;
  }

 protected:
  explicit MovingTensor(Tensor out) : out_(std::move(out)) {}
  MovingTensor(Running& run, const Tensor& x, Tensor out)
      : x_(x), out_(std::move(out)), call_(run.call()), world_(&run.world()) {}

  Tensor x_, out_;
  Call call_;
  World* world_ = nullptr;
};

constexpr int64_t min_piece = 256 << 10;  // bytes: added while it is in the cache, and while others move
constexpr int64_t most_pieces = 32;
constexpr int pieces_ahead = 2;  // that may arrive before the one that is added next

// Each rank adds up its part of all ranks' tensors, piece by piece, and sends each piece to all, or keeps it.
class AddUp final : public MovingTensor {
 public:
  // Done already: a single rank, or by notes.
  explicit AddUp(const Tensor& x) : MovingTensor(x) {}
  // If a part is kept, `out` is that part.
  AddUp(Running& run, const Tensor& x, Tensor out, Cut cut, Reduce reduce, bool keeps)
      : MovingTensor(run, x, std::move(out)), ranks_(run.ranks()), cut_(std::move(cut)) {
    me_ = run.me(), n_ = run.size(), size_ = width(x), reduce_ = reduce, keeps_ = keeps;
    const int64_t largest = *std::max_element(cut_.counts.begin(), cut_.counts.end());
    each_ = std::max<int64_t>(min_piece / size_, (largest + most_pieces - 1) / most_pieces);
    own_ = bytes_of(out_) + (keeps ? 0 : int64_t(cut_.places[size_t(me_)]) * size_);
    blocks_ = room(std::min(each_, int64_t(cut_.counts[size_t(me_)])) * pieces_ahead * n_ * size_);
    for (int i = 0; i < n_; ++i) tags_.push_back(i == me_ ? 0 : world_->tag_with(ranks_[size_t(i)]));
    for (int64_t k = 0; k < pieces_of(me_) && k < pieces_ahead; ++k) receive_piece(k);
    for (int d = 1; d < n_; ++d) send_parts((me_ + d) % n_);
    advance();
  }

  void advance() override {
    while (world_ && added_ < pieces_of(me_) && take_done(coming_[added_ % pieces_ahead])) add_piece();
    take_done(going_);
    take_done(sums_);
    if (is_done()) x_ = Tensor(), blocks_.reset();
  }
  bool is_done() const override { return !world_ || (added_ == pieces_of(me_) && going_.empty() && sums_.empty()); }

 private:
  using Requests = std::deque<void*>;

  int64_t pieces_of(int part) const { return (int64_t(cut_.counts[size_t(part)]) + each_ - 1) / each_; }
  int64_t count_in(int part, int64_t k) const {
    return std::min(each_, int64_t(cut_.counts[size_t(part)]) - k * each_);
  }
  const char* here(int part, int64_t k) const {
    return bytes_of(std::as_const(x_)) + (int64_t(cut_.places[size_t(part)]) + k * each_) * size_;
  }
  char* block(int64_t k, int rank) {
    const int64_t longest = std::min(each_, int64_t(cut_.counts[size_t(me_)]));
    return blocks_.get() + ((k % pieces_ahead) * n_ + rank) * longest * size_;
  }
  void* send(int to, const char* data, int64_t count, int stage) {
    return world_->mpi().send(world_->channel_of_all(), data, count, size_, ranks_[size_t(to)],
                              tags_[size_t(to)] + stage * World::tags);
  }
  void* receive(int from, char* data, int64_t count, int stage) {
    return world_->mpi().receive(world_->channel_of_all(), data, count, size_, ranks_[size_t(from)],
                                 tags_[size_t(from)] + stage * World::tags);
  }
  // Whether all is done; the first that is not hides the others.
  bool take_done(Requests& requests) {
    while (!requests.empty() && world_->mpi().test(requests.front())) requests.pop_front();
    return requests.empty();
  }

  void receive_piece(int64_t k) {
    for (int d = 1; d < n_; ++d) {
      const int from = (me_ - d + n_) % n_;
      coming_[k % pieces_ahead].push_back(receive(from, block(k, from), count_in(me_, k), 0));
    }
  }
  // Sends this rank's portion of a part to the rank that adds it up, and receives that rank's sum.
  void send_parts(int rank) {
    for (int64_t k = 0; k < pieces_of(rank); ++k) {
      going_.push_back(send(rank, here(rank, k), count_in(rank, k), 0));
      char* const sum = bytes_of(out_) + (here(rank, k) - bytes_of(std::as_const(x_)));
      if (!keeps_) sums_.push_back(receive(rank, sum, count_in(rank, k), 1));
    }
  }
  void add_piece() {
    const int64_t k = added_++, count = count_in(me_, k);
    std::vector<const char*> parts;
    for (int i = 0; i < n_; ++i) parts.push_back(i == me_ ? here(me_, k) : block(k, i));
    char* const sum = own_ + k * each_ * size_;
    reduce_parts(parts.data(), n_, count, x_.dtype(), reduce_, sum);
    for (int d = 1; d < n_ && !keeps_; ++d) going_.push_back(send((me_ + d) % n_, sum, count, 1));
    if (k + pieces_ahead < pieces_of(me_)) receive_piece(k + pieces_ahead);
  }

  std::vector<int> ranks_, tags_;
  Cut cut_;
  Reduce reduce_ = Reduce::sum;
  bool keeps_ = false;
  int me_ = 0, n_ = 1, size_ = 1;
  int64_t each_ = 1, added_ = 0;  // elements of a piece; pieces
  char* own_ = nullptr;           // where this rank's sums go
  std::unique_ptr<char[]> blocks_;
  Requests coming_[pieces_ahead], going_, sums_;
};

// For many ranks, a power of two: each exchanges half of its data with the adjacent rank, half of that with the one two
// further on, ..., and so gets its part of the sum in the order of the tree; then the parts go back the same way. That
// is as many bytes as above, and two messages for each doubling instead of two for each rank.
class AddUpByHalves final : public MovingTensor {
 public:
  static bool serves(const Tensor& x, int ranks) {
    constexpr int least_ranks = 8;
    constexpr int64_t max_bytes_per_rank = 64 << 10;  // bytes: beyond, it is better to add while data arrives
    return ranks >= least_ranks && std::has_single_bit(unsigned(ranks)) && !is_half(x.dtype()) &&
           count_of(x) * width(x) <= max_bytes_per_rank * ranks;
  }
  AddUpByHalves(Running& run, const Tensor& x, Tensor out, Reduce reduce)
      : MovingTensor(run, Tensor(), std::move(out)), reduce_(reduce), me_(run.me()), size_(width(x)) {
    rounds_ = size_t(std::countr_zero(unsigned(run.size())));
    for (size_t k = 0; k < rounds_; ++k) {
      ranks_.push_back(run.ranks()[size_t(me_ ^ 1 << k)]);
      tags_.push_back(world_->tag_with(ranks_.back()));
    }
    std::memcpy(bytes_of(out_), bytes_of(x), size_t(count_of(x) * size_));
    parts_.push_back({0, count_of(x)});
    came_ = room((count_of(x) + 1) / 2 * size_);
    begin_round();
    advance();
  }
  void advance() override {
    while (!is_done() && is_exchanged()) end_round();
    if (is_done()) came_.reset();
  }
  bool is_done() const override { return round_ == 2 * rounds_; }

 private:
  struct Part {
    int64_t begin, end;  // elements
    int64_t count() const { return end - begin; }
  };
  char* at(const Part& p) { return bytes_of(out_) + p.begin * size_; }
  // For a round back, the round forth that it reverses.
  size_t pair() const { return round_ < rounds_ ? round_ : 2 * rounds_ - 1 - round_; }
  // The part of `whole` that stays here in a round, or is sent.
  Part half(const Part& whole, size_t k, bool stays) const {
    const int64_t middle = whole.begin + whole.count() / 2;
    const bool is_first = (me_ >> k & 1) == 0;
    return is_first == stays ? Part{whole.begin, middle} : Part{middle, whole.end};
  }
  void begin_round() {
    const size_t k = pair();
    const bool adds = round_ < rounds_;
    const Part mine = half(parts_[k], k, true), others = half(parts_[k], k, false);
    if (adds) parts_.push_back(mine);
    exchange(k, adds ? others : mine, adds ? came_.get() : at(others), adds ? mine : others);
  }
  void exchange(size_t k, const Part& goes, char* to, const Part& comes) {
    const int tag = tags_[k] + (round_ < rounds_ ? 0 : World::tags);
    const Mpi& mpi = world_->mpi();
    void* const channel = world_->channel_of_all();
    if (comes.count() > 0) requests_.push_back(mpi.receive(channel, to, comes.count(), size_, ranks_[k], tag));
    if (goes.count() > 0) requests_.push_back(mpi.send(channel, at(goes), goes.count(), size_, ranks_[k], tag));
  }
  bool is_exchanged() {
    std::erase_if(requests_, [&](void* r) { return world_->mpi().test(r) != 0; });
    return requests_.empty();
  }
  void end_round() {
    if (round_ < rounds_) {
      const Part mine = parts_.back();
      const bool is_first = (me_ >> round_ & 1) == 0;
      const char* both[] = {is_first ? at(mine) : came_.get(), is_first ? came_.get() : at(mine)};
      const Reduce by = reduce_ == Reduce::mean ? Reduce::sum : reduce_;
      reduce_parts(both, 2, mine.count(), out_.dtype(), by, at(mine));
      if (round_ + 1 == rounds_ && reduce_ == Reduce::mean)
        divide_sum(at(mine), mine.count(), out_.dtype(), 1 << rounds_);
    }
    if (++round_; !is_done()) begin_round();
  }

  const Reduce reduce_;
  const int me_, size_;
  size_t rounds_ = 0, round_ = 0;
  std::vector<int> ranks_, tags_;  // of the partner in each round
  std::vector<Part> parts_;        // what this rank adds up, from all of it on
  std::unique_ptr<char[]> came_;
  std::vector<void*> requests_;
};

// The sum of short tensors, which are sent with the notes by which ranks agree.
void add_up_carried(Running& run, const Tensor& x, Reduce reduce, int64_t first, Tensor& out) {
  const int64_t bytes = int64_t(elements_of(x).size());
  char few[1024];
  const auto more = bytes * run.size() > int64_t(sizeof few) ? room(bytes * run.size()) : nullptr;
  char* const all = more ? more.get() : few;
  run.agree(x, all);
  SmallVec<const char*, 8> parts;
  for (int i = 0; i < run.size(); ++i) parts.push_back(all + i * bytes + first * width(x));
  reduce_parts(parts.data(), run.size(), count_of(out), x.dtype(), reduce, bytes_of(out));
}

Tensor sum_of_carried(Running& run, const Tensor& x, Reduce reduce) {
  Tensor out = empty_like(x, x.shape());
  add_up_carried(run, x, reduce, 0, out);
  return out;
}

std::string detail_of(Reduce reduce) { return " (" + std::string(name(reduce)) + ")"; }

}  // namespace

Tensor Begun::wait() const { return static_cast<MovingTensor&>(*moving_).wait(); }

void Begun::advance() {
  World* world = World::now();
  if (!world || world->alone() || !world->is_own() || world->is_waiting()) return;
  const std::unique_lock lock(world->mutex);
  world->progress();
}

namespace {
std::shared_ptr<MovingTensor> begin_sum(Running& run, const Tensor& x, Reduce reduce) {
  run.agree();
  Tensor out = empty_like(x, x.shape());
  std::shared_ptr<MovingTensor> moving;
  if (AddUpByHalves::serves(x, run.size())) moving = std::make_shared<AddUpByHalves>(run, x, std::move(out), reduce);
  else moving = std::make_shared<AddUp>(run, x, std::move(out), Cut::evenly(count_of(x), run.size()), reduce, false);
  run.world().hold(moving, &run.call());
  return moving;
}
}  // namespace

Begun begin_all_reduce(const Tensor& x, const ReduceAttrs& attrs) {
  Running run(Running::later, "all_reduce", "all_reduce", attrs, x.spec(), detail_of(attrs.reduce));
  Begun begun;
  if (attrs.size == 1) {
    begun.moving_ = std::make_shared<AddUp>(x);
  } else if (run.is_carried(x)) {
    begun.moving_ = std::make_shared<AddUp>(sum_of_carried(run, x, attrs.reduce));
  } else {
    begun.moving_ = begin_sum(run, x, attrs.reduce);
  }
  return begun;
}

Tensors call_all_reduce(Operands in, AttrsView attrs) {
  const auto& a = attrs.as<ReduceAttrs>();
  const Tensor x = a.size == 1 ? dense(*in[0]) : operand(*in[0]);
  Running run(Running::later, "all_reduce", "all_reduce", a, x.spec(), detail_of(a.reduce));
  if (a.size == 1) return {x};
  if (run.is_carried(x)) return {sum_of_carried(run, x, a.reduce)};
  return {begin_sum(run, x, a.reduce)->wait()};
}

// --- Texts -----------------------------------------------------------------------------------------------------------

namespace {

bool is_text(const Tensor& x) { return x.dtype() == DType::string; }
std::string* texts_of(Tensor& t) { return reinterpret_cast<std::string*>(t.mutable_rep()->data); }
const std::string* texts_of(const Tensor& t) { return reinterpret_cast<const std::string*>(t.rep()->data); }

// Concatenated.
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

// --- Begun, and waited for at once or later ------------------------------------------------------------------------------------------------------

namespace {

// Data that moves in one part: requests of MPI that are begun at once.
class OnePart final : public MovingTensor {
 public:
  OnePart(Running& run, const Tensor& x, const Tensor& out) : MovingTensor(run, x, out) {}
  void advance() override {
    std::erase_if(requests, [&](void* r) { return world_->mpi().test(r) != 0; });
    if (requests.empty()) x_ = Tensor();
  }
  bool is_done() const override { return requests.empty(); }

  std::vector<void*> requests;
  Cut cut;  // lives as long as they
};

Rest rest_of(Running& run, const std::shared_ptr<OnePart>& part) {
  run.world().hold(part);
  return [part] { return part->wait(); };
}
Rest at_once(const Tensor& out) {
  return [out] { return out; };
}

Rest begin_reduce_scatter(const Tensor& x, const ReduceAttrs& a) {
  Running run(Running::later, "reduce_scatter", "reduce_scatter", a, x.spec(), detail_of(a.reduce));
  if (run.alone() || run.size() == 1) return at_once(x);
  Shape shape = x.shape();
  shape[0] = shape[0] / a.size;
  Tensor out = empty_like(x, std::move(shape));
  if (run.is_carried(x)) {
    add_up_carried(run, x, a.reduce, run.me() * count_of(out), out);
    return at_once(out);
  }
  run.agree();
  const auto moving = std::make_shared<AddUp>(run, x, out, Cut::same(count_of(out), run.size()), a.reduce, true);
  run.world().hold(moving, &run.call());
  return [moving] { return moving->wait(); };
}

// Every rank's tensor, from it to all others.
Rest begin_all_gather(const Tensor& x, const GroupAttrs& a) {
  Running run(Running::later, "all_gather", "all_gather", a, x.spec(), "");
  Tensor out = empty_like(x, gathered(x, a.size));
  if (run.is_carried(x)) {
    run.agree(x, bytes_of(out));
    return at_once(out);
  }
  run.agree();
  const int64_t bytes = count_of(x) * width(x);
  std::memcpy(bytes_of(out) + run.me() * bytes, bytes_of(x), size_t(bytes));
  if (run.alone()) return at_once(out);
  const auto part = std::make_shared<OnePart>(run, x, out);
  for (int i = 0; i < run.size(); ++i)
    if (i != run.me()) {
      const int rank = run.ranks()[size_t(i)], tag = run.world().tag_with(rank);
      void* const channel = run.world().channel_of_all();
      part->requests.push_back(run.mpi().receive(channel, bytes_of(out) + i * bytes, count_of(x), width(x), rank, tag));
      part->requests.push_back(run.mpi().send(channel, bytes_of(x), count_of(x), width(x), rank, tag));
    }
  return rest_of(run, part);
}

std::string from_root(int64_t root) { return fmt::format(" from place {}", root); }

Rest begin_broadcast(Tensor x, const RootAttrs& a) {
  Running run("broadcast", a, x.spec(), from_root(a.root));
  if (run.alone()) return at_once(x);
  const auto part = std::make_shared<OnePart>(run, x, x);
  part->requests = {run.mpi().broadcast(run.channel(), bytes_of(x), count_of(x), width(x), int(a.root))};
  return rest_of(run, part);
}

Rest begin_all_to_all(const Tensor& x, const GroupAttrs& a) {
  Running run("all_to_all", a, x.spec(), "");
  if (run.alone()) return at_once(x);
  Tensor out = empty_like(x, x.shape());
  const auto part = std::make_shared<OnePart>(run, x, out);
  const Cut& cut = part->cut = Cut::same(count_of(x) / run.size(), run.size());
  part->requests = {run.mpi().all_to_all_blocks(run.channel(), bytes_of(x), cut.counts.data(), cut.places.data(),
                                                bytes_of(out), cut.counts.data(), cut.places.data(), width(x))};
  return rest_of(run, part);
}

Rest begin_permute(const Tensor& x, const PermuteAttrs& a) {
  Running run("permute", a, x.spec(), fmt::format(" to {}", to_string(Shape(a.to))));
  const auto from = std::find(a.to.begin(), a.to.end(), Dim(run.me()));
  const int64_t to = a.to[size_t(run.me())];
  if (to == run.me()) return at_once(x);
  Tensor out = empty_like(x, x.shape());
  if (from == a.to.end()) std::memset(bytes_of(out), 0, size_t(count_of(x) * width(x)));
  if (run.alone()) return at_once(out);
  const auto part = std::make_shared<OnePart>(run, x, out);
  if (from != a.to.end()) part->requests.push_back(run.receive(out, from - a.to.begin()));
  if (to >= 0) part->requests.push_back(run.send(x, to));
  return rest_of(run, part);
}

}  // namespace

Rest begin(std::string_view name, const Tensor& given, AttrsView attrs) {
  const Device there = given.device();
  if (std::optional<Rest> rest = begin_on_devices(name, is_host(there) ? given : dense(given), attrs)) return *rest;
  if (!is_host(there)) return [rest = begin(name, on_host(given), attrs), there] { return moved_to(rest(), there); };
  const Tensor x = dense(given);
  if (name == "all_gather") return begin_all_gather(x, attrs.as<GroupAttrs>());
  if (name == "reduce_scatter") return begin_reduce_scatter(x, attrs.as<ReduceAttrs>());
  if (name == "broadcast") return begin_broadcast(x, attrs.as<RootAttrs>());
  if (name == "all_to_all") return begin_all_to_all(x, attrs.as<GroupAttrs>());
  if (name == "permute_ranks") return begin_permute(x, attrs.as<PermuteAttrs>());
  return [begun = begin_all_reduce(x, attrs.as<ReduceAttrs>())] { return begun.wait(); };
}

Tensors call_reduce_scatter(Operands in, AttrsView attrs) {
  const auto& a = attrs.as<ReduceAttrs>();
  return {begin_reduce_scatter(a.size == 1 ? dense(*in[0]) : operand(*in[0]), a)()};
}

Tensors call_all_gather(Operands in, AttrsView attrs) {
  const auto& a = attrs.as<GroupAttrs>();
  const Tensor x = operand(*in[0]);
  if (!is_text(x)) return {begin_all_gather(x, a)()};
  Running run("all_gather", a, x.spec(), "");
  Tensor out = empty_like(x, gathered(x, a.size));
  gather_texts(run, x, out);
  return {out};
}

Tensors call_broadcast(Operands in, AttrsView attrs) {
  const auto& a = attrs.as<RootAttrs>();
  Tensor x = dense(*in[0]);
  if (!is_text(x)) return {begin_broadcast(x, a)()};
  Running run("broadcast", a, x.spec(), from_root(a.root));
  broadcast_texts(run, x, a.root);
  return {x};
}

Tensors call_all_to_all(Operands in, AttrsView attrs) {
  return {begin_all_to_all(dense(*in[0]), attrs.as<GroupAttrs>())()};
}

Tensors call_permute(Operands in, AttrsView attrs) {
  return {begin_permute(dense(*in[0]), attrs.as<PermuteAttrs>())()};
}

// --- The others --------------------------------------------------------------------------------------------------------

Tensors call_scatter(Operands in, AttrsView attrs) {
  const auto& a = attrs.as<RootAttrs>();
  const Tensor x = dense(*in[0]);
  Running run("scatter", a, x.spec(), from_root(a.root));
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

Tensors call_send(Operands in, AttrsView attrs) {
  const auto& a = attrs.as<RootAttrs>();
  Tensor x = dense(*in[0]);
  Running run(Running::later, "send", "receive", a, x.spec(), "");
  const bool carried = World::is_carried(count_of(x) * width(x), 1);
  const bool asks = !carried && run.may_use_devices();
  if (asks && send_on_devices(run, x, a.root)) return {x};
  const Tensor here = on_host(x);
  if (!asks) run.agree_with(a.root, carried ? elements_of(here) : std::span<const char>(), {});
  if (!carried) run.finish(run.send(here, a.root));
  return {x};
}

Tensors call_receive(Operands, AttrsView attrs) {
  const auto& a = attrs.as<ReceiveAttrs>();
  Tensor out = empty_tensor(Spec{Shape(a.shape), a.dtype, false, a.device});
  Running run(Running::later, "receive", "send", a, out.spec(), "");
  const bool carried = World::is_carried(count_of(out) * width(out), 1);
  const bool asks = !carried && run.may_use_devices();
  if (asks && receive_on_devices(run, out, a.from)) return {out};
  Tensor here = is_host(a.device) ? out : empty_tensor(Spec{Shape(a.shape), a.dtype, false, Device()});
  if (!asks)
    run.agree_with(a.from, {}, carried ? std::span(bytes_of(here), elements_of(here).size()) : std::span<char>());
  if (!carried) run.finish(run.receive(here, a.from));
  return {moved_to(here, a.device)};
}

Tensors call_barrier(Operands, AttrsView attrs) {
  Running run("barrier", attrs.as<GroupAttrs>(), Spec{Shape{}, DType::boolean, false, Device()}, "");
  return {};
}

}  // namespace rill::distribute
