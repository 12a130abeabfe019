// Several devices of one process: parts of a tensor on each, and the gradients of a batch that is divided among them. It
// needs no Session and no MPI; with one, each rank may have several devices.
//
//   const std::vector<Device> devices = {"gpu:0", "gpu:1"};
//   auto [loss, gradients] = distribute::gradients_on(devices, model.parameters(), f, x, y);
//   adam.apply_gradients(gradients, model.parameters());
//
// GPUs return early, so that all compute at once; the host does not, and comes last in such a list.
#pragma once
#include <utility>
#include <vector>

#include "rill/autodiff/tape.h"
#include "rill/devices/registry.h"
#include "rill/distribute/tape.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

// x split into as many equal parts along an axis as there are devices, part i on device i. Throws if the axis is not a
// multiple, if a device does not exist, or if none is given.
std::vector<Tensor> shard(const Tensor& x, const std::vector<Device>& devices, int64_t axis = 0,
                          Where where = Where::current());
// Such parts joined, on one device.
Tensor gather(const std::vector<Tensor>& parts, int64_t axis = 0, MaybeDevice device = {},
              Where where = Where::current());
// Their sum (mean, ...), in the order of collectives.h, on the device of each. Throws where shapes or dtypes differ.
std::vector<Tensor> all_reduce(const std::vector<Tensor>& parts, Reduce reduce = Reduce::sum,
                               Where where = Where::current());

namespace detail {
// f() on a device: tensors are made there, and Variables are read there, of which `variables` are given by `copies`.
void run_on(Device device, const std::vector<Variable>& variables, const std::vector<Tensor>& copies,
            const Callback<void()>& f);
std::pair<Tensor, std::vector<Tensor>> gradients_on(const std::vector<Device>& devices,
                                                    const std::vector<Variable>& variables,
                                                    const Callback<Tensor(const std::vector<Tensor>&)>& f,
                                                    const std::vector<Tensor>& batch, const Where& where);
template <class F, size_t... i>
Tensor call_with(F& f, const std::vector<Tensor>& x, std::index_sequence<i...>) {
  return f(x[i]...);
}
}  // namespace detail

// The loss and its gradients by `variables`, as means over equal parts of a batch, x and y (and more), one for each
// device: f(x, y) is called for each, with Variables read on that device. Everything is added up in the order of
// collectives.h: the bits are those of gradients_of_parts() with as many parts, on devices of one kind. Gradients are
// on their Variables' devices. Of f's assignments to other Variables, the last device's count; random draws continue
// from device to device.
template <class F, class... X>
std::pair<Tensor, std::vector<Tensor>> gradients_on(const std::vector<Device>& devices,
                                                    const std::vector<Variable>& variables, F&& f, const X&... x) {
  static_assert(sizeof...(X) > 0, "gradients_on(devices, variables, f, x...): there is no batch to divide");
  return detail::gradients_on(
      devices, variables,
      [&](const std::vector<Tensor>& part) {
        return detail::call_with(f, part, std::make_index_sequence<sizeof...(X)>());
      },
      {Tensor(x)...}, Where::current());
}

}  // namespace rill::distribute

#pragma GCC visibility pop
