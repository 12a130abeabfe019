// tf.strings: computed on the host, once the strings are known.
#include "rill/ops/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "rill/ops/enclosing_trace.h"
#include "rill/serialize/tensorflow/in/interpreter.h"

namespace rill::tensorflow_in {
namespace {

strings::Unit unit_of(const Call& c) {
  return c.text("unit", "BYTE") == "UTF8_CHAR" ? strings::Unit::code_point : strings::Unit::byte;
}
DType out_type(const Call& c, DType otherwise) { return c.attribute("out_type") ? c.dtype("out_type") : otherwise; }
// One text, of an operand.
std::string text_of(const Call& c, size_t i) {
  const std::vector<std::string> all = c.texts(i);
  if (all.size() != 1) c.reject(fmt::format("operand {} should be one text", i));
  return all[0];
}

#define OF_STRINGS(op, expression)   \
  {op, [](const Call& c) -> Values { \
     const Tensor x = c.known(0);    \
     return {expression};            \
   }}

Values join_rule(const Call& c) {
  if (c.count() == 0) return {tensor("")};
  std::vector<Tensor> parts;
  for (size_t i = 0; i < c.count(); ++i) parts.push_back(c.known(i));
  return {strings::join(parts, c.text("separator", ""))};
}
Values reduce_join_rule(const Call& c) {
  Tensor x = c.known(0);
  const std::string separator = c.text("separator", "");
  const bool keep = c.flag("keep_dims");
  const Dims axes = c.dims(1);
  if (axes.empty()) return {x};
  // The axes become one, of which the first one named varies fastest.
  std::vector<int64_t> order, joined;
  for (Dim a : axes) joined.insert(joined.begin(), axis_of(c, a, x.ndim()));
  Shape shape, kept = x.shape();
  for (int64_t i = 0; i < x.ndim(); ++i)
    if (std::ranges::find(joined, i) == joined.end()) order.push_back(i), shape.push_back(x.dim(i));
  for (int64_t i : joined) kept[size_t(i)] = 1;
  order.insert(order.end(), joined.begin(), joined.end());
  if (order.size() != size_t(x.ndim())) c.reject("an axis is named twice");
  Dim n = 1;
  for (int64_t i : joined) n = n * x.dim(i);
  shape.push_back(n);
  x = strings::reduce_join(reshape(transpose(x, Axes(order)), shape), Axis(-1), separator);
  return {keep ? reshape(x, kept) : x};
}
// As a SparseTensor: the indices of the values, the values, and the shape.
Values sparse_of(const Ragged& rows) {
  std::vector<int64_t> sizes{int64_t(rows.row_splits.at(0).size()) - 1};
  for (const Tensor& splits : rows.row_splits) {
    const std::vector<int64_t> ends = splits.to_vector<int64_t>();
    sizes.push_back(0);
    for (size_t i = 1; i < ends.size(); ++i) sizes.back() = std::max(sizes.back(), ends[i] - ends[i - 1]);
  }
  return {rows.indices(), rows.values, tensor(sizes, Shape{int64_t(sizes.size())})};
}
Values split_texts_rule(const Call& c) {
  return sparse_of(strings::split(c.known(0), text_of(c, 1), c.integer("maxsplit", -1)));
}
// TensorFlow 1's: each byte of the delimiter is one; without any, each byte is a part.
Values split_at_bytes_rule(const Call& c) {
  const std::string delimiters = text_of(c, 1);
  const bool skips_empty = c.flag("skip_empty", true);
  std::vector<std::string> parts;
  std::vector<int64_t> ends{0};
  for (const std::string& text : c.texts(0)) {
    size_t begin = 0;
    const auto add = [&](size_t end) {
      if (end > begin || !skips_empty) parts.push_back(text.substr(begin, end - begin));
      begin = end + (delimiters.empty() ? 0 : 1);
    };
    for (size_t i = 0; i < text.size(); ++i) {
      if (delimiters.empty()) add(i + 1);
      else if (delimiters.find(text[i]) != std::string::npos) add(i);
    }
    if (!delimiters.empty()) add(text.size());
    ends.push_back(int64_t(parts.size()));
  }
  const EagerScope eager;
  return sparse_of({tensor(parts, Shape{int64_t(parts.size())}), {tensor(ends, Shape{int64_t(ends.size())})}});
}
Values ngrams_rule(const Call& c) {
  const Tensor splits = c.known(1);
  const strings::NgramOptions options{.separator = c.text("separator", ""),
                                      .left = c.text("left_pad", ""),
                                      .right = c.text("right_pad", ""),
                                      .padding = c.integer("pad_width", 0),
                                      .keep_short = c.flag("preserve_short_sequences")};
  const EagerScope eager;
  const std::vector<int64_t> ends = splits.astype(i64).to_vector<int64_t>();
  const Tensor texts = c.known(0);
  if (texts.ndim() != 1 || ends.empty() || ends[0] != 0 || !std::ranges::is_sorted(ends) || texts.size() != ends.back())
    c.reject("its rows do not end where the values do");
  const Ragged rows = strings::ngrams(Ragged{texts, {splits.astype(i64)}}, c.integers("ngram_widths"), options);
  return {rows.values, rows.row_splits[0].astype(splits.dtype())};
}
// The ends of rows, the outermost first, then the values.
Values sparse_rule(const Call& c) {
  if (c.count() < 2) c.reject("has no rows");
  Ragged rows{c.known(c.count() - 1), {}};
  if (rows.values.ndim() != 1) c.reject("is understood of vectors of values");
  int64_t count = -1;  // of the level above
  for (size_t i = 0; i + 1 < c.count(); ++i) {
    const Tensor splits = c.known(i).astype(i64);
    const std::vector<int64_t> ends = splits.ndim() == 1 ? splits.to_vector<int64_t>() : std::vector<int64_t>();
    if (ends.empty() || ends[0] != 0 || !std::ranges::is_sorted(ends) ||
        (count >= 0 && count + 1 != int64_t(ends.size())))
      c.reject("its rows do not follow each other");
    count = ends.back();
    rows.row_splits.push_back(splits);
  }
  if (count != int64_t(rows.values.dim(0))) c.reject("its rows do not end where the values do");
  return sparse_of(rows);
}
// With an encoding, for all letters. ASCII's are the same in both, and need no Unicode tables.
template <Tensor (*of_ascii)(const Tensor&, Where), Tensor (*of_all)(const Tensor&, Where)>
Values letters_rule(const Call& c) {
  const Tensor x = c.known(0);
  bool ascii = true;
  if (!c.text("encoding", "").empty()) {
    const EagerScope eager;
    for (const std::string& s : x.to_vector<std::string>())
      ascii = ascii && std::ranges::none_of(s, [](char letter) { return static_cast<unsigned char>(letter) >= 0x80; });
  }
  return {ascii ? of_ascii(x, Where::current()) : of_all(x, Where::current())};
}
Values number_rule(const Call& c) { return {strings::to_number(c.known(0), out_type(c, f32))}; }
Values as_string_rule(const Call& c) {
  const Tensor x = c.known(0);
  const std::string fill = c.text("fill", "");
  const int64_t precision = c.integer("precision", -1), width = c.integer("width", -1);
  if (precision > 400 || width > 4096) c.reject("precision or width is out of range");
  if (c.flag("shortest") || (!fill.empty() && fill != "0" && fill != " ")) c.reject("this format is not understood");
  strings::FormatOptions options;
  if (is_floating(x.dtype()) || is_complex(x.dtype())) options.precision = precision < 0 ? 6 : int(precision);
  options.scientific = c.flag("scientific");
  if (width > 0) options.width = int(width);
  if (fill == "0") options.fill = '0';
  return {strings::as_string(x, options)};
}
Values substr_rule(const Call& c) { return {strings::substr(c.known(0), c.known(1), c.known(2), unit_of(c))}; }
Values regex_replace_rule(const Call& c) {
  return {strings::regex_replace(c.known(0), text_of(c, 1), text_of(c, 2), c.flag("replace_global", true))};
}
Values static_replace_rule(const Call& c) {
  return {
      strings::regex_replace(c.known(0), c.text("pattern", ""), c.text("rewrite", ""), c.flag("replace_global", true))};
}

// For dense operands [rows, n]: each combination of a row's values, as a SparseTensor that lists all.
Values sparse_cross_rule(const Call& c) {
  if (c.integer("N", 0) != 0 || !c.flag("hashed_output")) c.reject("it is understood of dense operands, hashed");
  if (c.count() == 0) c.reject("there is nothing to cross");
  std::vector<Tensor> parts;
  Shape counts;
  for (size_t i = 0; i < c.count(); ++i) {
    const Tensor x = c.known(i);
    if (x.ndim() != 2 || x.dim(0) != c.known(0).dim(0)) c.reject("its operands should have as many rows");
    Shape shape(1 + c.count(), 1);
    shape[0] = x.dim(0), shape[1 + i] = x.dim(1);
    counts.push_back(x.dim(1));
    parts.push_back(reshape(x, shape));
  }
  const int64_t buckets = c.integer("num_buckets", 0);
  const Tensor ids = strings::to_cross_bucket(parts, buckets > 0 ? buckets : std::numeric_limits<int64_t>::max(),
                                              uint64_t(c.integer("hash_key", 0)));
  const int64_t rows = c.known(0).dim(0), n = counts.numel();
  return {stack(unravel_index(arange(rows * n), {rows, n}), -1), ravel(ids), tensor({rows, n})};
}

}  // namespace

const RuleTable& string_rules() {
  static const RuleTable table = {
      {"StringLower", letters_rule<strings::lower, strings::lower_utf8>},
      {"StringUpper", letters_rule<strings::upper, strings::upper_utf8>},
      OF_STRINGS("StringStrip", strings::strip(x)),
      OF_STRINGS("StringLength", strings::length(x, unit_of(c)).astype(i32)),
      OF_STRINGS("StringToHashBucketFast", strings::to_hash_bucket(x, c.integer("num_buckets", 1))),
      OF_STRINGS("DecodeRaw", strings::decode_raw(x, out_type(c, u8), c.flag("little_endian", true))),
      OF_STRINGS("RegexFullMatch", strings::regex_full_match(x, text_of(c, 1))),
      OF_STRINGS("StaticRegexFullMatch", strings::regex_full_match(x, c.text("pattern", ""))),
      {"StringJoin", join_rule},
      {"ReduceJoin", reduce_join_rule},
      {"StringNGrams", ngrams_rule},
      {"StringSplit", split_at_bytes_rule},
      {"StringSplitV2", split_texts_rule},
      {"RaggedTensorToSparse", sparse_rule},
      {"SparseCross", sparse_cross_rule},
      {"StringToNumber", number_rule},
      {"AsString", as_string_rule},
      {"Substr", substr_rule},
      {"RegexReplace", regex_replace_rule},
      {"StaticRegexReplace", static_replace_rule},
  };
  return table;
}

}  // namespace rill::tensorflow_in
