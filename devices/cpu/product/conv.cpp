// Convolution and its gradients on oneDNN; f64, and builds without oneDNN, run on the reference kernels.
//
// Activations in NHWC are used as they lie (measured within a few percent of oneDNN's own blocked formats); NCHW ones
// are reordered into those, without which oneDNN is half as fast. Weights are always reordered into the format that the
// primitive asks for: beside plain weights it falls back to a reference kernel, 300 times slower. Start at run().
#include <cstring>

#include "rill/devices/cpu/elementwise/through_f32.h"
#include "rill/devices/cpu/product/onednn.h"
#include "rill/devices/params/contraction_tail.h"
#include "rill/devices/params/conv_params.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

#ifdef RILL_HAVE_ONEDNN
#include <algorithm>
#include <atomic>

namespace rill::cpu {
namespace {

enum class Which : int64_t { forward = 2, input = 3, weight = 4 };  // 1 is matmul's number

struct Problem {
  Which which;
  DType dtype;
  const ConvParams* p;
  Sliding s;
  size_t n;  // axes of space
  std::span<const TailStep> tail = {};
  bool packs_weight = false;  // the weights are an operand that was reordered once

  Dims space(const int64_t (&of)[3]) const { return Dims(of + 3 - n, of + 3); }
};

using dnnl::memory;

// Descriptions of the three operands as the user has them, and with a format of oneDNN's choice.
struct Descriptions {
  memory::desc x, w, y, any_x, any_w, any_y;
};

memory::dims list(std::initializer_list<int64_t> first, const Dims& rest) {
  memory::dims d(first);
  d.insert(d.end(), rest.begin(), rest.end());
  return d;
}

// Dense strides of `sizes` for axes that are in memory in `order`, the outermost first.
memory::dims strides_in(const memory::dims& sizes, const std::vector<size_t>& order) {
  memory::dims out(sizes.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0; stride *= sizes[order[i]]) out[order[i]] = stride;
  return out;
}

Descriptions describe(const Problem& q) {
  const Sliding& s = q.s;
  const memory::data_type type = onednn::data_type(q.dtype);
  const bool nhwc = q.p->layout == Layout::nhwc, grouped = s.groups > 1;
  const memory::dims x = list({s.batch, s.in_channels}, q.space(s.in)),
                     y = list({s.batch, s.out_channels}, q.space(s.out));
  const int64_t in = s.in_channels / s.groups, out = s.out_channels / s.groups;
  const memory::dims w = grouped ? list({s.groups, out, in}, q.space(s.window)) : list({out, in}, q.space(s.window));
  std::vector<size_t> activation{0}, weight;
  const size_t first = grouped ? 3 : 2;  // of the weights' axes of space
  if (!nhwc) activation.push_back(1);
  for (size_t i = 0; i < q.n; ++i) activation.push_back(2 + i);
  if (nhwc) activation.push_back(1);
  if (nhwc) {
    for (size_t i = 0; i < q.n; ++i) weight.push_back(first + i);
    weight.push_back(first - 1);
    for (size_t i = 0; i + 1 < first; ++i) weight.push_back(i);
  } else {
    for (size_t i = 0; i < first + q.n; ++i) weight.push_back(i);
  }
  const auto any = memory::format_tag::any;
  return {{x, type, strides_in(x, activation)},
          {w, type, strides_in(w, weight)},
          {y, type, strides_in(y, activation)},
          {x, type, any},
          {w, type, any},
          {y, type, any}};
}

// A primitive descriptor of the three kinds, seen alike.
struct Chosen {
  memory::desc x, w, y, scratchpad;
  dnnl::primitive primitive;
  bool slow;  // oneDNN's reference kernel
};

Chosen choose(const Problem& q, const Descriptions& d, bool plain) {
  using namespace dnnl;
  const memory::desc &x = plain ? d.x : d.any_x, &w = d.any_w, &y = plain ? d.y : d.any_y;
  memory::dims strides, dilation, lo, hi;
  for (size_t i = 0; i < q.n; ++i) {
    strides.push_back(q.p->strides[i]);
    dilation.push_back(q.p->dilation[i] - 1);
    lo.push_back(q.p->pads_lo[i]);
    hi.push_back(q.p->pads_hi[i]);
  }
  const auto direct = algorithm::convolution_direct;
  const primitive_attr attr = onednn::with_tail(q.tail, d.y, 1);
  const engine& e = onednn::engine();
  const convolution_forward::primitive_desc forward(e, prop_kind::forward_training, direct, x, w, y, strides, dilation,
                                                    lo, hi, attr);
  auto chosen = [](const auto& pd, memory::desc px, memory::desc pw, memory::desc py, primitive made) {
    return Chosen{px, pw, py, pd.scratchpad_desc(), made, std::strstr(pd.impl_info_str(), "ref") == pd.impl_info_str()};
  };
  switch (q.which) {
    case Which::forward:
      return chosen(forward, forward.src_desc(), forward.weights_desc(), forward.dst_desc(),
                    convolution_forward(forward));
    case Which::input: {
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
  Chosen c;
  if (q.p->layout == Layout::nhwc) c = choose(q, d, true);
  if (q.p->layout == Layout::nchw || c.slow) {
    if (!q.tail.empty()) return {};  // its operands lie as the user's result does
    c = choose(q, d, false);
  }

  struct Operand {
    const memory::desc *user, *wanted;
    int arg;
  };
  const bool forward = q.which == Which::forward, to_input = q.which == Which::input,
             to_weight = q.which == Which::weight;
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
    if (q.tail[i].spread != TailStep::Spread::own)
      args.emplace_back(onednn::tail_arg(q.tail, i),
                        call.add_memory(onednn::tail_operand(q.tail[i].spread, d.y, 1), 3 + int(i)));
  call.add_step(c.primitive, c.scratchpad, args);
  if (!direct) add_reorder(call, *out->wanted, target, *out->user, result);
  return call;
}

onednn::Call& find(const Problem& q) {
  onednn::Key key{int64_t(q.which)};
  key.add_all(std::initializer_list<int64_t>{int64_t(q.dtype), int64_t(q.p->layout), int64_t(q.n), q.s.batch,
                                             q.s.in_channels, q.s.out_channels, q.s.groups});
  for (const auto* sizes : {&q.s.in, &q.s.window, &q.s.out, &q.s.stride, &q.s.lo, &q.s.dilation}) key.add_all(*sizes);
  key.add_all(q.p->pads_hi);
  for (const TailStep& step : q.tail) key.add(int64_t(step.kind) * 4 + int64_t(step.spread));
  key.add(q.packs_weight);
  return onednn::find_call(key, build, &q);
}

// Slots: the kernel's two operands, its output, the tail's operands. False, having done nothing, where oneDNN has no
// implementation. Weights that never change are packed: operand 1 of the forward and of the input's gradient.
bool run_onednn(const Problem& q, std::span<const void* const> slots, const KernelArgs& args) {
  if (args.packed && q.which != Which::weight) {
    Problem packing = q;
    packing.packs_weight = true;
    onednn::Call& call = find(packing);
    if (call.supported() && call.run_packed(slots, args.input(1), *args.packed)) return true;
  }
  onednn::Call& call = find(q);
  if (!call.supported()) return false;
  call.run(slots);
  return true;
}

// Convolution weight gradients sum over the batch, which oneDNN divides among its threads. Here the batch is cut into
// the same pieces whatever the number of threads, each is summed by one thread, and the pieces are added in order.
// Costs memory for the pieces' gradients and, where the batch has fewer pieces than there are threads, idle threads.
constexpr int64_t fixed_pieces = 16;

bool weight_in_pieces(const Problem& whole, const float* x, const float* g, float* w, int64_t x_size, int64_t g_size,
                      int64_t w_size) {
  const int64_t batch = whole.s.batch, pieces = std::min(batch, fixed_pieces);
  const Ref<Buffer> space = allocate(Device(), size_t(pieces * w_size) * sizeof(float));
  float* parts = static_cast<float*>(space->data);
  std::atomic<bool> supported{true};
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    const detail::ForceOneThread guard;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t from = batch * i / pieces, to = batch * (i + 1) / pieces;
      Problem q = whole;
      q.s.batch = to - from;
      onednn::Call& call = find(q);
      if (!call.supported()) supported = false;
      else call.run({x + from * (x_size / batch), g + from * (g_size / batch), parts + i * w_size});
    }
  });
  if (!supported) return false;
  parallel_for(w_size, 8192, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      float sum = parts[j];
      for (int64_t i = 1; i < pieces; ++i) sum += parts[i * w_size + j];
      w[j] = sum;
    }
  });
  return true;
}

