// A record's kernel on gpu:0 against the CPU's.
#pragma once
#include "catch.h"
#include "gpu_devices.h"
#include "rill/ops/apply.h"
#include "rill/ops/samples.h"
#include "rill/rill.h"

namespace gpu_compare {

using op_check::Inputs;
using namespace rill;

inline const Op& record(std::string_view name) {
  const Op* found = find_op(name);
  REQUIRE(found);
  return *found;
}

// `view` is applied on each device, so that strides survive the way there.
using OnView = Tensor (*)(const Tensor&);
inline Tensor as_it_is(const Tensor& t) { return t; }
inline void same_on_gpu(const Op& op, const Inputs& in, const Attrs& attrs, OnView view = as_it_is) {
  const WithDevice here(host);
  const auto viewed = [&](const Inputs& all) {
    Inputs out;
    for (const Tensor& t : all) out.push_back(view(t));
    return out;
  };
  INFO(op_check::describe(op, in, attrs));
  const Inputs want = op_check::run(op, viewed(in), attrs);
  Inputs got;
  {
    const WithDevice there(gpu);
    got = to(op_check::run(op, viewed(to(in, gpu)), attrs), host);
  }
  Inputs magnitude = want;
  if (op.sum_tolerance) magnitude = op_check::run(op, viewed(op_check::magnitudes(in)), attrs);
  for (size_t k = 0; k < want.size(); ++k)
    CHECK(op_check::mismatch(op, got[k], want[k], op_check::summed_parts(magnitude[k])) == "");
}

inline Tensor numbers(const Shape& shape, DType d, uint64_t seed) {
  const WithDevice here(host);
  Tensor x = samples::uniform(shape, -2, 2, seed);
  if (is_complex(d)) return complex(x, samples::uniform(shape, -2, 2, seed + 100)).astype(d);
  return x.astype(d);
}

}  // namespace gpu_compare
