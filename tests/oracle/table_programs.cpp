// The table of functional transforms, control flow and random draws. Transforms and control flow run small programs
// that generate.py has as well. For random draws, counts and quantiles are compared with the distribution's: keys are
// fixed, so that a draw is the same in every run.
#include "cases.h"

namespace oracle {

using namespace rill;

// A vector function, each of whose outputs depends on every input, and a scalar one.
static Tensor vector_program(const Tensor& x) { return tanh(x) * sum(x) + square(x) * reverse(x); }
static Tensor scalar_program(const Tensor& x) { return sum(exp(x * 0.3) * reverse(x)) + prod(cos(x)); }

static void add_transforms(Table& t) {
  t["grad"] = {[](const Call& c) -> Values { return {grad(scalar_program)(c[0])}; }};
  t["value_and_grad"] = {[](const Call& c) -> Values {
    auto [value, gradient] = value_and_grad(scalar_program)(c[0]);
    return {value, gradient};
  }};
  t["vjp"] = {[](const Call& c) -> Values {
    auto [value, pull] = vjp(vector_program, c[0]);
    return {value, pull(c[1])};
  }};
  t["jvp"] = {[](const Call& c) -> Values {
    auto [value, tangent] = jvp(vector_program, c[0], c[1]);
    return {value, tangent};
  }};
  t["linearize"] = {[](const Call& c) -> Values {
    auto [value, map] = linearize(vector_program, c[0]);
    return {value, map(c[1])};
  }};
  t["hvp"] = {[](const Call& c) -> Values { return {hvp(scalar_program, c[0], c[1])}; }};
  t["vhp"] = {[](const Call& c) -> Values { return {vhp(scalar_program, c[0], c[1])}; }};
  t["jacrev"] = {[](const Call& c) -> Values { return {jacrev(vector_program)(c[0])}; }};
  t["jacfwd"] = {[](const Call& c) -> Values { return {jacfwd(vector_program)(c[0])}; }};
  t["jacobian"] = {[](const Call& c) -> Values { return {jacobian(vector_program)(c[0])}; }};
  t["hessian"] = {[](const Call& c) -> Values { return {hessian(scalar_program)(c[0])}; }};
  t["vmap"] = {[](const Call& c) -> Values { return {vmap(vector_program)(c[0])}; }};
  t["vmap of grad"] = {[](const Call& c) -> Values { return {vmap(grad(scalar_program))(c[0])}; }};
  t["recompute_chain"] = {[](const Call& c) -> Values {
    const Tensor x = c[0];
    const std::vector<std::function<Tensor(const Tensor&)>> layers = {
        [](const Tensor& v) { return tanh(v); }, [x](const Tensor& v) { return v * sum(x); },
        [](const Tensor& v) { return sin(v); }, [x](const Tensor& v) { return v + flip(x, 0); },
        [](const Tensor& v) { return tanh(v); }};
    return {recompute_chain(layers, x, {.segments = 3})};
  }};
  t["named"] = {[](const Call& c) -> Values {
    return {
        recompute([](const Tensor& x) { return named(sin(x), "sine") * x; }, {.policy = save_only({"sine"})})(c[0])};
  }};
  t["recompute"] = {[](const Call& c) -> Values { return {recompute(vector_program)(c[0])}; }};
  // log(1 + e^x), with its gradient by hand.
  t["custom_gradient"] = {[](const Call& c) -> Values {
    auto f = custom_gradient([](const Tensor& x) {
      Tensor e = exp(x);
      return std::pair(log(1 + e), [e](const Tensor& g) { return g * e / (1 + e); });
    });
    return {f(c[0])};
  }};
  t["custom_jvp"] = {[](const Call& c) -> Values {
    auto f = custom_jvp([](const Tensor& x) {
      Tensor e = exp(x);
      return std::pair(log(1 + e), [e](const Tensor& tangent) { return tangent * e / (1 + e); });
    });
    return {f(c[0])};
  }};
  t["batch_jacobian"] = {[](const Call& c) -> Values {
    GradientTape tape;
    Tensor x = identity(c[0]);
    tape.watch(x);
    return {tape.batch_jacobian(tanh(x) * sum(x, -1, true) + square(x), x)};
  }};
}

static void add_control_flow(Table& t) {
  t["cond"] = {[](const Call& c) -> Values {
    return {cond(sum(c[0]) > 0, [&] { return tanh(c[0]) * c[1]; }, [&] { return c[0] - c[1]; })};
  }};
  t["switch_case"] = {[](const Call& c) -> Values {
    return {switch_case(c[1], {[&] { return sin(c[0]); }, [&] { return c[0] * c[0]; }, [&] { return -c[0]; }})};
  }};
  t["while_loop"] = {[](const Call& c) -> Values {
    auto [x, n] = while_loop([](const Tensor& x, const Tensor& n) { return logical_and(sum(abs(x)) > 0.5, n < 20); },
                             [](const Tensor& x, const Tensor& n) { return std::tuple(sin(x) * 0.7, n + 1); }, c[0],
                             tensor(int64_t(0)), {.max_steps = 20});
    return {x, n};
  }};
  t["scan"] = {[](const Call& c) -> Values {
    auto [last, all_steps] = scan(
        [](const Tensor& h, const Tensor& x) {
          Tensor next = tanh(h * 0.5 + x);
          return std::pair(next, next * x);
        },
        c[0], c[1], {.reverse = c.flag("reverse")});
    return {last, all_steps};
  }};
}

// Programs of several functions and arguments.
static void add_composites(Table& t) {
  t["program mlp"] = {[](const Call& c) -> Values { return {matmul(tanh(matmul(c[0], c[1])), c[2])}; }};
  t["program classifier"] = {[](const Call& c) -> Values {
    const Tensor y = log_softmax(matmul(softplus(matmul(c[0], c[1]) + c[2]), c[3]) + c[4]);
    return {-sum(y * eye(2, -1, 0, {.dtype = y.dtype()})) / 2};
  }};
  t["program recurrent"] = {[](const Call& c) -> Values {
    const Tensor both = reshape(sigmoid(matmul(concat({c[0], c[1]}), c[2])), {2, 2}), gate = both(0), next = both(1);
    return {(1 - gate) * c[0] + gate * tanh(next * c[1])};
  }};
  t["program rosenbrock"] = {[](const Call& c) -> Values {
    const Tensor a = c[0](slice(0, -1)), b = c[0](slice(1, none));
    return {sum(100 * square(b - square(a)) + square(1 - a))};
  }};
  t["program log_density"] = {[](const Call& c) -> Values {
    const Tensor scale = softplus(c[2]), z = (c[0] - c[1]) / scale;
    return {sum(-square(z) / 2 - log(scale), -1)};
  }};
  t["program newton"] = {[](const Call& c) -> Values {
    Tensor y = ones_like(c[0]);
    for (int i = 0; i < 5; ++i) y = (y + c[0] / y) / 2;
    return {y};
  }};
  t["program moves"] = {[](const Call& c) -> Values {
    const Tensor& x = c[0];
    const Tensor below = reshape(sin(transpose(x)), x.shape()) * x(slice(0, 1));
    return {ravel(concat({cumsum(reverse(x, {0}), {.axis = 0}), below}))(slice(none, none, 2))};
  }};
  t["program distances"] = {
      [](const Call& c) -> Values { return {norm(expand_dims(c[0], {1}) - expand_dims(c[1], {0}), {.axis = -1})}; }};
}

static Tensor draw(const Call& c) {
  const std::string kind = c.text("kind");
  const random::Key key(uint64_t(c.integer("key", 1)));
  const Shape n = c.dims("shape");
  if (kind == "uniform")
    return random::uniform(n, {.low = c.number("low", 0), .high = c.number("high", 1), .dtype = c.dtype(), .key = key});
  if (kind == "normal")
    return random::normal(
        n, {.mean = c.number("mean", 0), .stddev = c.number("stddev", 1), .dtype = c.dtype(), .key = key});
  if (kind == "truncated_normal")
    return random::truncated_normal(n, {.mean = c.number("mean", 0),
                                        .stddev = c.number("stddev", 1),
                                        .low = c.number("low", -2),
                                        .high = c.number("high", 2),
                                        .dtype = c.dtype(),
                                        .key = key});
  if (kind == "exponential") return random::exponential(n, {.dtype = c.dtype(), .key = key});
  if (kind == "gumbel") return random::gumbel(n, {.dtype = c.dtype(), .key = key});
  if (kind == "laplace") return random::laplace(n, {.dtype = c.dtype(), .key = key});
  if (kind == "randint")
    return random::randint(c.integer("low", 0), c.integer("high", 2), n, {.dtype = c.dtype(), .key = key});
  if (kind == "bernoulli") return random::bernoulli(c[0], n, {.key = key});
  if (kind == "categorical") return random::categorical(c[0], n, {.key = key});
  if (kind == "permutation") return random::permutation(c.integer("n", 1), {.key = key});
  if (kind == "shuffle") return random::shuffle(c[0], c.integer("axis", 0), {.key = key});
  if (kind == "choice") {
    random::ChoiceOptions options{.replace = c.flag("replace", true), .key = key};
    if (c.in.size() > 1) options.p = c[1];
    return random::choice(c[0], n, options);
  }
  return random::bits(n, {.dtype = c.dtype(), .key = key});
}

static void add_draws(Table& t) {
  for (const char* name : {"uniform", "normal", "truncated_normal", "exponential", "gumbel", "laplace"})
    t[std::string("random::") + name] = {[](const Call& c) -> Values {
      Tensor x = draw(c).astype(f64).reshape({-1}), share = tensor(c.numbers("q"));
      return {quantile(x, share), mean(x)};
    }};
  // How often each of 0, 1, ... was drawn.
  for (const char* name : {"randint", "bernoulli", "categorical", "choice"})
    t[std::string("random::") + name] = {[](const Call& c) -> Values {
      return {bincount(draw(c).astype(i64).reshape({-1}), {.length = c.integer("length", 2)})};
    }};
  // In whatever order, the elements stay the same.
  for (const char* name : {"permutation", "shuffle"})
    t[std::string("random::") + name] = {[](const Call& c) -> Values { return {sort(draw(c), c.integer("axis", 0))}; }};
  t["random::bits"] = {[](const Call& c) -> Values { return {draw(c)}; }};
  t["random::generator"] = {[](const Call& c) -> Values {
                              random::generator().assign(random::Key(uint64_t(c.integer("key", 0))).value());
                              return {random::bits(c.dims("shape"))};
                            },
                            false};
  t["random::seed"] = {[](const Call& c) -> Values {
                         random::seed(uint64_t(c.integer("key", 0)));
                         return {random::bits(c.dims("shape"))};
                       },
                       false};
}

static void add_initializers(Table& t) {
  auto add = [&t](const char* name, const nn::Initializer& make) {
    t[std::string("nn::") + name] = {[make](const Call& c) -> Values {
                                       random::seed(uint64_t(c.integer("key", 0)));
                                       Tensor x = make(c.dims("shape")).astype(f64).reshape({-1});
                                       return {quantile(x, tensor(c.numbers("q"))), mean(x)};
                                     },
                                     false};
  };
  add("glorot_uniform", nn::glorot_uniform), add("glorot_normal", nn::glorot_normal);
  add("he_uniform", nn::he_uniform), add("he_normal", nn::he_normal);
  add("lecun_uniform", nn::lecun_uniform), add("lecun_normal", nn::lecun_normal);
  add("uniform", nn::uniform(-0.5, 1.5)), add("normal", nn::normal(1, 2));
  t["nn::constant"] = {[](const Call& c) -> Values { return {nn::constant(c.number("value", 0))(c.dims("shape"))}; }};
}

void add_programs(Table& t) {
  add_transforms(t);
  add_control_flow(t);
  add_composites(t);
  add_draws(t);
  add_initializers(t);
  t["nn::fans_of"] = {[](const Call& c) -> Values {
    const nn::Fans fans = nn::fans_of(c.dims("shape"));
    return {tensor({fans.in, fans.out})};
  }};
  t["nn::LearningRate"] = {[](const Call& c) -> Values { return {nn::LearningRate(c.number("rate", 0)).at(c[0])}; },
                           false};
  t["normal_axis"] = {[](const Call& c) -> Values {
    return {tensor(normal_axis(c.integer("axis", 0), c.integer("ndim", 1), "oracle", Where::current()))};
  }};
  t["normal_axes"] = {[](const Call& c) -> Values {
    const Dims d = normal_axes(c.dims("axes"), c.integer("ndim", 1), "oracle", Where::current());
    return {tensor(std::vector<int64_t>(d.begin(), d.end()))};
  }};
  t["nn::exponential_decay"] = {[](const Call& c) -> Values {
    const auto n = c.numbers("schedule");
    return {nn::exponential_decay(n.at(0), n.at(1), n.at(2))(c[0])};
  }};
  t["nn::cosine_decay"] = {[](const Call& c) -> Values {
    const auto n = c.numbers("schedule");
    return {nn::cosine_decay(n.at(0), n.at(1), n.at(2), n.at(3))(c[0])};
  }};
  t["nn::piecewise_constant"] = {[](const Call& c) -> Values {
    return {nn::piecewise_constant(c.numbers("boundaries"), c.numbers("schedule"))(c[0])};
  }};
}

}  // namespace oracle
