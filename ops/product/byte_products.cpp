// The records of products of bytes; see byte_products.h.
#include "rill/ops/product/byte_products.h"

#include <fmt/format.h>

#include "rill/devices/params/byte_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/samples.h"

namespace rill {

extern const Op conv_op;

namespace {

constexpr DTypeSet byte_set = one_of({DType::u8, DType::i8});

// Throws unless both are bytes, and each has a zero point of its own dtype.
void require_bytes(const InferArgs& a) {
  for (int i : {0, 1}) {
    if (!contains(byte_set, a[i].dtype)) a.reject(fmt::format("operand {} must be u8 or i8", i));
    if (a[i + 2].dtype != a[i].dtype) a.reject(fmt::format("the zero point of operand {} must have its dtype", i));
  }
  if (a[2].shape.ndim() != 0) a.reject("the zero point of operand 0 must be one number");
}
// A single number, or one for each of `count`.
void require_zeros(const InferArgs& a, Dim count) {
  const Shape& s = a[3].shape;
  if (s.ndim() > 1 || (s.ndim() == 1 && s[0].hint() != count.hint()))
    a.reject(fmt::format("the zero points of operand 1 must be one number or a vector of {}", count));
}

OutSpecs infer_byte_matmul(const InferArgs& a) {
  require_bytes(a);
  const Shape &x = a[0].shape, &w = a[1].shape;
  if (x.ndim() < 1 || w.ndim() < 2) a.reject("takes [..., k] and a matrix, or a batch of matrices");
  if (w.ndim() > 2 && w.ndim() != x.ndim()) a.reject("a batch of matrices needs the same leading axes on both sides");
  for (size_t i = 0; w.ndim() > 2 && i + 2 < w.size(); ++i)
    if (x[i].hint() != w[i].hint()) a.reject(fmt::format("leading axes differ: {} != {}", x[i], w[i]));
  if (x.back().hint() != w[w.size() - 2].hint())
    a.reject(fmt::format("the last axis of the left operand and the rows of the right must have equal sizes: {} != {}",
                         x.back(), w[w.size() - 2]));
  require_zeros(a, w.ndim() > 2 ? Dim(-1) : w.back());
  Spec out{x, DType::i32, false, a[0].device};
  out.shape[out.shape.size() - 1] = w.back();
  return {out};
}

// Like that of the convolution of numbers.
OutSpecs infer_byte_conv(const InferArgs& a) {
  require_bytes(a);
  Spec x = a[0], w = a[1];
  x.dtype = w.dtype = DType::f32;
  const Spec* const in[] = {&x, &w};
  OutSpecs out = conv_op.infer({a.op, in, a.attrs, a.where});
  require_zeros(a, w.shape[a.attrs.as<ConvParams>().layout == Layout::nhwc ? w.shape.size() - 1 : 0]);
  out[0].dtype = DType::i32;
  return out;
}

Tensors batch_byte_matmul(const BatchArgs& a) {
  if (a.batched[1] || a.batched[2] || a.batched[3] || a.in[1].ndim() != 2) return batch_by_loop(a);
  return {apply1(a.op, {&a.in[0], &a.in[1], &a.in[2], &a.in[3]}, a.attrs, a.where)};
}

Tensor some_bytes(const Shape& shape, DType dtype, uint64_t seed) {
  return dtype == DType::u8 ? samples::integers(shape, 0, 256, dtype, seed)
                            : samples::integers(shape, -128, 128, dtype, seed);
}
constexpr std::pair<DType, DType> byte_pairs[] = {
    {DType::u8, DType::i8}, {DType::i8, DType::i8}, {DType::u8, DType::u8}, {DType::i8, DType::u8}};

std::vector<Sample> samples_byte_matmul() {
  std::vector<Sample> out;
  const auto add = [&](const Shape& x, const Shape& w, const Shape& zeros, DType of_x, DType of_w) {
    out.push_back(
        {{some_bytes(x, of_x, 1), some_bytes(w, of_w, 2), some_bytes({}, of_x, 3), some_bytes(zeros, of_w, 4)}, {}});
  };
  for (auto [x, w] : byte_pairs) {
    add({3, 5}, {5, 4}, {}, x, w);
    add({17, 70}, {70, 45}, {45}, x, w);
  }
  add({2, 3, 9}, {9, 33}, {33}, DType::u8, DType::i8);
  add({2, 3, 9}, {2, 9, 5}, {}, DType::u8, DType::i8);
  add({300}, {300, 130}, {}, DType::u8, DType::i8);
  add({4, 0}, {0, 3}, {}, DType::u8, DType::i8);
  add({0, 4}, {4, 3}, {}, DType::u8, DType::i8);
  return out;
}

std::vector<Sample> samples_byte_conv() {
  const Layout nhwc = Layout::nhwc, nchw = Layout::nchw;
  struct Case {
    Shape x, w, zeros;
    ConvParams p;
  };
  const std::vector<Case> cases = {
      {{2, 3, 7, 6}, {5, 3, 3, 3}, {5}, {{2, 1}, {1, 0}, {1, 2}, {1, 2}, 1, nchw, {}}},
      {{2, 7, 6, 3}, {3, 3, 3, 5}, {}, {{2, 1}, {1, 0}, {1, 2}, {1, 2}, 1, nhwc, {}}},
      {{1, 4, 5, 5}, {4, 1, 3, 3}, {4}, {{1, 2}, {1, 1}, {1, 1}, {1, 1}, 4, nchw, {}}},
      {{2, 6, 9, 8}, {40, 3, 3, 2}, {}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}, 2, nchw, {}}},
      {{2, 3, 9}, {4, 3, 4}, {}, {{3}, {2}, {1}, {1}, 1, nchw, {}}},
      {{1, 2, 4, 3, 5}, {2, 2, 2, 3, 2}, {}, {{1, 2, 1}, {0, 1, 1}, {1, 1, 0}, {1, 1, 1}, 1, nchw, {}}},
      {{2, 16, 6, 6}, {70, 16, 1, 1}, {}, {{1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, nchw, {}}},
      {{0, 2, 4, 4}, {3, 2, 3, 3}, {}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, nchw, {}}},
  };
  std::vector<Sample> out;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto [x, w] = byte_pairs[i % std::size(byte_pairs)];
    const Case& c = cases[i];
    out.push_back(
        {{some_bytes(c.x, x, 1), some_bytes(c.w, w, 2), some_bytes({}, x, 3), some_bytes(c.zeros, w, 4)}, c.p});
  }
  return out;
}

