// The arithmetic of the ops that compute complete rows (softmax, layer_norm, cross entropy), written once: a program is
// run on a Row, which is a row of numbers in memory (EagerRow, rows.h) for the cpu kernels, or instructions of a
// kernel (RecordedRow, ops/elementwise/record_row.h) for fusion. So fused and eager code give the same bits. Included
// once for each instruction set, as devices/kernel/lanes.h explains.
//
// A Row has
//   V, Number       the type of the numbers that a point function gets, and of one number of the row
//   operand(i)      operand i's numbers, one for each point; number(i): operand i's only one; count(): the row's length
//   max(x)          the largest number
//   sum(f, x...)    of f(a number of each x) over all points; sum_kept(o, f, x...) stores the terms in result o's row
//   sum_where(c, f, x) the same sum if the row's condition c holds; else arbitrary
//   write(o, f, x...)  stores f(...) in result o; write_number(o, v) stores v as its only number
// The pass with `fetch_next` in front prefetches the next row of its first operand and of result o: it computes most,
// so that memory would be idle meanwhile.

#if defined(RILL_DEVICES_CPU_ROW_PROGRAMS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_DEVICES_CPU_ROW_PROGRAMS_H_
#undef RILL_DEVICES_CPU_ROW_PROGRAMS_H_
#else
#define RILL_DEVICES_CPU_ROW_PROGRAMS_H_
#endif

#include "rill/devices/kernel/math/math.h"
#include "rill/devices/params/nn_params.h"
#include "rill/devices/params/square_extremes.h"

// A lambda whose body is vector code.
#undef RILL_ROW
#define RILL_ROW HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

struct FetchNext {};
inline constexpr FetchNext fetch_next;
struct NoFetch {};
inline constexpr NoFetch no_fetch;

// At one point: the term of a sum over the row, and what is added to two results that are sums over all rows.
template <class V>
struct SumTerms {
  V term, added[2];
};

// --- softmax ---------------------------------------------------------------------------------------------------------

// y = exp(x - max) / sum: the greatest exponent is 0, so that nothing overflows.
struct SoftmaxRow {
  template <class Row>
  static HWY_INLINE void run(Row& row) {
    using V = typename Row::V;
    const auto x = row.operand(0);
    const V top(row.max(x));
    const auto exps = row.sum_kept(fetch_next, 0, [&](V a) RILL_ROW { return exp_of_negative(a - top); }, x);
    const V scale(typename Row::Number(1) / exps.sum);
    row.write(0, [&](V e) RILL_ROW { return e * scale; }, exps.kept);
  }
};

// log(sum(exp(x - top))), where `top` is the largest x. The terms that are 1 are counted, and only the others added up,
// so that small ones are not lost.
template <class Row, class Fetch, class X>
HWY_INLINE typename Row::Number log_of_sum(Row& row, Fetch fetch, X x, typename Row::V top) {
  using V = typename Row::V;
  using Number = typename Row::Number;
  const Number rest = row.sum(
      fetch,
      [&](V a) RILL_ROW {
        const V d = a - top;
        return select(d == V(0), V(0), exp_of_negative(d));
      },
      x);
  const Number tops = row.sum([&](V a) RILL_ROW { return select(a - top == V(0), V(1), V(0)); }, x);
  return row.log1p(tops - Number(1), rest);
}

struct LogSoftmaxRow {
  template <class Row>
  static HWY_INLINE void run(Row& row) {
    using V = typename Row::V;
    const auto x = row.operand(0);
    const V top(row.max(x));
    const V log_total(log_of_sum(row, fetch_next, x, top));
    row.write(0, [&](V a) RILL_ROW { return a - top - log_total; }, x);
  }
};

// y g, and 0 if the cotangent g is 0: an unused row of NaN (from a row of only -inf) then leaves others alone.
template <class V>
HWY_INLINE V product(V y, V g) {
  return select(g == V(0), V(0), y * g);
}

struct SoftmaxGradRow {
  template <class Row>
  static HWY_INLINE void run(Row& row) {
    using V = typename Row::V;
    const auto y = row.operand(0), g = row.operand(1);
    const V dot(row.sum([](V a, V b) RILL_ROW { return product(a, b); }, y, g));
    row.write(0, [&](V a, V b) RILL_ROW { return product(a, b - dot); }, y, g);
  }
};

struct LogSoftmaxGradRow {
  template <class Row>
  static HWY_INLINE void run(Row& row) {
    using V = typename Row::V;
    const auto y = row.operand(0), g = row.operand(1);
    const V total(row.sum([](V b) RILL_ROW { return b; }, g));
    row.write(0, [&](V a, V b) RILL_ROW { return b - product(exp(a), total); }, y, g);
  }
};

// --- layer_norm ------------------------------------------------------------------------------------------------------
// With x's mean m and variance v over n numbers, r = 1/sqrt(v + epsilon) and h = (x - m) r:
//   y  = h scale + offset
//   dx = r (w - mean(w) - h mean(w h)) + dm/n + 2 dv (x - m)/n     where w = dy scale

// r. If the squares of the deviations underflow in the dtype, the variance is computed again from scaled deviations.
template <class Row, class X>
HWY_INLINE typename Row::Number reciprocal_deviation(Row& row, X x, typename Row::V mean,
                                                     typename Row::Number variance) {
  using V = typename Row::V;
  using Number = typename Row::Number;
  using Extremes = SquareExtremes<scalar_t<V>>;
  const double given_epsilon = row.attrs().template as<NormParams>().epsilon;
  const Number one = row.constant(1), epsilon = row.constant(given_epsilon);
  const Number up = given_epsilon < Extremes::dominant_epsilon ? row.constant(Extremes::up) : one;
  const Number factor = select(variance > row.constant(Extremes::most), row.constant(Extremes::down),
                               select(variance < row.constant(Extremes::least), up, one));
  const V f(factor);
  const Number scaled = row.sum_where(
      factor != one,
      [&](V a) RILL_ROW {
        const V d = (a - mean) * f;
        return d * d;
      },
      x);
  return factor / sqrt(select(factor == one, variance, scaled / row.count()) + epsilon * factor * factor);
}

