// Vocabularies, n-grams, Unicode, and functions of strings whose operands a traced function is called with. Expected
// values are TensorFlow's (tf.strings.ngrams, tf.lookup) and Python's (unicodedata).
#include <filesystem>
#include <fstream>

#include "catch.h"
#include "io_helpers.h"
#include "messages.h"
#include "rill/data.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "rill/serialize.h"

using namespace rill;
namespace str = rill::strings;
using data::Vocabulary;

namespace {

using Texts = std::vector<std::string>;
using Counts = std::vector<int64_t>;
Texts texts(const Tensor& t) { return t.to_vector<std::string>(); }
Counts counts(const Tensor& t) { return t.to_vector<int64_t>(); }

// That a function of strings gives the same when it is traced, for every number of rows.
template <class F>
void same_traced(F&& f, const Tensor& x) {
  Shape open = x.shape();
  open[0] = any;
  auto traced = function("traced", [&](const Tensor& s) { return f(s); }, {.signature = {spec(x.dtype(), open, "s")}});
  CHECK(same_bits(traced(x), f(x)));
  CHECK(same_bits(traced(x(slice(0, 1))), f(x(slice(0, 1)))));
  CHECK(same_bits(traced(x(slice(0, 0))), f(x(slice(0, 0)))));
  CHECK(traced.trace_count() == 1);
}

}  // namespace

TEST_CASE("words have ids, and ids words") {
  const Vocabulary v({"the", "cat", "sat"});
  const Tensor x = tensor({{"cat", "the"}, {"dog", ""}});
  CHECK(counts(v(x)) == Counts{1, 0, -1, -1});
  CHECK(v(x).shape() == Shape{2, 2});
  CHECK(texts(v.words(v(x))) == Texts{"cat", "the", "[UNK]", "[UNK]"});
  CHECK(texts(v.words(tensor({2, 7, -1}), "?")) == Texts{"sat", "?", "?"});
  CHECK(counts(Vocabulary({"a", "b"}, {.otherwise = 0})(tensor({"b", "z"}))) == Counts{1, 0});
  // tf.lookup.StaticVocabularyTable's buckets: Fingerprint64.
  const Vocabulary out({"cook", "nurse"}, {.unknown = 3});
  CHECK(counts(out(tensor({"nurse", "smith", "cook"}))) == Counts{1, 3, 0});
  CHECK(out.buckets() == 5);
  const Vocabulary n({5, -3, 9});
  CHECK(counts(n(tensor({9, 5, 4, -3, 100, -100}))) == Counts{2, 0, -1, 1, -1, -1});
  CHECK(counts(n(tensor({9, 5}).astype(u8))) == Counts{2, 0});
  // Many words, found one by one.
  Texts many;
  for (int i = 0; i < 5000; ++i) many.push_back("w" + std::to_string(i * 7));
  const Vocabulary large(many);
  CHECK(array_equal(large(tensor(many)), arange(5000)));
  CHECK(counts(large(tensor({"w1", "w34993"}))) == Counts{-1, 4999});
  // Rows of different lengths.
  const Ragged rows = str::split(tensor({"the cat", "sat on the"}));
  CHECK(counts(v(rows).values) == Counts{0, 1, 2, -1, 0});
}

TEST_CASE("vocabularies are counted, written and read") {
  const Tensor x = tensor({"b", "a", "b", "c", "", "a", "b", "d"});
  CHECK(texts(Vocabulary::counted(x).keys()) == Texts{"b", "a", "c", "d"});
  CHECK(texts(Vocabulary::counted(x, {.most = 3, .special = {"[PAD]"}}).keys()) == Texts{"[PAD]", "b", "a"});
  CHECK(texts(Vocabulary::counted(x, {.at_least = 2}).keys()) == Texts{"b", "a"});
  const auto lines = data::from_generator(Texts{"x y x", "y z x"}).map([](const std::string& s) {
    return str::split(tensor(s)).values;
  });
  const Vocabulary v = Vocabulary::counted(lines, {.special = {"[UNK]"}, .ids = {.otherwise = 0}});
  CHECK(texts(v.keys()) == Texts{"[UNK]", "x", "y", "z"});
  CHECK(counts(v(tensor({"z", "q"}))) == Counts{3, 0});
  const Folder folder;
  v.write(folder / "words.txt");
  CHECK(texts(Vocabulary::from_file(folder / "words.txt").keys()) == texts(v.keys()));
  CHECK(texts(Vocabulary::from_file(folder / "words.txt", 2).keys()) == Texts{"[UNK]", "x"});
  std::ofstream(folder / "dos.txt") << "a\r\nb";
  CHECK(texts(Vocabulary::from_file(folder / "dos.txt").keys()) == Texts{"a", "b"});
  const auto ids = lines.map([v](const Tensor& words) { return v(words); }, {.threads = 2}).collect();
  CHECK(counts(ids[1]) == Counts{2, 3, 1});
}

