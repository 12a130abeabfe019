// Convolution and its gradients on oneDNN, or on rill's own kernels where oneDNN has none or ours is faster: a product
// of matrices (run_product), conv_direct.h or conv_tiles.h; kernel_for() chooses.
//
// Activations are passed to oneDNN in NHWC, which was measured to be within a few percent of its own blocked formats.
// Those in another order are reordered first, so that a convolution has the same bits in NCHW and in NHWC, and
// trace/fusion/channels_last.h may replace one by the other. Weights are always reordered into the format that the
// primitive asks for: with plain weights it falls back to a reference kernel, 300 times slower. Start at run().
#include <algorithm>
#include <cstring>

#include "rill/devices/cpu/elementwise/through_f32.h"
#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/cpu/product/conv_direct.h"
#include "rill/devices/cpu/product/conv_tiles.h"
#include "rill/devices/cpu/product/gemm.h"
#include "rill/devices/cpu/product/onednn.h"
#include "rill/devices/cpu/product/onednn_defects.h"
#include "rill/devices/params/contraction_tail.h"
#include "rill/devices/params/conv_params.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

namespace rill::cpu {
namespace {

// The three tensors of a convolution and of its gradients: one of them is the result, the other two are operands.
struct Factors {
  const Tensor &x, &w, &y;
  Factors(const KernelArgs& args, ConvResult which) : Factors(args.input(0), args.input(1), args.output(), which) {}
  Factors(const Tensor& a, const Tensor& b, const Tensor& out, ConvResult which)
      : x(which == ConvResult::input ? out : a),
        w(which == ConvResult::weight ? out : b),
        y(which == ConvResult::forward ? out
          : which == ConvResult::input ? a
                                       : b) {}
};

// A batch of images of one pixel is a matrix, and its convolution a product with the weights of the one tap that reads
// the pixel. Returns that tap's offset in the weights, or -1 if this is not such a convolution. A product reads weights
// in place, which oneDNN would copy into another layout.
int64_t tap_of_product(const ConvParams& p, const Factors& f, const Sliding& s) {
  constexpr int64_t least_batch = 32;
  if (s.groups != 1 || s.batch < least_batch || deterministic()) return -1;
  const SpaceStrides w = weight_strides(f.w, p.layout);
  int64_t offset = 0;
  for (int a = 0; a < 3; ++a) {
    const int64_t tap = s.lo[a] / s.dilation[a];
    if (s.in[a] != 1 || s.out[a] != 1 || s.lo[a] % s.dilation[a] != 0 || tap >= s.window[a]) return -1;
    offset += tap * w.space[a];
  }
  return offset;
}

void run_product(const KernelArgs& args, ConvResult which) {
  const ConvParams& p = args.attrs.as<ConvParams>();
  const Factors f(args, which);
  const Sliding s = sliding(p, f.x.shape(), f.w.shape());
  const int64_t tap = tap_of_product(p, f, s);
  const int64_t batch = f.x.shape()[0], in = args.input(0).size() / batch, n = args.output().size();
  const SpaceStrides x = activation_strides(f.x, p.layout), w = weight_strides(f.w, p.layout),
                     y = activation_strides(f.y, p.layout);
  const float *a = args.in_data<float>(0), *b = args.in_data<float>(1);
  float* const to = args.out_data<float>();
  if (which == ConvResult::forward) {
    gemm({batch, n / batch, in, x.outer, x.inner, w.inner, w.outer}, a, b + tap, to);
  } else if (which == ConvResult::input) {
    gemm({batch, n / batch, in, y.outer, y.inner, w.outer, w.inner}, a, b + tap, to);
  } else {
    const int64_t out = args.input(1).size() / batch;
    const bool dense = w.outer == 1 && w.inner == out;
    const Ref<Buffer> copy = dense ? Ref<Buffer>() : allocate(Device(), size_t(in * out) * sizeof(float));
    float* const c = dense ? to + tap : static_cast<float*>(copy->data);
    gemm({in, out, batch, x.inner, x.outer, y.outer, y.inner}, a, b, c);
    if (!dense) strided_copy(DType::f32, Shape{in, out}, c, Strides{out, 1}, to + tap, Strides{w.inner, w.outer});
    onednn::clear_unmet(p, s, args.output());
  }
}

// Whether the kernel of conv_tiles.h is the faster one for f32. oneDNN computes one image after another, and reads all
// weights for each; for images of a few pixels ours computes many together, and skips the padding around them. (With
// 4x4 pixels and a window of 3x3, oneDNN takes half as long.)
bool prefers_own(const Sliding& s, ConvResult which) {
  const auto product = [](const int64_t(&n)[3]) { return n[0] * n[1] * n[2]; };
  const int64_t in = product(s.in), out = product(s.out), taps = product(s.window);
  constexpr int64_t few_pixels = 4, least_pixels = 64, enough_channels = 16;
  if (s.groups != 1 || deterministic() || out > few_pixels || s.batch * out < least_pixels ||
      std::min(s.in_channels, s.out_channels) < enough_channels)
    return false;
  return which == ConvResult::weight ? taps > 1 || out == 1 : taps == 1 || in <= few_pixels;
}

// Which kernels compute a convolution. The dtype and sizes alone decide, so a fused tail changes no bits.
enum class ConvKernel { product, own, direct, onednn };

ConvKernel kernel_for(const KernelArgs& args, ConvResult which) {
  if (args.output().dtype() != DType::f32)
    return args.output().dtype() == DType::f64 ? ConvKernel::own : ConvKernel::onednn;
  const ConvParams& p = args.attrs.as<ConvParams>();
  const Factors f(args, which);
  const Sliding s = sliding(p, f.x.shape(), f.w.shape());
  if (tap_of_product(p, f, s) >= 0) return ConvKernel::product;
  if (prefers_own(s, which)) return ConvKernel::own;
  return which == ConvResult::forward && is_direct(s) ? ConvKernel::direct : ConvKernel::onednn;
}

}  // namespace
}  // namespace rill::cpu

