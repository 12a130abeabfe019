// See npy.h. Text is stored as numpy's arrays of strings of one length, padded with zeros.
#include "rill/serialize/tensors/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "rill/devices/registry.h"
#include "rill/ops/apply.h"
#include "rill/serialize/utf8.h"
#include "rill/tensor/limits.h"

namespace rill {
namespace {

// --- Strings ---------------------------------------------------------------------------------------------------------

const std::string* strings_of(const Tensor& t) { return reinterpret_cast<const std::string*>(t.rep()->data); }

Tensor dense_copy(const Tensor& t) {
  Tensor copy = empty_tensor({t.shape(), t.dtype(), false, t.device()});
  copy_elements(t, copy);
  return copy;
}

// The strings of `t`, dense, as bytes of one length each: numpy's U where all are UTF-8, else its S.
Tensor encode_strings(const SaveRequest& request, const Tensor& t, NpyType& type) {
  const std::string* text = strings_of(t);
  const int64_t n = t.size();
  size_t longest = 1, most_characters = 1;
  type.dtype = DType::string;
  type.unicode = true;
  for (int64_t i = 0; i < n; ++i) {
    if (text[i].ends_with('\0'))
      request.reject("numpy cuts the zeros off at the end of text, and string " + std::to_string(i) +
                     " ends in one. save the bytes as u8");
    const auto characters = from_utf8(text[i]);
    type.unicode = type.unicode && characters;
    longest = std::max(longest, text[i].size());
    if (characters) most_characters = std::max(most_characters, characters->size());
  }
  type.item_bytes = type.unicode ? 4 * most_characters : longest;
  Spec spec;
  spec.shape = {n, int64_t(type.item_bytes)};
  spec.dtype = DType::u8;
  require_sound_size("save", spec, request.where);
  Tensor bytes = empty_tensor(spec);
  char* out = bytes.mutable_rep()->data;
  if (n) std::memset(out, 0, size_t(n) * type.item_bytes);
  for (int64_t i = 0; i < n; ++i, out += type.item_bytes) {
    if (!type.unicode) std::copy(text[i].begin(), text[i].end(), out);
    else if (const auto characters = from_utf8(text[i]))
      std::copy_n(reinterpret_cast<const char*>(characters->data()), characters->size() * 4, out);
  }
  return bytes;
}

Tensor read_strings(const NpySource& source, const NpyType& type, const StoredElements& stored) {
  const uint64_t n = uint64_t(stored.spec.shape.numel()), bytes = n * type.item_bytes;
  constexpr uint64_t most_empty = 1 << 20;
  if (type.item_bytes == 0 && n > most_empty)
    source.reject(stored.at, "expected at most " + std::to_string(most_empty) + " strings of no length");
  std::string raw(bytes, '\0');
  source.read(stored.at, raw.data(), bytes);
  Tensor t = empty_tensor(stored.spec);
  auto* out = reinterpret_cast<std::string*>(t.mutable_rep()->data);
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t from = i * type.item_bytes;
    out[i] = decode_npy_string(raw.data() + from, type, source.reject, stored.at + from);
  }
  return t;
}

// --- Order -----------------------------------------------------------------------------------------------------------

Tensor axes_reversed(const Tensor& t) {
  Shape shape = t.shape();
  Strides strides = t.strides();
  std::reverse(shape.begin(), shape.end());
  std::reverse(strides.begin(), strides.end());
  return make_view(t, std::move(shape), std::move(strides), 0);
}

// Where the elements begin, and that the file holds all of them and nothing behind.
StoredElements find_elements(const NpySource& source, const NpyHeader& h, uint64_t at) {
  StoredElements stored;
  stored.spec.shape = h.shape;
  stored.spec.dtype = h.type.dtype;
  stored.at = at;
  stored.swapped = h.type.swapped;
  const uint64_t left = source.bytes - at;
  uint64_t bytes = 0;
  const bool sound =
      has_sound_size(stored.spec) && !__builtin_mul_overflow(uint64_t(h.shape.numel()), h.type.item_bytes, &bytes);
  if (sound && bytes == left) return stored;
  source.reject(at, "expected " + (sound ? std::to_string(bytes) : "far too many") + " bytes of elements of " +
                        to_string(stored.spec) + ", and " + std::to_string(left) + " are left" +
                        (sound && bytes < left ? "" : ". the file is truncated"));
  return stored;
}

}  // namespace

