// See device_calls.h.
#include "rill/distribute/engine/device_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <span>

#include "rill/devices/driver.h"
#include "rill/devices/exchange.h"
#include "rill/distribute/engine/running.h"
#include "rill/ops/op.h"

namespace rill::distribute {
namespace {

using Does = ExchangePart::Does;

void tell_once(const std::string& why) {
  static std::atomic<bool> told = false;
  if (!told.exchange(true)) fmt::print(stderr, "rill: tensors on GPUs are exchanged through the host: {}\n", why);
}

DeviceExchanges* exchanges_of(Device d) { return is_host(d) ? nullptr : driver_of(d).exchanges(); }

// --- Groups of devices -----------------------------------------------------------------------------------------------

DeviceGroup::Wait waiting_in(Running& run) {
  return [&run](const Callback<bool()>& done) { run.world().finish(done, run.call()); };
}

// The message of a failure, also if nothing in distribute/ waits any more: it ends the Session.
DeviceGroup::Message failure_of(Running& run) {
  return [call = run.call(), rank = run.world().rank()](const std::string& why) {
    const std::string message =
        fmt::format("{}: [{}] rank {} has called {}, and {}", call.place, call.op, rank, call.what(), why);
    if (World* world = World::now()) world->note_failure(message);
    return message;
  };
}

// Two members that have one device, as a message; or empty.
std::string shared_device(Running& run, Device d) {
  const size_t n = size_t(run.size());
  const std::array<char, 16> mine = exchanges_of(d)->identity(d);
  std::vector<std::array<char, 16>> all(n);
  run.finish(run.mpi().all_gather(run.channel(), mine.data(), all[0].data(), 1, int(sizeof mine)));
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; k < i; ++k)
      if (all[i] == all[k])
        return fmt::format(
            "ranks {} and {} have one GPU. give each its own: "
            "set_default_device(Device(DeviceKind::gpu, int(distribute::local_rank())))",
            run.ranks()[k], run.ranks()[i]);
  return "";
}

std::unique_ptr<DeviceGroup> joined_group(Running& run, Device d) {
  if (const std::string why = shared_device(run, d); !why.empty()) {
    if (run.me() == 0) tell_once(why);
    return nullptr;
  }
  DeviceExchanges& exchanges = *exchanges_of(d);
  std::string id(128, '\0');
  if (run.me() == 0) id = exchanges.new_group();
  run.finish(run.mpi().broadcast(run.channel(), id.data(), int64_t(id.size()), 1, 0));
  return exchanges.join(d, id, run.size(), run.me(), run.world().timeout(), waiting_in(run), failure_of(run));
}

// The group of these members with these devices, of which all ask at once; nullptr where two have the same.
DeviceGroup* group_of(Running& run, const std::vector<int16_t>& devices, Device own) {
  std::vector<int> key = run.ranks();
  key.insert(key.end(), devices.begin(), devices.end());
  const auto [at, is_new] = run.world().device_groups().try_emplace(std::move(key));
  if (is_new) at->second = joined_group(run, own);
  return at->second.get();
}

// --- What the devices do ---------------------------------------------------------------------------------------------

struct Plan {
  Tensor out;
  std::vector<Tensor> more;  // memory that is needed meanwhile
  std::vector<ExchangeStep> steps;
};

Tensor bytes_on(Device d, int64_t bytes) { return empty_tensor(Spec{Shape{Dim(bytes)}, DType::u8, false, d}); }

ExchangePart moves(Does does, const char* from, char* to, int64_t bytes, int64_t member = 0) {
  ExchangePart p;
  p.does = does, p.from = from, p.to = to, p.count = bytes, p.member = int(member);
  return p;
}
Plan one_part(Tensor out, const ExchangePart& part) { return {std::move(out), {}, {{{part}, {}}}}; }

Combine combine_of(Reduce r) {
  switch (r) {
    case Reduce::sum: return Combine::sum;
    case Reduce::mean: return Combine::mean;
    case Reduce::product: return Combine::product;
    case Reduce::max: return Combine::max;
    case Reduce::min: return Combine::min;
  }
  return Combine::sum;
}

// By the library where it may; where a part is kept, `out` is that part.
std::optional<Plan> sum_by_library(Running& run, DeviceGroup& group, const Tensor& x, Tensor& out, Reduce reduce,
                                   bool keeps) {
  const bool pairs = is_complex(x.dtype());
  const DType number = pairs ? real_of(x.dtype()) : x.dtype();
  if (!run.world().options().nccl_sums || (reduce != Reduce::sum && reduce != Reduce::mean) || !group.adds(number))
    return std::nullopt;
  ExchangePart p = moves(keeps ? Does::reduce_scatter : Does::all_reduce, bytes_of(x), bytes_of(out),
                         count_of(out) * (pairs ? 2 : 1));
  p.dtype = number, p.combine = combine_of(reduce);
  return one_part(out, p);
}

// Each rank adds up its part of all ranks' tensors, and sends it to all, or keeps it.
Plan sum_by_tree(Running& run, const Tensor& x, Tensor out, const Cut& cut, Reduce reduce, bool keeps) {
  const int n = run.size(), me = run.me();
  const int64_t size = width(x), mine = cut.counts[size_t(me)];
  const auto bytes = [&](int i) { return int64_t(cut.counts[size_t(i)]) * size; };
  const auto place = [&](int i) { return int64_t(cut.places[size_t(i)]) * size; };
  const int64_t stride = (mine * size + 255) / 256 * 256;
  Tensor blocks = bytes_on(x.device(), std::max<int64_t>(stride * n, 1));
  char* const own = bytes_of(out) + (keeps ? 0 : place(me));
  ExchangeStep first, second;
  for (int i = 0; i < n; ++i) {
    if (i == me) continue;
    if (bytes(i) > 0) first.parts.push_back(moves(Does::send, bytes_of(x) + place(i), nullptr, bytes(i), i));
    if (mine > 0) first.parts.push_back(moves(Does::receive, nullptr, bytes_of(blocks) + i * stride, mine * size, i));
    if (keeps) continue;
    if (mine > 0) second.parts.push_back(moves(Does::send, own, nullptr, mine * size, i));
    if (bytes(i) > 0) second.parts.push_back(moves(Does::receive, nullptr, bytes_of(out) + place(i), bytes(i), i));
  }
  first.sum = {
      bytes_of(std::as_const(blocks)), bytes_of(x) + place(me), stride, own, mine, x.dtype(), combine_of(reduce)};
  return {std::move(out), {blocks}, {std::move(first), std::move(second)}};
}

Plan plan_sum(Running& run, DeviceGroup& group, const Tensor& x, Reduce reduce, bool keeps) {
  Shape shape = x.shape();
  if (keeps) shape[0] = shape[0] / int64_t(run.size());
  Tensor out = empty_like(x, std::move(shape));
  if (auto plan = sum_by_library(run, group, x, out, reduce, keeps)) return *std::move(plan);
  const Cut cut = keeps ? Cut::same(count_of(out), run.size()) : Cut::evenly(count_of(x), run.size());
  return sum_by_tree(run, x, out, cut, reduce, keeps);
}

Plan plan_all_gather(const Tensor& x, int64_t n) {
  Tensor out = empty_like(x, gathered(x, n));
  char* const to = bytes_of(out);
  return one_part(std::move(out), moves(Does::all_gather, bytes_of(x), to, count_of(x) * width(x)));
}
Plan plan_broadcast(const Tensor& x, int64_t root) {
  Tensor out = empty_like(x, x.shape());
  char* const to = bytes_of(out);
  return one_part(std::move(out), moves(Does::broadcast, bytes_of(x), to, count_of(x) * width(x), root));
}

// Zeros, which the host sends one of.
Tensor zeros_on(const Tensor& like, const Shape& shape) {
  Tensor zero = empty_tensor(Spec{Shape{}, like.dtype(), false, Device()});
  std::fill_n(bytes_of(zero), width(zero), '\0');
  const Tensor there = moved_to(zero, like.device());
  Tensor out = empty_like(like, shape);
  copy_elements(make_view(there, shape, Strides(shape.size(), 0), 0), out);
  return out;
}

Plan plan_scatter(Running& run, const Tensor& x, int64_t root) {
  Tensor out = empty_like(x, Shape(x.shape().begin() + 1, x.shape().end()));
  const int64_t bytes = count_of(out) * width(x);
  ExchangeStep step;
  for (int i = 0; run.me() == root && i < run.size(); ++i)
    step.parts.push_back(moves(Does::send, bytes_of(x) + i * bytes, nullptr, bytes, i));
  step.parts.push_back(moves(Does::receive, nullptr, bytes_of(out), bytes, root));
  return {out, {}, {step}};
}
Plan plan_gather(Running& run, const Tensor& x, int64_t root) {
  const Shape shape = gathered(x, run.size());
  const int64_t bytes = count_of(x) * width(x);
  Tensor out = run.me() == root ? empty_like(x, shape) : zeros_on(x, shape);
  ExchangeStep step{{moves(Does::send, bytes_of(x), nullptr, bytes, root)}, {}};
  for (int i = 0; run.me() == root && i < run.size(); ++i)
    step.parts.push_back(moves(Does::receive, nullptr, bytes_of(out) + i * bytes, bytes, i));
  return {out, {}, {step}};
}
Plan plan_all_to_all(Running& run, const Tensor& x) {
  Tensor out = empty_like(x, x.shape());
  const int64_t bytes = count_of(x) / run.size() * width(x);
  ExchangeStep step;
  for (int i = 0; i < run.size(); ++i) {
    step.parts.push_back(moves(Does::send, bytes_of(x) + i * bytes, nullptr, bytes, i));
    step.parts.push_back(moves(Does::receive, nullptr, bytes_of(out) + i * bytes, bytes, i));
  }
  return {out, {}, {step}};
}
Plan plan_permute(Running& run, const Tensor& x, const Dims& to) {
  const auto from = std::find(to.begin(), to.end(), Dim(run.me()));
  const bool comes = from != to.end();
  const int64_t bytes = count_of(x) * width(x), there = to[size_t(run.me())];
  Tensor out = comes ? empty_like(x, x.shape()) : zeros_on(x, x.shape());
  ExchangeStep step;
  if (there >= 0) step.parts.push_back(moves(Does::send, bytes_of(x), nullptr, bytes, there));
  if (comes) step.parts.push_back(moves(Does::receive, nullptr, bytes_of(out), bytes, from - to.begin()));
  return {out, {}, {step}};
}

// --- A call ----------------------------------------------------------------------------------------------------------

Rest begun(Running& run, DeviceGroup& group, const Tensor& x, Plan plan) {
  const int64_t bytes = count_of(x) * width(x);
  if (bytes == 0) return [out = plan.out] { return out; };
  struct Kept {  // the exchange goes first: then the memory may be another's
    Tensor x;
    Plan plan;
    std::unique_ptr<Exchange> exchange;
  };
  const auto kept = std::make_shared<Kept>(Kept{x, std::move(plan), nullptr});
  kept->exchange = group.begin(kept->plan.steps, waiting_in(run), failure_of(run));
  return [kept] {
    kept->exchange->order_work();
    return kept->plan.out;
  };
}

// For all members at once; `plan` has the steps of this one.
std::optional<Rest> by_devices(std::string_view op, const GroupAttrs& a, const Tensor& given, const std::string& detail,
                               const Callback<Plan(Running&, DeviceGroup&, const Tensor&)>& plan) {
  const Tensor x = operand(given);
  Running run(Running::later, op, op, a, x.spec(), detail + " on a GPU");
  std::vector<int16_t> devices(size_t(run.size()));
  if (run.alone() || run.size() == 1 || !World::is_carried(sizeof(int16_t), run.size())) return std::nullopt;
  const auto mine = int16_t(x.device().index());
  run.world().agree(run.call(), run.members(), {reinterpret_cast<const char*>(&mine), sizeof mine},
                    reinterpret_cast<char*>(devices.data()));
  DeviceGroup* group = group_of(run, devices, x.device());
  if (!group) return std::nullopt;
  return begun(run, *group, x, plan(run, *group, x));
}

std::string reduced_by(const ReduceAttrs& a) {
  return fmt::format(" ({}{})", name(a.reduce), World::now()->options().nccl_sums ? ", by NCCL" : "");
}

}  // namespace

