// See row_array.h.
#include "rill/data/files/row_array.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "rill/devices/registry.h"
#include "rill/serialize/tensors/elements.h"
#include "rill/tensor/limits.h"

namespace rill::data::detail {
namespace {

template <class Word>
void turn_words(char* bytes, size_t n) {
  for (size_t i = 0; i + sizeof(Word) <= n; i += sizeof(Word)) std::reverse(bytes + i, bytes + i + sizeof(Word));
}
// Reverses the bytes of each number; of a complex one, those of its parts.
void reverse_bytes(char* bytes, size_t n, DType dtype) {
  switch (size_of(real_of(dtype))) {
    case 2: return turn_words<uint16_t>(bytes, n);
    case 4: return turn_words<uint32_t>(bytes, n);
    case 8: return turn_words<uint64_t>(bytes, n);
  }
}

Shape without_first(const Shape& shape) { return Shape(shape.begin() + 1, shape.end()); }

// The header of a .npy file.
NpyHeader read_npy_header(const char* begin, uint64_t bytes, uint64_t& elements_at, const RejectAt& reject) {
  const std::string_view all(begin, size_t(bytes));
  const uint64_t place = npy_dictionary_place(all.substr(0, npy_start_bytes), reject);
  const auto need = [&](uint64_t at, uint64_t n) {
    if (bytes - at < n) reject(at, fmt::format("expected a header of {} bytes, and {} are left", n, bytes - at));
  };
  need(npy_start_bytes, place - std::min(place, npy_start_bytes));
  const uint64_t length = npy_dictionary_bytes(all.substr(0, place));
  need(place, length);
  elements_at = place + length;
  return parse_npy_header(all.substr(place, length), place, reject);
}

}  // namespace

RowArray RowArray::of(const Tensor& t) {
  RowArray a;
  const Tensor dense = t.contiguous();
  a.memory_ = std::shared_ptr<const char>(dense.rep()->data, [dense](const char*) {});
  a.rows_ = int64_t(dense.dim(0));
  a.row_ = Spec{without_first(dense.shape()), dense.dtype(), false, Device()};
  a.elements_ = a.row_.shape.numel();
  a.type_ = {dense.dtype(), false, false, size_of(dense.dtype())};
  a.are_strings_ = dense.dtype() == DType::string;
  return a;
}

RowArray RowArray::npy(const std::shared_ptr<char>& mapping, uint64_t at, uint64_t bytes, RejectAt reject) {
  if (bytes < npy_start_bytes) reject(0, "is no .npy file: it is shorter than the start of one");
  RowArray a;
  uint64_t elements_at = 0;
  const NpyHeader h = read_npy_header(mapping.get() + at, bytes, elements_at, reject);
  if (h.shape.empty()) reject(0, "is a scalar, which has no rows: arrays are cut along their first axes");
  const Spec whole{h.shape, h.type.dtype, false, Device()};
  uint64_t size = 0;
  const bool sound =
      has_sound_size(whole) && !__builtin_mul_overflow(uint64_t(h.shape.numel()), h.type.item_bytes, &size);
  if (!sound || size != bytes - elements_at)
    reject(elements_at,
           fmt::format("expected {} bytes of elements of {}, and {} are left",
                       sound ? std::to_string(size) : "far too many", to_string(whole), bytes - elements_at));
  if (h.type.item_bytes == 0 && h.shape.numel() > (1 << 20))
    reject(elements_at, "more than a million strings of no length");
  a.memory_ = std::shared_ptr<const char>(mapping, mapping.get() + at + elements_at);
  a.rows_ = h.shape[0].plain();
  a.row_ = Spec{without_first(h.shape), h.type.dtype, false, Device()};
  a.elements_ = a.row_.shape.numel();
  a.type_ = h.type;
  a.fortran_ = h.fortran_order && h.shape.size() > 1;
  a.at_ = elements_at;
  a.reject_ = std::move(reject);
  const auto page = uintptr_t(sysconf(_SC_PAGESIZE)), begin = (uintptr_t(a.memory_.get()) + page - 1) / page * page,
             end = uintptr_t(mapping.get() + at + bytes) / page * page;
  if (begin < end) a.pages_ = reinterpret_cast<char*>(begin), a.pages_bytes_ = size_t(end - begin);
  return a;
}

int64_t RowArray::bytes_of_row(bool follows) const {
  constexpr int64_t around = int64_t(64) << 10;  // that a fault brings along
  if (!pages_) return 0;
  if (fortran_) return std::min(elements_, int64_t(1) << 20) * around;
  return elements_ * int64_t(type_.item_bytes) + (follows ? 0 : around);
}
void RowArray::release_pages() const {  // the mapping is private, and never written
  if (pages_) madvise(pages_, pages_bytes_, MADV_DONTNEED);
}

// The elements of a row of an array in Fortran order: rows are adjacent along the first axis, so a row's elements are
// `rows_` apart along the second, and so on.
void RowArray::gather(const char* from, char* to) const {
  const size_t width = type_.item_bytes;
  const size_t axes = row_.shape.size();
  std::vector<int64_t> at(axes, 0), step(axes, 0);
  int64_t stride = rows_;
  for (size_t k = 0; k < axes; ++k) step[k] = stride, stride *= row_.shape[k].plain();
  int64_t offset = 0;
  for (int64_t n = 0; n < elements_; ++n, to += width) {
    std::memcpy(to, from + size_t(offset) * width, width);
    for (size_t k = axes; k-- > 0;) {
      offset += step[k];
      if (++at[k] < row_.shape[k].plain()) break;
      offset -= step[k] * at[k];
      at[k] = 0;
    }
  }
}

void RowArray::copy(int64_t i, char* to) const {
  const size_t width = type_.item_bytes, bytes = size_t(elements_) * width;
  const char* const from = memory_.get() + size_t(i) * (fortran_ ? width : bytes);
  if (are_strings_) {
    std::copy_n(reinterpret_cast<const std::string*>(from), elements_, reinterpret_cast<std::string*>(to));
    return;
  }
  if (type_.dtype == DType::string) {
    std::string raw(bytes, '\0');
    if (fortran_) gather(from, raw.data());
    else raw.assign(from, bytes);
    auto* out = reinterpret_cast<std::string*>(to);
    for (int64_t k = 0; k < elements_; ++k)
      out[k] = decode_npy_string(raw.data() + size_t(k) * width, type_, reject_, at_ + uint64_t(from - memory_.get()));
    return;
  }
  if (fortran_) gather(from, to);
  else if (bytes) std::memcpy(to, from, bytes);
  if (type_.swapped) reverse_bytes(to, bytes, type_.dtype);
  if (is_bool(type_.dtype))
    for (size_t k = 0; k < bytes; ++k) to[k] = to[k] != 0;
}

// --- Lists -----------------------------------------------------------------------------------------------------------

void RowList::add(RowArray array, const std::string& path, const std::string& op, const Where& where) {
  if (!arrays_.empty() && (array.row_spec().dtype != row_spec().dtype || array.row_spec().shape != row_spec().shape))
    fail(op,
         fmt::format("'{}' has rows of {}, and the files before it of {}: they must be the same", path,
                     to_string(array.row_spec()), to_string(row_spec())),
         where);
  ends_.push_back(rows() + array.rows());
  arrays_.push_back(std::move(array));
}

void RowList::copy(int64_t i, char* to) const {
  const auto which = size_t(std::ranges::upper_bound(ends_, i) - ends_.begin());
  arrays_[which].copy(which ? i - ends_[which - 1] : i, to);
  look_at(arrays_[which], i);
}

void RowList::look_at(const RowArray& array, int64_t i) const {
  constexpr int64_t most = int64_t(16) << 20;
  const bool follows = looked_at_->next.exchange(i + 1, std::memory_order_relaxed) == i;
  const int64_t more = array.bytes_of_row(follows);
  if (more == 0 || looked_at_->bytes.fetch_add(more, std::memory_order_relaxed) + more < most) return;
  looked_at_->bytes.store(0, std::memory_order_relaxed);
  for (const RowArray& a : arrays_) a.release_pages();
}

Tensor RowList::row(int64_t i) const {
  Tensor t = empty_tensor(row_spec());
  copy(i, t.mutable_rep()->data);
  return t;
}

Tensor RowList::stacked(std::span<const int64_t> indices) const {
  Shape shape{int64_t(indices.size())};
  for (const Dim d : row_spec().shape) shape.push_back(d);
  Tensor t = empty_tensor(Spec{shape, row_spec().dtype, false, Device()});
  char* to = t.mutable_rep()->data;
  const size_t bytes = size_t(row_spec().shape.numel()) * size_of(row_spec().dtype);
  for (const int64_t i : indices) copy(i, to), to += bytes;
  return t;
}

// --- Zip files -------------------------------------------------------------------------------------------------------

namespace {

uint64_t number_at(std::string_view bytes, size_t at, size_t width) { return little_endian(bytes.data() + at, width); }

struct Directory {
  uint64_t entries = 0, at = 0, bytes = 0;
};

// The end of a zip file has the offset of its directory (APPNOTE 6.3.10, 4.3.14 to 4.3.16).
Directory find_directory(const FileReader& file) {
  constexpr uint64_t end_bytes = 22, longest_comment = 65535, locator_bytes = 20, end64_bytes = 56;
  const uint64_t n = std::min(file.size(), longest_comment + end_bytes + locator_bytes);
  const std::string tail = file.read(file.size() - n, n);
  const size_t at = tail.rfind("PK\5\6");
  if (at == tail.npos || tail.size() - at < end_bytes)
    file.reject("has no end of a zip file. expected a .npz file, and it may be cut");
  Directory d{number_at(tail, at + 10, 2), number_at(tail, at + 16, 4), number_at(tail, at + 12, 4)};
  if (at >= locator_bytes && tail.compare(at - locator_bytes, 4, "PK\6\7") == 0) {
    const uint64_t end64 = number_at(tail, at - locator_bytes + 8, 8);
    file.require(end64, end64_bytes, "the end of a large zip file");
    const std::string end = file.read(end64, end64_bytes);
    d = {number_at(end, 32, 8), number_at(end, 48, 8), number_at(end, 40, 8)};
  }
  file.require(d.at, d.bytes, "the directory of a zip file");
  return d;
}

// Sizes that do not fit into 32 bits are after the name, in this order, those that are needed.
void read_large(std::string_view extra, uint64_t& size, uint64_t& packed, uint64_t& header) {
  while (extra.size() >= 4) {
    const uint64_t id = number_at(extra, 0, 2), length = number_at(extra, 2, 2);
    if (length > extra.size() - 4) return;
    std::string_view field = extra.substr(4, length);
    extra.remove_prefix(4 + length);
    if (id != 1) continue;
    for (uint64_t* x : {&size, &packed, &header})
      if (*x == 0xFFFFFFFF && field.size() >= 8) {
        *x = number_at(field, 0, 8);
        field.remove_prefix(8);
      }
  }
}

}  // namespace

std::vector<NpzMember> npz_members(const FileReader& file) {
  constexpr uint64_t entry_bytes = 46, header_bytes = 30;
  const Directory d = find_directory(file);
  if (d.entries > d.bytes / entry_bytes)
    file.reject(d.at, fmt::format("a directory of {} members does not fit into {} bytes", d.entries, d.bytes));
  const std::string directory = file.read(d.at, d.bytes);
  std::vector<NpzMember> members;
  size_t at = 0;
  for (uint64_t i = 0; i < d.entries; ++i) {
    if (directory.size() - at < entry_bytes || directory.compare(at, 4, "PK\1\2") != 0)
      file.reject(d.at + at, fmt::format("expected member {} of the directory", i));
    const uint64_t name = number_at(directory, at + 28, 2), extra = number_at(directory, at + 30, 2);
    const uint64_t all = entry_bytes + name + extra + number_at(directory, at + 32, 2);
    if (directory.size() - at < all) file.reject(d.at + at, fmt::format("member {} of the directory is cut", i));
    uint64_t packed = number_at(directory, at + 20, 4), size = number_at(directory, at + 24, 4);
    uint64_t header = number_at(directory, at + 42, 4);
    const std::string_view text = std::string_view(directory).substr(at + entry_bytes, name);
    read_large(std::string_view(directory).substr(at + entry_bytes + name, extra), size, packed, header);
    NpzMember& m = members.emplace_back();
    m.name = std::string(text.ends_with(".npy") ? text.substr(0, text.size() - 4) : text);
    m.packed = number_at(directory, at + 10, 2) != 0;
    m.bytes = size;
    at += all;
    file.require(header, header_bytes, "the header of a member");
    const std::string local = file.read(header, header_bytes);
    if (local.compare(0, 4, "PK\3\4") != 0) file.reject(header, fmt::format("expected the member '{}'", m.name));
    m.at = header + header_bytes + number_at(local, 26, 2) + number_at(local, 28, 2);
    file.require(m.at, m.packed ? packed : size, "a member");
    if (text.ends_with('/') && size == 0) members.pop_back();  // a folder
  }
  return members;
}

}  // namespace rill::data::detail
