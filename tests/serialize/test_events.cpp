// Event files and summaries, read back record by record. What TensorBoard makes of them is in test_viewers.py.
#include <cmath>
#include <thread>

#include "catch.h"
#include "io_helpers.h"
#include "rill/serialize.h"
#include "rill/summary.h"
#include "rill/trace/graph/trace_observer.h"
#include "wire.h"

using namespace rill;

namespace {

// The events of the one file in a folder, without the version event that comes first.
std::vector<Wire> events_of(const std::string& path) {
  std::vector<std::string> records = read_records(path);
  REQUIRE(!records.empty());
  CHECK(Wire(records[0]).bytes(3) == "brain.Event:2");
  std::vector<Wire> events;
  for (size_t i = 1; i < records.size(); ++i) events.emplace_back(records[i]);
  return events;
}

// The one value of a summary event.
struct Value {
  std::string tag, plugin, content;
  uint64_t data_class, dtype, step;
  std::vector<int64_t> shape;
  Wire tensor;
};
Value value_of(const Wire& event) {
  Wire value = event.message(5).message(1);
  Wire metadata = value.message(9), tensor = value.message(8);
  std::vector<int64_t> shape;
  for (size_t i = 0; i < tensor.message(2).count(2); ++i)
    shape.push_back(int64_t(tensor.message(2).message(2, i).number(1)));
  return {value.bytes(1),
          metadata.message(1).bytes(1),
          metadata.message(1).bytes(2),
          metadata.number(4),
          tensor.number(1),
          event.number(2),
          shape,
          tensor};
}

// [k,3] of the histogram that `values` give.
std::vector<double> histogram_of(const std::vector<float>& values, int buckets) {
  Folder out;
  summary::Writer log(out.path());
  log.histogram("h", make_f32({int64_t(values.size())}, values), 0, buckets);
  Value v = value_of(events_of(log.path()).at(0));
  CHECK(v.plugin == "histograms");
  CHECK(v.data_class == 2);
  CHECK(v.dtype == 2);
  CHECK(v.shape == std::vector<int64_t>{buckets, 3});
  return Wire::packed<double>(v.tensor.bytes(6));
}

}  // namespace

TEST_CASE("CRC-32C: the values of RFC 3720 B.4") {
  std::string zeros(32, '\0'), ones(32, '\xff'), up, down;
  for (int i = 0; i < 32; ++i) up += char(i), down += char(31 - i);
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xE3069283);
  CHECK(crc32c(zeros) == 0x8A9136AA);
  CHECK(crc32c(ones) == 0x62A8AB43);
  CHECK(crc32c(up) == 0x46DD794E);
  CHECK(crc32c(down) == 0x113FDB5C);
}

TEST_CASE("Records: read back, cut short, damaged") {
  Folder out;
  std::string all = record("") + record("one") + record(std::string(1000, 'x'));
  put_file(out / "r", all);
  CHECK(read_records(out / "r") == std::vector<std::string>{"", "one", std::string(1000, 'x')});
  CHECK(record("one").size() == 3 + 16);

  for (size_t n = 0; n < all.size(); ++n) {  // a writer may be killed at any byte
    put_file(out / "r", all.substr(0, n));
    CHECK(read_records(out / "r").size() == size_t((n >= 16) + (n >= 16 + 19)));
  }
  for (size_t i = 0; i < 16 + 19; ++i) {
    std::string damaged = all;
    damaged[i] = char(damaged[i] ^ 4);
    put_file(out / "r", damaged);
    CHECK(has(message_of([&] { read_records(out / "r"); }), "checksum"));
  }
  CHECK(has(message_of([&] { read_records(out / "none"); }), "No such file"));
}

TEST_CASE("Scalars") {
  Folder out;
  summary::Writer log(out / "logs/run");
  log.scalar("train/loss", 0.5, 7);
  log.scalar("train/loss", make_f32({1, 1}, {0.25f}), 8);
  log.flush();
  auto events = events_of(log.path());  // while the writer lives
  REQUIRE(events.size() == 2);
  Value v = value_of(events[0]);
  CHECK(v.tag == "train/loss");
  CHECK(v.plugin == "scalars");
  CHECK(v.data_class == 1);
  CHECK(v.dtype == 1);
  CHECK(v.shape.empty());
  CHECK(v.step == 7);
  CHECK(Wire::packed<float>(v.tensor.bytes(5)) == std::vector<float>{0.5f});
  CHECK(Wire::packed<float>(value_of(events[1]).tensor.bytes(5)) == std::vector<float>{0.25f});
  uint64_t bits = events[0].number(1);
  double seconds;
  std::memcpy(&seconds, &bits, 8);
  CHECK(std::abs(seconds - double(std::time(nullptr))) < 60);

  std::string m = message_of([&] { log.scalar("s", make_f32({2}, {1, 2}), 0); });
  CHECK(has(m, "f32[2]"));
  CHECK(has(m, "test_events.cpp:"));
}

