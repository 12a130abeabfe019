// Sources that read lines, records and CSV: what they give, how they are resumed, and what they say of files that are
// wrong. Lists of files are in test_data.cpp, arrays, columns and sounds in test_data_arrays.cpp.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "catch.h"
#include "data_files.h"
#include "io_helpers.h"
#include "messages.h"
#include "rill/data.h"
#include "rill/rill.h"
#include "rill/serialize.h"

using namespace rill;

namespace {

bool same_text(const Tensor& a, const Tensor& b) { return a.item<std::string>() == b.item<std::string>(); }

struct House {
  float area;
  int64_t rooms;
  std::string city;
  std::optional<double> price;
};

struct Columns {
  Tensor rooms, area;
};

constexpr const char* houses =
    "rooms,area,city,price\n"
    "2,41.5,Ulm,100\n"
    "\n"
    "3,72,\"Kiel, \"\"Nord\"\"\",\r\n"
    "4,90.25,\"two\nlines\",3e2\n"
    "1,NaN,,NA";

void put_houses(const std::string& path) { put_file(path, houses); }

}  // namespace

// --- Lines and records -----------------------------------------------------------------------------------------------

TEST_CASE("data files: lines, whatever they end in and the file is packed by") {
  Folder folder;
  std::string text;
  Texts lines;
  for (int i = 0; i < 30000; ++i) {
    lines.push_back(std::string(size_t(i * 7 % 40), 'x') + std::to_string(i));
    text += lines.back() + (i % 3 ? "\n" : "\r\n");
  }
  text += "last", lines.push_back("last");
  put_file(folder / "a.txt", text);
  put_file(folder / "a.txt.gz", gzipped(text.substr(0, 300000)) + gzipped(text.substr(300000)));
  put_file(folder / "a.txt.zst", zstd_of(text.substr(0, 300000)) + zstd_of(text.substr(300000)));
  for (const char* name : {"a.txt", "a.txt.gz", "a.txt.zst"}) {
    INFO(name);
    const auto ds = data::text_lines(folder / name);
    CHECK(texts_of(ds) == lines);
    CHECK(texts_of(ds.batch(4096).unbatch()) == lines);
    check_resumes(ds.skip(29900), same_text);
    check_resumes(ds.batch(997), [](const Tensor& a, const Tensor& b) { return array_equal(a, b); });
  }
  const auto all = data::text_lines({folder / "a.txt", folder / "a.txt.gz"});
  CHECK(all.count() == 60002);
  CHECK(all.skip(30001).first().item<std::string>() == lines[0]);
  CHECK(all.batch(20000).collect()[1].dim(0) == 20000);  // over the end of a file
  put_file(folder / "empty.txt", "");
  put_file(folder / "lines.txt", "\n\na\n");
  CHECK(texts_of(data::text_lines({folder / "empty.txt", folder / "lines.txt"})) == Texts{"", "", "a"});
}

TEST_CASE("data files: a packed file that is cut or damaged says so, behind the lines before") {
  Folder folder;
  std::string text;
  for (int i = 0; i < 20000; ++i) text += std::to_string(i) + "\n";
  for (const std::string& packed : {gzipped(text), zstd_of(text)}) {
    put_file(folder / "cut", packed.substr(0, packed.size() - 9));
    auto it = data::text_lines(folder / "cut").iterator();
    int64_t n = 0;
    const std::string wrong = message_of([&] {
      while (it.next()) ++n;
    });
    CHECK(has(wrong, "cut' at byte"));
    CHECK(has(wrong, "of what is unpacked"));
    CHECK(n > 1000);
    CHECK(!it.next());  // once
    const std::string rest_of = packed.substr(0, packed.size() / 2);
    for (const std::string& part : {packed.substr(0, packed.size() - 1), rest_of}) {  // of rows as of lines
      put_file(folder / "cut", part);
      auto rows = data::csv<int64_t>(folder / "cut", {.header = false}).iterator();
      int64_t good = 0;
      const std::string why = message_of([&] {
        while (rows.next()) ++good;
      });
      CHECK(has(why, "of what is unpacked"));
      CHECK(good > 1000);
    }
    std::string broken = packed;
    broken[packed.size() / 2] = char(broken[packed.size() / 2] ^ 0x55);
    put_file(folder / "cut", broken.substr(0, 6) + "~~~~" + broken.substr(10));
    CHECK(has(message_of([&] { data::text_lines(folder / "cut").count(); }), "damaged"));
  }
  put_file(folder / "good.txt", "a\n");
  const auto both = data::text_lines({folder / "none.txt", folder / "good.txt"});
  CHECK(has(message_of([&] { both.count(); }), "none.txt"));
  CHECK(both.ignore_errors({.log = false}).count() == 1);
}

