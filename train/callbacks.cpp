// The shipped callbacks: each a struct with the moments that it cares for.
#include "rill/train/callbacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include "rill/ops/option_checks.h"
#include "rill/serialize/checkpoint_manager.h"
#include "rill/serialize/summary.h"
#include "rill/train/folders.h"
#include "rill/train/json_numbers.h"
#include "rill/train/texts.h"

namespace rill::train {

namespace {

using nlohmann::json;

// Nothing in an epoch without validation, of a number of validation.
std::optional<double> read(const Run& run, const std::string& name, std::string_view who) {
  const auto at = run.logs.find(name);
  if (at != run.logs.end()) return at->second;
  if (run.skips_validation && name.starts_with("val_")) return {};
  std::string all;
  for (const auto& [n, value] : run.logs) all += (all.empty() ? "" : ", ") + n;
  fail(who, fmt::format("there is no number '{}' to go by. there are: {}{}", name, all,
                        name.starts_with("val_") ? ". fit with {.validation = ...} for those of validation" : ""));
}

bool gets_lower(Better better, const std::string& name) {
  if (better != Better::by_name) return better == Better::lower;
  return name.find("loss") != std::string::npos || name.find("error") != std::string::npos ||
         name.find("perplexity") != std::string::npos;
}

// The best number so far.
struct Best {
  bool lower;
  double min_delta = 0;
  double first, value;
  Best(bool lower, double min_delta, std::optional<double> baseline = {})
      : lower(lower),
        min_delta(min_delta),
        first(baseline.value_or((lower ? 1 : -1) * std::numeric_limits<double>::infinity())),
        value(first) {}
  void reset() { value = first; }
  bool take(double now) {
    const bool better = lower ? now < value - min_delta : now > value + min_delta;
    if (better) value = now;
    return better;
  }
};

// A failing disk is reported, and is no reason to lose the training.
template <class F>
void write_or_tell(const char* what, const F& write) {
  try {
    write();
  } catch (const Error& e) {
    std::fprintf(stderr, "rill: %s was not written: %s\n", what, e.what());
  }
}

struct EarlyStopping {
  EarlyStoppingOptions options;
  Best best;
  int64_t waited = 0, best_epoch = -1;
  std::map<std::string, Tensor> weights = {};

  // A run that was stopped must not continue because it is started again.
  void on_begin(Run& run) {
    if (!run.resumed) best.reset(), waited = 0, best_epoch = -1, weights.clear();
    else if (waited >= patience()) stop(run);
  }
  void on_epoch(Run& run) {
    const std::optional<double> now = read(run, options.monitor, "early_stopping");
    if (!now) return;
    if (best.take(*now)) {
      waited = 0;
      best_epoch = run.epoch;
      if (options.restore_best)
        for (const auto& [path, v] : run.variables()) weights.insert_or_assign(path, v.value());
      return;
    }
    if (++waited >= patience()) stop(run);
  }
  void on_end(Run& run) {
    if (!options.restore_best || best_epoch < 0 || best_epoch == run.epoch) return;
    for (const auto& [path, v] : run.variables())
      if (const auto at = weights.find(path); at != weights.end()) Variable(v).assign(at->second);
  }
  int64_t patience() const { return std::max<int64_t>(options.patience, 1); }
  void stop(Run& run) const {
    run.stop(best_epoch < 0 && !options.baseline
                 ? fmt::format("{} was not finite for {} epochs", options.monitor, waited)
                 : fmt::format("{} was no better than {:.6g} for {} epochs", options.monitor, best.value, waited));
  }
  std::string save() const {
    return json{{"best", as_json(best.value)}, {"waited", waited}, {"epoch", best_epoch}}.dump();
  }
  void load(const std::string& state) {
    const json j = json::parse(state);
    best.value = number_of(j.at("best"));
    waited = j.at("waited");
    best_epoch = j.at("epoch");
  }
  std::map<std::string, Tensor> save_tensors() const { return weights; }
  void load_tensors(const std::map<std::string, Tensor>& tensors) { weights = tensors; }
};

struct Checkpoints {
  std::string folder;
  CheckpointOptions options;
  Best best;
  std::unique_ptr<CheckpointManager> last = {}, best_one = {};

