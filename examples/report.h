// What the examples print: a progress bar that stays on one line of a terminal (and keeps quiet in a file), and a
// confusion matrix.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

class ProgressBar {
 public:
  explicit ProgressBar(std::string title) : title_(std::move(title)) {}

  // `done` of `all` digits are trained on; their mean loss so far, and digits a second.
  void show(int64_t done, int64_t all, double loss, double speed) {
    if (!terminal_) return;
    constexpr int width = 30;
    const int filled = int(width * done / all);
    const std::string bar = std::string(size_t(filled), '=') + (filled < width ? ">" : "") +
                            std::string(size_t(filled < width ? width - filled - 1 : 0), ' ');
    std::printf("\r%s [%s] %lld/%lld  loss %.4f  %.0f images/s ", title_.c_str(), bar.c_str(),
                static_cast<long long>(done), static_cast<long long>(all), loss, speed);
    std::fflush(stdout);
  }
  // The line that stays.
  void finish(double loss, double train_accuracy, double test_accuracy, double speed, double seconds) {
    if (terminal_) std::printf("\r\033[K");
    std::printf("%s  loss %.4f  train accuracy %.2f %%  test accuracy %.2f %%  %.0f images/s  %.2f s\n", title_.c_str(),
                loss, 100 * train_accuracy, 100 * test_accuracy, speed, seconds);
    std::fflush(stdout);
  }

 private:
  std::string title_;
  bool terminal_ = isatty(fileno(stdout));
};

inline double share_right(const std::vector<int64_t>& classes, const std::vector<int64_t>& truth) {
  size_t right = 0;
  for (size_t i = 0; i < classes.size(); ++i) right += classes[i] == truth[i];
  return classes.empty() ? 0 : double(right) / double(classes.size());
}

// Rows: what a digit is; columns: what it was taken for.
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
