// Sources that read arrays (.npy, .npz, .safetensors, IDX), Arrow, Parquet and sounds: what they give, how they are
// resumed, and what they say of files that are wrong.
#include <fstream>

#include "catch.h"
#include "data_files.h"
#include "io_helpers.h"
#include "messages.h"
#include "rill/data.h"
#include "rill/rill.h"
#include "rill/serialize.h"

using namespace rill;

// --- Arrays ----------------------------------------------------------------------------------------------------------

TEST_CASE("data files: .npy files as rows, in whatever order they lie") {
  Folder folder;
  const Tensor x = arange(60).reshape({5, 3, 4});
  for (const DType d : {boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, f32, f64, c64, c128}) {
    INFO(name(d));
    const Tensor t = x.astype(d);
    save(folder / "x.npy", t);
    const auto ds = data::npy(folder / "x.npy");
    CHECK(ds.size() == 5);
    CHECK(array_equal(ds.batch(5).first(), t));
    CHECK(array_equal(ds.skip(3).first(), t(3)));
    // The same as numpy writes it in Fortran order and with the highest byte first.
    const Tensor turned = transpose(t, {2, 1, 0}).contiguous();
    std::string file = contents(folder / "x.npy");
    const size_t body = file.size() - size_t(t.size()) * size_of(d);
    std::string bytes(turned.rep()->data, size_t(t.size()) * size_of(d));
    const size_t word = size_of(real_of(d));
    for (size_t i = 0; i < bytes.size(); i += word) std::reverse(bytes.begin() + i, bytes.begin() + i + word);
    std::string head = file.substr(0, body);
    head.replace(head.find("False"), 5, "True ");
    if (word > 1) head.replace(head.find('<'), 1, ">");
    put_file(folder / "y.npy", head + bytes);
    CHECK(array_equal(data::npy(folder / "y.npy").batch(2).collect()[1], slice_axis(t, 0, 2, 4)));
    CHECK(array_equal(data::npy(folder / "y.npy").skip(4).first(), t(4)));
  }
  save(folder / "s.npy", tensor({"one", "zwei", "drei"}));
  CHECK(texts_of(data::npy(folder / "s.npy")) == Texts{"one", "zwei", "drei"});
  save(folder / "1.npy", arange(7)), save(folder / "2.npy", arange(7, 12));
  const auto both = data::npy({folder / "1.npy", folder / "2.npy"});
  CHECK(array_equal(both.batch(20).first(), arange(12)));
  const Tensor shuffled = both.shuffle(2, {.seed = 3}).batch(12).first();
  CHECK(!array_equal(shuffled, arange(12)));
  CHECK(array_equal(sort(shuffled), arange(12)));
  check_resumes(both.shuffle({.seed = 1}), [](const Tensor& a, const Tensor& b) { return array_equal(a, b); });
  CHECK(has(message_of([&] { data::npy({folder / "1.npy", folder / "s.npy"}); }), "rows of string"));
  save(folder / "0.npy", tensor(3.f));
  CHECK(has(message_of([&] { data::npy(folder / "0.npy"); }), "scalar"));
  const std::string file = contents(folder / "1.npy");
  for (size_t n = 0; n < file.size(); ++n) {
    put_file(folder / "cut.npy", file.substr(0, n));
    CHECK(has(message_of([&] { data::npy(folder / "cut.npy"); }), "cut.npy"));
  }
}

