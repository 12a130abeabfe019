// dot_general on the CPU. Operands are treated as batches of matrices by their strides (they are copied only where a
// group of axes has no single stride), and each product goes to the fastest kernel for it: see choose() at the end.
#include "rill/devices/cpu/product/gemm.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "rill/devices/cpu/elementwise/halves.h"
#include "rill/devices/cpu/elementwise/through_f32.h"
#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/cpu/product/onednn.h"
#include "rill/devices/crowding.h"
#include "rill/devices/params/contraction_params.h"
#include "rill/devices/params/contraction_tail.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

namespace rill::cpu {
namespace {

// Some axes of an operand, taken together.
struct Group {
  int64_t size = 1, stride = 0;
  bool single = true;  // one stride reaches all of them
};

Group group_of(const TensorRep& r, const Dims& axes) {
  Group g;
  for (size_t i = axes.size(); i-- > 0;) {
    const int64_t n = r.spec.shape[size_t(axes[i])], s = r.strides[size_t(axes[i])];
    if (n == 1) continue;
    if (g.size == 1) g.stride = s;
    else if (s != g.stride * g.size) g.single = false;
    g.size *= n;
  }
  return g;
}

Dims free_axes(int ndim, const Dims& batch, const Dims& contract) {
  Dims out;
  for (int64_t a = 0; a < ndim; ++a)
    if (std::find(batch.begin(), batch.end(), a) == batch.end() &&
        std::find(contract.begin(), contract.end(), a) == contract.end())
      out.push_back(a);
  return out;
}

// One operand as a batch of matrices with a stride for each direction.
struct Side {
  Tensor copy;  // keeps a copy alive
  const char* data = nullptr;
  Ints batch_sizes, batch_strides;
  Group free, contract;

  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data);
  }
  // The element offset of matrix b, counted in row-major order of the batch axes.
  int64_t offset(int64_t b) const {
    int64_t at = 0;
    for (size_t i = batch_sizes.size(); i-- > 0; b /= batch_sizes[i]) at += b % batch_sizes[i] * batch_strides[i];
    return at;
  }
  // The one stride between matrices, if there is one.
  bool batch_stride(int64_t& stride) const {
    int64_t size = 1;
    stride = 0;
    for (size_t i = batch_sizes.size(); i-- > 0;) {
      if (batch_sizes[i] == 1) continue;
      if (size == 1) stride = batch_strides[i];
      else if (batch_strides[i] != stride * size) return false;
      size *= batch_sizes[i];
    }
    return true;
  }
};

// Copies `t` into the order batch, free, contract.
void make_dense(Side& s, const Tensor& t, const Dims& batch, const Dims& free, const Dims& contract) {
  Shape shape;
  Strides strides;
  for (const Dims* axes : {&batch, &free, &contract})
    for (int64_t a : *axes) {
      shape.push_back(t.shape()[size_t(a)]);
      strides.push_back(t.strides()[size_t(a)]);
    }
  s.copy = empty_tensor(Spec{shape, t.dtype(), false, t.device()});
  copy_elements(make_view(t, shape, strides, 0), s.copy);
  s.data = s.copy.rep()->data;
  s.contract.stride = 1;
  s.free.stride = s.contract.size;
  s.free.single = s.contract.single = true;
  int64_t stride = s.free.size * s.contract.size;
  for (size_t i = s.batch_sizes.size(); i-- > 0; stride *= s.batch_sizes[i]) s.batch_strides[i] = stride;
}

// With `dense_lines`, one of the two directions of each matrix must be dense as well, as oneDNN wants it.
Side look_at(const Tensor& t, const Dims& batch, const Dims& contract, bool dense_lines) {
  const TensorRep& r = *t.rep();
  Side s;
  s.data = r.data;
  for (int64_t a : batch) {
    s.batch_sizes.push_back(r.spec.shape[size_t(a)]);
    s.batch_strides.push_back(r.strides[size_t(a)]);
  }
  const Dims free = free_axes(int(r.spec.shape.size()), batch, contract);
  s.free = group_of(r, free);
  s.contract = group_of(r, contract);
  auto rows = [](const Group& in, const Group& out) {  // `in` is dense, `out` steps over it
    return (in.size == 1 || in.stride == 1) && (out.size == 1 || out.stride >= in.size);
  };
  const bool fits =
      s.free.single && s.contract.single && (!dense_lines || rows(s.free, s.contract) || rows(s.contract, s.free));
  if (!fits) make_dense(s, t, batch, free, contract);
  return s;
}

