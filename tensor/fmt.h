// For programs that use {fmt}: fmt::print("{}", t) prints tensors, shapes, specs, dtypes and devices. Not part of
// rill.h, which includes no other library's header.
#pragma once
#include <fmt/format.h>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill::detail {
template <class T>
struct TextFormatter : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const T& value, Context& context) const {
    std::string text;
    if constexpr (std::is_same_v<T, DType>) text = name(value);
    else text = to_string(value);
    return fmt::formatter<std::string_view>::format(text, context);
  }
};
}  // namespace rill::detail

#pragma GCC visibility pop

template <>
struct fmt::formatter<rill::Tensor> : rill::detail::TextFormatter<rill::Tensor> {};
template <>
struct fmt::formatter<rill::Shape> : rill::detail::TextFormatter<rill::Shape> {};
template <>
struct fmt::formatter<rill::Spec> : rill::detail::TextFormatter<rill::Spec> {};
template <>
struct fmt::formatter<rill::DType> : rill::detail::TextFormatter<rill::DType> {};
template <>
struct fmt::formatter<rill::Device> : rill::detail::TextFormatter<rill::Device> {};
