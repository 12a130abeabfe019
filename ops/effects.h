// Ops with side effects: print and assert_that. Eagerly they happen at once; inside `function` at every call, in
// program order, and they see the values that Variables have at that point. Included by ops.h.
#pragma once
#include <concepts>
#include <string>
#include <vector>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

namespace detail {
// A text and the line on which it stands: a list of any length follows, after which no default argument can.
struct TextArg {
  template <std::convertible_to<std::string> S>
    requires(!std::same_as<S, std::nullptr_t>)
  TextArg(const S& s, Where w = Where::current()) : text(s), where(w) {}
  std::string text;
  Where where;
};
// The first of a list of values, and the line on which it stands.
struct ValueArg {
  template <class T>
    requires(std::convertible_to<const T&, Tensor> && !std::convertible_to<const T&, std::string>)
  ValueArg(const T& t, Where w = Where::current()) : value(t), where(w) {}
  Tensor value;
  Where where;
};
void print(const TextArg& format, const std::vector<Tensor>& values);
void assert_that(const Tensor& pred, const TextArg& message, const std::vector<Tensor>& values);
}  // namespace detail

// Writes a line to stderr: `format` with each "{}" replaced by the next tensor, as operator<< writes it; "{{" and "}}"
// stand for braces. print("step {}: loss {}", step, loss). Throws where the number of "{}" differs from that of the
// tensors.
template <std::convertible_to<Tensor>... T>
void print(const detail::TextArg& format, const T&... values) {
  detail::print(format, {Tensor(values)...});
}
// The values alone, a space between them: print(x), print(step, loss).
template <std::convertible_to<Tensor>... T>
void print(const detail::ValueArg& first, const T&... more) {
  std::string format = "{}";
  for (size_t i = 0; i < sizeof...(more); ++i) format += " {}";
  detail::print({format, first.where}, {first.value, Tensor(more)...});
}

// Throws rill::Error, naming this line, the message and the values, unless `pred`, a bool scalar, holds:
// assert_that(all(isfinite(loss)), "the loss is finite", loss). A traced call that fails assigns no Variable.
template <std::convertible_to<Tensor>... T>
void assert_that(const Tensor& pred, const detail::TextArg& message, const T&... values) {
  detail::assert_that(pred, message, {Tensor(values)...});
}

}  // namespace rill

#pragma GCC visibility pop
