// What folds, scans and orders lines on the GPU (the simulated one where there is none), against the CPU: the sizes at
// which kernels change hands, and lines that lie in memory in every way.
#include <array>
#include <initializer_list>
#include <limits>

#include "catch.h"
#include "child.h"
#include "gpu_devices.h"
#include "messages.h"
#include "op_check.h"
#include "rill/devices/params/sparse_params.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "same.h"

using namespace rill;

namespace {

// f on the GPU has the CPU's bits, or is near its result.
template <class F>
void check_same(const Tensor& x, F f) {
  const WithDevice here(host);
  INFO(to_string(x.spec()));
  CHECK(same(f(x.to(gpu)).to(host), f(x)));
}
template <class F>
void check_close(const Tensor& x, F f, double tolerance = 2e-6) {
  const WithDevice here(host);
  INFO(to_string(x.spec()));
  const Tensor want = f(x), got = f(x.to(gpu)).to(host);
  CHECK(got.dtype() == want.dtype());
  CHECK(allclose(got, want, {.rtol = tolerance, .atol = tolerance, .equal_nan = true}));
}

void check_each(const Tensor& x, std::initializer_list<Tensor (*)(const Tensor&)> functions) {
  for (const auto f : functions) check_same(x, f);
}

Tensor numbers(const Shape& shape) {
  const WithDevice here(host);
  random::seed(3);
  return random::normal(shape);
}
Tensor whole_numbers(const Shape& shape) { return round(numbers(shape) * 20).astype(i32); }

}  // namespace

TEST_CASE("folds of every length") {
  // Whole numbers as floats: every order gives their sum.
  for (const int64_t n : {1, 2, 31, 32, 33, 1000, 1023, 1024, 1025, 2049, 9000, 40000}) {
    const Tensor x = round(numbers({n}) * 9);
    check_same(x, [](const Tensor& x) { return sum(x); });
    check_each(x, {[](const Tensor& x) { return max(x); }, [](const Tensor& x) { return min(x); },
                   [](const Tensor& x) { return argmax(x); }});
  }
  check_same(round(numbers({300000}) * 9), [](const Tensor& x) { return sum(x); });
  // Of so many that a GPU of 132 multiprocessors cuts them into more than 64 pieces.
  const Tensor many = round(numbers({600000}) * 9);
  check_same(many.astype(i64), [](const Tensor& x) { return argmax(x); });
  check_same(many, [](const Tensor& x) { return max(x); });
  check_same(many.astype(f64) * 0.5, [](const Tensor& x) { return norm(x); });
}

TEST_CASE("folds of rows and columns") {
  for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}, Shape{70, 5}, Shape{5, 70}, Shape{2, 5000}, Shape{5000, 3},
                             Shape{20000, 2}, Shape{40, 40}, Shape{3, 20000}, Shape{600, 20}}) {
    const Tensor x = whole_numbers(shape);
    for (const int64_t axis : {0, 1}) {
      check_same(x, [&](const Tensor& x) { return sum(x, axis); });
      check_same(transpose(x), [&](const Tensor& x) { return sum(x, axis); });
      check_same(flip(x, {0}), [&](const Tensor& x) { return sum(x, axis); });
      check_same(x, [&](const Tensor& x) { return any(x == 7, {.axis = {axis}}); });
      if (x.shape()[size_t(axis)] > 0) {
        check_same(x, [&](const Tensor& x) { return argmin(x, axis); });
        check_same(x.astype(f16), [&](const Tensor& x) { return max(x, axis); });
      }
    }
  }
}

TEST_CASE("folds over many axes") {
  const Tensor x = whole_numbers({3, 4, 5, 6, 7});
  for (const Axes& axes : {Axes{0, 2}, Axes{1, 3}, Axes{0, 2, 4}, Axes{4}, Axes{0}, Axes{1, 2, 3}})
    for (const Tensor& view : {x, transpose(x), x(slice(none, none, 2)), flip(x)})
      check_same(view, [&](const Tensor& x) { return sum(x, {.axis = axes}); });
  check_same(broadcast_to(whole_numbers({5}), {300, 5}), [](const Tensor& x) { return sum(x, 0); });
  check_same(ones({2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}),
             [](const Tensor& x) { return sum(x, {.axis = {0, 2, 4, 6, 8, 10}}); });
}