TEST_CASE("data files: patterns") {
  Folder folder;
  for (const char* name : {"a/1.txt", "a/2.csv", "b/c/3.txt", "b/c/x{y", "b/z.log"}) {
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    put_file(folder / name, std::string(name) + "\n");
  }
  const auto found = [&](const std::string& pattern) {
    Texts names = texts_of(data::list_files(folder / pattern));
    for (std::string& n : names) n = n.substr(folder.path().size() + 1);
    return names;
  };
  CHECK(found("**/*.txt") == Texts{"a/1.txt", "b/c/3.txt"});
  CHECK(found("{a,b}/**/*.{txt,csv}") == Texts{"a/1.txt", "a/2.csv", "b/c/3.txt"});
  CHECK(found("{a/[12].*,b/z.log}") == Texts{"a/1.txt", "a/2.csv", "b/z.log"});
  CHECK(found("{a,b/{c,d}}/*t") == Texts{"a/1.txt", "b/c/3.txt"});
  CHECK(found("b/**").size() == 3);
  CHECK(found("b/c/x{y") == Texts{"b/c/x{y"});  // braces that do not fit are none
  CHECK(texts_of(data::text_lines(folder / "*/*.txt")) == Texts{"a/1.txt"});
  CHECK(texts_of(data::text_lines(folder / "b/c/x{y")) == Texts{"b/c/x{y"});
  CHECK(texts_of(data::text_lines(tensor({folder / "a/1.txt", folder / "b/z.log"}))) == Texts{"a/1.txt", "b/z.log"});
  CHECK(has(message_of([&] { data::text_lines(folder / "*.md"); }), "[data::text_lines] no file matches"));
  CHECK(has(message_of([&] { data::text_lines(Texts()); }), "there are no files"));
  CHECK(has(message_of([&] { data::text_lines(arange(3)); }), "paths are strings"));
  const auto shuffled = texts_of(data::list_files(folder / "**/*.{txt,csv,log}", {.shuffle = true, .seed = 5}));
  CHECK(shuffled == texts_of(data::list_files(folder / "**/*.{txt,csv,log}", {.shuffle = true, .seed = 5})));
  CHECK(shuffled.size() == 4);
}

