// An ONNX file as what Model runs. import_model.cpp calls it; a fuzz target and the runner of ONNX's own tests, too.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "rill/serialize/model.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

// `bytes`: the file's content. `path`: its location, for messages and external weights.
Model import_onnx(std::string_view bytes, const std::string& path, const ImportOptions& options,
                  Where where = Where::current());

// A value in ONNX's test data: `bytes` of a TensorProto, a SequenceProto or an OptionalProto.
struct OnnxValue {
  bool absent = false, sequence = false;
  std::vector<Tensor> tensors;
};
enum class OnnxValueKind : uint8_t { tensor, sequence, optional_tensor, optional_sequence };
OnnxValue read_onnx_value(std::string_view bytes, OnnxValueKind kind, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
