// What products and convolutions of bytes share: packed weights, zero points, and the loop over blocks of rows. The
// caller receives the sums block by block while they are in the cache, and stores them in a tensor or runs a fused
// kernel on them (byte_tail.cpp).
#pragma once
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "rill/devices/cpu/product/byte_tiles.h"
#include "rill/devices/cpu/product/packed_operands.h"
#include "rill/devices/kernel.h"

namespace rill::cpu {

// Finished sums: rows of a dense result. In the result, `row` elements separate their starts, and the first sum here is
// element `first`; at `sums`, they are `step` apart.
struct ByteSums {
  int32_t* sums;
  int64_t rows, columns, step;
  int64_t first, row;
};
// Called by several threads. The sums are valid until it returns.
using TakeSums = std::function<void(const ByteSums&)>;

// The sums of byte_matmul and of byte_conv, whose result is treated as [batch, space..., channels].
void byte_matmul_sums(const KernelArgs& args, const TakeSums& take);
void byte_conv_sums(const KernelArgs& args, const TakeSums& take);

inline const uint8_t* bytes_of(const Tensor& t) { return reinterpret_cast<const uint8_t*>(t.rep()->data); }
inline constexpr uint8_t top_bit = 0x80;
inline uint8_t left_flip(const Tensor& x) { return x.dtype() == DType::i8 ? top_bit : 0; }
inline uint8_t right_flip(const Tensor& w) { return w.dtype() == DType::u8 ? top_bit : 0; }
// Copies sizeof(Word) bytes, flipping bits.
template <class Word>
void copy_word(const uint8_t* from, uint8_t* to, uint64_t flip) {
  Word w;
  std::memcpy(&w, from, sizeof w);
  w = Word(w ^ Word(flip));
  std::memcpy(to, &w, sizeof w);
}
// Copies `n` bytes, flipping bits; the two ranges do not overlap. For few bytes: the last word overlaps the one before.
inline void copy_flipped(const uint8_t* from, uint8_t* to, int64_t n, uint8_t flip) {
  constexpr int64_t long_copy = 64;
  if (flip == 0 && n >= long_copy) {
    std::memcpy(to, from, size_t(n));
    return;
  }
  const uint64_t flips = uint64_t(flip) * 0x0101010101010101;
  if (n >= 8) {
    for (int64_t i = 0; i + 8 <= n; i += 8) copy_word<uint64_t>(from + i, to + i, flips);
    copy_word<uint64_t>(from + n - 8, to + n - 8, flips);
  } else if (n >= 4) {
    copy_word<uint32_t>(from, to, flips);
    copy_word<uint32_t>(from + n - 4, to + n - 4, flips);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i] ^ flip;
  }
}
// Memory of this thread that is reused between calls: requesting `which` again invalidates what was there.
char* thread_buffer(int which, int64_t bytes);

// Zero points, as those of u8 on the left and i8 on the right.
struct Zeros {
  int32_t left = 0;
  std::vector<int32_t> right;  // one, or one a column
  bool any_right = false;

  Zeros(const Tensor& of_left, const Tensor& of_right);
  int32_t of_column(int64_t j) const { return right[right.size() == 1 ? 0 : size_t(j)]; }
};

// The right operand of a product, or of several next to each other (groups of a convolution): step k of column j is at
// at[k] + j * column, and the next product starts `next` elements later.
struct Columns {
  const uint8_t* data;
  const std::vector<int64_t>& at;
  int64_t n, column;
  uint8_t flip;
  int64_t products = 1, next = 0;

  int64_t k() const { return int64_t(at.size()); }
  int64_t groups() const { return (k() + bytes_together - 1) / bytes_together; }
  int64_t strips() const { return (n + byte_strip - 1) / byte_strip; }
  int64_t bytes_of_strip() const { return groups() * byte_strip * bytes_together * byte_tiles().element(); }
  // Of one product, including the sums of its columns.
  int64_t bytes() const { return strips() * (bytes_of_strip() + byte_strip * int64_t(sizeof(int32_t))); }
  void pack(int8_t* to) const;
};

// How the weights are stored; the key of packed weights.
struct ByteLayout {
  std::vector<int64_t> at;
  int64_t n, column;
  uint8_t flip;
  int64_t products, next;
  friend bool operator==(const ByteLayout&, const ByteLayout&) = default;
};

// The packed columns, kept in the kernel's `packed` if there is one and `keeps`.
class PackedColumns {
 public:
  PackedColumns(const KernelArgs& args, const Columns& c, bool keeps);
  const int8_t* strip_at(int64_t product, int64_t s) const {
    return data() + product * columns_.bytes() + s * columns_.bytes_of_strip();
  }
  const int32_t* sums(int64_t product) const {
    return reinterpret_cast<const int32_t*>(strip_at(product, columns_.strips()));
  }

 private:
  const int8_t* data() const { return static_cast<const int8_t*>((kept_ ? kept_->buffer : own_)->data); }

  Columns columns_;
  std::shared_ptr<const PackedOperand<ByteLayout>> kept_;
  Ref<Buffer> own_;
};

// A product of m rows, which are at `rows`, or which copy(first, count, to, step) produces, padded with any values.
struct ByteProduct {
  int64_t m;
  const Columns& columns;
  const PackedColumns& packed;
  int64_t which;  // index of the product among those that are packed
  const Zeros& zeros;
  int64_t first_column;  // the column of `zeros` that column 0 uses
  const uint8_t* rows;   // if k is a multiple of 4 and the rows are contiguous; else null
  int64_t first, row;    // the location of its sums in the result

  template <class CopyRows>
  void run(CopyRows&& copy, const TakeSums& take) const {
    run_blocks(
        [](const void* f, int64_t first, int64_t count, uint8_t* to, int64_t step) {
          (*static_cast<const std::remove_reference_t<CopyRows>*>(f))(first, count, to, step);
        },
        &copy, take);
  }

 private:
  using Copy = void (*)(const void* context, int64_t first, int64_t count, uint8_t* to, int64_t step);
  void run_blocks(Copy copy, const void* context, const TakeSums& take) const;
  // For each column: the value that sums start from, and the zero point on the right.
  struct ColumnNumbers {
    std::vector<int32_t> starts, right;
  };
  ColumnNumbers column_numbers() const;
  void run_block(const uint8_t* a, const uint8_t* wide, int64_t i, int64_t count, int64_t first_strip,
                 int64_t last_strip, const ColumnNumbers& numbers, const TakeSums& take) const;
};

}  // namespace rill::cpu
