// The records that are written differently for TensorFlow than for ONNX, by family; see GraphWriter::find_rule.
#pragma once
#include <span>

#include "rill/serialize/tensorflow/out/graph_writer.h"

namespace rill::tensorflow_out {

// Null if ONNX's rule, translated to TensorFlow's operators, is right.
const onnx_out::Rule* rule_of(const Op& op);

std::span<const onnx_out::Rule> elementwise_rules(), matrix_rules(), moving_rules(), reduce_rules(), window_rules(),
    control_rules(), string_rules();

}  // namespace rill::tensorflow_out
