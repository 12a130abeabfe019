// Evaluates kernels one number at a time; see interpret.h.
#include "rill/devices/kernel/interpret.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "rill/devices/kernel/convert.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::kernel {

namespace {

template <class T>
T from_bits(uint64_t bits) {
  T x;
  std::memcpy(static_cast<void*>(&x), &bits, sizeof(T));
  return x;
}
template <class T>
uint64_t to_bits(T x) {
  uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof(T));
  return bits;
}
template <>
bool from_bits<bool>(uint64_t bits) {
  return (bits & 0xff) != 0;
}

template <class T>
using Unsigned = std::make_unsigned_t<std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>>;

template <class T>
constexpr bool is_float = std::is_floating_point_v<T>;
template <class T>
bool is_nan(T x) {
  if constexpr (is_float<T>) return std::isnan(x);
  else return false;
}
template <class T>
constexpr bool is_int = std::is_integral_v<T> && !std::is_same_v<T, bool>;

// Integers wrap around: computed unsigned, and narrow ones in 64 bits, where promotion to int cannot overflow.
template <class T, class F>
T wrapping(T a, T b, F f) {
  if constexpr (is_int<T>) return T(f(uint64_t(a), uint64_t(b)));
  else return f(a, b);
}

template <class T>
T bitwise(Code c, T a, T b) {
  const uint64_t x = to_bits(a), y = to_bits(b);
  return from_bits<T>(c == Code::bit_and ? x & y : c == Code::bit_or ? x | y : x ^ y);
}

template <class T>
T two_integers(Code c, T a, T b) {
  const bool in_range = uint64_t(b) < 8 * sizeof(T);
  switch (c) {
    case Code::quotient:
      if (b == T(0)) return T(0);
      return std::is_signed_v<T> && b == T(-1) ? T(0 - uint64_t(a)) : T(a / b);
    case Code::shift_left: return in_range ? T(uint64_t(a) << b) : T(0);
    case Code::shift_right: return in_range ? T(a >> b) : T(a < T(0) ? -1 : 0);
    default: return T(uint64_t(a) * uint64_t(b) >> 32);  // mul_high
  }
}

template <class T>
T two(Code c, T a, T b) {
  switch (c) {
    case Code::add: return wrapping(a, b, [](auto x, auto y) { return x + y; });
    case Code::sub: return wrapping(a, b, [](auto x, auto y) { return x - y; });
    case Code::mul: return wrapping(a, b, [](auto x, auto y) { return x * y; });
    case Code::min: return is_nan(a) || a < b ? a : b;
    case Code::max: return is_nan(a) || a > b ? a : b;
    case Code::bit_and:
    case Code::bit_or:
    case Code::bit_xor: return bitwise(c, a, b);
    default: break;
  }
  if constexpr (!is_float<T>) return two_integers(c, a, b);
  else if (c == Code::scale) return std::abs(b) < T(1 << 20) ? std::scalbn(a, int(b)) : a * b;
  else return c == Code::div ? a / b : std::copysign(a, b);
}

template <class T>
bool compare(Code c, T a, T b) {
  switch (c) {
    case Code::eq: return a == b;
    case Code::ne: return a != b;
    case Code::lt: return a < b;
    case Code::le: return a <= b;
    case Code::gt: return a > b;
    default: return a >= b;
  }
}

template <class T>
T one(Code c, T a, uint64_t imm) {
  if constexpr (is_float<T>) {
    switch (c) {
      case Code::neg: return -a;
      case Code::abs: return std::fabs(a);
      case Code::sqrt: return std::sqrt(a);
      case Code::floor: return std::floor(a);
      case Code::ceil: return std::ceil(a);
      case Code::trunc: return std::trunc(a);
      default: return std::nearbyint(a);  // round_even, in the default rounding mode
    }
  } else if constexpr (std::is_same_v<T, bool>) {
    return !a;
  } else {
    switch (c) {
      case Code::neg: return T(0 - uint64_t(a));
      case Code::abs: return a < T(0) ? T(0 - uint64_t(a)) : a;
      case Code::bit_not: return T(~a);
      case Code::shl: return T(Unsigned<T>(a) << imm);
      default: return T(a >> imm);
    }
  }
}

