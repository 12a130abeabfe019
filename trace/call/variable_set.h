// How calls of a traced graph read and assign its Variables, beside other threads.
//
// A call first locks every Variable that it reads or assigns, in the order of their addresses. It keeps those that it
// assigns locked until the new values are stored. Hence calls are serializable and cannot deadlock. Start at
// VariableCall.
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
    int input = -1;      // index of its graph input, or -1
    int assign = -1;     // index of the assignment to it, or -1
    Device device = {};  // its device when the graph was traced
  };
  // Each Variable once, in the order in which calls lock them.
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

// One call's locks on the variables of its graph. read() copies their values into the call's `inputs`; the destructor
// unlocks. If the call throws before assign(), values that read() moved out are put back.
class VariableCall {
 public:
  VariableCall(const VariableSet& set, std::vector<Tensor>& inputs) : set_(set), inputs_(inputs) {}
  ~VariableCall();
  VariableCall(const VariableCall&) = delete;

  // Call once, first. Moves the values of assigned variables out, so that new values can be written over them, unless a
  // tape of this thread may keep the old ones; tapes are told which variable each input is.
  void read();
  // Stores the new values, indexed by assignment, and clears the inputs. Stores all, or none and throws.
  void assign(std::span<Tensor> values);

 private:
  void show_tapes();  // tells tapes which variable each input is
  void unlock(bool assigned_too);
  // The member's state; for the random generator, this thread's own.
  VariableState& state_of(const VariableSet::Member& m) const;

  const VariableSet& set_;
  std::vector<Tensor>& inputs_;
  VariableState* own_generator_ = nullptr;
  size_t locked_ = 0;           // the number of members locked, in order
  bool only_assigned_ = false;  // only those of them that the call assigns are still locked
  bool moved_ = false;          // their values have been moved into the inputs
};

}  // namespace rill
