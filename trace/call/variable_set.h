// The Variables of a traced graph, as a call reads and assigns them while other threads do.
//
// A call locks every Variable that it reads or assigns before it takes a value, in the order of their addresses, and
// keeps those that it assigns locked until the new values are stored. So calls are serializable and there is no
// deadlock. Start at VariableCall.
#pragma once
#include <span>
#include <vector>

#include "rill/ops/state/variable_state.h"
#include "rill/trace/graph.h"

namespace rill {

class VariableSet {
 public:
  VariableSet() = default;
  explicit VariableSet(const Graph& g);

  struct Member {
    Shared<VariableState> state;
    int input = -1;   // the graph input that it is, or -1
    int assign = -1;  // the assignment to it, or -1
  };
  // In the order in which all calls lock them, each once.
  const std::vector<Member>& members() const { return members_; }
  bool assigns() const { return assigns_; }

  // All values at one point in time.
  std::vector<Tensor> values() const;
  void set(std::span<const Tensor> values) const;

 private:
  std::vector<Member> members_;
  bool assigns_ = false;
};

// One call's hold on the variables of its graph: from its making, which puts their values among the call's `inputs`,
// to its end. Where the call throws before assign(), it puts back what it has taken.
class VariableCall {
 public:
  VariableCall(const VariableSet& set, std::vector<Tensor>& inputs) : set_(set), inputs_(inputs) {}
  ~VariableCall();
  VariableCall(const VariableCall&) = delete;

  // Once, first of all. Where no tape of this thread might keep the old values, those of variables that the call
  // assigns move, so that the new ones can be written over them; else the tapes know each input as its variable.
  void read();
  // Gives the variables their new values, by number of assignment, and clears the inputs. Either all of them get
  // theirs, or it throws.
  void assign(std::span<Tensor> values);

 private:
  void show_tapes();  // which variable each input is
  void unlock(bool assigned_too);

  const VariableSet& set_;
  std::vector<Tensor>& inputs_;
  size_t locked_ = 0;           // the first so many members
  bool only_assigned_ = false;  // of these, the ones that the call assigns
  bool moved_ = false;          // their values are among the inputs
};

}  // namespace rill
