// .gguf files, in which llama.cpp keeps weights: counts, metadata, what each tensor is and where, then the elements.
// The format is described in ggml's docs/gguf.md; versions 2 and 3. Start at read_gguf_header.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "rill/devices/number_blocks.h"
#include "rill/devices/registry.h"
#include "rill/serialize/tensors/elements.h"
#include "rill/serialize/tensors/formats.h"
#include "rill/tensor/limits.h"

namespace rill {
namespace {

// Reads one thing after another, each only if the file has room for it. Small reads go through a buffer.
class Cursor {
 public:
  explicit Cursor(const FileReader& file) : file_(file) {}

  uint64_t at = 0;
  bool swapped = false;

  [[noreturn]] void reject(const std::string& what) const { file_.reject(at, what); }
  void bytes(void* to, uint64_t n, std::string_view what) {
    file_.require(at, n, what);
    if (at < first_ || at + n > first_ + buffer_.size()) {
      first_ = at;
      buffer_ = file_.read(at, std::min(std::max<uint64_t>(n, 1 << 16), file_.size() - at));
    }
    std::memcpy(to, buffer_.data() + (at - first_), n);
    at += n;
  }
  template <class T>
  T number(std::string_view what) {
    char raw[sizeof(T)];
    bytes(raw, sizeof raw, what);
    if (swapped) std::reverse(raw, raw + sizeof raw);
    T value;
    std::memcpy(&value, raw, sizeof value);
    return value;
  }
  std::string text(std::string_view what) {
    const auto n = number<uint64_t>(what);
    file_.require(at, n, what);
    std::string out(n, '\0');
    bytes(out.data(), n, what);
    return out;
  }
  void skip(uint64_t n, std::string_view what) {
    file_.require(at, n, what);
    at += n;
  }
  uint64_t left() const { return file_.size() - at; }

