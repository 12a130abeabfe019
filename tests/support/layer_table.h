// The table of layers: the text of docs/layers.md for each, and layers of its kind with inputs, from which
// test_layer_table.cpp makes its tests. tests/scripts/test_layers.py fails if a layer of nn/layers/ has no row.
//
// Rows are in headers by family, layer_rows_*.h. A row is {"Name", formula, shapes, Keras's name, torch's name,
// differences, {cases}}. A case is {label, a function that makes a layer, an input, its variables' paths}; exceptions
// are listed by name. A layer of several inputs is wrapped in an aggregate that makes them from one.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "rill/nn.h"
#include "rill/rill.h"

namespace layers {

// What does not hold for a layer, for a reason that is given next to it.
struct Except {
  bool onnx = true, tensorflow = true;  // inference can be exported
  bool differentiable = true;           // by x and by its variables
  // Derivatives equal finite differences: not if gradients stop on purpose (rows of padding, moving estimates).
  bool slopes = true, training_slopes = true;
  bool draws = false;      // random numbers also at inference
  bool open_batch = true;  // accepts a batch of open size, or of size 0
  bool casts = true;       // a layer that is cast to f64 returns f64
};

struct LayerCase {
  std::string label;  // what this one shows: "grouped"; empty for the plain one
  std::function<rill::nn::AnyLayer()> make;
  rill::Tensor x;  // f32, or integers
  std::vector<std::string> paths = {};
  Except but = {};
};

struct LayerRow {
  std::string name, formula, shapes, keras, torch, differs;
  std::vector<LayerCase> cases;
};

struct LayerFamily {
  std::string title;
  std::vector<LayerRow> rows;
};

// Distinct numbers, so that no maximum is a tie.
inline rill::Tensor numbers(const rill::Shape& shape, uint64_t seed = 1) {
  return rill::random::normal(shape, {.key = rill::random::Key(seed)});
}

// Common values of rows: shapes, and paths of variables.
inline const std::string same_shape = "any";
inline const std::vector<std::string> weights = {"kernel", "bias"}, scales = {"scale", "offset"};

}  // namespace layers

#include "layer_rows_plain.h"
#include "layer_rows_sequence.h"
#include "layer_rows_windows.h"

namespace layers {

inline std::vector<LayerFamily> layer_table() {
  return {weighted_sums(), convolutions(), pools(),      spaces(),      norms(),       noises(),
          shapes(),        activations(),  attentions(), recurrences(), transformers()};
}

}  // namespace layers
