// Reference kernels of the reductions, by their definitions: the elements of each output are combined one by one, in
// the widest type of their kind.
#include <cmath>
#include <vector>

#include "rill/devices/params/reduce_params.h"
#include "rill/devices/ref/iterate.h"

namespace rill::ref {
namespace {

// Calls f(out_index, element) for every element of the input, where out_index counts the outputs row-major.
template <class W, class F>
void for_each_element(const KernelArgs& args, F&& f) {
  const Tensor& x = args.input(0);
  const Dims& axes = args.attrs.as<ReduceParams>().axes;
  Shape kept = x.shape();
  for (int64_t axis : axes) kept[axis] = 1;
  const Strides to = contiguous_strides(kept);
  const int64_t size = int64_t(size_of(x.dtype()));
  for_each_index(x.shape(), [&](const Ints& index) {
    Ints out = index;
    for (int64_t axis : axes) out[axis] = 0;
    f(offset(to, out), load_wide<W>(x.dtype(), args.in_data<char>(0) + offset(x.strides(), index) * size));
  });
}

template <class W>
void store_all(const KernelArgs& args, const std::vector<W>& results) {
  const DType d = args.output().dtype();
  for (size_t i = 0; i < results.size(); ++i)
    store_wide<W>(d, args.out_data<char>() + int64_t(i * size_of(d)), results[i]);
}

template <class W, class F>
void fold(const KernelArgs& args, W identity, F&& combine) {
  std::vector<W> results(size_t(args.output().size()), identity);
  for_each_element<W>(args, [&](int64_t out, const W& x) { results[size_t(out)] = combine(results[size_t(out)], x); });
  store_all(args, results);
}

// Integers and bools fold in 64 bits, where signed and unsigned wrap to the same bits.
template <class F>
void fold_numbers(const KernelArgs& args, int identity, F&& combine) {
  visit_kind(args.input(0).dtype(), [&]<class W>(W) { fold<W>(args, W(identity), combine); });
}

// max and min of two elements: NaN wins, and -0 is below +0.
template <class W>
bool beats(const W& challenger, const W& holder, bool largest) {
  if (is_nan(holder)) return false;
  if (is_nan(challenger)) return true;
  if constexpr (std::is_floating_point_v<W>) {
    if (challenger == 0 && holder == 0)
      return largest ? !std::signbit(challenger) && std::signbit(holder)
                     : std::signbit(challenger) && !std::signbit(holder);
  }
  return largest ? challenger > holder : challenger < holder;
}

void extreme(const KernelArgs& args, bool largest) {
  visit_kind(args.input(0).dtype(), [&]<class W>(W) {
    if constexpr (!std::is_same_v<W, Complex>) {
      std::vector<W> best(size_t(args.output().size()));
      std::vector<bool> met(best.size());
      for_each_element<W>(args, [&](int64_t i, const W& x) {
        if (!met[size_t(i)] || beats(x, best[size_t(i)], largest)) best[size_t(i)] = x;
        met[size_t(i)] = true;
      });
      store_all(args, best);
    }
  });
}

void arg_extreme(const KernelArgs& args, bool largest) {
  const Tensor& x = args.input(0);
  const size_t axis = size_t(args.attrs.as<ArgReduceParams>().axis);
  visit_kind(x.dtype(), [&]<class W>(W) {
    if constexpr (!std::is_same_v<W, Complex>) {
      int64_t* out = args.out_data<int64_t>();
      for_each_line(x.shape(), int64_t(axis), [&](Ints index) {
        const int64_t from = offset(x.strides(), index), size = int64_t(size_of(x.dtype()));
        const auto element = [&](int64_t i) {
          return load_wide<W>(x.dtype(), args.in_data<char>(0) + (from + i * x.strides()[axis]) * size);
        };
        int64_t best = 0;
        for (int64_t i = 1; i < x.shape()[axis]; ++i) {
          const W a = element(i), b = element(best);
          if (a != b && beats(a, b, largest)) best = i;
        }
        *out++ = best;
      });
    }
  });
}

}  // namespace

void reduce_sum(const KernelArgs& args) {
  fold_numbers(args, 0,
               [](const auto& a, const auto& b) { return wrapped(a, b, [](auto x, auto y) { return x + y; }); });
}
void reduce_prod(const KernelArgs& args) {
  fold_numbers(args, 1,
               [](const auto& a, const auto& b) { return wrapped(a, b, [](auto x, auto y) { return x * y; }); });
}

void reduce_max(const KernelArgs& args) { extreme(args, true); }
void reduce_min(const KernelArgs& args) { extreme(args, false); }
// In long double, whose exponent range holds the squares of every dtype.
void reduce_norm(const KernelArgs& args) {
  std::vector<Real> sums(size_t(args.output().size()));
  for_each_element<Complex>(args, [&](int64_t out, const Complex& x) { sums[size_t(out)] += std::norm(x); });
  for (Real& sum : sums) sum = std::sqrt(sum);
  store_all(args, sums);
}

void reduce_all(const KernelArgs& args) {
  fold<bool>(args, true, [](bool a, bool b) { return a && b; });
}
void reduce_any(const KernelArgs& args) {
  fold<bool>(args, false, [](bool a, bool b) { return a || b; });
}

void reduce_argmax(const KernelArgs& args) { arg_extreme(args, true); }
void reduce_argmin(const KernelArgs& args) { arg_extreme(args, false); }

}  // namespace rill::ref
