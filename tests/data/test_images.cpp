// Pictures: what is read and made of them, held to Pillow, TensorFlow, torchvision and scikit-image by the cases of
// fixtures/images (make.py there), and what is said of files that are none.
#include <fmt/format.h>

#include <cstdlib>
#include <functional>

#include "catch.h"
#include "io_helpers.h"
#include "rill/data.h"

#include "rill/rill.h"
#include "rill/serialize.h"

using namespace rill;
using images::ResizeMethod;

namespace {

std::string fixture(const std::string& name) {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  return (root ? root : ".") + std::string("/tests/fixtures/images/") + name;
}
std::map<std::string, Tensor> cases_of(const std::string& judge) {
  std::map<std::string, Tensor> cases;
  for (const auto& [name, t] : load(fixture(judge + ".npz"))) cases.emplace(name, t);
  return cases;
}
const Tensor& input(const std::string& name) {
  static const std::map<std::string, Tensor> all = cases_of("inputs");
  return all.at(name);
}

// Every case of a judge is asked for once: the error that each function may have is said where it is called.
class Judge {
 public:
  explicit Judge(const std::string& name) : cases_(cases_of(name)) {}
  void check(const std::string& name, const Tensor& got, double error = 0) {
    INFO("case: " << name);
    REQUIRE(cases_.contains(name));
    const Tensor expected = cases_.at(name);
    cases_.erase(name);
    INFO("got " << to_string(got.spec()) << ", expected " << to_string(expected.spec()));
    REQUIRE(got.shape() == expected.shape());
    CHECK((got.dtype() == expected.dtype() || error > 0));
    const double off = max(abs(got.astype(f64) - expected.astype(f64))).item<double>();
    INFO("off by " << off);
    CHECK(off <= error);
  }
  Tensor take(const std::string& name) {
    const Tensor expected = cases_.at(name);
    cases_.erase(name);
    return expected;
  }
  std::vector<std::string> left(std::string_view beginning) const {
    std::vector<std::string> names;
    for (const auto& [name, t] : cases_)
      if (name.starts_with(beginning)) names.push_back(name);
    return names;
  }
  std::vector<std::string> left_but(std::string_view beginning) const {
    std::vector<std::string> names;
    for (const auto& [name, t] : cases_)
      if (!name.starts_with(beginning)) names.push_back(name);
    return names;
  }

 private:
  std::map<std::string, Tensor> cases_;
};

Tensor decoded(const std::string& name, const images::DecodeOptions& o = {}) {
  return images::decode_image(read_file(tensor(fixture(name))), o);
}

}  // namespace

// --- Files -----------------------------------------------------------------------------------------------------------

TEST_CASE("images: files of all kinds have the pixels that Pillow finds in them") {
  Judge pillow("pillow");
  for (const std::string& name : pillow.left("file ")) {
    const std::string file = name.substr(5);
    images::DecodeOptions o;
    if (file.ends_with(".gif") || file == "animated.webp") o.all_frames = true;
    if (file.starts_with("disposal")) o.channels = 4;
    Tensor x = decoded(file, o);
    if (file == "still.gif") CHECK(array_equal(decoded(file), x(0)));
    if (file == "cmyk.jpg") CHECK(x.dim(-1) == 3);
    if (file == "bits1.bmp") CHECK(x.dim(-1) == 3);
    pillow.check(name, x);
  }
  CHECK(pillow.left("file ").empty());
}

TEST_CASE("images: TensorFlow finds the same") {
  Judge tensorflow("tensorflow");
  tensorflow.check("file rgb16.png", decoded("rgb16.png"));
  tensorflow.check("decoded rgb.jpg", decoded("rgb.jpg", {.channels = 3}));
  tensorflow.check("decoded cmyk.jpg", decoded("cmyk.jpg", {.channels = 3}), 1);  // it rounds c k / 255 otherwise
  tensorflow.check("decoded grey16.png", decoded("grey16.png", {.channels = 3, .dtype = u8}));
  tensorflow.check("decoded still.gif", decoded("still.gif", {.channels = 3, .all_frames = true}));
  tensorflow.check("decoded disposal1.gif", decoded("disposal1.gif", {.channels = 3, .all_frames = true}));
}

TEST_CASE("images: 16 bits of grey are what the file has, and a gamma changes nothing") {
  const Tensor deep = decoded("grey16.png");
  CHECK(deep.dtype() == u16);
  CHECK(deep.item<int>(0, 0, 0) == 0x4000);
  CHECK(decoded("grey16.png", {.dtype = u8}).item<int>(0, 0, 0) == 0x40);
  CHECK(decoded("grey16.png", {.dtype = f32}).item<float>(0, 0, 0) == 0x4000 / 65535.f);
  CHECK(array_equal(decoded("gamma.png"), decoded("rgb.png")));
  CHECK(array_equal(decoded("rgb.png", {.dtype = u16}), decoded("rgb.png").astype(u16) * 257));
}