TEST_CASE("Histograms: equal widths, every finite value counted once") {
  CHECK(histogram_of({0, 1, 2, 3, 4}, 2) == std::vector<double>{0, 2, 2, 2, 4, 3});
  CHECK(histogram_of({-3e38f, 0, 3e38f}, 2) == std::vector<double>{double(-3e38f), 0, 1, 0, double(3e38f), 2});
  CHECK(histogram_of({}, 2) == std::vector<double>{0, 0, 0, 0, 0, 0});
  CHECK(histogram_of({3, 3, 3}, 2) == std::vector<double>{3, 3, 0, 3, 3, 3});
  CHECK(histogram_of({0, NAN, 4, INFINITY}, 2) == std::vector<double>{0, 2, 1, 2, 4, 1});
  auto wide = histogram_of({-3e38f, 0, 3e38f}, 3);
  CHECK((wide[2] == 1 && wide[5] == 1 && wide[8] == 1));
}

TEST_CASE("Images are PNG files behind their width and height") {
  Folder out;
  summary::Writer log(out.path());
  log.image("grey", make_f32({2, 2, 3, 1}, {0, 1, .5f, 2, -1, NAN, 0, 0, 0, 0, 0, 0}), 4);
  log.image("one", make_f32({1, 1, 4}, {1, 0, 0, 1}), 5);
  log.image("few", make_f32({5, 1, 1, 3}, std::vector<float>(15, 1.f)), 6, {.max_images = 2});
  auto events = events_of(log.path());
  REQUIRE(events.size() == 3);
  Value v = value_of(events[0]);
  CHECK(v.plugin == "images");
  CHECK(v.data_class == 3);
  CHECK(v.dtype == 7);
  CHECK(v.shape == std::vector<int64_t>{4});
  CHECK(v.tensor.bytes(8, 0) == "3");
  CHECK(v.tensor.bytes(8, 1) == "2");
  std::string png = v.tensor.bytes(8, 2);
  CHECK(png.substr(0, 8) == "\x89PNG\r\n\x1a\n");
  CHECK(png.substr(12, 14) == std::string("IHDR\0\0\0\3\0\0\0\2\x08\0", 14));  // 3 wide, 2 high, 8 bits, grey
  CHECK(value_of(events[1]).tensor.bytes(8, 2)[25] == 6);                      // RGBA
  CHECK(value_of(events[2]).shape == std::vector<int64_t>{4});

  CHECK(has(message_of([&] { log.image("bad", make_f32({2, 2}, {0, 0, 0, 0}), 0); }), "f32[2,2]"));
  CHECK(has(message_of([&] { log.image("bad", make_f32({1, 1, 5}, {0, 0, 0, 0, 0}), 0); }), "channels"));
}

TEST_CASE("PNG refuses what it cannot hold") {
  std::vector<uint8_t> pixels(6);
  CHECK(encode_png(pixels, 2, 3, 1).substr(1, 3) == "PNG");
  CHECK_THROWS_AS(encode_png(pixels, 3, 3, 1), Error);
  CHECK_THROWS_AS(encode_png({}, 0, 3, 1), Error);
  CHECK_THROWS_AS(encode_png(pixels, 1, 1, 6), Error);
}

TEST_CASE("PNG files are read back, and damaged ones are errors") {
  for (const int channels : {1, 2, 3, 4}) {
    std::vector<uint8_t> pixels(size_t(4 * 5 * channels));
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = uint8_t(7 * i + (channels % 2 ? 0 : 200));
    const std::string png = encode_png(pixels, 4, 5, channels);
    const Tensor back = decode_png(png);
    CHECK(back.shape() == Shape{4, 5, channels});
    CHECK(back.dtype() == u8);
    CHECK(back.to_vector<uint8_t>() == pixels);
    for (size_t cut = 0; cut < png.size() - 12; cut += 5) CHECK_THROWS_AS(decode_png(png.substr(0, cut)), Error);
  }
  std::string huge = encode_png(std::vector<uint8_t>(1), 1, 1, 1);
  huge[17] = huge[21] = 1;  // 65,537 x 65,537, which the header's checksum does not match either
  CHECK_THROWS_AS(decode_png(huge), Error);
  CHECK_THROWS_AS(decode_png("nonsense"), Error);
}

