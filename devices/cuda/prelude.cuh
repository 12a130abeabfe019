// The text that precedes kernels in a translation unit: a function for each code of the IR (devices/kernel/ir.h), with
// the meaning that interpret.cpp defines. NVRTC compiles it, where every function is the device's
// (--device-as-default-execution-space) and there are no headers but those that nvrtc.cpp provides; tests compile it
// for the host (tests/cuda/host_cuda.h). math_scalar.h precedes it.
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct f8_e4m3fn { u8 bits; };
struct f8_e5m2 { u8 bits; };

// A kernel with one parameter, `s`. It accesses memory only through RILL_AT(pointer): the simulated driver of
// the tests keeps device memory in an address space of its own (tests/cuda).
#ifndef RILL_KERNEL
#define RILL_KERNEL(name, Params) extern "C" __global__ void name(const Params s)
#define RILL_AT(pointer) (pointer)
#endif

struct Fault {
  static const int kept = 8;  // for each thread of the host
  int code;
  i64 value, limit, position;
};

struct Space {
  i64 n, rows, axes, outer[6], stride[24][6], point[24];
  char* base[24];
};
struct RowSpace : Space {
  i64 lanes, warps, pieces, piece, step;
  char *parts, *totals;
};

struct Runs {
  i64 runs, point[24];
  char* word[484];
};

#define RILL static inline

