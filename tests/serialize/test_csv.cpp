// CSV files into tensors and back: what RFC 4180 says, and which dtypes columns get. test_records.py has pandas' and
// pyarrow's word for it.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "catch.h"
#include "io_helpers.h"
#include "rill/rill.h"
#include "rill/serialize.h"

using namespace rill;

namespace {

using Texts = std::vector<std::string>;
using Wholes = std::vector<int64_t>;

Table table_of(const std::string& text, const CsvOptions& options = {}) {
  Folder out;
  put_file(out / "t.csv", text);
  return read_csv(out / "t.csv", options);
}

std::string error_of(const std::string& text, const CsvOptions& options = {}) {
  return message_of([&] { table_of(text, options); });
}

}  // namespace

TEST_CASE("integers lose no digits") {
  const Table t = table_of(
      "gap,small,signs,huge,even,real\n"
      "9007199254740993,9007199254740992,-1,18446744073709551617,18446744073709551616,9007199254740993\n"
      ",,18446744073709551615,1,1,0.5\n");
  CHECK(t.at("gap").to_vector<std::string>() == Texts{"9007199254740993", ""});
  CHECK(t.at("small").dtype() == f64);  // which holds each of them
  CHECK(std::isnan(t.at("small").to_vector<double>()[1]));
  CHECK(t.at("signs").to_vector<std::string>()[1] == "18446744073709551615");
  CHECK(t.at("huge").to_vector<std::string>()[0] == "18446744073709551617");
  CHECK(t.at("even").to_vector<double>() == std::vector<double>{0x1p64, 1});
  CHECK(t.at("real").dtype() == f64);  // fractions are rounded anyway
}

TEST_CASE("Columns become i64, u64, f64, bool or string") {
  const Table t = table_of(
      "id,price,yes,name,gap,big\r\n"
      "1,2.5,true,\"a, \"\"b\"\"\",3,9223372036854775808\r\n"
      "-2,1e3,False,\"two\nlines\",,1\r\n"
      "+3, inf ,TRUE,,NA,2\r\n");
  CHECK(t.names == Texts{"id", "price", "yes", "name", "gap", "big"});
  CHECK(t.at("id").dtype() == i64);
  CHECK(t.at("id").to_vector<int64_t>() == Wholes{1, -2, 3});
  CHECK(t.at("price").dtype() == f64);
  CHECK(t.at("price").to_vector<double>() == std::vector<double>{2.5, 1000, INFINITY});
  CHECK(t.at("yes").dtype() == DType::boolean);
  CHECK(t.at("yes").to_vector<int64_t>() == Wholes{1, 0, 1});
  CHECK(t.at("name").to_vector<std::string>() == Texts{"a, \"b\"", "two\nlines", ""});
  const auto gap = t.at("gap").to_vector<double>();
  CHECK((gap[0] == 3 && std::isnan(gap[1]) && std::isnan(gap[2])));
  CHECK(t.at("big").dtype() == u64);
  CHECK(t.at("big").to_vector<uint64_t>()[0] == 9223372036854775808u);
  CHECK(t.stacked({"id", "price"}).shape() == Shape{3, 2});
  CHECK(t.stacked({"id", "price"}, f64).to_vector<double>() == std::vector<double>{1, 2.5, -2, 1000, 3, INFINITY});
  CHECK(has(message_of([&] { t.stacked(); }), "'name' holds texts"));
  CHECK(has(message_of([&] { t.at("nam"); }), "'id', 'price'"));
}

TEST_CASE("Columns of one name are not taken for one another") {
  const Table t = table_of("a,b,a\n1,2,3\n");
  CHECK(t.stacked({}, i64).to_vector<int64_t>() == Wholes{1, 2, 3});
  const std::string why = message_of([&] { t.at("a"); });
  CHECK(has(why, "[Table.at] columns 0 and 2 are both named 'a'"));
  CHECK(has(message_of([&] { t.stacked({"a", "b"}); }), "both named 'a'"));
  CHECK(t.at("b").to_vector<int64_t>() == Wholes{2});
}

TEST_CASE("Numbers have every bit of their text, extremes too") {
  const Table t =
      table_of("x,y\n0.1,9223372036854775807\n5e-324,-9223372036854775808\n1e999,0\n-1e999,0\n1e-999,0\n.5,0\n5.,0\n");
  CHECK(t.at("x").to_vector<double>() == std::vector<double>{0.1, 5e-324, INFINITY, -INFINITY, 0, 0.5, 5});
  CHECK(t.at("y").to_vector<int64_t>()[0] == INT64_MAX);
  CHECK(t.at("y").to_vector<int64_t>()[1] == INT64_MIN);
  for (const char* text : {"0x10", "1 2", "--1", "+-1", "1e", "e5", "1,5"})
    CHECK(table_of(std::string("x\n\"") + text + "\"\n").at("x").dtype() == DType::string);
}

