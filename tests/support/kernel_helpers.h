// Runs kernels on memory whose end is guarded, by the interpreter and compiled, and generates random kernels.
#pragma once
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "rill/devices/kernel/interpret.h"
#include "rill/devices/kernel/schedule.h"
#include "rill/rill.h"
#include "rill/tensor/visit_dtype.h"

namespace kernel_test {

using namespace rill;
using kernel::Code;
using kernel::Input;
using kernel::Inst;
using kernel::Kernel;
using kernel::Output;
using kernel::RowFunction;
using Rng = std::mt19937_64;

inline int below(Rng& r, int n) { return int(r() % uint64_t(n)); }

// Bytes that end at an inaccessible page; `aligned` ones start at a multiple of 64 instead.
class Memory {
 public:
  explicit Memory(size_t bytes, bool aligned = false) : bytes_(bytes) {
    const size_t page = 4096, used = (bytes + page - 1) / page * page + page;
    whole_ = used + page;
    base_ = static_cast<char*>(mmap(nullptr, whole_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + used, page, PROT_NONE);
    data_ = aligned ? base_ + used - (bytes + 63) / 64 * 64 : base_ + used - bytes;
  }
  ~Memory() { munmap(base_, whole_); }
  Memory(const Memory&) = delete;
  char* data() const { return data_; }
  size_t size() const { return bytes_; }
  bool clean_before() const {  // nothing was written before it
    for (const char* p = base_; p < data_; ++p)
      if (*p) return false;
    return true;
  }

 private:
  char *base_, *data_;
  size_t bytes_, whole_;
};

// --- Numbers ---------------------------------------------------------------------------------------------------------

template <class T>
T random_number(Rng& r) {
  if constexpr (std::is_same_v<T, bool>) return r() & 1;
  else if constexpr (std::is_integral_v<T>) return below(r, 3) ? T(int64_t(r() % 200) - 100) : T(r());
  else if constexpr (requires { typename T::value_type; } || std::is_same_v<T, std::string>) return T();
  else {
    static const double special[] = {0.0, -0.0,  INFINITY, -INFINITY, NAN,           1,
                                     -1,  1e-40, 3e38,     1e6,       -2147483648.0, 1e300};
    if (below(r, 4) == 0) return T(float(special[below(r, 12)]));
    const double u = double(r() >> 11) * 0x1p-53 * 2 - 1;
    return T(float(below(r, 4) ? u * 4 : std::ldexp(u, below(r, 80) - 40)));
  }
}

inline void fill(Rng& r, DType d, char* p, int64_t n) {
  visit_dtype(d, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, std::string>)
      for (int64_t i = 0; i < n; ++i) {
        T x = random_number<T>(r);
        if constexpr (std::is_same_v<T, bool>) p[i] = char(x ? 1 + below(r, 255) : 0);  // any nonzero byte is true
        else std::memcpy(p + i * int64_t(sizeof(T)), &x, sizeof(T));
      }
  });
}

// Equal bits, except for NaN.
inline bool same(DType d, const char* a, const char* b, int64_t n) {
  bool equal = true;
  visit_dtype(d, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, std::string>)
      for (int64_t i = 0; i < n; ++i) {
        T x, y;
        std::memcpy(&x, a + i * int64_t(sizeof(T)), sizeof(T));
        std::memcpy(&y, b + i * int64_t(sizeof(T)), sizeof(T));
        bool nan = false;
        if constexpr (requires { float(x); }) nan = double(x) != double(x) && double(y) != double(y);
        equal = equal && (nan || std::memcmp(&x, &y, sizeof(T)) == 0);
      }
  });
  return equal;
}

// --- Running ---------------------------------------------------------------------------------------------------------

