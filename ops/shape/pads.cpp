// See pads.h; and SpacePadding, the public type.
#include "rill/ops/shape/pads.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/ops/option_checks.h"
#include "rill/ops/scopes.h"
#include "rill/tensor/limits.h"

namespace rill {

SpacePadding::SpacePadding(std::string_view text, Where where) {
  const auto is = [text](std::string_view name) {
    return std::equal(text.begin(), text.end(), name.begin(), name.end(),
                      [](char a, char b) { return (a & ~0x20) == b; });
  };
  if (is("SAME")) kind = Kind::same;
  else if (!is("VALID")) fail("padding", fmt::format("\"{}\" is neither \"SAME\" nor \"VALID\"", text), where);
}
SpacePadding::SpacePadding(const char* text, Where where) : SpacePadding(std::string_view(text ? text : ""), where) {}
SpacePadding::SpacePadding(std::initializer_list<std::pair<int64_t, int64_t>> pairs) : kind(Kind::each) {
  for (auto [before, after] : pairs) {
    lo.push_back(before);
    hi.push_back(after);
  }
}

size_t space_count(const Tensor& x, std::string_view op, const Where& where) {
  require_operand(op, x, where);
  if (x.ndim() < 3 || x.ndim() > 5)
    fail(op,
         fmt::format("the input must have a batch axis, 1 to 3 axes of space and channels, not {} axes. operands: {}",
                     x.ndim(), to_string(x.spec())),
         where);
  return size_t(x.ndim()) - 2;
}

Dims for_each_axis(const Dims& list, size_t n, int64_t otherwise, std::string_view op, std::string_view what,
                   const Where& where) {
  if (list.size() == n) return list;
  if (list.size() > 1)
    fail(op,
         fmt::format("{} has {} entries for {} axes of space; give one for each, or one for all", what, list.size(), n),
         where);
  return Dims(n, list.empty() ? Dim(otherwise) : list[0]);
}

void resolve_padding(const SpacePadding& padding, const Dims& in, const Dims& window, const Dims& strides,
                     const Dims& dilation, Dims& lo, Dims& hi, std::string_view op, const Where& where) {
  const size_t n = in.size();
  if (padding.kind == SpacePadding::Kind::each && padding.lo.size() != n)
    fail(op, fmt::format("padding has {} pairs for {} axes of space", padding.lo.size(), n), where);
  for (const Dims* list : {&strides, &dilation})
    for (Dim step : *list)
      if (step.hint() > largest_step) fail(op, fmt::format("a step of {} is more than {}", step, largest_step), where);
  lo = hi = Dims(n, 0);
  for (size_t i = 0; i < n; ++i) switch (padding.kind) {
      case SpacePadding::Kind::valid: break;
      case SpacePadding::Kind::same: {
        if (strides[i] < 1) break;  // rejected later, by the op
        const Dim out = (in[i] + strides[i] - 1) / strides[i];
        const Dim total =
            larger(0, add_sizes((out - 1) * strides[i] - in[i] + 1, multiply_sizes(window[i] - 1, dilation[i])));
        lo[i] = total / 2;
        hi[i] = total - lo[i];
        break;
      }
      case SpacePadding::Kind::all:
        lo[i] = padding.lo[0];
        hi[i] = padding.hi[0];
        break;
      case SpacePadding::Kind::each:
        lo[i] = padding.lo[i];
        hi[i] = padding.hi[i];
        break;
    }
}

}  // namespace rill