#ifdef RILL_HAVE_ONEDNN
// oneDNN's matmul over `batch` matrices; a batch stride of 0 repeats one matrix.
struct MatmulContext {
  DType dtype;
  int64_t batch, a_batch, b_batch;
  Gemm g;
  std::span<const TailStep> tail = {};
  bool packs_b = false;  // b in a layout of oneDNN's choice
};
// Whether a product's sums are those of the plain call: not in general where oneDNN takes another implementation for
// it, nor, packed, where that is its gemm, which adds up by the layout of b.
bool adds_up_as_eager(const dnnl::matmul::primitive_desc& pd, const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                      const dnnl::memory::desc& c, bool packed) {
  const dnnl::matmul::primitive_desc plain(onednn::engine(), a, b, c, onednn::user_scratchpad());
  const std::string_view name = pd.impl_info_str();
  return name == plain.impl_info_str() && (!packed || name.starts_with("brg"));
}
onednn::Call build_matmul(const void* p) {
  using namespace dnnl;
  const MatmulContext& x = *static_cast<const MatmulContext*>(p);
  const Gemm& g = x.g;
  const memory::data_type type = onednn::data_type(x.dtype);
  auto desc = [&](int64_t rows, int64_t columns, int64_t s_rows, int64_t s_columns, int64_t stride) {
    if (rows == 1)
      s_rows = s_columns == 1 ? columns : 1;  // strides along sizes of 1 say nothing, yet oneDNN reads them
    if (columns == 1) s_columns = s_rows == 1 ? rows : 1;
    if (x.batch == 1) return memory::desc({rows, columns}, type, memory::dims{s_rows, s_columns});
    if (stride != 0) return memory::desc({x.batch, rows, columns}, type, memory::dims{stride, s_rows, s_columns});
    const int64_t whole = std::max(rows * s_rows, columns * s_columns);  // with 0 there, oneDNN takes its reference
    return memory::desc({1, rows, columns}, type, memory::dims{whole, s_rows, s_columns});
  };
  const memory::desc a = desc(g.m, g.k, g.a_m, g.a_k, x.a_batch), b = desc(g.k, g.n, g.b_k, g.b_n, x.b_batch),
                     c = desc(g.m, g.n, g.n, 1, g.m * g.n);
  const memory::desc any_b(b.get_dims(), type, memory::format_tag::any);
  const matmul::primitive_desc pd(onednn::engine(), a, x.packs_b ? any_b : b, c, onednn::with_tail(x.tail, c, 1));
  onednn::Call call;
  if (!x.tail.empty() && std::strstr(pd.impl_info_str(), "ref") == pd.impl_info_str()) return call;
  if ((x.packs_b || !x.tail.empty()) && !adds_up_as_eager(pd, a, b, c, x.packs_b)) return call;
  const int ma = call.add_memory(a, 0),
            mb = x.packs_b ? call.add_packed_memory(b, pd.weights_desc(), 1) : call.add_memory(b, 1),
            mc = call.add_memory(c, 2);
  std::vector<std::pair<int, int>> args{{DNNL_ARG_SRC, ma}, {DNNL_ARG_WEIGHTS, mb}, {DNNL_ARG_DST, mc}};
  for (size_t i = 0; i < x.tail.size(); ++i)
    if (x.tail[i].spread != TailStep::Spread::own)
      args.emplace_back(onednn::tail_arg(x.tail, i),
                        call.add_memory(onednn::tail_operand(x.tail[i].spread, c, 1), 3 + int(i)));
  call.add_step(matmul(pd), pd.scratchpad_desc(), args);
  return call;
}
onednn::Call& find(const MatmulContext& context) {
  const auto& [dtype, batch, a_batch, b_batch, g, tail, packs_b] = context;
  onednn::Key key(1);
  key.add_all(std::initializer_list<int64_t>{int64_t(dtype), batch, a_batch, b_batch, g.m, g.n, g.k, g.a_m, g.a_k,
                                             g.b_k, g.b_n, packs_b});
  for (const TailStep& s : tail) key.add(int64_t(s.kind) * 4 + int64_t(s.spread));
  return onednn::find_call(key, build_matmul, &context);
}
// Keeps a small product on this thread where that is due: above all while others keep the cores busy (crowding.h), for
// oneDNN waits for its threads as we do. Only where oneDNN divides no sum among threads, so that the bits stay.
class MaybeAlone {
 public:
  explicit MaybeAlone(const MatmulContext& x) {
    constexpr int64_t deepest = 1024, least_result = 2048;
    constexpr int64_t waits_less = 1 << 27;  // takes a millisecond or two alone; a thread whose core is taken, as long
    const int64_t work = x.batch * x.g.m * x.g.n * x.g.k;
    if (x.g.k <= deepest && x.g.m * x.g.n >= least_result &&
        (detail::pieces_for(work, worth_a_thread) == 1 || crowded(work, waits_less)))
      alone_.emplace();
  }