// Whether `run` gives the interpreter's results, on random numbers. `in_place`: outputs use the memory of a dense input
// of their element size.
inline bool agrees(const Kernel& k, const std::function<std::remove_pointer_t<RowFunction>>& run, int64_t rows,
                   int64_t n, uint64_t seed, bool in_place = false) {
  Rng r(seed);
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<char*> expected, actual;
  std::vector<int64_t> strides;
  for (const Input& i : k.inputs) {
    const int64_t element = int64_t(size_of(i.dtype)), row = i.kind == Input::Kind::dense ? n * element : element;
    if (is_number(i.kind)) {
      expected.push_back(reinterpret_cast<char*>(uintptr_t(r() % 1000)));
      actual.push_back(expected.back());
      strides.push_back(int64_t(r() % 5000));
      continue;
    }
    for (int copy = 0; copy < 2; ++copy) memory.push_back(std::make_unique<Memory>(size_t(rows * row)));
    char *a = memory[memory.size() - 2]->data(), *b = memory.back()->data();
    fill(r, i.dtype, a, rows * row / element);
    std::memcpy(b, a, size_t(rows * row));
    expected.push_back(a), actual.push_back(b), strides.push_back(row);
  }
  std::vector<std::pair<char*, char*>> results;
  std::vector<char> taken(k.inputs.size());
  for (const Output& o : k.outputs) {
    const int64_t element = int64_t(size_of(o.dtype));
    int64_t row = o.per_row ? element : n * element;
    if (k.streaming && !o.per_row) row = (row + 63) / 64 * 64;
    for (int copy = 0; copy < 2; ++copy) memory.push_back(std::make_unique<Memory>(size_t(rows * row), k.streaming));
    expected.push_back(memory[memory.size() - 2]->data()), actual.push_back(memory.back()->data());
    strides.push_back(o.added && below(r, 2) ? 0 : row);  // all rows add to one accumulator, or each to its own
    for (size_t j = 0; in_place && !o.per_row && !o.added && j < k.inputs.size(); ++j) {
      if (taken[j] || k.inputs[j].kind != Input::Kind::dense || size_of(k.inputs[j].dtype) != size_of(o.dtype))
        continue;
      taken[j] = 1;
      actual.back() = actual[j];
      break;
    }
  }
  std::vector<char> scratch(size_t(kernel::schedule(k).scratch_bytes(n)) + 64);
  char* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
  kernel::interpret(k, expected.data(), strides.data(), rows, n);
  run(actual.data(), strides.data(), rows, n, aligned, kernel::patch_table().data());
  bool good = true;
  for (size_t o = 0; o < k.outputs.size(); ++o) {
    const size_t at = k.inputs.size() + o;
    for (int64_t row = 0; row < rows; ++row)
      good = good && same(k.outputs[o].dtype, expected[at] + row * strides[at], actual[at] + row * strides[at],
                          k.outputs[o].per_row ? 1 : n);
  }
  for (const auto& m : memory) good = good && m->clean_before();
  return good;
}

// --- Random kernels --------------------------------------------------------------------------------------------------

class Generator {
 public:
  explicit Generator(uint64_t seed) : r_(seed) {}

  Kernel make() {
    const int inputs = 1 + below(r_, 4);
    for (int i = 0; i < inputs; ++i) input();
    const int length = 3 + below(r_, 40);
    while (int(k_.body.size()) < length) step();
    const int outputs = 1 + below(r_, 3);
    const std::vector<bool> row = kernel::row_level(k_);
    for (int i = 0; i < outputs; ++i) {
      const int32_t v = i == 0 ? int32_t(k_.body.size()) - 1 : any();
      k_.outputs.push_back({v, type(v), row[size_t(v)] && below(r_, 2) == 0});
      Output& o = k_.outputs.back();
      o.added = !o.per_row && (o.dtype == f32 || o.dtype == f64) && below(r_, 3) == 0;
    }
    k_.streaming = below(r_, 6) == 0;
    return k_;
  }

 private:
  static constexpr DType dtypes[] = {f32, f32, f32, f32, f64, i32, i64, u32, u64, i8, u8, i16, u16, boolean, f16, bf16};
  DType type(int32_t v) const { return k_.body[size_t(v)].type; }
  int32_t add(Code c, DType t, std::initializer_list<int32_t> in, uint64_t imm = 0) {
    Inst i{c, t, {-1, -1, -1}, imm};
    std::copy(in.begin(), in.end(), i.in);
    k_.body.push_back(i);
    return int32_t(k_.body.size()) - 1;
  }
  int32_t any() { return below(r_, int(k_.body.size())); }
  // An earlier value of type t; a constant if there is none.
  int32_t of(DType t) {
    for (int tries = 0; tries < 8; ++tries)
      if (int32_t v = any(); type(v) == t) return v;
    return constant(t);
  }
  int32_t constant(DType t) {
    uint64_t bits = 0;
    if (t == f16 || t == bf16) return add(Code::convert, t, {of(f32)});
    fill(r_, t, reinterpret_cast<char*>(&bits), 1);
    if (t == boolean) bits = bits != 0;
    return add(Code::constant, t, {}, bits);
  }
  void input() {
    const DType d = dtypes[below(r_, 16)];
    const auto kind = Input::Kind(below(r_, 4));
    const bool counter = is_number(kind);
    k_.inputs.push_back({counter ? i64 : d, kind});
    add(Code::input, k_.inputs.back().dtype, {}, k_.inputs.size() - 1);
  }
  // `v`, or 1 if it is NaN, whose bits and sign are not defined.
  int32_t number(int32_t v) {
    if (!is_floating(type(v))) return v;
    uint64_t one = type(v) == f32 ? 0x3f800000 : 0x3ff0000000000000;
    return add(Code::select, type(v), {add(Code::eq, boolean, {v, v}), v, add(Code::constant, type(v), {}, one)});
  }
  DType plain() {  // a type to compute in
    static constexpr DType some[] = {f32, f32, f32, f64, i32, i64, u32, u64, i8, u8, i16, u16};
    return some[below(r_, 12)];
  }

