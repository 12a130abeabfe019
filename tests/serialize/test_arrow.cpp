// Arrow IPC files and streams: those that pyarrow wrote (tests/fixtures/arrow/make.py), what we write ourselves, and
// what is refused. test_arrow.py has pyarrow read what we write.
#include <cmath>

#include "catch.h"
#include "io_helpers.h"
#include "rill/rill.h"
#include "rill/serialize.h"

using namespace rill;

namespace {

using Texts = std::vector<std::string>;

std::string fixture(const std::string& name) {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  return std::string(root ? root : ".") + "/tests/fixtures/arrow/" + name;
}
Texts texts(const Tensor& t) { return t.to_vector<std::string>(); }

void check_kinds(const Table& t) {
  REQUIRE(t.names.size() == 19);
  for (const DType d : {i8, i16, i32, i64, u8, u16, u32, u64}) {
    const Tensor column = t.at(std::string(name(d)));
    CHECK(column.dtype() == d);
    CHECK(same_bits(column, (arange(5) - (is_signed_int(d) ? 2 : 0)).astype(d)));
  }
  for (const DType d : {f16, f32, f64}) CHECK(same_bits(t.at(std::string(name(d))), (arange(5) / 4.0).astype(d)));
  CHECK(same_bits(t.at("yes"), tensor({false, true, false, true, false})));
  CHECK(texts(t.at("text")) == Texts{"", "a", "bc", "d\u00e9f", std::string("g\0h", 3)});
  CHECK(texts(t.at("large")) == Texts{"", "1", "22", "333", "4444"});
  CHECK(texts(t.at("bytes")) == Texts{"", "\xff", "\xff\xff", "\xff\xff\xff", "\xff\xff\xff\xff"});
  CHECK(texts(t.at("fixed")) == Texts{"ab", "cd", "ef", "gh", "ij"});
  CHECK(same_bits(t.at("pair"), arange(10).astype(f32).reshape({5, 2})));
  CHECK(same_bits(t.at("grid"), arange(30).astype(i64).reshape({5, 2, 3})));
  CHECK(texts(t.at("city")) == Texts{"Ulm", "Kiel", "Ulm", "Ulm", "Bonn"});
}

std::string error_of(const std::string& name, const ArrowOptions& options = {}) {
  return message_of([&] { read_arrow(fixture(name), options); });
}

}  // namespace

TEST_CASE("files and streams of several batches are read, every kind of column") {
  check_kinds(read_arrow(fixture("kinds.arrow")));
  check_kinds(read_arrow(fixture("kinds.arrows")));
  const Table legacy = read_arrow(fixture("legacy.arrows"));
  CHECK(legacy.names == Texts{"i32", "text"});
  CHECK(legacy.at("i32").to_vector<int64_t>() == std::vector<int64_t>{-2, -1, 0, 1, 2});
}

TEST_CASE("compressed columns are unpacked") {
  const Table zstd = read_arrow(fixture("zstd.arrow"));
  CHECK(zstd.at("f64").to_vector<double>() == std::vector<double>{0, 0.25, 0.5, 0.75, 1});
  CHECK(texts(zstd.at("city"))[1] == "Kiel");
  CHECK(zstd.at("pair").shape() == Shape{5, 2});
  const Table lz4 = read_arrow(fixture("lz4.feather"));
  CHECK(same_bits(lz4.at("yes"), tensor({false, true, false, true, false})));
  CHECK(texts(lz4.at("text"))[2] == "bc");
}

TEST_CASE("columns are chosen by name, in that order; others may be of any type") {
  const Table t = read_arrow(fixture("kinds.arrow"), {.columns = {"pair", "i8", "city"}});
  CHECK(t.names == Texts{"pair", "i8", "city"});
  CHECK(t.at("i8").dtype() == i8);
  CHECK(texts(t.at("city"))[4] == "Bonn");
  const Table other = read_arrow(fixture("others.arrow"), {.columns = {"number"}});
  CHECK(other.at("number").to_vector<int64_t>() == std::vector<int64_t>{10, 20});
  CHECK(has(error_of("kinds.arrow", {.columns = {"i9"}}), "has no column 'i9'. it has 'i8', 'i16'"));
}

