// Discrete Fourier transforms, by Stockham's passes: DFT of 2^bits points by radix 8, and a last pass of what is left.
// Lines that fit are transformed by a block, read and written once, in registers and exchanged through shared memory;
// others by a launch for each pass. complex_number.h precedes this text.
namespace rill::cuda {

using scalar_math::Complex;

// --- Roots of unity: in f64, of angles up to pi / 4, rounded once ---
template <class T>
struct alignas(2 * sizeof(T)) Root { T re, im; };

// The cosine and sine of a share of pi / 4, by Taylor's series, so that the compiler can compute them.
constexpr Root<f64> root_of_share(f64 share) {
  const f64 angle = 0.78539816339744830962 * share, square = angle * angle;
  f64 c = 1, s = 1;
#pragma unroll
  for (int i = 18; i > 0; i -= 2) {
    c = 1 - square * (1.0 / (i * (i - 1))) * c;
    s = 1 - square * (1.0 / (i * (i + 1))) * s;
  }
  return {c, angle * s};
}
struct RootOfShare {
  constexpr Root<f64> operator()(i64 part, i64 period) const { return root_of_share(f64(part) / f64(period)); }
};
// exp(-2 pi i k / period), from first(x, period): the cosine and sine of pi / 4 times x / period.
template <class T, class F>
constexpr Root<T> root(i64 k, i64 period, const F& first) {
  const i64 octant = 8 * k / period, beyond = 8 * k - octant * period;
  const Root<f64> r = first(octant % 2 ? period - beyond : beyond, period);
  const bool turned = (octant + 1) / 2 % 2 == 1;  // beyond pi / 4 from the real axis
  const f64 x = turned ? r.im : r.re, y = turned ? r.re : r.im;
  return {T(octant >= 2 && octant < 6 ? -x : x), T(octant < 4 ? -y : y)};
}
template <class T>
RILL void make_roots(const Roots& s) {
  for (i64 q = first_thread(); q < s.count; q += all_threads()) {
    const Root<T> r = root<T>(s.squares ? q * q % s.period : q % s.period, s.period, RootOfShare());
    *RILL_AT((Complex<T>*)s.to + q) = {r.re, r.im};
  }
}
// The filter of 2^bits points: the chirp's conjugates, from 0 on forwards and backwards.
template <class T>
RILL void make_filter(const Lines& s) {
  const i64 m = i64(1) << s.bits;
  for (i64 q = first_thread(); q < m; q += all_threads()) {
    const i64 j = q < s.n ? q : m - q;
    *RILL_AT((Complex<T>*)s.work + q) = j < s.n ? conj(*RILL_AT((const Complex<T>*)s.chirp + j)) : Complex<T>(0);
  }
}

RILL f32 fused(f32 x, f32 y, f32 z) { return ::fmaf(x, y, z); }
RILL f64 fused(f64 x, f64 y, f64 z) { return ::fma(x, y, z); }
template <class T, class W>
RILL Complex<T> times(Complex<T> x, W w) {
  return {fused(x.re, w.re, -(x.im * w.im)), fused(x.re, w.im, x.im * w.re)};
}

// --- Elements of lines: an inverse transform is the conjugate of that of conjugates ---
// Where a line of `size` elements begins.
RILL i64 beginning(const Lines& s, i64 line, i64 size) {
  if (s.inner == 1) return line * size;
  const i64 outer = line / s.inner;
  return outer * size * s.inner + line - outer * s.inner;
}
template <class T>
RILL Complex<T> read_point(const Lines& s, i64 begin, i64 j) {
  if (j >= s.n) return {0};
  Complex<T> x;
  if (s.reads == complex_line) x = *RILL_AT((const Complex<T>*)s.from + begin + j * s.inner);
  else if (s.reads == real_line) x = *RILL_AT((const T*)s.from + begin + j * s.inner);
  else {
    const bool mirrored = 2 * j > s.n;
    x = *RILL_AT((const Complex<T>*)s.from + begin + (mirrored ? s.n - j : j) * s.inner);
    if (j == 0 || 2 * j == s.n) x.im = 0;
    else if (mirrored) x = conj(x);
  }
  if (s.inverse) x = conj(x);
  return s.chirp ? times(x, *RILL_AT((const Complex<T>*)s.chirp + j)) : x;
}
template <class T>
RILL void write_point(const Lines& s, i64 begin, i64 k, Complex<T> y) {
  if (s.chirp) y = times(conj(y), *RILL_AT((const Complex<T>*)s.chirp + k));
  if (s.inverse) y = conj(y);
  y = {y.re * T(s.factor), y.im * T(s.factor)};
  if (s.writes == real_line) *RILL_AT((T*)s.to + begin + k * s.inner) = y.re;
  else *RILL_AT((Complex<T>*)s.to + begin + k * s.inner) = y;
}
// Between the two transforms of a convolution.
template <class T>
RILL Complex<T> filtered(const Lines& s, i64 k, Complex<T> x) {
  return conj(times(x, *RILL_AT((const Complex<T>*)s.filter + k)));
}

// --- Transforms of the points x[0], x[step], ... in registers ---
template <class T>
RILL void dft_2(Complex<T>* x, int step) {
  const Complex<T> a = x[0], b = x[step];
  x[0] = a + b, x[step] = a - b;
}
template <class T>
RILL void dft_4(Complex<T>* x, int step) {
  const Complex<T> a = x[0], b = x[step], c = x[2 * step], d = x[3 * step];
  const Complex<T> even = a + c, odd = a - c, sum = b + d, less = b - d, turned(-less.im, less.re);
  x[0] = even + sum, x[step] = odd - turned, x[2 * step] = even - sum, x[3 * step] = odd + turned;
}
template <class T>
RILL void dft_8(Complex<T>* x, int step) {
  dft_4(x, 2 * step), dft_4(x + step, 2 * step);
  const T half = T(0.70710678118654752440);
  const Complex<T> b = x[3 * step], c = x[5 * step], d = x[7 * step];
  const Complex<T> e[4] = {x[0], x[2 * step], x[4 * step], x[6 * step]},
                   o[4] = {x[step], {(b.re + b.im) * half, (b.im - b.re) * half}, {c.im, -c.re},
                           {(d.im - d.re) * half, (d.re + d.im) * -half}};
#pragma unroll
  for (int j = 0; j < 4; ++j) x[j * step] = e[j] + o[j], x[(j + 4) * step] = e[j] - o[j];
}
template <int bits, class T>
RILL void dft(Complex<T>* x, int step) {
  if constexpr (bits == 1) dft_2(x, step);
  if constexpr (bits == 2) dft_4(x, step);
  if constexpr (bits == 3) dft_8(x, step);
}

// --- Short lines ---
// How a block holds lines of 2^bits points: a thread has up to 8 points of one line, those at + j * threads, and passes
// them on in shared memory. Neighbouring threads have neighbours in memory, along the line or across.
template <class Part, int bits_, int lines_, bool across_>
struct Held {
  typedef Part T;
  static constexpr bool across = across_;
  static constexpr int bits = bits_, lines = lines_, m = 1 << bits, held = m < 8 ? m : 8, threads = m / held,
                       room = m + m / 8,           // of a line in shared memory
                       step = across ? lines : 1,  // there
                       reach = 128 / int(sizeof(Complex<T>)),
                       reached = across ? (lines < reach ? reach / lines : 1) : reach;  // points of a line at a time
};

// An eighth of the 2^bits roots, from which the others follow: compilers limit the steps of a constant expression.
template <int bits>
struct FirstRoots {
  Root<f64> at[(1 << bits) / 8 + 1];
  constexpr FirstRoots() : at() {
    for (int k = 0; k <= (1 << bits) / 8; ++k) at[k] = root_of_share(f64(8 * k) / (1 << bits));
  }
  constexpr Root<f64> operator()(i64 part, i64) const { return at[part / 8]; }
};
// The roots that a point is multiplied by after each pass but the last: for every j > 0, one for each butterfly.
constexpr int pass_roots_before(int bits, int done) {
  int count = 0;
  for (int d = 0; d < done; d += 3) count += 7 << (bits - 3 - d);
  return count;
}
template <class T, int bits>
struct PassRoots {
  Root<T> at[bits > 3 ? pass_roots_before(bits, bits - 3) : 1];
  constexpr PassRoots() : at() {
    const FirstRoots<bits> first;
    int to = 0;
    for (int done = 0; bits - done > 3; done += 3)
      for (int j = 1; j < 8; ++j)
        for (int k = 0; k < 1 << (bits - 3 - done); ++k) at[to++] = root<T>(j * k << done, 1 << bits, first);
  }
};
template <class T, int bits>
__device__ constexpr PassRoots<T, bits> pass_roots;

// The first 2^bits roots of twice as many.
template <class T, int bits>
struct HalfRoots {
  Root<T> at[1 << bits];
  constexpr HalfRoots() : at() {
    const FirstRoots<bits + 1> first;
    for (int k = 0; k < 1 << bits; ++k) at[k] = root<T>(k, 2 << bits, first);
  }
};
template <class T, int bits>
__device__ constexpr HalfRoots<T, bits> half_roots;

// Waits for the threads of a line.
template <class H>
RILL void sync_line() {
  if constexpr (H::across || H::threads > 32) __syncthreads();
  else __syncwarp();
}
// Where point `a` is in shared memory after the pass that follows others of the product 2^done. That pass writes runs of
// so many points, 8 times as far apart, which would be in the same banks.
template <class H, int done>
RILL int place(int a) {
  constexpr int s = 1 << done, unit = 8 * s > H::reached ? 8 * s : H::reached;
  return s < H::reached ? a + int(unsigned(a) / unit) * s : a;
}
template <class H, int done, class T>
RILL void exchange(Complex<T> (&x)[H::held], Complex<T>* line, int at) {
  constexpr int s = 1 << done;
  constexpr bool separable = s >= H::reached || (H::threads % (8 * s) == 0 && H::threads % H::reached == 0);
  const int q = at & (s - 1), to = place<H, done>(8 * (at - q) + q), from = place<H, done>(at);
#pragma unroll
  for (int j = 0; j < 8; ++j) line[(to + j * s) * H::step] = x[j];
  sync_line<H>();
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int more = j * H::threads;
    x[j] = line[(separable ? from + place<H, done>(more) : place<H, done>(at + more)) * H::step];
  }
}
// The passes that follow others of the product 2^done; `used`: whether the line's shared memory may still be read.
template <class H, int done, bool used, class T>
RILL void transform(Complex<T> (&x)[H::held], Complex<T>* line, int at) {
  constexpr int left = H::bits - done;
  if constexpr (left <= 3) {
    constexpr int dfts = H::held >> left;
#pragma unroll
    for (int i = 0; i < dfts; ++i) dft<left>(x + i, dfts);
  } else {
    dft_8(x, 1);
    const Root<T>* w = pass_roots<T, H::bits>.at + pass_roots_before(H::bits, done) + (at >> done);
#pragma unroll
    for (int j = 1; j < 8; ++j) x[j] = times(x[j], w[(j - 1) << (left - 3)]);
    if (used) sync_line<H>();
    exchange<H, done>(x, line, at);
    transform<H, done + 3, true>(x, line, at);
  }
}