template <class T>
T three(Code c, T a, T b, T d) {
  if (c == Code::clamp) {
    const T y = d < a ? d : a;
    return b > y ? b : y;
  }
  if constexpr (is_float<T>) return std::fma(a, b, d);
  else return T();
}

template <class T>
T patched(uint64_t which, bool flag, T y, T x) {
  if constexpr (is_float<T>) {
    const uint8_t f = flag;
    const void* function = patch_table()[2 * which + (sizeof(T) == 8)];
    reinterpret_cast<void (*)(size_t, const uint8_t*, T*, const T*)>(const_cast<void*>(function))(1, &f, &y, &x);
  }
  return y;
}

// --- Reductions ------------------------------------------------------------------------------------------------------

template <class T>
T identity(Code c) {
  using L = std::numeric_limits<T>;
  switch (c) {
    case Code::reduce_sum:
    case Code::reduce_sum_where: return T(0);
    case Code::reduce_prod: return T(1);
    case Code::reduce_max:
    case Code::reduce_top: return L::has_infinity ? T(-L::infinity()) : L::lowest();
    default: return L::has_infinity ? L::infinity() : L::max();
  }
}

template <class T>
T combine(Code c, T a, T b) {
  if (c == Code::reduce_sum || c == Code::reduce_sum_where) return two(Code::add, a, b);
  if (c == Code::reduce_prod) return two(Code::mul, a, b);
  const bool largest = c != Code::reduce_min;
  if (is_nan(a)) return a;
  if (a == b)
    return bitwise(largest ? Code::bit_and : Code::bit_or, a, b);  // they differ only for zeros of different signs
  return (largest ? a > b : a < b) ? a : b;
}

template <class T>
void merge(Code c, std::vector<T>& a, const std::vector<T>& b) {
  for (size_t i = 0; i < 32; ++i) a[i] = combine(c, a[i], b[i]);
}

template <class T>
T reduce(Code c, const std::vector<uint64_t>& points, int64_t n) {
  if (n == 0) return identity<T>(c);
  std::vector<std::vector<T>> stack;  // of blocks, and of pairs of blocks
  int64_t block = 0;
  for (int64_t first = 0; first < n; first += 1024, ++block) {
    std::vector<T> lanes(32, identity<T>(c));
    for (int64_t i = first; i < std::min(n, first + 1024); ++i) {
      T x = from_bits<T>(points[points.size() == 1 ? 0 : size_t(i)]);
      lanes[size_t(i % 32)] = i - first < 32 ? x : combine(c, lanes[size_t(i % 32)], x);
    }
    if (int64_t last = n - first; last < 1024 && last > 32)
      for (int64_t i = last % 32; i > 0 && i < 32; ++i) lanes[size_t(i)] = combine(c, lanes[size_t(i)], identity<T>(c));
    stack.push_back(std::move(lanes));
    for (int64_t done = block + 1; done % 2 == 0; done /= 2) {
      merge(c, stack[stack.size() - 2], stack.back());
      stack.pop_back();
    }
  }
  for (; stack.size() > 1; stack.pop_back()) merge(c, stack[stack.size() - 2], stack.back());
  std::vector<T>& lanes = stack[0];
  for (size_t half = 16; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) lanes[i] = combine(c, lanes[i], lanes[i + half]);
  return c == Code::reduce_sum || c == Code::reduce_sum_where ? two(Code::add, lanes[0], T(0)) : lanes[0];
}

// --- One row ---------------------------------------------------------------------------------------------------------

using Values = std::vector<std::vector<uint64_t>>;  // by instruction, then by point; a single one for the row level

template <class T>
uint64_t compute(const Inst& i, const Kernel& k, const uint64_t* a) {
  const DType from = operand_count(i.code) ? k.body[size_t(i.in[0])].type : i.type;
  switch (i.code) {
    case Code::select: return from_bits<bool>(a[0]) ? a[1] : a[2];
    case Code::patch: return to_bits(patched<T>(i.imm, from_bits<bool>(a[0]), from_bits<T>(a[1]), from_bits<T>(a[2])));
    case Code::bitcast: return a[0];
    case Code::convert:
    case Code::to_int:
    case Code::to_float:
      return visit_dtype(from, [&](auto zero) -> uint64_t {
        using From = decltype(zero);
        if constexpr (sizeof(From) <= 8 && !std::is_same_v<From, std::complex<float>>)
          return to_bits(convert_number<T>(from_bits<From>(a[0])));
        else return 0;
      });
    default: break;
  }
  if constexpr (std::is_arithmetic_v<T>) {
    const T x = from_bits<T>(a[0]);
    switch (operand_count(i.code)) {
      case 1: return to_bits(one(i.code, x, i.imm));
      case 2: return to_bits(two(i.code, x, from_bits<T>(a[1])));
      default: return to_bits(three(i.code, x, from_bits<T>(a[1]), from_bits<T>(a[2])));
    }
  }
  return 0;
}