TEST_CASE("unions, runs and structs are left out without the columns behind them") {
  const Table t = read_arrow(fixture("unions.arrow"), {.skip_others = true});
  CHECK(t.names == Texts{"number"});
  CHECK(t.at("number").to_vector<int64_t>() == std::vector<int64_t>{10, 20, 30});
  for (const char* name : {"sparse", "dense", "runs", "deep"})
    CHECK(
        has(error_of("unions.arrow", {.columns = {name}}), "the column '" + std::string(name) + "', of Arrow's type"));
}

TEST_CASE("a table without rows keeps its columns' dtypes and sizes") {
  const Table t = read_arrow(fixture("empty.arrow"));
  CHECK(t.at("i32").spec() == zeros({0}, i32).spec());
  CHECK(t.at("pair").spec() == zeros({0, 2}, f32).spec());
  CHECK(t.at("text").dtype() == DType::string);
  CHECK(t.at("city").dtype() == DType::string);
}

TEST_CASE("missing values are an error, or have a mask") {
  CHECK(has(error_of("gaps.arrow"), "the column 'n' has no value in row 1. read it with"));
  const Table t = read_arrow(fixture("gaps.arrow"), {.masks = true});
  CHECK(t.names == Texts{"n", "n.valid", "x", "x.valid", "s", "s.valid", "full", "p", "p.valid", "d", "d.valid"});
  CHECK(t.at("n").to_vector<int64_t>() == std::vector<int64_t>{1, 0, 3});
  CHECK(same_bits(t.at("n.valid"), tensor({true, false, true})));
  CHECK(std::isnan(t.at("x").to_vector<double>()[0]));
  CHECK(same_bits(t.at("x.valid"), tensor({false, true, true})));
  CHECK(texts(t.at("s")) == Texts{"a", "", "c"});
  CHECK(std::isnan(t.at("p").to_vector<double>()[3]));
  CHECK(t.at("p").to_vector<double>()[5] == 6);
  CHECK(texts(t.at("d")) == Texts{"u", "", "v"});
  CHECK(read_arrow(fixture("gaps.arrow"), {.columns = {"full"}}).at("full").to_vector<int64_t>()[2] == 9);
}

TEST_CASE("texts as views, short ones in place and long ones in buffers") {
  for (const char* name : {"views.arrow", "views.arrows"}) {
    INFO(name);
    const Table t = read_arrow(fixture(name), {.masks = true});
    CHECK(texts(t.at("s")) == Texts{"a", "exactly 12 b", "thirteen byte", "", "", std::string(40, 'x')});
    CHECK(texts(t.at("b")) == Texts{std::string(20, '\xff'), "", "", "1", std::string(13, 'y'), "2"});
    CHECK(same_bits(t.at("s.valid"), tensor({true, true, true, false, true, true})));
    CHECK(t.at("n").to_vector<int64_t>() == std::vector<int64_t>{0, 1, 2, 3, 4, 5});
    // The columns behind are found where the views are not asked for.
    CHECK(same_bits(read_arrow(fixture(name), {.columns = {"n"}}).at("n"), arange(6)));
    CHECK(has(error_of(name), "has no value in row"));
  }
}

TEST_CASE("views that are damaged are refused") {
  Folder out;
  const std::string bytes = contents(fixture("views.arrow"));
  // The view of "thirteen byte": its length, its beginning, the number of its buffer and where it is there.
  const size_t view = bytes.find(std::string("\x0d\0\0\0thir", 8));
  REQUIRE(view != bytes.npos);
  const auto error_with = [&](size_t at, const std::string& word) {
    std::string damaged = bytes;
    damaged.replace(view + at, word.size(), word);
    put_file(out / "damaged.arrow", damaged);
    return message_of([&] { read_arrow(out / "damaged.arrow", {.masks = true}); });
  };
  for (const auto& [at, word] : std::vector<std::pair<size_t, std::string>>{{0, std::string("\xff\xff\xff\xff", 4)},
                                                                            {0, std::string("\xff\xff\xff\x7f", 4)},
                                                                            {8, "\x01"},
                                                                            {8, "\xff\xff\xff\xff"},
                                                                            {12, "\x7f"},
                                                                            {12, "\xff\xff\xff\xff"}})
    CHECK(has(error_with(at, word), "the column 's', of Arrow's type Utf8View, row 2: the text of"));
}

