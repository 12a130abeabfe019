// Arrays in files; see arrays.h.
#include "rill/data/files/arrays.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "rill/data/files/blocks.h"
#include "rill/data/files/row_array.h"
#include "rill/data/idx.h"
#include "rill/serialize/save.h"

namespace rill::data {
namespace {

using detail::Block;
using detail::RowArray;
using detail::RowList;
using detail::RowMaker;

// Arrays side by side.
struct Arrays {
  std::shared_ptr<const std::vector<std::string>> names;
  std::vector<RowList> columns;
  int64_t rows = 0;
};

// Opens an array by name.
using OpenArray = Callback<RowArray(const std::string& name)>;

std::vector<std::string> chosen_names(const std::string& op, const std::string& path,
                                      const std::vector<std::string>& there, const ArrayOptions& o,
                                      const RowMaker& maker, const Where& where) {
  const auto quoted = [&] {
    std::vector<std::string> all;
    for (const std::string& name : there) all.push_back("'" + name + "'");
    return fmt::format("{}", fmt::join(all, ", "));
  };
  std::vector<std::string> names = o.names;
  if (names.empty() && maker.all) names = there;
  if (names.empty() && !maker.fields.empty() && !maker.fields[0].name.empty())
    for (const auto& f : maker.fields) names.push_back(f.name);
  if (names.empty()) names = there;
  if (names.empty()) fail(op, fmt::format("'{}' has no arrays", path), where);
  if (!maker.all && names.size() != maker.fields.size())
    fail(op,
         fmt::format("'{}': {} arrays for a row of {} fields. ArrayOptions::names says which are those of the fields. "
                     "it has {}",
                     path, names.size(), maker.fields.size(), quoted()),
         where);
  for (const std::string& name : names)
    if (std::ranges::find(there, name) == there.end())
      fail(op, fmt::format("'{}' has no array '{}'. it has {}", path, name, quoted()), where);
  return names;
}

Arrays open_arrays(const std::string& op, const std::string& path, std::vector<std::string> names,
                   const RowMaker& maker, const OpenArray& open, const Where& where) {
  Arrays all;
  for (size_t k = 0; k < names.size(); ++k) {
    RowList& column = all.columns.emplace_back();
    column.add(open(names[k]), path, op, where);
    const auto asked = maker.all ? std::optional<DType>() : maker.fields[k].dtype;
    const Spec& row = column.row_spec();
    if (asked && (*asked != row.dtype || !row.shape.empty()))
      fail(op,
           fmt::format("'{}': the rows of the array '{}' are {}, and the field that takes them is {}: make it a "
                       "Tensor, or of their type",
                       path, names[k], to_string(row), rill::name(*asked)),
           where);
    if (k > 0 && column.rows() != all.rows)
      fail(op,
           fmt::format("'{}': the array '{}' has {} rows and '{}' has {}: they must have as many. ArrayOptions::names "
                       "chooses arrays",
                       path, names[0], all.rows, names[k], column.rows()),
           where);
    all.rows = column.rows();
  }
  all.names = std::make_shared<const std::vector<std::string>>(std::move(names));
  return all;
}

StagePtr arrays_stage(std::string name, Arrays arrays, const RowMaker& maker, const Where& where) {
  const auto all = std::make_shared<const Arrays>(std::move(arrays));
  const auto block = [all](std::span<const int64_t> indices) {
    Block b{all->names, {}, {}, int64_t(indices.size())};
    for (const RowList& column : all->columns) b.columns.push_back(column.stacked(indices));
    b.valid.resize(b.columns.size());
    return b;
  };
  Callback<Item(const std::vector<int64_t>&)> stacked;
  if (maker.stacked)
    stacked = [block, make = maker.stacked](const std::vector<int64_t>& indices) { return make(block(indices)); };
  return stages::indexed(
      std::move(name), all->rows,
      [block, make = maker.row](int64_t i) { return make(block(std::span<const int64_t>(&i, 1)), 0); }, where,
      std::move(stacked));
}

Dataset<Tensor> rows_of_list(std::string name, RowList list, const Where& where) {
  const auto all = std::make_shared<const RowList>(std::move(list));
  return Dataset<Tensor>(stages::indexed(
      std::move(name), all->rows(), [all](int64_t i) { return Item::of(detail::column_tensor(all->row(i))); }, where,
      [all](const std::vector<int64_t>& indices) { return Item::of(detail::column_tensor(all->stacked(indices))); }));
}

// An array of a file; errors name the file.
RowArray npy_of(const std::string& path, const std::shared_ptr<char>& mapping, uint64_t at, uint64_t bytes,
                const std::string& op, const Where& where) {
  return RowArray::npy(mapping, at, bytes, [=](uint64_t place, const std::string& what) {
    fail(op, fmt::format("'{}' at byte {}: {}", path, at + place, what), where);
  });
}

}  // namespace

Dataset<Tensor> npy(const Paths& paths, Where where) {
  const Where at = caller_or(where);
  const std::string op = "data::npy";
  RowList all;
  for (const std::string& path : paths.files(op, at)) {
    const FileReader file(path, "data::npy", at);
    if (file.size() == 0) file.reject("is empty. expected a .npy file");
    all.add(npy_of(path, file.map(), 0, file.size(), op, at), path, op, at);
  }
  return rows_of_list("npy", std::move(all), at);
}

Dataset<Tensor> idx(const Paths& paths, Where where) {
  const Where at = caller_or(where);
  const CallerScope caller(at);
  RowList all;
  for (const std::string& path : paths.files("data::idx", at)) {
    const Tensor t = read_idx(path, at).to(Device());
    if (t.ndim() == 0) fail("data::idx", fmt::format("'{}' is a scalar, which has no rows", path), at);
    all.add(RowArray::of(t), path, "data::idx", at);
  }
  return rows_of_list("idx", std::move(all), at);
}

namespace detail {

StagePtr npz_stage(const std::string& path, const ArrayOptions& options, RowMaker maker, const Where& given) {
  const Where where = caller_or(given);
  const std::string op = "data::npz";
  const FileReader file(path, "data::npz", where);
  const std::vector<NpzMember> members = npz_members(file);
  std::vector<std::string> there;
  for (const NpzMember& m : members) there.push_back(m.name);
  const std::shared_ptr<char> mapping = file.map();
  const OpenArray open = [&](const std::string& name) {
    const NpzMember& m = *std::ranges::find(members, name, &NpzMember::name);
    if (!m.packed) return npy_of(path, mapping, m.at, m.bytes, op, where);
    const Tensor t = load(path, {.names = {name}}, where).at(name).to(Device());
    if (t.ndim() == 0) fail(op, fmt::format("'{}': '{}' is a scalar, which has no rows", path, name), where);
    return RowArray::of(t);
  };
  std::vector<std::string> names = chosen_names(op, path, there, options, maker, where);
  return arrays_stage("npz", open_arrays(op, path, std::move(names), maker, open, where), maker, where);
}

StagePtr safetensors_stage(const std::string& path, const ArrayOptions& options, RowMaker maker, const Where& given) {
  const Where where = caller_or(given);
  const CallerScope caller(where);
  const std::string op = "data::safetensors";
  if (extension_of(path) != ".safetensors")
    fail(op, fmt::format("'{}': expected a file whose name ends in .safetensors", path), where);
  const NamedTensors tensors = load(path, {.mapped = true}, where);
  std::vector<std::string> there;
  for (const auto& [name, t] : tensors) there.push_back(name);
  const OpenArray open = [&](const std::string& name) {
    const Tensor& t = tensors.at(name);
    if (t.ndim() == 0) fail(op, fmt::format("'{}': '{}' is a scalar, which has no rows", path, name), where);
    return RowArray::of(t.to(Device()));
  };
  std::vector<std::string> names = chosen_names(op, path, there, options, maker, where);
  return arrays_stage("safetensors", open_arrays(op, path, std::move(names), maker, open, where), maker, where);
}

}  // namespace detail
}  // namespace rill::data
