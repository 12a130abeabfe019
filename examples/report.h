// The output of mnist: a callback with a progress bar that stays on one line of a terminal (and is silent in a file)
// and a line for each epoch, and a confusion matrix.
#pragma once
#include <rill/train.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

class Report {
 public:
  // For epochs of `count` digits. `folder`: that of the run's checkpoints.
  Report(int64_t count, std::string folder) : count_(count), folder_(std::move(folder)) {}

  void on_begin(rill::train::Run& run) {
    if (run.resumed) std::printf("goes on from %s, epoch %lld\n", folder_.c_str(), (long long)run.epoch + 1);
  }
  void before_step(rill::train::Run& run) {
    if (run.epoch_step == 0 || time_->epoch != run.epoch) time_->begin = Clock::now(), time_->epoch = run.epoch;
  }
  void on_step(rill::train::Run& run) {
    time_->seconds = std::chrono::duration<double>(Clock::now() - time_->begin).count();
    if (!terminal_ || !run.epoch_steps) return;
    constexpr size_t width = 30;
    const size_t filled = width * size_t(run.epoch_step) / size_t(*run.epoch_steps);
    const double done = double(count_) * double(run.epoch_step) / double(*run.epoch_steps);
    std::printf("\r%s [%s%s] %.0f/%lld  loss %.4f  %.0f images/s ", title(run).c_str(),
                std::string(filled, '=').c_str(), std::string(width - filled, ' ').c_str(), done, (long long)count_,
                run.running().at("loss"), done / time_->seconds);
    std::fflush(stdout);
  }
  // The final line of an epoch.
  void on_epoch(rill::train::Run& run) {
    time_->total += time_->seconds;
    std::printf("%s%s  loss %.4f  train accuracy %.2f %%  test accuracy %.2f %%  %.0f images/s  %.2f s\n",
                terminal_ ? "\r\033[K" : "", title(run).c_str(), run.logs.at("loss"), 100 * run.logs.at("accuracy"),
                100 * run.logs.at("val_accuracy"), double(count_) / time_->seconds, time_->seconds);
    std::fflush(stdout);
  }
  // The time of all steps, without validation.
  double seconds() const { return time_->total; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Time {  // shared with the copy that fit() calls
    Clock::time_point begin = {};
    int64_t epoch = -1;
    double seconds = 0, total = 0;
  };
  static std::string title(const rill::train::Run& run) {
    return "epoch " + std::to_string(run.epoch + 1) + "/" + std::to_string(run.epochs);
  }
  int64_t count_;
  std::string folder_;
  std::shared_ptr<Time> time_ = std::make_shared<Time>();
  bool terminal_ = isatty(fileno(stdout));
};

// Rows: the digit; columns: the prediction.
inline void print_confusion(const std::vector<int64_t>& classes, const std::vector<int64_t>& truth) {
  int64_t count[10][10] = {};
  for (size_t i = 0; i < classes.size(); ++i) ++count[truth[i]][classes[i]];
  std::printf("\nconfusion matrix, digit by row, prediction by column\n    ");
  for (int c = 0; c < 10; ++c) std::printf("%5d", c);
  for (int r = 0; r < 10; ++r) {
    std::printf("\n%4d", r);
    for (int c = 0; c < 10; ++c) {
      if (count[r][c]) std::printf("%5lld", static_cast<long long>(count[r][c]));
      else std::printf("    .");
    }
  }
  std::printf("\n");
}
