// Products of bytes: u8 or i8 minus their zero points, summed in i32, which is exact.
//
// Every product is one of u8 by i8: operands of the other dtype have their top bit flipped, which shifts them and their
// zero points by 128. Then sum (x - p)(w - q) = sum x w - p sum w - q sum x + k p q, where the sums of w are computed
// when it is packed. B (the weights) is packed into strips of 32 columns, with four steps of k next to each other, as
// AVX-512 VNNI multiplies them; for AVX2 both sides are widened to 16 bits. Sums wrap around, so they do not depend on
// how the work is divided. Start at byte_matmul_sums().
#include "rill/devices/cpu/product/byte_products.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/params/byte_params.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"
#include "rill/tensor/per_thread.h"

namespace rill::cpu {
namespace {

constexpr int64_t most_block_rows = 96, block_bytes = 1 << 17, sums_bytes = 3 << 14;

Ref<Buffer> packed_columns(const Columns& c) {
  Ref<Buffer> buffer = allocate(Device(), size_t(c.products * c.bytes()));
  c.pack(static_cast<int8_t*>(buffer->data));
  return buffer;
}

}  // namespace

char* thread_buffer(int which, int64_t bytes) {
  thread_local constinit PerThread<std::array<Scratch, 3>> buffers;
  return (*buffers)[size_t(which)].bytes(size_t(bytes));
}

Zeros::Zeros(const Tensor& of_left, const Tensor& of_right) {
  const auto value = [](const Tensor& t, int64_t i) {
    const uint8_t bits = bytes_of(t)[i];
    return t.dtype() == DType::u8 ? int32_t(bits) : int32_t(int8_t(bits));
  };
  left = value(of_left, 0) + (of_left.dtype() == DType::i8 ? 128 : 0);
  for (int64_t j = 0; j < of_right.size(); ++j) {
    right.push_back(value(of_right, of_right.ndim() == 0 ? 0 : j * of_right.strides()[0]) -
                    (of_right.dtype() == DType::u8 ? 128 : 0));
    any_right |= right.back() != 0;
  }
}

void Columns::pack(int8_t* to) const {
  std::memset(to, 0, size_t(products * bytes()));
  parallel_for(products * strips(), 1 + (1 << 16) / (byte_strip * (k() + 1)), [&](int64_t begin, int64_t end) {
    const int64_t element = byte_tiles().element();
    for (int64_t i = begin; i < end; ++i) {
      const int64_t product = i / strips(), s = i % strips(), columns = std::min(byte_strip, n - s * byte_strip);
      int8_t* const all = to + product * bytes();
      int32_t* const sums = reinterpret_cast<int32_t*>(all + strips() * bytes_of_strip()) + s * byte_strip;
      for (int64_t t = 0; t < k(); ++t) {
        const uint8_t* from = data + product * next + at[size_t(t)] + s * byte_strip * column;
        int8_t* group = all + s * bytes_of_strip() + t / bytes_together * byte_strip * bytes_together * element;
        for (int64_t j = 0; j < columns; ++j) {
          const auto value = int8_t(from[j * column] ^ flip);
          const int16_t wide = value;
          int8_t* const at = group + (j * bytes_together + t % bytes_together) * element;
          if (element == 1) *at = value;
          else std::memcpy(at, &wide, sizeof wide);
          sums[j] += value;
        }
      }
    }
  });
}

PackedColumns::PackedColumns(const KernelArgs& args, const Columns& c, bool keeps) : columns_(c) {
  if (args.packed && keeps) {
    kept_ =
        packed_operand(*args.packed, args.input(1), c.data, ByteLayout{c.at, c.n, c.column, c.flip, c.products, c.next},
                       [&] { return packed_columns(c); });
  }
  if (!kept_) own_ = packed_columns(c);
}

ByteProduct::ColumnNumbers ByteProduct::column_numbers() const {
  const std::vector<int32_t> none(size_t(columns.strips() * byte_strip), 0);
  ColumnNumbers numbers{none, none};
  for (int64_t j = 0; j < columns.n; ++j) {
    const int32_t zero = numbers.right[size_t(j)] = zeros.of_column(first_column + j);
    numbers.starts[size_t(j)] =
        int32_t(uint32_t(zeros.left) * (uint32_t(columns.k()) * uint32_t(zero) - uint32_t(packed.sums(which)[j])));
  }
  return numbers;
}

// Rows [i, i + count), which are at `a`, and as the tiles read them at `wide`, times some strips.
void ByteProduct::run_block(const uint8_t* a, const uint8_t* wide, int64_t i, int64_t count, int64_t first_strip,
                            int64_t last_strip, const ColumnNumbers& numbers, const TakeSums& take) const {
  const ByteTiles& tiles = byte_tiles();
  const ByteCorrections& corrections = byte_corrections();
  const int64_t k = columns.k(), groups = columns.groups(), step = groups * bytes_together;
  const int64_t width = (last_strip - first_strip) * byte_strip;
  auto* const sums = reinterpret_cast<int32_t*>(thread_buffer(1, count * width * int64_t(sizeof(int32_t))));
  for (int64_t s = first_strip; s < last_strip; ++s)
    for (int64_t r = 0, which = 0; r < count; r += tiles.rows[which]) {
      while (tiles.rows[which] > count - r) ++which;
      tiles.run[which](wide + r * step * tiles.element(), step * tiles.element(), packed.strip_at(this->which, s),
                       groups, &numbers.starts[size_t(s * byte_strip)],
                       sums + r * width + (s - first_strip) * byte_strip, width);
    }
  const int64_t from = first_strip * byte_strip, all = std::min(columns.n, last_strip * byte_strip) - from;
  for (int64_t r = 0; zeros.any_right && r < count; ++r)
    corrections.take_off(sums + r * width, width, &numbers.right[size_t(from)], corrections.sum(a + r * step, k));
  take({sums, count, all, width, first + i * row + from, row});
}

void ByteProduct::run_blocks(Copy copy, const void* context, const TakeSums& take) const {
  const int64_t k = columns.k(), step = columns.groups() * bytes_together, strips = columns.strips();
  const int64_t rows_at_once =
      std::clamp<int64_t>(block_bytes / (step + 1) / most_byte_rows * most_byte_rows, most_byte_rows, most_block_rows);
  const int64_t down = (m + rows_at_once - 1) / rows_at_once, threads = num_threads();
  const int64_t across = std::min(strips, down >= 2 * threads ? 1 : (2 * threads + down - 1) / down);
  const int64_t strips_at_once = (strips + across - 1) / across;
  const int64_t strips_of_sums =
      std::max<int64_t>(1, sums_bytes / (std::min(rows_at_once, m) * byte_strip * int64_t(sizeof(int32_t))));
  const ColumnNumbers numbers = column_numbers();
  const int64_t work = std::min(rows_at_once, m) * strips_at_once * byte_strip * (k + 32);
  parallel_for(down * across, 1 + (1 << 19) / work, [&](int64_t begin, int64_t end) {
    const ByteTiles& tiles = byte_tiles();
    auto* const buffer = reinterpret_cast<uint8_t*>(thread_buffer(0, rows ? 0 : rows_at_once * step));
    auto* const widened = reinterpret_cast<uint8_t*>(thread_buffer(2, tiles.widen ? 2 * rows_at_once * step : 0));
    int64_t copied = -1;
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t i = piece / across * rows_at_once, count = std::min(rows_at_once, m - i);
      if (!rows && copied != i) copy(context, i, count, buffer, step);
      const uint8_t* a = rows ? rows + i * step : buffer;
      if (tiles.widen && copied != i) tiles.widen(a, count * step, widened);
      const uint8_t* const wide = tiles.widen ? widened : a;
      copied = i;
      const int64_t last = std::min(strips, (piece % across + 1) * strips_at_once);
      for (int64_t s = piece % across * strips_at_once; s < last; s += strips_of_sums)
        run_block(a, wide, i, count, s, std::min(last, s + strips_of_sums), numbers, take);
    }
  });
}

