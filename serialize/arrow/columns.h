// The columns of record batches, between Arrow's buffers and arrays of rows. read_arrow.cpp finds the batches.
#pragma once
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "arrow_generated.h"
#include "rill/serialize/files.h"
#include "rill/tensor/limits.h"
#include "rill/tensor/tensor.h"

namespace rill::arrow {

// A struct of a list, copied: flatbuffers does not check that those of a damaged file are aligned.
template <class T>
T item(const flatbuffers::Vector<const T*>& list, uint32_t i) {
  T copy;
  std::memcpy(&copy, list.Data() + size_t(i) * sizeof(T), sizeof(T));
  return copy;
}

// For messages: which file, and who reads it.
struct Source {
  const std::string& path;
  const Where& where;
  uint64_t file_bytes = 0;
  std::string_view op = "read_arrow";
  // Throws "[op] 'path': what".
  [[noreturn]] void reject(const std::string& what) const;
};

// Rows of a column: numbers as bytes, or texts.
struct Array {
  DType dtype = DType::f32;
  Shape row = {};  // the sizes of one row: {} where it is one element
  int64_t rows = 0;
  std::string bytes = {};
  std::vector<std::string> texts = {};
  std::string valid = {};  // a byte for each row, 0 where it has no value; empty where all have one

  // What one row has of `texts` and of `bytes`; one of the two is 0.
  size_t texts_of_row() const { return dtype == DType::string ? size_t(elements_of_row()) : 0; }
  size_t bytes_of_row() const {
    return dtype == DType::string ? 0 : size_t(multiply_sizes(elements_of_row(), int64_t(size_of(dtype))));
  }
  bool has_type_of(const Array& other) const { return dtype == other.dtype && row == other.row; }
  // Appends rows of the same type.
  void append(Array&& more);

 private:
  int64_t elements_of_row() const {
    int64_t n = 1;
    for (const Dim size : row) n = multiply_sizes(n, int64_t(size));
    return n;
  }
};

// One batch's buffers, in the order of its columns.
class Batch {
 public:
  // `body`: the bytes that the message's buffers lie in; it outlives this.
  Batch(const format::RecordBatch& meta, std::string_view body, const Source& source);

  int64_t rows() const { return rows_; }
  format::FieldNode next_node();
  // Unpacked where the batch is compressed.
  std::string_view next_buffer();
  // How many buffers of texts the next column of views has.
  int64_t next_count();
  // Passes over a column's, whose type must be one that is known by its number of buffers.
  void skip(const format::Field& field);
  const Source& source() const { return source_; }

 private:
  std::string_view buffer_at(uint32_t index) const;

  const format::RecordBatch& meta_;
  std::string_view body_;
  const Source& source_;
  int64_t rows_;
  uint32_t nodes_ = 0, buffers_ = 0, counts_ = 0;
  std::deque<std::string> unpacked_;
};

using Dictionaries = std::map<int64_t, Array>;  // by their number in the file

// The rows of the next column of a batch. Throws where its type is none that rill reads.
Array read_column(const format::Field& field, Batch& batch, const Dictionaries& dictionaries);
// The rows of a dictionary, whose batch has one column.
Array read_dictionary(const format::Field& field, Batch& batch);
// A column of no rows, with its dtype and row; throws as read_column().
Array empty_column(const format::Field& field, const Source& source);

// What a compressed buffer holds: LZ4 frames or zstd. Memory grows as the bytes come.
std::string unpack(std::string_view packed, format::Codec codec, int64_t expected, const Source& source);

std::string name_of(const format::Field& field);

}  // namespace rill::arrow
