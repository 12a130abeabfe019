// What the interpreters of ONNX and TensorFlow share: a node about to be run, with its operands, and the values of
// which some are sizes that a signature leaves open. Each has a Value of its own (with `kind`, `tensor`, `constant`,
// `dims`) and as_tensor() of it.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rill/ops/apply.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/ops.h"
#include "rill/tensor/error_kinds.h"

namespace rill::imported {

// What is wrong with a file, in words that need no more.
class ImportError : public Error {
 public:
  using Error::Error;
};
[[noreturn]] inline void fail_import(std::string why, const Where& where = Where::current()) {
  fail_as<ImportError>("import_model", std::move(why), where);
}
// Thrown by needs_values(): the model has to be run op by op.
class NeedsValues : public ImportError {
 public:
  using ImportError::ImportError;
};
bool is_needs_values(const Error& e);

// "node 'sum' (Add)", as errors name it; one without a name by its first result.
template <class Node>
std::string described(const Node& node) {
  if constexpr (requires { node.op_type(); }) {
    const std::string& shown = !node.name().empty()     ? node.name()
                               : node.output_size() > 0 ? node.output(0)
                                                        : node.op_type();
    return fmt::format("node '{}' ({})", shown, node.op_type());
  } else {
    return fmt::format("node '{}' ({})", node.name(), node.op());
  }
}

// Sizes as a tensor, a vector or one scalar: a constant one where none is open, else one that the trace computes.
inline bool any_open(const Dims& sizes) {
  return std::ranges::any_of(sizes, [](Dim n) { return n.is_open(); });
}
inline Shape shape_from(const Dims& sizes) { return Shape(sizes.begin(), sizes.end()); }
Tensor constant_sizes(const Dims& sizes, bool scalar, DType dtype);
Tensor open_sizes(const Dims& sizes, bool scalar, DType dtype);

// Integers as a Value: a constant tensor, unless some are open.
template <class Value>
Value sizes_value(const Dims& d, bool scalar, DType dtype) {
  if (!any_open(d)) return {constant_sizes(d, scalar, dtype), true};
  Value v;
  v.kind = Value::Kind::sizes;
  v.dims = d;
  v.scalar = scalar;
  v.dtype = dtype;
  return v;
}

template <class Value>
bool all_constant(const std::vector<Value>& in) {
  return std::ranges::all_of(in, [](const Value& v) {
    return v.kind == Value::Kind::absent || (v.kind == Value::Kind::tensor && v.constant);
  });
}
template <class Value>
bool any_sizes(const std::vector<Value>& in) {
  return std::ranges::any_of(in, [](const Value& v) { return v.kind == Value::Kind::sizes; });
}
// What the rule gives for operands that are constants: it leaves nothing in a trace, and is constant too.
template <class Rule, class Call>
auto run_on_constants(const Rule& rule, const Call& c) {
  const EagerScope eager;
  const PauseTapes pause;
  auto out = rule(c);
  for (auto& v : out) v.constant = v.kind == std::decay_t<decltype(v)>::Kind::tensor;
  return out;
}

// One node, about to be run, and its operands. `Call`, which derives from this, finds attributes: attribute(name).
template <class Call, class Value, class Node>
class NodeCall {
 public:
  explicit NodeCall(const Node& node) : node(node) {}
  const Node& node;
  std::vector<Value> in;

  size_t count() const { return in.size(); }
  bool has(size_t i) const { return i < in.size() && in[i].kind != Value::Kind::absent; }
  // Throws where operand i is missing or no tensor.
  Tensor x(size_t i = 0) const {
    if (!has(i)) reject(fmt::format("operand {} is missing", i));
    return as_tensor(in[i], fmt::format("{}: operand {}", described(node), i));
  }
  // Operands from `first` to before `end`.
  std::vector<Tensor> tensors(size_t first, size_t end) const {
    std::vector<Tensor> all;
    for (size_t i = first; i < end; ++i) all.push_back(x(i));
    return all;
  }
  std::vector<Tensor> tensors() const { return tensors(0, in.size()); }

