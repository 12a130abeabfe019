// Records, Examples and tables that go out and come in. test_records.py hands it a folder with files of TensorFlow and
// pyarrow, and reads what it makes of them.
#include <rill/rill.h>
#include <rill/serialize.h>

#include <filesystem>

#include "expect.h"
using namespace rill;

namespace {

const std::map<std::string, FeatureSpec> context = {{"id", fixed_feature(i64)}};
const std::map<std::string, FeatureSpec> sequences = {{"steps", fixed_feature(f32, {2})},
                                                      {"tokens", variable_feature(DType::string)}};

std::vector<std::string> records_of(const std::string& path) {
  RecordReader in(path);
  std::vector<std::string> all;
  for (std::string r; in.next(r);) all.push_back(r);
  return all;
}

// Examples taken apart and put together again, packed in the same way.
void rewrite(const std::string& from, const std::string& to, Compression packing) {
  RecordWriter out(to, {.compression = packing});
  for (const std::string& r : records_of(from)) out.write(make_example(read_example(r)));
  out.close();
}

// SequenceExamples by way of batches.
void rewrite_sequences(const std::string& from, const std::string& to) {
  const std::vector<std::string> all = records_of(from);
  const ParsedExamples parsed = parse_sequence_examples(all, context, sequences);
  const Ragged& tokens = parsed.ragged.at("tokens");
  const auto outer = tokens.row_splits[0].to_vector<int64_t>(), inner = tokens.row_splits[1].to_vector<int64_t>();
  const auto lengths = parsed.lengths.at("steps").to_vector<int64_t>();
  RecordWriter out(to);
  for (int64_t i = 0; i < int64_t(all.size()); ++i) {
    std::vector<Tensor> steps, words;
    for (int64_t s = 0; s < lengths[size_t(i)]; ++s) steps.push_back(parsed.tensors.at("steps")(i, s));
    for (int64_t s = outer[size_t(i)]; s < outer[size_t(i) + 1]; ++s) {
      const auto texts = tokens.values.to_vector<std::string>();
      words.push_back(
          tensor(std::vector<std::string>(texts.begin() + inner[size_t(s)], texts.begin() + inner[size_t(s) + 1])));
    }
    out.write(make_sequence_example({{"id", parsed.tensors.at("id")(i)}}, {{"steps", steps}, {"tokens", words}}));
  }
  out.close();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "records";
  if (argc == 1) {  // by itself: what it would be handed
    RecordWriter out(folder + "/tf_plain.tfrecord");
    out.write(make_example({{"x", tensor({1.f, 2.f})}, {"s", tensor({"a", "b"})}}));
    out.close();
    rewrite(folder + "/tf_plain.tfrecord", folder + "/again.tfrecord", Compression::none);
    EXPECT(records_of(folder + "/again.tfrecord") == records_of(folder + "/tf_plain.tfrecord"));
    return 0;
  }
  rewrite(folder + "/tf_plain.tfrecord", folder + "/plain.tfrecord", Compression::none);
  rewrite(folder + "/tf_zlib.tfrecord", folder + "/zlib.tfrecord", Compression::zlib);
  rewrite(folder + "/tf_gzip.tfrecord", folder + "/gzip.tfrecord", Compression::gzip);
  rewrite_sequences(folder + "/tf_sequences.tfrecord", folder + "/sequences.tfrecord");
  // What TensorFlow parses by the same descriptions.
  const ParsedExamples parsed = parse_examples(
      records_of(folder + "/tf_plain.tfrecord"),
      {{"fixed", fixed_feature(f32, {2, 3})},
       {"maybe", fixed_feature(i64, {}, tensor({int64_t(-5)}))},
       {"padded", padded_feature(f32, {2}, tensor({9.f}))},
       {"variable", variable_feature(DType::string)},
       {"rows", ragged_feature(i64, {{Partition::Kind::row_lengths, "outer"}, {Partition::Kind::row_splits, "inner"}},
                               "values")}});
  save(folder + "/parsed.npz", {{"fixed", parsed.tensors.at("fixed")},
                                {"maybe", parsed.tensors.at("maybe")},
                                {"padded", parsed.tensors.at("padded")},
                                {"indices", parsed.ragged.at("variable").indices()},
                                {"values", parsed.ragged.at("rows").values},
                                {"splits0", parsed.ragged.at("rows").row_splits[0]},
                                {"splits1", parsed.ragged.at("rows").row_splits[1]},
                                {"splits2", parsed.ragged.at("rows").row_splits[2]}});
  if (std::filesystem::exists(folder + "/arrow.csv")) write_csv(folder + "/table.csv", read_csv(folder + "/arrow.csv"));
}
