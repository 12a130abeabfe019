// Programs of thousands of ops, Variables and constants: what would take minutes if work grew as the square of their
// number. The first cases count the work of each walk (growth.h); of the others, at a size where that shows, the suite's
// time limit is the judge. Walks over files are in test_growth_files.cpp.
#include <memory>

#include "catch.h"
#include "growth.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "rill/trace/fusion/fusion.h"
#include "rill/trace/passes.h"
#include "rill/trace/profile.h"
#include "rill/trace/run/memory_plan.h"

using namespace rill;

namespace {
constexpr int many = 16000;

// A chain of `n` ops that reads Variables, captured tensors and distinct constants, in scopes, and assigns some.
struct Chain {
  explicit Chain(int n, bool assigns = false) : n(n), assigns(assigns) {
    for (int i = 0; i < n / 8; ++i) weights.emplace_back(full({}, 1.0 / (1 + i)), "layer/w");
    for (int i = 0; i < n / 8; ++i) captured.push_back(full({}, double(i)));
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = x;
    for (int i = 0; i < n; ++i) {
      const auto at = size_t(i / 8);
      if (i % 8 == 1 && at < weights.size()) y = y * weights[at];
      else if (i % 8 == 2 && at < captured.size()) y = y + captured[at];
      else if (i % 8 == 3) y = y + double(i);
      else y = i % 2 ? sin(y) : y * x;
      if (assigns && i % 64 == 1 && at < weights.size()) Variable(weights[at]).assign(y);
    }
    return y;
  }
  int n;
  bool assigns;
  std::vector<Variable> weights;
  std::vector<Tensor> captured;
};
auto chain_function(int n, bool assigns = false) {
  return function("chain", [chain = Chain(n, assigns)](const Tensor& x) { return chain(x); });
}
const Tensor half = tensor(0.5f);

// A walk over the chain's graph.
growth::MakeWalk of_graph(std::function<void(const Graph&)> walk, bool assigns = false) {
  return [walk = std::move(walk), assigns](int n) -> growth::Walk {
    auto f = std::make_shared<decltype(chain_function(1))>(chain_function(n, assigns));
    auto g = std::make_shared<const Graph>(f->graph(half));
    return [walk, f, g] { walk(*g); };
  };
}
// What is done with the chain, traced or not, where nothing has been done before.
template <class F>
growth::MakeWalk of_chain(F walk) {
  return [walk](int n) -> growth::Walk {
    auto chain = std::make_shared<Chain>(n);
    return [walk, chain] { walk(*chain); };
  };
}
template <class F>
growth::MakeWalk of_function(F walk, bool assigns = false) {
  return [walk, assigns](int n) -> growth::Walk {
    auto f = std::make_shared<decltype(chain_function(1))>(chain_function(n, assigns));
    return [walk, f] { walk(*f); };
  };
}
}  // namespace

TEST_CASE("walks over graphs") {
  using growth::is_linear;
  is_linear("graph()", of_function([](auto& f) { f.graph(half); }));
  is_linear("graph() with assignments", of_function([](auto& f) { f.graph(half); }, true));
  is_linear("to_string", of_graph([](const Graph& g) { to_string(g); }, true));
  is_linear("to_text", of_graph([](const Graph& g) { to_text(g); }, true));
  is_linear("to_text with tensors aside", of_graph([](const Graph& g) {
              GraphTensors aside;
              to_text(g, {.tensors = &aside, .largest = 0});
            }));
  is_linear("graph_variables", of_graph([](const Graph& g) { graph_variables(g); }, true));
  is_linear("parse_graph", of_graph([](const Graph& g) { parse_graph(to_text(g), graph_variables(g)); }, true));
  is_linear("optimize", of_graph([](const Graph& g) { optimize(g); }, true));
  is_linear("fold_in_place", of_graph([](const Graph& g) { fold_in_place(g); }, true));
  is_linear("freeze", of_graph([](const Graph& g) { freeze(g); }));
  is_linear("plan_memory", of_graph([](const Graph& g) { plan_memory(optimize(g)); }, true));
  is_linear("fuse", of_graph([](const Graph& g) { fuse(optimize(g), nullptr); }, true));
  is_linear("fuse, with a Variable in every group", [](int n) -> growth::Walk {
    std::vector<Variable> weights;
    for (int i = 0; i < n / 4; ++i) weights.emplace_back(half, "w");
    const auto f = function("f", [&](const Tensor& x) {
      Tensor y = x;
      for (Variable& w : weights) w.assign(w * 0.5f), y = y + w * x;
      return y;
    });
    return [g = optimize(f.graph(half))] { fuse(g, nullptr); };
  });
  is_linear("run", of_graph([](const Graph& g) { g.run({{"arg0", half}}); }));
  is_linear("value", of_graph([](const Graph& g) {
              for (size_t i = 0; i < g.nodes().size(); i += g.nodes().size() / 16)
                g.value(std::to_string(i).insert(0, 1, '%'));
            }));
}

