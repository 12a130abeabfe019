// What moves and makes data on a GPU (devices/cuda/families/move.cuh, index.cuh, random.cuh), and complex numbers
// (complex.cuh), against the CPU: at the sizes where their kernels change course.
#include "catch.h"
#include "gpu_devices.h"
#include "messages.h"
#include "op_check.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/params/shape_params.h"
#include "rill/ops/samples.h"
#include "rill/rill.h"
#include "same.h"

using op_check::Inputs;
using op_check::run;
using namespace rill;

namespace {

// Whether f gives the same bits on both.
template <class F>
bool agrees(const Inputs& in, F&& f) {
  const WithDevice here(host);
  const Tensor want = f(in), got = f(to(in, gpu));
  REQUIRE(got.device() == gpu);
  return same(got.to(host), want);
}
bool agrees(std::string_view op, const Inputs& in, const Attrs& attrs) {
  return agrees(in, [&](const Inputs& x) { return run(*find_op(op), x, attrs)[0]; });
}

Tensor numbers(const Shape& shape, DType d = f32, uint64_t seed = 1) {
  return samples::uniform(shape, -100, 100, seed).astype(d);
}
Tensor places(int64_t n, int64_t below, DType d = i64) { return samples::integers({n}, 0, int(below), d); }

// The largest difference of two tensors of numbers of about 1.
double largest_error(const Tensor& got, const Tensor& want) {
  return want.size() == 0 ? 0 : max(abs(got - want)).astype(f64).item<double>();
}

Attrs rows(bool skips = false) { return GatherAttrs{{0}, {}, {}, 0, skips}; }
Attrs onto_rows(ScatterMode mode, bool skips = false) { return ScatterAttrs{{{0}, {}, {}, 0, skips}, mode}; }

}  // namespace

TEST_CASE("copies of strided tensors") {
  for (const DType d : {u8, f16, f32, f64, c128}) {
    const auto transposed = [](const Inputs& in) { return transpose(in[0]).contiguous(); };
    for (const Shape& s : {Shape{0, 3}, Shape{7, 7}, Shape{8, 9}, Shape{32, 33}, Shape{70, 131}, Shape{3, 40, 50}}) {
      INFO(to_string(s) << " " << name(d));
      CHECK(agrees({numbers(s, d)}, transposed));
    }
    const Tensor x = numbers({4, 33, 3, 40}, d);
    CHECK(agrees({x}, [](const Inputs& in) { return transpose(in[0], {2, 1, 0, 3}).contiguous(); }));
    CHECK(agrees({x}, [](const Inputs& in) { return transpose(in[0], {0, 3, 2, 1}).contiguous(); }));
    CHECK(agrees({x}, [](const Inputs& in) {
      return in[0](slice(none, none), slice(1, 30, 3), 1, slice(none, none, -1)).contiguous();
    }));
    CHECK(agrees({x}, [](const Inputs& in) { return in[0](all, all, all, slice(1, 39)).contiguous(); }));
    CHECK(agrees({numbers({33}, d)}, [](const Inputs& in) { return broadcast_to(in[0], {4, 5, 33}).contiguous(); }));
  }
  // More axes than a kernel walks, none of which join.
  const Tensor deep = numbers({3, 2, 3, 2, 3, 2, 3, 2, 3, 2});
  CHECK(agrees({deep}, [](const Inputs& in) { return transpose(in[0]).contiguous(); }));
}

