// The CPU's kernels that take other ways by size, dtype and layout, beside the reference kernels: sizes on both sides
// of their blocks, operands dense, transposed, strided and broadcast. All of it is exact, and compared bit for bit.
#include <algorithm>
#include <array>
#include <random>

#include "catch.h"
#include "rill/rill.h"

using namespace rill;

namespace {

std::mt19937 dice;
struct FreshDice {  // for each test case, so that it is the same one alone
  FreshDice() { dice.seed(7); }
};
int64_t pick(int64_t n) { return int64_t(dice() % uint64_t(n)); }

// Random numbers over all of an integer dtype's range, bools that are rarely true or often.
Tensor numbers(const Shape& shape, DType dtype) {
  const random::Key key{dice()};
  if (dtype == boolean) return random::uniform(shape, {.key = key}) < (pick(2) ? 0.02 : 0.6);
  if (dtype == f32 || dtype == f64 || dtype == f16 || dtype == bf16)
    return random::normal(shape, {.dtype = f32, .key = key}).astype(dtype);
  return random::bits(shape, {.key = key}).astype(i64).astype(dtype);
}

// The same as a matrix whose elements lie one after the other, down the columns, apart, backwards, or in one row for
// all.
Tensor laid_out(int64_t rows, int64_t columns, DType dtype) {
  switch (pick(5)) {
    case 0: return numbers({rows, columns}, dtype);
    case 3: return numbers({rows, columns}, dtype)(all, slice(none, none, -1));
    case 1: return numbers({columns, rows}, dtype).T();
    case 2: return numbers({rows, 2 * columns + 1}, dtype)(all, slice(1, none, 2));
    default: return broadcast_to(numbers({1, columns}, dtype), {rows, columns});
  }
}

template <class F>
void check_like_reference(const std::string& what, F&& f, const std::vector<Tensor>& in) {
  std::vector<Tensor> elsewhere;
  std::string operands;
  for (const Tensor& x : in) {
    elsewhere.push_back(x.to("ref:0"));
    operands += " " + to_string(x.spec());
  }
  INFO(what << operands);
  CHECK(array_equal(f(in), f(elsewhere).to("cpu:0")));
}

}  // namespace

TEST_CASE_METHOD(FreshDice, "Products of whole numbers and of bools, of any size and layout") {
  for (DType d : {boolean, u8, u16, u32, u64, i8, i16, i32, i64})
    for (int i = 0; i < 25; ++i) {
      const auto size = [] { return pick(6) == 0 ? 1 + pick(300) : pick(4) == 0 ? 1 : pick(70); };
      const int64_t m = size(), k = size(), n = size();
      const auto product = [](const std::vector<Tensor>& x) { return matmul(x[0], x[1]); };
      check_like_reference("matmul", product, {laid_out(m, k, d), laid_out(k, n, d)});
      check_like_reference("matmul", product, {numbers({3, m, k}, d), numbers({3, k, n}, d)});
    }
}

TEST_CASE_METHOD(FreshDice, "Dot products of whole numbers are shared by threads") {
  const Tensor a = numbers({300001}, i64), b = numbers({300001}, i64);
  CHECK(dot(a, b).item<int64_t>() == sum(a * b).item<int64_t>());
  const Tensor c = numbers({200000}, u8), d = numbers({400000}, u8)(slice(none, none, 2));
  CHECK(dot(c, d).item<uint8_t>() == uint8_t(sum(c * d).item<uint64_t>()));
}

