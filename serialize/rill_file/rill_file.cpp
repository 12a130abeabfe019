// .rill files: the zip, the JSON that lists functions, Variables and tensors, and Models of them.
#include "rill/serialize/rill_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "rill/ops/apply.h"
#include "rill/ops/state/variable_state.h"
#include "rill/serialize/model/model_impl.h"
#include "rill/serialize/rill_file/fields.h"
#include "rill/serialize/rill_file/graph_json.h"
#include "rill/serialize/rill_file/package.h"
#include "rill/serialize/tensors/formats.h"
#include "rill/serialize/zip_archive.h"
#include "rill/tensor/version.h"
#include "rill/trace/graph/unique_names.h"

namespace rill {
namespace rill_file {
namespace {

// The newest format that this reader knows. Files with a later one are refused.
constexpr int64_t format_version = 1;
constexpr const char *graph_member = "graph.json", *weights_member = "weights.safetensors";

// --- Writing ---------------------------------------------------------------------------------------------------------

class Text final : public MemberBytes {
 public:
  explicit Text(std::string text) : text_(std::move(text)) {}
  uint64_t size() const override { return text_.size(); }
  void start() override { given_ = false; }
  bool next(std::string_view& piece) override {
    if (std::exchange(given_, true) || text_.empty()) return false;
    piece = text_;
    return true;
  }