TEST_CASE("concat, pad and slices") {
  for (const DType d : {u8, bf16, f32, c64, c128}) {
    INFO(name(d));
    for (const int64_t axis : {0, 1, 2}) {
      Inputs parts;
      for (int i = 0; i < 9; ++i) {
        Shape s{5, 6, 16};
        s[size_t(axis)] = i * 4 % 7;
        parts.push_back(numbers(s, d, uint64_t(i)));
      }
      CHECK(agrees(parts, [&](const Inputs& in) { return concat(in, axis); }));
      parts[2] = numbers({16, 6, 5}, d);
      CHECK((axis == 1 ||
             agrees({parts[2]}, [&](const Inputs& in) { return concat({transpose(in[0]), transpose(in[0])}, axis); })));
    }
    const auto pads = [&](Dims lo, Dims hi, Dims interior) {
      const FillValue value{1, 1, 1};
      CHECK(agrees("pad", {numbers({6, 1, 33}, d)}, PadAttrs{lo, hi, interior, d, value}));
      CHECK(agrees({numbers({33, 1, 6}, d)}, [&](const Inputs& in) {
        return run(*find_op("pad"), {transpose(in[0])}, PadAttrs{lo, hi, interior, d, value})[0];
      }));
    };
    pads({0, 0, 0}, {0, 0, 0}, {0, 0, 0});
    pads({1, 2, 3}, {0, 1, 2}, {0, 0, 0});
    pads({-1, 0, 0}, {2, 0, -3}, {0, 3, 1});
    pads({-9, 0, -7}, {9, 0, 12}, {2, 0, 0});
    pads({0, 1, 0}, {0, 0, 0}, {0, 0, 0});
    const auto update = [&](const SliceAttrs& s, const Shape& value) {
      CHECK(agrees("update_slice", {numbers({7, 5, 64}, d), numbers(value, d, 2)}, s));
    };
    update({{1, 0, 0}, {5, 5, 64}, {1, 1, 1}, {}}, {4, 5, 64});
    update({{6, 0, 3}, {slice_min, 5, 60}, {-2, 2, 3}, {}}, {4, 3, 19});
    update({{2, 0, 0}, {3, 5, 64}, {1, 1, 1}, {0}}, {5, 64});
    update({{0, 0, 0}, {7, 0, 64}, {1, 1, 1}, {}}, {7, 0, 64});
  }
  CHECK(agrees({numbers({5, 4})}, [](const Inputs& in) { return bitcast(transpose(in[0]), i32); }));
}

TEST_CASE("gather") {
  for (const DType d : {u8, f16, f32, c128})
    for (const int64_t width : {0, 1, 3, 4, 31, 64, 1000})
      for (const int64_t n : {0, 1, 33, 700}) {
        INFO(name(d) << " " << width << " " << n);
        CHECK(agrees("gather", {numbers({40, width}, d), places(n, 40)}, rows()));
      }
  for (const DType d : {DType::i8, DType::i16, i32, i64, u8, DType::u16, DType::u32, DType::u64})
    CHECK(agrees("gather", {numbers({40, 3}), places(77, 40, d)}, rows()));
  const Tensor x = numbers({5, 6, 7, 8});
  const Tensor i = samples::integers({3, 1, 4}, -6, 6, i64), j = samples::integers({2, 4}, -8, 8, i32);
  CHECK(agrees("gather", {x, i, j}, GatherAttrs{{1, 3}, {}, {}, 0}));
  CHECK(agrees("gather", {x, i, j}, GatherAttrs{{1, 3}, {}, {}, 1}));
  CHECK(agrees("gather", {x, i}, GatherAttrs{{1}, {}, {}, 3}));
  CHECK(agrees({x, places(50, 8)}, [](const Inputs& in) { return take(transpose(in[0]), in[1], 0); }));
  // Slices whose lengths are words that the distances between them are not.
  for (const auto& [all, used] : {std::pair(7, 6), std::pair(9, 8), std::pair(6, 4)})
    CHECK(agrees({numbers({40, all}), places(50, 40)}, [used = used](const Inputs& in) {
      return run(*find_op("gather"), {slice_axis(in[0], 1, 0, used), in[1]}, rows())[0];
    }));
  const Tensor along = samples::integers({5, 6, 7, 3}, -8, 8, i64);
  CHECK(agrees({x, along}, [](const Inputs& in) { return take_along_axis(in[0], in[1], 3); }));
  // What is out of range is zero, or an error.
  const Tensor wild = samples::integers({300}, -90, 90, i64);
  CHECK(agrees("gather", {numbers({40, 4}), wild}, rows(true)));
  CHECK(agrees("gather", {numbers({40}), wild.astype(DType::u64)}, rows(true)));
  const Tensor far = tensor({0, -41}).astype(i64).to(gpu);
  CHECK_THROWS_WITH(run(*find_op("gather"), {numbers({40}).to(gpu), far}, rows())[0].to(host),
                    contains_text("index -41 is out of bounds for axis 0 of size 40"));
  CHECK(agrees("gather", {numbers({40}), places(9, 40)}, rows()));  // and the GPU goes on
}