bool may_exchange(Device d) {
  World* world = World::now();
  if (is_host(d) || !world || world->alone() || !world->is_own()) return false;
  if (const std::string& why = world->no_exchange_reason(); !why.empty()) {
    if (world->rank() == 0) tell_once(why);
    return false;
  }
  return exchanges_of(d) != nullptr;
}

std::optional<Rest> begin_on_devices(std::string_view name, const Tensor& x, AttrsView attrs) {
  if (x.dtype() == DType::string || !may_exchange(x.device())) return std::nullopt;
  const auto& a = *static_cast<const GroupAttrs*>(attrs.data);
  const auto root = [&] { return attrs.as<RootAttrs>().root; };
  using R = Running;
  using G = DeviceGroup;
  using T = Tensor;
  if (name == "all_reduce" || name == "all_reduce_by" || name == "reduce_scatter") {
    const auto& reduce = attrs.as<ReduceAttrs>();
    const bool keeps = name == "reduce_scatter";
    return by_devices(keeps ? "reduce_scatter" : "all_reduce", a, x, reduced_by(reduce),
                      [&](R& r, G& g, const T& v) { return plan_sum(r, g, v, reduce.reduce, keeps); });
  }
  if (name == "all_gather")
    return by_devices(name, a, x, "", [](R& r, G&, const T& v) { return plan_all_gather(v, r.size()); });
  if (name == "broadcast")
    return by_devices(name, a, x, fmt::format(" from place {}", root()),
                      [&](R&, G&, const T& v) { return plan_broadcast(v, root()); });
  if (name == "rank_scatter")
    return by_devices("scatter", a, x, fmt::format(" from place {}", root()),
                      [&](R& r, G&, const T& v) { return plan_scatter(r, v, root()); });
  if (name == "rank_gather")
    return by_devices("gather", a, x, fmt::format(" to place {}", root()),
                      [&](R& r, G&, const T& v) { return plan_gather(r, v, root()); });
  if (name == "all_to_all")
    return by_devices(name, a, x, "", [](R& r, G&, const T& v) { return plan_all_to_all(r, v); });
  const Dims& to = attrs.as<PermuteAttrs>().to;
  return by_devices("permute", a, x, fmt::format(" to {}", to_string(Shape(to))),
                    [&](R& r, G&, const T& v) { return plan_permute(r, v, to); });
}

