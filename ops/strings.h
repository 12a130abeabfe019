// rill::strings: functions of tensors of strings (dtype `string`), as tf.strings and numpy.strings have them. Such
// tensors are made by tensor({"a", "b"}), read from files, and shaped, indexed, joined and gathered as all are.
//
// A string is bytes, UTF-8 where letters matter. Operands broadcast; C++ text is made a tensor of one string first:
// strings::add(names, tensor(".png")). Results keep the operands' shape unless said otherwise. Computed on the host;
// none has a gradient. Those marked [traced] may have operands inside `function` that are known only when it is called,
// and are exported where the format has such an operator; operands of others must be made or captured there.
#pragma once
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rill/ops/creation.h"
#include "rill/ops/ragged.h"
#include "rill/ops/reductions.h"

#pragma GCC visibility push(default)

namespace rill::strings {

// Whether each pair is so: bool. Strings are ordered by their bytes, in UTF-8 the order of code points.
// equal and not_equal: [traced].
Tensor equal(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor not_equal(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor less(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor less_equal(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor greater(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor greater_equal(const Tensor& a, const Tensor& b, Where where = Where::current());

// The order of the strings along `axis`. argsort: i64 indices; stable.
Tensor sort(const Tensor& x, Axis axis = -1, bool descending = false, Where where = Where::current());
Tensor argsort(const Tensor& x, Axis axis = -1, bool descending = false, Where where = Where::current());
// As rill::unique, of strings: each once, ascending.
Unique unique(const Tensor& x, Where where = Where::current());
Unique unique(const Tensor& x, Axis axis, Where where = Where::current());

// What positions and lengths count.
enum class Unit : uint8_t { byte, code_point };
// How long each string is: i64. Throws where code points are counted and a string is no UTF-8. [traced]
Tensor length(const Tensor& x, Unit unit = Unit::byte, Where where = Where::current());
// `count` units from `start` on, fewer where the string ends; a negative start counts from the end. `start`, `count`:
// integers that broadcast with x. Throws where a start is outside of its string (at its end is inside).
Tensor substr(const Tensor& x, const Tensor& start, const Tensor& count, Unit unit = Unit::byte,
              Where where = Where::current());

// a's strings followed by b's. [traced]
Tensor add(const Tensor& a, const Tensor& b, Where where = Where::current());
// Joins the strings elementwise, with `separator` between them; operands broadcast. [traced]
Tensor join(const std::vector<Tensor>& parts, std::string_view separator = "", Where where = Where::current());
// The strings along `axis` joined, of the flattened tensor where there is none; "" of no strings.
Tensor reduce_join(const Tensor& x, std::optional<Axis> axis = {}, std::string_view separator = "",
                   bool keepdims = false, Where where = Where::current());
// Each string, in row-major order, as a row of the parts between separators: at most `max_splits` cuts, unless that is
// negative. Without a separator, the parts between runs of ASCII white space, none of which is empty: Python's
// str.split.
Ragged split(const Tensor& x, std::string_view separator = "", int64_t max_splits = -1, Where where = Where::current());

// ASCII letters in lower, in upper case; other bytes stay. [traced]
Tensor lower(const Tensor& x, Where where = Where::current());
Tensor upper(const Tensor& x, Where where = Where::current());
// Without these bytes at both ends, at the front, at the back. By default ASCII white space. strip: [traced].
Tensor strip(const Tensor& x, std::string_view bytes = " \t\n\v\f\r", Where where = Where::current());
Tensor lstrip(const Tensor& x, std::string_view bytes = " \t\n\v\f\r", Where where = Where::current());
Tensor rstrip(const Tensor& x, std::string_view bytes = " \t\n\v\f\r", Where where = Where::current());
// The first `count` occurrences of `part` replaced, all where count is negative. An empty part occurs everywhere.
// [traced]
Tensor replace(const Tensor& x, std::string_view part, std::string_view by, int64_t count = -1,
               Where where = Where::current());

// Whether each string begins, or ends, with `part`: bool.
Tensor starts_with(const Tensor& x, const Tensor& part, Where where = Where::current());
Tensor ends_with(const Tensor& x, const Tensor& part, Where where = Where::current());
// The byte at which `part` first, or last, occurs: i64, -1 where it does not.
Tensor find(const Tensor& x, const Tensor& part, Where where = Where::current());
Tensor rfind(const Tensor& x, const Tensor& part, Where where = Where::current());
// How often `part` occurs without overlap: i64.
Tensor count(const Tensor& x, const Tensor& part, Where where = Where::current());

// Whether all of each string matches a regular expression: bool. RE2's syntax, which takes linear time on any input; a
// build without re2 throws, as does a pattern that is not well formed. [traced]
Tensor regex_full_match(const Tensor& x, std::string_view pattern, Where where = Where::current());
// The matches (or the first one) replaced by `rewrite`, in which \1 is the first group and \0 all of it. Throws as
// regex_full_match() does, and where the rewrite is not well formed. [traced]
Tensor regex_replace(const Tensor& x, std::string_view pattern, std::string_view rewrite, bool all = true,
                     Where where = Where::current());
// Each string, in row-major order, as a row of the parts between matches, without those that are empty. Throws as
// regex_full_match() does.
Ragged regex_split(const Tensor& x, std::string_view pattern, Where where = Where::current());

// Unicode's normal forms (UAX 15): letters and their accents composed (nfc) or apart (nfd); the k forms also replace
// what only looks different, such as ligatures and full-width letters.
enum class Form : uint8_t { nfc, nfd, nfkc, nfkd };
// UTF-8 text in a normal form. [traced] A build without utf8proc throws, as does a string that is no UTF-8.
Tensor normalize(const Tensor& x, Form form = Form::nfc, Where where = Where::current());
// All letters of UTF-8 text in lower, in upper case. [traced] They throw as normalize() does.
Tensor lower_utf8(const Tensor& x, Where where = Where::current());
Tensor upper_utf8(const Tensor& x, Where where = Where::current());
// UTF-8 text as it is compared without regard to case. [traced] Throws as normalize() does.
Tensor case_fold(const Tensor& x, Where where = Where::current());
// UTF-8 text without accents and other marks on letters, composed: "é" becomes "e". [traced] Throws as normalize()
// does.
Tensor strip_accents(const Tensor& x, Where where = Where::current());

struct NgramOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::string separator = " ";
  std::optional<std::string> left = {};  // put before, and behind, each row; nothing where it is not given
  std::optional<std::string> right = {};
  int64_t padding = -1;     // how many of them at most; default: the width - 1
  bool keep_short = false;  // a row shorter than all widths gives all of itself as one n-gram
};
// The runs of `width` neighbours along the last axis, joined, as tf.strings.ngrams: of several widths, those of the
// first one, then those of the next. [traced]
Tensor ngrams(const Tensor& x, const std::vector<int64_t>& widths, const NgramOptions& options = {},
              Where where = Where::current());
// The same of each row.
Ragged ngrams(const Ragged& x, const std::vector<int64_t>& widths, const NgramOptions& options = {},
              Where where = Where::current());

// The numbers that the strings say, of an integer or floating dtype: decimal digits, for floats with exponent, "inf"
// and "nan" too; white space around them is skipped. Floats are rounded to the nearest, and infinite beyond the dtype.
// Throws where a string is no such number or no integer of the dtype, naming the element. [traced]
Tensor to_number(const Tensor& x, DType dtype = DType::f32, Where where = Where::current());

struct FormatOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<int> precision = {};  // digits behind the point of floats; without it, the fewest that say the number
  bool scientific = false;            // floats as 1.5e+00
  int width = 0;                      // at least so many bytes, filled up in front
  char fill = ' ';                    // with spaces, or with '0' behind the sign
};
// Numbers as text; bools "true" and "false", complex numbers "(1,2)". Of strings, themselves. [traced]
Tensor as_string(const Tensor& x, const FormatOptions& options = {}, Where where = Where::current());

// FarmHash's Fingerprint64 of each string: u64, the same on every machine and in every version, as TensorFlow has it.
// [traced]
Tensor fingerprint(const Tensor& x, Where where = Where::current());
// fingerprint modulo `buckets`: i64 in [0, buckets), tf.strings.to_hash_bucket_fast. [traced]
Tensor to_hash_bucket(const Tensor& x, int64_t buckets, Where where = Where::current());
// A bucket for each element's strings and integers together, i64 in [0, buckets): tf.sparse.cross_hashed, whose
// `key` is the default here. Operands broadcast. [traced]
Tensor to_cross_bucket(const std::vector<Tensor>& parts, int64_t buckets, uint64_t key = 0xDECAFCAFFE,
                       Where where = Where::current());

// The bytes of each string as numbers of `dtype`, a new last axis: all strings must have one length, a multiple of the
// dtype's size. encode_raw: the bytes of the numbers along the last axis, one string for each row.
Tensor decode_raw(const Tensor& x, DType dtype, bool little_endian = true, Where where = Where::current());
Tensor encode_raw(const Tensor& x, bool little_endian = true, Where where = Where::current());

}  // namespace rill::strings

namespace rill {

// Strings beside C++ text: strings::split(path, "/")(1) == "dogs".
template <detail::Text S>
Tensor operator==(const Tensor& a, const S& text) {
  return strings::equal(a, tensor(std::string(std::string_view(text))));
}
template <detail::Text S>
Tensor operator==(const S& text, const Tensor& a) {
  return a == text;
}
template <detail::Text S>
Tensor operator!=(const Tensor& a, const S& text) {
  return strings::not_equal(a, tensor(std::string(std::string_view(text))));
}
template <detail::Text S>
Tensor operator!=(const S& text, const Tensor& a) {
  return a != text;
}
// Whether there is a tensor at all: does not compile, and says what does.
#define RILL_NO_POINTER(op, A, B, cure)                                                 \
  template <std::same_as<std::nullptr_t> N>                                             \
  bool operator op(A, B) {                                                              \
    static_assert(!sizeof(N), "a tensor is no pointer: whether there is one is " cure); \
    return false;                                                                       \
  }
RILL_NO_POINTER(==, const Tensor&, N, "!x.defined()")
RILL_NO_POINTER(==, N, const Tensor&, "!x.defined()")
RILL_NO_POINTER(!=, const Tensor&, N, "x.defined()")
RILL_NO_POINTER(!=, N, const Tensor&, "x.defined()")
#undef RILL_NO_POINTER

}  // namespace rill

#pragma GCC visibility pop