TEST_CASE_METHOD(FreshDice, "Reductions of which the order does not show, along axes in any order in memory") {
  for (DType d : {boolean, u8, i8, i16, u16, i32, i64, f32, bf16}) {
    std::vector<Tensor> operands = {numbers({70, 90}, d), numbers({9000}, d), numbers({3, 40, 70}, d)};
    for (int i = 0; i < 6; ++i) operands.push_back(laid_out(1 + pick(90), 1 + pick(1500), d));
    operands.push_back(transpose(numbers({20, 30, 40}, d), Axes{2, 0, 1}));
    operands.push_back(broadcast_to(numbers({1, 30, 1}, d), {20, 30, 40}));
    for (const Tensor& x : operands)
      for (const Axes& axes : {Axes{}, Axes{0}, Axes{-1}})
        for (bool keepdims : {false, true}) {
          const ReduceOptions o{.axis = axes, .keepdims = keepdims};
          check_like_reference("max", [&](const auto& in) { return max(in[0], o); }, {x});
          check_like_reference("min", [&](const auto& in) { return min(in[0], o); }, {x});
          check_like_reference("all", [&](const auto& in) { return rill::all(in[0], o); }, {x});
          check_like_reference("any", [&](const auto& in) { return any(in[0], o); }, {x});
          check_like_reference("count_nonzero", [&](const auto& in) { return count_nonzero(in[0], o); }, {x});
          if (is_integer(d) || d == boolean)
            check_like_reference("sum", [&](const auto& in) { return sum(in[0], o); }, {x});
          if (axes.empty()) continue;
          check_like_reference("argmax", [&](const auto& in) { return argmax(in[0], axes[0], keepdims); }, {x});
          check_like_reference("argmin", [&](const auto& in) { return argmin(in[0], axes[0], keepdims); }, {x});
        }
  }
}

TEST_CASE_METHOD(FreshDice, "Sums of floats are the same however the operand lies") {
  for (DType d : {f32, f64, bf16, f16})
    for (const Shape& shape : {Shape{130, 170}, Shape{1000, 20}, Shape{7, 40, 60}}) {
      const Tensor x = numbers(shape, d), turned = transpose(transpose(x).contiguous());
      REQUIRE(!turned.is_contiguous());
      Shape stacked = shape;
      stacked.insert(0, 3);
      for (const Axes& axes : {Axes{}, Axes{0}, Axes{1}, Axes{-1}}) {
        INFO(to_string(x.spec()) << " " << axes.size());
        CHECK(array_equal(sum(x, {.axis = axes}), sum(turned, {.axis = axes})));
        CHECK(array_equal(sum(broadcast_to(x, stacked), {.axis = axes}),
                          sum(broadcast_to(x, stacked).contiguous(), {.axis = axes})));
        CHECK(array_equal(sum(flip(x), {.axis = axes}), sum(flip(x).contiguous(), {.axis = axes})));
      }
    }
}

TEST_CASE_METHOD(FreshDice, "Tests and truths of complex numbers, over whole blocks and what is left") {
  for (DType d : {c64, c128}) {
    const Tensor parts = round(numbers({3, 700}, d == c64 ? f32 : f64));
    const Tensor x = complex(parts, flip(parts, 1)), y = complex(parts, parts), line = x(0);
    for (const Tensor& t : {x, line, line(slice(0, 5)), x.T(), line(3)}) {
      check_like_reference("logical_not", [](const auto& in) { return !in[0]; }, {t});
      check_like_reference("not_equal", [](const auto& in) { return in[0] != 0; }, {t});
      check_like_reference("isfinite", [](const auto& in) { return isfinite(in[0] / in[0]); }, {t});
      check_like_reference("isnan", [](const auto& in) { return isnan(in[0] / in[0]); }, {t});
      check_like_reference("abs", [](const auto& in) { return abs(in[0]); }, {t});
      for (const Axes& axes : {Axes{}, Axes{0}, Axes{-1}}) {
        if (t.ndim() == 0 && !axes.empty()) continue;
        check_like_reference("all", [&](const auto& in) { return rill::all(in[0], {.axis = axes}); }, {t});
        check_like_reference("any", [&](const auto& in) { return any(in[0], {.axis = axes}); }, {t});
      }
    }
    check_like_reference("add", [](const auto& in) { return in[0] + in[1]; }, {x, y});
    check_like_reference("subtract", [](const auto& in) { return in[0] - in[1]; }, {x, line(1)});
    check_like_reference("equal", [](const auto& in) { return in[0] == in[1]; }, {x, y});
    check_like_reference("equal", [](const auto& in) { return in[0] == in[1]; }, {x, line(2)});
    check_like_reference("negative", [](const auto& in) { return -in[0]; }, {x});
  }
}

TEST_CASE_METHOD(FreshDice, "softmax along any axis has the bits of that along the last one") {
  for (DType d : {f32, f64, bf16, f16})
    for (const Shape& shape : {Shape{130, 37}, Shape{1000, 20}, Shape{5, 66, 3}, Shape{2, 70, 16}}) {
      const Tensor x = numbers(shape, d), last = swapaxes(x, 0, -1).contiguous();
      const auto check = [&](auto f) {
        CHECK(array_equal(swapaxes(f(x, 0), 0, -1), f(last, -1)));
        const auto gradient = [&](const Tensor& at, int axis) {
          GradientTape tape;
          tape.watch(at);
          const Tensor loss = sum(f(at, axis) * at);
          return tape.gradient(loss, at);
        };
        CHECK(array_equal(swapaxes(gradient(x, 0), 0, -1), gradient(last, -1)));
      };
      check([](const Tensor& t, int axis) { return softmax(t, axis); });
      check([](const Tensor& t, int axis) { return log_softmax(t, axis); });
    }
}

