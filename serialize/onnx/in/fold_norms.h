// A normalisation with known statistics after a convolution with known weights is folded into these weights:
//
//   (w * x + b - mean) s + offset  =  (s w) * x + ((b - mean) s + offset),  s = scale / sqrt(variance + epsilon)
//
// This changes the model's rounding but not its meaning. So it is done if the weights are constants, before the model
// is traced: a trained model keeps both.
#pragma once
#include <unordered_map>

#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {

using Constants = std::unordered_map<const onnx::TensorProto*, Tensor>;  // by their address in the file

// Removes BatchNormalization nodes from the main graph and changes the convolutions before them, and the constants.
void fold_batch_norms(Program& program, Constants& constants);

}  // namespace rill::onnx_import
