// A collective while it runs, as calls.cpp (through the host's memory) and device_calls.cpp (between devices) have it.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "rill/distribute/engine/calls.h"
#include "rill/distribute/engine/world.h"
#include "rill/ops/scopes.h"

namespace rill::distribute {

// The operand of an op: the tensor itself if it is dense.
inline Tensor operand(const Tensor& t) { return t.is_contiguous() ? t : dense(t); }
inline std::span<const char> elements_of(const Tensor& t) {
  return {t.rep()->data, size_t(int64_t(t.size())) * size_of(t.dtype())};
}

// A call while it runs: the ranks agree on it, and data may move.
class Running {
 public:
  // `detail`: what else must be equal, beside the op and the operand. Ranks agree here;
  Running(std::string_view op, const GroupAttrs& attrs, const Spec& spec, std::string detail)
      : Running(later, op, op, attrs, spec, std::move(detail)) {
    agree();
  }
  // or by agree() and agree_with(), and until then no data moves.
  enum Later { later };
  Running(Later, std::string_view op, std::string_view other_op, const GroupAttrs& attrs, const Spec& spec,
          std::string detail)
      : at_(attrs.place, function_) {
    World* world = World::now_or_alone(Where());
    const int64_t size = !attrs.ranks.empty() ? int64_t(attrs.ranks.size()) : world ? world->size() : 1;
    if (size != attrs.size)
      fail(op,
           fmt::format("the call was made for {} ranks, and there are {}. trace the function again", attrs.size, size));
    call_.op = op, call_.other_op = other_op, call_.place = attrs.place;
    if (!world || world->alone()) return;
    if (!world->is_own()) fail(op, "this is a child of fork(), and no rank of the job. its parent is");
    lock_ = std::unique_lock(world->mutex);
    world_ = world, members_ = &world->members(attrs.ranks, op);
    call_.spec = spec, call_.detail = std::move(detail), call_.among = members_->among;
    // MPI counts in int.
    if (int64_t(spec.shape.numel()) > INT32_MAX)
      fail(op, fmt::format("{} has more than {} elements, which move at once. cut it into several", to_string(spec),
                           INT32_MAX));
  }

  bool alone() const { return !world_; }
  int me() const { return world_ ? members_->me : 0; }
  int size() const { return world_ ? members_->size() : 1; }
  const Mpi& mpi() const { return world_->mpi(); }
  void* channel() { return world_->channel(*members_); }
  World& world() { return *world_; }
  Members& members() { return *members_; }
  const Call& call() const { return call_; }
  const std::vector<int>& ranks() const { return members_->ranks; }

  // Whether two ranks tell each other which devices a tensor goes from and to. All ranks find the same.
  bool may_use_devices() const { return world_ && world_->no_exchange_reason().empty(); }

  void agree() {
    if (world_) world_->agree(call_, *members_);
  }
  // All members' tensors, concatenated, if they are short: then they are sent with the notes.
  bool is_carried(const Tensor& x) const {
    return world_ && World::is_carried(int64_t(elements_of(x).size()), members_->size());
  }
  void agree(const Tensor& x, char* all) { world_->agree(call_, *members_, elements_of(x), all); }
  // For two ranks.
  void agree_with(int64_t peer, std::span<const char> mine, std::span<char> theirs) {
    if (world_) world_->agree_with(members_->ranks[size_t(peer)], call_, mine, theirs);
  }
  // From here on the members are only this rank and that one, in ascending order; returns whether this one is first.
  bool of_two(int64_t peer) {
    const int other = members_->ranks[size_t(peer)], mine = world_->rank();
    members_ = &world_->members({Dim(std::min(mine, other)), Dim(std::max(mine, other))}, call_.op);
    return mine < other;
  }
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
  std::string function_;
  ReplayScope at_;  // errors name the user's line, also from a graph
  std::unique_lock<UserCodeMutex> lock_;
  World* world_ = nullptr;  // null: a single rank
  Members* members_ = nullptr;
  Call call_;
};

inline Tensor empty_like(const Tensor& t, Shape shape) {
  return empty_tensor(Spec{std::move(shape), t.dtype(), false, t.spec().device});
}
inline char* bytes_of(Tensor& t) { return t.mutable_rep()->data; }
inline const char* bytes_of(const Tensor& t) { return t.rep()->data; }
inline int64_t count_of(const Tensor& t) { return int64_t(t.size()); }
inline int width(const Tensor& t) { return int(size_of(t.dtype())); }
inline std::unique_ptr<char[]> room(int64_t bytes) { return std::make_unique_for_overwrite<char[]>(size_t(bytes)); }

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

inline Shape gathered(const Tensor& x, int64_t n) {
  Shape shape{Dim(n)};
  for (const Dim d : x.shape()) shape.push_back(d);
  return shape;
}

}  // namespace rill::distribute
