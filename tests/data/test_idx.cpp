// The IDX reader: good files, and every way in which a file can be bad.
#include "catch.h"
#include "io_helpers.h"
#include "rill/data.h"

using namespace rill;
using namespace std::string_literals;

namespace {

// 2x3 u8, and the same gzipped: python's gzip.compress(..., mtime=0).
const std::string plain = "\0\0\x08\x02\0\0\0\x02\0\0\0\x03\x01\x02\x03\x04\x05\xff"s;
const std::string packed(
    "\037\213\010\000\000\000\000\000\002\003\143\140\340\140\142\140\140\000\141\146\106\046\146\026\326"
    "\377\000\360\336\137\041\022\000\000\000",
    35);

std::string big_endian(uint32_t v) { return {char(v >> 24), char(v >> 16), char(v >> 8), char(v)}; }
std::string pixels_file(uint32_t n, uint32_t side, uint32_t magic = 0x803) {
  return big_endian(magic) + big_endian(n) + big_endian(side) + big_endian(side) + std::string(n * side * side, '\x07');
}
std::string labels(const std::string& values, uint32_t magic = 0x801) {
  return big_endian(magic) + big_endian(uint32_t(values.size())) + values;
}

// A folder with four good files.
struct Digits : Folder {
  Digits() {
    put_file(*this / "train-images-idx3-ubyte", pixels_file(3, 2));
    put_file(*this / "train-labels-idx1-ubyte", labels("\0\x05\x09"s));
    put_file(*this / "t10k-images-idx3-ubyte", pixels_file(1, 2));
    put_file(*this / "t10k-labels-idx1-ubyte", labels("\x01"));
  }
  std::string error() const {
    return message_of([&] { data::load_mnist(path()); });
  }
};

// Reads `bytes` as a file: right data, or an error that names the file. Gives whether it was data.
bool is_read(const Folder& folder, const std::string& bytes, const std::vector<int>& right) {
  put_file(folder / "f", bytes);
  try {
    Tensor t = data::read_idx(folder / "f");
    CHECK(t.to_vector<int>() == right);
    return true;
  } catch (const Error& e) {
    CHECK(has(e.what(), folder / "f"));
    return false;
  }
}

}  // namespace

TEST_CASE("Plain and gzipped files, every dtype") {
  Folder out;
  for (const std::string& bytes : {plain, packed}) {
    put_file(out / "f", bytes);
    Tensor t = data::read_idx(out / "f");
    CHECK(t.shape() == Shape{2, 3});
    CHECK(t.dtype() == u8);
    CHECK(t.to_vector<int>() == std::vector<int>{1, 2, 3, 4, 5, 255});
  }
  struct Case {
    char code;
    DType dtype;
    std::string bytes;
    double value;
  };
  for (const Case& c : {Case{9, i8, "\xfe", -2}, Case{11, i16, "\x01\x02", 258}, Case{12, i32, "\xff\xff\xff\xfe", -2},
                        Case{13, f32, "\x3f\xc0\0\0"s, 1.5}, Case{14, f64, "\xc0\0\0\0\0\0\0\0"s, -2}}) {
    put_file(out / "f", "\0\0"s + c.code + "\x01" + big_endian(1) + c.bytes);
    Tensor t = data::read_idx(out / "f");
    CHECK(t.dtype() == c.dtype);
    CHECK(t.to_vector<double>() == std::vector<double>{c.value});
  }
  put_file(out / "f", "\0\0\x08\0\x07"s);  // no dimensions: one element
  CHECK(data::read_idx(out / "f").shape() == Shape{});
  put_file(out / "f", "\0\0\x08\x01\0\0\0\0"s);
  CHECK(data::read_idx(out / "f").shape() == Shape{0});
}

TEST_CASE("Bad files: the message says what is wrong") {
  Folder out;
  auto error = [&](const std::string& bytes) {
    put_file(out / "f", bytes);
    std::string m = message_of([&] { data::read_idx(out / "f"); });
    CHECK(has(m, out / "f"));
    CHECK(has(m, "test_idx.cpp:"));
    CHECK(has(m, "[read_idx]"));
    return m;
  };
  CHECK(has(error(""), "truncated"));
  CHECK(has(error("PNG, not IDX"), "magic number"));
  CHECK(has(error("\0\0\x0a\x01\0\0\0\x01\0"s), "0x00000a01"));
  CHECK(has(error(plain.substr(0, 10)), "within its sizes"));
  CHECK(has(error(plain.substr(0, 17)), "5 bytes of elements. expected 6 for u8[2,3]"));
  CHECK(has(error(plain + "x"), "left over"));
  CHECK(has(error(packed + "x"), "left over"));
  // One that unpacks to far more than its sizes say is left alone as soon as that is known.
  const std::string bomb = "\x1f\x8b\x08\0\0\0\0\0\0\x03"s +
                           "\x01\xff\xff\0\0"s +  // one block of 65,535 bytes as they are
                           "\0\0\x08\x01\0\0\0\x03"s + std::string(65527, '\0') + std::string(8, '\0');
  CHECK(has(error(bomb), "longer than the 11 bytes"));
  CHECK(has(error(packed.substr(0, packed.size() - 3)), "truncated"));
  std::string bad_sum = packed;
  bad_sum[bad_sum.size() - 6] ^= 1;
  CHECK(has(error(bad_sum), "corrupt"));
  // Sizes whose product is more than 64 bits hold, and with a 0 among them.
  std::string huge = "\xff\xff\xff\xff";
  CHECK(has(error("\0\0\x08\x04"s + huge + huge + huge + huge), "far more"));
  CHECK(has(error("\0\0\x08\x04"s + huge + huge + huge + big_endian(0)), "far more"));
  CHECK(has(message_of([&] { data::read_idx(out / "none"); }), "No such file"));
  CHECK(has(message_of([&] { data::read_idx(out.path()); }), "cannot be read"));
}

