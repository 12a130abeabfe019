// How similar two images are, and their edges. Images are [..., height, width, channels]; a result has one number for
// each image of a batch, f32, with gradients.
#pragma once
#include <vector>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill::images {

// 20 log10(max_value) - 10 log10(mean squared error); `max_value` is white: 1 of floats in [0, 1], 255 of bytes.
Tensor psnr(const Tensor& a, const Tensor& b, double max_value, Where where = Where::current());

struct SsimOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t filter_size = 11;
  double filter_sigma = 1.5, k1 = 0.01, k2 = 0.03;
};
// Structural similarity (Wang et al., 2004), the mean over pixels and channels, as TensorFlow's. Throws if a side is
// shorter than the filter.
Tensor ssim(const Tensor& a, const Tensor& b, double max_value, const SsimOptions& options = {},
            Where where = Where::current());
// The same at several scales, each half of the one before (Wang, Simoncelli and Bovik, 2003).
Tensor ssim_multiscale(const Tensor& a, const Tensor& b, double max_value,
                       const std::vector<double>& powers = {0.0448, 0.2856, 0.3001, 0.2363, 0.1333},
                       const SsimOptions& options = {}, Where where = Where::current());

// The sum of the distances between neighbours, above each other and side by side.
Tensor total_variation(const Tensor& x, Where where = Where::current());
// Sobel's derivatives down and to the right, [..., height, width, channels, 2], mirrored at the edges.
Tensor sobel_edges(const Tensor& x, Where where = Where::current());
// Differences to the pixel below and to the one on the right, 0 in the last row and column.
std::pair<Tensor, Tensor> image_gradients(const Tensor& x, Where where = Where::current());

}  // namespace rill::images

#pragma GCC visibility pop