TEST_CASE("images: channels, sizes and orientation are as asked for") {
  for (const char* name :
       {"rgb.jpg", "grey.jpg", "rgba.png", "grey_alpha.png", "alpha.webp", "lossy.webp", "rgb.bmp", "still.gif"})
    for (int channels : {1, 3, 4}) {
      INFO(name << ", channels " << channels);
      const Tensor x = decoded(name, {.channels = channels});
      CHECK(x.shape() == Shape{19, 30, channels});
    }
  CHECK(array_equal(decoded("rgba.png", {.channels = 3}), decoded("rgba.png")(all, all, slice(0, 3))));
  CHECK(array_equal(decoded("grey_alpha.png", {.channels = 4})(all, all, 3), decoded("grey_alpha.png")(all, all, 1)));
  CHECK(decoded("rgb.jpg", {.at_least = {6, 8}}).shape() == Shape{10, 15, 3});
  CHECK(decoded("rgb.jpg", {.at_least = {5, 8}}).shape() == Shape{5, 8, 3});
  CHECK(decoded("rgb.jpg", {.at_least = {100, 100}}).shape() == Shape{19, 30, 3});
  CHECK(decoded("orientation6.jpg").shape() == Shape{14, 10, 3});
  CHECK(decoded("orientation6.jpg", {.upright = false}).shape() == Shape{10, 14, 3});
  CHECK(decoded("orientation6.jpg", {.at_least = {7, 5}}).shape() == Shape{7, 5, 3});
  for (const char* ending : {".png", ".webp"}) {
    const std::string end = ending;
    CHECK(decoded("orientation6" + end).shape() == Shape{14, 10, 3});
    const Tensor lies = decoded("orientation6" + end, {.upright = false});
    CHECK(array_equal(decoded("orientation6" + end), flip(transpose(lies, {1, 0, 2}), 1)));
    CHECK(array_equal(decoded("orientation3" + end), flip(lies, {0, 1})));
  }
  CHECK(decoded("animated.webp").shape() == Shape{12, 16, 4});
  CHECK(decoded("lossy.webp", {.all_frames = true}).shape() == Shape{1, 19, 30, 3});
}

// Files by hand: Pillow, which writes none, finds the same pixels in those that leave none out.
TEST_CASE("images: a BMP of runs") {
  const auto number = [](int64_t n, int bytes) {
    std::string s;
    for (; bytes > 0; --bytes, n >>= 8) s += char(n & 255);
    return s;
  };
  const auto file = [&](int bits, int method, const std::string& runs) {
    std::string palette;
    for (int i = 0; i < 16; ++i) palette += number(i * 0x010203, 4);  // blue i, green 2 i... of each
    return "BM" + number(54 + 64 + int64_t(runs.size()), 4) + number(0, 4) + number(54 + 64, 4) + number(40, 4) +
           number(6, 4) + number(3, 4) + number(1, 2) + number(bits, 2) + number(method, 4) +
           number(int64_t(runs.size()), 4) + number(0, 8) + number(16, 4) + number(0, 4) + palette + runs;
  };
  const auto places = [](const Tensor& x) { return x(all, all, 0).astype(i64).reshape({-1}).to_vector<int64_t>(); };
  const std::string eight = file(8, 1, {3, 5, 0, 3, 7, 8, 9, 0, 0, 0, 0, 2, 2, 1, 2, 4, 0, 1});
  CHECK(places(images::decode_bmp(eight)) ==
        std::vector<int64_t>{0, 0, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 5, 5, 5, 7, 8, 9});
  const std::string four = file(4, 2, {5, 0x12, 0, 0, 0, 5, 0x34, 0x56, 0x70, 0, 0, 1});
  CHECK(places(images::decode_bmp(four)) == std::vector<int64_t>{0, 0, 0, 0, 0, 0, 3, 4, 5, 6, 7, 0, 1, 2, 1, 2, 1, 0});
  CHECK(images::decode_bmp(eight)(2, 3).to_vector<int>() == std::vector<int>{7, 14, 21});
  for (const std::string& runs : {std::string{7, 1, 0, 1}, std::string{3, 1}, std::string{0, 2, 0, 9, 1, 1, 0, 1}})
    CHECK(has(message_of([&] { images::decode_bmp(file(8, 1, runs)); }), "a damaged BMP file"));
}