TEST_CASE("a column without any value is one of missing numbers") {
  CHECK(has(error_of("others.arrow", {.columns = {"none"}}), "the column 'none' has no value in row 0"));
  const Table t = read_arrow(fixture("others.arrow"), {.columns = {"none", "number"}, .masks = true});
  CHECK(t.at("none").dtype() == f64);
  CHECK(same_bits(isnan(t.at("none")), tensor({true, true})));
  CHECK(same_bits(t.at("none.valid"), tensor({false, false})));
  CHECK(t.at("number").to_vector<int64_t>() == std::vector<int64_t>{10, 20});
}

TEST_CASE("a stream's dictionaries grow and are replaced") {
  CHECK(texts(read_arrow(fixture("delta.arrows")).at("d")) == Texts{"a", "b", "a", "b", "c", "z"});
}

TEST_CASE("columns with one dictionary have values of one type") {
  CHECK(has(error_of("shared.arrows"), "the columns 'a' and 'b' share dictionary 0, and have values of different"));
  CHECK(read_arrow(fixture("shared.arrows"), {.columns = {"a"}}).at("a").dtype() == i8);
}

TEST_CASE("a dictionary without values has columns of missing values alone") {
  const Table t = read_arrow(fixture("unused.arrows"), {.masks = true});
  const std::vector<double> x = t.at("x").to_vector<double>();
  REQUIRE(x.size() == 4);
  for (const double value : x) CHECK(std::isnan(value));
  CHECK(texts(t.at("s")) == Texts(4));
  CHECK(same_bits(t.at("x.valid"), full({4}, false)));
}

TEST_CASE("a missing value of a dictionary for which no row stands is none of the column's") {
  const Table t = read_arrow(fixture("unasked.arrows"));
  CHECK(same_bits(t.at("x"), tensor({1.5, 2.5, 2.5})));
  CHECK(read_arrow(fixture("unasked.arrows"), {.masks = true}).names == std::vector<std::string>{"x"});
}

TEST_CASE("lists of lists of texts keep all of them") {
  const Tensor words = read_arrow(fixture("words.arrows")).at("w");
  CHECK(words.shape() == Shape{2, 3, 2});
  CHECK(texts(words)[11] == "11");
}

TEST_CASE("dates, times and durations are the numbers of their units") {
  using Wholes = std::vector<int64_t>;
  const Table t = read_arrow(fixture("times.arrow"), {.masks = true});
  CHECK(t.at("day").to_vector<int64_t>() == Wholes{-1, 0, 20000});
  CHECK(t.at("milliday").to_vector<int64_t>() == Wholes{0, 86400000, -86400000});
  CHECK(t.at("stamp").to_vector<int64_t>() == Wholes{1, 0, -(int64_t(1) << 60)});
  CHECK(t.at("stamp.valid").to_vector<int>() == std::vector<int>{1, 0, 1});
  CHECK(t.at("second").to_vector<int64_t>() == Wholes{1, 2, 86399});
  CHECK(t.at("micro").to_vector<int64_t>() == Wholes{1, 2, 3});
  CHECK(t.at("span").to_vector<int64_t>() == Wholes{-5, 0, 5});
}

TEST_CASE("what rill has no dtype for is refused by name") {
  for (const char* name : {"when", "any", "deep"})
    CHECK(
        has(error_of("others.arrow", {.columns = {name}}), "the column '" + std::string(name) + "', of Arrow's type"));
  CHECK(has(error_of("old.feather"), "Feather file of version 1"));
  CHECK(has(error_of("none.arrow"), "none.arrow"));
}

