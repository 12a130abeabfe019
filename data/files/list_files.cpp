// Lists of files, and entire files; see text.h.
#include "rill/data/files/text.h"
#include "rill/devices/registry.h"
#include "rill/ops/ops.h"
#include "rill/serialize/files.h"

namespace rill::data {

Dataset<Tensor> list_files(const Paths& patterns, const ListFilesOptions& o, Where where) {
  const CallerScope caller(where);
  std::vector<Item> items;
  for (const std::string& pattern : patterns.given())
    for (const std::string& path : detail::matches(pattern, "data::list_files", where))
      items.push_back(Item::of(tensor(path, {.device = Device()})));
  const Dataset<Tensor> all(stages::from_items("list_files", std::move(items), where));
  return o.shuffle ? all.shuffle({.seed = o.seed}, where) : all;
}

}  // namespace rill::data

namespace rill {

Tensor read_file(const Tensor& path, Where where) {
  const CallerScope caller(where);
  if (path.dtype() != DType::string) fail("read_file", "takes paths, strings. got " + to_string(path.spec()), where);
  Tensor all = empty_tensor(Spec{path.shape(), DType::string, false, Device()});
  auto* to = reinterpret_cast<std::string*>(all.mutable_rep()->data);
  for (const std::string& p : path.to_vector<std::string>()) *to++ = read_file(p, "read_file", where, Accepts::streams);
  return all;
}

void write_file(const std::string& path, const Tensor& bytes, Where where) {
  const CallerScope caller(where);
  if (bytes.dtype() != DType::string || bytes.size() != 1)
    fail("write_file", "takes one string, the file's bytes. got " + to_string(bytes.spec()), where);
  write_file(path, bytes.item<std::string>(), "write_file", where);
}

}  // namespace rill
