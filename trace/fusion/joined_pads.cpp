// Sums of adjacent pads become one concat; see joined_pads.h. Start at join_pads.
#include "rill/trace/fusion/joined_pads.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "rill/devices/params/shape_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/trace/graph/rewriter.h"

namespace rill {

extern const Op add_op, concat_op, pad_op;

namespace {

// One padded value, along the axis that it is padded on.
struct Piece {
  ValueId value;
  int64_t first, count;
};

// A pad, or a sum of pads along one axis.
struct Pieces {
  int axis = -1;
  int64_t count = 0;          // of all pieces
  std::vector<Piece> pieces;  // empty: the value is something else
};

Pieces padded(const Graph& g, const Node& n) {
  const PadAttrs& a = n.attrs.as<PadAttrs>();
  const bool zero = a.value.whole == 0 && a.value.real == 0 && !std::signbit(a.value.real) && a.value.imag == 0 &&
                    !std::signbit(a.value.imag);
  if (!zero || is_bool(n.outputs[0].dtype)) return {};
  const Shape& from = g.spec(n.inputs[0]).shape;
  Pieces p;
  for (size_t i = 0; i < from.size(); ++i) {
    if (a.interior[i] != 0 || a.lo[i] < 0 || a.hi[i] < 0) return {};
    if (a.lo[i] == 0 && a.hi[i] == 0) continue;
    if (p.axis >= 0) return {};
    p.axis = int(i);
  }
  if (p.axis < 0) return {};
  p.count = from[size_t(p.axis)];
  p.pieces.push_back({n.inputs[0], a.lo[size_t(p.axis)], p.count});
  return p;
}

// Moves the pieces out of both, for a chain may be long; other readers of those get the sum as it is.
Pieces joined(Pieces& a, Pieces& b) {
  if (a.pieces.empty() || b.pieces.empty() || a.axis != b.axis || &a == &b) return {};
  Pieces both = std::move(a);
  both.count += b.count;
  both.pieces.insert(both.pieces.end(), b.pieces.begin(), b.pieces.end());
  a = b = {};
  return both;
}

// Whether the pieces cover the axis without gaps; then they are in order.
bool covers(Pieces& p, const Shape& shape) {
  if (p.pieces.size() < 2 || p.count != shape[size_t(p.axis)]) return false;
  std::stable_sort(p.pieces.begin(), p.pieces.end(), [](const Piece& x, const Piece& y) { return x.first < y.first; });
  int64_t next = 0;
  for (const Piece& piece : p.pieces) {
    if (piece.first != next) return false;
    next += piece.count;
  }
  return true;
}

}  // namespace

Graph join_pads(const Graph& g) {
  std::vector<Pieces> pieces(g.nodes().size());
  struct Found {
    size_t node;
    Pieces pieces;
  };
  std::vector<Found> found;
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    if (n.kind != Node::Kind::op) continue;
    if (n.op == &pad_op) pieces[i] = padded(g, n);
    if (n.op != &add_op || !(g.spec(n.inputs[0]).shape == g.spec(n.inputs[1]).shape)) continue;
    pieces[i] = joined(pieces[size_t(n.inputs[0].node)], pieces[size_t(n.inputs[1].node)]);
    // A complete one is no part of another sum.
    if (covers(pieces[i], n.outputs[0].shape)) found.push_back({i, std::exchange(pieces[i], {})});
  }
  if (found.empty()) return g;
  const EagerScope eager;
  Rewriter r(g);
  for (size_t i = 0, next = 0; i < g.nodes().size(); ++i) {
    if (next == found.size() || found[next].node != i) {
      r.copy(i);
      continue;
    }
    const Pieces& covering = found[next++].pieces;
    const Node& n = g.nodes()[i];
    const ValueId none = r.append(constant_node(n, zeros({}, {n.outputs[0].dtype, n.outputs[0].device})));
    std::vector<ValueId> parts;
    for (const Piece& p : covering.pieces) parts.push_back(r.append(n, add_op, {r[p.value], none}));
    r.put(i, r.node(n, concat_op, std::move(parts), ConcatAttrs{covering.axis}));
  }
  return r.finish();
}

}  // namespace rill
