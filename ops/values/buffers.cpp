// Tensors over lent memory, and tensors' memory as spans.
#include "rill/ops/buffers.h"

#include <fmt/format.h>

#include "rill/devices/driver.h"
#include "rill/ops/call_replay.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/ops.h"
#include "rill/tensor/limits.h"
#include "rill/tensor/visit_dtype.h"

namespace rill {

namespace {

size_t alignment_of(DType dtype) {
  return visit_stored_dtype(dtype, [](auto zero) { return alignof(decltype(zero)); });
}

void check_memory(const void* data, const Spec& spec, const Strides& strides, const Where& where) {
  require_dtype("from_buffer", spec.dtype, where);
  if (spec.dtype == DType::string)
    fail("from_buffer", "strings cannot be lent, for each owns memory of its own. copy them with tensor()", where);
  require_sound_size("from_buffer", spec, where);
  if (!strides.empty() && strides.size() != spec.shape.size())
    fail("from_buffer",
         fmt::format("there are {} strides for the {} axes of {}. give one for each axis, in elements", strides.size(),
                     spec.shape.size(), to_string(spec)),
         where);
  if (!data && spec.shape.numel() > 0)
    fail("from_buffer", fmt::format("the data is a null pointer, and {} has elements", to_string(spec)), where);
  const size_t alignment = alignment_of(spec.dtype);
  if (reinterpret_cast<uintptr_t>(data) % alignment)
    fail("from_buffer",
         fmt::format("the data at {} is not aligned to the {} bytes that {} needs. copy it to memory that is, a "
                     "std::vector's say",
                     data, alignment, name(spec.dtype)),
         where);
}

// Kernels count on bools that are 0 or 1.
void check_bools(const Tensor& t, const Where& where) {
  if (!is_bool(t.dtype()) || t.size() == 0) return;
  const EagerScope eager;
  const PauseTapes pause;
  Spec spec = t.spec();
  spec.dtype = DType::u8;
  Tensor bytes = make_tensor(spec, t.rep()->buffer);
  bytes = make_view(bytes, t.shape(), t.strides(), 0);
  bytes.mutable_rep()->data = t.rep()->data;
  if (const int largest = max(bytes).item<int>(); largest > 1)
    fail("from_buffer",
         fmt::format("a bool is stored as {}, and must be 0 or 1. lend the bytes as u8, and compare them with 0",
                     largest),
         where);
}

}  // namespace

Tensor from_buffer(const void* data, const Shape& shape, DType dtype, MemoryOwner owner, const BufferOptions& options,
                   Where where) {
  const CallerScope caller(where);
  const Spec spec{shape, dtype, false, options.device};
  detail::require_device("from_buffer", spec.device, where);
  if (!is_host(spec.device))
    owner = [kept = std::move(owner), device = spec.device]() mutable {
      driver_of(device).wait(device);  // kernels may still read it
      kept = {};
    };
  check_memory(data, spec, options.strides, where);
  if (shape.numel() > 0)
    if (const std::string place = unreadable_place(spec.device, data); !place.empty())
      fail("from_buffer",
           fmt::format("the data at {} is memory of {}, which {} cannot read. lend it as what it is, {{.device = "
                       "\"{}\"}}, and move a copy with to(\"{}\")",
                       data, place, to_string(spec.device), place == "the host" ? "cpu:0" : place,
                       to_string(spec.device)),
           where);
  static constexpr std::max_align_t nothing{};  // the elements of an empty tensor
  const size_t bytes = size_t(shape.numel()) * size_of(dtype);
  Tensor t = make_tensor(spec, lend(data ? data : &nothing, bytes, spec.device, std::move(owner)));
  if (!options.strides.empty()) t = make_view(t, t.shape(), options.strides, 0);
  check_bools(t, where);
  return t;
}

const void* detail::strided_elements(const Tensor& x, DType dtype, int rank, const Where& where) {
  require_defined("strided_span", x, "the tensor", where);
  if (x.is_symbolic() && !compute_delayed(x)) {
    refuse_read_in_trace("strided_span", where);
    fail_foreign("strided_span", "the tensor", x, where);
  }
  if (x.dtype() != dtype)
    fail(
        "strided_span",
        fmt::format("{} has no elements of {}. convert with astype({})", to_string(x.spec()), name(dtype), name(dtype)),
        where);
  if (x.ndim() != rank)
    fail("strided_span",
         fmt::format("{} has {} axes, and the span {}. say strided_span<T, {}>", to_string(x.spec()), x.ndim(), rank,
                     x.ndim()),
         where);
  if (!is_host(x.device()))
    fail("strided_span",
         fmt::format("{} is on {}. read a copy, to(\"cpu:0\")", to_string(x.spec()), to_string(x.device())), where);
  return x.rep()->data;
}

void detail::fail_span_index(int64_t index, int axis, int64_t size, const Where& where) {
  fail("StridedSpan", fmt::format("index {} is out of range for axis {} of size {}", index, axis, size), where);
}

}  // namespace rill
