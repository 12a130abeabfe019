// Discrete Fourier transforms, by Stockham's passes: DFT of 2^bits points by radix 4, and one of radix 2 if bits is
// odd. Lines that fit are transformed in a block's shared memory, read and written once; others by a launch for each
// pass. complex_number.h precedes this text.
namespace rill::cuda {

using scalar_math::Complex;

// --- Roots of unity: in f64, of angles up to pi / 4, rounded once ---
template <class T>
RILL Complex<T> root(i64 k, i64 period) {
  const i64 octant = 8 * k / period, beyond = 8 * k - octant * period;
  const f64 angle = 0.78539816339744830962 * (f64(octant % 2 ? period - beyond : beyond) / f64(period));
  const f64 c = ::cos(angle), s = ::sin(angle);
  const bool turned = (octant + 1) / 2 % 2 == 1;  // beyond pi / 4 from the real axis
  const f64 x = turned ? s : c, y = turned ? c : s;
  return {T(octant >= 2 && octant < 6 ? -x : x), T(octant < 4 ? -y : y)};
}
template <class T>
RILL void make_roots(const Roots& s) {
  for (i64 q = first_thread(); q < s.count; q += all_threads()) {
    const i64 k = s.squares ? q * q % s.period : q % s.period;
    *RILL_AT((Complex<T>*)s.to + q) = root<T>(k, s.period);
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

// --- Elements of lines: an inverse transform is the conjugate of that of conjugates ---
template <class T>
RILL Complex<T> read_point(const Lines& s, i64 line, i64 j) {
  if (j >= s.n) return {0};
  const i64 outer = line / s.inner, at = (outer * s.from_size) * s.inner + line - outer * s.inner;
  Complex<T> x;
  if (s.reads == complex_line) x = *RILL_AT((const Complex<T>*)s.from + at + j * s.inner);
  else if (s.reads == real_line) x = *RILL_AT((const T*)s.from + at + j * s.inner);
  else {
    const bool mirrored = 2 * j > s.n;
    x = *RILL_AT((const Complex<T>*)s.from + at + (mirrored ? s.n - j : j) * s.inner);
    if (j == 0 || 2 * j == s.n) x.im = 0;
    else if (mirrored) x = conj(x);
  }
  if (s.inverse) x = conj(x);
  return s.chirp ? x * *RILL_AT((const Complex<T>*)s.chirp + j) : x;
}
template <class T>
RILL void write_point(const Lines& s, i64 line, i64 k, Complex<T> y) {
  if (s.chirp) y = conj(y) * *RILL_AT((const Complex<T>*)s.chirp + k);
  if (s.inverse) y = conj(y);
  y = {y.re * T(s.factor), y.im * T(s.factor)};
  const i64 outer = line / s.inner, at = (outer * s.to_size + k) * s.inner + line - outer * s.inner;
  if (s.writes == real_line) *RILL_AT((T*)s.to + at) = y.re;
  else *RILL_AT((Complex<T>*)s.to + at) = y;
}
// Between the two transforms of a convolution.
template <class T>
RILL Complex<T> filtered(const Lines& s, i64 k, Complex<T> x) {
  return conj(x * *RILL_AT((const Complex<T>*)s.filter + k));
}

// --- Passes: butterfly i of a line x of m points, after passes whose radices' product is `done` ---
template <class T>
RILL void radix_2(const Complex<T>* x, Complex<T>* y, i64 i, i64 m, i64 done, const Complex<T>* roots) {
  const i64 q = i & (done - 1), k = i - q;
  const Complex<T> a = x[i], b = x[i + m / 2];
  y[2 * k + q] = a + b;
  y[2 * k + q + done] = (a - b) * roots[k];
}
template <class T>
RILL void radix_4(const Complex<T>* x, Complex<T>* y, i64 i, i64 m, i64 done, const Complex<T>* roots) {
  const i64 q = i & (done - 1), k = i - q, to = 4 * k + q;
  const Complex<T> a = x[i], b = x[i + m / 4], c = x[i + m / 2], d = x[i + m / 4 * 3];
  const Complex<T> even = a + c, odd = a - c, sum = b + d, less = b - d, turned(-less.im, less.re);
  y[to] = even + sum;
  y[to + done] = (odd - turned) * roots[k];
  y[to + 2 * done] = (even - sum) * roots[2 * k];
  y[to + 3 * done] = (odd + turned) * roots[3 * k];
}

// The transforms of `lines` lines of 2^bits points in buffers[at]; returns the index of the buffer that holds the
// result.
template <class T, int points>
RILL int transform(Complex<T> (&buffers)[2][points], int at, int lines, int bits, const Complex<T>* roots) {
  const int m = 1 << bits;
  for (int done = 1; done < m;) {
    const int radix_bits = done == 1 && bits % 2 == 1 ? 1 : 2, butterfly_bits = bits - radix_bits;
    for (int e = threadIdx.x; e < lines << butterfly_bits; e += blockDim.x) {
      const int line = (e >> butterfly_bits) << bits, i = e & ((1 << butterfly_bits) - 1);
      if (radix_bits == 1) radix_2(buffers[at] + line, buffers[1 - at] + line, i, m, done, roots);
      else radix_4(buffers[at] + line, buffers[1 - at] + line, i, m, done, roots);
    }
    __syncthreads();
    at = 1 - at;
    done <<= radix_bits;
  }
  return at;
}

// A block transforms per_block lines. Neighbouring threads access neighbours in memory, along the line or across.
template <class T>
RILL void short_lines(const Lines& s) {
  __shared__ Complex<T> buffers[2][16384 / sizeof(Complex<T>)];
  const Complex<T>* roots = RILL_AT((const Complex<T>*)s.roots);
  const i64 first = s.first + i64(blockIdx.x) * s.per_block, left = s.first + s.count - first;
  const int lines = left < s.per_block ? int(left) : s.per_block, m = 1 << s.bits;
  for (int e = threadIdx.x; e < lines * m; e += blockDim.x) {
    const int line = s.inner > 1 ? e % lines : e >> s.bits, j = s.inner > 1 ? e / lines : e & (m - 1);
    buffers[0][(line << s.bits) + j] = read_point<T>(s, first + line, j);
  }
  __syncthreads();
  int at = transform(buffers, 0, lines, s.bits, roots);
  if (s.chirp) {
    for (int e = threadIdx.x; e < lines * m; e += blockDim.x) buffers[at][e] = filtered(s, e & (m - 1), buffers[at][e]);
    __syncthreads();
    at = transform(buffers, at, lines, s.bits, roots);
  }
  const int size = int(s.to_size);
  for (int e = threadIdx.x; e < lines * size; e += blockDim.x) {
    const int line = s.inner > 1 ? e % lines : e / size, k = s.inner > 1 ? e / lines : e - line * size;
    write_point(s, first + line, k, buffers[at][(line << s.bits) + k]);
  }
}

// --- Long lines, which are dense in `work` ---
template <class T>
RILL void read_lines(const Lines& s) {
  const i64 m = i64(1) << s.bits;
  for (i64 q = first_thread(); q < s.count * m; q += all_threads()) {
    const i64 line = s.inner > 1 ? q % s.count : q >> s.bits, j = s.inner > 1 ? q / s.count : q & (m - 1);
    *RILL_AT((Complex<T>*)s.work + (line << s.bits) + j) = read_point<T>(s, s.first + line, j);
  }
}
template <class T>
RILL void write_lines(const Lines& s) {
  for (i64 q = first_thread(); q < s.count * s.to_size; q += all_threads()) {
    const i64 line = s.inner > 1 ? q % s.count : q / s.to_size, k = s.inner > 1 ? q / s.count : q - line * s.to_size;
    write_point(s, s.first + line, k, *RILL_AT((const Complex<T>*)s.work + (line << s.bits) + k));
  }
}
template <class T>
RILL void filter_lines(const Lines& s) {
  for (i64 q = first_thread(); q < s.count << s.bits; q += all_threads()) {
    Complex<T>* x = RILL_AT((Complex<T>*)s.work + q);
    *x = filtered(s, q & ((i64(1) << s.bits) - 1), *x);
  }
}
template <class T, int radix>
RILL void pass_lines(const Pass& s) {
  const Complex<T>*x = RILL_AT((const Complex<T>*)s.from), *roots = RILL_AT((const Complex<T>*)s.roots);
  Complex<T>* y = (Complex<T>*)RILL_AT((const Complex<T>*)s.to);  // all blocks have its start, and write elsewhere
  const i64 m = i64(1) << s.bits, butterflies_per_line = m / radix;
  for (i64 q = first_thread(); q < s.butterflies; q += all_threads()) {
    const i64 i = q & (butterflies_per_line - 1), line = (q - i) * radix;
    if (radix == 2) radix_2(x + line, y + line, i, m, s.done, roots);
    else radix_4(x + line, y + line, i, m, s.done, roots);
  }
}

}  // namespace rill::cuda
