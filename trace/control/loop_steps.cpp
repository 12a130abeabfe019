// See loop_steps.h.
#include "rill/trace/control/loop_steps.h"

#include <algorithm>
#include <cstring>

#include "rill/devices/registry.h"
#include "rill/ops/ops.h"

namespace rill {

std::vector<Tensor> copies_of(Operands in) {
  std::vector<Tensor> all;
  for (const Tensor* t : in) all.push_back(*t);
  return all;
}

Tensor row_of(const Tensor& t, int64_t i) {
  Shape shape(t.shape().begin() + 1, t.shape().end());
  Strides strides(t.strides().begin() + 1, t.strides().end());
  return make_view(t, std::move(shape), std::move(strides), i * t.strides()[0]);
}

Rows::Rows(std::span<const Spec> specs) {
  for (const Spec& s : specs) stacked_.push_back(empty_tensor(s));
}

Tensor Rows::place(int64_t i, size_t k) const {
  const Tensor& t = stacked_[k];
  const bool fits = t.dtype() != DType::string && t.size() / t.shape()[0] * int64_t(size_of(t.dtype())) % 64 == 0;
  return fits ? row_of(t, i) : Tensor();
}

void Rows::put(int64_t i, std::span<const Tensor> values) {
  for (size_t k = 0; k < stacked_.size(); ++k) {
    Tensor to = row_of(stacked_[k], i);
    if (values[k].rep()->data != to.rep()->data) copy_elements(values[k], to);
  }
}

bool Rows::holds(const Tensor& value) const {
  const auto shares = [&](const Tensor& t) { return t.rep()->buffer.get() == value.rep()->buffer.get(); };
  return std::any_of(stacked_.begin(), stacked_.end(), shares);
}

// Without an op: an active trace or tape would record it as the program's.
void Rows::clear(int64_t first, int64_t last) {
  for (Tensor& t : stacked_) {
    if (first >= last || t.size() == 0 || t.dtype() == DType::string) continue;
    Shape shape = t.shape();
    shape[0] = last - first;
    Tensor rows = make_view(t, shape, Strides(t.strides()), first * t.strides()[0]);
    Tensor zero = empty_tensor(Spec{{}, t.dtype(), false, Device()});
    std::memset(zero.mutable_rep()->data, 0, size_of(t.dtype()));
    copy_elements(make_view(zero, shape, Strides(shape.size(), 0), 0), rows);
  }
}

void move_carried(std::vector<Tensor>& arguments, std::vector<Tensor>& results, size_t first, size_t carried) {
  for (size_t k = 0; k < carried; ++k) arguments[k] = std::move(results[first + k]);
}

Tensors carried_results(const std::vector<Tensor>& arguments, size_t carried, bool stepped,
                        std::initializer_list<const Rows*> stacks) {
  Tensors out;
  for (size_t k = 0; k < carried; ++k) {
    const Tensor& t = arguments[k];
    const bool is_row = std::any_of(stacks.begin(), stacks.end(), [&](const Rows* rows) { return rows->holds(t); });
    out.push_back(!stepped ? make_alias(t) : is_row ? empty_tensor(t.spec()) : t);
    if (stepped && is_row) copy_elements(t, out.back());
  }
  return out;
}

}  // namespace rill
