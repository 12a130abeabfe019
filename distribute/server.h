// ParameterServer: parameters that some ranks keep and others change, each at its own pace.
//
//   distribute::ParameterServer server(model.parameters(), {.staleness = 4});
//   for (const auto& [x, y] : batches) {
//     server.pull();                                   // the parameters as they are there
//     nn::GradientTape tape; adam.minimize(loss(x, y), tape, model.parameters());
//     server.push();                                   // what this rank has changed is added there
//   }
//
// Whose changes come first is not known, and so neither are the bits; for these there is distribute::GradientTape. What
// an optimizer remembers (m and v of Adam) stays with the worker. In `function`, pull() and push() are effects, which run at
// each call. The parameters lie in windows of MPI's, which others read and add to while their rank does something else.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "rill/distribute/session.h"
#include "rill/ops/variable.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

namespace detail {
struct ServerState;
}

struct ServerOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  Group servers = {};                     // who keeps parameters; nobody named: all ranks
  Group workers = {};                     // who trains; nobody named: those that are no servers, or where all are, all
  std::vector<int64_t> where = {};        // by parameter: the place of its server among them; none: by size
  std::optional<int64_t> staleness = {};  // by how many pushes a worker may be ahead of another; none: any number
};

class ParameterServer {
 public:
  // All ranks make it at once, and all end it. The parameters begin as their servers have them. Throws where one is not of
  // f16, bf16, f32 or f64, has no value yet, or its place is none of a server.
  explicit ParameterServer(const std::vector<Variable>& variables, const ServerOptions& options = {},
                           Where where = Where::current());
  // Leaves, and waits for all other ranks, as long as they take.
  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;

  // Gives the Variables the values that are there. Waits while this worker is ahead of the slowest by more than the bound.
  void pull(Where where = Where::current());
  // Adds there by what the Variables differ from what was pulled, in f32 at least.
  void push(Where where = Where::current());
  // How many pushes this rank has made since it joined, and the slowest worker has made; -1 where nobody works.
  int64_t pushes(Where where = Where::current()) const;
  int64_t slowest(Where where = Where::current()) const;

  // A worker that leaves holds nobody back, for how long it may be; it comes back as one that has made as many pushes as
  // the slowest. With other ranks a job is started again, from a checkpoint of what somebody has pulled.
  void leave(Where where = Where::current());
  void join(Where where = Where::current());
  // The rank that keeps a parameter.
  int64_t server_of(size_t variable) const;

 private:
  std::unique_ptr<detail::ServerState> state_;
};

}  // namespace rill::distribute

#pragma GCC visibility pop