TEST_CASE("data files: arrays side by side in .npz and .safetensors") {
  Folder folder;
  const Tensor x = arange(30).reshape({10, 3}).astype(f32), y = arange(10);
  struct Example {
    Tensor x, y;
  };
  save(folder / "a.npz", NamedTensors{{"x", x}, {"y", y}, {"other", arange(3)}}, {.compress = false});
  save(folder / "p.npz", NamedTensors{{"x", x}, {"y", y}}, {.compress = true});
  save(folder / "a.safetensors", NamedTensors{{"x", x}, {"y", y}});
  const auto check = [&](const data::Dataset<Example>& ds) {
    CHECK(ds.size() == 10);
    const Example all = ds.batch(10).first();
    CHECK(array_equal(all.x, x));
    CHECK(array_equal(all.y, y));
    CHECK(array_equal(ds.skip(7).first().x, x(7)));
    const Example s = ds.shuffle(3, {.seed = 2}).batch(10).first();
    CHECK(array_equal(take(x, s.y, 0), s.x));
    CHECK(!array_equal(s.y, y));
  };
  check(data::npz<Example>(folder / "a.npz"));
  check(data::npz<Example>(folder / "p.npz"));
  check(data::safetensors<Example>(folder / "a.safetensors"));
  const Table t = data::npz(folder / "p.npz").batch(4).first();
  CHECK(t.names == Texts{"x", "y"});
  CHECK(t.at("x").shape() == Shape{4, 3});
  const auto pairs = data::npz<std::pair<Tensor, int64_t>>(folder / "a.npz", {.names = {"x", "y"}});
  CHECK(pairs.skip(4).first().second == 4);
  CHECK(has(message_of([&] { data::npz(folder / "a.npz"); }), "they must have as many"));
  save(folder / "none.npz", NamedTensors{});
  CHECK(has(message_of([&] { data::npz(folder / "none.npz"); }), "has no arrays"));
  CHECK(has(message_of([&] { data::npz(folder / "a.npz", {.names = {"z"}}); }), "has no array 'z'"));
  CHECK(has(message_of([&] { data::npz<std::pair<Tensor, float>>(folder / "p.npz"); }),
            "the field that takes them is f32"));
  CHECK(has(message_of([&] { data::npz<Tensor>(folder / "p.npz"); }), "2 arrays for a row of 1 fields"));
  const std::string file = contents(folder / "a.npz");
  for (size_t n = 0; n < file.size(); n += 7) {
    put_file(folder / "cut.npz", file.substr(0, n));
    CHECK(message_of([&] { data::npz(folder / "cut.npz"); }) != "");
  }
}

TEST_CASE("data files: IDX files") {
  Folder folder;
  const std::string bytes("\0\0\x08\x02\0\0\0\3\0\0\0\2abcdef", 18);
  put_file(folder / "i", bytes), put_file(folder / "i.gz", gzipped(bytes));
  const auto ds = data::idx({folder / "i", folder / "i.gz"});
  CHECK(ds.size() == 6);
  CHECK(array_equal(ds.skip(4).first(), tensor({'c', 'd'}).astype(u8)));
  CHECK(data::zip(ds, ds).shuffle({.seed = 1}).batch(6).first().first.shape() == Shape{6, 2});
  put_file(folder / "bad", bytes.substr(0, 14));
  CHECK(has(message_of([&] { data::idx(folder / "bad"); }), "truncated"));
}

// --- Arrow -----------------------------------------------------------------------------------------------------------

