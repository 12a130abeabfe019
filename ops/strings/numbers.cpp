// Strings and numbers: parsing, formatting, and raw bytes.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "rill/devices/kernel/convert.h"
#include "rill/ops/strings.h"
#include "rill/ops/strings/records.h"
#include "rill/ops/strings/string_maps.h"
#include "rill/tensor/limits.h"
#include "rill/tensor/visit_dtype.h"

#include <locale.h>

namespace rill::strings {
namespace {

std::string_view without_space(std::string_view s) {
  constexpr std::string_view white = " \t\n\v\f\r";
  s.remove_prefix(std::min(s.find_first_not_of(white), s.size()));
  return s.substr(0, s.find_last_not_of(white) + 1);
}

// --- Numbers from text -----------------------------------------------------------------------------------------------

enum class Read : uint8_t { fine, no_number, too_large };

template <class T>
Read read_whole(std::string_view s, T& value) {
  if (s.starts_with('+') && !s.starts_with("+-")) s.remove_prefix(1);
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (end != s.data() + s.size() || s.empty() || error == std::errc::invalid_argument) return Read::no_number;
  return error == std::errc() ? Read::fine : Read::too_large;
}

// from_chars does not say whether an out-of-range number is huge or tiny; strtod does, in a locale with a decimal
// point.
template <class T>
T limit_of(std::string_view s) {
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  const std::string text(s);
  return T(sizeof(T) == 4 ? strtof_l(text.c_str(), nullptr, plain) : strtod_l(text.c_str(), nullptr, plain));
}

template <class T>
Read read_fraction(std::string_view s, T& value) {
  if (s.starts_with('+') && !s.starts_with("+-")) s.remove_prefix(1);
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (end != s.data() + s.size() || s.empty() || error == std::errc::invalid_argument) return Read::no_number;
  if (error == std::errc::result_out_of_range) value = limit_of<T>(s);
  return Read::fine;
}

template <class T>
Tensor numbers(const Tensor& x, const Where& where) {
  const Texts texts(x, x.shape());
  return made<T>(
      x.shape(),
      [&](int64_t i) {
        const std::string_view s = without_space(texts[i]);
        using Wide = std::conditional_t<is_half_type<T>, double, T>;
        Wide value{};
        Read read = Read::no_number;
        if constexpr (std::is_integral_v<T>) read = read_whole(s, value);
        else read = read_fraction(s, value);
        if (read != Read::fine)
          fail("to_number",
               fmt::format("the string at {} is {} and no {}{}", place_in(x.shape(), i),
                           fmt::format("'{}'", texts[i].size() > 60 ? texts[i].substr(0, 60) + "..." : texts[i]),
                           name(dtype_of<T>()), read == Read::too_large ? ": it is out of range" : ""),
               where);
        if constexpr (is_half_type<T>) return T(halfway_float(value));  // so that it is rounded once
        else return T(value);
      },
      false);
}

// --- Text from numbers -----------------------------------------------------------------------------------------------

template <class T>
std::string digits(T v, const FormatOptions& o) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  if (o.precision)
    return o.scientific ? fmt::format("{:.{}e}", v, *o.precision) : fmt::format("{:.{}f}", v, *o.precision);
  char text[64];
  const auto end = o.scientific ? std::to_chars(text, text + sizeof text, v, std::chars_format::scientific)
                                : std::to_chars(text, text + sizeof text, v);
  return {text, end.ptr};
}
// The fewest digits that parse back to the same half.
template <class T>
  requires(is_half_type<T>)
std::string digits(T v, const FormatOptions& o) {
  if (o.precision || !std::isfinite(float(v))) return digits(float(v), o);
  for (int p = 0;; ++p) {
    const std::string text = fmt::format("{:.{}e}", float(v), p);
    float parsed = 0;
    std::from_chars(text.data(), text.data() + text.size(), parsed);
    if (T(parsed).bits == v.bits || p == 9) return digits(parsed, {.scientific = o.scientific});
  }
}

template <class T>
std::string text_of(T v, const FormatOptions& o) {
  if constexpr (std::is_same_v<T, bool>) return v ? "true" : "false";
  else if constexpr (std::is_integral_v<T>) return fmt::format("{}", v);
  else if constexpr (requires { v.imag(); }) return fmt::format("({},{})", digits(v.real(), o), digits(v.imag(), o));
  else return digits(v, o);
}

std::string filled_up(std::string s, const FormatOptions& o) {
  if (int64_t(s.size()) >= o.width) return s;
  const bool has_sign = o.fill == '0' && (s.starts_with('-') || s.starts_with('+'));
  return s.insert(has_sign ? 1 : 0, size_t(o.width) - s.size(), o.fill);
}

// --- Bytes -----------------------------------------------------------------------------------------------------------

// Swaps the bytes of numbers of `size` bytes (of each part of complex ones) if the machine's order is not the requested
// one.
void order_bytes(char* p, size_t bytes, size_t size, bool little_endian) {
  if ((std::endian::native == std::endian::little) == little_endian) return;
  for (size_t at = 0; at + size <= bytes; at += size) std::reverse(p + at, p + at + size);
}
size_t part_size(DType d) { return is_complex(d) ? size_of(d) / 2 : size_of(d); }

}  // namespace