TEST_CASE("a row's sum does not depend on how it is cut") {
  const WithDevice here(host);
  const Tensor row = numbers({70000}), x = row.to(gpu);
  const float alone = sum(x).item<float>();
  const Tensor rows = broadcast_to(row, {300, 70000}).to(gpu);  // a warp each; alone, blocks
  CHECK(all(sum(rows(slice(0, 70)), 1) == alone).item<bool>());
  const Tensor columns = transpose(rows(slice(0, 9))) + 0;
  CHECK(all(sum(columns, 0) == alone).item<bool>());
}

namespace {
unsigned most_blocks() {
  synchronize(gpu);
  return of_driver<unsigned()>("rill_simulated_most_blocks")();
}
// The most blocks of f's kernels, eager and, at its third call, traced; each has the CPU's result.
template <class F>
std::array<unsigned, 2> blocks_of(F f, const Tensor& x) {
  const Tensor there = x.to(gpu), want = f(x);
  std::array<unsigned, 2> most{};
  most_blocks();
  CHECK(allclose(f(there).to(host), want, {.rtol = 1e-6}));
  most[0] = most_blocks();
  auto traced = function("traced", f);
  for (int i = 0; i < 3; ++i, jit::wait()) {
    most_blocks();
    CHECK(same(traced(there).to(host), f(there).to(host)));
  }
  most_blocks();
  const Tensor y = traced(there);
  most[1] = most_blocks();
  CHECK(same(y.to(host), f(there).to(host)));
  return most;
}
}  // namespace

TEST_CASE("child: few long rows", "[.]") {
  const WithDevice here(host);
  if (!of_driver<long()>("rill_simulated_launches")) return skip_case("a true driver counts no blocks");
  const auto mse = [](const Tensor& x) { return mean(square(x - 0.5f)); };
  CHECK(blocks_of(mse, numbers({65536}))[1] >= 8);    // of 8 warps, a thousand points each
  CHECK(blocks_of(mse, numbers({300000}))[1] >= 37);  // also beyond what is few and long on the CPU
  const auto probabilities = [](const Tensor& x) { return softmax(x, -1); };
  for (const unsigned blocks : blocks_of(probabilities, numbers({1, 50257}))) CHECK(blocks >= 7);
  for (const unsigned blocks : blocks_of(probabilities, numbers({200, 5000}))) CHECK(blocks == 200);
  const auto normed = [](const Tensor& x) { return layer_norm(x); };
  for (const unsigned blocks : blocks_of(normed, numbers({2, 30000}))) CHECK(blocks >= 8);
  // Rows of a few numbers share a warp, and a thread has one where that is all of it.
  for (const unsigned blocks : blocks_of(probabilities, numbers({1024, 10}))) CHECK(blocks == 64);
}
TEST_CASE("few long rows keep a GPU of 132 multiprocessors busy") {
  std::string output;
  const int status = child("RILL_SIMULATED_PROCESSORS=132", "child: few long rows", output);
  INFO(output);
  CHECK(status == 0);
}

TEST_CASE("NaN, infinities and zeros in folds") {
  const WithDevice here(host);
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const Tensor& x : {tensor({1.f, nan, 3.f, nan}), tensor({-0.f, 0.f, -0.f}), tensor({0.f, -0.f}), tensor({-0.f}),
                          tensor({inf, -inf, 1.f}), tensor({3.f, 3.f, 1.f, 3.f, 1.f})}) {
    check_each(x, {[](const Tensor& x) { return max(x); }, [](const Tensor& x) { return min(x); },
                   [](const Tensor& x) { return sum(x); }, [](const Tensor& x) { return prod(x); },
                   [](const Tensor& x) { return argmax(x); }, [](const Tensor& x) { return argmin(x); },
                   [](const Tensor& x) { return any(x); }, [](const Tensor& x) { return all(x); }});
  }
}

TEST_CASE("norms neither overflow nor vanish") {
  const WithDevice here(host);
  for (const double scale : {1.0, 1e-300, 1e300, 1e-160}) {
    const Tensor x = numbers({5, 700}).astype(f64) * scale;
    check_close(x, [&](const Tensor& x) { return norm(x) / scale; }, 1e-14);
    check_close(complex(x, -x), [&](const Tensor& x) { return norm(x) / scale; }, 1e-14);
  }
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const Tensor& x : {tensor({inf, 1.0}), tensor({nan, 1e-200}), tensor({1e-200, 1.0}), tensor({1e200, 1e-200})})
    check_close(x, [](const Tensor& x) { return norm(x); }, 1e-15);
}