TEST_CASE("PNG pixels are the numbers in the file, whatever it says of light") {
  const auto pixels = [](std::string_view hex) {
    std::string bytes;
    for (size_t i = 0; i < hex.size(); i += 2) bytes += char(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
    return decode_png(bytes);
  };
  // Made by Python's zlib: 0, 0x4000 and 0xFFFF as 16 bits.
  const Tensor wide = pixels(
      "89504e470d0a1a0a0000000d49484452000000030000000110000000006e1b972b0000000f49444154789c6360607060f8ff"
      "1f000404023f1999ac090000000049454e44ae426082");
  CHECK(wide.shape() == Shape{1, 3, 1});
  CHECK(wide.to_vector<int64_t>() == std::vector<int64_t>{0, 64, 255});
  // 0, 64, 255, and a gamma of 1.
  const Tensor linear = pixels(
      "89504e470d0a1a0a0000000d49484452000000030000000108000000003e8b4b680000000467414d41000186a031e8965f00"
      "00000c49444154789c636070f80f0001830140e3dba9d70000000049454e44ae426082");
  CHECK(linear.to_vector<int64_t>() == std::vector<int64_t>{0, 64, 255});
  // Entries 1 and 0 of the palette 1 2 3, 4 5 6, whose first has the alpha 7.
  const Tensor palette = pixels(
      "89504e470d0a1a0a0000000d4948445200000002000000010803000000c3fc8fb800000006504c544501020304050695536f"
      "480000000174524e5307de824dc50000000b49444154789c636064000000050002d16633780000000049454e44ae426082");
  CHECK(palette.shape() == Shape{1, 2, 4});
  CHECK(palette.to_vector<int64_t>() == std::vector<int64_t>{4, 5, 6, 255, 1, 2, 3, 7});
}

TEST_CASE("Text and graphs") {
  Folder out;
  summary::Writer log(out.path());
  log.text("note", "**bold**", 3);
  log.graph(small_graph());
  auto events = events_of(log.path());
  REQUIRE(events.size() == 2);
  Value v = value_of(events[0]);
  CHECK(v.plugin == "text");
  CHECK(v.data_class == 2);
  CHECK(v.tensor.bytes(8) == "**bold**");
  CHECK(events[1].bytes(4) == to_graph_def(small_graph()));
}

TEST_CASE("Threads may share a writer; two writers in a folder have a file each") {
  Folder out;
  summary::Writer log(out.path()), other(out.path());
  CHECK(log.path() != other.path());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) log.text("t" + std::to_string(t), std::string(size_t(i * 10), 'x'), i);
    });
  for (auto& t : threads) t.join();
  CHECK(events_of(log.path()).size() == 200);
  summary::Writer moved = std::move(other);
  moved.scalar("s", 1, 0);
  CHECK(events_of(moved.path()).size() == 1);
}

TEST_CASE("trace_export writes every graph traced since trace_on") {
  Folder out;
  CHECK(has(message_of([&] { summary::trace_export(out / "a", "f", 0); }), "trace_on"));
  notify_traced(small_graph());  // before: not recorded
  summary::trace_on();
  CHECK(has(message_of([&] { summary::trace_export(out / "a", "f", 0); }), "no function was traced"));
  CHECK(out.names().empty());
  notify_traced(small_graph());
  std::thread([] { notify_traced(small_graph()); }).join();
  summary::trace_export(out / "a", "step", 9);
  notify_traced(small_graph());  // after: not recorded
  REQUIRE(out.names("a").size() == 1);
  auto events = events_of(out / ("a/" + out.names("a")[0]));
  REQUIRE(events.size() == 1);
  Value v = value_of(events[0]);
  CHECK(v.tag == "step");
  CHECK(v.step == 9);
  CHECK(v.plugin == "graph_run_metadata_graph");
  CHECK(v.content == "1");
  Wire run(v.tensor.bytes(8));
  REQUIRE(run.count(4) == 2);
  CHECK(run.message(4, 1).bytes(2) == to_graph_def(small_graph()));

  CHECK(has(message_of([&] { summary::trace_export(out / "a", "f", 0); }), "trace_on"));  // it has stopped
  summary::trace_on();
  notify_traced(small_graph());
  summary::trace_off();
  CHECK(has(message_of([&] { summary::trace_export(out / "a", "f", 0); }), "trace_on"));
}

TEST_CASE("Trace observers come and go") {
  int heard = 0;
  int first = add_trace_observer([&](const Graph&) { ++heard; });
  int second = add_trace_observer([&](const Graph& g) { heard += 10 * int(g.nodes().size()); });
  Graph g;
  notify_traced(g);
  CHECK(heard == 1);
  remove_trace_observer(first);
  notify_traced(small_graph());
  CHECK(heard == 71);
  remove_trace_observer(second);
  notify_traced(small_graph());
  CHECK(heard == 71);
}

TEST_CASE("A folder that cannot be made") {
  Folder out;
  put_file(out / "plain", "x");
  std::string m = message_of([&] { summary::Writer log(out / "plain/logs"); });
  CHECK(has(m, "plain/logs"));
  CHECK(has(m, "Not a directory"));
}
