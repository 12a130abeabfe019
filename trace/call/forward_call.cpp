// Calls a traced graph under a ForwardAccumulator: the graph is traced again with tangents of its inputs as further
// inputs and those of its results as further results, so that one run computes both.
#include "rill/autodiff/forward_impl.h"
#include "rill/trace/call/graph_call.h"
#include "rill/trace/graph/tracer.h"

namespace rill {

struct GraphCall::Forward {
  std::shared_ptr<GraphCall> graph;
  std::vector<size_t> moved;  // indices of the results with a tangent; the tangents are its last results
};

// `moving`: for each input, whether it has a tangent.
GraphCall::Forward& GraphCall::forward(const Wanted& moving) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<Forward>& known = forwards_[moving];
  if (known) return *known;
  const Graph& g = traced_;
  auto made = std::make_shared<Forward>();
  Tracer tracer(g.name);
  ForwardAccumulator along;
  std::vector<Tensor> inputs;
  for (const GraphInput& in : g.inputs) {
    const Node& n = g.nodes()[size_t(in.node)];
    inputs.push_back(tracer.add_argument(n.outputs[0], n.name));
  }
  for (size_t k = 0; k < inputs.size(); ++k)
    if (moving[k]) along.watch(inputs[k], tracer.add_argument(inputs[k].spec(), "tangent"));
  const std::vector<Tensor> results = interpret(g, inputs);
  for (const Tensor& r : results) tracer.add_output(r);
  for (size_t k = 0; k < results.size(); ++k) {
    if (!is_differentiable(results[k].dtype())) continue;
    const Tensor tangent = along.jvp(results[k], Unconnected::none);
    if (tangent.defined()) tracer.add_output(tangent), made->moved.push_back(k);
  }
  made->graph = std::make_shared<GraphCall>(tracer.finish());
  known = std::move(made);
  return *known;
}

std::vector<Tensor> GraphCall::call_forward(ForwardAccumulator::Impl& along, std::span<const Tensor> inputs,
                                            const Where& where) {
  Wanted moving;
  std::vector<Tensor> all(inputs.begin(), inputs.end());
  for (const Tensor& t : inputs) {
    const Tensor& tangent = along.tangent_of(t);
    moving.push_back(tangent.defined() && is_differentiable(t.dtype()));
    if (moving.back()) all.push_back(tangent);
  }
  const Forward& f = forward(moving);
  bool known_outside = false;
  {
    const ForwardAccumulator::Impl::Outside outside(along);
    std::vector<const Tensor*> in;
    for (const Tensor& t : all) in.push_back(&t);
    known_outside = innermost_watching(in) != nullptr;
    all = f.graph->call(all, where);
  }
  const size_t results = all.size() - f.moved.size();
  for (size_t i = 0; i < f.moved.size(); ++i) {
    Tensor& t = all[f.moved[i]];
    // Passes may have merged values, only one of which has a tangent.
    if (!known_outside && !t.ref().unique()) t = make_alias(t);
    along.set(t, all[results + i]);
  }
  all.resize(results);
  return all;
}

}  // namespace rill
