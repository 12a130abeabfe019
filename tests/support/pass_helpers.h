// The effect of a pass on a graph: for tests that count kernels and compare bits with the ops run one by one.
#pragma once
#include <vector>

#include "catch.h"
#include "rill/rill.h"
#include "rill/trace/passes.h"
#include "rill/trace/run/executable.h"
#include "same.h"

// Traces f on tensors like `in`, runs its graph with and without `pass` and compares bits. Returns the number of
// kernels with it.
template <class Pass, class F>
size_t kernels_after(Pass pass, F f, const std::vector<rill::Tensor>& in) {
  using namespace rill;
  auto traced = function("f", [&](const std::vector<Tensor>& v) { return f(v); });
  const Graph g = optimize(traced.graph(in));
  const Executable plain(g), changed(pass(g));
  INFO(to_string(changed.graph()));
  std::vector<Tensor> a(plain.result_count()), b(a.size()), inputs;
  for (const GraphInput& i : g.inputs)
    inputs.push_back(i.kind == GraphInput::Kind::argument ? in[size_t(i.argument)] : i.captured);
  plain.run(inputs, a);
  changed.run(inputs, b);
  for (size_t k = 0; k < a.size(); ++k) CHECK(same(a[k], b[k]));
  return changed.kernel_count();
}
