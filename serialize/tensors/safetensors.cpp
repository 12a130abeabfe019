// .safetensors files: the length of a JSON header, the header, and the elements of all tensors one after another. Every
// offset is checked, as the format asks: no tensor overlaps another, and no byte belongs to none.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include "rill/serialize/tensors/elements.h"
#include "rill/serialize/tensors/formats.h"
#include "rill/serialize/utf8.h"
#include "rill/tensor/limits.h"

namespace rill {
namespace {

constexpr uint64_t length_bytes = 8, longest_header = 100'000'000;  // what the format allows
constexpr const char* metadata_key = "__metadata__";

struct DTypeCode {
  std::string_view text;
  DType dtype;
};
// In the order in which files are sorted, the last first: sizes fall, so that all elements are aligned.
constexpr DTypeCode codes[] = {
    {"BOOL", DType::boolean},      {"U8", DType::u8},   {"I8", DType::i8},   {"F8_E5M2", DType::f8_e5m2},
    {"F8_E4M3", DType::f8_e4m3fn}, {"I16", DType::i16}, {"U16", DType::u16}, {"F16", DType::f16},
    {"BF16", DType::bf16},         {"I32", DType::i32}, {"U32", DType::u32}, {"F32", DType::f32},
    {"C64", DType::c64},           {"F64", DType::f64}, {"I64", DType::i64}, {"U64", DType::u64}};

// --- Writing ---------------------------------------------------------------------------------------------------------

const DTypeCode* code_of(DType d) {
  return std::find_if(std::begin(codes), std::end(codes), [d](const DTypeCode& c) { return c.dtype == d; });
}

void check_text(const SaveRequest& request, const std::string& text, const char* what) {
  if (!is_utf8(text))
    request.reject(std::string(what) + " of a .safetensors file is UTF-8 text. '" + text.substr(0, 80) + "' is not");
}

std::string json_text(const std::string& text) { return nlohmann::json(text).dump(); }

using Entries = std::vector<std::pair<const std::string*, const Tensor*>>;

Entries sorted_entries(const SaveRequest& request, const NamedTensors& tensors) {
  Entries entries;
  for (const auto& [name, t] : tensors) {
    check_text(request, name, "a name");
    require_elements("save", t, name, request.where);
    if (name == metadata_key)
      request.reject(std::string("the name '") + metadata_key + "' has a meaning of its own. give another");
    if (code_of(t.dtype()) == std::end(codes))
      request.reject("a .safetensors file holds no " + std::string(rill::name(t.dtype())) + ", and '" + name + "' is " +
                     to_string(t.spec()) + ". save it as .npz");
    entries.emplace_back(&name, &t);
  }
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return code_of(a.second->dtype()) > code_of(b.second->dtype());
  });
  return entries;
}

std::string print_header(const SaveRequest& request, const Entries& entries) {
  std::string text = "{";
  auto begin_item = [&] { return text.size() > 1 ? "," : ""; };
  if (!request.options.metadata.empty()) {
    text += json_text(metadata_key) + ":{";
    bool first = true;
    for (const auto& [key, value] : request.options.metadata) {
      check_text(request, key, "the metadata");
      check_text(request, value, "the metadata");
      text += (std::exchange(first, false) ? "" : ",") + json_text(key) + ":" + json_text(value);
    }
    text += "}";
  }
  uint64_t at = 0;
  for (const auto& [name, t] : entries) {
    text +=
        begin_item() + json_text(*name) + ":{\"dtype\":\"" + std::string(code_of(t->dtype())->text) + "\",\"shape\":[";
    for (size_t i = 0; i < t->shape().size(); ++i) text += (i ? "," : "") + std::to_string(t->shape()[i].plain());
    const uint64_t end = at + uint64_t(t->size()) * size_of(t->dtype());
    text += "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(end) + "]}";
    at = end;
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > longest_header)
    request.reject("the names and metadata are longer than the 100 MB that the format allows");
  return text;
}

// --- Reading ---------------------------------------------------------------------------------------------------------

struct Entry {
  std::string name, dtype;
  Shape shape;
  std::vector<uint64_t> offsets;
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

// What nlohmann's parser tells of a header. Anything that a header does not hold is an error at once, so that nothing
// deep or large is ever kept.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const FileReader& file) : file_(file) {}
  std::vector<Entry> entries;
  Metadata metadata;

