// Writes the checksums of a damaged file anew, so that a reader gets beyond them: start at repair(), which knows formats by
// the ending of the file's name.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz_damage.h"
#include "rill/serialize/records.h"

namespace fuzz {

// --- PNG's chunks and Ogg's pages ------------------------------------------------------------------------------------

// The checksum of `bytes` by a polynomial, which png has the lowest bit first and Ogg the highest.
inline uint32_t checksum(std::string_view bytes, bool lowest_first) {
  uint32_t sum = lowest_first ? ~0u : 0;
  for (const char c : bytes) {
    sum ^= lowest_first ? uint8_t(c) : uint32_t(uint8_t(c)) << 24;
    for (int k = 0; k < 8; ++k)
      sum = lowest_first ? sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0) : sum << 1 ^ (sum >> 31 ? 0x04C11DB7u : 0);
  }
  return lowest_first ? ~sum : sum;
}

// PNG: a length, a name, the bytes and a checksum, in chunks.
inline void repair_chunks(std::string& bytes) {
  for (size_t at = 8; at + 12 <= bytes.size();) {
    size_t length = 0;
    for (size_t k = 0; k < 4; ++k) length = length << 8 | uint8_t(bytes[at + k]);
    if (length > bytes.size() - at - 12) return;
    const uint32_t sum = checksum(std::string_view(bytes).substr(at + 4, length + 4), true);
    for (size_t k = 0; k < 4; ++k) bytes[at + 8 + length + k] = char(sum >> (24 - 8 * k));
    at += 12 + length;
  }
}

// Ogg: pages whose lengths stand in their heads.
inline void repair_pages(std::string& bytes) {
  for (size_t at = 0; at + 27 <= bytes.size();) {
    size_t size = 27 + uint8_t(bytes[at + 26]);
    for (size_t i = 27, end = size; i < end && at + i < bytes.size(); ++i) size += uint8_t(bytes[at + i]);
    if (size > bytes.size() - at) return;
    std::memset(&bytes[at + 22], 0, 4);
    const uint32_t sum = checksum(std::string_view(bytes).substr(at, size), false);
    for (size_t k = 0; k < 4; ++k) bytes[at + 22 + k] = char(sum >> 8 * k);
    at += size;
  }
}

// --- TensorFlow's tables and records ---------------------------------------------------------------------------------

// Repairs the block of a table at `handle`, and returns its entries' values; empty if it is out of bounds.
inline std::vector<std::string> repair_block(std::string& bytes, std::string_view handle) {
  uint64_t offset = 0, size = 0, shared = 0, key = 0, length = 0;
  take_varint(handle, offset);
  take_varint(handle, size);
  if (bytes.size() < 48 || offset > bytes.size() || size > bytes.size() || offset + size + 5 > bytes.size() - 48)
    return {};
  const uint32_t sum = masked_crc32c(std::string_view(bytes).substr(offset, size + 1));
  std::memcpy(&bytes[offset + size + 1], &sum, 4);
  std::vector<std::string> values;
  for (std::string_view rest = std::string_view(bytes).substr(offset, size); rest.size() > 8;) {
    if (!take_varint(rest, shared) || !take_varint(rest, key) || !take_varint(rest, length)) break;
    if (key > rest.size() || length > rest.size() - key) break;
    values.emplace_back(rest.substr(key, length));
    rest.remove_prefix(key + length);
  }
  return values;
}

// The index block, whose handle is the second one at the end, and the blocks that it lists.
inline void repair_table(std::string& bytes) {
  if (bytes.size() < 48) return;
  std::string_view end = std::string_view(bytes).substr(bytes.size() - 48);
  uint64_t ignored = 0;
  take_varint(end, ignored);
  take_varint(end, ignored);
  const std::string index(end);
  for (const std::string& handle : repair_block(bytes, index)) repair_block(bytes, handle);
}

// TFRecord: a length of 8 bytes and the record, each with its checksum; unpacked files alone.
inline void repair_records(std::string& bytes) {
  const auto put = [&](size_t at, size_t from, size_t n) {
    const uint32_t sum = masked_crc32c(std::string_view(bytes).substr(from, n));
    std::memcpy(&bytes[at], &sum, 4);
  };
  for (size_t at = 0; bytes.size() - at >= 16;) {
    uint64_t length = 0;
    std::memcpy(&length, &bytes[at], 8);
    if (length > bytes.size() - at - 16) return;
    put(at + 8, at, 8);
    put(at + 12 + length, at + 12, length);
    at += 16 + length;
  }
}

inline void repair(const std::string& name, std::string& bytes) {
  if (name.ends_with(".index")) repair_table(bytes);
  if (name.ends_with(".ogg")) repair_pages(bytes);
  if (name.ends_with(".png")) repair_chunks(bytes);
  if (name.ends_with(".tfrecord")) repair_records(bytes);
}

}  // namespace fuzz