// Two real numbers, neighbours along a line.
template <class T>
RILL Complex<T> read_pair(const Lines& s, const T* from) {
  if (s.pairs) return *RILL_AT((const Complex<T>*)from);
  return {*RILL_AT(from), *RILL_AT(from + s.inner)};
}
template <class T>
RILL void write_pair(const Lines& s, T* to, Complex<T> x) {
  if (s.pairs) {
    *RILL_AT((Complex<T>*)to) = x;
  } else {
    *RILL_AT(to) = x.re;
    *RILL_AT(to + s.inner) = x.im;
  }
}
// Where the elements of a block's line are; along the line, offsets are constants.
template <class H>
struct Ends {
  i64 inner, from, to;
  inline Ends(const Lines& s, i64 line) {
    inner = H::across ? s.inner : 1;
    from = H::across ? beginning(s, line, s.from_size) : line * s.from_size;
    to = H::across ? beginning(s, line, s.to_size) : line * s.to_size;
  }
};
// Point k, conjugated, of the line whose inverse transform has a real line's numbers in pairs: of the spectrum's
// elements k and m - k.
template <class T>
RILL Complex<T> join_spectrum(Complex<T> a, Complex<T> b, Root<T> w) {
  const Complex<T> v = times(Complex<T>(a.re - b.re, -(a.im + b.im)), w);
  return {a.re + b.re + v.im, b.im - a.im - v.re};
}
template <class H, int way, class T>
RILL void read_line(const Lines& s, const Ends<H>& e, int at, Complex<T> (&x)[H::held]) {
  const Complex<T>* from = (const Complex<T>*)s.from + e.from;
  const T* real = (const T*)s.from + e.from + 2 * at * e.inner;
  const T sign = s.inverse ? -1 : 1;
#pragma unroll
  for (int j = 0; j < H::held; ++j) {
    const i64 more = j * H::threads * e.inner;
    if constexpr (way == any_lines) x[j] = read_point<T>(s, e.from, at + j * H::threads);
    if constexpr (way == complex_lines) x[j] = *RILL_AT(from + at * e.inner + more), x[j].im *= sign;
    if constexpr (way == real_to_half) x[j] = read_pair(s, real + 2 * more);
    if constexpr (way == half_to_real) {
      Complex<T> a = *RILL_AT(from + at * e.inner + more), b = *RILL_AT(from + (H::m - at) * e.inner - more);
      if (j == 0 && at == 0) a.im = b.im = 0;
      x[j] = join_spectrum(a, b, half_roots<T, H::bits>.at[at + j * H::threads]);
    }
  }
}
template <class H, int way, class T>
RILL void write_line(const Lines& s, const Ends<H>& e, int at, const Complex<T> (&x)[H::held]) {
  Complex<T>* to = (Complex<T>*)s.to + e.to + at * e.inner;
  T* real = (T*)s.to + e.to + 2 * at * e.inner;
  const T factor = T(s.factor), turned = s.inverse ? -factor : factor;
#pragma unroll
  for (int j = 0; j < H::held; ++j) {
    const i64 more = j * H::threads * e.inner;
    const Complex<T> y(x[j].re * factor, x[j].im * turned);
    if constexpr (way == any_lines) {
      if (at + j * H::threads < s.to_size) write_point(s, e.to, at + j * H::threads, x[j]);
    }
    if constexpr (way == complex_lines) *RILL_AT(to + more) = y;
    if constexpr (way == half_to_real) write_pair(s, real + 2 * more, y);
  }
}
// From the transform z of a real line's numbers in pairs to their spectrum, of which elements k and m - k are
// computed from z's: by the thread that has k < m / 2, which needs the other's half.
template <class H, class T>
RILL void write_spectrum(const Lines& s, const Ends<H>& e, bool present, int at, const Complex<T> (&x)[H::held],
                         Complex<T>* line) {
  sync_line<H>();
#pragma unroll
  for (int j = 0; j < 4; ++j) line[(at + j * H::threads) * H::step] = x[j + 4];
  sync_line<H>();
  if (!present) return;
  Complex<T>*low = (Complex<T>*)s.to + e.to + at * e.inner, *high = (Complex<T>*)s.to + e.to + (H::m - at) * e.inner;
  const Complex<T>* other = line + (H::m / 2 - at) * H::step;
  const T factor = T(s.factor), half = T(0.5 * s.factor);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const Complex<T> a = x[j], b = j == 0 && at == 0 ? a : *(other - j * H::threads * H::step);
    // Halved before they are added: a sum may overflow.
    const Complex<T> c(a.re * half, a.im * half), d(b.re * half, b.im * half);
    const Complex<T> even(c.re + d.re, c.im - d.im), odd(c.im + d.im, d.re - c.re);
    const Complex<T> v = times(odd, half_roots<T, H::bits>.at[at + j * H::threads]);
    *RILL_AT(low + j * H::threads * e.inner) = even + v;
    *RILL_AT(high - j * H::threads * e.inner) = {even.re - v.re, v.im - even.im};
  }
  if (at == 0) *RILL_AT(low + H::m / 2 * e.inner) = {x[4].re * factor, x[4].im * -factor};
}

