// The implementation of GradientTape: the flat list of entries, and the numbers of tensors on it.
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "rill/autodiff/body_scope.h"
#include "rill/autodiff/entry_list.h"
#include "rill/autodiff/tape.h"
#include "rill/ops/apply.h"

#pragma GCC visibility push(default)

namespace rill {

// A number that stands for a watched or recorded tensor on one tape; 0: not known.
using TapeNode = uint32_t;

// One recorded op. Operands that the op's record does not save are stand-ins without elements.
struct TapeEntry {
  const Op* op = nullptr;  // null: custom
  Attrs attrs;
  Tensors in, out;
  SmallVec<TapeNode, 4> in_nodes;
  TapeNode first_out = 0;  // outputs have consecutive numbers
  bool in_body = false;    // of control flow or the like, while the tape is outside (body_scope.h)
  CustomVjp custom;
  Where where;
};

// The bytes of the distinct buffers that an entry keeps and that are not in `seen`, which gets them.
size_t bytes_of(const TapeEntry& e, std::set<const Buffer*>& seen);
bool any_differentiable(std::span<const Tensor> ts);

// For debug::check_gradients: throws where an operand's cotangent, by node, is not finite.
void check_cotangents(const TapeEntry& e, std::span<const Tensor> given, std::span<const Tensor> cotangents);

// Where what the tape knows went into an op through which no gradient flows.
struct DeadEnd {
  const Op* op;
  Where where;  // the user's
  SmallVec<TapeNode, 4> in_nodes;
};

// From a key (tensor id, variable address) to a node: a few in a list, many in a table.
class NodeMap {
 public:
  TapeNode find(uint64_t key) const;
  void insert(uint64_t key, TapeNode node);
  bool empty() const { return few_.empty(); }
  void clear() { few_.clear(), many_.clear(); }

 private:
  struct Item {
    uint64_t key;
    TapeNode node;
  };
  SmallVec<Item, 8> few_;
  std::unordered_map<uint64_t, TapeNode> many_;
};

// A number that no other tape or accumulator has, for TensorRep::tape.
uint64_t new_tape_serial();

// What is on a list of tapes while it records, in its place among them also after a pause. A list that is not this
// thread's now (the trace's outside, another thread's) cannot be touched: the tape then stays on it without recording,
// and where its owner goes first it is left behind, for that thread to delete.
class OwnedTape : public TapeListener {
 public:
  void start_recording();
  void stop_recording();
  // For the owner's end, instead of delete.
  void end();
  // Drops everything that it holds.
  virtual void forget() = 0;
  bool is_listed() const { return list_; }
  void list_ends(const Listeners& list) override;

  bool recording = false;

 protected:
  OwnedTape();
  virtual ~OwnedTape() = default;

 private:
  Listeners* list_ = nullptr;  // that it is on
  bool abandoned_ = false;
};

class GradientTape::Impl final : public OwnedTape {
 public:
  explicit Impl(TapeOptions options);
  ~Impl() override;

  bool watches(const Tensor& t) const override { return node_of(t) != 0; }
  void record(const Op& op, Operands in, std::span<Tensor> out, AttrsView attrs, const Where& where) override;
  void record_custom(Operands in, std::span<Tensor> out, const CustomVjp& vjp, const Where& where) override;
  void watch_variable(const Shared<VariableState>& v, Tensor& value) override;

  void watch(const Tensor& t);
  void watch(const Shared<VariableState>& v);
  TapeNode node_of(const Tensor& t) const;
  TapeNode node_of(const Source& s) const;
  void forget() override;

  // The backward walk: cotangents of `sources` from those of `targets`. Frees entries as it goes where `consume`.
  // With `slices`, one a source: of a source that is used for lookups of rows alone, they get the cotangent. `arrived` is
  // told of cotangents that are complete (gradient_hook.h).
  std::vector<Tensor> backward(std::span<const TapeNode> targets, std::span<const Tensor> seeds,
                               std::span<const TapeNode> sources, bool consume,
                               std::vector<IndexedSlices>* slices = nullptr,
                               const Callback<void(size_t, const Tensor&)>& arrived = {});