TEST_CASE("vocabularies are traced") {
  same_traced([v = Vocabulary({"a", "b", "c"}, {.unknown = 2})](const Tensor& s) { return v(s); },
              tensor({{"a", "z"}, {"", "c"}}));
  same_traced([v = Vocabulary({"a", "b", "c"})](const Tensor& s) { return v.words(v(s)); }, tensor({"a", "z"}));
  same_traced([v = Vocabulary({4, 2})](const Tensor& s) { return v(s); }, tensor({2, 3, 4}));
}

TEST_CASE("n-grams are TensorFlow's") {
  const Tensor x = tensor({{"a", "b", "c"}, {"d", "e", "f"}});
  CHECK(texts(str::ngrams(x, {1, 2})) == Texts{"a", "b", "c", "a b", "b c", "d", "e", "f", "d e", "e f"});
  CHECK(texts(str::ngrams(tensor({"a", "b"}), {3}, {.separator = "-", .left = "<", .right = ">"})) ==
        Texts{"<-<-a", "<-a-b", "a-b->", "b->->"});
  const Ragged rows{tensor({"a", "b", "c", "d"}), {tensor({0, 3, 4, 4})}};
  const Ragged one = str::ngrams(rows, {2}, {.left = "<", .right = ">", .padding = 1});
  CHECK(texts(one.values) == Texts{"< a", "a b", "b c", "c >", "< d", "d >", "< >"});
  CHECK(counts(one.row_splits[0]) == Counts{0, 4, 6, 7});
  const Ragged two = str::ngrams(rows, {2}, {.keep_short = true});
  CHECK(texts(two.values) == Texts{"a b", "b c", "d"});
  CHECK(counts(two.row_splits[0]) == Counts{0, 2, 3, 3});
  const Ragged three = str::ngrams(rows, {3, 2}, {.keep_short = true});
  CHECK(texts(three.values) == Texts{"a b c", "a b", "b c", "d"});
  CHECK(texts(str::ngrams(tensor({"a"}), {2})).empty());
  CHECK(texts(str::ngrams(tensor({"a"}), {2}, {.keep_short = true})) == Texts{"a"});
  same_traced([](const Tensor& s) { return str::ngrams(s, {1, 2}, {.left = "^"}); }, x);
  says([&] { str::ngrams(x, {}); }, {"no widths"});
  says([&] { str::ngrams(x, {0}); }, {"width is 0"});
  says([&] { str::ngrams(tensor("a"), {1}); }, {"with an axis"});
  says([&] { str::ngrams(ones({2}), {1}); }, {"f32[2]", "of strings"});
}

TEST_CASE("letters beyond ASCII") {
  if (message_of([] { str::normalize(tensor("a")); }) != "") {
    says([] { str::normalize(tensor("a")); }, {"utf8proc", "libutf8proc-dev"});
    return;
  }
  const std::string composed = "caf\u00e9", apart = "cafe\u0301";
  CHECK(texts(str::normalize(tensor(Texts{apart}))) == Texts{composed});
  CHECK(texts(str::normalize(tensor(Texts{composed}), str::Form::nfd)) == Texts{apart});
  CHECK(texts(str::normalize(tensor({"\ufb01x \uff21 \u00b2"}), str::Form::nfkc)) == Texts{"fix A 2"});
  CHECK(texts(str::normalize(tensor({"\ufb01\u00e9"}), str::Form::nfkd)) == Texts{"fie\u0301"});
  CHECK(texts(str::lower_utf8(tensor({"\u00c9T\u00c9 \u0416"}))) == Texts{"\u00e9t\u00e9 \u0436"});
  CHECK(texts(str::upper_utf8(tensor({"\u00e9t\u00e9 \u0436"}))) == Texts{"\u00c9T\u00c9 \u0416"});
  CHECK(texts(str::case_fold(tensor({"Stra\u00dfe"}))) == Texts{"strasse"});
  CHECK(texts(str::strip_accents(tensor(Texts{composed, "\u00c5ngstr\u00f6m", "plain", ""}))) ==
        Texts{"cafe", "Angstrom", "plain", ""});
  same_traced([](const Tensor& s) { return str::strip_accents(str::lower_utf8(s)); }, tensor({"\u00c9a", "b"}));
  says([] { str::normalize(tensor({"fine", "\xff"})); }, {"[normalize]", "[1]", "UTF-8"});
  says([] { str::lower_utf8(ones({2})); }, {"must be of strings"});
}

