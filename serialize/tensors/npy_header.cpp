// See npy_header.h. Start at parse_npy_header.
#include "rill/serialize/tensors/npy_header.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "rill/tensor/limits.h"

namespace rill {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr bool little = std::endian::native == std::endian::little;

// --- Dtypes ----------------------------------------------------------------------------------------------------------

struct NpyCode {
  char kind;
  int bytes;
  DType dtype;
};
constexpr NpyCode npy_codes[] = {
    {'b', 1, DType::boolean}, {'i', 1, DType::i8},  {'i', 2, DType::i16}, {'i', 4, DType::i32},  {'i', 8, DType::i64},
    {'u', 1, DType::u8},      {'u', 2, DType::u16}, {'u', 4, DType::u32}, {'u', 8, DType::u64},  {'f', 2, DType::f16},
    {'f', 4, DType::f32},     {'f', 8, DType::f64}, {'c', 8, DType::c64}, {'c', 16, DType::c128}};

std::string print_type(const NpyType& t) {
  const char order = t.item_bytes == 1 && !t.unicode ? '|' : little != t.swapped ? '<' : '>';
  if (t.dtype == DType::string)
    return t.unicode ? order + ("U" + std::to_string(t.item_bytes / 4)) : "|S" + std::to_string(t.item_bytes);
  for (const NpyCode& c : npy_codes)
    if (c.dtype == t.dtype) return std::string(1, order) + c.kind + std::to_string(c.bytes);
  return {};
}

// What numpy's "<f4" means; nothing where no dtype of rill's is that.
std::optional<NpyType> parse_type(std::string_view text) {
  NpyType t;
  if (!text.empty() && std::string_view("<>=|").find(text[0]) != text.npos) {
    t.swapped = text[0] == (little ? '>' : '<');
    text.remove_prefix(1);
  }
  if (text == "?") text = "b1";
  if (text.size() < 2) return {};
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  if (text[0] == 'U' || text[0] == 'S' || text[0] == 'a') {
    t.dtype = DType::string;
    t.unicode = text[0] == 'U';
    t.item_bytes = t.unicode ? uint64_t(number) * 4 : number;
    return t;
  }
  for (const NpyCode& c : npy_codes) {
    if (c.kind != text[0] || uint32_t(c.bytes) != number) continue;
    t.dtype = c.dtype;
    t.item_bytes = number;
    return t;
  }
  return {};
}

std::string why_not(std::string_view type) {
  const std::string_view kind = type.substr(std::min(type.find_first_not_of("<>=|"), type.size()));
  const std::string shown = "the dtype '" + std::string(type.substr(0, 40)) + "'";
  if (kind.starts_with('O'))
    return shown + " are pickled Python objects, which rill never reads. expected numbers or text";
  if (kind == "V2") return shown + " is raw bytes (numpy has no bfloat16, and writes it so). keep bf16 in .safetensors";
  if (kind.starts_with('V')) return shown + " is raw bytes. expected numbers or text";
  if (kind.starts_with('M') || kind.starts_with('m')) return shown + " are dates or times. save them as int64";
  return shown +
         " is none of rill's: bool, int8 to int64, uint8 to uint64, float16 to float64, complex64, complex128, "
         "str_, bytes_";
}

// --- The dictionary --------------------------------------------------------------------------------------------------

// Reads the few Python literals that a header is made of.
class Literals {
 public:
  Literals(std::string_view text, uint64_t first, const RejectAt& reject)
      : text_(text), first_(first), reject_(reject) {}

