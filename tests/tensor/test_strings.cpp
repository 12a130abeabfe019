// Functions of tensors of strings. Expected values are TensorFlow's (tf.strings) and numpy's (numpy.strings).
#include <cmath>
#include <limits>

#include "catch.h"
#include "messages.h"
#include "rill/devices/threads.h"
#include "rill/rill.h"

using namespace rill;
namespace str = rill::strings;

namespace {

using Texts = std::vector<std::string>;
using Counts = std::vector<int64_t>;
Texts texts(const Tensor& t) { return t.to_vector<std::string>(); }
Counts counts(const Tensor& t) { return t.to_vector<int64_t>(); }
std::vector<bool> bools(const Tensor& t) { return t.to_vector<bool>(); }

}  // namespace

TEST_CASE("strings are compared by their bytes, broadcast") {
  const Tensor a = tensor({{"a", "b", ""}, {"ab", "B", "é"}}), b = tensor({"a", "b", "z"});
  CHECK(bools(str::equal(a, b)) == std::vector<bool>{1, 1, 0, 0, 0, 0});
  CHECK(bools(str::not_equal(a, b)) == std::vector<bool>{0, 0, 1, 1, 1, 1});
  CHECK(bools(str::less(a, b)) == std::vector<bool>{0, 0, 1, 0, 1, 0});
  CHECK(bools(str::less_equal(a, b)) == std::vector<bool>{1, 1, 1, 0, 1, 0});
  CHECK(bools(str::greater(a, b)) == std::vector<bool>{0, 0, 0, 1, 0, 1});
  CHECK(bools(str::greater_equal(a, b)) == std::vector<bool>{1, 1, 0, 1, 0, 1});
  CHECK(str::equal(a, b).shape() == Shape{2, 3});
  CHECK(bools(str::equal(a.T(), tensor("ab"))) == std::vector<bool>{0, 1, 0, 0, 0, 0});
  CHECK(str::equal(tensor("a"), tensor("a")).shape() == Shape{});
  CHECK(str::equal(tensor(Texts(), Shape{0, 3}), b).shape() == Shape{0, 3});
}

TEST_CASE("where() chooses strings") {
  const Tensor c = tensor({true, false, true}), a = tensor({"a", "b", "a string that is no short one"});
  CHECK(texts(where(c, a, tensor("-"))) == Texts{"a", "-", "a string that is no short one"});
  CHECK(texts(where(tensor({2, 0, 0}), tensor("x"), a)) == Texts{"x", "b", "a string that is no short one"});
  // Broadcast both ways, and strided.
  const Tensor table = tensor({{"a", "b"}, {"c", "d"}});
  CHECK(texts(where(tensor({{true}, {false}}), table.T(), tensor({"x", "y"}))) == Texts{"a", "c", "x", "y"});
  CHECK(where(tensor({{true}, {false}}), table, tensor("z")).shape() == Shape{2, 2});
  CHECK(where(zeros({0, 2}, boolean), table(0), tensor("z")).shape() == Shape{0, 2});
  // By several threads.
  const Tensor many = strings::as_string(arange(100000)), even = arange(100000) % 2 == 0,
               some = where(even, many, tensor(""));
  CHECK(texts(some(slice(99996, 100000))) == Texts{"99996", "", "99998", ""});
  // In a traced function strings are found outside, and what chooses them may be an argument.
  const auto chosen = function("chosen", [&](const Tensor& x) { return where(x > 1, a, tensor("no")); });
  for (int i = 0; i < 3; ++i)
    CHECK(texts(chosen(tensor({0, 1, 2}))) == Texts{"no", "no", "a string that is no short one"});
  says([&] { where(c, a, tensor({1, 2, 3})); }, {"both values must be strings, or neither"});
  says([&] { where(c, a, tensor({"a", "b"})); }, {"do not broadcast"});
}

TEST_CASE("strings are padded with strings, empty ones where none is given") {
  const Tensor x = tensor({"a", "b"});
  CHECK(texts(pad(x, {{1, 2}})) == Texts{"", "a", "b", "", ""});
  CHECK(texts(pad(x, {{1, 0}}, tensor("-"))) == Texts{"-", "a", "b"});
  CHECK(texts(pad(x, {{-1, 1}}, tensor("-"))) == Texts{"b", "-"});
  says([&] { pad(x, {{1, 1}}, 3); }, {"[pad]", "strings::as_string"});
  says([&] { pad(ones({2}), {{1, 1}}, tensor("-")); }, {"[pad]", "strings::to_number"});
  says([&] { x + 1; }, {"string and i32", "strings::as_string"});
  says([&] { astype(x, f32); }, {"strings::to_number"});
}

