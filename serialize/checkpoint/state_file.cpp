// The text of CheckpointState: `field: "text"` or `field: number`, a line each; see state_file.h.
#include "rill/serialize/checkpoint/state_file.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdlib>

namespace rill {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += std::string("\\") + c;
    else if (c == '\n') out += "\\n";
    else if (uint8_t(c) < 32 || c == 127) out += fmt::format("\\{:03o}", uint8_t(c));
    else out += c;
  }
  return out + "\"";
}

class Reader {
 public:
  Reader(const std::string& text, const std::string& path, std::string_view op, const Where& where)
      : text_(text), path_(path), op_(op), where_(where) {}

  CheckpointList read() {
    CheckpointList list;
    for (skip(); at_ < text_.size(); skip()) {
      const size_t start = at_;
      while (at_ < text_.size() && (std::isalnum(uint8_t(text_[at_])) || text_[at_] == '_')) ++at_;
      const std::string field = text_.substr(start, at_ - start);
      skip();
      if (field.empty() || at_ == text_.size() || text_[at_++] != ':') reject("expected `field: value`");
      skip();
      const bool is_text = at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'');
      const std::string value = is_text ? take_text() : take_word();
      if (field == "model_checkpoint_path" && is_text) list.latest = value;
      else if (field == "all_model_checkpoint_paths" && is_text) list.all.push_back(value);
      else if (field == "all_model_checkpoint_timestamps" && !is_text) list.timestamps.push_back(number(value));
      else if (field == "last_preserved_timestamp" && !is_text) list.last_preserved = number(value);
    }
    if (list.timestamps.size() != list.all.size()) list.timestamps.clear();
    return list;
  }

 private:
  [[noreturn]] void reject(const std::string& what) const {
    size_t line = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) line += text_[i] == '\n';
    fail(op_, fmt::format("'{}', line {}: {}. expected TensorFlow's list of checkpoints", path_, line, what), where_);
  }
  void skip() {  // spaces, comments, and what may stand between fields
    while (at_ < text_.size()) {
      if (text_[at_] == '#') at_ = std::min(text_.find('\n', at_), text_.size());
      else if (std::isspace(uint8_t(text_[at_])) || text_[at_] == ';' || text_[at_] == ',') ++at_;
      else return;
    }
  }
  std::string take_word() {
    const size_t start = at_;
    while (at_ < text_.size() && !std::isspace(uint8_t(text_[at_])) && text_[at_] != '#' && text_[at_] != ',' &&
           text_[at_] != ';')
      ++at_;
    if (at_ == start) reject("a value is missing");
    return text_.substr(start, at_ - start);
  }
  double number(const std::string& word) const {
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (*end != '\0' && *end != 'f') reject("'" + word + "' is no number");
    return value;
  }
  std::string take_text() {
    const char quote = text_[at_++];
    std::string out;
    for (;;) {
      if (at_ >= text_.size() || text_[at_] == '\n') reject("a text does not end");
      const char c = text_[at_++];
      if (c == quote) return out;
      out += c == '\\' ? take_escape() : c;
    }
  }
  char take_escape() {
    if (at_ >= text_.size()) reject("a text does not end");
    const char c = text_[at_++];
    switch (c) {
      case 'n': return '\n';
      case 't': return '\t';
      case 'r': return '\r';
      case 'x': return char(digits(16, 2));
    }
    if (c < '0' || c > '7') return c;
    --at_;
    return char(digits(8, 3));
  }
  int digits(int base, int most) {
    int value = 0;
    for (int i = 0; i < most && at_ < text_.size(); ++i, ++at_) {
      const char c = text_[at_];
      const int d = c >= '0' && c <= '9' ? c - '0' : std::isxdigit(uint8_t(c)) ? (c | 32) - 'a' + 10 : 99;
      if (d >= base) break;
      value = value * base + d;
    }
    return value;
  }

  const std::string& text_;
  const std::string& path_;
  std::string_view op_;
  const Where& where_;
  size_t at_ = 0;
};

}  // namespace

std::string to_text(const CheckpointList& list) {
  std::string text = "model_checkpoint_path: " + quoted(list.latest) + "\n";
  for (const std::string& path : list.all) text += "all_model_checkpoint_paths: " + quoted(path) + "\n";
  for (double t : list.timestamps) text += fmt::format("all_model_checkpoint_timestamps: {}\n", t);
  return text + fmt::format("last_preserved_timestamp: {}\n", list.last_preserved);
}

CheckpointList read_list(const std::string& text, const std::string& path, std::string_view op, const Where& where) {
  return Reader(text, path, op, where).read();
}

}  // namespace rill
