// Pooling. A thread computes a number of the result; neighbours in memory are neighbouring threads.
namespace rill::cuda {

// The type in which halves are compared and summed.
template <class T> struct Number {
  typedef T Type;
  RILL T widen(T x) { return x; }
  RILL T narrow(T x) { return x; }
};
template <class T> struct HalfNumber {
  typedef f32 Type;
  RILL f32 widen(T x) { return rill::widen(x); }
  RILL T narrow(f32 x) { return rill::narrow(x, T()); }
};
template <> struct Number<f16> : HalfNumber<f16> {};
template <> struct Number<bf16> : HalfNumber<bf16> {};

// A sum of many numbers that is rounded almost as if once: by Kahan's compensation (1965).
template <class W>
struct LongSum {
  W sum, compensation;
  inline void add(W x) {
    const W y = x - compensation, next = sum + y;
    if (next - next == W(0)) compensation = (next - sum) - y;  // not of infinities
    sum = next;
  }
};

// I, i32 or i64, holds every index in a plane. The numbers of elements in tensors fit 32 bits with i32: divisions of 64
// bits are slow.
template <class I> struct WholeOf { typedef u32 Type; };
template <> struct WholeOf<i64> { typedef i64 Type; };
template <class I> using Whole = typename WholeOf<I>::Type;

// One element of a tensor: its plane (batch and channel) and its indices there.
template <class I>
struct PlaneElement {
  Whole<I> batch, channel;
  I at[3];
};
template <class I>
RILL PlaneElement<I> plane_element(const Windows& s, const long long* size, i64 number) {
  typedef Whole<I> N;
  PlaneElement<I> p;
  N q = N(number);
  if (s.channels_last) {
    p.channel = q % N(s.channels);
    q /= N(s.channels);
  }
  for (int a = 2; a >= 0; --a) {
    p.at[a] = I(q % N(size[a]));
    q /= N(size[a]);
  }
  if (!s.channels_last) {
    p.channel = q % N(s.channels);
    q /= N(s.channels);
  }
  p.batch = q;
  return p;
}
RILL i64 count_of(const Windows& s, const long long* size) { return s.batch * s.channels * size[0] * size[1] * size[2]; }

// A plane's first number, and the distance between its numbers, in a tensor with these spatial sizes.
template <class I>
struct Plane {
  Whole<I> first, step;
  inline i64 of(I index) const { return first + Whole<I>(index) * step; }
};
template <class I>
RILL Plane<I> plane(const Windows& s, const long long* size, const PlaneElement<I>& p) {
  const Whole<I> elements = Whole<I>(size[0] * size[1] * size[2]), channels = Whole<I>(s.channels);
  Plane<I> y;
  y.first = s.channels_last ? p.batch * elements * channels + p.channel : (p.batch * channels + p.channel) * elements;
  y.step = s.channels_last ? channels : 1;
  return y;
}

template <class I> struct Range { I from[3], to[3]; };
// The part of a window that is not padding.
template <class I>
RILL Range<I> inside(const Windows& s, const I* window) {
  Range<I> r;
  for (int a = 0; a < 3; ++a) {
    const I start = window[a] * I(s.stride[a]) - I(s.lo[a]), end = start + I(s.window[a]);
    r.from[a] = start < 0 ? 0 : start;
    r.to[a] = end < I(s.in[a]) ? end : I(s.in[a]);
  }
  return r;
}
// The windows that contain an element.
template <class I>
RILL Range<I> windows_over(const Windows& s, const I* at) {
  Range<I> r;
  for (int a = 0; a < 3; ++a) {
    const I last = at[a] + I(s.lo[a]), first = last - I(s.window[a]) + 1, step = I(s.stride[a]);
    r.from[a] = first <= 0 ? 0 : (first + step - 1) / step;
    r.to[a] = last / step + 1 < I(s.out_size[a]) ? last / step + 1 : I(s.out_size[a]);
  }
  return r;
}
template <class I, class F>
RILL void for_each_index(const Range<I>& r, const long long* size, F&& f) {
  for (I i = r.from[0]; i < r.to[0]; ++i)
    for (I j = r.from[1]; j < r.to[1]; ++j)
      for (I k = r.from[2]; k < r.to[2]; ++k) f((i * I(size[1]) + j) * I(size[2]) + k, i, j, k);
}

template <class T, class I>
RILL T number(const char* base, const Plane<I>& p, I index) {
  return Stored<T>::load(base + p.of(index) * i64(sizeof(T)));
}

// The index of the first largest element of a window; a NaN is larger than any number.
template <class T, class I>
RILL I largest(const Windows& s, const PlaneElement<I>& window) {
  typedef typename Number<T>::Type W;
  const Plane<I> x = plane(s, s.in, window);
  const Range<I> r = inside(s, window.at);
  I largest_index = (r.from[0] * I(s.in[1]) + r.from[1]) * I(s.in[2]) + r.from[2];
  W largest_value = Number<T>::widen(number<T>(s.x, x, largest_index));
  for_each_index(r, s.in, [&](I index, I, I, I) {
    const W y = Number<T>::widen(number<T>(s.x, x, index));
    if (y > largest_value || (y != y && largest_value == largest_value)) largest_index = index, largest_value = y;
  });
  return largest_index;
}

// `from`: the tensor whose element is taken, the operand or another one of its shape.
template <class T, class I>
RILL void take_largest(const Windows& s, const char* from) {
  for (i64 q = first_thread(), n = count_of(s, s.out_size); q < n; q += all_threads()) {
    const PlaneElement<I> window = plane_element<I>(s, s.out_size, q);
    store(s.out + q * i64(sizeof(T)), number<T>(from, plane(s, s.in, window), largest<T>(s, window)));
  }
}
template <class T, class I>
RILL void max_pool(const Windows& s) { take_largest<T, I>(s, s.x); }
template <class T, class I>
RILL void max_pool_pick(const Windows& s) { take_largest<T, I>(s, s.other); }

// The gradient of max_pool takes two kernels: each window stores which element is its largest one, then each element
// sums the cotangents of its windows, in their order, so that no two threads add to one number.
template <class T, class I>
RILL void choose_largest(const Windows& s) {
  for (i64 q = first_thread(), n = count_of(s, s.out_size); q < n; q += all_threads())
    *RILL_AT((I*)s.chosen + q) = largest<T>(s, plane_element<I>(s, s.out_size, q));
}
template <class T, class I>
RILL void max_pool_grad(const Windows& s) {
  typedef typename Number<T>::Type W;
  for (i64 q = first_thread(), n = count_of(s, s.in); q < n; q += all_threads()) {
    const PlaneElement<I> e = plane_element<I>(s, s.in, q);
    const Plane<I> g = plane(s, s.out_size, e);
    const I index_here = (e.at[0] * I(s.in[1]) + e.at[1]) * I(s.in[2]) + e.at[2];
    LongSum<W> sum = {W(0), W(0)};
    for_each_index(windows_over(s, e.at), s.out_size, [&](I index, I, I, I) {
      if (*RILL_AT((const I*)s.chosen + g.of(index)) == index_here) sum.add(Number<T>::widen(number<T>(s.other, g, index)));
    });
    store(s.out + q * i64(sizeof(T)), Number<T>::narrow(sum.sum));
  }
}

template <class W, class I>
RILL W divisor(const Windows& s, const I* window) {
  if (s.inside_all) return W(s.inside_all);
  const Range<I> r = inside(s, window);
  return W(i64(r.to[0] - r.from[0]) * (r.to[1] - r.from[1]) * (r.to[2] - r.from[2]));
}
template <class T, class I>
RILL void avg_pool(const Windows& s) {
  typedef typename Number<T>::Type W;
  for (i64 q = first_thread(), n = count_of(s, s.out_size); q < n; q += all_threads()) {
    const PlaneElement<I> window = plane_element<I>(s, s.out_size, q);
    const Plane<I> x = plane(s, s.in, window);
    LongSum<W> sum = {W(0), W(0)};
    for_each_index(inside(s, window.at), s.in, [&](I index, I, I, I) { sum.add(Number<T>::widen(number<T>(s.x, x, index))); });
    store(s.out + q * i64(sizeof(T)), Number<T>::narrow(sum.sum / divisor<W>(s, window.at)));
  }
}
template <class T, class I>
RILL void avg_pool_grad(const Windows& s) {
  typedef typename Number<T>::Type W;
  for (i64 q = first_thread(), n = count_of(s, s.in); q < n; q += all_threads()) {
    const PlaneElement<I> e = plane_element<I>(s, s.in, q);
    const Plane<I> g = plane(s, s.out_size, e);
    LongSum<W> sum = {W(0), W(0)};
    for_each_index(windows_over(s, e.at), s.out_size, [&](I index, I i, I j, I k) {
      const I window[3] = {i, j, k};
      sum.add(Number<T>::widen(number<T>(s.other, g, index)) / divisor<W>(s, window));
    });
    store(s.out + q * i64(sizeof(T)), Number<T>::narrow(sum.sum));
  }
}

}  // namespace rill::cuda