TEST_CASE("images: what is written reads back") {
  const Folder folder;
  const Tensor rgb = input("image"), grey = input("grey"), rgba = decoded("rgba.png"), deep = decoded("rgb16.png");
  for (const Tensor& x : {rgb, grey, rgba, deep, decoded("grey_alpha.png")}) {
    images::write_png(folder / "x.png", x);
    CHECK(array_equal(images::read_image(folder / "x.png"), x));
  }
  CHECK(images::encode_png(rgb, {.level = 0}).item<std::string>().size() > size_t(rgb.size()));
  images::write_webp(folder / "x.webp", rgba, {.lossless = true});
  CHECK(array_equal(images::read_image(folder / "x.webp"), rgba));
  images::write_gif(folder / "x.gif", stack({decoded("still.gif"), 255 - decoded("still.gif")}));
  CHECK(array_equal(images::decode_gif(contents(folder / "x.gif")),
                    stack({decoded("still.gif"), 255 - decoded("still.gif")})));
  images::write_gif(folder / "grey.gif", grey);
  CHECK(array_equal(images::read_image(folder / "grey.gif", {.channels = 1}), grey));
  const auto off = [](const Tensor& a, const Tensor& b) {
    return mean(abs(a.astype(f32) - b.astype(f32))).item<float>();
  };
  images::write_jpeg(folder / "x.jpg", rgb, {.quality = 95, .halve_colour = false});
  CHECK(off(images::read_image(folder / "x.jpg"), rgb) < 3.05f);  // noise: Pillow's file of it is off by 3.0469
  images::write_jpeg(folder / "p.jpg", grey, {.progressive = true});
  CHECK(off(images::read_image(folder / "p.jpg"), grey) < 2);
  const Tensor across = iota({64, 64, 1}, 1), down = iota({64, 64, 1}, 0);
  const Tensor many = concat({across * 4, down * 4, (across + down) * 2}, -1).astype(u8);  // 4096 colours
  CHECK(off(images::decode_gif(images::encode_gif(many))(0), many) < 6);
  CHECK(array_equal(images::decode_png(images::encode_png(rgb.astype(f32) / 255)), rgb));
}

TEST_CASE("images: errors say what is wrong") {
  const Folder folder;
  const std::string png = contents(fixture("rgb.png")), jpg = contents(fixture("rgb.jpg"));
  says([] { images::decode_image("not a picture"); },
       {"test_images.cpp", "decode_image", "13 bytes are no JPEG, PNG, GIF, WebP or BMP"});
  says([] { images::decode_image(""); }, {"empty"});
  says([&] { images::decode_png(jpg); }, {"[decode_png]", "are no PNG file"});
  says([&] { images::decode_jpeg(png); }, {"[decode_jpeg]", "are no JPEG file"});
  says([&] { images::decode_jpeg(jpg.substr(0, jpg.size() - 60)); }, {"a damaged JPEG file", "remature end"});
  says([&] { images::decode_png(png.substr(0, png.size() / 2)); }, {"damaged PNG"});
  for (const char* name : {"still.gif", "lossless.webp", "rgb.bmp"}) {
    const std::string whole = contents(fixture(name));
    for (size_t n = 4; n < whole.size(); n += 7) {
      INFO(name << " cut to " << n);
      CHECK_THROWS_AS(images::decode_image(whole.substr(0, n)), Error);
    }
  }
  says([&] { images::decode_jpeg(jpg, {.max_pixels = 100}); }, {"19 x 30 pixels", "{.max_pixels = 570}"});
  says([&] { images::decode_png(png, {.max_pixels = 100}); }, {"19 x 30 pixels", "{.max_pixels = 570}"});
  says([&] { images::decode_jpeg(jpg, {.channels = 2}); }, {"channels is 2"});
  says([&] { images::decode_jpeg(jpg, {.dtype = i32}); }, {"dtype is i32"});
  says([] { images::decode_jpeg(tensor({"a", "b"})); }, {"read_file()", "string[2]"});
  const Tensor picture = ones({4, 4, 3});
  for (const double p : {2., -0.1, double(NAN)}) {
    says([&] { images::random_flip_left_right(picture, {.p = p}); }, {"random_flip_left_right", "p is", "probability"});
    says([&] { images::random_flip_up_down(picture, {.p = p}); }, {"random_flip_up_down", "p is", "probability"});
    says([&] { images::random_erasing(picture, {.p = p}); }, {"random_erasing", "p is", "probability"});
  }
  put_file(folder / "bad.png", "not a picture");
  says([&] { images::read_image(folder / "bad.png"); }, {"bad.png", "13 bytes"});
  says([&] { images::encode_jpeg(ones({3, 3, 4}, u8)); }, {"encode_jpeg", "1 or 3 channels", "u8[3,3,4]"});
  says([&] { images::encode_png(ones({3, 3, 3}, i64)); }, {"encode_png", "i64[3,3,3]"});
}

TEST_CASE("images: a header that promises much takes no memory") {
  std::string png = contents(fixture("rgb.png")), jpg = contents(fixture("rgb.jpg")),
              bmp = contents(fixture("rgb.bmp")), gif = contents(fixture("still.gif"));
  const int64_t before = memory_stats(Device()).peak;
  std::string huge = png;
  for (size_t i : {16, 20}) huge.replace(i, 4, "\x7f\xff\xff\xff");
  CHECK_THROWS_AS(images::decode_image(huge), Error);
  huge = bmp;
  for (size_t i : {18, 22}) huge.replace(i, 4, std::string("\xff\xff\xff\x7f"));
  CHECK_THROWS_AS(images::decode_image(huge), Error);
  huge = gif;
  huge.replace(6, 4, "\xff\xff\xff\xff");
  CHECK_THROWS_AS(images::decode_image(huge), Error);
  const size_t frame = jpg.find("\xff\xc0");
  REQUIRE(frame != jpg.npos);
  huge = jpg;
  huge.replace(frame + 5, 4, "\xff\xff\xff\xff");
  CHECK_THROWS_AS(images::decode_image(huge), Error);
  CHECK(memory_stats(Device()).peak - before < 1 << 20);
}

