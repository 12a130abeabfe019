// Vocabulary: a list of words (or integers) and their ids, for texts at the input and output of a model.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rill/data/dataset.h"
#include "rill/ops/creation.h"
#include "rill/ops/names.h"
#include "rill/ops/ragged.h"
#include "rill/serialize/table.h"

#pragma GCC visibility push(default)

namespace rill::data {

// The words of a vocabulary: {"cook", "nurse"}, {10, 20}, or a vector of either.
struct Words {
  Words(std::initializer_list<std::string_view> list) : texts(list.begin(), list.end()), is_text(true) {}
  Words(std::initializer_list<int64_t> list) : numbers(list), is_text(false) {}
  Words(std::vector<std::string> list) : texts(std::move(list)), is_text(true) {}
  Words(std::vector<int64_t> list) : numbers(std::move(list)), is_text(false) {}
  size_t size() const { return is_text ? texts.size() : numbers.size(); }  // how many there are

  std::vector<std::string> texts;
  std::vector<int64_t> numbers;
  bool is_text;
};

struct VocabularyOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  int64_t unknown = 0;     // buckets after the words, into which unknown words are hashed, as in TensorFlow
  int64_t otherwise = -1;  // without buckets, the id of unknown words
};

struct CountOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  int64_t most = -1;                      // at most so many words, the special ones included; -1: all
  int64_t at_least = 1;                   // words that were counted less often are left out
  std::vector<std::string> special = {};  // come first, counted or not: {"[PAD]", "[UNK]"}
  VocabularyOptions ids = {};
};

// Words and their ids: the first has id 0. A value that is cheap to copy. Called inside `function`, where the texts may
// be known only when that is called; exported.
class Vocabulary {
 public:
  // Throws if there are no words, or a word occurs twice (naming both indices).
  explicit Vocabulary(const Words& words, const VocabularyOptions& options = {}, Where where = Where::current());
  // The lines of a file; at most `most` of them, unless that is -1. A last line may lack its end.
  static Vocabulary from_file(const std::string& path, int64_t most = -1, const VocabularyOptions& options = {},
                              Where where = Where::current());
  // The different texts of all elements, the most frequent first; of equally frequent ones the first in the order of
  // bytes. Empty texts are not counted.
  static Vocabulary counted(const Tensor& texts, const CountOptions& options = {}, Where where = Where::current());
  static Vocabulary counted(const Dataset<Tensor>& texts, const CountOptions& options = {},
                            Where where = Where::current());

  // Copies share the words; a move is a copy, so that what was moved from is whole.
  Vocabulary(const Vocabulary&) = default;
  Vocabulary& operator=(const Vocabulary&) = default;

  // The id of each text or number: i64, of x's shape.
  Tensor ids(const Tensor& x, Where where = Where::current()) const;
  Tensor operator()(const Tensor& x, Where where = Where::current()) const { return ids(x, where); }  // ids
  Ragged operator()(const Ragged& x, Where where = Where::current()) const;
  // The word of each id; `unknown` for an id that no word has. Throws for a vocabulary of numbers.
  Tensor words(const Tensor& ids, std::string_view unknown = "[UNK]", Where where = Where::current()) const;

  int64_t size() const { return size_; }                // of words
  int64_t buckets() const { return size_ + unknown_; }  // of ids
  const Tensor& keys() const& { return keys_; }         // string [size] or i64 [size], in order of the ids
  Tensor keys() const&& { return keys_; }
  bool has_texts() const { return keys_.dtype() == DType::string; }  // or numbers
  // The words as lines of a file, which from_file reads. Throws where a word holds an end of line.
  void write(const std::string& path, Where where = Where::current()) const;

 private:
  Tensor keys_;
  Tensor slots_;   // of texts: their hash table
  Tensor sorted_;  // of numbers: ascending, with the id of each
  Tensor order_;
  int64_t size_ = 0, unknown_ = 0, otherwise_ = -1;
};

}  // namespace rill::data

namespace rill {
template <>
inline constexpr bool holds_no_variables<data::Vocabulary> = true;
}

#pragma GCC visibility pop