 private:
  std::optional<detail::ForceOneThread> alone_;
};

// slots: a, b, c and the tail's operands.
bool gemm_onednn(const MatmulContext& context, std::span<const void* const> slots) {
  const MaybeAlone alone(context);
  onednn::Call& call = find(context);
  if (!call.supported()) return false;
  call.run(slots);
  return true;
}
bool gemm_onednn(DType dtype, int64_t batch, int64_t a_batch, int64_t b_batch, const Gemm& g, const void* a,
                 const void* b, void* c) {
  const void* const slots[] = {a, b, c};
  return gemm_onednn({dtype, batch, a_batch, b_batch, g}, slots);
}
// One product whose b never changes.
bool gemm_packed(MatmulContext context, std::span<const void* const> slots, const KernelArgs& args) {
  if (!args.packed) return false;
  context.packs_b = true;
  const MaybeAlone alone(context);
  onednn::Call& call = find(context);
  return call.supported() && call.run_packed(slots, args.input(1), *args.packed);
}
#else
bool gemm_onednn(DType, int64_t, int64_t, int64_t, const Gemm&, const void*, const void*, void*) { return false; }
#endif

// Where the own kernel is the faster one: up to so many multiplications (measured on two cores: 32^3 0.9 us,
// oneDNN 2.2; 64^3 4.3, oneDNN 5.8; 128^3 is even), and for few rows, which read each number of b once, so that packing
// it first as oneDNN does cannot pay (4x1024x1024 53 us, oneDNN 108). Larger products stay with oneDNN, for its
// post-ops.
constexpr int64_t small_gemm_flops = 72 * 72 * 72;
bool is_small(const Gemm& g) {
  const bool dense = g.b_n == 1 || g.n == 1;
  return (g.m * g.n * g.k <= small_gemm_flops && (dense || g.k * g.n <= small_gemm_pack)) || (dense && g.m <= few_rows);
}

// A product with one column is one with one row of the transposed matrices; the layout of C is the same.
bool is_column(const Gemm& g) { return g.n == 1 && g.m > 1; }
Gemm transposed(const Gemm& g) { return {g.n, g.m, g.k, g.b_n, g.b_k, g.a_k, g.a_m}; }
// A vector times a matrix whose columns are dense, or a vector.
bool is_dots(const Gemm& g) { return g.m == 1 && g.k > 0 && (g.n == 1 || (g.b_k == 1 && g.b_n != 1)); }
// Whether the product is one for gemm_dots or gemm_small, and done.
template <class T>
bool run_small(const Gemm& g, const T* a, const T* b, T* c) {
  if (is_dots(g)) gemm_dots(g, a, b, c);
  else if (is_small(g)) gemm_small(g, a, b, c);
  else return false;
  return true;
}

