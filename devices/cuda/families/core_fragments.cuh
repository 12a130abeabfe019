// Products of halves on tensor cores, by fragments in registers and rows in shared memory, for attention_cores.cuh.
//
// Fragments are those of PTX for mma.m16n8k16: a lane has rows lane / 4 and lane / 4 + 8 of a 16 x 8 result, two
// neighbouring columns of each, 2 (lane % 4) and the next. Two such results side by side are, as halves, a left
// operand.
namespace rill::cuda {

struct ResultFragment { f32 v[4]; };    // of a 16 x 8 result
struct OperandFragment { u32 v[4]; };   // pairs of halves: of a 16 x 16 left operand, or four 8 x 8 matrices

#ifdef RILL_ON_HOST
template <class T>
struct Cores {
  RILL f32 wide(u16 bits) {
    T x;
    x.bits = bits;
    return rill::widen(x);
  }
  RILL void multiply(ResultFragment& sum, const OperandFragment& a, u32 b0, u32 b1) { __of_tensor_cores(sum.v, a.v, b0, b1, wide); }
  RILL void multiply(ResultFragment& sum, const ResultFragment& a, u32 b) {
    __of_tensor_cores_wide(sum.v, a.v, wide(u16(b)), wide(u16(b >> 16)));
  }
  RILL u32 pair(f32 first, f32 second) {
    return u32(rill::narrow(first, T()).bits) | u32(rill::narrow(second, T()).bits) << 16;
  }
};
template <bool turned>
RILL OperandFragment load_matrices(const u16* row) {
  OperandFragment x;
  __load_matrices(x.v, row, turned);
  return x;
}
RILL void copy_later(void* to, const char* from, int bytes = 16) {
  if (i64(to) % 16 != 0 || i64(from) % 16 != 0) rill_unaligned(from, 16);
  memset(to, 0, 16);
  for (int i = 0; i < bytes; ++i) ((char*)to)[i] = *RILL_AT(from + i);
}
RILL void wait_for_copies() {}
RILL f32 exp2_of(f32 x) { return ::exp2f(x); }
RILL f32 greater_of(f32 a, f32 b) { return Maximum<f32>::of(a, b); }
#else
template <class T> struct Cores;
#define RILL_CORES(T, name, low, high)                                                                               \
  template <>                                                                                                        \
  struct Cores<T> {                                                                                                  \
    RILL void multiply(ResultFragment& sum, const OperandFragment& a, u32 b0, u32 b1) { \
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." name "." name                                            \
                   ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                            \
                   : "+f"(sum.v[0]), "+f"(sum.v[1]), "+f"(sum.v[2]), "+f"(sum.v[3])                                  \
                   : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b0), "r"(b1));                          \
    }                                                                                                                \
    RILL void multiply(ResultFragment& sum, const ResultFragment& a, u32 b) { \
      f32 b0, b1;                                                                                                    \
      asm(low : "=f"(b0) : "r"(b));                                                                                  \
      asm(high : "=f"(b1) : "r"(b));                                                                                 \
      asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "                                             \
                   "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                 \
                   : "+f"(sum.v[0]), "+f"(sum.v[1]), "+f"(sum.v[2]), "+f"(sum.v[3])                                  \
                   : "r"(same_bits<u32>(a.v[0])), "r"(same_bits<u32>(a.v[2])), "r"(same_bits<u32>(a.v[1])),          \
                     "r"(same_bits<u32>(a.v[3])), "r"(same_bits<u32>(b0)), "r"(same_bits<u32>(b1)));                 \
    }                                                                                                                \
    RILL f32 wide(u16 bits) {                                                                                        \
      f32 y;                                                                                                         \
      asm(low : "=f"(y) : "r"(u32(bits)));                                                                           \
      return y;                                                                                                      \
    }                                                                                                                \
    RILL u32 pair(f32 first, f32 second) {                                                                           \
      u32 y;                                                                                                         \
      asm("cvt.rn." name "x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));                                  \
      return y;                                                                                                      \
    }                                                                                                                \
  };
