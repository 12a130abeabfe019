// Reads protobuf's wire format without protobuf, so that a test of what we write does not rest on what wrote it.
// https://protobuf.dev/programming-guides/encoding/
#pragma once
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// The fields of one message by number, in order. A varint or fixed field is in `number`, any other in `bytes`.
struct Wire {
  struct Field {
    uint64_t number = 0;
    std::string bytes;
  };
  std::map<int, std::vector<Field>> fields;

  explicit Wire(std::string_view in) {
    while (!in.empty()) {
      uint64_t key = varint(in);
      Field f;
      switch (key & 7) {
        case 0: f.number = varint(in); break;
        case 1: f.number = fixed(in, 8); break;
        case 2: f.bytes = take(in, varint(in)); break;
        case 5: f.number = fixed(in, 4); break;
        default: throw std::runtime_error("not a protobuf message");
      }
      fields[int(key >> 3)].push_back(f);
    }
  }

  bool has(int field) const { return fields.count(field) != 0; }
  size_t count(int field) const { return has(field) ? fields.at(field).size() : 0; }
  const Field& at(int field, size_t i = 0) const { return fields.at(field).at(i); }
  // An embedded message; empty where the field is not there.
  Wire message(int field, size_t i = 0) const { return Wire(count(field) > i ? at(field, i).bytes : std::string()); }
  std::string bytes(int field, size_t i = 0) const { return count(field) > i ? at(field, i).bytes : std::string(); }
  uint64_t number(int field, size_t i = 0) const { return count(field) > i ? at(field, i).number : 0; }
  // The entries of a map<string, message>.
  std::map<std::string, Wire> entries(int field) const {
    std::map<std::string, Wire> all;
    for (size_t i = 0; i < count(field); ++i) all.emplace(message(field, i).bytes(1), message(field, i).message(2));
    return all;
  }

  // Packed numbers of a fixed size (float, double).
  template <class T>
  static std::vector<T> packed(const std::string& bytes) {
    std::vector<T> out(bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
    return out;
  }
  static std::vector<uint64_t> packed_varints(std::string_view bytes) {
    std::vector<uint64_t> out;
    while (!bytes.empty()) out.push_back(varint(bytes));
    return out;
  }

 private:
  static std::string take(std::string_view& in, uint64_t n) {
    if (n > in.size()) throw std::runtime_error("a protobuf message that ends too early");
    std::string out(in.substr(0, n));
    in.remove_prefix(n);
    return out;
  }
  static uint64_t fixed(std::string_view& in, size_t n) {
    uint64_t value = 0;
    std::string bytes = take(in, n);
    std::memcpy(&value, bytes.data(), n);
    return value;
  }
  static uint64_t varint(std::string_view& in) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      uint8_t b = uint8_t(take(in, 1)[0]);
      value |= uint64_t(b & 127) << shift;
      if (b < 128) return value;
    }
    throw std::runtime_error("a protobuf number that does not end");
  }
};
