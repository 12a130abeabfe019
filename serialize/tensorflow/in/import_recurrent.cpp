// The steps of recurrent networks as single operators: LSTMBlockCell and BlockLSTM, GRUBlockCell.
#include <fmt/format.h>

#include "rill/serialize/tensorflow/in/interpreter.h"
#include "rill/trace/control_flow.h"

namespace rill::tensorflow_in {
namespace {

using Tensors = std::vector<Tensor>;

// The weights of an LSTM, beside x [batch, in], the cell's state and the last result, each [batch, hidden].
struct Lstm {
  Tensor w, wci, wcf, wco, b;  // [in + hidden, 4 hidden], three of [hidden], [4 hidden]
  double forget_bias, clip_to;
  bool peepholes, forget_third;

  // `first`: the operand with the weights. The first version has the gates as i, c, f, o, the second as i, f, c, o.
  Lstm(const Call& c, size_t first, bool third)
      : w(c.x(first)),
        wci(c.x(first + 1)),
        wcf(c.x(first + 2)),
        wco(c.x(first + 3)),
        b(c.x(first + 4)),
        forget_bias(c.real("forget_bias", third ? 1 : 0)),
        clip_to(c.real("cell_clip", third ? 3 : 0)),
        peepholes(c.flag("use_peephole")),
        forget_third(third) {
    if (w.ndim() != 2 || int64_t(w.dim(1)) % 4 != 0) c.reject("its weights are not those of four gates");
  }
  // i, the state, f, o, the new input, tanh of the state, the result.
  Tensors step(const Tensor& x, const Tensor& state, const Tensor& h) const {
    const Tensor all = matmul(concat({x, h}, 1), w) + b;
    const Dim n = w.dim(1) / 4;
    const auto gate = [&](int64_t k) { return slice_axis(all, 1, n * k, n * (k + 1)); };
    Tensor i = gate(0), f = gate(forget_third ? 2 : 1), o = gate(3);
    if (peepholes) i = i + state * wci, f = f + state * wcf;
    i = sigmoid(i), f = sigmoid(f + forget_bias);
    const Tensor fresh = tanh(gate(forget_third ? 1 : 2));
    Tensor now = fresh * i + state * f;
    if (clip_to > 0) now = clip(now, -clip_to, clip_to);
    if (peepholes) o = o + now * wco;
    o = sigmoid(o);
    const Tensor shown = tanh(now);
    return {i, now, f, o, fresh, shown, shown * o};
  }
};
Values values_of(const Tensors& t) { return {t.begin(), t.end()}; }

Values lstm_cell_rule(const Call& c) { return values_of(Lstm(c, 3, true).step(c.x(0), c.x(1), c.x(2))); }
// Over x [steps, batch, in], of which the first `steps` are computed; the rest is zeros.
template <bool first_version>
Values lstm_rule(const Call& c) {
  const Tensor x = c.x(1);
  const Lstm lstm(c, 4, first_version);
  const auto [last, rows] = scan(
      [&](const Tensors& state, const Tensor& at) {
        Tensors y = lstm.step(at, state[0], state[1]);
        return std::pair(Tensors{y[1], y[6]}, y);
      },
      Tensors{c.x(2), c.x(3)}, x, {});
  Values out;
  const Tensor used = expand_dims(iota({x.dim(0)}) < reshape(c.x(0).astype(i64), {}), {1, 2});
  for (const Tensor& t : rows) out.emplace_back(where(used, t, 0));
  return out;
}
// r and u, the new state, the result.
Values gru_cell_rule(const Call& c) {
  const Tensor x = c.x(0), h = c.x(1);
  const Tensor gates = sigmoid(matmul(concat({x, h}, 1), c.x(2)) + c.x(4));
  const Dim n = h.dim(1);
  const Tensor r = slice_axis(gates, 1, 0, n), u = slice_axis(gates, 1, n, n * 2);
  const Tensor fresh = tanh(matmul(concat({x, r * h}, 1), c.x(3)) + c.x(5));
  return {r, u, fresh, u * h + (1 - u) * fresh};
}

}  // namespace

const RuleTable& recurrent_rules() {
  static const RuleTable table = {
      {"LSTMBlockCell", lstm_cell_rule},
      {"BlockLSTM", lstm_rule<true>},
      {"BlockLSTMV2", lstm_rule<false>},
      {"GRUBlockCell", gru_cell_rule},
  };
  return table;
}

}  // namespace rill::tensorflow_in
