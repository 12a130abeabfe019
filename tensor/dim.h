// Dim: a size, or an integer computed from sizes. It is symbolic while a function with open sizes is traced.
//
// Outside of such a trace a Dim is a plain int64_t. Inside, it has both the concrete value of the current call and a
// symbolic expression: "size 0 of argument 0", "that times 4". Arithmetic on Dims gives symbolic Dims. Code that uses
// the concrete value (converts it to an int64_t, compares it, loops up to it) adds a guard to the trace. The trace then
// serves only sizes with the same outcome; others are traced again. So one trace serves as many sizes as it soundly
// can. dim_table.h has the expressions.
//
#pragma once
#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <limits>

#pragma GCC visibility push(default)

namespace rill {

class Dim;
class Size;
template <class T>
concept DimOrSize = std::derived_from<T, Dim>;

class Dim {
 public:
  constexpr Dim() = default;
  template <std::integral I>
    requires(!std::same_as<I, bool>)  // a bool would be a size of 0 or 1
  constexpr Dim(I n) : bits_(int64_t(n)) {
    if constexpr (std::unsigned_integral<I> && sizeof(I) == sizeof(int64_t)) {
      // Beyond every size and index, and not -1, which means something as a size or an index.
      if (bits_ < 0) [[unlikely]]
        bits_ = std::numeric_limits<int64_t>::max();
    } else if constexpr (sizeof(I) == sizeof(int64_t)) {
      // A number with the bit pattern of an open size is far below zero; it becomes another one that every check
      // rejects.
      if (is_open()) [[unlikely]]
        bits_ = std::numeric_limits<int64_t>::min();
    }
  }
  // The number. In a trace with open sizes, looking at it adds a guard.
  constexpr operator int64_t() const {
    if (is_open()) [[unlikely]]
      return look();
    return bits_;
  }

  // Whether this is an expression of open sizes.
  constexpr bool is_open() const { return bits_ < 0 && uint64_t(bits_) >> 61 == 5; }
  // The value in the call that is traced, without a guard: for code that runs again for each size (infer rules).
  constexpr int64_t hint() const { return is_open() ? int64_t(uint64_t(bits_) << tag_bits) >> tag_bits : bits_; }

  // The number of a Dim that cannot be open, such as a size of a tensor with elements.
  constexpr int64_t plain() const { return bits_; }

  // For dim_table.cpp: the index of an expression, and whether a value fits beside it.
  static constexpr uint32_t last_number = (1u << 19) - 1;
  static constexpr bool fits(int64_t value) { return int64_t(uint64_t(value) << tag_bits) >> tag_bits == value; }
  static constexpr Dim open(uint32_t number, int64_t value) {
    Dim d;
    d.bits_ = int64_t(uint64_t(5) << 61 | uint64_t(number) << value_bits | uint64_t(value) << tag_bits >> tag_bits);
    return d;
  }
  constexpr uint32_t number() const { return uint32_t(uint64_t(bits_) >> value_bits) & last_number; }

  enum class Op : uint8_t { add, subtract, multiply, divide, remainder, smaller, larger };
  enum class Test : uint8_t { equal, less, less_equal };

  // How {fmt} prints it.
  friend constexpr int64_t format_as(Dim d) { return d; }

  // On plain numbers as in C++, but overflow wraps. Division by 0 throws rill::Error.
  static constexpr int64_t apply(Op op, int64_t a, int64_t b) {
    switch (op) {
      case Op::add: return int64_t(uint64_t(a) + uint64_t(b));
      case Op::subtract: return int64_t(uint64_t(a) - uint64_t(b));
      case Op::multiply: return int64_t(uint64_t(a) * uint64_t(b));
      case Op::divide:
      case Op::remainder:
        if (b == 0) fail_division();
        if (b == -1) return op == Op::divide ? int64_t(0 - uint64_t(a)) : 0;
        return op == Op::divide ? a / b : a % b;
      case Op::smaller: return a < b ? a : b;
      default: return a < b ? b : a;
    }
  }