TEST_CASE("Cut at any byte and flipped at any bit: an error or the right data, never a crash") {
  Folder out;
  const std::vector<int> right = {1, 2, 3, 4, 5, 255};
  for (const std::string& whole : {plain, packed}) {
    for (size_t n = 0; n < whole.size(); ++n) CHECK(!is_read(out, whole.substr(0, n), right));
    CHECK(is_read(out, whole, right));
  }
  int read = 0;
  for (size_t i = 0; i < packed.size() * 8; ++i) {
    std::string flipped = packed;
    flipped[i / 8] = char(flipped[i / 8] ^ (1 << i % 8));
    read += is_read(out, flipped, right);
  }
  CHECK(read < 80);  // only the header's time, flags and system, 8 bytes, and a few flags may change unseen
  for (size_t i = 0; i < 12 * 8; ++i) {  // the plain header: another type or size never fits the bytes
    std::string flipped = plain;
    flipped[i / 8] = char(flipped[i / 8] ^ (1 << i % 8));
    put_file(out / "f", flipped);
    std::string m = message_of([&] { data::read_idx(out / "f"); });
    CHECK((has(m, out / "f") || flipped[2] == 9));  // i8 is as long as u8
  }
}

TEST_CASE("MNIST: four files") {
  Digits d;
  data::Mnist m = data::load_mnist(d.path());
  CHECK(m.train_images.shape() == Shape{3, 2, 2});
  CHECK(m.train_images.dtype() == u8);
  CHECK(m.train_labels.dtype() == i32);
  CHECK(m.train_labels.to_vector<int>() == std::vector<int>{0, 5, 9});
  CHECK(m.test_labels.to_vector<int>() == std::vector<int>{1});
}

TEST_CASE("MNIST: what can be wrong") {
  Digits d;
  CHECK(d.error().empty());
  SECTION("a file is missing") {
    std::filesystem::remove(d / "t10k-labels-idx1-ubyte");
    CHECK(has(d.error(), "t10k-labels-idx1-ubyte"));
    CHECK(has(d.error(), "no such file"));
  }
  SECTION("the folder is missing") {
    CHECK(has(message_of([&] { data::load_mnist(d / "none"); }), "none/train-images-idx3-ubyte.gz"));
  }
  SECTION("labels where images belong") {
    put_file(d / "train-images-idx3-ubyte", labels("\1\2\3"));
    CHECK(has(d.error(), "train-images-idx3-ubyte': has the magic number 0x00000801. expected 0x00000803"));
  }
  SECTION("images where labels belong") {
    put_file(d / "t10k-labels-idx1-ubyte", pixels_file(1, 2));
    CHECK(has(d.error(), "t10k-labels-idx1-ubyte': has the magic number 0x00000803. expected 0x00000801"));
  }
  SECTION("a label that is no digit") {
    put_file(d / "train-labels-idx1-ubyte", labels("\x00\x0a\x01"s));
    CHECK(has(d.error(), "train-labels-idx1-ubyte': label 1 is 10. expected 0 to 9"));
  }
  SECTION("counts differ") {
    put_file(d / "train-labels-idx1-ubyte", labels("\1\2"));
    CHECK(has(d.error(), "has 2 labels. expected 3"));
  }
  SECTION("bytes are left over") {
    put_file(d / "t10k-images-idx3-ubyte", pixels_file(1, 2) + "x");
    CHECK(has(d.error(), "t10k-images-idx3-ubyte': has bytes left over"));
  }
  SECTION("images of the two sets differ in size") {
    put_file(d / "t10k-images-idx3-ubyte", pixels_file(1, 3));
    CHECK(has(d.error(), "u8[1,3,3]"));
  }
}

TEST_CASE("The digits that come with the examples") {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  INFO("set RILL_SOURCE_ROOT to the checkout, as `meson test` does");
  REQUIRE(root);
  std::string folder = std::string(root) + "/examples/data";
  data::Mnist m = data::load_mnist(folder);
  CHECK(m.train_images.shape() == Shape{4000, 28, 28});
  CHECK(m.test_images.shape() == Shape{1000, 28, 28});
  CHECK(m.train_labels.shape() == Shape{4000});
  std::vector<int> count(10);
  for (int label : m.train_labels.to_vector<int>()) ++count[size_t(label)];
  for (int label : m.test_labels.to_vector<int>()) ++count[size_t(label)];
  CHECK(count == std::vector<int>(10, 500));

  Folder out;  // a real file, cut and flipped
  std::string whole = contents(folder + "/t10k-labels-idx1-ubyte.gz");
  std::vector<int> right = m.test_labels.to_vector<int>();
  for (size_t n = 0; n < whole.size(); n += 7) CHECK(!is_read(out, whole.substr(0, n), right));
  for (size_t i = 0; i < whole.size(); i += 3) {
    std::string flipped = whole;
    flipped[i] = char(flipped[i] ^ 0x10);
    is_read(out, flipped, right);
  }
}
