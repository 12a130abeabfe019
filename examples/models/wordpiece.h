// WordPiece, the tokenizer of BERT (Wu et al.: Google's Neural Machine Translation System, 2016): lower case without accents,
// words and punctuation separated, each word split into the longest pieces of a vocabulary.
#pragma once
#include <rill/rill.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace models {
using namespace rill;

class WordPiece {
 public:
  // vocab.txt, one piece on each line, whose index is its id.
  explicit WordPiece(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("'" + path + "' cannot be read");
    for (std::string piece; std::getline(file, piece);) ids_.emplace(piece, int32_t(ids_.size()));
  }

  // [CLS], the pieces, [SEP]; at most `longest`.
  std::vector<int32_t> encode(const std::string& text, size_t longest = 256) const {
    std::vector<int32_t> ids = {ids_.at("[CLS]")};
    for (const std::string& word : words(text)) add_pieces(word, ids);
    if (ids.size() >= longest) ids.resize(longest - 1);
    ids.push_back(ids_.at("[SEP]"));
    return ids;
  }

  struct Batch {
    Tensor ids, mask;  // [texts, tokens]
  };
  Batch operator()(const std::vector<std::string>& texts) const {
    std::vector<std::vector<int32_t>> rows;
    size_t longest = 0;
    for (const std::string& text : texts) rows.push_back(encode(text)), longest = std::max(longest, rows.back().size());
    std::vector<int32_t> ids, mask;
    for (std::vector<int32_t>& row : rows) {
      const size_t count = row.size();
      row.resize(longest, ids_.at("[PAD]"));
      ids.insert(ids.end(), row.begin(), row.end());
      for (size_t i = 0; i < longest; ++i) mask.push_back(i < count);
    }
    const Shape shape = {Dim(int64_t(rows.size())), Dim(int64_t(longest))};
    return {reshape(tensor(ids), shape), reshape(tensor(mask), shape)};
  }

 private:
  // The number of bytes of the character that starts at text[i].
  static size_t length(const std::string& text, size_t i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    return std::min<size_t>(text.size() - i, c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4);
  }
  static bool is_mark(const std::string& c) {
    if (c.size() == 1) return std::ispunct(static_cast<unsigned char>(c[0]));
    // General punctuation, CJK marks, and CJK ideographs, each of which is a word.
    return (c >= "\u2010" && c <= "\u2027") || (c >= "\u2030" && c <= "\u205e") || (c >= "\u3001" && c <= "\u3003") ||
           (c >= "\u3008" && c <= "\u3011") || (c >= "\u4e00" && c <= "\u9fff");
  }

  static std::vector<std::string> words(const std::string& text) {
    const Tensor plain = strings::strip_accents(strings::lower_utf8(tensor(text)));
    const std::string all = plain.to_vector<std::string>()[0];
    std::vector<std::string> words;
    bool inside = false;
    for (size_t i = 0; i < all.size();) {
      const std::string c = all.substr(i, length(all, i));
      i += c.size();
      const bool space = c == " " || c == "\t" || c == "\n" || c == "\r" || c == "\u00a0", mark = is_mark(c);
      if (!space && inside && !mark) words.back() += c;
      else if (!space) words.push_back(c);
      inside = !space && !mark;
    }
    return words;
  }

  void add_pieces(const std::string& word, std::vector<int32_t>& ids) const {
    std::vector<int32_t> pieces;
    for (size_t begin = 0, end; begin < word.size(); begin = end) {
      std::unordered_map<std::string, int32_t>::const_iterator at;
      for (end = word.size(); end > begin; --end) {
        at = ids_.find((begin ? "##" : "") + word.substr(begin, end - begin));
        if (at != ids_.end()) break;
      }
      if (end == begin || word.size() > 100) return ids.push_back(ids_.at("[UNK]"));
      pieces.push_back(at->second);
    }
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }

  std::unordered_map<std::string, int32_t> ids_;
};

}  // namespace models
