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

// The number of a watched or recorded tensor on one tape; 0: unknown.
using TapeNode = uint32_t;

// One recorded op. Operands that the op's record does not save are stand-ins without elements.
struct TapeEntry {
  const Op* op = nullptr;  // null: custom
  Attrs attrs;
  Tensors in, out;
  SmallVec<TapeNode, 4> in_nodes;
  TapeNode first_out = 0;  // outputs have consecutive numbers
  bool in_body = false;    // inside control flow or the like, while the tape is outside (body_scope.h)
  CustomVjp custom;
  Where where;
};

// The bytes of the distinct buffers that an entry keeps and that are not in `seen`, to which they are added.
size_t bytes_of(const TapeEntry& e, std::set<const Buffer*>& seen);
bool any_differentiable(std::span<const Tensor> ts);

// For debug::check_gradients: throws if an operand's cotangent, by node, is not finite.
void check_cotangents(const TapeEntry& e, std::span<const Tensor> given, std::span<const Tensor> cotangents);

// An op without a gradient that read a tensor known to the tape.
struct DeadEnd {
  const Op* op;
  Where where;  // the user's
  SmallVec<TapeNode, 4> in_nodes;
};

// From a key (tensor id, variable address) to a node: a list if they are few, else a table.
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

// A unique number for a tape or accumulator, for TensorRep::tape.
uint64_t new_tape_serial();

// An entry in a list of tapes while it records; a pause does not change its position. A list that is not this thread's
// now (the trace's outside, another thread's) cannot be changed: the tape then stays in it without recording, and if
// its owner is destroyed first it is left there for that thread to delete.
class OwnedTape : public TapeListener {
 public:
  void start_recording();
  void stop_recording();
  // Called by the owner's destructor, instead of delete.
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
  Listeners* list_ = nullptr;  // the list that it is in
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

  // The backward walk: cotangents of `sources` from those of `targets`. Frees entries as it goes if `consume`.
  // `slices`, if not null, has one for each source, and receives the cotangents of sources that are only used in
  // lookups of rows. `arrived` is called for each complete cotangent (gradient_hook.h). Cotangents have the dtypes
  // `types`, by source; without any they are left as partial sums (add_cotangent() below).
  std::vector<Tensor> backward(std::span<const TapeNode> targets, std::span<const Tensor> seeds,
                               std::span<const TapeNode> sources, bool consume, std::span<const DType> types,
                               std::vector<IndexedSlices>* slices = nullptr,
                               const Callback<void(size_t, const Tensor&)>& arrived = {});

  // The same for walks inside another one's entry: seeds and results are partial sums, undefined for sources that no
  // target depends on. Nothing is checked, and no hook is called.
  static std::vector<Tensor> partial_sums(GradientTape& of, std::span<const Tensor> targets,
                                          std::span<const Source> sources, std::span<const Tensor> seeds);

  // Why no gradient of the targets reaches `s`, and how to fix it.
  std::string why_unconnected(std::span<const Tensor> targets, const Source& s) const;
  // For the tape's user; start_recording() and stop_recording() are for pauses.
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
  std::vector<char> ancestors_of(std::span<const TapeNode> targets) const;
  // For persistent tapes, which are used repeatedly: the entries that the targets were computed from, found in time
  // that does not depend on the rest of the tape.
  class Part;
  // By node: 1 for those of the sources that reach the targets through lookups of rows only.
  std::vector<char> tables(std::span<const TapeNode> targets, std::span<const TapeNode> sources) const;
  TapeEntry& add_entry(std::string_view op, const Where& where);
  bool find_inputs(Operands in, SmallVec<TapeNode, 4>& nodes) const;
  // Adds the cotangents that an entry's rule returns to those so far.
  struct Walk;
  void pull(TapeEntry& e, std::span<const Tensor> given, Walk& walk);
  // Propagates the cotangents of an entry's results to its operands.
  void visit(TapeEntry& e, Walk& walk);
  TapeNode new_node() { return next_node_++; }
  void name_output(Tensor& t, TapeNode node);
  void note_dead_end(const Op& op, Operands in, const Where& where);
  std::string why_unknown(const Tensor& target) const;
  const Tensor& stand_in(const Spec& spec);

  const int bodies_ = detail::open_bodies;  // when the tape began
  uint64_t serial_;                         // the value of TensorRep::tape for this tape's tensors
  TapeNode next_node_ = 1;
  Tensor stand_in_;    // the last one made
  NodeMap tensors_;    // watched ones, and outputs whose rep another tape has marked
  NodeMap variables_;  // by address
  std::vector<Shared<VariableState>> alive_;

  // For Part, by node: 1 plus the index of the entry that computed it, or 0, for the first `made_` entries; and marks,
  // which a Part clears in its destructor.
  std::vector<uint32_t> makers_;
  size_t made_ = 0;
  std::vector<char> marks_;
  std::shared_ptr<Walk> spare_;  // of the last walk over a Part, for the next one: its lists are empty

  // For errors: the first dead ends, and when and where the tape recorded (ids of this thread's tensors).
  std::vector<DeadEnd> dead_ends_;
  const void* thread_;
  uint64_t begun_, stopped_ = 0, resumed_ = 0;  // the last stop is [stopped_, resumed_)
};

namespace detail {
// A cotangent is the sum of a term for each use of a tensor. Of 8 and 16 bits it would stall (256 + 1 is 256 in bf16),
// so its partial sums are kept in f32 from the second term on, and rounded once, when the sum is complete.
void add_cotangent(Tensor& sum, Tensor&& term);
// The spec of partial sums of more than one term.
Spec sum_spec(const Spec& of);
// A partial sum in that dtype; and a complete sum, rounded to the dtype of what it is the cotangent of.
Tensor as_partial_sum(Tensor sum);
Tensor rounded_sum(Tensor sum, DType of);
// `value`, computed from `in`, as a tensor with this gradient rule; and telling this thread's tapes of it.
Tensor with_rule(const Tensor& value, Operands in, const GradientRule& rule, const Where& where);
void record_rule(Operands in, Tensor& out, const GradientRule& rule, const Where& where);
// As a tape records it: the rule's results are added to the sums.
CustomVjp vjp_of(const GradientRule& rule);

// The specs of the arguments of a function with its own rule, all of them defined.
std::vector<Spec> specs_of(std::string_view op, Operands in, const Where& where);
// Calls such a function: {value, rule}. A single tape never needs the gradient of what the rule computes, and so does
// not record it. With several, each may record the backward walk of another.
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
