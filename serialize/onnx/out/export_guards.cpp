// Whether a trace is right for every size that its signature leaves open, as a model must be. Its guards record the
// outcomes of comparisons with concrete sizes: each is proved to hold for all sizes, or the model is refused. Start at
// Exporter::check_guards.
#include <fmt/format.h>

#include <cmath>
#include <set>

#include "rill/serialize/onnx/out/exporter.h"
#include "rill/trace/graph/guard_proof.h"
#include "rill/trace/graph/instantiate.h"

namespace rill::onnx_out {

namespace {

// Not 1: batched products compare sizes with 1 to broadcast them, which ONNX does in the same way.
constexpr int64_t always_tried[] = {2, 3, 5, 6, 7, 16, 33, 10007};

// The user's own comparisons must have the same outcome for every size. Those inside rill's functions, whose guards
// have the location of their call or come after the `traced` ones, from rules that write nodes, compare with 0 and 1 to
// see whether there is something to index or to broadcast, which the operators do by themselves; and they throw if two
// sizes differ that must agree.
const DimTable::Guard* first_unproved(const DimTable& dims, size_t traced) {
  GuardProof of_all(dims, 0), of_several(dims, 2);
  for (size_t i = 0; i < dims.guards().size(); ++i) {
    const DimTable::Guard& g = dims.guards()[i];
    if (g.costs || of_all.always(g)) continue;
    if (i < traced && g.place.empty()) return &g;
    if (of_several.always_if_large(g)) continue;
    const bool agree = g.test == Dim::Test::equal && g.outcome && dims.knows(g.a) && dims.knows(g.b);
    if (!agree) return &g;
    of_all.assume_equal(g.a, g.b);
    of_several.assume_equal(g.a, g.b);
  }
  return nullptr;
}

}  // namespace

void Exporter::refuse_sizes(const std::string& reason) const {
  fail("export_model",
       fmt::format("'{}' looks at the number behind an open size, and is not right for every one: {}. compute with "
                   "sizes instead of comparing them, or give that size in the signature",
                   graph_.name, reason),
       where_);
}

// A trace that looked at the value of an open size may only be right for some sizes, which a model cannot express.
void Exporter::check_guards() const {
  if (!dims_) return;
  if (const DimTable::Guard* g = first_unproved(*dims_, traced_guards_)) refuse_sizes(NotOpen(*dims_, *g).what());
}

// Rules of shapes promise that shapes are right for other sizes too (tests/trace/test_infer_sizes.cpp). It is verified
// here all the same, which runs nothing else.
void Exporter::try_sizes() const {
  if (!dims_ || dims_->guards().empty()) return;
  std::vector<int64_t> traced;
  for (const auto& [symbol, place] : symbols_) traced.push_back(place.traced);
  const bool independent = std::set<int64_t>(traced.begin(), traced.end()).size() == traced.size();
  const auto check = [&](const std::vector<int64_t>& sizes) {
    try {
      instantiate(graph_, *dims_, sizes, true);
    } catch (const NotOpen& e) {
      if (!e.guard && !e.is_wrong) refuse_sizes(e.what());
    }
  };
  for (const int64_t n : always_tried) {
    if (n < 100 || std::pow(double(n), double(traced.size())) < 1e9)  // their product must not be too large
      check(std::vector<int64_t>(traced.size(), n));
    for (size_t i = 0; independent && i < traced.size(); ++i) {
      std::vector<int64_t> sizes = traced;
      sizes[i] = n;
      check(sizes);
    }
  }
}

}  // namespace rill::onnx_out
