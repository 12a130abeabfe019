// Reading a table; see table.h. Every length is checked against the available bytes before it is used.
#include <algorithm>
#include <cstring>
#include <optional>

#include "rill/serialize/checkpoint/table.h"
#include "rill/serialize/records.h"

namespace rill {
namespace {

uint64_t little_endian(std::string_view bytes, size_t n) {
  uint64_t value = 0;
  for (size_t i = 0; i < n; ++i) value |= uint64_t(uint8_t(bytes[i])) << 8 * i;
  return value;
}

// Removes a varint from the front of `bytes`; nothing if it is too long or truncated.
std::optional<uint64_t> take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const uint8_t b = uint8_t(bytes[0]);
    bytes.remove_prefix(1);
    value |= uint64_t(b & 0x7F) << shift;
    if (b < 0x80) return value;
  }
  return std::nullopt;
}

struct Table {
  std::string_view bytes;
  const std::string& path;
  std::string_view op;
  const Where& where;
  size_t room;  // for keys, which may share most of their bytes in the file

  static constexpr size_t footer_size = 48, trailer_size = 5;  // of a block: its compression, its checksum
  static constexpr uint64_t magic = 0xdb4775248b80fb57;

  [[noreturn]] void reject(size_t offset, const std::string& what) const {
    fail(op, "'" + path + "' at byte " + std::to_string(offset) + ": " + what, where);
  }

  struct Handle {
    uint64_t offset = 0, size = 0;
  };
  Handle take_handle(std::string_view& from, size_t at) const {
    const auto offset = take_varint(from), size = take_varint(from);
    const uint64_t end = bytes.size() - footer_size;
    if (!offset || !size || *offset > end || *size > end - *offset || end - *offset - *size < trailer_size)
      reject(at, "the offset of a block lies outside of the file, of " + std::to_string(bytes.size()) +
                     " bytes. the file is damaged or truncated");
    return {*offset, *size};
  }

  // The entries' part of a block, without its list of restarts.
  std::string_view block(Handle h) const {
    const std::string_view all = bytes.substr(h.offset, h.size + trailer_size);
    if (little_endian(all.substr(h.size + 1), 4) != masked_crc32c(all.substr(0, h.size + 1)))
      reject(h.offset, "the checksum of a block of " + std::to_string(h.size) + " bytes is wrong. the file is damaged");
    if (all[h.size] != 0)
      reject(h.offset, "a block is compressed. TensorFlow writes none that is: save the checkpoint anew");
    const uint64_t restarts = h.size < 4 ? 0 : little_endian(all.substr(h.size - 4), 4);
    if (h.size < 4 || restarts > (h.size - 4) / 4)
      reject(h.offset, "a block of " + std::to_string(h.size) + " bytes has no room for its restarts");
    return all.substr(0, h.size - 4 - 4 * restarts);
  }

  template <class F>
  void each(Handle h, F&& f) {
    std::string_view rest = block(h);
    std::string key;
    while (!rest.empty()) {
      const size_t at = size_t(rest.data() - bytes.data());
      const auto shared = take_varint(rest), own = take_varint(rest), length = take_varint(rest);
      if (!shared || !own || !length || *shared > key.size() || *own > rest.size() || *length > rest.size() - *own)
        reject(at, "an entry does not lie within its block. the file is damaged");
      if (*shared + *own > room) reject(at, "the keys take more memory than a file of its size should");
      room -= *shared + *own;
      key.resize(*shared);
      key += rest.substr(0, *own);
      rest.remove_prefix(*own);
      f(key, rest.substr(0, *length), at);
      rest.remove_prefix(*length);
    }
  }
};

}  // namespace

TableEntries read_table(std::string_view bytes, const std::string& path, std::string_view op, const Where& where) {
  Table table{bytes, path, op, where, 64 * bytes.size() + 1024};
  if (bytes.size() < Table::footer_size)
    table.reject(
        0, "expected the index of a checkpoint, of 48 bytes or more, but there are " + std::to_string(bytes.size()));
  const size_t footer = bytes.size() - Table::footer_size;
  if (little_endian(bytes.substr(bytes.size() - 8), 8) != Table::magic)
    table.reject(bytes.size() - 8, "expected the index of a checkpoint, which ends with 57fb808b247547db");
  std::string_view handles = bytes.substr(footer, Table::footer_size - 8);
  table.take_handle(handles, footer);  // of further blocks, which a checkpoint does not have
  const Table::Handle index = table.take_handle(handles, footer);
  TableEntries entries;
  size_t previous_end = 0;
  table.each(index, [&](const std::string&, std::string_view value, size_t at) {
    const Table::Handle data = table.take_handle(value, at);
    if (data.offset < previous_end) table.reject(at, "two blocks overlap. the file is damaged");
    previous_end = data.offset + data.size;
    table.each(data, [&](const std::string& key, std::string_view entry, size_t entry_at) {
      if (!entries.empty() && entries.back().first >= key) table.reject(entry_at, "the keys do not ascend");
      entries.emplace_back(key, std::string(entry));
    });
  });
  return entries;
}

}  // namespace rill