TEST_CASE("calls, and what is asked of a function") {
  using growth::is_linear;
  is_linear("a first call", of_function([](auto& f) { f(half); }, true));
  is_linear("later calls", of_function(
                               [](auto& f) {
                                 for (int call = 0; call < 4; ++call) f(half);
                               },
                               true));
  is_linear("explain", of_function([](auto& f) { f(half), f.explain(); }));
  is_linear("verify", of_function([](auto& f) { f.verify(half); }, true));
  is_linear("memory_plan", of_function([](auto& f) { to_string(memory_plan(f, half)); }));
  is_linear("profile", of_function([](auto& f) { to_string(profile(f, half)); }));
  is_linear("thousands of arguments", [](int n) -> growth::Walk {
    return [n] {
      const auto f = function("sum", [](const std::vector<Tensor>& all) {
        Tensor y = all[0];
        for (const Tensor& t : all) y = y + t;
        return y;
      });
      f(std::vector<Tensor>(size_t(n), half));
    };
  });
}

TEST_CASE("long lists of operands") {
  growth::is_linear("a product of many matrices", [](int n) -> growth::Walk {
    auto chain = std::make_shared<std::vector<Tensor>>();
    for (int i = 0; i < n; ++i) chain->push_back(eye(1 + i % 3, 1 + (i + 1) % 3));
    return [chain] { linalg::multi_dot(*chain); };
  });
}

TEST_CASE("derivatives") {
  using growth::is_linear;
  is_linear("a tape", of_chain([](const Chain& f) {
              GradientTape tape;
              tape.watch(half);
              tape.gradient(f(half), half);
            }));
  is_linear("a tape's gradients by all Variables", of_chain([](const Chain& f) {
              GradientTape tape;
              tape.gradient(f(half), f.weights);
            }));
  is_linear("a persistent tape that is asked for each of many small pieces", [](int n) -> growth::Walk {
    return [n] {
      GradientTape tape({.persistent = true});
      tape.watch(half);
      std::vector<Tensor> pieces;
      for (int i = 0; i < n; ++i) pieces.push_back(half * double(i));
      for (const Tensor& t : pieces) tape.gradient(t, half);
      for (int i = 0; i < n; ++i) tape.gradient(pieces[1], half, {.unconnected = Unconnected::zero});
    };
  });
  is_linear("tangents", of_chain([](const Chain& f) { jvp(f, half, tensor(1.f)); }));
  is_linear("rows", of_chain([](const Chain& f) { vmap(f)(stack({half, half})); }));
  is_linear("a Jacobian", of_chain([](const Chain& f) { jacrev(f)(half); }));
  is_linear("the gradient around a call", of_function([](auto& f) {
              GradientTape tape;
              tape.watch(half);
              tape.gradient(f(half), half);
            }));
  is_linear("the gradient inside", of_chain([](const Chain& f) { function("g", grad(f))(half); }));
  is_linear("tangents around a call", of_function([](auto& f) { jvp(f, half, tensor(1.f)); }));
  is_linear("rows of calls", of_function([](auto& f) { vmap(f)(stack({half, half})); }));
  is_linear("a second derivative around a call", of_function([](auto& f) {
              GradientTape outer;
              outer.watch(half);
              GradientTape tape;
              tape.watch(half);
              const Tensor first = tape.gradient(f(half), half);
              outer.gradient(first, half);
            }),
            500);
  is_linear("recompute", of_chain([](const Chain& f) {
              function("g", [&](const Tensor& x) { return grad(recompute(f))(x); })(half);
            }));
  is_linear("many recomputed parts", [](int n) -> growth::Walk {
    return [n] {
      function("g", grad([n](const Tensor& x) {
                 Tensor y = x;
                 for (int i = 0; i < n / 4; ++i) y = recompute([](const Tensor& v) { return sin(v * v); })(y);
                 return y;
               }))(half);
    };
  });
  is_linear("many gradient rules", [](int n) -> growth::Walk {
    return [n] {
      const auto rule =
          custom_gradient([](const Tensor& v) { return std::pair(v * 2, [](const Tensor& g) { return g * 2; }); });
      function("g", grad([&](const Tensor& x) {
                 Tensor y = x;
                 for (int i = 0; i < n / 4; ++i) y = rule(y);
                 return y;
               }))(half);
    };
  });
}

