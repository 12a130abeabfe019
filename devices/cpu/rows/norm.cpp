// layer_norm and batch_norm (training), and their gradients, in float and double. Rows are read into cache once; sums
// over rows follow the tree of the reductions (row_sums.h), or are split into pieces that depend only on the shape:
// the number of threads changes no bits.
//
// The formulas are at layer_norm in row_programs.h, which has its arithmetic.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/rows/norm.cpp"
#include <hwy/foreach_target.h>

#include "rill/devices/cpu/reduce/row_sums.h"
#include "rill/devices/cpu/rows/rows.h"

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

// How rows are split for sums over them: a number of pieces that does not depend on the number of threads.
struct Pieces {
  int64_t rows, count;
  Pieces(int64_t rows, int64_t row_size)
      : rows(rows),
        count(std::clamp<int64_t>(rows * row_size / 16384, 1, std::min<int64_t>(16, std::max<int64_t>(rows, 1)))) {}
  int64_t begin(int64_t piece) const { return rows * piece / count; }
};

// to[j] = the sum of partial[piece * stride + j] over the pieces, in order.
template <class C>
void add_pieces(const C* partial, int64_t pieces, int64_t stride, C* to, int64_t n) {
  using V = Lane<C>;
  row_each<V>(n, [&](int64_t j, size_t k) RILL_ROW {
    V sum = load_k<V>(partial + j, k);
    for (int64_t p = 1; p < pieces; ++p) sum = sum + load_k<V>(partial + p * stride + j, k);
    store_k(sum, to + j, k);
  });
}

// --- layer_norm ------------------------------------------------------------------------------------------------------

template <class C>
void layer_norm_rows(const KernelArgs& args) {
  const int64_t n = args.input(1).size(), rows = args.output(1).size();
  parallel_for(rows, row_grain(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      EagerRow<C> row{.attributes = args.attrs, .n = n};
      row.in[0] = args.in_data<C>(0) + r * n;
      for (int i : {1, 2}) row.in[i] = args.in_data<C>(i);
      row.out[0] = args.out_data<C>(0) + r * n;
      for (int o : {1, 2}) row.out[o] = args.out_data<C>(o) + r;
      LayerNormRow::run(row);
    }
  });
}

template <class C>
void layer_norm_grad_rows(const KernelArgs& args) {
  const int64_t n = args.input(1).size(), rows = args.input(2).size();
  C* const sums[] = {args.out_data<C>(1), args.out_data<C>(2)};
  const auto add = [&](int64_t begin, int64_t end, const cpu::RowSums<C>& to) {
    for (int64_t r = begin; r < end; ++r) {
      EagerRow<C> row{.attributes = args.attrs, .n = n};
      for (int i : {0, 4}) row.in[i] = args.in_data<C>(i) + r * n;
      row.in[1] = args.in_data<C>(1);
      for (int i : {2, 3, 5, 6}) row.in[i] = args.in_data<C>(i) + r;
      row.out[0] = args.out_data<C>(0) + r * n;
      for (int o : {1, 2}) row.out[o] = to.at(o - 1, r - begin);
      LayerNormGradRow::run(row);
    }
  };
  cpu::sum_rows(rows, n, 2, row_grain(n), sums, add);
}

// --- batch_norm, channels last: x is [rows, channels] ----------------------------------------------------------------

// f(first, last, j, k) for rows [first, last) of the k channels from j on, in blocks of rows that stay in the L1 cache:
// the values of a channel stay in registers over the rows of a block.
template <class V, class F>
HWY_INLINE void each_column(int64_t begin, int64_t end, int64_t channels, F f) {
  const int64_t step = std::max<int64_t>(1, 4096 / channels);
  for (int64_t first = begin; first < end; first += step) {
    const int64_t last = std::min(end, first + step);
    row_each<V>(channels, [&](int64_t j, size_t k) RILL_ROW { f(first, last, j, k); });
  }
}

// Mean and sum of squared deviations of each channel over some rows; merged as in Chan, Golub and LeVeque, "Updating
// Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.
template <class C>
struct Moments {
  double count = 0;
  C* mean;
  C* squares;

  void merge(double n, const C* other_mean, const C* other_squares, int64_t channels) {
    using V = Lane<C>;
    const V to_mean(C(n / (count + n))), to_squares(C(count * n / (count + n)));
    row_each<V>(channels, [&](int64_t j, size_t k) RILL_ROW {
      const V old = load_k<V>(mean + j, k), delta = load_k<V>(other_mean + j, k) - old;
      store_k(old + delta * to_mean, mean + j, k);
      store_k(load_k<V>(squares + j, k) + (load_k<V>(other_squares + j, k) + delta * delta * to_squares), squares + j,
              k);
    });
    count += n;
  }
};

