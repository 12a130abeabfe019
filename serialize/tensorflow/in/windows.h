// The windows in the attributes of TensorFlow's convolutions and pools.
#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "rill/serialize/tensorflow/in/interpreter.h"

namespace rill::tensorflow_in {

// Attributes of a window have an entry for each axis of the operand; here only those of space.
struct Windows {
  const Call& c;
  Layout layout;
  size_t rank;

  explicit Windows(const Call& call, const Tensor& x) : c(call), rank(size_t(x.ndim())) {
    const std::string format = c.text("data_format", "NHWC");
    layout = format == "NCHW" || format == "NCDHW" ? Layout::nchw : Layout::nhwc;
    if (rank < 4 || rank > 5) c.reject(fmt::format("takes images or volumes, and is given {} axes", rank));
  }
  Dims space(const std::string& name) const {
    const std::vector<int64_t> all = c.integers(name);
    return all.empty() ? Dims(rank - 2, Dim(1)) : space(Dims(all.begin(), all.end()), name);
  }
  Dims space(const Dims& all, const std::string& name) const {
    Dims out;
    if (all.size() != rank) c.reject("attribute '" + name + "' has not an entry for each axis");
    for (size_t i = 0; i + 2 < rank; ++i) out.push_back(all[i + (layout == Layout::nhwc ? 1 : 2)]);
    for (size_t i = 0; i < rank; ++i) {
      const bool in_space = i >= (layout == Layout::nhwc ? 1u : 2u) && i < (layout == Layout::nhwc ? rank - 1 : rank);
      if (!in_space && all[i] != 1) c.reject("attribute '" + name + "' steps over the batch or the channels");
    }
    for (Dim d : out)
      if (d < 1) c.reject("attribute '" + name + "' has an entry below 1");
    return out;
  }
  SpacePadding padding() const {
    const std::string kind = c.text("padding", "VALID");
    if (kind != "EXPLICIT") return SpacePadding(kind);
    const std::vector<int64_t> all = c.integers("explicit_paddings");
    if (all.size() != 2 * rank) c.reject("explicit_paddings has not a pair for each axis");
    SpacePadding p(0);
    p.kind = SpacePadding::Kind::each;
    p.lo = p.hi = {};
    for (size_t i = 0; i + 2 < rank; ++i) {
      const size_t axis = i + (layout == Layout::nhwc ? 1 : 2);
      p.lo.push_back(all[2 * axis]), p.hi.push_back(all[2 * axis + 1]);
    }
    return p;
  }
  // TensorFlow's weights are [space..., in, out] in both layouts.
  Tensor weights(const Tensor& w) const {
    if (w.ndim() != int64_t(rank)) c.reject("the kernel has another number of axes than the operand");
    if (layout == Layout::nhwc) return w;
    std::vector<int64_t> order{int64_t(rank) - 1, int64_t(rank) - 2};
    for (size_t i = 0; i + 2 < rank; ++i) order.push_back(int64_t(i));
    return transpose(w, Axes(order));
  }
  int64_t channels(const Tensor& x) const { return x.dim(layout == Layout::nhwc ? -1 : 1); }
};

}  // namespace rill::tensorflow_in
