// Cells of recurrent layers: the arithmetic of one step.
#include <utility>

#include "rill/nn/layers/common.h"
#include "rill/nn/layers/recurrent.h"
#include "rill/ops/option_checks.h"

namespace rill::nn {

namespace {
// Columns i * n to (i + count) * n.
Tensor columns(const Tensor& x, int64_t i, int64_t n, int64_t count = 1) {
  return slice_axis(x, -1, i * n, (i + count) * n);
}
// Zeros but for gate `gate` of `units` columns.
Initializer gate_bias(int64_t gate, int64_t units, double value) {
  return [=](const Shape& shape) {
    const Tensor i = iota(shape, -1);
    return where(logical_and(greater_equal(i, gate * units), less(i, (gate + 1) * units)), float(value), 0.f);
  };
}
Tensor with_bias(const Tensor& y, const Param& bias, const Call& call) {
  return bias ? y + bias({y.dim(-1)}, call) : y;
}
// x kernel + bias, of [..., in].
Tensor projected(const Tensor& x, const Param& kernel, const Param& bias, int64_t out, const Call& call,
                 std::string_view op) {
  const Tensor in = call.in(x);
  return with_bias(matmul(in, kernel({known_size(in, -1, op, Where::current()), out}, call)), bias, call);
}
// Zeros [batch, n] of a row's dtype.
Tensor zero_state(const Tensor& row, int64_t n) { return zeros({row.shape()[0], n}, row.dtype()); }
// The dropout factor of h in every step of a call, or nothing.
Tensor dropped(const Tensor& row, int64_t n, double rate, const Call& call) {
  if (rate == 0 || !call.training()) return {};
  return dropout(ones({row.shape()[0], n}, row.dtype()), rate);
}
Tensor scaled(const Tensor& h, const Tensor& mask) { return mask.defined() ? h * mask : h; }
// The states after the gates' sums.
States after_gates(const Tensor& sums, const Tensor& c, int64_t n) {
  const Tensor cell = sigmoid(columns(sums, 1, n)) * c + sigmoid(columns(sums, 0, n)) * tanh(columns(sums, 2, n));
  return {sigmoid(columns(sums, 3, n)) * tanh(cell), cell};
}
// One step of a cell, through the same functions as many.
template <class Cell>
States one_step(const Cell& cell, const Tensor& x, const States& states, const Call& call, const Where& where) {
  const LayerRun run(&cell, cell.options.name, where);
  const Tensor row = cell.project(call.in(x), call);
  const States from = impl::begun_states(cell.options.name, states, cell.first_states(row), where);
  States next = cell.steps(row, call)(row, from);
  next[0] = run.give(next[0]);
  return next;
}
}  // namespace

RNNCell::RNNCell(int64_t n, const RNNCellOptions& o, Where where)
    : units(checked_count("RNNCell", "units", n, where)),
      options(o),
      kernel(param(o.name, "kernel", o.kernel_initializer, where)),
      recurrent_kernel(param(o.name, "recurrent_kernel", o.recurrent_initializer, where)),
      bias(param(o.name, "bias", constant(0), where, Kind::weight, o.use_bias)) {
  require_fraction("RNNCell", "recurrent_dropout", o.recurrent_dropout, where);
}
Tensor RNNCell::project(const Tensor& x, const Call& call) const {
  return projected(x, kernel, bias, units, call, "RNNCell");
}
States RNNCell::first_states(const Tensor& row) const { return {zero_state(row, units)}; }
impl::Step RNNCell::steps(const Tensor& row, const Call& call) const {
  return [f = options.activation, r = recurrent_kernel({units, units}, call),
          mask = dropped(row, units, options.recurrent_dropout, call)](const Tensor& x, const States& s) {
    return States{f(x + matmul(scaled(s[0], mask), r))};
  };
}
States RNNCell::operator()(const Tensor& x, const States& states, const Call& call, Where where) const {
  return one_step(*this, x, states, call, where);
}

LSTMCell::LSTMCell(int64_t n, const LSTMCellOptions& o, Where where)
    : units(checked_count("LSTMCell", "units", n, where)),
      options(o),
      kernel(param(o.name, "kernel", o.kernel_initializer, where)),
      recurrent_kernel(param(o.name, "recurrent_kernel", o.recurrent_initializer, where)),
      bias(param(o.name, "bias", gate_bias(1, n, o.forget_bias), where, Kind::weight, o.use_bias)),
      projection(param(o.name, "projection", glorot_uniform, where, Kind::weight, o.projection.has_value())) {
  if (o.projection) checked_count("LSTMCell", "projection", *o.projection, where);
  require_fraction("LSTMCell", "recurrent_dropout", o.recurrent_dropout, where);
}
Tensor LSTMCell::project(const Tensor& x, const Call& call) const {
  return projected(x, kernel, bias, 4 * units, call, "LSTMCell");
}
States LSTMCell::first_states(const Tensor& row) const {
  return {zero_state(row, options.projection.value_or(units)), zero_state(row, units)};
}
impl::Step LSTMCell::steps(const Tensor& row, const Call& call) const {
  const int64_t out = options.projection.value_or(units);
  return [n = units, r = recurrent_kernel({out, 4 * units}, call),
          p = projection ? projection({units, out}, call) : Tensor(),
          mask = dropped(row, out, options.recurrent_dropout, call)](const Tensor& x, const States& s) {
    States next = after_gates(x + matmul(scaled(s[0], mask), r), s[1], n);
    if (p.defined()) next[0] = matmul(next[0], p);
    return next;
  };
}
States LSTMCell::operator()(const Tensor& x, const States& states, const Call& call, Where where) const {
  return one_step(*this, x, states, call, where);
}

GRUCell::GRUCell(int64_t n, const GRUCellOptions& o, Where where)
    : units(checked_count("GRUCell", "units", n, where)),
      options(o),
      kernel(param(o.name, "kernel", o.kernel_initializer, where)),
      recurrent_kernel(param(o.name, "recurrent_kernel", o.recurrent_initializer, where)),
      bias(param(o.name, "bias", constant(0), where, Kind::weight, o.use_bias)),
      recurrent_bias(param(o.name, "recurrent_bias", constant(0), where, Kind::weight, o.use_bias && o.reset_after)) {
  require_fraction("GRUCell", "recurrent_dropout", o.recurrent_dropout, where);
}
Tensor GRUCell::project(const Tensor& x, const Call& call) const {
  return projected(x, kernel, bias, 3 * units, call, "GRUCell");
}
States GRUCell::first_states(const Tensor& row) const { return {zero_state(row, units)}; }
impl::Step GRUCell::steps(const Tensor& row, const Call& call) const {
  const Tensor r = recurrent_kernel({units, 3 * units}, call);
  const Tensor mask = dropped(row, units, options.recurrent_dropout, call);
  if (options.reset_after)
    return [n = units, r, mask, b = recurrent_bias ? recurrent_bias({3 * units}, call) : Tensor()](const Tensor& x,
                                                                                                   const States& s) {
      const Tensor product = matmul(scaled(s[0], mask), r), from_h = b.defined() ? product + b : product;
      const Tensor gates = sigmoid(columns(x, 0, n, 2) + columns(from_h, 0, n, 2)), z = columns(gates, 0, n);
      const Tensor candidate = tanh(columns(x, 2, n) + columns(gates, 1, n) * columns(from_h, 2, n));
      return States{z * s[0] + (1 - z) * candidate};
    };
  return [n = units, mask, r_gates = columns(r, 0, units, 2), r_n = columns(r, 2, units)](const Tensor& x,
                                                                                          const States& s) {
    const Tensor h = scaled(s[0], mask);
    const Tensor gates = sigmoid(columns(x, 0, n, 2) + matmul(h, r_gates)), z = columns(gates, 0, n);
    const Tensor candidate = tanh(columns(x, 2, n) + matmul(columns(gates, 1, n) * h, r_n));
    return States{z * s[0] + (1 - z) * candidate};
  };
}
States GRUCell::operator()(const Tensor& x, const States& states, const Call& call, Where where) const {
  return one_step(*this, x, states, call, where);
}

ConvLSTMCell::ConvLSTMCell(int64_t n, const Window& kernel_size, const ConvLSTMCellOptions& o, Where where)
    : filters(checked_count("ConvLSTMCell", "filters", n, where)),
      size(kernel_size),
      options(o),
      kernel(param(o.name, "kernel", o.kernel_initializer, where)),
      recurrent_kernel(param(o.name, "recurrent_kernel", o.recurrent_initializer, where)),
      bias(param(o.name, "bias", gate_bias(1, n, o.forget_bias), where, Kind::weight, o.use_bias)) {
  if (size.size() == 1) size.push_back(size[0]);
  require_option(size.size() == 2, "ConvLSTMCell", "the number of sizes", size.size(), "1 or 2", where);
}
Tensor ConvLSTMCell::project(const Tensor& x, const Call& call) const {
  const Tensor in = call.in(x);
  const size_t lead = in.shape(Where::current()).size() < 4 ? 0 : in.shape().size() - 3;
  // The leading axes as one: a convolution has one axis of examples.
  const Tensor images = lead > 1 ? flatten(in, 0, Axis(int64_t(lead) - 1)) : in;
  const Tensor w = kernel({size[0], size[1], known_size(in, -1, "ConvLSTMCell", Where::current()), 4 * filters}, call);
  const Tensor y = with_bias(
      conv2d(images, w, {.strides = options.strides, .padding = options.padding, .dilation = options.dilation}), bias,
      call);
  if (lead < 2) return y;
  Shape shape(in.shape().begin(), in.shape().begin() + std::ptrdiff_t(lead));
  for (size_t i = 1; i < 4; ++i) shape.push_back(y.shape()[i]);
  return reshape(y, shape);
}
States ConvLSTMCell::first_states(const Tensor& row) const {
  Shape shape = row.shape();
  shape.back() = filters;
  return {zeros(shape, row.dtype()), zeros(shape, row.dtype())};
}
impl::Step ConvLSTMCell::steps(const Tensor&, const Call& call) const {
  return
      [n = filters, r = recurrent_kernel({size[0], size[1], filters, 4 * filters}, call)](
          const Tensor& x, const States& s) { return after_gates(x + conv2d(s[0], r, {.padding = "SAME"}), s[1], n); };
}
States ConvLSTMCell::operator()(const Tensor& x, const States& states, const Call& call, Where where) const {
  return one_step(*this, x, states, call, where);
}

}  // namespace rill::nn
