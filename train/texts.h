// Several texts as one, for what callbacks remember: any bytes, behind their number. And texts in files. Not installed.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "rill/tensor/error.h"

namespace rill::train {

inline std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& t : texts) all += fmt::format("{}:", t.size()) + t;
  return all;
}
// What joined() was given. Throws, under the name of `op`, where that is damaged.
inline std::vector<std::string> split(std::string_view all, std::string_view op, const Where& where) {
  std::vector<std::string> texts;
  while (!all.empty()) {
    const size_t colon = all.find(':');
    size_t n = 0;
    for (char c : all.substr(0, std::min(colon, size_t(20)))) n = n * 10 + size_t(c - '0');
    if (colon == std::string_view::npos || n > all.size() - colon - 1)
      fail(op, "the state of the run to resume is damaged", where);
    texts.emplace_back(all.substr(colon + 1, n));
    all.remove_prefix(colon + 1 + n);
  }
  return texts;
}

// A text as a field of a CSV file: quoted where it must be (RFC 4180), and where spaces around it would be lost.
inline std::string csv_field(const std::string& text) {
  const bool is_plain =
      !text.empty() && text.find_first_of(",\"\r\n") == text.npos && text.front() != ' ' && text.back() != ' ';
  if (is_plain) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}
// The first line of a CSV file with its end, which is none within quotes.
inline std::string csv_header(const std::string& file) {
  bool is_quoted = false;
  for (size_t i = 0; i < file.size(); ++i)
    if (file[i] == '"') is_quoted = !is_quoted;
    else if (file[i] == '\n' && !is_quoted) return file.substr(0, i + 1);
  return file;
}
// A text within an element of XML.
inline std::string xml_text(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

}  // namespace rill::train
