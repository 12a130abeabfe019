// Recurrent layers: RNN, LSTM and GRU of several layers and both directions, ConvLSTM2D, and Recurrent of any cell. A
// layer projects all steps at once, one product, and runs its cell over them as a scan(): one node of a traced graph.
//
// A cell says what one step is. It has
//   Tensor project(const Tensor& x, const Call&) const       what the inputs of steps give, of any two leading axes
//   States first_states(const Tensor& row) const             zeros, for one step's row of that
//   impl::Step steps(const Tensor& row, const Call&) const   the function (row, states) to the next states, of which the first is
//                                                            the step's output
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "rill/nn/layer.h"
#include "rill/nn/layers/windows.h"
#include "rill/nn/param.h"
#include "rill/ops/conv.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// The state of a cell between steps: {h} of RNN and GRU, {h, c} of LSTM, each [batch, units].
using States = std::vector<Tensor>;

// Further inputs of a recurrent layer beside x.
struct RecurrentInputs {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  // Integers [batch]: the length of each sequence. After its end outputs are 0 and states stay. Lengths beyond x's steps
  // mean all of them, and negative ones none.
  Tensor lengths = {};
  // bool [batch, steps]: steps that are false are passed over in the same way. Not together with lengths.
  Tensor mask = {};
  // As RecurrentResult::states has them; zeros where empty.
  States initial = {};
};
struct RecurrentResult {
  // [batch, steps, units] with return_sequences (the axes of time and batch as in x), else the last [batch, units].
  Tensor output;
  // For each layer its forward direction's and then its backward one's: {h, h, ...} or, for an LSTM, {h, c, h, c, ...}.
  States states;
};

// How the outputs of both directions become one.
enum class Merge : uint8_t { concat, sum, mean, product };

namespace impl {
using Step = Callback<States(const Tensor& row, const States& states)>;

// One direction over all steps.
struct Direction {
  bool reverse = false, sequences = true;
  int64_t time_axis = 1;
};
RecurrentResult run_direction(const Tensor& projected, const States& first, const Step& step, const Tensor& runs,
                              const Direction& how, const Where& where);
// bool [steps, batch], if the inputs mask steps; else undefined.
Tensor running_steps(const RecurrentInputs& in, const Tensor& x, int64_t time_axis, const Where& where);
// The states to begin with: `given`, spread over the batch, in the dtype of `zero`, the zeros that there are where none is
// given. Throws where they are too few or too many.
States begun_states(std::string_view type, std::span<const Tensor> given, States zero, const Where& where);
// One step's row of the projection.
Tensor first_row(const Tensor& projected, int64_t time_axis);
}  // namespace impl

// --- Cells: one step -------------------------------------------------------------------------------------------------

struct RNNCellOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Activation activation = static_cast<Tensor (*)(const Tensor&, Where)>(tanh);  // or relu
  bool use_bias = true;
  double recurrent_dropout = 0;  // of h, the same elements in all steps
  Initializer kernel_initializer = glorot_uniform;
  Initializer recurrent_initializer = orthogonal();
  std::string name = "rnn_cell";
};
// h' = activation(x kernel + h recurrent_kernel + bias). torch's two biases are one here: their sum.
class RNNCell {
 public:
  using Options = RNNCellOptions;
  explicit RNNCell(int64_t units, const RNNCellOptions& options = {}, Where where = Where::current());
  // One step: x [batch, in]; from zeros where no states are given.
  States operator()(const Tensor& x, const States& states, const Call& call = {}, Where where = Where::current()) const;
  Tensor project(const Tensor& x, const Call& call) const;
  States first_states(const Tensor& row) const;
  impl::Step steps(const Tensor& row, const Call& call) const;
  RILL_LAYER(RNNCell, kernel, recurrent_kernel, bias)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  int64_t units;
  RNNCellOptions options;
  Param kernel;            // [in, units]
  Param recurrent_kernel;  // [units, units]
  Param bias;              // [units]
};

