// Reference kernels of the reductions, by their definitions: the elements of each output are combined one by one.
#include <cmath>
#include <vector>

#include "rill/devices/params/reduce_params.h"
#include "rill/devices/ref/iterate.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::ref {
namespace {

// Calls f(out_index, element) for every element of the input, where out_index counts the outputs row-major.
template <class T, class F>
void for_each_element(const KernelArgs& args, F&& f) {
  const Tensor& x = args.input(0);
  const Dims& axes = args.attrs.as<ReduceParams>().axes;
  Shape kept = x.shape();
  for (int64_t axis : axes) kept[axis] = 1;
  const Strides to = contiguous_strides(kept);
  const T* data = args.in_data<T>(0);
  for_each_index(x.shape(), [&](const Ints& index) {
    Ints out = index;
    for (int64_t axis : axes) out[axis] = 0;
    f(offset(to, out), data[offset(x.strides(), index)]);
  });
}

// Rounds a sum to its output's type, once; the pairs of types that no record allows are nothing.
template <class O, class A>
void store(O& out, const A& sum) {
  if constexpr (is_half_type<O> && std::is_convertible_v<A, float>) out = O(float(sum));
  else if constexpr (std::is_constructible_v<O, A> && !is_half_type<O>) out = O(sum);
}

template <class A>
void store_all(const KernelArgs& args, const std::vector<A>& sums) {
  visit_dtype(args.output().dtype(), [&](auto zero) {
    using O = decltype(zero);
    O* out = args.out_data<O>();
    for (size_t i = 0; i < sums.size(); ++i) store(out[i], sums[i]);
  });
}

template <class T, class A, class F>
void fold(const KernelArgs& args, A identity, F&& combine) {
  std::vector<A> sums(size_t(args.output().size()), identity);
  for_each_element<T>(args, [&](int64_t out, const T& x) { combine(sums[size_t(out)], x); });
  store_all(args, sums);
}

// Integers and bools fold in 64 bits, where signed and unsigned wrap to the same bits.
template <class T>
using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, Wide<T>>;

template <class T>
Sum<T> as_sum(const T& x) {
  if constexpr (std::is_integral_v<T>) return uint64_t(int64_t(x));
  else return widen(x);
}

// What max and min do with two elements: NaN wins, and -0 is below +0.
template <class T>
bool beats(const T& challenger, const T& holder, bool largest) {
  if (is_nan(holder)) return false;
  if (is_nan(challenger)) return true;
  if constexpr (std::is_floating_point_v<Wide<T>>) {
    const auto a = widen(challenger), b = widen(holder);
    if (a == 0 && b == 0) return largest ? !std::signbit(a) && std::signbit(b) : std::signbit(a) && !std::signbit(b);
  }
  return largest ? challenger > holder : challenger < holder;
}

void extreme(const KernelArgs& args, bool largest) {
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T> || is_half_type<T>) {
      T* out = args.out_data<T>();
      std::vector<bool> met(size_t(args.output().size()));
      for_each_element<T>(args, [&](int64_t i, const T& x) {
        if (!met[size_t(i)] || beats(x, out[i], largest)) out[i] = x;
        met[size_t(i)] = true;
      });
    }
  });
}

void arg_extreme(const KernelArgs& args, bool largest) {
  const Tensor& x = args.input(0);
  const size_t axis = size_t(args.attrs.as<ArgReduceParams>().axis);
  visit_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T> || is_half_type<T>) {
      const T* data = args.in_data<T>(0);
      int64_t* out = args.out_data<int64_t>();
      for_each_line(x.shape(), int64_t(axis), [&](Ints index) {
        int64_t best = 0;
        const T* line = data + offset(x.strides(), index);
        for (int64_t i = 1; i < x.shape()[axis]; ++i) {
          const T &a = line[i * x.strides()[axis]], &b = line[best * x.strides()[axis]];
          const bool equal = !is_nan(a) && !is_nan(b) && !(widen(a) < widen(b)) && !(widen(b) < widen(a));
          if (!equal && beats(a, b, largest)) best = i;
        }
        *out++ = best;
      });
    }
  });
}

template <class T>
bool truth(const T& x) {
  if constexpr (is_half_type<T>) return float(x) != 0;
  else return x != T(0);
}

void truths(const KernelArgs& args, bool identity) {
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, std::string>)
      fold<T>(args, char(identity), [&](char& a, const T& x) { a = identity ? a && truth(x) : a || truth(x); });
  });
}

}  // namespace

void reduce_sum(const KernelArgs& args) {
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, std::string>)
      fold<T>(args, Sum<T>(0), [](Sum<T>& a, const T& x) { a += as_sum(x); });
  });
}

void reduce_prod(const KernelArgs& args) {
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, std::string>)
      fold<T>(args, Sum<T>(1), [](Sum<T>& a, const T& x) { a *= as_sum(x); });
  });
}

void reduce_max(const KernelArgs& args) { extreme(args, true); }
void reduce_min(const KernelArgs& args) { extreme(args, false); }
// In long double, whose exponents are wide enough for the squares of every dtype.
void reduce_norm(const KernelArgs& args) {
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, std::string>) {
      std::vector<long double> sums(size_t(args.output().size()));
      for_each_element<T>(args, [&](int64_t out, const T& x) {
        if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
          sums[size_t(out)] += std::norm(std::complex<long double>(x));
        } else {
          const auto wide = static_cast<long double>(widen(x));
          sums[size_t(out)] += wide * wide;
        }
      });
      for (long double& sum : sums) sum = std::sqrt(sum);
      store_all(args, sums);
    }
  });
}

void reduce_all(const KernelArgs& args) { truths(args, true); }
void reduce_any(const KernelArgs& args) { truths(args, false); }

void reduce_argmax(const KernelArgs& args) { arg_extreme(args, true); }
void reduce_argmin(const KernelArgs& args) { arg_extreme(args, false); }

}  // namespace rill::ref
