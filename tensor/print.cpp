// Prints tensors as numpy does: array2string of numpy 2 with its default options (8 digits, lines of 75 columns,
// summaries past 1000 elements). Each element becomes a word, all words of a tensor are padded to one width by a rule
// of their dtype, and layout() adds brackets and line breaks. Start at to_string(Tensor), at the end.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <ostream>

#include "rill/tensor/tensor.h"
#include "rill/tensor/visit_dtype.h"

namespace rill {

namespace {

constexpr int precision = 8;
constexpr size_t line_width = 75;
constexpr int64_t threshold = 1000, edge_items = 3;

// --- Digits ----------------------------------------------------------------------------------------------------------

// A finite number as decimal digits: 0.d1d2d3... * 10^point, without trailing zeros; "0" for zero.
struct Decimal {
  bool negative = false;
  std::string digits;
  int point = 0;
};

// From text as printf's %e and to_chars give it: [-]d.ddde[+-]dd.
Decimal parse_scientific(std::string_view text) {
  Decimal d;
  if (text.front() == '-') {
    d.negative = true;
    text.remove_prefix(1);
  }
  size_t e = text.find('e');
  for (char c : text.substr(0, e))
    if (c != '.') d.digits += c;
  std::string_view exponent = text.substr(e + 1 + (text[e + 1] == '+'));
  std::from_chars(exponent.data(), exponent.data() + exponent.size(), d.point);
  ++d.point;
  while (d.digits.size() > 1 && d.digits.back() == '0') d.digits.pop_back();
  if (d.digits == "0") d.point = 1;
  return d;
}

// The fewest digits from which `v` is read back exactly as `dtype`.
Decimal shortest(double v, DType dtype) {
  char text[64];
  if (dtype == DType::f64 || dtype == DType::f32) {
    auto r = dtype == DType::f64 ? std::to_chars(text, text + sizeof text, v, std::chars_format::scientific)
                                 : std::to_chars(text, text + sizeof text, float(v), std::chars_format::scientific);
    return parse_scientific({text, size_t(r.ptr - text)});
  }
  for (int p = 0;; ++p) {
    std::string s = fmt::format("{:.{}e}", v, p);
    double again = 0;
    std::from_chars(s.data(), s.data() + s.size(), again);  // which knows no locale
    double rounded = dtype == DType::f16 ? double(float(Half(float(again)))) : double(float(BFloat16(float(again))));
    if (rounded == v || p == 17) return parse_scientific(s);
  }
}

// `v` with at most `precision` digits behind the point, shorter where fewer say it all.
Decimal rounded_fraction(double v, DType dtype) {
  Decimal d = shortest(v, dtype);
  if (int(d.digits.size()) - d.point <= precision) return d;
  std::string fixed = fmt::format("{:.{}f}", v, precision);
  d.digits.clear();
  d.point = 0;
  bool point_seen = false;
  for (char c : fixed) {
    if (c == '.') point_seen = true;
    if (c < '0' || c > '9' || (c == '0' && d.digits.empty() && !point_seen)) continue;
    d.digits += c;
    d.point += !point_seen;
  }
  while (!d.digits.empty() && d.digits.back() == '0') d.digits.pop_back();
  return d;
}
Decimal rounded_scientific(double v, DType dtype) {
  Decimal d = shortest(v, dtype);
  return int(d.digits.size()) - 1 <= precision ? d : parse_scientific(fmt::format("{:.{}e}", v, precision));
}

// The two sides of the point in positional notation; the fraction may be empty.
struct Sides {
  std::string whole, fraction;
};
Sides positional(const Decimal& d, bool plus) {
  Sides s;
  s.whole = d.negative ? "-" : plus ? "+" : "";
  int n = int(d.digits.size());
  if (d.point <= 0) s.whole += '0';
  for (int i = 0; i < d.point; ++i) s.whole += i < n ? d.digits[size_t(i)] : '0';
  if (d.digits == "0") return s;
  if (d.point < 0) s.fraction.assign(size_t(-d.point), '0');
  if (d.point < n) s.fraction += d.digits.substr(size_t(std::max(d.point, 0)));
  return s;
}
Sides scientific(const Decimal& d, bool plus) {
  return {(d.negative ? "-" : plus ? "+" : "") + d.digits.substr(0, 1), d.digits.substr(1)};
}
std::string exponent_text(const Decimal& d, int digits) {
  int e = d.point - 1;
  return fmt::format("{}{:0{}}", e < 0 ? '-' : '+', std::abs(e), digits);
}

// --- Floats: one width for all, and scientific notation where the magnitudes differ much -----------------------------

class FloatFormat {
 public:
  FloatFormat(const std::vector<double>& seen, DType dtype, bool plus) : dtype_(dtype), plus_(plus) {
    choose_notation(seen);
    bool any_not_finite = false, any_negative_infinity = plus;
    for (double v : seen) {
      if (!std::isfinite(v)) {
        any_not_finite = true;
        any_negative_infinity = any_negative_infinity || (std::isinf(v) && v < 0);
        continue;
      }
      Decimal d = decimal(v);
      Sides s = sides(d);
      left_ = std::max(left_, s.whole.size());
      fraction_ = std::max(fraction_, s.fraction.size());
      if (scientific_) exponent_digits_ = std::max(exponent_digits_, int(exponent_text(d, 2).size()) - 1);
    }
    right_ = fraction_ + (scientific_ ? size_t(exponent_digits_) + 2 : 0);
    if (any_not_finite) {
      size_t widest = 3 + any_negative_infinity, beside = right_ + 1;
      left_ = std::max(left_, widest > beside ? widest - beside : 0);
    }
  }

