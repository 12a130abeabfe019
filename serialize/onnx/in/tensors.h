// ONNX's tensors and types as rill's. All sizes in a file are checked against the available bytes before they are used.
#pragma once
#include <string>
#include <string_view>

#include "onnx.pb.h"
#include "rill/ops/ops.h"

namespace rill::onnx_import {

// rill's dtype for ONNX's number; false if there is none.
bool find_dtype(int32_t elem_type, DType& out);
std::string name_of_type(int32_t elem_type);

// The context of errors: "[import_model] 'net.onnx': tensor 'w': ...".
struct Source {
  std::string path;    // of the model; external weights are beside it
  std::string prefix;  // "'net.onnx'"
  Where where;
  [[noreturn]] void reject(const std::string& what) const;
};

Tensor read_tensor(const onnx::TensorProto& t, const Source& source);
Tensor read_tensor(const onnx::SparseTensorProto& t, const Source& source);  // dense
// The sizes of a tensor, which are not negative and whose product is sound.
Shape read_shape(const google::protobuf::RepeatedField<int64_t>& dims, const std::string& what, const Source& source);

}  // namespace rill::onnx_import