TEST_CASE("data files: Arrow files and streams, batch by batch") {
  Folder folder;
  const auto part = [](int64_t from, int64_t to) {
    std::vector<std::string> texts;
    for (int64_t i = from; i < to; ++i) texts.push_back("t" + std::to_string(i));
    return Table{{"i", "x", "t"}, {arange(from, to), arange(from, to).astype(f32) / 2, tensor(texts)}};
  };
  write_arrow(folder / "1.arrow", part(0, 100)), write_arrow(folder / "2.arrow", part(100, 130));
  // A stream of several batches: the schema of one, the batches of all, the end.
  std::string stream;
  for (int k = 0; k < 5; ++k) {
    write_arrow(folder / "p.arrows", part(20 * k, 20 * k + 20));
    const std::string one = contents(folder / "p.arrows");
    const size_t schema = 8 + size_t(uint8_t(one[4])) + 256 * size_t(uint8_t(one[5]));
    stream += one.substr(k ? schema : 0, one.size() - 8 - (k ? schema : 0));
  }
  stream += std::string("\xFF\xFF\xFF\xFF\0\0\0\0", 8);
  put_file(folder / "s.arrows", stream);
  put_file(folder / "s.arrows.gz", gzipped(stream)), put_file(folder / "s.arrows.zst", zstd_of(stream));
  put_file(folder / "f.arrow.gz", gzipped(contents(folder / "1.arrow")));
  using Row = std::tuple<int64_t, float, std::string>;
  const auto same = [](const Row& a, const Row& b) { return a == b; };
  for (const char* name : {"1.arrow", "s.arrows", "s.arrows.gz", "s.arrows.zst", "f.arrow.gz"}) {
    INFO(name);
    const auto ds = data::arrow<Row>({folder / name, folder / "2.arrow"});
    const std::vector<Row> rows = ds.collect();
    REQUIRE(rows.size() == 130);
    for (int64_t i = 0; i < 130; ++i) CHECK(rows[size_t(i)] == Row(i, float(i) / 2, "t" + std::to_string(i)));
    check_resumes(ds, same);
    int64_t seen = 0;
    for (const auto& [i, x, t] : ds.batch(33)) {
      CHECK(array_equal(i, arange(seen, seen + i.dim(0))));
      CHECK(t.item<std::string>(0) == "t" + std::to_string(seen));
      seen += i.dim(0);
    }
    CHECK(seen == 130);
  }
  const Table t = data::arrow(folder / "s.arrows", {.columns = {"t", "i"}}).skip(50).batch(30).first();
  CHECK(t.names == Texts{"t", "i"});
  CHECK(array_equal(t.at("i"), arange(50, 80)));
  CHECK(has(message_of([&] { data::arrow<std::pair<Tensor, float>>(folder / "1.arrow").count(); }),
            "3 columns for a row of 2"));
  CHECK(has(message_of([&] { data::arrow<float>(folder / "1.arrow", {.columns = {"i"}}).count(); }),
            "the field that takes its rows is f32"));
  CHECK(has(message_of([&] { data::arrow(folder / "1.arrow", {.columns = {"z"}}).count(); }), "[data::arrow]"));
  for (size_t n = 0; n + 8 < stream.size(); n += 97) {
    put_file(folder / "cut.arrows", stream.substr(0, n));
    put_file(folder / "cut.arrows.gz", gzipped(stream.substr(0, n)));
    for (const char* name : {"cut.arrows", "cut.arrows.gz"}) {
      int64_t count = 0;
      message_of([&] {
        for (const Row& row : data::arrow<Row>(folder / name)) count += std::get<0>(row) == count;
      });
      CHECK(count % 20 == 0);
    }
  }
  // A plain stream may end between messages without saying so, a packed one not.
  const std::string packed = gzipped(stream);
  for (size_t n = 20; n + 8 < packed.size(); ++n) {
    put_file(folder / "cut.arrows.gz", packed.substr(0, n));
    if (message_of([&] { data::arrow<Row>(folder / "cut.arrows.gz").count(); }).empty()) FAIL_CHECK("cut at " << n);
  }
}