TEST_CASE_METHOD(FreshDice, "A truth that comes late, or never, is found") {
  for (int64_t at : {0, 1023, 1024, 5000, 99999}) {
    Tensor x = zeros({100000}, boolean);
    CHECK(!any(x).item<bool>());
    x = std::move(x).at(at).set(true);
    CHECK(any(x).item<bool>());
    CHECK(max(x).item<bool>());
    CHECK(argmax(x).item<int64_t>() == at);
    CHECK(!rill::all(!x).item<bool>());
    CHECK(argmin(!x).item<int64_t>() == at);
    CHECK(any(x.astype(f32)).item<bool>());
    CHECK(!rill::all((!x).astype(i64)).item<bool>());
  }
}

TEST_CASE_METHOD(FreshDice, "Cumulative ops and sorts along any axis") {
  for (DType d : {i8, i32, u64, f32, bf16, boolean})
    for (int i = 0; i < 12; ++i) {
      const Tensor x = laid_out(1 + pick(40), 1 + pick(700), d);
      for (int64_t axis : {0, 1})
        for (bool flag : {false, true}) {
          const CumulativeOptions o{.axis = axis, .exclusive = flag, .reverse = pick(2) == 0};
          if (is_integer(d) || d == boolean)
            check_like_reference("cumsum", [&](const auto& in) { return cumsum(in[0], o); }, {x});
          check_like_reference("cummax", [&](const auto& in) { return cummax(in[0], {.axis = axis, .reverse = flag}); },
                               {x});
          const SortOptions s{.axis = axis, .descending = flag};
          check_like_reference("sort", [&](const auto& in) { return sort(in[0], s); }, {x});
          check_like_reference("argsort", [&](const auto& in) { return argsort(in[0], s); }, {x});
        }
    }
  // A product that left the range of f64 does not come back; in f32 it is 0 long before.
  CHECK(array_equal(cumprod(full({2000}, 0.7f))(slice(1900, none)), zeros({100})));
}

TEST_CASE_METHOD(FreshDice, "Transposes of every element size") {
  for (DType d : {u8, bf16, f32, i64, c64, c128})
    for (int i = 0; i < 12; ++i) {
      const int64_t rows = 1 + pick(150), columns = 1 + pick(150);
      const Tensor x = arange(rows * columns).astype(d);
      const Tensor turned = reshape(x, {rows, columns}).T().contiguous();
      const Tensor back = reshape(arange(columns), {columns, 1}) + arange(rows) * columns;
      CHECK(array_equal(turned, back.astype(i64).astype(d)));
    }
}

TEST_CASE("Matrices that are too large for caches are transposed as others are") {
  // Lines of 64 bytes are whole in the one, and in the other not.
  for (const auto& [rows, columns, dtype] : {std::tuple(3008, 3601, f32), std::tuple(3001, 3602, f32),
                                             std::tuple(1504, 3600, f64), std::tuple(6016, 3605, i16)}) {
    const Tensor x = arange(int64_t(rows) * columns).reshape({rows, columns}).astype(dtype);
    const Tensor y = x.T().contiguous();
    bool good = true;  // down the rows of y, which are columns of x
    for (int64_t j = 0; j < columns; ++j) good = good && array_equal(y(j), x(all, j).contiguous());
    CHECK(good);
  }
}