TEST_CASE("what is written is read again with the same bits") {
  Folder out;
  const Table t{{"x", "n", "h", "yes", "text", "bytes", "grid", "words"},
                {tensor({0.5, double(NAN), double(INFINITY)}), tensor({int64_t(1), INT64_MIN, INT64_MAX}),
                 tensor({1.f, 2.f, 3.f}).astype(f16), tensor({true, false, true}), tensor({"a", "", "d\u00e9f"}),
                 tensor({"\xff", "\xfe", ""}), arange(18).astype(u8).reshape({3, 2, 3}),
                 tensor({{"a", "b"}, {"c", "d"}, {"e", "f"}})}};
  for (const char* name : {"t.arrow", "t.arrows"}) {
    write_arrow(out / name, t);
    const Table back = read_arrow(out / name);
    CHECK(back.names == t.names);
    for (size_t i = 0; i < t.columns.size(); ++i) {
      CHECK(back.columns[i].spec() == t.columns[i].spec());
      if (t.columns[i].dtype() == DType::string) CHECK(texts(back.columns[i]) == texts(t.columns[i]));
      else CHECK(same_bits(back.columns[i], t.columns[i]));
    }
  }
  CHECK(contents(out / "t.arrow").substr(0, 6) == "ARROW1");
  CHECK(contents(out / "t.arrows").substr(0, 4) == "\xff\xff\xff\xff");
  write_arrow(out / "view.arrow", {{"v"}, {arange(12).reshape({3, 4}).T()}});
  CHECK(same_bits(read_arrow(out / "view.arrow").at("v"), arange(12).reshape({3, 4}).T().contiguous()));
  write_arrow(out / "no.arrow", {});
  CHECK(read_arrow(out / "no.arrow").names.empty());
  write_arrow(out / "rows.arrow", {{"v", "w"}, {zeros({0}), zeros({0, 2}, i8)}});
  CHECK(read_arrow(out / "rows.arrow").at("w").spec() == zeros({0, 2}, i8).spec());
}

TEST_CASE("tables that Arrow cannot hold are errors") {
  Folder out;
  const auto error = [&](const Table& t) { return message_of([&] { write_arrow(out / "t.arrow", t); }); };
  CHECK(has(error({{"x", "y"}, {zeros({2})}}), "2 names for 1 columns"));
  CHECK(has(error({{"x", "y"}, {zeros({2}), zeros({3})}}), "'y' is f32[3]. columns have an axis of rows"));
  CHECK(has(error({{"x"}, {full({}, 1.f)}}), "columns have an axis of rows"));
  CHECK(has(error({{"x"}, {zeros({2}, bf16)}}), "Arrow has no such dtype"));
  CHECK(has(error({{"x"}, {zeros({2}, c64)}}), "Arrow has no such dtype"));
  CHECK(has(error({{"x"}, {zeros({2, 0})}}), "lists have from 1"));
  CHECK(out.names().empty());
}

TEST_CASE("a file that is cut anywhere is an error") {
  Folder out;
  for (const char* name : {"kinds.arrow", "zstd.arrow", "lz4.feather", "views.arrow"}) {
    const std::string bytes = contents(fixture(name));
    for (size_t n = 0; n < bytes.size(); n += 13) {
      put_file(out / "cut.arrow", bytes.substr(0, n));
      CHECK(has(message_of([&] { read_arrow(out / "cut.arrow"); }), "[read_arrow]"));
    }
  }
}

// Damaged by fuzz_files: the lists of blocks and of buffers begin where no struct may lie, which a build under
// sanitizers sees.
TEST_CASE("lists that are not aligned are refused for what they hold") {
  CHECK(has(error_of("blocks.feather"), "a record batch at byte 1125899907366920 of 922"));
  CHECK(has(error_of("buffers.feather"), "a buffer of 176093659136 bytes from byte 0 on"));
}

TEST_CASE("a column of several elements a row is not stacked") {
  const Table t = read_arrow(fixture("kinds.arrow"));
  CHECK(t.stacked({"i8", "f32"}).shape() == Shape{5, 2});
  CHECK(has(message_of([&] { t.stacked({"i8", "pair"}); }), "name the columns that have one axis"));
}
