// See devices.h.
#include "rill/distribute/devices.h"

#include <fmt/format.h>

#include <bit>
#include <map>

#include "rill/ops/listeners.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_answers.h"
#include "rill/ops/state/variable_state.h"

namespace rill::distribute {
namespace {

// Variables as seen by a device: some by copies, and the others in place, read and assigned through it.
class DeviceAnswers final : public ComputedAnswers {
 public:
  DeviceAnswers(Device device, const std::vector<Variable>& variables, const std::vector<Tensor>& copies)
      : device_(device), outside_(listeners()) {
    for (size_t i = 0; i < variables.size(); ++i) copies_[&variables[i].state()] = copies[i];
  }
  Tensor read(const Shared<VariableState>& v) override {
    if (const auto at = copies_.find(v.get()); at != copies_.end()) return at->second;
    const ListenersScope outside(&outside_);
    const Tensor value = Variable(v).value();
    return stays(*v) ? value : value.to(device_);
  }
  void assign(const Shared<VariableState>& v, const Tensor& value) override {
    copies_.erase(v.get());
    const ListenersScope outside(&outside_);
    Variable(v).assign(stays(*v) ? value : value.to(v->spec.device));
  }

 private:
  static bool stays(const VariableState& v) { return is_generator(v) || v.spec.dtype == DType::string; }

  const Device device_;
  std::map<const VariableState*, Tensor> copies_;
  Listeners& outside_;
};

Tensor combined(const Tensor& a, const Tensor& b, Reduce reduce) {
  switch (reduce) {
    case Reduce::sum:
    case Reduce::mean: return a + b;
    case Reduce::product: return a * b;
    case Reduce::max: return maximum(a, b);
    case Reduce::min: return minimum(a, b);
  }
  return a;
}
// The sum of parts [first, last), on the device of the first of them.
Tensor tree(const std::vector<Tensor>& parts, size_t first, size_t last, Reduce reduce) {
  if (last - first == 1) return parts[first];
  const size_t left = std::bit_floor(last - first - 1);
  const Tensor a = tree(parts, first, first + left, reduce), b = tree(parts, first + left, last, reduce);
  return combined(a, b.to(a.device()), reduce);
}
Tensor reduced(const std::vector<Tensor>& parts, Reduce reduce) {
  const DType d = parts[0].dtype();
  std::vector<Tensor> wide;
  for (const Tensor& p : parts) wide.push_back(is_half(d) ? p.astype(f32) : p);
  Tensor sum = tree(wide, 0, wide.size(), reduce);
  if (reduce == Reduce::mean) sum = sum / double(parts.size());
  return sum.astype(d);
}

void require_some(std::string_view op, size_t count, const Where& where) {
  if (count == 0) fail(op, "there is no device in the list", where);
}

}  // namespace

std::vector<Tensor> shard(const Tensor& x, const std::vector<Device>& devices, int64_t axis, Where where) {
  CallerScope caller(where);
  constexpr std::string_view op = "distribute::shard";
  require_some(op, devices.size(), where);
  const int64_t n = int64_t(devices.size());
  const Tensor front = moveaxis(x, axis, 0);
  if (front.dim(0) % n != 0)
    fail(op, fmt::format("axis {} of {} is no multiple of {}, the devices", axis, to_string(x.spec()), n), where);
  const Dim part = front.shape()[0] / n;
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < n; ++i)
    parts.push_back(moveaxis(front(slice(part * i, part * (i + 1))), 0, axis).to(devices[size_t(i)], where));
  return parts;
}

Tensor gather(const std::vector<Tensor>& parts, int64_t axis, MaybeDevice device, Where where) {
  CallerScope caller(where);
  require_some("distribute::gather", parts.size(), where);
  std::vector<Tensor> here;
  for (const Tensor& p : parts) here.push_back(p.to(device.value_or(parts[0].device()), where));
  return concat(here, axis, where);
}

std::vector<Tensor> all_reduce(const std::vector<Tensor>& parts, Reduce reduce, Where where) {
  CallerScope caller(where);
  constexpr std::string_view op = "distribute::all_reduce";
  require_some(op, parts.size(), where);
  for (const Tensor& p : parts)
    if (p.shape() != parts[0].shape() || p.dtype() != parts[0].dtype())
      fail(op, fmt::format("one device has {}, and another {}", to_string(parts[0].spec()), to_string(p.spec())),
           where);
  const Tensor sum = reduced(parts, reduce);
  std::vector<Tensor> all;
  for (const Tensor& p : parts) all.push_back(sum.to(p.device(), where));
  return all;
}

void detail::run_on(Device device, const std::vector<Variable>& variables, const std::vector<Tensor>& copies,
                    const Callback<void()>& f) {
  const WithDevice made_here(device);
  DeviceAnswers answers(device, variables, copies);
  Listeners own = listeners();
  own.variables = &answers, own.notes = nullptr;
  const ListenersScope scope(std::move(own));
  f();
}

std::pair<Tensor, std::vector<Tensor>> detail::gradients_on(const std::vector<Device>& devices,
                                                            const std::vector<Variable>& variables,
                                                            const Callback<Tensor(const std::vector<Tensor>&)>& f,
                                                            const std::vector<Tensor>& batch, const Where& where) {
  const CallerScope caller(where, "gradients_on");
  std::vector<std::vector<Tensor>> parts;  // by operand, by device
  for (const Tensor& x : batch) parts.push_back(shard(x, devices, 0, where));
  const size_t n = devices.size();
  std::vector<Tensor> losses(n);
  std::vector<std::vector<Tensor>> gradients(variables.size(), std::vector<Tensor>(n));  // by variable, by device
  for (size_t i = 0; i < n; ++i) {
    std::vector<Tensor> part, copies;
    for (const auto& of_devices : parts) part.push_back(of_devices[i]);
    for (const Variable& v : variables) copies.push_back(identity(v.value(where).to(devices[i], where)));
    rill::GradientTape tape;
    for (const Tensor& c : copies) tape.watch(c);
    run_on(devices[i], variables, copies, [&] { losses[i] = f(part); });
    const std::vector<Tensor> own = tape.gradient(losses[i], copies);
    for (size_t k = 0; k < own.size(); ++k) gradients[k][i] = own[k];
  }
  std::vector<Tensor> means;
  for (size_t k = 0; k < variables.size(); ++k)
    means.push_back(reduced(gradients[k], Reduce::mean).to(variables[k].value(where).device(), where));
  return {reduced(losses, Reduce::mean), std::move(means)};
}

}  // namespace rill::distribute
