// The IDX reader. Files may come from anywhere, so every size is checked against the available bytes before it is used.
// Start at read_idx.
#include "rill/data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "rill/devices/registry.h"
#include "rill/tensor/limits.h"

namespace rill::data {
namespace {

struct File {
  std::string path;
  std::string_view op;
  Where where;

  [[noreturn]] void reject(const std::string& what) const { fail(op, "'" + path + "': " + what, where); }
};

std::string read_bytes(const File& file) {
  errno = 0;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(file.path.c_str(), "rb"), std::fclose);
  if (!in)
    file.reject(std::string("cannot be opened: ") + std::strerror(errno) + ". expected an IDX file, plain or .gz");
  std::string bytes;
  char block[1 << 16];
  while (size_t n = std::fread(block, 1, sizeof block, in.get())) bytes.append(block, n);
  if (std::ferror(in.get())) file.reject(std::string("cannot be read: ") + std::strerror(errno));
  return bytes;
}

bool is_gzip(std::string_view bytes) { return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b'; }

uint32_t big_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | uint8_t(bytes[size_t(i)]);
  return value;
}

std::string hex(uint32_t magic) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", magic);
  return text;
}

// The third byte of the magic number.
DType dtype_of_code(const File& file, uint32_t magic) {
  switch (magic >> 8) {
    case 0x08: return DType::u8;
    case 0x09: return DType::i8;
    case 0x0B: return DType::i16;
    case 0x0C: return DType::i32;
    case 0x0D: return DType::f32;
    case 0x0E: return DType::f64;
  }
  file.reject("has the magic number " + hex(magic) +
              ". expected an IDX file: 0x0000TTDD, TT = 08 u8, 09 i8, 0b i16, 0c i32, 0d f32, 0e f64, DD dimensions");
}

// Copies elements, turning them from big-endian to the machine's order.
void copy_swapped(const char* from, char* to, size_t bytes, size_t size) {
  if (size == 1 || std::endian::native == std::endian::big) {
    if (bytes) std::memcpy(to, from, bytes);
    return;
  }
  for (size_t i = 0; i < bytes; i += size)
    for (size_t b = 0; b < size; ++b) to[i + b] = from[i + size - 1 - b];
}

// The header of a file.
struct Head {
  Spec spec;
  size_t bytes;            // its own
  uint64_t element_bytes;  // of the data
  bool sound;              // whether a tensor can be so large
};

// `magic`, unless 0, is the magic number that the file has to have.
Head read_head(const File& file, uint32_t magic, const char* what, std::string_view content) {
  std::string_view rest = content;
  if (rest.size() < 4)
    file.reject("is truncated: " + std::to_string(rest.size()) + " bytes of content. expected a magic number of 4");
  const uint32_t found = big_endian(rest);
  if (magic && found != magic)
    file.reject("has the magic number " + hex(found) + ". expected " + hex(magic) + " (" + what + ")");
  Head head{};
  head.spec.dtype = dtype_of_code(file, found);
  const size_t ndim = found & 0xFF;
  rest.remove_prefix(4);
  if (rest.size() < 4 * ndim)
    file.reject("is truncated: it ends within its sizes. expected " + std::to_string(ndim) + " of them, 4 bytes each");
  for (size_t i = 0; i < ndim; ++i, rest.remove_prefix(4)) head.spec.shape.push_back(int64_t(big_endian(rest)));
  head.bytes = 4 + 4 * ndim;
  head.sound = has_sound_size(head.spec);
  head.element_bytes = head.sound ? uint64_t(head.spec.shape.numel()) * size_of(head.spec.dtype) : uint64_t(-1);
  return head;
}