TEST_CASE("norms of layers and batches") {
  const WithDevice here(host);
  for (const Shape& shape : {Shape{300, 5}, Shape{2000, 3}, Shape{4, 50, 60}, Shape{3, 40, 7}, Shape{2, 2, 9000}}) {
    const Tensor x = numbers(shape) + 3;
    const auto batch = [](const Tensor& x) {
      const Tensor ones_of_channels = ones({x.shape()[1]}, {.device = x.device()});
      return batch_norm(x, ones_of_channels * 2, ones_of_channels, {.axis = 1}).y;
    };
    check_close(x, batch, 1e-5);
    check_close(x, grad([&](const Tensor& x) { return sum(sin(batch(x))); }), 1e-4);
    check_close(ones({shape.back()}),
                grad([&](const Tensor& s) { return sum(sin(layer_norm(x.to(s.device()), s, s))); }), 1e-3);
  }
}

TEST_CASE("batch_norm where f32 holds no squares of deviations") {
  const WithDevice here(host);
  for (const float scale : {1e19f, 3e25f, 1e-18f})
    for (const Shape& shape : {Shape{300, 5}, Shape{4, 50, 60}}) {
      const Tensor x = numbers(shape) * scale;
      const auto batch = [](const Tensor& x) {
        const Tensor of_channels = ones({x.shape()[1]}, {.device = x.device()});
        return batch_norm(x, of_channels * 2, of_channels, {.axis = 1, .epsilon = 1e-38}).y;
      };
      check_close(x, batch, 1e-5);
      const auto gradient = grad([&](const Tensor& x) { return sum(sin(batch(x))); });
      CHECK(max(abs(gradient(x) * scale)).item<float>() > 0.1f);
      check_close(x, [&](const Tensor& x) { return gradient(x) * scale; }, 1e-4);
    }
}

TEST_CASE("traced gradients of layer_norm have eager code's bits") {
  const WithDevice here(host);
  const Tensor x = numbers({2500, 6}).to(gpu), scale = numbers({6}).to(gpu);
  const auto f = [](const Tensor& x, const Tensor& s) {
    return grad([&](const Tensor& s) { return sum(sin(layer_norm(x * 2, s, s)) + 1); })(s);
  };
  auto traced = function("gradient", f);
  traced(x, scale);
  jit::wait();
  CHECK(same(traced(x, scale).to(host), f(x, scale).to(host)));
  CHECK(traced.explain().find("layer_norm_grad") != std::string::npos);
}

TEST_CASE("scans of every length") {
  for (const Shape& shape :
       {Shape{0}, Shape{1}, Shape{31}, Shape{33}, Shape{257}, Shape{4096}, Shape{4097}, Shape{70000}, Shape{3, 700},
        Shape{700, 3}, Shape{2, 5000, 2}, Shape{5, 300}, Shape{3, 1, 40}}) {
    const Tensor x = whole_numbers(shape);
    for (int64_t axis = 0; axis < x.ndim(); ++axis)
      for (const bool reverse : {false, true})
        for (const bool exclusive : {false, true}) {
          const CumulativeOptions o{.axis = axis, .exclusive = exclusive, .reverse = reverse};
          check_same(x, [&](const Tensor& x) { return cumsum(x, o); });
          if (exclusive) continue;
          check_same(x.astype(f16), [&](const Tensor& x) { return cummax(x, o); });
          check_same(x, [&](const Tensor& x) { return cummin(x, o); });
        }
  }
}

TEST_CASE("scans of floats") {
  const WithDevice here(host);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Shape& shape : {Shape{5000}, Shape{3, 400}, Shape{400, 3}}) {
    const Tensor x = numbers(shape);
    check_close(x, [](const Tensor& x) { return cumsum(x, {.axis = 0}); }, 1e-5);
    check_close(x, [](const Tensor& x) { return cumsum(x.astype(f64), {.axis = 0}); }, 1e-12);
    check_same(x.astype(f64), [](const Tensor& x) { return cumprod(x, {.axis = 0, .exclusive = true}); });
    check_same(complex(x, x), [](const Tensor& x) { return cumprod(x, {.axis = -1, .reverse = true}); });
  }
  check_each(tensor({1.f, -0.f, 0.f, 3.f, nan, 7.f}),
             {[](const Tensor& x) { return cummax(x); }, [](const Tensor& x) { return cummin(x); },
              [](const Tensor& x) { return cumsum(x); }});
  // 0 stays 0, though what follows it would overflow by itself.
  check_same(tensor({0.f, 1e38f, 1e38f, 1e38f, 1e38f, 1e38f, 1e38f, 1e38f, 1e38f, 1e38f, 1e38f, 1e38f}),
             [](const Tensor& x) { return cumprod(x); });
}