TEST_CASE("data files: records are read in batches, skipped without their sums, and resumed by place") {
  Folder folder;
  Texts bytes;
  for (const Compression c : {Compression::none, Compression::gzip, Compression::zlib}) {
    RecordWriter out(folder / ("r" + std::to_string(int(c))), {.compression = c});
    bytes.clear();
    for (int i = 0; i < 500; ++i) {
      bytes.push_back(make_example({{"x", full({3}, i, f32)}, {"label", tensor({int64_t(i)})}}));
      out.write(bytes.back());
    }
    out.close();
  }
  put_file(folder / "r3", zstd_of(contents(folder / "r0")));
  for (int c = 0; c < 4; ++c) {
    INFO(c);
    const auto ds = data::tfrecords(folder / ("r" + std::to_string(c)));
    CHECK(texts_of(ds) == bytes);
    check_resumes(ds, same_text);
    const auto parsed = ds.batch(64).map([](const Tensor& records) {
      ParsedExamples p = parse_examples(records, {{"x", fixed_feature(f32, {3})}, {"label", fixed_feature(i64)}});
      return std::pair(p.tensors.at("x"), p.tensors.at("label"));
    });
    int64_t next = 0;
    for (const auto& [x, label] : parsed) {
      CHECK(array_equal(slice_axis(x, 1, 1, 2).reshape({-1}), label.astype(f32)));
      CHECK(label.item<int64_t>(0) == next);
      next += label.dim(0);
    }
    CHECK(next == 500);
  }
  std::string damaged = contents(folder / "r0");
  damaged[damaged.size() - 6] ^= 1;
  put_file(folder / "bad", damaged);
  const auto bad = data::tfrecords({folder / "bad", folder / "r0"});
  const std::string wrong = message_of([&] { bad.count(); });
  CHECK(has(wrong, "bad' at byte"));
  CHECK(has(wrong, "record 499"));
  CHECK(bad.ignore_errors({.log = false}).count() == 999);
  CHECK(bad.skip(500).count() == 500);
  CHECK(bad.ignore_errors({.log = false}).batch(100).count() == 10);
}

// --- CSV -------------------------------------------------------------------------------------------------------------

TEST_CASE("data files: rows of CSV files are structs, tuples, values and tables") {
  Folder folder;
  put_houses(folder / "h.csv");
  const std::vector<House> all = data::csv<House>(folder / "h.csv").collect();
  REQUIRE(all.size() == 4);
  CHECK(all[0].rooms == 2);
  CHECK(all[0].area == 41.5f);
  CHECK(all[0].price == 100.0);
  CHECK(all[1].city == "Kiel, \"Nord\"");
  CHECK(!all[1].price);
  CHECK(all[2].city == "two\nlines");
  CHECK(all[2].price == 300);
  CHECK(std::isnan(all[3].area));
  CHECK(!all[3].price);

  const Table t = data::csv(folder / "h.csv").batch(10).first(), read = read_csv(folder / "h.csv");
  CHECK(t.names == read.names);
  for (size_t i = 0; i < t.columns.size(); ++i) {
    CHECK(t.columns[i].dtype() == read.columns[i].dtype());
    if (t.columns[i].dtype() == rill::string)
      CHECK(t.columns[i].to_vector<std::string>() == read.columns[i].to_vector<std::string>());
    else CHECK(array_equal(nan_to_num(t.columns[i].astype(f64), -1), nan_to_num(read.columns[i].astype(f64), -1)));
  }
  const Table row = data::csv(folder / "h.csv").skip(1).first();
  CHECK(row.at("rooms").item<int64_t>() == 3);
  CHECK(row.at("area").shape() == Shape{});

  int64_t rows = 0;
  for (const auto& [rooms, area] : data::csv<Columns>(folder / "h.csv").batch(3)) {
    CHECK(area.dtype() == f64);
    rows += rooms.dim(0);
  }
  CHECK(rows == 4);
  using Pair = std::pair<float, int64_t>;
  const auto pairs = data::csv<Pair>(folder / "h.csv", {.columns = {"area", "rooms"}});
  CHECK(pairs.first() == Pair(41.5f, 2));
  const auto [area, rooms] = pairs.batch(4).first();
  CHECK(rooms.dtype() == i64);
  CHECK(area.dtype() == f32);
  CHECK(sum(rooms).item<int64_t>() == 10);
  CHECK(data::csv<std::string>(folder / "h.csv", {.columns = {"city"}}).collect()[3] == "");
  put_file(folder / "empty.csv", "");
  for (const data::Paths& paths :
       {data::Paths(folder / "empty.csv"), data::Paths{folder / "h.csv", folder / "empty.csv"}})
    CHECK(has(message_of([&] { data::csv<House>(paths).collect(); }), "empty.csv' is empty: expected a header"));
  CHECK(data::csv<int64_t>(folder / "empty.csv", {.header = false}).collect().empty());
  CHECK(data::csv(folder / "h.csv", {.columns = {"price"}, .dtypes = {{"price", f32}}}).first().columns[0].dtype() ==
        f32);
}