#ifdef RILL_HAVE_ONEDNN
#include <atomic>
#include <optional>
#include <string>

namespace rill::cpu {
namespace {

struct Problem {
  ConvResult which;
  DType dtype;
  ConvParams p;
  Sliding s;
  size_t n;              // the number of spatial axes
  SpaceStrides x, w, y;  // strides of the operands and the result
  std::span<const TailStep> tail = {};
  bool packs_weight = false;  // the weights never change and are reordered only once
  int64_t skipped = 0;        // offset of the first remaining tap in the weights: trim_window()

  Dims space(const int64_t (&of)[3]) const { return Dims(of + 3 - n, of + 3); }
};

using dnnl::memory;

// Descriptions of the three operands as stored, of the activations in NHWC, and with a format of oneDNN's choice.
struct Descriptions {
  memory::desc x, w, y, plain_x, plain_y, any_x, any_w, any_y;
};

memory::dims list(std::initializer_list<int64_t> first, const Dims& rest) {
  memory::dims d(first);
  d.insert(d.end(), rest.begin(), rest.end());
  return d;
}

// Strides of a dense [batch, channels, space...] tensor that is stored in the order batch, space..., channels.
memory::dims channels_last(const memory::dims& sizes) {
  memory::dims out(sizes.size());
  out[1] = 1;
  int64_t stride = sizes[1];
  for (size_t i = sizes.size(); i-- > 2; stride *= sizes[i]) out[i] = stride;
  out[0] = stride;
  return out;
}

// `strides`, but those of `plain` for axes of one element, whose strides are arbitrary: equal layouts then compare
// equal.
memory::dims normalised(memory::dims strides, const memory::dims& plain, const memory::dims& sizes) {
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] == 1) strides[i] = plain[i];
  return strides;
}

Descriptions describe(const Problem& q) {
  const Sliding& s = q.s;
  const memory::data_type type = onednn::data_type(q.dtype);
  const memory::dims x = list({s.batch, s.in_channels}, q.space(s.in)),
                     y = list({s.batch, s.out_channels}, q.space(s.out)), plain_x = channels_last(x),
                     plain_y = channels_last(y);
  const int64_t in = s.in_channels / s.groups, out = s.out_channels / s.groups;
  memory::dims w = list({out, in}, q.space(s.window)), weight = list({q.w.outer, q.w.inner}, q.space(q.w.space));
  weight = normalised(weight, memory::dims(w.size(), 1), w);
  if (s.groups > 1) w.insert(w.begin(), s.groups), weight.insert(weight.begin(), q.w.outer * out);
  const auto strides = [&](const SpaceStrides& of, const memory::dims& plain, const memory::dims& sizes) {
    return normalised(list({of.outer, of.inner}, q.space(of.space)), plain, sizes);
  };
  const auto any = memory::format_tag::any;
  return {{x, type, strides(q.x, plain_x, x)},
          {w, type, weight},
          {y, type, strides(q.y, plain_y, y)},
          {x, type, plain_x},
          {y, type, plain_y},
          {x, type, any},
          {w, type, any},
          {y, type, any}};
}