std::string decode_npy_string(const char* bytes, const NpyType& type, const RejectAt& reject, uint64_t at) {
  std::string text;
  if (!type.unicode) {
    text.assign(bytes, type.item_bytes);
  } else {
    for (uint64_t i = 0; i < type.item_bytes; i += 4) {
      uint32_t c = 0;
      std::memcpy(&c, bytes + i, 4);
      if (type.swapped) c = __builtin_bswap32(c);
      if (!is_code_point(c)) reject(at + i, "expected a character of Unicode, and it is " + std::to_string(c));
      append_utf8(text, c);
    }
  }
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
}

NpyArray to_npy(const SaveRequest& request, const std::string& name, const Tensor& t) {
  require_elements("save", t, name, request.where);
  NpyHeader h;
  h.shape = t.shape();
  h.type = {t.dtype(), false, false, size_of(t.dtype())};
  Tensor elements = t;
  if (t.dtype() == DType::bf16 || is_float8(t.dtype()))
    request.reject(fmt::format("{}numpy has no {}. save as .safetensors, or astype(f32)",
                               name.empty() ? "" : "'" + name + "': ", rill::name(t.dtype())));
  if (t.dtype() == DType::string) {
    elements = encode_strings(request, t.is_contiguous() ? t : dense_copy(t), h.type);
  } else if (!t.is_contiguous() && axes_reversed(t).is_contiguous()) {
    h.fortran_order = true;
    elements = axes_reversed(t);
  }
  return {print_npy_header(h), elements};
}

Tensor read_npy(const NpySource& source) {
  std::string start(std::min(source.bytes, npy_start_bytes), '\0');
  source.read(0, start.data(), start.size());
  const uint64_t dictionary_at = npy_dictionary_place(start, source.reject);
  auto take = [&](uint64_t at, uint64_t bytes) {
    if (source.bytes - at < bytes)
      source.reject(at, "expected a header of " + std::to_string(bytes) + " bytes, and " +
                            std::to_string(source.bytes - at) + " are left");
    std::string text(bytes, '\0');
    source.read(at, text.data(), bytes);
    return text;
  };
  start += take(start.size(), dictionary_at - start.size());
  const std::string dictionary = take(dictionary_at, npy_dictionary_bytes(start));
  NpyHeader h = parse_npy_header(dictionary, dictionary_at, source.reject);
  const bool reversed = h.fortran_order && h.shape.size() > 1;
  if (reversed) std::reverse(h.shape.begin(), h.shape.end());
  const StoredElements stored = find_elements(source, h, dictionary_at + dictionary.size());
  Tensor t = h.type.dtype == DType::string ? read_strings(source, h.type, stored) : source.read_elements(stored);
  return reversed ? dense_copy(axes_reversed(t)) : t;
}

void save_npy(const SaveRequest& request, const NamedTensors& tensors) {
  if (tensors.size() != 1 || !tensors.begin()->first.empty())
    request.reject("a .npy file holds one tensor and no names, and these are " + std::to_string(tensors.size()) +
                   (tensors.empty() ? "" : ", the first named '" + tensors.begin()->first + "'") +
                   ". save them as .npz or .safetensors");
  const NpyArray array = to_npy(request, "", tensors.begin()->second);
  FileWriter out(request.path, "save", request.where);
  out.write(array.header);
  Pieces pieces(array.elements);
  for (std::string_view piece; pieces.next(piece);) out.write(piece);
  out.commit();
}

NamedTensors load_npy(const LoadRequest& request) {
  const FileReader& file = request.file;
  NamedTensors out;
  if (!request.wants("")) return out;
  const std::shared_ptr<char> mapping = request.options.mapped ? file.map() : nullptr;
  NpySource source;
  source.bytes = file.size();
  source.reject = [&](uint64_t at, const std::string& what) { file.reject(at, what); };
  source.read = [&](uint64_t at, void* to, uint64_t bytes) { file.read(at, to, bytes); };
  source.read_elements = [&](const StoredElements& stored) { return read_elements(file, stored, mapping); };
  out.emplace("", read_npy(source));
  return out;
}

}  // namespace rill
