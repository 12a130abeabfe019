// What is done to images, and to signals and volumes alike, besides convolution and pooling: resizing, sampling at any
// places, patches, moving channels into space and back, pools with other rules. Included by rill.h. Composed of public
// functions (image/*.cpp), so that they have derivatives of any order.
//
// Inputs are [batch, space..., channels] (Layout::nhwc, the default) or [batch, channels, space...] (Layout::nchw),
// with 1, 2 or 3 axes of space where nothing else is said. Lists of sizes have one entry an axis of space, or one for
// all. Integers become f32; f16 and bf16 are computed in f32 and rounded once.
#pragma once
#include <optional>
#include <vector>

#include "rill/ops/conv.h"
#include "rill/ops/random.h"
#include "rill/ops/reductions.h"

#pragma GCC visibility push(default)

namespace rill {

// --- Resizing (resize.cpp) -------------------------------------------------------------------------------------------

// nearest: the pixel at floor(i in / out), or floor(i / scale), as torch; nearest_exact: the one whose middle is
// nearest; linear (bilinear, trilinear); cubic (Keys 1981, a = -3/4, with antialias -1/2); area: the mean of what a
// pixel covers, as adaptive_avg_pool().
enum class ResizeMode : uint8_t { nearest, nearest_exact, linear, cubic, area };
struct InterpolateOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Dims size = {};                  // of space in the result; or
  std::vector<double> scale = {};  // by which space grows: to floor(in * scale)
  ResizeMode mode = ResizeMode::nearest;
  bool align_corners = false;  // the middles of the first and last pixels stay, not the outer edges; linear and cubic
  bool antialias = false;      // where space shrinks, a pixel is made of all that it covers; linear and cubic
  Layout layout = Layout::nhwc;
};
// x with space resized. (As in torch, an axis whose size a scale leaves stays as it is with nearest and linear, and is
// stretched all the same with the others.) Pixels beyond the edges are those at the edges. Throws unless exactly one of
// size and scale is given.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options, Where where = Where::current());

// --- Sampling (sample.cpp) -------------------------------------------------------------------------------------------

enum class SampleMode : uint8_t { linear, nearest, cubic };  // cubic: of two axes of space
// What lies beyond the edges: zeros; the pixels at the edges; the image mirrored there.
enum class SamplePadding : uint8_t { zeros, border, reflection };
struct GridSampleOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  SampleMode mode = SampleMode::linear;
  SamplePadding padding = SamplePadding::zeros;
  bool align_corners = false;  // -1 and 1 are the middles of the first and last pixels, not the outer edges
  Layout layout = Layout::nhwc;
};
// Samples x, of two or three axes of space, at the positions `grid` [batch, out..., 2 or 3], which go from -1 to 1
// along each axis of space. The last axis of space comes first, (x, y) or (x, y, z), as in torch. Space of the result
// has the sizes `out`. Gradients by both; nearest has none by the grid.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {},
                   Where where = Where::current());
// The grid [batch, size..., n] for an image whose n axes of space are of the sizes `size`, moved by the matrices
// `theta` [batch, n, n + 1]: each position, with a 1 appended, times the matrix.
Tensor affine_grid(const Tensor& theta, const Dims& size, bool align_corners = false, Where where = Where::current());

// --- Channels and space (patches.cpp) --------------------------------------------------------------------------------

// Groups of factor^n channels become squares (cubes) of factor pixels a side: [..., h, w, c f f] to [..., h f, w f, c].
// The first of c outputs is made of the first f f channels, as in torch; depth_to_space() takes them the other way
// round.
Tensor pixel_shuffle(const Tensor& x, int64_t factor, Layout layout = Layout::nhwc, Where where = Where::current());
// Its inverse.
Tensor pixel_unshuffle(const Tensor& x, int64_t factor, Layout layout = Layout::nhwc, Where where = Where::current());
// Channels, the axis `axis`, in `groups` groups put one from each group side by side. Throws where they do not divide.
Tensor channel_shuffle(const Tensor& x, int64_t groups, Axis axis = -1, Where where = Where::current());

struct PatchOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Dims strides = {};  // empty: 1
  SpacePadding padding = "VALID";
  Dims dilation = {};  // empty: 1
  Layout layout = Layout::nhwc;
};
// The window of pixels around each position: [batch, out space..., window * channels] with a pixel's channels side by
// side, or (nchw) [batch, channels * window, positions], as torch's unfold gives it.
Tensor unfold(const Tensor& x, const Dims& window, const PatchOptions& options = {}, Where where = Where::current());
// Its transpose: patches added up where they lie in an image with space `size`. nhwc patches may have their positions
// in one axis, too.
Tensor fold(const Tensor& patches, const Dims& size, const Dims& window, const PatchOptions& options = {},
            Where where = Where::current());

// --- More pools (more_pools.cpp) -------------------------------------------------------------------------------------

// (sum of x^p over each window)^(1/p); 0 where the sum is 0, and so the gradient. Throws unless p > 0.
Tensor lp_pool(const Tensor& x, const Dims& window, double p, const PoolOptions& options = {},
               Where where = Where::current());
struct IndexedPool {
  Tensor values;
  Tensor indices;  // i64: where each stands in its image's space, counted in row-major order
};
// max_pool(), and where the elements came from, for max_unpool(). Floating dtypes.
IndexedPool max_pool_with_indices(const Tensor& x, const Dims& window, const PoolOptions& options = {},
                                  Where where = Where::current());
struct UnpoolOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Dims size = {};     // of space in the result; empty: (in - 1) * stride - pads + window
  Dims strides = {};  // empty: the window's
  Dims padding = {};  // at both ends; empty: 0
  Layout layout = Layout::nhwc;
};
// Zeros, with the elements of x put where `indices` say. Where an index is repeated, the last one counts. Throws
// where an index is not that of a pixel of the result.
Tensor max_unpool(const Tensor& x, const Tensor& indices, const Dims& window, const UnpoolOptions& options = {},
                  Where where = Where::current());
struct FractionalPoolOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<Tensor> samples = {};   // in [0, 1): [batch, channels, axes of space]; else they are drawn
  std::optional<random::Key> key = {};  // with which; else the global generator's next
  Layout layout = Layout::nhwc;
};
// The largest element of windows at distances that are drawn, so that space has the sizes `out`, of each channel by
// itself (Graham: Fractional Max-Pooling, 2014; the sequences are torch's). Throws where a window and `out` do not fit,
// or a sample is not in [0, 1).
Tensor fractional_max_pool(const Tensor& x, const Dims& window, const Dims& out,
                           const FractionalPoolOptions& options = {}, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
