// A diffusion model (Ho et al.: Denoising diffusion probabilistic models, 2020) of points on a spiral: a network learns
// the noise in points with any amount of it, and turns noise into points in a hundred steps. The training step is the
// user's own, because its targets are drawn in it. The energy distance measures how far the generated points are from
// real ones.
#include "example.h"

using namespace rill;

namespace {

constexpr int64_t levels = 100;

Tensor spiral(int64_t n) {
  const Tensor t = sqrt(random::uniform({n})) * 9 + 1;
  return stack({cos(t), sin(t)}, 1) * expand_dims(t, 1) / 6 + 0.03f * random::normal({n, 2});
}

// The noise in points x [n, 2] at levels [n].
struct Denoiser {
  nn::Embedding level{levels, 32};
  nn::Dense first{128}, second{128, {.activation = silu}}, third{128, {.activation = silu}}, out{2};
  Tensor operator()(const Tensor& x, const Tensor& at, const nn::Call& call = {}) const {
    Tensor h = silu(first(concat({x, level(at, call)}, -1), call));
    h = h + second(h, call);
    return out(h + third(h, call), call);
  }
};

// The fraction of the point that remains at each level, from nearly all to nearly nothing.
Tensor kept() {
  const Tensor betas = linspace(1e-3, 0.15, levels, {.dtype = f32});
  return exp(cumsum(log1p(-betas), 0));
}

struct Diffusion {
  Denoiser net;
  nn::Adam adam{{.learning_rate = nn::cosine_decay(2e-3, 12000)}};
};

Tensor sample(const Denoiser& net, int64_t n) {
  const Tensor left = kept();
  auto step = function([&](const Tensor& x, const Tensor& at, const Tensor& noise) {
    const Tensor now = take(left, at, 0), before = where(at > 0, take(left, maximum(at - 1, 0), 0), 1.0f);
    const Tensor alpha = now / before;
    const Tensor guess = net(x, broadcast_to(at, {n}));
    const Tensor middle = (x - (1 - alpha) / sqrt(1 - now) * guess) / sqrt(alpha);
    return middle + sqrt((1 - alpha) * (1 - before) / (1 - now)) * noise;
  });
  Tensor x = random::normal({n, 2});
  for (int64_t at = levels - 1; at >= 0; --at) x = step(x, tensor(at), random::normal({n, 2}));
  return x;
}

// 2 E|a - b| - E|a - a'| - E|b - b'|: 0 if both have one distribution.
double energy_distance(const Tensor& a, const Tensor& b) {
  const auto mean_distance = [](const Tensor& p, const Tensor& q) {
    return mean(sqrt(sum(square(expand_dims(p, 1) - q), -1))).item<double>();
  };
  return 2 * mean_distance(a, b) - mean_distance(a, a) - mean_distance(b, b);
}

}  // namespace

static void run() {
  Diffusion model;
  nn::build(model.net, spec(f32, {any, 2}), spec(i64, {any}));
  const Tensor left = kept();
  train::Loop loop(model, [&](const Tensor& x) {
    const Tensor at = random::randint(0, levels, {x.dim(0)}), noise = random::normal({x.dim(0), 2});
    const Tensor part = expand_dims(take(left, at, 0), 1);
    GradientTape tape;
    const Tensor loss = mean(square(model.net(sqrt(part) * x + sqrt(1 - part) * noise, at) - noise));
    model.adam.minimize(loss, tape, variables(model.net));
    return loss;
  });
  auto points = data::from_tensors(spiral(8192)).shuffle({.seed = 1}).repeat().batch(256);
  loop.fit(points,
           {.epochs = example::quick ? 1 : 12, .steps_per_epoch = example::quick ? 3 : 1000, .progress = false});

  const Tensor real = spiral(1500);
  example::print("energy distance to real points", energy_distance(sample(model.net, 1500), real),
                 "of other real ones: " + std::to_string(energy_distance(spiral(1500), real)).substr(0, 6) +
                     ", of noise: " + std::to_string(energy_distance(random::normal({1500, 2}), real)).substr(0, 6));
}

int main(int argc, char** argv) { return example::main(argc, argv, run); }