template <class H, int way>
RILL void short_lines(const Lines& s) {
  typedef typename H::T T;
  __shared__ Complex<T> buffer[H::lines * H::room];
  const int line = int(H::across ? threadIdx.x % H::lines : threadIdx.x / H::threads),
            at = int(H::across ? threadIdx.x / H::lines : threadIdx.x % H::threads);
  Complex<T>* mine = buffer + (H::across ? line : line * H::room);
  const i64 number = i64(blockIdx.x) * H::lines + line;
  const bool present = number < s.count;
  const Ends<H> e(s, number);
  Complex<T> x[H::held] = {};
  if (present) read_line<H, way>(s, e, at, x);
  transform<H, 0, false>(x, mine, at);
  if constexpr (way == real_to_half) return write_spectrum<H>(s, e, present, at, x, mine);
  if (way == any_lines && s.chirp) {
#pragma unroll
    for (int j = 0; j < H::held; ++j) x[j] = filtered(s, at + j * H::threads, x[j]);
    transform<H, 0, true>(x, mine, at);
  }
  if (present) write_line<H, way>(s, e, at, x);
}

// --- Long lines, which are dense in `work` ---
template <class T>
RILL void read_lines(const Lines& s) {
  const i64 m = i64(1) << s.bits;
  for (i64 q = first_thread(); q < s.count * m; q += all_threads()) {
    const i64 line = s.inner > 1 ? q % s.count : q >> s.bits, j = s.inner > 1 ? q / s.count : q & (m - 1);
    *RILL_AT((Complex<T>*)s.work + (line << s.bits) + j) = read_point<T>(s, beginning(s, s.first + line, s.from_size), j);
  }
}
template <class T>
RILL void write_lines(const Lines& s) {
  for (i64 q = first_thread(); q < s.count * s.to_size; q += all_threads()) {
    const i64 line = s.inner > 1 ? q % s.count : q / s.to_size, k = s.inner > 1 ? q / s.count : q - line * s.to_size;
    const Complex<T> y = *RILL_AT((const Complex<T>*)s.work + (line << s.bits) + k);
    write_point(s, beginning(s, s.first + line, s.to_size), k, y);
  }
}
template <class T>
RILL void filter_lines(const Lines& s) {
  for (i64 q = first_thread(); q < s.count << s.bits; q += all_threads()) {
    Complex<T>* x = RILL_AT((Complex<T>*)s.work + q);
    *x = filtered(s, q & ((i64(1) << s.bits) - 1), *x);
  }
}
// A pass of all lines, after passes whose radices' product is `done`.
template <class T, int radix_bits>
RILL void pass_lines(const Pass& s) {
  const int radix = 1 << radix_bits;
  const Complex<T>*from = RILL_AT((const Complex<T>*)s.from), *roots = RILL_AT((const Complex<T>*)s.roots);
  Complex<T>* to = (Complex<T>*)RILL_AT((const Complex<T>*)s.to);  // all blocks have its start, and write elsewhere
  const i64 apart = (i64(1) << s.bits) / radix;
  for (i64 n = first_thread(); n < s.butterflies; n += all_threads()) {
    const i64 i = n & (apart - 1), line = (n - i) * radix, q = i & (s.done - 1), k = i - q;
    Complex<T> x[radix];
#pragma unroll
    for (int j = 0; j < radix; ++j) x[j] = from[line + i + j * apart];
    dft<radix_bits>(x, 1);
    Complex<T>* y = to + line + radix * k + q;
    y[0] = x[0];
#pragma unroll
    for (int j = 1; j < radix; ++j) y[j * s.done] = times(x[j], roots[j * k]);
  }
}

}  // namespace rill::cuda
