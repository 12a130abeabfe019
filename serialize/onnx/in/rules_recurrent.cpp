// RNN, LSTM and GRU as scans over the steps. If both directions of a network have the same activations, one scan serves
// both, and each step multiplies by the weights of the two as a batch; otherwise each direction is a scan of its own.
// Start at Recurrence.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>
#include <utility>

#include "rill/ops/apply.h"
#include "rill/ops/stored_ops.h"
#include "rill/serialize/onnx/in/interpreter.h"
#include "rill/serialize/onnx/in/quantised.h"
#include "rill/trace/control_flow.h"

namespace rill::onnx_import {
namespace {

using Tensors = std::vector<Tensor>;
using Activation = std::function<Tensor(const Tensor&)>;

// An activation by its name in the file. The file's alphas are one list, of which each activation with an alpha gets
// the next; the same for betas.
struct NamedActivation {
  std::string name;
  double alpha = 0, beta = 0;
  bool operator==(const NamedActivation&) const = default;
};
bool takes_alpha(const std::string& name) {
  return name == "affine" || name == "leakyrelu" || name == "thresholdedrelu" || name == "scaledtanh" ||
         name == "hardsigmoid" || name == "elu";
}
bool takes_beta(const std::string& name) { return name == "affine" || name == "scaledtanh" || name == "hardsigmoid"; }

// usual.size() activations for each direction: the file's, or `usual` if it names none.
std::vector<NamedActivation> named_activations(const Call& c, const std::vector<std::string>& usual,
                                               int64_t directions) {
  const std::vector<std::string> names = c.strings("activations");
  const std::vector<double> alphas = c.reals("activation_alpha"), betas = c.reals("activation_beta");
  size_t alpha = 0, beta = 0;
  std::vector<NamedActivation> out;
  for (size_t i = 0; i < usual.size() * size_t(directions); ++i) {
    if (!names.empty() && i >= names.size()) c.reject("names too few activations");
    NamedActivation f{names.empty() ? usual[i % usual.size()] : names[i]};
    std::ranges::transform(f.name, f.name.begin(), [](unsigned char ch) { return char(std::tolower(ch)); });
    f.alpha = f.name == "leakyrelu" ? 0.01 : f.name == "hardsigmoid" ? 0.2 : 1.0;
    f.beta = f.name == "hardsigmoid" ? 0.5 : f.name == "affine" ? 0.0 : 1.0;
    if (takes_alpha(f.name) && alpha < alphas.size()) f.alpha = alphas[alpha++];
    if (takes_beta(f.name) && beta < betas.size()) f.beta = betas[beta++];
    out.push_back(f);
  }
  return out;
}

Activation activation_of(const Call& c, const NamedActivation& f) {
  const auto& [name, a, b] = f;
  if (name == "sigmoid") return [](const Tensor& x) { return sigmoid(x); };
  if (name == "tanh") return [](const Tensor& x) { return tanh(x); };
  if (name == "relu") return [](const Tensor& x) { return relu(x); };
  if (name == "affine") return [a, b](const Tensor& x) { return a * x + b; };
  if (name == "leakyrelu") return [a](const Tensor& x) { return leaky_relu(x, a); };
  if (name == "thresholdedrelu") return [a](const Tensor& x) { return where(greater(x, a), x, zeros_like(x)); };
  if (name == "scaledtanh") return [a, b](const Tensor& x) { return a * tanh(b * x); };
  if (name == "hardsigmoid") return [a, b](const Tensor& x) { return clip(a * x + b, 0, 1); };
  if (name == "elu") return [a](const Tensor& x) { return elu(x, a); };
  if (name == "softsign") return [](const Tensor& x) { return softsign(x); };
  if (name == "softplus") return [](const Tensor& x) { return softplus(x); };
  c.reject("an unknown activation, '" + name + "'");
}

// A dense copy of x. The transposed weights are copied once, so that no step reads them with strides.
Tensor copied(const Tensor& x) {
  static const Op& copy = *find_stored_op("copy");
  return apply1(copy, {&x}, {}, Where::current());
}

// The weights of the steps: R transposed, [..., hidden, gates hidden], and its bias [..., gates hidden], undefined if
// it is part of the projection. For two directions together these and the states have them as the first axis.
struct Weights {
  int64_t direction = 0;
  Tensor r, r_bias, peepholes;
  std::vector<Activation> f;
};

struct Recurrence {
  const Call& c;
  int64_t gates, hidden, directions;
  bool batch_first;
  Tensor x;             // [steps, batch, in]
  Tensor bias, r_bias;  // [directions, gates hidden], the biases of x W and h R
  Tensor lengths, first_h, first_c, peepholes;
  std::vector<NamedActivation> named;  // of each direction in turn
  bool by_bytes = false;               // W and R are integers, and their operands are rounded to bytes

