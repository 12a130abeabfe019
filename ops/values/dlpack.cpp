// DLPack both ways. What goes out holds a tensor (Lent); what comes in is lent memory whose owner calls the deleter.
#include "rill/ops/dlpack.h"

#include <fmt/format.h>

#include <memory>

#include "rill/devices/driver.h"
#include "rill/ops/buffers.h"
#include "rill/ops/call_replay.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/ops.h"
#include "rill/ops/values/dlpack_layout.h"

namespace rill {

namespace {

constexpr DLPackVersion version{1, 1};

// --- dtypes ----------------------------------------------------------------------------------------------------------

DLDataType type_of(DType d) {
  const auto type = [&](DLDataTypeCode code) { return DLDataType{code, uint8_t(8 * size_of(d)), 1}; };
  if (is_bool(d)) return type(kDLBool);
  if (d == DType::bf16) return type(kDLBfloat);
  if (d == DType::f8_e4m3fn) return type(kDLFloat8E4M3FN);
  if (d == DType::f8_e5m2) return type(kDLFloat8E5M2);
  if (is_complex(d)) return type(kDLComplex);
  if (is_floating(d)) return type(kDLFloat);
  return type(is_unsigned(d) ? kDLUInt : kDLInt);
}

DType dtype_of_type(DLDataType t, const Where& where) {
  for (int i = 0; i < dtype_count; ++i) {
    const DType d = DType(i);
    if (d == DType::string) continue;
    const DLDataType have = type_of(d);
    if (have.code == t.code && have.bits == t.bits && t.lanes == 1) return d;
  }
  constexpr std::string_view kinds[] = {"int", "uint", "float", "opaque handle", "bfloat", "complex", "bool"};
  const std::string kind =
      t.code < std::size(kinds) ? std::string(kinds[t.code]) : fmt::format("type code {}", int(t.code));
  fail("from_dlpack",
       fmt::format("rill has no dtype for {} of {} bits{}. convert it on the other side, to float32 say", kind,
                   int(t.bits), t.lanes == 1 ? "" : fmt::format(" in vectors of {}", t.lanes)),
       where);
}

// --- Out -------------------------------------------------------------------------------------------------------------

// What a structure that went out holds, and the structure itself.
template <class Managed>
struct Lent {
  Tensor tensor;
  std::vector<int64_t> shape, strides;
  Managed managed{};
};

Tensor readable(const Tensor& x, std::string_view call, const Where& where) {
  require_defined(call, x, "the tensor", where);
  if (x.is_symbolic() && !compute_delayed(x)) {
    refuse_read_in_trace(call, where);
    fail_foreign(call, "the tensor", x, where);
  }
  if (x.dtype() == DType::string)
    fail(
        call,
        fmt::format("{} has strings, for which DLPack has no type. send to_vector<std::string>()", to_string(x.spec())),
        where);
  if (!is_host(x.device())) synchronize(x.device(), where);  // the reader has a stream of its own
  return x;
}

Tensor copy_of(const Tensor& x) {
  Tensor out = empty_tensor(x.spec());
  copy_elements(x, out);
  return out;
}

template <class Managed>
Managed* lend_tensor(const Tensor& x) {
  auto lent = std::make_unique<Lent<Managed>>();
  lent->tensor = x;
  lent->shape.assign(x.shape().begin(), x.shape().end());
  lent->strides.assign(x.strides().begin(), x.strides().end());
  DLTensor& t = lent->managed.dl_tensor;
  t.data = const_cast<char*>(x.rep()->data);  // flagged as read-only, or a copy
  if (is_host(x.device())) t.device = {kDLCPU, 0};
  else t.device = {kDLCUDA, driver_of(x.device()).number(x.device())};
  t.ndim = int32_t(lent->shape.size());
  t.dtype = type_of(x.dtype());
  t.shape = lent->shape.data();
  t.strides = lent->strides.data();
  lent->managed.manager_ctx = lent.get();
  lent->managed.deleter = [](Managed* m) {
    const auto* lent = static_cast<Lent<Managed>*>(m->manager_ctx);
    const Device device = lent->tensor.device();
    if (!is_host(device)) driver_of(device).wait(device);  // the reader's kernels may be under way
    delete lent;
  };
  return &lent.release()->managed;
}

// --- In --------------------------------------------------------------------------------------------------------------

template <class Managed>
void give_back(Managed* m) {
  if (m->deleter) m->deleter(m);
}

// The GPU that CUDA knows by this number.
std::optional<Device> gpu_of_number(int number) {
  for (const Device d : devices())
    if (!is_host(d) && driver_of(d).number(d) == number) return d;
  return std::nullopt;
}

// The elements of `t`, a dense copy of them or where they lie: then `owner` is what keeps them.
Tensor tensor_over(const DLTensor& t, MemoryOwner owner, const Where& where) {
  const DLDeviceType device = t.device.device_type;
  const std::optional<Device> gpu = device == kDLCUDA ? gpu_of_number(t.device.device_id) : std::nullopt;
  if (device != kDLCPU && device != kDLCUDAHost && device != kDLROCMHost && !gpu)
    fail("from_dlpack",
         fmt::format(
             "the memory is on a device of DLPack's type {}{}, which is not here. copy it to the CPU on the other "
             "side first, with .cpu() say",
             int(device), device == kDLCUDA ? fmt::format(" (CUDA {})", t.device.device_id) : ""),
         where);
  const DType dtype = dtype_of_type(t.dtype, where);
  if (t.ndim < 0 || (t.ndim > 0 && !t.shape))
    fail("from_dlpack", fmt::format("the structure says {} axes and has no sizes", t.ndim), where);
  Shape shape;
  BufferOptions options;
  if (gpu) options.device = *gpu;
  for (int32_t k = 0; k < t.ndim; ++k) {
    shape.push_back(t.shape[k]);
    if (t.strides) options.strides.push_back(t.strides[k]);
  }
  const char* data = t.data ? static_cast<const char*>(t.data) + t.byte_offset : nullptr;
  return from_buffer(data, shape, dtype, std::move(owner), options, where);
}

template <class Managed>
Tensor take(Managed* m, const DLPackOptions& options, const Where& where) {
  CallerScope caller(where);
  if (options.copy.value_or(false)) {
    const Tensor dense = copy_of(tensor_over(m->dl_tensor, {}, where));
    give_back(m);
    return dense;
  }
  // Looked at before it is taken: where that throws, the structure is the caller's.
  static_cast<void>(tensor_over(m->dl_tensor, {}, where));
  return tensor_over(m->dl_tensor, [m] { give_back(m); }, where);
}

void require_structure(const void* tensor, const Where& where) {
  if (!tensor) fail("from_dlpack", "the structure is a null pointer", where);
}

}  // namespace

DLManagedTensorVersioned* to_dlpack(const Tensor& x, const DLPackOptions& options, Where where) {
  const Tensor own = readable(x, "to_dlpack", where);
  const bool copy = options.copy.value_or(false);
  auto* m = lend_tensor<DLManagedTensorVersioned>(copy ? copy_of(own) : own);
  m->version = version;
  m->flags = copy ? dlpack_is_copied : dlpack_read_only;
  return m;
}

DLManagedTensor* to_dlpack_unversioned(const Tensor& x, const DLPackOptions& options, Where where) {
  const Tensor own = readable(x, "to_dlpack_unversioned", where);
  return lend_tensor<DLManagedTensor>(options.copy.value_or(true) ? copy_of(own) : own);
}

Tensor from_dlpack(DLManagedTensorVersioned* tensor, const DLPackOptions& options, Where where) {
  require_structure(tensor, where);
  if (tensor->version.major > version.major)
    fail("from_dlpack",
         fmt::format("the structure is of DLPack {}.{}, whose layout rill does not know. ask the other library for "
                     "max_version=(1, 1)",
                     tensor->version.major, tensor->version.minor),
         where);
  return take(tensor, options, where);
}

Tensor from_dlpack(DLManagedTensor* tensor, const DLPackOptions& options, Where where) {
  require_structure(tensor, where);
  return take(tensor, options, where);
}

}  // namespace rill