// --- Judged functions --------------------------------------------------------------------------------------------------

TEST_CASE("images: Pillow's bits") {
  Judge pillow("pillow");
  const Tensor x = input("image"), large = input("large");
  const std::pair<const char*, ResizeMethod> methods[] = {{"bilinear", ResizeMethod::bilinear},
                                                          {"bicubic", ResizeMethod::bicubic},
                                                          {"lanczos3", ResizeMethod::lanczos3},
                                                          {"nearest_exact", ResizeMethod::nearest_exact}};
  for (const auto& [name, method] : methods) {
    if (method !=
        ResizeMethod::nearest_exact)  // two pixels are as near, and Pillow adds up steps, whose rounding decides
      pillow.check(std::string("resize ") + name + " down", images::resize(large, {20, 11}, {.method = method}));
    pillow.check(std::string("resize ") + name + " up", images::resize(x, {31, 40}, {.method = method}));
    pillow.check(std::string("resize ") + name + " wider", images::resize(x, {23, 40}, {.method = method}));
  }
  pillow.check("rotate 90", images::rotate(x, 90, {.bilinear = false}));
  pillow.check("rotate 180", images::rotate(x, 180, {.bilinear = false}));
  pillow.check("rotate 20", images::rotate(x, 20, {.bilinear = false}));
  CHECK(array_equal(images::rotate(x, 1e18), images::rotate(x, 280)));
  for (int degrees : {-90, 270}) {
    pillow.check(fmt::format("rotate {} of 4x3", degrees),
                 images::rotate(images::crop(x, {0, 0}, {4, 3}), degrees, {.bilinear = false}));
    pillow.check(fmt::format("rotate {} of 20x17 expand", degrees),
                 images::rotate(images::crop(x, {0, 0}, {20, 17}), degrees, {.expand = true}));
  }
  for (int degrees : {10, 15, 40})
    pillow.check(fmt::format("rotate {} expand", degrees),
                 images::rotate(x, degrees, {.bilinear = false, .expand = true}));
  pillow.check("warp", images::warp(x, tensor({0.93, 0.11, 0.37, -0.13, 1.07, 0.29, 0.0021, 0.0033}),
                                    {.bilinear = false, .size = {25, 20}}));
  for (double factor : {0.3, 1.7}) {
    const std::string by = factor < 1 ? " 0.3" : " 1.7";
    pillow.check("Brightness" + by, images::enhance_brightness(x, factor));
    pillow.check("Contrast" + by, images::enhance_contrast(x, factor));
    pillow.check("Color" + by, images::enhance_color(x, factor));
    pillow.check("Sharpness" + by, images::enhance_sharpness(x, factor));
  }
  pillow.check("grey", images::rgb_to_grayscale(x));
  pillow.check("ycbcr", round(images::rgb_to_ycbcr(x) * 255), 1);  // its tables are rounded
  pillow.check("invert", images::invert(x));
  pillow.check("posterize", images::posterize(x, 3));
  pillow.check("solarize", images::solarize(x, 100));
  pillow.check("equalize", images::equalize(large));
  pillow.check("autocontrast", images::autocontrast(x));
  CHECK(pillow.left_but("file ").empty());
}