TEST_CASE("scatter") {
  // Few and many updates, sorted by one kernel or by three a digit; 60 000 targets have two digits.
  for (const int64_t n : {1, 31, 300, 4096, 4097, 9000})
    for (const int64_t targets : {1, 5, 255, 256, 60000}) {
      INFO(n << " updates of " << targets);
      const Inputs in{numbers({targets}), numbers({n}, f32, 2), places(n, targets)};
      for (const ScatterMode mode : {ScatterMode::set, ScatterMode::add}) CHECK(agrees("scatter", in, onto_rows(mode)));
    }
  for (const DType d :
       {f16, bf16, f32, f64, DType::i8, DType::i16, i32, i64, u8, DType::u32, DType::u64, DType::boolean})
    for (const ScatterMode mode :
         {ScatterMode::set, ScatterMode::add, ScatterMode::multiply, ScatterMode::min, ScatterMode::max}) {
      INFO(name(d) << " " << name(mode));
      const std::string_view op = mode == ScatterMode::set || mode == ScatterMode::add ? "scatter" : "scatter_reduce";
      CHECK(agrees(op, {numbers({20, 12}, d), numbers({70, 12}, d, 2), places(70, 20)}, onto_rows(mode)));
    }
  for (const DType d : {c64, c128})
    for (const ScatterMode mode : {ScatterMode::set, ScatterMode::add})
      CHECK(agrees("scatter", {numbers({20, 3}, d), numbers({70, 3}, d, 2), places(70, 20)}, onto_rows(mode)));
  // NaN wins, and the first one stays.
  const Tensor odd = tensor({NAN, 1.0f, -0.0f, 0.0f, 5.0f, NAN});
  for (const ScatterMode mode : {ScatterMode::min, ScatterMode::max})
    CHECK(agrees("scatter_reduce", {zeros({3}), odd, tensor({0, 0, 1, 1, 2, 2})}, onto_rows(mode)));
  // Places in the middle, along two axes, by rows; updates that are not dense, or one for all.
  const Tensor x = numbers({5, 6, 7, 8}), i = samples::integers({3, 1, 4}, -6, 6, i64),
               j = samples::integers({2, 4}, -8, 8, i32);
  for (const ScatterMode mode : {ScatterMode::set, ScatterMode::add}) {
    CHECK(agrees("scatter", {x, numbers({5, 3, 2, 4, 7}, f32, 2), i, j}, ScatterAttrs{{{1, 3}, {}, {}, 1}, mode}));
    CHECK(agrees({x, numbers({7, 4, 2, 3, 5}, f32, 2), i, j}, [&](const Inputs& in) {
      return run(*find_op("scatter"), {in[0], transpose(in[1]), in[2], in[3]},
                 ScatterAttrs{{{1, 3}, {}, {}, 1}, mode})[0];
    }));
    CHECK(agrees({x, numbers({1}), i, j}, [&](const Inputs& in) {
      return run(*find_op("scatter"), {in[0], broadcast_to(in[1], {5, 3, 2, 4, 7}), in[2], in[3]},
                 ScatterAttrs{{{1, 3}, {}, {}, 1}, mode})[0];
    }));
    const Tensor along = samples::integers({5, 3}, 0, 6, i64);
    CHECK(agrees("scatter", {numbers({5, 6}), numbers({5, 3}), along}, ScatterAttrs{{{1}, {0}, {0}, 0}, mode}));
    CHECK(agrees("scatter", {numbers({40, 4}), numbers({300, 4}), samples::integers({300}, -90, 90, i64)},
                 onto_rows(mode, true)));
  }
  const Tensor far = tensor({3, 40}).astype(i64).to(gpu);
  CHECK_THROWS_WITH(
      run(*find_op("scatter"), {numbers({40}).to(gpu), numbers({2}).to(gpu), far}, onto_rows(ScatterMode::add))[0].to(
          host),
      contains_text("index 40 is out of bounds for axis 0 of size 40"));
}

