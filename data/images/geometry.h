// Geometric transforms of images: resized, cropped, padded, mirrored, rotated and warped. Images are [height, width,
// channels], with any axes before them (a batch), and any number of channels. Composed of public functions, so that
// they have derivatives and work inside `function`; random transforms are in augment.h.
#pragma once
#include <limits>
#include <optional>
#include <vector>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill::images {

// --- Resizing (resize.cpp) -------------------------------------------------------------------------------------------

// nearest: the pixel at floor(i in / out), as torch; nearest_exact: the one whose middle is nearest, as TensorFlow 2 and
// Pillow. bicubic: Keys (1981), a = -1/2, as TensorFlow, Pillow, and torch with antialias; bicubic_torch: torch's
// without, a = -3/4. area: the mean of what a pixel covers, parts of pixels in proportion, as TensorFlow. lanczos3 and
// lanczos5: of 3 and 5 lobes; gaussian: sigma 1/2, cut off at 3 sigma; mitchellcubic: Mitchell and Netravali (1988),
// B = C = 1/3.
enum class ResizeMethod : uint8_t {
  nearest,
  nearest_exact,
  bilinear,
  bicubic,
  bicubic_torch,
  area,
  lanczos3,
  lanczos5,
  gaussian,
  mitchellcubic
};
struct ResizeOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  ResizeMethod method = ResizeMethod::bilinear;
  // When downsampling, a pixel is computed from everything that it covers. (TensorFlow's default is false;
  // torchvision's and Pillow's way is true.) For methods with weights, except area and bicubic_torch.
  bool antialias = true;
  bool preserve_aspect_ratio = false;  // the largest size of the image's own proportions that fits into `size`
};
// x with {height, width} pixels. Bytes stay bytes, with the bits of Pillow (which resizes rows first, and rounds between
// the two); other integers are rounded and kept within their dtype, floats stay floats. Throws where a size is below 1.
Tensor resize(const Tensor& x, const Dims& size, const ResizeOptions& options = {}, Where where = Where::current());
// The shorter side gets `size` pixels, the other one in proportion (rounded down), as torchvision's Resize(size).
Tensor resize_shorter_side(const Tensor& x, int64_t size, const ResizeOptions& options = {},
                           Where where = Where::current());
// Resized in its own proportions to fit, in the middle of zeros: TensorFlow's resize_with_pad.
Tensor resize_with_pad(const Tensor& x, const Dims& size, const ResizeOptions& options = {},
                       Where where = Where::current());
// Resized in its own proportions to cover `size`, of which the middle is cut out: Keras' crop_to_aspect_ratio, the other
// way round, and Pillow's ImageOps.fit.
Tensor resize_with_crop(const Tensor& x, const Dims& size, const ResizeOptions& options = {},
                        Where where = Where::current());
// Not resized: the middle is cut out, or zeros are put around, along each axis. TensorFlow's.
Tensor resize_with_crop_or_pad(const Tensor& x, const Dims& size, Where where = Where::current());

// --- Parts, mirrors and turns (crop.cpp) -----------------------------------------------------------------------------

// The {height, width} pixels from {top, left} on. Throws where they are not all inside.
Tensor crop(const Tensor& x, const Dims& at, const Dims& size, Where where = Where::current());
// The middle {height, width} pixels; of an odd rest, one more is left out below and right.
Tensor central_crop(const Tensor& x, const Dims& size, Where where = Where::current());
// Padded with zeros, or `value`: so many pixels {top, bottom, left, right}.
Tensor pad_borders(const Tensor& x, const Dims& widths, const Tensor& value = 0, Where where = Where::current());

// Left and right, above and below exchanged.
Tensor flip_left_right(const Tensor& x, Where where = Where::current());
Tensor flip_up_down(const Tensor& x, Where where = Where::current());
// Rows and columns exchanged.
Tensor transpose_image(const Tensor& x, Where where = Where::current());
// Turned counter-clockwise by k quarters.
Tensor rotate90(const Tensor& x, int64_t k = 1, Where where = Where::current());

// --- Warps (warp.cpp) ------------------------------------------------------------------------------------------------

struct WarpOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool bilinear = true;  // otherwise the nearest pixel
  double fill = 0;       // the value outside
  Dims size = {};        // {height, width} of the result; empty: the image's
};
// The pixel whose middle is at (x, y) is the image at ((a x + b y + c) / w, (d x + e y + f) / w), w = g x + h y + 1,
// with coordinates from the outer edges of the first pixel: `map` is {a, b, c, d, e, f, g, h}, of each image (a matrix
// [batch, 8]) or of all, a tensor of 8. Pillow's transform() with PERSPECTIVE. Gradients by both.
Tensor warp(const Tensor& x, const Tensor& map, const WarpOptions& options = {}, Where where = Where::current());

struct RotateOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool bilinear = true;
  double fill = 0;
  bool expand = false;  // the result is large enough for all of the image
};
// Turned about its middle, counter-clockwise, by an angle in degrees.
Tensor rotate(const Tensor& x, double degrees, const RotateOptions& options = {}, Where where = Where::current());

struct AffineOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double degrees = 0;                      // clockwise, as torchvision's affine()
  std::vector<double> translate = {0, 0};  // to the right and down, in pixels
  double scale = 1;
  std::vector<double> shear = {0, 0};  // along x and y, in degrees
  bool bilinear = true;
  double fill = 0;
};
// Sheared, scaled and rotated about its middle, then moved: torchvision's affine().
Tensor affine(const Tensor& x, const AffineOptions& options, Where where = Where::current());
// The image such that the corners `from` move to `to`: each four points {x, y}. torchvision's perspective().
Tensor perspective(const Tensor& x, const std::vector<std::vector<double>>& from,
                   const std::vector<std::vector<double>>& to, const WarpOptions& options = {},
                   Where where = Where::current());

// --- Boxes (boxes.cpp) -----------------------------------------------------------------------------------------------

// Boxes are {top, left, bottom, right}, as TensorFlow's, along the last axis.

// The area of the intersection of each pair of boxes over that of their union: f32[n, m] of [n, 4] and [m, 4].
Tensor box_iou(const Tensor& a, const Tensor& b, Where where = Where::current());

struct SuppressionOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t max_boxes = INT64_MAX;
  double iou = 0.5;  // a box whose IoU with a better one is above this is left out
  double score = -std::numeric_limits<double>::infinity();  // as one with a lower or equal score
};
// Which of the boxes [n, 4] stay, the best score first: i64. Computed on the host, at once.
Tensor non_max_suppression(const Tensor& boxes, const Tensor& scores, const SuppressionOptions& options = {},
                           Where where = Where::current());
// Crops of images [batch, h, w, c] resized to one size: the boxes [n, 4], in which 0 and 1 are the middles of the first
// and last pixels, of the images `which` [n]. Bilinear; pixels outside are `fill`. TensorFlow's crop_and_resize.
Tensor crop_and_resize(const Tensor& images, const Tensor& boxes, const Tensor& which, const Dims& size,
                       double fill = 0, Where where = Where::current());
// The images [batch, h, w, c] with the edges of boxes [batch, n, 4], from 0 to 1, drawn one pixel wide in `colours` [m,
// c], one after the other. Boxes with swapped corners or outside are clipped as in TensorFlow.
Tensor draw_bounding_boxes(const Tensor& images, const Tensor& boxes, const Tensor& colours,
                           Where where = Where::current());

}  // namespace rill::images

#pragma GCC visibility pop
