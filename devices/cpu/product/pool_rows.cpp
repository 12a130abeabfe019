// Pooling of dense f32 NHWC tensors: channels are independent, so a vector holds neighbouring channels, and plain loops
// run over the windows. Bound by memory: gradients find the maxima again instead of loading them.
// Start at Windows, the iteration that all five kernels share.
#include "rill/devices/cpu/product/pool.h"

#include <algorithm>
#include <cstring>

#include "rill/devices/threads.h"
#include "rill/tensor/small_vec.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/product/pool_rows.cpp"
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | (HWY_AVX3 - 1) | RILL_SVE_TARGETS)
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>

#include "rill/devices/kernel/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace rill::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// The part of a window inside the input, one window at a time, from window `first` of the flattened output
// space on.
struct Windows {
  const Sliding& s;
  int64_t lo[3], hi[3];          // positions in the input, [lo, hi)
  int64_t at[3];                 // in the output space
  int64_t base = 0;              // offset of the window's first element
  bool is_inside = false;        // the window is inside the input
  SmallVec<int64_t, 16> offset;  // of its elements, relative to the first; empty if it cannot be inside

  Windows(const Sliding& sliding, int64_t first) : s(sliding) {
    for (int a = 3; a-- > 0; first /= s.out[a]) at[a] = first % s.out[a];
    const bool fits = s.window[0] <= s.in[0] && s.window[1] <= s.in[1] && s.window[2] <= s.in[2];
    for (int64_t i = 0; fits && i < s.window[0]; ++i)
      for (int64_t j = 0; j < s.window[1]; ++j)
        for (int64_t k = 0; k < s.window[2]; ++k) offset.push_back((i * s.in[1] + j) * s.in[2] + k);
    update();
  }
  void next() {
    for (int a = 3; a-- > 0;) {
      if (++at[a] < s.out[a]) break;
      at[a] = 0;
    }
    update();
  }
  int64_t inside() const { return (hi[0] - lo[0]) * (hi[1] - lo[1]) * (hi[2] - lo[2]); }
  // f(offset in channels' rows of the input) for every element inside, row-major.
  template <class F>
  HWY_INLINE void each(F&& f) const {
    if (is_inside) {
      for (int64_t o : offset) f(base + o);
      return;
    }
    for (int64_t i = lo[0]; i < hi[0]; ++i)
      for (int64_t j = lo[1]; j < hi[1]; ++j)
        for (int64_t k = lo[2]; k < hi[2]; ++k) f((i * s.in[1] + j) * s.in[2] + k);
  }

 private:
  void update() {
    is_inside = true;
    for (int a = 0; a < 3; ++a) {
      const int64_t start = at[a] * s.stride[a] - s.lo[a], end = start + s.window[a];
      lo[a] = std::max<int64_t>(start, 0);
      hi[a] = std::min(end, s.in[a]);
      is_inside = is_inside && lo[a] == start && hi[a] == end;
    }
    base = (lo[0] * s.in[1] + lo[1]) * s.in[2] + lo[2];
  }
};

int64_t in_size(const Sliding& s) { return s.in[0] * s.in[1] * s.in[2]; }
int64_t out_size(const Sliding& s) { return s.out[0] * s.out[1] * s.out[2]; }
// With padding a window may be larger than any image, and its element count larger than any integer.
double window_size(const Sliding& s) { return double(s.window[0]) * double(s.window[1]) * double(s.window[2]); }

// Channels in groups of one vector; the last may be shorter.
HWY_INLINE V load(const float* p, size_t n) { return load_up_to(D(), p, n); }
HWY_INLINE void store(V v, float* p, size_t n) { store_up_to(D(), v, p, n); }

// f(image, first window, past the last) in parallel over images, and also over windows if `split_windows`.
template <class F>
void each_image(const Sliding& s, bool split_windows, F&& f) {
  const int64_t windows = out_size(s);
  const double cost = double(windows) * window_size(s) * double(s.in_channels) + 1;
  if (split_windows && s.batch < 2 * num_threads())
    parallel_for(s.batch * windows, 1 + int64_t(32768 * double(windows) / cost), [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end;) {
        const int64_t n = at / windows, stop = std::min(end, (n + 1) * windows);
        f(n, at - n * windows, stop - n * windows);
        at = stop;
      }
    });
  else
    parallel_for(s.batch, 1 + int64_t(32768 / cost), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) f(n, int64_t(0), windows);
    });
}

