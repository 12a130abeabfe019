// The tensors of a .rill file, both ways; see tensor_table.h.
#include "rill/serialize/rill_file/tensor_table.h"

#include <algorithm>
#include <numeric>

#include "rill/devices/registry.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/serialize/rill_file/fields.h"
#include "rill/serialize/utf8.h"
#include "rill/tensor/limits.h"
#include "rill/trace/graph/spec_text.h"

namespace rill::rill_file {
namespace {

std::string no_open_size(Dim) { return "?"; }
Dim refuse_size(std::string_view text) { reject(fmt::format("'{}' is no size of a tensor", text.substr(0, 40))); }

// The axes from the largest stride to the smallest if the elements are dense in that order; else in their own order.
std::vector<int64_t> memory_order(const Tensor& t) {
  std::vector<int64_t> order(size_t(t.ndim()));
  std::iota(order.begin(), order.end(), 0);
  if (t.is_contiguous()) return order;
  std::vector<int64_t> by_stride = order;
  std::stable_sort(by_stride.begin(), by_stride.end(),
                   [&](int64_t a, int64_t b) { return t.strides()[size_t(a)] > t.strides()[size_t(b)]; });
  return transpose(t, by_stride).is_contiguous() ? by_stride : order;
}

// The same elements as another dtype, with `width` of them for one.
Tensor reinterpreted_as(const Tensor& t, DType dtype, int64_t width, bool join) {
  Spec spec = t.spec();
  spec.dtype = dtype;
  if (join) spec.shape = Shape(spec.shape.begin(), spec.shape.end() - 1);
  else spec.shape.push_back(width);
  Tensor seen = make_tensor(std::move(spec), t.rep()->buffer);
  seen.mutable_rep()->data = t.rep()->data;
  return seen;
}

}  // namespace

int TensorWriter::add(const Tensor& t, const std::string& name) {
  const auto [at, is_new] = known_.try_emplace(t.rep()->id, int(list_.size()));
  if (!is_new) return at->second;
  keep_.push_back(t);
  const EagerScope eager;
  json entry = json::object();
  entry["spec"] = spec_text(t.spec(), no_open_size);
  if (t.dtype() == DType::string) {
    entry["strings"] = t.to_vector<std::string>();
    for (const json& s : entry["strings"])
      if (!is_utf8(s.get_ref<const std::string&>())) reject("'" + name + "': a .rill file holds strings of UTF-8 only");
  } else {
    const std::vector<int64_t> order = memory_order(t);
    if (!std::is_sorted(order.begin(), order.end())) entry["order"] = order;
    Tensor stored = transpose(t, order).contiguous();
    if (stored.dtype() == DType::c128) stored = reinterpreted_as(stored, DType::f64, 2, false);
    const std::string key = keys_.add(name);
    entry["key"] = key;
    numbers_.emplace(key, stored);
  }
  list_.push_back(std::move(entry));
  return at->second;
}

Device device_here(Device d) { return has_device(d) ? d : default_device(); }

TensorReader::TensorReader(const json& list, NamedTensors numbers) {
  for (const json& entry : list) all_.push_back(read(entry, numbers));
}

const Tensor& TensorReader::at(const json& number) const { return all_[index(number, all_.size(), "a tensor")]; }

Tensor TensorReader::read(const json& entry, NamedTensors& numbers) const {
  Spec spec = read_spec(text(field(entry, "spec"), "a spec"), refuse_size);
  spec.device = device_here(spec.device);
  const std::string what = fmt::format("tensor {}", all_.size());
  Tensor t;
  if (spec.dtype == DType::string) {
    std::vector<std::string> strings;
    for (const json& s : list(entry, "strings")) strings.push_back(text(s, "a string"));
    if (!has_sound_size(spec) || int64_t(strings.size()) != int64_t(spec.shape.numel()))
      reject(fmt::format("{} of {} has {} strings", what, to_string(spec), strings.size()));
    t = empty_tensor(Spec{spec.shape, DType::string, false, Device()});
    std::move(strings.begin(), strings.end(), reinterpret_cast<std::string*>(t.mutable_rep()->data));
  } else {
    const auto at = numbers.find(text(field(entry, "key"), "a key"));
    if (at == numbers.end()) reject(fmt::format("{} has no numbers in weights.safetensors", what));
    t = at->second;
    if (spec.dtype == DType::c128 && t.dtype() == DType::f64 && t.ndim() > 0 && t.shape().back() == 2)
      t = reinterpreted_as(t, DType::c128, 2, true);
    if (const json* order = find(entry, "order")) {
      std::vector<int64_t> back(size_t(t.ndim()), -1);
      if (!order->is_array() || order->size() != back.size()) reject(what + ": expected an order of all axes");
      for (size_t i = 0; i < back.size(); ++i) back[index((*order)[i], back.size(), "an axis")] = int64_t(i);
      if (std::find(back.begin(), back.end(), -1) != back.end()) reject(what + ": expected each axis once");
      t = transpose(t, back);
    }
  }
  if (t.dtype() != spec.dtype || t.shape() != spec.shape)
    reject(fmt::format("{} is {}, and its numbers are {}", what, to_string(spec), to_string(t.spec())));
  return placed(std::move(t), spec);
}

}  // namespace rill::rill_file