void byte_matmul_sums(const KernelArgs& args, const TakeSums& take) {
  const Tensor x = as_dense(args.input(0));
  const Tensor& w = args.input(1);
  const size_t axes = w.shape().size();
  const int64_t k = x.shape().back(), n = w.shape().back(),
                matrices = axes == 2 ? 1 : x.size() / k / x.shape()[axes - 2], m = x.size() / k / matrices;
  const Tensor b = axes == 2 ? w : as_dense(w);
  std::vector<int64_t> at;
  for (int64_t i = 0; i < k; ++i) at.push_back(i * b.strides()[axes - 2]);
  const Zeros zeros(args.input(2), args.input(3));
  const uint8_t flip = left_flip(x);
  for (int64_t i = 0; i < matrices; ++i) {
    const Columns columns{bytes_of(b) + i * k * n, at, n, b.strides()[axes - 1], right_flip(w)};
    const PackedColumns packed(args, columns, matrices == 1);
    const uint8_t* rows = bytes_of(x) + i * m * k;
    const bool in_place = flip == 0 && k % bytes_together == 0;
    const ByteProduct product{m, columns, packed, 0, zeros, 0, in_place ? rows : nullptr, i * m * n, n};
    product.run(
        [&](int64_t first, int64_t count, uint8_t* to, int64_t step) {
          for (int64_t r = 0; r < count; ++r) {
            copy_flipped(rows + (first + r) * k, to + r * step, k, flip);
            std::memset(to + r * step + k, 0, size_t(step - k));
          }
        },
        take);
  }
}

void byte_matmul(const KernelArgs& args) {
  const Tensor& out = args.output();
  if (out.size() == 0 || args.input(0).size() == 0) {
    std::fill_n(args.out_data<int32_t>(), out.size(), 0);
    return;
  }
  int32_t* const to = args.out_data<int32_t>();
  byte_matmul_sums(args, [&](const ByteSums& s) {
    for (int64_t r = 0; r < s.rows; ++r)
      std::memcpy(to + s.first + r * s.row, s.sums + r * s.step, size_t(s.columns) * sizeof(int32_t));
  });
}

}  // namespace rill::cpu
