// One program, many processes: mpirun -n 4 ./distribute. Alone it is one rank, and all of it still holds.
#include <rill/data.h>
#include <rill/distribute.h>
#include <rill/nn.h>
#include <rill/rill.h>
#include "expect.h"
using namespace rill;

int main(int argc, char** argv) {
  distribute::Session session(
      argc, argv);  // MPI_Init, and MPI_Finalize at the end; a rank that throws ends the job with its message
  const int64_t n = distribute::size(), me = distribute::rank();
  {  // Collectives are ops: eager, traced, differentiable.
    Tensor x = full({3}, double(me + 1), f32);
    EXPECT(array_equal(distribute::all_reduce(x), full({3}, double(n * (n + 1)) / 2, f32)));
    EXPECT(distribute::all_gather(x).shape() == Shape{n, 3});
    auto f = function("f", [](const Tensor& v) { return sum(square(distribute::all_reduce(v))); });
    EXPECT(f.verify(x));
    Tensor g = grad([](const Tensor& v) { return sum(square(distribute::all_reduce(v))); })(x);
    EXPECT(g.item<float>(0) == float(2 * n * n * (n + 1) / 2));
  }
  {  // Data parallel: the same model on every rank, gradients averaged while the backward walk goes on. With a fixed order of
     // additions the weights are the same bits on 1, 2 or 4 ranks for the same global batch.
    random::seed(1);
    nn::Sequential model(nn::Dense(32, {.activation = tanh}), nn::Dense(1));
    nn::Adam adam({.learning_rate = 0.01});
    auto ds = data::range(256).map([](int64_t i) {
      Tensor v = random::normal({4}, {.key = random::Key(uint64_t(i))});
      return std::pair(v, sum(v, 0, {.keepdims = true}));
    });
    nn::build(model, spec(f32, {any, 4}));
    distribute::broadcast(model);
    auto step = function("step", [&](const Tensor& x, const Tensor& y) {
      distribute::GradientTape tape;  // gradient() gives the mean over all ranks
      Tensor loss = mean_squared_error(model(x), y);
      adam.minimize(loss, tape, model.parameters());
      return distribute::mean(loss);
    });
    float loss = 0;
    for (const auto& [x, y] : ds.batch(64).shard(n, me, {.within_batch = true}).repeat(20))
      loss = step(x, y).item<float>();
    EXPECT(loss < 0.5f && distribute::is_same(model));  // the same bits on all ranks
  }
  {  // A mesh of named axes; tensors sharded over it; products that need no hand-written communication.
    distribute::Mesh mesh({{"data", n}, {"model", 1}});
    Tensor w = distribute::shard(arange(8 * n).astype(f32).reshape({n, 8}), mesh, {"data", none});
    EXPECT(w.dim(0) == 1 &&
           array_equal(distribute::gather(w, mesh, {"data", none}), arange(8 * n).astype(f32).reshape({n, 8})));
  }
}