TEST_CASE("data files: options of CSV") {
  Folder folder;
  const std::string path = folder / "o.csv";
  put_file(path, "made by hand\n# a comment\na;b;c\n1;'x;y';\n# another\n2;z;7\n");
  const data::CsvRowOptions o = {
      .delimiter = ';', .quote = '\'', .comment = '#', .skip_lines = 1, .defaults = {{"c", "-1"}}};
  using Row = std::tuple<int32_t, std::string, int8_t>;
  CHECK(data::csv<Row>(path, o).collect() == std::vector<Row>{{1, "x;y", -1}, {2, "z", 7}});
  put_file(path, "1,2\n3,4\n");
  using Two = std::pair<int64_t, int64_t>;
  CHECK(data::csv<Two>(path, {.header = false}).collect() == std::vector<Two>{{1, 2}, {3, 4}});
  CHECK(data::csv<int64_t>(path, {.header = false, .columns = {"1"}}).collect() == std::vector<int64_t>{2, 4});
  CHECK(data::csv(path, {.header = false}).first().names == Texts{"0", "1"});
  put_file(path, "a,b\n1,\n,2.5\n");
  const Table filled = data::csv(path, {.defaults = {{"a", "0"}}}).batch(2).first();
  CHECK(filled.at("a").dtype() == i64);
  CHECK(filled.at("b").dtype() == f64);
  put_file(path, "a,b\r1,2\r3,4\r");  // the ends of lines of old Macs
  CHECK(data::csv<Two>(path).collect() == std::vector<Two>{{1, 2}, {3, 4}});
  put_file(path, "a,b\r\n1,\"\"\r\n3,");
  CHECK(data::csv<std::pair<int64_t, std::optional<std::string>>>(path).collect() ==
        std::vector<std::pair<int64_t, std::optional<std::string>>>{{1, ""}, {3, {}}});
  put_file(path,
           "\xEF\xBB\xBF"
           "a,t\n1,true\n2,0\n");
  CHECK(data::csv<std::pair<int64_t, bool>>(path).collect() ==
        std::vector<std::pair<int64_t, bool>>{{1, true}, {2, false}});
  put_file(path, std::string("\xFF\xFE"
                             "a\0\n\0"
                             "1\0\n\0",
                             10));
  CHECK(has(message_of([&] { data::csv(path).count(); }), "line 1: the text is UTF-16"));
  put_file(path, "a\n");
  CHECK(data::csv(path).count() == 0);
  put_file(path, "");
  CHECK(has(message_of([&] { data::csv(path).count(); }), "is empty: expected a header"));
  CHECK(data::csv<Two>(path, {.header = false}).count() == 0);
  // Columns are found by name in each file; one that has no rows says nothing of dtypes.
  put_file(folder / "1.csv", "b,a\n");
  put_file(folder / "2.csv", "a,b\n1,2.5\n");
  put_file(folder / "3.csv", "b,a\n3.5,4\n");
  const Table both = data::csv(folder / "[123].csv", {.columns = {"a", "b"}}).batch(5).first();
  CHECK(array_equal(both.at("a"), tensor({int64_t(1), int64_t(4)})));
  CHECK(array_equal(both.at("b"), tensor({2.5, 3.5})));
}

