#include "rill/tensor/dim_table.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ostream>
#include <utility>

#include "rill/tensor/error.h"

namespace rill {

namespace {

thread_local constinit DimTable* open_dims = nullptr;
std::atomic<uint32_t> next_number{0};

// C++'s arithmetic; nothing where it is undefined.
std::optional<int64_t> arithmetic(Dim::Op op, int64_t a, int64_t b) {
  int64_t r = 0;
  switch (op) {
    case Dim::Op::add: return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case Dim::Op::subtract: return __builtin_sub_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case Dim::Op::multiply: return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case Dim::Op::divide:
      if (b == -1) return arithmetic(Dim::Op::subtract, 0, a);
      return b == 0 ? std::nullopt : std::optional(a / b);
    case Dim::Op::remainder:
      if (b == -1) return 0;
      return b == 0 ? std::nullopt : std::optional(a % b);
    case Dim::Op::smaller: return std::min(a, b);
    case Dim::Op::larger: return std::max(a, b);
  }
  return std::nullopt;
}

bool outcome(Dim::Test test, int64_t a, int64_t b) {
  return test == Dim::Test::equal ? a == b : test == Dim::Test::less ? a < b : a <= b;
}

Dim::Op opposite(Dim::Op op) { return op == Dim::Op::add ? Dim::Op::subtract : Dim::Op::add; }

// A Dim as a key of the maps.
std::string key(Dim d) { return d.is_open() ? "#" + std::to_string(d.number()) : std::to_string(d.hint()); }

}  // namespace

// --- Dim -------------------------------------------------------------------------------------------------------------

int64_t Dim::look() const { return open_dims ? open_dims->look(*this) : hint(); }
Dim Dim::compute(Op op, Dim a, Dim b) {
  return open_dims ? open_dims->compute(op, a, b) : Dim(Dim::apply(op, a.hint(), b.hint()));
}
void Dim::fail_division() {
  fail("Dim", "a number is divided by a size, or a number made from sizes, that is 0", Where());
}
bool Dim::decide(Test test, Dim a, Dim b) {
  return open_dims ? open_dims->decide(test, a, b) : outcome(test, a.hint(), b.hint());
}

Dim calculate(Dim::Op op, Dim a, Dim b) {
  switch (op) {
    case Dim::Op::add: return a + b;
    case Dim::Op::subtract: return a - b;
    case Dim::Op::multiply: return a * b;
    case Dim::Op::divide: return a / b;
    case Dim::Op::remainder: return a % b;
    case Dim::Op::smaller: return smaller(a, b);
    default: return larger(a, b);
  }
}
bool test(Dim::Test which, Dim a, Dim b) {
  return which == Dim::Test::equal ? a == b : which == Dim::Test::less ? a < b : a <= b;
}

std::ostream& operator<<(std::ostream& out, Dim d) { return out << int64_t(d); }

OpenDims::OpenDims(DimTable* table) : outer_(std::exchange(open_dims, table)) {}
OpenDims::~OpenDims() { open_dims = outer_; }
DimTable* OpenDims::now() { return open_dims; }

// --- Expressions -----------------------------------------------------------------------------------------------------

static std::atomic<uint64_t> next_table{1};
DimTable::DimTable() : serial_(next_table++) {}

Dim DimTable::add(Expression e, int64_t value) {
  uint32_t number = ++next_number & Dim::last_number;
  if (!Dim::fits(value) || index_.count(number)) return value;
  index_.emplace(number, uint32_t(expressions_.size()));
  expressions_.push_back(std::move(e));
  return Dim::open(number, value);
}

Dim DimTable::add_symbol(int64_t value, std::string name) {
  Expression e{Kind::symbol};
  e.symbol = symbols_++;
  e.name = std::move(name);
  return add(std::move(e), value);
}

Dim DimTable::size_at(const Place& place, int64_t value) {
  Expression e{Kind::place};
  e.place = place;
  return add(std::move(e), value);
}

Dim DimTable::compute(Dim::Op op, Dim a, Dim b) {
  if (inferring_) {
    computed_ = true;
    return Dim::apply(op, a.hint(), b.hint());
  }
  if (!knows(a)) a = a.hint();
  if (!knows(b)) b = b.hint();
  std::optional<int64_t> value = arithmetic(op, a.hint(), b.hint());
  if (!value || !Dim::fits(*value) || (!a.is_open() && !b.is_open())) return Dim::apply(op, look(a), look(b));
  using enum Dim::Op;
  auto is = [](Dim d, int64_t n) { return !d.is_open() && d.hint() == n; };
  auto inside = [&](Dim d) { return knows(d) && at(d).kind == Kind::computed ? &at(d) : nullptr; };
  if (((op == add || op == subtract) && is(b, 0)) || ((op == multiply || op == divide) && is(b, 1))) return a;
  if ((op == add && is(a, 0)) || (op == multiply && is(a, 1))) return b;
  if (op == multiply && (is(a, 0) || is(b, 0))) return 0;
  if (a.is_open() && b.is_open() && a.number() == b.number()) {
    if (op == subtract) return 0;
    if (op == smaller || op == larger) return a;
  }
  for (const auto& [n, x] : {std::pair(a, b), std::pair(b, a)}) {
    if ((op != smaller && op != larger) || n.is_open() || n.plain() > 0) continue;
    if (is_never_negative(x)) return op == smaller ? n : x;
    // 0 - y, where y is not negative.
    if (const Expression* e = inside(x); e && is(n, 0) && e->op == subtract && is(e->a, 0) && is_never_negative(e->b))
      return op == smaller ? x : n;
  }
  // (x + 1) - 1 is x, and so is 0 - (0 - x).
  if (const Expression* e = inside(a);
      e && (op == add || op == subtract) && !b.is_open() && !e->b.is_open() && (e->op == add || e->op == subtract)) {
    const auto sum = arithmetic(op == e->op ? add : subtract, e->b.plain(), b.plain());
    if (sum && *sum != INT64_MIN) return compute(*sum < 0 ? opposite(e->op) : e->op, e->a, std::abs(*sum));
  }
  if (const Expression* e = inside(b); e && op == subtract && is(a, 0) && e->op == subtract && is(e->a, 0)) return e->b;
  std::string what = key(a) + "," + std::to_string(int(op)) + "," + key(b);
  if (auto it = known_.find(what); it != known_.end()) return it->second;
  Expression e{Kind::computed};
  e.op = op, e.a = a, e.b = b;
  const bool from_a = is_never_negative(a), from_b = is_never_negative(b);
  e.never_negative = op == remainder ? from_a : op == larger ? from_a || from_b : op != subtract && from_a && from_b;
  Dim result = this->add(std::move(e), *value);
  if (!result.is_open()) return Dim::apply(op, look(a), look(b));
  return known_.emplace(std::move(what), result).first->second;
}

// --- Guards ----------------------------------------------------------------------------------------------------------

void DimTable::guard(Dim::Test test, Dim a, Dim b, bool was) {
  const Where where = caller_or(Where());
  // The same test in the user's code and inside a function are two guards: only one of them may affect results.
  std::string what = key(a) + "," + std::to_string(int(test)) + "," + key(b) + (where.line() ? " inside" : "") +
                     (costs_ ? " costs" : "");
  if (!seen_.emplace(std::move(what), was).second) return;
  guards_.push_back({test, a, b, was, where.line() ? to_string(where) : std::string(), costs_});
}

int64_t DimTable::look(Dim d) {
  if (inferring_) computed_ = true;
  else if (knows(d)) guard(Dim::Test::equal, d, d.hint(), true);
  return d.hint();
}

bool DimTable::decide(Dim::Test test, Dim a, Dim b) {
  bool was = outcome(test, a.hint(), b.hint());
  if (inferring_) return was;
  if (!knows(a)) a = a.hint();
  if (!knows(b)) b = b.hint();
  const bool same = a.is_open() && b.is_open() && a.number() == b.number();
  const bool is_sign = (test == Dim::Test::less && !b.is_open() && b.hint() == 0 && is_never_negative(a)) ||
                       (test == Dim::Test::less_equal && !a.is_open() && a.hint() == 0 && is_never_negative(b));
  const auto is_below_0 = [](Dim d) { return !d.is_open() && d.hint() < 0; };
  const bool never_equal =
      test == Dim::Test::equal && ((is_below_0(a) && is_never_negative(b)) || (is_below_0(b) && is_never_negative(a)));
  if (!same && !is_sign && !never_equal && (a.is_open() || b.is_open())) guard(test, a, b, was);
  return was;
}

// --- Text ------------------------------------------------------------------------------------------------------------

namespace {
constexpr size_t longest_text = 300;
}

void DimTable::write(Dim d, std::string& out) const {
  if (out.size() > longest_text) return;
  if (!knows(d)) {
    out += std::to_string(d.hint());
    return;
  }
  const Expression& e = at(d);
  if (e.kind == Kind::symbol) {
    out += e.name;
    return;
  }
  if (e.kind == Kind::place) {
    out += "size " + std::to_string(e.place.axis) + " of %" + std::to_string(e.place.node);
    if (e.place.output) out += "." + std::to_string(e.place.output);
    return;
  }
  const auto part = [&](Dim x, bool bracketed) {
    if (bracketed) out += "(";
    write(x, out);
    if (bracketed) out += ")";
  };
  const auto is_computed = [&](Dim x) { return knows(x) && at(x).kind == Kind::computed; };
  if (e.op == Dim::Op::smaller || e.op == Dim::Op::larger) {
    out += e.op == Dim::Op::smaller ? "smaller(" : "larger(";
    part(e.a, false);
    out += ", ";
    part(e.b, false);
    out += ")";
    return;
  }
  constexpr std::string_view symbols[] = {" + ", " - ", " * ", " / ", " % "};
  part(e.a, is_computed(e.a));
  out += symbols[int(e.op)];
  part(e.b, is_computed(e.b));
}

std::string DimTable::text(Dim d) const {
  std::string out;
  write(d, out);
  if (out.size() > longest_text) out.replace(longest_text, std::string::npos, "...");
  return out;
}

bool DimTable::has_whole_text(Dim d) const {
  std::string out;
  write(d, out);
  return out.size() <= longest_text;
}

std::string DimTable::text(const Guard& g) const {
  const char* holds[] = {" == ", " < ", " <= "};
  const char* fails[] = {" != ", " >= ", " > "};
  std::string s = text(g.a) + (g.outcome ? holds : fails)[int(g.test)] + text(g.b);
  return g.place.empty() ? s : s + " (" + g.place + ")";
}

// --- Other sizes -----------------------------------------------------------------------------------------------------

std::optional<int64_t> DimValues::of(Dim d) {
  const auto leaf = [&](const DimTable::Expression& e) {
    return e.kind == DimTable::Kind::symbol ? std::optional(sizes_[size_t(e.symbol)]) : size_at_(e.place);
  };
  return memo_.of(d, leaf, arithmetic);
}

bool DimValues::holds(const DimTable::Guard& g) {
  std::optional<int64_t> a = of(g.a), b = of(g.b);
  return a && b && outcome(g.test, *a, *b) == g.outcome;
}

}  // namespace rill
