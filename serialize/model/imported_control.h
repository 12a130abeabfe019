// What the interpreters of ONNX and TensorFlow share of choices and loops: values as the tensors that cond, scan and
// while_loop carry, and what happens where a file's graphs do not fit together.
//
// A file says nothing of shapes: branches that give different ones, or loops whose carried values grow, are sound when
// they are run, and cannot be traced. Such a model is run op by op (NeedsValues). Only the branch that is chosen has to
// be sound, so that an error in one of them says the same.
#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "rill/serialize/model/imported_node.h"
#include "rill/trace/control/mismatch.h"
#include "rill/trace/control_flow.h"

namespace rill::imported {

using Tensors = std::vector<Tensor>;

inline bool truth(const Tensor& t) {
  const EagerScope eager;
  return not_equal(reshape(t, {}), 0).item<bool>();
}
// A scalar as a condition: any number but 0 is true.
inline Tensor as_condition(const Tensor& t) {
  const Tensor scalar = reshape(t, {});
  return scalar.dtype() == DType::boolean ? scalar : not_equal(scalar, 0);
}

// Values that control flow hands on.
template <class Call, class Values>
Tensors tensors_of(const Call& c, const Values& values) {
  using Kind = typename Values::value_type::Kind;
  Tensors out;
  for (const auto& v : values) {
    if (v.kind != Kind::tensor && v.kind != Kind::sizes)
      c.needs_values("a condition: it decides about what is no tensor, or is not there");
    out.push_back(as_tensor(v, fmt::format("{}: a result", described(c.node))));
  }
  return out;
}
template <class Values>
Values values_of(const Tensors& tensors) {
  return {tensors.begin(), tensors.end()};
}

// run() in a trace; where graphs do not fit together, the model needs the values of what decides.
template <class Call, class F>
auto fitting(const Call& c, F&& run) {
  try {
    return run();
  } catch (const Error& e) {
    if (is_kind<NeedsValues>(e) || !is_kind<ControlMismatch>(e)) throw;
    c.needs_values(std::string("what decides, since its graphs do not fit together: ") + e.what());
  }
}
// A branch, of which nobody knows yet whether it is chosen.
template <class Call, class F>
auto perhaps_unsound(const Call& c, F&& run) {
  try {
    return run();
  } catch (const Error& e) {
    if (is_kind<NeedsValues>(e)) throw;
    c.needs_values(std::string("its condition, since a branch that may not be chosen is wrong: ") + e.what());
  }
}

// One of several branches by the integer `which`, or the first where the bool is true: each is run by run(i).
template <class Call, class F>
auto chosen(const Call& c, const Tensor& which, size_t branches, F run) {
  using Values = decltype(run(size_t(0)));
  auto branch = [&c, &run](size_t i) {
    return [&c, &run, i] { return perhaps_unsound(c, [&] { return tensors_of(c, run(i)); }); };
  };
  return fitting(c, [&] {
    if (which.dtype() == DType::boolean) return values_of<Values>(cond(which, branch(0), branch(1)));
    std::vector<Callback<Tensors()>> all;
    for (size_t i = 0; i < branches; ++i) all.push_back(branch(i));
    return values_of<Values>(switch_case<Tensors>(which, all));
  });
}

}  // namespace rill::imported
