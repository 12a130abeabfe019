// A small U-Net (Ronneberger et al., 2015) that finds discs and squares in noisy pictures, pixel by pixel. The pictures
// are generated here, as many as needed. Next to the result is that of the best threshold of the brightness,
// which finds the shapes but cannot distinguish them.
#include "example.h"

using namespace rill;

namespace {

constexpr int64_t size = 32;

// n pictures [n, size, size, 1] of a disc and a square each, and the class of each pixel: 0 nothing, 1 disc, 2 square.
std::pair<Tensor, Tensor> shapes(int64_t n, uint64_t seed) {
  const random::Key key(seed);
  const auto draw = [&](uint64_t i, float low, float high) {
    return random::uniform({n, 1, 1}, {.low = low, .high = high, .key = key.fold_in(i)});
  };
  const Tensor row = arange(size).astype(f32).reshape({1, size, 1}), column = row.reshape({1, 1, size});
  const Tensor disc = square(row - draw(0, 6, 26)) + square(column - draw(1, 6, 26)) < square(draw(2, 3, 7));
  const Tensor half = draw(5, 3, 6);
  const Tensor box = maximum(abs(row - draw(3, 6, 26)), abs(column - draw(4, 6, 26))) < half;
  const Tensor kind = where(box, 2, where(disc, 1, 0)).astype(i64);
  const Tensor noise = random::normal({n, size, size}, {.key = key.fold_in(6)});
  return {expand_dims((kind > 0).astype(f32) + 0.4f * noise, -1), kind};
}

struct Convolutions {
  nn::Conv2D one, two;
  explicit Convolutions(int64_t channels)
      : one(channels, {3}, {.padding = "same", .activation = relu}),
        two(channels, {3}, {.padding = "same", .activation = relu}) {}
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const { return two(one(x, call), call); }
  RILL_LAYER(Convolutions, one, two)
};

struct UNet {
  Convolutions down_one{8}, down_two{16}, bottom{32}, up_two{16}, up_one{8};
  nn::ConvTranspose2D grow_two{16, {2}, {.strides = {2}}}, grow_one{8, {2}, {.strides = {2}}};
  nn::Conv2D head{3, {1}};
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    const Tensor one = down_one(x, call), two = down_two(max_pool(one, {2, 2}), call);
    Tensor h = bottom(max_pool(two, {2, 2}), call);
    h = up_two(concat({two, grow_two(h, call)}, -1), call);
    h = up_one(concat({one, grow_one(h, call)}, -1), call);
    return head(h, call);
  }
};

// With the best threshold, and one class for all bright pixels.
double threshold_iou(const Tensor& pictures, const Tensor& kinds) {
  double best = 0;
  for (double at = 0; at < 1.5; at += 0.1)
    for (int64_t kind : {1, 2}) {
      const auto iou = metrics::mean_iou(3);
      iou.update(one_hot((squeeze(pictures, -1) > at).astype(i64) * kind, 3), kinds);
      best = std::max(best, iou.result().item<double>());
    }
  return best;
}

}  // namespace

static void run() {
  const auto train = shapes(example::quick ? 32 : 512, 1), test = shapes(example::quick ? 16 : 128, 2);
  UNet net;
  train::Loop loop(
      net, {.loss = [](const Tensor& logits,
                       const Tensor& kinds) { return mean(sparse_softmax_cross_entropy(logits, kinds), {1, 2}); },
            .optimizer = nn::Adam({.learning_rate = 3e-3}),
            .metrics = {metrics::mean_iou(3)}});
  loop.fit(data::from_tensors(train).shuffle({.seed = 1}).batch(16),
           {.epochs = example::quick ? 1 : 10, .progress = false});
  example::print("mean intersection over union", loop.evaluate(data::from_tensors(test).batch(64)).at("mean_iou"),
                 "the best threshold: " + std::to_string(threshold_iou(test.first, test.second)).substr(0, 6));
  const Tensor kinds = argmax(net(test.first(slice(0, 1))), -1)(0);
  const std::vector<int64_t> pixels = kinds.to_vector<int64_t>();
  for (size_t row = 0; row < size; row += 2) {
    for (size_t column = 0; column < size; ++column) std::putchar(".o#"[pixels[row * size + column]]);
    std::putchar('\n');
  }
}

int main(int argc, char** argv) { return example::main(argc, argv, run); }