 private:
  const FileReader& file_;
  std::string buffer_;
  uint64_t first_ = 0;
};

// --- Metadata --------------------------------------------------------------------------------------------------------

enum ValueType : uint32_t {
  u8_value,
  i8_value,
  u16_value,
  i16_value,
  u32_value,
  i32_value,
  f32_value,
  bool_value,
  text_value,
  list_value,
  u64_value,
  i64_value,
  f64_value
};

template <class T>
std::string print(Cursor& in) {
  return fmt::format("{}", in.number<T>("a value"));
}

std::string read_scalar(Cursor& in, uint32_t type, bool quoted) {
  switch (type) {
    case u8_value: return print<uint8_t>(in);
    case i8_value: return print<int8_t>(in);
    case u16_value: return print<uint16_t>(in);
    case i16_value: return print<int16_t>(in);
    case u32_value: return print<uint32_t>(in);
    case i32_value: return print<int32_t>(in);
    case f32_value: return print<float>(in);
    case bool_value: return in.number<uint8_t>("a truth value") ? "true" : "false";
    case u64_value: return print<uint64_t>(in);
    case i64_value: return print<int64_t>(in);
    case f64_value: return print<double>(in);
    case text_value: {
      const std::string text = in.text("a text");
      return quoted ? nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) : text;
    }
  }
  in.reject("expected a type of a value, 0 to 12, and it is " + std::to_string(type));
}

uint64_t bytes_of_value(uint32_t type) {
  constexpr uint64_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < std::size(bytes) ? bytes[type] : 0;
}

// A value, as text in `out` unless that is null.
void read_value(Cursor& in, uint32_t type, std::string* out) {
  if (type != list_value) {
    const std::string text = read_scalar(in, type, false);
    if (out) *out = text;
    return;
  }
  const auto inner = in.number<uint32_t>("the type of a list");
  const auto n = in.number<uint64_t>("the length of a list");
  if (inner == list_value) in.reject("expected no list of lists");
  if (const uint64_t each = bytes_of_value(inner); each && n > in.left() / each)
    in.reject("a list of " + std::to_string(n) + " values does not fit into the file");
  else if (each && !out) return in.skip(n * each, "a list");
  if (out) *out = "[";
  for (uint64_t i = 0; i < n; ++i) {
    const std::string text = read_scalar(in, inner, true);
    if (out) *out += (i ? "," : "") + text;
  }
  if (out) *out += "]";
}

// --- The header ------------------------------------------------------------------------------------------------------

struct GgufEntry {
  std::string name;
  uint32_t type = 0;
  Shape shape;
  uint64_t offset = 0, bytes = 0;
};
struct GgufHeader {
  std::vector<GgufEntry> entries;
  uint64_t data = 0;
  bool swapped = false;
};

GgufEntry read_entry(Cursor& in) {
  GgufEntry e;
  e.name = in.text("the name of a tensor");
  const auto axes = in.number<uint32_t>("the number of axes");
  if (axes > uint32_t(max_tensor_axes)) in.reject("expected at most " + std::to_string(max_tensor_axes) + " axes");
  for (uint32_t i = 0; i < axes; ++i) {
    const auto n = in.number<uint64_t>("a size");
    if (n > uint64_t(max_tensor_bytes)) in.reject("expected a size of a tensor, and it is " + std::to_string(n));
    e.shape.push_back(int64_t(n));
  }
  std::reverse(e.shape.begin(), e.shape.end());  // in the file, the innermost comes first
  e.type = in.number<uint32_t>("the type of a tensor");
  e.offset = in.number<uint64_t>("the offset of a tensor");
  Spec spec;
  spec.shape = e.shape;
  if (!has_sound_size(spec)) in.reject("tensor '" + e.name.substr(0, 80) + "' is far too large: " + to_string(spec));
  const GgufType* type = gguf_type(e.type);
  if (!type) return e;  // an error where it is wanted
  const int64_t row = e.shape.empty() ? 1 : e.shape[e.shape.size() - 1].plain();
  if (row % type->block)
    in.reject("tensor '" + e.name.substr(0, 80) + "': expected rows of whole blocks, of " +
              std::to_string(type->block) + " elements");
  e.bytes = uint64_t(e.shape.numel() / type->block) * uint64_t(type->block_bytes);
  return e;
}

// Every tensor lies in the file, and none overlaps another.
void check_places(const FileReader& file, const GgufHeader& h) {
  std::vector<const GgufEntry*> sorted;
  std::vector<std::string_view> names;
  for (const GgufEntry& e : h.entries) sorted.push_back(&e), names.push_back(e.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    file.reject("two tensors are named '" + std::string(twice->substr(0, 80)) + "'");
  std::sort(sorted.begin(), sorted.end(), [](const GgufEntry* a, const GgufEntry* b) {
    return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
  });
  uint64_t end = 0;
  for (const GgufEntry* e : sorted) {
    if (e->offset > file.size() || h.data > file.size() - e->offset)
      file.reject("tensor '" + e->name.substr(0, 80) + "' begins behind the end of the file");
    if (e->offset < end)
      file.reject(h.data + e->offset, "tensor '" + e->name.substr(0, 80) + "' overlaps the one before it");
    file.require(h.data + e->offset, e->bytes, "the elements of '" + e->name.substr(0, 80) + "'");
    end = e->offset + e->bytes;
  }
}

GgufHeader read_gguf_header(const FileReader& file, Metadata* metadata) {
  Cursor in(file);
  char magic[4];
  in.bytes(magic, 4, "\"GGUF\", with which a .gguf file begins,");
  if (std::string_view(magic, 4) != "GGUF") file.reject(0, "expected \"GGUF\", with which a .gguf file begins");
  auto version = in.number<uint32_t>("a version");
  GgufHeader h;
  h.swapped = in.swapped = (version & 0xffff) == 0;
  if (in.swapped) version = __builtin_bswap32(version);
  if (version != 2 && version != 3)
    file.reject(4, "expected version 2 or 3 of the format, and it is " + std::to_string(version));
  const auto tensors = in.number<uint64_t>("the number of tensors"),
             values = in.number<uint64_t>("the number of values");
  uint64_t alignment = 32;
  for (uint64_t i = 0; i < values; ++i) {
    const std::string key = in.text("a key");
    const auto type = in.number<uint32_t>("the type of a value");
    std::string text;
    const bool aligns = key == "general.alignment";
    if (aligns && type != u32_value) in.reject("expected an alignment of 32 bits");
    read_value(in, type, metadata || aligns ? &text : nullptr);
    if (aligns) alignment = std::stoull(text);
    if (metadata && !metadata->emplace(key, text).second)
      in.reject("the key '" + key.substr(0, 80) + "' is given twice");
  }
  if (!std::has_single_bit(alignment))
    in.reject("expected an alignment that is a power of two, and it is " + std::to_string(alignment));
  for (uint64_t i = 0; i < tensors; ++i) h.entries.push_back(read_entry(in));
  h.data = (in.at + alignment - 1) & ~(alignment - 1);
  check_places(file, h);
  return h;
}

Tensor read_tensor(const FileReader& file, const GgufHeader& h, const GgufEntry& e,
                   const std::shared_ptr<char>& mapping) {
  const GgufType* type = gguf_type(e.type);
  const std::string who = "tensor '" + e.name.substr(0, 80) + "'";
  if (!type)
    file.reject(h.data + e.offset, who + " has the type " + std::to_string(e.type) +
                                       ", which rill does not read. LoadOptions::names leaves it out");
  StoredElements stored;
  stored.spec.shape = e.shape;
  stored.spec.dtype = type->dtype;
  stored.at = h.data + e.offset;
  stored.swapped = h.swapped;
  if (!type->decode) return read_elements(file, stored, mapping);
  if (h.swapped) file.reject(stored.at, who + ": blocks of quantised numbers are read in little-endian files alone");
  Tensor t = empty_tensor(stored.spec);
  auto* out = reinterpret_cast<float*>(t.mutable_rep()->data);
  const uint64_t blocks = e.bytes / uint64_t(type->block_bytes), some = 1 << 12;
  std::vector<uint8_t> raw(std::min(blocks, some) * size_t(type->block_bytes));
  for (uint64_t i = 0; i < blocks; i += some) {
    const uint64_t n = std::min(some, blocks - i);
    file.read(stored.at + i * uint64_t(type->block_bytes), raw.data(), n * uint64_t(type->block_bytes));
    for (uint64_t k = 0; k < n; ++k, out += type->block) type->decode(&raw[k * size_t(type->block_bytes)], out);
  }
  return t;
}

}  // namespace

// A tensor of blocks, as its bytes.
Blocks read_blocks(const FileReader& file, const GgufHeader& h, const GgufEntry& e,
                   const std::shared_ptr<char>& mapping) {
  const GgufType& type = *gguf_type(e.type);
  StoredElements stored;
  stored.spec.shape = e.shape;
  stored.spec.dtype = DType::u8;
  stored.spec.shape.back() = e.shape.back() / type.block * type.block_bytes;
  stored.at = h.data + e.offset;
  if (h.swapped)
    file.reject(stored.at, "tensor '" + e.name.substr(0, 80) +
                               "': blocks of quantised numbers are read in little-endian files alone");
  return {read_elements(file, stored, mapping), std::string(type.name)};
}

NamedTensors load_gguf(const LoadRequest& request) {
  const FileReader& file = request.file;
  const GgufHeader h = read_gguf_header(file, nullptr);
  const std::shared_ptr<char> mapping = request.options.mapped ? file.map() : nullptr;
  NamedTensors out;
  for (const GgufEntry& e : h.entries) {
    if (!request.wants(e.name)) continue;
    const GgufType* type = gguf_type(e.type);
    if (request.options.blocks && type && type->decode && !e.shape.empty())
      request.options.blocks->emplace(e.name, read_blocks(file, h, e, mapping));
    else request.add(out, e.name, [&] { return read_tensor(file, h, e, mapping); });
  }
  return out;
}

Metadata gguf_metadata(const FileReader& file) {
  Metadata metadata;
  read_gguf_header(file, &metadata);
  return metadata;
}

}  // namespace rill