  // Why no gradient of the targets reaches `s`, and what to do about it.
  std::string why_unconnected(std::span<const Tensor> targets, const Source& s) const;
  // For the tape's user, where start_recording() and stop_recording() are for a while.
  void stop();
  void start_again();

  size_t bytes_held() const;
  std::string summary() const;
  // By source: whether a target was computed from it.
  std::vector<bool> reaches(std::span<const TapeNode> targets, std::span<const TapeNode> sources);

  TapeOptions options;
  bool used = false;
  EntryList<TapeEntry> entries;

 private:
  std::vector<char> nodes_from(std::span<const TapeNode> sources) const;
  std::vector<char> nodes_behind(std::span<const TapeNode> targets) const;
  // Of a persistent tape, which is asked again and again: the part that targets were computed from, in time that the
  // rest of it does not matter for.
  class Part;
  // By node: 1 for those of the sources that reach the targets through lookups of rows alone.
  std::vector<char> tables(std::span<const TapeNode> targets, std::span<const TapeNode> sources) const;
  TapeEntry& add_entry(std::string_view op, const Where& where);
  bool find_inputs(Operands in, SmallVec<TapeNode, 4>& nodes) const;
  // The cotangents that an entry's rule gives, added to those that have arrived.
  struct Walk;
  void pull(TapeEntry& e, std::span<const Tensor> given, Walk& walk);
  // What arrived at an entry's results goes on to its operands.
  void visit(TapeEntry& e, Walk& walk);
  TapeNode new_node() { return next_node_++; }
  void name_output(Tensor& t, TapeNode node);
  void note_dead_end(const Op& op, Operands in, const Where& where);
  std::string why_unknown(const Tensor& target) const;
  const Tensor& stand_in(const Spec& spec);

  const int bodies_ = detail::open_bodies;  // where it began
  uint64_t serial_;                         // what TensorRep::tape holds for this tape's tensors
  TapeNode next_node_ = 1;
  Tensor stand_in_;    // the last one made
  NodeMap tensors_;    // watched ones, and outputs whose rep another tape has signed
  NodeMap variables_;  // by address
  std::vector<Shared<VariableState>> alive_;

  // For Part, by node: 1 and the index of the entry that made it, 0 where none did, of the first `made_` entries; and
  // marks, which a Part takes away as it ends.
  std::vector<uint32_t> makers_;
  size_t made_ = 0;
  std::vector<char> marks_;
  std::shared_ptr<Walk> spare_;  // that of the last walk over a Part, for the next one: nothing stands in its lists

  // For errors: the first dead ends, and when and where the tape recorded (ids of this thread's tensors).
  std::vector<DeadEnd> dead_ends_;
  const void* thread_;
  uint64_t begun_, stopped_ = 0, resumed_ = 0;  // the last stop is [stopped_, resumed_)
};

namespace detail {
// `value`, computed from `in`, as a tensor whose gradient is what the rule says; and telling this thread's tapes so.
Tensor with_rule(const Tensor& value, Operands in, const GradientRule& rule, const Where& where);
void record_rule(Operands in, Tensor& out, const GradientRule& rule, const Where& where);
// As a tape records it: what the rule gives is added to the sums.
CustomVjp vjp_of(const GradientRule& rule);

// The arguments of a function with a rule of its own, all of them defined.
std::vector<Spec> specs_of(std::string_view op, Operands in, const Where& where);
// Such a function called: {value, rule}. One tape never asks for the gradient of what the rule computes, and need not
// know what that is made of. Of several, each may record the backward walk of another.
template <class Rule>
std::pair<Tensor, Rule> call_custom(std::string_view op, const Callback<std::pair<Tensor, Rule>()>& f,
                                    const Where& where) {
  std::optional<PauseTapes> pause;
  if (listeners().tapes.size() < 2) pause.emplace();
  std::pair<Tensor, Rule> given = f();
  require_defined(op, given.first, "the value", where);
  return given;
}
}  // namespace detail

}  // namespace rill

#pragma GCC visibility pop
