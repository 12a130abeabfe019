// Quantised numbers in blocks, decoded and multiplied by their definition.
#include <vector>

#include "rill/devices/number_blocks.h"
#include "rill/devices/params/block_params.h"

namespace rill::ref {

void from_blocks(const KernelArgs& args) {
  const GgufType& type = *gguf_type(uint32_t(args.attrs.as<BlockParams>().type));
  const auto* in = args.in_data<uint8_t>(0);
  float* out = args.out_data<float>();
  for (int64_t i = 0; i < args.output().size() / type.block; ++i)
    type.decode(in + i * type.block_bytes, out + i * type.block);
}

void block_matmul(const KernelArgs& args) {
  const GgufType& type = *gguf_type(uint32_t(args.attrs.as<BlockParams>().type));
  const int64_t n = args.input(1).shape()[0], k = args.input(0).shape().back();
  std::vector<float> row(size_t(k + type.block));
  for (int64_t j = 0; j < n; ++j) {
    const auto* in = args.in_data<uint8_t>(1) + j * (k / type.block) * type.block_bytes;
    for (int64_t i = 0; i < k / type.block; ++i) type.decode(in + i * type.block_bytes, &row[size_t(i * type.block)]);
    for (int64_t m = 0; m < args.output().size() / n; ++m) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += double(args.in_data<float>(0)[m * k + i]) * double(row[size_t(i)]);
      args.out_data<float>()[m * n + j] = float(sum);
    }
  }
}

}  // namespace rill::ref
