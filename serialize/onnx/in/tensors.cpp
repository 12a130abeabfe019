// The elements of an ONNX tensor: as raw bytes, as protobuf's lists of numbers, or in a file beside the model.
#include "rill/serialize/onnx/in/tensors.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <filesystem>

#include "rill/devices/registry.h"
#include "rill/ops/apply.h"
#include "rill/serialize/files.h"
#include "rill/serialize/onnx/in/interpreter.h"
#include "rill/serialize/onnx/in/narrow.h"
#include "rill/tensor/limits.h"

namespace rill::onnx_import {
namespace {

using onnx::TensorProto;

size_t whole_number(const std::string& text, const std::string& what, const Source& source) {
  size_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size())
    source.reject(fmt::format("{}: '{}' is no number of bytes", what, text));
  return n;
}

// The file that a tensor names, which must be in the model's folder or below, after resolving links.
std::string external_path(const std::string& location, const std::string& what, const Source& source) {
  namespace fs = std::filesystem;
  const fs::path given(location);
  bool inside = !location.empty() && given.is_relative();
  for (const fs::path& part : given) inside = inside && part != "..";
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(fs::absolute(source.path).parent_path(), error);
  const fs::path path = fs::weakly_canonical(folder / given, error);
  const fs::path relative = path.lexically_relative(folder);
  if (!inside || error || relative.empty() || *relative.begin() == "..")
    source.reject(fmt::format("{}: the weights' file '{}' is not in the model's folder", what, location));
  return path.string();
}

// A tensor whose elements `fill` writes, with `bytes` bytes.
template <class Fill>
Tensor filled(size_t bytes, DType dtype, const Shape& shape, const std::string& what, const Source& source, Fill fill) {
  const size_t expected = size_t(int64_t(shape.numel())) * size_of(dtype);
  if (bytes != expected)
    source.reject(
        fmt::format("{}: {} bytes of elements, and {}{} has {}", what, bytes, name(dtype), to_string(shape), expected));
  Tensor out = empty(shape, {.dtype = dtype, .device = Device()});
  char* elements = out.mutable_rep()->data;
  if (expected) fill(elements);
  if (is_bool(dtype))  // any other byte than 0 is true
    for (size_t i = 0; i < expected; ++i) elements[i] = elements[i] != 0;
  return out.to(default_device());
}
Tensor from_bytes(std::string_view bytes, DType dtype, const Shape& shape, const std::string& what,
                  const Source& source) {
  return filled(bytes.size(), dtype, shape, what, source,
                [&](char* to) { std::memcpy(to, bytes.data(), bytes.size()); });
}

// use(file, offset, length) for elements in a file of their own: `length` bytes, unless the model says how many.
template <class Use>
auto with_external(const TensorProto& t, size_t length, const std::string& what, const Source& source, Use use) {
  std::string location;
  size_t offset = 0;
  for (const auto& entry : t.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = whole_number(entry.value(), what, source);
    if (entry.key() == "length") length = whole_number(entry.value(), what, source);
  }
  const FileReader file(external_path(location, what, source), "import_model", source.where);
  file.require(offset, length, "the elements of " + what);
  return use(file, offset, length);
}
Tensor read_external(const TensorProto& t, DType dtype, const Shape& shape, const std::string& what,
                     const Source& source) {
  return with_external(t, size_t(int64_t(shape.numel())) * size_of(dtype), what, source,
                       [&](const FileReader& file, size_t offset, size_t length) {
                         return filled(length, dtype, shape, what, source,
                                       [&](char* to) { file.read(offset, to, length); });
                       });
}

// Of a format of narrow.h: the same bytes, raw, in a list or in a file.
Tensor read_narrow(const TensorProto& t, const NarrowFormat& f, const Shape& shape, const std::string& what,
                   const Source& source) {
  const size_t expected = packed_bytes(f, shape.numel());
  std::string bytes;
  if (t.data_location() == TensorProto::EXTERNAL) {
    bytes = with_external(t, expected, what, source, [](const FileReader& file, size_t offset, size_t length) {
      return file.read(offset, length);
    });
  } else if (t.has_raw_data()) {
    bytes = t.raw_data();
  } else {
    for (int32_t v : t.int32_data()) bytes.push_back(char(v));
  }
  if (bytes.size() != expected)
    source.reject(fmt::format("{}: {} bytes of elements, and {}{} has {}", what, bytes.size(),
                              name_of_type(t.data_type()), to_string(shape), expected));
  return unpack(f, bytes, shape);
}

// Elements that protobuf lists as numbers of another type.
template <class T, class List>
Tensor from_list(const List& list, DType dtype, const Shape& shape, const std::string& what, const Source& source) {
  std::vector<T> elements;
  elements.reserve(size_t(list.size()));
  for (auto v : list) elements.push_back(T(v));
  return from_bytes({reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T)}, dtype, shape, what,
                    source);
}

