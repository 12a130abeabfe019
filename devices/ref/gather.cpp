// Reference kernels of gather and scatter: one output (or update) at a time, its index computed from the definition in
// gather_params.h.
#include <algorithm>
#include <optional>

#include "rill/devices/cpu/elementwise/through_f32.h"
#include "rill/devices/params/gather_layout.h"
#include "rill/devices/ref/elementwise.h"
#include "rill/devices/ref/iterate.h"
#include "rill/devices/ref/shape_kernels.h"
#include "rill/devices/registry.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::ref {

namespace {

// The index in x of element `out` of gather's output; nothing if it is skipped.
std::optional<Ints> source_index(const GatherLayout& g, const Tensor& x, const Ints& out) {
  Ints at(size_t(x.ndim()), 0);
  for (size_t i = 0; i < g.slice_axes.size(); ++i) {
    size_t axis = size_t(g.slice_axes[i]);
    at[axis] = out[i < g.at ? i : i + g.index_shape.size()];
  }
  Ints index(out.begin() + g.at, out.begin() + g.at + g.index_shape.size());
  for (size_t i = 0; i < g.attrs.batch_axes.size(); ++i)
    at[size_t(g.attrs.batch_axes[i])] = index[size_t(g.attrs.batch_dims[i])];
  for (size_t j = 0; j < g.attrs.axes.size(); ++j) {
    const int64_t axis = g.attrs.axes[j];
    at[size_t(axis)] =
        index_at(*g.indices[j], offset(g.index_strides[j], index), axis, x.shape()[size_t(axis)], g.attrs.skips);
    if (at[size_t(axis)] == skipped_index) return std::nullopt;
  }
  return at;
}

template <class T>
T combined(T old, T update, ScatterMode mode) {
  if constexpr (std::is_same_v<T, std::string>) {
    return update;
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(combined(float(old), float(update), mode));
  } else {
    switch (mode) {
      case ScatterMode::set: return update;
      case ScatterMode::add:
        if constexpr (std::is_same_v<T, bool>) return old || update;
        else return wrapped(old, update, [](auto x, auto y) { return x + y; });
      case ScatterMode::multiply:
        if constexpr (std::is_same_v<T, bool>) return old && update;
        else return wrapped(old, update, [](auto x, auto y) { return x * y; });
      default: break;
    }
    if constexpr (requires { old < update; }) {
      if (old != old || update != update) return old != old ? old : update;  // NaN wins
      return mode == ScatterMode::min ? std::min(old, update) : std::max(old, update);
    } else {
      return update;
    }
  }
}

}  // namespace

void gather(const KernelArgs& a) {
  const Tensor& x = a.input(0);
  GatherLayout g(x, a.in.subspan(1), a.attrs.as<GatherAttrs>());
  visit_dtype(moved_as(x.dtype()), [&](auto zero) {
    using T = decltype(zero);
    T* out = a.out_data<T>();
    for_each_index(a.output().shape(), [&](const Ints& index) {
      const auto element = source_index(g, x, index);
      *out++ = element ? a.in_data<T>(0)[offset(x.strides(), *element)] : T();
    });
  });
}

void scatter(const KernelArgs& a) {
  if (scatters_wide(a)) return cpu::through_f32(a, scatter);
  const auto& s = a.attrs.as<ScatterAttrs>();
  const Tensor &x = a.output(), &updates = a.input(1);
  GatherLayout g(x, a.in.subspan(2), s.where);
  if (a.input(0).rep()->data != x.rep()->data) copy_elements(a.input(0), a.output());
  visit_dtype(moved_as(x.dtype()), [&](auto zero) {
    using T = decltype(zero);
    for_each_index(updates.shape(), [&](const Ints& index) {
      const auto element = source_index(g, x, index);
      if (!element) return;
      T& out = a.out_data<T>()[offset(x.strides(), *element)];
      out = combined(out, a.in_data<T>(1)[offset(updates.strides(), index)], s.mode);
    });
  });
}

}  // namespace rill::ref