// The gradient of a window's column (row, ...) that meets nothing but padding is 0. oneDNN's brgconv_bwd_w for bf16 on
// AMX leaves such a column as the memory was.
void clear_unmet(const Problem& q, Tensor& w) {
  const Sliding& s = q.s;
  for (size_t a = 3 - q.n; a < 3; ++a)
    for (int64_t i = 0; i < s.window[a]; ++i) {
      bool met = false;
      for (int64_t o = 0; o < s.out[a] && !met; ++o) {
        const int64_t at = o * s.stride[a] + i * s.dilation[a] - s.lo[a];
        met = at >= 0 && at < s.in[a];
      }
      if (met) continue;
      const size_t axis = weight_space_axis(q.p->layout, a + q.n - 3);
      int64_t outer = 1, inner = int64_t(size_of(w.dtype()));
      for (size_t d = 0; d < w.shape().size(); ++d)
        if (d != axis) (d < axis ? outer : inner) *= w.shape()[d];
      char* data = w.mutable_rep()->data;
      for (int64_t b = 0; b < outer; ++b) std::memset(data + (b * s.window[a] + i) * inner, 0, size_t(inner));
    }
}

void run(const KernelArgs& args, Which which, Kernel self, Kernel plain) {
  Tensor& out = args.output();
  if (out.size() == 0) return;
  const Tensor &a = args.input(0), &b = args.input(1);
  if (a.size() == 0 || b.size() == 0) {  // nothing to sum
    std::memset(out.mutable_rep()->data, 0, size_t(out.size()) * size_of(out.dtype()));
    return;
  }
  if (out.dtype() == DType::f64) return plain(args);
  const ConvParams& p = args.attrs.as<ConvParams>();
  const Shape &x = which == Which::input ? out.shape() : a.shape(),
              &w = which == Which::weight ? out.shape() : b.shape();
  const Problem q{which, out.dtype(), &p, sliding(p, x, w), p.strides.size()};
  bool done = false;
  if (which == Which::weight && deterministic()) {
    if (out.dtype() == DType::f32)
      done = weight_in_pieces(q, args.in_data<float>(0), args.in_data<float>(1), args.out_data<float>(), a.size(),
                              b.size(), out.size());
  } else {
    const void* const slots[] = {a.rep()->data, b.rep()->data, out.mutable_rep()->data};
    done = run_onednn(q, slots, args);
  }
  if (done && which == Which::weight) clear_unmet(q, out);
  if (done) return;
  if (out.dtype() == DType::f32) plain(args);
  else through_f32(args, self);
}

}  // namespace