namespace {
// Of lists.arrow and lists.parquet.
void check_lists(const data::Dataset<Table>& ds) {
  const std::vector<Table> rows = ds.collect();
  REQUIRE(rows.size() == 4);
  using Numbers = std::vector<int64_t>;
  const std::vector<Numbers> tokens = {{1, 2, 3}, {}, {}, {7}};
  const std::vector<Texts> words = {{"a", "bb"}, {"c"}, {}, {"d", "e", "f"}};
  const std::vector<int64_t> points = {1, 0, 2, 1};
  for (size_t i = 0; i < 4; ++i) {
    CHECK(rows[i].at("tokens").dtype() == i32);
    CHECK(rows[i].at("tokens").to_vector<int64_t>() == tokens[i]);
    CHECK(rows[i].at("tokens.valid").item<bool>() == (i != 2));
    CHECK(rows[i].at("words").to_vector<std::string>() == words[i]);
    CHECK(rows[i].at("points").shape() == Shape{points[i], 2});
    CHECK(rows[i].at("id.valid").item<bool>() == (i != 1));
  }
  CHECK(array_equal(rows[2].at("points"), tensor({3.f, 4.f, 5.f, 6.f}).reshape({2, 2})));
  CHECK(has(message_of([&] { ds.batch(4).first(); }), "batch"));
  check_resumes(ds, [](const Table& a, const Table& b) { return array_equal(a.at("tokens"), b.at("tokens")); });
}
}  // namespace

TEST_CASE("data files: lists of any length are rows of their own lengths, which padded_batch() takes") {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  const std::string folder = (root ? root : ".") + std::string("/tests/fixtures/arrow/");
  if (has(message_of([&] { data::arrow(folder + "kinds.arrow").first(); }), "feature"))
    return skip_case("a build without arrow");
  check_lists(data::arrow(folder + "lists.arrow", {.masks = true}));
  check_lists(data::arrow(folder + "lists.arrows", {.masks = true}));
  const auto words = data::arrow<Tensor>(folder + "lists.arrow", {.columns = {"words"}});
  CHECK(words.padded_batch(4).first().shape() == Shape{4, 3});
  CHECK(words.ragged_batch(4).first().row_splits[0].to_vector<int64_t>() == std::vector<int64_t>{0, 2, 3, 3, 6});
  CHECK(has(message_of([&] { data::arrow<int32_t>(folder + "lists.arrow", {.columns = {"tokens"}}).first(); }),
            "the column 'tokens' has lists of i32, and the field that takes its rows is i32: make it a Tensor"));
  CHECK(has(message_of([&] { data::arrow(folder + "lists.arrow").skip(2).first(); }), "no value in row 2"));
  CHECK(has(message_of([&] { data::arrow(folder + "hole.arrow").first(); }), "a list in which a value is missing"));
  CHECK(has(message_of([&] { read_arrow(folder + "lists.arrow"); }), "data::arrow() reads them row by row"));
  CHECK(read_arrow(folder + "lists.arrow", {.masks = true, .skip_others = true}).names == Texts{"id", "id.valid"});
  CHECK(
      data::arrow(folder + "others.arrow", {.masks = true, .skip_others = true}).first().at("number").item<int64_t>() ==
      10);
  CHECK(read_arrow(folder + "others.arrow", {.columns = {"when", "number"}, .skip_others = true}).names ==
        Texts{"number"});
}

TEST_CASE("data files: where some batches of an Arrow file miss values, all have the mask") {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  const std::string folder = (root ? root : ".") + std::string("/tests/fixtures/arrow/");
  if (has(message_of([&] { data::arrow(folder + "kinds.arrow").first(); }), "feature"))
    return skip_case("a build without arrow");
  const auto ds = data::arrow(folder + "late.arrow", {.masks = true});
  for (const Table& row : ds) CHECK(row.names == Texts{"n", "n.valid", "s", "s.valid"});
  const Table all = ds.batch(5).first();
  CHECK(all.at("n").to_vector<int64_t>() == std::vector<int64_t>{1, 2, 0, 4, 5});
  CHECK(all.at("n.valid").to_vector<bool>() == std::vector<bool>{true, true, false, true, true});
  CHECK(all.at("s").to_vector<std::string>() == Texts{"a", "b", "c", "d", "e"});
  // Files with other columns are no rows of one batch.
  CHECK(has(message_of([&] {
              data::arrow({folder + "late.arrow", folder + "times.arrow"}, {.masks = true}).batch(8).count();
            }),
            "cannot be stacked"));
}