  bool start_object(std::size_t) override {
    if (depth_ == 0 || (depth_ == 1 && !in_array_)) return ++depth_, true;
    reject("expected no object inside a tensor's");
  }
  bool end_object() override {
    if (depth_-- == 2 && !in_metadata_) {
      const Entry& e = entries.back();
      if (!e.has_dtype || !e.has_shape || !e.has_offsets)
        file_.reject(length_bytes, "tensor '" + e.name.substr(0, 80) + "': expected dtype, shape and data_offsets");
    }
    in_metadata_ = in_metadata_ && depth_ == 2;
    return true;
  }
  bool key(std::string& text) override {
    key_ = text;
    if (depth_ == 1) begin_tensor();
    else if (!in_metadata_) begin_field();
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 2 && !in_metadata_ && !in_array_ && (key_ == "shape" || key_ == "data_offsets"))
      return in_array_ = true;
    reject("expected no list");
  }
  bool end_array() override {
    in_array_ = false;
    if (key_ == "data_offsets" && entries.back().offsets.size() != 2) reject("expected two numbers");
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!in_array_) reject("expected no number");
    Entry& e = entries.back();
    if (key_ == "data_offsets") {
      if (e.offsets.size() == 2) reject("expected two numbers");
      e.offsets.push_back(value);
    } else {
      if (value > uint64_t(max_tensor_bytes)) reject("expected a size of a tensor, and it is " + std::to_string(value));
      if (e.shape.size() == size_t(max_tensor_axes))
        reject("expected at most " + std::to_string(max_tensor_axes) + " axes");
      e.shape.push_back(int64_t(value));
    }
    return true;
  }
  bool string(std::string& text) override {
    if (depth_ == 2 && in_metadata_) {
      if (!metadata.emplace(key_, text).second) reject("the key is given twice");
    } else if (depth_ == 2 && !in_array_ && key_ == "dtype") {
      entries.back().dtype = text;
    } else {
      reject("expected no text");
    }
    return true;
  }
  bool number_integer(number_integer_t value) override { reject("expected no " + std::to_string(value)); }
  bool number_float(number_float_t, const std::string& text) override { reject("expected no " + text.substr(0, 40)); }
  bool null() override {
    if (depth_ != 1 || !in_metadata_) reject("expected no null");
    in_metadata_ = false;  // as safetensors' own reader takes it: no metadata
    return true;
  }
  bool boolean(bool) override { reject("expected no truth value"); }
  bool binary(binary_t&) override { reject("expected no bytes"); }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    file_.reject(length_bytes + at, "expected JSON: the header is damaged, or this is no .safetensors file");
  }

 private:
  [[noreturn]] void reject(const std::string& what) const {
    std::string location = depth_ < 1 ? "the header"
                           : depth_ == 2 && !in_metadata_ && !entries.empty()
                               ? "tensor '" + entries.back().name.substr(0, 80) + "', '" + key_.substr(0, 80) + "'"
                               : "'" + key_.substr(0, 80) + "'";
    file_.reject(length_bytes, location + ": " + what);
  }
  void begin_tensor() {
    in_metadata_ = key_ == metadata_key;
    if (in_metadata_ && std::exchange(had_metadata_, true)) reject("the key is given twice");
    if (!in_metadata_) entries.emplace_back().name = key_;
  }
  void begin_field() {
    Entry& e = entries.back();
    bool* has = key_ == "dtype"          ? &e.has_dtype
                : key_ == "shape"        ? &e.has_shape
                : key_ == "data_offsets" ? &e.has_offsets
                                         : nullptr;
    if (!has) reject("expected dtype, shape and data_offsets");
    if (std::exchange(*has, true)) reject("the key is given twice");
  }

  const FileReader& file_;
  std::string key_;
  int depth_ = 0;
  bool in_array_ = false, in_metadata_ = false, had_metadata_ = false;
};

struct Header {
  std::vector<Entry> entries;  // in the order of their places
  Metadata metadata;
  uint64_t data = 0;  // where the elements begin
};

