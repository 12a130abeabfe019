// Reference kernels of the cumulative ops, by their definitions, in the widest type of the operand's kind.
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/ref/iterate.h"

namespace rill::ref {
namespace {

template <class W>
W element(const Tensor& x, const Ints& index) {
  return load_wide<W>(x.dtype(), x.rep()->data + offset(x.strides(), index) * int64_t(size_of(x.dtype())));
}

// Calls step(index, element) along every line in the order that the params say, with a new step from `start` for each
// line, and writes the results.
template <class W, class Start>
void for_each_step(const KernelArgs& args, Start&& start) {
  const Tensor& x = args.input(0);
  const auto& p = args.attrs.as<CumulativeParams>();
  const size_t axis = size_t(p.axis);
  const Strides to = contiguous_strides(x.shape());
  const int64_t n = x.shape()[axis];
  const DType result = args.output().dtype();
  if (n == 0) return;
  for_each_line(x.shape(), p.axis, [&](Ints index) {
    auto step = start();
    for (int64_t i = 0; i < n; ++i) {
      index[axis] = p.reverse ? n - 1 - i : i;
      char* out = args.out_data<char>() + offset(to, index) * int64_t(size_of(result));
      store_wide<W>(result, out, step(index, element<W>(x, index)));
    }
  });
}

template <class Combine>
void accumulate(const KernelArgs& args, int identity, Combine combine) {
  const bool exclusive = args.attrs.as<CumulativeParams>().exclusive;
  visit_kind(args.input(0).dtype(), [&]<class W>(W) {
    // A sum starts from -0, so that a sum of -0 is -0.
    const W begin = identity == 0 && !exclusive ? -W(0) : W(identity);
    for_each_step<W>(args, [&] {
      return [&, acc = begin](const Ints&, const W& x) mutable {
        const W before = acc;
        acc = wrapped(acc, x, combine);
        return exclusive ? before : acc;
      };
    });
  });
}

void extreme(const KernelArgs& args, bool largest) {
  visit_kind(args.input(0).dtype(), [&]<class W>(W) {
    if constexpr (!std::is_same_v<W, Complex>)
      for_each_step<W>(args, [&] {
        return [&, first = true, best = W()](const Ints&, const W& x) mutable {
          if (first || (!is_nan(best) && (is_nan(x) || (largest ? x > best : x < best)))) best = x;
          first = false;
          return best;
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
  visit_kind(args.input(0).dtype(), [&]<class W>(W) {
    if constexpr (!std::is_integral_v<W>)
      for_each_step<W>(args, [&] {
        return [&, last = W(0)](const Ints& index, const W& a) mutable {
          last = (last == W(0) ? W(0) : a * last) + element<W>(args.input(1), index);
          return last;
        };
      });
  });
}

}  // namespace rill::ref
