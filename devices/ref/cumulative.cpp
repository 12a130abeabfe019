// Reference kernels of the cumulative ops, by their definitions.
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/ref/iterate.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::ref {
namespace {

// Calls f(index, position, element) along every line in the order that the params say, where `position` counts the
// (dense) outputs, with f made anew by `start` for each line.
template <class T, class Start>
void for_each_step(const KernelArgs& args, Start&& start) {
  const Tensor& x = args.input(0);
  const auto& p = args.attrs.as<CumulativeParams>();
  const size_t axis = size_t(p.axis);
  const Strides to = contiguous_strides(x.shape());
  const int64_t n = x.shape()[axis];
  if (n == 0) return;
  for_each_line(x.shape(), p.axis, [&](Ints index) {
    auto step = start();
    for (int64_t i = 0; i < n; ++i) {
      index[axis] = p.reverse ? n - 1 - i : i;
      step(index, offset(to, index), args.in_data<T>(0)[offset(x.strides(), index)]);
    }
  });
}

template <class Combine>
void accumulate(const KernelArgs& args, int identity, Combine combine) {
  const bool exclusive = args.attrs.as<CumulativeParams>().exclusive;
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, std::string>) return;
    else if constexpr (std::is_integral_v<T>)
      for_each_step<T>(args, [&] {
        return [&, acc = uint64_t(identity)](const Ints&, int64_t at, const T& x) mutable {
          const uint64_t next = combine(acc, uint64_t(int64_t(x)));
          args.out_data<uint64_t>()[at] = exclusive ? acc : next;
          acc = next;
        };
      });
    else
      for_each_step<T>(args, [&] {
        return [&, acc = Wide<T>(identity)](const Ints&, int64_t at, const T& x) mutable {
          const Wide<T> next = combine(acc, widen(x));
          args.out_data<T>()[at] = narrow<T>(exclusive ? acc : next);
          acc = next;
        };
      });
  });
}

void extreme(const KernelArgs& args, bool largest) {
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T> || is_half_type<T>)
      for_each_step<T>(args, [&] {
        return [&, first = true, best = T()](const Ints&, int64_t at, const T& x) mutable {
          if (first || (!is_nan(best) && (is_nan(x) || (largest ? widen(x) > widen(best) : widen(x) < widen(best)))))
            best = x;
          first = false;
          args.out_data<T>()[at] = best;
        };
      });
  });
}

}  // namespace

void cumulate_sum(const KernelArgs& args) {
  accumulate(args, 0, [](const auto& a, const auto& b) { return a + b; });
}
void cumulate_prod(const KernelArgs& args) {
  accumulate(args, 1, [](const auto& a, const auto& b) { return a * b; });
}
void cumulate_max(const KernelArgs& args) { extreme(args, true); }
void cumulate_min(const KernelArgs& args) { extreme(args, false); }

void recur(const KernelArgs& args) {
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, std::string> && !std::is_integral_v<T>)
      for_each_step<T>(args, [&] {
        return [&, last = Wide<T>(0)](const Ints& index, int64_t at, const T& a) mutable {
          const Wide<T> b = widen(args.in_data<T>(1)[offset(args.input(1).strides(), index)]);
          last = (last == Wide<T>(0) ? Wide<T>(0) : widen(a) * last) + b;
          args.out_data<T>()[at] = narrow<T>(last);
        };
      });
  });
}

}  // namespace rill::ref