  // `adds_all`: a step only sums x W, h R and the two biases, so that both biases are added to x W before the scan. Not
  // in a GRU, whose reset gate may scale h R and its bias.
  Recurrence(const Call& call, int64_t gates, const std::vector<std::string>& usual, bool adds_all)
      : c(call), gates(gates), by_bytes(call.node.op_type() == "DynamicQuantizeLSTM") {
    if (c.x(0).ndim() != 3 || c.x(1).ndim() != 3 || c.x(2).ndim() != 3) c.reject("takes operands of three axes");
    batch_first = c.flag("layout");
    x = batch_first ? swapaxes(c.x(0), 0, 1) : c.x(0);
    directions = c.x(2).dim(0);
    hidden = c.integer("hidden_size", c.x(2).dim(-1));
    const std::string kind = c.text("direction", "forward");
    if (directions != (kind == "bidirectional" ? 2 : 1)) c.reject("its weights are not those of its directions");
    const Tensor biases = c.x_or(3, zeros({directions, 2 * gates * hidden}, x.dtype()));
    {
      std::optional<EagerScope> now;  // constants are prepared once, not in every call
      if (!biases.is_symbolic()) now.emplace();
      bias = biases(all, slice(0, gates * hidden)), r_bias = biases(all, slice(gates * hidden, none));
      if (adds_all) bias = bias + std::exchange(r_bias, Tensor());
    }
    if (c.has(4)) lengths = c.x(4);
    check_lengths();
    named = named_activations(c, usual, directions);
    first_h = start(5);
    if (gates == 4) first_c = start(6);
    if (gates == 4) peepholes = c.x_or(7, zeros({directions, 3 * hidden}, x.dtype()));
  }
  void check_lengths() const {
    if (!c.has(4)) return;
    const Dim steps = x.dim(0), batch = x.dim(1);
    const bool fits =
        lengths.ndim() == 1 && (batch.is_open() || lengths.shape()[0].is_open() || lengths.dim(0) == batch);
    if (!fits) c.reject("takes one length a sequence");
    if (!c.knows(4) || steps.is_open()) return;
    for (const int64_t n : lengths.to_vector<int64_t>())
      if (n < 0 || n > steps) c.reject(fmt::format("a sequence of length {} has {} steps", n, int64_t(steps)));
  }
  Tensor start(size_t operand) const {
    if (!c.has(operand)) return zeros({directions, x.dim(1), hidden}, x.dtype());
    return batch_first ? swapaxes(c.x(operand), 0, 1) : c.x(operand);
  }
  // t times weights of a direction, [in, gates hidden]: `scale` is the operand that has the scales of bytes.
  Tensor product(const Tensor& t, const Tensor& weights, size_t scale, int64_t d) const {
    if (!by_bytes) return matmul(t, weights);
    Centred w{.x = weights, .zero = {}, .most = 255, .constant = !weights.is_symbolic()};
    Tensor factor;
    {
      std::optional<EagerScope> now;
      if (w.constant) now.emplace();
      const auto of_direction = [&](const Tensor& v) {
        const Tensor all = reshape(v, {directions, -1});
        return all.dim(1) == 1 ? reshape(all(d), {}) : all(d);
      };
      factor = of_direction(c.x(scale)), w.zero = of_direction(c.x(scale + 1));
    }
    const Bytes b = bytes_of(t);
    return exact_matmul({.x = b.values, .zero = b.zero, .most = 255}, w).astype(f32) * (b.scale * factor);
  }
  Tensor clipped(const Tensor& t) const {
    const double limit = c.real("clip", 0);
    return limit > 0 ? clip(t, -limit, limit) : t;
  }
  // Of one direction; of both together without `d`.
  Weights weights(std::optional<int64_t> d) const {
    const auto of = [&](const Tensor& t) { return d ? t(*d) : expand_dims(t, 1); };
    std::optional<EagerScope> now;
    if (!c.x(2).is_symbolic()) now.emplace();
    const Tensor r = d ? c.x(2)(*d) : c.x(2);
    Weights w{0, copied(swapaxes(r, -1, -2)), {}, {}, {}};
    now.reset();
    if (r_bias.defined()) w.r_bias = of(r_bias);
    if (peepholes.defined()) w.peepholes = of(peepholes);
    const size_t count = named.size() / size_t(directions), first = size_t(d.value_or(0)) * count;
    for (size_t i = 0; i < count; ++i) w.f.push_back(activation_of(c, named[first + i]));
    return w;
  }
  Tensors first_states(std::optional<int64_t> d) const {
    Tensors states{d ? first_h(*d) : first_h};
    if (first_c.defined()) states.push_back(d ? first_c(*d) : first_c);
    return states;
  }
  bool directions_are_alike() const {
    const auto middle = named.begin() + std::ptrdiff_t(named.size() / 2);
    return directions == 2 && std::equal(named.begin(), middle, middle);
  }
  bool backward(int64_t d) const { return d == 1 || c.text("direction", "forward") == "reverse"; }

