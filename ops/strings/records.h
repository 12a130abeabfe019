// The records of the functions of strings, for traces. In eager code these functions run at once, without a record:
// there is no gradient. If an operand is only known when a traced function is called, they apply their record, whose
// kernel calls them.
#pragma once
#include "rill/ops/apply.h"
#include "rill/ops/strings.h"

#pragma GCC visibility push(default)

namespace rill::strings {

std::string_view name(Unit unit);
inline constexpr int enumerators(Unit) { return 2; }
// Transformations of the letters of UTF-8 text.
enum class Letters : uint8_t { nfc, nfd, nfkc, nfkd, lower, upper, fold, without_accents };
std::string_view name(Letters how);
inline constexpr int enumerators(Letters) { return 8; }

struct BytesParams {
  std::string bytes;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("bytes", s.bytes);
  }
};
struct ReplaceParams {
  std::string part, by;
  int64_t count = -1;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("part", s.part), v("by", s.by), v("count", s.count);
  }
};
struct RegexParams {
  std::string pattern, rewrite;
  bool all = true;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("pattern", s.pattern), v("rewrite", s.rewrite), v("all", s.all);
  }
};
struct UnitParams {
  Unit unit = Unit::byte;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("unit", s.unit);
  }
};
struct LettersParams {
  Letters how = Letters::nfc;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("how", s.how);
  }
};
struct JoinParams {
  std::string separator;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("separator", s.separator);
  }
};
struct BucketParams {
  int64_t buckets = 1;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("buckets", s.buckets);
  }
};
struct CrossParams {
  int64_t buckets = 1;
  int64_t key = 0;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("buckets", s.buckets), v("key", s.key);
  }
};
struct NumberParams {
  DType dtype = DType::f32;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("dtype", s.dtype);
  }
};
struct FormatParams {
  int64_t precision = -1;  // -1: not given
  bool scientific = false;
  int64_t width = 0;
  std::string fill = " ";
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("precision", s.precision), v("scientific", s.scientific), v("width", s.width), v("fill", s.fill);
  }
};

extern const Op lower_op, upper_op, strip_op, replace_op, regex_replace_op, regex_full_match_op, letters_op, length_op,
    equal_op, join_op, as_string_op, to_number_op, fingerprint_op, hash_bucket_op, cross_bucket_op, lookup_op;

// A hash table of the distinct strings `keys`: for each slot the index of its key, or -1. The number of slots is a
// power of two, at least twice the number of keys.
Tensor slots_of(const Tensor& keys);
// The index of each string in `keys`, -1 if it is not there: i64.
Tensor lookup(const Tensor& x, const Tensor& keys, const Tensor& slots, const Where& where);

// Throws as normalize() does.
Tensor with_letters(std::string_view op, const Tensor& x, Letters how, const Where& where);

// FarmHash's Fingerprint64.
uint64_t farm_hash(std::string_view text);

}  // namespace rill::strings

#pragma GCC visibility pop