void conv(const KernelArgs& args) { run(args, Which::forward, conv, ref::conv); }
void conv_grad_input(const KernelArgs& args) { run(args, Which::input, conv_grad_input, ref::conv_grad_input); }
void conv_grad_weight(const KernelArgs& args) { run(args, Which::weight, conv_grad_weight, ref::conv_grad_weight); }

bool conv_with_tail(const KernelArgs& args, std::span<const TailStep> steps) {
  Tensor& out = args.output();
  const Tensor &a = args.input(0), &b = args.input(1);
  const ConvParams& p = args.attrs.as<ConvParams>();
  if (out.dtype() != DType::f32 || out.size() == 0 || a.size() == 0 || b.size() == 0 || p.layout != Layout::nhwc)
    return false;
  const Problem q{Which::forward, out.dtype(), &p, sliding(p, a.shape(), b.shape()), p.strides.size(), steps};
  SmallVec<const void*, 8> slots{a.rep()->data, b.rep()->data, out.mutable_rep()->data};
  for (size_t i = 0; i < steps.size(); ++i) slots.push_back(args.input(int(i) + 2).rep()->data);
  return run_onednn(q, slots, args);
}

}  // namespace rill::cpu

#else

namespace rill::cpu {
bool conv_with_tail(const KernelArgs&, std::span<const TailStep>) { return false; }
void conv(const KernelArgs& args) { ref::conv(args); }
void conv_grad_input(const KernelArgs& args) { ref::conv_grad_input(args); }
void conv_grad_weight(const KernelArgs& args) { ref::conv_grad_weight(args); }
}  // namespace rill::cpu

#endif
