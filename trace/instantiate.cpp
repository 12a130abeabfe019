#include "rill/trace/instantiate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "rill/devices/registry.h"
#include "rill/devices/shape_params.h"
#include "rill/ops/ops.h"
#include "rill/tensor/visit_dtype.h"
#include "rill/trace/control_nodes.h"

namespace rill {

// --- Stand-ins -------------------------------------------------------------------------------------------------------

namespace {
bool is_prime(int64_t n) {
  for (int64_t d = 2; d * d <= n; ++d)
    if (n % d == 0) return false;
  return true;
}
}  // namespace

// About 1.2 million: a float holds such a number and its neighbours exactly, an int64 the product of three, and sizes
// that programs write down (powers of two and of ten) are far from it and its multiples.
int64_t stand_in_size(size_t i) {
  int64_t n = 1'187'003 + int64_t(i) * 7'211;
  while (!is_prime(n)) ++n;
  return n;
}

// --- The arithmetic --------------------------------------------------------------------------------------------------

namespace {

struct Pair {
  int64_t traced, concrete;
};

int64_t times(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? 0 : r;  // 0: too large to matter
}

// From a number of the trace to the number that the callable would have made for the concrete sizes.
class SizeMap {
 public:
  explicit SizeMap(std::span<const OpenSize> sizes) {
    for (const OpenSize& s : sizes) sizes_.push_back({s.stand_in, s.size});
    products_ = sizes_;
    for (size_t degree = 1, first = 0; degree < 3; ++degree) {
      size_t last = products_.size();
      for (size_t i = first; i < last; ++i)
        for (const Pair& s : sizes_)
          if (int64_t t = times(products_[i].traced, s.traced); t && !find(products_, t))
            products_.push_back({t, products_[i].concrete * s.concrete});
      first = last;
    }
    std::sort(products_.begin(), products_.end(), [](const Pair& a, const Pair& b) { return a.traced > b.traced; });
  }

  // Formulas of the open sizes themselves: c * n, c * n * m, c * n + d.
  std::optional<int64_t> formula(int64_t v) const {
    if (v < 0) {
      auto positive = formula(-v);
      return positive ? std::optional(-*positive) : std::nullopt;
    }
    if (v < smallest) return std::nullopt;
    for (const Pair& p : products_)
      if (v % p.traced == 0 && v / p.traced < smallest) return v / p.traced * p.concrete;
    for (const Pair& p : sizes_) {
      int64_t c = (v + p.traced / 2) / p.traced, d = v - c * p.traced;
      if (c >= 1 && c <= 64 && std::abs(d) <= 4096) return c * p.concrete + d;
    }
    return std::nullopt;
  }

  // The same, and what infer rules make of sizes (the output of a convolution), once an earlier node had it.
  std::optional<int64_t> known(int64_t v) const {
    if (const Pair* p = find(learned_, v)) return p->concrete;
    if (auto f = formula(v)) return f;
    if (v < smallest) return std::nullopt;
    for (const Pair& p : sizes_) {  // n / 2 and n - n / 2; of n / 3 the remainder could not be told
      if (v == p.traced / 2) return p.concrete / 2;
      if (v == p.traced - p.traced / 2) return p.concrete - p.concrete / 2;
    }
    for (const Pair& a : learned_) {
      for (const Pair& b : learned_)
        if (int64_t t = times(a.traced, b.traced); t && v % t == 0) return v / t * a.concrete * b.concrete;
      for (const Pair& b : products_)
        if (int64_t t = times(a.traced, b.traced); t && v % t == 0) return v / t * a.concrete * b.concrete;
      if (v % a.traced == 0 && v / a.traced <= 4096) return v / a.traced * a.concrete;
      if (std::abs(v - a.traced) <= 64) return a.concrete + (v - a.traced);
    }
    return std::nullopt;
  }

  // Whether an unknown number is near a simple fraction of a size: then it was made from it.
  bool looks_made(int64_t v) const {
    if (v < 0) v = v == slice_min ? 0 : -v;
    if (v < smallest) return false;
    for (const Pair& p : products_)
      for (int64_t b = 1; b <= 16; ++b) {
        double unit = double(p.traced) / double(b), multiple = std::round(double(v) / unit);
        if (multiple >= 1 && multiple <= 64 && std::abs(double(v) - multiple * unit) <= 64) return true;
      }
    return false;
  }

  // Throws a reason, as text, where `v` was made from a size in a way that is not understood.
  int64_t at(int64_t v) const {
    if ((v > -smallest && v < smallest) || v == slice_max || v == slice_min) return v;
    auto k = v < 0 ? known(-v) : known(v);
    if (k && *k < 0)  // n - 5 of n = 3: the callable might have meant, or checked for, something else
      throw NotOpen(fmt::format("a number made from an open size is negative ({})", *k));
    if (k) return v < 0 ? -*k : *k;
    if (looks_made(v)) throw NotOpen(fmt::format("the number {} was made from an open size in an unknown way", v));
    return v;
  }

