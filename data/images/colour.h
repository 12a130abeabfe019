// The colours of images. Values are in [0, 1] for floats and in [0, 255] for u8 (65535 for u16); results have the
// image's dtype, integers rounded and clamped, unless stated otherwise. Images are [..., height, width, channels].
// Composed of public functions, so that they have derivatives and work inside `function`, except equalize().
#pragma once
#include <vector>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill::images {

// Converted to another dtype and its scale: u8 200 is 200 / 255 as f32. Floats below 0 or above 1 are clamped.
Tensor convert_dtype(const Tensor& x, DType dtype, Where where = Where::current());

// --- Colour spaces (colour_spaces.cpp) -------------------------------------------------------------------------------

// 0.299 R + 0.587 G + 0.114 B, one channel. Integers with Pillow's weights, (19595 R + 38470 G + 7471 B + 2^15) / 2^16.
Tensor rgb_to_grayscale(const Tensor& x, Where where = Where::current());
// The one channel three times.
Tensor grayscale_to_rgb(const Tensor& x, Where where = Where::current());
// To these and back, 3 channels each. Integers become f32 from 0 to 1. hue, saturation, value: all from 0 to 1.
Tensor rgb_to_hsv(const Tensor& x, Where where = Where::current());
Tensor hsv_to_rgb(const Tensor& x, Where where = Where::current());
// BT.601, as TensorFlow has them: Y from 0 to 1, the others around 0.
Tensor rgb_to_yuv(const Tensor& x, Where where = Where::current());
Tensor yuv_to_rgb(const Tensor& x, Where where = Where::current());
Tensor rgb_to_yiq(const Tensor& x, Where where = Where::current());
Tensor yiq_to_rgb(const Tensor& x, Where where = Where::current());
// JPEG's (JFIF 1.02): all from 0 to 1, 1/2 being no colour.
Tensor rgb_to_ycbcr(const Tensor& x, Where where = Where::current());
Tensor ycbcr_to_rgb(const Tensor& x, Where where = Where::current());
// CIE L*a*b* of sRGB (IEC 61966-2-1) by daylight, D65 and 2 degrees: L from 0 to 100.
Tensor rgb_to_lab(const Tensor& x, Where where = Where::current());
Tensor lab_to_rgb(const Tensor& x, Where where = Where::current());

// --- Adjustments, as TensorFlow's of these names (adjust.cpp) ----------------------------------------------------------

// x + delta, on the scale from 0 to 1; floats are not cut off.
Tensor adjust_brightness(const Tensor& x, const Tensor& delta, Where where = Where::current());
// (x - mean) factor + mean, of each channel's mean over an image.
Tensor adjust_contrast(const Tensor& x, const Tensor& factor, Where where = Where::current());
// Saturation times factor, hue plus delta (whole turns), by way of HSV. 3 channels.
Tensor adjust_saturation(const Tensor& x, const Tensor& factor, Where where = Where::current());
Tensor adjust_hue(const Tensor& x, const Tensor& delta, Where where = Where::current());
// gain x^gamma, on the scale from 0 to 1.
Tensor adjust_gamma(const Tensor& x, double gamma = 1, double gain = 1, Where where = Where::current());

// --- Enhancements, as Pillow's ImageEnhance and torchvision's adjust_*() (adjust.cpp) ----------------------------------

// factor x + (1 - factor) other, clamped to the scale; integers are truncated, as in Pillow. 0 gives the other image, 1
// this one. `other` is black; its mean grey; the image in grey; the image smoothed by 3 x 3 pixels.
Tensor enhance_brightness(const Tensor& x, const Tensor& factor, Where where = Where::current());
Tensor enhance_contrast(const Tensor& x, const Tensor& factor, Where where = Where::current());
Tensor enhance_color(const Tensor& x, const Tensor& factor, Where where = Where::current());
Tensor enhance_sharpness(const Tensor& x, const Tensor& factor, Where where = Where::current());

// --- Of all pixels alike (tones.cpp) -----------------------------------------------------------------------------------

// (x - mean) / stddev of each channel, on the scale from 0 to 1: f32 (floats stay what they are).
Tensor normalize(const Tensor& x, const std::vector<double>& mean, const std::vector<double>& stddev,
                 Where where = Where::current());
// Each image less its mean, over its standard deviation, or over 1 / sqrt(number of values) where that is larger:
// TensorFlow's per_image_standardization. f32.
Tensor standardize(const Tensor& x, Where where = Where::current());
Tensor invert(const Tensor& x, Where where = Where::current());  // white - x
// The upper `bits` of 8, the others 0. u8.
Tensor posterize(const Tensor& x, int bits, Where where = Where::current());
// Inverted where x >= threshold (on the image's own scale).
Tensor solarize(const Tensor& x, double threshold, Where where = Where::current());
// Each channel stretched from black to white. Of u8 with Pillow's bits.
Tensor autocontrast(const Tensor& x, Where where = Where::current());
// Each channel such that all values are about as frequent. u8, with Pillow's bits; computed on the host, at once.
Tensor equalize(const Tensor& x, Where where = Where::current());
// Blurred by a Gaussian of `size` {height, width} pixels, odd, mirrored at the edges; sigma 0: 0.15 size + 0.35, as
// torchvision.
Tensor gaussian_blur(const Tensor& x, const Dims& size, double sigma = 0, Where where = Where::current());

}  // namespace rill::images

#pragma GCC visibility pop
