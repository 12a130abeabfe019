// Balancing a pole on a cart by deep Q-learning (Mnih et al., 2015; double, van Hasselt et al., 2016). The cart is that of
// Barto, Sutton and Anderson (1983) with Gym's constants; a game lasts up to 500 steps, and 475 on average count as solved
// (CartPole-v1). The dataset plays: each element is a batch of earlier transitions.
#include <array>
#include <cmath>

#include "example.h"

using namespace rill;

namespace {

struct CartPole {
  std::array<float, 4> state{};  // position, speed, angle, angular speed
  int steps = 0;
  void reset() {
    const std::vector<float> s = random::uniform({4}, {.low = -0.05, .high = 0.05}).to_vector<float>();
    std::copy(s.begin(), s.end(), state.begin());
    steps = 0;
  }
  // Pushes to the left or right; returns whether the pole fell.
  bool push(bool right) {
    auto& [x, v, angle, turn] = state;
    const float force = right ? 10 : -10, c = std::cos(angle), s = std::sin(angle);
    const float part = (force + 0.05f * turn * turn * s) / 1.1f;
    const float twist = (9.8f * s - c * part) / (0.5f * (4 / 3.f - 0.1f * c * c / 1.1f));
    x += 0.02f * v, v += 0.02f * (part - 0.05f * twist * c / 1.1f);
    angle += 0.02f * turn, turn += 0.02f * twist;
    ++steps;
    return std::abs(x) > 2.4f || std::abs(angle) > 0.2095f;
  }
};

// The value of each push in a state; the target network follows slowly.
struct Agent {
  nn::Sequential net = network(), target = network();
  nn::Adam adam{{.learning_rate = 5e-4}};
  static nn::Sequential network() {
    return nn::Sequential(nn::Dense(128, {.activation = relu}), nn::Dense(128, {.activation = relu}), nn::Dense(2));
  }
  bool best(const CartPole& game) const {
    const std::vector<float> worth = net(tensor(game.state).reshape({1, 4})).to_vector<float>();
    return worth[1] > worth[0];
  }
};

// The mean length of games without random pushes.
double play(const Agent& agent, int games) {
  double steps = 0;
  for (int i = 0; i < games; ++i) {
    CartPole game;
    game.reset();
    while (!game.push(agent.best(game)) && game.steps < 500) {
    }
    steps += game.steps;
  }
  return steps / games;
}

// Rows of {state, next state, push, 1 if the game continued}.
struct Player {
  const Agent* agent;
  CartPole game = {};
  std::vector<float> seen = {};
  int64_t moves = 0;
  static constexpr int64_t width = 10;
  void move() {
    if (game.steps == 0) game.reset();
    const double chance = std::max(0.05, 1 - double(moves++) / 4000);
    const bool right =
        random::uniform({}).item<float>() < chance ? random::uniform({}).item<float>() < 0.5f : agent->best(game);
    seen.insert(seen.end(), game.state.begin(), game.state.end());
    const bool fell = game.push(right);
    seen.insert(seen.end(), game.state.begin(), game.state.end());
    seen.insert(seen.end(), {float(right), float(!fell)});
    if (fell || game.steps >= 500) game.steps = 0;
  }
  std::optional<Tensor> operator()() {
    while (moves < 500) move();
    move();
    std::vector<float> batch;
    for (int64_t i : random::randint(0, moves, {128}).to_vector<int64_t>())
      batch.insert(batch.end(), seen.begin() + i * width, seen.begin() + (i + 1) * width);
    return tensor(batch).reshape({128, width});
  }
};

}  // namespace

static void run() {
  Agent agent;
  for (nn::Sequential* net : {&agent.net, &agent.target}) nn::build(*net, spec(f32, {any, 4}));
  const std::vector<Variable> parameters = agent.net.parameters(), slow = agent.target.parameters();
  for (size_t i = 0; i < slow.size(); ++i) Variable(slow[i]).assign(parameters[i]);
  train::Loop loop(agent, [&](const Tensor& rows) {
    const Tensor state = rows(all, slice(0, 4)), next = rows(all, slice(4, 8));
    const Tensor push = rows(all, 8).astype(i64), goes_on = rows(all, 9);
    const Tensor chosen = one_hot(argmax(agent.net(next), -1), 2);
    const Tensor goal = stop_gradient(1 + 0.99f * goes_on * sum(agent.target(next) * chosen, -1));
    GradientTape tape;
    const Tensor loss = mean(huber_loss(sum(agent.net(state) * one_hot(push, 2), -1), goal));
    agent.adam.minimize(loss, tape, parameters);
    for (size_t i = 0; i < slow.size(); ++i) Variable(slow[i]).assign_add(0.01f * (parameters[i] - slow[i]));
    return loss;
  });
  loop.fit(data::from_generator(Player{&agent}), {.epochs = example::quick ? 1 : 60,
                                                  .steps_per_epoch = example::quick ? 20 : 500,
                                                  .progress = false,
                                                  .callbacks = {train::each_epoch([&](train::Run& run) {
                                                    if (!example::quick && play(agent, 10) >= 495) run.stop("solved");
                                                  })}});
  example::print("steps of a game, of 500", play(agent, example::quick ? 2 : 100), "475 count as solved");
}

int main(int argc, char** argv) { return example::main(argc, argv, run); }