bool is_comparison(Code c) { return c >= Code::eq && c <= Code::ge; }

// Calls f with a number of the type of `d`, which must be one that kernels support.
template <class F>
void visit_number(DType d, F f) {
  visit_dtype(d, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) <= 8 && !std::is_same_v<T, std::complex<float>>) f(zero);
  });
}

std::vector<uint64_t> evaluate(const Kernel& k, const Inst& i, const Values& v, size_t points, int64_t n,
                               char* const* operands) {
  std::vector<uint64_t> y(points);
  visit_number(i.type, [&](auto zero) {
    using T = decltype(zero);
    if (is_reduction(i.code)) {
      if (i.code == Code::reduce_sum_where && !from_bits<bool>(v[size_t(i.in[1])][0])) return;  // y is 0
      if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
        y[0] = to_bits(reduce<T>(i.code, v[size_t(i.in[0])], n));
      return;
    }
    for (size_t p = 0; p < points; ++p) {
      if (i.code == Code::constant) {
        y[p] = i.imm;
      } else if (i.code == Code::input) {
        const char* at = operands[i.imm];
        if (is_number(k.inputs[size_t(i.imm)].kind)) y[p] = uint64_t(reinterpret_cast<uintptr_t>(at)) + p;
        else std::memcpy(&y[p], at + p * sizeof(T), sizeof(T));
        if (std::is_same_v<T, bool>) y[p] = y[p] != 0;
      } else {
        uint64_t a[3];
        for (int j = 0; j < operand_count(i.code); ++j) {
          const std::vector<uint64_t>& from = v[size_t(i.in[j])];
          a[j] = from[from.size() == 1 ? 0 : p];
        }
        if (is_comparison(i.code))
          visit_number(k.body[size_t(i.in[0])].type, [&](auto operand) {
            using U = decltype(operand);
            if constexpr (std::is_arithmetic_v<U>) y[p] = compare(i.code, from_bits<U>(a[0]), from_bits<U>(a[1]));
          });
        else y[p] = compute<T>(i, k, a);
      }
    }
  });
  return y;
}

// The sum of the number at `at` and the number with the bits `x`.
uint64_t sum_of(DType d, const char* at, uint64_t x) {
  const auto sum = [&](auto there) {
    std::memcpy(&there, at, sizeof there);
    return to_bits(there + from_bits<decltype(there)>(x));
  };
  return d == DType::f64 ? sum(double()) : sum(float());
}

void interpret_row(const Kernel& k, const std::vector<bool>& row, char* const* operands, int64_t n) {
  Values values;
  for (size_t i = 0; i < k.body.size(); ++i)
    values.push_back(evaluate(k, k.body[i], values, row[i] ? 1 : size_t(n), n, operands));
  for (size_t o = 0; o < k.outputs.size(); ++o) {
    const Output& out = k.outputs[o];
    const std::vector<uint64_t>& v = values[size_t(out.value)];
    char* to = operands[k.inputs.size() + o];
    const size_t element = size_of(out.dtype);
    for (size_t p = 0; p < (out.per_row ? 1 : size_t(n)); ++p) {
      uint64_t x = v[v.size() == 1 ? 0 : p];
      if (out.added) x = sum_of(out.dtype, to + p * element, x);
      std::memcpy(to + p * element, &x, element);
    }
  }
}

}  // namespace

void interpret(const Kernel& k, char* const* operands, const int64_t* row_strides, int64_t rows, int64_t n) {
  const std::vector<bool> row = row_level(k);
  std::vector<char*> at(operands, operands + k.inputs.size() + k.outputs.size());
  for (int64_t r = 0; r < rows; ++r) {
    interpret_row(k, row, at.data(), n);
    for (size_t j = 0; j < at.size(); ++j) at[j] += row_strides[j];
  }
}

}  // namespace rill::kernel