TEST_CASE("sorting") {
  const WithDevice here(host);
  for (const Shape& shape : {Shape{0}, Shape{1}, Shape{2}, Shape{33}, Shape{1000}, Shape{2048}, Shape{2049},
                             Shape{5000}, Shape{40, 7}, Shape{7, 40}, Shape{600, 3}, Shape{3, 2500}, Shape{2, 2500, 2}})
    for (int64_t axis = 0; axis < int64_t(shape.size()); ++axis)
      for (const bool descending : {false, true}) {
        const SortOptions o{.axis = axis, .descending = descending};
        const Tensor x = whole_numbers(shape);  // with many ties
        check_same(x, [&](const Tensor& x) { return argsort(x, o); });
        check_same(numbers(shape), [&](const Tensor& x) { return sort(x, o); });
        if (x.size() > 3000 && x.ndim() > 1) continue;  // every dtype at a few sizes
        for (const DType d : {f16, bf16, f64, DType::i8, DType::u8, DType::i16, DType::i64, DType::u64, DType::boolean})
          check_same(x.astype(d), [&](const Tensor& x) { return argsort(x, o); });
      }
  check_same(flip(whole_numbers({50, 60})), [](const Tensor& x) { return argsort(transpose(x), {.axis = 0}); });
}

TEST_CASE("sorting long lines") {
  const WithDevice here(host);
  // Elements that differ in their high and low bits, many of which are equal.
  const auto elements = [](const Shape& shape, DType d) {
    const Tensor x = whole_numbers(shape);
    return is_floating(d) || d == DType::boolean ? x.astype(d) : (x.astype(i64) * 0x10000000101).astype(d);
  };
  // Around a block's tile, several tiles in a piece, and lines that have a block each.
  for (const Shape& shape : {Shape{4096}, Shape{4097}, Shape{60001}, Shape{2, 2, 4100}, Shape{20, 2049}})
    check_each(elements(shape, i32),
               {[](const Tensor& x) { return sort(x); }, [](const Tensor& x) { return argsort(x); }});
  for (const DType d :
       {f16, bf16, f32, f64, DType::i8, u8, DType::i16, DType::u16, DType::u32, i64, DType::u64, DType::boolean}) {
    const Tensor x = elements({2, d == f16 ? 30000 : 4100}, d);
    check_each(x, {[](const Tensor& x) { return sort(x, {.descending = true}); },
                   [](const Tensor& x) { return sort(x); }, [](const Tensor& x) { return argsort(x); }});
  }
  // Along other axes, and views.
  for (const Shape& shape : {Shape{2, 2500, 9}, Shape{300, 9, 2}, Shape{257, 3}, Shape{256, 40}})
    for (const int64_t axis : {0, 1}) {
      const Tensor x = elements(shape, i32);
      check_same(x, [&](const Tensor& x) { return sort(x, {.axis = axis}); });
      check_same(x, [&](const Tensor& x) { return argsort(flip(x), {.axis = axis, .descending = true}); });
      check_same(x, [&](const Tensor& x) { return sort(transpose(x), {.axis = axis}); });
      check_same(x, [&](const Tensor& x) { return argsort(x(slice(1, 200)), {.axis = axis}); });
    }
  check_each(elements({5000, 9}, f32), {[](const Tensor& x) { return topk(x, 400, {.axis = 0}).values; },
                                        [](const Tensor& x) { return topk(x, 400, {.axis = 0}).indices; },
                                        [](const Tensor& x) { return topk(x, 40, {.axis = 0}).indices; }});
}