Tensor from_lists(const TensorProto& t, DType dtype, const Shape& shape, const std::string& what,
                  const Source& source) {
  switch (dtype) {
    case DType::f32:
    case DType::c64: return from_list<float>(t.float_data(), dtype, shape, what, source);
    case DType::f64:
    case DType::c128: return from_list<double>(t.double_data(), dtype, shape, what, source);
    case DType::i64: return from_list<int64_t>(t.int64_data(), dtype, shape, what, source);
    case DType::u64: return from_list<uint64_t>(t.uint64_data(), dtype, shape, what, source);
    case DType::u32: return from_list<uint32_t>(t.uint64_data(), dtype, shape, what, source);
    case DType::i32: return from_list<int32_t>(t.int32_data(), dtype, shape, what, source);
    case DType::i16: return from_list<int16_t>(t.int32_data(), dtype, shape, what, source);
    case DType::u16:
    case DType::f16:
    case DType::bf16: return from_list<uint16_t>(t.int32_data(), dtype, shape, what, source);
    case DType::i8: return from_list<int8_t>(t.int32_data(), dtype, shape, what, source);
    default: return from_list<uint8_t>(t.int32_data(), dtype, shape, what, source);
  }
}

struct TypeName {
  std::string_view name;
  int dtype;  // or -1
};
constexpr TypeName types[] = {
    {"undefined", -1},
    {"float", int(f32)},
    {"uint8", int(u8)},
    {"int8", int(i8)},
    {"uint16", int(u16)},
    {"int16", int(i16)},
    {"int32", int(i32)},
    {"int64", int(i64)},
    {"string", int(string)},
    {"bool", int(boolean)},
    {"float16", int(f16)},
    {"double", int(f64)},
    {"uint32", int(u32)},
    {"uint64", int(u64)},
    {"complex64", int(c64)},
    {"complex128", int(c128)},
    {"bfloat16", int(bf16)},
    {"float8e4m3fn", -1},
    {"float8e4m3fnuz", -1},
    {"float8e5m2", -1},
    {"float8e5m2fnuz", -1},
    {"uint4", -1},
    {"int4", -1},
    {"float4e2m1", -1},
    {"float8e8m0", -1},
    {"uint2", -1},
    {"int2", -1},
};

}  // namespace

bool find_dtype(int32_t elem_type, DType& out) {
  if (const NarrowFormat* f = find_narrow(elem_type)) return out = f->held, true;
  if (elem_type < 0 || size_t(elem_type) >= std::size(types) || types[elem_type].dtype < 0) return false;
  out = DType(types[elem_type].dtype);
  return true;
}
std::string name_of_type(int32_t elem_type) {
  if (elem_type < 0 || size_t(elem_type) >= std::size(types)) return fmt::format("type {}", elem_type);
  return std::string(types[elem_type].name);
}
DType dtype_of(int32_t elem_type, const std::string& what) {
  DType out = f32;
  if (!find_dtype(elem_type, out))
    imported::fail_import(fmt::format("{}: rill has no dtype for ONNX's {}", what, name_of_type(elem_type)));
  return out;
}

void Source::reject(const std::string& what) const { imported::fail_import(prefix + ": " + what, where); }

Shape read_shape(const google::protobuf::RepeatedField<int64_t>& dims, const std::string& what, const Source& source) {
  Shape shape;
  int64_t elements = 1;
  for (int64_t d : dims) {
    if (d < 0) source.reject(fmt::format("{}: a negative size, {}", what, d));
    elements = multiply_sizes(elements, d);
    shape.push_back(d);
  }
  if (dims.size() > 64 || elements > max_tensor_bytes / 16) source.reject(what + ": too large a shape");
  return shape;
}

Tensor read_tensor(const TensorProto& t, const Source& source) {
  const EagerScope eager;
  const std::string what = fmt::format("tensor '{}'", t.name());
  DType dtype = f32;
  if (!find_dtype(t.data_type(), dtype))
    source.reject(fmt::format("{}: rill has no dtype for ONNX's {}", what, name_of_type(t.data_type())));
  const Shape shape = read_shape(t.dims(), what, source);
  if (t.has_segment()) source.reject(what + ": is a segment of a larger one");
  if (dtype == string) {
    if (t.string_data_size() != int64_t(shape.numel()))
      source.reject(what + ": its texts are fewer or more than its shape says");
    return tensor(std::vector<std::string>(t.string_data().begin(), t.string_data().end()), shape);
  }
  if (const NarrowFormat* f = find_narrow(t.data_type())) return read_narrow(t, *f, shape, what, source);
  if (t.data_location() == TensorProto::EXTERNAL) return read_external(t, dtype, shape, what, source);
  if (t.has_raw_data()) return from_bytes(t.raw_data(), dtype, shape, what, source);
  return from_lists(t, dtype, shape, what, source);
}

Tensor read_tensor(const onnx::SparseTensorProto& t, const Source& source) {
  const EagerScope eager;
  const std::string what = fmt::format("sparse tensor '{}'", t.values().name());
  const Shape shape = read_shape(t.dims(), what, source);
  const Tensor values = read_tensor(t.values(), source);
  const Tensor indices = read_tensor(t.indices(), source);
  if (indices.dtype() != i64 || values.ndim() != 1 || indices.ndim() < 1 || indices.ndim() > 2 ||
      indices.dim(0) != values.dim(0) || (indices.ndim() == 2 && indices.dim(1) != int64_t(shape.size())))
    source.reject(what + ": its indices and values do not fit");
  GatherAttrs places;
  std::vector<Tensor> columns = indices.ndim() == 1 ? std::vector<Tensor>{indices} : unstack(indices, 1);
  const Tensor dense = zeros(indices.ndim() == 1 ? Shape{shape.numel()} : shape, values.dtype());
  for (size_t i = 0; i < columns.size(); ++i) places.axes.push_back(int64_t(i));
  return reshape(scatter(dense, columns, values, places, ScatterMode::set), shape);
}

}  // namespace rill::onnx_import