// The moments of rows [begin, end), in blocks that stay in the L1 cache while they are read twice.
template <class C>
void column_moments(const C* x, int64_t begin, int64_t end, int64_t channels, Moments<C>& result) {
  using V = Lane<C>;
  std::vector<C> block(size_t(2 * channels));
  const int64_t step = std::max<int64_t>(1, 4096 / channels);
  for (int64_t b = begin; b < end; b += step) {
    const int64_t rows = std::min(step, end - b);
    const C* first = x + b * channels;
    const V n{C(rows)};
    row_each<V>(channels, [&](int64_t j, size_t k) RILL_ROW {
      V sum(C(0)), squares(C(0));
      for (int64_t r = 0; r < rows; ++r) sum = sum + load_k<V>(first + r * channels + j, k);
      const V mean = sum / n;
      for (int64_t r = 0; r < rows; ++r) {
        const V d = load_k<V>(first + r * channels + j, k) - mean;
        squares = squares + d * d;
      }
      store_k(mean, block.data() + j, k);
      store_k(squares, block.data() + channels + j, k);
    });
    result.merge(double(rows), block.data(), block.data() + channels, channels);
  }
}

// f(pointer offset) for each run of numbers of one channel.
template <class F>
HWY_INLINE void each_run(const AxisView& view, int64_t channel, F f) {
  for (int64_t o = 0; o < view.outer; ++o) f((o * view.size + channel) * view.inner);
}

// 1 / sqrt(variance + epsilon) of channel c. If the squares of the deviations underflow in the dtype, the variance is
// computed again in a wider one.
template <class C>
C channel_factor(const KernelArgs& args, const AxisView& view, int64_t c, C mean, C* variance) {
  using Extremes = SquareExtremes<C>;
  using W = std::conditional_t<std::is_same_v<C, double>, long double, double>;
  const double epsilon = args.attrs.as<NormParams>().epsilon;
  const bool too_small = *variance < C(Extremes::least) && epsilon < Extremes::dominant_epsilon;
  if (*variance <= C(Extremes::most) && !too_small) return C(1) / std::sqrt(*variance + C(epsilon));
  const C* x = args.in_data<C>(0);
  W squares = 0;
  each_run(view, c, [&](int64_t at) {
    for (int64_t i = 0; i < view.inner; ++i) squares += (W(x[at + i]) - W(mean)) * (W(x[at + i]) - W(mean));
  });
  squares /= W(view.outer * view.inner);
  *variance = C(squares);
  return C(1 / std::sqrt(squares + W(epsilon)));
}

template <class C>
void batch_norm_columns(const KernelArgs& args, const AxisView& view) {
  const int64_t rows = view.outer, channels = view.size;
  using V = Lane<C>;
  const C* x = args.in_data<C>(0);
  C* mean = args.out_data<C>(1);
  C* variance = args.out_data<C>(2);
  const Pieces pieces(rows, channels);
  std::vector<C> partial(size_t(pieces.count * 2 * channels), C(0));
  parallel_for(pieces.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      C* own = partial.data() + p * 2 * channels;
      Moments<C> moments{0, own, own + channels};
      column_moments(x, pieces.begin(p), pieces.begin(p + 1), channels, moments);
    }
  });
  std::fill(mean, mean + channels, C(0));
  std::fill(variance, variance + channels, C(0));
  Moments<C> all{0, mean, variance};
  for (int64_t p = 0; p < pieces.count; ++p) {
    const C* own = partial.data() + p * 2 * channels;
    all.merge(double(pieces.begin(p + 1) - pieces.begin(p)), own, own + channels, channels);
  }
  std::vector<C> factor(static_cast<size_t>(channels));
  for (int64_t c = 0; c < channels; ++c) {
    variance[c] /= C(rows);
    factor[size_t(c)] = args.in_data<C>(1)[c] * channel_factor(args, view, c, mean[c], &variance[c]);
  }
  const C* offset = args.in_data<C>(2);
  C* to = args.out_data<C>(0);
  parallel_for(rows, row_grain(channels), [&](int64_t begin, int64_t end) {
    each_column<V>(begin, end, channels, [&](int64_t first, int64_t last, int64_t j, size_t k) RILL_ROW {
      const V m = load_k<V>(mean + j, k), by = load_k<V>(factor.data() + j, k), plus = load_k<V>(offset + j, k);
      for (int64_t at = first * channels + j; at < last * channels; at += channels)
        store_k((load_k<V>(x + at, k) - m) * by + plus, to + at, k);
    });
  });
}

