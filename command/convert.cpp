// rill convert, freeze, optimize: converts a model to another file; convert also converts files of tensors.
#include <filesystem>

#include "command.h"
#include "files.h"
#include "terminal.h"

namespace command {
namespace {

enum class Task { convert, freeze, optimize };

struct ConvertSettings {
  ModelChoice from;
  std::string to;
  std::vector<std::string> shapes;
  bool external_data = false, compress = false;
};

bool is_model_name(const std::string& path) { return ends_in(path, {".onnx", ".rill", ".pb"}); }

// Whether `to` is the name of a checkpoint: it ends in .index or .ckpt or, unless `from` is a model, has no extension.
// A model without one is a SavedModel.
bool is_checkpoint_name(const std::string& to, Kind from) {
  return ends_in(to, {".index", ".ckpt"}) || (from != Kind::model && extension_of(to).empty() && !to.ends_with('/'));
}

// Whether both names are one file: a reader may still need what would be overwritten.
void require_apart(const std::string& from, const std::string& to) {
  std::error_code none;
  if (std::filesystem::equivalent(from, to, none))
    throw UsageError(fmt::format("'{}' and '{}' are the same file", from, to));
}

void convert_to_checkpoint(const ConvertSettings& s, const rill::NamedTensors& all) {
  const std::string prefix = ends_in(s.to, {".index"}) ? s.to.substr(0, s.to.size() - 6) : s.to;
  rill::save_checkpoint(prefix, all, 1, rill::Where());
  note(fmt::format("{} tensors in the checkpoint {}", all.size(), prefix));
}

rill::NamedTensors tensors_of(const ModelChoice& from, Kind kind) {
  if (kind != Kind::model) return load_tensors(from.path);
  const rill::Model model = read_model(from, true);
  rill::NamedTensors all;
  for (const auto& [name, v] : model.variables()) all[name] = v.value();
  return all;
}

void convert_tensors(const ConvertSettings& s, Kind kind) {
  const bool checkpoint = is_checkpoint_name(s.to, kind);
  if (!checkpoint) require_tensor_file(s.to, 0);
  if (s.compress && !ends_in(s.to, {".npz"})) throw UsageError("--compress is for .npz files");
  if (!s.shapes.empty()) throw UsageError("--shape is for models that become models");
  const rill::NamedTensors all = tensors_of(s.from, kind);
  if (checkpoint) return convert_to_checkpoint(s, all);
  rill::SaveOptions options;
  options.compress = s.compress;
  if (ends_in(s.to, {".safetensors"}) && kind == Kind::tensors)
    options.metadata = rill::load_metadata(s.from.path, rill::Where());
  if (ends_in(s.to, {".npy"}) && all.size() == 1) rill::save(s.to, all.begin()->second, options, rill::Where());
  else rill::save(s.to, all, options, rill::Where());
  note(fmt::format("{} tensors in {}, {}", all.size(), s.to, bytes_text(double(bytes_at(s.to)))));
}

void convert_model(const ConvertSettings& s, Task task) {
  // The importer optimizes constants more than Variables: normalisations become part of convolutions.
  const rill::Model model = read_model(s.from, task != Task::optimize);
  const bool whole = task == Task::convert && s.from.signature.empty() && s.shapes.empty();
  if (whole && model.functions().size() > 1 && ends_in(s.to, {".rill"})) {
    rill::save_functions(s.to, model, {}, rill::Where());
    note(fmt::format("{} functions in {}, {}", model.functions().size(), s.to, bytes_text(double(bytes_at(s.to)))));
    return;
  }
  if (const size_t n = model.functions().size(); n > 1 && s.from.signature.empty())
    note(fmt::format("of {} functions, this is '{}'. --signature chooses another", n, model.name()));
  rill::ExportOptions options;
  const auto shapes = parse_shapes(model, s.shapes);
  if (!shapes.empty()) options.signature = signature_of(model, shapes);
  options.external_data = s.external_data;
  options.freeze = task == Task::freeze;
  options.optimize = task == Task::optimize;
  rill::export_model(model, s.to, options, rill::Where());
  note(fmt::format("{}, {}", s.to, bytes_text(double(bytes_at(s.to)))));
}

int convert(const ConvertSettings& s, Task task) {
  require_apart(s.from.path, s.to);
  const Kind kind = kind_of(s.from.path);
  const bool tensors = ends_in(s.to, {".npz", ".npy", ".safetensors"}) || is_checkpoint_name(s.to, kind);
  if (s.external_data && !ends_in(s.to, {".onnx"})) throw UsageError("--external-data is for .onnx files");
  if (task == Task::convert && tensors) {
    convert_tensors(s, kind);
    return succeeded;
  }
  if (kind != Kind::model) throw UsageError(fmt::format("'{}' is no model, which '{}' would be", s.from.path, s.to));
  if (!is_model_name(s.to) && !extension_of(s.to).empty())
    throw UsageError(
        fmt::format("'{}': models are written as .onnx, .rill, .pb, or without an extension as the folder "
                    "of a SavedModel",
                    s.to));
  if (s.compress) throw UsageError("--compress is for .npz files");
  convert_model(s, task);
  return succeeded;
}

void add_conversion(Program& program, Task task, const char* name, const char* description,
                    const std::vector<std::string>& examples) {
  auto s = std::make_shared<ConvertSettings>();
  CLI::App* sub = add(program, name, description, examples);
  sub->add_option("FROM", s->from.path, "the file to read")->required();
  sub->add_option("TO", s->to, "the file to write, whose name says the format")->required();
  add_signature_options(sub, s->from);
  add_list(sub, "--shape", s->shapes, "fix sizes of an input that the file leaves open: x=1,3,224,224");
  sub->add_flag("--external-data", s->external_data, "ONNX: weights in a file beside the model");
  if (task == Task::convert) sub->add_flag("--compress", s->compress, ".npz: deflated");
  on_call(program, sub, [s, task] { return convert(*s, task); });
}

}  // namespace

void add_conversions(Program& program) {
  add_conversion(program, Task::convert, "convert", "a model, or tensors, as another file",
                 {"rill convert old.onnx new.onnx                  # in the newest opset",
                  "rill convert net.onnx batch8.onnx --shape x=8,3,224,224",
                  "rill convert net.onnx weights.safetensors       # its parameters",
                  "rill convert weights.npz weights.safetensors", "rill convert ckpt/step-100 weights.npz",
                  "rill convert weights.npz ckpt/step-0            # a checkpoint",
                  "rill convert net.onnx start.ckpt                # its parameters as one",
                  "rill convert saved_model/ net.rill --signature train"});
  add_conversion(program, Task::freeze, "freeze", "a model whose parameters are constants",
                 {"rill freeze trained.onnx fixed.onnx"});
  add_conversion(program, Task::optimize, "optimize",
                 "a model with constant parameters, with what they alone decide computed and equal nodes merged",
                 {"rill optimize net.onnx small.onnx", "rill optimize net.onnx small.onnx --shape x=1,3,224,224"});
}

}  // namespace command
