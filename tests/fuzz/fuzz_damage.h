// How fuzz_files.cpp damages a good file: its bytes (`damage`), or the fields of a protobuf message (`damage_message`),
// whose lengths are then still right, so that a reader gets beyond its parser. The draws only depend on `Random`.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fuzz {

using Random = std::mt19937_64;
inline size_t below(Random& random, size_t n) { return n ? size_t(random() % n) : 0; }

constexpr uint64_t odd_numbers[] = {0,          1,          2,          7,          255,        256,
                                    65535,      1 << 16,    0x7fffffff, 0x80000000, 0xffffffff, 1ull << 32,
                                    1ull << 40, 1ull << 47, 1ull << 62, 1ull << 63, ~0ull - 7,  ~0ull};

// --- Bytes -----------------------------------------------------------------------------------------------------------

inline void put_number(std::string& bytes, Random& random) {
  const uint64_t n = odd_numbers[below(random, std::size(odd_numbers))];
  const size_t width = size_t(1) << below(random, 4);
  if (bytes.size() >= width) std::memcpy(&bytes[below(random, bytes.size() - width + 1)], &n, width);
}

// For text: replaces a number by another.
inline void put_digits(std::string& bytes, Random& random) {
  constexpr const char* numbers[] = {
      "0", "1", "-1", "4294967296", "9223372036854775807", "18446744073709551615", "1e9", "99999999999999999999"};
  const size_t from = bytes.find_first_of("0123456789", below(random, bytes.size()));
  if (from == bytes.npos) return;
  const size_t to = std::min(bytes.find_first_not_of("0123456789", from), bytes.size());
  bytes.replace(from, to - from, numbers[below(random, std::size(numbers))]);
}

inline void damage(std::string& bytes, const std::string& other, Random& random) {
  const size_t at = below(random, bytes.size()), n = below(random, 1 + below(random, 64));
  switch (below(random, 10)) {
    case 0: bytes.resize(at); break;
    case 1: bytes.erase(at, n); break;
    case 2: bytes.insert(at, n, char(random())); break;
    case 3: bytes.insert(at, bytes.substr(below(random, bytes.size()), n)); break;
    case 4: bytes.replace(at, n, other.substr(below(random, other.size()), n)); break;
    case 5: bytes += bytes.substr(at); break;
    case 6: put_digits(bytes, random); break;
    case 7: put_number(bytes, random); break;
    default:
      if (!bytes.empty()) bytes[at] = char(below(random, 2) ? random() : uint8_t(bytes[at]) ^ 1u << below(random, 8));
  }
}

// --- Messages --------------------------------------------------------------------------------------------------------
// https://protobuf.dev/programming-guides/encoding/. Without the schema: bytes that read as fields are taken for a
// message, which is right for most and writes the same bytes again where it is not.

struct Field {
  uint64_t number = 0;            // which field
  uint8_t type = 0;               // 0: a varint, 1 and 5: 8 and 4 bytes, 2: bytes with a length
  uint64_t value = 0;             // of types 0, 1 and 5
  std::string bytes = {};         // of type 2
  std::vector<Field> inner = {};  // those that `bytes` reads as; then `bytes` is empty
};
using Fields = std::vector<Field>;

inline bool take_varint(std::string_view& in, uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (in.empty()) return false;
    const auto b = uint8_t(in[0]);
    in.remove_prefix(1);
    value |= uint64_t(b & 0x7F) << shift;
    if (b < 0x80) return true;
  }
  return false;
}

inline bool read_fields(std::string_view in, Fields& fields, int depth = 0) {
  while (!in.empty()) {
    uint64_t key = 0, length = 0;
    if (!take_varint(in, key) || key >> 3 == 0 || key >> 3 > 1 << 16) return false;
    Field f{key >> 3, uint8_t(key & 7), 0, {}, {}};
    if (f.type == 0) {
      if (!take_varint(in, f.value)) return false;
    } else if (f.type == 1 || f.type == 5) {
      const size_t width = f.type == 1 ? 8 : 4;
      if (in.size() < width) return false;
      std::memcpy(&f.value, in.data(), width);
      in.remove_prefix(width);
    } else {
      if (f.type != 2 || !take_varint(in, length) || length > in.size()) return false;
      const std::string_view bytes = in.substr(0, length);
      in.remove_prefix(length);
      if (depth > 40 || !read_fields(bytes, f.inner, depth + 1)) f.inner.clear();
      if (f.inner.empty()) f.bytes = bytes;
    }
    fields.push_back(std::move(f));
  }
  return true;
}