// A vector times lines of complex numbers that lie dense, `step` apart: each sum of products is two real ones, of a
// line's parts in turn.
template <class T>
void complex_dots(const std::complex<T>* lines, int64_t count, int64_t step, const std::complex<T>* x, int64_t x_step,
                  int64_t k, std::complex<T>* c) {
  std::vector<T> for_real(size_t(2 * k)), for_imag(size_t(2 * k)), real(size_t(count), 0), imag(size_t(count), 0);
  for (int64_t i = 0; i < k; ++i) {
    const std::complex<T> v = x[i * x_step];
    for_real[size_t(2 * i)] = v.real(), for_real[size_t(2 * i + 1)] = -v.imag();
    for_imag[size_t(2 * i)] = v.imag(), for_imag[size_t(2 * i + 1)] = v.real();
  }
  const Gemm g{1, count, 2 * k, 0, 1, 1, 2 * step};
  gemm_dots(g, for_real.data(), reinterpret_cast<const T*>(lines), real.data());
  gemm_dots(g, for_imag.data(), reinterpret_cast<const T*>(lines), imag.data());
  for (int64_t i = 0; i < count; ++i) c[i] = {real[size_t(i)], imag[size_t(i)]};
}

// A long line times a vector, in pieces that stay in the first cache.
template <class T>
std::complex<T> complex_dot(const std::complex<T>* line, const std::complex<T>* x, int64_t x_step, int64_t k) {
  constexpr int64_t piece = 1024;
  std::vector<std::complex<T>> sums(size_t((k + piece - 1) / piece));
  parallel_for(int64_t(sums.size()), worth_a_thread / piece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      complex_dots(line + i * piece, 1, 0, x + i * piece * x_step, x_step, std::min(piece, k - i * piece),
                   &sums[size_t(i)]);
  });
  for (size_t half = sums.size(); half > 1;) {  // in pairs, so that rounding errors stay small
    half = (half + 1) / 2;
    for (size_t i = half; i < sums.size(); ++i) sums[i - half] += sums[i];
    sums.resize(half);
  }
  return sums[0];
}

// Complex numbers by two real products, in which a column of B is two, its real and its imaginary parts: where A is
// x + iy, x B and y B, of which the second is turned by i and added.
template <class T>
void gemm_complex(const Gemm& g, const std::complex<T>* a, const std::complex<T>* b, std::complex<T>* c) {
  // What lies otherwise is copied, so that the order of a sum depends on sizes alone.
  std::vector<std::complex<T>> room;
  const auto dense = [&](const std::complex<T>* x, int64_t rows, int64_t columns, int64_t row_step, int64_t step) {
    room.resize(size_t(rows * columns));
    strided_copy(dtype_of<std::complex<T>>(), Shape{rows, columns}, x, Strides{row_step, step}, room.data(),
                 Strides{columns, 1});
    return room.data();
  };
  if (g.n == 1) {
    const int64_t step = g.a_k == 1 ? g.a_m : g.k;
    if (g.a_k != 1) a = dense(a, g.m, g.k, g.a_m, g.a_k);
    if (g.m > 1) complex_dots(a, g.m, step, b, g.b_k, g.k, c);
    else *c = complex_dot(a, b, g.b_k, g.k);
    return;
  }
  const int64_t b_k = g.b_n == 1 ? g.b_k : g.n;
  if (g.b_n != 1) b = dense(b, g.k, g.n, g.b_k, g.b_n);
  const Gemm real{g.m, 2 * g.n, g.k, 2 * g.a_m, 2 * g.a_k, 2 * b_k, 1};
  const T *x = reinterpret_cast<const T*>(a), *columns = reinterpret_cast<const T*>(b);
  const auto product = [&](const T* part, T* to) {
    if (!run_small(real, part, columns, to)) gemm_blocked(real, part, columns, to);
  };
  const Ref<Buffer> space = allocate(Device(), size_t(2 * g.m * g.n) * sizeof(T));
  T *out = reinterpret_cast<T*>(c), *turned = static_cast<T*>(space->data);
  product(x, out);
  product(x + 1, turned);
  parallel_for(g.m * g.n, worth_a_thread, [&](int64_t begin, int64_t end) {
    for (int64_t i = 2 * begin; i < 2 * end; i += 2) out[i] -= turned[i + 1], out[i + 1] += turned[i];
  });
}

// A batch whose matrices are all small, or a type that only the own kernels know.
template <class T, class F>
void each_matrix(int64_t batch, const Gemm& g, const Side& a, const Side& b, T* c, bool parallel, F&& product) {
  const int64_t grain = parallel ? 1 + 65536 / (1 + g.m * g.n * g.k) : batch;
  parallel_for(batch, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      product(g, reinterpret_cast<const T*>(a.data) + a.offset(i), reinterpret_cast<const T*>(b.data) + b.offset(i),
              c + i * g.m * g.n);
  });
}