// Short numbers are read without from_chars(): the C library has the word of what their bits are.
TEST_CASE("Numbers of any length and point have the bits that strtod and strtof give them") {
  uint64_t seed = 1;
  const auto draw = [&](uint64_t n) {
    return (seed = seed * 6364136223846793005u + 1442695040888963407u, seed >> 33) % n;
  };
  std::string text = "x\n";
  std::vector<double> f64s;
  std::vector<float> f32s;
  for (int i = 0; i < 100'000; ++i) {
    std::string number = draw(2) ? "-" : "";
    const uint64_t before = draw(12), behind = draw(2) ? draw(12) : 0;
    for (uint64_t k = 0; k < before; ++k) number += char('0' + draw(10));
    if (before == 0 || behind > 0) number += '.';
    for (uint64_t k = 0; k < std::max<uint64_t>(behind, before == 0); ++k) number += char('0' + draw(10));
    if (draw(8) == 0) number += "e" + std::to_string(int(draw(40)) - 20);
    text += number + "\n";
    f64s.push_back(std::strtod(number.c_str(), nullptr));
    f32s.push_back(std::strtof(number.c_str(), nullptr));
  }
  const std::vector<double> wide = table_of(text, {.dtypes = {{"x", f64}}}).at("x").to_vector<double>();
  const std::vector<float> narrow = table_of(text, {.dtypes = {{"x", f32}}}).at("x").to_vector<float>();
  CHECK(std::memcmp(wide.data(), f64s.data(), 8 * f64s.size()) == 0);
  CHECK(std::memcmp(narrow.data(), f32s.data(), 4 * f32s.size()) == 0);
  for (const char* none : {"-", ".", "-.", "1-", "1..2"})
    CHECK(table_of(std::string("x\n") + none + "\n").at("x").dtype() == DType::string);
}

TEST_CASE("Shapes of files: no header, other separators, no last line end, a mark, empty lines, nothing") {
  CHECK(table_of("1;2\n3;4", {.delimiter = ';', .header = false}).names == Texts{"0", "1"});
  CHECK(table_of("1\t2\n3\t4", {.delimiter = '\t', .header = false}).at("1").to_vector<int64_t>() == Wholes{2, 4});
  CHECK(table_of("\xEF\xBB\xBF"
                 "a\n1\n\n2\n")
            .at("a")
            .to_vector<int64_t>() == Wholes{1, 2});
  for (const std::string& wide : {std::string("\xFF\xFE"
                                              "a\0\n\0"
                                              "1\0\n\0",
                                              10),
                                  std::string("\xFE\xFF"
                                              "\0a\0\n\0"
                                              "1\0\n",
                                              10)})
    CHECK(has(message_of([&] { table_of(wide); }), "the text is UTF-16"));
  CHECK(table_of("a,b\n'1,2',3\n", {.quote = '\''}).at("a").to_vector<std::string>() == Texts{"1,2"});
  CHECK(table_of("", {.header = false}).names.empty());
  for (const char* nothing : {"", "\n\n"})
    CHECK(has(message_of([&] { table_of(nothing); }), "is empty: expected a header"));
  CHECK(table_of("a,b\n").at("b").size() == 0);
  CHECK(table_of("a,a\n1,2\n").columns[1].to_vector<int64_t>() == Wholes{2});
}

TEST_CASE("Dtypes that are asked for, and texts that they do not take") {
  const std::string text = "a,b,c\n1,0.5,x\n2,NA,y\n";
  const Table t = table_of(text, {.dtypes = {{"a", f32}, {"b", f16}, {"c", DType::string}}});
  CHECK(t.at("a").dtype() == f32);
  CHECK(t.at("b").dtype() == f16);
  CHECK(table_of("a\n18446744073709551615\n", {.dtypes = {{"a", u64}}}).at("a").to_vector<uint64_t>()[0] == UINT64_MAX);
  CHECK(table_of("a\n1\n0\n", {.dtypes = {{"a", DType::boolean}}}).at("a").dtype() == DType::boolean);
  CHECK(table_of("a\n007\n", {.dtypes = {{"a", DType::string}}}).at("a").to_vector<std::string>() == Texts{"007"});
  CHECK(has(error_of(text, {.dtypes = {{"b", i64}}}), "row 2: '0.5' in the column 'b' is no i64"));
  CHECK(has(error_of("a\n1\n300\n", {.dtypes = {{"a", u8}}}), "row 3: '300'"));
  CHECK(has(error_of("a\n-129\n", {.dtypes = {{"a", i8}}}), "'-129'"));
  CHECK(table_of("a\n-128\n127\n", {.dtypes = {{"a", i8}}}).at("a").to_vector<int64_t>() == Wholes{-128, 127});
  CHECK(has(error_of("a\n2\n", {.dtypes = {{"a", DType::boolean}}}), "no bool"));
  CHECK(has(error_of(text, {.dtypes = {{"d", i64}}}), "no column 'd'"));
  CHECK(has(error_of(text, {.dtypes = {{"a", c64}}}), "cannot be read as c64"));
}

