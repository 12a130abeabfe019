// Sorting: stable, NaN last, zeros of either sign equal. Elements become unsigned integers of the same order (keys).
// Short lines are sorted in shared memory as pairs of key and index (Batcher's bitonic network), long ones by a radix
// sort with digits of 8 bits, lowest first, which is stable by itself. topk of a few of many elements selects them from
// each 2048, and then from the selected ones, until one tile is left.
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

// The offset of element i of a line, for lines of n.
RILL i64 element_offset(const Sorting& s, i64 line, i64 i, i64 n) { return (line / s.inner * n + i) * s.inner + line % s.inner; }

template <class T>
RILL void store_element(const Sorting& s, i64 line, i64 i, i64 from) {
  const i64 to = element_offset(s, line, i, s.kept);
  if (s.values) store(s.values + to * i64(sizeof(T)), Stored<T>::load(s.from + element_offset(s, line, from, s.n) * i64(sizeof(T))));
  if (s.indices) store(s.indices + to * 8, from);
}

// --- Short lines ---

// A block sorts tiles of 2048 pairs in shared memory, in groups of m, a power of two.
template <class K>
RILL void sort_groups(K* keys, u16* indices, int m) {
  __syncthreads();
  for (int k = 2; k <= m; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      for (int e = threadIdx.x; e < 1024; e += blockDim.x) {
        const int a = 2 * e - (e & (j - 1)), b = a + j;
        const bool up = (a & (m - 1) & k) == 0;
        const K x = keys[a], y = keys[b];
        const u16 p = indices[a], q = indices[b];
        if ((x > y || (x == y && p > q)) == up) keys[a] = y, keys[b] = x, indices[a] = q, indices[b] = p;
      }
      __syncthreads();
    }
}

template <class T, class K>
RILL K key_at(const Sorting& s, i64 line, i64 i) {
  return K(Key<T>::of(Stored<T>::load(s.from + element_offset(s, line, i, s.n) * i64(sizeof(T))), s.descending));
}

// A tile holds as many lines as fit, each padded to m elements.
template <class T, class K>
RILL void sort_tiles(const Sorting& s) {
  __shared__ K keys[2048];
  __shared__ u16 indices[2048];
  int m = 1;
  while (m < s.n) m *= 2;
  const i64 lines = 2048 / m;
  for (i64 t = blockIdx.x; t * lines < s.lines; t += gridDim.x) {
    for (int e = threadIdx.x; e < 2048; e += blockDim.x) {
      const i64 line = t * lines + e / m;
      keys[e] = line < s.lines && e % m < s.n ? key_at<T, K>(s, line, e % m) : K(~K(0));
      indices[e] = u16(e % m);
    }
    sort_groups(keys, indices, m);
    for (int e = threadIdx.x; e < 2048; e += blockDim.x) {
      const i64 line = t * lines + e / m;
      if (line < s.lines && e % m < s.kept) store_element<T>(s, line, e % m, indices[e]);
    }
    __syncthreads();
  }
}

// For every 2048 candidates of a line, the indices of the first `kept` in order; ~0 if there are fewer. Candidates with
// equal keys stay in the order of their indices.
template <class T, class K>
RILL void select_tiles(const Sorting& s) {
  __shared__ K keys[2048];
  __shared__ u16 indices[2048];
  for (i64 b = blockIdx.x; b < s.lines * s.pieces; b += gridDim.x) {
    const i64 line = b / s.pieces, first = b % s.pieces * 2048;
    const auto candidate = [&](i64 i) -> u32 {
      if (i >= s.candidates) return ~0u;
      return s.order ? *RILL_AT((const u32*)s.order + line * s.candidates + i) : u32(i);
    };
    for (int e = threadIdx.x; e < 2048; e += blockDim.x) {
      const u32 index = candidate(first + e);
      keys[e] = index == ~0u ? K(~K(0)) : key_at<T, K>(s, line, index);
      indices[e] = u16(e);
    }
    sort_groups(keys, indices, 2048);
    for (int e = threadIdx.x; e < s.kept; e += blockDim.x)
      *RILL_AT((u32*)s.order_to + b * s.kept + e) = candidate(first + indices[e]);
    __syncthreads();
  }
}