// Elements of a window, counted in order: a float would count no further than 2^24.
using Indices = hn::RebindToUnsigned<D>;
HWY_INLINE hn::Mask<D> is_at(hn::Vec<Indices> index, uint32_t i) {
  return hn::RebindMask(D(), hn::Eq(index, hn::Set(Indices(), i)));
}

// The largest element of a window for each channel, and its index: the first of equals, the first NaN.
struct Largest {
  V value;
  hn::Vec<Indices> index;
};
HWY_INLINE Largest largest(const Windows& w, const float* x, int64_t channels, size_t n) {
  const D d;
  const Indices di;
  Largest best{hn::Zero(d), hn::Zero(di)};
  uint32_t index = 0;
  w.each([&](int64_t at) HWY_ATTR {
    const V v = load(x + at * channels, n);
    if (index == 0) {
      best.value = v;
    } else {
      const auto wins = hn::Or(hn::Gt(v, best.value), hn::AndNot(hn::IsNaN(best.value), hn::IsNaN(v)));
      best.value = hn::IfThenElse(wins, v, best.value);
      best.index = hn::IfThenElse(hn::RebindMask(di, wins), hn::Set(di, index), best.index);
    }
    ++index;
  });
  return best;
}

template <class F>
HWY_INLINE void each_vector(int64_t channels, F&& f) {
  const int64_t lanes = int64_t(hn::Lanes(D()));
  for (int64_t c = 0; c < channels; c += lanes) f(c, size_t(std::min(lanes, channels - c)));
}

void max_kernel(const PoolJob& job) {
  const Sliding& s = job.s;
  const int64_t channels = s.in_channels;
  each_image(s, true, [&](int64_t n, int64_t begin, int64_t end) HWY_ATTR {
    Windows w(s, begin);
    const float* x = job.x + n * in_size(s) * channels;
    for (int64_t p = begin; p < end; ++p, w.next()) {
      float* out = job.out + (n * out_size(s) + p) * channels;
      each_vector(channels, [&](int64_t c, size_t count) HWY_ATTR {
        const D d;
        V best = hn::Zero(d);
        bool first = true;
        w.each([&](int64_t at) HWY_ATTR {
          const V v = load(x + at * channels + c, count);
          best = first ? v : hn::IfThenElse(hn::Or(hn::Gt(v, best), hn::IsNaN(v)), v, best);
          first = false;
        });
        store(best, out + c, count);
      });
    }
  });
}

void max_pick_kernel(const PoolJob& job) {
  const Sliding& s = job.s;
  const int64_t channels = s.in_channels;
  each_image(s, true, [&](int64_t n, int64_t begin, int64_t end) HWY_ATTR {
    Windows w(s, begin);
    const float* x = job.x + n * in_size(s) * channels;
    const float* from = job.y + n * in_size(s) * channels;
    for (int64_t p = begin; p < end; ++p, w.next()) {
      float* out = job.out + (n * out_size(s) + p) * channels;
      each_vector(channels, [&](int64_t c, size_t count) HWY_ATTR {
        const auto largest_index = largest(w, x + c, channels, count).index;
        V picked = hn::Zero(D());
        uint32_t index = 0;
        w.each([&](int64_t at) HWY_ATTR {
          picked = hn::IfThenElse(is_at(largest_index, index++), load(from + at * channels + c, count), picked);
        });
        store(picked, out + c, count);
      });
    }
  });
}

