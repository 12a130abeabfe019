// TensorProto to Tensor. Start at read_tensor.
#include <fmt/format.h>

#include <cstring>

#include "rill/devices/registry.h"
#include "rill/ops/apply.h"
#include "rill/serialize/tensorflow/in/interpreter.h"
#include "rill/tensor/limits.h"

namespace rill::tensorflow_in {
namespace {

// The bytes of `n` elements from a list, whose last element is repeated for those that are left out; zeros if it is
// empty.
template <class T, class List>
std::string from_list(const List& list, int64_t n, const std::string& what) {
  if (int64_t(list.size()) > n)
    imported::fail_import(fmt::format("{}: {} elements, and room for {}", what, list.size(), n));
  std::string bytes(size_t(n) * sizeof(T), '\0');
  T last{};
  for (int64_t i = 0; i < n; ++i) {
    if (i < int64_t(list.size())) last = T(list[int(i)]);
    else if (list.empty()) break;
    std::memcpy(bytes.data() + size_t(i) * sizeof(T), &last, sizeof(T));
  }
  return bytes;
}

std::string elements(const proto::TensorProto& p, DType dtype, int64_t n, const std::string& what) {
  switch (dtype) {
    case DType::f32: return from_list<float>(p.float_val(), n, what);
    case DType::f64: return from_list<double>(p.double_val(), n, what);
    case DType::f16:
    case DType::bf16: return from_list<uint16_t>(p.half_val(), n, what);
    case DType::i64: return from_list<int64_t>(p.int64_val(), n, what);
    case DType::u64: return from_list<uint64_t>(p.uint64_val(), n, what);
    case DType::u32: return from_list<uint32_t>(p.uint32_val(), n, what);
    case DType::i32: return from_list<int32_t>(p.int_val(), n, what);
    case DType::i16: return from_list<int16_t>(p.int_val(), n, what);
    case DType::u16: return from_list<uint16_t>(p.int_val(), n, what);
    case DType::i8: return from_list<int8_t>(p.int_val(), n, what);
    case DType::u8: return from_list<uint8_t>(p.int_val(), n, what);
    case DType::boolean: return from_list<uint8_t>(p.bool_val(), n, what);
    case DType::f8_e4m3fn:
    case DType::f8_e5m2: return from_list<char>(p.float8_val(), n, what);
    case DType::c64: return from_list<float>(p.scomplex_val(), 2 * n, what);
    case DType::c128: return from_list<double>(p.dcomplex_val(), 2 * n, what);
    case DType::string: break;
  }
  return {};
}

}  // namespace

Tensor read_tensor(const proto::TensorProto& p, const std::string& what) {
  const DType dtype = dtype_of(p.dtype(), what);
  if (p.tensor_shape().unknown_rank() || p.tensor_shape().dim_size() > 64)
    imported::fail_import(what + ": a constant without a shape");
  Shape shape;
  constexpr int64_t most = max_tensor_bytes / 16;
  int64_t n = 1;
  for (const auto& d : p.tensor_shape().dim()) {
    if (d.size() < 0 || d.size() > most || (d.size() > 0 && n > most / d.size()))
      imported::fail_import(fmt::format("{}: no tensor has the size {}", what, d.size()));
    shape.push_back(d.size());
    n *= d.size();
  }
  // One number may be repeated; more than this many from nothing would be an attack.
  constexpr int64_t max_repeated = int64_t(1) << 28;
  if (p.tensor_content().empty() && n > max_repeated)
    imported::fail_import(fmt::format("{}: {} elements of one number", what, n));
  const EagerScope eager;
  if (dtype == DType::string) {
    std::vector<std::string> texts(p.string_val().begin(), p.string_val().end());
    if (int64_t(texts.size()) > n) imported::fail_import(what + ": more texts than its shape has");
    texts.resize(size_t(n), texts.empty() ? std::string() : texts.back());
    return tensor(texts, shape);
  }
  const std::string bytes = p.tensor_content().empty() ? elements(p, dtype, n, what) : p.tensor_content();
  if (bytes.size() != size_t(n) * size_of(dtype))
    imported::fail_import(fmt::format("{}: {} bytes of elements, and {}{} has {}", what, bytes.size(), name(dtype),
                                      to_string(shape), size_t(n) * size_of(dtype)));
  Tensor out = empty(shape, {.dtype = dtype, .device = Device()});
  char* to = out.mutable_rep()->data;
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  if (dtype == DType::boolean)  // any other byte than 0 is true
    for (size_t i = 0; i < bytes.size(); ++i) to[i] = to[i] != 0;
  return out.to(default_device());
}

}  // namespace rill::tensorflow_in
