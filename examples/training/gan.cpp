// A generative adversarial network (Goodfellow et al., 2014) for points on a ring of eight clouds, the usual test of
// whether a generator drops some (mode collapse): with a training step of the user's, two losses and two optimizers.
#include <numbers>

#include "example.h"

using namespace rill;

namespace {

constexpr double pi = std::numbers::pi;

// n points of eight clouds with deviation 0.1 on a circle of radius 2.
Tensor ring(int64_t n) {
  const Tensor angle = random::randint(0, 8, {n}).astype(f32) * float(pi / 4);
  return stack({cos(angle), sin(angle)}, 1) * 2 + 0.1f * random::normal({n, 2});
}
nn::Sequential network(int64_t outputs) {
  return nn::Sequential(nn::Dense(128, {.activation = relu}), nn::Dense(128, {.activation = relu}), nn::Dense(outputs));
}

// All state that a resumed run needs.
struct Game {
  nn::Sequential generator = network(2), judge = network(1);
  nn::Adam for_generator{{.learning_rate = 1e-3, .beta1 = 0.5}}, for_judge{{.learning_rate = 1e-3, .beta1 = 0.5}};
};

// How many of the eight clouds have a fair fraction of the points, and the fraction near any.
std::pair<int, double> covered(const Tensor& points) {
  const Tensor angles = arange(8).astype(f32) * float(pi / 4);
  const Tensor centres = stack({cos(angles), sin(angles)}, 1) * 2;
  const Tensor distance = sqrt(sum(square(expand_dims(points, 1) - centres), -1));  // [points, 8]
  const Tensor near = (distance < 0.4f).astype(f64);
  const Tensor shares = mean(near, 0);
  return {int(sum(shares > 0.02).item<int64_t>()), sum(shares).item<double>()};
}

}  // namespace

static void run() {
  Game game;
  nn::build(game.generator, spec(f32, {any, 8}));
  nn::build(game.judge, spec(f32, {any, 2}));
  train::Loop loop(game, [&](const Tensor& real) {
    GradientTape tape, other;
    const Tensor fake = game.generator(random::normal({real.dim(0), 8}));
    const Tensor fooled = mean(softplus(-game.judge(fake)));
    const Tensor caught = mean(softplus(game.judge(stop_gradient(fake)))) + mean(softplus(-game.judge(real)));
    game.for_generator.minimize(fooled, tape, game.generator.variables());
    game.for_judge.minimize(caught, other, game.judge.variables());
    return std::map<std::string, Tensor>{{"fooled", fooled}, {"caught", caught}};
  });
  auto points = data::from_tensors(ring(4096)).shuffle({.seed = 1}).repeat().batch(256);
  loop.fit(points, {.epochs = example::quick ? 1 : 10, .steps_per_epoch = example::quick ? 3 : 600, .progress = false});

  const auto [clouds, share] = covered(game.generator(random::normal({2000, 8})));
  example::print("clouds of eight that are made", clouds, "8 in the data");
  example::print("points that are near one", share,
                 "real ones: " + std::to_string(covered(ring(2000)).second).substr(0, 6));
}

int main(int argc, char** argv) { return example::main(argc, argv, run); }
