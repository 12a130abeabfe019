// rill convert, freeze, optimize: a model as another file; convert does it with files of tensors, too.
#include <filesystem>

#include "command.h"
#include "files.h"
#include "terminal.h"

namespace command {
namespace {

enum class Task { convert, freeze, optimize };

struct Settings {
  std::string from, to;
  std::vector<std::string> shapes;
  bool external_data = false, compress = false;
};

bool is_tensor_file(const std::string& path) {
  const std::string e = std::filesystem::path(path).extension().string();
  return e == ".npz" || e == ".npy" || e == ".safetensors";
}

// Whether both names mean one file: a reader may still need what would be written over.
void require_apart(const std::string& from, const std::string& to) {
  std::error_code none;
  if (std::filesystem::equivalent(from, to, none))
    throw UsageError(fmt::format("'{}' and '{}' are the same file", from, to));
}

void convert_tensors(const Settings& s) {
  const rill::NamedTensors all = load_tensors(s.from);
  rill::SaveOptions options;
  options.compress = s.compress;
  if (s.to.ends_with(".safetensors") && kind_of(s.from) == Kind::tensors)
    options.metadata = rill::load_metadata(s.from, rill::Where());
  if (s.to.ends_with(".npy") && all.size() == 1) rill::save(s.to, all.begin()->second, options, rill::Where());
  else rill::save(s.to, all, options, rill::Where());
  note(fmt::format("{} tensors in {}, {}", all.size(), s.to, bytes_text(double(bytes_at(s.to)))));
}

void convert_model(const Settings& s, Task task) {
  // Of constants the importer makes more than of Variables: normalisations become part of convolutions.
  const rill::Model model = rill::import_model(s.from, {.trainable = task != Task::optimize}, rill::Where());
  rill::ExportOptions options;
  const auto shapes = parse_shapes(model, s.shapes);
  if (!shapes.empty()) options.signature = signature_of(model, shapes);
  options.external_data = s.external_data;
  options.freeze = task == Task::freeze;
  options.optimize = task == Task::optimize;
  rill::export_model(model, s.to, options, rill::Where());
  note(fmt::format("{}, {}", s.to, bytes_text(double(bytes_at(s.to)))));
}

int convert(const Settings& s, Task task) {
  require_apart(s.from, s.to);
  if (task == Task::convert && is_tensor_file(s.to)) convert_tensors(s);
  else convert_model(s, task);
  return succeeded;
}

void add_conversion(Program& program, Task task, const char* name, const char* description,
                    const std::vector<std::string>& examples) {
  auto s = std::make_shared<Settings>();
  CLI::App* sub = add(program, name, description, examples);
  sub->add_option("FROM", s->from, "the file to read")->required();
  sub->add_option("TO", s->to, "the file to write, whose name says the format")->required();
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
                  "rill convert weights.npz weights.safetensors", "rill convert ckpt/step-100 weights.npz"});
  add_conversion(program, Task::freeze, "freeze", "a model whose parameters are constants",
                 {"rill freeze trained.onnx fixed.onnx"});
  add_conversion(program, Task::optimize, "optimize",
                 "a model with constant parameters, with what they alone decide computed and equal nodes merged",
                 {"rill optimize net.onnx small.onnx", "rill optimize net.onnx small.onnx --shape x=1,3,224,224"});
}

}  // namespace command
