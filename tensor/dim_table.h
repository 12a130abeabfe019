// DimTable: the symbolic sizes of one trace. It has the expressions, to which Dims refer by index, and the guards,
// which record the outcome each time the callable used a concrete value. DimValues evaluates both for other sizes.
//
// A table is installed on a thread while the callable runs (OpenDims). Infer rules run again for each size, so they
// need no guards (InferDims). Indices of expressions are not reused within a process (until half a million have been
// used), so a Dim that outlives its trace is a constant to other traces, as any C++ number is.
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

// Operations on Dims, by their names in expressions and guards. On open ones, `calculate` makes an expression of this
// thread's table, and `test` adds a guard to it.
Dim calculate(Dim::Op op, Dim a, Dim b);
bool test(Dim::Test which, Dim a, Dim b);
// The size of an axis after broadcasting, or nothing if the sizes do not broadcast. An open size beside a number other
// than 1 must be that number or 1, so the result is that number, whatever the size is in this call.
std::optional<Dim> broadcast_sizes(Dim a, Dim b);

class DimTable {
 public:
  // A size of a graph's value: of output `output` of node `node` of the trace with this serial number.
  struct Place {
    uint32_t trace = 0;
    int32_t node = 0, output = 0, axis = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  struct Guard {
    Dim::Test test;
    Dim a, b;
    bool outcome;
    std::string place;   // the user's line, if known
    bool costs = false;  // the outcome affects only speed or memory, not results
  };

  enum class Kind : uint8_t { symbol, place, computed };
  struct Expression {
    Kind kind;
    Dim::Op op = Dim::Op::add;
    Dim a{}, b{};  // the operands
    int32_t symbol = 0;
    Place place{};
    std::string name = {};
    bool never_negative = true;  // for all open sizes, as far as is known
  };

  DimTable();
  DimTable(const DimTable&) = delete;
  uint64_t serial() const { return serial_; }  // of its own, in a process

  // Adds an open size; `name` is how messages call it ("x.dim(0)").
  Dim add_symbol(int64_t value, std::string name);
  // Adds a size that an infer rule computes again for other sizes.
  Dim size_at(const Place& place, int64_t value);

  // Adds a guard of a trace that was read from a file.
  void add_guard(Guard g) { guards_.push_back(std::move(g)); }

  // Whether an infer rule has computed with an open size, or looked at one, since InferDims began.
  bool computed() const { return computed_; }
  // Whether it is known to be 0 or more for all open sizes.
  bool is_never_negative(Dim d) const { return knows(d) ? at(d).never_negative : d.hint() >= 0; }
  bool knows(Dim d) const { return d.is_open() && index_.count(d.number()) != 0; }
  // The expression of a Dim of this table.
  const Expression& at(Dim d) const { return expressions_[index_.at(d.number())]; }
  // Calls visit(part, its expression) for the parts of `d`, operands first, and last for `d` itself. Parts for which
  // done(part) is true are skipped; it must be true once visit() has seen a part. Not recursive, for chains may be
  // longer than the stack is deep.
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
  // "(x.dim(0) - 1) / 2"; long expressions are cut, and end in "...".
  std::string text(Dim d) const;
  // Whether text() is the whole expression.
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
  std::unordered_map<uint32_t, uint32_t> index_;  // keyed by the index in a Dim
  std::unordered_map<std::string, Dim> known_;    // computed sizes, keyed by their expression
  std::unordered_map<std::string, bool> seen_;    // guards
  std::vector<Guard> guards_;
  int symbols_ = 0;
  bool inferring_ = false, computed_ = false, costs_ = false;
  const uint64_t serial_;
};

// While it lives, `table`, which may be null, is the table of this thread's trace.
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

// While it lives, an infer rule runs, and nothing adds guards.
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

// For infer rules: while it lives, arithmetic on sizes makes expressions, as in traced code. Sizes that a rule computes
// without it become "size of this value", and so do all other sizes of its results. Only for arithmetic: looking at a
// size or testing it adds a guard.
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

// While it lives, tests of sizes choose between algorithms that are all correct for every size, by their cost. A call
// with another outcome gets its own trace, as after any test; but an exported model, which cannot trace again, may use
// one algorithm for all sizes.
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

// Evaluates the expressions of a table, as numbers or as Dims of another table; each only once.
template <class V>
class DimMemo {
 public:
  explicit DimMemo(const DimTable& table) : table_(table) {}
  // The value of an expression, or nothing if a part has no value yet. `leaf(e)` is the value of a symbol or of a size
  // of a value, `join(op, a, b)` the result of an operation; both may return nothing.
  template <class Leaf, class Join>
  std::optional<V> of(Dim d, const Leaf& leaf, const Join& join) {
    unknown_.clear();  // they may be known by now
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
  std::unordered_set<uint32_t> unknown_;  // found during this call of of()
};

// Evaluates the expressions and guards of a table for other sizes.
class DimValues {
 public:
  using SizeAt = Callback<std::optional<int64_t>(const DimTable::Place&)>;
  // `sizes`: those of the symbols, in the order in which they were added. `size_at` returns sizes that infer rules
  // compute.
  DimValues(const DimTable& table, std::span<const int64_t> sizes, SizeAt size_at)
      : memo_(table), sizes_(sizes.begin(), sizes.end()), size_at_(std::move(size_at)) {}

  // Nothing if it is not known yet, or cannot be computed (a division by zero).
  std::optional<int64_t> of(Dim d);
  // Whether the guard has the recorded outcome.
  bool holds(const DimTable::Guard& g);

 private:
  DimMemo<int64_t> memo_;
  std::vector<int64_t> sizes_;
  SizeAt size_at_;
};

}  // namespace rill

#pragma GCC visibility pop