// Each tensor begins where the one before ends, and the last one ends with the file.
void check_places(const FileReader& file, Header& h) {
  std::sort(h.entries.begin(), h.entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  for (size_t i = 1; i < h.entries.size(); ++i)
    if (h.entries[i].name == h.entries[i - 1].name)
      file.reject(length_bytes, "two tensors are named '" + h.entries[i].name.substr(0, 80) + "'");
  std::sort(h.entries.begin(), h.entries.end(), [](const Entry& a, const Entry& b) { return a.offsets < b.offsets; });
  uint64_t at = 0;
  for (const Entry& e : h.entries) {
    if (e.offsets[0] != at || e.offsets[1] < at || e.offsets[1] > file.size() - h.data)
      file.reject(h.data + at, "expected the next tensor here, and '" + e.name.substr(0, 80) + "' has the offsets " +
                                   std::to_string(e.offsets[0]) + " to " + std::to_string(e.offsets[1]) + " of " +
                                   std::to_string(file.size() - h.data) + " bytes of elements, where " +
                                   std::to_string(at) + " is next. the file is damaged or truncated");
    at = e.offsets[1];
  }
  if (at != file.size() - h.data)
    file.reject(h.data + at,
                "expected the end, and " + std::to_string(file.size() - h.data - at) + " bytes belong to no tensor");
}

Header read_header(const FileReader& file) {
  file.require(0, length_bytes, "the length of a header");
  const auto length = little_endian<uint64_t>(file.read(0, length_bytes).data());
  if (length > longest_header)
    file.reject(0, "expected the length of a header, at most 100 MB, and it is " + std::to_string(length) +
                       ". this is no .safetensors file");
  file.require(length_bytes, length, "a header");
  const std::string text = file.read(length_bytes, length);
  if (!text.starts_with('{')) file.reject(length_bytes, "expected '{', with which the header begins");
  HeaderReader reader(file);
  nlohmann::json::sax_parse(text, &reader);
  Header h{std::move(reader.entries), std::move(reader.metadata), length_bytes + length};
  check_places(file, h);
  return h;
}

StoredElements stored_elements(const FileReader& file, const Header& h, const Entry& e) {
  StoredElements s;
  s.at = h.data + e.offsets[0];
  const auto* code =
      std::find_if(std::begin(codes), std::end(codes), [&](const DTypeCode& c) { return c.text == e.dtype; });
  if (code == std::end(codes))
    file.reject(length_bytes, "tensor '" + e.name.substr(0, 80) + "' has the dtype " + e.dtype.substr(0, 40) +
                                  ", which is none of rill's. LoadOptions::names leaves it out");
  s.spec.shape = e.shape;
  s.spec.dtype = code->dtype;
  const uint64_t bytes = e.offsets[1] - e.offsets[0];
  if (!has_sound_size(s.spec) || uint64_t(e.shape.numel()) * size_of(code->dtype) != bytes)
    file.reject(s.at, "expected the elements of " + to_string(s.spec) + ", and '" + e.name.substr(0, 80) + "' has " +
                          std::to_string(bytes) + " bytes");
  return s;
}

}  // namespace

void write_safetensors(const SaveRequest& request, const NamedTensors& tensors,
                       const Callback<void(std::string_view)>& write) {
  const Entries entries = sorted_entries(request, tensors);
  const std::string header = print_header(request, entries);
  std::string length;
  for (uint64_t n = header.size(), i = 0; i < length_bytes; ++i, n >>= 8) length += char(n & 0xff);
  write(length + header);
  for (const auto& [name, t] : entries) {
    Pieces pieces(*t);
    for (std::string_view piece; pieces.next(piece);) write(piece);
  }
}

void save_safetensors(const SaveRequest& request, const NamedTensors& tensors) {
  FileWriter out(request.path, "save", request.where);
  write_safetensors(request, tensors, [&](std::string_view piece) { out.write(piece); });
  out.commit();
}

NamedTensors load_safetensors(const LoadRequest& request) {
  const FileReader& file = request.file;
  const Header h = read_header(file);
  const std::shared_ptr<char> mapping = request.options.mapped ? file.map() : nullptr;
  NamedTensors out;
  for (const Entry& e : h.entries)
    if (request.wants(e.name))
      request.add(out, e.name, [&] { return read_elements(file, stored_elements(file, h, e), mapping); });
  return out;
}

Metadata safetensors_metadata(const FileReader& file) { return read_header(file).metadata; }

}  // namespace rill