  std::string operator()(double v) const {
    if (!std::isfinite(v)) {
      std::string s = std::isnan(v) ? plus_ ? "+nan" : "nan" : v < 0 ? "-inf" : plus_ ? "+inf" : "inf";
      return fmt::format("{:>{}}", s, left_ + right_ + 1);
    }
    Decimal d = decimal(v);
    if (scientific_)
      d = parse_scientific(fmt::format("{:.{}e}", v, fraction_));  // numpy fills up with digits, not zeros
    Sides s = sides(d);
    if (!scientific_) return fmt::format("{:>{}}.{:<{}}", s.whole, left_, s.fraction, right_);
    return fmt::format("{:>{}}.{:0<{}}e{}", s.whole, left_, s.fraction, fraction_, exponent_text(d, exponent_digits_));
  }

 private:
  // In the dtype's own arithmetic, as numpy decides.
  void choose_notation(const std::vector<double>& seen) {
    double largest = 0, smallest = 0;
    for (double v : seen) {
      if (!std::isfinite(v) || v == 0) continue;
      v = std::abs(v);
      largest = std::max(largest, v);
      smallest = smallest == 0 ? v : std::min(smallest, v);
    }
    if (largest == 0) return;
    bool is_double = dtype_ == DType::f64;
    double tiny = is_double ? 0.0001 : dtype_ == DType::f16 ? double(float(Half(0.0001f))) : double(0.0001f);
    double ratio = is_double ? largest / smallest : double(float(largest) / float(smallest));
    scientific_ = largest >= 1e8 || smallest < tiny || ratio > 1000;
  }
  Decimal decimal(double v) const {
    Decimal d = scientific_ ? rounded_scientific(v, dtype_) : rounded_fraction(v, dtype_);
    d.negative = std::signbit(v);
    return d;
  }
  Sides sides(const Decimal& d) const { return scientific_ ? scientific(d, plus_) : positional(d, plus_); }