TEST_CASE("images: TensorFlow's numbers") {
  Judge tensorflow("tensorflow");
  const Tensor x = input("float"), y = input("other").astype(f32) / 255, u = input("image");
  const std::pair<const char*, ResizeMethod> methods[] = {{"bilinear", ResizeMethod::bilinear},
                                                          {"bicubic", ResizeMethod::bicubic},
                                                          {"area", ResizeMethod::area},
                                                          {"lanczos3", ResizeMethod::lanczos3},
                                                          {"lanczos5", ResizeMethod::lanczos5},
                                                          {"gaussian", ResizeMethod::gaussian},
                                                          {"mitchellcubic", ResizeMethod::mitchellcubic}};
  // Its weights are f32, ours f64 until they are used; of areas its places are f32, too.
  constexpr double error = 2e-6, error_of_areas = 3e-6;
  for (const auto& [name, method] : methods)
    for (const auto& [how, size] : {std::pair("down", Dims{9, 11}), std::pair("up", Dims{40, 31})}) {
      const std::string what = std::string("resize ") + name + " " + how;
      if (method != ResizeMethod::area)
        tensorflow.check(what + " antialias", images::resize(x, size, {.method = method}), error);
      if (method != ResizeMethod::bicubic)
        tensorflow.check(what, images::resize(x, size, {.method = method, .antialias = false}),
                         method == ResizeMethod::area ? error_of_areas : error);
    }
  tensorflow.check("resize keeps", images::resize(x, {30, 30}, {.antialias = false, .preserve_aspect_ratio = true}),
                   error);
  tensorflow.check("resize nearest", images::resize(u, {9, 31}, {.method = ResizeMethod::nearest_exact}));
  tensorflow.check("resize_with_pad", images::resize_with_pad(x, {30, 20}, {.antialias = false}), error);
  tensorflow.check("crop_or_pad", images::resize_with_crop_or_pad(u, {30, 12}));
  // tf.image.resize_with_pad: the size before rounding down, 10.6, leaves 9.4 pixels, of which 4 stand before; and a side
  // that is divided without a rest keeps its last pixel.
  const Tensor wide = images::resize_with_pad(ones({11, 13, 1}), {9, 20});
  CHECK(sum(wide(4)).item<float>() == 10);
  CHECK(wide.item<float>(0, 3, 0) == 0);
  CHECK(wide.item<float>(0, 4, 0) == 1);
  CHECK(sum((images::resize_with_pad(ones({98, 49, 1}), {2, 2}) > 0).astype(i32)).item<int>() == 2);
  tensorflow.check("rot90", images::rotate90(u));
  tensorflow.check("rgb_to_yuv", images::rgb_to_yuv(x), error);
  tensorflow.check("yuv_to_rgb", images::yuv_to_rgb(images::rgb_to_yuv(x)), error);
  tensorflow.check("rgb_to_yiq", images::rgb_to_yiq(x), error);
  tensorflow.check("yiq_to_rgb", images::yiq_to_rgb(images::rgb_to_yiq(x)), error);
  tensorflow.check("rgb_to_hsv", images::rgb_to_hsv(x), error);
  tensorflow.check("hsv_to_rgb", images::hsv_to_rgb(images::rgb_to_hsv(x)), error);
  tensorflow.check("brightness", images::adjust_brightness(x, 0.2), error);
  tensorflow.check("contrast", images::adjust_contrast(x, 1.6), error);
  tensorflow.check("saturation", images::adjust_saturation(x, 0.4), error);
  tensorflow.check("hue", images::adjust_hue(x, 0.3), error);
  tensorflow.check("gamma", images::adjust_gamma(x, 1.7, 0.8), error);
  tensorflow.check("standardize", images::standardize(x), 1e-5);
  tensorflow.check("psnr", images::psnr(x, y, 1), 1e-4);
  tensorflow.check("ssim", images::ssim(x, y, 1), 1e-5);
  const Tensor large = input("large").astype(f32) / 255;
  tensorflow.check("ssim_multiscale",
                   images::ssim_multiscale(large, flip(large, 0) * 0.5 + large * 0.5, 1, {0.3, 0.4, 0.3}), 1e-5);
  tensorflow.check("total_variation", images::total_variation(x), 1e-3);
  tensorflow.check("sobel", images::sobel_edges(x), 1e-5);
  const auto [dy, dx] = images::image_gradients(x);
  tensorflow.check("gradients", stack({dy, dx}));
  const Tensor boxes = input("boxes"), unit = boxes / 80;
  tensorflow.check("suppression",
                   images::non_max_suppression(boxes, input("scores"), {.max_boxes = 6, .iou = 0.3, .score = 0.1}));
  tensorflow.check("crop_and_resize",
                   images::crop_and_resize(stack({x, y}), unit * 1.2 - 0.1, arange(12) % 2, {6, 7}, 0.5), 1e-5);
  tensorflow.check("draw", images::draw_bounding_boxes(stack({x, y}), reshape(unit * 1.3 - 0.2, {2, 6, 4}),
                                                       tensor({{1.f, 0.f, 0.f}, {0.f, 0.5f, 1.f}})));
  for (const std::string& name : tensorflow.left(""))
    CHECK((name.starts_with("file ") || name.starts_with("decoded ")));
}

// tf.image.resize 2.21: also along an axis that keeps its size, where other methods have nothing to do.
TEST_CASE("images: kernels that smooth do so along both axes") {
  const Tensor x = tensor({0.f, 1, 4, 9, 2, 5}).reshape({2, 3, 1});
  const auto check = [&](images::ResizeMethod method, const Dims& size, const std::vector<float>& expected) {
    const Tensor y = images::resize(x, size, {.method = method}).reshape({-1});
    CHECK(max(abs(y - tensor(expected))).item<float>() < 4e-6f);
  };
  check(
      images::ResizeMethod::mitchellcubic, {3, 3},
      {-0.007069677f, 1.0999525f, 3.8158035f, 4.3235288f, 1.8333342f, 4.3235288f, 8.6541290f, 2.5667162f, 4.8312545f});
  check(images::ResizeMethod::mitchellcubic, {2, 3},
        {0.56055498f, 1.1960789f, 3.8823526f, 8.0865021f, 2.4705892f, 4.7647052f});
  check(images::ResizeMethod::gaussian, {3, 3},
        {0.64196932f, 1.3333404f, 3.7073600f, 4.1423907f, 2.1390419f, 4.1423907f, 7.6428127f, 2.9447432f, 4.5774221f});
  check(images::ResizeMethod::gaussian, {2, 3},
        {1.0783544f, 1.4337842f, 3.7615938f, 7.2064271f, 2.8442988f, 4.5231876f});
}

