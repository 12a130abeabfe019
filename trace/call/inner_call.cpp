// See inner_call.h.
#include "rill/trace/call/inner_call.h"

#include <mutex>
#include <utility>

namespace rill {

const GraphCall& call_of(const InnerGraph& g) {
  if (const GraphCall* made = call_if_made(g)) return *made;
  InnerGraph::Ready& ready = g.ready();
  const std::lock_guard hold(ready.making);
  if (!ready.call) ready.call = std::make_shared<GraphCall>(g.graph);
  ready.made.store(ready.call.get(), std::memory_order_release);
  return *ready.call;
}

namespace {
void run_ready(const Executable& ready, std::span<const Tensor> in, std::vector<Tensor>& results,
               const Executable::Packs* packs) {
  results.resize(ready.result_count());
  if (const Executable::Note* note = Executable::note_now()) ready.run_timed(in, results, *note, packs);
  else ready.run(in, results, packs);
}
}  // namespace

void run_inner(const InnerGraph& g, std::span<const Tensor> in, std::vector<Tensor>& results) {
  run_ready(call_of(g).executable(), in, results, nullptr);
}

void InnerSteps::run(std::span<const Tensor> in, std::vector<Tensor>& results) {
  constexpr int worth_packing = 3;
  const Executable& ready = call_of(graph_).executable();
  if (steps_ < worth_packing) return ++steps_, run_ready(ready, in, results, nullptr);
  if (std::exchange(packed_for_, &ready) != &ready) packs_ = ready.packs_for(first_fixed_);
  run_ready(ready, in, results, packs_.empty() ? nullptr : &packs_);
}

}  // namespace rill