  // Elements of an operand, which must be known here: integers (open sizes among them), numbers, one of them.
  bool knows(size_t i) const {
    if (!has(i)) return false;
    const Value& v = in[i];
    if (v.kind == Value::Kind::sizes) return true;
    return v.kind == Value::Kind::tensor &&
           (v.constant || (!v.tensor.is_symbolic() && EnclosingTrace::may_read(v.tensor)));
  }
  // Operand i, whose elements are known here.
  Tensor known(size_t i) const {
    const Tensor t = x(i);
    if (!knows(i) || t.is_symbolic()) needs_values(fmt::format("'{}'", node.input(int(i))));
    return t;
  }
  Dims dims(size_t i) const {
    if (has(i) && in[i].kind == Value::Kind::sizes) return in[i].dims;
    Dims out;
    for (int64_t n : elements<int64_t>(i)) out.push_back(Dim(n));
    return out;
  }
  Dim dim(size_t i) const { return only(i, dims(i)); }
  std::vector<double> numbers(size_t i) const { return elements<double>(i); }
  double number(size_t i) const { return only(i, numbers(i)); }
  std::vector<std::string> texts(size_t i) const { return elements<std::string>(i); }

  int64_t integer(const std::string& name, int64_t otherwise) const {
    const auto* a = attribute_of_call(name);
    return a ? a->i() : otherwise;
  }
  double real(const std::string& name, double otherwise) const {
    const auto* a = attribute_of_call(name);
    return a ? double(a->f()) : otherwise;
  }
  std::string text(const std::string& name, const std::string& otherwise) const {
    const auto* a = attribute_of_call(name);
    return a ? a->s() : otherwise;
  }

  [[noreturn]] void reject(const std::string& why) const { fail_import(fmt::format("{}: {}", described(node), why)); }
  [[noreturn]] void needs_values(const std::string& what) const {
    throw NeedsValues(fmt::format("[import_model] {} depends on the elements of {}", described(node), what));
  }

 private:
  const auto* attribute_of_call(const std::string& name) const {
    return static_cast<const Call&>(*this).attribute(name);
  }
  template <class T>
  std::vector<T> elements(size_t i) const {
    const Tensor t = known(i);
    const EagerScope eager;
    return t.to_vector<T>();
  }
  template <class List>
  auto only(size_t i, const List& all) const {
    if (all.size() != 1) reject(fmt::format("operand {} should be one number, and has {} elements", i, all.size()));
    return all[0];
  }
};

// run(); an error that is not import_model's becomes one that names the node.
template <class Call, class F>
auto naming_node(const Call& c, F&& run) {
  try {
    return run();
  } catch (const std::exception& e) {  // of the standard library, too: too long a vector, say
    if (is_kind<ImportError>(e)) throw;
    c.reject(e.what());
  }
}

// `x` cut along an axis into parts of these sizes, which add up to it.
template <class Call>
std::vector<Tensor> cut(const Call& c, const Tensor& x, int64_t axis, const Dims& sizes) {
  std::vector<Tensor> parts;
  Dim start = 0;
  for (Dim n : sizes) {
    if (!n.is_open() && n < 0) c.reject("a part of negative size");
    parts.push_back(slice_axis(x, axis, start, start + n));
    start += n;
  }
  if (start != x.dim(axis)) c.reject("the parts do not add up to the size of the axis");
  return parts;
}

// `axis` of `ndim`, counted from the front.
template <class Call>
int64_t axis_of(const Call& c, int64_t axis, int64_t ndim) {
  if (axis < -ndim || axis >= ndim) c.reject(fmt::format("there is no axis {} of {}", axis, ndim));
  return axis < 0 ? axis + ndim : axis;
}

}  // namespace rill::imported
