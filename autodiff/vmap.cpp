#include "rill/autodiff/vmap.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/autodiff/batching.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/tensor/dim_table.h"

namespace rill {

std::optional<int64_t> MapAxes::of(size_t i, size_t n, std::string_view option, const Where& where) const {
  if (for_all_) return axes_[0];
  if (axes_.size() != n)
    fail("vmap",
         fmt::format(".{} has {} axes for {} {}. give one each, or one number for all", option, axes_.size(), n,
                     option == "in_axes" ? "arguments" : "results"),
         where);
  return axes_[i];
}

namespace detail {

namespace {

struct Mapped {
  std::vector<Tensor> in;  // mapped ones with the rows first
  std::vector<char> mapped;
  Dim size = 0;
};

Mapped arguments_of(const std::vector<Tensor>& in, const std::vector<size_t>& argument_of, size_t arguments,
                    const VmapOptions& options, const Where& where) {
  Mapped m;
  int first = -1;
  for (size_t i = 0; i < in.size(); ++i) {
    require_defined("vmap", in[i], "an argument", where);
    const std::optional<int64_t> axis = options.in_axes.of(argument_of[i], arguments, "in_axes", where);
    m.mapped.push_back(axis.has_value());
    m.in.push_back(in[i]);
    if (!axis) continue;
    if (in[i].ndim() == 0)
      fail("vmap",
           fmt::format("an argument is {}, and has no first axis whose rows could be mapped. leave it as it is for all "
                       "rows: {{.in_axes = {{..., none}}}}",
                       to_string(in[i].spec())),
           where);
    const int64_t a = normal_axis(*axis, in[i], "vmap", where);
    if (a != 0) m.in.back() = moveaxis(in[i], a, 0, where);
    const Dim rows = m.in.back().shape()[0];
    if (first >= 0 && rows != m.size)
      fail("vmap",
           fmt::format("the arguments {} and {} differ in their {} axis, whose rows go together",
                       to_string(in[size_t(first)].spec()), to_string(in[i].spec()), a == 0 ? "first" : "mapped"),
           where);
    if (first < 0) first = int(i), m.size = rows;
  }
  if (first < 0) fail("vmap", "no argument is mapped. give an axis for one of them: {.in_axes = ...}", where);
  return m;
}

std::vector<Tensor> run_rows(const RowsFunction& f, const Mapped& m, Dim start, Dim stop, const VmapOptions& options,
                             const Where& where) {
  const bool all = start == 0 && stop == m.size;
  std::vector<Tensor> in;
  for (size_t i = 0; i < m.in.size(); ++i)
    in.push_back(all || !m.mapped[i] ? m.in[i] : slice_axis(m.in[i], 0, start, stop, where));
  Batcher batcher(stop - start, "vmap", options.randomness);
  for (size_t i = 0; i < in.size(); ++i)
    if (m.mapped[i]) in[i] = batcher.row_of(in[i]);
  std::vector<Tensor> out = f(in);
  for (Tensor& t : out) {
    require_defined("vmap", t, "what the function gives", where);
    if (t.is_symbolic()) t = identity(t, where);  // throws for a value of another trace
    t = batcher.all_rows(t);
  }
  return out;
}

}  // namespace

void refuse_variables(size_t i, size_t n, const VmapOptions& options, const Where& where) {
  if (options.in_axes.of(i, n, "in_axes", where))
    fail("vmap",
         fmt::format(
             "argument {} holds Variables, whose rows are not mapped. give their values, as Tensors, or leave it "
             "as it is for all rows: {{.in_axes = {{..., none}}}}",
             i),
         where);
}

std::vector<Tensor> run_vmap(const RowsFunction& f, const std::vector<Tensor>& in,
                             const std::vector<size_t>& argument_of, size_t arguments, const VmapOptions& options,
                             const Where& where) {
  if (options.chunk < 0) fail("vmap", fmt::format(".chunk is {} and must not be negative", options.chunk), where);
  const Mapped m = arguments_of(in, argument_of, arguments, options, where);
  std::vector<Tensor> out;
  const auto at_once = [&] {
    const CostDims either_is_right;
    return options.chunk == 0 || options.chunk >= m.size;
  };
  if (at_once()) {
    out = run_rows(f, m, 0, m.size, options, where);
  } else {
    std::vector<std::vector<Tensor>> parts;  // by result
    const bool same_draws = options.randomness == Randomness::same;
    const Tensor state = same_draws ? random::state() : Tensor();
    for (int64_t start = 0, n = m.size; start < n; start += options.chunk) {
      if (same_draws && start > 0) random::set_state(state, where);
      const std::vector<Tensor> part = run_rows(f, m, start, std::min(start + options.chunk, n), options, where);
      parts.resize(part.size());
      for (size_t k = 0; k < part.size(); ++k) parts[k].push_back(part[k]);
    }
    for (const std::vector<Tensor>& p : parts) out.push_back(concat(p, 0, where));
  }
  for (size_t k = 0; k < out.size(); ++k) {
    const std::optional<int64_t> axis = options.out_axes.of(k, out.size(), "out_axes", where);
    if (!axis)
      fail("vmap", "an entry of .out_axes is none, and every result has rows. give the axis where they stand", where);
    const int64_t a = normal_axis(*axis, out[k], "vmap", where);
    if (a != 0) out[k] = moveaxis(out[k], 0, a, where);
  }
  return out;
}

}  // namespace detail

}  // namespace rill
