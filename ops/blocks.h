// Weights that stay as quantised files have them: numbers of a few bits in blocks with scales, of llama.cpp's types. A
// product with them makes numbers of some rows at a time, so that memory holds, and a product reads, the bytes alone.
//
//   NamedMap<Blocks> blocks;
//   NamedTensors rest = load("model.gguf", {.mapped = true, .blocks = &blocks});
//   Tensor h = take(blocks.at("token_embd.weight"), tokens);
//   Tensor y = matmul_transposed(h, blocks.at("output.weight"));
//
// On the CPU alone. In a traced function blocks are tensors of bytes like any others.
#pragma once
#include <string>

#include "rill/ops/creation.h"

#pragma GCC visibility push(default)

namespace rill {

struct Blocks {
  Tensor bytes;      // u8 [..., bytes of a row]
  std::string type;  // ggml's name, in lower case: "q8_0", "q4_k"

  // Of the numbers. Throws where the type is unknown or rows are no whole blocks.
  Shape shape(Where where = Where::current()) const;
  // The numbers, f32.
  Tensor values(Where where = Where::current()) const;
};

// x times the transpose of w, as layers have it: x [..., k] f32, w [n, k], the result [..., n]. The bits of
// matmul(x, matrix_transpose(w.values())). Gradients are those by x.
Tensor matmul_transposed(const Tensor& x, const Blocks& w, Where where = Where::current());
// The rows of a table that `indices`, integers, name: f32 [indices..., k].
Tensor take(const Blocks& w, const Tensor& indices, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
