// See conv_direct.h. Start at conv_direct().
#include "rill/devices/cpu/product/conv_direct.h"

#include <algorithm>
#include <optional>

#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/cpu/product/conv_tiles.h"
#include "rill/devices/cpu/product/packed_operands.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

namespace rill::cpu {
namespace {

// oneDNN is as fast if the channels do not fill a vector, or if an image's result has more elements than this.
constexpr int64_t fewest_channels = 16, largest_image = 1 << 15, most_pointwise = 1 << 20;

const float* floats(const Tensor& t) { return reinterpret_cast<const float*>(t.rep()->data); }

// The packed form of weights that never change; null if they may change.
template <class Layout, class Pack>
Ref<Buffer> packed_weights(const KernelArgs& args, const Layout& layout, int64_t size, Pack&& pack) {
  if (!args.packed) return {};
  const auto made = packed_operand(*args.packed, args.input(1), args.input(1).rep()->data, layout, [&] {
    Ref<Buffer> buffer = allocate(Device(), size_t(size) * sizeof(float));
    pack(static_cast<float*>(buffer->data));
    return buffer;
  });
  return made ? made->buffer : Ref<Buffer>();
}

// --- One pixel -------------------------------------------------------------------------------------------------------

// One pixel times few weights: oneDNN's overhead is several times the work. An element is summed in order of the
// channels, unless the result has only one (gemm.h).
bool is_pixel(const Sliding& s) {
  constexpr int64_t most_weights = 1 << 14;
  bool one = s.groups == 1 && s.batch == 1 && s.out_channels > 1 && s.in_channels * s.out_channels <= most_weights;
  for (int a = 0; a < 3; ++a) one &= s.window[a] == 1 && s.lo[a] == 0 && s.in[a] == 1 && s.out[a] == 1;
  return one && !deterministic();  // in deterministic mode oneDNN computes each image of a batch by itself
}

void run_pixel(const KernelArgs& args, const ConvParams& p, const Sliding& s, const Tensor& x) {
  const SpaceStrides w = weight_strides(args.input(1), p.layout);
  const Gemm g{1, s.out_channels, s.in_channels, s.in_channels, 1, w.inner, w.outer};
  const auto run = g.b_k == 1 && g.b_n != 1
                       ? [](const Gemm& g, const float* a, const float* b, float* c) { gemm_dots(g, a, b, c); }
                       : [](const Gemm& g, const float* a, const float* b, float* c) { gemm_small(g, a, b, c); };
  run(g, floats(x), args.in_data<float>(1), args.out_data<float>());
}

// --- Pointwise -------------------------------------------------------------------------------------------------------

// A window of one pixel over few pixels, which are the rows of a matrix: oneDNN's overhead, and its separate relu, cost
// more than its kernels save. (For many pixels it is faster by 2 to 30 percent.)
bool is_pointwise(const Sliding& s) {
  bool one = s.groups == 1 && s.in_channels >= fewest_channels && s.out_channels >= fewest_channels;
  int64_t work = s.batch * s.in_channels * s.out_channels;
  for (int a = 0; a < 3; ++a) {
    one &= s.window[a] == 1 && s.stride[a] == 1 && s.lo[a] == 0 && s.in[a] == s.out[a];
    work *= s.out[a];
  }
  return one && work <= most_pointwise && !deterministic();
}

struct PointWeights {
  int64_t in, out, inner, outer;
  friend bool operator==(const PointWeights&, const PointWeights&) = default;
};

bool run_pointwise(const KernelArgs& args, const ConvParams& p, const Sliding& s, const Tensor& x,
                   std::span<const TailStep> steps) {
  const detail::ForceOneThread one_thread;  // ten microseconds at most: other threads may take as long to start
  const SpaceStrides w = weight_strides(args.input(1), p.layout);
  const int64_t pixels = s.out[0] * s.out[1] * s.out[2];
  const float* const weights = args.in_data<float>(1);
  float* const y = args.out_data<float>();
  if (p.layout == Layout::nchw) {  // the weights times the pixels of an image, which are the columns here
    if (!steps.empty()) return false;
    const Gemm g{s.out_channels, pixels, s.in_channels, w.outer, w.inner, pixels, 1};
    for (int64_t i = 0; i < s.batch; ++i)
      gemm_blocked(
          GemmProduct<float>{g, weights, floats(x) + i * s.in_channels * pixels, y + i * s.out_channels * pixels});
    return true;
  }
  const Gemm g{s.batch * pixels, s.out_channels, s.in_channels, s.in_channels, 1, w.inner, w.outer};
  const Ref<Buffer> packed = packed_weights(args, PointWeights{s.in_channels, s.out_channels, w.inner, w.outer},
                                            packed_gemm_size(g), [&](float* to) { pack_gemm(g, weights, to); });
  SmallVec<const void*, 8> operands;
  gemm_blocked(GemmProduct<float>{g, floats(x), weights, y, tail_of(args, steps, operands),
                                  packed ? static_cast<const float*>(packed->data) : nullptr});
  return true;
}

// --- Depthwise -------------------------------------------------------------------------------------------------------

bool is_depthwise(const Sliding& s) {
  return s.groups >= fewest_channels && s.in_channels == s.groups && s.out_channels == s.groups && s.in[0] == 1 &&
         s.window[0] == 1 && s.out[0] == 1 && s.groups * s.out[1] * s.out[2] <= largest_image;
}

struct ChannelWeights {
  int64_t channels, window[2];
  int64_t outer, space[2];
  friend bool operator==(const ChannelWeights&, const ChannelWeights&) = default;
};

// The weights as dense [window, channels]; `keep` owns the copy, if one is made.
const float* weights_by_tap(const KernelArgs& args, const Sliding& s, const SpaceStrides& w, Ref<Buffer>& keep) {
  const float* const from = args.in_data<float>(1);
  const int64_t c = s.groups;
  const Shape shape{s.window[1], s.window[2], c};
  const Strides lie{w.space[1], w.space[2], w.outer}, dense{s.window[2] * c, c, 1};
  bool is_dense = w.outer == 1;
  for (int a = 0; a < 2; ++a) is_dense &= shape[size_t(a)] == 1 || lie[size_t(a)] == dense[size_t(a)];
  if (is_dense) return from;
  const auto pack = [&](float* to) { strided_copy(DType::f32, shape, from, lie, to, dense); };
  const int64_t size = shape.numel();
  keep = packed_weights(args, ChannelWeights{c, {s.window[1], s.window[2]}, w.outer, {w.space[1], w.space[2]}}, size,
                        pack);
  if (!keep) pack(static_cast<float*>((keep = allocate(Device(), size_t(size) * sizeof(float)))->data));
  return static_cast<const float*>(keep->data);
}

// Copies [batch, channels, pixels] to [batch, pixels, channels], or back.
void turn(const float* from, int64_t batch, int64_t rows, int64_t columns, float* to) {
  strided_copy(DType::f32, Shape{batch, columns, rows}, from, Strides{rows * columns, 1, columns}, to,
               Strides{rows * columns, rows, 1});
}

bool run_depthwise(const KernelArgs& args, const ConvParams& p, const Sliding& s, const Tensor& x,
                   std::span<const TailStep> steps) {
  const bool turned = p.layout == Layout::nchw;
  if (turned && !steps.empty()) return false;
  ConvChannels c{s.groups, {}, {}, {}, {}, {}, {}, floats(x), nullptr, args.out_data<float>(), {}};
  for (int a = 0; a < 2; ++a) {
    c.in[a] = s.in[a + 1], c.window[a] = s.window[a + 1], c.out[a] = s.out[a + 1];
    c.stride[a] = s.stride[a + 1], c.lo[a] = s.lo[a + 1], c.dilation[a] = s.dilation[a + 1];
  }
  SmallVec<const void*, 8> operands;
  c.tail = tail_of(args, steps, operands);
  Ref<Buffer> weights, last_x, last_y;
  c.w = weights_by_tap(args, s, weight_strides(args.input(1), p.layout), weights);
  const int64_t before = c.in[0] * c.in[1], after = c.out[0] * c.out[1];
  if (turned) {
    last_x = allocate(Device(), size_t(x.size()) * sizeof(float));
    last_y = allocate(Device(), size_t(args.output().size()) * sizeof(float));
    turn(c.x, s.batch, s.groups, before, static_cast<float*>(last_x->data));
    c.x = static_cast<float*>(last_x->data), c.y = static_cast<float*>(last_y->data);
  }
  // The cost of a row is its loads rather than its multiplications.
  const int64_t work = c.out[1] * s.groups * c.window[0] * c.window[1];
  parallel_for(s.batch * c.out[0], 1 + 2 * worth_a_thread / work,
               [&](int64_t begin, int64_t end) { conv_tiles<float>().channels(c, begin, end); });
  if (turned) turn(c.y, s.batch, after, s.groups, args.out_data<float>());
  return true;
}

}  // namespace

bool is_direct(const Sliding& s) { return is_pixel(s) || is_pointwise(s) || is_depthwise(s); }

bool conv_direct(const KernelArgs& args, std::span<const TailStep> steps) {
  const ConvParams& p = args.attrs.as<ConvParams>();
  const Sliding s = sliding(p, args.input(0).shape(), args.input(1).shape());
  const Tensor x = as_dense(args.input(0));
  if (is_depthwise(s)) return run_depthwise(args, p, s, x, steps);
  if (!is_pixel(s)) return run_pointwise(args, p, s, x, steps);
  if (steps.empty()) run_pixel(args, p, s, x);
  return steps.empty();
}

}  // namespace rill::cpu