// dx = (g - mean_g - d r mean_gh) factor + d slope + constant, where d = x - mean, for each channel; computed from the
// sums of g and g d. r is not squared, which might underflow.
template <class C>
struct ChannelGradient {
  C r, factor, mean_g, mean_gh, slope, constant;

  ChannelGradient() = default;
  // Writes the gradients of scale and offset as well.
  ChannelGradient(const KernelArgs& args, const AxisView& view, int64_t c, C sum_g, C sum_gd) {
    const C n = C(view.outer * view.inner);
    C variance = args.in_data<C>(3)[c];
    r = channel_factor(args, view, c, args.in_data<C>(2)[c], &variance);
    factor = args.in_data<C>(1)[c] * r;
    mean_g = sum_g / n, mean_gh = sum_gd * r / n;
    slope = C(2) * args.in_data<C>(6)[c] / n;
    constant = args.in_data<C>(5)[c] / n;
    args.out_data<C>(1)[c] = n == 0 ? C(0) : sum_gd * r;  // the variance of no numbers is NaN, but the sum is 0
    args.out_data<C>(2)[c] = sum_g;
  }
  // For lanes, or for one number.
  template <class V>
  static HWY_INLINE V of(V g, V d, V r, V factor, V mean_g, V mean_gh, V slope, V constant) {
    return (g - mean_g - d * r * mean_gh) * factor + (d * slope + constant);
  }
};

template <class C>
void batch_norm_grad_columns(const KernelArgs& args, const AxisView& view) {
  const int64_t rows = view.outer, channels = view.size;
  using V = Lane<C>;
  const C* x = args.in_data<C>(0);
  const C* mean = args.in_data<C>(2);
  const C* g = args.in_data<C>(4);
  const Pieces pieces(rows, channels);
  std::vector<C> sums(size_t(pieces.count * 2 * channels), C(0));
  parallel_for(pieces.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      C *own_g = sums.data() + p * 2 * channels, *own_gd = own_g + channels;
      const auto add = [&](int64_t first, int64_t last, int64_t j, size_t k) RILL_ROW {
        const V m = load_k<V>(mean + j, k);
        V sum_g = load_k<V>(own_g + j, k), sum_gd = load_k<V>(own_gd + j, k);
        for (int64_t at = first * channels + j; at < last * channels; at += channels) {
          const V gi = load_k<V>(g + at, k);
          sum_g = sum_g + gi;
          sum_gd = sum_gd + gi * (load_k<V>(x + at, k) - m);
        }
        store_k(sum_g, own_g + j, k);
        store_k(sum_gd, own_gd + j, k);
      };
      each_column<V>(pieces.begin(p), pieces.begin(p + 1), channels, add);
    }
  });
  std::vector<C> total(size_t(2 * channels)), numbers(size_t(6 * channels));
  add_pieces(sums.data(), pieces.count, 2 * channels, total.data(), 2 * channels);
  for (int64_t c = 0; c < channels; ++c) {
    const ChannelGradient<C> to(args, view, c, total[size_t(c)], total[size_t(channels + c)]);
    const C each[] = {to.r, to.factor, to.mean_g, to.mean_gh, to.slope, to.constant};
    for (int64_t i = 0; i < 6; ++i) numbers[size_t(i * channels + c)] = each[i];
  }
  C* to = args.out_data<C>(0);
  parallel_for(rows, row_grain(channels), [&](int64_t begin, int64_t end) {
    each_column<V>(begin, end, channels, [&](int64_t first, int64_t last, int64_t j, size_t k) RILL_ROW {
      const auto number = [&](int64_t i) RILL_ROW { return load_k<V>(numbers.data() + i * channels + j, k); };
      const V m = load_k<V>(mean + j, k), r = number(0), factor = number(1), mean_g = number(2), mean_gh = number(3),
              slope = number(4), constant = number(5);
      for (int64_t at = first * channels + j; at < last * channels; at += channels) {
        const V d = load_k<V>(x + at, k) - m;
        store_k(ChannelGradient<C>::of(load_k<V>(g + at, k), d, r, factor, mean_g, mean_gh, slope, constant), to + at,
                k);
      }
    });
  });
}

// --- batch_norm, another axis: x is [outer, channels, inner] ---------------------------------------------------------