Tensor to_number(const Tensor& x, DType dtype, Where where) {
  CallerScope caller(where);
  require_dtype("to_number", dtype, where);
  if (is_later(x) && (is_integer(dtype) || is_floating(dtype)))
    return apply1(to_number_op, {&x}, NumberParams{dtype}, where);
  require_texts("to_number", x, where);
  return visit_dtype(dtype, [&]<class T>(T) -> Tensor {
    if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string> || requires(T z) { z.imag(); })
      fail("to_number", fmt::format("the dtype is {} and must be an integer or floating one", name(dtype)), where);
    else return numbers<T>(x, where);
  });
}

Tensor as_string(const Tensor& x, const FormatOptions& options, Where where) {
  CallerScope caller(where);
  if (options.precision && (*options.precision < 0 || *options.precision > 1000))
    fail("as_string", fmt::format("precision is {} and must be 0 to 1000", *options.precision), where);
  if (options.width < 0 || options.width > 1 << 20)
    fail("as_string", fmt::format("width is {} and must be 0 to 1048576", options.width), where);
  if (options.fill != ' ' && options.fill != '0') fail("as_string", "fill must be ' ' or '0'", where);
  if (is_later(x)) {
    const Tensor here = x.to(Device(), where);
    return apply1(
        as_string_op, {&here},
        FormatParams{options.precision.value_or(-1), options.scientific, options.width, std::string(1, options.fill)},
        where);
  }
  require_known("as_string", x, where);
  return visit_dtype(x.dtype(), [&]<class T>(T) -> Tensor {
    const Elements<T> values(x, x.shape());
    return made<std::string>(x.shape(), [&](int64_t i) {
      if constexpr (std::is_same_v<T, std::string>) return filled_up(values[i], {.width = options.width});
      else return filled_up(text_of(values[i], options), options);
    });
  });
}

Tensor decode_raw(const Tensor& x, DType dtype, bool little_endian, Where where) {
  CallerScope caller(where);
  require_texts("decode_raw", x, where);
  require_dtype("decode_raw", dtype, where);
  if (dtype == DType::string) fail("decode_raw", "the dtype is string and must be one of numbers or bools", where);
  const Texts texts(x, x.shape());
  const size_t length = x.size() > 0 ? texts[0].size() : 0, size = size_of(dtype);
  for (int64_t i = 0; i < x.size(); ++i)
    if (texts[i].size() != length || length % size != 0)
      fail("decode_raw",
           fmt::format("the string at {} has {} bytes. expected {}, as the first one has, a multiple of the {} of a {}",
                       place_in(x.shape(), i), texts[i].size(), length, size, name(dtype)),
           where);
  Shape shape(x.shape());
  shape.push_back(int64_t(length / size));
  Tensor out = empty_tensor(Spec{shape, dtype, false, Device()});
  char* p = out.mutable_rep()->data;
  for (int64_t i = 0; i < x.size(); ++i, p += length) {
    std::copy_n(texts[i].data(), length, p);
    order_bytes(p, length, part_size(dtype), little_endian);
    if (is_bool(dtype))  // kernels rely on 0 and 1
      for (char& c : std::span(p, length)) c = c != 0;
  }
  return out;
}

Tensor encode_raw(const Tensor& x, bool little_endian, Where where) {
  CallerScope caller(where);
  require_known("encode_raw", x, where);
  if (x.dtype() == DType::string || x.ndim() == 0)
    fail("encode_raw",
         fmt::format("the operand is {} and must be of numbers or bools, with an axis", to_string(x.spec())), where);
  const EagerScope eager;
  const PauseTapes pause;
  const Tensor dense = x.to(Device()).contiguous();
  Shape shape(x.shape());
  const size_t bytes = size_t(int64_t(shape.back())) * size_of(x.dtype());
  shape.pop_back();
  return made<std::string>(shape, [&](int64_t i) {
    std::string s(dense.rep()->data + size_t(i) * bytes, bytes);
    order_bytes(s.data(), bytes, part_size(x.dtype()), little_endian);
    return s;
  });
}

}  // namespace rill::strings