TEST_CASE("images: torchvision's and scikit-image's numbers") {
  Judge torchvision("torchvision");
  const Tensor x = input("float"), u = input("image");
  constexpr double error = 2e-6;
  torchvision.check("resize bicubic_torch", images::resize(x, {31, 40}, {.method = ResizeMethod::bicubic_torch}),
                    error);
  torchvision.check("resize nearest", images::resize(u, {9, 31}, {.method = ResizeMethod::nearest}));
  torchvision.check("resize bytes", images::resize(u, {9, 11}), 1);  // weights of 16 bits
  torchvision.check("resize shorter", images::resize_shorter_side(x, 11), error);
  torchvision.check("affine", images::affine(x, {.degrees = 25, .translate = {2, -3}, .scale = 1.3, .shear = {10, -5}}),
                    1e-5);
  torchvision.check("rotate", images::rotate(x, 35), 1e-5);
  torchvision.check("perspective",
                    images::perspective(x, {{0, 0}, {16, 0}, {16, 22}, {0, 22}}, {{1, 2}, {14, 0}, {16, 20}, {3, 21}}),
                    1e-4);
  torchvision.check("blur", images::gaussian_blur(x, {3, 5}, 1.2), error);
  torchvision.check("blur by size", images::gaussian_blur(x, {7, 7}), error);
  torchvision.check("normalize", images::normalize(x, {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}), 1e-6);
  torchvision.check("hue", images::adjust_hue(x, 0.2), 1e-5);
  torchvision.check("saturation", images::enhance_color(x, 0.4), 2e-4);  // it weighs red by 0.2989
  torchvision.check("contrast", images::enhance_contrast(x, 1.4), 2e-4);
  torchvision.check("autocontrast", images::autocontrast(x), error);
  std::vector<Tensor> augmented;  // by all changes, both ways
  for (uint64_t i = 0; i < 400; ++i)
    augmented.push_back(images::rand_augment(u, {.changes = 1, .magnitude = 19, .key = random::Key(i)}).astype(i32));
  for (const std::string& name : torchvision.left("augment ")) {
    const auto is_there = [&](const Tensor& expected) {
      return std::ranges::any_of(augmented, [&](const Tensor& y) { return max(abs(y - expected)).item<int>() <= 1; });
    };
    INFO(name);
    CHECK(is_there(torchvision.take(name).astype(i32)));
  }
  torchvision.check("iou", images::box_iou(input("boxes"), input("boxes")), 1e-6);
  torchvision.check("lab", images::rgb_to_lab(x), 1e-3);
  CHECK(torchvision.left("").empty());
}

// --- Properties --------------------------------------------------------------------------------------------------------

TEST_CASE("images: colour spaces lead back") {
  const Tensor x = input("float");
  for (const Tensor& back : {images::lab_to_rgb(images::rgb_to_lab(x)), images::ycbcr_to_rgb(images::rgb_to_ycbcr(x)),
                             images::hsv_to_rgb(images::rgb_to_hsv(x))})
    CHECK(max(abs(back - x)).item<float>() < 1e-4f);
}

TEST_CASE("images: traced equals eager, of bytes and of floats, and of batches") {
  const auto same = [](const auto& f) {
    for (const Tensor& x : {input("image"), input("float"), stack({input("image"), input("other")})}) {
      const Tensor eager = f(x), traced = function([&](const Tensor& t) { return f(t); })(x);
      CHECK(eager.dtype() == traced.dtype());
      CHECK(array_equal(eager, traced));
      if (x.ndim() == 4) CHECK(array_equal(eager(0), f(x(0))));
    }
  };
  for (ResizeMethod m : {ResizeMethod::bilinear, ResizeMethod::bicubic, ResizeMethod::lanczos5, ResizeMethod::area,
                         ResizeMethod::nearest})
    for (const Dims& size : {Dims{9, 11}, Dims{40, 31}, Dims{23, 5}})
      same([&](const Tensor& x) { return images::resize(x, size, {.method = m}); });
  same([](const Tensor& x) { return images::resize_with_pad(x, {30, 20}); });
  same([](const Tensor& x) { return images::rotate(x, 20); });
  same([](const Tensor& x) { return images::adjust_hue(x, 0.2); });
  same([](const Tensor& x) { return images::enhance_sharpness(x, 1.5); });
  same([](const Tensor& x) { return images::gaussian_blur(x, {3, 5}); });
  same([](const Tensor& x) { return images::normalize(x, {0.5}, {0.2}); });
  const random::Key key(3);
  same([&](const Tensor& x) { return images::random_crop(x, {9, 7}, {.key = key}); });
}

