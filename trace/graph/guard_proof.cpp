// See guard_proof.h. A Dim becomes a polynomial with integer coefficients, whose unknowns are open sizes, sizes that
// infer rules compute, and subexpressions that are not polynomials: quotients and minima. (a % b is a - b (a / b), and
// the maximum of two is their sum minus the minimum.) A guard then states that a polynomial is never negative, or zero,
// or not zero. Start at Impl::holds; Impl::never_negative is the proof.
#include "rill/trace/graph/guard_proof.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

namespace rill {
namespace {

using Unknowns = std::vector<int>;  // the factors of a product, in order; n n m is {0, 0, 1}

// If coefficients overflow, nothing is proved of the polynomial.
struct Polynomial {
  std::map<Unknowns, int64_t> terms;  // none is zero; {} is the constant
  bool overflowed = false;

  Polynomial() = default;
  Polynomial(int64_t n) { add_term({}, n); }
  static Polynomial unknown(int number) {
    Polynomial p;
    p.terms[{number}] = 1;
    return p;
  }

  void add_term(const Unknowns& u, int64_t factor) {
    if (factor == 0) return;
    int64_t& now = terms[u];
    overflowed |= __builtin_add_overflow(now, factor, &now);
    if (now == 0) terms.erase(u);
  }
  void add(const Polynomial& p, int64_t factor) {
    overflowed |= p.overflowed;
    for (const auto& [u, n] : p.terms) {
      int64_t product = 0;
      overflowed |= __builtin_mul_overflow(n, factor, &product);
      add_term(u, product);
    }
  }
  std::optional<int64_t> constant() const {
    if (overflowed || terms.size() > 1) return std::nullopt;
    if (terms.empty()) return 0;
    return terms.begin()->first.empty() ? std::optional(terms.begin()->second) : std::nullopt;
  }
  int64_t at(const Unknowns& u) const {
    const auto found = terms.find(u);
    return found == terms.end() ? 0 : found->second;
  }
  bool holds(int number) const {
    return std::ranges::any_of(terms, [&](const auto& t) { return std::ranges::count(t.first, number) > 0; });
  }
  friend auto operator<=>(const Polynomial&, const Polynomial&) = default;
};

Polynomial operator+(Polynomial a, const Polynomial& b) { return a.add(b, 1), a; }
Polynomial operator-(Polynomial a, const Polynomial& b) { return a.add(b, -1), a; }
Polynomial operator*(const Polynomial& a, const Polynomial& b) {
  constexpr size_t most_terms = 200, most_factors = 8;
  Polynomial p;
  p.overflowed = a.overflowed || b.overflowed || a.terms.size() * b.terms.size() > most_terms;
  if (p.overflowed) return p;
  for (const auto& [u, m] : a.terms)
    for (const auto& [v, n] : b.terms) {
      Unknowns both;
      std::ranges::merge(u, v, std::back_inserter(both));
      int64_t product = 0;
      p.overflowed |= __builtin_mul_overflow(m, n, &product) || both.size() > most_factors;
      p.add_term(both, product);
    }
  return p;
}

// `p` with `value` substituted for an unknown.
Polynomial with(const Polynomial& p, int number, const Polynomial& value) {
  Polynomial out;
  out.overflowed = p.overflowed;
  for (const auto& [u, n] : p.terms) {
    Polynomial term(n);
    for (const int factor : u) term = term * (factor == number ? value : Polynomial::unknown(factor));
    out.add(term, 1);
  }
  return out;
}

}  // namespace

class GuardProof::Impl {
 public:
  Impl(const DimTable& dims, int64_t least) : dims_(dims), least_(least), memo_(std::in_place, dims) {}

  bool holds(const DimTable::Guard& g, bool as_many) {
    const std::optional<Polynomial> a = of(g.a), b = of(g.b);
    if (!a || !b) return false;
    const auto proved = [&] { return holds(g.test, *a, *b, g.outcome); };
    if (!as_many) return proved();
    // A comparison is an unknown of its own.
    const auto itself = [&](Dim d, const Polynomial& p) {
      return dims_.knows(d) && !p.constant()
                 ? Polynomial::unknown(size_of_place({0, -1, 1, int32_t(d.number())}, least_))
                 : p;
    };
    return proved() || holds(g.test, itself(g.a, *a), itself(g.b, *b), g.outcome);
  }

