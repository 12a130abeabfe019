// What the program reads: the kind of a path, its tensors, and inputs for a model.
#pragma once
#include <rill/rill.h>
#include <rill/serialize.h>

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace command {

// ".npz", in lower case; of "x.csv.gz" ".gz".
std::string extension_of(const std::string& path);
// Whether that is one of `extensions`.
bool ends_in(const std::string& path, std::initializer_list<std::string_view> extensions);

// Without ".gz" or ".zst".
std::string unpacked_name(const std::string& path);
// Whether its name is that of an IDX file, gzipped or not.
bool is_idx(const std::string& path);

// Whether its name is that of an event file: events.out.tfevents.TIME.HOST.
bool is_event_file(const std::string& path);

enum class Kind { model, tensors, checkpoint, events, records, table, idx, audio, pictures };

// The kind of `path`, by its name and the files beside it. Throws rill::Error if it is missing or unknown.
Kind kind_of(const std::string& path);
// The prefix of the checkpoint at `path`: itself, its index, or the latest of a folder.
std::string checkpoint_prefix(const std::string& path);
// Throws UsageError unless `count` tensors (0: unknown) can be saved at `path`, as far as its name and its folder show:
// before the work, not after it.
void require_tensor_file(const std::string& path, size_t count);
// All bytes of a file, or of the files of a folder.
int64_t bytes_at(const std::string& path);

// Whether its name is that of a table: .csv, .tsv, .arrow, .arrows, .feather or .parquet.
bool is_table(const std::string& path);
// A table; for an Arrow column with missing values a second column says which rows have one.
rill::Table read_table(const std::string& path);
// The named tensors of a file of tensors or a checkpoint, the columns of a table, and the weights of a model. Tensors of
// a file or a checkpoint that cannot be read go into `unreadable`, with the reason; without it, the first is an error.
using Unreadable = std::map<std::string, std::string>;
rill::NamedTensors load_tensors(const std::string& path, Unreadable* unreadable = nullptr);

// A model on the command line.
struct ModelChoice {
  std::string path, signature;    // "": the first
  std::vector<std::string> tags;  // empty: those for serving
};
// The options MODEL, --signature and --tags.
void add_model_options(CLI::App* sub, ModelChoice& choice);
// Only --signature and --tags.
void add_signature_options(CLI::App* sub, ModelChoice& choice);
rill::Model read_model(const ModelChoice& choice, bool trainable);

// "x=1,3,224,224": sizes by the name of an input; without a name, of the only one. '?' leaves a size open. Throws
// UsageError for invalid ones.
std::map<std::string, rill::Shape> parse_shapes(const rill::Model& model, const std::vector<std::string>& texts);
// The inputs for which the model's graph is made, with these shapes instead of those in the file.
std::vector<rill::ArgSpec> signature_of(const rill::Model& model, const std::map<std::string, rill::Shape>& shapes);
// The graph of a model, with the sizes in `shapes` for those that it leaves open.
rill::Graph graph_of(const rill::Model& model, const std::map<std::string, rill::Shape>& shapes);

// Inputs for a model.
struct InputOptions {
  std::vector<std::string> files;                  // --inputs: tensors by the names of inputs
  std::vector<std::string> single;                 // --input: "x=FILE", "x=FILE[2:5]", "x=FILE:name"
  bool random = false;                             // random numbers for the remaining inputs
  bool cast = false;                               // converts numbers of any dtype to the model's
  std::map<std::string, rill::Shape> shapes = {};  // of random ones
  int64_t batch = 1;                               // their first size, if it is open
};
std::map<std::string, rill::Tensor> read_inputs(const rill::Model& model, const InputOptions& options);
// An input of the shape that the model takes: numbers between 0 and 1, indices of 0 and 1, or true and false.
rill::Tensor random_input(const rill::ValueInfo& v, const InputOptions& options);

// "f32[2,3]".
std::string spec_text(const rill::Tensor& x);
int64_t bytes_of(const rill::Spec& s);

}  // namespace command
