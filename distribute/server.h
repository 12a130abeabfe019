// ParameterServer: parameters that some ranks keep and others change, each at its own pace.
//
//   distribute::ParameterServer server(model.parameters(), {.staleness = 4});
//   for (const auto& [x, y] : batches) {
//     server.pull();                                   // the parameters as they are there
//     nn::GradientTape tape; adam.minimize(loss(x, y), tape, model.parameters());
//     server.push();                                   // what this rank has changed is added there
//   }
//
// The order of changes is unspecified, and so are the bits; for reproducible ones there is distribute::GradientTape.
// The optimizer's state (m and v of Adam) stays with the worker. In `function`, pull() and push() are effects, which
// run in each call. The parameters are in windows of MPI, which others read and add to while their rank does something
// else.
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
  Group servers = {};                     // who keeps parameters; empty: all ranks
  Group workers = {};                     // who trains; empty: those that are not servers or, if all are, all
  std::vector<int64_t> where = {};        // by parameter: the index of its server among them; none: by size
  std::optional<int64_t> staleness = {};  // how many pushes a worker may be ahead of another; none: unlimited
};

class ParameterServer {
 public:
  // All ranks must construct and destroy it at once. The parameters start with their servers' values. Throws if one is
  // not of f16, bf16, f32 or f64, has no value yet, or its index is not a server's.
  explicit ParameterServer(const std::vector<Variable>& variables, const ServerOptions& options = {},
                           Where where = Where::current());
  // Leaves, and waits for all other ranks, as long as they take.
  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;

  // Gives the Variables the values that are there. Waits while this worker is ahead of the slowest by more than the bound.
  void pull(Where where = Where::current());
  // Adds the Variables' changes since the pull, in f32 at least.
  void push(Where where = Where::current());
  // The number of pushes of this rank since it joined, and of the slowest worker; -1 if there are no workers.
  int64_t pushes(Where where = Where::current()) const;
  int64_t slowest(Where where = Where::current()) const;

  // A worker that leaves delays nobody, for any time; it returns with the push count of the slowest. To continue with
  // other ranks, start the job again from a checkpoint of pulled parameters.
  void leave(Where where = Where::current());
  void join(Where where = Where::current());
  // The rank that keeps a parameter.
  int64_t server_of(size_t variable) const;

 private:
  std::unique_ptr<detail::ServerState> state_;
};

}  // namespace rill::distribute

#pragma GCC visibility pop