// A primitive of any of the three kinds.
struct Chosen {
  memory::desc x, w, y, scratchpad;
  dnnl::primitive primitive;
  bool slow;  // oneDNN's reference kernel, or one that crawls()
};

Chosen choose(const Problem& q, const Descriptions& d, bool plain) {
  using namespace dnnl;
  const memory::desc &x = plain ? d.plain_x : d.any_x, &w = d.any_w, &y = plain ? d.plain_y : d.any_y;
  memory::dims strides, dilation, lo, hi;
  for (size_t i = 0; i < q.n; ++i) {
    strides.push_back(q.p.strides[i]);
    dilation.push_back(q.s.window[i + 3 - q.n] == 1 ? 0 : int64_t(q.p.dilation[i]) - 1);
    lo.push_back(q.p.pads_lo[i]);
    hi.push_back(q.p.pads_hi[i]);
  }
  const auto direct = algorithm::convolution_direct;
  const primitive_attr attr = onednn::with_tail(q.tail, d.y, 1);
  const engine& e = onednn::engine();
  const convolution_forward::primitive_desc forward(e, prop_kind::forward_training, direct, x, w, y, strides, dilation,
                                                    lo, hi, attr);
  auto chosen = [&](const auto& pd, memory::desc px, memory::desc pw, memory::desc py, primitive made) {
    const std::string name = pd.impl_info_str();
    return Chosen{px, pw, py, pd.scratchpad_desc(), made, onednn::is_reference(name) || onednn::crawls(name, q.s)};
  };
  switch (q.which) {
    case ConvResult::forward:
      return chosen(forward, forward.src_desc(), forward.weights_desc(), forward.dst_desc(),
                    convolution_forward(forward));
    case ConvResult::input: {
      const convolution_backward_data::primitive_desc pd(e, direct, x, w, y, strides, dilation, lo, hi, forward, attr);
      return chosen(pd, pd.diff_src_desc(), pd.weights_desc(), pd.diff_dst_desc(), convolution_backward_data(pd));
    }
    default: {
      const convolution_backward_weights::primitive_desc pd(e, direct, x, w, y, strides, dilation, lo, hi, forward,
                                                            attr);
      return chosen(pd, pd.src_desc(), pd.diff_weights_desc(), pd.diff_dst_desc(), convolution_backward_weights(pd));
    }
  }
}

void add_reorder(onednn::Call& call, const memory::desc& from, int from_memory, const memory::desc& to, int to_memory) {
  const dnnl::reorder::primitive_desc pd(onednn::engine(), from, onednn::engine(), to, onednn::user_scratchpad());
  call.add_step(dnnl::reorder(pd), pd.scratchpad_desc(), {{DNNL_ARG_FROM, from_memory}, {DNNL_ARG_TO, to_memory}});
}

// Slots: the kernel's two operands, its output.
onednn::Call build(const void* context) {
  const Problem& q = *static_cast<const Problem*>(context);
  const Descriptions d = describe(q);
  Chosen c = choose(q, d, true);
  if (c.slow) {
    if (!q.tail.empty()) return {};  // the tail's operands have the layout of the user's result
    c = choose(q, d, false);
    if (c.slow) return {};
  }

  struct Operand {
    const memory::desc *user, *wanted;
    int arg;
  };
  const bool forward = q.which == ConvResult::forward, to_input = q.which == ConvResult::input,
             to_weight = q.which == ConvResult::weight;
  const Operand x{&d.x, &c.x, to_input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC},
      w{&d.w, &c.w, to_weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS},
      y{&d.y, &c.y, forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST};
  const Operand* in[2] = {to_input ? &y : &x, to_weight ? &y : &w};
  const Operand* out = forward ? &y : to_input ? &x : &w;

  onednn::Call call;
  int bound[2];
  for (int i = 0; i < 2; ++i) {
    if (q.packs_weight && in[i] == &w) {
      bound[i] = call.add_packed_memory(d.w, c.w, i);
      continue;
    }
    bound[i] = call.add_memory(*in[i]->user, i);
    if (*in[i]->user == *in[i]->wanted) continue;
    const int reordered = call.add_memory(*in[i]->wanted, -1);
    add_reorder(call, *in[i]->user, bound[i], *in[i]->wanted, reordered);
    bound[i] = reordered;
  }
  const int result = call.add_memory(*out->user, 2);
  const bool direct = *out->user == *out->wanted;
  const int target = direct ? result : call.add_memory(*out->wanted, -1);
  std::vector<std::pair<int, int>> args{{in[0]->arg, bound[0]}, {in[1]->arg, bound[1]}, {out->arg, target}};
  for (size_t i = 0; i < q.tail.size(); ++i)
    if (q.tail[i].broadcast != TailStep::Broadcast::in_place)
      args.emplace_back(onednn::tail_arg(q.tail, i),
                        call.add_memory(onednn::tail_operand(q.tail[i].broadcast, d.y, 1), 3 + int(i)));
  call.add_step(c.primitive, c.scratchpad, args);
  if (!direct) add_reorder(call, *out->wanted, target, *out->user, result);
  return call;
}