// --- Two ranks -------------------------------------------------------------------------------------------------------

namespace {

// The group of both, and this rank's index in it, if both have the tensor on a device.
DeviceGroup* group_of_two(Running& run, Device d, int64_t peer, int& other) {
  int16_t mine = may_exchange(d) ? int16_t(d.index()) : int16_t(-1), theirs = -1;
  run.agree_with(peer, {reinterpret_cast<const char*>(&mine), sizeof mine},
                 {reinterpret_cast<char*>(&theirs), sizeof theirs});
  if (mine < 0 || theirs < 0) return nullptr;
  const bool first = run.of_two(peer);
  other = first ? 1 : 0;
  return group_of(run, first ? std::vector{mine, theirs} : std::vector{theirs, mine}, d);
}
void move_one(Running& run, DeviceGroup& group, const Tensor& x, const ExchangePart& part) {
  begun(run, group, x, one_part(x, part))();
}

}  // namespace

bool send_on_devices(Running& run, const Tensor& x, int64_t to) {
  int other = 0;
  DeviceGroup* group = group_of_two(run, x.device(), to, other);
  if (group) move_one(run, *group, x, moves(Does::send, bytes_of(x), nullptr, count_of(x) * width(x), other));
  return group != nullptr;
}
bool receive_on_devices(Running& run, Tensor& out, int64_t from) {
  int other = 0;
  DeviceGroup* group = group_of_two(run, out.device(), from, other);
  if (group)
    move_one(run, *group, out, moves(Does::receive, nullptr, bytes_of(out), count_of(out) * width(out), other));
  return group != nullptr;
}

}  // namespace rill::distribute
