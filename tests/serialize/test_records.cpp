// TFRecord files, Examples and CSV, against files that TensorFlow wrote (tests/fixtures/formats/make_records.py) and
// what it and the RFCs say. What TensorFlow and pyarrow make of ours is in test_records.py.
#include <cmath>

#include "catch.h"
#include "io_helpers.h"
#include "rill/rill.h"
#include "rill/serialize.h"

using namespace rill;

namespace {

std::string golden(const std::string& name) {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  return std::string(root ? root : ".") + "/tests/fixtures/formats/" + name;
}

std::vector<std::string> all_of(const std::string& path) {
  RecordReader in(path);
  std::vector<std::string> records;
  for (std::string r; in.next(r);) records.push_back(r);
  return records;
}

void write_all(const std::string& path, const std::vector<std::string>& records, RecordWriterOptions options = {}) {
  RecordWriter out(path, options);
  for (const std::string& r : records) out.write(r);
  out.close();
}

using Texts = std::vector<std::string>;
using Wholes = std::vector<int64_t>;
using Floats = std::vector<float>;

}  // namespace

TEST_CASE("crc32c: any length and split is the sum byte by byte") {
  CHECK(crc32c("123456789") == 0xE3069283);
  std::string bytes;
  for (int i = 0; i < 100; ++i) {
    uint32_t c = ~0u;  // the definition, bit by bit
    for (char b : bytes) {
      c ^= uint8_t(b);
      for (int bit = 0; bit < 8; ++bit) c = c & 1 ? c >> 1 ^ 0x82F63B78u : c >> 1;
    }
    CHECK(crc32c(bytes) == ~c);
    bytes += char(i * 37 + 5);
  }
}

TEST_CASE("TensorFlow's records are read, packed or not") {
  const auto plain = all_of(golden("plain.tfrecord"));
  REQUIRE(plain.size() == 3);
  CHECK(all_of(golden("zlib.tfrecord")) == plain);
  CHECK(all_of(golden("gzip.tfrecord")) == plain);
  CHECK(read_records(golden("gzip.tfrecord")) == plain);
}

