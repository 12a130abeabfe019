// The operands of StridedSlice and Slice, some of which the trace may compute.
#pragma once
#include <fmt/format.h>

#include <vector>

#include "rill/serialize/model/imported_sizes.h"
#include "rill/serialize/tensorflow/in/interpreter.h"

namespace rill::tensorflow_in {

// A vector of integers, some of which the trace computes: a loop's counter among numbers.
struct Entries {
  Dims known;                   // 0 if unknown
  std::vector<Tensor> unknown;  // undefined if known
  Entries(const Call& c, size_t i) {
    if (c.knows(i)) {
      known = c.dims(i);
      unknown.resize(known.size());
      return;
    }
    const Tensor all = c.x(i);
    if (all.ndim() != 1) c.reject(fmt::format("operand {} is no vector", i));
    const Values& parts = c.in[i].parts;
    for (int64_t k = 0; k < int64_t(all.dim(0)); ++k) {
      Call one(c.program, c.body, c.node);
      one.in = {parts.empty() ? Value(all(k)) : parts[size_t(k)]};
      const bool knows = one.knows(0);
      known.push_back(knows ? one.dim(0) : Dim(0));
      unknown.push_back(knows ? Tensor() : one.x(0).astype(i64));
    }
  }
  bool knows(size_t k) const { return !unknown[k].defined(); }
  // The number at that index, which must be known; `i`: the operand.
  Dim at(const Call& c, size_t i, size_t k) const {
    if (!knows(k)) c.needs_values(fmt::format("operand {}", i));
    return known[k];
  }
};

struct Strided {
  Entries begin, end;
  Dims steps;
  int64_t begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_mask;
  explicit Strided(const Call& c)
      : begin(c, 1),
        end(c, 2),
        steps(c.dims(3)),
        begin_mask(c.integer("begin_mask", 0)),
        end_mask(c.integer("end_mask", 0)),
        ellipsis_mask(c.integer("ellipsis_mask", 0)),
        new_axis_mask(c.integer("new_axis_mask", 0)),
        shrink_mask(c.integer("shrink_axis_mask", 0)) {
    if (begin.known.size() != end.known.size() || size() != steps.size() || size() > 32)
      c.reject("begin, end and strides have different lengths");
  }
  size_t size() const { return begin.known.size(); }
  // Whether it only slices the first axis, by known numbers.
  bool is_known_slice() const {
    return size() == 1 && !ellipsis_mask && !new_axis_mask && begin.knows(0) && (shrink_mask || end.knows(0));
  }
  // Applies such a slice, which keeps its axis, to a list. Its step is not 0.
  template <class List>
  List of(const List& x) const {
    const int64_t step = steps[0];
    const Dim first = step > 0 ? 0 : slice_max, last = step > 0 ? slice_max : slice_min;
    return imported::sliced(x, begin_mask ? first : begin.known[0], end_mask ? last : end.known[0], step);
  }
};

}  // namespace rill::tensorflow_in
