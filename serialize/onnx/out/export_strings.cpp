// Functions of strings. ONNX has few operators of them: comparing, joining, numbers, regular expressions, and letters
// of either case.
#include <fmt/format.h>

#include "rill/ops/ops.h"
#include "rill/ops/strings/records.h"
#include "rill/serialize/onnx/out/export_rules.h"

namespace rill::onnx_out {
namespace {

using namespace strings;

Values write_equal(Call& c) { return {c.e.op("Equal", c.in, {}, DType::boolean)}; }

Values write_join(Call& c) {
  const EagerScope eager;
  const std::string& separator = c.attrs<JoinParams>().separator;
  Value all = c.in[0];
  for (size_t i = 1; i < c.in.size(); ++i) {
    if (!separator.empty()) all = c.e.op("StringConcat", {all, c.e.constant(tensor(separator))});
    all = c.e.op("StringConcat", {all, c.in[i]});
  }
  return {c.in.size() == 1 ? c.e.op("Identity", {all}) : all};
}

Values write_number(Call& c) { return {c.e.cast(c.in[0], c.out().dtype)}; }

Values write_format(Call& c) {
  if (c.in[0].dtype == DType::string) return {c.in[0]};
  if (!is_integer(c.in[0].dtype) || c.attrs<FormatParams>().width > 0)
    c.e.refuse(c.node, "ONNX leaves open how numbers other than integers are written as text, and has no widths");
  return {c.e.cast(c.in[0], DType::string)};
}

Values write_match(Call& c) {
  return {c.e.op("RegexFullMatch", c.in, {{"pattern", c.attrs<RegexParams>().pattern}}, DType::boolean)};
}

// Only for vectors, by the operator's definition.
Values write_letters(Call& c) {
  const Letters how = c.attrs<LettersParams>().how;
  if (how != Letters::lower && how != Letters::upper)
    c.e.refuse(c.node,
               "ONNX changes the case of letters, and has no other operator of Unicode. do it before the model");
  const Value flat = c.e.reshaped(c.in[0], Shape{c.out().shape.numel()});
  const Value y = c.e.op("StringNormalizer", {flat},
                         {{"case_change_action", std::string(how == Letters::lower ? "LOWER" : "UPPER")},
                          {"locale", std::string("C.UTF-8")}});
  return {c.e.reshaped(y, c.out().shape)};
}

// Compares with every key: ONNX has no operator that searches in an operand.
Tensors find_key(std::span<const Tensor> in, AttrsView) {
  const Tensor& keys = in[1];
  if (keys.shape()[0] == 0) return {zeros_like(strings::length(in[0])) - 1};
  const Tensor same = strings::equal(expand_dims(in[0], -1), keys);
  return {where(any(same, -1), argmax(astype(same, DType::i32), -1), -1)};
}

constexpr std::string_view no_hash =
    "ONNX has no hash of strings. compute the buckets before the model, or use a vocabulary";
constexpr std::string_view ascii =
    "ONNX's operator changes letters beyond ASCII too: strings::lower_utf8 and upper_utf8 do that, and can be exported";
constexpr std::string_view none = "ONNX has no such operator of strings. do it before the model";

}  // namespace

std::span<const Rule> string_rules() {
  static const Rule rules[] = {
      {"string_equal", write_equal, nullptr, "", true},
      {"string_join", write_join, nullptr, "", true},
      {"string_to_number", write_number, nullptr, "", true},
      {"string_of_number", write_format, nullptr, "", true},
      {"string_full_match", write_match, nullptr, "", true},
      {"string_letters", write_letters, nullptr, "", true},
      {"string_lookup", nullptr, find_key},
      {"string_hash_bucket", nullptr, nullptr, no_hash},
      {"string_cross_bucket", nullptr, nullptr, no_hash},
      {"string_fingerprint", nullptr, nullptr, no_hash},
      {"string_lower", nullptr, nullptr, ascii},
      {"string_upper", nullptr, nullptr, ascii},
      {"string_strip", nullptr, nullptr, none},
      {"string_replace", nullptr, nullptr, none},
      {"string_regex_replace", nullptr, nullptr, none},
      {"string_length", nullptr, nullptr, none},
  };
  return rules;
}

}  // namespace rill::onnx_out
