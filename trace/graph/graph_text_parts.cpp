// The parts of a graph's text; see graph_text_parts.h.
#include "rill/trace/graph/graph_text_parts.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "rill/devices/host_memory.h"
#include "rill/devices/registry.h"
#include "rill/ops/apply.h"
#include "rill/tensor/limits.h"
#include "rill/tensor/text.h"
#include "rill/tensor/visit_dtype.h"
#include "rill/trace/graph/spec_text.h"

namespace rill::graph_text {

// --- Tokens ----------------------------------------------------------------------------------------------------------

void reject_at(int line, int column, const std::string& what, const Where& where) {
  fail("parse_graph", fmt::format("line {}, column {}: {}", line, column, what), where);
}
void Lexer::reject(const std::string& what) const { reject_at(line_, column_, what, where_); }

void Lexer::advance(size_t n) {
  for (const char c : rest_.substr(0, n)) {
    if (c == '\n') ++line_, column_ = 1;
    else ++column_;
  }
  rest_.remove_prefix(n);
}

void Lexer::skip_blanks() {
  while (!rest_.empty()) {
    const size_t blanks = std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size());
    advance(blanks);
    if (rest_.empty() || rest_[0] != '#') return;
    advance(std::min(rest_.find('\n'), rest_.size()));
  }
}

std::string Lexer::string() {
  std::string out;
  advance(1);
  while (!rest_.empty() && rest_[0] != '"' && rest_[0] != '\n') {
    if (rest_[0] != '\\') {
      out += rest_[0];
      advance(1);
      continue;
    }
    const char c = rest_.size() > 1 ? rest_[1] : '\0';
    unsigned byte = 0;
    if (c == 'x' && rest_.size() >= 4 &&
        std::from_chars(rest_.data() + 2, rest_.data() + 4, byte, 16).ptr == rest_.data() + 4) {
      out += char(byte);
      advance(4);
      continue;
    }
    if (c != '"' && c != '\\' && c != 'n' && c != 'r' && c != 't')
      reject("expected \\\", \\\\, \\n, \\r, \\t or \\x and two digits");
    out += c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c;
    advance(2);
  }
  if (rest_.empty() || rest_[0] != '"') reject("expected the end of a string, \"");
  advance(1);
  return out;
}

Token Lexer::next() {
  skip_blanks();
  Token t{Token::Kind::end, "", line_, column_};
  if (rest_.empty()) return t;
  constexpr std::string_view signs = "(){}[],:=%";
  if (rest_[0] == '"') {
    t.kind = Token::Kind::string;
    t.text = string();
  } else if (const size_t n = rest_.starts_with("<-") ? 2 : signs.find(rest_[0]) != signs.npos ? 1 : 0; n > 0) {
    t.kind = Token::Kind::sign;
    t.text = rest_.substr(0, n);
    advance(n);
  } else {
    t.kind = Token::Kind::word;
    t.text = rest_.substr(0, rest_.find_first_of("(){}[],:=%<\"# \t\r\n"));
    if (t.text.empty()) reject(fmt::format("unexpected '{}'", rest_[0]));
    advance(t.text.size());
  }
  return t;
}

std::string in_quotes(std::string_view text) { return '"' + one_line(text, "\"\\") + '"'; }

// --- Elements --------------------------------------------------------------------------------------------------------

namespace {

// The unsigned integer type of a float's width.
template <class T>
using BitsOf = std::conditional_t<
    sizeof(T) == 1, uint8_t,
    std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;

template <class T>
T usual_nan() {
  if constexpr (is_small_float_type<T>) return T(std::numeric_limits<float>::quiet_NaN());
  else return std::numeric_limits<T>::quiet_NaN();
}

template <class T>
std::string text_of(const T& v) {
  if constexpr (std::is_same_v<T, std::string>) {
    return in_quotes(v);
  } else if constexpr (std::is_same_v<T, bool>) {
    return v ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return fmt::format("{}", v);
  } else if constexpr (std::is_floating_point_v<T> || is_small_float_type<T>) {
    const auto wide = std::conditional_t<is_small_float_type<T>, float, T>(v);
    const auto bits = std::bit_cast<BitsOf<T>>(v);
    if (std::isnan(wide) && bits != std::bit_cast<BitsOf<T>>(usual_nan<T>())) return fmt::format("nan_{:x}", bits);
    return std::isnan(wide) ? "nan" : fmt::format("{}", wide);
  } else {
    return fmt::format("({}, {})", text_of(v.real()), text_of(v.imag()));
  }
}

template <class T>
bool read(std::string_view text, T& v, int base = 10) {
  std::from_chars_result r{};
  if constexpr (std::is_integral_v<T>) r = std::from_chars(text.data(), text.data() + text.size(), v, base);
  else r = std::from_chars(text.data(), text.data() + text.size(), v);
  return r.ec == std::errc() && r.ptr == text.data() + text.size();
}

// False if the text is not such a number.
template <class T>
bool read_number(std::string_view text, T& v) {
  if constexpr (std::is_same_v<T, bool>) {
    v = text == "true";
    return v || text == "false";
  } else if constexpr (std::is_integral_v<T>) {
    return read(text, v);
  } else {
    if (BitsOf<T> bits = 0; text.starts_with("nan_")) {
      const bool good = read(text.substr(4), bits, 16);
      v = std::bit_cast<T>(bits);
      return good;
    }
    v = usual_nan<T>();
    if (text == "nan") return true;
    std::conditional_t<is_small_float_type<T>, float, T> wide = 0;
    if (!read(text, wide)) return false;
    v = T(wide);
    return true;
  }
}

template <class T>
bool read_element(const ElementText& e, T& v) {
  if constexpr (std::is_same_v<T, std::string>) {
    v = e.first;
    return e.is_string;
  } else if constexpr (detail::ComplexOf<T, float> || detail::ComplexOf<T, double>) {
    typename T::value_type real = 0, imag = 0;
    const bool good = e.is_pair && read_number(e.first, real) && read_number(e.second, imag);
    v = {real, imag};
    return good;
  } else {
    return !e.is_string && !e.is_pair && read_number(e.first, v);
  }
}

}  // namespace

std::vector<std::string> element_texts(const Tensor& t) {
  const EagerScope eager;
  const PauseTapes pause;
  const Tensor dense = (t.device() == Device() ? t : t.to(Device())).contiguous();
  std::vector<std::string> out;
  out.reserve(size_t(dense.size()));
  visit_stored_dtype(dense.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto* data = reinterpret_cast<const T*>(dense.rep()->data);
    for (int64_t i = 0; i < dense.size(); ++i) out.push_back(text_of<T>(data[i]));
  });
  return out;
}

Tensor tensor_of(const Spec& spec, const std::vector<ElementText>& elements) {
  if (!has_device(spec.device)) fail("parse_graph", to_string(spec.device) + " is not here", Where());
  if (!has_sound_size(spec) || int64_t(elements.size()) != int64_t(spec.shape.numel()))
    fail("parse_graph", fmt::format("{} has {} elements here", to_string(spec), elements.size()), Where());
  const EagerScope eager;
  const PauseTapes pause;
  Tensor t = empty_tensor(Spec{spec.shape, spec.dtype, false, Device()});
  visit_stored_dtype(spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* data = reinterpret_cast<T*>(t.mutable_rep()->data);
    for (size_t i = 0; i < elements.size(); ++i)
      if (!read_element(elements[i], data[i]))
        fail("parse_graph", fmt::format("'{}' is no {}", elements[i].first.substr(0, 40), name(spec.dtype)), Where());
  });
  return placed(std::move(t), spec);
}

}  // namespace rill::graph_text
