// Records whose result is their operand: copies, aliases that stop gradients or carry a name, moves between devices.
#include <fmt/format.h>

#include "rill/devices/cpu/elementwise/elementwise.h"
#include "rill/devices/driver.h"
#include "rill/devices/params/elementwise_params.h"
#include "rill/devices/ref/elementwise.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/ops.h"
#include "rill/ops/samples.h"

namespace rill {

using namespace elementwise;

namespace {
OutSpecs infer_copy(const InferArgs& args) { return OutSpecs{args[0]}; }
std::vector<Sample> copy_samples() { return make_unary_samples(-2, 2); }
std::vector<Sample> transfer_samples() { return {{{samples::uniform({3, 5})}, TransferAttrs{"cpu:0"}}}; }
std::vector<Sample> named_samples() { return {{{samples::uniform({3, 5})}, NameAttrs{"x"}}}; }
Tensor same_view(const Tensor& in, AttrsView, const Spec&) { return make_alias(in); }
OutSpecs infer_transfer(const InferArgs& args) {
  OutSpecs out{args[0]};
  out[0].device = Device(args.attrs.as<TransferAttrs>().device);
  return out;
}
// A view of all of x.
OpSpec alias_record(std::string_view name, std::string_view doc, std::vector<Sample> (*samples)()) {
  return {.name = name,
          .doc = doc,
          .kind = OpKind::view,
          .dtypes = every_set,
          .infer = infer_copy,
          .vjp = [](const VjpArgs& a) { return Tensors{a.cotangent[0]}; },
          .jvp = [](const JvpArgs& a) { return Tensors{a.tangent[0]}; },
          .batch = batch_rows,
          .view = same_view,
          .view_axes = ViewAxes::trailing,
          .samples = samples,
          .exported = {"Identity", "Identity"}};
}
void transfer(const KernelArgs& args) { copy_elements(args.input(0), args.output()); }
}  // namespace

extern const Op copy_op, identity_op, named_op, stop_gradient_op, transfer_op;
const Op copy_op({.name = "copy",
                  .doc = "x, dense and in memory of its own",
                  .kind = OpKind::elementwise,
                  .dtypes = every_set,
                  .infer = infer_copy,
                  .vjp = [](const VjpArgs& a) { return Tensors{a.cotangent[0]}; },
                  .jvp = [](const JvpArgs& a) { return Tensors{a.tangent[0]}; },
                  .cpu = cpu::copy,
                  .cpu_dtypes = plain_set,
                  .ref = ref::copy,
                  .record_point = cpu::record_operand,
                  .samples = copy_samples,
                  .exported = {"Identity", "Identity"}});
const Op identity_op(alias_record("identity", "x, as a new tensor", copy_samples));
const Op named_op(alias_record("named", "x, under a name by which recompute() keeps it", named_samples));
const Op stop_gradient_op({.name = "stop_gradient",
                           .doc = "x; no gradient flows back",
                           .kind = OpKind::view,
                           .dtypes = every_set,
                           .infer = infer_copy,
                           .vjp = [](const VjpArgs&) { return Tensors{Tensor()}; },
                           .batch = batch_rows,
                           .view = same_view,
                           .view_axes = ViewAxes::trailing,
                           .stops_gradient = true,
                           .samples = copy_samples,
                           .no_finite_difference = "its gradient is zero by definition",
                           .exported = {"Identity", "StopGradient"}});
const Op transfer_op({.name = "transfer",
                      .doc = "x on another device",
                      .kind = OpKind::library,
                      .dtypes = every_set,
                      .infer = infer_transfer,
                      .vjp = [](const VjpArgs& a) { return Tensors{a.cotangent[0].to(a.in[0].device())}; },
                      .linear_in = save(0),
                      .batch = batch_rows,
                      .cpu = transfer,
                      .ref = transfer,
                      .samples = transfer_samples,
                      .exported = {"Identity", "Identity"}});

Tensor stop_gradient(const Tensor& x, Where where) { return apply1(stop_gradient_op, {&x}, {}, where); }
Tensor identity(const Tensor& x, Where where) { return apply1(identity_op, {&x}, {}, where); }

Tensor Tensor::contiguous(Where where) const {
  return defined() && is_contiguous() ? *this : apply1(copy_op, {this}, {}, where);
}

Tensor Tensor::to(Device device, Where where) const {
  if (defined() && this->device() == device) return *this;
  detail::require_device("to", device, where);
  if (defined() && dtype() == DType::string && !is_host(device))
    fail("to", fmt::format("strings live on the host, not on {}", to_string(device)), where);
  return apply1(transfer_op, {this}, TransferAttrs{to_string(device)}, where);
}

}  // namespace rill
