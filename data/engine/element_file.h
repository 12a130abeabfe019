// A file of elements, for cache() and snapshot():
//
//   "rill elements 1\n" | text type | record ... | index | u64 place of the index | u64 magic
//
// A record is an element as its Codec writes it, after its length and the CRC-32 of its bytes (u32 each). The index is
// a record too: the number of elements, how far the input had been read, and the length of each record.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "rill/data/element.h"
#include "rill/serialize/files.h"

namespace rill::data {

class ElementWriter {
 public:
  ElementWriter(const std::string& path, const detail::Codec& codec, std::string_view op, const Where& where);
  void add(Item& x);
  int64_t count() const { return int64_t(lengths_.size()); }
  int64_t bytes() const { return bytes_ + int64_t(buffer_.size()); }
  // Writes the end, and renames the file. `read`: the number of input elements that it covers, including failed ones.
  void commit(int64_t read);

 private:
  void write(std::string_view record);
  FileWriter out_;
  detail::Codec codec_;
  std::string buffer_;
  std::vector<uint32_t> lengths_;
  int64_t bytes_ = 0;
  std::string_view op_;
  std::string path_;
  Where where_;
};

// Mapped into memory; elements are read on demand, by several threads too.
class ElementReader {
 public:
  // Throws where the file is damaged, or holds elements of another type.
  ElementReader(const std::string& path, const detail::Codec& codec, std::string_view op, const Where& where);
  int64_t count() const { return int64_t(offsets_.size()) - 1; }
  int64_t read() const { return read_; }
  Item at(int64_t i) const;

 private:
  std::string_view record_at(uint64_t place, uint64_t end) const;
  FileReader file_;
  std::shared_ptr<char> bytes_;
  detail::Codec codec_;
  std::vector<uint64_t> offsets_;  // of the records, and the end
  int64_t read_ = 0;
};

}  // namespace rill::data
