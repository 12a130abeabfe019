// DimTable: the symbolic sizes of one trace: the expressions that its Dims refer to by number, and the guards, which
// record what the callable found when it used a concrete value. DimValues evaluates both for other sizes.
//
// A table is installed on a thread while the callable runs (OpenDims). Infer rules run again for each size, so they
// need no guards (InferDims). Numbers of expressions are not reused in a process (until half a million have been used),
// so a Dim that outlives its trace is a constant to other traces, as any C++ number is.
#pragma once
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "rill/tensor/callback.h"
#include "rill/tensor/shape.h"

#pragma GCC visibility push(default)

namespace rill {

// What traced code does with Dims, by its name in an expression or a guard: of open ones, `calculate` gives an
// expression of this thread's table, and `test` adds a guard to it.
Dim calculate(Dim::Op op, Dim a, Dim b);
bool test(Dim::Test which, Dim a, Dim b);
// The size of one axis of what two shapes broadcast to; none where they do not. An open size beside a number other than
// 1 is that or 1, and gives that, whatever it is in this call.
std::optional<Dim> broadcast_sizes(Dim a, Dim b);

class DimTable {
 public:
  // One size of a value of a graph: of output `output` of node `node` of the trace with that serial number.
  struct Place {
    uint32_t trace = 0;
    int32_t node = 0, output = 0, axis = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  struct Guard {
    Dim::Test test;
    Dim a, b;
    bool outcome;
    std::string place;   // the user's line, where it is known
    bool costs = false;  // the trace is right whichever way it is, and may be slow, or large, where it does not hold
  };

  enum class Kind : uint8_t { symbol, place, computed };
  struct Expression {
    Kind kind;
    Dim::Op op = Dim::Op::add;
    Dim a{}, b{};  // what is computed with
    int32_t symbol = 0;
    Place place{};
    std::string name = {};
    bool never_negative = true;  // whatever the open sizes are, as far as is known
  };

  DimTable();
  DimTable(const DimTable&) = delete;
  uint64_t serial() const { return serial_; }  // of its own, in a process

  // A size that is open; `name` says which ("x.dim(0)").
  Dim add_symbol(int64_t value, std::string name);
  // A size that an infer rule has computed, and computes again for other sizes.
  Dim size_at(const Place& place, int64_t value);

  // A guard of a trace that was read from a file.
  void add_guard(Guard g) { guards_.push_back(std::move(g)); }

  // What an infer rule did since InferDims began: whether it computed with an open number, or looked at one.
  bool computed() const { return computed_; }
  // Whether it is known to be 0 or more, whatever the open sizes are.
  bool is_never_negative(Dim d) const { return knows(d) ? at(d).never_negative : d.hint() >= 0; }
  bool knows(Dim d) const { return d.is_open() && index_.count(d.number()) != 0; }
  // What a Dim that it knows stands for.
  const Expression& at(Dim d) const { return expressions_[index_.at(d.number())]; }
  // Calls visit(part, its expression) for what `d` is computed of, operands first, and then for `d` itself; not for
  // what done(part) holds of, as it must of each part once visit() has had it. Chains may be longer than the stack is
  // deep.
  template <class Done, class Visit>
  void visit_parts(Dim d, const Done& done, const Visit& visit) const {
    const auto waits = [&](Dim part) { return knows(part) && !done(part); };
    std::vector<Dim> path;
    if (waits(d)) path.push_back(d);
    while (!path.empty()) {
      const Dim part = path.back();
      const Expression& e = at(part);
      const size_t before = path.size();
      if (e.kind == Kind::computed && !done(part))
        for (const Dim operand : {e.b, e.a})
          if (waits(operand)) path.push_back(operand);
      if (path.size() > before) continue;
      path.pop_back();
      if (!done(part)) visit(part, e);
    }
  }
  const std::vector<Guard>& guards() const { return guards_; }
  // "(x.dim(0) - 1) / 2"; what is too long to read, or written with many of the same parts, ends in "...".
  std::string text(Dim d) const;
  // Whether text() gives all of it.
  bool has_whole_text(Dim d) const;
  // "x.dim(0) == 4 (train.cpp:12)".
  std::string text(const Guard& g) const;

 private:
  friend class Dim;
  friend class DimValues;
  friend class InferDims;
  friend class ExactDims;
  friend class CostDims;
  void write(Dim d, std::string& out) const;
  int64_t look(Dim d);
  Dim compute(Dim::Op op, Dim a, Dim b);
  bool decide(Dim::Test test, Dim a, Dim b);
  Dim add(Expression e, int64_t value);
  void guard(Dim::Test test, Dim a, Dim b, bool outcome);

