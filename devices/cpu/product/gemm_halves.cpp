// Products of halves: see gemm_halves.h. Start at product_of_halves().
//
// oneDNN may divide a sum among the threads that a primitive was made for. So a product is divided here, into pieces
// that depend on its sizes alone, and each piece is a primitive for one thread.
#include "rill/devices/cpu/product/gemm_halves.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "rill/devices/cpu/elementwise/halves.h"
#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/cpu/product/onednn.h"
#include "rill/devices/cpu/product/onednn_defects.h"
#include "rill/devices/threads.h"

namespace rill::cpu {
namespace {

// The product of two vectors of halves, in pieces that are converted to f32 in the cache. Its bits are those of
// converting the vectors first: gemm_dots adds up the same pieces in the same order.
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

#ifdef RILL_HAVE_ONEDNN
// A primitive for `batch` matrices; a batch stride of 0 repeats one matrix. The rows of C are `c_m` apart.
struct MatmulContext {
  DType dtype;
  int64_t batch, a_batch, b_batch, c_batch;
  Gemm g;
  int64_t c_m;
  bool packs_b = false;  // b is in a layout of oneDNN's choice
};
bool adds_up_as_plain(const dnnl::matmul::primitive_desc& pd, const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                      const dnnl::memory::desc& c) {
  const dnnl::matmul::primitive_desc plain(onednn::engine(), a, b, c, onednn::user_scratchpad());
  return onednn::adds_up_like(plain.impl_info_str(), pd.impl_info_str());
}
onednn::Call build_matmul(const void* p) {
  using namespace dnnl;
  const MatmulContext& x = *static_cast<const MatmulContext*>(p);
  const Gemm& g = x.g;
  const memory::data_type type = onednn::data_type(x.dtype);
  auto desc = [&](int64_t rows, int64_t columns, int64_t s_rows, int64_t s_columns, int64_t stride) {
    if (rows == 1)
      s_rows = s_columns == 1 ? columns : 1;  // strides of axes of one element are arbitrary, but oneDNN reads them
    if (columns == 1) s_columns = s_rows == 1 ? rows : 1;
    if (x.batch == 1) return memory::desc({rows, columns}, type, memory::dims{s_rows, s_columns});
    if (stride != 0) return memory::desc({x.batch, rows, columns}, type, memory::dims{stride, s_rows, s_columns});
    const int64_t whole = std::max(rows * s_rows, columns * s_columns);  // a stride of 0 selects the reference
    return memory::desc({1, rows, columns}, type, memory::dims{whole, s_rows, s_columns});
  };
  const memory::desc a = desc(g.m, g.k, g.a_m, g.a_k, x.a_batch), b = desc(g.k, g.n, g.b_k, g.b_n, x.b_batch),
                     c = desc(g.m, g.n, x.c_m, 1, x.c_batch);
  const memory::desc any_b(b.get_dims(), type, memory::format_tag::any);
  const matmul::primitive_desc pd(onednn::engine(), a, x.packs_b ? any_b : b, c, onednn::user_scratchpad());
  onednn::Call call;
  // Its reference loops, which take seconds where f32 takes milliseconds: f16 with A transposed, on processors without
  // instructions for f16.
  if (onednn::is_reference(pd.impl_info_str())) return call;
  if (x.packs_b && !adds_up_as_plain(pd, a, b, c)) return call;
  const int ma = call.add_memory(a, 0),
            mb = x.packs_b ? call.add_packed_memory(b, pd.weights_desc(), 1) : call.add_memory(b, 1),
            mc = call.add_memory(c, 2);
  call.add_step(matmul(pd), pd.scratchpad_desc(), {{DNNL_ARG_SRC, ma}, {DNNL_ARG_WEIGHTS, mb}, {DNNL_ARG_DST, mc}});
  return call;
}
onednn::Call& find(const MatmulContext& x) {
  const Gemm& g = x.g;
  onednn::Key key(1);
  key.add_all(std::initializer_list<int64_t>{int64_t(x.dtype), x.batch, x.a_batch, x.b_batch, x.c_batch, g.m, g.n, g.k,
                                             g.a_m, g.a_k, g.b_k, g.b_n, x.c_m, x.packs_b});
  return onednn::find_call(key, build_matmul, &x);
}

// How a batch of products is divided: into groups of matrices, or each matrix into rows or into columns.
struct Pieces {
  int64_t matrices = 1, rows, columns;

  Pieces(int64_t batch, const Gemm& g) : rows(g.m), columns(g.n) {
    constexpr int64_t worth_a_piece = 1 << 24, most = 64, least_rows = 32, least_columns = 64;
    const int64_t work = g.m * g.n * g.k;
    if (work <= worth_a_piece / 2) {
      matrices = std::min(batch, worth_a_piece / work);
      if (batch == 1) rows = few_rows_at_once(work, g.m);
    } else {
      const int64_t piece_count = std::min(most, (work + worth_a_piece - 1) / worth_a_piece);
      if (g.m >= g.n || g.m >= piece_count * least_rows) rows = divided(g.m, piece_count, least_rows);
      else columns = divided(g.n, piece_count, least_columns);
    }
  }
  // A small product, as in a step of a recurrent layer, has a few pieces, which all read all of a packed b.
  static int64_t few_rows_at_once(int64_t work, int64_t m) {
    constexpr int64_t worth_a_piece = 1 << 20, most = 4, least_rows = 16;
    const int64_t piece_count = std::min({work / worth_a_piece, m / least_rows, most});
    return piece_count > 1 ? divided(m, piece_count, least_rows) : m;
  }
  // The size of a part, a multiple of `least`.
  static int64_t divided(int64_t size, int64_t parts, int64_t least) {
    const int64_t part = (size + parts - 1) / parts;
    return (part + least - 1) / least * least;
  }
};

struct Product {
  DType dtype;
  int64_t batch;
  Gemm g;
  const Side &a, &b;
  char* c;
  int64_t a_batch = 0, b_batch = 0;
  Pieces pieces;