TEST_CASE_METHOD(FreshDice, "Divisors, multiples and neighbours, exactly") {
  for (DType d : {i8, u8, i16, u16, i32, u32, i64, u64}) {
    const Tensor x = numbers({5000}, d), y = concat({numbers({4000}, d), zeros({500}, d), ones({500}, d)});
    const auto g = [](const auto& in) { return gcd(in[0], in[1]); };
    const auto l = [](const auto& in) { return lcm(in[0], in[1]); };
    check_like_reference("gcd", g, {x, y});
    check_like_reference("lcm", l, {x, y});
    check_like_reference("gcd", g, {x, y(3)});
    check_like_reference("lcm", l, {y(0), x});
  }
  for (DType d : {f16, bf16, f32, f64}) {
    const double inf = std::numeric_limits<double>::infinity();
    Tensor x = concat({numbers({500}, d), tensor({0.0, -0.0, 0.0, -0.0, inf, -inf, 1.0, -1.0}).astype(d)});
    Tensor y = concat({numbers({500}, d), tensor({1.0, 1.0, -1.0, 0.0, 0.0, inf, 1.0, inf}).astype(d)});
    const auto next = [](const auto& in) { return nextafter(in[0], in[1]); };
    check_like_reference("nextafter", next, {x, y});
    check_like_reference("nextafter", next, {x, y(0)});
    check_like_reference("nextafter", next, {x(0), y});
    const Tensor none = full({3}, std::nan(""), d);
    CHECK(rill::all(isnan(nextafter(none, ones({3}, d)))).item<bool>());
  }
}

TEST_CASE_METHOD(FreshDice,
                 "Composed functions of large operands are computed in blocks, with the bits of small ones") {
  const auto check = [](const std::string& what, auto&& f, const Tensor& x, const Tensor& y) {
    INFO(what << " " << to_string(x.spec()) << " " << to_string(y.spec()));
    const Tensor whole = f(x, y);
    const int64_t rows = whole.shape()[0];
    const auto rows_of = [&](const Tensor& t, int64_t a, int64_t b) {
      return t.ndim() == whole.ndim() && t.shape()[0] == rows ? t(slice(a, b)) : t;
    };
    std::vector<Tensor> parts;
    for (int64_t a = 0, step = std::max<int64_t>(1, rows / 7); a < rows; a += step)
      parts.push_back(f(rows_of(x, a, std::min(rows, a + step)), rows_of(y, a, std::min(rows, a + step))));
    const Tensor apart = concat(parts);
    CHECK(whole.dtype() == apart.dtype());
    CHECK(array_equal(rill::where(isnan(whole), 7, whole), rill::where(isnan(apart), 7, apart)));
  };
  for (DType d : {f32, bf16, i32, f64}) {
    const Tensor dense = numbers({300, 300}, d), turned = numbers({300, 300}, d).T(), row = numbers({300}, d);
    const Tensor repeated = broadcast_to(row, {300, 300}), column = numbers({300, 1}, d), line = numbers({100001}, d);
    const Tensor cube = numbers({70, 1, 40}, d), other = numbers({50, 1}, d);
    for (const auto& [x, y] : std::vector<std::pair<Tensor, Tensor>>{{dense, dense},
                                                                     {dense, turned},
                                                                     {turned, row},
                                                                     {repeated, row},
                                                                     {column, row},
                                                                     {row, column},
                                                                     {line, line},
                                                                     {line, numbers({}, d)},
                                                                     {cube, other}}) {
      check("hypot", [](const Tensor& a, const Tensor& b) { return hypot(a, b); }, x, y);
      check("heaviside", [](const Tensor& a, const Tensor& b) { return heaviside(a, b); }, x, y);
      check("logical_xor", [](const Tensor& a, const Tensor& b) { return logical_xor(a, b); }, x, y);
      check("fmax", [](const Tensor& a, const Tensor& b) { return fmax(a, b); }, x, y);
      check("elu", [](const Tensor& a, const Tensor&) { return elu(a, 0.7); }, x, zeros({}, d));
      check("relu6", [](const Tensor& a, const Tensor&) { return relu6(a); }, x, zeros({}, d));
      check("angle", [](const Tensor& a, const Tensor&) { return angle(a); }, x, zeros({}, d));
    }
  }
  // Under a tape, ops are recorded as ever.
  const Tensor x = numbers({300, 300}, f32);
  GradientTape tape;
  tape.watch(x);
  const Tensor slope = tape.gradient(sum(leaky_relu(x, 0.25)), x);
  CHECK(array_equal(slope, rill::where(x > 0, 1.f, 0.25f)));
}