TEST_CASE("searchsorted") {
  for (const DType d : {f16, f32, f64, i32, u8}) {
    const Tensor edges = sort(numbers({501}).astype(d));
    for (const bool right : {false, true})
      CHECK(agrees({edges, numbers({3, 700}, d, 2)},
                   [&](const Inputs& in) { return searchsorted(in[0], in[1], right); }));
  }
  const Tensor edges = tensor({-1.0f, -0.0f, 0.0f, 2.0f, INFINITY, NAN, NAN});
  for (const bool right : {false, true})
    CHECK(agrees({edges, edges}, [&](const Inputs& in) { return searchsorted(in[0], in[1], right); }));
}

TEST_CASE("random bits and draws") {
  const Tensor key = samples::values({7, 9}, {2}, DType::u64);
  for (const int64_t n : {0, 1, 3, 4, 1023, 70000}) {
    INFO(n);
    CHECK(agrees("random_bits", {key}, RandomParams{{n}}));
  }
  // Logarithms are CUDA's, whose last bits may differ: hardly ever seen in f32.
  for (const DType d : {f32, f64}) {
    const Inputs in{key, samples::uniform({3000}, 0.01, 30).astype(d)};
    const Op& op = *find_op("random_gamma");
    const WithDevice here(host);
    const Inputs want = run(op, in, {}), got = to(run(op, to(in, gpu), {}), host);
    for (size_t k = 0; k < 2; ++k) {
      const double allowed = d == f64 ? lost_digits(op, want[k]) : 0;
      CHECK(largest_error(got[k], want[k]) <= allowed);
    }
  }
  const Tensor many = samples::uniform({3000}, 0, 500).astype(f64),
               share = samples::uniform({3000}, 0, 1, 2).astype(f64);
  CHECK(agrees("random_poisson", {key, many}, {}));
  CHECK(agrees("random_binomial", {key, floor(many), share}, {}));
  CHECK(agrees("random_multinomial", {key, floor(many), samples::uniform({3000, 7}, 0, 1).astype(f64)}, {}));
}

TEST_CASE("casts to and from 8-bit floats") {
  for (const DType d : {f8_e4m3fn, f8_e5m2}) {
    const Tensor codes = bitcast(arange(256).astype(u8), d);
    for (const DType other : {boolean, i8, i32, i64, u8, u64, f16, bf16, f32, f64, c64, c128, f8_e4m3fn, f8_e5m2}) {
      INFO(name(d) << " and " << name(other));
      const Tensor x = (numbers({5000}, f64) * 1000).astype(other);
      CHECK(same_bits(x.to(gpu).astype(d).to(host), x.astype(d)));
      CHECK(same_bits(x.T().to(gpu)(slice({}, {}, 3)).astype(d).to(host), x(slice({}, {}, 3)).astype(d)));
      CHECK(same_bits(codes.to(gpu).astype(other).to(host), codes.astype(other)));
    }
    CHECK(same_bits(full({3}, 1.1, {d, gpu}).to(host), full({3}, 1.1, d)));
  }
}