TEST_CASE("sorting and unique strings") {
  const Tensor x = tensor({"pear", "fig", "", "apple", "fig"});
  CHECK(texts(str::sort(x)) == Texts{"", "apple", "fig", "fig", "pear"});
  CHECK(counts(str::argsort(x)) == Counts{2, 3, 1, 4, 0});
  CHECK(counts(str::argsort(x, -1, true)) == Counts{0, 1, 4, 3, 2});
  const Tensor m = tensor({{"b", "a"}, {"a", "c"}});
  CHECK(texts(str::sort(m)) == Texts{"a", "b", "a", "c"});
  CHECK(texts(str::sort(m, 0)) == Texts{"a", "a", "b", "c"});
  const Unique u = str::unique(reshape(x, {5, 1}));
  CHECK(texts(u.values) == Texts{"", "apple", "fig", "pear"});
  CHECK(counts(u.indices) == Counts{2, 3, 1, 0});
  CHECK(counts(u.inverse) == Counts{3, 2, 0, 1, 2});
  CHECK(u.inverse.shape() == Shape{5, 1});
  CHECK(counts(u.counts) == Counts{1, 1, 2, 1});
  CHECK(str::unique(tensor(Texts())).values.size() == 0);
  const Unique rows = str::unique(tensor({{"b", "a"}, {"a", "c"}, {"b", "a"}}), 0);
  CHECK(texts(rows.values) == Texts{"a", "c", "b", "a"});
  CHECK(counts(rows.inverse) == Counts{1, 0, 1});
  says([&] { str::unique(m, 2); }, {"[unique]", "axis 2"});
  CHECK(str::sort(tensor(Texts(), Shape{2, 0})).shape() == Shape{2, 0});
}

TEST_CASE("lengths and parts in bytes and code points") {
  const Tensor x = tensor({"äbc", "", "日本語"});
  CHECK(counts(str::length(x)) == Counts{4, 0, 9});
  CHECK(counts(str::length(x, str::Unit::code_point)) == Counts{3, 0, 3});
  CHECK(str::substr(tensor("hello"), 1, 10).item<std::string>() == "ello");
  CHECK(str::substr(tensor("hello"), -3, 2).item<std::string>() == "ll");
  CHECK(str::substr(tensor("hello"), 5, 2).item<std::string>().empty());
  // Numbers beyond i64 are not negative ones.
  const Tensor beyond = tensor(~uint64_t(0));
  CHECK(has(message_of([&] { str::substr(tensor("hello"), beyond, 2); }), "start 18446744073709551615 is outside"));
  CHECK(str::substr(tensor("hello"), 1, beyond).item<std::string>() == "ello");
  CHECK(texts(str::substr(tensor({"äbcd", "日本語"}), 1, 2, str::Unit::code_point)) == Texts{"bc", "本語"});
  CHECK(texts(str::substr(tensor({"abc", "def"}), tensor({{0}, {1}}), tensor({1, 2}))) == Texts{"a", "de", "b", "ef"});
}