struct LSTMCellOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool use_bias = true;
  double forget_bias = 1;                  // the initial bias of the forget gate (Jozefowicz et al. 2015); torch: 0
  std::optional<int64_t> projection = {};  // h is projected to so many numbers: torch's proj_size (Sak et al. 2014)
  double recurrent_dropout = 0;
  Initializer kernel_initializer = glorot_uniform;
  Initializer recurrent_initializer = orthogonal();
  std::string name = "lstm_cell";
};
// i, f, g, o = x kernel + h recurrent_kernel + bias, four gates of `units` columns each in this order, which is Keras's (i f c
// o) and torch's (i f g o, its weights transposed and its two biases summed);
//   c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c').
class LSTMCell {
 public:
  using Options = LSTMCellOptions;
  explicit LSTMCell(int64_t units, const LSTMCellOptions& options = {}, Where where = Where::current());
  States operator()(const Tensor& x, const States& states, const Call& call = {}, Where where = Where::current()) const;
  Tensor project(const Tensor& x, const Call& call) const;
  States first_states(const Tensor& row) const;
  impl::Step steps(const Tensor& row, const Call& call) const;
  RILL_LAYER(LSTMCell, kernel, recurrent_kernel, bias, projection)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  int64_t units;
  LSTMCellOptions options;
  Param kernel;            // [in, 4 units]
  Param recurrent_kernel;  // [units or projection, 4 units]
  Param bias;              // [4 units]
  Param projection;        // [units, projection]
};

struct GRUCellOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool use_bias = true;
  // Whether the reset gate scales the product with h, as in torch, cuDNN and Keras, or h itself (Cho et al. 2014).
  bool reset_after = true;
  double recurrent_dropout = 0;
  Initializer kernel_initializer = glorot_uniform;
  Initializer recurrent_initializer = orthogonal();
  std::string name = "gru_cell";
};
// Gates z, r, n of `units` columns each in this order, which is Keras's (torch: r z n); R is recurrent_kernel, b its bias:
//   z = sigmoid(x_z + h R_z + b_z), r likewise, n = tanh(x_n + r (h R_n + b_n)), h' = z h + (1 - z) n;
// without reset_after n = tanh(x_n + (r h) R_n), and there is no recurrent bias.
class GRUCell {
 public:
  using Options = GRUCellOptions;
  explicit GRUCell(int64_t units, const GRUCellOptions& options = {}, Where where = Where::current());
  States operator()(const Tensor& x, const States& states, const Call& call = {}, Where where = Where::current()) const;
  Tensor project(const Tensor& x, const Call& call) const;
  States first_states(const Tensor& row) const;
  impl::Step steps(const Tensor& row, const Call& call) const;
  RILL_LAYER(GRUCell, kernel, recurrent_kernel, bias, recurrent_bias)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  int64_t units;
  GRUCellOptions options;
  Param kernel;                // [in, 3 units]
  Param recurrent_kernel;      // [units, 3 units]
  Param bias, recurrent_bias;  // [3 units]
};

struct ConvLSTMCellOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Dims strides = {};  // of the convolution of x; that of h has none
  SpacePadding padding = "VALID";
  Dims dilation = {};
  bool use_bias = true;
  double forget_bias = 1;
  Initializer kernel_initializer = glorot_uniform;
  Initializer recurrent_initializer = orthogonal();
  std::string name = "conv_lstm_cell";
};
// An LSTM cell whose products are convolutions (Shi et al.: Convolutional LSTM Network, 2015): x [batch, height, width,
// channels], h and c [batch, height', width', filters].
class ConvLSTMCell {
 public:
  using Options = ConvLSTMCellOptions;
  ConvLSTMCell(int64_t filters, const Window& size, const ConvLSTMCellOptions& options = {},
               Where where = Where::current());
  States operator()(const Tensor& x, const States& states, const Call& call = {}, Where where = Where::current()) const;
  Tensor project(const Tensor& x, const Call& call) const;
  States first_states(const Tensor& row) const;
  impl::Step steps(const Tensor& row, const Call& call) const;
  RILL_LAYER(ConvLSTMCell, kernel, recurrent_kernel, bias)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  int64_t filters;
  Dims size;
  ConvLSTMCellOptions options;
  Param kernel;            // [size..., in, 4 filters]
  Param recurrent_kernel;  // [size..., filters, 4 filters]
  Param bias;              // [4 filters]
};

// --- Layers: all steps -----------------------------------------------------------------------------------------------

template <class CellOptions>
struct RecurrentLayerOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t layers = 1;            // each has the output of the one before as its input
  bool bidirectional = false;    // with a second cell from the last step to the first
  Merge merge = Merge::concat;   // of both directions
  double dropout = 0;            // between layers, while training
  bool reverse = false;          // from the last step to the first; row i of the output still belongs to row i of x
  bool return_sequences = true;  // else the last step's output: for each direction, at its end
  int64_t time_axis = 1;         // 0: [steps, batch, in]
  CellOptions cell = {};
  std::string name = {};  // "rnn", "lstm", "gru" where empty
};
using RNNOptions = RecurrentLayerOptions<RNNCellOptions>;
using LSTMOptions = RecurrentLayerOptions<LSTMCellOptions>;
using GRUOptions = RecurrentLayerOptions<GRUCellOptions>;

