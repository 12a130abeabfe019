// Convolutions and their gradients as graphs for cuDNN, which takes dense operands with the channels first or last.
#include "rill/devices/cuda/families/cudnn_convolution.h"

#include <algorithm>

#include "rill/devices/cuda/driver/capture.h"
#include "rill/devices/cuda/driver/cudnn_plans.h"
#include "rill/devices/cuda/driver/spaces.h"
#include "rill/devices/cuda/families/families.h"
#include "rill/devices/cuda/families/library_product.h"
#include "rill/devices/host_memory.h"

namespace rill::cuda {

namespace {

struct Described {
  std::vector<int64_t> sizes, strides;
};
// The dense tensor whose axes are [outer, inner, space...], or, if the channels are last, [outer, space..., inner],
// in cuDNN's order: [outer, inner, space...], with at least two spatial axes.
Described describe(int64_t outer, int64_t inner, const int64_t* space, size_t axes, bool channels_last) {
  Described s{{outer, inner}, std::vector<int64_t>(axes + 2)};
  s.sizes.insert(s.sizes.end(), space + 3 - axes, space + 3);
  int64_t dense = 1;
  const auto next = [&](size_t a) { s.strides[a] = dense, dense *= s.sizes[a]; };
  if (channels_last) next(1);
  for (size_t a = axes + 2; a-- > 2;) next(a);
  if (!channels_last) next(1);
  next(0);
  return s;
}

// nhwc weights are [space..., in, out]: cuDNN's are [out, space..., in].
Tensor outer_first(const Tensor& w) {
  Shape shape{w.shape().back()};
  Strides strides{w.strides().back()};
  for (size_t a = 0; a + 1 < w.shape().size(); ++a) shape.push_back(w.shape()[a]), strides.push_back(w.strides()[a]);
  return make_view(w, shape, strides, 0);
}

Tensor like(const Tensor& t) { return empty_tensor(Spec{t.shape(), t.dtype(), false, t.device()}); }

bool is_empty(const Sliding& s) {
  int64_t all = s.batch * s.in_channels * s.out_channels;
  for (size_t a = 0; a < 3; ++a) all *= s.in[a] * s.window[a] * s.out[a];
  return all == 0;
}
// Whether as much padding after as before gives the same result, as when a stride skips the last elements.
bool is_symmetric(const Sliding& s) {
  for (size_t a = 0; a < 3; ++a)
    if (window_count(s.in[a], s.window[a], s.stride[a], s.lo[a], s.lo[a], s.dilation[a]) != s.out[a]) return false;
  return true;
}
// A window of one element that reads every element once, channels last: cuBLASLt multiplies the operands in place.
bool is_product(const Sliding& s, const ConvParams& params, DType d) {
  if (params.layout == Layout::nchw || !has_library_product(d)) return false;
  for (size_t a = 0; a < 3; ++a)
    if (s.window[a] != 1 || s.stride[a] != 1 || s.lo[a] != 0 || s.in[a] != s.out[a]) return false;
  return true;
}

// A call: its three tensors, in the order x, w, y, as cuDNN needs them.
class Convolution {
 public:
  Convolution(ConvResult wanted, const ConvParams& params, const Sliding& s, const Tensor& x, const Tensor& w,
              const Tensor& y)
      : made_(size_t(wanted)),
        s_(s),
        last_(params.layout == Layout::nhwc),
        axes_(std::max<size_t>(2, params.strides.size())),
        tensors_{x, last_ ? outer_first(w) : w, y} {}

  bool run() {
    Gpu& gpu = gpu_of(tensors_[0].device());
    const dnn::Key k = key();
    if (!dnn::has_plan(gpu, k, [&] { return graph(); })) return false;
    std::vector<Tensor> memory;
    std::vector<char*> operands;
    for (size_t i = 0; i < 3; ++i) {
      const Tensor& t = tensors_[i];
      memory.push_back(t.is_contiguous() ? t : i == made_ ? like(t) : dense_copy(t));
      operands.push_back(address(memory.back()));
    }
    if (!dnn::run_plan(gpu, k, operands)) return false;
    if (!tensors_[made_].is_contiguous()) copy_on_gpu(memory[made_], tensors_[made_]);
    return true;
  }

 private:
  DType dtype() const { return tensors_[0].dtype(); }
  // A copy for cuDNN is at the start of a block of memory.
  int64_t alignment(size_t i) const {
    return tensors_[i].is_contiguous() ? dnn::alignment_of(address(tensors_[i])) : dnn::most_alignment;
  }

  dnn::Key key() const {
    dnn::Key k{int64_t(made_),  int64_t(dtype()), last_,        int64_t(axes_), s_.batch,    s_.in_channels,
               s_.out_channels, s_.groups,        alignment(0), alignment(1),   alignment(2)};
    for (const auto* list : {s_.in, s_.window, s_.stride, s_.lo, s_.dilation}) k.insert(k.end(), list, list + 3);
    return k;
  }

  dnn::Graph graph() const {
    dnn::Graph g;
    g.without_tensor_cores = dtype() == DType::f32 && !allows_tf32();  // they compute in TF32
    const auto tensor = [&](size_t i, int64_t outer, int64_t inner, const int64_t* space) {
      const Described d = describe(outer, inner, space, axes_, last_);
      return g.tensor(dnn::type_of(dtype()), d.sizes, d.strides, alignment(i));
    };
    const int64_t x = tensor(0, s_.batch, s_.in_channels, s_.in),
                  w = tensor(1, s_.out_channels, s_.in_channels / s_.groups, s_.window),
                  y = tensor(2, s_.batch, s_.out_channels, s_.out);
    const auto along_space = [&](const int64_t* list) { return std::vector<int64_t>(list + 3 - axes_, list + 3); };
    constexpr dnn::Kind kinds[] = {dnn::Kind::data_gradient, dnn::Kind::filter_gradient, dnn::Kind::forward};
    g.convolution(kinds[made_], x, w, y,
                  {along_space(s_.stride), along_space(s_.dilation), along_space(s_.lo),
                   dtype() == DType::f64 ? dnn::f64 : dnn::f32});
    return g;
  }

  const size_t made_;  // which of the three
  const Sliding& s_;
  const bool last_;  // channels
  const size_t axes_;
  const Tensor tensors_[3];
};

}  // namespace

bool convolve_by_cudnn(ConvResult wanted, const ConvParams& params, const Tensor& x, const Tensor& w,
                       const Tensor& y) try {
  const Sliding s = sliding(params, x.shape(), w.shape());
  if (dnn::type_of(x.dtype()) < 0 || !dnn::library().missing.empty()) return false;
  if (is_empty(s) || !is_symmetric(s) || is_product(s, params, x.dtype())) return false;
  return Convolution(wanted, params, s, x, w, y).run();
} catch (const host_memory::OutOfMemory&) {
  if (Capture::current(gpu_of(x.device()))) throw;  // else the fallback kernels would be captured permanently
  return false;
}

}  // namespace rill::cuda