// All members of a gzip file (RFC 1952), each with its checksum; no more of them than the header in its content
// promises.
template <class HeadOf>
std::string unzip(const File& file, std::string& packed, HeadOf&& head_of) {
  z_stream stream = {};
  if (inflateInit2(&stream, MAX_WBITS + 16) != Z_OK) file.reject("zlib cannot be started");
  std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  std::string bytes;
  char block[1 << 16];
  size_t at = 0;
  uint64_t expected = 0;  // once the head is there
  for (;;) {
    constexpr size_t most = 1 << 30;  // zlib counts in 32 bits
    stream.next_in = reinterpret_cast<Bytef*>(packed.data() + at);
    stream.avail_in = uInt(std::min(packed.size() - at, most));
    stream.next_out = reinterpret_cast<Bytef*>(block);
    stream.avail_out = sizeof block;
    int status = inflate(&stream, Z_NO_FLUSH);
    at = size_t(reinterpret_cast<char*>(stream.next_in) - packed.data());
    bytes.append(block, sizeof block - stream.avail_out);
    if (constexpr size_t longest_head = 4 + 4 * 255; expected == 0 && bytes.size() >= longest_head) {
      const Head head = head_of(bytes);
      expected = head.sound ? head.bytes + head.element_bytes : uint64_t(-1);
    }
    if (expected != 0 && bytes.size() > expected)
      file.reject("has bytes left over: its content is longer than the " + std::to_string(expected) +
                  " bytes that its sizes say");
    if (status == Z_STREAM_END) {
      if (at == packed.size()) return bytes;
      if (!is_gzip(std::string_view(packed).substr(at)) || inflateReset(&stream) != Z_OK)
        file.reject("has " + std::to_string(packed.size() - at) + " bytes left over behind its gzip stream");
    } else if (status == Z_BUF_ERROR && at == packed.size()) {
      file.reject("is truncated: its gzip stream stops after " + std::to_string(bytes.size()) +
                  " bytes of content. fetch it again");
    } else if (status != Z_OK) {
      file.reject(std::string("is corrupt: ") + (stream.msg ? stream.msg : "its gzip stream cannot be read") +
                  " after " + std::to_string(bytes.size()) + " bytes of content. fetch it again");
    }
  }
}

Tensor read(const File& file, uint32_t magic, const char* what) {
  const auto head_of = [&](std::string_view content) { return read_head(file, magic, what, content); };
  std::string packed = read_bytes(file);
  const std::string content = is_gzip(packed) ? unzip(file, packed, head_of) : std::move(packed);
  const Head head = head_of(content);
  const std::string_view elements = std::string_view(content).substr(head.bytes);
  if (elements.size() != head.element_bytes)
    file.reject((elements.size() < head.element_bytes ? "is truncated: " : "has bytes left over: ") +
                std::to_string(elements.size()) + " bytes of elements. expected " +
                (head.sound ? std::to_string(head.element_bytes) : "far more") + " for " + to_string(head.spec));
  Tensor out = empty_tensor(head.spec);
  copy_swapped(elements.data(), out.mutable_rep()->data, elements.size(), size_of(head.spec.dtype));
  return out;
}

bool exists(const std::string& path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(path.c_str(), "rb"), std::fclose);
  return bool(in);
}

File find(const std::string& folder, const std::string& name, const Where& where) {
  std::string plain = folder.empty() ? name : folder + "/" + name;
  if (exists(plain + ".gz")) return {plain + ".gz", "load_mnist", where};
  if (exists(plain)) return {plain, "load_mnist", where};
  fail("load_mnist",
       "'" + plain +
           ".gz': no such file, with or without .gz. expected the four MNIST files "
           "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte in '" +
           folder + "'",
       where);
}

struct Set {
  File images_file;
  Tensor images, labels;
};

Set load_set(const std::string& folder, const std::string& prefix, const Where& where) {
  File images_file = find(folder, prefix + "-images-idx3-ubyte", where);
  File labels_file = find(folder, prefix + "-labels-idx1-ubyte", where);
  Tensor images = read(images_file, 0x00000803, "images: u8, 3 dimensions");
  Tensor bytes = read(labels_file, 0x00000801, "labels: u8, 1 dimension");
  if (images.dim(0) != bytes.dim(0))
    labels_file.reject("has " + std::to_string(bytes.dim(0)) + " labels. expected " + std::to_string(images.dim(0)) +
                       ", the number of images in '" + images_file.path + "'");
  Spec spec = bytes.spec();
  spec.dtype = DType::i32;
  Tensor labels = empty_tensor(spec);
  auto* from = reinterpret_cast<const uint8_t*>(bytes.rep()->data);
  auto* to = reinterpret_cast<int32_t*>(labels.mutable_rep()->data);
  for (int64_t i = 0; i < bytes.size(); ++i) {
    if (from[i] > 9)
      labels_file.reject("label " + std::to_string(i) + " is " + std::to_string(from[i]) + ". expected 0 to 9");
    to[i] = from[i];
  }
  return {images_file, images, labels};
}

}  // namespace

Tensor read_idx(const std::string& path, Where where) {
  return read({path, "read_idx", where}, 0, "").to(default_device());
}

Mnist load_mnist(const std::string& folder, Where where) {
  Set train = load_set(folder, "train", where), test = load_set(folder, "t10k", where);
  if (train.images.dim(1) != test.images.dim(1) || train.images.dim(2) != test.images.dim(2))
    test.images_file.reject("holds " + to_string(test.images.spec()) + ". expected images of the size of those in '" +
                            train.images_file.path + "', " + to_string(train.images.spec()));
  const Device device = default_device();
  return {train.images.to(device), test.images.to(device), train.labels.to(device), test.labels.to(device)};
}

}  // namespace rill::data
