// The limits of the machine, measured in the same run as everything else: memory bandwidth by loops that a reader can
// check, and oneDNN called directly, with its primitives, layouts and memory prepared outside the timing. Start at
// main.
//
// Loops come with plain stores and with non-temporal stores (which avoid reading a line that is about to be
// overwritten); the faster of the two is a row's limit.
#include <immintrin.h>
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>

#include "answer.h"
#ifdef RILL_HAVE_ONEDNN
#include <dnnl.hpp>
#endif

using bench::Call;
using bench::Ways;

namespace {

struct Free {
  void operator()(float* p) const { std::free(p); }
};
using Floats = std::shared_ptr<float[]>;

// 64-byte aligned, first touched by the threads that will use it, with values that are neither zero nor denormal.
Floats floats(int64_t n) {
  Floats p(static_cast<float*>(std::aligned_alloc(64, n * sizeof(float))), Free());
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; ++i) p[i] = 0.25f + static_cast<float>(i % 37) / 64;
  return p;
}

template <bool streaming>
void put(float* to, __m256 v) {
  if constexpr (streaming) _mm256_stream_ps(to, v);
  else _mm256_store_ps(to, v);
}

// The traffic of a fused elementwise kernel: `loads` arrays in, one out, one addition for each load.
template <int loads, bool streaming>
Call loop(int64_t n) {
  std::vector<Floats> in;
  for (int i = 0; i < loads; ++i) in.push_back(floats(n));
  return [in, out = floats(n), n](int times) {
    while (times--) {
#pragma omp parallel for schedule(static)
      for (int64_t i = 0; i < n; i += 8) {
        __m256 v = _mm256_load_ps(&in[0][i]);
        for (int k = 1; k < loads; ++k) v = _mm256_add_ps(v, _mm256_load_ps(&in[k][i]));
        put<streaming>(&out[i], v);
      }
      _mm_sfence();
    }
  };
}

template <int loads>
Ways loops(int64_t n) {
  return {{"loop, plain stores", loop<loads, false>(n)}, {"loop, streaming stores", loop<loads, true>(n)}};
}

// sum(m*m, 0) by hand: each thread sums the rows of its half of the columns, in registers, 64 columns at a time.
Ways sqsum0() {
  constexpr int64_t rows = 4096, columns = 1024, block = 64;
  auto by_columns = [m = floats(rows * columns), out = floats(columns)](int times) {
    while (times--) {
#pragma omp parallel for schedule(static)
      for (int64_t c = 0; c < columns; c += block) {
        __m256 sum[block / 8] = {};
        for (int64_t r = 0; r < rows; ++r)
          for (int k = 0; k < block / 8; ++k) {
            __m256 v = _mm256_load_ps(&m[r * columns + c + 8 * k]);
            sum[k] = _mm256_add_ps(sum[k], _mm256_mul_ps(v, v));
          }
        for (int k = 0; k < block / 8; ++k) _mm256_store_ps(&out[c + 8 * k], sum[k]);
      }
    }
  };
  auto by_rows = [m = floats(rows * columns), part = floats(columns * 64), out = floats(columns)](int times) {
    while (times--) {
      int threads = 1;
#pragma omp parallel
      {
#pragma omp single
        threads = omp_get_num_threads();
        float* mine = &part[columns * omp_get_thread_num()];
        std::fill(mine, mine + columns, 0.f);
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < columns; ++c) mine[c] += m[r * columns + c] * m[r * columns + c];
      }
      for (int64_t c = 0; c < columns; ++c) {
        out[c] = 0;
        for (int t = 0; t < threads; ++t) out[c] += part[t * columns + c];
      }
    }
  };
  return {{"loop by columns", by_columns}, {"loop by rows", by_rows}};
}

#ifdef RILL_HAVE_ONEDNN
using dnnl::memory;

dnnl::engine& engine() {
  static dnnl::engine it(dnnl::engine::kind::cpu, 0);
  return it;
}

memory filled(const memory::desc& desc) {
  memory m(desc, engine());
  float* p = static_cast<float*>(m.get_data_handle());
  for (size_t i = 0; i < desc.get_size() / sizeof(float); ++i) p[i] = 0.25f + static_cast<float>(i % 37) / 64;
  return m;
}

Call execute(dnnl::primitive p, std::unordered_map<int, memory> args) {
  return [p, args, stream = dnnl::stream(engine())](int times) mutable {
    while (times--) p.execute(stream, args);
    stream.wait();
  };
}

Ways matmul(int64_t n) {
  memory::desc d({n, n}, memory::data_type::f32, memory::format_tag::ab);
  dnnl::matmul p(dnnl::matmul::primitive_desc(engine(), d, d, d));
  return {
      {"oneDNN raw",
       execute(p, {{DNNL_ARG_SRC, filled(d)}, {DNNL_ARG_WEIGHTS, filled(d)}, {DNNL_ARG_DST, memory(d, engine())}})}};
}

// The layout of the weights is oneDNN's choice, and they are reordered to it once, outside the timing: a program that
// runs the same convolution twice can do so.
Ways conv3x3() {
  using tag = memory::format_tag;
  constexpr auto f32 = memory::data_type::f32;
  memory::desc x({8, 64, 56, 56}, f32, tag::nhwc), y = x, w({64, 64, 3, 3}, f32, tag::any);
  dnnl::convolution_forward::primitive_desc pd(engine(), dnnl::prop_kind::forward_inference,
                                               dnnl::algorithm::convolution_direct, x, w, y, {1, 1}, {1, 1}, {1, 1});
  memory plain = filled({{64, 64, 3, 3}, f32, tag::hwio}), packed(pd.weights_desc(), engine());
  dnnl::stream stream(engine());
  dnnl::reorder(plain, packed).execute(stream, plain, packed);
  stream.wait();
  return {{"oneDNN raw",
           execute(dnnl::convolution_forward(pd),
                   {{DNNL_ARG_SRC, filled(x)}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, memory(y, engine())}})}};
}
#endif

}  // namespace

int main(int argc, char** argv) {
  omp_set_num_threads(2);
  bench::serve(
      {
          {"chain_16M", [] { return loops<3>(1 << 24); }},
          {"copy_16M", [] { return loops<1>(1 << 24); }},
          {"add_16M", [] { return loops<2>(1 << 24); }},
          {"expression_16M", [] { return loops<4>(1 << 24); }},
          {"broadcast_row", [] { return loops<1>(1 << 24); }},
          {"broadcast_column", [] { return loops<1>(1 << 24); }},
          {"transpose_4096", [] { return loops<1>(1 << 24); }},
          {"concat_16M", [] { return loops<1>(1 << 24); }},
          {"exp_16M", [] { return loops<1>(1 << 24); }},
          {"exp_16M_f64", [] { return loops<1>(1 << 25); }},
          {"exp_16M_bf16", [] { return loops<1>(1 << 23); }},
          {"softmax", [] { return loops<1>(4096 * 1024); }},
          {"ln_gelu", [] { return loops<1>(4096 * 1024); }},
          {"sqsum0", sqsum0},
#ifdef RILL_HAVE_ONEDNN
          {"matmul_64", [] { return matmul(64); }},
          {"matmul_512", [] { return matmul(512); }},
          {"matmul_2048", [] { return matmul(2048); }},
          {"conv3x3", conv3x3},
#endif
      },
      argc, argv);
}
