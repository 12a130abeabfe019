// See shape_params.h.
#include "rill/devices/params/shape_params.h"

#include <fmt/format.h>

namespace rill {

std::string FillValue::text(DType dtype) const {
  if (is_bool(dtype)) return whole ? "true" : "false";
  if (is_unsigned(dtype)) return fmt::format("{}", uint64_t(whole));
  if (is_integer(dtype)) return fmt::format("{}", whole);
  if (is_complex(dtype)) return fmt::format("{}{:+}i", real, imag);
  return fmt::format("{}", real);
}

}  // namespace rill