onednn::Call& find(const Problem& q) {
  onednn::Key key{int64_t(q.which)};
  key.add_all(std::initializer_list<int64_t>{int64_t(q.dtype), int64_t(q.n), q.s.batch, q.s.in_channels,
                                             q.s.out_channels, q.s.groups});
  for (const auto* sizes : {&q.s.in, &q.s.window, &q.s.out, &q.s.stride, &q.s.lo, &q.s.dilation}) key.add_all(*sizes);
  key.add_all(q.p.pads_hi);
  for (const SpaceStrides* strides : {&q.x, &q.w, &q.y}) {
    key.add_all(std::initializer_list<int64_t>{strides->outer, strides->inner});
    key.add_all(strides->space);
  }
  for (const TailStep& step : q.tail) key.add(int64_t(step.kind) * 4 + int64_t(step.broadcast));
  key.add(q.packs_weight);
  return onednn::find_call(key, build, &q);
}

// Whether one thread is done before others would have started: in less than 20 microseconds. The sizes alone decide, so
// that the bits do not depend on the load.
bool is_for_one_thread(const Sliding& s) {
  constexpr int64_t worth_threads = 1 << 20;
  int64_t multiplications = s.batch * s.out_channels * (s.in_channels / s.groups);
  for (int a = 0; a < 3; ++a) multiplications *= s.out[a] * s.window[a];
  return multiplications < worth_threads;
}

// Slots: the kernel's two operands, its output, the tail's operands. Returns false, having done nothing, if oneDNN has
// no implementation for these operands. Weights that never change are packed: operand 1 of the forward pass and of the
// gradient by the input.
bool run_onednn(const Problem& q, std::span<const void* const> slots, const KernelArgs& args, const Tensor& second) {
  const bool finite_only = onednn::multiplies_padding(q.which, q.p, q.s);
  std::optional<detail::ForceOneThread> one_thread;
  if (is_for_one_thread(q.s)) one_thread.emplace();
  if (args.packed && q.which != ConvResult::weight) {
    Problem packing = q;
    packing.packs_weight = true;
    onednn::Call& call = find(packing);
    if (call.supported() && call.run_packed(slots, second, *args.packed, finite_only)) return true;
  }
  // Where an infinity is multiplied by padding, the result has a NaN: the result is checked if it is smaller to read.
  const Tensor& out = args.output();
  const bool looks_after = finite_only && q.tail.empty() && out.size() < second.size();
  if (finite_only && !looks_after && !onednn::all_finite(second)) return false;
  onednn::Call& call = find(q);
  if (!call.supported()) return false;
  call.run(slots);
  return !looks_after || onednn::all_finite(out) || onednn::all_finite(second);
}

