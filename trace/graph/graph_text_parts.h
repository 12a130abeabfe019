// What writing and reading a graph's text (../graph_text.h) share: quoted strings, and elements of tensors as words.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "rill/tensor/tensor.h"

namespace rill::graph_text {

// A piece of the text.
struct Token {
  enum class Kind : uint8_t { end, sign, word, string };  // a sign is one of ( ) { } [ ] , : = % or <-
  Kind kind = Kind::end;
  std::string text;  // of a string, what it stands for
  int line = 1, column = 1;
};

// Takes a text apart. '#' begins a comment, up to the end of the line.
class Lexer {
 public:
  Lexer(std::string_view text, const Where& where) : rest_(text), where_(where) {}
  // The next token; Kind::end at the end, as often as it is asked for.
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

// In quotes, with \" \\ \n \t and \x1b for what cannot stand there by itself.
std::string in_quotes(std::string_view text);

// The elements of `t`, row-major: numbers in as few digits as give the same bits back, "nan_7fc00001" for a NaN that is
// not the usual one, "(re, im)" for complex numbers, and quoted strings.
std::vector<std::string> element_texts(const Tensor& t);

// One element, of one or (complex) two words, as a text has it.
struct ElementText {
  std::string first, second;
  bool is_string = false, is_pair = false;
};
// The inverse of element_texts(): a tensor of this spec. Throws rill::Error for what is no element of its dtype, and
// where their number does not fit.
Tensor tensor_of(const Spec& spec, const std::vector<ElementText>& elements);

}  // namespace rill::graph_text
