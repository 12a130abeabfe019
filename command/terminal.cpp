// Colours, tables and progress bars; see terminal.h.
#include "terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace command {
namespace {

bool colours = false;

std::string coloured(const char* code, const std::string& text) {
  return colours ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

// How many columns of a terminal `text` takes: code points, without colours.
size_t width_of(const std::string& text) {
  size_t n = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') i = std::min(text.find('m', i), text.size());
    else n += (uint8_t(text[i]) & 0xC0) != 0x80;
  }
  return n;
}

}  // namespace

void set_colours(const std::string& when) {
  auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return value && *value;
  };
  const char* term = std::getenv("TERM");
  const bool wanted = isatty(STDOUT_FILENO) && !set("NO_COLOR") && !(term && !std::strcmp(term, "dumb"));
  colours = when == "always" || (when == "auto" && wanted);
}

std::string bold(const std::string& text) { return coloured("1", text); }
std::string dim(const std::string& text) { return coloured("2", text); }
std::string green(const std::string& text) { return coloured("32", text); }
std::string red(const std::string& text) { return coloured("31", text); }
std::string yellow(const std::string& text) { return coloured("33", text); }

void note(const std::string& text) {
  std::fflush(stdout);
  fmt::print(stderr, "rill: {}\n", text);
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    throw std::runtime_error(
        fmt::format("cannot write to the standard output: {}", std::strerror(errno ? errno : EIO)));
}

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < std::size(units)) bytes /= 1000, ++unit;
  if (unit == 0) return fmt::format("{:.0f} B", bytes);
  return fmt::format("{:.{}f} {}", bytes, bytes < 9.995 ? 2 : bytes < 99.95 ? 1 : 0, units[unit]);
}

std::string count_text(int64_t n) {
  std::string text = std::to_string(n);
  for (size_t i = text.size(); i > 3 + size_t(n < 0);) text.insert(i -= 3, ",");
  return text;
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string Table::text(size_t indent) const {
  std::vector<size_t> widths(sides_.size());
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::string all;
  for (const auto& row : rows_) {
    std::string line(indent, ' ');
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - width_of(row[i]), ' ');
      line += (sides_[i] == '>' ? gap + row[i] : row[i] + gap) + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    all += line + "\n";
  }
  return all;
}

void Progress::show(int64_t done) {
  static const bool terminal = isatty(STDERR_FILENO);
  const auto now = std::chrono::steady_clock::now();
  using Seconds = std::chrono::duration<double>;
  if (!terminal || Seconds(now - start_).count() < 0.5 || (drawn_ && Seconds(now - last_).count() < 0.1)) return;
  last_ = now;
  drawn_ = true;
  if (total_ <= 0) {
    fmt::print(stderr, "\r{} {}", title_, count_text(done));
  } else {
    constexpr int64_t width = 30;
    const auto filled = size_t(std::clamp<int64_t>(done * width / total_, 0, width));
    fmt::print(stderr, "\r{} [{}{}] {}/{}", title_, std::string(filled, '='), std::string(width - filled, ' '),
               count_text(done), count_text(total_));
  }
  std::fflush(stderr);
}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
}

}  // namespace command
