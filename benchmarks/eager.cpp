// The rows of eager functions on large arrays (EAGER in rows.py), under the same names; peers/peer_arrays.py does the
// same in numpy, torch and JAX. Google Benchmark times each.
#include <benchmark/benchmark.h>

#include "rill/rill.h"

using namespace rill;
using benchmark::State;

namespace {

constexpr int64_t million = 1 << 20, many = 1 << 24;

Tensor normal(const Shape& shape, DType dtype = f32) { return random::normal(shape, {.dtype = dtype}); }
Tensor integers(int64_t below, const Shape& shape, DType dtype = i64) {
  return random::randint(0, below, shape, {.dtype = dtype});
}
Tensor complex_normal(const Shape& shape) { return complex(normal(shape), normal(shape)); }

// prepare() makes the operands and returns the call that is timed.
template <class Prepare>
void row(const char* name, Prepare prepare) {
  benchmark::RegisterBenchmark(name, [prepare](State& state) {
    const auto call = prepare();
    call();
    for (auto _ : state) {
      auto result = call();
      benchmark::DoNotOptimize(result);
    }
  })->UseRealTime();
}

void add_rows() {
  row("add_16M", [] { return [a = normal({many}), b = normal({many})] { return a + b; }; });
  row("expression_16M", [] {
    return [a = normal({many}), b = normal({many}), c = normal({many}), d = normal({many})] { return a * b + c - d; };
  });
  row("broadcast_row", [] { return [a = normal({4096, 4096}), b = normal({4096})] { return a + b; }; });
  row("broadcast_column", [] { return [a = normal({4096, 4096}), b = normal({4096, 1})] { return a + b; }; });
  row("where_mask",
      [] { return [a = normal({many}) > 0, b = normal({many}), c = normal({many})] { return where(a, b, c); }; });
  row("sum_16M", [] { return [a = normal({many})] { return sum(a); }; });
  row("sum_axis0", [] { return [a = normal({4096, 4096})] { return sum(a, 0); }; });
  row("argmax_16M", [] { return [a = normal({many})] { return argmax(a); }; });
  row("var_axis", [] { return [a = normal({4096, 4096})] { return var(a, 1); }; });
  row("cumsum_16M", [] { return [a = normal({many})] { return cumsum(a); }; });
  row("sort_1M", [] { return [a = normal({million})] { return sort(a); }; });
  row("argsort_1M", [] { return [a = normal({million})] { return argsort(a); }; });
  row("topk", [] { return [a = normal({million})] { return topk(a, 100); }; });
  row("unique_1M", [] { return [a = integers(100'000, {million})] { return unique(a); }; });
  row("gather_1M", [] { return [a = normal({many}), i = integers(many, {million})] { return take(a, i); }; });
  row("scatter_add_1M", [] {
    return [a = zeros({million}), i = integers(million, {million}), b = normal({million})] { return a.at(i).add(b); };
  });
  row("transpose_4096", [] { return [a = normal({4096, 4096})] { return transpose(a).contiguous(); }; });
  row("permute_4d", [] { return [a = normal({32, 64, 64, 64})] { return transpose(a, {0, 2, 3, 1}).contiguous(); }; });
  row("concat_16M", [] { return [a = normal({4096, 2048}), b = normal({4096, 2048})] { return concat({a, b}, 1); }; });
  row("boolean_mask_1M",
      [] { return [a = normal({million}), m = normal({million}) > 0] { return boolean_mask(a, m); }; });
  row("exp_16M", [] { return [a = normal({many})] { return exp(a); }; });
  row("exp_16M_f64", [] { return [a = normal({many}, f64)] { return exp(a); }; });
  row("exp_16M_bf16", [] { return [a = normal({many}, bf16)] { return exp(a); }; });
  row("cast_bf16", [] { return [a = normal({many})] { return astype(a, bf16); }; });
  row("complex_multiply",
      [] { return [a = complex_normal({1 << 22}), b = complex_normal({1 << 22})] { return a * b; }; });
  row("complex_matmul",
      [] { return [a = complex_normal({512, 512}), b = complex_normal({512, 512})] { return matmul(a, b); }; });
  row("matmul_f64",
      [] { return [a = normal({1024, 1024}, f64), b = normal({1024, 1024}, f64)] { return matmul(a, b); }; });
  row("conv_f64", [] {
    return
        [a = normal({8, 28, 28, 32}, f64), w = normal({3, 3, 32, 32}, f64)] { return conv(a, w, {.padding = "SAME"}); };
  });
  row("matmul_i8",
      [] { return [a = integers(100, {512, 512}, i8), b = integers(100, {512, 512}, i8)] { return matmul(a, b); }; });
  row("einsum_attention", [] {
    return [a = normal({8, 128, 8, 64}), b = normal({8, 128, 8, 64})] { return einsum("bqhd,bkhd->bhqk", {a, b}); };
  });
  row("normal_16M", [] { return [] { return normal({many}); }; });
  row("random_permutation", [] { return [] { return random::permutation(million); }; });
}

}  // namespace

int main(int argc, char** argv) {
  add_rows();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
