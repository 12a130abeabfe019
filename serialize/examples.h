// tf.Example and tf.SequenceExample: what records usually hold. An Example is a map from names to features, and a
// feature a list of f32, i64 or texts without a shape; which shape it has is for the reader to say.
//
//   std::string bytes = make_example({{"image", pixels}, {"label", tensor({3})}});
//   ParsedExamples batch = parse_examples(records, {{"image", fixed_feature(f32, {28, 28})},
//                                                   {"label", fixed_feature(i64)}});
//   batch.tensors.at("image");  // [records,28,28]
#pragma once
#include <concepts>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rill/ops/creation.h"
#include "rill/ops/ragged.h"
#include "rill/tensor/named_map.h"

#pragma GCC visibility push(default)

namespace rill {

// How a feature of an Example gives the lengths of its ragged rows; TensorFlow's RaggedFeature.
struct Partition {
  enum class Kind { row_splits, row_lengths, row_starts, row_limits, value_rowids, uniform_row_length };
  Kind kind;
  std::string key = "";  // of the feature with i64 that say it
  int64_t length = 0;    // of uniform rows
};

// How one feature of many Examples becomes tensors; made by the functions below. The dtype is f32, i64 or string: that
// of the lists in the file.
struct FeatureSpec {
  enum class Kind { fixed, padded, variable, ragged };
  Kind kind;
  DType dtype;
  Shape shape = {};                        // of one Example's, or one step's
  Tensor missing = {};                     // what stands where there is none; its padding
  std::string key = "";                    // the feature that has the values; "": the name under which this stands
  std::vector<Partition> partitions = {};  // the outermost first
};
// The same shape in each Example: [examples, shape...]. `missing`, of that shape or one element, stands where an
// Example has no such feature; without it that is an error. TensorFlow's FixedLenFeature.
FeatureSpec fixed_feature(DType dtype, Shape shape = {}, Tensor missing = {});
// Any number of elements of a shape, filled up to the longest with `padding` (undefined: 0 or ""): [examples, longest,
// shape...]. TensorFlow's FixedLenSequenceFeature with allow_missing.
FeatureSpec padded_feature(DType dtype, Shape shape = {}, Tensor padding = {});
// Any number of elements: a Ragged. TensorFlow's VarLenFeature, whose indices Ragged::indices gives.
FeatureSpec variable_feature(DType dtype);
// Rows within the Example too: a Ragged with a level for each partition between that of the Examples and the values.
FeatureSpec ragged_feature(DType dtype, std::vector<Partition> partitions = {}, std::string key = "");

struct ParsedExamples {
  NamedMap<Tensor> tensors;  // fixed and padded features
  NamedMap<Ragged> ragged;   // variable and ragged ones
  NamedMap<Tensor> lengths;  // i64 [examples]: of padded ones, how many there were
};

// An encoded Example. Floating tensors become lists of f32, integers and bools of i64, texts of bytes; elements
// row-major. The same bytes for the same features. Throws rill::Error where they would be more than protobuf's 2 GiB.
std::string make_example(const NamedMap<Tensor>& features, Where where = Where::current());
// The features of one Example as they stand in it: f32, i64 or string of one dimension. Throws rill::Error where
// `bytes` are no Example.
NamedMap<Tensor> read_example(std::string_view bytes, Where where = Where::current());
// Those features of many Examples, stacked. Throws rill::Error, which names the Example and the feature, where one has
// another dtype or number of elements, or is missing.
ParsedExamples parse_examples(const std::vector<std::string>& examples,
                              const std::map<std::string, FeatureSpec>& features, Where where = Where::current());
namespace detail {
ParsedExamples parse_tensor_of_examples(const Tensor& examples, const std::map<std::string, FeatureSpec>& features,
                                        const Where& where);
}  // namespace detail
// The same of a string tensor [examples], as a batch of data::tfrecords() is; nothing is copied. TensorFlow's
// tf.io.parse_example.
template <std::same_as<Tensor> T>  // so that braces are a list
ParsedExamples parse_examples(const T& examples, const std::map<std::string, FeatureSpec>& features,
                              Where where = Where::current()) {
  return detail::parse_tensor_of_examples(examples, features, where);
}

// An encoded SequenceExample: `context` once, and of each of `sequences` a tensor a step.
std::string make_sequence_example(const NamedMap<Tensor>& context, const NamedMap<std::vector<Tensor>>& sequences,
                                  Where where = Where::current());
// Those features of many SequenceExamples. Of a sequence, a fixed or padded feature gives [examples, most steps,
// shape...], filled up with its `missing`, and lengths; a variable one gives a Ragged of two levels: steps, and values
// in a step.
ParsedExamples parse_sequence_examples(const std::vector<std::string>& examples,
                                       const std::map<std::string, FeatureSpec>& context,
                                       const std::map<std::string, FeatureSpec>& sequences,
                                       Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