namespace {

// A file of random rows, of which some are not as they should be where `bad` is not 0.
std::string random_csv(std::mt19937& draw, int rows, int bad) {
  const auto n = [&](unsigned most) { return int(draw() % most); };
  const char* const ends[] = {"\n", "\r\n", "\r"};
  const char* const texts[] = {
      "x", "\"a, b\"", "\"say \"\"hi\"\"\"", "\"two\nlines\"", "", "\"\"", "a text of thirty characters, ...", "nan"};
  const char* const wrong[] = {"\"a\"b", "a\"b", "1,2", "--", "1e", "99999999999999999999"};
  const std::string end = ends[n(3)];
  std::string text = "i,x,t\n";
  for (int row = 0; row < rows; ++row) {
    if (n(50) == 0) text += end;
    text += (n(2) ? "-" : "") + std::to_string(unsigned(draw()) >> n(32)) + ",";
    if (n(30) != 0)
      text += (n(2) ? "-" : "") + std::to_string(draw() >> n(32)) + "." + std::to_string(draw() >> n(32)) +
              (n(40) ? "" : "e-99");
    text += ",";
    text += bad != 0 && n(unsigned(bad)) == 0 ? wrong[n(6)] : texts[n(6)];
    text += end;
  }
  return text;
}

// All that comes of a pass: rows, and messages.
template <class T>
std::vector<std::string> story_of(const data::Dataset<T>& ds) {
  std::vector<std::string> story;
  auto it = ds.iterator();
  for (bool more = true; more;) {
    const std::string wrong = message_of([&] {
      const auto x = it.next();
      more = bool(x);
      if (!more) return;
      for (const Tensor& c : x->columns)
        story.push_back(to_string(c.spec()) + (c.dtype() == rill::string ? to_string(c) : ""));
      for (const Tensor& c : x->columns)
        if (c.dtype() != rill::string) story.emplace_back(c.rep()->data, size_t(c.size()) * size_of(c.dtype()));
    });
    if (!wrong.empty()) story.push_back(wrong.substr(wrong.find('[')));
  }
  return story;
}

}  // namespace

// A file with comments is read row by row: here are none, so that both ways have to give the same.
TEST_CASE("data files: rows read many at once are those read one by one") {
  Folder folder;
  std::mt19937 draw(5);
  for (const int rows : {3, 200, 3000, 30000}) {
    for (const int bad : {0, 0, 3, 400}) {
      put_file(folder / "r.csv", random_csv(draw, rows, bad));
      for (const int64_t n : {7, 1000, 50000}) {
        INFO(rows << " rows, batches of " << n << ", one in " << bad << " is wrong");
        const data::CsvRowOptions with = {.dtypes = {{"i", i64}, {"x", f64}}};
        data::CsvRowOptions by_row = with;
        by_row.comment = '\x01';
        const auto many = data::csv(folder / "r.csv", with), one_by_one = data::csv(folder / "r.csv", by_row);
        CHECK(story_of(many.batch(n)) == story_of(one_by_one.batch(n)));
        CHECK(story_of(many.with_options({.threads = 1}).skip(11).batch(n)) == story_of(one_by_one.skip(11).batch(n)));
      }
    }
  }
  put_file(folder / "r.csv", random_csv(draw, 20000, 0));
  const auto same = [](const Table& a, const Table& b) {
    return array_equal(a.at("i"), b.at("i")) && array_equal(a.at("t"), b.at("t"));
  };
  check_resumes(data::csv(folder / "r.csv", {.dtypes = {{"x", f64}}}).skip(19000).batch(37), same);
  check_resumes(data::csv(folder / "r.csv").batch(1500), same);
}