  void assume_equal(Dim a, Dim b) {
    const std::optional<Polynomial> x = of(a), y = of(b);
    if (!x || !y) return;
    const Polynomial difference = *x - *y;
    // If an unknown is a term by itself, with a factor of 1, it equals the other terms.
    for (int number = int(unknowns_.size()); number-- > 0;) {
      const int64_t factor = difference.at({number});
      if (factor * factor != 1 || unknowns_[size_t(number)].kind != Kind::size) continue;
      Polynomial rest = difference;
      rest.terms.erase({number});
      if (contains(rest, number)) continue;
      Polynomial value;
      value.add(rest, -factor);
      for (auto& [known, is] : substitutions_) is = with(is, number, value);
      substitutions_[number] = value;
      memo_.emplace(dims_);  // polynomials are recomputed with the substitution
      return;
    }
  }

 private:
  enum class Kind : uint8_t { size, quotient, smaller, other };
  struct Unknown {
    Kind kind = Kind::size;
    int64_t least = 0;    // of a size
    Polynomial a, b;      // of a quotient or minimum
    bool signed_ = true;  // whether it may be negative
  };

  // --- Polynomials of Dims ---------------------------------------------------------------------------------------------

  std::optional<Polynomial> of(Dim d) {
    const auto leaf = [&](const DimTable::Expression& e) -> std::optional<Polynomial> {
      const int number =
          e.kind == DimTable::Kind::symbol ? size_of_place({0, -1, 0, e.symbol}, least_) : size_of_place(e.place, 0);
      const auto known = substitutions_.find(number);
      return known == substitutions_.end() ? Polynomial::unknown(number) : known->second;
    };
    return memo_->of(d, leaf, [&](Dim::Op op, const Polynomial& a, const Polynomial& b) { return join(op, a, b); });
  }
  // The unknown of a size; for a symbol, an invalid position.
  int size_of_place(const DimTable::Place& p, int64_t least) {
    const auto [at, is_new] = sizes_.try_emplace({p.trace, p.node, p.output, p.axis}, int(unknowns_.size()));
    if (is_new) unknowns_.push_back({Kind::size, least, {}, {}, false});
    return at->second;
  }
  int made_of(Kind kind, const Polynomial& a, const Polynomial& b, bool is_signed) {
    const auto [at, is_new] = made_.try_emplace({kind, a, b}, int(unknowns_.size()));
    if (is_new) unknowns_.push_back({kind, 0, a, b, is_signed});
    return at->second;
  }

  std::optional<Polynomial> join(Dim::Op op, const Polynomial& a, const Polynomial& b) {
    if (a.overflowed || b.overflowed) return std::nullopt;
    switch (op) {
      case Dim::Op::add: return a + b;
      case Dim::Op::subtract: return a - b;
      case Dim::Op::multiply: return a * b;
      case Dim::Op::divide: return quotient(a, b);
      case Dim::Op::remainder: return a - b * quotient(a, b);
      case Dim::Op::smaller: return smaller(a, b);
      case Dim::Op::larger: return a + b - smaller(a, b);
    }
    return std::nullopt;
  }

  Polynomial smaller(const Polynomial& a, const Polynomial& b) {
    if (never_negative(b - a)) return a;
    if (never_negative(a - b)) return b;
    return Polynomial::unknown(made_of(Kind::smaller, std::min(a, b), std::max(a, b), true));
  }