template <class C>
void batch_norm_planes(const KernelArgs& args, const AxisView& view) {
  using V = Lane<C>;
  const double n = double(view.outer * view.inner);
  parallel_for(view.size, row_grain(view.outer * view.inner), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const C* x = args.in_data<C>(0);
      C* y = args.out_data<C>(0);
      double sum = 0, squares = 0;
      each_run(view, c, [&](int64_t at) RILL_ROW {
        sum += row_sum<V>(view.inner, [&](int64_t i, size_t k) RILL_ROW { return load_k<V>(x + at + i, k); });
      });
      const C mean = C(sum / n);
      const V m(mean);
      each_run(view, c, [&](int64_t at) RILL_ROW {
        squares += row_sum<V>(view.inner, [&](int64_t i, size_t k) RILL_ROW {
          const V d = load_k<V>(x + at + i, k) - m;
          return d * d;
        });
      });
      C variance = C(squares / n);
      const V factor(args.in_data<C>(1)[c] * channel_factor(args, view, c, mean, &variance));
      const V offset(args.in_data<C>(2)[c]);
      each_run(view, c, [&](int64_t at) RILL_ROW {
        row_each<V>(view.inner, [&](int64_t i, size_t k) RILL_ROW {
          store_k((load_k<V>(x + at + i, k) - m) * factor + offset, y + at + i, k);
        });
      });
      args.out_data<C>(1)[c] = mean;
      args.out_data<C>(2)[c] = variance;
    }
  });
}

template <class C>
void batch_norm_grad_planes(const KernelArgs& args, const AxisView& view) {
  using V = Lane<C>;
  parallel_for(view.size, row_grain(view.outer * view.inner), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const C* x = args.in_data<C>(0);
      const C* g = args.in_data<C>(4);
      const V m(args.in_data<C>(2)[c]);
      double sum_g = 0, sum_gd = 0;
      each_run(view, c, [&](int64_t at) RILL_ROW {
        sum_g += row_sum<V>(view.inner, [&](int64_t i, size_t k) RILL_ROW { return load_k<V>(g + at + i, k); });
        sum_gd += row_sum<V>(view.inner, [&](int64_t i, size_t k) RILL_ROW {
          return load_k<V>(g + at + i, k) * (load_k<V>(x + at + i, k) - m);
        });
      });
      const ChannelGradient<C> to(args, view, c, C(sum_g), C(sum_gd));
      const V r(to.r), factor(to.factor), mean_g(to.mean_g), mean_gh(to.mean_gh), slope(to.slope),
          constant(to.constant);
      each_run(view, c, [&](int64_t at) RILL_ROW {
        row_each<V>(view.inner, [&](int64_t i, size_t k) RILL_ROW {
          const V d = load_k<V>(x + at + i, k) - m;
          store_k(ChannelGradient<C>::of(load_k<V>(g + at + i, k), d, r, factor, mean_g, mean_gh, slope, constant),
                  args.out_data<C>(0) + at + i, k);
        });
      });
    }
  });
}

// --- For each dtype --------------------------------------------------------------------------------------------------

void layer_norm_any(const KernelArgs& args) {
  if (args.input(0).dtype() == DType::f64) layer_norm_rows<double>(args);
  else layer_norm_rows<float>(args);
}
void layer_norm_grad_any(const KernelArgs& args) {
  if (args.input(0).dtype() == DType::f64) layer_norm_grad_rows<double>(args);
  else layer_norm_grad_rows<float>(args);
}

template <class C>
void batch_norm_of(const KernelArgs& args) {
  const AxisView view(args.input(0).shape(), args.attrs.as<NormParams>().axis);
  if (view.size == 0) return;
  if (view.inner == 1) batch_norm_columns<C>(args, view);
  else batch_norm_planes<C>(args, view);
}
template <class C>
void batch_norm_grad_of(const KernelArgs& args) {
  const AxisView view(args.input(0).shape(), args.attrs.as<NormParams>().axis);
  if (view.size == 0) return;
  if (view.inner == 1) batch_norm_grad_columns<C>(args, view);
  else batch_norm_grad_planes<C>(args, view);
}
void batch_norm_any(const KernelArgs& args) {
  if (args.input(0).dtype() == DType::f64) batch_norm_of<double>(args);
  else batch_norm_of<float>(args);
}
void batch_norm_grad_any(const KernelArgs& args) {
  if (args.input(0).dtype() == DType::f64) batch_norm_grad_of<double>(args);
  else batch_norm_grad_of<float>(args);
}

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(layer_norm_any);
HWY_EXPORT(layer_norm_grad_any);
HWY_EXPORT(batch_norm_any);
HWY_EXPORT(batch_norm_grad_any);

void layer_norm(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(layer_norm_any)(args); }
void layer_norm_grad(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(layer_norm_grad_any)(args); }
void batch_norm(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(batch_norm_any)(args); }
void batch_norm_grad(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(batch_norm_grad_any)(args); }

}  // namespace rill::cpu
#endif  // HWY_ONCE
