// See element_file.h.
#include "rill/data/engine/element_file.h"

#include <cxxabi.h>
#include <fmt/format.h>
#include <zlib.h>

#include <cstdlib>
#include <cstring>
#include <memory>

namespace rill::data {

namespace {
constexpr std::string_view elements_magic = "rill elements 1\n";
constexpr uint64_t end_magic = 0x73746e656d656c65;  // "elements"
constexpr uint64_t head_bytes = 2 * sizeof(uint32_t), tail_bytes = 2 * sizeof(uint64_t);
constexpr size_t write_at_once = 1 << 20;

uint32_t crc_of(std::string_view bytes) {
  return uint32_t(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}
// Of a type by typeid: "std::string" and not "Ss".
std::string readable(std::string_view type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(std::string(type).c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && name ? name.get() : std::string(type);
}
template <class N>
void append(std::string& to, N n) {
  to.append(reinterpret_cast<const char*>(&n), sizeof(n));
}
}  // namespace

ElementWriter::ElementWriter(const std::string& path, const detail::Codec& codec, std::string_view op,
                             const Where& where)
    : out_(path, op, where), codec_(codec), op_(op), path_(path), where_(where) {
  StateWriter head;
  head.bytes = elements_magic;
  head.text(codec.type);
  buffer_ = std::move(head.bytes);
}
void ElementWriter::write(std::string_view record) {
  if (record.size() > UINT32_MAX)
    fail(op_, fmt::format("an element takes {} bytes, and a file holds elements of up to 4 GiB", record.size()),
         where_);
  append(buffer_, uint32_t(record.size())), append(buffer_, crc_of(record));
  buffer_ += record;
  if (buffer_.size() < write_at_once) return;
  out_.write(buffer_);
  bytes_ += int64_t(buffer_.size());
  buffer_.clear();
}
void ElementWriter::add(Item& x) {
  StateWriter w;
  codec_.save(x, w);
  write(w.bytes);
  lengths_.push_back(uint32_t(w.bytes.size()));
}
void ElementWriter::commit(int64_t read) {
  const auto place = uint64_t(bytes_) + buffer_.size();
  StateWriter index;
  index.number(count()), index.number(read);
  for (const uint32_t n : lengths_) index.number(n);
  write(index.bytes);
  append(buffer_, place), append(buffer_, end_magic);
  out_.write(buffer_);
  out_.commit();
}

ElementReader::ElementReader(const std::string& path, const detail::Codec& codec, std::string_view op,
                             const Where& where)
    : file_(path, op, where), bytes_(file_.map()), codec_(codec) {
  const std::string_view all(bytes_.get(), size_t(file_.size()));
  if (!all.starts_with(elements_magic) || all.size() < elements_magic.size() + head_bytes + tail_bytes)
    file_.reject(0, "this is no file of elements. name another file, or remove it");
  uint64_t place = 0, magic = 0;
  std::memcpy(&place, all.data() + all.size() - tail_bytes, sizeof(place));
  std::memcpy(&magic, all.data() + all.size() - sizeof(magic), sizeof(magic));
  if (magic != end_magic || place > all.size() - tail_bytes)
    file_.reject(all.size() - tail_bytes, "the end is missing");
  StateReader head(all.substr(elements_magic.size()));
  const std::string_view type = head.text();
  if (type != codec.type)
    file_.reject(elements_magic.size(),
                 fmt::format("the elements are of another type ({}, and here {}). remove the file", readable(type),
                             readable(codec.type)));
  StateReader index(record_at(place, all.size() - tail_bytes));
  const int64_t n = index.count(int64_t(all.size()));
  read_ = index.count();
  offsets_.reserve(size_t(n) + 1);
  offsets_.push_back(all.size() - all.substr(elements_magic.size()).size() + [&] {
    StateWriter w;
    w.text(type);
    return w.bytes.size();
  }());
  for (int64_t i = 0; i < n; ++i) offsets_.push_back(offsets_.back() + head_bytes + uint64_t(index.count(UINT32_MAX)));
  if (offsets_.back() != place) file_.reject(place, "the index does not fit the elements");
}
std::string_view ElementReader::record_at(uint64_t place, uint64_t end) const {
  uint32_t length = 0, sum = 0;
  if (end - place < head_bytes) file_.reject(place, "an element is cut short");
  std::memcpy(&length, bytes_.get() + place, sizeof(length));
  std::memcpy(&sum, bytes_.get() + place + sizeof(length), sizeof(sum));
  if (length > end - place - head_bytes) file_.reject(place, "an element is cut short");
  const std::string_view record(bytes_.get() + place + head_bytes, length);
  if (crc_of(record) != sum) file_.reject(place, "an element is damaged: its sum is not that of its bytes");
  return record;
}
Item ElementReader::at(int64_t i) const {
  StateReader r(record_at(offsets_[size_t(i)], offsets_[size_t(i) + 1]));
  try {
    return codec_.read(r);
  } catch (const Error&) {  // which speaks of a state
    file_.reject(offsets_[size_t(i)], "an element is damaged");
  }
}

}  // namespace rill::data