  // Rounded towards zero, as in C++.
  Polynomial quotient(const Polynomial& a, const Polynomial& b) {
    if (b.terms.size() == 1)
      if (const auto exact = divided(a, b.terms.begin()->first, b.terms.begin()->second)) return *exact;
    const bool positive = never_negative(a) && never_negative(b);
    const std::optional<int64_t> c = b.constant();
    if (!positive || !c || *c == 0)
      return Polynomial::unknown(made_of(positive ? Kind::quotient : Kind::other, a, b, !positive));
    Polynomial quotient, rest;  // a = c quotient + rest
    for (const auto& [u, n] : a.terms) {
      const int64_t left = ((n % *c) + *c) % *c;
      quotient.add_term(u, (n - left) / *c);
      rest.add_term(u, left);
    }
    if (rest.constant()) return quotient;  // less than c
    if (!never_negative(rest)) return Polynomial::unknown(made_of(Kind::quotient, a, b, false));
    return quotient + Polynomial::unknown(made_of(Kind::quotient, rest, b, false));
  }
  // a / (factor u), if the remainder is 0. A division by zero is an error in the traced code, so it need not be
  // considered.
  static std::optional<Polynomial> divided(const Polynomial& a, const Unknowns& u, int64_t factor) {
    Polynomial out;
    for (const auto& [v, n] : a.terms) {
      if (factor == 0 || (factor == -1 && n == INT64_MIN) || n % factor != 0 || !std::ranges::includes(v, u)) return {};
      Unknowns left;
      std::ranges::set_difference(v, u, std::back_inserter(left));
      out.add_term(left, n / factor);
    }
    return out;
  }

  // Whether an unknown is in `p`, or in the definitions of its unknowns.
  bool contains(const Polynomial& p, int number) const {
    for (const auto& [u, n] : p.terms)
      for (const int k : u) {
        if (k == number) return true;
        const Unknown& part = unknowns_[size_t(k)];
        if (part.kind != Kind::size && (contains(part.a, number) || contains(part.b, number))) return true;
      }
    return false;
  }

  // --- Proofs ----------------------------------------------------------------------------------------------------------

  bool holds(Dim::Test test, const Polynomial& a, const Polynomial& b, bool outcome) {
    const Polynomial d = b - a;
    if (d.overflowed) return false;
    switch (test) {
      case Dim::Test::less: return never_negative(outcome ? d - 1 : Polynomial() - d);
      case Dim::Test::less_equal: return never_negative(outcome ? d : Polynomial() - d - 1);
      case Dim::Test::equal: break;
    }
    if (outcome) return d.terms.empty() || (never_negative(d) && never_negative(Polynomial() - d));
    return never_negative(d - 1) || never_negative(Polynomial() - d - 1) || is_no_multiple(d);
  }
  // Whether all terms but the constant are multiples of a number of which the constant is not.
  static bool is_no_multiple(const Polynomial& d) {
    int64_t common = 0;
    for (const auto& [u, n] : d.terms)
      if (!u.empty()) common = std::gcd(common, n);
    return common != 0 && d.at({}) % common != 0;
  }

  bool never_negative(const Polynomial& p) {
    int steps = 300;
    std::map<int, int64_t> least;
    return never_negative(p, least, steps);
  }
  // `least`: of sizes, if more is known than for all. Gives up after a number of steps.
  bool never_negative(const Polynomial& p, std::map<int, int64_t>& least, int& steps) {
    if (p.overflowed || --steps < 0) return false;
    // Substitutes least value + u for each unknown, u >= 0: the polynomial is not negative if no term is.
    Polynomial from_least = p;
    std::vector<int> unknowns;
    for (const auto& [u, n] : p.terms) unknowns.insert(unknowns.end(), u.begin(), u.end());
    std::ranges::sort(unknowns);
    unknowns.erase(std::ranges::unique(unknowns).begin(), unknowns.end());
    bool is_signed = false;
    for (const int k : unknowns) {
      is_signed |= unknowns_[size_t(k)].signed_;
      if (const int64_t start = least_of(k, least); start != 0)
        from_least = with(from_least, k, Polynomial::unknown(k) + start);
    }
    if (from_least.overflowed) return false;
    if (!is_signed && std::ranges::all_of(from_least.terms, [](const auto& t) { return t.second >= 0; })) return true;
    if (!is_signed && from_least.at({}) < 0 && has_only_sizes(unknowns))
      return false;  // if all have their least values
    for (size_t i = unknowns.size(); i-- > 0;)
      if (const auto proved = by_bounds(p, unknowns[i], least, steps)) return *proved;
    return by_cases(p, unknowns, least, steps);
  }
  int64_t least_of(int number, const std::map<int, int64_t>& least) const {
    const auto found = least.find(number);
    return found != least.end() ? found->second : unknowns_[size_t(number)].least;
  }
  bool has_only_sizes(const std::vector<int>& numbers) const {
    return std::ranges::all_of(numbers, [&](int k) { return unknowns_[size_t(k)].kind == Kind::size; });
  }

