// See gif_palette.h.
#include "rill/data/images/gif_palette.h"

#include <algorithm>
#include <unordered_map>

namespace rill::images {
namespace {

struct Colour {
  uint32_t rgb;
  uint64_t count;
  uint32_t part(int c) const { return rgb >> (8 * (2 - c)) & 255; }
};

struct ColourBox {
  size_t begin, end;  // among the colours
  int longest = 0;    // the channel along which it reaches furthest
  uint64_t weight = 0;

  ColourBox(const std::vector<Colour>& all, size_t from, size_t to) : begin(from), end(to) {
    uint32_t reach = 0;
    uint64_t pixels = 0;
    for (int c = 0; c < 3; ++c) {
      uint32_t low = 255, high = 0;
      for (size_t i = from; i < to; ++i) low = std::min(low, all[i].part(c)), high = std::max(high, all[i].part(c));
      if (high - low > reach) reach = high - low, longest = c;
    }
    for (size_t i = from; i < to; ++i) pixels += all[i].count;
    weight = reach * pixels;  // which one is cut next
  }
};

// Cuts the box with the most in it, at the colour that halves its pixels, until there are 256.
std::vector<ColourBox> cut(std::vector<Colour>& colours) {
  std::vector<ColourBox> boxes = {ColourBox(colours, 0, colours.size())};
  while (boxes.size() < 256) {
    const auto most = std::ranges::max_element(boxes, {}, &ColourBox::weight);
    if (most->weight == 0) break;
    const ColourBox box = *most;
    const auto first = colours.begin() + ptrdiff_t(box.begin), last = colours.begin() + ptrdiff_t(box.end);
    std::sort(first, last, [c = box.longest](const Colour& a, const Colour& b) {
      return a.part(c) != b.part(c) ? a.part(c) < b.part(c) : a.rgb < b.rgb;
    });
    uint64_t all = 0, half = 0;
    for (auto i = first; i != last; ++i) all += i->count;
    size_t middle = box.begin;
    while (middle + 1 < box.end && (half += colours[middle].count) * 2 <= all) ++middle;
    middle = std::max(middle, box.begin + 1);
    *most = ColourBox(colours, box.begin, middle);
    boxes.push_back(ColourBox(colours, middle, box.end));
  }
  return boxes;
}

}  // namespace

IndexedImage indexed_image(const uint8_t* rgb, size_t pixels) {
  const auto colour_at = [&](size_t i) {
    return uint32_t(rgb[3 * i]) << 16 | uint32_t(rgb[3 * i + 1]) << 8 | rgb[3 * i + 2];
  };
  std::unordered_map<uint32_t, uint64_t> counts;
  for (size_t i = 0; i < pixels; ++i) ++counts[colour_at(i)];
  std::vector<Colour> colours;
  for (const auto& [colour, n] : counts) colours.push_back({colour, n});
  std::ranges::sort(colours, {}, &Colour::rgb);
  IndexedImage out = {{}, std::vector<uint8_t>(pixels)};
  std::unordered_map<uint32_t, uint8_t> index;
  const std::vector<ColourBox> boxes = cut(colours);
  for (size_t b = 0; b < boxes.size(); ++b) {
    uint64_t sum[3] = {}, n = 0;
    for (size_t i = boxes[b].begin; i < boxes[b].end; ++i) {
      for (int c = 0; c < 3; ++c) sum[c] += colours[i].part(c) * colours[i].count;
      n += colours[i].count;
      index[colours[i].rgb] = uint8_t(b);
    }
    for (int c = 0; c < 3; ++c) out.palette[b][size_t(c)] = uint8_t((sum[c] + n / 2) / n);
  }
  for (size_t i = 0; i < pixels; ++i) out.indices[i] = index[colour_at(i)];
  return out;
}

}  // namespace rill::images
