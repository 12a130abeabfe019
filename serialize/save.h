// save and load: tensors in files that numpy, safetensors and their like read and write. The path's extension says
// which format.
//
//   save("weights.safetensors", {{"w", w}, {"b", b}});
//   Tensor w = load("weights.safetensors").at("w");
#pragma once
#include "rill/tensor/compiler.h"

#include <concepts>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rill/ops/blocks.h"
#include "rill/tensor/named_map.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

using NamedTensors = NamedMap<Tensor>;

struct SaveOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::map<std::string, std::string> metadata = {};  // .safetensors: text about the tensors, by name
  bool compress = false;                             // .npz: deflated
};
struct LoadOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  // The tensors' elements stay in the file until they are touched, where it holds them as they lie in memory. They keep
  // their values when the file is replaced or deleted, but not when another program changes or shortens it in place.
  bool mapped = false;
  std::vector<std::string> names = {};  // only these; empty: all
  // Tensors that cannot be read, of a dtype that is none of rill's say, go here by name, with the reason; null: the
  // first is an error.
  std::map<std::string, std::string>* unreadable = nullptr;
  // .gguf: tensors in blocks of quantised numbers go here as they are, by name, and stay as small as in the file; null:
  // they become f32.
  NamedMap<Blocks>* blocks = nullptr;
};

// Writes `x` alone, under the name "". Formats by extension:
//
//   .npy          numpy: one tensor of any dtype but bf16 and the 8-bit floats. A transposed matrix is written as it
//                 lies, in Fortran order
//   .npz          numpy: a zip file of these (in builds with libzip)
//   .safetensors  any dtype but c128 and string
//
// Strings become numpy's unicode text, or its bytes where one of them is no UTF-8. Makes the folders that are missing.
// The file is complete or absent: it is written under another name, flushed to the disk and moved, in place of one of
// that name. Throws rill::Error for another extension, what a format cannot hold and where the disk refuses.
void save(const std::string& path, const Tensor& x, SaveOptions options = {}, Where where = Where::current());
// Writes tensors with their names: save("all.npz", {{"w", w}, {"b", b}}). A .npy file holds no names.
void save(const std::string& path, const NamedTensors& x, SaveOptions options = {}, Where where = Where::current());
// Writes any list of pairs of a name and a tensor or Variable, such as a map of Variables.
template <class Pairs>
  requires requires(const Pairs& x) {
    { x.begin()->first } -> std::convertible_to<std::string>;
    { x.begin()->second } -> std::convertible_to<Tensor>;
  } && (!std::same_as<Pairs, NamedTensors>)
void save(const std::string& path, const Pairs& x, SaveOptions options = {}, Where where = Where::current()) {
  NamedTensors all;
  for (const auto& [name, value] : x)
    if (!all.emplace(name, value).second)
      fail("save", "'" + path + "': the name '" + std::string(name) + "' is given twice", where);
  save(path, all, std::move(options), where);
}

// The tensors of a file, by name, on the default device; that of a .npy file has the name "". Reads what save() writes,
// and:
//
//   .npy, .npz    big-endian files, Fortran order, headers of every version. Tensors are dense and row-major.
//   .gguf         llama.cpp's weights. Blocks of quantised numbers become f32, or stay what they are (`blocks`)
//
// Files may come from anywhere: what is no such file, or damaged, is an error that names the place. No code in a file
// is ever run. Throws rill::Error also where a dtype is none of rill's, and for a name in `options` that is not there.
NamedTensors load(const std::string& path, LoadOptions options = {}, Where where = Where::current());
// The text about its tensors that a file holds, by name: the metadata of .safetensors and .gguf. Reads no tensor.
NamedMap<std::string> load_metadata(const std::string& path, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
