// ai.onnx.ml's tables: mapping values by a list of keys. Text has to be known; numbers are looked up in the trace.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "rill/ops/apply.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {
namespace {

// keys_*, values_*: a vector of the dtype in the file; undefined if there is none.
Tensor listed(const Call& c, const std::string& name) {
  if (c.has_attribute(name + "_tensor")) return reshape(c.tensor(name + "_tensor"), {-1});
  if (c.has_attribute(name + "_strings")) return tensor(c.strings(name + "_strings"));
  if (c.has_attribute(name + "_floats")) return tensor(c.reals(name + "_floats")).astype(f32);
  if (!c.has_attribute(name + "_int64s")) return {};
  std::vector<int64_t> numbers;
  for (const Dim n : c.integers(name + "_int64s")) numbers.push_back(n.plain());
  return tensor(numbers);
}
// The value for a key that is not in the list.
Tensor otherwise(const Call& c, DType dtype) {
  if (c.has_attribute("default_tensor")) return reshape(c.tensor("default_tensor"), {1}).astype(dtype);
  if (dtype == string) return tensor(std::vector<std::string>{c.text("default_string", "_Unused")});
  if (is_floating(dtype)) return full({1}, c.real("default_float", -0.0), dtype);
  return full({1}, c.integer("default_int64", -1), dtype);
}

// The index of each element's key, or the number of keys if it is not one.
Tensor text_indices(const Tensor& x, const Tensor& keys) {
  std::map<std::string, int64_t> index_of;
  const std::vector<std::string> names = keys.to_vector<std::string>();
  for (size_t i = 0; i < names.size(); ++i) index_of.emplace(names[i], int64_t(i));
  std::vector<int64_t> found;
  for (const std::string& text : x.to_vector<std::string>()) {
    const auto at = index_of.find(text);
    found.push_back(at == index_of.end() ? int64_t(names.size()) : at->second);
  }
  return tensor(found, x.shape());
}
Tensor number_indices(const Tensor& x, const Tensor& keys) {
  Tensor sorted, indices;
  int64_t of_nan = -1;
  const int64_t n = keys.dim(0).plain();
  {
    const EagerScope eager;
    const std::vector<double> numbers = keys.to_vector<double>();
    std::vector<int64_t> order;
    for (int64_t i = 0; i < n; ++i) {
      if (std::isnan(numbers[size_t(i)])) of_nan = i;
      else order.push_back(i);
    }
    std::ranges::stable_sort(order, {}, [&](int64_t i) { return numbers[size_t(i)]; });
    if (order.empty()) order.push_back(of_nan);
    indices = tensor(order);
    sorted = take(keys.astype(x.dtype()), indices, Axis(0));
  }
  const Tensor near = minimum(searchsorted(sorted, x), sorted.dim(0) - 1);
  const Tensor found = where(equal(take(sorted, near, Axis(0)), x), take(indices, near, Axis(0)), n);
  return of_nan >= 0 ? where(isnan(x), of_nan, found) : found;
}

Values label_encoder_rule(const Call& c) {
  const DType given = c.x().dtype();
  Tensor keys, table;
  {
    const EagerScope eager;
    Tensor values;
    if (c.has_attribute("classes_strings")) {  // before opset 2: texts and their indices, either way
      const Tensor texts = tensor(c.strings("classes_strings")), indices = iota({texts.dim(0)});
      keys = given == string ? texts : indices, values = given == string ? indices : texts;
    } else {
      keys = listed(c, "keys"), values = listed(c, "values");
    }
    if (!keys.defined() || !values.defined() || keys.size() != values.size() || keys.size() == 0)
      c.reject("its keys and values are missing, or differ in number");
    if ((keys.dtype() == string) != (given == string)) c.reject("its keys are not of its operand's dtype");
    table = concat({values, otherwise(c, values.dtype())}, 0);
  }
  const Tensor indices = given == string ? text_indices(c.known(0), keys) : number_indices(c.x(), keys);
  return {take(table, indices, Axis(0))};
}

}  // namespace

const RuleTable& encoder_rules() {
  static const RuleTable table = {
      {"LabelEncoder", {label_encoder_rule}},
  };
  return table;
}

}  // namespace rill::onnx_import
