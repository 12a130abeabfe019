// Linear algebra: ONNX has the determinant alone.
#include "rill/serialize/onnx/export_rules.h"

namespace rill::onnx_out {

namespace {

Values write_det(Call& c) { return {c.e.op("Det", c.in)}; }

constexpr std::string_view no_operator = "ONNX has no operator that does this. compute it outside of the model";

}  // namespace

std::span<const Rule> matrix_rules() {
  static const Rule rules[] = {
      {"det", write_det},
      {.op = "cholesky", .refusal = no_operator},
      {.op = "eig", .refusal = no_operator},
      {.op = "eigh", .refusal = no_operator},
      {.op = "eigvals", .refusal = no_operator},
      {.op = "eigvalsh", .refusal = no_operator},
      {.op = "expm", .refusal = no_operator},
      {.op = "fft", .refusal = no_operator},
      {.op = "irfft", .refusal = no_operator},
      {.op = "lstsq", .refusal = no_operator},
      {.op = "lu", .refusal = no_operator},
      {.op = "pinv", .refusal = no_operator},
      {.op = "qr", .refusal = no_operator},
      {.op = "rfft", .refusal = no_operator},
      {.op = "slogdet", .refusal = no_operator},
      {.op = "solve", .refusal = no_operator},
      {.op = "svd", .refusal = no_operator},
      {.op = "svdvals", .refusal = no_operator},
      {.op = "triangular_solve", .refusal = no_operator},
  };
  return rules;
}

}  // namespace rill::onnx_out
