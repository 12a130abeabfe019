// Sorting: stable, NaN last, zeros of either sign equal. Elements have unsigned integers of the same order (keys).
// Short lines are sorted in shared memory as pairs of key and index (Batcher's bitonic network), long ones by a radix
// sort with digits of 8 bits of the keys, lowest first, which is stable by itself. It moves the elements, whose keys are
// computed anew, because elements with equal keys may differ. topk of a few of many elements selects them from each
// 2048, and then from the selected ones, until one tile is left.
// Blocks have 256 threads. Four of them on a processor hide latencies better than more registers would.
#ifndef RILL_ON_HOST
#undef RILL_KERNEL
#define RILL_KERNEL(name, Params) extern "C" __global__ void __launch_bounds__(256, 4) name(const Params s)
#endif

namespace rill::cuda {

// --- Keys ---

template <class T, int floating>
struct IntegerKey {
  typedef typename Traits<T>::Unsigned U;
  RILL U of(T x, bool descending) {
    const U key = Traits<T>::is_signed ? U(U(x) ^ U(u64(1) << (8 * sizeof(T) - 1))) : U(x);
    return descending ? U(~key) : key;
  }
};
// Of the bits of floats, where `infinite` are those of infinity.
template <class U>
RILL U float_key(U bits, U infinite, bool descending) {
  const U sign = U(u64(1) << (8 * sizeof(U) - 1)), magnitude = U(bits & ~sign);
  if (magnitude > infinite) return U(~U(0));
  const U key = magnitude == 0 ? sign : bits & sign ? U(~bits) : U(bits | sign);
  return descending ? U(~key) : key;
}
template <class T>
struct IntegerKey<T, 1> {
  typedef typename Traits<T>::Unsigned U;
  RILL U of(T x, bool descending) { return float_key<U>(same_bits<U>(x), same_bits<U>(highest(x)), descending); }
};
template <class T>
struct Key {
  typedef typename Traits<T>::Unsigned U;
  RILL U of(T x, bool descending) { return IntegerKey<T, Traits<T>::floating>::of(x, descending); }
};
template <>
struct Key<f16> {
  RILL u16 of(f16 x, bool descending) { return float_key<u16>(x.bits, 0x7c00, descending); }
};
template <>
struct Key<bf16> {
  RILL u16 of(bf16 x, bool descending) { return float_key<u16>(x.bits, 0x7f80, descending); }
};

// --- Short lines ---

// A key and its index in one number, which orders them; 64 bits of a key leave no room.
template <int bytes>
struct Pairs {
  typedef u32 Pair;
  RILL Pair of(u32 key, u32 index) { return key << 16 | index; }
  RILL u32 index(Pair x) { return x & 0xffff; }
};
template <>
struct Pairs<4> {
  typedef u64 Pair;
  RILL Pair of(u32 key, u32 index) { return u64(key) << 32 | index; }
  RILL u32 index(Pair x) { return u32(x); }
};
template <>
struct Pairs<8> {
  struct Pair {
    u64 key;
    u32 index;
    inline bool operator>(const Pair& x) const { return key != x.key ? key > x.key : index > x.index; }
  };
  RILL Pair of(u64 key, u32 index) {
    Pair x;
    x.key = key, x.index = index;
    return x;
  }
  RILL u32 index(const Pair& x) { return x.index; }
};

// A block of 256 threads sorts tiles of 2048 pairs in shared memory, in groups of m, a power of two. Up to a distance of
// 32, a warp exchanges pairs of 64 neighbours, which no other warp accesses.
template <class Pair>
RILL void sort_groups(Pair* pairs, int m) {
  __syncthreads();
  for (int k = 2; k <= m; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      int at[4];
      Pair x[4], y[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int e = threadIdx.x + 256 * i;
        at[i] = 2 * e - (e & (j - 1));
        x[i] = pairs[at[i]], y[i] = pairs[at[i] + j];
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool up = (at[i] & (m - 1) & k) == 0;
        if ((x[i] > y[i]) == up) pairs[at[i]] = y[i], pairs[at[i] + j] = x[i];
      }
      if ((j > 1 ? j : k) > 32) __syncthreads();
      else __syncwarp();
    }
  __syncthreads();
}

// Of groups that are sorted: puts the first m pairs of all of the tile into the first group. The lesser ones of a group
// and another in reverse are the first m of both, and first rise, then fall: the last steps of the network sort them.
template <class Pair>
RILL void keep_first(Pair* pairs, int m) {
  for (int kept = 1024; kept >= m; kept /= 2) {
    for (int e = threadIdx.x; e < kept; e += 256) {
      const Pair x = pairs[e], y = pairs[kept + (e ^ (m - 1))];
      if (x > y) pairs[e] = y;
    }
    __syncthreads();
    for (int j = m / 2; j > 0; j /= 2) {
      for (int e = threadIdx.x; e < kept / 2; e += 256) {
        const int a = 2 * e - (e & (j - 1));
        const Pair x = pairs[a], y = pairs[a + j];
        if (x > y) pairs[a] = y, pairs[a + j] = x;
      }
      if (j > 32) __syncthreads();
      else __syncwarp();
    }
    __syncthreads();
  }
}

template <class T>
RILL T element_at(const Sorting& s, i64 offset) { return Stored<T>::load(s.from + offset * i64(sizeof(T))); }
template <class T>
RILL void store_element(const Sorting& s, i64 from, i64 to, u32 index) {
  if (s.values) store(s.values + to * i64(sizeof(T)), element_at<T>(s, from));
  if (s.indices) store(s.indices + to * 8, i64(index));
}

// The offset of the first element of a line of [outer, n, inner]; the others follow at distances of `inner`. I is u32 if
// there are fewer than 2^31 lines, since 32 bits divide much faster.
template <class I>
RILL i64 line_start(I line, i64 n, i64 inner) {
  return inner == 1 ? i64(line) * n : i64(line / I(inner)) * (n - 1) * inner + i64(line);
}

// A tile holds as many lines of [outer, n, inner] as fit, each padded to m elements. Place k of a thread in it, where
// neighbouring threads have neighbours in memory.
struct TilePlace {
  int line, i;
  bool is_here;
  inline TilePlace(const Sorting& s, int k, int log_m, i64 first_line) {
    const int e = threadIdx.x + 256 * k, log_lines = 11 - log_m;
    line = s.inner > 1 ? e & ((1 << log_lines) - 1) : e >> log_m;
    i = s.inner > 1 ? e >> log_lines : e & ((1 << log_m) - 1);
    is_here = first_line + line < s.lines && i < s.n;
  }
};

template <class T, class I>
RILL void sort_tiles(const Sorting& s) {
  typedef Pairs<sizeof(T)> P;
  __shared__ typename P::Pair pairs[2048];
  int log_m = 0;
  while (1 << log_m < s.n) ++log_m;
  const int lines = 2048 >> log_m;
  for (i64 first = i64(blockIdx.x) * lines; first < s.lines; first += i64(gridDim.x) * lines) {
    const auto start = [&](const TilePlace& p) { return line_start<I>(I(first + p.line), s.n, s.inner); };
#pragma unroll 1
    for (int k = 0; k < 8; k += 4) {  // loads of 4 elements at once
      T x[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const TilePlace p(s, k + j, log_m, first);
        x[j] = p.is_here ? element_at<T>(s, start(p) + p.i * s.inner) : T();
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const TilePlace p(s, k + j, log_m, first);
        pairs[(p.line << log_m) + p.i] = P::of(p.is_here ? Key<T>::of(x[j], s.descending) : ~u64(0), p.i);
      }
    }
    sort_groups(pairs, 1 << log_m);
#pragma unroll 2
    for (int k = 0; k < 8; ++k) {
      const TilePlace p(s, k, log_m, first);
      if (!p.is_here || p.i >= s.kept) continue;
      const u32 index = P::index(pairs[(p.line << log_m) + p.i]);
      store_element<T>(s, start(p) + index * s.inner,
                       line_start<I>(I(first + p.line), s.kept, s.inner) + p.i * s.inner, index);
    }
    __syncthreads();
  }
}

// For every 2048 candidates of a line, the indices of the first `kept` in order; ~0 if there are fewer. Candidates with
// equal keys stay in the order of their indices. Of a line with one piece, those are stored.
template <class T>
RILL void select_tiles(const Sorting& s) {
  typedef Pairs<sizeof(T)> P;
  __shared__ typename P::Pair pairs[2048];
  int m = 1;
  while (m < s.kept) m *= 2;
  for (i64 b = blockIdx.x; b < s.lines * s.pieces; b += gridDim.x) {
    const u32 line = u32(b) / u32(s.pieces);  // there is not the memory for 2^32 pieces
    const i64 first = (b - line * s.pieces) * 2048;
    const auto candidate = [&](i64 i) -> u32 {
      if (i >= s.candidates) return ~0u;
      return s.order ? *RILL_AT((const u32*)s.order + line * s.candidates + i) : u32(i);
    };
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int e = threadIdx.x + 256 * k;
      const u32 index = candidate(first + e);
      const T x = index != ~0u ? element_at<T>(s, line * s.n + index) : T();
      pairs[e] = P::of(index != ~0u ? Key<T>::of(x, s.descending) : ~u64(0), e);
    }
    sort_groups(pairs, m);
    keep_first(pairs, m);
    for (int e = threadIdx.x; e < s.kept; e += 256) {
      const u32 index = candidate(first + P::index(pairs[e]));
      if (s.pieces == 1) store_element<T>(s, line * s.n + index, line * s.kept + e, index);
      else *RILL_AT((u32*)s.order_to + b * s.kept + e) = index;
    }
    __syncthreads();
  }
}

