// dp_mlp, dp_cnn, dp_block: train_mlp, train_cnn and train_block with one batch divided among ranks. collectives.py
// starts this on several ranks of one core each, and on one rank of all these cores: with a Session and a
// distribute::GradientTape, or, if "plain" is given, with neither.
#include <rill/distribute.h>
#include <rill/rill.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "answer.h"
#include "models.h"

using namespace rill;

namespace {

template <class Loss>
auto shared_step(bench::Parameters params, Loss loss) {
  for (const Variable& v : params) distribute::broadcast(v);
  return function("step", [=](const Tensor& x, const Tensor& y) mutable {
    distribute::GradientTape tape;
    Tensor value = loss(params, x, y);
    std::vector<Tensor> gradients = tape.gradient(value, params);
    for (size_t i = 0; i < params.size(); ++i) params[i].assign_sub(0.01f * gradients[i]);
    return value;
  });
}

template <class Step>
void time_step(const char* row, const char* who, const Step& step, const Tensor& x, const Tensor& y, bool plain) {
  for (int i = 0; i < 20; ++i) step(x, y);
  std::vector<double> times;
  for (int i = 0; i < 60; ++i) {
    if (!plain && i % 10 == 0) distribute::barrier();
    const double begin = bench::clock_us();
    step(x, y).template item<float>();
    times.push_back(bench::clock_us() - begin);
  }
  std::nth_element(times.begin(), times.begin() + 30, times.end());
  if (plain || distribute::rank() == 0)
    std::printf("{\"row\": \"%s\", \"peer\": \"%s\", \"median_us\": %.1f}\n", row, who, times[30]);
}

template <class Loss>
void row(const char* name, const char* who, bool plain, bench::Parameters params, Loss loss, const Shape& shape,
         int classes) {
  const int64_t n = plain ? 1 : distribute::size();
  Shape own = shape;
  own[0] = shape[0] / n;
  const Tensor x = random::normal(own), y = bench::labels(int(own[0]), classes);
  if (plain) time_step(name, who, bench::training(std::move(params), 0.01f, loss), x, y, plain);
  else time_step(name, who, shared_step(std::move(params), loss), x, y, plain);
}

void rows(const char* who, bool plain) {
  row("dp_mlp", who, plain, bench::mlp_parameters(), bench::mlp_loss, {128, 784}, 10);
  row("dp_cnn", who, plain, bench::cnn_parameters(), bench::cnn_loss, {64, 28, 28, 1}, 10);
  row("dp_block", who, plain, bench::block_parameters(), bench::block_loss, {8, 128, 256}, 2);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string who = argc > 1 ? argv[1] : "rill";
  if (who == "plain") return rows("no Session", true), 0;
  distribute::Session session(argc, argv);
  rows(who.c_str(), false);
}
