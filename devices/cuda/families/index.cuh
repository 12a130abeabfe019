// Gather, scatter and search.
//
// scatter applies the updates of an element in their order, as on the CPU, so that sums have the CPU's bits in each
// run. Atomic additions of floats would not, and a thread for each element that searches all updates would be too slow.
// So 64-bit words, each made of a target and the number of an update, are sorted, and the thread that has the first
// word of a target applies all updates there. Sums of integers of 32 and 64 bits do not depend on the order: they are
// atomic.
namespace rill::cuda {

RILL i64 index_value(const char* at, int kind) {
  switch (kind) {
    case -1: return *RILL_AT((const i8*)at);
    case -2: return *RILL_AT((const i16*)at);
    case -4: return *RILL_AT((const i32*)at);
    case -8: return *RILL_AT((const i64*)at);
    case 1: return *RILL_AT((const u8*)at);
    case 2: return *RILL_AT((const u16*)at);
    case 4: return *RILL_AT((const u32*)at);
  }
  const u64 x = *RILL_AT((const u64*)at), most = ~u64(0) >> 1;
  return i64(x < most ? x : most);
}

// Adds the offsets of a point's indices to `at`; false if an index is out of range.
template <class I>
RILL bool add_indices(const IndexedElements& g, const Point<I>& p, i64& at) {
  for (int j = 0; j < g.count; ++j) {
    const i64 i = index_value(g.space.base[2 + j] + p.of(g.space, 2 + j), g.kind[j]), n = g.size[j];
    if (i < -n || i >= n) {
      if (!g.skips) report(g.fault, g.code[j], i, n);
      return false;
    }
    at += (i < 0 ? i + n : i) * g.stride[j];
  }
  return true;
}

struct alignas(16) AlignedU64x2 { u64 low, high; };  // 16 bytes that one instruction moves
struct U64x2 { u64 low, high; };

template <class T, class I>
RILL void gather_points(const IndexedElements& g) {
  const I count = I(g.space.rows * g.space.n);
  for (I q = I(first_thread()); q < count; q += I(all_threads())) {
    const Point<I> p(g.space, q);
    i64 from = p.of(g.space, 0);
    T x{};
    if (add_indices(g, p, from)) x = *RILL_AT((const T*)(g.space.base[0] + from));
    *RILL_AT((T*)(g.space.base[1] + p.of(g.space, 1))) = x;
  }
}

// Operand 1: the word of each update. Strides count targets.
template <class I>
RILL void find_targets(const IndexedElements& g) {
  const I count = I(g.space.rows * g.space.n);
  for (I q = I(first_thread()); q < count; q += I(all_threads())) {
    const Point<I> p(g.space, q);
    i64 target = p.of(g.space, 0);
    if (!add_indices(g, p, target)) target = i64(~u64(0) >> 1 >> g.bits);  // after all others
    *RILL_AT((u64*)(g.space.base[1] + p.of(g.space, 1))) = u64(target) << g.bits | u64(q);
  }
}

// --- Sorting words, all of which differ ---

// Few words: each counts those below it. A warp's threads read the same one, so it is one access to the cache.
RILL void sort_by_rank(const SortStep& s) {
  for (i64 q = first_thread(); q < s.count; q += all_threads()) {
    const u64 mine = *RILL_AT((const u64*)s.from + q);
    u32 rank = 0;
    for (i64 i = 0; i < s.count; ++i) rank += *RILL_AT((const u64*)s.from + i) < mine;
    *RILL_AT((u64*)s.to + rank) = mine;
  }
}

// Many: from the lowest digit on, in three kernels for each digit, of 256 threads a block.
RILL void count_digits(const SortStep& s) {
  __shared__ u32 counts[256];
  const i64 begin = blockIdx.x * s.chunk, end = begin + s.chunk < s.count ? begin + s.chunk : s.count;
  counts[threadIdx.x] = 0;
  __syncthreads();
  for (i64 i = begin + threadIdx.x; i < end; i += 256)
    atomicAdd(&counts[*RILL_AT((const u64*)s.from + i) >> s.shift & 255], 1u);
  __syncthreads();
  *RILL_AT((u32*)s.counts + threadIdx.x * s.blocks + blockIdx.x) = counts[threadIdx.x];
}
// One block: each thread has the blocks of one digit.
RILL void sum_digits(const SortStep& s) {
  __shared__ u32 total[256];
  u32* counts = (u32*)s.counts + threadIdx.x * s.blocks;
  u32 sum = 0;
  for (i64 b = 0; b < s.blocks; ++b) sum += *RILL_AT(counts + b);
  total[threadIdx.x] = sum;
  __syncthreads();
  u32 before = 0;
  for (int d = 0; d < threadIdx.x; ++d) before += total[d];
  for (i64 b = 0; b < s.blocks; ++b) {
    const u32 here = *RILL_AT(counts + b);
    *RILL_AT(counts + b) = before;
    before += here;
  }
}
RILL void move_digits(const SortStep& s) {
  __shared__ u32 next[256], in_warp[8][256];
  const i64 begin = blockIdx.x * s.chunk, end = begin + s.chunk < s.count ? begin + s.chunk : s.count;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  next[threadIdx.x] = *RILL_AT((const u32*)s.counts + threadIdx.x * s.blocks + blockIdx.x);
  for (i64 first = begin; first < end; first += 256) {
    const i64 i = first + threadIdx.x;
    const u64 x = i < end ? *RILL_AT((const u64*)s.from + i) : 0;
    const u32 digit = u32(x >> s.shift) & 255;
    for (int w = 0; w < 8; ++w) in_warp[w][threadIdx.x] = 0;
    __syncthreads();
    const u32 same = __match_any_sync(~0u, i < end ? digit : 256);  // the lanes with this digit
    const u32 rank = u32(__popc(same & ((1u << lane) - 1)));
    if (i < end && rank == 0) in_warp[warp][digit] = u32(__popc(same));
    __syncthreads();
    u32 to = next[threadIdx.x];  // thread d: the position for the warps' digits d
    for (int w = 0; w < 8; ++w) {
      const u32 here = in_warp[w][threadIdx.x];
      in_warp[w][threadIdx.x] = to;
      to += here;
    }
    next[threadIdx.x] = to;
    __syncthreads();
    if (i < end) *RILL_AT((u64*)s.to + in_warp[warp][digit] + rank) = x;
    __syncthreads();
  }
}

// --- Updates ---

// An update of one element. Halves are computed in f32 until all updates are applied.
#define RILL_UPDATE(Name, wide)          \
  struct Name {                          \
    template <class T>                   \
    RILL T of(T a, T b) { return wide; } \
  };
RILL_UPDATE(AddUpdate, add(a, b))
RILL_UPDATE(MultiplyUpdate, mul(a, b))
RILL_UPDATE(MinUpdate, b < a || (b != b && a == a) ? b : a)  // NaN wins, and the first one stays
RILL_UPDATE(MaxUpdate, a < b || (b != b && a == a) ? b : a)

template <class T> RILL T widened(T x) { return x; }
RILL f32 widened(f16 x) { return widen(x); }
RILL f32 widened(bf16 x) { return widen(x); }
template <class T> RILL T rounded(T x, T) { return x; }
RILL f16 rounded(f32 x, f16 like) { return narrow(x, like); }
RILL bf16 rounded(f32 x, bf16 like) { return narrow(x, like); }

// Number q of the updates' numbers, in the order of the words.
template <class I>
struct UpdatePoint {
  Point<I> column;
  i64 word;
  inline UpdatePoint(const Scatter& s, I q) : column(s.column, q % I(s.columns)), word(i64(q / I(s.columns))) {}
  inline i64 target(const Scatter& s, i64 w) const { return i64(*RILL_AT((const u64*)s.words + w) >> s.bits); }
  // `in_line`: whether updates have one distance from each to the next.
  template <bool in_line = false>
  inline const char* from(const Scatter& s, i64 w) const {
    const I update = I(*RILL_AT((const u64*)s.words + w) & ((u64(1) << s.bits) - 1));
    const i64 at = in_line ? i64(update) * s.update.point[0] : Point<I>(s.update, update).of(s.update, 0);
    return s.column.base[0] + column.of(s.column, 0) + at;
  }
  inline char* to(const Scatter& s, i64 target) const {
    return s.column.base[1] + column.of(s.column, 1) + target * s.unit;
  }
};

template <class T, class F, class I, bool in_line>
RILL void update_in_order(const Scatter& s) {
  for (I q = I(first_thread()); q < I(s.count * s.columns); q += I(all_threads())) {
    const UpdatePoint<I> p(s, q);
    const i64 target = p.target(s, p.word);
    if (target == s.none || (p.word > 0 && p.target(s, p.word - 1) == target)) continue;
    char* to = p.to(s, target);
    const T old = Stored<T>::load(to);
    auto x = widened(old);
    constexpr int ahead = in_line ? 4 : 1;  // updates are loaded together, or each would wait for the one before
    for (i64 w = p.word; w < s.count && p.target(s, w) == target; w += ahead) {
      bool more[ahead];
      T y[ahead];
#pragma unroll
      for (int k = 0; k < ahead; ++k) more[k] = w + k < s.count && p.target(s, w + k) == target;
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        if (more[k]) y[k] = Stored<T>::load(p.template from<in_line>(s, w + k));
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        if (more[k]) x = F::of(x, widened(y[k]));
    }
    store(to, rounded(x, old));
  }
}

// The last update of each target stays.
template <class T, class I>
RILL void set_last(const Scatter& s) {
  for (I q = I(first_thread()); q < I(s.count * s.columns); q += I(all_threads())) {
    const UpdatePoint<I> p(s, q);
    const i64 target = p.target(s, p.word);
    if (target == s.none || (p.word + 1 < s.count && p.target(s, p.word + 1) == target)) continue;
    *RILL_AT((T*)p.to(s, target)) = *RILL_AT((const T*)p.from(s, p.word));
  }
}

template <class T, class I>
RILL void add_in_any_order(const Scatter& s) {
  for (I q = I(first_thread()); q < I(s.count * s.columns); q += I(all_threads())) {
    const UpdatePoint<I> p(s, q);
    const i64 target = p.target(s, p.word);
    if (target != s.none) atomicAdd(RILL_AT((T*)p.to(s, target)), *RILL_AT((const T*)p.from(s, p.word)));
  }
}

// --- Search ---

RILL f32 in_order(f16 x) { return widen(x); }
RILL f32 in_order(bf16 x) { return widen(x); }
template <class T> RILL T in_order(T x) { return x; }
// NaN is ordered after all numbers.
template <class T> RILL bool stands_before(T a, T b) { return a < b || (b != b && a == a); }

template <class T>
RILL void search(const Search& s) {
  for (i64 q = first_thread(); q < s.count; q += all_threads()) {
    const auto v = in_order(Stored<T>::load(s.values + q * i64(sizeof(T))));
    i64 low = 0, high = s.n;
    while (low < high) {
      const i64 middle = (low + high) / 2;
      const auto x = in_order(Stored<T>::load(s.sorted + middle * i64(sizeof(T))));
      if (s.right ? !stands_before(v, x) : stands_before(x, v)) low = middle + 1;
      else high = middle;
    }
    *RILL_AT((i64*)s.to + q) = low;
  }
}

}  // namespace rill::cuda