TEST_CASE("regular expressions split") {
  if (message_of([] { str::regex_full_match(tensor("a"), "a"); }) != "") {
    SUCCEED("without RE2");
    return;
  }
  const Ragged parts = str::regex_split(tensor({"a1b22c", "33", "", "x"}), "[0-9]+");
  CHECK(texts(parts.values) == Texts{"a", "b", "c", "x"});
  CHECK(counts(parts.row_splits[0]) == Counts{0, 3, 3, 3, 4});
  CHECK(texts(str::regex_split(tensor("a, b;c"), "[,;]\\s*").values) == Texts{"a", "b", "c"});
  CHECK(texts(str::regex_split(tensor("abc"), "x*").values) == Texts{"a", "b", "c"});
  says([] { str::regex_split(tensor("a"), "("); }, {"not well formed"});
}

TEST_CASE("functions of strings are traced") {
  const Tensor x = reshape(tensor({"Pear ", "fig", "", "12", "a longer text than sixteen", "b"}), {3, 2});
  same_traced([](const Tensor& s) { return str::lower(s); }, x);
  same_traced([](const Tensor& s) { return str::upper(str::strip(s)); }, x);
  same_traced([](const Tensor& s) { return str::strip(s, "aP"); }, x);
  same_traced([](const Tensor& s) { return str::replace(s, "e", "--", 1); }, x);
  same_traced([](const Tensor& s) { return str::length(s); }, x);
  same_traced([](const Tensor& s) { return str::length(s, str::Unit::code_point) + 1; }, x);
  same_traced([](const Tensor& s) { return str::equal(s, tensor({"fig", "b"})); }, x);
  same_traced([](const Tensor& s) { return where(str::not_equal(s, tensor("")), s, tensor("-")); }, x);
  same_traced([](const Tensor& s) { return str::add(s, tensor(".png")); }, x);
  same_traced([](const Tensor& s) { return str::join({s, tensor("x"), s}, ", "); }, x);
  same_traced([](const Tensor& s) { return str::fingerprint(s); }, x);
  same_traced([](const Tensor& s) { return str::to_hash_bucket(s, 1000); }, x);
  same_traced([](const Tensor& s) { return str::to_cross_bucket({s, tensor({1, 2}), tensor("y")}, 1000); }, x);
  same_traced([](const Tensor& s) { return str::to_number(s, i64); }, tensor({"3", "-4"}));
  same_traced([](const Tensor& s) { return str::as_string(s, {.width = 3, .fill = '0'}); }, tensor({3, -4}));
  same_traced([](const Tensor& s) { return str::as_string(s, {.precision = 2}); }, tensor({3.f, -4.5f}));
  if (message_of([] { str::regex_full_match(tensor("a"), "a"); }) == "") {
    same_traced([](const Tensor& s) { return str::regex_replace(s, "[aeiou]", "<\\0>", false); }, x);
    same_traced([](const Tensor& s) { return str::regex_full_match(s, "[a-z]+"); }, x);
  }
  // Rows of a vmap, broadcast with what all of them share.
  const Tensor rows = vmap([](const Tensor& row) { return str::to_hash_bucket(str::add(row, tensor("!")), 100); })(x);
  CHECK(array_equal(rows, str::to_hash_bucket(str::add(x, tensor("!")), 100)));
  // What is wrong with the operands is said when the function is traced, what is wrong with values when it is called.
  says([] { function("f", [](const Tensor& s) { return str::lower(s); })(ones({2})); }, {"string_lower", "f32[2]"});
  says([] { function("f", [](const Tensor& s) { return str::to_number(s, i64); })(tensor({"1", "x"})); },
       {"'x'", "[1]"});
}

