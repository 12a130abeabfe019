// Attributes of gather and scatter. Not in shape_params.h, because ops/indexing.h, a public header, needs them.
#pragma once
#include <cstdint>
#include <string_view>

#include "rill/devices/params/attrs.h"

#pragma GCC visibility push(default)

namespace rill {

// gather: index tensor j, all broadcast to one shape B, selects along axis axes[j]; along axis batch_axes[i] the index
// is the one along B's dimension batch_dims[i]. The other axes are copied in full. The output's shape is B with the
// first `at` of those other axes before it and the rest after it. An index out of bounds is an error, unless the gather
// `skips` it: then reads give zero, and writes are left out.
struct GatherAttrs {
  Dims axes, batch_axes, batch_dims;
  int64_t at = 0;
  bool skips = false;
  // Whether it selects slices along the first axis, by one index tensor.
  bool takes_rows() const { return axes.size() == 1 && axes[0] == 0 && batch_axes.empty() && at == 0; }
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("axes", s.axes);
    v("batch_axes", s.batch_axes);
    v("batch_dims", s.batch_dims);
    v("at", s.at);
    if (s.skips) v("skips", s.skips);
  }
};

enum class ScatterMode : uint8_t { set, add, multiply, min, max };
inline std::string_view name(ScatterMode m) {
  constexpr std::string_view names[] = {"set", "add", "multiply", "min", "max"};
  return names[int(m)];
}

// scatter: writes to the elements that `where` would gather.
struct ScatterAttrs {
  GatherAttrs where;
  ScatterMode mode = ScatterMode::set;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    GatherAttrs::fields(s.where, v);
    v("mode", s.mode);
  }
};

}  // namespace rill

#pragma GCC visibility pop
