// See server.h. The parameters are in windows of MPI, each at an offset in its server's, followed in the first server's
// by the number of pushes of each rank. Start at call_pull.
#include "rill/distribute/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>

#include "rill/devices/driver.h"
#include "rill/devices/params/read_attrs.h"
#include "rill/distribute/engine/calls.h"
#include "rill/distribute/engine/world.h"
#include "rill/distribute/sharded.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"

namespace rill::distribute {

namespace {

constexpr std::string_view server_op = "distribute::ParameterServer";
constexpr int64_t not_there = INT64_MAX;  // the pushes of a worker that has left

// A parameter of a server, by their numbers.
struct ServerAttrs {
  int64_t server = 0, index = 0;
  Dims shape = {};
  DType dtype = DType::f32;
  std::string place = {};
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("server", s.server);
    v("index", s.index);
    v("shape", s.shape);
    v("dtype", s.dtype);
  }
};

enum class Number { f32, f64, i64 };  // as the plug-in numbers them
enum class Change { none, add, set };
int64_t width_of(Number n) { return n == Number::f32 ? 4 : 8; }

// Sums in the precision of f32 at least.
DType kept_as(DType d) { return d == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace

struct detail::ServerState {
  struct Kept {
    int rank = 0;    // the window's rank
    int64_t at = 0;  // in bytes
    Spec spec;       // there
  };
  int64_t id = 0;
  World* world = nullptr;  // null: a single rank
  void* window = nullptr;
  std::vector<char> memory;  // for a single rank
  std::vector<Variable> variables, pulled;
  std::vector<Kept> kept;
  int clocks_on = 0, ranks = 1, me = 0;
  int64_t clocks_at = 0;
  std::optional<int64_t> staleness;
  int64_t pushes = not_there;
  int exceptions_then = std::uncaught_exceptions();

  static std::map<int64_t, ServerState*>& all() {
    static std::map<int64_t, ServerState*> servers;
    return servers;
  }
  static ServerState& of(int64_t id, std::string_view op) {
    const auto at = all().find(id);
    if (at == all().end()) fail(op, "the ParameterServer of this traced function is no more. trace it again");
    return *at->second;
  }

  // Reads the old values, and changes them.
  void run(const Call& call, Change change, Number n, const void* in, void* out, int64_t count, int rank, int64_t at) {
    if (count == 0) return;
    if (world)
      return world->finish(world->mpi().window_run(window, int(change), int(n), in, out, count, rank, at), call);
    char* const there = memory.data() + at;
    std::memcpy(out, there, size_t(count * width_of(n)));
    if (change == Change::set) std::memcpy(there, in, size_t(count * width_of(n)));
    for (int64_t i = 0; change == Change::add && i < count; ++i) {
      if (n == Number::f32) reinterpret_cast<float*>(there)[i] += static_cast<const float*>(in)[i];
      else if (n == Number::f64) reinterpret_cast<double*>(there)[i] += static_cast<const double*>(in)[i];
      else reinterpret_cast<int64_t*>(there)[i] += static_cast<const int64_t*>(in)[i];
    }
  }
  Tensor run(const Call& call, Change change, size_t i, const Tensor& x) {
    const Kept& k = kept[i];
    Tensor was = empty_tensor(k.spec);
    const Number n = k.spec.dtype == DType::f64 ? Number::f64 : Number::f32;
    const Tensor own = dense(on_host(x));
    run(call, change, n, own.rep()->data, was.mutable_rep()->data, int64_t(was.size()), k.rank, k.at);
    return was;
  }

  std::vector<int64_t> clocks(const Call& call) {
    std::vector<int64_t> own(static_cast<size_t>(ranks)), all(own);
    run(call, Change::none, Number::i64, own.data(), all.data(), ranks, clocks_on, clocks_at);
    return all;
  }
  void set_clock(const Call& call, int64_t value) {
    int64_t was = 0;
    run(call, Change::set, Number::i64, &value, &was, 1, clocks_on, clocks_at + 8 * me);
    pushes = value;
  }
  static int64_t least(const std::vector<int64_t>& clocks) { return *std::min_element(clocks.begin(), clocks.end()); }
  // Of all except this rank, the slowest.
  int slowest_other(const std::vector<int64_t>& clocks) const {
    int slowest = me == 0 ? ranks - 1 : 0;
    for (int r = 0; r < ranks; ++r)
      if (r != me && clocks[size_t(r)] < clocks[size_t(slowest)]) slowest = r;
    return slowest;
  }

  void place(const Group& servers, const std::vector<int64_t>& where_to, const Where& where) {
    const auto rank_at = [&](int64_t i) {
      return int(servers.ranks().empty() ? i : int64_t(servers.ranks()[size_t(i)]));
    };
    std::vector<int64_t> to = where_to.empty() ? owners(variables, servers, where) : where_to;
    if (to.size() != variables.size())
      fail(server_op, fmt::format(".where has {} places for {} parameters", to.size(), variables.size()), where);
    std::vector<int64_t> used(static_cast<size_t>(ranks));
    for (size_t i = 0; i < variables.size(); ++i) {
      const Variable& v = variables[i];
      if (to[i] < 0 || to[i] >= servers.size(where))
        fail(server_op, fmt::format("parameter {} goes to server {}, and there are {}", i, to[i], servers.size(where)),
             where);
      if (!v.is_built(where) || !is_floating(v.dtype(where)))
        fail(server_op, fmt::format("parameter {} must have a value, of f16, bf16, f32 or f64", i), where);
      Spec spec{v.shape(where), kept_as(v.dtype(where)), false, Device()};
      int64_t& end = used[size_t(rank_at(to[i]))];
      kept.push_back({rank_at(to[i]), end, spec});
      end += (int64_t(spec.shape.numel()) * int64_t(size_of(spec.dtype)) + 63) / 64 * 64;
    }
    clocks_on = rank_at(0), clocks_at = used[size_t(clocks_on)];
    used[size_t(clocks_on)] += 8 * ranks;
    if (world) window = world->mpi().window(world->channel_of_all(), used[size_t(me)]);
    else memory.resize(size_t(used[0]));
  }
};

namespace {

using State = detail::ServerState;

// A call of this rank only, during which nothing else uses the World.
class Alone {
 public:
  Alone(const State& s, std::string_view op, const std::string& place) : lock_(), call_() {
    if (s.world) lock_ = std::unique_lock(s.world->mutex);
    call_.op = call_.other_op = op, call_.place = place, call_.detail = " of a ParameterServer";
  }
  const Call& call() const { return call_; }

 private:
  std::unique_lock<UserCodeMutex> lock_;
  Call call_;
};

Tensors call_pull(Operands, AttrsView attrs) {
  const auto& a = attrs.as<ServerAttrs>();
  State& s = State::of(a.server, "pull");
  const Alone alone(s, "pull", a.place);
  const size_t i = size_t(a.index);
  return {s.run(alone.call(), Change::none, i, zeros(s.kept[i].spec.shape, {s.kept[i].spec.dtype, Device()}))};
}

Tensors call_push(Operands in, AttrsView attrs) {
  const auto& a = attrs.as<ServerAttrs>();
  State& s = State::of(a.server, "push");
  const Alone alone(s, "push", a.place);
  s.run(alone.call(), Change::add, size_t(a.index), *in[0]);
  return {};
}

// Before a pull: waits until no worker is further behind than the bound.
Tensors call_wait(Operands, AttrsView attrs) {
  const auto& a = attrs.as<ServerAttrs>();
  State& s = State::of(a.server, "pull");
  const Alone alone(s, "pull", a.place);
  if (s.pushes == not_there) fail("pull", "this rank is no worker, or has left. join() first");
  if (!s.staleness || !s.world) return {};
  std::vector<int64_t> clocks;
  const auto fresh = [&] { return clocks = s.clocks(alone.call()), s.pushes - State::least(clocks) <= *s.staleness; };
  if (!fresh()) s.world->wait_for(alone.call(), fresh, [&] { return std::vector<int>{s.slowest_other(clocks)}; });
  return {};
}

// After a push.
Tensors call_pushed(Operands, AttrsView attrs) {
  const auto& a = attrs.as<ServerAttrs>();
  State& s = State::of(a.server, "push");
  const Alone alone(s, "push", a.place);
  if (s.pushes == not_there) fail("push", "this rank is no worker, or has left. join() first");
  s.set_clock(alone.call(), s.pushes + 1);
  return {};
}

OutSpecs infer_pull(const InferArgs& a) {
  const auto& s = a.attrs.as<ServerAttrs>();
  return {Spec{Shape(s.shape), s.dtype, false, Device()}};
}
OutSpecs infer_no_result(const InferArgs&) { return {}; }

const ReadableAttrs readable_server(std::type_identity<ServerAttrs>(), "server_pull");
constexpr std::string_view no_derivative = "what other ranks have added has no derivative";

const Op pull_op({.name = "server_pull",
                  .doc = "a parameter as its server has it",
                  .kind = OpKind::creation,
                  .dtypes = float_set,
                  .inputs = 0,
                  .infer = infer_pull,
                  .no_gradient = no_derivative,
                  .call = call_pull,
                  .effect = true});
const Op push_op({.name = "server_push",
                  .doc = "adds to a parameter on its server",
                  .dtypes = float_set,
                  .outputs = 0,
                  .infer = infer_no_result,
                  .no_gradient = no_derivative,
                  .call = call_push,
                  .effect = true});
const Op wait_op({.name = "server_wait",
                  .doc = "waits until no worker is too far behind",
                  .kind = OpKind::creation,
                  .inputs = 0,
                  .outputs = 0,
                  .infer = infer_no_result,
                  .no_gradient = no_derivative,
                  .call = call_wait,
                  .effect = true});
const Op pushed_op({.name = "server_pushed",
                    .doc = "counts a push",
                    .kind = OpKind::creation,
                    .inputs = 0,
                    .outputs = 0,
                    .infer = infer_no_result,
                    .no_gradient = no_derivative,
                    .call = call_pushed,
                    .effect = true});

ServerAttrs attrs_of(const State& s, size_t i, const Where& where) {
  ServerAttrs a;
  a.server = s.id, a.index = int64_t(i), a.place = place_of(where);
  if (i < s.kept.size()) a.shape = s.kept[i].spec.shape, a.dtype = s.kept[i].spec.dtype;
  return a;
}

// Whether a rank is among those; of an empty group, all are.
bool is_in(const Group& group, int64_t rank) {
  return group.ranks().empty() ||
         std::find(group.ranks().begin(), group.ranks().end(), Dim(rank)) != group.ranks().end();
}

}  // namespace

ParameterServer::ParameterServer(const std::vector<Variable>& variables, const ServerOptions& options, Where where)
    : state_(std::make_unique<State>()) {
  CallerScope caller(where);
  static int64_t made = 0;
  State& s = *state_;
  if (options.staleness && *options.staleness < 0)
    fail(server_op, fmt::format("staleness is {} and must be 0 or more", *options.staleness), where);
  World* world = World::now_or_alone(where);
  s.id = ++made, s.variables = variables, s.staleness = options.staleness;
  s.ranks = int(distribute::size(where)), s.me = int(distribute::rank(where));
  barrier({}, where);  // all make it now
  s.world = world && !world->alone() ? world : nullptr;
  {
    const Alone alone(s, server_op, place_of(where));
    s.place(options.servers, options.where, where);
    for (size_t i = 0; i < variables.size(); ++i) {
      const Tensor value = variables[i].value(where);
      s.pulled.push_back(Variable(value, VariableOptions{.name = "pulled", .trainable = false}));
      if (s.kept[i].rank == s.me) s.run(alone.call(), Change::set, i, value.astype(s.kept[i].spec.dtype));
    }
    const bool all_serve = options.servers.ranks().empty() || options.servers.size(where) == s.ranks;
    const bool works =
        options.workers.ranks().empty() ? all_serve || !is_in(options.servers, s.me) : is_in(options.workers, s.me);
    s.set_clock(alone.call(), works ? 0 : not_there);
  }
  State::all().emplace(s.id, &s);
  barrier({}, where);
}

ParameterServer::~ParameterServer() {
  State& s = *state_;
  State::all().erase(s.id);
  // After an exception the Session reports it, and this waits for nothing.
  if (std::uncaught_exceptions() > s.exceptions_then) return;
  if (!s.world || World::now() != s.world || !s.world->is_own() || s.world->is_broken()) return;
  try {
    Alone alone(s, server_op, "");
    if (s.pushes != not_there) s.set_clock(alone.call(), not_there);
    s.world->end_together(alone.call());
    s.world->mpi().window_end(s.window);
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
}

void ParameterServer::pull(Where where) {
  CallerScope caller(where);
  const State& s = *state_;
  apply(wait_op, Operands(), attrs_of(s, s.kept.size(), where), where);
  for (size_t i = 0; i < s.kept.size(); ++i) {
    const Tensor there = apply(pull_op, Operands(), attrs_of(s, i, where), where)[0];
    const Tensor here = astype(there, s.variables[i].dtype(where)).to(s.variables[i].device(where));
    Variable(s.pulled[i]).assign(here);
    Variable(s.variables[i]).assign(here);
  }
}

void ParameterServer::push(Where where) {
  CallerScope caller(where);
  const State& s = *state_;
  for (size_t i = 0; i < s.kept.size(); ++i) {
    const DType d = s.kept[i].spec.dtype;
    const Tensor change = astype(s.variables[i].value(where), d) - astype(s.pulled[i].value(where), d);
    const Tensor* in[] = {&change};
    apply(push_op, in, attrs_of(s, i, where), where);
  }
  apply(pushed_op, Operands(), attrs_of(s, s.kept.size(), where), where);
}

int64_t ParameterServer::pushes(Where) const { return state_->pushes == not_there ? -1 : state_->pushes; }

int64_t ParameterServer::slowest(Where where) const {
  const Alone alone(*state_, "slowest", place_of(where));
  const int64_t least = State::least(state_->clocks(alone.call()));
  return least == not_there ? -1 : least;
}

void ParameterServer::leave(Where where) {
  const Alone alone(*state_, "leave", place_of(where));
  state_->set_clock(alone.call(), not_there);
}

void ParameterServer::join(Where where) {
  const Alone alone(*state_, "join", place_of(where));
  if (state_->pushes != not_there) fail("join", "this worker is there already", where);
  const int64_t least = State::least(state_->clocks(alone.call()));
  state_->set_clock(alone.call(), least == not_there ? 0 : least);
}

int64_t ParameterServer::server_of(size_t variable) const { return state_->kept.at(variable).rank; }

}  // namespace rill::distribute