  DType dtype_;
  bool plus_;  // positive numbers carry their sign: imaginary parts
  bool scientific_ = false;
  size_t left_ = 0, right_ = 0, fraction_ = 0;
  int exponent_digits_ = 0;
};

// numpy's text of a scalar: the shortest digits, with a point unless `bare`; scientific outside [1e-4, 1e16).
std::string scalar_text(double v, DType dtype, bool bare) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  Decimal d = shortest(v, dtype);
  d.negative = std::signbit(v);
  if (v == 0 || (std::abs(v) >= 1e-4 && std::abs(v) < 1e16)) {
    Sides s = positional(d, false);
    if (s.fraction.empty()) return bare ? s.whole : s.whole + ".0";
    return s.whole + "." + s.fraction;
  }
  Sides s = scientific(d, false);
  return s.whole + (s.fraction.empty() ? "" : "." + s.fraction) + "e" + exponent_text(d, 2);
}

std::string scalar_text(std::complex<double> z, DType part) {
  std::string imag = scalar_text(z.imag(), part, true);
  if (z.real() == 0 && !std::signbit(z.real())) return imag + "j";
  std::string sign = imag[0] == '-' ? "" : "+";
  return "(" + scalar_text(z.real(), part, true) + sign + imag + "j)";
}

// --- Strings ---------------------------------------------------------------------------------------------------------

// Python's repr.
std::string quoted(const std::string& s) {
  char quote = s.find('\'') != std::string::npos && s.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (char c : s) {
    if (c == quote || c == '\\') out += {'\\', c};
    else if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else if (c == '\r') out += "\\r";
    else if (uint8_t(c) < 32 || c == 127) out += fmt::format("\\x{:02x}", uint8_t(c));
    else out += c;
  }
  return out + quote;
}

// Columns that UTF-8 text takes: its code points.
size_t columns(std::string_view s) {
  size_t n = 0;
  for (char c : s) n += (uint8_t(c) & 0xC0) != 0x80;
  return n;
}

// --- Words -----------------------------------------------------------------------------------------------------------

using Word = std::function<std::string(size_t)>;  // of the element at this row-major position

// Calls f(position) for the elements that are shown, in order.
template <class F>
void for_each_shown(const Shape& shape, bool summary, size_t axis, size_t base, F&& f) {
  if (axis == shape.size()) return f(base);
  int64_t n = shape[axis];
  for (int64_t i = 0; i < n; ++i) {
    if (summary && n > 2 * edge_items && i == edge_items) i = n - edge_items;
    for_each_shown(shape, summary, axis + 1, base * size_t(n) + size_t(i), f);
  }
}

template <class T, class F>
auto shown(const std::vector<T>& all, const Tensor& t, bool summary, F&& part) {
  std::vector<decltype(part(all[0]))> out;
  for_each_shown(t.shape(), summary, 0, 0, [&](size_t i) { out.push_back(part(all[i])); });
  return out;
}

template <class T>
Word integer_words(const Tensor& t, bool summary) {
  std::vector<T> all = t.to_vector<T>();
  size_t width = 0;
  for (size_t n : shown(all, t, summary, [](T v) { return fmt::formatted_size("{}", v); })) width = std::max(width, n);
  return [all = std::move(all), width](size_t i) { return fmt::format("{:>{}}", all[i], width); };
}

Word float_words(const Tensor& t, bool summary) {
  std::vector<double> all = t.to_vector<double>();
  FloatFormat format(shown(all, t, summary, [](double v) { return v; }), t.dtype(), false);
  return [all = std::move(all), format](size_t i) { return format(all[i]); };
}

Word complex_words(const Tensor& t, bool summary) {
  using Complex = std::complex<double>;
  std::vector<Complex> all = t.to_vector<Complex>();
  DType part = real_of(t.dtype());
  FloatFormat real(shown(all, t, summary, [](Complex z) { return z.real(); }), part, false);
  FloatFormat imag(shown(all, t, summary, [](Complex z) { return z.imag(); }), part, true);
  return [all = std::move(all), real, imag](size_t i) {
    std::string text = imag(all[i].imag());
    size_t end = text.find_last_not_of(' ') + 1;
    return real(all[i].real()) + text.insert(end, "j");
  };
}

Word words_of(const Tensor& t, bool summary) {
  DType d = t.dtype();
  if (is_bool(d)) return [all = t.to_vector<bool>()](size_t i) { return std::string(all[i] ? " True" : "False"); };
  if (d == DType::string) return [all = t.to_vector<std::string>()](size_t i) { return quoted(all[i]); };
  if (is_complex(d)) return complex_words(t, summary);
  if (is_floating(d)) return float_words(t, summary);
  return is_unsigned(d) ? integer_words<uint64_t>(t, summary) : integer_words<int64_t>(t, summary);
}

std::string scalar_word(const Tensor& t) {
  DType d = t.dtype();
  if (is_bool(d)) return t.item<bool>() ? "True" : "False";
  if (d == DType::string) return t.item<std::string>();
  if (is_complex(d)) return scalar_text(t.item<std::complex<double>>(), real_of(d));
  if (is_floating(d)) return scalar_text(t.item<double>(), d, false);
  return is_unsigned(d) ? std::to_string(t.item<uint64_t>()) : std::to_string(t.item<int64_t>());
}

// --- Layout ----------------------------------------------------------------------------------------------------------

struct Layout {
  const Shape& shape;
  const Word& word;
  bool summary;

  // The words of one row between brackets, broken into lines that begin with `indent`.
  std::string row(size_t base, const std::string& indent, size_t width) const {
    std::string out, line = indent;
    const size_t room = width - 1;  // for the bracket
    auto extend = [&](const std::string& w) {
      if (columns(line) + columns(w) > room && line.size() > indent.size()) {
        out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
        line = indent;
      }
      line += w;
    };
    int64_t n = shape.back();
    bool cut = summary && n > 2 * edge_items;
    for (int64_t i = 0; i < n; ++i) {
      if (cut && i == edge_items) {
        extend("...");
        line += ' ';
        i = n - edge_items;
      }
      extend(word(base * size_t(n) + size_t(i)));
      if (i + 1 < n) line += ' ';
    }
    return "[" + (out + line).substr(indent.size()) + "]";
  }

  std::string block(size_t axis, size_t base, const std::string& indent, size_t width) const {
    if (axis + 1 == shape.size()) return row(base, indent, width);
    int64_t n = shape[axis];
    bool cut = summary && n > 2 * edge_items;
    std::string out = "[", gap = std::string(shape.size() - axis - 1, '\n') + indent;
    for (int64_t i = 0; i < n; ++i) {
      if (cut && i == edge_items) {
        out += "..." + gap;
        i = n - edge_items;
      }
      out += block(axis + 1, base * size_t(n) + size_t(i), indent + ' ', width - 1);
      if (i + 1 < n) out += gap;
    }
    return out + "]";
  }
};

}  // namespace

std::string to_string(const Tensor& t) {
  if (!t.defined()) return "undefined";
  if (t.is_symbolic()) return fmt::format("{} <%{}>", to_string(t.spec()), t.rep()->trace_value);
  if (t.ndim() == 0) return scalar_word(t);
  if (t.size() == 0) return "[]";
  bool summary = t.size() > threshold;
  Word word = words_of(t, summary);
  return Layout{t.shape(), word, summary}.block(0, 0, " ", line_width);
}

std::ostream& operator<<(std::ostream& out, const Tensor& t) { return out << to_string(t); }

}  // namespace rill