// --- Long lines ---

// A block of 256 threads takes a piece of a line, a tile of `each` elements a thread at a time. Each thread also keeps the
// numbers of one digit. Warp w has the tile's part w, 32 neighbours at a step: their order is that of warps, steps, lanes.
template <class T>
struct Tile {
  enum { each = sizeof(T) == 8 ? 8 : 16 };
};
template <int each>
RILL u32 first_in_tile() { return threadIdx.x / 32 * (32 * each) + threadIdx.x % 32; }

struct Piece {
  u32 line, number;
  i64 first, end;
  inline Piece(const Sorting& s, u32 block) : line(block / u32(s.pieces)), number(block - line * u32(s.pieces)) {
    first = number * s.piece;
    end = first + s.piece < s.n ? first + s.piece : s.n;
  }
  inline u32 count(i64 begin, u32 most) const { return end - begin < most ? u32(end - begin) : most; }  // of a tile
};

template <class T>
RILL u32 digit_of(const Sorting& s, T x) { return u32(Key<T>::of(x, s.descending) >> s.shift) & 255; }

// Loads this thread's part of a tile of `count` numbers.
template <class T, int each>
RILL void load_tile(T (&x)[each], const char* from, u32 count) {
  const u32 first = first_in_tile<each>();
  from += first * sizeof(T);
#pragma unroll
  for (int j = 0; j < each; ++j) {
    x[j] = T();
    if (first + 32 * j < count) x[j] = Stored<T>::load(from + 32 * j * sizeof(T));
  }
}