TEST_CASE("folds of complex numbers") {
  for (const DType d : {c64, c128}) {
    for (const int64_t n : {0, 1, 31, 32, 33, 1025, 5000})
      CHECK(agrees({complex(numbers({3, n}), numbers({3, n}, f32, 2)).astype(d)},
                   [](const Inputs& in) { return sum(in[0], 1); }));
    const Tensor phase = samples::uniform({40, 3, 70}, -3, 3);
    const Tensor unit = complex(cos(phase), sin(phase)).astype(d);
    for (const Dims& axes : {Dims{0}, Dims{2}, Dims{1, 2}, Dims{0, 2}, Dims{0, 1, 2}, Dims{}}) {
      INFO(name(d));
      const WithDevice here(host);
      const Op& op = *find_op("prod");
      const Tensor want = run(op, {unit}, ReduceParams{axes})[0],
                   got = run(op, {unit.to(gpu)}, ReduceParams{axes})[0].to(host);
      CHECK(largest_error(got, want) < (d == c64 ? 1e-3 : 1e-12));
      const Tensor total = run(*find_op("sum"), {unit}, ReduceParams{axes})[0],
                   on_gpu = run(*find_op("sum"), {unit.to(gpu)}, ReduceParams{axes})[0].to(host);
      CHECK(largest_error(on_gpu, total) < (d == c64 ? 1e-3 : 1e-12));
    }
  }
}

namespace {

std::vector<std::string_view> complex_ops() {
  return {"abs",   "acos",   "acosh", "asin",     "asinh",      "atan",       "atanh", "conj", "cos",
          "cosh",  "exp",    "exp2",  "expm1",    "imag",       "isinf",      "isnan", "log",  "log10",
          "log1p", "log2",   "real",  "negative", "reciprocal", "rsqrt",      "sin",   "sinc", "sinh",
          "sqrt",  "square", "tan",   "tanh",     "isfinite",   "logical_not"};
}

// All pairs of these as complex numbers.
Tensor grid(const std::vector<double>& parts, DType d) {
  std::vector<std::complex<double>> all;
  for (const double re : parts)
    for (const double im : parts) all.emplace_back(re, im);
  return tensor(all).astype(d);
}

// How the GPU's result differs from the CPU's beyond the record's tolerance, or "".
std::string differing(const Op& op, const Inputs& in) {
  const WithDevice here(host);
  const Tensor want = run(op, in, {})[0], got = run(op, to(in, gpu), {})[0].to(host);
  return op_check::mismatch(op, got, want, want);
}

}  // namespace

TEST_CASE("functions of complex numbers") {
  const std::vector<double> usual{-3.7, -1, -0.6, -1e-3, 0, 0.25, 0.8, 1, 2.5, 11};
  for (const DType d : {c64, c128})
    for (const std::string_view name_ : complex_ops()) {
      INFO(name_ << " " << name(d));
      CHECK(differing(*find_op(name_), {grid(usual, d)}) == "");
    }
  const Tensor x = grid(usual, c64);
  for (const DType d : {c64, c128})
    for (const std::string_view name_ : {"add", "subtract", "multiply", "divide", "power", "equal", "not_equal",
                                         "multiply_no_nan", "multiply_nonzero"}) {
      INFO(name_ << " " << name(d));
      CHECK(differing(*find_op(name_), {reshape(x.astype(d), {100, 1}), x.astype(d)}) == "");
    }
}

TEST_CASE("infinities, NaN and the ends of the range in complex numbers") {
  const std::vector<double> ends{-INFINITY, -1e30, -2, -0.0, 0.0, 1e-30, 1, 1e30, INFINITY, NAN};
  for (const DType d : {c64, c128}) {
    for (const std::string_view name_ : complex_ops()) {
      INFO(name_ << " " << name(d));
      CHECK(differing(*find_op(name_), {grid(ends, d)}) == "");
    }
    const Tensor x = grid(ends, d);
    for (const std::string_view name_ : {"multiply", "divide", "multiply_no_nan", "multiply_nonzero"}) {
      INFO(name_ << " " << name(d));
      CHECK(differing(*find_op(name_), {reshape(x, {100, 1}), x}) == "");
    }
  }
}