TEST_CASE("split and join") {
  const auto rows = [](const Ragged& r) { return std::pair(texts(r.values), counts(r.row_splits.at(0))); };
  CHECK(rows(str::split(tensor({"a b  c", "", "  x "}))) == std::pair(Texts{"a", "b", "c", "x"}, Counts{0, 3, 3, 4}));
  CHECK(rows(str::split(tensor({"a,b,,c", "", ","}), ",")) ==
        std::pair(Texts{"a", "b", "", "c", "", "", ""}, Counts{0, 4, 5, 7}));
  CHECK(rows(str::split(tensor("a  b c "), "", 1)) == std::pair(Texts{"a", "b c "}, Counts{0, 2}));
  CHECK(rows(str::split(tensor("a--b--c"), "--", 1)) == std::pair(Texts{"a", "b--c"}, Counts{0, 2}));
  CHECK(rows(str::split(tensor("a,b"), ",", 0)) == std::pair(Texts{"a,b"}, Counts{0, 1}));
  CHECK(texts(str::split(tensor({"a b", "c"})).padded(tensor("-"))) == Texts{"a", "b", "c", "-"});
  Ragged lengths = str::split(tensor({"a b", "c"}));
  lengths.values = tensor({5.f, 6.f, 7.f});
  CHECK(lengths.padded(-1).to_vector<float>() == std::vector<float>{5, 6, 7, -1});
  lengths.values = tensor({5, 6, 7}, i64);
  CHECK(lengths.padded(-1).to_vector<int64_t>() == std::vector<int64_t>{5, 6, 7, -1});
  CHECK_THROWS_AS(lengths.padded(0.5), Error);
  CHECK(rows(str::split(tensor(Texts()))) == std::pair(Texts(), Counts{0}));

  CHECK(texts(str::add(tensor({"a", "b"}), tensor(".png"))) == Texts{"a.png", "b.png"});
  CHECK(texts(str::join({tensor("a"), tensor({"b", "c"})}, "/")) == Texts{"a/b", "a/c"});
  const Tensor m = tensor({{"a", "b"}, {"c", "d"}});
  CHECK(texts(str::reduce_join(m, 1, "-")) == Texts{"a-b", "c-d"});
  CHECK(texts(str::reduce_join(m, 0)) == Texts{"ac", "bd"});
  CHECK(str::reduce_join(m, {}, "-").item<std::string>() == "a-b-c-d");
  CHECK(str::reduce_join(m, 0, "", true).shape() == Shape{1, 2});
  CHECK(str::reduce_join(m, {}, "", true).shape() == Shape{1, 1});
  CHECK(texts(str::reduce_join(tensor(Texts(), Shape{2, 0}), 1, "-")) == Texts{"", ""});
}

TEST_CASE("letters, white space, replacing, searching") {
  const Tensor x = tensor({"Hello World", "äÖ z", ""});
  CHECK(texts(str::lower(x)) == Texts{"hello world", "äÖ z", ""});
  CHECK(texts(str::upper(x)) == Texts{"HELLO WORLD", "äÖ Z", ""});
  CHECK(texts(str::strip(tensor({"\t a b \n", "\v x\f", " "}))) == Texts{"a b", "x", ""});
  CHECK(texts(str::lstrip(tensor({" a ", "xxa"}))) == Texts{"a ", "xxa"});
  CHECK(texts(str::rstrip(tensor({" a ", "axx"}), "x")) == Texts{" a ", "a"});
  CHECK(texts(str::replace(tensor({"aaa", "banana", ""}), "a", "oo")) == Texts{"oooooo", "boonoonoo", ""});
  CHECK(texts(str::replace(tensor({"aaa"}), "a", "", 2)) == Texts{"a"});
  CHECK(texts(str::replace(tensor({"abc", ""}), "", "-")) == Texts{"-a-b-c-", "-"});
  CHECK(texts(str::replace(tensor({"abc"}), "", "-", 2)) == Texts{"-a-bc"});
  CHECK(bools(str::starts_with(tensor({"abc", "ab", ""}), tensor("abc"))) == std::vector<bool>{1, 0, 0});
  CHECK(bools(str::ends_with(tensor({"abc", "bc", ""}), tensor("bc"))) == std::vector<bool>{1, 1, 0});
  CHECK(counts(str::find(tensor({"banana", "x", ""}), tensor("an"))) == Counts{1, -1, -1});
  CHECK(counts(str::rfind(tensor({"banana", "x", ""}), tensor("an"))) == Counts{3, -1, -1});
  CHECK(counts(str::count(tensor({"aaaa", "x", ""}), tensor("aa"))) == Counts{2, 0, 0});
  CHECK(counts(str::count(tensor({"abc", ""}), tensor(""))) == Counts{4, 1});
  CHECK(counts(str::find(tensor("abc"), tensor(""))) == Counts{0});
}

TEST_CASE("regular expressions") {
  if (has(message_of([] { str::regex_full_match(tensor("a"), "a"); }), "libre2-dev"))
    return skip_case("built without RE2");
  CHECK(str::regex_replace(tensor("hello world"), "(o)", "<\\1>").item<std::string>() == "hell<o> w<o>rld");
  CHECK(str::regex_replace(tensor("aaa"), "a", "b", false).item<std::string>() == "baa");
  CHECK(bools(str::regex_full_match(tensor({"abc", "abcd", "xabc"}), "a.c")) == std::vector<bool>{1, 0, 0});
  CHECK(bools(str::regex_full_match(tensor({"日", "日本"}), ".")) == std::vector<bool>{1, 0});
  // What overflows the stack of a backtracking matcher, or never ends in it.
  CHECK(str::regex_full_match(tensor(std::string(1 << 20, 'a')), "(a|aa)*").item<bool>());
  CHECK(!str::regex_full_match(tensor(std::string(40, 'a').append(1, 'b')), "(a*)*c").item<bool>());
  CHECK(has(message_of([] { str::regex_replace(tensor("a"), "(", ""); }), "the pattern '(' is not well formed"));
  CHECK(has(message_of([] { str::regex_replace(tensor("a"), "a", "\\1"); }), "the rewrite '\\1' is not well formed"));
}