// What went wrong elsewhere: issues of pandas (15910, 61973, 14459, 12775, 34120), TensorFlow (34020), grain (1178) and
// huggingface/datasets (7901).
TEST_CASE("data files: what others were reported to do with rows, skips and states") {
  Folder folder;
  const std::string path = folder / "r.csv";
  using Pair = std::pair<int64_t, int64_t>;
  put_file(path, "a\n1\n\"a\"b\n");
  CHECK(has(message_of([&] { data::csv<std::string>(path).count(); }), "line 3: something stands behind the quotes"));
  put_file(path, "a,b\n1,2\n3\n4,5,extra\n6,7");
  for (const int64_t n : {1, 2, 3, 9}) {  // which rows are wrong does not depend on the batch
    std::vector<int64_t> firsts;
    for (const auto& [a, b] : data::csv<Pair>(path).ignore_errors({.log = false}).batch(n))
      for (const int64_t x : a.to_vector<int64_t>()) firsts.push_back(x);
    CHECK(firsts == std::vector<int64_t>{1, 6});
  }
  put_file(path, "a\nb\"\nc\nd\ne\"\na,b,c\n1,2,3\n4,5,6\n");
  const Table below = data::csv(path, {.skip_lines = 5}).batch(9).first();
  CHECK(below.names == Texts{"a", "b", "c"});
  CHECK(below.at("c").to_vector<int64_t>() == std::vector<int64_t>{3, 6});
  put_file(path, "id,text\n1,\"line 11\nline 12\"\n2,\"line 21\nline 22\"\n3,\"line 31\"\n");
  CHECK(data::csv<std::pair<int64_t, std::string>>(path).skip(1).first().second == "line 21\nline 22");

  std::string text = "test,b\nTrue,\n";  // a bool as a float, and then nothing, beyond any piece that is read at once
  for (int i = 0; i < 1 << 18; ++i) text += ",\n";
  put_file(path, text);
  int64_t rows = 0, missing = 0;
  for (const auto& [x, b] : data::csv<std::pair<float, std::string>>(path).batch(5000)) {
    rows += x.dim(0);
    missing += sum(isnan(x)).item<int64_t>();
  }
  CHECK(rows == (1 << 18) + 1);
  CHECK(missing == 1 << 18);

  put_file(folder / "0.csv", "v\n0\n1\n2\n3\n4\n5\n");
  put_file(folder / "1.csv", "v\n6\n7\n8\n9\n10\n11\n");
  const auto shuffled = data::csv<int64_t>(folder / "[01].csv").shuffle(5, {.seed = 42}).repeat(2);
  const std::vector<int64_t> all = shuffled.collect();
  CHECK(std::vector<int64_t>(all.begin(), all.begin() + 12) != std::vector<int64_t>(all.begin() + 12, all.end()));
  for (size_t at = 0; at <= all.size(); ++at) {  // from before the first to behind the last
    auto it = shuffled.iterator(), later = shuffled.iterator();
    for (size_t i = 0; i < at; ++i) it.next();
    later.restore(it.save());
    std::vector<int64_t> rest;
    while (const auto x = later.next()) rest.push_back(*x);
    CHECK(rest == std::vector<int64_t>(all.begin() + ptrdiff_t(at), all.end()));
  }
}