TEST_CASE_METHOD(FreshDice, "Formulas give the same bits as one loop and as ops, which a tape sees") {
  using Two = Tensor (*)(const Tensor&, const Tensor&);
  const std::vector<std::pair<const char*, Two>> formulas = {
      {"relu6", [](const Tensor& a, const Tensor&) { return relu6(a); }},
      {"hard_tanh", [](const Tensor& a, const Tensor&) { return hard_tanh(a); }},
      {"hard_sigmoid", [](const Tensor& a, const Tensor&) { return hard_sigmoid(a); }},
      {"hard_swish", [](const Tensor& a, const Tensor&) { return hard_swish(a); }},
      {"softsign", [](const Tensor& a, const Tensor&) { return softsign(a); }},
      {"silu", [](const Tensor& a, const Tensor&) { return silu(a); }},
      {"mish", [](const Tensor& a, const Tensor&) { return mish(a); }},
      {"log_sigmoid", [](const Tensor& a, const Tensor&) { return log_sigmoid(a); }},
      {"clip", [](const Tensor& a, const Tensor&) { return clip(a, -1, 2.5); }},
      {"clip by two", [](const Tensor& a, const Tensor& b) { return clip(a, b, b + 1); }},
      {"clip by one", [](const Tensor& a, const Tensor& b) { return clip(0.5 * b, a, 3); }},
      {"leaky_relu", [](const Tensor& a, const Tensor&) { return leaky_relu(a, 0.3); }},
      {"elu", [](const Tensor& a, const Tensor&) { return elu(a, 0.7); }},
      {"celu", [](const Tensor& a, const Tensor&) { return celu(a, 1.3); }},
      {"selu", [](const Tensor& a, const Tensor&) { return selu(a); }},
      {"angle", [](const Tensor& a, const Tensor&) { return angle(a); }},
      {"fmax", [](const Tensor& a, const Tensor& b) { return fmax(a, b); }},
      {"fmin", [](const Tensor& a, const Tensor& b) { return fmin(a, b); }},
      {"hypot", [](const Tensor& a, const Tensor& b) { return hypot(a, b); }},
      {"heaviside", [](const Tensor& a, const Tensor& b) { return heaviside(a, b); }},
      {"logical_and", [](const Tensor& a, const Tensor& b) { return logical_and(a, b); }},
      {"logical_or", [](const Tensor& a, const Tensor& b) { return logical_or(a, b); }},
      {"logical_xor", [](const Tensor& a, const Tensor& b) { return logical_xor(a, b); }}};
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor special = tensor({0.0, -0.0, inf, -inf, nan, 1.0, -1.0, 6.0, 3.0, -3.0, 1e-38, -1e-40, 3e38, 1e-5});
  const auto bits = [](const Tensor& t) {
    return concat({where(isnan(t), 7, t), where(signbit(t), 1, 0).astype(t.dtype())});
  };
  for (DType d : {f32, f64, f16, bf16}) {
    const Tensor numbers_of_all = concat({special.astype(d), numbers({60}, d) * 3});
    const int64_t n = numbers_of_all.size();
    const Tensor x = reshape(broadcast_to(reshape(numbers_of_all, {n, 1}), {n, n}), {-1}),
                 y = reshape(broadcast_to(numbers_of_all, {n, n}), {-1});
    for (const auto& [name, f] : formulas) {
      INFO(name << " " << to_string(x.spec()));
      const Tensor loop = f(x, y);
      GradientTape tape;
      tape.watch(x);
      const Tensor ops = f(x, y);
      REQUIRE(loop.dtype() == ops.dtype());
      if (loop.dtype() == boolean) CHECK(array_equal(loop, ops));
      else CHECK(array_equal(bits(loop), bits(ops)));
      const Tensor of_one = f(x(3), y);
      if (of_one.ndim() == 1)
        CHECK(array_equal(bits(of_one.astype(d)), bits(f(broadcast_to(x(3), y.shape()), y).astype(d))));
    }
  }
}

TEST_CASE_METHOD(FreshDice, "Bounds of whole numbers") {
  for (DType d : {i8, u8, i32, u32, i64, u64, boolean})
    for (int i = 0; i < 6; ++i) {
      const Tensor x = laid_out(1 + pick(60), 1 + pick(400), d), low = numbers({}, d),
                   high = numbers({x.shape()[1]}, d);
      check_like_reference("clip", [](const auto& in) { return clip(in[0], in[1], in[2]); }, {x, low, high});
      check_like_reference("clip", [](const auto& in) { return clip(in[0], in[1], in[1]); }, {x, low});
      check_like_reference("clip", [](const auto& in) { return clip(in[0], in[1], in[2]); }, {low, x, high});
      check_like_reference("clip", [](const auto& in) { return clip(in[0], -3, 300); }, {x});
      check_like_reference("clip", [](const auto& in) { return clip(in[0], 1.5, 3); }, {x});
      check_like_reference("relu6", [](const auto& in) { return relu6(in[0].astype(i16)); }, {x});
      check_like_reference("hard_tanh", [](const auto& in) { return hard_tanh(in[0]); }, {x});
    }
}

