// Which of thirteen languages a name of a country or of a language is in: text as the pieces of one to four letters in
// it, each with a vector in a table of 2^15 rows, by the hash of the piece; a linear layer reads their mean (Joulin et
// al.: Bag of tricks for efficient text classification, 2016). The test set has other countries.
#include <algorithm>

#include "example.h"

using namespace rill;

namespace {

const std::vector<std::string> languages = {"cs", "de", "en", "es", "fi", "fr", "hu",
                                            "it", "nl", "pl", "pt", "sv", "tr"};
constexpr int64_t longest = 120, buckets = 1 << 15;

// The pieces of "^name$", as rows of the table, whose last row is for none.
std::vector<int64_t> pieces(const std::string& name) {
  std::vector<std::string> letters{"^"};
  for (char c : name) {
    if ((c & 0xC0) == 0x80) letters.back() += c;  // a continuation byte of UTF-8
    else letters.emplace_back(1, c);
  }
  letters.emplace_back("$");
  std::vector<std::string> all;
  for (size_t n = 1; n <= 4; ++n)
    for (size_t i = 0; i + n <= letters.size(); ++i) {
      std::string piece;
      for (size_t k = 0; k < n; ++k) piece += letters[i + k];
      all.push_back(piece);
    }
  all.resize(std::min(all.size(), size_t(longest)));
  std::vector<int64_t> ids = strings::to_hash_bucket(tensor(all), buckets).to_vector<int64_t>();
  ids.resize(longest, buckets);
  return ids;
}

struct Classifier {
  nn::Embedding table{buckets + 1, 24, {.padding = buckets}};
  nn::Dropout drop{0.3};
  nn::Dense head{int64_t(languages.size())};
  Tensor operator()(const Tensor& ids, const nn::Call& call = {}) const {
    const Tensor count = sum((ids < buckets).astype(f32), 1, true);
    return head(drop(sum(table(ids, call), 1) / sqrt(count), call), call);
  }
};

auto rows(const Table& names, bool test) {
  const std::vector<std::string> texts = names.at("name").to_vector<std::string>();
  const std::vector<std::string> kinds = names.at("language").to_vector<std::string>();
  const std::vector<int64_t> tests = names.at("test").to_vector<int64_t>();
  std::vector<int64_t> ids, labels;
  for (size_t i = 0; i < texts.size(); ++i) {
    if ((tests[i] != 0) != test) continue;
    for (int64_t id : pieces(texts[i])) ids.push_back(id);
    labels.push_back(std::ranges::find(languages, kinds[i]) - languages.begin());
  }
  return data::from_tensors(std::pair(tensor(ids).reshape({-1, longest}), tensor(labels)));
}

}  // namespace

static void run() {
  const Table names = data::csv(example::data_file("names.csv.gz")).table();
  auto train_set = rows(names, false).shuffle({.seed = 1}).batch(64), test_set = rows(names, true).batch(256);
  Classifier classifier;
  train::Loop loop(classifier, {.loss = sparse_softmax_cross_entropy,
                                .optimizer = nn::Adam({.learning_rate = 3e-3}),
                                .metrics = {metrics::accuracy(), metrics::top_k(3)}});
  loop.fit(train_set, {.epochs = example::quick ? 1 : 12, .progress = false});
  const train::Logs result = loop.evaluate(test_set);
  example::print("language of a name, accuracy", result.at("accuracy"),
                 "scikit-learn's LogisticRegression of the same pieces: 0.828");
  example::print("among the three likeliest", result.at("top_3"), "");
  for (const char* name : {"Neuseeland", "Nouvelle-Zélande", "Nya Zeeland", "Nowa Zelandia", "Nuova Zelanda"})
    std::printf(
        "%-20s %s\n", name,
        languages[size_t(argmax(classifier(tensor(pieces(name)).reshape({1, longest})), -1).item<int64_t>())].c_str());
}

int main(int argc, char** argv) { return example::main(argc, argv, run); }