TEST_CASE("data files: what is wrong with a CSV file is said with its line, and the next row follows") {
  Folder folder;
  const std::string path = folder / "w.csv";
  put_file(path, "a,b\n1,x\n\n2\n\"3\",\"li\nne\"\nfour,y\n5,z,9\n6,\"q\"q\n7,a\"b\n,m\n8,n\n");
  using Row = std::pair<int64_t, std::string>;
  auto it = data::csv<Row>(path).iterator();
  std::vector<int64_t> good;
  Texts wrong;
  for (bool more = true; more;) {
    const std::string message = message_of([&] {
      const auto x = it.next();
      more = bool(x);
      if (x) good.push_back(x->first);
    });
    if (!message.empty()) wrong.push_back(message);
  }
  CHECK(good == std::vector<int64_t>{1, 3, 8});
  REQUIRE(wrong.size() == 6);
  CHECK(has(wrong[0], "w.csv', line 4: has 1 field. expected 2"));
  CHECK(has(wrong[1], "line 7: 'four' in the column 'a' is no i64"));
  CHECK(has(wrong[2], "line 8: has 3 fields"));
  CHECK(has(wrong[3], "line 9: something stands behind the quotes"));
  CHECK(has(wrong[4], "line 10: a quote within the field"));
  CHECK(has(wrong[5], "line 11: '' in the column 'a' stands for no value"));
  CHECK(data::csv<Row>(path).ignore_errors({.log = false}).count() == 3);
  CHECK(data::csv<Row>(path).skip(8).first().first == 8);
  CHECK(has(message_of([&] { data::csv<Row>(path).batch(20).count(); }), "line 4"));
  CHECK(data::csv<Row>(path).ignore_errors({.log = false}).batch(2).count() == 2);

  put_file(path, "a,b\n1,\"x\n2,y\n");
  CHECK(has(message_of([&] { data::csv<Row>(path).count(); }), "line 2: quotes that do not end"));
  CHECK(data::csv<Row>(path).ignore_errors({.log = false}).count() == 0);
  // A file of which no row is right is none of no rows.
  put_file(path, "a,b\n1,2,\n3,4,\n");
  CHECK(has(message_of([&] { data::csv(path).count(); }), "line 2: has 3 fields. expected 2"));
  put_file(path, "a,b\n\"1,2\n3,4\n");
  CHECK(has(message_of([&] { data::csv(path).count(); }), "line 2: quotes that do not end"));
  CHECK(data::csv(path).ignore_errors({.log = false}).count() == 0);
  put_file(path, "n\n1\n2\n3.5\n");
  const std::string later = message_of([&] { data::csv(path, {.infer_rows = 2}).count(); });
  CHECK(has(later, "'3.5' in the column 'n' is no i64, which the first rows are"));
  CHECK(has(later, "{\"n\", f64}"));
  CHECK(has(message_of([&] { data::csv<Row>(path).count(); }), "1 columns for a row of 2 fields"));
  CHECK(has(message_of([&] { data::csv<House>(path).count(); }), "has no column 'area'. it has 'n'"));
  CHECK(has(message_of([&] { data::csv(path, {.dtypes = {{"m", f32}}}).count(); }), "no column 'm'"));
  CHECK(has(message_of([&] { data::csv(path, {.defaults = {{"n", "x"}}}).count(); }), "default 'x'"));
  CHECK(has(message_of([&] { data::csv(path, {.delimiter = '"'}); }), "two different characters"));
  CHECK(has(message_of([&] { data::csv(path, {.delimiter = '1'}); }), "part of numbers"));
  CHECK(has(message_of([&] { data::csv(path, {.dtypes = {{"n", c64}}}); }), "cannot be read as c64"));
  CHECK(has(message_of([&] { data::csv(folder / "none.csv").count(); }), "none.csv"));
  put_file(path, "a,a\n1,2\n");
  CHECK(has(message_of([&] { data::csv(path).count(); }), "two columns 'a'"));
}

TEST_CASE("data files: packed CSV that is cut says so, in the rows that types are inferred from too") {
  Folder folder;
  std::string text = "price\n";
  for (int i = 0; i < 600; ++i) text += std::to_string(100000 + i * 7919 % 900000) + "\n";
  for (const std::string& packed : {gzipped(text), zstd_of(text)})
    for (size_t n = 20; n < packed.size(); n += 7) {
      put_file(folder / "cut.csv", packed.substr(0, n));
      const auto ds = data::csv(folder / "cut.csv");
      for (int pass = 0; pass < 2; ++pass) CHECK(has(message_of([&] { ds.count(); }), "cut.csv'"));
    }
}

