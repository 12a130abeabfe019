// Runs models for a test in Python: each argument names a folder with what `path` says is a model, and inputs.npz; the
// results are put beside them as outputs.npz, and how the model ran as explain. With "train" as the first argument, the
// model is also fine-tuned: its results are made smaller, and before.npz and after.npz hold the sums of their squares.
// With "time" its weights are constants, and `times` says how many milliseconds reading it took, its first call, and the
// median of the calls of two seconds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include "rill/rill.h"
#include "rill/serialize.h"

using namespace rill;

namespace {

Tensor size_of_results(const Model& m, const std::map<std::string, Tensor>& in) {
  Tensor total = full({}, 0.f);
  for (const auto& [name, y] : m(in))
    if (is_floating(y.dtype())) total = total + sum(square(y)).astype(f32);
  return total;
}

double milliseconds() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
void time_model(const std::string& folder) {
  std::string path;
  std::getline(std::ifstream(folder + "/path"), path);
  const std::map<std::string, Tensor> in = load(folder + "/inputs.npz");
  const double start = milliseconds();
  const Model m = import_model(path, {.trainable = false});
  const double loaded = milliseconds();
  save(folder + "/outputs.npz", m(in));
  const double first = milliseconds();
  jit::wait();
  std::vector<double> calls;
  for (const double end = milliseconds() + 2000; calls.size() < 5 || milliseconds() < end;) {
    const double before = milliseconds();
    m(in);
    calls.push_back(milliseconds() - before);
  }
  std::nth_element(calls.begin(), calls.begin() + std::ptrdiff_t(calls.size() / 2), calls.end());
  std::ofstream(folder + "/explain") << m.without_one_trace();
  std::ofstream(folder + "/times") << loaded - start << " " << first - loaded << " " << calls[calls.size() / 2] << "\n";
}

void run(const std::string& folder, bool train) {
  std::string path;
  std::getline(std::ifstream(folder + "/path"), path);
  const std::map<std::string, Tensor> in = load(folder + "/inputs.npz");
  const Model m = import_model(path);
  save(folder + "/outputs.npz", m(in));
  std::ofstream(folder + "/explain") << m.explain();
  if (!train) return;
  std::vector<Variable> weights;
  for (const auto& [name, v] : m.variables())
    if (v.trainable()) weights.push_back(v);
  const Tensor before = size_of_results(m, in);
  for (int step = 0; step < 3; ++step) {
    GradientTape tape;
    const Tensor loss = size_of_results(m, in);
    const std::vector<Tensor> slopes = tape.gradient(loss, weights);
    for (size_t i = 0; i < weights.size(); ++i)
      if (slopes[i].defined()) weights[i].assign_sub(1e-3f / (1e-6f + norm(slopes[i])) * slopes[i]);
  }
  save(folder + "/trained.npz",
       {{"before", before}, {"after", size_of_results(m, in)}, {"weights", tensor(int64_t(weights.size()))}});
}

}  // namespace

int main(int count, char** arguments) {
  int failed = 0;
  const std::string mode = count > 1 ? arguments[1] : "";
  const bool train = mode == "train", timed = mode == "time";
  for (int i = train || timed ? 2 : 1; i < count; ++i) try {
      if (timed) time_model(arguments[i]);
      else run(arguments[i], train);
    } catch (const Error& e) {
      std::ofstream(std::string(arguments[i]) + "/error") << e.what();
      ++failed;
    }
  return failed == 0 ? 0 : 1;
}
