// load_weights: the parameters of a model from a file of another program, which calls them by other names and has their
// axes in another order. A table of rules says how.
//
//   load_weights(net, "resnet18.safetensors", {.rules = {{"fc.weight", "fc/kernel", {1, 0}},
//                                                        {"*conv*.weight", "*conv*/kernel", {2, 3, 1, 0}},
//                                                        {"*.num_batches_tracked", ""}}});
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "rill/ops/names.h"
#include "rill/serialize/save.h"

#pragma GCC visibility push(default)

namespace rill {

struct WeightRule {
  // A whole name in the file; each * stands for any characters, as few as fit from the left on.
  std::string name = {};
  // Its path here, where the n-th * is what the n-th * of the name stood for, with / in place of its dots. Empty: left
  // out on purpose.
  std::string path = {};
  // The order in which the axes of the file's tensor stand here: {1, 0} of torch's Linear, {2, 3, 1, 0} of its Conv2d.
  // Empty: they stay.
  Axes permute = {};
  // What else becomes of its value, after that: gates in another order, say.
  std::function<Tensor(const Tensor&)> convert = {};
};

struct LoadWeightsOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  // The first whose name fits counts. Where none does, the path is the name, with / in place of its dots.
  std::vector<WeightRule> rules = {};
  bool allow_missing = false;    // paths that the file has not keep their values
  bool allow_extra = false;      // names that nothing here has are left alone
  bool allow_misshapen = false;  // paths of which the file has another shape or dtype keep their values
};

// What load_weights() found.
struct WeightsReport {
  struct Pair {
    std::string path;  // here
    std::string name;  // in the file
  };
  std::vector<Pair> loaded;
  std::vector<Pair> missing;           // the name is what the rules would have taken; empty where none leads there
  std::vector<Pair> extra;             // the path is what the rules make of the name
  std::vector<std::string> misshapen;  // "fc/kernel: f32[512,10] here, 'fc.weight' is f32[10,512] in the file"
  bool complete() const { return missing.empty() && extra.empty() && misshapen.empty(); }
};
std::string to_string(const WeightsReport& report);

namespace detail {
WeightsReport load_weights(const NamedVariables& variables, const NamedTensors& tensors, const std::string& from,
                           const LoadWeightsOptions& options, const Where& where);
// Of a file that load() reads, or of a TensorFlow checkpoint, whose names are those that its variables had.
NamedTensors weights_of(const std::string& path, const Where& where);
}  // namespace detail

// Gives the Variables of a model (a layer, a struct, a container of such) the values that a file has of them: a
// .safetensors, .npz or .gguf file, or a TensorFlow or Keras checkpoint by its prefix. Floats become the dtype that is
// here. All or, where something is wrong, none are loaded: what is missing from the file, extra in it or of another
// shape or dtype is an error that lists it under both its names, unless it is allowed. Parameters whose sizes are found
// at the first call get those of the file; nn::build() the model first to have them checked. Throws, too, where two
// names lead to one path.
template <class Model>
WeightsReport load_weights(Model&& model, const std::string& path, const LoadWeightsOptions& options = {},
                           Where where = Where::current()) {
  return detail::load_weights(rill::variables(model), detail::weights_of(path, where), "'" + path + "'", options,
                              where);
}
// The same of tensors by name: of several files, say, whose maps were merged.
template <class Model>
WeightsReport load_weights(Model&& model, const NamedTensors& tensors, const LoadWeightsOptions& options = {},
                           Where where = Where::current()) {
  return detail::load_weights(rill::variables(model), tensors, "what was given", options, where);
}

}  // namespace rill

#pragma GCC visibility pop
