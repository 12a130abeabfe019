// See quick_examples.h. The encoding is protobuf's: fields behind a byte that says which, lengths and integers as groups
// of seven bits. Start at parse_quickly().
#include "rill/serialize/records/quick_examples.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

#include "rill/devices/registry.h"

namespace rill {
namespace {

// The fields of examples, all of them messages, texts or packed numbers.
constexpr char first_field = 0x0A, second_field = 0x12, third_field = 0x1A;

struct ExampleBytes {
  const char *at, *end;
  bool is_empty() const { return at == end; }
  // A number of up to 64 bits; false where there is none.
  bool number(uint64_t& n) {
    n = 0;
    for (int shift = 0; shift < 64 && at < end; shift += 7) {
      const auto byte = uint8_t(*at++);
      n |= uint64_t(byte & 0x7F) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  // What stands behind the mark of a field and its length.
  bool field(char mark, ExampleBytes& inner) {
    uint64_t n = 0;
    if (is_empty() || *at != mark) return false;
    ++at;
    if (!number(n) || n > uint64_t(end - at)) return false;
    inner = {at, at + n};
    at += n;
    return true;
  }
  std::string_view text() const { return {at, size_t(end - at)}; }
};

struct NamedList {
  std::string_view name;
  char kind;
  ExampleBytes values;
};
constexpr size_t most_names = 64;  // of more, messages are looked up in a table

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return uint8_t(c) < 0x80; });
}

// The features of one example. A name that is not ASCII is checked where messages are read.
bool read_lists(std::string_view example, std::vector<NamedList>& lists) {
  lists.clear();
  ExampleBytes bytes{example.data(), example.data() + example.size()}, features{}, entry{}, name{}, feature{};
  if (!bytes.field(first_field, features) || !bytes.is_empty()) return false;
  while (!features.is_empty()) {
    NamedList list{};
    if (lists.size() == most_names || !features.field(first_field, entry) || !entry.field(first_field, name) ||
        !entry.field(second_field, feature) || !entry.is_empty() || feature.is_empty())
      return false;
    list.name = name.text(), list.kind = *feature.at;
    if (list.kind != first_field && list.kind != second_field && list.kind != third_field) return false;
    if (!is_ascii(list.name) || !feature.field(list.kind, list.values) || !feature.is_empty()) return false;
    const bool is_twice = std::ranges::any_of(lists, [&](const NamedList& other) { return other.name == list.name; });
    if (is_twice) return false;
    lists.push_back(list);
  }
  return true;
}

// The numbers of one and two bytes in the next eight bytes, without a branch for each: how many there are is how many
// bytes do not follow one that goes on. Room for eight is needed. 0 where there is a longer one.
int64_t read_short_wholes(ExampleBytes& packed, int64_t* to) {
  constexpr uint64_t high = 0x8080808080808080;
  uint64_t word = 0;
  std::memcpy(&word, packed.at, sizeof word);
  const uint64_t goes_on = word & high;
  if (goes_on & (goes_on << 8)) return 0;
  const uint64_t is_cut = goes_on >> 63;  // the last byte is a half
  uint64_t begins = ~(goes_on << 8) & high & ~(is_cut << 63);
  for (int k = 0; k < 8; ++k) {  // more than there are: the next ones come over them
    const int shift = std::countr_zero(begins | uint64_t(1) << 63) - 7;
    const uint64_t two = word >> shift, second = 0 - (two >> 7 & 1);
    to[k] = int64_t((two & 0x7F) | ((two >> 1 & 0x3F80) & second));
    begins &= begins - 1;
  }
  packed.at += 8 - is_cut;
  return int64_t(((~(goes_on << 8) & high & ~(is_cut << 63)) >> 7) * 0x0101010101010101 >> 56);
}

bool read_wholes(ExampleBytes list, int64_t* to, int64_t each) {
  ExampleBytes packed{};
  if (!list.field(first_field, packed) || !list.is_empty()) return false;
  for (int64_t i = 0; i < each;) {
    if (each - i >= 8 && packed.end - packed.at >= 8)
      if (const int64_t n = read_short_wholes(packed, to + i); n > 0) {
        i += n;
        continue;
      }
    uint64_t n = 0;
    if (!packed.number(n)) return false;
    to[i++] = int64_t(n);
  }
  return packed.is_empty();
}

bool read_floats(ExampleBytes list, float* to, int64_t each) {
  ExampleBytes packed{};
  if (!list.field(first_field, packed) || !list.is_empty()) return false;
  if (packed.text().size() != size_t(each) * sizeof(float)) return false;
  std::memcpy(to, packed.at, packed.text().size());  // little-endian, as this machine is (crc32c.cpp)
  return true;
}

bool read_texts(ExampleBytes list, std::string* to, int64_t each) {
  ExampleBytes text{};
  for (int64_t i = 0; i < each; ++i) {
    if (!list.field(first_field, text)) return false;
    to[i].assign(text.text());
  }
  return list.is_empty();
}

bool read_values(const NamedList& list, DType dtype, char* to, int64_t row, int64_t each) {
  switch (dtype) {
    case DType::string:
      return list.kind == first_field && read_texts(list.values, reinterpret_cast<std::string*>(to) + row * each, each);
    case DType::f32:
      return list.kind == second_field && read_floats(list.values, reinterpret_cast<float*>(to) + row * each, each);
    default:
      return list.kind == third_field && read_wholes(list.values, reinterpret_cast<int64_t*>(to) + row * each, each);
  }
}

struct Wanted {
  std::string_view name;
  DType dtype;
  int64_t each;
  Tensor values;
  char* data;
};

}  // namespace

bool parse_quickly(std::span<const std::string> examples, const std::map<std::string, FeatureSpec>& features,
                   ParsedExamples& out) {
  const auto rows = int64_t(examples.size());
  std::vector<NamedList> lists;
  std::vector<Wanted> wanted;
  for (const auto& [name, f] : features) {
    const int64_t each = f.shape.numel();
    if (f.kind != FeatureSpec::Kind::fixed || each < 1) return false;
    // What no example can hold is not allocated.
    if (rows == 0 || uint64_t(each) > examples[0].size()) return false;
    Shape shape;
    shape.push_back(rows);
    for (const int64_t size : f.shape) shape.push_back(size);
    Tensor values = empty_tensor(Spec{shape, f.dtype, false, Device()});
    char* const data = values.mutable_rep()->data;
    wanted.push_back({f.key.empty() ? std::string_view(name) : std::string_view(f.key), f.dtype, each, values, data});
  }
  for (int64_t i = 0; i < rows; ++i) {
    if (!read_lists(examples[size_t(i)], lists)) return false;
    for (const Wanted& w : wanted) {
      const auto found = std::ranges::find(lists, w.name, &NamedList::name);
      if (found == lists.end() || !read_values(*found, w.dtype, w.data, i, w.each)) return false;
    }
  }
  auto feature = features.begin();
  for (const Wanted& w : wanted) out.tensors[(feature++)->first] = w.values.to(default_device());
  return true;
}

}  // namespace rill
