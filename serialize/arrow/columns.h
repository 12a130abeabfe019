// The columns of record batches, between Arrow's buffers and arrays of rows. read_arrow.cpp finds the batches.
#pragma once
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "arrow_generated.h"
#include "rill/serialize/files.h"
#include "rill/tensor/limits.h"
#include "rill/tensor/tensor.h"

namespace rill::arrow {

// A copy of element i of a list of structs or numbers, which is how all such lists are read: flatbuffers does not check that
// those of a damaged file are aligned.
template <class Element, class T = std::remove_const_t<std::remove_pointer_t<Element>>>
T item(const flatbuffers::Vector<Element>& list, uint32_t i) {
  T copy;
  std::memcpy(&copy, list.Data() + size_t(i) * sizeof(T), sizeof(T));
  return copy;
}

// For errors: the file, and the function that reads it.
struct Source {
  const std::string& path;
  const Where& where;
  uint64_t file_bytes = 0;
  std::string_view op = "read_arrow";
  // Throws "[op] 'path': what".
  [[noreturn]] void reject(const std::string& what) const;
};

// Rows of a column: numbers as bytes, or texts. A column of lists of any length has the values of all of them.
struct Array {
  DType dtype = DType::f32;
  Shape row = {};  // the sizes of one row, or of one value of a list: {} for a single element
  bool lists = false;
  std::vector<int64_t> splits = {};  // of lists: where each begins, and the number of values; empty where `rows` is 0
  int64_t rows = 0;
  std::string bytes = {};
  std::vector<std::string> texts = {};
  std::string valid = {};  // a byte for each row, 0 if it has no value; empty if all have one

  // The numbers of elements of `texts` and of `bytes` in one row; one of the two is 0.
  size_t texts_of_row() const { return dtype == DType::string ? size_t(elements_of_row()) : 0; }
  size_t bytes_of_row() const {
    return dtype == DType::string ? 0 : size_t(multiply_sizes(elements_of_row(), int64_t(size_of(dtype))));
  }
  bool has_type_of(const Array& other) const {
    return dtype == other.dtype && row == other.row && lists == other.lists;
  }
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
  // `body`: the bytes that contain the message's buffers; must outlive this.
  Batch(const format::RecordBatch& meta, std::string_view body, const Source& source);

  int64_t rows() const { return rows_; }
  format::FieldNode next_node();
  // Decompressed if the batch is compressed.
  std::string_view next_buffer();
  // The number of text buffers of the next column of views.
  int64_t next_count();
  // Skips the buffers of a column, whose type must be a known one.
  void skip(const format::Field& field);
  // Behind the last column. Throws where a skipped column had other buffers than skip() assumes.
  void end() const;
  const Source& source() const { return source_; }

 private:
  std::string_view buffer_at(uint32_t index) const;

  const format::RecordBatch& meta_;
  std::string_view body_;
  const Source& source_;
  int64_t rows_;
  uint32_t nodes_ = 0, buffers_ = 0, counts_ = 0;
  bool has_union_ = false;  // one was skipped
  std::deque<std::string> unpacked_;
};

using Dictionaries = std::map<int64_t, Array>;  // by their id in the file

// The rows of the next column of a batch. Throws if rill cannot read its type.
Array read_column(const format::Field& field, Batch& batch, const Dictionaries& dictionaries);
// The rows of a dictionary, whose batch has one column.
Array read_dictionary(const format::Field& field, Batch& batch);
// A column without rows, with its dtype and row; throws as read_column().
Array empty_column(const format::Field& field, const Source& source);

// Decompresses a buffer of LZ4 frames or zstd. Memory grows as the bytes come.
std::string unpack(std::string_view packed, format::Codec codec, int64_t expected, const Source& source);

std::string name_of(const format::Field& field);

}  // namespace rill::arrow
