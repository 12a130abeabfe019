// Comparing, cutting and joining strings. string_maps.h has the loops.
#include "rill/ops/strings.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/ops/call_replay.h"
#include "rill/ops/creation.h"
#include "rill/ops/elementwise.h"
#include "rill/ops/index/from_front.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/strings/records.h"
#include "rill/ops/strings/string_maps.h"

namespace rill::strings {

void require_known(std::string_view op, const Tensor& t, const Where& where) {
  require_defined(op, t, "an operand", where);
  if (t.is_symbolic() && !compute_delayed(t))
    fail(op,
         "strings are computed at once, and this operand is known only when the traced function is called. compute it "
         "outside of the function and pass the result in",
         where);
}

void require_texts(std::string_view op, const Tensor& t, const Where& where) {
  require_known(op, t, where);
  if (t.dtype() != DType::string)
    fail(
        op,
        fmt::format("the operand is {} and must be of strings. as_string() makes them of numbers", to_string(t.spec())),
        where);
}

std::string place_in(const Shape& shape, int64_t i) {
  std::string text;
  for (size_t axis = shape.size(); axis-- > 0;) {
    const int64_t n = shape[axis];
    text = fmt::format("{}{}{}", i % n, text.empty() ? "" : ", ", text);
    i /= n;
  }
  return "[" + text + "]";
}

namespace {

constexpr std::string_view white = " \t\n\v\f\r";

bool continues(char c) { return (uint8_t(c) & 0xC0) == 0x80; }  // a byte of a code point after its first one

// Whether a text is valid UTF-8: no byte sequence that is truncated, overlong, a surrogate or beyond U+10FFFF.
bool is_utf8(std::string_view s) {
  for (size_t i = 0; i < s.size();) {
    const uint8_t first = uint8_t(s[i]);
    const size_t n = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (n == 0 || i + n > s.size()) return false;
    for (size_t k = 1; k < n; ++k)
      if (!continues(s[i + k])) return false;
    const uint8_t second = n > 1 ? uint8_t(s[i + 1]) : 0;
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
        (first == 0xF4 && second > 0x8F))
      return false;
    i += n;
  }
  return true;
}

int64_t units(std::string_view s, Unit unit) {
  return unit == Unit::byte ? int64_t(s.size())
                            : int64_t(s.size() - size_t(std::count_if(s.begin(), s.end(), continues)));
}

// The byte at which unit `i` begins.
size_t byte_of(std::string_view s, int64_t i, Unit unit) {
  if (unit == Unit::byte) return size_t(i);
  size_t at = 0;
  for (; at < s.size(); ++at)
    if (!continues(s[at]) && i-- == 0) break;
  return at;
}

void require_utf8(std::string_view op, std::string_view s, const Shape& shape, int64_t i, const Where& where) {
  if (!is_utf8(s)) fail(op, fmt::format("the string at {} is no UTF-8. count bytes", place_in(shape, i)), where);
}

}  // namespace

// --- Comparisons -----------------------------------------------------------------------------------------------------

