// A sparse matrix times a vector, where entries stand sorted by row: in one pass over them, without where rows begin.
// For sparse.cpp, which does what this leaves.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "rill/devices/threads.h"

namespace rill::cpu {

template <class T>
class SparseTimesVector {
 public:
  const T *values, *vector;
  const int64_t *rows, *columns;
  T* out;
  int64_t count, m, k;  // entries, rows, columns

  // False where entries are not sorted, or an index is out of range: then `out` means nothing.
  bool run() const {
    if (count == 0) std::fill_n(out, m, T(0));
    std::atomic<bool> sound{true};
    parallel_for(count, int64_t(1) << 14, [&](int64_t begin, int64_t end) {
      if (!piece(row_start(begin), row_start(end))) sound = false;
    });
    return sound;
  }

 private:
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  static constexpr int64_t block = 256;
  // A row's sum waits for each addition, and how long rows are no processor foresees: so many rows side by side, and a
  // sum that is stored again with each of its entries.
  static constexpr int streams = 4;
  struct Stream {
    int64_t at, end, row = -1;
    T sum = 0;
  };

  // The first entry from `e` on that begins a row.
  int64_t row_start(int64_t e) const {
    while (e > 0 && e < count && rows[e] == rows[e - 1]) ++e;
    return e;
  }

  // Whether the entries are sorted, of rows [first, last) and of columns that there are.
  bool are_sound(int64_t begin, int64_t end, int64_t first, int64_t last) const {
    const auto to = uint64_t(last) - 1, columns_to = uint64_t(k) - 1;
    uint64_t faults = 0;  // in the top bit
    for (int64_t e = begin; e < end; ++e) {
      const auto row = uint64_t(rows[e]), column = uint64_t(columns[e]);
      faults |= (row - uint64_t(first)) | (to - row) | column | (columns_to - column);
    }
    for (int64_t e = std::max<int64_t>(begin, 1); e < end; ++e) faults |= uint64_t(rows[e]) - uint64_t(rows[e - 1]);
    return int64_t(faults) >= 0;
  }
  // Of entries that are not sorted, two threads may write to one row; what they write is not used.
  void write(int64_t row, T sum) const { std::atomic_ref(out[row]).store(sum, std::memory_order_relaxed); }

  void add(Stream& s, int64_t e) const {
    const int64_t row = rows[e];
    const Bits same_row = -Bits(row == s.row);
    s.sum = std::bit_cast<T>(Bits(std::bit_cast<Bits>(s.sum) & same_row)) + values[e] * vector[columns[e]];
    write(row, s.sum);
    s.row = row;
  }

  // The rows whose entries are [begin, end), and those before them that have none.
  bool piece(int64_t begin, int64_t end) const {
    const int64_t first = begin == 0 ? 0 : begin < count ? rows[begin] : m, last = end < count ? rows[end] : m;
    if (first < 0 || first > last || last > m) return false;
    for (int64_t r = first; r < last; ++r) write(r, 0);
    std::array<Stream, streams> all;
    for (int s = 0; s < streams; ++s) all[size_t(s)].at = row_start(begin + (end - begin) * s / streams);
    int64_t together = end - begin;
    for (int s = 0; s < streams; ++s) {
      all[size_t(s)].end = s + 1 < streams ? all[size_t(s) + 1].at : end;
      together = std::min(together, all[size_t(s)].end - all[size_t(s)].at);
    }
    for (; together >= block; together -= block) {
      for (const Stream& s : all)
        if (!are_sound(s.at, s.at + block, first, last)) return false;
      for (int64_t i = 0; i < block; ++i)
        for (Stream& s : all) add(s, s.at + i);
      for (Stream& s : all) s.at += block;
    }
    for (Stream& s : all)
      while (s.at < s.end) {
        const int64_t until = std::min(s.at + block, s.end);
        if (!are_sound(s.at, until, first, last)) return false;
        for (; s.at < until; ++s.at) add(s, s.at);
      }
    return true;
  }
};

}  // namespace rill::cpu
