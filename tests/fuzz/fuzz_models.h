// Calls of a model that was read from a damaged file, for fuzz_files.cpp: small inputs as the file describes them. The
// call returns or throws rill::Error; its results are not checked.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "fuzz_damage.h"
#include "rill/rill.h"
#include "rill/serialize.h"

namespace fuzz {

using namespace rill;

constexpr int64_t largest_input = 1 << 14;  // of more elements none is made up

// False if the file needs more than that.
inline bool make_input(const ValueInfo& v, Random& random, Tensor& made) {
  Shape shape;
  if (!v.has_shape)
    for (size_t i = below(random, 4); i-- > 0;) shape.push_back(int64_t(1 + below(random, 3)));
  int64_t n = 1;
  for (const Dim d : v.shape) {
    const int64_t size = d == open_size ? int64_t(1 + below(random, 3)) : int64_t(d);
    shape.push_back(size);
    if (size > largest_input || (n *= std::max<int64_t>(size, 1)) > largest_input) return false;
  }
  const int64_t count = shape.numel();
  if (v.dtype == rill::string) {
    made = tensor(std::vector<std::string>(size_t(count), below(random, 2) ? "some text" : ""), shape);
    return true;
  }
  std::vector<double> elements;
  for (int64_t i = 0; i < count; ++i)
    elements.push_back(is_floating(v.dtype) || is_complex(v.dtype) ? double(below(random, 4001)) / 1000 - 2
                                                                   : double(below(random, 4)));
  made = tensor(elements, shape).astype(v.dtype);
  return true;
}

inline bool make_inputs(const Model& model, Random& random, std::map<std::string, Tensor>& inputs) {
  for (const ValueInfo& v : model.inputs()) {
    if (v.optional && below(random, 2)) continue;
    if (v.kind == ValueInfo::Kind::tensor) {
      if (!make_input(v, random, inputs[v.name])) return false;
      continue;
    }
    for (size_t i = 0; i < 1 + below(random, 2); ++i)
      if (!make_input(v, random, inputs[v.name + "/" + std::to_string(i)])) return false;
  }
  return true;
}

// Gives whether there was a call.
inline bool call_model(const Model& model, Random& random) {
  std::map<std::string, Tensor> inputs;
  if (!make_inputs(model, random, inputs)) return false;
  for (const auto& [name, t] : model(inputs)) to_string(t);
  if (below(random, 8) == 0) to_string(model.graph());
  return true;
}

}  // namespace fuzz