  // Substitutes bounds for an unknown that is defined by others; nothing if it has none.
  std::optional<bool> by_bounds(const Polynomial& p, int number, std::map<int, int64_t>& least, int& steps) {
    const Unknown u = unknowns_[size_t(number)];
    if (u.kind != Kind::quotient && u.kind != Kind::smaller) return std::nullopt;
    Polynomial factor, rest;  // p = factor * unknown + rest
    for (const auto& [v, n] : p.terms) {
      Unknowns others = v;
      const auto at = std::ranges::find(others, number);
      if (at == others.end()) {
        rest.add_term(v, n);
        continue;
      }
      others.erase(at);
      if (std::ranges::count(others, number)) return std::nullopt;
      factor.add_term(others, n);
    }
    const auto proved = [&](const Polynomial& q) { return never_negative(q, least, steps); };
    const bool falls = proved(Polynomial() - factor), rises = proved(factor);
    if (u.kind == Kind::smaller) {
      const Polynomial first = factor * u.a + rest, second = factor * u.b + rest;
      return falls ? proved(first) || proved(second) : proved(first) && proved(second);
    }
    // b q is in [a - (b - 1), a], and q is not negative and not larger than a.
    if (falls) return proved(factor * u.a + u.b * rest) || proved(factor * u.a + rest);
    if (rises) return proved(factor * (u.a - u.b + 1) + u.b * rest) || proved(rest);
    return std::nullopt;
  }

  // By cases: an open size is its least value, or larger.
  bool by_cases(const Polynomial& p, const std::vector<int>& unknowns, std::map<int, int64_t>& least, int& steps) {
    for (const int k : unknowns) {
      if (unknowns_[size_t(k)].kind != Kind::size || is_within_others(k, unknowns)) continue;
      const std::map<int, int64_t> before = least;
      const int64_t start = least_of(k, least);
      if (!never_negative(with(p, k, start), least, steps)) return false;
      least[k] = start + 1;
      const bool proved = never_negative(p, least, steps);
      least = before;
      return proved;
    }
    return false;
  }
  bool is_within_others(int number, const std::vector<int>& unknowns) const {
    return std::ranges::any_of(unknowns, [&](int k) {
      const Unknown& u = unknowns_[size_t(k)];
      return u.kind != Kind::size && (contains(u.a, number) || contains(u.b, number));
    });
  }

  const DimTable& dims_;
  const int64_t least_;
  std::optional<DimMemo<Polynomial>> memo_;
  std::vector<Unknown> unknowns_;
  std::map<std::tuple<uint32_t, int32_t, int32_t, int32_t>, int> sizes_;
  std::map<std::tuple<Kind, Polynomial, Polynomial>, int> made_;
  std::map<int, Polynomial> substitutions_;  // for sizes that are equal to others
};

GuardProof::GuardProof(const DimTable& dims, int64_t least) : impl_(std::make_unique<Impl>(dims, least)) {}
GuardProof::~GuardProof() = default;
bool GuardProof::always(const DimTable::Guard& g) { return impl_->holds(g, false); }
bool GuardProof::always_if_large(const DimTable::Guard& g) { return impl_->holds(g, true); }
void GuardProof::assume_equal(Dim a, Dim b) { impl_->assume_equal(a, b); }

}  // namespace rill