template <class T>
void own_float(int64_t batch, const Gemm& g, const Side& a, const Side& b, T* c) {
  if (is_small(g) || is_dots(g)) {
    each_matrix(batch, g, a, b, c, true, [](auto&&... x) { run_small(x...); });
  } else {
    // Many matrices: one a thread. Few: the threads share each. Either way an element's sum is the same.
    each_matrix(batch, g, a, b, c, batch >= 4 * num_threads(), [](auto&&... x) { gemm_blocked(x...); });
  }
}

// Whole numbers and bools, for which the order of a sum is free, and complex numbers.
void exact_or_complex(DType dtype, int64_t batch, const Gemm& g, const Side& a, const Side& b, void* c) {
  const auto each = [&]<class T>(T, auto product) {
    each_matrix(batch, g, a, b, static_cast<T*>(c), batch >= 4 * num_threads(), product);
  };
  const auto integers = [](auto&&... x) { gemm_integers(x...); };
  const auto complex = [](auto&&... x) { gemm_complex(x...); };
  if (is_bool(dtype)) each(uint8_t(), [](auto&&... x) { gemm_bools(x...); });
  else if (dtype == DType::c64) each(std::complex<float>(), complex);
  else if (dtype == DType::c128) each(std::complex<double>(), complex);
  else if (size_of(dtype) == 1) each(uint8_t(), integers);
  else if (size_of(dtype) == 2) each(uint16_t(), integers);
  else if (size_of(dtype) == 4) each(uint32_t(), integers);
  else each(uint64_t(), integers);
}

// The product of two vectors of halves, in pieces that are converted to f32 in the cache. Its bits are those of the
// whole vectors converted first: gemm_dots adds up the same pieces in the same order.
template <class T>
void dot_of_halves(const Gemm& g, const T* a, const T* b, T* c) {
  const auto convert = [](const T* from, int64_t step, int64_t n, float* to) {
    if (step == 1) convert_halves(from, to, size_t(n));
    else
      for (int64_t i = 0; i < n; ++i) to[i] = float(from[i * step]);
  };
  std::vector<float> sums(size_t((g.k + dot_block_k - 1) / dot_block_k));
  parallel_for(int64_t(sums.size()), worth_a_thread / dot_block_k, [&](int64_t begin, int64_t end) {
    float x[dot_block_k], y[dot_block_k];
    for (int64_t p = begin; p < end; ++p) {
      const int64_t at = p * dot_block_k, n = std::min(dot_block_k, g.k - at);
      convert(a + at * g.a_k, g.a_k, n, x);
      convert(b + at * g.b_k, g.b_k, n, y);
      gemm_dots(Gemm{1, 1, n, n, 1, 1, 1}, x, y, &sums[size_t(p)]);
    }
  });
  float sum = sums[0];
  for (size_t p = 1; p < sums.size(); ++p) sum += sums[p];
  *c = T(sum);
}

// `may_pack`: b is the op's second operand, which may be packed once for all calls.
bool run_onednn(const KernelArgs& args, int64_t batch, const Gemm& g, const Side& a, const Side& b, void* c,
                [[maybe_unused]] bool may_pack) {
  const DType dtype = args.output().dtype();
  int64_t a_stride, b_stride;
  if (a.batch_stride(a_stride) && b.batch_stride(b_stride) && (a_stride != 0 || b_stride != 0 || batch == 1)) {
#ifdef RILL_HAVE_ONEDNN
    const void* const slots[] = {a.data, b.data, c};
    if (may_pack && gemm_packed({dtype, batch, a_stride, b_stride, g}, slots, args)) return true;
#endif
    return gemm_onednn(dtype, batch, a_stride, b_stride, g, a.data, b.data, c);
  }
  const int64_t size = int64_t(size_of(dtype));
  for (int64_t i = 0; i < batch; ++i)
    if (!gemm_onednn(dtype, 1, 0, 0, g, a.data + a.offset(i) * size, b.data + b.offset(i) * size,
                     static_cast<char*>(c) + i * g.m * g.n * size))
      return false;
  return true;
}