TEST_CASE("Records go round in each packing and level, the empty and the long") {
  Folder out;
  std::vector<std::string> records = {"", "one", std::string(300'000, 'x'), ""};
  uint32_t state = 1;
  std::string noise;
  for (int i = 0; i < 400'000; ++i) noise += char((state = state * 1664525 + 1013904223) >> 24);
  records.push_back(noise);
  for (Compression c : {Compression::none, Compression::zlib, Compression::gzip})
    for (int level : {0, 1, 6, 9}) {
      write_all(out / "r", records, {.compression = c, .level = level});
      CHECK(all_of(out / "r") == records);
    }
  // TensorFlow's plain file, byte for byte.
  write_all(out / "r", all_of(golden("plain.tfrecord")));
  CHECK(contents(out / "r") == contents(golden("plain.tfrecord")));
  write_all(out / "none", {});
  CHECK(contents(out / "none").empty());
  CHECK(all_of(out / "none").empty());
  write_all(out / "packed", {}, {.compression = Compression::gzip});
  CHECK(all_of(out / "packed").empty());
}

TEST_CASE("A packed file of several members is one file") {
  Folder out;
  write_all(out / "a", {"one"}, {.compression = Compression::gzip});
  write_all(out / "b", {"two"}, {.compression = Compression::gzip});
  put_file(out / "ab", contents(out / "a") + contents(out / "b"));
  CHECK(all_of(out / "ab") == Texts{"one", "two"});
  put_file(out / "ab", contents(out / "a") + "rubbish");
  CHECK(has(message_of([&] { all_of(out / "ab"); }), "damaged"));
}

TEST_CASE("flush: what was written can be read while the writer lives") {
  Folder out;
  for (Compression c : {Compression::none, Compression::zlib, Compression::gzip}) {
    RecordWriter w(out / "r", {.compression = c});
    w.write("one");
    w.flush();
    CHECK(read_records(out / "r") == Texts{"one"});
    w.write("two");
    w.close();
    w.close();
    CHECK(all_of(out / "r") == Texts{"one", "two"});
    CHECK(has(message_of([&] { w.write("three"); }), "closed"));
  }
}

TEST_CASE("Cut and damaged record files: an error that names file, place and record, never a crash") {
  Folder out;
  for (Compression c : {Compression::none, Compression::zlib, Compression::gzip}) {
    write_all(out / "whole", {"first", std::string(100, 'y'), "third"}, {.compression = c});
    const std::string all = contents(out / "whole");
    for (size_t n = 1; n < all.size(); ++n) {
      put_file(out / "cut", all.substr(0, n));
      const bool at_a_border = c == Compression::none && (n == 21 || n == 21 + 116);
      if (at_a_border) {
        CHECK(all_of(out / "cut").size() == (n == 21 ? 1u : 2u));
        continue;
      }
      const std::string m = message_of([&] { all_of(out / "cut"); });
      CHECK(has(m, "cut'"));
      CHECK((has(m, "cut short") || n < 2));
      CHECK(read_records(out / "cut").size() < 4);
    }
    for (size_t i = 0; i < all.size(); ++i) {
      std::string damaged = all;
      damaged[i] = char(damaged[i] ^ 16);
      put_file(out / "damaged", damaged);
      try {
        const auto records = all_of(out / "damaged");
        // Some bytes of gzip's own header say nothing of the content.
        CHECK((c == Compression::gzip && records.size() == 3 && records[0] == "first"));
      } catch (const Error& e) {
        CHECK(has(e.what(), "at byte"));
      }
    }
  }
}

TEST_CASE("A length is not believed: neither beyond the file, nor beyond what the reader takes") {
  Folder out;
  std::string head;
  const uint64_t length = uint64_t(1) << 62;
  for (int i = 0; i < 8; ++i) head += char(length >> 8 * i);
  const uint32_t sum = masked_crc32c(head);
  for (int i = 0; i < 4; ++i) head += char(sum >> 8 * i);
  put_file(out / "r", head + "abcdefgh");
  CHECK(has(message_of([&] { all_of(out / "r"); }), "8 are left"));
  // A packed file of 10 kB that holds a record of 10 MB.
  write_all(out / "bomb", {std::string(10'000'000, '\0')}, {.compression = Compression::gzip});
  CHECK(contents(out / "bomb").size() < 20'000);
  RecordReader in(out / "bomb", {.largest = 1'000'000});
  std::string r;
  CHECK(has(message_of([&] { in.next(r); }), "largest"));
  CHECK(r.empty());
  CHECK(all_of(out / "bomb")[0].size() == 10'000'000);
}

TEST_CASE("Examples of TensorFlow into tensors") {
  const auto records = all_of(golden("plain.tfrecord"));
  const auto parsed =
      parse_examples(records, {{"image", fixed_feature(f32, {2, 3})},
                               {"label", fixed_feature(i64)},
                               {"weight", fixed_feature(f32, {1}, tensor({-1.f}))},
                               {"words", variable_feature(string)},
                               {"ids", padded_feature(i64, {2}, tensor({int64_t(-7)}))},
                               {"rows", ragged_feature(i64, {{Partition::Kind::row_splits, "splits"}}, "ids")}});
  const Tensor image = parsed.tensors.at("image");
  CHECK(image.shape() == Shape{3, 2, 3});
  CHECK(image.to_vector<float>()[6 + 5] == 2.25f);
  CHECK(parsed.tensors.at("label").shape() == Shape{3});
  CHECK(parsed.tensors.at("label").to_vector<int64_t>() == Wholes{-1, 0, 1});
  CHECK(parsed.tensors.at("weight").to_vector<float>() == Floats{0, -1, 1});

  const Ragged& words = parsed.ragged.at("words");
  auto traced = function("traced", [](const Ragged& r) { return r.padded(); });
  CHECK(has(message_of([&] { traced(words); }),
            "[Ragged::padded] the size of the result depends on the row splits, which"));
  CHECK(words.values.to_vector<std::string>() == Texts{"w0", "w0", "w1"});
  CHECK(words.row_splits.at(0).to_vector<int64_t>() == Wholes{0, 0, 1, 3});
  CHECK(words.indices().to_vector<int64_t>() == Wholes{1, 0, 2, 0, 2, 1});
  CHECK(words.padded(tensor({"-"})).to_vector<std::string>() == Texts{"-", "-", "w0", "-", "w0", "w1"});

  CHECK(parsed.tensors.at("ids").shape() == Shape{3, 2, 2});
  CHECK(parsed.tensors.at("ids").to_vector<int64_t>() == Wholes{-7, -7, -7, -7, 10, 11, -7, -7, 20, 21, 22, 23});
  CHECK(parsed.lengths.at("ids").to_vector<int64_t>() == Wholes{0, 1, 2});

  const Ragged& rows = parsed.ragged.at("rows");  // [[[],[]], [[10],[11]], [[20,21],[22,23]]]
  CHECK(rows.row_splits.size() == 2);
  CHECK(rows.row_splits[0].to_vector<int64_t>() == Wholes{0, 2, 4, 6});
  CHECK(rows.row_splits[1].to_vector<int64_t>() == Wholes{0, 0, 0, 1, 2, 4, 6});
  CHECK(rows.padded().shape() == Shape{3, 2, 2});
  CHECK(rows.padded().to_vector<int64_t>() == Wholes{0, 0, 0, 0, 10, 0, 11, 0, 20, 21, 22, 23});
  CHECK(rows.indices().shape() == Shape{6, 3});
}

TEST_CASE("Examples in a string tensor, also every other one of it") {
  const auto records = all_of(golden("plain.tfrecord"));
  const std::map<std::string, FeatureSpec> label = {{"label", fixed_feature(i64)}};
  CHECK(parse_examples(tensor(records), label).tensors.at("label").to_vector<int64_t>() == Wholes{-1, 0, 1});
  CHECK(parse_examples(tensor(records)(slice({}, {}, 2)), label).tensors.at("label").to_vector<int64_t>() ==
        Wholes{-1, 1});
  const std::string wrong = message_of([&] { parse_examples(tensor(records[0]), label); });
  CHECK(has(wrong, "takes a string tensor [examples]"));
  CHECK(has(wrong, "reshape({-1})"));
  CHECK(has(message_of([&] { parse_examples(ones({3}), label); }), "got f32[3]"));
  CHECK(has(message_of([&] { parse_examples(tensor(Texts{records[0], "x"}), label); }), "example 1"));
}

TEST_CASE("Each way of partitioning rows") {
  using K = Partition::Kind;
  const Tensor values = tensor({1.f, 2.f, 3.f, 4.f});
  auto rows = [&](Partition p, const Wholes& how) {
    const auto e = make_example({{"v", values}, {"p", tensor(how)}});
    return parse_examples({e}, {{"v", ragged_feature(f32, {std::move(p)})}})
        .ragged.at("v")
        .row_splits.at(1)
        .to_vector<int64_t>();
  };
  CHECK(rows({K::row_splits, "p"}, {0, 1, 1, 4}) == Wholes{0, 1, 1, 4});
  CHECK(rows({K::row_lengths, "p"}, {1, 0, 3}) == Wholes{0, 1, 1, 4});
  CHECK(rows({K::row_starts, "p"}, {0, 1, 1}) == Wholes{0, 1, 1, 4});
  CHECK(rows({K::row_limits, "p"}, {1, 1, 4}) == Wholes{0, 1, 1, 4});
  CHECK(rows({K::value_rowids, "p"}, {0, 2, 2, 2}) == Wholes{0, 1, 1, 4});
  CHECK(rows({K::uniform_row_length, "", 2}, {}) == Wholes{0, 2, 4});
  const Tensor many = arange(70000);  // as many rows as values
  CHECK(parse_examples({make_example({{"v", many.astype(f32)}, {"p", many}})},
                       {{"v", ragged_feature(f32, {{K::value_rowids, "p"}})}})
            .ragged.at("v")
            .row_splits.at(1)
            .size() == 70001);
  for (auto kind : {K::row_splits, K::row_lengths, K::row_starts, K::row_limits, K::value_rowids})
    for (const Wholes& bad : {Wholes{0, 5}, Wholes{1, 0, 4}, Wholes{-1, 4}, Wholes{INT64_MAX, INT64_MAX, 2, 4},
                              Wholes{0, INT64_MIN, 4, 4}, Wholes{3, 3, 2, 1}})
      CHECK(has(message_of([&] { rows({kind, "p"}, bad); }), "example 0, feature 'p'"));
  CHECK(has(message_of([&] { rows({K::uniform_row_length, "", 3}, {}); }), "rows of 3"));
  CHECK(has(message_of([&] { rows({K::uniform_row_length, "", 0}, {}); }), "rows of 0"));
}

TEST_CASE("Examples go round; mistakes name the example and the feature") {
  const std::map<std::string, Tensor> features = {{"f", tensor({{1.5f, 2.f}, {3.f, 4.f}})},
                                                  {"d", tensor({0.1})},
                                                  {"b", tensor({true, false})},
                                                  {"i", tensor({-1, 2}, i32)},
                                                  {"s", tensor(Texts{"x", std::string("\0y", 2)})},
                                                  {"none", zeros({0})},
                                                  {"\xff not UTF-8", ones({1})}};
  const std::string bytes = make_example(features);
  CHECK(bytes == make_example(features));
  const auto back = read_example(bytes);
  CHECK(back.size() == 7);
  CHECK(back.at("f").to_vector<float>() == Floats{1.5f, 2, 3, 4});
  CHECK(back.at("d").to_vector<float>() == Floats{0.1f});
  CHECK(back.at("b").to_vector<int64_t>() == Wholes{1, 0});
  CHECK(back.at("i").to_vector<int64_t>() == Wholes{-1, 2});
  CHECK(back.at("s").to_vector<std::string>() == Texts{"x", std::string("\0y", 2)});
  CHECK(back.at("none").shape() == Shape{0});

  auto message = [&](const std::map<std::string, FeatureSpec>& f) {
    return message_of([&] { parse_examples({bytes, bytes}, f); });
  };
  CHECK(has(message({{"f", fixed_feature(f32, {3})}}), "example 0, feature 'f': has 4 elements. expected 3"));
  CHECK(has(message({{"f", fixed_feature(i64, {4})}}), "has f32. expected i64"));
  CHECK(has(message({{"g", fixed_feature(f32)}}), "missing"));
  CHECK(has(message({{"f", fixed_feature(f64, {4})}}), "astype"));
  CHECK(has(message({{"f", padded_feature(f32, {3})}}), "multiple of 3"));
  CHECK(has(message({{"f", fixed_feature(f32, {4}, tensor({1.f, 2.f}))}}), "expected f32[4]"));
  CHECK(has(message({{"f", fixed_feature(f32, {-4})}}), "cannot be"));
  CHECK(has(message_of([&] { read_example("\x07rubbish"); }), "no tf.Example"));
  CHECK(has(message_of([&] { make_example({{"c", zeros({1}, c64)}}); }), "real numbers or texts"));
  const auto none =
      parse_examples({}, {{"f", fixed_feature(f32, {2})}, {"w", variable_feature(i64)}, {"p", padded_feature(f32)}});
  CHECK(none.tensors.at("f").shape() == Shape{0, 2});
  CHECK(none.tensors.at("p").shape() == Shape{0, 0});
  CHECK(none.ragged.at("w").row_splits[0].to_vector<int64_t>() == Wholes{0});
}

TEST_CASE("Rows of lengths whose product no memory holds are refused") {
  Wholes lengths(65536, 0), rows(65537, 65536);
  lengths[0] = 65536, rows[0] = 0;
  Wholes inner(65537, 1);
  inner[0] = 0;
  const auto splits = [](const Wholes& w) { return tensor(w, {int64_t(w.size())}); };
  Ragged r{tensor(Wholes{7}, {1}), {splits(rows), splits(rows), splits(inner)}};
  CHECK(has(message_of([&] { r.padded(); }), "more than memory holds"));
}

TEST_CASE("SequenceExamples of TensorFlow and ours") {
  const auto records = all_of(golden("sequences.tfrecord"));
  const std::map<std::string, FeatureSpec> sequences = {{"steps", fixed_feature(f32, {2})},
                                                        {"tokens", variable_feature(string)}};
  const auto parsed = parse_sequence_examples(records, {{"length", fixed_feature(i64)}}, sequences);
  CHECK(parsed.tensors.at("length").to_vector<int64_t>() == Wholes{1, 3});
  CHECK(parsed.tensors.at("steps").shape() == Shape{2, 3, 2});
  CHECK(parsed.tensors.at("steps").to_vector<float>() == Floats{0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 2});
  CHECK(parsed.lengths.at("steps").to_vector<int64_t>() == Wholes{1, 3});
  CHECK(parsed.ragged.at("tokens").row_splits[0].to_vector<int64_t>() == Wholes{0, 2, 5});
  CHECK(parsed.ragged.at("tokens").row_splits[1].to_vector<int64_t>() == Wholes{0, 0, 1, 1, 2, 4});

  const auto ours =
      make_sequence_example({{"length", tensor({int64_t(1)})}},
                            {{"steps", {tensor({0.f, 0.f})}}, {"tokens", {tensor(Texts{}), tensor(Texts{"t"})}}});
  const auto again = parse_sequence_examples({ours, records[1]}, {{"length", fixed_feature(i64)}}, sequences);
  CHECK(again.tensors.at("steps").to_vector<float>() == parsed.tensors.at("steps").to_vector<float>());
  CHECK(again.ragged.at("tokens").row_splits[1].to_vector<int64_t>() == Wholes{0, 0, 1, 1, 2, 4});
  // What is missing stands behind the steps that are there, whole steps of it.
  const auto steps = [](const std::vector<Tensor>& s) { return make_sequence_example({}, {{"s", s}}); };
  const std::vector<Tensor> three = {tensor({1.f, 2.f}), tensor({3.f, 4.f}), tensor({5.f, 6.f})};
  const auto filled = parse_sequence_examples({steps(three), steps({tensor({10.f, 20.f})}), steps({})}, {},
                                              {{"s", fixed_feature(f32, {2}, tensor({7.f, 8.f}))}});
  CHECK(filled.tensors.at("s").to_vector<float>() == Floats{1, 2, 3, 4, 5, 6, 10, 20, 7, 8, 7, 8, 7, 8, 7, 8, 7, 8});
  CHECK(has(message_of([] { make_example({{"n", tensor(std::vector<uint64_t>{UINT64_MAX})}}); }),
            "18446744073709551615"));
  CHECK(has(message_of([&] { parse_sequence_examples(records, {}, {{"steps", fixed_feature(f32, {3})}}); }),
            "step 0 has 2 elements"));
}
