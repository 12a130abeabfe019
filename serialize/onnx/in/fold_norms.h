// A normalisation by known statistics behind a convolution whose weights are known is part of these weights:
//
//   (w * x + b - mean) s + offset  =  (s w) * x + ((b - mean) s + offset),  s = scale / sqrt(variance + epsilon)
//
// This changes how a model rounds and not what it means. So it is done where the weights are constants, before the
// model is traced: a trained model keeps both.
#pragma once
#include <unordered_map>

#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {

using Constants = std::unordered_map<const onnx::TensorProto*, Tensor>;  // by where they stand in the file

// Takes BatchNormalization nodes out of the main graph and changes the convolutions before them, and the constants.
void fold_batch_norms(Program& program, Constants& constants);

}  // namespace rill::onnx_import