namespace rill {

template <class T, class U>
RILL T same_bits(U x) {
  static_assert(sizeof(T) == sizeof(U), "");
  T y;
  memcpy(&y, &x, sizeof(T));
  return y;
}
RILL f32 abs_of(f32 x) { return ::fabsf(x); }
RILL f64 abs_of(f64 x) { return ::fabs(x); }
template <class T> struct Traits;
#define RILL_INTEGER(T, U, s) template <> struct Traits<T> { typedef U Unsigned; enum { floating = 0, is_signed = s }; };
RILL_INTEGER(i8, u8, 1) RILL_INTEGER(i16, u16, 1) RILL_INTEGER(i32, u32, 1) RILL_INTEGER(i64, u64, 1)
RILL_INTEGER(u8, u8, 0) RILL_INTEGER(u16, u16, 0) RILL_INTEGER(u32, u32, 0) RILL_INTEGER(u64, u64, 0)
RILL_INTEGER(bool, u8, 0)
template <> struct Traits<f32> { typedef u32 Unsigned; enum { floating = 1, is_signed = 1 }; };
template <> struct Traits<f64> { typedef u64 Unsigned; enum { floating = 1, is_signed = 1 }; };
template <> struct Traits<f16> { enum { floating = 1, is_signed = 1 }; };
template <> struct Traits<bf16> { enum { floating = 1, is_signed = 1 }; };

// --- Halves: by their bits, so that the host computes the same ---
RILL f32 widen(bf16 x) { return same_bits<f32>(u32(x.bits) << 16); }
RILL f32 widen(f16 x) {
  const u32 sign = u32(x.bits & 0x8000) << 16, rest = x.bits & 0x7fff;
  if (rest >= 0x7c00) return same_bits<f32>(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  const f32 scaled = same_bits<f32>(rest << 13) * same_bits<f32>(u32(254 - 15) << 23);
  return same_bits<f32>(sign | same_bits<u32>(scaled));
}
RILL bf16 narrow(f32 x, bf16) {
  const u32 b = same_bits<u32>(x);
  bf16 y;
  y.bits = x != x ? u16(b >> 16 | 0x40) : u16((b + 0x7fff + (b >> 16 & 1)) >> 16);
  return y;
}
RILL f16 narrow(f32 x, f16) {
  const u32 b = same_bits<u32>(x), sign = b >> 16 & 0x8000, magnitude = b & 0x7fffffff;
  f16 y;
  if (magnitude > 0x7f800000) y.bits = u16(sign | 0x7e00);
  else if (magnitude >= 0x477ff000) y.bits = u16(sign | 0x7c00);  // 65520 and above
  else if (magnitude < 0x38800000) {                         // below the least normal half: adding 1/2 rounds it
    const f32 rounded = same_bits<f32>(magnitude) + 0.5f;
    y.bits = u16(sign | (same_bits<u32>(rounded) - 0x3f000000));
  } else {
    y.bits = u16(sign | ((magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13));
  }
  return y;
}

// --- 8-bit floats: as tensor/dtype.cpp has them ---
RILL f32 widen(f8_e4m3fn x) {
  const u32 sign = u32(x.bits & 0x80) << 24, rest = x.bits & 0x7f;
  if (rest == 0x7f) return same_bits<f32>(sign | 0x7fc00000);
  if (rest >= 8) return same_bits<f32>(sign | ((rest << 20) + (u32(127 - 7) << 23)));
  return same_bits<f32>(sign | same_bits<u32>(f32(rest) * (1.0f / 512)));
}
RILL f32 widen(f8_e5m2 x) {
  f16 h;
  h.bits = u16(x.bits << 8);
  return widen(h);
}
RILL u32 round_magnitude(u32 u, int fraction, int bias) {
  const int dropped = 23 - fraction;
  const u32 step = u32(127 - bias + 1 + dropped) << 23;
  if (u < u32(127 - bias + 1) << 23) return same_bits<u32>(same_bits<f32>(u) + same_bits<f32>(step)) - step;
  return (u - (u32(127 - bias) << 23) + (1u << (dropped - 1)) - 1 + (u >> dropped & 1)) >> dropped;
}
RILL u8 to_float8(f32 x, int fraction, int bias, u32 last, u32 beyond, u32 nan) {
  const u32 u = same_bits<u32>(x), magnitude = u & 0x7fffffff;
  const u32 rounded = magnitude > 0x7f800000 ? nan : round_magnitude(magnitude, fraction, bias);
  return u8((u >> 24 & 0x80) | (magnitude > 0x7f800000 || rounded <= last ? rounded : beyond));
}
RILL f8_e4m3fn narrow(f32 x, f8_e4m3fn) {
  f8_e4m3fn y;
  y.bits = to_float8(x, 3, 7, 0x7e, 0x7f, 0x7f);
  return y;
}
RILL f8_e5m2 narrow(f32 x, f8_e5m2) {
  f8_e5m2 y;
  y.bits = to_float8(x, 2, 15, 0x7b, 0x7c, 0x7e);
  return y;
}

// --- Conversions: convert_number() of devices/kernel/convert.h ---
RILL f32 halfway(f64 x) {
  const f32 f = f32(x);
  u32 u = same_bits<u32>(f);
  const bool inexact = f64(f) < x || f64(f) > x;
  if (inexact && (u & 1) == 0) u = abs_of(f64(f)) < abs_of(x) ? u + 1 : u - 1;
  return same_bits<f32>(u);
}
template <class I>
RILL f64 halfway_double(I x) {
  if (sizeof(I) == 8) {
    const u64 exact = u64(1) << 53, low = 0x7ff;
    const bool beyond = Traits<I>::is_signed ? u64(x) + exact >= 2 * exact : u64(x) >= exact;
    if (beyond && (u64(x) & low) != 0) return f64(I((u64(x) & ~low) | (low + 1)));
  }
  return f64(x);
}
template <class From>
RILL f32 for_half(From x) { return sizeof(From) >= 4 ? halfway(halfway_double(x)) : f32(x); }
RILL f32 for_half(f64 x) { return halfway(x); }
RILL f32 for_half(f32 x) { return x; }

template <class To, int floating = Traits<To>::floating>
struct Converted {  // a float to an integer
  template <class From>
  RILL To from_float(From x) {
    if (!(x > From(-9.2233720368547758e18))) return To(i64(u64(1) << 63));
    if (x >= From(9.2233720368547758e18)) {
      if (sizeof(To) == 8 && !Traits<To>::is_signed) return x >= From(1.8446744073709552e19) ? To(~u64(0)) : To(u64(x));
      return To(i64(~u64(0) >> 1));
    }
    return To(i64(x));
  }
  RILL To of(f32 x) { return from_float(x); }
  RILL To of(f64 x) { return from_float(x); }
  RILL To of(f16 x) { return from_float(widen(x)); }
  RILL To of(bf16 x) { return from_float(widen(x)); }
  RILL To of(f8_e4m3fn x) { return from_float(widen(x)); }
  RILL To of(f8_e5m2 x) { return from_float(widen(x)); }
  template <class From>
  RILL To of(From x) { return To(x); }
};
template <class To>
struct Converted<To, 1> {
  RILL To of(f16 x) { return To(widen(x)); }
  RILL To of(bf16 x) { return To(widen(x)); }
  RILL To of(f8_e4m3fn x) { return To(widen(x)); }
  RILL To of(f8_e5m2 x) { return To(widen(x)); }
  template <class From>
  RILL To of(From x) { return To(x); }
};
template <>
struct Converted<bool, 0> {
  RILL bool of(f16 x) { return widen(x) != 0; }
  RILL bool of(bf16 x) { return widen(x) != 0; }
  RILL bool of(f8_e4m3fn x) { return widen(x) != 0; }
  RILL bool of(f8_e5m2 x) { return widen(x) != 0; }
  template <class From>
  RILL bool of(From x) { return x != From(0); }
};
template <class To>
struct Convert {
  template <class From>
  RILL To of(From x) { return Converted<To>::of(x); }
};
template <class Small>
struct ConvertSmall {  // to a float that is computed as f32
  RILL Small of(f16 x) { return narrow(widen(x), Small()); }
  RILL Small of(bf16 x) { return narrow(widen(x), Small()); }
  RILL Small of(f8_e4m3fn x) { return narrow(widen(x), Small()); }
  RILL Small of(f8_e5m2 x) { return narrow(widen(x), Small()); }
  template <class From>
  RILL Small of(From x) { return narrow(for_half(x), Small()); }
};
template <> struct Convert<f16> : ConvertSmall<f16> {};
template <> struct Convert<bf16> : ConvertSmall<bf16> {};
template <> struct Convert<f8_e4m3fn> : ConvertSmall<f8_e4m3fn> {};
template <> struct Convert<f8_e5m2> : ConvertSmall<f8_e5m2> {};

// --- Arithmetic: of integers unsigned, which wraps around ---
#define RILL_WRAPS(name, sign)                                                                           \
  template <class T> RILL T name(T a, T b) { return T(u64(a) sign u64(b)); }                             \
  RILL f32 name(f32 a, f32 b) { return a sign b; }                                                       \
  RILL f64 name(f64 a, f64 b) { return a sign b; }
RILL_WRAPS(add, +) RILL_WRAPS(sub, -) RILL_WRAPS(mul, *)
template <class T> RILL T div(T a, T b) { return a / b; }
#define RILL_BITS(name, sign)                                                                            \
  template <class T> RILL T name(T a, T b) {                                                             \
    typedef typename Traits<T>::Unsigned U;                                                              \
    return same_bits<T>(U(same_bits<U>(a) sign same_bits<U>(b)));                                        \
  }
RILL_BITS(bit_and, &) RILL_BITS(bit_or, |) RILL_BITS(bit_xor, ^)
template <class T> RILL bool eq(T a, T b) { return a == b; }
template <class T> RILL bool ne(T a, T b) { return a != b; }
template <class T> RILL bool lt(T a, T b) { return a < b; }
template <class T> RILL bool le(T a, T b) { return a <= b; }
template <class T> RILL bool gt(T a, T b) { return a > b; }
template <class T> RILL bool ge(T a, T b) { return a >= b; }
template <class T> RILL T min(T a, T b) { return a != a || a < b ? a : b; }
template <class T> RILL T max(T a, T b) { return a != a || a > b ? a : b; }
#define RILL_FLOATS(name, f, d)          \
  RILL f32 name(f32 a) { return ::f(a); } \
  RILL f64 name(f64 a) { return ::d(a); }
RILL_FLOATS(sqrt, sqrtf, sqrt) RILL_FLOATS(floor, floorf, floor) RILL_FLOATS(ceil, ceilf, ceil)
RILL_FLOATS(trunc, truncf, trunc) RILL_FLOATS(round_even, rintf, rint)
RILL f32 fma(f32 a, f32 b, f32 c) { return ::fmaf(a, b, c); }
RILL f64 fma(f64 a, f64 b, f64 c) { return ::fma(a, b, c); }
RILL f32 copysign(f32 a, f32 b) { return ::copysignf(a, b); }
RILL f64 copysign(f64 a, f64 b) { return ::copysign(a, b); }
RILL f32 scale(f32 a, f32 b) { return abs_of(b) < 1048576.f ? ::scalbnf(a, int(b)) : a * b; }
RILL f64 scale(f64 a, f64 b) { return abs_of(b) < 1048576.0 ? ::scalbn(a, int(b)) : a * b; }
RILL u32 mul_high(u32 a, u32 b) { return u32(u64(a) * u64(b) >> 32); }
template <class T>
RILL T quotient(T a, T b) {
  if (b == T(0)) return T(0);
  return Traits<T>::is_signed && b == T(-1) ? T(0 - u64(a)) : T(a / b);
}
template <class T>
RILL T shift_left(T a, T b) { return u64(b) < 8 * sizeof(T) ? T(u64(a) << u64(b)) : T(0); }
template <class T>
RILL T shift_right(T a, T b) { return u64(b) < 8 * sizeof(T) ? T(a >> int(b)) : T(a < T(0) ? -1 : 0); }
template <class T>
RILL T lowest(T) { return Traits<T>::is_signed ? T(u64(1) << (8 * sizeof(T) - 1)) : T(0); }
template <class T>
RILL T highest(T) { return Traits<T>::is_signed ? T((u64(1) << (8 * sizeof(T) - 1)) - 1) : T(~u64(0)); }
RILL f32 highest(f32) { return same_bits<f32>(0x7f800000); }
RILL f64 highest(f64) { return same_bits<f64>(u64(0x7ff0) << 48); }
RILL f32 lowest(f32 x) { return -highest(x); }
RILL f64 lowest(f64 x) { return -highest(x); }
template <class T> RILL T neg(T a) { return T(0 - u64(a)); }
RILL f32 neg(f32 a) { return -a; }
RILL f64 neg(f64 a) { return -a; }
template <class T> RILL T bit_not(T a) { return T(~a); }
RILL bool bit_not(bool a) { return !a; }
template <class T> RILL T abs(T a) { return a < T(0) ? T(0 - u64(a)) : a; }
RILL f32 abs(f32 a) { return abs_of(a); }
RILL f64 abs(f64 a) { return abs_of(a); }
template <class T> RILL T shl(T a, int by) { return T(typename Traits<T>::Unsigned(a) << by); }
template <class T> RILL T shr(T a, int by) { return T(a >> by); }
template <class T> RILL T select(bool c, T a, T b) { return c ? a : b; }
template <class T>
RILL T clamp(T a, T b, T c) {
  const T y = c < a ? c : a;
  return b > y ? b : y;
}

// --- Reductions over a row by a warp: the tree of ir.h, a lane of the tree for each lane of the warp ---
template <class T>
RILL T from_lane(T x, int lane) {
  if constexpr (sizeof(T) == 8) return same_bits<T>(__shfl_sync(~0u, same_bits<u64>(x), lane));
  else if constexpr (Traits<T>::floating) return same_bits<T>(__shfl_sync(~0u, same_bits<u32>(x), lane));
  else return T(__shfl_sync(~0u, u32(x), lane));
}
template <class T>
struct Sum {
  RILL T identity() { return T(0); }
  RILL T of(T a, T b) { return add(a, b); }
  RILL T last(T x) { return add(x, T(0)); }
};
template <class T>
struct Prod {
  RILL T identity() { return T(1); }
  RILL T of(T a, T b) { return mul(a, b); }
  RILL T last(T x) { return x; }
};
template <class T>
struct Max {
  RILL T identity() { return lowest(T()); }
  RILL T of(T a, T b) { return a != a ? a : a == b ? bit_and(a, b) : a > b ? a : b; }
  RILL T last(T x) { return x; }
};
template <class T>
struct Min {
  RILL T identity() { return highest(T()); }
  RILL T of(T a, T b) { return a != a ? a : a == b ? bit_or(a, b) : a < b ? a : b; }
  RILL T last(T x) { return x; }
};

// Pairwise accumulation: one lane's partial results of the row's blocks of 1024 points, of which the lane folds 32 in
// order. push() joins blocks in pairs, pairs of pairs and so on, as a binary counter carries. The stack is in local
// memory, which is accessed once in 32 points: in registers it would leave too few for the rest of the kernel. A
// block's fold starts with the identity, which changes no result except the sign of a zero; `last` makes that one
// positive.
template <class T, class F>
class PairwiseFold {
 public:
  inline void push(T x) {
    ++count_;
#pragma unroll 1
    for (u32 done = count_; done % 2 == 0; done /= 2) x = F::of(partials_[--depth_], x);
    partials_[depth_++] = x;
  }
  // The fold of all blocks; those without a partner are joined from the right.
  inline T result() {
    if (depth_ == 0) return F::identity();
    T x = partials_[--depth_];
#pragma unroll 1
    while (depth_ > 0) x = F::of(partials_[--depth_], x);
    return x;
  }

 private:
  T partials_[24];
  u32 count_ = 0;
  int depth_ = 0;
};

// --- How rows are divided among threads: see RowSpace in kernel_text.h ---

RILL i64 first_thread() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
RILL i64 all_threads() { return (i64)gridDim.x * blockDim.x; }
// The run that this block's points belong to, by binary search; `words` words describe a run.
RILL int run_of_block(const Runs& s, int words) {
  int low = 0, high = int(s.runs);
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (i64(s.word[middle * words]) <= i64(blockIdx.x)) low = middle;
    else high = middle;
  }
  return low;
}

// A thread's loop over tiles, which are rows or pieces of rows: it starts at `first` and advances by `stride`.
struct RowLoop {
  int lane, warp;
  i64 first, stride, tiles;
  inline RowLoop(const RowSpace& s) {
    const u32 lanes = u32(s.lanes);
    const bool block = s.warps > 1;
    lane = int(threadIdx.x % lanes);
    warp = block ? int(threadIdx.x / 32) : 0;
    first = block ? i64(blockIdx.x) : first_thread() / lanes;
    stride = block ? i64(gridDim.x) : all_threads() / lanes;
    tiles = s.step >= 0 && s.step % 2 == 0 ? s.rows * s.pieces : s.rows;
    if (lanes < 32) tiles = (tiles + (32 / lanes - 1)) & -i64(32 / lanes);  // the same for all lanes of a warp
  }
};
// One tile: the row, and the points [begin, end) of it that this warp computes. If it is not `in_range`, it has no
// points and nothing is stored.
struct RowTile {
  i64 row, piece, begin, end;
  int warps;  // of the block that have points
  bool in_range;
  inline RowTile(const RowSpace& s, const RowLoop& me, i64 tile) {
    const bool cut = s.step >= 0 && s.step % 2 == 0;
    row = cut ? i64(u32(tile) / u32(s.pieces)) : tile;
    piece = cut ? tile - row * s.pieces : 0;
    in_range = row < s.rows;
    if (!in_range) row = s.rows - 1;
    const i64 chunk = s.warps > 1 ? s.piece / 8 : s.piece, start = piece * s.piece;
    const i64 stop = start + s.piece < s.n ? start + s.piece : s.n;
    begin = start + me.warp * chunk;
    end = begin + chunk < stop ? begin + chunk : stop;
    if (!in_range) end = begin;
    warps = 1;
    while (warps < 8 && start + warps * chunk < stop) ++warps;
  }
};

// Folds the values of the first `warps` warps of a block in pairs, lane by lane; every warp computes the result.
template <class T, class F>
RILL T join_warps(T x, u64 (*shared)[32], int warps) {
  static_assert(sizeof(T) <= 8, "");
  const int lane = threadIdx.x % 32;
  *(T*)&shared[threadIdx.x / 32][lane] = x;
  __syncthreads();
  T y[8];
#pragma unroll
  for (int w = 0; w < 8; ++w)
    if (w < warps) y[w] = *(const T*)&shared[w][lane];
#pragma unroll
  for (int step = 1; step < 8; step *= 2)
#pragma unroll
    for (int w = 0; w + step < 8; w += 2 * step)
      if (w + step < warps) y[w] = F::of(y[w], y[w + step]);
  __syncthreads();
  return y[0];
}
// The row's result, from the partial ones of its lanes.
template <class T, class F>
RILL T join_lanes(T x, const RowSpace& s) {
  const int lane = threadIdx.x % 32;
  if (s.lanes == 32) {
#pragma unroll
    for (int half = 16; half > 0; half /= 2) x = F::of(x, from_lane(x, lane + half));
    return F::last(from_lane(x, 0));
  }
  for (int half = int(s.lanes) / 2; half > 0; half /= 2) x = F::of(x, from_lane(x, lane + half));
  return F::last(from_lane(x, lane & -int(s.lanes)));
}
// The address at which fold number `fold` of a kernel stores a lane's partial result of a piece, and the row's result.
template <class T>
RILL T* part(const RowSpace& s, int fold, i64 row, i64 piece) {
  return (T*)(s.parts + (((fold * s.rows + row) * s.pieces + piece) * 32 + threadIdx.x % 32) * 8);
}
template <class T>
RILL T* total(const RowSpace& s, int fold, i64 row) { return (T*)(s.totals + (fold * s.rows + row) * 8); }
template <class T>
RILL void keep_part(const RowSpace& s, int fold, const RowTile& t, T x) {
  if (threadIdx.x < 32) *RILL_AT(part<T>(s, fold, t.row, t.piece)) = x;
}
// The row's result, from those of its pieces: by a block, which stores it as well.
template <class T, class F>
RILL T join_parts(const RowSpace& s, int fold, i64 row, u64 (*shared)[32]) {
  i64 chunk = 1;
  while (8 * chunk < s.pieces) chunk *= 2;
  const i64 begin = threadIdx.x / 32 * chunk;
  PairwiseFold<T, F> blocks;
  for (i64 p = begin; p < s.pieces && p < begin + chunk; ++p) blocks.push(*RILL_AT(part<T>(s, fold, row, p)));
  const T x = join_lanes<T, F>(join_warps<T, F>(blocks.result(), shared, int((s.pieces + chunk - 1) / chunk)), s);
  if (threadIdx.x == 0) *RILL_AT(total<T>(s, fold, row)) = x;
  return x;
}

// --- Rare arguments (Patch): the functions of math_scalar.h, or OnGpu's specialisation of one ---
template <class F>
struct OnGpu : F {};
template <class F, class T>
RILL T patch(bool c, T y, T x) { return c ? OnGpu<F>::call(x) : y; }

// --- Random words: those of random_bits (devices/philox.h), by their number ---
template <int count>
struct Words { u32 v[count]; };
RILL Words<4> random_block(const char* key, u64 i) {
  const u64 seed = *RILL_AT((const u64*)key), draw = *RILL_AT((const u64*)key + 1);
  u32 a = u32(i), b = u32(i >> 32), c = u32(draw), d = u32(draw >> 32), k0 = u32(seed), k1 = u32(seed >> 32);
#pragma unroll
  for (int r = 0; r < 10; ++r, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
    const u64 p0 = u64(0xD2511F53) * a, p1 = u64(0xCD9E8D57) * c;
    a = u32(p1 >> 32) ^ b ^ k0, b = u32(p1), c = u32(p0 >> 32) ^ d ^ k1, d = u32(p0);
  }
  return {{a, b, c, d}};
}
RILL u32 random_word(const char* key, i64 i) {
  const Words<4> x = random_block(key, u64(i) / 4);
  const u32 low = i % 2 ? x.v[1] : x.v[0], high = i % 2 ? x.v[3] : x.v[2];
  return i % 4 < 2 ? low : high;
}
// `count` neighbouring words, from number `first` on: a multiple of `count`, or of 4 if count is larger.
template <int count>
RILL Words<count> random_words(const char* key, i64 first) {
  Words<count> x;
  if (count == 2) {
    const Words<4> y = random_block(key, u64(first) / 4);
    x.v[0] = first % 4 ? y.v[2] : y.v[0], x.v[count - 1] = first % 4 ? y.v[3] : y.v[1];
  }
#pragma unroll
  for (int b = 0; b < count / 4; ++b) {
    const Words<4> y = random_block(key, u64(first) / 4 + b);
#pragma unroll
    for (int j = 0; j < 4; ++j) x.v[4 * b + j] = y.v[j];
  }
  return x;
}
// Whether operand k, a counter, is such a multiple at the start of every pack.
template <int count>
RILL bool counts_blocks(const Space& s, int k) {
  const i64 block = count < 4 ? count : 4;
  bool all = s.point[k] == 1 && i64(s.base[k]) % block == 0;
  for (int a = 0; a < int(s.axes); ++a) all = all && s.stride[k][a] % block == 0;
  return all;
}

// --- Memory ---
template <class T>
struct Stored {
  RILL T load(const char* at) { return *RILL_AT((const T*)at); }
};
template <>
struct Stored<bool> {
  RILL bool load(const char* at) { return *RILL_AT((const u8*)at) != 0; }
};
template <class T> RILL void store(char* at, T x) { *RILL_AT((T*)at) = x; }
RILL void store(char* at, bool x) { *RILL_AT((u8*)at) = x; }

// Neighbouring elements that one instruction moves.
template <class T> struct Raw { typedef T Of; };
template <> struct Raw<bool> { typedef u8 Of; };
template <class T, int count>
struct alignas(count * sizeof(T)) Pack {
  typename Raw<T>::Of v[count];
};
// Whether operand k can be moved in packs: its rows are dense and aligned to them.
template <class T, int count>
RILL bool is_packed(const Space& s, int k) {
  const i64 bytes = count * sizeof(T);
  bool all = s.point[k] == i64(sizeof(T)) && i64(s.base[k]) % bytes == 0;
  for (int a = 0; a < int(s.axes); ++a) all = all && s.stride[k][a] % bytes == 0;
  return all;
}
// The pack that starts at `from`; an operand that is broadcast along the row has its one element in all of it.
template <class T, int count>
RILL Pack<T, count> load_pack(const char* from, bool moves) {
  if (moves) return *RILL_AT((const Pack<T, count>*)from);
  Pack<T, count> x;
#pragma unroll
  for (int j = 0; j < count; ++j) x.v[j] = *RILL_AT((const typename Raw<T>::Of*)from);
  return x;
}
template <class T, int count>
RILL void store_pack(char* to, Pack<T, count> x) { *RILL_AT((Pack<T, count>*)to) = x; }
template <class T, class E> RILL T element(E x) { return x; }
template <> inline bool element<bool, u8>(u8 x) { return x != 0; }

// --- Kernels written by hand ---
// Point `q` of a Space, in row-major order, and its offset in operand k. I is u32 if there are fewer than 2^31 points,
// since 32 bits divide much faster.
template <class I>
struct Point {
  I along, index[6];
  inline Point(const Space& s, I q) {
    I left = q / I(s.n);
    along = q - left * I(s.n);
#pragma unroll
    for (int a = 5; a >= 0; --a) {  // unrolled, so that the indices stay in registers
      if (a >= s.axes) continue;
      index[a] = a == 0 ? left : left % I(s.outer[a]);
      left /= I(s.outer[a]);
    }
  }
  inline i64 of(const Space& s, int k) const {
    i64 at = i64(along) * s.point[k];
#pragma unroll
    for (int a = 0; a < 6; ++a)
      if (a < s.axes) at += i64(index[a]) * s.stride[k][a];
    return at;
  }
};
// Reports an element that breaks a rule (Gpu::fault_code): the host throws when it next waits. The first of each code
// are kept, at most Fault::kept.
RILL void report(void* fault, int code, i64 value, i64 limit, i64 position = 0) {
  Fault* at = (Fault*)fault;
  for (int k = 0; k < Fault::kept; ++k, ++at) {
    const int there = atomicCAS(&at->code, 0, code);
    if (there == code) return;
    if (there != 0) continue;
    at->value = value;
    at->limit = limit;
    at->position = position;
    return;
  }
}

}  // namespace rill