namespace impl {
// Shared by RNN, LSTM and GRU. The cells are in the order of RecurrentResult::states.
template <class Cell>
class RecurrentLayers {
 public:
  using Options = RecurrentLayerOptions<typename Cell::Options>;
  RecurrentLayers(std::string_view type, int64_t units, Options options, const Where& where);
  // [batch, steps, in] to [batch, steps, units], or twice as many for both directions.
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const {
    return run(x, {}, call, where).output;
  }
  // The same with lengths, a mask or first states, and the last states. Throws where these do not fit.
  RecurrentResult run(const Tensor& x, const RecurrentInputs& inputs, const Call& call = {},
                      Where where = Where::current()) const;
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  Options options;
  std::vector<Cell> cells;

 private:
  Tensor merged(const std::vector<Tensor>& outputs, const Where& where) const;
};
extern template class RecurrentLayers<RNNCell>;
extern template class RecurrentLayers<LSTMCell>;
extern template class RecurrentLayers<GRUCell>;
}  // namespace impl

// Layers of RNNCell. y = rnn(x), or rnn.run(x, {.lengths = n}) for outputs and last states.
class RNN : public impl::RecurrentLayers<RNNCell> {
 public:
  explicit RNN(int64_t units, const RNNOptions& options = {}, Where where = Where::current())
      : RecurrentLayers("rnn", units, options, where) {}
  RILL_LAYER(RNN, cells)
};
// Layers of LSTMCell (Hochreiter, Schmidhuber: Long Short-Term Memory, 1997; with forget gates, Gers et al. 2000).
class LSTM : public impl::RecurrentLayers<LSTMCell> {
 public:
  explicit LSTM(int64_t units, const LSTMOptions& options = {}, Where where = Where::current())
      : RecurrentLayers("lstm", units, options, where) {}
  RILL_LAYER(LSTM, cells)
};
// Layers of GRUCell (Cho et al.: Learning Phrase Representations using RNN Encoder-Decoder, 2014).
class GRU : public impl::RecurrentLayers<GRUCell> {
 public:
  explicit GRU(int64_t units, const GRUOptions& options = {}, Where where = Where::current())
      : RecurrentLayers("gru", units, options, where) {}
  RILL_LAYER(GRU, cells)
};

struct RecurrentOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool reverse = false;
  bool return_sequences = true;
  int64_t time_axis = 1;
  std::string name = "recurrent";
};
// Any cell over all steps: nn::Recurrent(nn::ConvLSTMCell(8, {3, 3})), or of a cell of yours.
template <class Cell>
class Recurrent {
 public:
  explicit Recurrent(Cell cell, RecurrentOptions options = {}) : cell(std::move(cell)), options(std::move(options)) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const {
    return run(x, {}, call, where).output;
  }
  RecurrentResult run(const Tensor& x, const RecurrentInputs& inputs, const Call& call = {},
                      Where where = Where::current()) const {
    const LayerRun layer(this, options.name, where);
    const Tensor runs = impl::running_steps(inputs, x, options.time_axis, where);
    const Tensor projected = cell.project(call.in(x), call), row = impl::first_row(projected, options.time_axis);
    const States first = impl::begun_states(options.name, inputs.initial, cell.first_states(row), where);
    RecurrentResult result = impl::run_direction(projected, first, cell.steps(row, call), runs,
                                                 {options.reverse, options.return_sequences, options.time_axis}, where);
    result.output = layer.give(result.output);
    return result;
  }
  RILL_LAYER(Recurrent, cell)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  Cell cell;
  RecurrentOptions options;
};

// Recurrent(ConvLSTMCell): [batch, steps, height, width, channels] to [batch, steps, height', width', filters].
class ConvLSTM2D : public Recurrent<ConvLSTMCell> {
 public:
  ConvLSTM2D(int64_t filters, const Window& size, const ConvLSTMCellOptions& cell = {}, RecurrentOptions options = {},
             Where where = Where::current())
      : Recurrent(ConvLSTMCell(filters, size, cell, where), std::move(options)) {}
  RILL_LAYER(ConvLSTM2D, cell)
};

}  // namespace rill::nn

#pragma GCC visibility pop
