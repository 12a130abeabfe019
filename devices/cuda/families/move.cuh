// Copies, and checks of numbers.
namespace rill::cuda {

struct U64x2 { u64 low, high; };

struct alignas(16) AlignedU64x2 { u64 low, high; };  // 16 bytes that one instruction moves

// Operand 0 to operand 1.
template <class T, class I>
RILL void copy_points(const Space& s) {
  const I count = I(s.rows * s.n);
  for (I q = I(first_thread()); q < count; q += I(all_threads())) {
    const Point<I> p(s, q);
    *RILL_AT((T*)(s.base[1] + p.of(s, 1))) = *RILL_AT((const T*)(s.base[0] + p.of(s, 0)));
  }
}

// The same if operand 0's neighbours are along the last outer axis and operand 1's along the rows: by tiles of 32 x
// 32 of the two axes, so that both are accessed in memory order. Blocks of 256 threads.
template <class T>
RILL void transpose_tiles(const Space& s) {
  __shared__ T tile[32][33];  // one more column, so that columns are in different banks
  const i64 last = s.axes - 1, height = s.outer[last], across = (s.n + 31) / 32, tiles = across * ((height + 31) / 32);
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  for (i64 t = blockIdx.x; t < s.rows / height * tiles; t += gridDim.x) {
    i64 plane = t / tiles, from = 0, to = 0;
    for (i64 a = last; a-- > 0; plane /= s.outer[a]) {
      from += plane % s.outer[a] * s.stride[0][a];
      to += plane % s.outer[a] * s.stride[1][a];
    }
    const i64 row = t % tiles / across * 32, column = t % tiles % across * 32;
    for (int k = y; k < 32; k += 8)
      if (row + x < height && column + k < s.n)
        tile[k][x] = *RILL_AT((const T*)(s.base[0] + from + (row + x) * s.stride[0][last] + (column + k) * s.point[0]));
    __syncthreads();
    for (int k = y; k < 32; k += 8)
      if (row + k < height && column + x < s.n)
        *RILL_AT((T*)(s.base[1] + to + (row + k) * s.stride[1][last] + (column + x) * s.point[1])) = tile[x][k];
    __syncthreads();
  }
}

// Operand 3: operand 1 where operand 0, a bool, is true, else operand 2.
template <class T, class I>
RILL void select_points(const Space& s) {
  const I count = I(s.rows * s.n);
  for (I q = I(first_thread()); q < count; q += I(all_threads())) {
    const Point<I> p(s, q);
    const int k = *RILL_AT((const u8*)(s.base[0] + p.of(s, 0))) != 0 ? 1 : 2;
    *RILL_AT((T*)(s.base[3] + p.of(s, 3))) = *RILL_AT((const T*)(s.base[k] + p.of(s, k)));
  }
}

RILL void put(u8* at, const Fill& s) { *at = u8(s.low); }
RILL void put(u16* at, const Fill& s) { *at = u16(s.low); }
RILL void put(u32* at, const Fill& s) { *at = u32(s.low); }
RILL void put(u64* at, const Fill& s) { *at = s.low; }
RILL void put(U64x2* at, const Fill& s) { at->low = s.low, at->high = s.high; }
template <class T>
RILL void fill(const Fill& s) {
  for (i64 q = first_thread(); q < s.count; q += all_threads()) put(RILL_AT((T*)s.to + q), s);
}

// Each element of the result finds the operand's element for its index, if there is one.
template <class T, class I>
RILL void pad_points(const Padded& s) {
  for (I q = I(first_thread()); q < I(s.fill.count); q += I(all_threads())) {
    I left = q;
    i64 from = 0;
    bool inside = true;
    for (int a = s.axes; a-- > 0;) {
      const PadAxis& axis = s.axis[a];
      const I above = left / I(axis.padded);
      i64 i = i64(left - above * I(axis.padded)) - axis.lo;
      left = above;
      if (axis.step > 1) {
        const i64 quotient = i / axis.step;
        inside = inside && quotient * axis.step == i;
        i = quotient;
      }
      inside = inside && i >= 0 && i < axis.size;
      from += i * axis.stride;
    }
    T* to = RILL_AT((T*)s.fill.to + q);
    if (inside) *to = *RILL_AT((const T*)(s.from + from));
    else put(to, s.fill);
  }
}

// Integers in i64, others in f64 and rounded once, as in devices/ref/iota.cpp.
template <class T>
RILL void count(const Count& s) {
  for (i64 q = first_thread(); q < s.count; q += all_threads()) {
    const i64 i = q / s.inner % s.size;
    T x;
    if constexpr (Traits<T>::floating) x = Convert<T>::of(s.real_start + s.real_step * f64(i));
    else x = T(u64(s.start) + u64(s.step) * u64(i));
    store(s.to + q * i64(sizeof(T)), x);
  }
}

template <class T>
RILL void check_range(const InRange& s) {
  for (i64 q = first_thread(); q < s.count; q += all_threads()) {
    const T x = *RILL_AT((const T*)s.values + q);
    if (x < T(0) || u64(x) >= u64(s.limit)) report(s.fault, s.code, i64(x), s.limit, q);
  }
}

}  // namespace rill::cuda