  void on_begin(Run& run) {
    if (!run.has_epochs && ((options.every_steps == 0 && options.every_minutes == 0) || !options.best_by.empty()))
      fail("checkpoint",
           "a loop of your own has no epochs. say how often: {.every_steps = 1000}, and leave .best_by out");
    if (!run.resumed) best.reset();
    last.reset(), best_one.reset();
    const std::string own = run.part.empty() ? folder : folder + "/" + run.part;
    require_writable(own, "checkpoint");
    last = std::make_unique<CheckpointManager>(run.checkpoint(), own,
                                               CheckpointManagerOptions{.max_to_keep = options.keep,
                                                                        .every_steps = options.every_steps,
                                                                        .every_minutes = options.every_minutes,
                                                                        .asynchronous = options.asynchronous,
                                                                        .save = run.written_together()});
    if (!options.best_by.empty())
      best_one = std::make_unique<CheckpointManager>(
          run.checkpoint(), own,
          CheckpointManagerOptions{.max_to_keep = 1, .prefix = "best", .save = run.written_together()});
  }
  void on_step(Run& run) {
    if (options.every_steps == 0 && options.every_minutes == 0) return;
    bool due = last->is_due(run.step);
    if (options.every_minutes > 0) due = run.on_any(due);  // ranks have clocks of their own
    if (due) write_or_tell("a checkpoint", [&] { last->save(run.step); });
  }
  void on_epoch(Run& run) {
    if (options.every_steps == 0 && options.every_minutes == 0)
      write_or_tell("a checkpoint", [&] { last->save(run.step); });
    if (options.best_by.empty()) return;
    if (const std::optional<double> now = read(run, options.best_by, "checkpoint"); now && best.take(*now))
      write_or_tell("a checkpoint", [&] { best_one->save(run.step); });
  }
  void on_end(Run&) {
    if (last) write_or_tell("a checkpoint", [&] { last->wait(); });
  }
  std::string save() const { return json{{"best", as_json(best.value)}}.dump(); }
  void load(const std::string& state) { best.value = number_of(json::parse(state).at("best")); }
};

struct TensorBoard {
  std::string folder;
  TensorBoardOptions options;
  std::unique_ptr<summary::Writer> train = {}, validation = {};
  bool has_graph = false;

  void on_begin(Run& run) {
    train.reset(), validation.reset(), has_graph = false;
    if (options.gradients && !run.optimizer())
      fail("tensorboard", "the step is your own, and this knows no gradients of it");
    if (!run.has_epochs && (options.every_steps == 0 || options.histograms_every > 0 || !options.images.empty()))
      fail("tensorboard",
           "a loop of your own has no epochs, after which numbers, histograms and images are written. say how often "
           "the loss is: {.every_steps = 100}; the others are for a summary::Writer");
    if (run.rank == 0) train = std::make_unique<summary::Writer>(folder + "/train");
    if (train && !options.hparams.empty()) write_or_tell("a summary", [&] { train->hparams(options.hparams); });
  }
  // All ranks run or trace the step again, and one writes.
  void on_step(Run& run) {
    if (train && options.every_steps > 0 && run.step % options.every_steps == 0)
      write_or_tell("a summary", [&] { train->scalar("step_loss", run.loss(), run.step); });
    if (options.graph && !std::exchange(has_graph, true)) write_graph(run);
    if (std::ranges::count(options.profile_steps, run.step) > 0) write_profile(run);
  }
  void on_epoch(Run& run) {
    const bool histograms = options.histograms_every > 0 && (run.epoch + 1) % options.histograms_every == 0;
    if (train) write_or_tell("a summary", [&] { write_numbers(run); });
    if (train && histograms) write_histograms("", run.variables(), run.epoch);
    if (histograms && options.gradients) write_histograms("gradients/", run.gradients(), run.epoch);
    if ((run.epoch + 1) % options.images_every == 0) write_images(run);
  }
  void on_end(Run&) {
    if (train && !options.hparams.empty()) write_or_tell("a summary", [&] { train->hparams_end(); });
  }

