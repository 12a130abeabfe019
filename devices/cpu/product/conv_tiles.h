// Rill's own convolution, for what oneDNN does not have: f64; and f32 in builds without it, in shapes that it leaves
// to its reference kernel or gets wrong (onednn_defects.h), and with operands that are not finite and padding. Also for
// images of a few pixels, where ours is faster (prefers_own() in conv.cpp). conv_own.cpp explains it; this is what it
// and conv_direct.h run on each instruction set (conv_tiles.cpp).
#pragma once
#include <cstdint>

#include "rill/devices/kernel.h"

namespace rill::cpu {

enum class ConvResult : int64_t { forward = 2, input = 3, weight = 4 };  // 1 is matmul's number in onednn::Key

// conv, conv_grad_input or conv_grad_weight, of f32 or f64, without empty operands. Every element is summed in
// one order, so its bits depend neither on the number of threads nor on the layout.
void conv_own(const KernelArgs& args, ConvResult result);

// C[row, column] = sum over taps and depth of A B, or that added to C. A is read in place: element (row, tap, i) is
// from[tap * pitch + row][offset + i]. B is packed: for each (tap, i), its columns, padded to a multiple of a vector.
template <class T>
struct ConvTile {
  const T* const* from;
  int64_t pitch, offset;
  int64_t taps, depth;
  const T* b;
  T* const* to;  // the address of each row
  int64_t to_offset;
  int64_t rows, columns;  // at most ConvTiles::vectors vectors
  bool add;
};

// C[row, column] = sum over i below k of A[i, row] from[offsets[i] + column], or that added to C. Full vectors of from
// and to are accessed. At most most_row_tile rows.
inline constexpr int64_t most_row_tile = 4;
template <class T>
struct ConvRowTile {
  const T* from;
  const int64_t* offsets;
  const T* a;  // dense
  int64_t k;
  T* to;
  int64_t to_row;  // stride of C's rows
  int64_t rows, columns;
  bool add;
};

struct ConvChannels;  // conv_direct.h

template <class T>
struct ConvTiles {
  void (*sum)(const ConvTile<T>&);
  // Each column has its own A, next to that of the column before: depth is 1, and element (row, tap,
  // column) is from[tap * pitch + row][offset + column].
  void (*sum_channels)(const ConvTile<T>&);
  void (*rows)(const ConvRowTile<T>&);
  void (*channels)(const ConvChannels&, int64_t begin, int64_t end);  // computes rows of the result; for float only
  int64_t lanes, vectors;
};
template <class T>
const ConvTiles<T>& conv_tiles();  // for float and double

}  // namespace rill::cpu
