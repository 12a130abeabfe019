// The program's output for people: text with colours if a terminal supports them, tables, and progress bars.
#pragma once
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace command {

// `name`, which may come from a file, on one line: control characters except this program's colours, and those that
// change the direction of text, as "\x1b", "\u202e"; invalid UTF-8 as "\xff".
std::string visible(std::string_view name);
// The same for a text of several lines: line ends and tabs stay.
std::string visible_lines(std::string_view text);

// "auto": colours if stdout is a terminal and neither NO_COLOR nor TERM=dumb disables them; "always"; "never".
void set_colours(const std::string& when);
// `text`, made visible, in a colour.
std::string bold(const std::string& text);
std::string dim(const std::string& text);
std::string green(const std::string& text);
std::string red(const std::string& text);
std::string yellow(const std::string& text);

// To stdout, with visible_lines().
template <class... A>
void print(fmt::format_string<A...> format, A&&... values) {
  const std::string text = visible_lines(fmt::format(format, std::forward<A>(values)...));
  std::fwrite(text.data(), 1, text.size(), stdout);
}
// A remark of one line, to stderr, separate from the requested output.
void note(const std::string& text);
// Throws if not everything has reached stdout, as on a full disk.
void flush_output();

std::string bytes_text(double bytes);      // "98 B", "1.5 kB", "2.31 GB"
std::string count_text(int64_t n);         // "1,234,567"
std::string seconds_text(double seconds);  // "1.23 ms"

// Rows of aligned cells, separated by two spaces. Cells are made visible.
class Table {
 public:
  // By column, '<' or '>': the side to which its cells are aligned.
  explicit Table(std::string sides) : sides_(std::move(sides)) {}
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // Each line is indented by `indent` spaces.
  std::string text(size_t indent = 2) const;

 private:
  std::string sides_;
  std::vector<std::vector<std::string>> rows_;
};

// A progress bar on stderr, if that is a terminal, after half a second of work; it is erased at the end.
class Progress {
 public:
  // `total` steps; 0 if that is not known.
  Progress(const std::string& title, int64_t total) : title_(visible(title)), total_(total) {}
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