  // A floating number: whole, or 1/n, c/n, sqrt(n), 1/sqrt(n), in the precision that it was computed in.
  double at(double v, bool single) const {
    if (!std::isfinite(v) || v == 0) return v;
    if (v < 0) return -at(-v, single);
    auto rounded = [&](double x) { return single ? double(float(x)) : x; };
    if (v >= double(smallest)) {
      if (v == std::floor(v) && v < 9e15) {
        auto whole = int64_t(v);
        if (single && whole > (1 << 24)) {  // a float of this size is a rounded product
          for (const Pair& p : products_)
            if (int64_t c = int64_t(std::round(v / double(p.traced))); c >= 1 && c <= 4096)
              if (rounded(double(c) * double(p.traced)) == v) return rounded(double(c) * double(p.concrete));
          return v;
        }
        return rounded(double(at(whole)));
      }
    } else if (v < 1.0 / double(smallest)) {
      for (double c : {1.0, 2.0, 0.5, 3.0, 4.0})
        for (int64_t near = int64_t(std::round(c / v)), n = near - 2; n <= near + 2; ++n)
          if (auto k = known(n); k && (rounded(c / double(n)) == v || (single && float(c) / float(n) == float(v))))
            return single && float(c) / float(n) == float(v) ? double(float(c) / float(*k)) : rounded(c / double(*k));
    }
    for (int64_t near = int64_t(std::round(v * v)), n = near - 2; v > 64 && v < 1e8 && n <= near + 2; ++n)
      if (auto k = known(n); k && rounded(std::sqrt(double(n))) == v) return rounded(std::sqrt(double(*k)));
    for (int64_t near = int64_t(std::round(1 / (v * v))), n = near - 2; v < 0.01 && v > 1e-8 && n <= near + 2; ++n)
      if (auto k = known(n); k && rounded(1 / std::sqrt(double(n))) == v) return rounded(1 / std::sqrt(double(*k)));
    return v;
  }

  // Compares an inferred size with the traced one, and learns from it.
  void check(int64_t traced, int64_t concrete) {
    std::optional<int64_t> expected = traced;
    if (traced >= smallest)
      if (expected = find(learned_, traced) ? find(learned_, traced)->concrete : formula(traced); !expected) {
        learned_.push_back({traced, concrete});
        return;
      }
    if (*expected != concrete)
      throw NotOpen(fmt::format("a size is {} where the trace expects {}", concrete, *expected));
  }

 private:
  static constexpr int64_t smallest = 4097;  // numbers below are the program's own
  static const Pair* find(const std::vector<Pair>& in, int64_t traced) {
    for (const Pair& p : in)
      if (p.traced == traced) return &p;
    return nullptr;
  }

  std::vector<Pair> sizes_, products_, learned_;
};

class RewriteAttrs final : public AttrRewriter {
 public:
  explicit RewriteAttrs(const SizeMap& map) : map_(map) {}
  void field(const char*, int64_t& v) override { v = map_.at(v); }
  void field(const char*, double& v) override { v = map_.at(v, false); }
  void field(const char*, Dims& v) override {
    for (int64_t& d : v) d = map_.at(d);
  }
  void field(const char*, FillValue& v, DType dtype) override {
    if (is_floating(dtype) || is_complex(dtype)) {
      v.real = map_.at(v.real, dtype == DType::f32);
    } else {
      v.whole = map_.at(v.whole);
      v.real = double(v.whole);
    }
  }

 private:
  const SizeMap& map_;
};

// Constants that the callable made: C++ scalars, and small tensors of sizes.
Tensor rewrite_constant(const Tensor& t, const SizeMap& map) {
  for (int64_t d : t.shape())
    if (map.known(d))
      throw NotOpen(fmt::format("a constant of shape {} is made for an open size", to_string(t.shape())));
  if (t.size() == 0 || t.size() > 64 || t.dtype() == DType::string || is_complex(t.dtype())) return t;
  EagerScope eager;
  Tensor dense = t.contiguous();
  bool changed = false;
  Tensor out = empty_tensor(dense.spec());
  visit_dtype(t.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> || (std::is_integral_v<T> && sizeof(T) >= 4)) {
      auto* from = reinterpret_cast<const T*>(dense.rep()->data);
      auto* to = reinterpret_cast<T*>(out.mutable_rep()->data);
      for (int64_t i = 0; i < t.size(); ++i) {
        if constexpr (std::is_integral_v<T>) to[i] = T(map.at(int64_t(from[i])));
        else to[i] = T(map.at(double(from[i]), sizeof(T) == 4));
        changed |= std::memcmp(&to[i], &from[i], sizeof(T)) != 0;
      }
    }
  });
  return changed ? out : t;
}

