// The lists of passes and the code that runs them: those of every graph, and those of the compiled tier; see
// ../passes.h.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "rill/devices/fused.h"
#include "rill/devices/kernel/compiler.h"
#include "rill/ops/op.h"
#include "rill/tensor/settings.h"
#include "rill/trace/fusion/byte_tails.h"
#include "rill/trace/fusion/channels_last.h"
#include "rill/trace/fusion/epilogues.h"
#include "rill/trace/fusion/fusion.h"
#include "rill/trace/fusion/joined_pads.h"
#include "rill/trace/fusion/thin_axes.h"
#include "rill/trace/graph/instantiate.h"
#include "rill/trace/passes.h"

namespace rill {

std::span<const Pass> pipeline() {
  static constexpr Pass passes[] = {
      {"markers", drop_markers},
      {"dead code", eliminate_dead_code},
      {"constant folding", fold_constants},
      {"common subexpressions", share_common_subexpressions},
      {"rematerialization", rematerialize},
      {"copies for views", insert_copies},
      {"dead code", eliminate_dead_code},
  };
  return passes;
}

namespace {

// Prints to stderr what a pass did to a graph, and the kernels that it fused.
void log_pass(const Pass& pass, const Graph& before, const Graph& after, double us) {
  const size_t from = before.nodes().size(), to = after.nodes().size();
  std::string change = from != to                              ? fmt::format("{} -> {} nodes", from, to)
                       : to_string(before) == to_string(after) ? "unchanged"
                                                               : fmt::format("{} nodes, other ones", to);
  std::string text = fmt::format("rill: {}: {} ({}) {:.0f} us\n", after.name, pass.name, change, us);
  auto fused = [](const Node& n) { return n.kind == Node::Kind::op && n.op == &fused_op; };
  if (std::none_of(before.nodes().begin(), before.nodes().end(), fused))
    for (const Node& n : after.nodes())
      if (fused(n))
        text += fmt::format("rill: {}:   fused({}) -> {}\n", after.name, n.attrs.as<FusedParams>().fused->ops(),
                            to_string(n.outputs[0]));
  std::fputs(text.c_str(), stderr);  // in one call: other threads log too
}

Graph run_passes(std::span<const Pass> passes, Graph g) {
  static const bool log = settings::logs("passes");
  for (const Pass& pass : passes) {
    auto start = std::chrono::steady_clock::now();
    Graph next = pass.run(g);
    if (log)
      log_pass(pass, g, next,
               std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    g = std::move(next);
#ifndef NDEBUG
    if (std::ranges::none_of(g.nodes(), [&](const Node& n) { return holds_open_size(g, n); })) verify(g);
#endif
  }
  return g;
}

}  // namespace

Graph optimize(Graph g) { return run_passes(pipeline(), std::move(g)); }

Graph compile_graph(const Graph& g) {
  static constexpr Pass passes[] = {
      {"channels last", channels_last},
      {"copies for views", insert_copies},
      {"joined pads", join_pads},
      {"dead code", eliminate_dead_code},
      {"thin axes", split_thin_axes},
      {"library epilogues", fuse_epilogues},
      {"fusion", [](const Graph& g) { return fuse(g, kernel::compile); }},
      {"tails of bytes", join_byte_tails},
      {"dead code", eliminate_dead_code},
  };
  return run_passes(passes, g);
}

}  // namespace rill