TEST_CASE("data files: Parquet files, row group by row group") {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  const std::string folder = (root ? root : ".") + std::string("/tests/fixtures/parquet/");
  using Row = std::tuple<int64_t, double, std::string>;
  const auto ds = data::parquet<Row>(folder + "{groups,zstd}.parquet", {.columns = {"i", "x", "t"}});
  const std::string refused = message_of([&] { ds.first(); });
  if (has(refused, "librill_parquet") || has(refused, "lacks the feature")) return skip_case(refused);
  const std::vector<Row> rows = ds.collect();
  REQUIRE(rows.size() == 2000);
  for (int64_t i = 0; i < 2000; ++i)
    CHECK(rows[size_t(i)] == Row(i % 1000, double(i % 1000) / 4, "t" + std::to_string(i % 1000 % 7)));
  check_resumes(ds, [](const Row& a, const Row& b) { return a == b; });
  int64_t seen = 0;
  for (const auto& [i, x, t] : ds.batch(130)) {
    CHECK(i.item<int64_t>(0) == seen % 1000);
    seen += i.dim(0);
  }
  CHECK(seen == 2000);
  using Gap = std::optional<int32_t>;
  const std::vector<Gap> gaps = data::parquet<Gap>(folder + "groups.parquet", {.columns = {"gap"}}).take(6).collect();
  CHECK(gaps == std::vector<Gap>{0, {}, 2, 3, 4, {}});
  CHECK(has(message_of([&] { data::parquet<int32_t>(folder + "groups.parquet", {.columns = {"gap"}}).first(); }),
            "no value in row 1"));
  const Table t = data::parquet(folder + "groups.parquet", {.columns = {"x", "i"}}).skip(999).first();
  CHECK(t.at("i").item<int64_t>() == 999);
  check_lists(data::parquet(folder + "lists.parquet", {.masks = true}));
  const Folder own;
  const std::string bytes = contents(folder + "zstd.parquet");
  for (size_t n = 0; n < bytes.size(); n += 101) {
    put_file(own / "cut.parquet", bytes.substr(0, n));
    CHECK(has(message_of([&] { data::parquet<Row>(own / "cut.parquet", {.columns = {"i", "x", "t"}}).count(); }),
              "cut.parquet"));
  }
}

// --- Audio -----------------------------------------------------------------------------------------------------------

