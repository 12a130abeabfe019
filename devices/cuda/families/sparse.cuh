// Products with a sparse matrix. Entries are sorted by their rows first, so that each element of the product is
// summed by one thread, entry after entry, and has the same bits in each run. scan.cuh, in front, has the numbers.
namespace rill::cuda {

RILL i64 index_of(const char* p, i64 e) { return *RILL_AT((const i64*)p + e); }

// Bad indices are reported: bad rows become one past the last.
RILL void make_row_keys(const Entries& s) {
  for (i64 e = first_thread(); e < s.count; e += all_threads()) {
    const i64 row = index_of(s.row, e), column = index_of(s.column, e);
    const bool good = row >= 0 && row < s.rows;
    if (!good) report(s.fault, s.bad_row, row, s.rows, e);
    if (column < 0 || column >= s.columns) report(s.fault, s.bad_column, column, s.columns, e);
    *RILL_AT((u32*)s.keys + e) = good ? u32(row) : u32(s.rows);
    *RILL_AT((u32*)s.order + e) = u32(e);
  }
}

template <class T>
RILL T element(const char* p, i64 i) { return Stored<T>::load(p + i * i64(sizeof(T))); }

// Numbers T are summed as A.
template <class T, class A>
RILL void sparse_times_dense(const Entries& s) {
  for (i64 q = first_thread(); q < s.rows * s.n; q += all_threads()) {
    const i64 row = q / s.n, j = q - row * s.n;
    i64 first = 0;  // the entries before it have lower rows
    for (i64 end = s.count; first < end;) {
      const i64 middle = (first + end) / 2;
      if (*RILL_AT((const u32*)s.keys + middle) < u32(row)) first = middle + 1;
      else end = middle;
    }
    A sum = from_int(A(), 0);
    for (i64 k = first; k < s.count && *RILL_AT((const u32*)s.keys + k) == u32(row); ++k) {
      const i64 e = i64(*RILL_AT((const u32*)s.order + k)), column = index_of(s.column, e);
      if (column < 0 || column >= s.columns) continue;
      sum = plus(sum, times(As<A>::of(element<T>(s.values, e)), As<A>::of(element<T>(s.right, column * s.n + j))));
    }
    store(s.to + q * i64(sizeof(T)), As<T>::of(sum));
  }
}

// A warp computes an entry: the product of a row of each operand.
template <class T, class A>
RILL void products_at_entries(const Entries& s) {
  const int lane = threadIdx.x % 32;
  for (i64 e = first_thread() / 32; e < s.count; e += all_threads() / 32) {
    const i64 row = index_of(s.row, e), column = index_of(s.column, e);
    const bool good_row = row >= 0 && row < s.rows, good_column = column >= 0 && column < s.columns;
    if (!good_row && lane == 0) report(s.fault, s.bad_row, row, s.rows, e);
    if (!good_column && lane == 0) report(s.fault, s.bad_column, column, s.columns, e);
    A sum = from_int(A(), 0);
    if (good_row && good_column)
      for (i64 j = lane; j < s.n; j += 32)
        sum = plus(sum, times(As<A>::of(element<T>(s.left, row * s.n + j)), As<A>::of(element<T>(s.right, column * s.n + j))));
    for (int half = 16; half > 0; half /= 2) sum = plus(sum, from_lane(sum, lane + half));
    if (lane == 0) store(s.to + e * i64(sizeof(T)), As<T>::of(sum));
  }
}

}  // namespace rill::cuda
