// Vocabularies: from lists, files and counts; ids by a hash table of strings, or by a search of sorted numbers.
#include "rill/data/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <numeric>
#include <system_error>
#include <unordered_map>

#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/ops/strings.h"
#include "rill/ops/strings/records.h"

namespace rill::data {
namespace {

constexpr const char* op = "data::Vocabulary";

template <class T>
void require_different(const std::vector<T>& words, const Where& where) {
  std::unordered_map<T, size_t> seen;
  for (size_t i = 0; i < words.size(); ++i)
    if (const auto [at, is_new] = seen.try_emplace(words[i], i); !is_new)
      fail(op, fmt::format("the words {} and {} are both '{}'. each word has one id", at->second, i, words[i]), where);
}

std::vector<std::string> lines_of(const std::string& path, int64_t most, const Where& where) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file || file.peek() == EOF) {
    const int error = errno;
    if (!file.is_open() || error != 0)
      fail(op, fmt::format("cannot read '{}': {}", path, std::system_category().message(error)), where);
    file.clear();
  }
  std::vector<std::string> lines;
  for (std::string line; (most < 0 || int64_t(lines.size()) < most) && std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(line);
  }
  if (file.bad()) fail(op, fmt::format("reading '{}' failed after {} lines", path, lines.size()), where);
  if (most >= 0 && int64_t(lines.size()) < most)
    fail(op, fmt::format("'{}' has {} lines, and {} words were asked for", path, lines.size(), most), where);
  return lines;
}

using Counts = std::unordered_map<std::string, int64_t>;

void count(Counts& counts, const Tensor& texts, const Where& where) {
  if (!texts.defined() || texts.dtype() != DType::string)
    fail(op,
         fmt::format("it counts texts, and was given {}",
                     texts.defined() ? to_string(texts.spec()) : "an undefined tensor"),
         where);
  for (const std::string& s : texts.to_vector<std::string>(where))
    if (!s.empty()) ++counts[s];
}

Vocabulary most_frequent(const Counts& counts, const CountOptions& o, const Where& where) {
  std::vector<std::pair<int64_t, std::string>> all;
  for (const auto& [word, n] : counts)
    if (n >= o.at_least && std::ranges::find(o.special, word) == o.special.end()) all.emplace_back(-n, word);
  std::ranges::sort(all);
  std::vector<std::string> words = o.special;
  for (const auto& [n, word] : all) {
    if (o.most >= 0 && int64_t(words.size()) >= o.most) break;
    words.push_back(word);
  }
  if (words.empty())
    fail(op, fmt::format("no word occurs {} times or more: there is nothing to look up", o.at_least), where);
  return Vocabulary(words, o.ids, where);
}

}  // namespace

Vocabulary::Vocabulary(const Words& words, const VocabularyOptions& o, Where where)
    : size_(int64_t(words.size())), unknown_(o.unknown), otherwise_(o.otherwise) {
  CallerScope caller(where);
  if (words.size() == 0) fail(op, "there are no words", where);
  if (o.unknown < 0) fail(op, fmt::format("unknown is {} and counts buckets", o.unknown), where);
  if (o.unknown > 0 && o.otherwise != -1)
    fail(op, "give buckets for unknown words, or the id that they have otherwise, not both", where);
  if (o.otherwise < -1 || o.otherwise >= size_)
    fail(op, fmt::format("otherwise is {} and must be an id in [0, {}), or -1", o.otherwise, size_), where);
  const EagerScope eager;
  if (words.is_text) {
    require_different(words.texts, where);
    keys_ = tensor(words.texts);
    slots_ = strings::slots_of(keys_);
    return;
  }
  require_different(words.numbers, where);
  keys_ = tensor(words.numbers);
  order_ = argsort(keys_).astype(i64);
  sorted_ = take(keys_, order_, 0);
}

