// A libcublasLt.so.13 that computes by plain loops, on the simulated driver's streams and memory, and rejects what
// the real one would: types that do not match, leading dimensions that are too small, pointers that are
// less aligned than was said when the algorithm was chosen, a workspace that is too small. It has no algorithm for
// batches of 7 matrices: programs must do without it then.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "numbers.h"
#include "shared.h"

namespace {

enum Status { success = 0, not_initialised = 1, invalid_value = 7, execution_failed = 13, not_supported = 15 };
// cudaDataType
enum Type { r32f = 0, r64f = 1, r16f = 2, c32f = 4, c64f = 5, r16bf = 14 };

struct Product {
  int compute, scale;
  int32_t turned[2] = {0, 0};
};
struct Layout {
  int type;
  int64_t rows, columns, leading;
  int32_t batch = 1;
  int64_t stride = 0;
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t schemes = 7, alignment[4] = {256, 256, 256, 256};
};
struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

// Reports a wrong call; the real library says less.
int wrong(const char* what) {
  std::fprintf(stderr, "simulated cuBLASLt: %s\n", what);
  return invalid_value;
}
#define REQUIRE(condition) \
  if (!(condition)) return wrong(#condition)

template <class T>
int take(T& to, const void* value, size_t bytes) {
  if (bytes != sizeof(T)) return wrong("an attribute of another size");
  std::memcpy(&to, value, bytes);
  return success;
}

size_t bytes_of(int type) { return type == r16f || type == r16bf ? 2 : type == r32f ? 4 : type == c64f ? 16 : 8; }

using Number = std::complex<double>;
// A product that computes in TF32 has 10 bits of an operand's fraction, and sums in f32.
constexpr int tf32 = 77;
Number rounded(int compute, Number x) {
  if (compute != tf32) return x;
  const auto part = [](double x) {
    float f = float(x);
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
    std::memcpy(&f, &bits, 4);
    return std::isfinite(x) ? double(f) : x;
  };
  return {part(x.real()), part(x.imag())};
}

int check_layout(const Layout& l) {
  REQUIRE(l.rows > 0 && l.columns > 0 && l.batch > 0);
  REQUIRE(l.batch <= 65535);  // the real one supports more only in some of its kernels
  REQUIRE(l.rows < INT32_MAX && l.columns < INT32_MAX);
  REQUIRE(l.leading >= l.rows);
  REQUIRE(l.stride >= 0);
  return success;
}

int check(const Product& p, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  for (const Layout* l : {&a, &b, &c, &d})
    if (const int status = check_layout(*l)) return status;
  REQUIRE(a.type == b.type && a.type == c.type && a.type == d.type);
  REQUIRE(a.batch == b.batch && a.batch == c.batch && a.batch == d.batch);
  const bool is_double = a.type == r64f || a.type == c64f;
  const bool is_single = a.type == r32f || a.type == c32f;
  REQUIRE(p.compute == (is_double ? 70 : 68) || (is_single && p.compute == tf32));
  REQUIRE(p.scale == (a.type == r16f || a.type == r16bf ? int(r32f) : a.type));
  const int64_t m = p.turned[0] ? a.columns : a.rows, k = p.turned[0] ? a.rows : a.columns;
  REQUIRE(k == (p.turned[1] ? b.columns : b.rows));
  REQUIRE(m == d.rows && d.columns == (p.turned[1] ? b.rows : b.columns));
  REQUIRE(c.rows == d.rows && c.columns == d.columns && c.leading == d.leading && c.stride == d.stride);
  REQUIRE(d.batch == 1 || d.stride >= d.leading * (d.columns - 1) + d.rows);
  return success;
}

// --- Elements: as complex doubles, all of them ---

Number load(int type, const char* base, int64_t index) {
  const char* at = base + index * int64_t(bytes_of(type));
  switch (type) {
    case r64f: return read<double>(at);
    case r16f: return half_value(read<uint16_t>(at));
    case r16bf: return bfloat_value(read<uint16_t>(at));
    case c32f: return read<std::complex<float>>(at);
    case c64f: return read<Number>(at);
    default: return read<float>(at);
  }
}
void store(int type, char* base, int64_t index, Number x) {
  char* at = base + index * int64_t(bytes_of(type));
  switch (type) {
    case r64f: return write(at, x.real());
    case r16f: return write(at, half_bits(x.real()));
    case r16bf: return write(at, bfloat_bits(float(x.real())));
    case c32f: return write(at, std::complex<float>(x));
    case c64f: return write(at, x);
    default: return write(at, float(x.real()));
  }
}

size_t extent(const Layout& l) {
  return size_t((l.batch - 1) * l.stride + (l.columns - 1) * l.leading + l.rows) * bytes_of(l.type);
}

void multiply(const Product& p, const Layout& a, const char* pa, const Layout& b, const char* pb, const Layout& d,
              char* pd) {
  const int64_t depth = p.turned[0] ? a.rows : a.columns;
  const int64_t a_row = p.turned[0] ? a.leading : 1, a_depth = p.turned[0] ? 1 : a.leading;
  const int64_t b_depth = p.turned[1] ? b.leading : 1, b_column = p.turned[1] ? 1 : b.leading;
  for (int64_t n = 0; n < d.batch; ++n)
    for (int64_t j = 0; j < d.columns; ++j)
      for (int64_t i = 0; i < d.rows; ++i) {
        Number sum = 0;
        for (int64_t k = 0; k < depth; ++k) {
          const Number x = rounded(p.compute, load(a.type, pa, n * a.stride + i * a_row + k * a_depth)),
                       y = rounded(p.compute, load(b.type, pb, n * b.stride + j * b_column + k * b_depth));
          sum += a.type == c32f || a.type == c64f ? x * y : x.real() * y.real();
        }
        store(d.type, pd, n * d.stride + j * d.leading + i, sum);
      }
}

bool is_one(int scale, const void* at) {
  return scale == r64f || scale == c64f ? *static_cast<const double*>(at) == 1 : *static_cast<const float*>(at) == 1;
}
bool is_zero(int scale, const void* at) {
  return scale == r64f || scale == c64f ? *static_cast<const double*>(at) == 0 : *static_cast<const float*>(at) == 0;
}

}  // namespace

extern "C" {

int cublasLtCreate(void** handle) {
  if (simulated_failure("cublasLtCreate")) return 3;  // CUBLAS_STATUS_ALLOC_FAILED
  *handle = new int(0);
  return success;
}
int cublasLtMatmulDescCreate(Product** p, int compute, int scale) {
  *p = new Product{compute, scale};
  return success;
}
int cublasLtMatmulDescSetAttribute(Product* p, int attribute, const void* value, size_t bytes) {
  if (attribute == 3 || attribute == 4) return take(p->turned[attribute - 3], value, bytes);
  return wrong("an attribute of a product that rill does not set");
}
int cublasLtMatmulDescDestroy(Product* p) {
  delete p;
  return success;
}
int cublasLtMatrixLayoutCreate(Layout** l, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  *l = new Layout{type, int64_t(rows), int64_t(columns), leading};
  return success;
}
int cublasLtMatrixLayoutSetAttribute(Layout* l, int attribute, const void* value, size_t bytes) {
  if (attribute == 5) return take(l->batch, value, bytes);
  if (attribute == 6) return take(l->stride, value, bytes);
  return wrong("an attribute of a layout that rill does not set");
}
int cublasLtMatrixLayoutDestroy(Layout* l) {
  delete l;
  return success;
}
int cublasLtMatmulPreferenceCreate(Preference** p) {
  *p = new Preference;
  return success;
}
int cublasLtMatmulPreferenceSetAttribute(Preference* p, int attribute, const void* value, size_t bytes) {
  if (attribute == 1) return take(p->workspace, value, bytes);
  if (attribute == 3) return take(p->schemes, value, bytes);
  if (attribute >= 5 && attribute <= 8) return take(p->alignment[attribute - 5], value, bytes);
  return wrong("an attribute of a preference that rill does not set");
}
int cublasLtMatmulPreferenceDestroy(Preference* p) {
  delete p;
  return success;
}

// The algorithm records the product for which it was chosen.
int cublasLtMatmulAlgoGetHeuristic(void* handle, Product* p, Layout* a, Layout* b, Layout* c, Layout* d,
                                   Preference* wanted, int most, Heuristic* results, int* found) {
  *found = 0;
  REQUIRE(handle && most >= 1);
  if (const int status = check(*p, *a, *b, *c, *d)) return status;
  for (const uint32_t alignment : wanted->alignment) REQUIRE(alignment >= bytes_of(a->type) && alignment <= 256);
  REQUIRE(wanted->schemes == 2);  // sums in the result's type would round twice
  if (d->batch == 7) return not_supported;
  *results = Heuristic{};
  for (size_t i = 0; i < 4; ++i) results->algorithm.data[i] = wanted->alignment[i];
  results->algorithm.data[4] = uint64_t(d->rows), results->algorithm.data[5] = uint64_t(d->columns);
  results->workspace = size_t(std::min<uint64_t>(wanted->workspace, d->rows > 32 ? 1024 : 0));
  results->algorithm.data[6] = results->workspace;
  *found = 1;
  return success;
}

int cublasLtMatmul(void* handle, Product* p, const void* alpha, const void* a, Layout* la, const void* b, Layout* lb,
                   const void* beta, const void* c, Layout* lc, void* d, Layout* ld, const Algorithm* algorithm,
                   void* workspace, size_t workspace_bytes, void* stream) {
  REQUIRE(handle && alpha && beta && a && b && c && d && algorithm && stream);
  if (const int status = check(*p, *la, *lb, *lc, *ld)) return status;
  REQUIRE(is_one(p->scale, alpha) && is_zero(p->scale, beta));
  REQUIRE(c == d);
  REQUIRE(algorithm->data[4] == uint64_t(ld->rows) && algorithm->data[5] == uint64_t(ld->columns));
  const void* pointers[] = {a, b, c, d};
  for (size_t i = 0; i < 4; ++i) REQUIRE(reinterpret_cast<uintptr_t>(pointers[i]) % algorithm->data[i] == 0);
  const size_t needed = algorithm->data[6];
  REQUIRE(workspace_bytes >= needed);
  REQUIRE(needed == 0 || (workspace && reinterpret_cast<uintptr_t>(workspace) % 16 == 0));
  return simulated_work(stream, [=, p = *p, la = *la, lb = *lb, ld = *ld]() -> int {
    const char *pa = simulated_memory(a, extent(la)), *pb = simulated_memory(b, extent(lb));
    char *pd = simulated_memory(d, extent(ld)), *pw = needed ? simulated_memory(workspace, needed) : nullptr;
    if (!pa || !pb || !pd || (needed && !pw)) return 700;  // CUDA_ERROR_ILLEGAL_ADDRESS
    if (pw) std::memset(pw, 0x5a, needed);
    multiply(p, la, pa, lb, pb, ld, pd);
    return 0;
  });
}
}
