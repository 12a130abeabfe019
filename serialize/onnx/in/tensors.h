// ONNX's tensors and types as rill's. Nothing that a file says of sizes is believed before it is compared with the
// bytes that are there.
#pragma once
#include <string>
#include <string_view>

#include "onnx.pb.h"
#include "rill/ops/ops.h"

namespace rill::onnx_import {

// rill's dtype for ONNX's number; false where there is none.
bool find_dtype(int32_t elem_type, DType& out);
std::string name_of_type(int32_t elem_type);

// Where errors say that something is wrong: "[import_model] 'net.onnx': tensor 'w': ...".
struct Source {
  std::string path;    // of the model; external weights lie beside it
  std::string prefix;  // "'net.onnx'"
  Where where;
  [[noreturn]] void reject(const std::string& what) const;
};

Tensor read_tensor(const onnx::TensorProto& t, const Source& source);
Tensor read_tensor(const onnx::SparseTensorProto& t, const Source& source);  // dense
// The sizes of a tensor, which are not negative and whose product is sound.
Shape read_shape(const google::protobuf::RepeatedField<int64_t>& dims, const std::string& what, const Source& source);

}  // namespace rill::onnx_import