std::string place_of(const Node& n) { return n.where.empty() ? "" : n.where + ": "; }

}  // namespace

bool is_made_from(int64_t size, std::span<const int64_t> stand_ins) {
  std::vector<OpenSize> sizes;
  for (int64_t s : stand_ins) sizes.push_back({s, 1});
  SizeMap map(sizes);
  return map.known(size) || map.looks_made(size);
}

// --- Graphs ----------------------------------------------------------------------------------------------------------

namespace {

Graph instantiate(const Graph& traced, SizeMap& map);

// A control-flow node holds graphs and the specs of its outputs.
void instantiate_graphs(Node& n, SizeMap& map) {
  ControlAttrs attrs = n.attrs.as<ControlAttrs>();
  for (auto& inner : attrs.graphs)
    inner = std::make_shared<const InnerGraph>(inner->role, instantiate(inner->graph, map));
  for (Spec& s : attrs.outputs)
    for (int64_t& d : s.shape) d = map.at(d);
  n.attrs = attrs;
}

void instantiate_op(Node& n, const Graph& g, SizeMap& map) {
  RewriteAttrs rewrite(map);
  n.attrs = n.attrs.rewritten(rewrite);
  if (n.op->graphs) instantiate_graphs(n, map);
  SmallVec<const Spec*, 8> in;
  for (ValueId v : n.inputs) in.push_back(&g.spec(v));
  OutSpecs out = infer(*n.op, {in.data(), in.size()}, n.attrs, Where::current());
  for (size_t k = 0; k < n.outputs.size(); ++k) {
    const Shape& was = n.outputs[k].shape;
    if (out.size() != n.outputs.size() || out[k].shape.size() != was.size() || out[k].dtype != n.outputs[k].dtype)
      throw NotOpen("its outputs are of another kind");
    for (size_t d = 0; d < was.size(); ++d) map.check(was[d], out[k].shape[d]);
  }
  n.outputs.assign(out.begin(), out.end());
}

Graph instantiate(const Graph& traced, SizeMap& map) {
  Graph g;
  g.name = traced.name;
  std::vector<char> is_argument(traced.nodes().size(), 0);
  for (const GraphInput& in : traced.inputs) is_argument[size_t(in.node)] = in.kind == GraphInput::Kind::argument;
  for (size_t i = 0; i < traced.nodes().size(); ++i) {
    Node n = traced.nodes()[i];
    try {
      if (n.kind == Node::Kind::op) instantiate_op(n, g, map);
      else if (n.kind == Node::Kind::constant) n.constant = rewrite_constant(n.constant, map);
      else if (is_argument[i])
        for (int64_t& d : n.outputs[0].shape) d = map.at(d);
    } catch (const std::exception& e) {
      throw NotOpen(fmt::format("{}[{}] {}", place_of(traced.nodes()[i]), traced.nodes()[i].op_name(), e.what()));
    }
    g.append(std::move(n));
  }
  g.inputs = traced.inputs;
  g.outputs = traced.outputs;
  g.assigns = traced.assigns;
  return g;
}

}  // namespace

Graph instantiate(const Graph& traced, std::span<const OpenSize> sizes) {
  SizeMap map(sizes);
  return instantiate(traced, map);
}

Graph with_open_sizes(const Graph& traced, std::span<const int64_t> stand_ins) {
  auto shown = [&](int64_t v) { return is_made_from(v, stand_ins) ? open_size : v; };
  class Show final : public AttrRewriter {
   public:
    explicit Show(std::span<const int64_t> stand_ins) : stand_ins_(stand_ins) {}
    void field(const char*, int64_t&) override {}
    void field(const char*, double&) override {}
    void field(const char*, Dims& v) override {
      for (int64_t& d : v)
        if (is_made_from(d, stand_ins_)) d = open_size;
    }
    void field(const char*, FillValue&, DType) override {}

   private:
    std::span<const int64_t> stand_ins_;
  } show(stand_ins);
  Graph g;
  g.name = traced.name;
  for (Node n : traced.nodes()) {
    for (Spec& s : n.outputs)
      for (int64_t& d : s.shape) d = shown(d);
    n.attrs = n.attrs.rewritten(show);
    g.append(std::move(n));
  }
  g.inputs = traced.inputs;
  g.outputs = traced.outputs;
  g.assigns = traced.assigns;
  return g;
}

}  // namespace rill