// Long rows of pixels have loops of their own, which a traced function has not.
TEST_CASE("images: rows of bytes are resized and mirrored by any loop to the same bits") {
  for (int64_t channels : {1, 2, 3, 4, 5})
    for (int64_t width : {6, 21, 43, 64, 129, 500}) {
      const Tensor x = random::randint(0, 256, {11, width, channels}, {.key = random::Key(uint64_t(width))}).astype(u8);
      for (int64_t to : {1, 5, 17, 96, 223, 700})
        for (ResizeMethod m :
             {ResizeMethod::bilinear, ResizeMethod::bicubic, ResizeMethod::lanczos5, ResizeMethod::area})
          for (bool antialias : {false, true}) {
            if (m == ResizeMethod::area && !antialias) continue;
            INFO(channels << " channels, " << width << " to " << to << " by " << int(m) << ", " << antialias);
            const auto f = [&](const Tensor& t) {
              return images::resize(t, {9, to}, {.method = m, .antialias = antialias});
            };
            REQUIRE(array_equal(f(x), function(f)(x)));
          }
      const Tensor mirrored = images::flip_left_right(x);
      CHECK(array_equal(images::normalize(mirrored, {0.4}, {0.3}),
                        images::normalize(mirrored.contiguous(), {0.4}, {0.3})));
    }
}

TEST_CASE("images: gradients of what is linear are its transpose") {
  const Tensor x = input("float"), d = input("other").astype(f32) / 255;
  const auto transposed = [&](const std::function<Tensor(const Tensor&)>& f) {
    const Tensor w = random::normal(f(x).shape(), {.key = random::Key(5)});
    const Tensor g = grad([&](const Tensor& t) { return sum(f(t) * w); })(x);
    const double a = sum(g * d).item<double>(), b = sum((f(x + d) - f(x)) * w).item<double>();
    CHECK(std::abs(a - b) < 2e-3 * (1 + std::abs(b)));
  };
  for (ResizeMethod m : {ResizeMethod::bilinear, ResizeMethod::bicubic, ResizeMethod::gaussian, ResizeMethod::area})
    transposed([&](const Tensor& t) { return images::resize(t, {9, 31}, {.method = m}); });
  transposed([](const Tensor& t) { return images::rotate(t, 20); });
  transposed([](const Tensor& t) { return images::rgb_to_yuv(t); });
  transposed([](const Tensor& t) { return images::gaussian_blur(t, {5, 5}); });
}

TEST_CASE("images: parts and turns") {
  const Tensor x = input("image");
  CHECK(array_equal(images::crop(x, {2, 3}, {5, 4}), x(slice(2, 7), slice(3, 7))));
  const Tensor covering = images::resize_with_crop(x, {30, 10});
  CHECK(array_equal(covering, images::central_crop(images::resize(x, {30, 22}), {30, 10})));
  CHECK(array_equal(images::central_crop(x, {3, 3}), x(slice(10, 13), slice(7, 10))));
  CHECK(array_equal(images::flip_left_right(x), flip(x, 1)));
  CHECK(array_equal(images::flip_up_down(x), flip(x, 0)));
  CHECK(array_equal(images::rotate90(images::rotate90(x), 3), x));
  CHECK(array_equal(images::rotate(x, 180, {.bilinear = false}), images::rotate90(x, 2)));
  CHECK(array_equal(images::rotate(x, 90, {.bilinear = false, .expand = true}), images::rotate90(x)));
  CHECK(images::pad_borders(x, {1, 2, 3, 4}).shape() == Shape{26, 24, 3});
  CHECK(images::transpose_image(x).shape() == Shape{17, 23, 3});
  says([&] { images::crop(x, {20, 0}, {5, 5}); }, {"images::crop", "not all inside"});
  says([&] { images::central_crop(x, {50, 5}); }, {"resize_with_crop_or_pad"});
  says([&] { images::resize(x, {0, 5}); }, {"images::resize", "at least 1"});
  says([&] { images::resize(ones({3, 3}), {5, 5}); }, {"[height, width, channels]", "f32[3,3]"});
  says([&] { images::rgb_to_hsv(input("grey")); }, {"3 channels"});
  says([&] { images::perspective(x, {{0, 0}, {1, 0}, {2, 0}, {3, 0}}, {{0, 0}, {1, 0}, {2, 0}, {3, 0}}); },
       {"on a line"});
}

