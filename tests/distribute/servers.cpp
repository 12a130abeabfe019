// Cases of distribute_program: parameters that some ranks keep.
#include <chrono>
#include <thread>

#include "cases.h"

namespace {

using distribute::ParameterServer;

// What all have pushed is there, as a whole, eagerly and traced, wherever it lies.
void server_sums() {
  const int64_t steps = 20;
  Variable a(zeros({3}), "a"), b(full({2, 2}, 1, f64), "b"), c(zeros({}, {.dtype = bf16}), "c");
  ParameterServer server({a, b, c}, {.where = {n - 1, 0, 0}});
  EXPECT(server.server_of(0) == n - 1 && server.server_of(1) == 0);
  const auto step = [&] {
    server.pull();
    a.assign_add(ones({3})), b.assign_add(full({2, 2}, 2, f64)), c.assign_add(ones({}, {.dtype = bf16}));
    server.push();
  };
  auto traced = function("step", [&] { step(); });
  for (int64_t i = 0; i < steps; ++i) i % 2 ? traced() : step();
  EXPECT(server.pushes() == steps);
  distribute::barrier();
  server.pull();
  EXPECT(same(a.value(), full({3}, double(n * steps), f32)));
  EXPECT(same(b.value(), full({2, 2}, double(1 + 2 * n * steps), f64)));
  EXPECT(same(c.value(), full({}, double(n * steps), bf16)));
  EXPECT(server.slowest() == steps);
  distribute::barrier();
}

// Nobody is ahead by more than the bound, while one is slow; who has left holds nobody back.
void server_staleness() {
  for (const int64_t bound : {0, 2}) {
    Variable v(zeros({2}), "v");
    ParameterServer server({v}, {.staleness = bound});
    int64_t ahead = 0;
    for (int64_t i = 0; i < 8; ++i) {
      server.pull();
      ahead = std::max(ahead, server.pushes() - server.slowest());
      if (me == n - 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      server.push();
    }
    EXPECT(ahead <= bound);
    server.leave();
    EXPECT(server.pushes() == -1);
    distribute::barrier();
    if (me != 0) continue;
    server.join();
    EXPECT(server.pushes() == 0);
    for (int64_t i = 0; i < 8; ++i) server.pull(), server.push();
  }
}

// One rank keeps, the others train: as well as together, step by step.
void server_training() {
  // By a server twice as long and by shorter steps, for those of all workers add up.
  const auto parts = [](const auto& data, bool together) {
    return data.shard(n, me, {.within_batch = true}).repeat(together ? 30 : 60);
  };
  const auto error_of = [](const Net& net) {
    float worst = 0;
    for (const auto& [x, y] : examples().batch(128)) worst = mean_squared_error(net(x), y).item<float>();
    return worst;
  };
  const auto train = [&](bool together) {
    random::seed(3);
    Net net;
    nn::Adam adam({.learning_rate = together ? 0.02 : 0.01 / double(std::max<int64_t>(1, n - 1))});
    nn::build(net, spec(f32, {any, 4}));
    distribute::broadcast(net);
    const Group servers = n > 1 ? Group({0}) : Group();
    std::vector<Variable> parameters;
    for (const auto& [path, v] : variables(net)) parameters.push_back(v);
    std::optional<ParameterServer> server;
    if (!together) server.emplace(parameters, distribute::ServerOptions{.servers = servers, .staleness = 2});
    auto step = function("step", [&](const Tensor& x, const Tensor& y) {
      if (server) server->pull();
      std::optional<distribute::GradientTape> shared;
      std::optional<rill::GradientTape> own_tape;
      if (together) shared.emplace();
      else own_tape.emplace();
      const Tensor loss = mean_squared_error(net(x), y);
      adam.minimize(loss, together ? static_cast<rill::GradientTape&>(*shared) : *own_tape, parameters);
      if (server) server->push();
      return loss;
    });
    const bool works = together || n == 1 || me > 0;
    if (works)
      for (const auto& [x, y] : parts(examples().batch(32), together)) step(x, y);
    distribute::barrier();
    if (server && works) server->pull();
    return works ? error_of(net) : 0.f;
  };
  const float synchronous = train(true), asynchronous = train(false);
  if (me == n - 1) std::printf("error %g together, %g by a server\n", double(synchronous), double(asynchronous));
  EXPECT(synchronous < 0.1f && asynchronous < 0.1f);
}

// Mistakes, each of which is told where it is made.
void server_mistakes() {
  Variable v(zeros({2}), "v"), counts(zeros({2}, {.dtype = i32}), "counts");
  EXPECT(says([&] { ParameterServer server({v, counts}); }, "parameter 1 must have a value, of f16, bf16, f32 or f64"));
  EXPECT(says([&] { ParameterServer server({v}, {.where = {n}}); }, "parameter 0 goes to server"));
  EXPECT(says([&] { ParameterServer server({v}, {.where = {0, 0}}); }, ".where has 2 places for 1 parameters"));
  EXPECT(says([&] { ParameterServer server({v}, {.staleness = -1}); }, "staleness is -1"));
  ParameterServer server({v});
  EXPECT(says([&] { server.join(); }, "this worker is there already"));
  server.leave();
  EXPECT(says([&] { server.pull(); }, "this rank is no worker, or has left"));
}

}  // namespace

const Cases server_cases = {
    {"server_sums", server_sums},
    {"server_staleness", server_staleness},
    {"server_training", server_training},
    {"server_mistakes", server_mistakes},
};