  // The results are Sizes. (Size is a template argument because it is not defined yet.)
#define RILL_DIM_FUNCTION(function, name)             \
  template <DimOrSize A, DimOrSize B, class S = Size> \
  friend constexpr S function(A a, B b) {             \
    return S(calculate(Op::name, a, b));              \
  }                                                   \
  template <DimOrSize A, std::integral I>             \
  friend constexpr auto function(A a, I b) {          \
    return function(a, Dim(int64_t(b)));              \
  }                                                   \
  template <std::integral I, DimOrSize B>             \
  friend constexpr auto function(I a, B b) {          \
    return function(Dim(int64_t(a)), b);              \
  }
#define RILL_DIM_OPERATOR(symbol, name)    \
  RILL_DIM_FUNCTION(operator symbol, name) \
  constexpr Dim& operator symbol##=(Dim b) { return *this = calculate(Op::name, *this, b); }
  RILL_DIM_OPERATOR(+, add)
  RILL_DIM_OPERATOR(-, subtract)
  RILL_DIM_OPERATOR(*, multiply)
  RILL_DIM_OPERATOR(/, divide)
  RILL_DIM_OPERATOR(%, remainder)
#undef RILL_DIM_OPERATOR
  // The smaller and the larger of two, without a guard; std::min and std::max would compare, and add one.
  RILL_DIM_FUNCTION(smaller, smaller)
  RILL_DIM_FUNCTION(larger, larger)
#undef RILL_DIM_FUNCTION
  template <DimOrSize A>
  friend constexpr auto operator-(A a) {
    return 0 - a;
  }
  template <DimOrSize A>
  friend constexpr auto operator+(A a) {
    return 0 + a;
  }
  constexpr Dim& operator++() { return *this += 1; }
  constexpr Dim& operator--() { return *this -= 1; }
  constexpr Dim operator++(int) {
    Dim before = *this;
    *this += 1;
    return before;
  }
  constexpr Dim operator--(int) {
    Dim before = *this;
    *this -= 1;
    return before;
  }

  // Adds a guard to the trace.
#define RILL_DIM_TEST(symbol, test)                     \
  friend constexpr bool operator symbol(Dim a, Dim b) { \
    if (any_open(a, b)) [[unlikely]]                    \
      return test;                                      \
    return a.bits_ symbol b.bits_;                      \
  }                                                     \
  template <std::integral I>                            \
  friend constexpr bool operator symbol(Dim a, I b) {   \
    return a symbol of_number(b);                       \
  }                                                     \
  template <std::integral I>                            \
  friend constexpr bool operator symbol(I a, Dim b) {   \
    return of_number(a) symbol b;                       \
  }
  RILL_DIM_TEST(==, a.bits_ == b.bits_ || decide(Test::equal, a, b))
  RILL_DIM_TEST(!=, a.bits_ != b.bits_ && !decide(Test::equal, a, b))
  RILL_DIM_TEST(<, decide(Test::less, a, b))
  RILL_DIM_TEST(<=, decide(Test::less_equal, a, b))
  RILL_DIM_TEST(>, decide(Test::less, b, a))
  RILL_DIM_TEST(>=, decide(Test::less_equal, b, a))
#undef RILL_DIM_TEST

 private:
  template <std::integral I>
  static constexpr Dim of_number(I n) {
    if constexpr (std::same_as<I, bool>) return Dim(int(n));
    else return Dim(n);
  }
  static constexpr Dim calculate(Op op, Dim a, Dim b) {
    if (any_open(a, b)) [[unlikely]]
      return compute(op, a, b);
    return apply(op, a.bits_, b.bits_);
  }
  // One comparison suffices for sizes, which are not negative.
  static constexpr bool any_open(Dim a, Dim b) { return (a.bits_ | b.bits_) < 0 && (a.is_open() || b.is_open()); }

  static constexpr int value_bits = 42, tag_bits = 64 - value_bits;
  int64_t look() const;
  [[noreturn]] static void fail_division();
  static Dim compute(Op op, Dim a, Dim b);
  static bool decide(Test test, Dim a, Dim b);

  // The number; or, if the three highest bits are 101, the index of an expression (19 bits) and its value (42 bits).
  int64_t bits_ = 0;
};
std::ostream& operator<<(std::ostream& out, Dim d);

// The type of x.dim(0), x.size() and of arithmetic: a Dim to which integers do not convert. So `c ? x.dim(0) : n` is an
// integer to C++; with Dims, which convert both ways, it would be ambiguous.
class Size : public Dim {
 public:
  constexpr Size() = default;
  explicit constexpr Size(Dim d) : Dim(d) {}
  constexpr Size& operator=(Dim d) { return *this = Size(d); }
};

}  // namespace rill

#pragma GCC visibility pop

#include "rill/tensor/dim_math.h"