TEST_CASE("data files: WAV files as samples") {
  Folder folder;
  std::vector<float> samples;
  for (int i = 0; i < 200; ++i) samples.push_back(float(i - 100) / 128);
  put_file(folder / "a.wav", encode_wav(samples, 2, 8000));
  const auto ds = data::audio(folder / "*.wav");
  const auto [x, rate] = ds.first();
  CHECK(rate == 8000);
  CHECK(x.shape() == Shape{100, 2});
  for (int i = 0; i < 200; ++i) CHECK(x.reshape({200}).item<float>(i) == samples[size_t(i)]);
  CHECK(ds.padded_batch(2).first().first.shape() == Shape{1, 100, 2});
  const auto wav = [](int kind, int bits, const std::string& data) {
    std::string out("RIFF\0\0\0\0WAVEfmt \x10\0\0\0", 20);
    const auto put = [&](uint32_t v, int n) {
      for (int i = 0; i < n; ++i) out += char(v >> 8 * i & 0xFF);
    };
    put(uint32_t(kind), 2), put(1, 2), put(16000, 4), put(uint32_t(16000 * bits / 8), 4), put(uint32_t(bits / 8), 2);
    put(uint32_t(bits), 2);
    out += std::string("LIST\3\0\0\0abc\0", 12) + "data";
    put(uint32_t(data.size()), 4);
    return out + data;
  };
  const auto one = [&](int kind, int bits, const std::string& data) {
    return decode_audio(tensor(wav(kind, bits, data))).first.reshape({-1}).to_vector<float>();
  };
  CHECK(one(1, 8, std::string("\0\x80\xff", 3)) == std::vector<float>{-1, 0, 127.f / 128});
  CHECK(one(1, 24, std::string("\0\0\x80\1\0\0", 6)) == std::vector<float>{-1, 1.f / 8388608});
  CHECK(one(1, 32, std::string("\0\0\0\x80\0\0\0\x40", 8)) == std::vector<float>{-1, 0.5f});
  CHECK(one(3, 32, std::string("\0\0\0\x3f", 4)) == std::vector<float>{0.5f});
  CHECK(one(3, 64, std::string("\0\0\0\0\0\0\xe0\xbf", 8)) == std::vector<float>{-0.5f});
  const std::string good = wav(1, 16, "abcd");
  for (size_t n = 0; n < good.size(); ++n) {
    put_file(folder / "cut.wav", good.substr(0, n));
    CHECK(has(message_of([&] { read_audio(folder / "cut.wav"); }), "cut.wav"));
  }
  // A file whose lengths its writer did not know, of a pipe or because it was killed, ends where it ends.
  const auto with_lengths = [&](uint32_t whole, uint32_t samples_bytes, const std::string& behind = "") {
    std::string bytes = good + behind;
    for (size_t i = 0; i < 4; ++i) {
      bytes[4 + i] = char(whole >> 8 * i & 0xFF);
      bytes[good.size() - 8 + i] = char(samples_bytes >> 8 * i & 0xFF);
    }
    return decode_audio(tensor(bytes)).first.shape()[0];
  };
  const auto whole = uint32_t(good.size() - 8);
  CHECK(with_lengths(0xFFFFFFFF, 0xFFFFFFFF) == 2);  // ffmpeg
  CHECK(with_lengths(0x7FFFF024, 0x7FFFF000) == 2);  // sox
  CHECK(with_lengths(0x80000024, 0x80000000) == 2);  // arecord
  for (const uint32_t unfilled : {0u, 8u, 36u, 0xFFFFFFFFu}) CHECK(with_lengths(unfilled, 0) == 2);
  // One without samples has none, though something stands behind them.
  CHECK(with_lengths(whole + 8, 0, std::string("LIST\0\0\0\0", 8)) == 0);
  CHECK(has(message_of([&] { with_lengths(whole, 1000); }), "the file is cut"));
  std::string slow = good;
  slow.replace(24, 4, 4, '\0');
  CHECK(has(message_of([&] { decode_audio(tensor(slow)); }), "at byte 12: 0 samples a second"));
  CHECK(has(message_of([&] { data::audio({folder / "none.wav", folder / "a.wav"}).count(); }), "none.wav"));
  CHECK(data::audio({folder / "cut.wav", folder / "a.wav"}).ignore_errors({.log = false}).count() == 1);
}

TEST_CASE("data files: FLAC, Ogg, MP3 and packed WAV, by libsndfile") {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  const std::string folder = (root ? root : ".") + std::string("/tests/fixtures/formats/");
  const auto [wav, wav_rate] = read_audio(folder + "tone.wav");
  CHECK(wav_rate == 8000);
  CHECK(wav.shape() == Shape{400, 2});
  CHECK(wav.item<float>(399, 1) == 399 * 16 / 32768.f);
  const std::string refused = message_of([&] { read_audio(folder + "tone.flac"); });
  if (has(refused, "feature audio")) return skip_case("a build without libsndfile");
  CHECK(array_equal(read_audio(folder + "tone.flac").first, wav));
  const auto ds = data::audio(folder + "tone.{flac,wav}");
  CHECK(ds.size() == 2);
  CHECK(ds.batch(2).first().second.to_vector<int64_t>() == std::vector<int64_t>{8000, 8000});
  CHECK(allclose(read_audio(folder + "tone.ogg").first, wav, {.rtol = 0, .atol = 0.05}));
  const Tensor adpcm = slice_axis(read_audio(folder + "adpcm.wav").first, 0, 0, 400);  // which errs most at the start
  CHECK(mean(abs(adpcm - wav)).item<float>() < 0.01f);
  const std::string mp3 = message_of([&] { CHECK(read_audio(folder + "tone.mp3").second == 8000); });
  CHECK((mp3.empty() || has(mp3, "libsndfile reads")));  // before libsndfile 1.1
  const Folder own;
  const std::string flac = contents(folder + "tone.flac");
  for (size_t n = 0; n < flac.size(); n += 5) {
    put_file(own / "cut.flac", flac.substr(0, n));
    CHECK(has(message_of([&] { read_audio(own / "cut.flac"); }), "cut.flac"));
  }
}