TEST_CASE_METHOD(FreshDice, "Chains of temporaries") {
  const Tensor a = numbers({40000}, f32), b = numbers({40000}, f32), line = numbers({200}, f32);
  const Tensor product = a * b, sum_of = product + a, copy = product + zeros({}, f32);
  CHECK(array_equal(a * b + a - b, sum_of - b));
  CHECK(array_equal(b - a * b, b - product));
  CHECK(array_equal(reshape(a * b, {200, 200}) * line, reshape(product, {200, 200}) * line));
  CHECK(array_equal(line - reshape(a * b, {200, 200}), line - reshape(product, {200, 200})));
  const Tensor kept = a + b;
  CHECK(array_equal(Tensor(kept) * b, kept * b));  // not in the memory of what others hold
  CHECK(array_equal(kept, a + b));
  CHECK(array_equal(kept(slice(0, 20000)) * b(slice(0, 20000)), (kept * b)(slice(0, 20000))));
  CHECK(array_equal(product, copy));
  GradientTape tape;
  tape.watch(a);
  const Tensor slope = tape.gradient(sum((a * b + a) * b), a);
  CHECK(array_equal(slope, b * b + b));
}

TEST_CASE_METHOD(FreshDice, "Sorted zeros of either sign and NaN keep their order") {
  const double nan = std::nan("");
  for (DType d : {f32, f64, f16, bf16})
    for (int64_t n : {20, 400, 9000}) {
      Tensor x = round(numbers({3, n}, d));
      x = concat({where(x == 1, -0.0, x), where(x == 1, nan, x), x + 0.5});
      check_like_reference("sort", [](const auto& in) { return signbit(sort(in[0])); }, {x});
      check_like_reference("sort", [](const auto& in) { return nan_to_num(sort(in[0]), 9.0); }, {x});
      check_like_reference("sort", [](const auto& in) { return nan_to_num(sort(in[0], {.descending = true}), 9.0); },
                           {x});
    }
}

TEST_CASE_METHOD(FreshDice, "Choices, comparisons and truths, over whole blocks and what is left") {
  const auto less_of = [](const auto& in) { return in[0] < in[1]; };
  const auto equal_of = [](const auto& in) { return in[0] == in[1]; };
  const auto not_of = [](const auto& in) { return !in[0]; };
  const auto chosen = [](const auto& in) { return rill::where(in[0], in[1], in[2]); };
  for (DType d : {boolean, u8, i16, f32, f64, bf16, i64, c128})
    for (int64_t n : {1, 7, 8, 63, 64, 65, 129, 1000, 9001}) {
      const Tensor c = numbers({n}, boolean), x = numbers({n}, d == c128 ? f64 : d).astype(d);
      const Tensor y = rill::where(numbers({n}, boolean), x, flip(x));
      check_like_reference("where", chosen, {c, x, y});
      check_like_reference("where", chosen, {c, x(0), y});
      check_like_reference("where", chosen, {c, x, y(n - 1)});
      check_like_reference("where", chosen, {c(0), x, y});
      check_like_reference("equal", equal_of, {x, y});
      check_like_reference("logical_not", not_of, {x});
      if (d != c128) check_like_reference("less", less_of, {x, y});
      if (d == boolean) check_like_reference("bitwise_not", [](const auto& in) { return ~in[0]; }, {x});
    }
  // What is repeated is computed once.
  const Tensor row = numbers({1, 5000}, f32), column = numbers({300, 1}, f32);
  const auto sum_of = [](const auto& in) { return in[0] + in[1]; };
  check_like_reference("add", sum_of, {broadcast_to(row, {40, 5000}), broadcast_to(row, {40, 5000})});
  check_like_reference("add", sum_of, {broadcast_to(column, {300, 70}), broadcast_to(column(0), {300, 70})});
  check_like_reference("add", sum_of, {broadcast_to(row(0, 0), {90, 80}), broadcast_to(row(0, 1), {80})});
  check_like_reference("exp2", [](const auto& in) { return exp2(round(in[0])); }, {broadcast_to(column, {2, 300, 70})});
}

