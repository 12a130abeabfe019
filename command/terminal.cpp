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
  return colours ? fmt::format("\033[{}m{}\033[0m", code, visible(text)) : visible(text);
}

// The length of a colour code of this program at the start of `text`, else 0.
size_t colour_at(std::string_view text) {
  if (!colours) return 0;
  for (const std::string_view sequence : {"\033[0m", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m"})
    if (text.starts_with(sequence)) return sequence.size();
  return 0;
}

// The code point at the start of `text`, and its length; if it is not UTF-8 the byte, with length 0.
std::pair<uint32_t, size_t> code_point_at(std::string_view text) {
  const auto first = uint8_t(text[0]);
  if (first < 0x80) return {first, 1};
  const size_t n = first >= 0xF0 && first < 0xF5   ? 4
                   : first >= 0xE0 && first < 0xF0 ? 3
                   : first >= 0xC2 && first < 0xE0 ? 2
                                                   : 0;
  if (n == 0 || text.size() < n) return {first, 0};
  uint32_t point = first & (0xFF >> (n + 1));
  for (size_t i = 1; i < n; ++i) {
    const auto next = uint8_t(text[i]);
    if ((next & 0xC0) != 0x80) return {first, 0};
    point = point << 6 | (next & 0x3F);
  }
  const bool too_long = (n == 3 && point < 0x800) || (n == 4 && point < 0x10000), surrogate = point >> 11 == 0x1B;
  if (too_long || surrogate || point > 0x10FFFF) return {first, 0};
  return {point, n};
}

// Whether a terminal would not simply display it.
bool is_control(uint32_t point) {
  const bool line = point == 0x2028 || point == 0x2029,
             direction = point == 0x061C || point == 0x200E || point == 0x200F ||
                         (point >= 0x202A && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || line || direction;
}

std::string made_visible(std::string_view text, std::string_view kept) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const auto [point, n] = code_point_at(text.substr(i));
    const size_t colour = text[i] == '\033' ? colour_at(text.substr(i)) : 0;
    const size_t whole = colour ? colour : n;
    if (n == 0) out += fmt::format("\\x{:02x}", point);
    else if (colour || !is_control(point) || kept.find(text[i]) != kept.npos) out += text.substr(i, whole);
    else if (point == '\n') out += "\\n";
    else if (point == '\t') out += "\\t";
    else if (point < 0x20) out += fmt::format("\\x{:02x}", point);
    else out += fmt::format("\\u{:04x}", point);
    i += std::max<size_t>(whole, 1);
  }
  return out;
}

// The number of terminal columns of `text`: its code points, without colours.
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

std::string visible(std::string_view name) { return made_visible(name, ""); }
std::string visible_lines(std::string_view text) { return made_visible(text, "\n\t"); }

void note(const std::string& text) {
  std::fflush(stdout);
  fmt::print(stderr, "rill: {}\n", visible(text));
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

void Table::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = visible(cell);
  rows_.push_back(std::move(cells));
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
