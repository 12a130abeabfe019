// What the program reads: which kind of thing a path is, its tensors, and inputs for a model.
#pragma once
#include <rill/rill.h>
#include <rill/serialize.h>

#include <map>
#include <string>
#include <vector>

namespace command {

enum class Kind { model, tensors, checkpoint, events, records, csv };

// What `path` is, by its name and by what stands beside it. Throws rill::Error where it is missing or nothing known.
Kind kind_of(const std::string& path);
// The prefix of the checkpoint that `path` means: itself, its index, or the latest of a folder.
std::string checkpoint_prefix(const std::string& path);
// All bytes of a file, or of the files of a folder.
int64_t bytes_at(const std::string& path);

// The named tensors of a file of tensors or a checkpoint, and the weights of a model.
rill::NamedTensors load_tensors(const std::string& path);

// "x=1,3,224,224": sizes by the name of an input; without a name, of the only one. '?' leaves a size open. Throws
// UsageError for others.
std::map<std::string, rill::Shape> parse_shapes(const rill::Model& model, const std::vector<std::string>& texts);
// What the model's graph is made for: its inputs, with these shapes in place of what the file says.
std::vector<rill::ArgSpec> signature_of(const rill::Model& model, const std::map<std::string, rill::Shape>& shapes);
// The graph of a model, for sizes in `shapes` where it leaves them open.
rill::Graph graph_of(const rill::Model& model, const std::map<std::string, rill::Shape>& shapes);

// Inputs for a model.
struct InputOptions {
  std::vector<std::string> files;                  // --inputs: tensors by the names of inputs
  std::vector<std::string> single;                 // --input: "x=FILE", "x=FILE[2:5]", "x=FILE:name"
  bool random = false;                             // random numbers for the others
  bool cast = false;                               // numbers of any dtype become what the model takes
  std::map<std::string, rill::Shape> shapes = {};  // of random ones
  int64_t batch = 1;                               // their first size, where it is open
};
std::map<std::string, rill::Tensor> read_inputs(const rill::Model& model, const InputOptions& options);
// An input of the shape that the model takes: numbers between 0 and 1, indices of 0 and 1, or true and false.
rill::Tensor random_input(const rill::ValueInfo& v, const InputOptions& options);

// "f32[2,3]".
std::string spec_text(const rill::Tensor& x);
int64_t bytes_of(const rill::Spec& s);

}  // namespace command
