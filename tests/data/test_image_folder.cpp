// Folders of pictures: data::image_folder, and pipelines that decode files on threads.
#include <algorithm>
#include <cmath>

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
  for (const char* e : {"jpg", ".JPG", ""})
    says([&] { data::image_folder(folder.path(), {.extensions = {".png", e}}); },
         {"an extension", "'" + std::string(e) + "'", "'.jpg'"});
  // A path where a file's bytes are asked for.
  says([&] { images::decode_image(folder / "cats/bad.png"); }, {"they look like a path", "read_file(path)"});
  says([&] { images::decode_jpeg(folder / "cats/bad.jpg"); }, {"are no JPEG file", "read_file(path)"});
  says([&] { images::write_png(folder / "x.png", full({3, 40, 50}, 1, u8)); },
       {"u8[3,40,50]", "transpose(x, {1, 2, 0})"});
  says([&] { images::normalize(full({3, 40, 50}, 1, u8), {0, 0, 0}, {1, 1, 1}); },
       {"50 channels", "transpose(x, {1, 2, 0})"});
}

TEST_CASE("images: NaN stays in its pixel, and makes none of integers") {
  // One pixel of floats is NaN as a whole (TensorFlow: some of its channels), and those beside it are as without it.
  const std::vector<float> numbers = {0.1f, 0.2f, 0.3f, NAN, 0.5f, 0.6f, 0.3f, 0.2f, 0.1f};
  for (size_t channel = 3; channel < 6; ++channel) {
    std::vector<float> values = numbers;
    values[3] = 0.4f, values[channel] = NAN;
    const Tensor x = tensor(values).reshape({1, 3, 3});
    for (const double delta : {0.0, 0.1, -0.3}) {
      const Tensor y = images::adjust_hue(x, delta), without = images::adjust_hue(nan_to_num(x), delta);
      CHECK(all(isnan(y(0, 1))).item<bool>());
      CHECK(array_equal(y(0, 0), without(0, 0)));
      CHECK(array_equal(y(0, 2), without(0, 2)));
    }
  }
  const Tensor bytes = full({2, 2, 3}, 100, u8), both = full({2, 2, 2, 3}, 100, u8);
  const std::pair<const char*, Tensor (*)(const Tensor&, const Tensor&, Where)> adjustments[] = {
      {"adjust_hue", images::adjust_hue},
      {"adjust_saturation", images::adjust_saturation},
      {"adjust_brightness", images::adjust_brightness},
      {"adjust_contrast", images::adjust_contrast},
      {"enhance_brightness", images::enhance_brightness},
      {"enhance_contrast", images::enhance_contrast},
      {"enhance_color", images::enhance_color},
      {"enhance_sharpness", images::enhance_sharpness}};
  for (const auto& [op, f] : adjustments) {
    says([&] { f(bytes, tensor(NAN), Where::current()); }, {op, "nan", "u8"});
    says([&] { f(both, tensor({0.5f, NAN}), Where::current()); }, {op, "nan", "u8"});
    CHECK(all(isnan(f(bytes.astype(f32), tensor(NAN), Where::current()))).item<bool>());
  }
  says([&] { images::normalize(bytes, {NAN}, {1}); }, {"a mean is nan"});
}
