// The records; see records.h. Each kernel calls the public function, which then computes at once.
#include "rill/ops/strings/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "rill/devices/params/read_attrs.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/creation.h"
#include "rill/ops/samples.h"
#include "rill/ops/strings/string_maps.h"

namespace rill::strings {

std::string_view name(Unit unit) { return unit == Unit::byte ? "byte" : "code_point"; }
std::string_view name(Letters how) {
  constexpr std::string_view names[] = {"nfc", "nfd", "nfkc", "nfkd", "lower", "upper", "fold", "without_accents"};
  return names[int(how)];
}

namespace {

// Records that are not listed have no samples to show their attributes.
const ReadableAttrs readable[] = {ReadableAttrs(std::type_identity<BytesParams>()),
                                  ReadableAttrs(std::type_identity<ReplaceParams>()),
                                  ReadableAttrs(std::type_identity<UnitParams>()),
                                  ReadableAttrs(std::type_identity<JoinParams>()),
                                  ReadableAttrs(std::type_identity<BucketParams>()),
                                  ReadableAttrs(std::type_identity<CrossParams>()),
                                  ReadableAttrs(std::type_identity<NumberParams>()),
                                  ReadableAttrs(std::type_identity<FormatParams>()),
                                  ReadableAttrs(std::type_identity<RegexParams>(), "string_regex_replace"),
                                  ReadableAttrs(std::type_identity<RegexParams>(), "string_full_match"),
                                  ReadableAttrs(std::type_identity<LettersParams>(), "string_letters")};

constexpr DTypeSet text_set = one_of({DType::string});
constexpr std::string_view no_slope = "strings have no gradient";

// --- Shapes ----------------------------------------------------------------------------------------------------------

template <DType out>
OutSpecs infer_map(const InferArgs& a) {
  return {Spec{a[0].shape, out, false, a[0].device}};
}
OutSpecs infer_number(const InferArgs& a) {
  return {Spec{a[0].shape, a.attrs.as<NumberParams>().dtype, false, a[0].device}};
}
// For operands that broadcast, each of strings or, if `integers`, of integers.
template <DType out, bool integers>
OutSpecs infer_joined(const InferArgs& a) {
  if (a.count() == 0) a.reject("it has no operands");
  Shape shape = a[0].shape;
  for (int i = 0; i < a.count(); ++i) {
    if (a[i].dtype != DType::string && !(integers && is_integer(a[i].dtype)))
      a.reject(integers ? "all operands must be of strings or integers" : "all operands must be of strings");
    if (i > 0) shape = broadcast_shapes(shape, a[i].shape, a.where);
  }
  return {Spec{shape, out, false, a[0].device}};
}
OutSpecs infer_lookup(const InferArgs& a) {
  if (a[1].dtype != DType::string || a[1].shape.size() != 1 || a[2].dtype != DType::i64 || a[2].shape.size() != 1)
    a.reject("keys must be a vector of strings, and slots one of i64");
  return {Spec{a[0].shape, DType::i64, false, a[0].device}};
}

// --- Kernels ---------------------------------------------------------------------------------------------------------

void deliver(const KernelArgs& args, const Tensor& y) {
  const int64_t n = y.size();
  if (y.dtype() == DType::string)
    std::copy_n(reinterpret_cast<const std::string*>(y.rep()->data), n, args.out_data<std::string>());
  else if (n > 0) std::memcpy(args.out_data<char>(), y.rep()->data, size_t(n) * size_of(y.dtype()));
}

// f(x, attributes) of the first operand.
template <auto f>
void run_map(const KernelArgs& args) {
  deliver(args, f(args.input(0), args.attrs));
}
template <Tensor (*f)(const Tensor&, Where)>
void run_plain(const KernelArgs& args) {
  deliver(args, f(args.input(0), Where()));
}
std::vector<Tensor> operands(const KernelArgs& args) {
  std::vector<Tensor> all;
  for (const Tensor* t : args.in) all.push_back(*t);
  return all;
}

Tensor run_strip(const Tensor& x, AttrsView a) { return strip(x, a.as<BytesParams>().bytes, Where()); }
Tensor run_replace(const Tensor& x, AttrsView a) {
  const ReplaceParams& p = a.as<ReplaceParams>();
  return replace(x, p.part, p.by, p.count, Where());
}
Tensor run_regex(const Tensor& x, AttrsView a) {
  const RegexParams& p = a.as<RegexParams>();
  return regex_replace(x, p.pattern, p.rewrite, p.all, Where());
}
Tensor run_match(const Tensor& x, AttrsView a) { return regex_full_match(x, a.as<RegexParams>().pattern, Where()); }
Tensor run_letters(const Tensor& x, AttrsView a) {
  return with_letters("string_letters", x, a.as<LettersParams>().how, Where());
}
Tensor run_length(const Tensor& x, AttrsView a) { return length(x, a.as<UnitParams>().unit, Where()); }
Tensor run_bucket(const Tensor& x, AttrsView a) { return to_hash_bucket(x, a.as<BucketParams>().buckets, Where()); }
Tensor run_number(const Tensor& x, AttrsView a) { return to_number(x, a.as<NumberParams>().dtype, Where()); }
Tensor run_format(const Tensor& x, AttrsView a) {
  const FormatParams& p = a.as<FormatParams>();
  FormatOptions o{.scientific = p.scientific, .width = int(p.width), .fill = p.fill[0]};
  if (p.precision >= 0) o.precision = int(p.precision);
  return as_string(x, o, Where());
}
void run_equal(const KernelArgs& args) { deliver(args, strings::equal(args.input(0), args.input(1), Where())); }
void run_join(const KernelArgs& args) {
  deliver(args, join(operands(args), args.attrs.as<JoinParams>().separator, Where()));
}
void run_cross(const KernelArgs& args) {
  const CrossParams& p = args.attrs.as<CrossParams>();
  deliver(args, to_cross_bucket(operands(args), p.buckets, uint64_t(p.key), Where()));
}
void run_lookup(const KernelArgs& args) { deliver(args, lookup(args.input(0), args.input(1), args.input(2), Where())); }

// --- Rows ------------------------------------------------------------------------------------------------------------

// The same call for all rows: batch axes come first.
Tensors batch_joined(const BatchArgs& a) {
  size_t rank = 0;
  for (size_t i = 0; i < a.in.size(); ++i) rank = std::max(rank, row_shape(a, i).size());
  std::vector<Tensor> all;
  for (size_t i = 0; i < a.in.size(); ++i) {
    all.push_back(a.in[i]);
    if (!a.batched[i]) continue;
    Shape shape{a.in[i].shape()[0]};  // axes of size 1 between the batch and a row of fewer axes
    const Shape row = row_shape(a, i);
    shape.resize(1 + rank - row.size(), 1);
    for (Dim d : row) shape.push_back(d);
    all.back() = reshape(all.back(), shape);
  }
  std::vector<const Tensor*> in;
  for (const Tensor& t : all) in.push_back(&t);
  return {apply1(a.op, Operands(in.data(), in.size()), a.attrs, a.where)};
}
Tensors batch_lookup(const BatchArgs& a) {
  if (!a.batched[1] && !a.batched[2]) return {apply1(a.op, {&a.in[0], &a.in[1], &a.in[2]}, a.attrs, a.where)};
  return batch_by_loop(a);
}

// --- Samples ---------------------------------------------------------------------------------------------------------

Tensor words() {
  return tensor({{"a", "Pear", " two words\t"}, {"", "x1", "a text that is longer than sixteen bytes"}});
}
Tensor few() { return tensor({"a", "Pear", "b"}); }
template <class A>
std::vector<Sample> on_words(std::vector<A> attrs) {
  std::vector<Sample> all;
  for (const A& a : attrs) {
    all.push_back({{words()}, a});
    all.push_back({{tensor(std::vector<std::string>(), Shape{0, 2})}, a});
  }
  return all;
}
std::vector<Sample> plain_samples() { return {{{words()}, Attrs()}, {{tensor("Ab")}, Attrs()}}; }
std::vector<Sample> number_samples() {
  const Tensor x = tensor({"1", " -2 ", "30"});
  return {{{x}, NumberParams{DType::i64}}, {{x}, NumberParams{DType::f32}}};
}
std::vector<Sample> equal_samples() {
  return {{{words(), few()}, Attrs()}, {{words(), tensor("")}, Attrs()}, {{few(), few()}, Attrs()}};
}
std::vector<Sample> join_samples() {
  return {{{words(), few()}, JoinParams{", "}}, {{few()}, JoinParams{""}}, {{few(), tensor("-"), few()}, JoinParams{}}};
}
std::vector<Sample> format_samples() {
  return {{{samples::integers({2, 3}, -9, 900)}, FormatParams{}},
          {{samples::integers({4}, 0, 9)}, FormatParams{-1, false, 4, "0"}}};
}
std::vector<Sample> cross_samples() {
  constexpr int64_t key = 0xDECAFCAFFE;
  return {{{words(), few()}, CrossParams{50, key}},
          {{few(), samples::integers({2, 3}, -3, 100)}, CrossParams{1000, key}},
          {{few(), few(), tensor("z")}, CrossParams{7, 1}}};
}
std::vector<Sample> lookup_samples() { return {{{words(), few(), slots_of(few())}, Attrs()}}; }
std::vector<Sample> strip_samples() { return on_words<BytesParams>({{" \t\n\v\f\r"}, {"a"}}); }
std::vector<Sample> replace_samples() { return on_words<ReplaceParams>({{"a", "bb", -1}, {"t", "", 1}}); }
std::vector<Sample> length_samples() { return on_words<UnitParams>({{Unit::byte}, {Unit::code_point}}); }
std::vector<Sample> bucket_samples() { return on_words<BucketParams>({{1}, {1000}}); }

}  // namespace

// A record that computes each string by itself. The last argument is its samples, or that it is not listed.
#define RILL_TEXT_MAP(record, called, said, result, kernel, ...) \
  const Op record({.name = called,                               \
                   .doc = said,                                  \
                   .dtypes = text_set,                           \
                   .infer = infer_map<DType::result>,            \
                   .no_gradient = no_slope,                      \
                   .batch = batch_rows,                          \
                   .ref = kernel,                                \
                   __VA_ARGS__})

RILL_TEXT_MAP(lower_op, "string_lower", "y = x with ASCII letters in lower case", string, run_plain<lower>,
              .samples = plain_samples);
RILL_TEXT_MAP(upper_op, "string_upper", "y = x with ASCII letters in upper case", string, run_plain<upper>,
              .samples = plain_samples);
RILL_TEXT_MAP(strip_op, "string_strip", "y = x without these bytes at both ends", string, run_map<run_strip>,
              .samples = strip_samples);
RILL_TEXT_MAP(replace_op, "string_replace", "y = x with the first occurrences of a part replaced", string,
              run_map<run_replace>, .samples = replace_samples);
RILL_TEXT_MAP(length_op, "string_length", "y = the length of each string", i64, run_map<run_length>,
              .samples = length_samples);
RILL_TEXT_MAP(fingerprint_op, "string_fingerprint", "y = FarmHash's Fingerprint64 of each string", u64,
              run_plain<fingerprint>, .samples = plain_samples);
RILL_TEXT_MAP(hash_bucket_op, "string_hash_bucket", "y = FarmHash's Fingerprint64 of each string, modulo the buckets",
              i64, run_map<run_bucket>, .samples = bucket_samples);

const Op to_number_op({.name = "string_to_number",
                       .doc = "y = the number that each string says",
                       .dtypes = text_set,
                       .infer = infer_number,
                       .no_gradient = no_slope,
                       .batch = batch_rows,
                       .ref = run_map<run_number>,
                       .samples = number_samples});
const Op as_string_op({.name = "string_of_number",
                       .doc = "y = each number as text",
                       .dtypes = plain_set | text_set,
                       .infer = infer_map<DType::string>,
                       .no_gradient = no_slope,
                       .batch = batch_rows,
                       .ref = run_map<run_format>,
                       .samples = format_samples});
const Op equal_op({.name = "string_equal",
                   .doc = "y = whether a and b are the same string",
                   .dtypes = text_set,
                   .inputs = 2,
                   .infer = infer_joined<DType::boolean, false>,
                   .no_gradient = no_slope,
                   .batch = batch_joined,
                   .ref = run_equal,
                   .samples = equal_samples});
const Op join_op({.name = "string_join",
                  .doc = "y = the strings at each place, with a separator between them",
                  .dtypes = text_set,
                  .inputs = -1,
                  .infer = infer_joined<DType::string, false>,
                  .no_gradient = no_slope,
                  .batch = batch_joined,
                  .ref = run_join,
                  .samples = join_samples});
const Op cross_bucket_op({.name = "string_cross_bucket",
                          .doc = "y = the fingerprints at each place chained from a key on, modulo the buckets",
                          .dtypes = text_set | int_set,
                          .inputs = -1,
                          .infer = infer_joined<DType::i64, true>,
                          .no_gradient = no_slope,
                          .batch = batch_joined,
                          .ref = run_cross,
                          .samples = cross_samples});
const Op lookup_op({.name = "string_lookup",
                    .doc = "y = the index of each string among the keys, found by a table of slots; -1: not there",
                    .dtypes = text_set,
                    .inputs = 3,
                    .infer = infer_lookup,
                    .no_gradient = no_slope,
                    .batch = batch_lookup,
                    .ref = run_lookup,
                    .samples = lookup_samples});

// These need a library that a build may lack, and have no samples: their records are not listed.
RILL_TEXT_MAP(regex_replace_op, "string_regex_replace", "y = x with matches of a regular expression replaced", string,
              run_map<run_regex>, .listed = false);
RILL_TEXT_MAP(regex_full_match_op, "string_full_match", "y = whether each string matches a regular expression", boolean,
              run_map<run_match>, .listed = false);
RILL_TEXT_MAP(letters_op, "string_letters", "y = x in a normal form of Unicode, or with letters of a case", string,
              run_map<run_letters>, .listed = false);

}  // namespace rill::strings
