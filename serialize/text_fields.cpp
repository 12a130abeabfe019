// Reading and writing protobuf's text; see text_fields.h. Letters and digits are ASCII's, whatever the locale says.
#include "rill/serialize/text_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rill {
namespace {

constexpr int deepest = 64;  // messages in each other

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.'; }
bool is_word(char c) { return is_name(c) || c == '-' || c == '+'; }
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  const char lower = char(c | 32);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& path, std::string_view expected, std::string_view op,
         const Where& where)
      : text_(text), path_(path), expected_(expected), op_(op), where_(where) {}

  // Up to the end of the text, where `depth` is 0, or of the message, which `end` closes.
  std::vector<TextField> read(char end, int depth) {
    std::vector<TextField> fields;
    for (;;) {
      skip(",;");
      if (at_ == text_.size() && depth == 0) return fields;
      if (at_ == text_.size()) reject("a message does not end");
      if (depth > 0 && text_[at_] == end) return ++at_, fields;
      const std::string name(take(is_name));
      if (name.empty()) reject("expected `field: value`");
      skip();
      const bool colon = at_ < text_.size() && text_[at_] == ':';
      if (colon) ++at_;
      skip();
      if (at_ < text_.size() && text_[at_] == '[') {
        ++at_;
        for (skip(","); at_ < text_.size() && text_[at_] != ']'; skip(","))
          fields.push_back(take_value(name, colon, depth));
        if (at_++ >= text_.size()) reject("a list does not end");
      } else {
        fields.push_back(take_value(name, colon, depth));
      }
    }
  }

 private:
  [[noreturn]] void reject(const std::string& what) const {
    const auto before = text_.substr(0, at_);
    fail(op_,
         fmt::format("'{}', line {}: {}. expected {}", path_, 1 + std::count(before.begin(), before.end(), '\n'), what,
                     expected_),
         where_);
  }
  void skip(std::string_view also = "") {  // spaces and comments
    while (at_ < text_.size()) {
      if (text_[at_] == '#') at_ = std::min(text_.find('\n', at_), text_.size());
      else if (is_space(text_[at_]) || also.find(text_[at_]) != also.npos) ++at_;
      else return;
    }
  }
  std::string_view take(bool (*belongs)(char)) {
    const size_t start = at_;
    while (at_ < text_.size() && belongs(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }
  TextField take_value(const std::string& name, bool colon, int depth) {
    if (at_ == text_.size()) reject("a value is missing");
    const char c = text_[at_];
    if (c == '{' || c == '<') {
      if (depth == deepest) reject(fmt::format("more than {} messages in each other", deepest));
      ++at_;
      return {name, TextField::Kind::message, "", read(c == '{' ? '}' : '>', depth + 1)};
    }
    if (!colon) reject("expected `field: value`");
    if (c == '"' || c == '\'') return {name, TextField::Kind::text, take_text()};
    std::string word(take(is_word));
    if (word.empty()) reject("a value is missing");
    return {name, TextField::Kind::word, std::move(word)};
  }
  std::string take_text() {  // several in a row are one
    std::string out;
    while (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      const char quote = text_[at_++];
      for (;;) {
        if (at_ >= text_.size() || text_[at_] == '\n') reject("a text does not end");
        const char c = text_[at_++];
        if (c == quote) break;
        out += c == '\\' ? take_escape() : c;
      }
      skip();
    }
    return out;
  }
  char take_escape() {
    if (at_ >= text_.size()) reject("a text does not end");
    const char c = text_[at_++];
    switch (c) {
      case 'a': return '\a';
      case 'b': return '\b';
      case 'f': return '\f';
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case 'v': return '\v';
      case 'x': return char(take_digits(16, 2));
    }
    if (c < '0' || c > '7') return c;
    --at_;
    return char(take_digits(8, 3));
  }
  int take_digits(int base, int most) {
    int value = 0;
    for (int i = 0; i < most && at_ < text_.size() && hex_digit(text_[at_]) < base; ++i, ++at_)
      value = value * base + hex_digit(text_[at_]);
    return value;
  }

  std::string_view text_;
  const std::string& path_;
  std::string_view expected_, op_;
  const Where& where_;
  size_t at_ = 0;
};

std::string in_quotes(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += std::string("\\") + c;
    else if (c == '\n') out += "\\n";
    else if (uint8_t(c) < 32 || c == 127) out += fmt::format("\\{:03o}", uint8_t(c));
    else out += c;
  }
  return out + "\"";
}

}  // namespace

std::vector<TextField> read_text_fields(std::string_view text, const std::string& path, std::string_view expected,
                                        std::string_view op, const Where& where) {
  return Reader(text, path, expected, op, where).read('\0', 0);
}

std::string to_text(const std::vector<TextField>& fields, int spaces) {
  const std::string start(size_t(spaces), ' ');
  std::string out;
  for (const TextField& f : fields) {
    out += start + f.name;
    switch (f.kind) {
      case TextField::Kind::word: out += ": " + f.value + "\n"; break;
      case TextField::Kind::text: out += ": " + in_quotes(f.value) + "\n"; break;
      case TextField::Kind::message: out += " {\n" + to_text(f.fields, spaces + 2) + start + "}\n"; break;
    }
  }
  return out;
}

}  // namespace rill