double flops_of_byte_matmul(std::span<const Spec* const> in, const Spec& out, AttrsView) {
  return 2.0 * double(in[0]->shape.back().hint()) * double(out.shape.numel());
}
double flops_of_byte_conv(std::span<const Spec* const> in, const Spec& out, AttrsView attrs) {
  return conv_op.flops(in.first(2), out, attrs);
}

constexpr std::string_view whole_numbers = "its operands are whole numbers";

}  // namespace

extern const Op byte_matmul_op, byte_conv_op;
const Op byte_matmul_op({
    .name = "byte_matmul",
    .doc = "out[..., n] = sum_k (x[..., k] - x_zero) (w[k, n] - w_zero[n]) of u8 or i8, exactly, in i32",
    .dtypes = byte_set,
    .inputs = 4,
    .infer = infer_byte_matmul,
    .no_gradient = whole_numbers,
    .batch = batch_byte_matmul,
    .cpu = cpu::byte_matmul,
    .ref = ref::byte_matmul,
    .packs = true,
    .flops = flops_of_byte_matmul,
    .samples = samples_byte_matmul,
    .no_finite_difference = whole_numbers,
    .exported = {.onnx = "MatMulInteger"},
});
const Op byte_conv_op({
    .name = "byte_conv",
    .doc = "conv(x - x_zero, w - w_zero) of u8 or i8, exactly, in i32",
    .dtypes = byte_set,
    .inputs = 4,
    .infer = infer_byte_conv,
    .no_gradient = whole_numbers,
    .batch = batch_by_loop,
    .cpu = cpu::byte_conv,
    .ref = ref::byte_conv,
    .packs = true,
    .flops = flops_of_byte_conv,
    .samples = samples_byte_conv,
    .no_finite_difference = whole_numbers,
    .exported = {.onnx = "ConvInteger"},
});

Tensor byte_matmul(const Tensor& x, const Tensor& w, const Tensor& x_zero, const Tensor& w_zero, Where where) {
  return apply1(byte_matmul_op, {&x, &w, &x_zero, &w_zero}, {}, where);
}
Tensor byte_conv(const Tensor& x, const Tensor& w, const Tensor& x_zero, const Tensor& w_zero, const ConvParams& p,
                 Where where) {
  return apply1(byte_conv_op, {&x, &w, &x_zero, &w_zero}, p, where);
}

}  // namespace rill