  void write_numbers(const Run& run) {
    for (const auto& [name, value] : run.logs) {
      if (name.starts_with("val_")) {
        if (!validation) validation = std::make_unique<summary::Writer>(folder + "/validation");
        validation->scalar(name.substr(4), tensor(value), run.epoch);
      } else {
        train->scalar(name, tensor(value), run.epoch);
      }
    }
  }
  void write_histograms(const std::string& prefix, const auto& values, int64_t epoch) {
    if (!train) return;
    write_or_tell("a summary", [&] {
      for (const auto& [path, value] : values)
        if (is_floating(value.dtype())) train->histogram(prefix + path, value, epoch);
    });
  }
  void write_images(Run& run) {
    for (const auto& [tag, make] : options.images) {
      const Tensor pictures = make(run);
      if (train) write_or_tell("a summary", [&] { train->image(tag, pictures, run.epoch); });
    }
  }
  void write_graph(Run& run) {
    const std::optional<Graph> graph = run.step_graph();
    if (!graph)
      fail("tensorboard",
           "the step is not traced by the loop. write the graph of a function of yours by Writer::graph()");
    if (train) write_or_tell("a summary", [&] { train->graph(*graph); });
  }
  void write_profile(Run& run) {
    const std::optional<Profile> profile = run.profile_step({});
    if (!profile)
      fail("tensorboard", "the step is not traced by the loop. profile a function of yours by profile(f, x)");
    if (train)
      write_or_tell("a summary", [&] { train->profile(fmt::format("step {}", run.step), *profile, run.step); });
  }
};

struct StopOnNan {
  StopOnNanOptions options;
  void on_begin(Run& run) {
    if (options.explain) run.keep_weights();
  }
  void on_step(Run& run) {
    if (run.step % options.every_steps != 0) return;
    const double loss = run.loss().astype(f64).item<double>();
    if (std::isfinite(loss)) return;
    const std::string first = options.explain ? run.explain_step() : "";
    std::string made = first.empty() ? "" : ". the first op that made it: " + first;
    if (first.empty() && options.explain && run.optimizer())
      made = ". no op made it of finite numbers: it is in the batch, or was in the weights before";
    fail("stop_on_nan", fmt::format("the loss is {} after step {} (epoch {}, batch {}){}", loss, run.step,
                                    run.epoch + 1, run.epoch_step, made));
  }
};

struct Plateau {
  PlateauOptions options;
  Best best;
  int64_t waited = 0, resting = 0;
  void on_begin(Run& run) {
    if (!run.optimizer())
      fail("reduce_on_plateau",
           "the step is your own, and this knows no optimizer of it. update an nn::Plateau of it in "
           "train::each_epoch(f)");
    VariablePaths rate;
    run.optimizer()->learning_rate.name_variables(rate);
    if (rate.finish().empty())
      fail("reduce_on_plateau",
           "the learning rate follows a schedule, and this lowers one that is a number: "
           "nn::Adam({.learning_rate = 1e-3})");
    if (!run.resumed) best.reset(), waited = resting = 0;
  }
  void on_epoch(Run& run) {
    nn::Optimizer* optimizer = run.optimizer();
    const double rate = optimizer->learning_rate.at(tensor(double(run.step))).item<double>();
    run.logs["learning_rate"] = rate;
    const std::optional<double> now = read(run, options.monitor, "reduce_on_plateau");
    if (!now) return;
    if (resting > 0) --resting, waited = 0;
    if (best.take(*now)) {
      waited = 0;
    } else if (resting == 0 && ++waited >= std::max<int64_t>(options.patience, 1) && rate > options.min_rate) {
      optimizer->learning_rate.assign(std::max(rate * options.factor, options.min_rate));
      waited = 0;
      resting = options.cooldown;
    }
  }
  std::string save() const {
    return json{{"best", as_json(best.value)}, {"waited", waited}, {"resting", resting}}.dump();
  }
  void load(const std::string& state) {
    const json j = json::parse(state);
    best.value = number_of(j.at("best"));
    waited = j.at("waited");
    resting = j.at("resting");
  }
};

struct TimeLimit {
  double minutes;
  std::chrono::steady_clock::time_point start = {};
  void on_begin(Run&) { start = std::chrono::steady_clock::now(); }
  void on_step(Run& run) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >= minutes * 60)
      run.stop(fmt::format("{:g} minutes are over", minutes));
  }
};

