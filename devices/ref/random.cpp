// The reference kernel of random bits, one word at a time.
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/philox.h"

namespace rill::ref {

void random_bits(const KernelArgs& args) {
  const uint64_t* key = args.in_data<uint64_t>(0);
  const uint64_t draw = key[args.input(0).strides()[0]];
  for (int64_t i = 0; i < args.output().size(); ++i)
    args.out_data<uint32_t>()[i] = philox::block_of(key[0], draw, uint64_t(i / 4))[size_t(i % 4)];
}

}  // namespace rill::ref