  // x W + b of a direction, [steps, batch, gates hidden].
  Tensor projected(int64_t d) const {
    std::optional<EagerScope> now;
    if (by_bytes && !c.x(1).is_symbolic()) now.emplace();
    const Tensor w = c.x(1)(d).T();
    now.reset();
    return product(x, w, 8, d) + bias(d);
  }
  // x W of both directions, each from its first step: [steps, directions, batch, gates * hidden]. Reversing and stacking x
  // moves less than doing so with the products. The bias is left to the steps, whose kernels add it on the way.
  Tensor projected_together() const {
    const Tensor both = stack({x, reverse(x, 0)}, 0);
    return swapaxes(einsum("dtbi,dgi->dtbg", both, c.x(1)), 0, 1);
  }
  // Both directions along axis 1, each from its first step.
  static Tensor both_directions(const Tensor& forth, const Tensor& back) { return stack({forth, reverse(back, 0)}, 1); }

  // Runs `step(state, projected row)` over time: the state is h, or h and c; returns the last state and all h. `times`:
  // the step of each row.
  template <class F>
  std::pair<Tensors, Tensor> over_time(bool back, const Tensors& state, const Tensor& rows, const Tensor& times,
                                       F step) const {
    auto [last, all] = scan(
        [&](const Tensors& s, const std::pair<Tensor, Tensor>& row) {
          Tensors next = step(s, row.first);
          Tensor y = next[0];
          if (lengths.defined()) {  // after a sequence's end its state stays, and its output is 0
            const Tensor runs = expand_dims(less(expand_dims(row.second, -1), lengths.astype(i64)), -1);
            for (size_t i = 0; i < next.size(); ++i) next[i] = where(runs, next[i], s[i]);
            y = where(runs, y, zeros_like(y));
          }
          return std::pair(next, y);
        },
        state, std::pair(rows, times), ScanOptions{.reverse = back});
    return {last, all};
  }

  // Over the steps of every direction, from its first state: step(weights, state, x W + b of the step).
  template <class F>
  Values run(F step) const {
    if (directions_are_alike() && !by_bytes) return run_together(step);
    Tensors all;
    std::vector<Tensors> last;
    const Tensor times = iota({x.dim(0)});
    for (int64_t i = 0; i < directions; ++i) {
      Weights w = weights(i);
      w.direction = i;
      auto [end, y] = over_time(backward(i), first_states(i), projected(i), times,
                                [&](const Tensors& s, const Tensor& row) { return step(w, s, row); });
      all.push_back(y), last.push_back(end);
    }
    return results(all, last);
  }
  template <class F>
  Values run_together(F step) const {
    const Weights w = weights({});
    const Tensor times = iota({x.dim(0)}), b = expand_dims(bias, 1);
    auto [end, y] = over_time(false, first_states({}), projected_together(), both_directions(times, times),
                              [&](const Tensors& s, const Tensor& row) { return step(w, s, row + b); });
    std::vector<Tensors> last(2);
    for (const Tensor& s : end)
      for (int64_t d : {0, 1}) last[size_t(d)].push_back(s(d));
    return results({y(all, 0), reverse(y(all, 1), 0)}, last);
  }