RILL_CORES(f16, "f16", "{ .reg .f16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l; }",
           "{ .reg .f16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h; }")
RILL_CORES(bf16, "bf16", "{ .reg .b32 y; shl.b32 y, %1, 16; mov.b32 %0, y; }",
           "{ .reg .b32 y; and.b32 y, %1, 0xffff0000; mov.b32 %0, y; }")
RILL u32 shared_address(const void* at) { return u32(__cvta_generic_to_shared(at)); }
template <bool turned>
RILL OperandFragment load_matrices(const u16* row) {
  OperandFragment x;
  if (turned)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.v[0]), "=r"(x.v[1]), "=r"(x.v[2]), "=r"(x.v[3]) : "r"(shared_address(row)) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.v[0]), "=r"(x.v[1]), "=r"(x.v[2]), "=r"(x.v[3]) : "r"(shared_address(row)) : "memory");
  return x;
}
// Copies 16 bytes to shared memory by the time that wait_for_copies() returns; given `bytes`, 0 in place of those after them.
RILL void copy_later(void* to, const char* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(shared_address(to)), "l"(from) : "memory");
}
RILL void copy_later(void* to, const char* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
RILL void wait_for_copies() { asm volatile("cp.async.wait_all;" : : : "memory"); }
RILL f32 exp2_of(f32 x) {  // within 2 ulp
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
RILL f32 greater_of(f32 a, f32 b) {  // of a NaN and a number, the NaN
  f32 y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
#endif

// Rows of a matrix in shared memory, `count` of them, each of D halves: outside the matrix they are 0. Rows are
// a little longer than D, so that eight of them start in different banks.
template <int D>
struct alignas(16) SharedRow { u16 v[D + 8]; };
struct alignas(16) EightHalves { u16 v[8]; };

// The rows from `first` on, of `rows` existing ones, each `width` long.
template <class T, int D>
RILL void load_rows(SharedRow<D>* to, int count, const Matrix<T>& m, i64 first, i64 rows, i64 width) {
  const bool is_aligned = m.column == 1 && m.row % 8 == 0 && i64(m.data) % 16 == 0;
  for (int e = threadIdx.x; e < count * (D / 8); e += blockDim.x) {
    const int row = e / (D / 8), column = e % (D / 8) * 8;
    EightHalves x;
    if (is_aligned && first + row < rows && column + 8 <= width) {
      x = *RILL_AT((const EightHalves*)m.at(first + row, column));
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const bool inside = first + row < rows && column + j < width;
        x.v[j] = inside ? *RILL_AT((const u16*)m.at(first + row, column + j)) : u16(0);
      }
    }
    *(EightHalves*)&to[row].v[column] = x;
  }
}

// sum += groups of 16 rows, as left operands for each 16 columns of D, times `count` rows in shared memory.
template <class T, int D, int count, int groups>
RILL void times_rows(const OperandFragment (&a)[groups][D / 16], const SharedRow<D>* b,
                     ResultFragment (&sum)[groups][count / 8]) {
  const int lane = threadIdx.x % 32, row = lane % 8 + lane / 16 * 8, column = lane / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < D / 16; ++k)
#pragma unroll
    for (int n = 0; n < count / 16; ++n) {
      const OperandFragment x = load_matrices<false>(&b[n * 16 + row].v[k * 16 + column]);
#pragma unroll
      for (int m = 0; m < groups; ++m) {
        Cores<T>::multiply(sum[m][2 * n], a[m][k], x.v[0], x.v[1]);
        Cores<T>::multiply(sum[m][2 * n + 1], a[m][k], x.v[2], x.v[3]);
      }
    }
}
// The same for 16 rows in shared memory.
template <class T, int D, int count>
RILL void times_rows(const SharedRow<D>* a, const SharedRow<D>* b, ResultFragment (&sum)[count / 8]) {
  const int lane = threadIdx.x % 32, row = lane % 8 + lane / 16 * 8, column = lane / 8 % 2 * 8;
#pragma unroll 2
  for (int k = 0; k < D / 16; ++k) {
    const OperandFragment y = load_matrices<false>(&a[lane % 16].v[k * 16 + lane / 16 * 8]);
#pragma unroll
    for (int n = 0; n < count / 16; ++n) {
      const OperandFragment x = load_matrices<false>(&b[n * 16 + row].v[k * 16 + column]);
      Cores<T>::multiply(sum[2 * n], y, x.v[0], x.v[1]);
      Cores<T>::multiply(sum[2 * n + 1], y, x.v[2], x.v[3]);
    }
  }
}
// sum += groups of 16 rows of `count` numbers, rounded to halves, times a matrix of as many rows in shared memory.
template <class T, int D, int count, int groups>
RILL void times_matrix(const ResultFragment (&a)[groups][count / 8], const SharedRow<D>* b,
                       ResultFragment (&sum)[groups][D / 8]) {
  const int lane = threadIdx.x % 32, row = lane % 16, column = lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < count / 16; ++k) {
    OperandFragment x[groups];
#pragma unroll
    for (int m = 0; m < groups; ++m)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const f32* pair = a[m][2 * k + e / 2].v + e % 2 * 2;
        x[m].v[e] = Cores<T>::pair(pair[0], pair[1]);
      }
#pragma unroll
    for (int n = 0; n < D / 16; ++n) {
      const OperandFragment y = load_matrices<true>(&b[k * 16 + row].v[n * 16 + column]);
#pragma unroll
      for (int m = 0; m < groups; ++m) {
        Cores<T>::multiply(sum[m][2 * n], x[m], y.v[0], y.v[1]);
        Cores<T>::multiply(sum[m][2 * n + 1], x[m], y.v[2], y.v[3]);
      }
    }
  }
}
// To the nearest TF32, ties away from 0.
RILL f32 round_to_tf32(f32 x) {
  const u32 b = same_bits<u32>(x);
  return same_bits<f32>((b & 0x7f800000) == 0x7f800000 ? b : (b + 0x1000) & ~0x1fffu);
}
// The same with the numbers rounded to TF32: k counts the even columns of a result and then the odd ones, which are the
// pairs of neighbouring rows of `b` that a lane has.
template <class T, int D, int count>
RILL void times_matrix_wide(const ResultFragment (&a)[count / 8], const SharedRow<D>* b, ResultFragment (&sum)[D / 8]) {
  const int lane = threadIdx.x % 32, row = lane % 16, column = lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < count / 16; ++k) {
    ResultFragment left, right;
#pragma unroll
    for (int e = 0; e < 4; ++e) left.v[e] = round_to_tf32(a[2 * k].v[e]), right.v[e] = round_to_tf32(a[2 * k + 1].v[e]);
#pragma unroll
    for (int n = 0; n < D / 16; ++n) {
      const OperandFragment y = load_matrices<true>(&b[k * 16 + row].v[n * 16 + column]);
      Cores<T>::multiply(sum[2 * n], left, y.v[0]);
      Cores<T>::multiply(sum[2 * n], right, y.v[1]);
      Cores<T>::multiply(sum[2 * n + 1], left, y.v[2]);
      Cores<T>::multiply(sum[2 * n + 1], right, y.v[3]);
    }
  }
}
// Of 64 rows of a matrix, from `first` on, the warp's 16 as left operands; staged in `buffer`, `count` at a time.
template <class T, int D, int count>
RILL void load_operand_rows(OperandFragment (&to)[D / 16], SharedRow<D>* buffer, const Matrix<T>& m, i64 first, i64 rows, i64 width) {
  const int lane = threadIdx.x % 32, row = lane % 16, column = lane / 16 * 8;
#pragma unroll 1
  for (int begin = 0; begin < 64; begin += count) {
    __syncthreads();
    load_rows<T, D>(buffer, count, m, first + begin, rows, width);
    __syncthreads();
    const int mine = threadIdx.x / 32 * 16 - begin;
    if (mine < 0 || mine >= count) continue;
#pragma unroll
    for (int k = 0; k < D / 16; ++k) to[k] = load_matrices<false>(&buffer[mine + row].v[k * 16 + column]);
  }
}
// Stores the rows of a result that a lane has to a matrix with this many rows and columns.
template <class T, int D>
RILL void put_rows(const Matrix<T>& m, const ResultFragment (&x)[D / 8], i64 row, i64 rows, i64 columns) {
  const int lane = threadIdx.x % 32;
  const bool by_pairs = m.column == 1 && m.row % 2 == 0 && i64(m.data) % 4 == 0 && columns % 2 == 0;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (row + 8 * h >= rows) continue;
    char* at = m.at(row + 8 * h, lane % 4 * 2);
#pragma unroll
    for (int n = 0; n < D / 8; ++n, at += 8 * m.column * i64(sizeof(T))) {
      const u32 two = Cores<T>::pair(x[n].v[2 * h], x[n].v[2 * h + 1]);
      const int column = n * 8 + lane % 4 * 2;
      if (by_pairs) {
        if (column < columns) *RILL_AT((u32*)at) = two;
        continue;
      }
      if (column < columns) *RILL_AT((u16*)at) = u16(two);
      if (column + 1 < columns) *RILL_AT((u16*)(at + m.column * i64(sizeof(T)))) = u16(two >> 16);
    }
  }
}
// The mask's elements for one query and the keys of a tile, or one key and the queries of a tile.
template <class T>
struct Masked {
  const char* at;
  i64 step;
  int kind;
  // From query i and key j on, along the keys or along the queries.
  inline Masked(const Scores<T>& m, i64 i, i64 j, bool along_keys) : at(nullptr), step(0), kind(m.s.mask_kind) {
    if (kind == 1) at = m.bool_mask.at(i, j), step = along_keys ? m.bool_mask.column : m.bool_mask.row;
    if (kind == 2) at = m.added_mask.at(i, j), step = 2 * (along_keys ? m.added_mask.column : m.added_mask.row);
  }
  inline f32 of(f32 y, int index, bool& visible) const {
    const f32 minus_infinity = lowest(f32());
    if (kind == 1 && visible) visible = Stored<bool>::load(at + index * step);
    if (kind == 2 && visible) {
      const f32 x = Cores<T>::wide(*RILL_AT((const u16*)(at + index * step)));
      visible = x != minus_infinity;
      y += x;
    }
    return visible ? y : minus_infinity;
  }
};
// `n` as an index in a tile; beyond its end any number that is not less than the tile's size.
RILL int index_in_tile(i64 n) { return n < 0 ? 0 : n > 1024 ? 1024 : int(n); }
// How many keys the tile that starts at `key` has, and how many of them a query may attend to.
RILL int keys_in_tile(const Attention& s, i64 row, i64 key) { return row < s.queries ? index_in_tile(s.keys - key) : 0; }
RILL int visible_in_tile(const Attention& s, i64 row, i64 key) {
  const int present = keys_in_tile(s, row, key), before = index_in_tile(row + s.keys - s.queries + 1 - key);
  return s.causal && before < present ? before : present;
}
// Over the four lanes (a quad) that share a row.
template <class F, class T>
RILL T reduce_quad(T x) {
  x = F::of(x, __shfl_xor_sync(~0u, x, 2));
  return F::of(x, __shfl_xor_sync(~0u, x, 1));
}
template <int count>
RILL void set_to_zero(ResultFragment (&x)[count]) {
#pragma unroll
  for (int n = 0; n < count; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) x[n].v[e] = 0;
}

}  // namespace rill::cuda