TEST_CASE("Broken files: the row and the reason") {
  CHECK(has(error_of("a,b\n1,2\n3\n"), "row 3: has 1 fields. expected 2"));
  CHECK(has(error_of("a,b\n1,2,3\n"), "row 2: has 3 fields"));
  CHECK(has(error_of("a\n\"never ends\n1\n"), "quotes"));
  CHECK(has(error_of("a\n\"x\"y\n"), "quotes"));
  CHECK(has(message_of([] { read_csv("/nowhere.csv"); }), "No such file"));
  CHECK(has(error_of("a\n", {.delimiter = '"'}), "two different"));
}

TEST_CASE("Written tables read back as they were") {
  Folder out;
  const Table t = {
      {"id", "x", "single", "ok", "text, with", "n"},
      {tensor({int64_t(1), INT64_MIN, int64_t(7)}), tensor({0.1, 1e300, double(NAN)}), tensor({0.1f, 3.f, -2.5f}),
       tensor({true, false, true}), tensor({"", " a ", "line\r\n\"quoted\""}), tensor({1, 2, 3}, u8)}};
  write_csv(out / "t.csv", t);
  const Table back = read_csv(out / "t.csv", {.dtypes = {{"single", f32}, {"n", u8}}});
  CHECK(back.names == t.names);
  for (size_t i : {0u, 3u, 4u, 5u}) CHECK(to_string(back.columns[i]) == to_string(t.columns[i]));
  CHECK(back.at("x").to_vector<double>()[0] == 0.1);
  CHECK(std::isnan(back.at("x").to_vector<double>()[2]));
  CHECK(back.at("single").to_vector<float>() == t.at("single").to_vector<float>());
  CHECK(has(contents(out / "t.csv"), "0.1,0.1,true"));  // the fewest digits of each width

  CHECK(has(message_of([&] { write_csv(out / "u.csv", {{"a", "b"}, {zeros({2}), zeros({3})}}); }), "'b' is f32[3]"));
  CHECK(has(message_of([&] { write_csv(out / "u.csv", {{"a"}, {}}); }), "1 names for 0"));
  const Table unnamed{{"a", "b"}, {zeros({2})}};
  CHECK(has(message_of([&] { unnamed.at("b"); }), "[Table.at] the table has 2 names for 1 columns"));
  CHECK(has(message_of([&] { unnamed.stacked(); }), "[Table.stacked] the table has 2 names for 1 columns"));
  CHECK(has(message_of([&] { write_csv(out / "u.csv", {{"a"}, {zeros({2, 2})}}); }), "one dimension"));
  CHECK(out.names() == Texts{"t.csv"});
}

TEST_CASE("A part of numbers is no delimiter and no quote") {
  const Folder out;
  const Table t{{"a"}, {tensor({11., 121.})}};
  for (char c : {'1', '.', '-', '+', 'n', 'e'}) {
    CHECK(has(message_of([&] { write_csv(out / "t.csv", t, {.delimiter = c}); }), "a part of numbers"));
    CHECK(has(message_of([&] { write_csv(out / "t.csv", t, {.quote = c}); }), "a part of numbers"));
    CHECK(has(error_of("a\n1\n", {.quote = c}), "a part of numbers"));
  }
}

TEST_CASE("What stands for no value may look like one") {
  const std::string text = "a,b\n-999,true\n5,false\n";
  const Table t = table_of(text, {.missing = {"-999"}});
  CHECK(std::isnan(t.at("a")(0).item<double>()));
  CHECK(t.at("a")(1).item<double>() == 5);
  CHECK(has(error_of(text, {.dtypes = {{"a", i64}}, .missing = {"-999"}}), "row 2"));
}