// Adds the digits of a piece to `counts`.
template <class T>
RILL void count_piece(const Sorting& s, const Piece& here, u32* counts) {
  enum { each = Tile<T>::each };
  const char* line = s.from + here.line * s.n * i64(sizeof(T));
  for (i64 begin = here.first; begin < here.end; begin += 256 * each) {
    const u32 count = here.count(begin, 256 * each);
    T x[each];
    load_tile(x, line + begin * i64(sizeof(T)), count);
#pragma unroll
    for (int j = 0; j < each; ++j)
      if (first_in_tile<each>() + 32 * j < count) atomicAdd(&counts[digit_of(s, x[j])], 1u);
  }
}
template <class T>
RILL void count_digits(const Sorting& s) {
  __shared__ u32 counts[256];
  const int me = threadIdx.x;
  for (i64 b = blockIdx.x; b < s.lines * s.pieces; b += gridDim.x) {
    const Piece here(s, u32(b));
    counts[me] = 0;
    __syncthreads();
    count_piece<T>(s, here, counts);
    __syncthreads();
    *RILL_AT((u32*)s.counts + (here.line * i64(256) + me) * (s.pieces + 1) + here.number) = counts[me];
  }
}

// The sum of the numbers of the warp's lanes up to this one.
RILL u32 sum_of_lanes(u32 mine) {
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const u32 other = __shfl_up_sync(~0u, mine, by);
    if (threadIdx.x % 32 >= by) mine += other;
  }
  return mine;
}

