// What the program writes to people: text with colours where a terminal shows them, tables, and progress bars.
#pragma once
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace command {

// "auto": colours where stdout is a terminal and neither NO_COLOR nor TERM=dumb says otherwise; "always"; "never".
void set_colours(const std::string& when);
std::string bold(const std::string& text);
std::string dim(const std::string& text);
std::string green(const std::string& text);
std::string red(const std::string& text);
std::string yellow(const std::string& text);

// To stdout.
template <class... A>
void print(fmt::format_string<A...> format, A&&... values) {
  const std::string text = fmt::format(format, std::forward<A>(values)...);
  std::fwrite(text.data(), 1, text.size(), stdout);
}
// A remark to stderr, which is no part of what was asked for.
void note(const std::string& text);
// Throws where not everything has reached stdout, as on a full disk.
void flush_output();

std::string bytes_text(double bytes);      // "98 B", "1.5 kB", "2.31 GB"
std::string count_text(int64_t n);         // "1,234,567"
std::string seconds_text(double seconds);  // "1.23 ms"

// Rows of cells that stand below each other, two blanks apart.
class Table {
 public:
  // By column, '<' or '>': to which side its cells are moved.
  explicit Table(std::string sides) : sides_(std::move(sides)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  // Each line begins with `indent` blanks.
  std::string text(size_t indent = 2) const;

 private:
  std::string sides_;
  std::vector<std::vector<std::string>> rows_;
};

// A bar on stderr, where that is a terminal, from the first half second of work on; nothing is left of it.
class Progress {
 public:
  // `total` steps; 0 where that is not known.
  Progress(std::string title, int64_t total) : title_(std::move(title)), total_(total) {}
  ~Progress();
  Progress(const Progress&) = delete;
  void show(int64_t done);

 private:
  std::string title_;
  int64_t total_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), last_ = start_;
};

}  // namespace command
