// save and load: the format that a path asks for.
#include "rill/serialize/save.h"

#include <new>

#include "rill/devices/registry.h"
#include "rill/ops/apply.h"
#include "rill/serialize/tensors/formats.h"

namespace rill {
namespace {

struct Format {
  std::string_view extension;
  void (*save)(const SaveRequest&, const NamedTensors&);  // null: is only read
  NamedTensors (*load)(const LoadRequest&);
  Metadata (*metadata)(const FileReader&);  // null: holds none
  bool compresses = false;
};
constexpr Format formats[] = {{".npy", save_npy, load_npy, nullptr},
                              {".npz", save_npz, load_npz, nullptr, true},
                              {".safetensors", save_safetensors, load_safetensors, safetensors_metadata},
                              {".gguf", nullptr, load_gguf, gguf_metadata}};

const Format& format_of(const std::string& path, std::string_view op, const Where& where) {
  const std::string extension = extension_of(path);
  for (const Format& f : formats)
    if (f.extension == extension) return f;
  fail(op,
       "'" + path + "': the extension says the format. use .npy, .npz or .safetensors" +
           (op == "save" ? "" : ", or .gguf"),
       where);
}

void require_options(const SaveRequest& request, const Format& f) {
  const std::string files = std::string(f.extension) + " files ";
  if (!request.options.metadata.empty() && !f.metadata) request.reject(files + "hold no metadata. use .safetensors");
  if (request.options.compress && !f.compresses) request.reject(files + "are not compressed. use .npz");
}

// What `read` gives; the names and texts of a large file may be more than memory holds.
template <class Read>
auto within_memory(const FileReader& file, Read&& read) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
    file.reject("needs more memory than there is");
  }
}

}  // namespace

void save(const std::string& path, const NamedTensors& x, SaveOptions options, Where where) {
  CallerScope caller(where);
  EagerScope eager;  // what is not traced is read, also when the call stands inside a function
  const SaveRequest request{path, options, where};
  const Format& format = format_of(path, "save", where);
  if (!format.save) request.reject(std::string(format.extension) + " files are only read. use .safetensors");
  require_options(request, format);
  format.save(request, x);
}

void save(const std::string& path, const Tensor& x, SaveOptions options, Where where) {
  save(path, NamedTensors{{"", x}}, std::move(options), where);
}

NamedTensors load(const std::string& path, LoadOptions options, Where where) {
  CallerScope caller(where);
  const Format& format = format_of(path, "load", where);
  EagerScope eager;
  const FileReader file(path, "load", where);
  std::vector<std::string> seen;
  NamedTensors out = within_memory(file, [&] { return format.load({file, options, seen}); });
  for (const std::string& name : options.names)
    if (!out.count(name) && !(options.unreadable && options.unreadable->count(name)) &&
        !(options.blocks && options.blocks->count(name)))
      file.reject("has no tensor named '" + name + "'. it has " + detail::some_of(seen));
  for (auto& [name, t] : out)
    if (t.dtype() != DType::string) t = t.to(default_device(), where);  // strings live on the host
  return out;
}

NamedMap<std::string> load_metadata(const std::string& path, Where where) {
  CallerScope caller(where);
  const Format& format = format_of(path, "load_metadata", where);
  const FileReader file(path, "load_metadata", where);
  return format.metadata ? within_memory(file, [&] { return format.metadata(file); }) : Metadata();
}

}  // namespace rill