TEST_CASE_METHOD(FreshDice, "What reads results of transposed operands has the same bits traced and eagerly") {
  const auto f = [](const Tensor& a, const Tensor& b) {
    const Tensor x = a.T() * 2, y = relu(b.T()) + 1;
    return concat({matmul(x, y), matmul(x, y + 0) * silu(x)(all, slice(0, 1)), softmax(x, 0)(all, slice(0, 3))}, 1);
  };
  for (DType d : {f32, f64, bf16, f16})
    for (const auto& [m, k, n] : std::vector<std::array<int64_t, 3>>{{96, 652, 131}, {36, 769, 164}, {87, 628, 110}}) {
      const Tensor a = numbers({k, m}, d), b = numbers({n, k}, d);
      INFO(to_string(a.spec()));
      CHECK(same_bits(f(a, b), function("products", f)(a, b)));
    }
}

TEST_CASE_METHOD(FreshDice, "data() of a result that lies as its operands do is row-major") {
  const Tensor repeated = broadcast_to(numbers({1, 200}, f32), {100, 200}) * 2;
  REQUIRE(repeated.strides()[0] == 0);
  CHECK(std::ranges::equal(repeated.data<float>(), repeated.to_vector<float>()));
  const Tensor part = repeated.contiguous()(all, slice(0, 5));
  CHECK_THROWS_AS(part.data<float>(), Error);  // other elements lie between
  const Tensor x = numbers({100, 200}, f32);
  Tensor y = x.T() + 1;
  REQUIRE(!y.is_contiguous());
  const std::vector<float> want = y.to_vector<float>();
  const std::span<const float> now = y.data<float>();
  CHECK(std::ranges::equal(now, want));
  CHECK(y.data<float>().data() == now.data());  // one copy for all who ask
  // The memory is written over by who alone has it: others that lie there get copies of their own.
  Tensor z = y.T();
  const void* const memory = z.data<float>().data();
  y = Tensor();
  z = std::move(z).at(0).set(7);
  CHECK(z.data<float>().data() == memory);
  const Tensor w = z.T();
  CHECK(std::ranges::equal(w.data<float>(), w.to_vector<float>()));
  CHECK(w.item<float>(3, 0) == 7);
}

TEST_CASE_METHOD(FreshDice, "Operands that are transposed alike, of two axes and more") {
  for (DType d : {f32, i32, bf16, boolean, c128})
    for (const auto& [shape, axes] : std::vector<std::pair<Shape, Axes>>{
             {{300, 400}, {1, 0}}, {{30, 50, 60}, {2, 0, 1}}, {{64, 1, 70}, {2, 1, 0}}, {{40, 30, 20}, {1, 2, 0}}}) {
      const Tensor x = transpose(numbers(shape, is_complex(d) ? f64 : d).astype(d), axes),
                   y = transpose(numbers(shape, is_complex(d) ? f64 : d).astype(d), axes), one = y(0, 0);
      const auto check = [&](const char* what, auto f, const Tensor& a, const Tensor& b) {
        INFO(what << " " << to_string(a.spec()));
        const Tensor z = f(a, b);
        CHECK(array_equal(z, f(a.contiguous(), b.contiguous())));
        const bool alike = !is_half(z.dtype()) && (b.size() == 1 || b.strides() == a.strides());
        CHECK(z.is_contiguous() != alike);
        for (int k = 0; alike && k < z.ndim(); ++k) CHECK((z.shape()[k] == 1 || z.strides()[k] == a.strides()[k]));
      };
      for (const Tensor& b : {y, y.contiguous(), reshape(one, {-1})(0), numbers({x.shape().back()}, f32).astype(d)}) {
        check("add", [](const Tensor& p, const Tensor& q) { return p + q; }, x, b);
        check("equal", [](const Tensor& p, const Tensor& q) { return p == q; }, x, b);
        check("where", [](const Tensor& p, const Tensor& q) { return where(p == q, p, q); }, x, b);
        check("logical_xor", [](const Tensor& p, const Tensor& q) { return logical_xor(p, q); }, x, b);
        if (!is_complex(d)) check("fmin", [](const Tensor& p, const Tensor& q) { return fmin(p, q); }, x, b);
      }
    }
}