  void step() {
    const int what = below(r_, 12);
    if (what == 0) reduction();
    else if (what == 1) conversion();
    else if (what == 2) bits();
    else if (what <= 4) choice();
    else if (what <= 7) floats();
    else arithmetic();
  }
  void arithmetic() {
    static constexpr Code codes[] = {Code::add, Code::sub, Code::mul, Code::min,
                                     Code::max, Code::neg, Code::abs, Code::clamp};
    const DType t = plain();
    const Code c = codes[below(r_, 8)];
    const int32_t a = of(t), b = of(t), d = of(t);
    if (kernel::operand_count(c) == 1) add(c, t, {a});
    else if (c == Code::clamp) add(c, t, {a, number(b), number(d)});
    else add(c, t, {a, b});
  }
  void floats() {
    static constexpr Code codes[] = {Code::div,   Code::copysign,   Code::sqrt, Code::floor, Code::ceil,
                                     Code::trunc, Code::round_even, Code::fma,  Code::patch, Code::scale};
    const DType t = below(r_, 3) ? f32 : f64;
    const Code c = codes[below(r_, 10)];
    const int32_t a = of(t), b = of(t), d = of(t);
    if (c == Code::patch) add(c, t, {of(boolean), a, b}, uint64_t(below(r_, kernel::patch_count)));
    else if (c == Code::fma) add(c, t, {a, b, d});
    else if (c == Code::scale) scale(t, a, number(b));
    else if (c == Code::copysign) add(c, t, {a, number(b)});
    else if (c == Code::div) add(c, t, {a, b});
    else add(c, t, {a});
  }
  // 2^x for an integer x, times a number near 1.
  void scale(DType t, int32_t a, int32_t x) {
    const auto c = [&](double v) {
      return add(Code::convert, t, {add(Code::constant, f64, {}, __builtin_bit_cast(uint64_t, v))});
    };
    const bool small = below(r_, 2) == 0;
    const double least = t == f32 ? -160 : -1100, most = !small ? -least : t == f32 ? 62 : 510;
    const int32_t near_one = add(Code::clamp, t, {a, c(0.5), c(2)}), whole = add(Code::round_even, t, {x});
    add(Code::scale, t, {near_one, add(Code::clamp, t, {whole, c(least), c(most)})}, small);
  }
  void choice() {
    static constexpr Code compare[] = {Code::eq, Code::ne, Code::lt, Code::le, Code::gt, Code::ge};
    const DType t = plain();
    const int32_t m = add(compare[below(r_, 6)], boolean, {of(t), of(t)});
    switch (below(r_, 4)) {
      case 0: add(Code::bit_and, boolean, {m, of(boolean)}); break;
      case 1: add(Code::bit_not, boolean, {m}); break;
      case 2: add(Code::bit_xor, boolean, {m, of(boolean)}); break;
      default: add(Code::select, t, {m, of(t), of(t)});
    }
  }
  void bits() {
    static constexpr DType ints[] = {i8, u8, i16, u16, i32, u32, i64, u64};
    const DType t = ints[below(r_, 8)];
    switch (below(r_, 11)) {
      case 0: add(Code::shl, t, {of(t)}, r_() % (8 * size_of(t))); break;
      case 1: add(Code::shr, t, {of(t)}, r_() % (8 * size_of(t))); break;
      case 2: add(Code::bit_or, t, {of(t), of(t)}); break;
      case 3: add(Code::bit_xor, t, {of(t), of(t)}); break;
      case 4: add(Code::mul_high, u32, {of(u32), of(u32)}); break;
      case 8: add(Code::quotient, t, {of(t), of(t)}); break;
      case 9: add(Code::shift_left, t, {of(t), of(t)}); break;
      case 10: add(Code::shift_right, t, {of(t), of(t)}); break;
      case 5: add(Code::bitcast, below(r_, 2) ? i32 : u32, {number(of(f32))}); break;
      case 6: add(Code::bitcast, f64, {of(below(r_, 2) ? i64 : u64)}); break;
      default: {
        const int32_t x = number(of(f32)), bound = add(Code::constant, f32, {}, 0x4e000000);  // 2^29
        add(Code::to_int, i32, {add(Code::clamp, f32, {x, add(Code::neg, f32, {bound}), bound})});
      }
    }
  }
  void conversion() {
    const int32_t v = any();
    if (type(v) == i32 && below(r_, 2)) add(Code::to_float, f32, {v});
    else if (type(v) == i64 && below(r_, 2)) add(Code::to_float, f64, {v});
    else add(Code::convert, dtypes[below(r_, 16)], {v});
  }
  void reduction() {
    const DType t = plain();
    const int what = below(r_, 6);
    if (what < 4) {
      add(Code(int(Code::reduce_sum) + what), t, {of(t)});
    } else if (what == 4) {  // for rows whose largest number is above another one
      const int32_t largest = add(Code::reduce_max, t, {of(t)});
      const int32_t mask = add(Code::gt, boolean, {largest, constant(t)});
      add(Code::reduce_sum_where, t, {of(t), mask});
    } else {  // for numbers without NaN, and zeros of one sign
      const DType real = below(r_, 2) ? f32 : f64;
      const int32_t x = number(of(real));
      add(Code::reduce_top, real, {add(Code::add, real, {x, add(Code::constant, real, {}, 0)})});
    }
  }

  Rng r_;
  Kernel k_;
};

}  // namespace kernel_test
