// The parts of a pipeline. A Stage is one step of the recipe, a source or a transformation: immutable, shared, and
// without a position. A Cursor is one pass through it: it belongs to one Iterator and is used by one thread at a time.
//
// Stages are written against these two; dataset.h gives them their C++ types. Three things make a stage a good citizen:
//
//   * next() throws what a user's function threw, once, and goes on behind that element when it is called again;
//   * save() says where the elements begin that were not given yet. A stage that reads ahead (threads, buffers) keeps
//     states of its input from then on (Lookahead, in engine/lookahead.h), and not the elements themselves;
//   * a stage whose elements can be had by number says so (is_indexed): then shuffles are exact, shards and resuming
//     cost nothing;
//   * it calls functions of the user's within a CallScope (engine/calls.h), for what these draw, and for the statistics.
#pragma once
#include <climits>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rill/data/item.h"
#include "rill/data/state.h"

#pragma GCC visibility push(default)

namespace rill::data {

// The size of a dataset that never ends.
inline constexpr int64_t endless = INT64_MAX;

// The settings with which a pass through a pipeline is opened.
struct Pass {
  uint64_t epoch = 0;  // of a repeated dataset, or given to Iterator: shuffles depend on it
  // For stages without a seed of their own, and part of an iterator's state: each stage derives those of its inputs.
  uint64_t seed = 0;
  bool repeated = false;         // a repeat() counts the epochs
  int most_threads = INT_MAX;    // that one stage may use (with_options)
  class Stats* stats = nullptr;  // if not null, collects statistics of the stages (stats.h)

  Pass for_input(uint64_t which = 0) const;
  // For a dataset that is made during the pass, for element `number`: its stages are not counted by themselves.
  Pass for_inner(int64_t number) const;
};

class Stage;
using StagePtr = std::shared_ptr<const Stage>;

class Cursor {
 public:
  // Keeps its stage alive: threads may be at work for it until it has gone.
  explicit Cursor(const Stage& stage);
  virtual ~Cursor();
  Cursor(const Cursor&) = delete;
  // The next element; an empty item at the end, and ever after.
  virtual Item next() = 0;
  // The next elements, n at most, as batch() stacks them, if the stage can do that at once; `count`: how many. An empty
  // item if it cannot, or at the end.
  virtual Item next_stacked(int64_t n, int64_t& count);
  // Skips n elements, or to the end; returns how many there were.
  virtual int64_t skip(int64_t n);
  virtual void save(StateWriter& w) const = 0;
  virtual void restore(StateReader& r) = 0;

 private:
  StagePtr stage_;
};
using CursorPtr = std::unique_ptr<Cursor>;

// An order in which the elements of an indexed stage are given: a permutation, or a part of one.
class Order {
 public:
  virtual ~Order();
  virtual int64_t size() const = 0;
  virtual int64_t at(int64_t i) const = 0;
};

class Stage : public std::enable_shared_from_this<Stage> {
 public:
  // `name` as users know it: "map", "from_tensors"; `where` made it.
  Stage(std::string name, const Where& where, std::vector<StagePtr> inputs = {});
  virtual ~Stage();
  Stage(const Stage&) = delete;

  // A pass: what others call, who open() is for.
  CursorPtr begin(const Pass& pass) const;
  CursorPtr begin_in(std::shared_ptr<const Order> order, const Pass& pass) const;

  virtual CursorPtr open(const Pass& pass) const = 0;
  // Whether a pass draws from Pass::seed.
  virtual bool draws() const;
  // How many elements there are: `endless`, or nothing where that is not known before a pass.
  virtual std::optional<int64_t> size() const { return {}; }
  // Whether elements can be had by number, in any order and by several threads at once. Then size() is known.
  virtual bool is_indexed() const { return false; }
  virtual Item at(int64_t i, const Pass& pass) const;
  // Elements by number, as batch() stacks them; an empty item where the stage cannot do that at once.
  virtual Item stacked(const std::vector<int64_t>& indices) const;
  // The largest number of threads that compute elements in this stage and those before it.
  int threads() const;
  virtual int own_threads() const { return 1; }
  // A pass in another order, for an indexed stage: by at(), on so many threads.
  virtual CursorPtr open_in(std::shared_ptr<const Order> order, const Pass& pass) const;

  const std::string& name() const { return name_; }
  const Where& where() const { return where_; }
  const std::vector<StagePtr>& inputs() const { return inputs_; }
  const StagePtr& input() const { return inputs_[0]; }
  // Printed after the stage's name: "(4)".
  virtual std::string details() const { return ""; }

 private:
  std::string name_;
  Where where_;
  std::vector<StagePtr> inputs_;
  int depth_ = 0;  // of the tree that it is the root of
};

// The stages as a tree, a line each, the last one first.
std::string describe(const Stage& stage);
// The stages' names, which identify the pipeline of a stored state. Sizes and lines may have changed.
std::string names_of(const Stage& stage);
// [NAME] with the line where the stage was made.
[[noreturn]] void fail_in(const Stage& stage, const std::string& message);
// Rethrows the current exception, under the stage's name and line, with the element's number and, if the input element
// holds a text (a path, say), that. For use in a catch block.
[[noreturn]] void fail_at_element(const Stage& stage, int64_t number, Item* input);

}  // namespace rill::data

#pragma GCC visibility pop