namespace {
// The checksum of a page of Ogg: https://www.rfc-editor.org/rfc/rfc3533, section 6.
uint32_t ogg_checksum(const std::string& page) {
  uint32_t sum = 0;
  for (const char c : page) {
    sum ^= uint32_t(uint8_t(c)) << 24;
    for (int k = 0; k < 8; ++k) sum = sum << 1 ^ (sum >> 31 ? 0x04C11DB7u : 0u);
  }
  return sum;
}
std::string ogg_page(uint32_t number, const std::string& packet) {
  std::string page = "OggS" + std::string(1, '\0') + char(number == 0 ? 2 : 0) + std::string(12, '\0');
  for (int k = 0; k < 4; ++k) page += char(number >> 8 * k);
  page += std::string(4, '\0') + char(packet.size() / 255 + 1) + std::string(packet.size() / 255, '\xFF') +
          char(packet.size() % 255) + packet;
  const uint32_t sum = ogg_checksum(page);
  for (size_t k = 0; k < 4; ++k) page[22 + k] = char(sum >> 8 * k);
  return page;
}
}  // namespace

TEST_CASE("data files: an Ogg file that is damaged is refused with the byte, and one that would fill the memory") {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  const std::string whole = contents((root ? root : ".") + std::string("/tests/fixtures/formats/tone.ogg"));
  if (has(message_of([&] { decode_audio(tensor(whole)); }), "feature audio"))
    return skip_case("a build without libsndfile");
  const auto refusal = [](const std::string& bytes) { return message_of([&] { decode_audio(tensor(bytes)); }); };
  for (size_t n = 5; n < whole.size(); n += 50) CHECK(has(refusal(whole.substr(0, n)), "the file is cut"));
  for (size_t n = 5; n < whole.size(); n += 50) {
    std::string bad = whole;
    bad[n] = char(bad[n] ^ 1);
    CHECK(has(refusal(bad), "at byte "));
  }
  const size_t second = whole.find("OggS", 1), third = whole.find("OggS", second + 1);
  CHECK(has(refusal(whole.substr(0, second) + "junk" + whole.substr(second)),
            "at byte " + std::to_string(second) + ": 4 bytes between two pages of Ogg"));
  CHECK(has(refusal(whole.substr(0, second) + whole.substr(third)), "page 2 of a stream where page 1 belongs"));
  CHECK(has(refusal(whole.substr(0, second)), "ends within the headers of Vorbis"));
  CHECK(refusal(whole + "TAG of another program").empty());

  // One codebook of a few bytes with 2^23 entries of one value, in the order of their lengths, which begin at 23.
  std::string book = "\x05vorbis" + std::string(1, '\0') + "BCV";
  const uint64_t bits = 1 | uint64_t(1) << 39 | uint64_t(1) << 40 | uint64_t(22) << 41;
  for (int k = 0; k < 8; ++k) book += char(bits >> 8 * k);
  book += std::string(8, '\x7F');
  const std::string huge = ogg_page(0, whole.substr(28, 30)) +
                           ogg_page(1, "\x03vorbis" + std::string(8, '\0') + "\x01") +
                           ogg_page(2, book + std::string(64, '\0'));
  CHECK(has(refusal(huge), "the codebooks of Vorbis make 16777216 numbers"));
}
