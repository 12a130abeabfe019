// The records of numbers in blocks, and the public functions; see blocks.h.
#include "rill/ops/blocks.h"

#include <fmt/format.h>

#include "rill/devices/number_blocks.h"
#include "rill/devices/params/block_params.h"
#include "rill/devices/params/read_attrs.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/indexing.h"
#include "rill/ops/linalg.h"
#include "rill/ops/samples.h"
#include "rill/tensor/dim_table.h"

namespace rill {

extern const Op from_blocks_op, block_matmul_op;

namespace {

const ReadableAttrs readable_blocks{std::type_identity<BlockParams>()};

const GgufType* type_of(AttrsView attrs) {
  const GgufType* type = gguf_type(uint32_t(attrs.as<BlockParams>().type));
  return type && type->decode ? type : nullptr;
}

// The number of elements in rows of this many bytes; throws unless these are complete blocks.
Dim row_length(const InferArgs& a, const Spec& blocks) {
  const GgufType* type = type_of(a.attrs);
  if (!type) a.reject(fmt::format("there is no type {} of blocks", a.attrs.as<BlockParams>().type));
  if (blocks.dtype != DType::u8 || blocks.shape.ndim() == 0) a.reject("blocks are u8 with an axis of bytes, the last");
  const ExactDims exact;
  const Dim bytes = blocks.shape.back();
  if (bytes.hint() % type->block_bytes)
    a.reject(fmt::format("rows have {} bytes, and blocks of {} have {}", bytes, type->name, type->block_bytes));
  return bytes / type->block_bytes * type->block;
}

OutSpecs infer_from_blocks(const InferArgs& a) {
  Spec out{a[0].shape, DType::f32, false, a[0].device};
  out.shape[out.shape.size() - 1] = row_length(a, a[0]);
  return {out};
}

OutSpecs infer_block_matmul(const InferArgs& a) {
  const Dim k = row_length(a, a[1]);
  if (a[1].shape.ndim() != 2) a.reject("the weights must be a matrix");
  if (a[0].shape.ndim() == 0 || a[0].shape.back().hint() != k.hint())
    a.reject(fmt::format("the last axis of the left operand must have the weights' row length, {}", k));
  Spec out = a[0];
  out.shape[out.shape.size() - 1] = a[1].shape[0];
  return {out};
}

Tensor numbers_of(const Tensor& bytes, const BlockParams& p) {
  return apply1(from_blocks_op, {&bytes}, p, Where::current());
}

Tensors vjp_block_matmul(const VjpArgs& a) {
  Tensors out(2);
  out[0] = matmul(a.cotangent[0], numbers_of(a.in[1], a.attrs.as<BlockParams>()));
  return out;
}

Tensors batch_block_matmul(const BatchArgs& a) {
  return a.batched[1] ? batch_by_loop(a) : Tensors{apply1(a.op, {&a.in[0], &a.in[1]}, a.attrs, a.where)};
}

// Scales, which are f16, are small numbers: bytes below 60 give no large exponent.
Tensor some_blocks(const Shape& shape) { return samples::integers(shape, 0, 60, DType::u8); }

std::vector<Sample> samples_from_blocks() {
  return {{{some_blocks({3, 68})}, BlockParams{8}},
          {{some_blocks({2, 2, 36})}, BlockParams{2}},
          {{some_blocks({5, 144})}, BlockParams{12}},
          {{some_blocks({5, 420})}, BlockParams{14}},
          {{some_blocks({2, 22})}, BlockParams{6}}};
}
std::vector<Sample> samples_block_matmul() {
  using samples::uniform;
  return {{{uniform({64}), some_blocks({70, 68})}, BlockParams{8}},
          {{uniform({2, 3, 64}), some_blocks({5, 36})}, BlockParams{2}},
          {{uniform({40, 256}), some_blocks({33, 144})}, BlockParams{12}},
          {{uniform({1, 512}), some_blocks({7, 420})}, BlockParams{14}},
          {{uniform({3, 32}), some_blocks({1, 34})}, BlockParams{8}},
          {{uniform({0, 32}), some_blocks({2, 34})}, BlockParams{8}}};
}

}  // namespace

const Op from_blocks_op({
    .name = "from_blocks",
    .doc = "the f32 that blocks of quantised numbers stand for: out[..., i] = d q[i] + m, with a block's own d and m",
    .dtypes = one_of({DType::u8}),
    .infer = infer_from_blocks,
    .no_gradient = "its operand is bytes",
    .batch = batch_rows,
    .cpu = cpu::from_blocks,
    .ref = ref::from_blocks,
    .wants_contiguous = true,
    .samples = samples_from_blocks,
    .no_finite_difference = "its operand is bytes",
});
const Op block_matmul_op({
    .name = "block_matmul",
    .doc = "out[..., n] = sum_k x[..., k] from_blocks(w)[n, k]",
    .dtypes = one_of({DType::f32}),
    .inputs = 2,
    .infer = infer_block_matmul,
    .vjp = vjp_block_matmul,
    .saves_in = save(1),
    .linear_in = save(0),
    .batch = batch_block_matmul,
    .cpu = cpu::block_matmul,
    .ref = ref::block_matmul,
    .wants_contiguous = true,
    .flops = [](std::span<const Spec* const> in, const Spec& out,
                AttrsView) { return 2.0 * double(in[0]->shape.back().hint()) * double(out.shape.numel()); },
    .samples = samples_block_matmul,
    .norm_tolerance = 8,
});

namespace {

BlockParams params_of(std::string_view op, const Blocks& w, const Where& where) {
  const GgufType* type = gguf_type(w.type);
  if (!type || !type->decode) fail(op, fmt::format("'{}' is no type of blocks. types are ggml's: q8_0", w.type), where);
  if (!w.bytes.defined()) fail(op, "the blocks have no bytes. load(path, {.blocks = &map}) reads some", where);
  return {int64_t(type->code)};
}

}  // namespace

Shape Blocks::shape(Where where) const {
  const BlockParams p = params_of("Blocks::shape", *this, where);
  const Spec* const in[] = {&bytes.spec()};
  return infer(from_blocks_op, in, p, where)[0].shape;
}
Tensor Blocks::values(Where where) const {
  return apply1(from_blocks_op, {&bytes}, params_of("Blocks::values", *this, where), where);
}
Tensor matmul_transposed(const Tensor& x, const Blocks& w, Where where) {
  return apply1(block_matmul_op, {&x, &w.bytes}, params_of("matmul_transposed", w, where), where);
}
Tensor take(const Blocks& w, const Tensor& indices, Where where) {
  CallerScope caller(where);
  const BlockParams p = params_of("take", w, where);
  const Tensor rows = take(w.bytes, indices, 0, where);
  return apply1(from_blocks_op, {&rows}, p, where);
}

}  // namespace rill