// Operands x, scale, offset; results y, mean, variance.
struct LayerNormRow {
  template <class Row>
  static HWY_INLINE void run(Row& row) {
    using V = typename Row::V;
    using Number = typename Row::Number;
    const auto x = row.operand(0);
    const Number n = row.count();
    const Number mean = row.sum([](V a) RILL_ROW { return a; }, x) / n;
    const V m(mean);
    const Number variance = row.sum(
                                [&](V a) RILL_ROW {
                                  const V d = a - m;
                                  return d * d;
                                },
                                x) /
                            n;
    const V r(reciprocal_deviation(row, x, m, variance));
    row.write(
        fetch_next, 0, [&](V a, V scale, V offset) RILL_ROW { return (a - m) * r * scale + offset; }, x, row.operand(1),
        row.operand(2));
    row.write_number(1, mean);
    row.write_number(2, variance);
  }
};

// Operands x, scale, mean, variance and the cotangents of y, mean, variance; results dx, and the row's terms in the
// sums for scale and offset.
struct LayerNormGradRow {
  template <class Row>
  static HWY_INLINE void run(Row& row) {
    using V = typename Row::V;
    using Number = typename Row::Number;
    const auto x = row.operand(0), scale = row.operand(1), g = row.operand(4);
    const Number n = row.count();
    const V m(row.number(2)), r(reciprocal_deviation(row, x, m, row.number(3)));
    const Number w_mean = row.sum([](V b, V s) RILL_ROW { return b * s; }, g, scale) / n;
    const Number wh_mean = row.sum_adding(
                               1,
                               [&](V a, V b, V s) RILL_ROW {
                                 const V gh = b * ((a - m) * r);
                                 return SumTerms<V>{gh * s, {gh, b}};
                               },
                               x, g, scale) /
                           n;
    const V by_variance(Number(2) * row.number(6) / n), by_mean(row.number(5) / n), w_m(w_mean), wh_m(wh_mean);
    row.write(
        0,
        [&](V a, V b, V s) RILL_ROW {
          const V d = a - m;
          return (b * s - w_m - d * r * wh_m) * r + (d * by_variance + by_mean);
        },
        x, g, scale);
  }
};

// --- Cross entropy of softmax ----------------------------------------------------------------------------------------

// log(sum(exp(x))) = top + log_total, kept as two numbers because x - top is exact where x is near the top.
template <class Row>
struct LogSum {
  using V = typename Row::V;
  typename Row::Number top, log_total;

  template <class X>
  HWY_INLINE LogSum(Row& row, X x) : top(row.max(x)) {
    log_total = log_of_sum(row, no_fetch, x, V(top));
  }
  HWY_INLINE void write(Row& row) const {
    row.write_number(1, top);
    row.write_number(2, log_total);
  }
};

// The probabilities of the row times `to_p`, from the parts of lse; 0 in a row whose cotangent is 0, whatever its
// logits are.
template <class V>
struct ProbabilityPart {
  V top, log_total, to_p, none;

  template <class Row>
  HWY_INLINE ProbabilityPart(Row& row, typename Row::Number scale)
      : top(row.number(2)), log_total(row.number(3)), to_p(scale), none(typename Row::Number(0)) {}
  HWY_INLINE V operator()(V x) const { return select(to_p == none, none, to_p * exp((x - top) - log_total)); }
};

// Operands logits, labels; results loss, top, log_total.
struct DenseEntropyRow {
  template <class Row>
  static HWY_INLINE void run(Row& row) {
    using V = typename Row::V;
    const auto x = row.operand(0);
    const LogSum<Row> lse(row, x);
    const V top(lse.top), log_total(lse.log_total);
    row.write_number(
        0, row.sum([&](V a, V label) RILL_ROW { return product((top - a) + log_total, label); }, x, row.operand(1)));
    lse.write(row);
  }
};

// Operands logits, labels, top, log_total, and the cotangents of loss and lse; result dx.
struct DenseEntropyGradRow {
  template <class Row>
  static HWY_INLINE void run(Row& row) {
    using V = typename Row::V;
    const auto labels = row.operand(1);
    const V g(row.number(4));
    const auto mass = row.sum([](V label) RILL_ROW { return label; }, labels);
    const ProbabilityPart<V> part(row, row.number(4) * mass + row.number(5));
    row.write(0, [&](V a, V label) RILL_ROW { return part(a) - g * label; }, row.operand(0), labels);
  }
};

struct SparseEntropyRow {
  template <class Row>
  static HWY_INLINE void run(Row& row) {
    const auto x = row.operand(0);
    const LogSum<Row> lse(row, x);
    row.write_number(0, (lse.top - row.at_label(x)) + lse.log_total);
    lse.write(row);
  }
};

struct SparseEntropyGradRow {
  template <class Row>
  static HWY_INLINE void run(Row& row) {
    using V = typename Row::V;
    const ProbabilityPart<V> part(row, row.number(4) + row.number(5));
    row.write_less_at_label(0, row.number(4), [&](V a) RILL_ROW { return part(a); }, row.operand(0));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#endif  // include guard