// 2-D f32 without batch axes, small: the eager call whose cost is all overhead.
bool small_plain(const KernelArgs& args, const ContractionParams& p) {
  const TensorRep &a = *args.in[0]->rep(), &b = *args.in[1]->rep();
  if (a.spec.dtype != DType::f32 || a.spec.shape.size() != 2 || b.spec.shape.size() != 2) return false;
  if (p.lhs_contract.size() != 1 || p.lhs_contract[0] != 1 || p.rhs_contract[0] != 0 || !p.lhs_batch.empty())
    return false;
  const Gemm g{a.spec.shape[0], b.spec.shape[1], a.spec.shape[1], a.strides[0],
               a.strides[1],    b.strides[0],    b.strides[1]};
  if (is_column(g))
    return run_small(transposed(g), args.in_data<float>(1), args.in_data<float>(0), args.out_data<float>());
  return run_small(g, args.in_data<float>(0), args.in_data<float>(1), args.out_data<float>());
}

}  // namespace

void dot_general(const KernelArgs& args) {
  const ContractionParams& p = args.attrs.as<ContractionParams>();
  if (small_plain(args, p)) return;
  Tensor& out = args.output();
  if (out.size() == 0) return;
  const DType dtype = out.dtype();
  const bool half = is_half(dtype);
  const bool dense_lines = half || dtype == DType::f32 || is_bool(dtype);
  Side a = look_at(args.input(0), p.lhs_batch, p.lhs_contract, dense_lines);
  Side b = look_at(args.input(1), p.rhs_batch, p.rhs_contract, dense_lines);
  Gemm g{a.free.size, b.free.size, a.contract.size, a.free.stride, a.contract.stride, b.contract.stride, b.free.stride};
  const bool turned = (is_floating(dtype) || is_integer(dtype)) && is_column(g);
  if (turned) {
    std::swap(a, b);
    g = transposed(g);
  }
  void* c = out.mutable_rep()->data;
  if (g.k == 0) {
    std::memset(c, 0, size_t(out.size()) * size_of(dtype));
    return;
  }
  const int64_t batch = out.size() / (g.m * g.n);

  // Which kernel.
  if (half) {
    if (out.size() == 1 && dtype == DType::f16) dot_of_halves(g, a.as<Half>(), b.as<Half>(), static_cast<Half*>(c));
    else if (out.size() == 1) dot_of_halves(g, a.as<BFloat16>(), b.as<BFloat16>(), static_cast<BFloat16*>(c));
    else if (deterministic() || g.m * g.n == 1 || !run_onednn(args, batch, g, a, b, c, !turned))
      through_f32(args, dot_general);
  } else if (dtype == DType::f32) {
    if (turned || is_small(g) || is_dots(g) || deterministic() || !run_onednn(args, batch, g, a, b, c, true))
      own_float(batch, g, a, b, static_cast<float*>(c));
  } else if (dtype == DType::f64) {
    own_float(batch, g, a, b, static_cast<double*>(c));
  } else {
    exact_or_complex(dtype, batch, g, a, b, c);
  }
}

#ifdef RILL_HAVE_ONEDNN
bool dot_general_with_tail(const KernelArgs& args, std::span<const TailStep> steps) {
  const ContractionParams& p = args.attrs.as<ContractionParams>();
  Tensor& out = args.output();
  if (out.dtype() != DType::f32 || out.size() == 0 || deterministic() || !p.lhs_batch.empty()) return false;
  const Side a = look_at(args.input(0), p.lhs_batch, p.lhs_contract, true);
  const Side b = look_at(args.input(1), p.rhs_batch, p.rhs_contract, true);
  const Gemm g{a.free.size,       b.free.size,       a.contract.size, a.free.stride,
               a.contract.stride, b.contract.stride, b.free.stride};
  if (g.k == 0 || is_small(g) || is_column(g) || is_dots(g)) return false;
  SmallVec<const void*, 8> slots{a.data, b.data, out.mutable_rep()->data};
  for (size_t i = 0; i < steps.size(); ++i) slots.push_back(args.input(int(i) + 2).rep()->data);
  const MatmulContext context{DType::f32, 1, 0, 0, g, steps};
  return gemm_packed(context, slots, args) || gemm_onednn(context, slots);
}
#else
bool dot_general_with_tail(const KernelArgs&, std::span<const TailStep>) { return false; }
#endif

}  // namespace rill::cpu
