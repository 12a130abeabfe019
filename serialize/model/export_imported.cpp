// export_model of a Model: what was imported, as a function of as many tensors as it has inputs, is written as every
// other function is.
#include <fmt/format.h>

#include "rill/serialize/export_model.h"
#include "rill/serialize/model/imported_control.h"
#include "rill/serialize/model/model_impl.h"
#include "rill/serialize/model/write_model.h"

namespace rill {
namespace {

// The tensors of a call by inputs, those that are optional left out.
Model::Impl::Given by_input(const Model::Impl& impl, const std::vector<Tensor>& tensors) {
  Model::Impl::Given given;
  size_t next = 0;
  for (const ValueInfo& v : impl.inputs) {
    given.emplace_back();
    if (!v.optional) given.back().push_back(tensors[next++]);
  }
  return given;
}

// What the file that it was read from says about itself stays, where the options say nothing else.
void add_metadata(const Model::Impl& impl, ExportOptions& options) {
  for (const auto& [key, text] : impl.metadata) {
    if (key != "doc") options.metadata.emplace(key, text);
    else if (options.doc.empty()) options.doc = text;
  }
}

void add_size_names(const Model::Impl& impl, ExportOptions& options) {
  for (const ValueInfo& v : impl.inputs)
    for (size_t i = 0; i < v.size_names.size(); ++i)
      if (!v.size_names[i].empty()) options.size_names.emplace(fmt::format("{}.dim({})", v.name, i), v.size_names[i]);
}

}  // namespace

void export_model(const Model& model, const std::string& path, ExportOptions options, Where where) {
  const Shared<Model::Impl>& impl = model.impl();
  add_metadata(*impl, options);
  if (impl->loaded && options.signature.empty()) {  // traced already
    if (options.outputs.empty())
      for (const ValueInfo& v : impl->outputs) options.outputs.push_back(v.name);
    return write_model(impl->loaded->traced(), path, options, impl->package, where);
  }
  add_size_names(*impl, options);
  options.signature = impl->signature(options.signature, where);

  std::vector<std::string> names;  // of what it gives, found as it is traced
  const auto body = [&](const std::vector<Tensor>& tensors) {
    std::vector<Tensor> out;
    names.clear();
    const CallerScope caller(where,
                             "export_model");  // what the file's operators look at is looked at by rill's functions
    const imported::AllSizes all_sizes;
    const Model::Impl::Results results = impl->run(by_input(*impl, tensors));
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string& name = impl->outputs[i].name;
      if (results[i].sequence)
        fail("export_model", fmt::format("'{}' gives the sequence '{}', which no model file holds", impl->name, name),
             where);
      if (results[i].absent) continue;
      names.push_back(name);
      out.push_back(results[i].tensors[0]);
    }
    return out;
  };
  const auto f = function(impl->name, body, FunctionOptions(), where);
  try {
    const FunctionCore::OpenGraph traced = detail::FunctionParts::trace(f, options.signature, {}, where);
    if (options.outputs.empty()) options.outputs = names;
    write_model(traced, path, options, impl->package, where);
  } catch (const Error& e) {
    if (!impl->needs_values || !impl->needs_values(e)) throw;
    fail("export_model", fmt::format("'{}' can only be run op by op, and cannot be written: {}", impl->name, e.what()),
         where);
  }
}

}  // namespace rill
