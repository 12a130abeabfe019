// Elementwise ops on ref:0: one element at a time through the operands' strides, in the widest type of the operand's
// kind, rounded once when stored. Slow and simple; the oracle of the tests. What librill_ops calls has default visibility.
#pragma once
#include <cmath>
#include <complex>

#include "rill/devices/kernel.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::ref {

// The wide types in which elements are computed.
using Real = long double;
using Complex = std::complex<long double>;

// Reads element `p` of dtype `d`, as the wide type W of its kind.
template <class W>
[[gnu::visibility("default")]] W load_wide(DType d, const char* p);
// Stores a wide value as dtype `d`: rounds floats once, wraps integers.
template <class W>
[[gnu::visibility("default")]] void store_wide(DType d, char* p, W value);

// Calls body(input pointers, output pointer) for every element of the output, inputs broadcast.
[[gnu::visibility("default")]] void for_each_element(const KernelArgs& args,
                                                     void (*body)(void* context, const char* const* in, char* out),
                                                     void* context);

// Integers wrap around, which C++ leaves undefined for signed ones: f computes them unsigned.
template <class T, class F>
T wrapped(T x, T y, F&& f) {
  if constexpr (std::is_integral_v<T>) return T(f(uint64_t(x), uint64_t(y)));
  else return f(x, y);
}

namespace detail {
template <class W, auto F, int Inputs>
void compute(const KernelArgs& args) {
  DType in = args.input(Inputs - 1).dtype(), out = args.output().dtype();
  struct Types {
    DType in, out;
  } types{in, out};
  for_each_element(
      args,
      [](void* context, const char* const* p, char* q) {
        Types t = *static_cast<Types*>(context);
        auto r = [&] {
          if constexpr (Inputs == 1) return F(load_wide<W>(t.in, p[0]));
          else return F(load_wide<W>(t.in, p[0]), load_wide<W>(t.in, p[1]));
        }();
        store_wide(t.out, q, r);
      },
      &types);
}
}  // namespace detail

// The kinds of operand that F compiles for.
enum Kinds : unsigned {
  floats = 1,
  signed_ints = 2,
  unsigned_ints = 4,
  bools = 8,
  complexes = 16,
  ints = 6,
  reals = 7,
  numbers = 23,
  any_kind = 31
};

// The `ref` entry of an elementwise record: .ref = ref::scalar_kernel<[](auto x) { return std::tanh(x); },
// ref::floats>.
template <auto F, unsigned kinds, int Inputs = 1>
void scalar_kernel(const KernelArgs& args) {
  DType d = args.input(Inputs - 1).dtype();
  if constexpr ((kinds & floats) != 0)
    if (is_floating(d)) return detail::compute<Real, F, Inputs>(args);
  if constexpr ((kinds & signed_ints) != 0)
    if (is_signed_int(d)) return detail::compute<int64_t, F, Inputs>(args);
  if constexpr ((kinds & unsigned_ints) != 0)
    if (is_unsigned(d)) return detail::compute<uint64_t, F, Inputs>(args);
  if constexpr ((kinds & bools) != 0)
    if (is_bool(d)) return detail::compute<bool, F, Inputs>(args);
  if constexpr ((kinds & complexes) != 0)
    if (is_complex(d)) return detail::compute<Complex, F, Inputs>(args);
}

void cast(const KernelArgs& args);
void copy(const KernelArgs& args);
void select(const KernelArgs& args);

}  // namespace rill::ref