Vocabulary Vocabulary::from_file(const std::string& path, int64_t most, const VocabularyOptions& options, Where where) {
  CallerScope caller(where);
  if (most == 0 || most < -1) fail(op, fmt::format("{} lines of '{}' were asked for", most, path), where);
  const std::vector<std::string> lines = lines_of(path, most, where);
  if (lines.empty()) fail(op, fmt::format("'{}' has no lines", path), where);
  std::unordered_map<std::string_view, size_t> seen;
  for (size_t i = 0; i < lines.size(); ++i)
    if (const auto [at, is_new] = seen.try_emplace(lines[i], i); !is_new)
      fail(op,
           fmt::format("the lines {} and {} of '{}' are both '{}'. each word has one id", at->second + 1, i + 1, path,
                       lines[i]),
           where);
  return Vocabulary(lines, options, where);
}

Vocabulary Vocabulary::counted(const Tensor& texts, const CountOptions& options, Where where) {
  CallerScope caller(where);
  Counts counts;
  count(counts, texts, where);
  return most_frequent(counts, options, where);
}
Vocabulary Vocabulary::counted(const Dataset<Tensor>& texts, const CountOptions& options, Where where) {
  CallerScope caller(where);
  Counts counts;
  for (const Tensor& t : texts) count(counts, t, where);
  return most_frequent(counts, options, where);
}

Tensor Vocabulary::ids(const Tensor& x, Where where) const {
  CallerScope caller(where);
  require_defined(op, x, "the operand", where);
  if (has_texts() ? x.dtype() != DType::string : !is_integer(x.dtype()))
    fail(op,
         fmt::format("the vocabulary is of {}, and the operand is {}", has_texts() ? "texts" : "whole numbers",
                     to_string(x.spec())),
         where);
  Tensor found;
  if (has_texts()) {
    found = strings::lookup(x, keys_, slots_, where);
  } else {
    const Tensor sorted = sorted_.to(x.device()), order = order_.to(x.device()), value = astype(x, i64);
    const Tensor place = minimum(searchsorted(sorted, value), size_ - 1);
    found = rill::where(take(sorted, place, 0) == value, take(order, place, 0), int64_t(-1));
  }
  if (unknown_ == 0) return otherwise_ < 0 ? found : rill::where(found < 0, otherwise_, found);
  const Tensor bucket = strings::to_hash_bucket(has_texts() ? x : strings::as_string(x), unknown_);
  return rill::where(found < 0, bucket + size_, found);
}

Ragged Vocabulary::operator()(const Ragged& x, Where where) const {
  CallerScope caller(where);
  return {ids(x.values, where), x.row_splits};
}

Tensor Vocabulary::words(const Tensor& ids, std::string_view unknown, Where where) const {
  CallerScope caller(where);
  if (!has_texts()) fail(op, "the vocabulary is of numbers: take(keys(), ids, 0) gives them", where);
  require_defined(op, ids, "the operand", where);
  if (!is_integer(ids.dtype()))
    fail(op, fmt::format("ids are integers, and these are {}", to_string(ids.spec())), where);
  const Tensor all = astype(ids, i64).to(Device()), there = logical_and(all >= 0, all < size_);
  return rill::where(there, take(keys_, rill::where(there, all, int64_t(0)), 0), tensor(std::string(unknown)));
}

void Vocabulary::write(const std::string& path, Where where) const {
  CallerScope caller(where);
  if (!has_texts()) fail(op, "the vocabulary is of numbers, and a file has words", where);
  std::string text;  // whole before the file is touched: one that is there stays where a word is refused
  for (const std::string& word : keys_.to_vector<std::string>()) {
    if (word.find_first_of("\r\n") != word.npos)
      fail(op, fmt::format("the word '{}' holds an end of line, and a file has a word a line", word), where);
    text += word + "\n";
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  if (!file.flush()) fail(op, fmt::format("cannot write '{}'", path), where);
}

}  // namespace rill::data
