// Folders of pictures; see image_folder.h.
#include "rill/data/image_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "rill/data/engine/seeds.h"
#include "rill/data/images/codecs.h"
#include "rill/data/images/colour.h"
#include "rill/ops/option_checks.h"
#include "rill/serialize/files.h"

namespace rill::data {
namespace {

constexpr std::string_view op = "data::image_folder";
using Picture = std::pair<std::string, int64_t>;  // its path and its class

// The files of a class, in its folder and those below, sorted.
void add_class(const std::filesystem::path& folder, int64_t label, const ImageFolderOptions& o,
               std::vector<Picture>& pictures) {
  std::vector<std::string> paths;
  for (const auto& e : std::filesystem::recursive_directory_iterator(
           folder, std::filesystem::directory_options::skip_permission_denied)) {
    const std::string path = e.path().string();
    if (e.path().filename().string().starts_with('.') || !e.is_regular_file()) continue;
    if (std::ranges::find(o.extensions, extension_of(path)) != o.extensions.end()) paths.push_back(path);
  }
  std::ranges::sort(paths);
  for (std::string& path : paths) pictures.emplace_back(std::move(path), label);
}

std::vector<std::string> class_names(const std::string& folder, const Where& where) {
  std::error_code unreadable;
  std::vector<std::string> names;
  for (const auto& e : std::filesystem::directory_iterator(folder, unreadable)) {
    const std::string name = e.path().filename().string();
    if (e.is_directory() && !name.starts_with('.')) names.push_back(name);
  }
  if (unreadable) fail(op, fmt::format("cannot read the folder '{}': {}", folder, unreadable.message()), where);
  std::ranges::sort(names);
  return names;
}

// Those of the subset: of all in the order of a number that seed and name (below `folder`) give, the first ones are for
// validation. A file that is added or lost moves few others.
std::vector<Picture> in_subset(std::vector<Picture> all, const std::string& folder, const ImageFolderOptions& o) {
  if (o.validation == 0) return all;
  const auto number = [&](const Picture& p) {
    uint64_t n = o.seed.value_or(0);
    std::string_view name = std::string_view(p.first).substr(folder.size());
    if (name.starts_with('/')) name.remove_prefix(1);
    for (char c : name) n = mixed(n ^ uint8_t(c));
    return n;
  };
  std::vector<std::pair<uint64_t, Picture>> drawn;
  for (Picture& p : all) {
    const uint64_t n = number(p);
    drawn.emplace_back(n, std::move(p));
  }
  std::ranges::sort(drawn);
  const auto cut = drawn.begin() + ptrdiff_t(double(drawn.size()) * o.validation);
  const bool validates = o.subset == Subset::validation;
  std::vector<Picture> chosen;
  for (auto i = validates ? drawn.begin() : cut; i != (validates ? cut : drawn.end()); ++i)
    chosen.push_back(std::move(i->second));
  std::ranges::sort(chosen, {}, [](const Picture& p) { return std::pair(p.second, p.first); });
  return chosen;
}

Tensor read(const std::string& path, const ImageFolderOptions& o) {
  images::DecodeOptions decoding = {.channels = o.channels, .dtype = DType::u8};
  if (o.fast_jpeg) decoding.at_least = o.size;
  Tensor x = images::decode_image(rill::read_file(path, op, Where::current(), Accepts::streams), decoding);
  if (!o.size.empty()) {
    const images::ResizeOptions resizing = {.method = o.method, .antialias = o.antialias};
    x = o.crop_to_aspect_ratio ? images::resize_with_crop(x, o.size, resizing) : images::resize(x, o.size, resizing);
  }
  return images::convert_dtype(x, o.dtype);
}

void check(const ImageFolderOptions& o, const Where& where) {
  require_option(o.channels == 1 || o.channels == 3 || o.channels == 4, op, "channels", o.channels, "1, 3 or 4", where);
  require_option(o.dtype == DType::u8 || is_floating(o.dtype), op, "dtype", name(o.dtype), "u8 or a floating one",
                 where);
  require_fraction(op, "validation", o.validation, where);
  for (const std::string& e : o.extensions)
    require_option(e.starts_with('.') && std::ranges::none_of(e, [](char c) { return c >= 'A' && c <= 'Z'; }), op,
                   "an extension", "'" + e + "'", "a dot and lower case: '.jpg', which stands for '.JPG' as well",
                   where);
  if (!o.size.empty() && (o.size.size() != 2 || o.size[0] < 1 || o.size[1] < 1))
    fail(op, fmt::format("size takes {{height, width}}, each at least 1. got {}", to_string(Shape(o.size))), where);
  if (o.validation == 0 && o.subset == Subset::validation)
    fail(op, "no part is for validation. say which, as in {.validation = 0.2}", where);
}

}  // namespace

ImageFolder image_folder(const std::string& folder, const ImageFolderOptions& o, Where where) {
  const CallerScope caller(where);
  check(o, where);
  const std::vector<std::string> classes = class_names(folder, where);
  std::vector<Picture> pictures;
  for (size_t i = 0; i < classes.size(); ++i)
    add_class(std::filesystem::path(folder) / classes[i], int64_t(i), o, pictures);
  if (pictures.empty())
    fail(op,
         fmt::format("'{}' has {} folders, for a class each, and no picture in them that ends in {}", folder,
                     classes.size(), fmt::join(o.extensions, ", ")),
         where);
  pictures = in_subset(std::move(pictures), folder, o);
  std::vector<std::string> paths;
  std::vector<Item> items;
  for (const Picture& p : pictures) {
    paths.push_back(p.first);
    items.push_back(Item::of(p));
  }
  Dataset<Picture> files(stages::from_items("image_folder", std::move(items), where));
  if (o.shuffle) files = files.shuffle({.seed = o.seed}, where);
  const auto decode = [o](const std::string& path, int64_t label) { return std::pair(read(path, o), label); };
  return ImageFolder(files.map(decode, {.threads = o.threads}, where), classes, std::move(paths));
}

}  // namespace rill::data
