// The CPU's kernels that take other ways by size, dtype and layout, beside the reference kernels: sizes on both sides
// of their blocks, operands dense, transposed, strided and broadcast. All of it is exact, and compared bit for bit.
#include <random>

#include "catch.h"
#include "rill/rill.h"

using namespace rill;

namespace {

std::mt19937 dice(7);
int64_t pick(int64_t n) { return int64_t(dice() % uint64_t(n)); }

// Random numbers over all of an integer dtype's range, bools that are rarely true or often.
Tensor numbers(const Shape& shape, DType dtype) {
  const random::Key key{dice()};
  if (dtype == boolean) return random::uniform(shape, {.key = key}) < (pick(2) ? 0.02 : 0.6);
  if (dtype == f32 || dtype == f64 || dtype == f16 || dtype == bf16)
    return random::normal(shape, {.dtype = f32, .key = key}).astype(dtype);
  return random::bits(shape, {.key = key}).astype(i64).astype(dtype);
}

// The same as a matrix whose elements lie one after the other, down the columns, apart, or in one row for all.
Tensor laid_out(int64_t rows, int64_t columns, DType dtype) {
  switch (pick(4)) {
    case 0: return numbers({rows, columns}, dtype);
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

TEST_CASE("Products of whole numbers and of bools, of any size and layout") {
  for (DType d : {boolean, u8, u16, u32, u64, i8, i16, i32, i64})
    for (int i = 0; i < 25; ++i) {
      const auto size = [] { return pick(6) == 0 ? 1 + pick(300) : pick(4) == 0 ? 1 : pick(70); };
      const int64_t m = size(), k = size(), n = size();
      const auto product = [](const std::vector<Tensor>& x) { return matmul(x[0], x[1]); };
      check_like_reference("matmul", product, {laid_out(m, k, d), laid_out(k, n, d)});
      check_like_reference("matmul", product, {numbers({3, m, k}, d), numbers({3, k, n}, d)});
    }
}

TEST_CASE("Dot products of whole numbers are shared by threads") {
  const Tensor a = numbers({300001}, i64), b = numbers({300001}, i64);
  CHECK(dot(a, b).item<int64_t>() == sum(a * b).item<int64_t>());
  const Tensor c = numbers({200000}, u8), d = numbers({400000}, u8)(slice(none, none, 2));
  CHECK(dot(c, d).item<uint8_t>() == uint8_t(sum(c * d).item<uint64_t>()));
}
