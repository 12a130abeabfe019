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
    int input = -1;      // the graph input that it is, or -1
    int assign = -1;     // the assignment to it, or -1
    Device device = {};  // where the graph has it
  };
  // In the order in which all calls lock them, each once.
  const std::vector<Member>& members() const { return members_; }
  bool assigns() const { return assigns_; }

  // All values at one point in time.
  std::vector<Tensor> values() const;
  void set(std::span<const Tensor> values) const;

 private:
  std::vector<VariableState*> states() const;

  std::vector<Member> members_;
  bool assigns_ = false;
};

// One call's locks on the variables of its graph. read() puts their values into the call's `inputs`; the destructor
// unlocks. If the call throws before assign(), values that were moved out are put back.
class VariableCall {
 public:
  VariableCall(const VariableSet& set, std::vector<Tensor>& inputs) : set_(set), inputs_(inputs) {}
  ~VariableCall();
  VariableCall(const VariableCall&) = delete;

  // Called once, first. If no tape of this thread may keep the old values, those of variables that the call assigns
  // are moved out, so that the new ones can be written over them; else the tapes identify each input with its variable.
  void read();
  // Stores the variables' new values, by number of assignment, and clears the inputs. Either all are stored, or it
  // throws.
  void assign(std::span<Tensor> values);

 private:
  void show_tapes();  // which variable each input is
  void unlock(bool assigned_too);
  // The member's, or, of the generator of random numbers, that which this thread has for itself.
  VariableState& state_of(const VariableSet::Member& m) const;

  const VariableSet& set_;
  std::vector<Tensor>& inputs_;
  VariableState* own_generator_ = nullptr;
  size_t locked_ = 0;           // the first so many members
  bool only_assigned_ = false;  // of these, the ones that the call assigns
  bool moved_ = false;          // their values are among the inputs
};

}  // namespace rill
