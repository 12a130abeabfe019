// Who is shown what this thread runs: debug::check_numerics() looks at numbers, debug::dump() writes them down. While
// somebody is, ops run one by one: no formula is one loop, nothing is computed in blocks, executables run on the eager
// tier and write nothing over what is still looked at.
#pragma once
#include <atomic>
#include <string>

#include "rill/ops/op.h"

#pragma GCC visibility push(default)

namespace rill {

class Graph;  // trace/graph.h

class RunWatcher {
 public:
  // An op has run by itself. Its results may be written over later.
  virtual void ran(const Op& op, Operands in, std::span<const Tensor> out, const Where& where) = 0;
  // A graph begins on `inputs`, one for each of its own: of a call, or inside of the node that was begun last.
  virtual void begins(const Graph& g, std::span<const Tensor> inputs) = 0;
  // A node of it is about to run graphs of its own, or whatever else it does.
  virtual void begins_node(const Graph& g, int32_t node) = 0;
  // A node of it has these values now: an op that has run, or a constant. The next node may write over them.
  virtual void has(const Graph& g, int32_t node, std::span<const Tensor* const> out) = 0;
  // `results` is empty where an error ends it.
  virtual void ends(const Graph& g, std::span<const Tensor> results) = 0;

 protected:
  ~RunWatcher() = default;
};

// How many scopes there are in the process: no thread looks for its own while there is none.
extern std::atomic<int> run_watchers;
bool runs_are_watched_here();
inline bool runs_are_watched() { return run_watchers.load(std::memory_order_relaxed) != 0 && runs_are_watched_here(); }
// This thread's, for a dump; null where there is none.
RunWatcher* run_watcher();

// While it lives, `watcher` is shown what this thread runs, in place of one that was before.
class WatchScope {
 public:
  explicit WatchScope(RunWatcher& watcher);
  ~WatchScope();
  WatchScope(const WatchScope&) = delete;

 private:
  RunWatcher* const outer_;
};

// While it lives, what this thread runs is shown to nobody, and is no part of a trace or a tape: to look at numbers.
class UnwatchedScope {
 public:
  UnwatchedScope();
  ~UnwatchedScope();
  UnwatchedScope(const UnwatchedScope&) = delete;

 private:
  struct Saved;
  Saved* const saved_;
};

// The call of a traced function that runs now, where somebody watches: its name, and the user's line.
struct WatchedCall {
  WatchedCall(const std::string& name, const Where& where);
  ~WatchedCall();
  WatchedCall(const WatchedCall&) = delete;
  static const WatchedCall* now();

  const std::string& name;
  const Where where;
  const WatchedCall* const outer;
};

// Of an op that has run by itself: numbers are checked, and whoever watches is shown it. Only where runs_are_watched().
void show_results(const Op& op, Operands in, std::span<const Tensor> out, const Where& where);

}  // namespace rill

#pragma GCC visibility pop