// An epoch is one more line. If it has new columns, and in a resumed run, the file is rewritten.
struct CsvLog {
  std::string path;
  std::string header = {};
  void on_begin(Run& run) {
    if (run.rank != 0) return;
    const size_t slash = path.rfind('/');
    require_writable(slash == path.npos ? "." : path.substr(0, slash + 1), "csv_log");
    header.clear();
  }
  void on_epoch(Run& run) {
    if (run.rank != 0) return;
    History last;
    last.add(run.logs);
    const std::string text = last.csv();
    const size_t line = csv_header(text).size();
    if (text.substr(0, line) != header || run.history.empty()) return write_all(run);
    // The last row is appended.
    std::ofstream file(path, std::ios::binary | std::ios::app);
    file << run.history.size() + 1 << text.substr(text.find(',', line));
    file.close();
    if (!file) tell();
  }
  void write_all(const Run& run) {
    History all = run.history;
    all.add(run.logs);
    const std::string text = all.csv();
    header = csv_header(text);
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (!file) tell();
  }
  // Rows that could not be written are written with the next epoch.
  void tell() {
    header.clear();
    std::fprintf(stderr, "rill: %s cannot be written\n", path.c_str());
  }
};

struct EachStep {
  std::function<void(Run&)> f;
  void on_step(Run& run) { f(run); }
};
struct EachEpoch {
  std::function<void(Run&)> f;
  void on_epoch(Run& run) { f(run); }
};

}  // namespace

Callback early_stopping(const EarlyStoppingOptions& o, Where where) {
  require_option(o.patience >= 0, "early_stopping", "patience", o.patience, "0 or more", where);
  return EarlyStopping{o, Best(gets_lower(o.better, o.monitor), o.min_delta, o.baseline)};
}
Callback checkpoint(const std::string& folder, const CheckpointOptions& o, Where where) {
  require_option(o.keep >= 0, "checkpoint", "keep", o.keep, "0 or more", where);
  require_not_negative("checkpoint", "every_steps", double(o.every_steps), where);
  require_not_negative("checkpoint", "every_minutes", o.every_minutes, where);
  return Checkpoints{folder, o, Best(gets_lower(o.better, o.best_by), 0)};
}
Callback tensorboard(const std::string& folder, const TensorBoardOptions& o, Where where) {
  require_option(o.images_every >= 1, "tensorboard", "images_every", o.images_every, "1 or more", where);
  for (const int64_t step : o.profile_steps)
    require_option(step >= 1, "tensorboard", "profile_steps", step, "1 or more, the first step's", where);
  for (const auto& [tag, make] : o.images)
    if (!make) fail("tensorboard", fmt::format("the function that makes the images '{}' is empty", tag), where);
  return TensorBoard{folder, o};
}
Callback stop_on_nan(const StopOnNanOptions& o, Where where) {
  require_option(o.every_steps >= 1, "stop_on_nan", "every_steps", o.every_steps, "1 or more", where);
  return StopOnNan{o};
}
Callback reduce_on_plateau(const PlateauOptions& o, Where where) {
  require_option(o.factor > 0 && o.factor < 1, "reduce_on_plateau", "factor", o.factor, "in (0, 1)", where);
  require_option(o.patience >= 0, "reduce_on_plateau", "patience", o.patience, "0 or more", where);
  return Plateau{o, Best(gets_lower(o.better, o.monitor), o.min_delta)};
}
Callback time_limit(double minutes, Where where) {
  require_option(minutes > 0, "time_limit", "minutes", minutes, "above 0", where);
  return TimeLimit{minutes};
}
Callback csv_log(const std::string& path) { return CsvLog{path}; }
Callback each_step(std::function<void(Run&)> f, Where where) {
  if (!f) fail("each_step", "the function is empty", where);
  return EachStep{std::move(f)};
}
Callback each_epoch(std::function<void(Run&)> f, Where where) {
  if (!f) fail("each_epoch", "the function is empty", where);
  return EachEpoch{std::move(f)};
}

}  // namespace rill::train
