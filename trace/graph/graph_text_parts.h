// What writing and reading a graph's text (../graph_text.h) share: quoted strings, and elements of tensors as text.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "rill/tensor/tensor.h"

namespace rill::graph_text {

// A token of the text.
struct Token {
  enum class Kind : uint8_t { end, sign, word, string };  // a sign is one of ( ) { } [ ] , : = % or <-
  Kind kind = Kind::end;
  std::string text;  // of a string, its value
  int line = 1, column = 1;
};

// Splits a text into tokens. '#' starts a comment, up to the end of the line.
class Lexer {
 public:
  Lexer(std::string_view text, const Where& where) : rest_(text), where_(where) {}
  // The next token; at the end, Kind::end every time.
  Token next();

 private:
  [[noreturn]] void reject(const std::string& what) const;
  void skip_blanks();
  void advance(size_t n);
  std::string string();

  std::string_view rest_;
  Where where_;
  int line_ = 1, column_ = 1;
};

[[noreturn]] void reject_at(int line, int column, const std::string& what, const Where& where);

// In quotes, with \" \\ \n \t and \x1b for special characters.
std::string in_quotes(std::string_view text);

// The elements of `t`, row-major: numbers with as few digits as give the same bits back, "nan_7fc00001" for a NaN with
// an unusual payload, "(re, im)" for complex numbers, and quoted strings.
std::vector<std::string> element_texts(const Tensor& t);

// One element, of one or (complex) two tokens.
struct ElementText {
  std::string first, second;
  bool is_string = false, is_pair = false;
};
// The inverse of element_texts(): a tensor of this spec. Throws rill::Error for texts that are no elements of its
// dtype, and if their number is wrong.
Tensor tensor_of(const Spec& spec, const std::vector<ElementText>& elements);

}  // namespace rill::graph_text
