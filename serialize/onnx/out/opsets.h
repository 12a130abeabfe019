// The version of ONNX's operator set for which a model is written: the lowest in which all of its nodes mean what the
// exporter writes, so that old runtimes accept it. Start at opset_for.
#pragma once
#include <string>
#include <string_view>

#include "onnx.pb.h"
#include "rill/tensor/error.h"

namespace rill::onnx_out {

inline constexpr int64_t oldest_opset = 13, newest_opset = 28;

// The lowest version that a model needs, and for which operator or dtype.
struct OpsetNeed {
  int64_t opset = oldest_opset;
  std::string what;
  void at_least(int64_t version, std::string_view name) {
    if (version > opset) opset = version, what = name;
  }
};

// `need`: what the model's nodes do not show, the dtypes of their operands. `asked`: the one that the user wants, or 0. Throws rill::Error where that is none of these, or where an operator of
// the model is newer, which it names.
int64_t opset_for(const onnx::ModelProto& model, OpsetNeed need, int64_t asked, const Where& where);

// The version of the file format that came with an opset.
int64_t ir_version_of(int64_t opset);

}  // namespace rill::onnx_out
