// batch_norm, and the sums over rows in its gradient and layer_norm's. fold.cuh precedes this text.
namespace rill::cuda {

template <class T>
RILL T reciprocal_deviation(T variance, T epsilon) { return T(1) / rill::sqrt(variance + epsilon); }
// The variance may overflow or underflow T even if the deviation does not; `wide` has more range.
template <class T>
RILL T channel_factor(T variance, f64 wide, f64 epsilon) {
  const bool held = variance - variance == T(0) && !(variance < T(1e-30) && epsilon < 1e-23);
  return held ? reciprocal_deviation(variance, T(epsilon)) : T(1 / ::sqrt(wide + epsilon));
}
template <class T>
RILL T number(const char* p, i64 i) { return Stored<T>::load(p + i * i64(sizeof(T))); }
template <class T>
RILL void set(char* p, i64 i, T x) { store(p + i * i64(sizeof(T)), x); }

// Sums in f64, as the CPU's.
struct SumsInF64 {
  typedef f64 Acc;
  RILL f64 identity() { return 0; }
  RILL f64 of(f64 a, f64 b) { return a + b; }
};
// out[0]: the mean
template <class T>
struct Mean : SumsInF64 {
  RILL f64 load(const Folding& s, i64, i64, i64 at) { return f64(Stored<T>::load(s.from + at)); }
  RILL void store_result(const Folding& s, i64 row, f64 sum) { set(s.out[0], row, T(sum / f64(s.n))); }
};
// in: mean, scale; out: variance, and the factor of x - mean
template <class T>
struct Variance : SumsInF64 {
  RILL f64 load(const Folding& s, i64 row, i64, i64 at) {
    const f64 d = f64(Stored<T>::load(s.from + at)) - f64(number<T>(s.in[0], row));
    return d * d;
  }
  RILL void store_result(const Folding& s, i64 row, f64 sum) {
    const f64 wide = sum / f64(s.n);
    set(s.out[0], row, T(wide));
    set(s.out[1], row, number<T>(s.in[1], row) * channel_factor(T(wide), wide, s.epsilon));
  }
};
template <class T>
RILL void normalise(const Normed& s) {
  for (i64 q = first_thread(); q < s.count; q += all_threads()) {
    const i64 c = q / s.inner % s.channels;
    set(s.y, q, (number<T>(s.x, q) - number<T>(s.mean, c)) * number<T>(s.factor, c) + number<T>(s.offset, c));
  }
}

// --- Gradients ---

template <class A>
struct SumPair { A a, b; };
template <class A>
RILL SumPair<A> from_lane(SumPair<A> x, int lane) {
  SumPair<A> y;
  y.a = rill::from_lane(x.a, lane);
  y.b = rill::from_lane(x.b, lane);
  return y;
}
template <class A>
struct PairOfSums {
  typedef SumPair<A> Acc;
  RILL Acc identity() {
    Acc x;
    x.a = x.b = A(0);
    return x;
  }
  RILL Acc of(Acc x, const Acc& y) {
    x.a = x.a + y.a, x.b = x.b + y.b;
    return x;
  }
};

struct ChannelMoments { f64 g, gd, dd; };
RILL ChannelMoments from_lane(ChannelMoments x, int lane) {
  ChannelMoments y;
  y.g = rill::from_lane(x.g, lane);
  y.gd = rill::from_lane(x.gd, lane);
  y.dd = rill::from_lane(x.dd, lane);
  return y;
}
// The sums of g, of g d and of d d of a channel, where d = x - mean; in: g, mean, variance. out: the gradients of
// offset and scale, and r, 1 / the deviation.
template <class T>
struct ChannelSums {
  typedef ChannelMoments Acc;
  RILL Acc identity() {
    Acc x;
    x.g = x.gd = x.dd = 0;
    return x;
  }
  RILL Acc of(Acc x, const Acc& y) {
    x.g = x.g + y.g, x.gd = x.gd + y.gd, x.dd = x.dd + y.dd;
    return x;
  }
  RILL Acc load(const Folding& s, i64 row, i64, i64 at) {
    const f64 g = f64(Stored<T>::load(s.in[0] + at)),
              d = f64(Stored<T>::load(s.from + at)) - f64(number<T>(s.in[1], row));
    Acc x;
    x.g = g, x.gd = g * d, x.dd = d * d;
    return x;
  }
  RILL void store_result(const Folding& s, i64 row, const Acc& x) {
    const T r = channel_factor(number<T>(s.in[2], row), x.dd / f64(s.n), s.epsilon);
    set(s.out[0], row, T(x.g));
    set(s.out[1], row, s.n == 0 ? T(0) : T(x.gd * f64(r)));
    set(s.out[2], row, r);
  }
};

// dx = (g - mean_g - d r mean_gh) factor + d slope + constant, as on the CPU: r is not squared, which might underflow
// T.
template <class T>
RILL void channel_gradients(const ChannelGradients& s) {
  for (i64 c = first_thread(); c < s.channels; c += all_threads()) {
    const T n = T(f64(s.n));
    set(s.factor, c, number<T>(s.scale, c) * number<T>(s.r, c));
    set(s.mean_g, c, number<T>(s.offset_gradient, c) / n);
    set(s.mean_gh, c, number<T>(s.scale_gradient, c) / n);
    set(s.slope, c, T(2) * number<T>(s.variance_gradient, c) / n);
    set(s.constant, c, number<T>(s.mean_gradient, c) / n);
  }
}
template <class T>
RILL void normalise_gradient(const NormedGradient& s) {
  for (i64 q = first_thread(); q < s.count; q += all_threads()) {
    const i64 c = q / s.inner % s.channels;
    const T d = number<T>(s.x, q) - number<T>(s.mean, c);
    const T g = number<T>(s.g, q) - number<T>(s.mean_g, c) - d * number<T>(s.r, c) * number<T>(s.mean_gh, c);
    set(s.y, q, g * number<T>(s.factor, c) + (d * number<T>(s.slope, c) + number<T>(s.constant, c)));
  }
}

// For layer_norm: the sums over rows of g (x - mean) / deviation, and of g, term by term as in its gradient's rows
// (devices/cpu/rows/row_programs.h), so that eager and fused calls give the same bits. in: g, mean, variance.
template <class T>
struct LayerSums : PairOfSums<T> {
  typedef SumPair<T> Acc;
  RILL Acc load(const Folding& s, i64, i64 p, i64 at) {
    const T r = reciprocal_deviation(number<T>(s.in[2], p), T(s.epsilon)), g = Stored<T>::load(s.in[0] + at);
    Acc x;
    x.a = g * ((Stored<T>::load(s.from + at) - number<T>(s.in[1], p)) * r);
    x.b = g;
    return x;
  }
  RILL void store_result(const Folding& s, i64 row, const Acc& x) {
    set(s.out[0], row, x.a + T(0));
    set(s.out[1], row, x.b + T(0));
  }
};

}  // namespace rill::cuda
