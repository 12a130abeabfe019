// Recurrent layers: cells over all steps, as scans.
#include "rill/nn/layers/recurrent.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "rill/nn/layers/common.h"
#include "rill/ops/option_checks.h"
#include "rill/trace/control_flow.h"

namespace rill::nn {

namespace impl {

namespace {
// A bool [batch] shaped to broadcast with [batch, ...].
Tensor beside(const Tensor& runs, const Tensor& x) {
  Shape shape = runs.shape();
  while (shape.size() < x.shape().size()) shape.push_back(1);
  return reshape(runs, shape);
}
}  // namespace

RecurrentResult run_direction(const Tensor& projected, const States& first, const Step& step, const Tensor& runs,
                              const Direction& how, const Where& where) {
  const Tensor rows = how.time_axis == 0 ? projected : swapaxes(projected, 0, 1);
  std::vector<Tensor> xs{rows};
  if (runs.defined()) xs.push_back(runs);
  auto [last, all] = scan(
      [&](const States& states, const std::vector<Tensor>& row) {
        States next = step(row[0], states);
        Tensor y = next[0];
        if (runs.defined()) {
          for (size_t i = 0; i < next.size(); ++i) next[i] = rill::where(beside(row[1], next[i]), next[i], states[i]);
          y = rill::where(beside(row[1], y), y, zeros_like(y));
        }
        return std::pair(next, how.sequences ? std::vector<Tensor>{y} : std::vector<Tensor>());
      },
      first, xs, ScanOptions{.reverse = how.reverse}, where);
  if (!how.sequences) return {last[0], last};
  return {how.time_axis == 0 ? all[0] : swapaxes(all[0], 0, 1), last};
}

Tensor running_steps(const RecurrentInputs& in, const Tensor& x, int64_t time_axis, const Where& where) {
  require_operand("Recurrent", x, where);
  require_option(time_axis == 0 || time_axis == 1, "Recurrent", "time_axis", time_axis, "0 or 1", where);
  if (x.ndim() < 3) fail("Recurrent", to_string(x.spec()) + " is not [batch, steps, in]", where);
  const Dim steps = x.shape()[size_t(time_axis)];
  if (in.lengths.defined() && in.mask.defined()) fail("Recurrent", "takes lengths or a mask, not both", where);
  const Dim batch = x.shape()[size_t(1 - time_axis)];
  const auto same = [&](const Shape& given, const Shape& wanted, const char* what) {
    if (given != wanted)
      fail("Recurrent", fmt::format("{} are {}, and x is {}", what, to_string(given), to_string(x.spec())), where);
  };
  if (in.lengths.defined()) {
    if (in.lengths.ndim() != 1 || !is_integer(in.lengths.dtype()))
      fail("Recurrent", "lengths are integers [batch]. got " + to_string(in.lengths.spec()), where);
    same(in.lengths.shape(), {batch}, "lengths");
    // Not in a trace: ONNX has no operator that may fail, and could not hold the model.
    if (!in.lengths.is_symbolic())
      require_elements([&](const Tensor& v) { return all((v >= 0) & (v <= steps)); }, "Recurrent",
                       "lengths are from 0 to the number of steps", in.lengths, where);
    return less(iota({steps, 1}, 0), expand_dims(in.lengths.astype(i64), 0));
  }
  if (!in.mask.defined()) return {};
  if (in.mask.ndim() != 2 || !is_bool(in.mask.dtype()))
    fail("Recurrent", "a mask is bool, of x's first two axes. got " + to_string(in.mask.spec()), where);
  same(in.mask.shape(), {x.shape()[0], x.shape()[1]}, "masks");
  return time_axis == 0 ? in.mask : swapaxes(in.mask, 0, 1);
}

States begun_states(std::string_view type, std::span<const Tensor> given, States zero, const Where& where) {
  if (given.empty()) return zero;
  if (given.size() != zero.size()) fail(type, fmt::format("takes {} states. got {}", zero.size(), given.size()), where);
  for (size_t i = 0; i < given.size(); ++i) {
    require_defined(type, given[i], "a state", where);
    Shape shape = zero[i].shape();
    if (!broadcast_into(shape, given[i].shape()) || shape != zero[i].shape())
      fail(type, fmt::format("a state is {}, and must be {}", to_string(given[i].spec()), to_string(zero[i].shape())),
           where);
    zero[i] = broadcast_to(given[i].astype(zero[i].dtype()), shape);
  }
  return zero;
}

Tensor first_row(const Tensor& projected, int64_t time_axis) {
  Shape shape = projected.shape();
  shape.erase(size_t(time_axis));
  return zeros(shape, projected.dtype());
}

template <class Cell>
RecurrentLayers<Cell>::RecurrentLayers(std::string_view type, int64_t units, Options o, const Where& where)
    : options(std::move(o)) {
  if (options.name.empty()) options.name = type;
  checked_count(type, "layers", options.layers, where);
  require_fraction(type, "dropout", options.dropout, where);
  const NameScope scope(options.name);
  for (int64_t i = 0; i < options.layers * (options.bidirectional ? 2 : 1); ++i)
    cells.push_back(Cell(units, options.cell, where));
}

// The layer's name in errors.
template <class Cell>
constexpr const char* layer_name = std::is_same_v<Cell, LSTMCell>  ? "LSTM"
                                   : std::is_same_v<Cell, GRUCell> ? "GRU"
                                                                   : "RNN";

template <class Cell>
Tensor RecurrentLayers<Cell>::merged(const std::vector<Tensor>& y, const Where& where) const {
  if (y.size() == 1) return y[0];
  switch (options.merge) {
    case Merge::concat: return concat(y, -1, where);
    case Merge::sum: return add(y[0], y[1], where);
    case Merge::mean: return (y[0] + y[1]) * 0.5;
    case Merge::product: return multiply(y[0], y[1], where);
  }
  return {};
}

template <class Cell>
RecurrentResult RecurrentLayers<Cell>::run(const Tensor& x, const RecurrentInputs& in, const Call& call,
                                           Where where) const {
  const LayerRun layer(this, scope_of(cells, options.name), where, layer_name<Cell>);
  const Tensor runs = running_steps(in, x, options.time_axis, where);
  const size_t directions = options.bidirectional ? 2 : 1, layers = cells.size() / directions;
  const std::span<const Tensor> initial = in.initial;
  // Steps first, before what steps read is made: the rows of a step then lie together, in its gradients too, and what is
  // turned is x, which has fewer columns than the gates.
  const auto turned = [&](const Tensor& t) { return options.time_axis == 0 ? t : swapaxes(t, 0, 1); };
  Tensor h = turned(call.in(x));
  States states;
  for (size_t i = 0; i < layers; ++i) {
    std::vector<Tensor> outputs;
    for (size_t d = 0; d < directions; ++d) {
      const Cell& cell = cells[i * directions + d];
      const Tensor projected = cell.project(h, call), row = first_row(projected, 0);
      States first = cell.first_states(row);
      if (!initial.empty()) {
        if (initial.size() != first.size() * cells.size())
          fail(options.name, fmt::format("takes {} first states. got {}", first.size() * cells.size(), initial.size()),
               where);
        const std::span<const Tensor> own = initial.subspan(states.size(), first.size());
        first = begun_states(options.name, own, std::move(first), where);
      }
      const Direction how{(d == 1) != options.reverse, options.return_sequences || i + 1 < layers, 0};
      const RecurrentResult r = run_direction(projected, first, cell.steps(row, call), runs, how, where);
      outputs.push_back(r.output);
      states.insert(states.end(), r.states.begin(), r.states.end());
    }
    h = merged(outputs, where);
    if (i + 1 < layers && options.dropout > 0) h = dropout(h, options.dropout, {.training = call.training()});
  }
  return {layer.give(options.return_sequences ? turned(h) : h), states};
}

template class RecurrentLayers<RNNCell>;
template class RecurrentLayers<LSTMCell>;
template class RecurrentLayers<GRUCell>;

}  // namespace impl

}  // namespace rill::nn