// With set_deterministic(true), a convolution or its gradient by the input runs image by image, each on one thread: the
// primitive is then the same for any number of threads and any batch. The weights are packed once for all images.
bool image_by_image(const Problem& problem, std::span<const void* const> slots, const KernelArgs& args,
                    const Tensor& weights) {
  if (onednn::multiplies_padding(problem.which, problem.p, problem.s) && !onednn::all_finite(weights)) return false;
  Problem plain = problem;
  plain.s.batch = 1;
  Problem packing = plain;
  packing.packs_weight = true;
  const bool forward = problem.which == ConvResult::forward;
  const int64_t size = int64_t(size_of(problem.dtype)), step_in = (forward ? problem.x : problem.y).outer * size,
                step_out = (forward ? problem.y : problem.x).outer * size;
  Packed for_this_call;
  Packed& packed = args.packed ? *args.packed : for_this_call;
  std::atomic<bool> supported{true};
  parallel_for(problem.s.batch, 1, [&](int64_t begin, int64_t end) {
    const detail::ForceOneThread one_thread;
    for (int64_t i = begin; i < end && supported; ++i) {
      const void* const image[] = {static_cast<const char*>(slots[0]) + i * step_in, slots[1],
                                   static_cast<const char*>(slots[2]) + i * step_out};
      onednn::Call& call = find(packing);
      if (call.supported() && call.run_packed(image, weights, packed)) continue;
      onednn::Call& unpacked = find(plain);
      if (unpacked.supported()) unpacked.run(image);
      else supported = false;
    }
  });
  return supported;
}

// Gradients by the weights sum over the batch, which oneDNN divides among its threads. Here the batch is cut into
// the same pieces for any number of threads, each is summed by one thread, and the pieces are added in order.
// This costs memory for the pieces' gradients and, if the batch has fewer images than there are threads, idle threads.
constexpr int64_t fixed_pieces = 16;

bool weight_in_pieces(const KernelArgs& args, const Problem& problem, const Tensor& a, const Tensor& b) {
  if (problem.dtype != DType::f32) return false;  // halves go through f32
  if (onednn::multiplies_padding(problem.which, problem.p, problem.s) && !onednn::all_finite(b)) return false;
  const float* const x = reinterpret_cast<const float*>(a.rep()->data);
  const float* const g = reinterpret_cast<const float*>(b.rep()->data);
  float* const w = args.out_data<float>();
  const int64_t batch = problem.s.batch, pieces = std::min(batch, fixed_pieces), size = args.output().size();
  const Ref<Buffer> space = allocate(Device(), size_t(pieces * size) * sizeof(float));
  float* const parts = static_cast<float*>(space->data);
  std::atomic<bool> supported{true};
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    const detail::ForceOneThread guard;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t from = batch * i / pieces, to = batch * (i + 1) / pieces;
      Problem q = problem;
      q.s.batch = to - from;
      onednn::Call& call = find(q);
      if (!call.supported()) supported = false;
      else call.run({x + from * problem.x.outer, g + from * problem.y.outer, parts + i * size + problem.skipped});
    }
  });
  if (!supported) return false;
  parallel_for(size, 8192, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      float sum = parts[j];
      for (int64_t i = 1; i < pieces; ++i) sum += parts[i * size + j];
      w[j] = sum;
    }
  });
  return true;
}

// Whether the elements fill a block of memory without gaps, in any order of the axes: what oneDNN can read.
bool fills_memory(const Tensor& t) {
  SmallVec<std::pair<int64_t, int64_t>, 8> axes;  // stride, size
  for (size_t i = 0; i < t.shape().size(); ++i)
    if (t.shape()[i] > 1) axes.push_back({t.strides()[i], int64_t(t.shape()[i])});
  std::sort(axes.begin(), axes.end());
  int64_t expected = 1;
  for (auto [stride, size] : axes) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

Tensor filling_memory(const Tensor& t) {
  if (fills_memory(t)) return t;
  Tensor dense = empty_tensor(t.spec());
  copy_elements(t, dense);
  return dense;
}

// Removes taps at the ends of the window that only read padding: of a window of 3x3 on an image of 1x1, all but one.
// Their weights are then neither reordered nor multiplied by zeros.
void trim_window(Problem& q) {
  for (size_t i = 0; i < q.n; ++i) {
    const size_t a = 3 - q.n + i;
    const auto drop = [&](int64_t tap, Dims& pads) {
      if (q.s.window[a] == 1 || pads[i] < q.s.dilation[a] || onednn::meets_input(q.s, a, tap)) return false;
      --q.s.window[a];
      pads[i] -= q.s.dilation[a];
      return true;
    };
    while (drop(q.s.window[a] - 1, q.p.pads_hi)) continue;
    while (drop(0, q.p.pads_lo)) {
      q.s.lo[a] = q.p.pads_lo[i];
      q.skipped += q.w.space[a];
    }
  }
}

Problem problem(ConvResult which, const ConvParams& p, const Factors& f) {
  Problem q{which,
            f.y.dtype(),
            p,
            sliding(p, f.x.shape(), f.w.shape()),
            p.strides.size(),
            activation_strides(f.x, p.layout),
            weight_strides(f.w, p.layout),
            activation_strides(f.y, p.layout)};
  trim_window(q);
  return q;
}
// The address of the first weight that is read or written.
const char* weights_of(const Problem& q, const Tensor& w) {
  return w.rep()->data + q.skipped * int64_t(size_of(q.dtype));
}

// Runs oneDNN's implementation; false if there is none.
bool run_onednn(const KernelArgs& args, ConvResult which) {
  Tensor& out = args.output();
  const Tensor a = filling_memory(args.input(0)), b = filling_memory(args.input(1));
  const Factors f(a, b, out, which);
  const ConvParams& p = args.attrs.as<ConvParams>();
  const Problem q = problem(which, p, f);
  if (onednn::is_wrong(which, q.dtype, q.s)) return false;
  if (onednn::multiplies_neighbours(which, q.dtype, q.s) && !onednn::all_finite(a)) return false;
  const bool to_weight = which == ConvResult::weight;
  out.mutable_rep();
  const void* const slots[] = {a.rep()->data, to_weight ? b.rep()->data : weights_of(q, b),
                               to_weight ? weights_of(q, out) : out.rep()->data};
  if (!to_weight) return deterministic() ? image_by_image(q, slots, args, b) : run_onednn(q, slots, args, b);
  const bool done = deterministic() ? weight_in_pieces(args, q, a, b) : run_onednn(q, slots, args, b);
  if (done) onednn::clear_unmet(p, sliding(p, f.x.shape(), f.w.shape()), out);
  return done;
}

}  // namespace