  int64_t down() const { return (g.m + pieces.rows - 1) / pieces.rows; }
  int64_t across() const { return (g.n + pieces.columns - 1) / pieces.columns; }
  int64_t count() const { return (batch + pieces.matrices - 1) / pieces.matrices * down() * across(); }
};

// Computes one piece on this thread. If b never changes, a piece that reads all of it packs it.
bool run_piece(const KernelArgs& args, const Product& p, int64_t index, bool may_pack) {
  const detail::ForceOneThread one_thread;
  const int64_t j = index % p.across() * p.pieces.columns, i = index / p.across() % p.down() * p.pieces.rows,
                first = index / p.across() / p.down() * p.pieces.matrices;
  MatmulContext x{p.dtype, std::min(p.pieces.matrices, p.batch - first), p.a_batch, p.b_batch, p.g.m * p.g.n, p.g,
                  p.g.n};
  x.g.m = std::min(p.pieces.rows, p.g.m - i);
  x.g.n = std::min(p.pieces.columns, p.g.n - j);
  const int64_t size = int64_t(size_of(p.dtype));
  const void* const slots[] = {p.a.data + (p.a.offset(first) + i * p.g.a_m) * size,
                               p.b.data + (p.b.offset(first) + j * p.g.b_n) * size,
                               p.c + (first * p.g.m * p.g.n + i * p.g.n + j) * size};
  const bool all_of_b = x.batch == p.batch || (p.b_batch == 0 && x.batch == p.pieces.matrices);
  if (may_pack && all_of_b && x.g.n == p.g.n && x.g.m == p.pieces.rows) {
    x.packs_b = true;
    onednn::Call& call = find(x);
    if (call.supported() && call.run_packed(slots, args.input(1), *args.packed)) return true;
    x.packs_b = false;
  }
  onednn::Call& call = find(x);
  if (!call.supported()) return false;
  call.run(slots);
  return true;
}

// An A whose columns are dense is transposed first: that takes no longer than oneDNN loses by it, and oneDNN would also
// add up long sums in another order.
bool is_worth_turning(int64_t batch, const Gemm& g) {
  constexpr int64_t few_columns = 64;
  return batch == 1 && g.a_k > 1 && g.m > 1 && g.n >= few_columns;
}
Side turned_side(const Side& a, const Gemm& g, DType dtype) {
  Side rows;
  rows.copy = empty_tensor(Spec{{g.m, g.k}, dtype, false, Device()});
  char* const to = rows.copy.mutable_rep()->data;
  strided_copy(dtype, Shape{g.m, g.k}, a.data + a.offset(0), Strides{g.a_m, g.a_k}, to, Strides{g.k, 1});
  rows.data = to;
  return rows;
}

bool by_onednn(const KernelArgs& args, int64_t batch, const Gemm& g, const Side& a, const Side& b, void* c,
               bool exchanged) {
  if (is_worth_turning(batch, g)) {
    const Side rows = turned_side(a, g, args.output().dtype());
    return by_onednn(args, batch, {g.m, g.n, g.k, g.k, 1, g.b_k, g.b_n}, rows, b, c, exchanged);
  }
  int64_t a_batch = 0, b_batch = 0;
  const bool regular = a.batch_stride(a_batch) && b.batch_stride(b_batch) && (a_batch != 0 || b_batch != 0);
  Product p{args.output().dtype(), batch, g, a, b, static_cast<char*>(c), a_batch, b_batch, Pieces(batch, g)};
  if (!regular) p.pieces.matrices = 1;
  if (p.pieces.matrices == 1) p.a_batch = p.b_batch = 0;
  const bool may_pack = args.packed && !exchanged && !b.copy.defined();
  std::atomic<bool> supported{true};
  const int64_t work = g.m * g.n * g.k * batch, count = p.count();
  parallel_for(count, std::max<int64_t>(1, count * worth_a_thread / work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && supported; ++i)
      if (!run_piece(args, p, i, may_pack)) supported = false;
  });
  return supported;
}
#else
bool by_onednn(const KernelArgs&, int64_t, const Gemm&, const Side&, const Side&, void*, bool) { return false; }
#endif

}  // namespace

bool product_of_halves(const KernelArgs& args, int64_t batch, const Gemm& g, const Side& a, const Side& b, void* c,
                       bool exchanged) {
  if (g.m * g.n == 1) {
    if (batch > 1) return false;
    if (args.output().dtype() == DType::f16) dot_of_halves(g, a.as<Half>(), b.as<Half>(), static_cast<Half*>(c));
    else dot_of_halves(g, a.as<BFloat16>(), b.as<BFloat16>(), static_cast<BFloat16*>(c));
    return true;
  }
  return by_onednn(args, batch, g, a, b, c, exchanged);
}

}  // namespace rill::cpu
