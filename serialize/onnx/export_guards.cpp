// Whether a trace is right for every size that its signature leaves open, which a model has to be. Its guards say what
// the code found when it looked at a number behind an open size; nothing says for which sizes a guard holds, so it is
// tried, at sizes where code is likely to do something else. Start at Exporter::check_guards.
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <set>

#include "rill/serialize/onnx/exporter.h"
#include "rill/trace/graph/instantiate.h"

namespace rill::onnx_out {

namespace {

// `seen`: numbers of expressions, which share their parts.
void add_constants(const DimTable& dims, Dim d, std::set<uint32_t>& seen, std::set<int64_t>& out) {
  const auto add = [&](Dim part) {
    if (!dims.knows(part)) out.insert(part.hint());
  };
  add(d);
  dims.visit_parts(
      d, [&](Dim part) { return seen.count(part.number()) != 0; },
      [&](Dim part, const DimTable::Expression& e) {
        seen.insert(part.number());
        if (e.kind == DimTable::Kind::computed) add(e.a), add(e.b);
      });
}

// Where a test of n with these constants may change: 64 in n % 64 == 0, 32 in n * 2 == 64, 20002 in n / 2 > 10000.
void add_turns(const std::set<int64_t>& constants, std::set<int64_t>& out) {
  constexpr int64_t most = 1 << 20;  // sizes computed from larger ones may be too large for any tensor
  auto add = [&](int64_t n) {
    for (int64_t near : {n / 2, n - 1, n, n + 1, 2 * n})
      if (near > 1 && near <= most) out.insert(near);
  };
  for (int64_t a : constants) {
    if (std::abs(a) > most) continue;
    add(a);
    for (int64_t b : constants) {
      if (a == b || std::abs(b) > most) continue;
      for (int64_t n : {a + b, a - b, a * b, a * b + a}) add(n);
      if (b != 0) add(a / b);
    }
  }
}

// Not 1: products of batches look whether a size is 1, to repeat it, and what ONNX does with a size of 1 is the same.
constexpr int64_t always_tried[] = {2, 3, 5, 6, 7, 16, 33, 10007};

// The sizes around the constants of guards that code outside of rill's functions made. Inside of them a size decides
// which way is faster, too, and both give the same.
std::set<int64_t> sizes_around(const DimTable& dims) {
  std::set<int64_t> sizes;
  for (const DimTable::Guard& g : dims.guards()) {
    if (!g.place.empty()) continue;
    std::set<uint32_t> seen;
    std::set<int64_t> constants;
    add_constants(dims, g.a, seen, constants);
    add_constants(dims, g.b, seen, constants);
    add_turns(constants, sizes);
  }
  return sizes;
}

using Reason = std::optional<NotOpen>;  // why the trace is not right for some sizes

// By the guards that ask for nothing but the open sizes themselves. It costs little beside making the graph, so that
// many sizes can be tried.
Reason guard_against(const Graph&, const DimTable& dims, const std::vector<int64_t>& sizes) {
  DimValues values(dims, sizes, [](const DimTable::Place&) { return std::nullopt; });
  for (const DimTable::Guard& g : dims.guards())
    if (g.place.empty() && values.of(g.a) && values.of(g.b) && !values.holds(g)) return NotOpen(dims, g);
  return {};
}

Reason reason_against(const Graph& g, const DimTable& dims, const std::vector<int64_t>& sizes) {
  try {
    instantiate(g, dims, sizes);
    return {};
  } catch (const NotOpen& e) {
    return e;
  }
}

// The same, but for guards of rill's own functions.
Reason reason_outside(const Graph& graph, const DimTable& dims, const std::vector<int64_t>& sizes) {
  Reason reason = reason_against(graph, dims, sizes);
  return reason && reason->guard && !reason->guard->place.empty() ? Reason() : reason;
}

// A size of 0 is no reason by itself: rill's functions look for it in order to say that there is nothing to index or to
// reduce. One that code outside of them compares is.
Reason reason_against_zero(const Graph& graph, const DimTable& dims, const std::vector<int64_t>& sizes) {
  Reason reason = reason_against(graph, dims, sizes);
  return reason && reason->guard && reason->guard->place.empty() ? reason : Reason();
}

}  // namespace

// A trace whose code looked at the number behind an open size may be right for some sizes only, which a model cannot
// say: so it is made for a number of other sizes, which runs nothing but the rules of shapes.
void Exporter::check_guards() const {
  if (!dims_ || dims_->guards().empty()) return;
  std::vector<int64_t> traced;
  for (const auto& [symbol, place] : symbols_) traced.push_back(place.traced);
  auto check = [&](const Reason& reason) {
    if (reason)
      fail("export_model",
           fmt::format("'{}' looks at the number behind an open size, and is not right for every one: {}. compute with "
                       "sizes instead of comparing them, or give that size in the signature",
                       graph_.name, reason->what()),
           where_);
  };
  const bool independent = std::set<int64_t>(traced.begin(), traced.end()).size() == traced.size();
  // `sizes` with n for each of the open sizes in turn, where they need not agree.
  auto one_by_one = [&](int64_t n, auto reason) {
    for (size_t i = 0; independent && i < traced.size(); ++i) {
      std::vector<int64_t> sizes = traced;
      sizes[i] = n;
      check(reason(graph_, *dims_, sizes));
    }
  };
  one_by_one(0, reason_against_zero);
  auto all_and_each = [&](int64_t n, auto reason) {
    if (n < 100 || std::pow(double(n), double(traced.size())) < 1e9)  // their product must not be too large
      check(reason(graph_, *dims_, std::vector<int64_t>(traced.size(), n)));
    one_by_one(n, reason);
  };
  for (int64_t n : always_tried) all_and_each(n, reason_against);
  for (int64_t n : sizes_around(*dims_)) all_and_each(n, reason_outside);
  for (int64_t n = 2; n < 4096; ++n) one_by_one(n, guard_against);
}

}  // namespace rill::onnx_out