inline void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += char(value | 0x80);
  out += char(value);
}
inline std::string write_fields(const Fields& fields) {
  std::string out;
  for (const Field& f : fields) {
    put_varint(out, f.number << 3 | f.type);
    if (f.type == 0) put_varint(out, f.value);
    if (f.type == 1 || f.type == 5) out.append(reinterpret_cast<const char*>(&f.value), f.type == 1 ? 8 : 4);
    if (f.type != 2) continue;
    const std::string bytes = f.inner.empty() ? f.bytes : write_fields(f.inner);
    put_varint(out, bytes.size());
    out += bytes;
  }
  return out;
}

struct Place {
  Fields* list;  // the list that contains it
  size_t i;
  Field& field() const { return (*list)[i]; }
};
inline void each_place(Fields& fields, std::vector<Place>& places) {
  for (size_t i = 0; i < fields.size(); ++i) {
    places.push_back({&fields, i});
    each_place(fields[i].inner, places);
  }
}

// Replaces a number, text, name or list of numbers by another.
inline void change_content(Field& f, const std::vector<Place>& others, Random& random) {
  const Field& other = others[below(random, others.size())].field();
  const uint64_t odd = odd_numbers[below(random, std::size(odd_numbers))];
  switch (below(random, 6)) {
    case 0: f.value = odd; break;
    case 1: f.value = f.value + below(random, 5) - 2; break;
    case 2: f.value = other.value; break;
    case 3: f.bytes = other.bytes, f.inner = Fields(other.inner); break;  // a name of something else, say
    case 4: put_varint(f.bytes, below(random, 2) ? odd : below(random, 8)); break;
    default: damage(f.bytes, other.bytes, random);
  }
}

// One field less or more, elsewhere, of another kind, or as deep as no program writes it.
inline void change_field(const Place& p, const std::vector<Place>& others, Random& random) {
  Field& f = p.field();
  const Field other = others[below(random, others.size())].field(), own = f;
  constexpr uint8_t types[] = {0, 1, 2, 5};
  switch (below(random, 8)) {
    case 0: p.list->erase(p.list->begin() + ptrdiff_t(p.i)); break;
    case 1: p.list->push_back(own); break;
    case 2: std::swap(f, (*p.list)[below(random, p.list->size())]); break;
    case 3: f.number = 1 + below(random, 24); break;
    case 4: f.type = types[below(random, std::size(types))]; break;
    case 5: p.list->insert(p.list->begin() + ptrdiff_t(p.i), other); break;
    case 6: f = other; break;
    default:
      for (size_t depth = below(random, 2) ? 2 : below(random, 120); depth-- > 0;) {
        Field outer{own.number, 2, 0, {}, {}};
        outer.inner.push_back(std::move(f));
        f = std::move(outer);
      }
  }
}

// `bytes` and `other` are messages; if one is not, its bytes are damaged.
inline void damage_message(std::string& bytes, const std::string& other, Random& random) {
  Fields fields, foreign;
  if (!read_fields(bytes, fields) || fields.empty()) return damage(bytes, other, random);
  read_fields(other, foreign);
  std::vector<Place> places, others;
  each_place(fields, places);
  others = places;
  if (below(random, 3) == 0 && !foreign.empty()) others.clear(), each_place(foreign, others);
  const Place p = places[below(random, places.size())];
  if (below(random, 2)) change_content(p.field(), others, random);
  else change_field(p, others, random);
  bytes = write_fields(fields);
}

}  // namespace fuzz
