// Reading a bundle; see bundle.h. All numbers in a file are checked against the files' sizes before they are used.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <set>

#include "rill/devices/registry.h"
#include "rill/ops/ops.h"
#include "rill/serialize/checkpoint/bundle.h"
#include "rill/serialize/checkpoint/table.h"
#include "rill/serialize/messages.h"
#include "rill/serialize/records.h"
#include "rill/tensor/limits.h"
#include "rill/tensor/text.h"

namespace rill {

std::string shard_name(const std::string& prefix, int shard, int shards) {
  return fmt::format("{}.data-{:05}-of-{:05}", prefix, shard, shards);
}

bool is_shard_name(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  constexpr std::string_view form = ".data-DDDDD-of-DDDDD";
  return std::equal(form.begin(), form.end(), name.begin() + long(prefix.size()), name.end(),
                    [](char f, char c) { return f == 'D' ? c >= '0' && c <= '9' : c == f; });
}

bool from_proto(proto::DataType number, DType& dtype) {
  for (int d = 0; d < dtype_count; ++d)
    if (to_proto(DType(d)) == number) {
      dtype = DType(d);
      return true;
    }
  return false;
}

// --- OrderedCode -----------------------------------------------------------------------------------------------------

namespace {

void put_number(std::string& out, uint64_t value) {  // the number of bytes, and the bytes from the highest
  const int bytes = (64 - std::countl_zero(value) + 7) / 8;
  out += char(bytes);
  for (int i = bytes - 1; i >= 0; --i) out += char(value >> 8 * i & 0xFF);
}

void put_string(std::string& out, const std::string& text) {
  for (char c : text) {
    out += c;
    if (c == '\0') out += '\xff';
    if (c == '\xff') out += '\0';
  }
  out += '\0';
  out += '\1';
}

// As many one bits as there are further bytes, then the number's bits; all flipped for negative ones.
void put_signed(std::string& out, int64_t value) {
  const uint64_t magnitude = uint64_t(value < 0 ? ~value : value);
  const int length = std::max(1, (64 - std::countl_zero(magnitude)) / 7 + 1);
  std::string bytes(10, value < 0 ? '\xff' : '\0');
  for (size_t i = 0; i < 8; ++i) bytes[2 + i] = char(uint64_t(value) >> 8 * (7 - i) & 0xFF);
  bytes = bytes.substr(size_t(10 - length));
  for (int bit = 0; bit < length; ++bit) bytes[size_t(bit / 8)] = char(bytes[size_t(bit / 8)] ^ (0x80 >> bit % 8));
  out += bytes;
}

// The length of an extent; without one, -1 for the entire axis, as in TensorFlow.
int64_t length_of(const proto::TensorSliceProto::Extent& e) {
  return e.has_length_case() == proto::TensorSliceProto::Extent::kLength ? e.length() : -1;
}

}  // namespace

std::string slice_key(const std::string& name, const proto::TensorSliceProto& slice) {
  std::string key;
  put_number(key, 0);
  put_string(key, name);
  put_number(key, uint64_t(slice.extent_size()));
  for (const auto& e : slice.extent()) {
    put_signed(key, e.start());
    put_signed(key, length_of(e));
  }
  return key;
}

// --- The index -------------------------------------------------------------------------------------------------------

void BundleReader::reject(const std::string& name, const std::string& what) const {
  fail(op_, fmt::format("'{}.index', entry '{}': {}", prefix_, one_line(name.substr(0, 200)), what), where_);
}

BundleReader::BundleReader(std::string prefix, std::string_view op, const Where& where)
    : prefix_(std::move(prefix)), op_(op), where_(where) {
  const std::string path = prefix_ + ".index";
  std::error_code error;
  if (prefix_.ends_with(".index") && !std::filesystem::exists(path, error))
    fail(op, "there is no '" + path + "'. give '" + prefix_.substr(0, prefix_.size() - 6) + "', without .index", where);
  if (std::filesystem::is_directory(prefix_, error) && !std::filesystem::exists(path, error))
    fail(op, "'" + prefix_ + "' is a folder. latest_checkpoint() gives the last checkpoint in it", where);
  const std::string bytes = read_file(path, op, where);
  bool first = true;
  for (auto& [key, value] : read_table(bytes, path, op, where)) {
    if (std::exchange(first, false)) {
      if (!key.empty() || !parse(value, header_))
        fail(op, "'" + path + "': its first entry is no header of a checkpoint", where);
      continue;
    }
    Entry entry;
    if (!parse(value, entry)) reject(key, "it is not encoded as an entry. the file is damaged");
    entries_.emplace_hint(entries_.end(), std::move(key), std::move(entry));
  }
  if (first) fail(op, "'" + path + "': it has no header, and is no index of a checkpoint", where);
  if (header_.num_shards() < 1 || header_.num_shards() > 99999)
    fail(op, fmt::format("'{}': {} shards make no sense", path, header_.num_shards()), where);
  check_ranges();
}

void BundleReader::check_ranges() const {
  // Overlapping entries would let a small file take much memory.
  std::vector<std::tuple<int, int64_t, int64_t, const std::string*>> ranges;
  for (const auto& [name, e] : entries_) {
    if (e.slices_size() > 0) continue;
    if (e.shard_id() < 0 || e.shard_id() >= header_.num_shards())
      reject(name, fmt::format("it names shard {} of {}", e.shard_id(), header_.num_shards()));
    if (e.offset() < 0 || e.size() < 0 || e.offset() > INT64_MAX - e.size())
      reject(name, fmt::format("{} bytes at {} make no sense", e.size(), e.offset()));
    if (e.size() > 0) ranges.emplace_back(e.shard_id(), e.offset(), e.size(), &name);
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    const auto& [shard, offset, size, name] = ranges[i - 1];
    if (std::get<0>(ranges[i]) == shard && std::get<1>(ranges[i]) < offset + size)
      reject(*name,
             fmt::format("its bytes and those of '{}' overlap", one_line(std::get<3>(ranges[i])->substr(0, 200))));
  }
}

std::vector<std::string> BundleReader::names() const {
  std::vector<std::string> result;
  for (const auto& [name, e] : entries_)
    if (name[0] != '\0') result.push_back(name);
  return result;
}

bool BundleReader::is_known(const std::string& name) const {
  DType dtype;
  return from_proto(entries_.at(name).dtype(), dtype);
}

Spec BundleReader::spec(const std::string& name) const {
  const Entry& e = entries_.at(name);
  Spec spec;
  if (!from_proto(e.dtype(), spec.dtype))
    reject(name, fmt::format("TensorFlow's dtype {} is none of rill's", int(e.dtype())));
  if (e.shape().dim_size() > max_tensor_axes)
    reject(name, fmt::format("{} axes are more than {}", e.shape().dim_size(), max_tensor_axes));
  for (const auto& d : e.shape().dim()) {
    if (d.size() < 0) reject(name, fmt::format("a size of {} makes no sense", d.size()));
    spec.shape.push_back(d.size());
  }
  if (!has_sound_size(spec)) reject(name, to_string(spec) + " is larger than a tensor can be");
  return spec;
}

// --- Tensors ---------------------------------------------------------------------------------------------------------

const FileReader& BundleReader::shard(int i) const {
  auto& file = files_[i];
  if (!file) file = std::make_unique<FileReader>(shard_name(prefix_, i, header_.num_shards()), op_, where_);
  return *file;
}

void BundleReader::check_sum(const std::string& name, const Entry& entry, std::string_view bytes) const {
  if (masked_crc32c(bytes) != entry.crc32c())
    reject(name, fmt::format("the checksum of its {} bytes at {} of '{}' is wrong. the file is damaged", entry.size(),
                             entry.offset(), shard(entry.shard_id()).path()));
}

Tensor BundleReader::read(const std::string& name) const {
  const Entry& entry = entries_.at(name);
  const Spec s = spec(name);
  if (entry.slices_size() > 0) return read_slices(name, entry, s);
  const FileReader& file = shard(entry.shard_id());
  if (uint64_t(entry.offset() + entry.size()) > file.size())
    reject(name, fmt::format("its {} bytes at {} end after '{}' does, of {} bytes. the file is truncated", entry.size(),
                             entry.offset(), file.path(), file.size()));
  return s.dtype == DType::string ? read_strings(name, entry, s) : read_whole(name, entry, s);
}

namespace {
void swap_bytes(char* bytes, size_t count, size_t each) {
  for (size_t i = 0; i < count; ++i) std::reverse(bytes + i * each, bytes + (i + 1) * each);
}
}  // namespace

Tensor BundleReader::read_whole(const std::string& name, const Entry& entry, const Spec& s) const {
  const int64_t bytes = s.shape.numel() * int64_t(size_of(s.dtype));
  if (entry.size() != bytes)
    reject(name, fmt::format("it has {} bytes, and {} takes {}", entry.size(), to_string(s), bytes));
  Tensor t = empty_tensor(s);
  char* data = static_cast<char*>(t.mutable_rep()->data);
  shard(entry.shard_id()).read(uint64_t(entry.offset()), data, size_t(bytes));
  check_sum(name, entry, {data, size_t(bytes)});
  if (header_.endianness() == proto::BundleHeaderProto::BIG && !is_complex(s.dtype))
    swap_bytes(data, size_t(s.shape.numel()), size_of(s.dtype));
  else if (header_.endianness() == proto::BundleHeaderProto::BIG)
    swap_bytes(data, 2 * size_t(s.shape.numel()), size_of(s.dtype) / 2);
  if (is_bool(s.dtype) && std::any_of(data, data + bytes, [](char b) { return uint8_t(b) > 1; }))
    reject(name, "an element of a bool tensor is neither 0 nor 1");
  return t;
}

// The lengths as varints, a checksum of them (as numbers of 4 bytes, or of 8 if needed), the texts.
Tensor BundleReader::read_strings(const std::string& name, const Entry& entry, const Spec& s) const {
  const size_t count = size_t(s.shape.numel());
  if (count > uint64_t(entry.size()))
    reject(name, fmt::format("it has {} bytes, too few for {} strings", entry.size(), count));
  std::string bytes(size_t(entry.size()), '\0');
  shard(entry.shard_id()).read(uint64_t(entry.offset()), bytes.data(), bytes.size());
  std::string_view rest = bytes;
  std::vector<uint64_t> lengths;
  std::string numbers;
  for (size_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    unsigned shift = 0;
    for (uint8_t b = 0x80; b & 0x80; shift += 7) {
      if (rest.empty() || shift > 63) reject(name, fmt::format("the length of string {} does not end", i));
      b = uint8_t(rest[0]);
      rest.remove_prefix(1);
      length |= uint64_t(b & 0x7F) << shift;
    }
    lengths.push_back(length);
    for (int k = 0; k < (length <= UINT32_MAX ? 4 : 8); ++k) numbers += char(length >> 8 * k & 0xFF);
  }
  if (rest.size() < 4) reject(name, "it ends before the checksum of its lengths");
  uint32_t sum;
  std::memcpy(&sum, rest.data(), 4);
  if (masked_crc32c(numbers) != sum) reject(name, "the checksum of its lengths is wrong. the file is damaged");
  numbers += rest;  // the checksum of lengths and the texts, which the entry's checksum covers
  rest.remove_prefix(4);
  check_sum(name, entry, numbers);
  std::vector<std::string> texts;
  for (uint64_t length : lengths) {
    if (length > rest.size()) reject(name, "a string does not lie within its bytes");
    texts.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  if (!rest.empty()) reject(name, fmt::format("{} bytes are left over behind its strings", rest.size()));
  return tensor(texts, s.shape);
}

// --- Tensors in parts ------------------------------------------------------------------------------------------------

namespace {
// Calls f(offset in the part, offset in the full tensor, count) for each run of the part.
template <class Part, class F>
void each_run(const Part& part, const Shape& whole, F&& f) {
  const size_t n = part.size.size();
  int64_t rows = 1;
  const int64_t run = n ? int64_t(part.size[n - 1]) : 1;
  for (size_t d = 0; d + 1 < n; ++d) rows *= part.size[d];
  for (int64_t row = 0; row < rows && run > 0; ++row) {
    int64_t to = n ? int64_t(part.start[n - 1]) : 0, step = 1, rest = row;
    for (size_t d = n; d-- > 0; step *= whole[d]) {
      if (d + 1 == n) continue;
      to += (part.start[d] + rest % part.size[d]) * step;
      rest /= part.size[d];
    }
    f(size_t(row * run), size_t(to), size_t(run));
  }
}
}  // namespace

// Parts with as many elements as the tensor, no two of which overlap, are all of it.
Tensor BundleReader::read_slices(const std::string& name, const Entry& entry, const Spec& s) const {
  std::vector<Part> parts;
  std::set<std::string> keys;
  int64_t covered = 0;
  for (const auto& slice : entry.slices()) {
    Part p{slice_key(name, slice), {}, {}};
    if (slice.extent_size() != s.shape.ndim() || !entries_.contains(p.key))
      reject(name, "it has a part of which there is no entry. the file is damaged");
    // Read once for each name, a small file could take much memory.
    if (!keys.insert(p.key).second) reject(name, "it names one of its parts twice. the file is damaged");
    for (int d = 0; d < slice.extent_size(); ++d) {
      const int64_t all = s.shape[size_t(d)], start = slice.extent(d).start();
      const int64_t length = length_of(slice.extent(d)) < 0 ? all : length_of(slice.extent(d));
      if (start < 0 || length > all || start > all - length)
        reject(name, fmt::format("a part [{}, {} + {}) does not lie within an axis of {}", start, start, length, all));
      p.start.push_back(start);
      p.size.push_back(length);
    }
    const Spec part{Shape(p.size), s.dtype, false, s.device};
    if (entries_.at(p.key).slices_size() > 0 || !(spec(p.key) == part))
      reject(name, "a part of it is not what its slice says, " + to_string(part) + ". the file is damaged");
    covered += part.shape.numel();
    parts.push_back(std::move(p));
    if (covered > s.shape.numel()) break;
  }
  if (covered != s.shape.numel())
    reject(name,
           fmt::format("its parts have {} elements, and {} has {}", covered, to_string(s), int64_t(s.shape.numel())));
  std::vector<Tensor> values;  // which have been read, so the full tensor is not larger than the files
  for (const Part& p : parts) values.push_back(read(p.key));
  return join(name, s, parts, values);
}

Tensor BundleReader::join(const std::string& name, const Spec& s, const std::vector<Part>& parts,
                          const std::vector<Tensor>& values) const {
  std::vector<bool> filled(size_t(s.shape.numel()));
  const bool texts = s.dtype == DType::string;
  std::vector<std::string> strings(texts ? filled.size() : 0);
  Tensor whole = texts ? Tensor() : empty_tensor(s);
  const size_t each = size_of(s.dtype);
  for (size_t i = 0; i < parts.size(); ++i) {
    std::vector<std::string> own = texts ? values[i].to_vector<std::string>() : std::vector<std::string>();
    each_run(parts[i], s.shape, [&](size_t from, size_t to, size_t n) {
      if (std::find(filled.begin() + long(to), filled.begin() + long(to + n), true) != filled.begin() + long(to + n))
        reject(name, "two parts of it overlap. the file is damaged");
      std::fill_n(filled.begin() + long(to), n, true);
      if (texts) std::move(own.begin() + long(from), own.begin() + long(from + n), strings.begin() + long(to));
      else
        std::memcpy(static_cast<char*>(whole.mutable_rep()->data) + to * each,
                    static_cast<const char*>(values[i].rep()->data) + from * each, n * each);
    });
  }
  return texts ? tensor(strings, s.shape) : whole;
}

}  // namespace rill