// Replaces the counts of a digit in the pieces of a line by those of all pieces before; the last number becomes the
// digit's total. A warp computes 8 * 32 of them at once.
RILL void sum_counts(const Sorting& s) {
  const int lane = threadIdx.x % 32;
  for (i64 row = first_thread() / 32; row < s.lines * 256; row += all_threads() / 32) {
    u32* const counts = (u32*)s.counts + row * (s.pieces + 1);
    u32 before = 0;
    for (i64 first = lane; first - lane <= s.pieces; first += 256) {
      u32 x[8];
#pragma unroll
      for (int k = 0; k < 8; ++k) x[k] = first + 32 * k < s.pieces ? *RILL_AT((const u32*)counts + first + 32 * k) : 0;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const u32 sum = sum_of_lanes(x[k]);
        if (first + 32 * k <= s.pieces) *RILL_AT(counts + first + 32 * k) = before + sum - x[k];
        before += __shfl_sync(~0u, sum, 31);
      }
    }
  }
}

// The sum of the numbers of the block's threads before this one; `of_warps` has room for 8 numbers.
RILL u32 sum_before(u32 mine, u32* of_warps) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const u32 sum = sum_of_lanes(mine);
  if (lane == 31) of_warps[warp] = sum;
  __syncthreads();
  u32 before = sum - mine;
#pragma unroll
  for (int w = 0; w < 7; ++w)
    if (w < warp) before += of_warps[w];
  return before;
}

// Where in the line the piece's first element with this thread's digit goes. A piece that is a whole line is counted here.
template <class T>
RILL u32 first_of_digit(const Sorting& s, const Piece& here, u32* counts, u32* of_warps) {
  const int me = threadIdx.x;
  if (s.pieces == 1) {
    counts[me] = 0;
    __syncthreads();
    count_piece<T>(s, here, counts);
    __syncthreads();
    return sum_before(counts[me], of_warps);
  }
  const u32* sums = (const u32*)s.counts + (here.line * i64(256) + me) * (s.pieces + 1);
  return sum_before(*RILL_AT(sums + s.pieces), of_warps) + *RILL_AT(sums + here.number);
}

// The lanes of the warp that have the same digit.
RILL u32 lanes_with(u32 digit) {
#ifdef RILL_ON_HOST
  return __match_any_sync(~0u, digit);  // votes would take the simulation long
#else
  u32 same = ~0u;
#pragma unroll
  for (int bit = 0; bit < 8; ++bit) {
    u32 votes;
    asm volatile(
        "{ .reg .pred is_set; .reg .b32 masked; and.b32 masked, %1, %2; setp.ne.b32 is_set, masked, 0;"
        "vote.sync.ballot.b32 %0, is_set, 0xffffffff; @!is_set not.b32 %0, %0; }"
        : "=r"(votes)
        : "r"(digit), "r"(1 << bit));
    same &= votes;
  }
  return same;
#endif
}

// A tile in shared memory, where it is put in order of digits: they are written to memory from there, so that neighbours
// are written together.
template <class T, bool with_order>
struct SharedTile {
  enum { each = Tile<T>::each, size = 256 * each };
  T elements[size];
  u32 order[with_order ? size : 1], of_warp[8][256], to_line[256], of_warps[8];
};

// The numbers of a thread's part of a tile that begins with element `begin` of a line.
template <int each>
RILL void load_numbers(const Sorting& s, u32 line, i64 begin, u32 count, u32 (&number)[each]) {
  if (s.order) return load_tile(number, s.order + (line * s.n + begin) * 4, count);
#pragma unroll
  for (int j = 0; j < each; ++j) number[j] = u32(begin) + first_in_tile<each>() + 32 * j;
}