bool conv_with_tail(const KernelArgs& args, std::span<const TailStep> steps) {
  Tensor& out = args.output();
  const ConvParams& p = args.attrs.as<ConvParams>();
  if (out.dtype() != DType::f32 || out.size() == 0 || args.input(0).size() == 0 || args.input(1).size() == 0 ||
      p.layout != Layout::nhwc || deterministic())
    return false;
  const ConvKernel kernel = kernel_for(args, ConvResult::forward);
  if (kernel != ConvKernel::onednn) return kernel == ConvKernel::direct && conv_direct(args, steps);
  if (!steps.empty() && steps.back().kind == TailStep::Kind::relu) return false;  // oneDNN's relu loses NaN
  const Tensor a = filling_memory(args.input(0)), b = filling_memory(args.input(1));
  Problem q = problem(ConvResult::forward, p, Factors(a, b, out, ConvResult::forward));
  q.tail = steps;
  SmallVec<const void*, 8> slots{a.rep()->data, weights_of(q, b), out.mutable_rep()->data};
  for (size_t i = 0; i < steps.size(); ++i) slots.push_back(args.input(int(i) + 2).rep()->data);
  return run_onednn(q, slots, args, b);
}

}  // namespace rill::cpu

#else

namespace rill::cpu {
namespace {
bool run_onednn(const KernelArgs&, ConvResult) { return false; }
}  // namespace
bool conv_with_tail(const KernelArgs&, std::span<const TailStep>) { return false; }
}  // namespace rill::cpu

#endif

namespace rill::cpu {
namespace {

void run(const KernelArgs& args, ConvResult result, Kernel self) {
  Tensor& out = args.output();
  if (out.size() == 0) return;
  if (args.input(0).size() == 0 || args.input(1).size() == 0) {  // nothing to sum
    std::memset(out.mutable_rep()->data, 0, size_t(out.size()) * size_of(out.dtype()));
    return;
  }
  switch (kernel_for(args, result)) {
    case ConvKernel::product: return run_product(args, result);
    case ConvKernel::direct: conv_direct(args); return;
    case ConvKernel::onednn:
      if (run_onednn(args, result)) return;
      break;  // oneDNN has nothing for these dtypes
    case ConvKernel::own: break;
  }
  if (is_half(out.dtype())) through_f32(args, self);
  else conv_own(args, result);
}

}  // namespace

void conv(const KernelArgs& args) { run(args, ConvResult::forward, conv); }
void conv_grad_input(const KernelArgs& args) { run(args, ConvResult::input, conv_grad_input); }
void conv_grad_weight(const KernelArgs& args) { run(args, ConvResult::weight, conv_grad_weight); }

}  // namespace rill::cpu
