// The formats of tensors' files, one function to write and one to read each. save.cpp chooses.
#pragma once
#include <algorithm>

#include "rill/serialize/files.h"
#include "rill/serialize/save.h"
#include "rill/tensor/callback.h"

#pragma GCC visibility push(default)

namespace rill {

// What all readers are given: the file, and what is wanted of it.
struct LoadRequest {
  const FileReader& file;
  const LoadOptions& options;
  std::vector<std::string>& seen;  // the file's tensors, where options.names asks for some

  // Asked once of each tensor of the file.
  bool wants(const std::string& name) const {
    if (!options.names.empty()) seen.push_back(name);
    return options.names.empty() || std::find(options.names.begin(), options.names.end(), name) != options.names.end();
  }
  // Adds what `read` gives, or to options.unreadable why there is nothing.
  template <class Read>
  void add(NamedTensors& out, const std::string& name, Read&& read) const {
    if (!options.unreadable) return void(out.emplace(name, read()));
    try {
      out.emplace(name, read());
    } catch (const Error& e) {
      options.unreadable->emplace(name, e.what());
    }
  }
};
// What all writers are given.
struct SaveRequest {
  const std::string& path;
  const SaveOptions& options;
  const Where& where;

  // Throws "[save] 'path': what".
  [[noreturn]] void reject(const std::string& what) const { fail("save", "'" + path + "': " + what, where); }
};
using Metadata = std::map<std::string, std::string>;

void save_npy(const SaveRequest& request, const NamedTensors& tensors);
void save_npz(const SaveRequest& request, const NamedTensors& tensors);
void save_safetensors(const SaveRequest& request, const NamedTensors& tensors);
// Gives `write` the bytes of such a file, in order.
void write_safetensors(const SaveRequest& request, const NamedTensors& tensors,
                       const Callback<void(std::string_view)>& write);

NamedTensors load_npy(const LoadRequest& request);
NamedTensors load_npz(const LoadRequest& request);
NamedTensors load_safetensors(const LoadRequest& request);
NamedTensors load_gguf(const LoadRequest& request);

Metadata safetensors_metadata(const FileReader& file);
Metadata gguf_metadata(const FileReader& file);

}  // namespace rill

#pragma GCC visibility pop