#define RILL_COMPARE(name, symbol)                                                                                  \
  Tensor name(const Tensor& a, const Tensor& b, Where where) {                                                      \
    CallerScope caller(where);                                                                                      \
    return mapped<bool>(#name, a, b, where, [](const std::string& x, const std::string& y) { return x symbol y; }); \
  }
Tensor equal(const Tensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  if (is_later(a) || is_later(b)) return apply1(equal_op, {&a, &b}, {}, where);
  return mapped<bool>("equal", a, b, where, [](const std::string& x, const std::string& y) { return x == y; });
}
Tensor not_equal(const Tensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  if (is_later(a) || is_later(b)) return logical_not(strings::equal(a, b, where), where);
  return mapped<bool>("not_equal", a, b, where, [](const std::string& x, const std::string& y) { return x != y; });
}
RILL_COMPARE(less, <)
RILL_COMPARE(less_equal, <=)
RILL_COMPARE(greater, >)
RILL_COMPARE(greater_equal, >=)
#undef RILL_COMPARE

// --- Lengths and parts -----------------------------------------------------------------------------------------------

Tensor length(const Tensor& x, Unit unit, Where where) {
  CallerScope caller(where);
  if (is_later(x)) return apply1(length_op, {&x}, UnitParams{unit}, where);
  require_texts("length", x, where);
  const Texts texts(x, x.shape());
  return made<int64_t>(
      x.shape(),
      [&](int64_t i) {
        if (unit == Unit::code_point) require_utf8("length", texts[i], x.shape(), i, where);
        return units(texts[i], unit);
      },
      unit == Unit::byte);
}

namespace {
// Element i of the integers `t` broadcast to `shape`, in words.
std::string number_in(const Tensor& t, const Shape& shape, int64_t i) {
  const Tensor element = ravel(broadcast_to(t, shape))(i);
  return t.dtype() == DType::u64 ? std::to_string(element.item<uint64_t>()) : std::to_string(element.item<int64_t>());
}
}  // namespace

Tensor substr(const Tensor& x, const Tensor& start, const Tensor& count, Unit unit, Where where) {
  CallerScope caller(where);
  require_texts("substr", x, where);
  for (const Tensor* t : {&start, &count}) {
    require_known("substr", *t, where);
    if (!is_integer(t->dtype()))
      fail("substr", fmt::format("start and count must be integers, and one is {}", to_string(t->spec())), where);
  }
  Shape shape = broadcast_shapes(x.shape(), broadcast_shapes(start.shape(), count.shape(), where), where);
  EagerScope eager;
  const Texts texts(x, shape);
  const Elements<int64_t> starts(as_i64_indices(start), shape), counts(as_i64_indices(count), shape);
  return made<std::string>(
      shape,
      [&](int64_t i) {
        const std::string& s = texts[i];
        if (unit == Unit::code_point) require_utf8("substr", s, shape, i, where);
        const int64_t n = units(s, unit), from = starts[i] < 0 ? starts[i] + n : starts[i];
        if (from < 0 || from > n)
          fail("substr",
               fmt::format("start {} is outside of the string at {}, of length {}", number_in(start, shape, i),
                           place_in(shape, i), n),
               where);
        if (counts[i] < 0) fail("substr", fmt::format("count is {} and may not be negative", counts[i]), where);
        const size_t first = byte_of(s, from, unit), last = byte_of(s, from + std::min(counts[i], n - from), unit);
        return s.substr(first, last - first);
      },
      false);
}

Ragged split(const Tensor& x, std::string_view separator, int64_t max_splits, Where where) {
  CallerScope caller(where);
  require_texts("split", x, where);
  const Texts texts(x, x.shape());
  std::vector<std::string> parts;
  std::vector<int64_t> ends{0};
  for (int64_t i = 0; i < x.size(); ++i) {
    std::string_view rest = texts[i];
    const auto skip = [&] { rest.remove_prefix(std::min(rest.find_first_not_of(white), rest.size())); };
    for (int64_t cuts = 0;; ++cuts) {
      if (separator.empty()) skip();
      if (separator.empty() && rest.empty()) break;
      const size_t end = cuts == max_splits  ? rest.npos
                         : separator.empty() ? rest.find_first_of(white)
                                             : rest.find(separator);
      parts.emplace_back(rest.substr(0, end));
      if (end == rest.npos) break;
      rest.remove_prefix(end + std::max<size_t>(separator.size(), 1));
    }
    ends.push_back(int64_t(parts.size()));
  }
  EagerScope eager;
  return {tensor(parts), {tensor(ends)}, x.ndim() == 0};
}

// --- Joining ---------------------------------------------------------------------------------------------------------

Tensor add(const Tensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  if (is_later(a) || is_later(b)) return apply1(join_op, {&a, &b}, JoinParams{}, where);
  return mapped<std::string>("add", a, b, where, [](const std::string& x, const std::string& y) { return x + y; });
}

Tensor join(const std::vector<Tensor>& parts, std::string_view separator, Where where) {
  CallerScope caller(where);
  if (parts.empty()) fail("join", "there are no tensors to join", where);
  if (std::ranges::any_of(parts, is_later)) {
    std::vector<const Tensor*> in;
    for (const Tensor& t : parts) in.push_back(&t);
    return apply1(join_op, Operands(in.data(), in.size()), JoinParams{std::string(separator)}, where);
  }
  Shape shape;
  for (const Tensor& t : parts) {
    require_texts("join", t, where);
    shape = broadcast_shapes(shape, t.shape(), where);
  }
  std::vector<Texts> texts;
  for (const Tensor& t : parts) texts.emplace_back(t, shape);
  return made<std::string>(shape, [&](int64_t i) {
    std::string all = texts[0][i];
    for (size_t k = 1; k < texts.size(); ++k) all.append(separator).append(texts[k][i]);
    return all;
  });
}

Tensor reduce_join(const Tensor& x, std::optional<Axis> axis, std::string_view separator, bool keepdims, Where where) {
  CallerScope caller(where);
  require_texts("reduce_join", x, where);
  EagerScope eager;
  Shape kept(x.shape().size(), 1), rest;
  Tensor rows = ravel(x);  // [.., n], each row of which becomes a string
  if (axis) {
    const int64_t along = normal_axis(*axis, x, "reduce_join", where);
    kept = x.shape();
    kept[size_t(along)] = 1;
    rest = x.shape();
    rest.erase(size_t(along));
    rows = moveaxis(x, along, -1);
  }
  const int64_t n = rows.shape().back();
  const Texts texts(rows, rows.shape());
  return made<std::string>(keepdims ? kept : rest, [&](int64_t i) {
    std::string all;
    for (int64_t k = 0; k < n; ++k) {
      if (k > 0) all.append(separator);
      all.append(texts[i * n + k]);
    }
    return all;
  });
}

// --- Letters ---------------------------------------------------------------------------------------------------------

namespace {
// Letters between `first` and `last` shifted by `distance`.
Tensor moved_letters(std::string_view op, const Tensor& x, char first, char last, int distance, const Where& where) {
  return mapped<std::string>(op, x, where, [=](std::string s) {
    for (char& c : s)
      if (c >= first && c <= last) c = char(c + distance);
    return s;
  });
}
Tensor stripped(std::string_view op, const Tensor& x, std::string_view bytes, bool front, bool back,
                const Where& where) {
  return mapped<std::string>(op, x, where, [=](std::string_view s) {
    if (front) s.remove_prefix(std::min(s.find_first_not_of(bytes), s.size()));
    if (back) s = s.substr(0, s.find_last_not_of(bytes) + 1);
    return s;
  });
}
}  // namespace

Tensor lower(const Tensor& x, Where where) {
  CallerScope caller(where);
  if (is_later(x)) return apply1(lower_op, {&x}, {}, where);
  return moved_letters("lower", x, 'A', 'Z', 'a' - 'A', where);
}
Tensor upper(const Tensor& x, Where where) {
  CallerScope caller(where);
  if (is_later(x)) return apply1(upper_op, {&x}, {}, where);
  return moved_letters("upper", x, 'a', 'z', 'A' - 'a', where);
}
Tensor strip(const Tensor& x, std::string_view bytes, Where where) {
  CallerScope caller(where);
  if (is_later(x)) return apply1(strip_op, {&x}, BytesParams{std::string(bytes)}, where);
  return stripped("strip", x, bytes, true, true, where);
}
Tensor lstrip(const Tensor& x, std::string_view bytes, Where where) {
  CallerScope caller(where);
  return stripped("lstrip", x, bytes, true, false, where);
}
Tensor rstrip(const Tensor& x, std::string_view bytes, Where where) {
  CallerScope caller(where);
  return stripped("rstrip", x, bytes, false, true, where);
}

Tensor replace(const Tensor& x, std::string_view part, std::string_view by, int64_t count, Where where) {
  CallerScope caller(where);
  if (is_later(x)) return apply1(replace_op, {&x}, ReplaceParams{std::string(part), std::string(by), count}, where);
  return mapped<std::string>("replace", x, where, [=](std::string_view s) {
    std::string out;
    for (int64_t left = count;; --left) {
      const size_t at = left == 0 ? s.npos : part.empty() ? 0 : s.find(part);
      if (at == s.npos) return out.append(s);
      out.append(s.substr(0, at)).append(by);
      s.remove_prefix(at + part.size());
      if (!part.empty()) continue;
      if (s.empty()) return out;
      out += s.front();
      s.remove_prefix(1);
    }
  });
}

// --- Searching -------------------------------------------------------------------------------------------------------

Tensor starts_with(const Tensor& x, const Tensor& part, Where where) {
  CallerScope caller(where);
  return mapped<bool>("starts_with", x, part, where,
                      [](const std::string& s, const std::string& p) { return s.starts_with(p); });
}
Tensor ends_with(const Tensor& x, const Tensor& part, Where where) {
  CallerScope caller(where);
  return mapped<bool>("ends_with", x, part, where,
                      [](const std::string& s, const std::string& p) { return s.ends_with(p); });
}
Tensor find(const Tensor& x, const Tensor& part, Where where) {  // npos is -1
  CallerScope caller(where);
  return mapped<int64_t>("find", x, part, where, [](const std::string& s, const std::string& p) { return s.find(p); });
}
Tensor rfind(const Tensor& x, const Tensor& part, Where where) {
  CallerScope caller(where);
  return mapped<int64_t>("rfind", x, part, where,
                         [](const std::string& s, const std::string& p) { return s.rfind(p); });
}
Tensor count(const Tensor& x, const Tensor& part, Where where) {
  CallerScope caller(where);
  return mapped<int64_t>("count", x, part, where, [](const std::string& s, const std::string& p) {
    if (p.empty()) return int64_t(s.size()) + 1;
    int64_t n = 0;
    for (size_t at = s.find(p); at != s.npos; at = s.find(p, at + p.size())) ++n;
    return n;
  });
}

}  // namespace rill::strings