  // Y, Y_h and, for an LSTM, Y_c, from the results of each direction.
  Values results(const Tensors& all, const std::vector<Tensors>& last) const {
    const Tensor y = stack(all, 1);  // [steps, directions, batch, hidden]
    Values out = {batch_first ? transpose(y, {2, 0, 1, 3}) : y};
    for (size_t i = 0; i < last[0].size(); ++i) {
      Tensors parts;
      for (const Tensors& l : last) parts.push_back(l[i]);
      out.emplace_back(stack(parts, batch_first ? 1 : 0));
    }
    return out;
  }
};

Tensor gate(const Tensor& all, int64_t i, int64_t hidden) { return all(ellipsis, slice(i * hidden, (i + 1) * hidden)); }

Values rnn_rule(const Call& c) {
  const Recurrence r(c, 1, {"Tanh"}, true);
  return r.run([&](const Weights& w, const Tensors& s, const Tensor& row) {
    return Tensors{w.f[0](r.clipped(row + matmul(s[0], w.r)))};
  });
}

// Gates in the order of the file: input, output, forget, cell.
Values lstm_rule(const Call& c) {
  const Recurrence r(c, 4, {"Sigmoid", "Tanh", "Tanh"}, true);
  const int64_t h = r.hidden;
  const bool coupled = c.flag("input_forget");
  return r.run([&](const Weights& w, const Tensors& s, const Tensor& row) {
    const Tensor sums = row + r.product(s[0], w.r, 10, w.direction);
    // Gate i, which may have a peephole to the cell.
    const auto gated = [&](int64_t i, int64_t peephole, const Tensor& cell) {
      const Tensor sum = gate(sums, i, h);
      return w.f[0](r.clipped(c.has(7) ? sum + cell * gate(w.peepholes, peephole, h) : sum));
    };
    const Tensor in = gated(0, 0, s[1]);
    const Tensor forget = coupled ? 1 - in : gated(2, 2, s[1]);
    const Tensor cell = forget * s[1] + in * w.f[1](r.clipped(gate(sums, 3, h)));
    return Tensors{gated(1, 1, cell) * w.f[2](cell), cell};
  });
}

// com.microsoft's: W and R are integers, [directions, in, gates hidden], with scales and zero points, one number for
// each direction or each column; their operands are rounded to bytes, over the range of the entire operand.
Values dynamic_lstm_rule(const Call& c) {
  Call turned = c;
  for (size_t i : {1, 2}) {
    std::optional<EagerScope> now;
    if (!c.x(i).is_symbolic()) now.emplace();
    turned.in[i].tensor = matrix_transpose(c.x(i));
  }
  return lstm_rule(turned);
}

// Gates in the order of the file: update, reset, hidden.
Values gru_rule(const Call& c) {
  const Recurrence r(c, 3, {"Sigmoid", "Tanh"}, false);
  const int64_t h = r.hidden;
  const bool reset_after = c.flag("linear_before_reset");
  return r.run([&](const Weights& w, const Tensors& s, const Tensor& row) {
    const Tensor r_h = gate(w.r, 2, h), bias = gate(w.r_bias, 2, h);
    const Tensor from_h = matmul(s[0], w.r(ellipsis, slice(0, 2 * h))) + gate(w.r_bias, 0, 2 * h);
    const Tensor update = w.f[0](r.clipped(gate(row, 0, h) + gate(from_h, 0, h)));
    const Tensor reset = w.f[0](r.clipped(gate(row, 1, h) + gate(from_h, 1, h)));
    const Tensor hidden = reset_after ? reset * (matmul(s[0], r_h) + bias) : matmul(reset * s[0], r_h) + bias;
    const Tensor candidate = w.f[1](r.clipped(gate(row, 2, h) + hidden));
    return Tensors{(1 - update) * candidate + update * s[0]};
  });
}

}  // namespace

Rule dynamic_lstm() { return {dynamic_lstm_rule, 0b111100000110}; }

const RuleTable& recurrent_rules() {
  static const RuleTable table = {
      {"GRU", {gru_rule}},
      {"LSTM", {lstm_rule}},
      {"RNN", {rnn_rule}},
  };
  return table;
}

}  // namespace rill::onnx_import
