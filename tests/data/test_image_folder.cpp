// Folders of pictures: data::image_folder, and pipelines that decode files on threads.
#include <algorithm>

#include "catch.h"
#include "io_helpers.h"
#include "rill/data.h"
#include "rill/rill.h"
#include "rill/serialize.h"

using namespace rill;

namespace {
void make_pictures(const Folder& folder) {
  for (const char* c : {"dogs", "cats"})
    for (int i = 0; i < 10; ++i) {
      std::filesystem::create_directories(folder / c + "/more");
      images::write_png(folder / (std::string(c) + (i % 2 ? "/more/" : "/") + std::to_string(i) + ".png"),
                        full({8, 6 + i, 3}, i * 20 + (c[0] == 'd'), u8));
    }
}
}  // namespace

TEST_CASE("image_folder: a class for each folder, by name") {
  const Folder folder;
  make_pictures(folder);
  const auto ds = data::image_folder(folder.path(), {.size = {4, 5}, .threads = 2});
  CHECK(ds.classes() == std::vector<std::string>{"cats", "dogs"});
  CHECK(ds.size() == 20);
  const auto [x, y] = ds.batch(20).first();
  CHECK(x.shape() == Shape{20, 4, 5, 3});
  CHECK(x.dtype() == u8);
  CHECK(array_equal(y, (arange(20) >= 10).astype(i64)));
  CHECK(array_equal(x(all, 0, 0, 0).astype(i64) % 2, y));
  const auto floats =
      data::image_folder(folder.path(), {.size = {4, 4}, .channels = 1, .dtype = f32, .crop_to_aspect_ratio = true});
  CHECK(floats.first().first.shape() == Shape{4, 4, 1});
  CHECK(max(std::get<0>(floats.batch(20).first())).item<float>() <= 1);
}

TEST_CASE("image_folder: subsets share nothing, and passes are restored") {
  const Folder folder;
  make_pictures(folder);
  const auto part = [&](data::Subset s, uint64_t seed) {
    return data::image_folder(folder.path(), {.shuffle = true, .seed = seed, .validation = 0.25, .subset = s});
  };
  const auto training = part(data::Subset::training, 1), validation = part(data::Subset::validation, 1);
  CHECK(training.size() == 15);
  CHECK(validation.size() == 5);
  for (const std::string& path : validation.paths())
    CHECK(std::ranges::find(training.paths(), path) == training.paths().end());
  CHECK(part(data::Subset::validation, 2).paths() != validation.paths());
  auto it = training.iterator();
  for (int i = 0; i < 4; ++i) it.next();
  const std::string state = it.save();
  const auto next = it.next();
  auto other = part(data::Subset::training, 1).iterator();
  other.restore(state);
  CHECK(array_equal(other.next()->first, next->first));
}

TEST_CASE("images: files of a pipeline are read on threads, and a bad one is named and dropped") {
  const Folder folder;
  make_pictures(folder);
  const auto pictures =
      data::list_files(folder / "*/*.png")
          .map(
              [](const Tensor& path) {
                return images::resize(images::decode_image(read_file(path)).astype(f32) / 255, {4, 4});
              },
              {.threads = 2});
  CHECK(pictures.batch(10).first().shape() == Shape{10, 4, 4, 3});
  put_file(folder / "cats/bad.png", "not a picture");
  const auto all = data::list_files(folder / "*/*.png").map([](const Tensor& path) {
    return images::decode_image(read_file(path));
  });
  says([&] { all.collect(); }, {"data::map", "bad.png", "decode_image"});
  CHECK(all.ignore_errors({.log = false}).collect().size() == 10);
}

TEST_CASE("image_folder: errors name the file, and can be dropped") {
  const Folder folder;
  make_pictures(folder);
  put_file(folder / "cats/bad.png", "not a picture");
  const auto ds = data::image_folder(folder.path(), {.size = {4, 4}, .threads = 2});
  says(
      [&] {
        ds.count();
        ds.collect();
      },
      {"bad.png", "13 bytes are no"});
  CHECK(ds.ignore_errors({.log = false}).collect().size() == 20);
  says([&] { data::image_folder(folder / "none"); }, {"cannot read the folder", "none"});
  says([&] { data::image_folder(folder / "cats/more"); }, {"no picture"});
  says([&] { data::image_folder(folder.path(), {.subset = data::Subset::validation}); }, {".validation"});
}