  std::vector<Expression> expressions_;
  std::unordered_map<uint32_t, uint32_t> index_;  // from the number in a Dim
  std::unordered_map<std::string, Dim> known_;    // computed ones, by what they are
  std::unordered_map<std::string, bool> seen_;    // guards
  std::vector<Guard> guards_;
  int symbols_ = 0;
  bool inferring_ = false, computed_ = false, costs_ = false;
  const uint64_t serial_;
};

// The table of this thread's trace is `table` while this lives; none where that is null.
class OpenDims {
 public:
  explicit OpenDims(DimTable* table);
  ~OpenDims();
  OpenDims(const OpenDims&) = delete;
  // The table of this thread, or null.
  static DimTable* now();

 private:
  DimTable* outer_;
};

// While this lives, an infer rule runs: nothing that it looks at is remembered.
class InferDims {
 public:
  explicit InferDims(DimTable& table) : table_(table), outer_(table.inferring_) {
    table.inferring_ = true;
    if (!outer_) table.computed_ = false;
  }
  ~InferDims() { table_.inferring_ = outer_; }
  InferDims(const InferDims&) = delete;

 private:
  DimTable& table_;
  bool outer_;
};

// In an infer rule: sizes that are computed while this lives are expressions, as in code that is traced; those that the
// rule computes without it become "size of this value", and so do all others of its results. For arithmetic alone: what
// is looked at or tested meanwhile becomes a guard.
class ExactDims {
 public:
  ExactDims() : table_(OpenDims::now()), outer_(table_ && std::exchange(table_->inferring_, false)) {}
  ~ExactDims() {
    if (table_) table_->inferring_ = outer_;
  }
  ExactDims(const ExactDims&) = delete;

 private:
  DimTable* table_;
  bool outer_;
};

// While this lives, tests of sizes choose between ways that are all right for every size, by what they cost. A call with
// sizes for which the answer is another gets a trace of its own, as after any test; but a model, which cannot ask, may
// have the one for all of them.
class CostDims {
 public:
  CostDims() : table_(OpenDims::now()), outer_(table_ && std::exchange(table_->costs_, true)) {}
  ~CostDims() {
    if (table_) table_->costs_ = outer_;
  }
  CostDims(const CostDims&) = delete;

 private:
  DimTable* table_;
  bool outer_;
};

// What the expressions of a table come to, as numbers or as Dims of another table, each found once.
template <class V>
class DimMemo {
 public:
  explicit DimMemo(const DimTable& table) : table_(table) {}
  // None where a part of it has no value so far. `leaf(e)` is a symbol's or place's value, `join(op, a, b)` what is
  // computed of two; both may have none.
  template <class Leaf, class Join>
  std::optional<V> of(Dim d, const Leaf& leaf, const Join& join) {
    unknown_.clear();  // more may be known by now
    const auto done = [&](Dim part) { return known_.count(part.number()) || unknown_.count(part.number()); };
    table_.visit_parts(d, done, [&](Dim part, const DimTable::Expression& e) {
      std::optional<V> value;
      if (e.kind != DimTable::Kind::computed) value = leaf(e);
      else if (const std::optional<V> a = found(e.a), b = found(e.b); a && b) value = join(e.op, *a, *b);
      if (value) known_.emplace(part.number(), *value);
      else unknown_.insert(part.number());
    });
    return found(d);
  }

 private:
  std::optional<V> found(Dim d) const {
    if (!table_.knows(d)) return V(d.hint());
    const auto at = known_.find(d.number());
    return at == known_.end() ? std::nullopt : std::optional<V>(at->second);
  }

  const DimTable& table_;
  std::unordered_map<uint32_t, V> known_;
  std::unordered_set<uint32_t> unknown_;  // as far as this call of of() has seen
};

// The expressions of a table for other sizes.
class DimValues {
 public:
  using SizeAt = Callback<std::optional<int64_t>(const DimTable::Place&)>;
  // `sizes`: of the symbols, in the order in which they were added. `size_at` gives sizes that infer rules compute.
  DimValues(const DimTable& table, std::span<const int64_t> sizes, SizeAt size_at)
      : memo_(table), sizes_(sizes.begin(), sizes.end()), size_at_(std::move(size_at)) {}

  // None where it cannot be told, or cannot be computed (a division by zero).
  std::optional<int64_t> of(Dim d);
  // Whether it comes out as it was seen.
  bool holds(const DimTable::Guard& g);

 private:
  DimMemo<int64_t> memo_;
  std::vector<int64_t> sizes_;
  SizeAt size_at_;
};

}  // namespace rill

#pragma GCC visibility pop