 private:
  const std::string text_;
  bool given_ = false;
};

std::vector<std::string> output_names(const FunctionToSave& f, size_t count, const Where& where) {
  std::vector<std::string> names = f.options.outputs;
  if (names.empty())
    for (size_t k = 0; k < count; ++k) names.push_back(count == 1 ? "output" : fmt::format("output_{}", k));
  if (names.size() != count || std::set(names.begin(), names.end()).size() != count)
    fail("save_functions",
         fmt::format("'{}' has {} results, and {} names are given. give one each, all different", f.name, count,
                     names.size()),
         where);
  return names;
}

void write_archive(const std::string& path, const json& graph, const NamedTensors& numbers,
                   const RillFileOptions& options, const Where& where) {
  FileWriter out(path, "save_functions", where);
  const Callback<void(const std::string&)> reject = [&](const std::string& what) {
    fail("save_functions", fmt::format("'{}': {}", path, what), where);
  };
  std::string weights;
  const SaveOptions plain;
  write_safetensors({path, plain, where}, numbers, [&](std::string_view piece) { weights += piece; });
  std::string text;
  try {
    text = graph.dump(1);
  } catch (const nlohmann::json::exception&) {
    reject("a name in it is no UTF-8 text");
  }
  ZipWriter archive(out.part(), reject);
  archive.add(graph_member, std::make_unique<Text>(std::move(text)), true);
  archive.add(weights_member, std::make_unique<Text>(std::move(weights)), options.compress);
  archive.close();
  out.commit();
}

// --- Reading ---------------------------------------------------------------------------------------------------------

void check_version(const json& all) {
  if (text_or(all, "format", "") != "rill") reject("it does not say that it is rill's");
  const int64_t of = whole(field(all, "version"), 1, 1 << 30, "the version");
  if (of > format_version)
    reject(
        fmt::format("the file is of version {}, made by {}; this is {}, which reads versions up to {}. read it with "
                    "a newer one",
                    of, text_or(all, "made_by", "a newer rill"), rill::version(), format_version));
}

void read_variables(const json& all, const TensorReader& tensors, bool trainable, Package& p) {
  for (const json& v : list(all, "variables")) {
    const EagerScope eager;
    p.trainable.push_back(flag(v, "trainable"));
    Variable made(tensors.at(field(v, "value")),
                  {.name = text(field(v, "name"), "a name"), .trainable = trainable && p.trainable.back()});
    if (flag(v, "frozen")) made.freeze();
    p.variables.push_back(std::move(made));
  }
}

PackedFunction read_packed(const json& f, const TensorReader& tensors, const std::vector<Variable>& variables,
                           const Where& where) {
  PackedFunction p;
  p.name = text(field(f, "name"), "a name");
  p.function = std::make_shared<GraphFunction>(p.name, read_function(f, tensors, variables), where);
  p.function->check();
  for (const json& name : list(f, "outputs")) p.outputs.push_back(text(name, "a name"));
  if (p.outputs.size() != p.function->traced().graph.outputs.size())
    reject(fmt::format("function '{}' has {} results and {} names for them", p.name,
                       p.function->traced().graph.outputs.size(), p.outputs.size()));
  return p;
}

// The two members of a file, unpacked.
struct Parts {
  std::string graph, weights;
};
Parts read_parts(const FileReader& file) {
  ZipReader archive(file, "a zip file of graph.json and weights.safetensors");
  std::optional<std::string> graph, weights;
  for (uint64_t i = 0; i < archive.count(); ++i) {
    const ZipReader::Member m = archive.next(i);
    std::optional<std::string>* to = m.name() == graph_member     ? &graph
                                     : m.name() == weights_member ? &weights
                                                                  : nullptr;
    if (!to) continue;
    if (*to) m.reject("a second member of that name");
    *to = m.read();
  }
  if (!graph || !weights) file.reject(fmt::format("has no member '{}'", graph ? weights_member : graph_member));
  return {std::move(*graph), std::move(*weights)};
}

}  // namespace

Package read_package(const std::string& graph, std::string weights, const std::string& path, bool trainable,
                     const Where& where) {
  const json all = json::parse(graph, nullptr, false);
  if (all.is_discarded()) reject(fmt::format("member '{}' is no JSON. the file is damaged", graph_member));
  check_version(all);
  const FileReader part(std::move(weights), path + "/" + weights_member, "import_model", where);
  const LoadOptions every;
  std::vector<std::string> seen;
  const TensorReader tensors(list(all, "tensors"), load_safetensors({part, every, seen}));
  Package p;
  read_variables(all, tensors, trainable, p);
  std::set<std::string> names;
  for (const json& f : list(all, "functions")) {
    p.functions.push_back(read_packed(f, tensors, p.variables, where));
    if (!names.insert(p.functions.back().name).second) reject("two functions are called " + p.functions.back().name);
  }
  if (p.functions.empty()) reject("the file holds no function");
  if (const json* metadata = find(all, "metadata"))
    for (const auto& [key, value] : metadata->items()) p.metadata[key] = text(value, "metadata");
  return p;
}

namespace {

// --- Models ----------------------------------------------------------------------------------------------------------

ValueInfo info_of(const std::string& name, const Spec& s, UniqueNames& taken) {
  return {taken.add(name), s.dtype, s.shape};
}

}  // namespace

// Another Model of the same file.
static Model model_of(const Shared<Package>& package, size_t which, const Where& where) {
  const PackedFunction& f = package->functions[which];
  auto impl = Shared<Model::Impl>::make();
  impl->name = f.name;
  impl->package = package;
  impl->loaded = f.function;
  impl->metadata = package->metadata;
  UniqueNames inputs, outputs, variables;
  for (const ArgSpec& a : f.function->arguments()) impl->inputs.push_back(info_of(a.name, a.spec, inputs));
  const std::vector<Spec> results = f.function->results();
  for (size_t k = 0; k < results.size(); ++k) impl->outputs.push_back(info_of(f.outputs[k], results[k], outputs));
  for (const Variable& v : package->variables) impl->variables.emplace(variables.add(v.name()), v);
  impl->run = [function = f.function, where](const Model::Impl::Given& given) {
    std::vector<Tensor> arguments;
    for (const std::vector<Tensor>& one : given) arguments.push_back(one[0]);
    Model::Impl::Results out;
    for (Tensor& t : (*function)(std::move(arguments), where)) out.push_back({false, false, {std::move(t)}});
    return out;
  };
  impl->trace(where);
  return Model(impl);
}

// The function that import_model() returns: by default the first.
static size_t selected_function(const Package& package, const ImportOptions& options, const FileReader& file) {
  std::string names;
  for (size_t k = 0; k < package.functions.size(); ++k) {
    if (package.functions[k].name == options.signature) return k;
    names += (k ? ", '" : "'") + package.functions[k].name + "'";
  }
  if (options.signature == ImportOptions().signature) return 0;
  file.reject(fmt::format("there is no function '{}'. it has {}", options.signature, names));
}

Model import_rill(const std::string& path, const ImportOptions& options, const Where& where) {
  const FileReader file(path, "import_model", where);
  try {
    Parts parts = read_parts(file);
    const auto package =
        Shared<Package>::make(read_package(parts.graph, std::move(parts.weights), path, options.trainable, where));
    return model_of(package, selected_function(*package, options, file), where);
  } catch (const Error& e) {
    if (std::string_view(e.what()).find(path) != std::string_view::npos) throw;
    file.reject(e.what());
  }
}

}  // namespace rill_file

FunctionToSave::FunctionToSave(std::string function_name, const Model& m)
    : name(std::move(function_name)), package(m.impl()->package) {
  for (const ValueInfo& v : m.outputs()) options.outputs.push_back(v.name);
  trace = [m](const FunctionToSaveOptions&, const Where& where) { return m.impl()->traced_whole(where); };
}

void rill_file::export_rill(const FunctionCore::OpenGraph& traced, const Shared<Package>& of, const std::string& path,
                            const ExportOptions& options, const Where& where) {
  FunctionToSave f(traced.graph.name, [traced](const FunctionToSaveOptions&, const Where&) { return traced; },
                   {.outputs = options.outputs});
  f.package = of;
  RillFileOptions file{.metadata = options.metadata, .variables = options.variables};
  if (!options.doc.empty()) file.metadata["doc"] = options.doc;
  save_functions(path, {std::move(f)}, file, where);
}

void save_functions(const std::string& path, const std::vector<FunctionToSave>& functions,
                    const RillFileOptions& options, Where where) {
  using namespace rill_file;
  if (extension_of(path) != ".rill")
    fail("save_functions", fmt::format("'{}': a file of functions is known by its name, which ends in .rill", path),
         where);
  if (functions.empty()) fail("save_functions", fmt::format("'{}': there are no functions to save", path), where);
  std::set<std::string> names;
  std::vector<FunctionCore::OpenGraph> traced;
  std::vector<const Graph*> graphs;
  for (const FunctionToSave& f : functions) {
    if (!names.insert(f.name).second)
      fail("save_functions", fmt::format("two functions are called '{}'. give each a name of its own", f.name), where);
    traced.push_back(f.trace(f.options, where));
  }
  for (const FunctionCore::OpenGraph& t : traced) graphs.push_back(&t.graph);
  const VariableValues values("save_functions", graphs, options.variables, where);
  TensorWriter tensors;
  VariableWriter variables(tensors, values);
  for (const FunctionToSave& f : functions)
    for (size_t k = 0; f.package && k < f.package->variables.size(); ++k)
      variables.note_trainable(f.package->variables[k], f.package->trainable[k]);
  json list = json::array();
  for (size_t k = 0; k < functions.size(); ++k) {
    const FunctionToSave& f = functions[k];
    try {
      list.push_back(write_function(f.name, traced[k], output_names(f, traced[k].graph.outputs.size(), where), tensors,
                                    variables));
    } catch (const Error& e) {
      fail("save_functions", fmt::format("'{}': function '{}': {}", path, f.name, e.what()), where);
    }
  }
  json all = {{"format", "rill"}, {"version", format_version}, {"made_by", std::string("rill ") + rill::version()}};
  all["metadata"] = options.metadata;
  all["variables"] = variables.list();
  all["tensors"] = tensors.list();
  all["functions"] = std::move(list);
  write_archive(path, all, tensors.numbers(), options, where);
}

std::vector<std::string> Model::functions() const {
  if (!impl_->package) return {impl_->name};
  std::vector<std::string> names;
  for (const rill_file::PackedFunction& f : impl_->package->functions) names.push_back(f.name);
  return names;
}

Model Model::function(const std::string& name, Where where) const {
  const std::vector<std::string> names = functions();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end())
    fail("Model.function", fmt::format("the file has no function '{}'. it has {}", name, fmt::join(names, ", ")),
         where);
  if (!impl_->package) return *this;
  return rill_file::model_of(impl_->package, size_t(at - names.begin()), where);
}

void save_functions(const std::string& path, const Model& model, const RillFileOptions& options, Where where) {
  std::vector<FunctionToSave> all;
  for (const std::string& name : model.functions()) all.emplace_back(name, model.function(name, where));
  RillFileOptions with_its = options;
  with_its.metadata.insert(model.impl()->metadata.begin(), model.impl()->metadata.end());
  save_functions(path, all, with_its, where);
}

}  // namespace rill