TEST_CASE("data files: CSV is resumed at any row, of any packing, and batches are those of the rows") {
  Folder folder;
  std::string text = "i,s,x\n";
  for (int i = 0; i < 20000; ++i)
    text += std::to_string(i) + (i % 7 ? ",plain," : ",\"two\nlines, and \"\"quotes\"\"\",") +
            std::to_string(i * 0.25) + (i % 5 ? "\n" : "\r\n\n");
  put_file(folder / "t.csv", text);
  put_file(folder / "t.csv.gz", gzipped(text));
  put_file(folder / "t.csv.zst", zstd_of(text));
  using Row = std::tuple<int64_t, std::string, double>;
  for (const char* name : {"t.csv", "t.csv.gz", "t.csv.zst"}) {
    INFO(name);
    const auto ds = data::csv<Row>({folder / name, folder / name});
    const std::vector<Row> rows = ds.collect();
    REQUIRE(rows.size() == 40000);
    for (size_t i = 0; i < rows.size(); ++i) {
      REQUIRE(std::get<0>(rows[i]) == int64_t(i % 20000));
      REQUIRE(std::get<2>(rows[i]) == double(i % 20000) * 0.25);
    }
    CHECK(std::get<1>(rows[7]) == "two\nlines, and \"quotes\"");
    check_resumes(ds.skip(19960).take(100), [](const Row& a, const Row& b) { return a == b; });
    int64_t seen = 0;
    for (const auto& [i, s, x] : ds.batch(3001)) {
      CHECK(array_equal(i, remainder(arange(seen, seen + i.dim(0)), int64_t(20000))));
      seen += i.dim(0);
    }
    CHECK(seen == 40000);
    const auto batches = ds.batch(777);
    auto it = batches.iterator();
    for (int i = 0; i < 30; ++i) it.next();
    auto other = batches.iterator();
    other.restore(it.save());
    CHECK(array_equal(std::get<0>(*other.next()), std::get<0>(*it.next())));
  }
  check_resumes(data::csv(folder / "t.csv").take(60), [](const Table& a, const Table& b) {
    return array_equal(a.at("i"), b.at("i")) && a.at("s").item<std::string>() == b.at("s").item<std::string>();
  });
  // In another process: the schema is that of the first file.
  put_file(folder / "f1.csv", "v\n1.5\n");
  put_file(folder / "f2.csv", "v\n2\n3\n4\n");
  const auto make = [&] { return data::csv({folder / "f1.csv", folder / "f2.csv"}); };
  auto it = make().iterator();
  it.next(), it.next();
  auto other = make().iterator();
  other.restore(it.save());
  CHECK(other.next()->at("v").dtype() == f64);
}

TEST_CASE("data files: rows come from pipes and from the standard input") {
  Folder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const auto fed = [&](const std::string& text, auto&& use) {
    const pid_t child = fork();
    if (child == 0) {
      std::ofstream(pipe) << text;
      _exit(0);
    }
    use();
    waitpid(child, nullptr, 0);
  };
  fed(houses, [&] { CHECK(data::csv<House>(pipe).count() == 4); });
  fed("a\nb\nc", [&] { CHECK(texts_of(data::text_lines(pipe)) == Texts{"a", "b", "c"}); });
  fed(record("one") + record("two"), [&] { CHECK(texts_of(data::tfrecords(pipe)) == Texts{"one", "two"}); });
  const pid_t child = fork();  // with another standard input
  if (child == 0) {
    put_file(folder / "in", "x\n1\n2\n");
    const bool opened = freopen((folder / "in").c_str(), "r", stdin) != nullptr;
    const auto ds = data::csv<int64_t>("-");
    const bool twice = ds.count() == 2 && ds.count() == 2;  // a file can be read again
    _exit(opened && twice ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE("data files: interleaved and divided among workers") {
  Folder folder;
  for (int f = 0; f < 5; ++f) {
    std::string text = "v\n";
    for (int i = 0; i < 40; ++i) text += std::to_string(100 * f + i) + "\n";
    put_file(folder / ("p" + std::to_string(f) + ".csv"), text);
  }
  const auto files = data::list_files(folder / "p*.csv");
  std::vector<int64_t> all;
  for (int rank = 0; rank < 2; ++rank) {
    const auto part = files.shard(2, rank).interleave([](const Tensor& path) { return data::csv<int64_t>(path); },
                                                      {.cycle = 2, .block = 3, .threads = 2});
    const auto one = files.shard(2, rank).interleave([](const Tensor& path) { return data::csv<int64_t>(path); },
                                                     {.cycle = 2, .block = 3});
    CHECK(part.collect() == one.collect());
    check_resumes(part, [](int64_t a, int64_t b) { return a == b; });
    for (const int64_t v : part) all.push_back(v);
  }
  std::sort(all.begin(), all.end());
  CHECK(all.size() == 200);
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
  const auto rows = data::csv<int64_t>(folder / "p*.csv").shard(7, 3).collect();
  CHECK(rows.size() == 29);
  CHECK(rows[1] == 10);
}