TEST_CASE("sorting keeps every bit and the order of equal elements") {
  const WithDevice here(host);
  random::seed(5);
  // NaNs of either sign, each with bits of its own, zeros of either sign, and numbers.
  const Tensor number = arange(9000, {.dtype = i32}), kind = (random::uniform({9000}) * 5).astype(i32);
  const Tensor bits = where(kind == 0, number + 0x7f800001, where(kind == 1, number - 0x7fffff, kind - 3));
  const Tensor x = bitcast(where(kind == 2, number * std::numeric_limits<int32_t>::min(), bits), f32);
  for (const int64_t n : {int64_t(900), int64_t(9000)})
    for (const bool descending : {false, true}) {
      const SortOptions o{.descending = descending};
      const Tensor part = x(slice(0, n)), there = part.to(gpu), order = argsort(there, o);
      CHECK(same_bits(order.to(host), argsort(part, o)));
      CHECK(same_bits(bitcast(sort(there, o), i32), take(bitcast(there, i32), order)));
    }
}

TEST_CASE("sorting NaN and zeros") {
  const WithDevice here(host);
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor few = tensor({0.f, nan, -0.f, -inf, 3.f, inf, -nan, -0.f, 0.f, -3.f, nan});
  for (const Tensor& x : {few, reshape(broadcast_to(few, {300, 11}), {3300})})
    for (const DType d : {f32, f64, f16, bf16})
      check_each(x.astype(d),
                 {[](const Tensor& x) { return sort(x); }, [](const Tensor& x) { return argsort(x); },
                  [](const Tensor& x) { return argsort(x, {.descending = true}); },
                  [](const Tensor& x) { return topk(x, 7).values; }, [](const Tensor& x) { return topk(x, 7).indices; },
                  [](const Tensor& x) { return topk(x, 3, {.largest = false}).indices; }});
}

TEST_CASE("the first few of many") {
  const WithDevice here(host);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Shape& shape : {Shape{2049}, Shape{40000}, Shape{3, 2100}, Shape{2, 5000, 2}})
    for (const int64_t k : {1, 7, 64, 256, 257}) {
      const Tensor x = whole_numbers(shape), some_nan = where(x > 5, nan, x.astype(f32));
      for (const bool largest : {false, true}) {
        const TopKOptions o{.axis = shape.ndim() > 1 ? 1 : 0, .largest = largest};
        check_same(x, [&](const Tensor& x) { return topk(x, k, o).indices; });
        check_same(some_nan, [&](const Tensor& x) { return topk(x, k, o).indices; });
        check_same(numbers(shape), [&](const Tensor& x) { return topk(x, k, o).values; });
      }
    }
}

TEST_CASE("sparse products") {
  const WithDevice here(host);
  const Op &product = *find_op("sparse_matmul"), &sampled = *find_op("sampled_matmul");
  for (const auto& [m, k, n, count] :
       {std::array<int64_t, 4>{5, 7, 3, 20}, {300, 20, 1, 6000}, {3, 3, 40, 0}, {70000, 5, 2, 900}}) {
    random::seed(4);
    const Tensor values = round(numbers({count}) * 3), dense = round(numbers({k, n}) * 3),
                 rows = (random::uniform({count}) * m).astype(i64),
                 columns = (random::uniform({count}) * k).astype(i64);
    const auto check = [](const Op& op, const std::vector<Tensor>& in, const Attrs& attrs) {
      std::vector<Tensor> there;
      for (const Tensor& t : in) there.push_back(t.to(gpu));
      CHECK(same(op_check::run(op, there, attrs)[0].to(host), op_check::run(op, in, attrs)[0]));
    };
    check(product, {values, rows, columns, dense}, SparseMatmulParams{m});
    check(sampled, {round(numbers({m, n})), dense, rows, columns}, {});
    if (count != 20) continue;
    const Tensor bad = tensor<int64_t>({0, 1, 9}).to(gpu), good = tensor<int64_t>({0, 1, 2}).to(gpu),
                 ones_there = ones({3}, {.device = gpu}), dense_there = dense.to(gpu);
    const auto run = [&](const Tensor& rows, const Tensor& columns) {
      static_cast<void>(
          op_check::run(product, {ones_there, rows, columns, dense_there}, SparseMatmulParams{m})[0].to(host));
    };
    says([&] { run(bad, good); }, {"entry 2 has the row index 9", "5 rows"});
    says([&] { run(good, bad); }, {"entry 2 has the column index 9", "7 columns"});
    run(good, good);
  }
}