TEST_CASE("crosses are TensorFlow's") {
  // tf.raw_ops.SparseCross(hashed_output=True, num_buckets=1000, hash_key=0xDECAFCAFFE)
  CHECK(counts(str::to_cross_bucket({tensor({5, -5}), tensor(9)}, 1000)) == Counts{290, 468});
  CHECK(counts(str::to_cross_bucket({tensor({"nurse", "smith", "cook"}), tensor({5, -1, 7})}, 1000)) ==
        Counts{113, 428, 900});
  CHECK(counts(str::to_hash_bucket(tensor({"cook", "nurse", "smith", "", "x"}), 100)) == Counts{13, 70, 66, 63, 70});
  says([] { str::to_cross_bucket({}, 10); }, {"no tensors"});
  says([] { str::to_cross_bucket({ones({2})}, 10); }, {"f32[2]", "strings or integers"});
  says([] { str::to_cross_bucket({tensor("a")}, 0); }, {"buckets is 0"});
}

TEST_CASE("mistakes with vocabularies are named") {
  says([] { (void)Vocabulary(Texts{}); }, {"no words"});
  says([] { Vocabulary({"a", "b", "a"}); }, {"0 and 2", "'a'"});
  says([] { Vocabulary({3, 3}); }, {"0 and 1", "'3'"});
  says([] { Vocabulary({"a"}, {.unknown = -2}); }, {"unknown is -2"});
  says([] { Vocabulary({"a"}, {.otherwise = 4}); }, {"otherwise is 4", "[0, 1)"});
  says([] { Vocabulary({"a"})(tensor({1, 2})); }, {"of texts", "i32[2]"});
  says([] { Vocabulary({1})(tensor({"a"})); }, {"whole numbers", "string[1]"});
  says([] { Vocabulary({1})(ones({2})); }, {"whole numbers", "f32[2]"});
  says([] { Vocabulary({"a"})(Tensor()); }, {"undefined"});
  says([] { Vocabulary({"a"}).words(ones({2})); }, {"ids are integers"});
  says([] { Vocabulary({1}).words(tensor({0})); }, {"of numbers"});
  says([] { Vocabulary::from_file("no/such"); }, {"cannot read 'no/such': No such file or directory"});
  const Folder folder;
  std::ofstream(folder / "twice.txt") << "a\nb\na\n";
  says([&] { Vocabulary::from_file(folder / "twice.txt"); }, {"1 and 3", "twice.txt", "'a'"});
  says([&] { Vocabulary::from_file(folder / "twice.txt", 7); }, {"3 lines", "7 words"});
  says([&] { Vocabulary::from_file(folder / "twice.txt", 0); }, {"0 lines"});
  std::ofstream(folder / "none.txt") << "";
  says([&] { Vocabulary::from_file(folder / "none.txt"); }, {"no lines"});
  says([] { Vocabulary::counted(ones({2})); }, {"counts texts", "f32[2]"});
  says([] { Vocabulary::counted(tensor({"a"}), {.at_least = 2}); }, {"no word occurs 2 times"});
  Vocabulary({"kept"}).write(folder / "old.txt");
  says([&] { Vocabulary({"a", "b\nc"}).write(folder / "old.txt"); }, {"end of line"});
  CHECK(texts(Vocabulary::from_file(folder / "old.txt").keys()) == Texts{"kept"});
  says([] { Vocabulary({"a"}).write("no/such/folder/words.txt"); }, {"cannot write"});
}

TEST_CASE("a vocabulary is a field of a model, and its words stand in a checkpoint beside the weights") {
  struct Tagger {
    Vocabulary words{{"the", "cat", "sat"}};
    nn::Embedding rows{3, 2};
    Tensor operator()(const Tensor& x) const { return rows(words(x)); }
  };
  Tagger tagger;
  CHECK(variables(tagger).size() == 1);
  const Tensor x = tensor({"cat", "the"}), y = tagger(x);
  Tagger copy = nn::clone(tagger);
  CHECK(same_bits(copy(x), y));
  const Folder at;
  Checkpoint({{"tagger", tagger}, {"words", Variable(tagger.words.keys(), {.trainable = false})}}).save(at / "tagger");
  // Another program makes the vocabulary of the words that it finds.
  const Tensor found = load_checkpoint(at / "tagger", {"words"}).at("words");
  CHECK(texts(Vocabulary(found.to_vector<std::string>()).keys()) == texts(tagger.words.keys()));
}
