// Cases of distribute_program: checkpoints that all ranks write, who follows them, and a run that is killed.
#include <algorithm>
#include <bit>
#include <fstream>

#include "cases.h"

namespace {

using Named = std::vector<std::pair<std::string, Trackable>>;

std::string text_of(const Tensor& t) { return t.item<std::string>(); }

// Each rank writes a part: of what is alike, of its own, and pieces of one tensor. One process reads them together.
void shared_checkpoint() {
  if (folder.empty()) return;
  const Tensor rows = arange(7 * 3).astype(f32).reshape({7, 3});
  const int64_t first = 7 * me / n, last = 7 * (me + 1) / n;
  Variable big(full({1000}, 2, f64), "big"), small(tensor({1, 2, 3}), "small"),
      table(rows(slice(first, last)), "table");
  Variable mine(full({2}, double(me), f32), "mine"), note(tensor("of rank " + std::to_string(me)), "note");
  const std::string own_name = "own" + std::to_string(me);
  const Checkpoint checkpoint(
      Named{{"big", big}, {"small", small}, {"table", table}, {own_name, mine}, {"note", note}});
  auto options = train::written_by_all(
      {.part = {.first = {"note"}, .own = {"own*"}}, .slices = {{"table", {.whole = {7, 3}, .start = {first, 0}}}}});
  const std::string prefix = folder + "/all";
  for (int round = 0; round < 3; ++round) {  // also in the place of one that is there
    small.assign(tensor({1, 2, 3 + round}));
    checkpoint.save(prefix, options);
    const auto found = load_checkpoint(prefix);
    EXPECT(same(found.at("big"), big.value()) && same(found.at("small"), small.value()));
    EXPECT(same(found.at("table"), rows) && text_of(found.at("note")) == "of rank 0");
    for (int64_t r = 0; r < n; ++r) EXPECT(same(found.at("own" + std::to_string(r)), full({2}, double(r), f32)));
    distribute::barrier();
  }
  // Read by other pieces, as another number of ranks has.
  Variable piece(zeros({2, 3}), "table");
  const Checkpoint other(Named{{"table", piece}});
  other.restore(prefix, {.only = {"table"}, .slices = {{"table", {.whole = {7, 3}, .start = {3, 0}}}}});
  EXPECT(same(piece.value(), rows(slice(3, 5))));
  distribute::barrier();
  // What one cannot write, the first tells, and the old one stands.
  std::string told;
  try {
    auto wrong = options;
    if (me == n - 1) wrong.slices["table"].start = {7, 0};
    if (n > 1) checkpoint.save(prefix, wrong);
  } catch (const Error& e) {
    told = e.what();
  }
  if (n > 1 && me == n - 1) EXPECT(told.find("no piece of") != std::string::npos);
  if (n > 1 && me == 0)
    EXPECT(told.find("process " + std::to_string(n - 1) + " could not write it") != std::string::npos);
  EXPECT(same(load_checkpoint(prefix).at("table"), rows));
  distribute::barrier();
}

// In the background, of several steps; the last two stay.
void shared_manager() {
  if (folder.empty()) return;
  Variable a(zeros({300}), "a"), b(zeros({300}), "b");
  const std::string place = folder + "/run";
  CheckpointManager manager(Checkpoint{{"a", a}, {"b", b}}, place,
                            {.max_to_keep = 2, .asynchronous = true, .save = train::written_by_all()});
  for (int64_t step = 1; step <= 5; ++step) {
    a.assign_add(ones({300})), b.assign_add(full({300}, 2, f32));
    manager.save(step);
  }
  manager.wait();
  distribute::barrier();
  EXPECT(manager.all().size() == 2 && manager.latest_step() == 5);
  a.assign(zeros({300}));
  manager.restore();
  EXPECT(same(a.value(), full({300}, 5, f32)) && same(b.value(), full({300}, 10, f32)));
  int64_t files = 0;
  for (int64_t r = 0; r < n; ++r) {
    char name[64];
    std::snprintf(name, sizeof name, "/ckpt-5.data-%05d-of-%05d", int(r), int(n));
    files += std::ifstream(place + name).good();
  }
  EXPECT(files == n);
  distribute::barrier();
}

// The last rank looks at what the others write, and takes no part in what they do.
void evaluator() {
  if (folder.empty() || n == 1) return;
  const distribute::Cluster cluster({{"worker", n - 1}, {"evaluator", 1}});
  const std::string place = folder + "/followed";
  Variable w(zeros({4}), "w");
  if (cluster.job() == "evaluator") {
    std::vector<int64_t> steps;
    const auto look = [&](const std::string& path, int64_t step) {
      Checkpoint{{"w", w}}.restore(path);
      EXPECT(same(w.value(), full({4}, double(step), f32)));
      steps.push_back(step);
    };
    const int64_t count = train::follow_checkpoints(place, look, {.every_seconds = 0.002, .last_step = 20});
    EXPECT(count == int64_t(steps.size()) && count >= 1 && steps.back() == 20);
    EXPECT(std::is_sorted(steps.begin(), steps.end()));
    return;
  }
  CheckpointManager manager(Checkpoint{{"w", w}}, place,
                            {.max_to_keep = 0, .save = train::written_by_all({}, cluster.training())});
  for (int64_t step = 1; step <= 20; ++step) {
    w.assign_add(distribute::mean(ones({4}), cluster.training()));
    manager.save(step);
  }
}

// What ranks wait for and what moves, in one file: sums of an eager walk move while it computes.
void timeline() {
  if (folder.empty()) return;
  {
    const distribute::Timeline drawn(folder + "/steps.json");
    std::vector<Variable> layers;
    for (int i = 0; i < 6; ++i) layers.push_back(Variable(own({256, 256}, 1) / 16.0, "w"));
    distribute::GradientTape tape({.bucket_bytes = 1 << 18});
    Tensor h = own({32, 256}, me);
    for (const Variable& w : layers) h = tanh(matmul(h, w));
    tape.gradient(sum(square(h)), layers);
    distribute::barrier();
  }
  distribute::barrier();
  std::ifstream file(folder + "/steps.json");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT(text.starts_with("{\"traceEvents\":[") && (text.find("barrier") != std::string::npos) == (n > 1));
  for (int64_t r = 0; r < n; ++r) EXPECT(text.find("\"rank " + std::to_string(r) + "\"") != std::string::npos);
  if (n > 1) EXPECT(text.find("\"all_reduce of f32[256,256] (mean)\",\"pid\":0,\"tid\":1") != std::string::npos);
  distribute::barrier();
}

// By TensorFlow's names.
void placements() {
  const distribute::Cluster cluster({{"worker", n}});
  const std::string last = "/job:worker/task:" + std::to_string(n - 1) + "/device:cpu:0";
  EXPECT(cluster.rank_of(last) == n - 1 && cluster.is_here(last) == (me == n - 1));
  const Tensor there = cluster.run_on(last, [] { return full({2, 3}, double(distribute::rank()), f64); });
  EXPECT(same(there, full({2, 3}, double(n - 1), f64)));
  EXPECT(cluster.run_on("/job:worker/task:0", [] { return tensor("here"); }).item<std::string>() == "here");
  std::string told;
  try {
    (void)cluster.rank_of("/job:worker/tusk:1");
  } catch (const Error& e) {
    told = e.what();
  }
  EXPECT(told.find("is no name such as /job:worker/task:1") != std::string::npos);
}

// A run that kills.py ends at any moment, and starts again.
void killed() {
  random::seed(1);
  Net net;
  train::Loop loop(net,
                   {.loss = mean_squared_error, .optimizer = nn::Adam({.learning_rate = 0.01}), .distribute = true});
  const train::History history = loop.fit(examples().shuffle({.seed = 3}).batch(16),
                                          {.epochs = 12, .progress = false, .resume = folder, .save_every_steps = 3});
  uint64_t bits = 0;
  for (const auto& [path, v] : variables(net)) bits = bits_with(bits, v.value());
  if (me == 0) std::printf("epochs %d bits %llx\n", int(history.size()), static_cast<unsigned long long>(bits));
  std::fflush(stdout);
}

}  // namespace

const Cases checkpoint_cases = {
    {"shared_checkpoint", shared_checkpoint},
    {"shared_manager", shared_manager},
    {"evaluator", evaluator},
    {"placements", placements},
    {"timeline", timeline},
    {"killed", killed},
};