TEST_CASE("steps and branches that read thousands of Variables") {
  using growth::is_linear;
  const auto scanned = [](const Chain& f) {
    return function("scan", [&](const Tensor& x) {
      return scan(
                 [&](const Tensor& carried, const Tensor& row) {
                   const Tensor y = f(carried + row);
                   return std::pair(y, y);
                 },
                 half, x)
          .first;
    });
  };
  is_linear("a scan", of_chain([=](const Chain& f) { scanned(f)(ones({2})); }));
  is_linear("a scan's gradient", of_chain([=](const Chain& f) {
              GradientTape tape;
              tape.gradient(scanned(f)(ones({2})), f.weights);
            }),
            500);
  is_linear("a branch", of_chain([](const Chain& f) {
              const auto g = function(
                  "cond", [&](const Tensor& x) { return cond(x > 0, [&] { return f(x); }, [&] { return x; }); });
              GradientTape tape;
              tape.gradient(g(half), f.weights);
            }),
            500);
}

// --- Nesting -----------------------------------------------------------------------------------------------------------

namespace {

using Nest = std::function<Tensor(const Tensor& x, int depth)>;
Tensor nested_scan(const Tensor& x, int depth) {
  if (depth == 0) return sin(x) * x;
  return scan(
             [&](const Tensor& carried, const Tensor& row) {
               const Tensor y = nested_scan(carried, depth - 1) * row;
               return std::pair(y, y);
             },
             x, tensor({0.5f}))
      .first;
}
Tensor nested_while(const Tensor& x, int depth) {
  if (depth == 0) return sin(x) * x;
  return while_loop([](const Tensor& v) { return sum(v) < 0.f; },
                    [&](const Tensor& v) { return nested_while(v, depth - 1) + 1; }, x, {.max_steps = 2});
}
Tensor nested_cond(const Tensor& x, int depth) {
  if (depth == 0) return sin(x) * x;
  return cond(sum(x) > 0, [&] { return nested_cond(x, depth - 1); }, [&] { return x * 2; });
}

}  // namespace

TEST_CASE("what is made of nested control flow does not double at each level") {
  const std::pair<const char*, Nest> nests[] = {
      {"scan", nested_scan}, {"while_loop", nested_while}, {"cond", nested_cond}};
  using Body = std::function<Tensor(const Tensor&)>;
  const std::pair<const char*, std::function<Tensor(const Body&, const Tensor&)>> uses[] = {
      {"call", [](const Body& f, const Tensor& x) { return f(x); }},
      {"grad", [](const Body& f, const Tensor& x) { return grad([&](const Tensor& v) { return sum(f(v)); })(x); }},
      {"jvp", [](const Body& f, const Tensor& x) { return jvp(f, x, ones_like(x)).second; }},
      {"vmap", [](const Body& f, const Tensor& x) { return vmap(f)(stack({x, x * 2})); }},
      {"vmap of vmap", [](const Body& f, const Tensor& x) { return vmap(vmap(f))(stack({x, x * 2})); }},
      {"vmap of grad",
       [](const Body& f, const Tensor& x) {
         return vmap(grad([&](const Tensor& v) { return sum(f(v)); }))(stack({x, x * 2}));
       }},
      {"jvp of grad",
       [](const Body& f, const Tensor& x) {
         return jvp(grad([&](const Tensor& v) { return sum(f(v)); }), x, ones_like(x)).second;
       }},
      {"grad of grad", [](const Body& f, const Tensor& x) {
         const auto first = [&](const Tensor& v) {
           return sum(grad([&](const Tensor& u) { return sum(f(u)); })(v) * v);
         };
         return grad(first)(x);
       }}};
  for (const auto& [nest_name, nest] : nests)
    for (const auto& [use_name, use] : uses)
      for (const bool open : {false, true}) {
        INFO(use_name << " of " << nest_name << (open ? ", open sizes" : ""));
        const auto blocks = [&, &nest = nest, &use = use](int depth) {
          const Body f = [&](const Tensor& x) { return nest(x, depth); };
          const auto traced = function("nested", [&](const Tensor& x) { return use(f, x); },
                                       {.signature = {spec(f32, {open ? Dim(any) : Dim(3)}, "x")}});
          const double before = growth::taken.blocks;
          traced(tensor({0.5f, -0.25f, 1.f}));
          return growth::taken.blocks - before;
        };
        const double at_4 = blocks(4), at_8 = blocks(8), at_12 = blocks(12);
        INFO(at_4 << ", " << at_8 << ", " << at_12);
        // A second derivative of a nest of d has d d d parts; twice as many a level would be 16 times as many.
        CHECK(at_8 < 9 * at_4);
        CHECK(at_12 < 4 * at_8);
      }
}

