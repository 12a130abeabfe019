// What the elements of an image are as bytes.
#pragma once
#include <cstdint>
#include <vector>

#include "rill/summary.h"

namespace rill {

// All of images [n,h,w,c], of u8, another integer or floating dtype.
std::vector<uint8_t> pixels_of(const Tensor& images, summary::ImageScale scale);

}  // namespace rill