TEST_CASE("numbers in strings") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(str::to_number(tensor({"1", " -2.5\n", "1e3", "+5", "inf", "1e400", "-1e400", "1e-400"}), f64)
            .to_vector<double>() == std::vector<double>{1, -2.5, 1000, 5, inf, inf, -inf, 0});
  CHECK(std::isnan(str::to_number(tensor("nan")).item<float>()));
  CHECK(str::to_number(tensor("0.1")).item<float>() == 0.1f);
  CHECK(str::to_number(tensor("1e39")).item<double>() == inf);
  CHECK(str::to_number(tensor("1.00048828126"), f16).item<float>() == 1.0009765625f);  // rounded once
  CHECK(str::to_number(tensor("65519.9"), f16).item<float>() == 65504);
  CHECK(counts(str::to_number(tensor({"-9223372036854775808", " 7 "}), i64)) == Counts{INT64_MIN, 7});
  CHECK(str::to_number(tensor("255"), u8).item<int>() == 255);
  CHECK(str::to_number(tensor(Texts(), Shape{0, 2})).shape() == Shape{0, 2});
  for (const char* bad : {"", "abc", "1_0", "1.5f", "1 2", "--1", "+-1", "0x10"})
    CHECK(has(message_of([&] { str::to_number(tensor({{"1", bad}})); }),
              "the string at [0, 1] is '" + std::string(bad) + "' and no f32"));
  CHECK(has(message_of([] { str::to_number(tensor({"1", "300"}), u8); }),
            "the string at [1] is '300' and no u8: it is out of range"));
  CHECK(has(message_of([] { str::to_number(tensor("1.5"), i32); }), "no i32"));
  CHECK(has(message_of([] { str::to_number(tensor("-1"), u32); }), "no u32"));
  CHECK(has(message_of([] { str::to_number(tensor("1"), boolean); }), "must be an integer or floating one"));

  const Tensor x = tensor({1.5, 2., 1e10, -inf, 0.1});
  CHECK(texts(str::as_string(x)) == Texts{"1.5", "2", "1e+10", "-inf", "0.1"});
  CHECK(texts(str::as_string(x, {.precision = 6})) ==
        Texts{"1.500000", "2.000000", "10000000000.000000", "-inf", "0.100000"});
  CHECK(texts(str::as_string(tensor({1.5}), {.precision = 6, .scientific = true})) == Texts{"1.500000e+00"});
  CHECK(texts(str::as_string(tensor({3, -4}), {.width = 5, .fill = '0'})) == Texts{"00003", "-0004"});
  CHECK(texts(str::as_string(tensor({3, -4}), {.width = 3})) == Texts{"  3", " -4"});
  CHECK(texts(str::as_string(tensor({true, false}))) == Texts{"true", "false"});
  CHECK(texts(str::as_string(complex(tensor({3.}), tensor({4.})), {.precision = 6})) == Texts{"(3.000000,4.000000)"});
  CHECK(texts(str::as_string(tensor({0.1f, 1e-30f}).astype(f16))) == Texts{"0.1", "0"});
  CHECK(texts(str::as_string(tensor({"a"}))) == Texts{"a"});
  for (DType d : {f16, bf16, f32, f64, i8, u64}) {
    const Tensor y = (random::normal({200}, {.key = random::Key(1)}) * 40).astype(d);
    CHECK(same_bits(str::to_number(str::as_string(y), d), y));
  }
}

TEST_CASE("hashes are TensorFlow's") {
  const Texts of_every_formula = {
      "", "a", "hello world", std::string(40, 'x'), std::string(70, 'y'), std::string(200, 'z')};
  CHECK(counts(str::to_hash_bucket(tensor(of_every_formula), int64_t(1) << 62)) ==
        Counts{1936946117179621455, 3694432073954588131, 1769834696496558107, 3168538174772821140, 2525296024834194218,
               4117204190001636188});
  CHECK(same_bits((str::fingerprint(tensor(of_every_formula)) % 1000).astype(i64),
                  str::to_hash_bucket(tensor(of_every_formula), 1000)));
  CHECK(has(message_of([] { str::to_hash_bucket(tensor("a"), 0); }), "buckets is 0"));
}

