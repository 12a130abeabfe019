// Functions of strings, by those of tf.strings.
#include <fmt/format.h>

#include "rill/ops/ops.h"
#include "rill/ops/strings/records.h"
#include "rill/serialize/tensorflow/out/rules.h"

namespace rill::tensorflow_out {
namespace {

using namespace strings;

template <const char* name>
Values write_plain(Call& c) {
  return {writer(c).node(name, {c.in[0]})};
}
constexpr char lower_name[] = "StringLower", upper_name[] = "StringUpper";

Values write_letters(Call& c) {
  const Letters how = c.attrs<LettersParams>().how;
  if (how != Letters::lower && how != Letters::upper)
    c.e.refuse(c.node, "TensorFlow itself has no operator of Unicode's normal forms. do it before the model");
  return {writer(c).node(how == Letters::lower ? "StringLower" : "StringUpper", {c.in[0]},
                         {{"encoding", text_attr("utf-8")}})};
}

Values write_strip(Call& c) {
  if (c.attrs<BytesParams>().bytes != " \t\n\v\f\r")
    c.e.refuse(c.node, "TensorFlow strips white space alone. use strings::regex_replace");
  return {writer(c).node("StringStrip", {c.in[0]})};
}

Values replaced(Call& c, const std::string& pattern, const std::string& rewrite, bool all) {
  return {writer(c).node(
      "StaticRegexReplace", {c.in[0]},
      {{"pattern", text_attr(pattern)}, {"rewrite", text_attr(rewrite)}, {"replace_global", flag_attr(all)}})};
}
Values write_regex(Call& c) {
  const RegexParams& p = c.attrs<RegexParams>();
  return replaced(c, p.pattern, p.rewrite, p.all);
}
Values write_replace(Call& c) {
  const ReplaceParams& p = c.attrs<ReplaceParams>();
  if (p.part.empty() || p.count == 0 || p.count > 1)
    c.e.refuse(c.node, "TensorFlow replaces one occurrence of a part that is not empty, or all");
  std::string pattern, rewrite;
  for (char letter : p.part)
    pattern += uint8_t(letter) < 0x80 && !std::isalnum(uint8_t(letter)) ? fmt::format("\\x{{{:x}}}", uint8_t(letter))
                                                                        : std::string(1, letter);
  for (char letter : p.by) rewrite += letter == '\\' ? "\\\\" : std::string(1, letter);
  return replaced(c, pattern, rewrite, p.count < 0);
}
Values write_match(Call& c) {
  return {writer(c).node("StaticRegexFullMatch", {c.in[0]}, {{"pattern", text_attr(c.attrs<RegexParams>().pattern)}},
                         DType::boolean)};
}

Values write_length(Call& c) {
  const bool points = c.attrs<UnitParams>().unit == Unit::code_point;
  return {writer(c).node("StringLength", {c.in[0]}, {{"unit", text_attr(points ? "UTF8_CHAR" : "BYTE")}}, DType::i32)};
}

Values write_join(Call& c) {
  const Value to = c.e.sizes(c.out().shape);
  Values parts;
  for (const Value& v : c.in) parts.push_back(writer(c).node("BroadcastTo", {v, to}));
  return {writer(c).node(
      "StringJoin", parts,
      {{"N", number_attr(int64_t(parts.size()))}, {"separator", text_attr(c.attrs<JoinParams>().separator)}})};
}

Values write_number(Call& c) {
  const DType d = c.out().dtype;
  const DType as = d == DType::f64 || d == DType::i32 || d == DType::i64 ? d : is_integer(d) ? DType::i64 : DType::f32;
  return {writer(c).node("StringToNumber", {c.in[0]}, {}, as)};
}
Values write_format(Call& c) {
  const FormatParams& p = c.attrs<FormatParams>();
  if (c.in[0].dtype == DType::string) return {c.in[0]};
  if (!is_integer(c.in[0].dtype) && !is_bool(c.in[0].dtype))
    c.e.refuse(c.node, "TensorFlow writes numbers other than integers with other digits");
  const NodeAttributes width = {{"width", number_attr(p.width)}, {"fill", text_attr(p.fill == "0" ? "0" : "")}};
  return {writer(c).node("AsString", {c.in[0]}, p.width > 0 ? width : NodeAttributes(), DType::string)};
}

Values write_bucket(Call& c) {
  return {writer(c).node("StringToHashBucketFast", {c.in[0]},
                         {{"num_buckets", number_attr(c.attrs<BucketParams>().buckets)}}, DType::i64)};
}

// For rows of one element each, so that there is one combination for each.
Values write_cross(Call& c) {
  const CrossParams& p = c.attrs<CrossParams>();
  const Value to = c.e.sizes(c.out().shape);
  const Shape column{c.out().shape.numel(), 1};
  Values parts;
  std::vector<DType> dtypes;
  for (const Value& v : c.in) {
    const Value whole = v.dtype == DType::string ? v : c.e.cast(v, DType::i64);
    parts.push_back(c.e.reshaped(writer(c).node("BroadcastTo", {whole, to}), column));
    dtypes.push_back(whole.dtype);
  }
  const NodeAttributes attributes = {{"N", number_attr(0)},
                                     {"hashed_output", flag_attr(true)},
                                     {"num_buckets", number_attr(p.buckets)},
                                     {"hash_key", number_attr(p.key)},
                                     {"sparse_types", types_attr({})},
                                     {"dense_types", types_attr(dtypes)},
                                     {"out_type", type_attr(DType::i64)},
                                     {"internal_type", type_attr(DType::i64)}};
  const Values y = writer(c).nodes("SparseCross", parts, attributes, {DType::i64, DType::i64, DType::i64});
  return {c.e.reshaped(y[1], c.out().shape)};
}

}  // namespace

std::span<const onnx_out::Rule> string_rules() {
  static const onnx_out::Rule rules[] = {
      {"string_lower", write_plain<lower_name>, nullptr, "", true},
      {"string_upper", write_plain<upper_name>, nullptr, "", true},
      {"string_letters", write_letters, nullptr, "", true},
      {"string_strip", write_strip, nullptr, "", true},
      {"string_replace", write_replace, nullptr, "", true},
      {"string_regex_replace", write_regex, nullptr, "", true},
      {"string_full_match", write_match, nullptr, "", true},
      {"string_length", write_length, nullptr, "", true},
      {"string_join", write_join, nullptr, "", true},
      {"string_to_number", write_number, nullptr, "", true},
      {"string_of_number", write_format, nullptr, "", true},
      {"string_hash_bucket", write_bucket, nullptr, "", true},
      {"string_cross_bucket", write_cross, nullptr, "", true},
      {"string_fingerprint", nullptr, nullptr, "TensorFlow has no such operator. strings::to_hash_bucket has one"},
  };
  return rules;
}

}  // namespace rill::tensorflow_out