// Windows that tile the input exactly write each element once; others add to zeros, with one thread for each image.
void max_grad_kernel(const PoolJob& job) {
  const Sliding& s = job.s;
  const int64_t channels = s.in_channels;
  bool tiles = true;
  for (int a = 0; a < 3; ++a)
    tiles = tiles && s.stride[a] == s.window[a] && s.lo[a] == 0 && s.out[a] * s.stride[a] == s.in[a];
  each_image(s, tiles, [&](int64_t n, int64_t begin, int64_t end) HWY_ATTR {
    Windows w(s, begin);
    const float* x = job.x + n * in_size(s) * channels;
    float* out = job.out + n * in_size(s) * channels;
    if (!tiles) std::memset(out, 0, size_t(in_size(s) * channels) * sizeof(float));
    for (int64_t p = begin; p < end; ++p, w.next()) {
      const float* cotangent = job.y + (n * out_size(s) + p) * channels;
      each_vector(channels, [&](int64_t c, size_t count) HWY_ATTR {
        const auto largest_index = largest(w, x + c, channels, count).index;
        const V g = load(cotangent + c, count);
        uint32_t index = 0;
        w.each([&](int64_t at) HWY_ATTR {
          float* to = out + at * channels + c;
          V v = hn::IfThenElseZero(is_at(largest_index, index++), g);
          if (!tiles) v = hn::Add(load(to, count), v);
          store(v, to, count);
        });
      });
    }
  });
}

void avg_kernel(const PoolJob& job) {
  const Sliding& s = job.s;
  const int64_t channels = s.in_channels;
  each_image(s, true, [&](int64_t n, int64_t begin, int64_t end) HWY_ATTR {
    Windows w(s, begin);
    const float* x = job.x + n * in_size(s) * channels;
    for (int64_t p = begin; p < end; ++p, w.next()) {
      const float divisor = float(job.count_include_pad ? window_size(s) : w.inside());
      float* out = job.out + (n * out_size(s) + p) * channels;
      each_vector(channels, [&](int64_t c, size_t count) HWY_ATTR {
        V sum = hn::Zero(D());
        if (w.inside() <= window_block) {
          w.each([&](int64_t at) HWY_ATTR { sum = hn::Add(sum, load(x + at * channels + c, count)); });
        } else {
          V block = hn::Zero(D());
          int64_t added = 0;
          w.each([&](int64_t at) HWY_ATTR {
            block = hn::Add(block, load(x + at * channels + c, count));
            if (++added % window_block != 0) return;
            sum = hn::Add(sum, block), block = hn::Zero(D());
          });
          sum = hn::Add(sum, block);
        }
        store(hn::Div(sum, hn::Set(D(), divisor)), out + c, count);
      });
    }
  });
}

void avg_grad_kernel(const PoolJob& job) {
  const Sliding& s = job.s;
  const int64_t channels = s.in_channels;
  each_image(s, false, [&](int64_t n, int64_t begin, int64_t end) HWY_ATTR {
    Windows w(s, begin);
    float* out = job.out + n * in_size(s) * channels;
    std::memset(out, 0, size_t(in_size(s) * channels) * sizeof(float));
    for (int64_t p = begin; p < end; ++p, w.next()) {
      const float divisor = float(job.count_include_pad ? window_size(s) : w.inside());
      const float* cotangent = job.y + (n * out_size(s) + p) * channels;
      each_vector(channels, [&](int64_t c, size_t count) HWY_ATTR {
        const V g = hn::Div(load(cotangent + c, count), hn::Set(D(), divisor));
        w.each([&](int64_t at) HWY_ATTR {
          float* to = out + at * channels + c;
          store(hn::Add(load(to, count), g), to, count);
        });
      });
    }
  });
}

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {
HWY_EXPORT(max_kernel);
HWY_EXPORT(max_pick_kernel);
HWY_EXPORT(max_grad_kernel);
HWY_EXPORT(avg_kernel);
HWY_EXPORT(avg_grad_kernel);
void max_pool_rows(const PoolJob& job) { HWY_DYNAMIC_DISPATCH(max_kernel)(job); }
void max_pool_pick_rows(const PoolJob& job) { HWY_DYNAMIC_DISPATCH(max_pick_kernel)(job); }
void max_pool_grad_rows(const PoolJob& job) { HWY_DYNAMIC_DISPATCH(max_grad_kernel)(job); }
void avg_pool_rows(const PoolJob& job) { HWY_DYNAMIC_DISPATCH(avg_kernel)(job); }
void avg_pool_grad_rows(const PoolJob& job) { HWY_DYNAMIC_DISPATCH(avg_grad_kernel)(job); }
}  // namespace rill::cpu
#endif