// Counts the digits of each warp, and replaces the counts by where the first element with the digit goes in the tile.
// Elements that are not there have the last digit: they go after all others. `next` is where the next element with this
// thread's digit goes in the line.
template <class T, bool with_order>
RILL void count_tile(const Sorting& s, SharedTile<T, with_order>& tile, const T (&x)[Tile<T>::each], u32 count, u32& next,
                     u32 (&digits)[Tile<T>::each / 4]) {
  const u32 me = threadIdx.x;
  u32* const mine = tile.of_warp[me / 32];
#pragma unroll
  for (int k = 0; k < 8; ++k) mine[32 * k + me % 32] = 0;
  __syncwarp();
#pragma unroll
  for (int j = 0; j < Tile<T>::each; ++j) {
    const u32 d = digit_of(s, x[j]) | (first_in_tile<Tile<T>::each>() + 32 * j < count ? 0 : 255);
    digits[j / 4] = j % 4 == 0 ? d : digits[j / 4] | d << j % 4 * 8;
    atomicAdd(&mine[d], 1u);
  }
  __syncthreads();
  u32 counts[8], all = 0;
#pragma unroll
  for (int w = 0; w < 8; ++w) counts[w] = tile.of_warp[w][me], all += counts[w];
  u32 at = sum_before(all, tile.of_warps);
  tile.to_line[me] = next - at;
  next += all;
#pragma unroll
  for (int w = 0; w < 8; ++w) tile.of_warp[w][me] = at, at += counts[w];
  __syncthreads();
}

// Puts the tile of a piece that begins with element `begin` into shared memory, in order.
template <class T, bool with_order>
RILL void order_tile(const Sorting& s, SharedTile<T, with_order>& tile, const Piece& here, i64 begin, u32& next) {
  enum { each = Tile<T>::each };
  const u32 lane = threadIdx.x % 32, count = here.count(begin, 256 * each);
  T x[each];
  load_tile(x, s.from + (here.line * s.n + begin) * i64(sizeof(T)), count);
  u32 digits[each / 4], number[with_order ? each : 1];
  count_tile<T, with_order>(s, tile, x, count, next, digits);
#pragma unroll
  for (int k = 0; k < each / 4; ++k) asm("" : "+r"(digits[k]));  // else the compiler has a register for each digit
  if (with_order) load_numbers(s, here.line, begin, count, number);
  u32* const mine = tile.of_warp[threadIdx.x / 32];
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const u32 d = digits[j / 4] >> j % 4 * 8 & 255, same = lanes_with(d);
    const u32 before = __popc(same & ((1u << lane) - 1)), to = mine[d];
    __syncwarp();
    if (before == 0) mine[d] = to + __popc(same);
    __syncwarp();
    tile.elements[to + before] = x[j];
    if (with_order) tile.order[to + before] = number[j];
  }
  __syncthreads();
}

// A pass over a digit: moves pieces, whose elements' numbers are in `order`, or are their indices if that is null.
template <class T, bool with_order>
RILL void move_by_digits(const Sorting& s) {
  enum { each = Tile<T>::each };
  __shared__ SharedTile<T, with_order> tile;
  const u32 me = threadIdx.x;
  for (i64 b = blockIdx.x; b < s.lines * s.pieces; b += gridDim.x) {
    const Piece here(s, u32(b));
    const i64 to = here.line * s.kept;
    u32 next = first_of_digit<T>(s, here, tile.of_warp[0], tile.of_warps);
    for (i64 begin = here.first; begin < here.end; begin += 256 * each) {
      const u32 count = here.count(begin, 256 * each);
      order_tile(s, tile, here, begin, next);
#pragma unroll 4
      for (int j = 0; j < each; ++j) {
        const u32 p = me + 256 * j;
        const T element = tile.elements[p];
        const u32 at = tile.to_line[digit_of(s, element)] + p;
        if (p >= count || at >= u32(s.kept)) continue;
        if (s.values) store(s.values + (to + at) * i64(sizeof(T)), element);
        if (with_order && s.order_to) *RILL_AT((u32*)s.order_to + to + at) = tile.order[p];
        if (with_order && s.indices) *RILL_AT((i64*)s.indices + to + at) = tile.order[p];
      }
    }
  }
}

}  // namespace rill::cuda