TEST_CASE("a chain of thousands of distinct constants") {
  auto chain = function("chain", [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < many; ++i) y = y * 0.5 + double(i);
    return y;
  });
  const Graph g = chain.graph(spec(f64, {}));
  CHECK(share_common_subexpressions(g).nodes().size() > size_t(2 * many));
  CHECK(plan_memory(g).arena_bytes <= 2 * 64);
  // The same constant again and again is one.
  auto same = function("same", [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < many; ++i) y = y * tensor({2.0, double(i % 3)});
    return y;
  });
  CHECK(share_common_subexpressions(same.graph(spec(f64, {2}))).nodes().size() == size_t(1 + 3 + many));
}

TEST_CASE("constants too large to compare, by thousands") {
  auto f = function("large", [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < many; ++i) y = y + full({65}, double(i));
    return y;
  });
  const Graph g = f.graph(spec(f64, {65}));
  CHECK(share_common_subexpressions(g).nodes().size() > size_t(many));
}

TEST_CASE("where the memory of thousands of values goes") {
  auto f = function("kept", [](const Tensor& x) {
    std::vector<Tensor> all;
    for (int i = 0; i < many / 4; ++i) all.push_back(sin(x + double(i)));
    Tensor y = all[0];
    for (size_t i = 1; i < all.size(); ++i) y = matmul(y, all[i]);
    return y;
  });
  const MemoryUse m = memory_plan(f, ones({3, 3}, f64));
  CHECK(m.values.size() >= 2);
  CHECK(m.peak_bytes >= m.values[0].bytes);
}

TEST_CASE("a call on a tape that assigns thousands of Variables") {
  std::vector<Variable> weights;
  for (int i = 0; i < many / 8; ++i) weights.emplace_back(full({}, double(i)), "w");
  auto step = function("step", [&](const Tensor& x) {
    Tensor sum = x;
    for (Variable& w : weights) sum = sum + w * w, w.assign(w * 0.5);
    return sum;
  });
  for (int call = 0; call < 3; ++call) {
    GradientTape tape;
    const Tensor y = step(tensor(1.0));
    const std::vector<Tensor> gradients = tape.gradient(y, weights);
    CHECK(gradients[3].item<double>() == 6 * std::pow(0.5, call));
  }
}

TEST_CASE("a scan whose step reads thousands of Variables") {
  std::vector<Variable> weights;
  for (int i = 0; i < many / 10; ++i) weights.emplace_back(full({}, 1.0 / (1 + i)), "w");
  auto f = function("f", [&](const Tensor& x) {
    return scan(
               [&](const Tensor& carried, const Tensor& row) {
                 Tensor y = carried + row;
                 for (Variable& w : weights) y = y * w + 1;
                 return std::pair(y, y);
               },
               tensor(0.0), x)
        .first;
  });
  GradientTape tape;
  const Tensor y = f(ones({2}, f64));
  CHECK(tape.gradient(y, weights).size() == weights.size());
}