// --- Long lines ---

template <class T, class K>
RILL void make_keys(const Sorting& s) {
  for (i64 q = first_thread(); q < s.lines * s.n; q += all_threads()) {
    const i64 line = q / s.n, i = q - line * s.n;
    *RILL_AT((K*)s.keys + q) = key_at<T, K>(s, line, i);
    *RILL_AT((u32*)s.order + q) = u32(i);
  }
}

template <class K>
RILL u32 digit(const Sorting& s, K key) { return u32(key >> s.shift) & 255; }

// A block counts the digits of a piece.
template <class K>
RILL void count_digits(const Sorting& s) {
  __shared__ u32 counts[256];
  for (i64 b = blockIdx.x; b < s.lines * s.pieces; b += gridDim.x) {
    const i64 line = b / s.pieces, first = b % s.pieces * s.piece;
    const i64 end = first + s.piece < s.n ? first + s.piece : s.n;
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (i64 i = first + threadIdx.x; i < end; i += 256)
      atomicAdd(&counts[digit<K>(s, *RILL_AT((const K*)s.keys + line * s.n + i))], 1u);
    __syncthreads();
    *RILL_AT((u32*)s.counts + (line * 256 + threadIdx.x) * s.pieces + b % s.pieces) = counts[threadIdx.x];
    __syncthreads();
  }
}

// A block moves a piece: `counts` now has the position of the first of each digit. 256 elements at a time; those with
// equal digits keep their order.
template <class K>
RILL void move_by_digits(const Sorting& s) {
  __shared__ u32 next[256], of_warp[8][256];
  const int me = threadIdx.x, lane = me % 32, warp = me / 32;
  for (i64 b = blockIdx.x; b < s.lines * s.pieces; b += gridDim.x) {
    const i64 line = b / s.pieces, first = b % s.pieces * s.piece;
    const i64 end = first + s.piece < s.n ? first + s.piece : s.n;
    next[me] = *RILL_AT((const u32*)s.counts + (line * 256 + me) * s.pieces + b % s.pieces);
    for (i64 begin = first; begin < end; begin += 256) {
      const i64 index = line * s.n + begin + me;
      const bool is_here = begin + me < end;
      K key = 0;
      u32 d = 256;
      if (is_here) key = *RILL_AT((const K*)s.keys + index), d = digit<K>(s, key);
      for (int w = 0; w < 8; ++w) of_warp[w][me] = 0;
      __syncthreads();
      const u32 same = __match_any_sync(~0u, d);
      const u32 before = __popc(same & ((1u << lane) - 1));
      if (is_here && before == 0) of_warp[warp][d] = __popc(same);
      __syncthreads();
      u32 from = next[me];
      for (int w = 0; w < 8; ++w) {
        const u32 count = of_warp[w][me];
        of_warp[w][me] = from;
        from += count;
      }
      next[me] = from;
      __syncthreads();
      if (is_here) {
        const i64 to = line * s.n + of_warp[warp][d] + before;
        *RILL_AT((K*)s.keys_to + to) = key;
        *RILL_AT((u32*)s.order_to + to) = *RILL_AT((const u32*)s.order + index);
      }
      __syncthreads();
    }
  }
}

template <class T>
RILL void store_order(const Sorting& s) {
  for (i64 q = first_thread(); q < s.lines * s.kept; q += all_threads()) {
    const i64 line = q / s.kept, i = q - line * s.kept;
    store_element<T>(s, line, i, i64(*RILL_AT((const u32*)s.order + line * s.candidates + i)));
  }
}

}  // namespace rill::cuda