TEST_CASE("images: what is drawn follows from the key") {
  const Tensor x = stack({input("image"), input("other"), input("image"), input("other")});
  const Tensor labels = one_hot(arange(4), 4);
  const auto repeats = [&](const auto& f) {
    const Tensor a = f(random::Key(1));
    CHECK(array_equal(a, f(random::Key(1))));
    bool differs = false;
    for (uint64_t seed = 2; seed < 12; ++seed) {
      const Tensor b = f(random::Key(seed));
      differs = differs || b.shape() != a.shape() || !array_equal(a, b);
    }
    CHECK(differs);
    return a;
  };
  repeats([&](const random::Key& k) { return images::random_flip_left_right(x, {.key = k}); });
  repeats([&](const random::Key& k) { return images::random_flip_up_down(x, {.key = k}); });
  CHECK(repeats([&](const random::Key& k) { return images::random_crop(x, {9, 7}, {.key = k}); }).shape() ==
        Shape{4, 9, 7, 3});
  CHECK(repeats([&](const random::Key& k) { return images::random_resized_crop(x, {12, 10}, {.key = k}); }).shape() ==
        Shape{4, 12, 10, 3});
  repeats([&](const random::Key& k) { return images::random_brightness(x, 0.3, {.key = k}); });
  repeats([&](const random::Key& k) { return images::random_contrast(x, 0.5, 1.5, {.key = k}); });
  repeats([&](const random::Key& k) { return images::random_saturation(x, 0.5, 1.5, {.key = k}); });
  repeats([&](const random::Key& k) { return images::random_hue(x, 0.2, {.key = k}); });
  repeats([&](const random::Key& k) { return images::random_rotation(x, 30, {.key = k}); });
  repeats([&](const random::Key& k) {
    return images::color_jitter(x, {.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1, .key = k});
  });
  const Tensor cut =
      repeats([&](const random::Key& k) { return images::cutout(ones({50, 8, 8, 3}), 4, 0, {.key = k}); });
  CHECK(min(sum(cut, {1, 2, 3})).item<float>() >= 3 * (64 - 16));
  repeats([&](const random::Key& k) { return images::random_erasing(x, {.p = 1, .value = 7, .key = k}); });
  repeats([&](const random::Key& k) { return images::rand_augment(x, {.key = k}); });
  repeats([&](const random::Key& k) { return images::trivial_augment(x, 0, {.key = k}); });
  const Tensor mixed =
      repeats([&](const random::Key& k) { return images::mixup(x.astype(f32), labels, {.key = k}).second; });
  CHECK(allclose(sum(mixed, 1), ones({4})));
  const auto [y, shares] = images::cutmix(x.astype(f32), labels, {.key = random::Key(4)});
  const Tensor own = mean((y == x.astype(f32)).astype(f32), {1, 2, 3});
  CHECK(allclose(sum(shares, 1), ones({4})));
  CHECK(max(abs(own - diagonal(shares))).item<float>() < 0.1f);  // pixels may be equal in both
  CHECK(array_equal(images::random_flip_left_right(x, {.p = 1}), images::flip_left_right(x)));
  CHECK(array_equal(images::random_flip_left_right(x, {.p = 0}), x));
}

TEST_CASE("images: all changes of the policies are drawn") {
  const Tensor x = input("image");
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CHECK(images::rand_augment(x, {.changes = 2, .magnitude = 20, .key = random::Key(seed)}).shape() == x.shape());
    CHECK(images::trivial_augment(x, 0, {.key = random::Key(seed)}).dtype() == u8);
    for (const auto policy :
         {images::AugmentPolicy::imagenet, images::AugmentPolicy::cifar10, images::AugmentPolicy::svhn})
      CHECK(images::auto_augment(x, {.policy = policy, .key = random::Key(seed)}).shape() == x.shape());
  }
}

// Of an image of one grey only inverting, solarizing and posterizing change anything: how often the policy's table says.
TEST_CASE("images: AutoAugment's changes are as frequent as its tables say") {
  const auto shares = [](images::AugmentPolicy policy) {
    std::map<int, double> counts;
    for (uint64_t seed = 0; seed < 4000; ++seed) {
      const Tensor y =
          images::auto_augment(full({4, 4, 3}, 100, u8), {.policy = policy, .fill = 100, .key = random::Key(seed)});
      counts[y.item<int>(1, 2, 0)] += 1 / 4000.;
    }
    return counts;
  };
  const auto photos = shares(images::AugmentPolicy::imagenet), digits = shares(images::AugmentPolicy::svhn);
  CHECK(photos.size() == 3);
  CHECK(std::abs(photos.at(155) - 0.128) < 0.02);
  CHECK(std::abs(photos.at(96) - 0.0656) < 0.015);
  CHECK(digits.size() == 2);
  CHECK(std::abs(digits.at(155) - 0.352) < 0.025);
}

TEST_CASE("images: the likeness of pictures with little contrast has f32's digits") {
  const Tensor a = 0.9 + 1e-3 * random::normal({1, 24, 24, 2}, {.dtype = f64, .key = random::Key(1)});
  const Tensor b = 0.8 + 1e-3 * random::normal({1, 24, 24, 2}, {.dtype = f64, .key = random::Key(2)});
  const Tensor x = a.astype(f32), y = b.astype(f32);
  const double exact = images::ssim(x.astype(f64), y.astype(f64), 1).item<double>();
  CHECK(double(images::ssim(x, y, 1).item<float>()) == Approx(exact).epsilon(5e-7));
  CHECK(double(images::ssim(x, x, 1).item<float>()) == Approx(1).epsilon(5e-7));
}
