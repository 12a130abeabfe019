#include "rill/tensor/limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace rill {

std::string describe_size(const Spec& s) {
  if (s.shape.ndim() > max_tensor_axes)
    return fmt::format("a tensor would have {} axes, and may have {} at most", s.shape.ndim(), max_tensor_axes);
  double bytes = double(size_of(s.dtype));
  for (int64_t n : s.shape) {
    if (n == -1)
      return fmt::format("negative sizes are not allowed: [{}]. an open size, `any`, stands in a signature only",
                         fmt::join(s.shape, ","));
    if (n < 0) return fmt::format("negative sizes are not allowed: [{}]", fmt::join(s.shape, ","));
    bytes *= double(std::max<int64_t>(n, 1));
  }
  return fmt::format("{} would take {} bytes, and a tensor may have {} (2^47) at most. use smaller sizes", to_string(s),
                     bytes < 0x1p63 ? fmt::format("{}", int64_t(bytes)) : fmt::format("{:.3g}", bytes),
                     max_tensor_bytes);
}

void require_dtype(std::string_view op, DType d, const Where& where) {
  if (int(d) < dtype_count) return;
  std::string names;
  for (int i = 0; i < dtype_count; ++i) names += (i ? ", " : "") + std::string(name(DType(i)));
  fail(op, fmt::format("DType({}) does not exist. use one of {}", int(d), names), where);
}

void require_sound_size(std::string_view op, const Spec& s, const Where& where) {
  if (!has_sound_size(s)) [[unlikely]]
    fail(op, describe_size(s), where);
}

void require_few_numbers(std::string_view op, int64_t count, const Where& where) {
  require_sound_size(op, Spec{Shape{count}, DType::f64, false, {}}, where);
  constexpr int64_t worth_asking = 1 << 24;
  if (count < worth_asking) return;
  const size_t bytes = size_t(count) * sizeof(double);
  const std::unique_ptr<void, void (*)(void*)> memory(std::malloc(bytes), std::free);  // untouched: costs nothing
  if (!memory) fail(op, fmt::format("the host cannot give the {} bytes of its {} numbers", bytes, count), where);
}
void require_few_tensors(std::string_view op, int64_t count, const Where& where) {
  if (count > max_tensors)
    fail(op, fmt::format("it would give {} tensors, and may give {} at most", count, max_tensors), where);
}

}  // namespace rill
