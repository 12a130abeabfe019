// The rows of one array, in a mapped file or in memory, in any order of its elements. Not installed.
#pragma once
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rill/serialize/files.h"
#include "rill/serialize/tensors/npy_header.h"

namespace rill::data::detail {

class RowArray {
 public:
  // From a tensor on the host, dense.
  static RowArray of(const Tensor& t);
  // From the .npy file of `bytes` bytes that begins at byte `at` of `file`, which is mapped. `reject` throws errors,
  // with the offset from there on.
  static RowArray npy(const std::shared_ptr<char>& mapping, uint64_t at, uint64_t bytes, RejectAt reject);

  int64_t rows() const { return rows_; }
  const Spec& row_spec() const { return row_; }
  // Row i into `to`: numbers, or strings that are there.
  void copy(int64_t i, char* to) const;
  // An estimate of how much of a mapped file row i loads into memory; 0 for what is there anyway.
  int64_t bytes_of_row(bool follows) const;
  // Releases the resident pages of a mapped file. They are read again from the system's cache if needed.
  void release_pages() const;

 private:
  void gather(const char* from, char* to) const;

  std::shared_ptr<const char> memory_;
  char* pages_ = nullptr;  // full pages of a mapped file
  size_t pages_bytes_ = 0;
  Spec row_;
  int64_t rows_ = 0, elements_ = 0;  // of a row
  NpyType type_;
  bool fortran_ = false, are_strings_ = false;  // strings in memory
  uint64_t at_ = 0;                             // where the elements begin, from the file's first byte on
  RejectAt reject_;
};

// Arrays whose rows follow one another.
class RowList {
 public:
  // Throws where the rows differ in shape or dtype.
  void add(RowArray array, const std::string& path, const std::string& op, const Where& where);
  int64_t rows() const { return ends_.empty() ? 0 : ends_.back(); }
  const Spec& row_spec() const { return arrays_.front().row_spec(); }
  // On the host.
  Tensor row(int64_t i) const;
  Tensor stacked(std::span<const int64_t> indices) const;

 private:
  // How much of mapped files was read since their pages were released: a pass over files that are larger than memory
  // uses little of it.
  struct LookedAt {
    std::atomic<int64_t> bytes{0}, next{0};
  };
  void copy(int64_t i, char* to) const;
  void look_at(const RowArray& array, int64_t i) const;
  std::shared_ptr<LookedAt> looked_at_ = std::make_shared<LookedAt>();
  std::vector<RowArray> arrays_;
  std::vector<int64_t> ends_;
};

// The .npy members of a zip file and their offsets. Without libzip; sizes and offsets are checked against the file.
struct NpzMember {
  std::string name;  // without its ending
  uint64_t at = 0, bytes = 0;
  bool packed = false;
};
std::vector<NpzMember> npz_members(const FileReader& file);

}  // namespace rill::data::detail
