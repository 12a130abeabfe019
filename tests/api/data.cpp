// Input pipelines: a Dataset<T> is a recipe for a sequence of C++ values with tensors inside; going through it runs the recipe.
#include <rill/data.h>
#include <rill/rill.h>
#include <unistd.h>
#include <filesystem>
#include <fstream>
#include "expect.h"
using namespace rill;

struct Example {
  Tensor image, label;
};

int main() {
  const auto folder = std::filesystem::temp_directory_path() / ("rill-api-data-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::filesystem::current_path(folder);
  {  // An element has the type of what was sliced; map takes it whole or in its parts; batches are stacked.
    Tensor x = arange(10).astype(f32);
    auto ds = data::from_tensors(std::pair(x, x * 2))
                  .map([](const Tensor& a, const Tensor& b) { return std::pair(a + 1, b); })
                  .batch(4);
    int64_t seen = 0;
    for (const auto& [a, b] : ds) seen += a.dim(0), EXPECT(array_equal(b, (a - 1) * 2));
    EXPECT(seen == 10 && ds.size() == 3);
    for (const Example& e : data::from_tensors(Example{ones({5, 28, 28}), arange(5)}).batch(5))
      EXPECT(e.image.dim(0) == 5);
  }
  {  // Work on threads keeps the order; shuffles repeat by seed and differ from epoch to epoch.
    auto squares =
        data::range(1000).map([](int64_t i) { return tensor(double(i) * double(i)); }, {.threads = 4}).batch(1000);
    for (const Tensor& s : squares.prefetch(2)) EXPECT(array_equal(s, square(arange(1000).astype(f64))));
    auto shuffled = data::range(100).shuffle(100, {.seed = 7}).batch(100);
    Tensor first = shuffled.first(), again = shuffled.first();
    EXPECT(array_equal(first, again) && array_equal(sort(first), arange(100)));
    auto two = data::range(100).shuffle(100, {.seed = 7}).repeat(2).batch(100);
    auto it = two.iterator();
    Tensor a = *it.next(), b = *it.next();
    EXPECT(!array_equal(a, b) && array_equal(sort(a), sort(b)) && !it.next());
  }
  {  // Where a pass stands can be saved: a program that goes on sees the elements that were to come.
    auto ds = data::range(1000)
                  .shuffle(64, {.seed = 3})
                  .map([](int64_t i) { return tensor(i); }, {.threads = 3})
                  .batch(7)
                  .prefetch(4);
    auto a = ds.iterator();
    for (int i = 0; i < 11; ++i) a.next();
    std::string state = a.save();
    Tensor next = *a.next();
    auto b = ds.iterator();
    b.restore(state);
    EXPECT(array_equal(*b.next(), next));
  }
  {  // Ragged elements: padded batches, buckets by length.
    auto words = data::from_generator([n = 0]() mutable -> std::optional<Tensor> {
      return n == 20 ? std::nullopt : std::optional(ones({1 + n++ % 5}));
    });
    for (const Tensor& t : words.padded_batch(5, {.value = -1}))
      EXPECT(t.shape() == Shape{5, 5} && t.item<float>(0, 4) == -1);
    auto by_length =
        words.bucket_by_length([](const Tensor& t) { return t.dim(0); }, {.bounds = {3, 5}, .batches = {4, 2, 2}});
    for (const Tensor& t : by_length) EXPECT(t.dim(0) <= 4);
    EXPECT(has(message_of([&] { words.batch(2).first(); }), "[1]") &&
           has(message_of([&] { words.batch(2).first(); }), "padded_batch"));
  }
  {  // Files: lines, TFRecords of Examples, CSV, images; a folder a class.
    std::filesystem::create_directories("pictures/cats"), std::filesystem::create_directories("pictures/dogs");
    std::ofstream("lines.txt") << "a\nb\n\nc\n";
    EXPECT(data::text_lines({"lines.txt"})
               .filter([](const Tensor& line) { return line.item<std::string>() != ""; })
               .count() == 3);
    for (const char* c : {"cats", "dogs"})
      for (int i = 0; i < 3; ++i)
        images::write_png("pictures/" + std::string(c) + "/" + std::to_string(i) + ".png", full({8, 8, 3}, i * 40, u8));
    auto pictures =
        data::list_files("pictures/*/*.png", {.shuffle = false})
            .map(
                [](const Tensor& path) {
                  return std::pair(images::resize(images::decode_image(read_file(path)).astype(f32) / 255, {4, 4}),
                                   strings::split(path, "/")(1) == "dogs");
                },
                {.threads = 2});
    auto [x, y] = pictures.batch(6).first();
    EXPECT(x.shape() == Shape{6, 4, 4, 3} && sum(y.astype(i32)).item<int>() == 3);
    EXPECT(data::image_folder("pictures", {.size = {4, 4}}).classes() == std::vector<std::string>({"cats", "dogs"}));
    // A bad file names itself and the element, and can be skipped.
    std::ofstream("pictures/cats/bad.png") << "not a picture";
    auto all = data::list_files("pictures/*/*.png").map([](const Tensor& path) {
      return images::decode_image(read_file(path));
    });
    EXPECT(has(message_of([&] { all.count(); }), "bad.png"));
    EXPECT(all.ignore_errors().count() == 6);
  }
  {  // Feature columns: tables of raw columns to what a model takes.
    Table people{{"age", "job"}, {tensor({19.f, 34.f, 71.f}), tensor({"nurse", "smith", "cook"})}};
    using namespace data::features;
    Columns columns({bucketized("age", {18, 30, 65}), indicator(vocabulary("job", {"cook", "nurse"}, {.unknown = 1})),
                     embedding(hashed("job", 100), 4), crossed({bucketized("age", {30}), hashed("job", 10)}, 50)});
    Tensor dense = columns(people);
    EXPECT(dense.dim(0) == 3 && dense.dim(1) == 4 + 3 + 4 + 50 && columns.variables().size() == 1);
  }
  std::filesystem::remove_all(folder);
}
