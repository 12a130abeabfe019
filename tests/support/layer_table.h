// The table of layers: what docs/layers.md says of each, and layers of its kind with inputs, from which
// test_layer_table.cpp makes its tests. tests/scripts/test_layers.py fails where a layer of nn/layers/ has no row.
//
// Rows are in headers by family, layer_rows_*.h. A row is {"Name", formula, shapes, Keras's name, torch's name, what
// differs, {cases}}. A case is {label, a function that makes a layer, an input, its variables' paths}; what does not
// hold of it is said by name. A layer of several inputs stands in an aggregate that makes them of one.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "rill/nn.h"
#include "rill/rill.h"

namespace layers {

// What does not hold of a layer, for a reason that stands beside it.
struct Except {
  bool onnx = true, tensorflow = true;  // inference can be written so
  bool differentiable = true;           // by x and by its variables
  // Derivatives are those of differences: not where gradients stop on purpose (rows of padding, estimates that move).
  bool slopes = true, training_slopes = true;
  bool draws = false;      // random numbers at inference too
  bool open_batch = true;  // a batch of open size, or of none, can be given
  bool casts = true;       // a layer that is cast to f64 gives f64
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

// Numbers that are apart, so that no maximum is a tie.
inline rill::Tensor numbers(const rill::Shape& shape, uint64_t seed = 1) {
  return rill::random::normal(shape, {.key = rill::random::Key(seed)});
}

// What rows say again and again: shapes, and paths of variables.
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