  bool take(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail_here(std::string("expected '") + c + "'");
  }
  bool at_end() {
    skip_spaces();
    return at_ >= text_.size();
  }
  bool at_string() {
    skip_spaces();
    return at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"');
  }
  std::string_view string() {
    if (!at_string()) fail_here("expected a string");
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == text_.npos) fail_here("expected a string that ends");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }
  bool boolean() {
    skip_spaces();
    for (std::string_view word : {"True", "False"})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    fail_here("expected True or False");
    return false;
  }
  // "(2, 3)", "(2,)", "()"; Python 2 wrote "(2L, 3L)".
  Shape shape() {
    Shape out;
    expect('(');
    while (!take(')')) {
      skip_spaces();
      int64_t n = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), n);
      if (error != std::errc() || n < 0) fail_here("expected a size, of 0 to 2^63 - 1");
      if (out.size() == size_t(max_tensor_axes))
        fail_here("expected at most " + std::to_string(max_tensor_axes) + " axes");
      at_ = size_t(end - text_.data());
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;
      out.push_back(n);
      if (take(',')) continue;
      if (out.size() == 1) fail_here("expected ',', for a shape of one axis is \"(n,)\"");
      expect(')');
      break;
    }
    return out;
  }
  void fail_here(const std::string& what) const { reject_(first_ + at_, "in numpy's header, " + what); }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && std::strchr(" \t\r\n\f", text_[at_]) && text_[at_]) ++at_;
  }

  std::string_view text_;
  uint64_t first_;
  const RejectAt& reject_;
  size_t at_ = 0;
};

NpyType read_type(Literals& in) {
  if (!in.at_string())
    in.fail_here("the dtype is a structure of several fields. save each of them as an array of its own");
  const std::string_view text = in.string();
  const std::optional<NpyType> type = parse_type(text);
  if (!type) in.fail_here(why_not(text));
  return *type;
}

}  // namespace

std::string print_npy_header(const NpyHeader& h) {
  std::string text = "{'descr': '" + print_type(h.type) +
                     "', 'fortran_order': " + (h.fortran_order ? "True" : "False") + ", 'shape': (";
  for (size_t i = 0; i < h.shape.size(); ++i) text += (i ? ", " : "") + std::to_string(h.shape[i].plain());
  text += h.shape.size() == 1 ? ",), }" : "), }";
  if (!h.shape.empty()) {  // room for a longer first size, so that numpy can append in place
    const int64_t grows = h.shape[h.fortran_order ? h.shape.size() - 1 : 0].plain();
    text.append(21 - std::to_string(grows).size(), ' ');
  }
  constexpr size_t prefix = 10;
  text.append(64 - (prefix + text.size() + 1) % 64, ' ');  // numpy never adds none
  text += '\n';
  return std::string(magic) + '\1' + '\0' + char(text.size() & 0xff) + char(text.size() >> 8) + text;
}

uint64_t npy_dictionary_place(std::string_view start, const RejectAt& reject) {
  if (!start.starts_with(magic)) reject(0, "expected \"\\x93NUMPY\", with which a .npy file begins");
  if (start.size() < npy_start_bytes) reject(start.size(), "expected a header, and the file ends");
  const int version = uint8_t(start[6]), minor = uint8_t(start[7]);
  if (version < 1 || version > 3 || minor != 0)
    reject(6, "expected version 1.0, 2.0 or 3.0 of numpy's format, and it is " + std::to_string(version) + "." +
                  std::to_string(minor));
  return version == 1 ? 10 : 12;
}

uint64_t npy_dictionary_bytes(std::string_view before) {
  uint64_t bytes = 0;
  for (size_t i = before.size(); i-- > 8;) bytes = bytes << 8 | uint8_t(before[i]);
  return bytes;
}

NpyHeader parse_npy_header(std::string_view dictionary, uint64_t prefix, const RejectAt& reject) {
  NpyHeader h;
  bool has_type = false, has_order = false, has_shape = false;
  Literals in(dictionary, prefix, reject);
  auto once = [&](bool& has) {
    if (std::exchange(has, true)) in.fail_here("a key is given twice");
  };
  in.expect('{');
  while (!in.take('}')) {
    const std::string_view key = in.string();
    in.expect(':');
    if (key == "descr") once(has_type), h.type = read_type(in);
    else if (key == "fortran_order") once(has_order), h.fortran_order = in.boolean();
    else if (key == "shape") once(has_shape), h.shape = in.shape();
    else
      in.fail_here("expected the keys 'descr', 'fortran_order' and 'shape', and it has '" +
                   std::string(key.substr(0, 40)) + "'");
    if (in.take(',')) continue;
    in.expect('}');
    break;
  }
  if (!in.at_end()) in.fail_here("expected nothing behind the dictionary");
  if (!has_type || !has_order || !has_shape) in.fail_here("expected the keys 'descr', 'fortran_order' and 'shape'");
  return h;
}

}  // namespace rill
