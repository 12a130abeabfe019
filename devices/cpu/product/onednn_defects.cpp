// The workarounds that are functions; the list is onednn_defects.h.
#include "rill/devices/cpu/product/onednn_defects.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "rill/devices/threads.h"

namespace rill::cpu::onednn {

namespace {

// Whether, along the first axis, a window starts before the input, and the first that starts within it ends behind it.
bool is_padded_around(const Sliding& s) {
  const int64_t inside = (s.stride[0] - s.lo[0] % s.stride[0]) % s.stride[0];
  return s.lo[0] > 0 && inside + (s.window[0] - 1) * s.dilation[0] >= s.in[0];
}

// Whether, along an axis, the input is padded in front and does not end within the last window.
bool is_padded_and_left(const Sliding& s) {
  for (int a = 0; a < 3; ++a) {
    const int64_t last_end = (s.out[a] - 1) * s.stride[a] - s.lo[a] + (s.window[a] - 1) * s.dilation[a] + 1;
    if (s.lo[a] > 0 && last_end < s.in[a]) return true;
  }
  return false;
}

}  // namespace

bool is_wrong(ConvResult which, DType dtype, const Sliding& s) {
  if (which == ConvResult::weight && is_padded_around(s)) return true;
  if (which == ConvResult::forward && is_half(dtype) && is_padded_and_left(s)) return true;
  if (which == ConvResult::weight && is_half(dtype) && s.stride[2] > s.in[2]) return true;
  constexpr int64_t most_lanes = 16;
  const auto is_one = [](int64_t n) { return n == 1; };
  return which == ConvResult::weight && s.in_channels / s.groups < most_lanes &&
         std::ranges::all_of(s.window, is_one) && !std::ranges::all_of(s.stride, is_one);
}

bool multiplies_padding(ConvResult which, const ConvParams& p, const Sliding& s) {
  const auto is_zero = [](int64_t n) { return n == 0; };
  const auto is_one = [](int64_t n) { return n == 1; };
  if (!std::ranges::all_of(p.pads_lo, is_zero) || !std::ranges::all_of(p.pads_hi, is_zero)) return true;
  // The gradient by the input also reads beyond the cotangent, and between its strides.
  return which == ConvResult::input &&
         !(std::ranges::all_of(s.window, is_one) && std::ranges::all_of(s.stride, is_one));
}

bool multiplies_neighbours(ConvResult which, DType dtype, const Sliding& s) {
  const auto is_odd = [](int64_t n) { return n % 2 != 0; };
  const int64_t summed = (which == ConvResult::forward ? s.in_channels : s.out_channels) / s.groups;
  if (which == ConvResult::weight) return is_half(dtype) && (is_odd(s.in[2]) || is_odd(s.out[2]));
  return is_half(dtype) && is_odd(summed);
}

bool crawls(std::string_view name, const Sliding& s) {
  constexpr int64_t many_channels = 8, wide_window = 4096;
  const int64_t taps = s.window[0] * s.window[1] * s.window[2];
  return name.find("gemm") != name.npos && taps * (s.in_channels / s.groups) > wide_window &&
         std::max(s.in_channels, s.out_channels) < many_channels * s.groups;
}

namespace {
// Loops that compilers vectorise: no early exit, and one operation for each element.
bool finite_floats(const float* x, int64_t n) {
  uint32_t any = 0;
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, sizeof(bits));
    any |= uint32_t((bits & 0x7f800000u) == 0x7f800000u);
  }
  return !any;
}
bool finite_halves(const uint16_t* bits, int64_t n, uint16_t infinite) {
  uint16_t any = 0;
  for (int64_t i = 0; i < n; ++i) any |= uint16_t((bits[i] & infinite) == infinite);
  return !any;
}
}  // namespace

bool all_finite(const Tensor& operand) {
  const char* data = operand.rep()->data;
  const DType d = operand.dtype();
  std::atomic<bool> finite{true};
  parallel_for(operand.size(), 1 << 18, [&](int64_t begin, int64_t end) {
    const bool part = d == DType::f32 ? finite_floats(reinterpret_cast<const float*>(data) + begin, end - begin)
                                      : finite_halves(reinterpret_cast<const uint16_t*>(data) + begin, end - begin,
                                                      d == DType::bf16 ? 0x7f80 : 0x7c00);
    if (!part) finite = false;
  });
  return finite;
}

bool meets_input(const Sliding& s, size_t axis, int64_t tap) {
  for (int64_t o = 0; o < s.out[axis]; ++o) {
    const int64_t at = o * s.stride[axis] + tap * s.dilation[axis] - s.lo[axis];
    if (at >= 0 && at < s.in[axis]) return true;
  }
  return false;
}

namespace {
// The taps that only read padding, row-major over the window; `taps`: the number of all taps.
std::vector<int64_t> unmet_taps(const Sliding& s, int64_t& taps) {
  std::vector<bool> met{true};
  bool all = true;
  for (size_t a = 0; a < 3; ++a) {
    std::vector<bool> along, with;
    for (int64_t i = 0; i < s.window[a]; ++i) along.push_back(meets_input(s, a, i)), all &= along.back();
    for (const bool before : met)
      for (const bool now : along) with.push_back(before && now);
    met = std::move(with);
  }
  taps = int64_t(met.size());
  std::vector<int64_t> unmet;
  for (int64_t i = 0; i < taps && !all; ++i)
    if (!met[size_t(i)]) unmet.push_back(i);
  return unmet;
}
}  // namespace

void clear_unmet(const ConvParams& p, const Sliding& s, Tensor& w) {
  int64_t taps;
  const std::vector<int64_t> unmet = unmet_taps(s, taps);
  const int64_t size = int64_t(size_of(w.dtype())), pairs = unmet.empty() ? 0 : w.size() / taps;
  char* data = w.mutable_rep()->data;
  if (p.layout == Layout::nchw) {  // all taps of a pair of channels are contiguous
    parallel_for(pairs, 1 << 13, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        for (int64_t i : unmet) std::memset(data + (k * taps + i) * size, 0, size_t(size));
    });
    return;
  }
  parallel_for(int64_t(unmet.size()) * pairs, 1 << 16, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end;) {
      const int64_t tap = unmet[size_t(at / pairs)], n = std::min(end - at, pairs - at % pairs);
      std::memset(data + (tap * pairs + at % pairs) * size, 0, size_t(n * size));
      at += n;
    }
  });
}

}  // namespace rill::cpu::onednn
