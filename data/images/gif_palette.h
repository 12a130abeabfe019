// A palette of 256 colours for an image, and each pixel's index in it.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rill::images {

struct IndexedImage {
  std::array<std::array<uint8_t, 3>, 256> palette;
  std::vector<uint8_t> indices;
};
// Exact for at most 256 colours; else by median cut (Heckbert: Color Image Quantization, 1982), and each pixel becomes
// the mean of its box.
IndexedImage indexed_image(const uint8_t* rgb, size_t pixels);

}  // namespace rill::images
