// Prints tensors as numpy does: array2string of numpy 2.3 and later, with its options (print.h). Each element becomes a
// word, all words of a tensor are padded to one width by a rule of their dtype, and layout() adds brackets and line
// breaks. Start at to_string(Tensor), at the end.
#include "rill/tensor/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cmath>
#include <functional>
#include <mutex>
#include <ostream>
#include <utility>

#include "rill/tensor/fork_mutex.h"
#include "rill/tensor/tensor.h"
#include "rill/tensor/text.h"
#include "rill/tensor/visit_dtype.h"

namespace rill {

namespace {

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

// The fewest digits from which `v` can be read back exactly as `dtype`. 8-bit floats are printed as f32: their largest
// number would be 450 instead of 448.
Decimal shortest(double v, DType dtype) {
  char text[64];
  if (dtype == DType::f64 || dtype == DType::f32 || is_float8(dtype)) {
    auto r = dtype == DType::f64 ? std::to_chars(text, text + sizeof text, v, std::chars_format::scientific)
                                 : std::to_chars(text, text + sizeof text, float(v), std::chars_format::scientific);
    return parse_scientific({text, size_t(r.ptr - text)});
  }
  for (int p = 0;; ++p) {
    std::string s = fmt::format("{:.{}e}", v, p);
    double again = 0;
    std::from_chars(s.data(), s.data() + s.size(), again);  // independent of the locale
    double rounded = dtype == DType::f16 ? double(float(Half(float(again)))) : double(float(BFloat16(float(again))));
    if (rounded == v || p == 17) return parse_scientific(s);
  }
}

// `v` with at most `precision` digits after the point, fewer if they are exact.
Decimal rounded_fraction(double v, DType dtype, int precision) {
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
Decimal rounded_scientific(double v, DType dtype, int precision) {
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
// Rounded to that many digits after the point, as printf does.
Sides fixed(double v, size_t digits, bool plus) {
  const std::string text = fmt::format("{:.{}f}", v, digits);
  const size_t point = std::min(text.find('.'), text.size());
  return {(plus && !std::signbit(v) ? "+" : "") + text.substr(0, point),
          point < text.size() ? text.substr(point + 1) : ""};
}
std::string exponent_text(const Decimal& d, int digits) {
  int e = d.point - 1;
  return fmt::format("{}{:0{}}", e < 0 ? '-' : '+', std::abs(e), digits);
}

// --- Floats: one width for all, and scientific notation where the magnitudes differ much -----------------------------

class FloatFormat {
 public:
  // `sign` overrides that of the options, because imaginary parts always have a sign.
  FloatFormat(const std::vector<double>& seen, DType dtype, const PrintOptions& options, char sign)
      : dtype_(dtype), plus_(sign == '+'), mode_(options.float_mode) {
    if (mode_ != FloatMode::unique) precision_ = options.precision;
    choose_notation(seen, options.suppress);
    bool any_not_finite = false, any_negative = false, any_negative_infinity = sign != '-';
    for (double v : seen) {
      if (!std::isfinite(v)) {
        any_not_finite = true;
        any_negative_infinity = any_negative_infinity || (std::isinf(v) && v < 0);
        continue;
      }
      any_negative = any_negative || std::signbit(v);
      Decimal d = decimal(v);
      Sides s = sides(d);
      left_ = std::max(left_, s.whole.size());
      fraction_ = std::max(fraction_, s.fraction.size());
      if (scientific_) exponent_digits_ = std::max(exponent_digits_, int(exponent_text(d, 2).size()) - 1);
    }
    if (mode_ == FloatMode::fixed && left_) fraction_ = size_t(precision_);
    if (sign == ' ' && !any_negative) ++left_;
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
    // numpy pads with further digits, not zeros. The shortest digits are kept: next to a power of two, rounding to as
    // many digits may give others, which belong to another number.
    if (scientific_ && d.digits.size() <= fraction_) d = parse_scientific(fmt::format("{:.{}e}", v, fraction_));
    Sides s = sides(d);
    if (!scientific_ && (mode_ == FloatMode::fixed || mode_ == FloatMode::maxprec_equal))
      s = fixed(v, fraction_, plus_);
    if (!scientific_) return fmt::format("{:>{}}.{:<{}}", s.whole, left_, s.fraction, right_);
    return fmt::format("{:>{}}.{:0<{}}e{}", s.whole, left_, s.fraction, fraction_, exponent_text(d, exponent_digits_));
  }

 private:
  // Integers from here on have more digits than an f32 or f16 needs.
  double large() const { return dtype_ == DType::f32 ? 1e6 : dtype_ == DType::f16 ? 1e3 : 1e8; }
  // In the dtype's own arithmetic, as numpy decides.
  void choose_notation(const std::vector<double>& seen, bool suppress) {
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
    scientific_ = largest >= large() || (!suppress && (smallest < tiny || ratio > 1000));
  }
  Decimal decimal(double v) const {
    Decimal d = scientific_ ? rounded_scientific(v, dtype_, precision_) : rounded_fraction(v, dtype_, precision_);
    d.negative = std::signbit(v);
    return d;
  }
  Sides sides(const Decimal& d) const { return scientific_ ? scientific(d, plus_) : positional(d, plus_); }

  DType dtype_;
  bool plus_;  // positive numbers carry their sign
  FloatMode mode_;
  int precision_ = INT_MAX;
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
  const char quote = s.find('\'') != std::string::npos && s.find('"') == std::string::npos ? '"' : '\'';
  return quote + one_line(s, std::string{quote, '\\'}) + quote;
}

// The width of UTF-8 text, in code points.
size_t columns(std::string_view s) {
  size_t n = 0;
  for (char c : s) n += (uint8_t(c) & 0xC0) != 0x80;
  return n;
}

// --- Words -----------------------------------------------------------------------------------------------------------

using Word = std::function<std::string(size_t)>;  // of the element at a row-major position

struct Shown {
  const Tensor& t;
  const PrintOptions& options;
  bool summary = options.threshold < t.size();
};

// Whether the middle of an axis is omitted.
bool is_cut(const Shown& s, int64_t n) { return s.summary && s.options.edge_items <= (n - 1) / 2; }

// Calls f(position) for the elements that determine the common width, in order: those shown, and, as in numpy, all
// elements of an axis of which none is shown at the edges.
template <class F>
void for_each_shown(const Shown& s, size_t axis, size_t base, F&& f) {
  const Shape& shape = s.t.shape();
  if (axis == shape.size()) return f(base);
  const int64_t n = shape[axis], edge = s.options.edge_items;
  for (int64_t i = 0; i < n; ++i) {
    if (is_cut(s, n) && i == edge && edge > 0) i = n - edge;
    for_each_shown(s, axis + 1, base * size_t(n) + size_t(i), f);
  }
}

template <class T, class F>
auto shown(const std::vector<T>& all, const Shown& s, F&& part) {
  std::vector<decltype(part(all[0]))> out;
  for_each_shown(s, 0, 0, [&](size_t i) { out.push_back(part(all[i])); });
  return out;
}

template <class T>
std::string with_sign(T v, char sign) {
  const std::string text = fmt::format("{}", v);
  return sign == '-' || v < T(0) ? text : sign + text;
}

template <class T>
Word integer_words(const Shown& s) {
  std::vector<T> all = s.t.to_vector<T>();
  const std::vector<T> seen = shown(all, s, [](T v) { return v; });
  char sign = s.options.sign;
  if (sign == ' ' && std::any_of(seen.begin(), seen.end(), [](T v) { return v < T(0); })) sign = '-';
  size_t width = 0;
  for (const T v : seen) width = std::max(width, with_sign(v, sign).size());
  return
      [all = std::move(all), width, sign](size_t i) { return fmt::format("{:>{}}", with_sign(all[i], sign), width); };
}

Word float_words(const Shown& s) {
  std::vector<double> all = s.t.to_vector<double>();
  FloatFormat format(shown(all, s, [](double v) { return v; }), s.t.dtype(), s.options, s.options.sign);
  return [all = std::move(all), format](size_t i) { return format(all[i]); };
}

Word complex_words(const Shown& s) {
  using Complex = std::complex<double>;
  std::vector<Complex> all = s.t.to_vector<Complex>();
  DType part = real_of(s.t.dtype());
  FloatFormat real(shown(all, s, [](Complex z) { return z.real(); }), part, s.options, s.options.sign);
  FloatFormat imag(shown(all, s, [](Complex z) { return z.imag(); }), part, s.options, '+');
  return [all = std::move(all), real, imag](size_t i) {
    std::string text = imag(all[i].imag());
    size_t end = text.find_last_not_of(' ') + 1;
    return real(all[i].real()) + text.insert(end, "j");
  };
}

Word words_of(const Shown& s) {
  DType d = s.t.dtype();
  if (is_bool(d))
    return [all = s.t.to_vector<bool>(), wide = s.t.ndim() > 0](size_t i) {
      return std::string(all[i] ? wide ? " True" : "True" : "False");
    };
  if (d == DType::string) return [all = s.t.to_vector<std::string>()](size_t i) { return quoted(all[i]); };
  if (is_complex(d)) return complex_words(s);
  if (is_floating(d)) return float_words(s);
  return is_unsigned(d) ? integer_words<uint64_t>(s) : integer_words<int64_t>(s);
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
  const Shown& shown;
  const Word& word;
  const Shape& shape = shown.t.shape();

  // The words of one row between brackets, broken into lines that begin with `indent`.
  std::string row(size_t base, const std::string& indent, int64_t width) const {
    std::string out, line = indent;
    const int64_t room = width - 1;  // for the bracket
    auto extend = [&](const std::string& w) {
      if (int64_t(columns(line) + columns(w)) > room && line.size() > indent.size()) {
        out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
        line = indent;
      }
      line += w;
    };
    const int64_t n = shape.back();
    for (int64_t i = 0; i < n; ++i) {
      if (is_cut(shown, n) && i == shown.options.edge_items) {
        extend("...");
        line += ' ';
        i = last_edge(n);
      }
      extend(word(base * size_t(n) + size_t(i)));
      if (i + 1 < n) line += ' ';
    }
    return "[" + (out + line).substr(indent.size()) + "]";
  }

  std::string block(size_t axis, size_t base, const std::string& indent, int64_t width) const {
    if (axis == shape.size()) return word(base);
    if (axis + 1 == shape.size()) return row(base, indent, width);
    const int64_t n = shape[axis];
    std::string out = "[", gap = std::string(shape.size() - axis - 1, '\n') + indent;
    for (int64_t i = 0; i < n; ++i) {
      if (is_cut(shown, n) && i == shown.options.edge_items) {
        out += "..." + gap;
        i = last_edge(n);
      }
      out += block(axis + 1, base * size_t(n) + size_t(i), indent + ' ', width - 1);
      if (i + 1 < n) out += gap;
    }
    return out + "]";
  }

  // Index of the first element after the gap: the last element at least, as in numpy.
  int64_t last_edge(int64_t n) const { return n - std::max<int64_t>(shown.options.edge_items, 1); }
};

// --- Options ---------------------------------------------------------------------------------------------------------

void check(const PrintOptions& o, std::string_view call, const Where& where) {
  const auto reject = [&](std::string_view what, int64_t n) {
    fail(call, fmt::format("{} is {}. it must be 0 or more", what, n), where);
  };
  constexpr int most_digits = 1100;  // enough for all digits of any double
  if (o.precision < 0 || o.precision > most_digits)
    fail(call, fmt::format("precision is {}. it must be from 0 to {}", o.precision, most_digits), where);
  if (o.threshold < 0) reject("threshold", o.threshold);
  if (o.edge_items < 0) reject("edge_items", o.edge_items);
  if (o.line_width < 0) reject("line_width", o.line_width);
  if (o.sign != '-' && o.sign != '+' && o.sign != ' ')
    fail(call, fmt::format("sign is '{}'. it is one of '-', '+' and ' '", o.sign), where);
  if (o.float_mode > FloatMode::unique)
    fail(call, fmt::format("float_mode is {}, which is none of them", int(o.float_mode)), where);
}

struct OfProcess {
  ForkMutex mutex;
  PrintOptions options;
};
OfProcess& of_process() {
  static OfProcess* all = new OfProcess;  // tensors may be printed after main()
  return *all;
}
thread_local constinit const PrintOptions* of_scope = nullptr;

std::string text_of(const Tensor& t, const PrintOptions& options, bool scalars_too) {
  if (!t.defined()) return "undefined";
  if (t.is_symbolic()) return fmt::format("{} <%{}>", to_string(t.spec()), t.rep()->trace_value);
  if (t.ndim() == 0 && (!scalars_too || t.dtype() == DType::string)) return scalar_word(t);
  if (t.size() == 0) return "[]";
  const Shown shown{t, options};
  const Word word = words_of(shown);
  return Layout{shown, word}.block(0, 0, " ", options.line_width);
}

}  // namespace

std::string to_string(const Tensor& t, const PrintOptions& options, Where where) {
  check(options, "to_string", where);
  return text_of(t, options, true);
}
std::string to_string(const Tensor& t) { return text_of(t, print_options(), false); }

void set_print_options(const PrintOptions& options, Where where) {
  check(options, "set_print_options", where);
  std::lock_guard lock(of_process().mutex);
  of_process().options = options;
}
PrintOptions print_options() {
  if (of_scope) return *of_scope;
  std::lock_guard lock(of_process().mutex);
  return of_process().options;
}

PrintScope::PrintScope(const PrintOptions& options, Where where) : options_(options) {
  check(options, "PrintScope", where);
  outer_ = std::exchange(of_scope, &options_);
}
PrintScope::~PrintScope() { of_scope = outer_; }

std::ostream& operator<<(std::ostream& out, const Tensor& t) { return out << to_string(t); }

}  // namespace rill