TEST_CASE("bytes of numbers") {
  CHECK(counts(str::decode_raw(tensor({"abcd", "efgh"}), i16)) == Counts{25185, 25699, 26213, 26727});
  CHECK(counts(str::decode_raw(tensor({"abcd"}), i16, false)) == Counts{24930, 25444});
  CHECK(str::decode_raw(tensor(Texts(), Shape{0}), f32).shape() == Shape{0, 0});
  CHECK(bools(str::decode_raw(tensor(std::string("\0\2", 2)), boolean)) == std::vector<bool>{0, 1});
  for (DType d : {boolean, i8, u32, f16, f64, c64})
    for (bool little : {true, false}) {
      const Tensor x = (random::normal({3, 4}, {.key = random::Key(2)}) * 9).astype(d);
      CHECK(str::encode_raw(x, little).shape() == Shape{3});
      CHECK(same_bits(str::decode_raw(str::encode_raw(x.T(), little), d, little), x.T().contiguous()));
    }
  CHECK(
      has(message_of([] { str::decode_raw(tensor({"ab", "abc"}), u8); }), "the string at [1] has 3 bytes. expected 2"));
  CHECK(has(message_of([] { str::decode_raw(tensor({"abc"}), i16); }), "a multiple of the 2 of a i16"));
}

TEST_CASE("large tensors, by many threads") {
  Texts many;
  for (int i = 0; i < 50000; ++i) many.push_back("word " + std::to_string(i * 7919 % 50000));
  const Tensor x = tensor(many);
  set_num_threads(5);
  CHECK(texts(str::upper(x)).back() == "WORD " + many.back().substr(5));
  CHECK(str::unique(x).values.size() == 50000);
  CHECK(same_bits(str::to_number(str::substr(x, 5, 9), i64), arange(50000) * 7919 % 50000));
}

TEST_CASE("mistakes are told with the caller's line") {
  const auto told = [](auto&& f, std::string_view part) {
    const std::string text = message_of(f);
    INFO(text);
    CHECK(has(text, part));
    CHECK(has(text, "test_strings.cpp:"));
  };
  told([] { str::length(tensor({1.f})); }, "must be of strings");
  told([] { str::add(tensor("a"), tensor(1)); }, "must be of strings");
  told([] { str::add(tensor({"a", "b"}), tensor({"a", "b", "c"})); }, "broadcast");
  told([] { str::lower(Tensor()); }, "undefined");
  told([] { str::substr(tensor({"hello", "hi"}), 3, 1); }, "start 3 is outside of the string at [1], of length 2");
  told([] { str::substr(tensor("hello"), -6, 1); }, "start -6 is outside");
  told([] { str::substr(tensor("hello"), 1, -1); }, "count is -1");
  told([] { str::substr(tensor("hello"), 1.5, 1); }, "must be integers");
  told([] { str::length(tensor({"ok", "\xff"}), str::Unit::code_point); }, "the string at [1] is no UTF-8");
  told([] { str::length(tensor("\xc3"), str::Unit::code_point); }, "no UTF-8");
  told([] { str::length(tensor("\xed\xa0\x80"), str::Unit::code_point); }, "no UTF-8");
  told([] { str::join({}); }, "no tensors");
  told([] { str::reduce_join(tensor({"a"}), 1); }, "axis 1 is out of bounds");
  told([] { str::sort(tensor("a")); }, "axis -1 is out of bounds");
  told([] { str::as_string(tensor(1.), {.precision = -1}); }, "precision is -1");
  told([] { str::as_string(tensor(1.), {.fill = 'x'}); }, "fill must be");
  told([] { str::encode_raw(tensor(1)); }, "with an axis");
  told([] { str::decode_raw(tensor("a"), DType::string); }, "must be one of numbers");
  told([] { function("f", [](const Tensor& x) { return str::split(x); })(tensor("a")); }, "known only when");
  told([] { vmap([](const Tensor& x) { return str::encode_raw(x); })(ones({3, 2})); }, "known only when");
  // What a function finds outside is known.
  const Tensor words = tensor({"a", "bb"});
  CHECK(counts(function("g", [&](const Tensor& x) { return x + str::length(words); })(arange(2))) == Counts{1, 3});
}
