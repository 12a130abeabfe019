// Attention and its gradient in tiles: no matrix of queries by keys is ever stored (Dao et al., FlashAttention, 2022;
// the running maximum and sum are Milakov and Gimelshein's, Online normalizer calculation for softmax, 2018).
//
// A tile has block_q queries in the lanes and up to most_keys keys in its rows. So the softmax runs down the rows, lane
// by lane, without a sum across lanes; keys and values are read by rows, a number at a time; and the order of a sum
// depends only on the sizes, not on the number of threads or the vector width. Start at forward_block.
#include "rill/devices/cpu/elementwise/through_f32.h"
#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/kernel/targets.h"
#include "rill/devices/params/attention_params.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/rows/attention.cpp"
#include <hwy/foreach_target.h>

#include "rill/devices/cpu/rows/attention_tiles.h"

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

// --- The operands ----------------------------------------------------------------------------------------------------

template <class T>
struct Matrices {
  T* data = nullptr;
  MatrixLayout layout;
  Tensor copy;  // owns a dense copy

  int64_t row() const { return layout.row; }
  T* at(int64_t i) const { return data + layout.at(i); }
};

struct MaskView {
  const Tensor* tensor = nullptr;  // null if absent
  MatrixLayout layout;
};

template <class T>
struct Problem {
  int64_t heads, shared, group;  // matrices of queries; of keys; how many of the former share one of the latter
  int64_t queries, keys, width, value_width;
  T scale;
  bool causal;
  Matrices<const T> q, k, v;
  MaskView mask;

  int64_t blocks() const { return (queries + block_q - 1) / block_q; }
  // How many keys the queries before `end` may attend to.
  int64_t visible_keys(int64_t end) const { return causal ? std::clamp<int64_t>(end + keys - queries, 0, keys) : keys; }
  // Multiplications for a block of queries, to choose how many blocks are worth a thread.
  int64_t work() const { return block_q * keys * (width + value_width); }
};

template <class T, class M>
void add_mask(const Problem<T>& p, int64_t b, int64_t i0, int64_t n, int64_t j0, int64_t keys, T* s) {
  const MatrixLayout& at = p.mask.layout;
  const M* m = reinterpret_cast<const M*>(p.mask.tensor->rep()->data) + at.at(b) + i0 * at.row + j0 * at.column;
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t i = 0; i < n; ++i) {
      T& x = s[j * block_q + i];
      if constexpr (std::is_same_v<M, bool>)
        x = m[i * at.row + j * at.column] ? x : -std::numeric_limits<T>::infinity();
      else x += m[i * at.row + j * at.column];
    }
}

// Rows [first, first + n) of a matrix, dense: rows that are a power of two apart would evict each other from the
// cache.
template <class T>
Factor<T> dense_rows(const Matrices<const T>& m, int64_t matrix, int64_t first, int64_t n, int64_t columns, T* space) {
  const T* from = m.at(matrix) + first * m.row();
  if (m.row() == columns) return {from, columns, 1};
  copy_in(from, m.row(), n, columns, T(1), space);
  return {space, padded(columns), 1};
}
// The same for keys or values: consecutive blocks of queries mostly read the same rows, which are copied once.
template <class T>
struct KeptRows {
  T* space;
  int64_t matrix = -1, first = 0, n = 0;

  Factor<T> of(const Matrices<const T>& m, int64_t i, int64_t begin, int64_t count, int64_t columns) {
    const bool there = matrix == i && first == begin && n >= count && m.row() != columns;
    if (there) return {space, padded(columns), 1};
    matrix = i, first = begin, n = count;
    return dense_rows(m, i, begin, count, columns, space);
  }
};
template <class T>
Factor<T> transposed(Factor<T> f) {
  return {f.data, f.column, f.row};
}

// s[j][i]: the score of key j0 + j for query i0 + i, from the queries' columns, already scaled. -inf where masked.
template <class T>
void scores(const Problem<T>& p, int64_t b, int64_t i0, int64_t n, int64_t j0, int64_t keys, Factor<T> k,
            const T* columns, T* s) {
  std::fill(s, s + keys * block_q, T(0));
  add_product(keys, lanes_for<T>(n), p.width, k, columns, block_q, s, block_q);
  if (p.mask.tensor) {
    if (p.mask.tensor->dtype() == DType::boolean) add_mask<T, bool>(p, b, i0, n, j0, keys, s);
    else add_mask<T, T>(p, b, i0, n, j0, keys, s);
  }
  if (!p.causal) return;
  for (int64_t j = std::max<int64_t>(0, i0 + p.keys - p.queries + 1 - j0); j < keys; ++j) {
    const int64_t first = std::min(block_q, j0 + j - (p.keys - p.queries) - i0);  // the first query that attends to j
    std::fill(s + j * block_q, s + j * block_q + first, -std::numeric_limits<T>::infinity());
  }
}

// --- Forward ---------------------------------------------------------------------------------------------------------

template <class T>
struct ForwardScratch {
  T *columns, *s, *o, *top, *total;
  KeptRows<T> k, v;
  Ref<Buffer> space;

  explicit ForwardScratch(const Problem<T>& p) {
    const int64_t lanes = p.width + most_keys + p.value_width + 2,
                  rows = (padded(p.width) + padded(p.value_width)) * most_keys;
    space = allocate(Device(), size_t(lanes * block_q + rows) * sizeof(T));
    columns = static_cast<T*>(space->data), s = columns + p.width * block_q, o = s + most_keys * block_q;
    top = o + p.value_width * block_q, total = top + block_q;
    k.space = total + block_q, v.space = k.space + padded(p.width) * most_keys;
  }
};

// Replaces scores by exponentials relative to the largest so far; earlier sums are rescaled to match.
template <class T>
void fold_in(int64_t queries, int64_t keys, int64_t value_width, T* s, T* top, T* total, T* o) {
  using V = Lane<T>;
  constexpr T inf = std::numeric_limits<T>::infinity();
  for (int64_t x = 0; x < queries; x += int64_t(lanes<V>())) {
    const V before = load<V>(top + x);
    V now = before, sum(T(0));
    for (int64_t j = 0; j < keys; ++j) now = max(now, load<V>(s + j * block_q + x));
    const V zero_at = select(now == V(-inf), V(T(0)), now);  // no key yet: exp(-inf - 0) is 0
    const V fade = exp_of_negative(before - zero_at);
    for (int64_t j = 0; j < keys; ++j) {
      const V e = exp_of_negative(load<V>(s + j * block_q + x) - zero_at);
      store(e, s + j * block_q + x);
      sum = sum + e;
    }
    store(now, top + x);
    store(fma(load<V>(total + x), fade, sum), total + x);
    for (int64_t c = 0; c < value_width; ++c) store(load<V>(o + c * block_q + x) * fade, o + c * block_q + x);
  }
}

// Whether query i of matrix b attends to any key. One whose scores all overflow to -inf does, but to which is not
// known.
template <class T>
bool sees_a_key(const Problem<T>& p, int64_t b, int64_t i) {
  const int64_t visible_keys = p.visible_keys(i + 1);
  if (!p.mask.tensor) return visible_keys > 0;
  const MatrixLayout& at = p.mask.layout;
  const char* data = p.mask.tensor->rep()->data;
  for (int64_t j = 0; j < visible_keys; ++j) {
    const int64_t element = at.at(b) + i * at.row + j * at.column;
    const bool visible = p.mask.tensor->dtype() == DType::boolean
                             ? reinterpret_cast<const bool*>(data)[element]
                             : reinterpret_cast<const T*>(data)[element] != -std::numeric_limits<T>::infinity();
    if (visible) return true;
  }
  return false;
}

// The block of queries from i0 on of matrix b. log_sums: the logarithm of the sum of a query's exponentials in two
// parts, the greatest score and the rest; 0 for a query without keys, whose scores are -inf. If they are all -inf
// because of overflow, the query gives NaN, as softmax does.
template <class T>
void forward_block(const Problem<T>& p, int64_t b, int64_t i0, const Matrices<T>& out, T* log_sums,
                   ForwardScratch<T>& w) {
  const int64_t n = std::min(block_q, p.queries - i0);
  T *columns = w.columns, *s = w.s, *o = w.o, *top = w.top, *total = w.total;
  transpose_in(p.q.at(b) + i0 * p.q.row(), p.q.row(), n, p.width, p.scale, columns);
  std::fill(top, top + block_q, -std::numeric_limits<T>::infinity());
  std::fill(total, total + block_q, T(0));
  std::fill(o, o + p.value_width * block_q, T(0));
  for (int64_t j0 = 0, keys = 0, visible_keys = p.visible_keys(i0 + n); j0 < visible_keys; j0 += keys) {
    keys = keys_at_once(visible_keys - j0);
    const Factor<T> k = w.k.of(p.k, b / p.group, j0, keys, p.width),
                    v = w.v.of(p.v, b / p.group, j0, keys, p.value_width);
    scores(p, b, i0, n, j0, keys, k, columns, s);
    fold_in(n, keys, p.value_width, s, top, total, o);
    add_product(p.value_width, lanes_for<T>(n), keys, transposed(v), s, block_q, o, block_q);
  }
  for (int64_t i = 0; i < n; ++i) {
    T* parts = log_sums + 2 * (b * p.queries + i0 + i);
    if (total[i] == 0) [[unlikely]] {
      const bool lost = sees_a_key(p, b, i0 + i);
      parts[0] = parts[1] = total[i] = lost ? std::numeric_limits<T>::quiet_NaN() : T(0);
    } else {
      parts[0] = top[i];
      parts[1] = log(total[i]);
      total[i] = 1 / total[i];
    }
  }
  transpose_out(o, total, n, p.value_width, out.at(b) + i0 * out.row(), out.row());
}

template <class T>
void forward(const Problem<T>& p, const Matrices<T>& out, T* log_sums) {
  const int64_t blocks = p.blocks();
  parallel_for(p.heads * blocks, 1 + 30000 / (1 + p.work()), [&](int64_t begin, int64_t end) {
    ForwardScratch<T> w(p);
    for (int64_t t = begin; t < end; ++t) {
      // First, last, second, last but one, ...: equal pieces are then equal work under a causal mask too.
      const int64_t at = t % blocks, block = at % 2 ? blocks - 1 - at / 2 : at / 2;
      forward_block(p, t / blocks, block * block_q, out, log_sums, w);
    }
  });
}

// --- Gradients -------------------------------------------------------------------------------------------------------

// With P = exp(scores - log_sums), g the result's cotangent and delta_i what is subtracted from every key's gradient of
// query i:
template <class T>
struct Gradients {
  const T *log_sums, *delta;  // two numbers for each query, and one
  Matrices<const T> g;
  Matrices<T> q, k, v;
};

template <class T>
struct GradientScratch {
  T *columns, *g_columns, *rows, *g_rows, *p, *d, *dq, *top, *log_total, *delta;
  KeptRows<T> k, v;
  Ref<Buffer> space;

  explicit GradientScratch(const Problem<T>& x) {
    const int64_t sizes[] = {x.width * block_q,
                             x.value_width * block_q,
                             padded(x.width) * block_q,
                             padded(x.value_width) * block_q,
                             padded(x.width) * most_keys,
                             padded(x.value_width) * most_keys,
                             most_keys * block_q,
                             most_keys * block_q,
                             x.width * block_q,
                             block_q,
                             block_q,
                             block_q};
    T** const parts[] = {&columns, &g_columns, &rows, &g_rows, &k.space,   &v.space,
                         &p,       &d,         &dq,   &top,    &log_total, &delta};
    int64_t total = 0;
    for (int64_t n : sizes) total += n;
    space = allocate(Device(), size_t(total) * sizeof(T));
    T* at = static_cast<T*>(space->data);
    for (size_t i = 0; i < std::size(sizes); at += sizes[i++]) *parts[i] = at;
  }
};

// Replaces p by P, and d (g V^T so far) by D.
template <class T>
void score_gradients(int64_t queries, int64_t keys, const GradientScratch<T>& w) {
  using V = Lane<T>;
  for (int64_t x = 0; x < queries; x += int64_t(lanes<V>())) {
    const V top = load<V>(w.top + x), log_total = load<V>(w.log_total + x), delta = load<V>(w.delta + x);
    for (int64_t j = 0; j < keys; ++j) {
      T *p = w.p + j * block_q + x, *d = w.d + j * block_q + x;
      const V e = exp((load<V>(p) - top) - log_total);
      store(e, p);
      store(e * (load<V>(d) - delta), d);
    }
  }
}

// The gradient of the block of queries from i0 on of matrix b (if to_q), and its terms in the gradients of the keys
// and values in [first, last), which are added to dk and dv (unless null), in rows of padded width.
template <class T>
void backward_block(const Problem<T>& p, const Gradients<T>& out, int64_t b, int64_t i0, int64_t first, int64_t last,
                    GradientScratch<T>& w, bool to_q, T* dk, T* dv) {
  const int64_t n = std::min(block_q, p.queries - i0);
  last = std::min(last, p.visible_keys(i0 + n));
  if (!to_q && first >= last) return;
  const T *q = p.q.at(b) + i0 * p.q.row(), *g = out.g.at(b) + i0 * out.g.row();
  transpose_in(q, p.q.row(), n, p.width, p.scale, w.columns);
  transpose_in(g, out.g.row(), n, p.value_width, T(1), w.g_columns);
  if (dk) {
    copy_in(q, p.q.row(), n, p.width, p.scale, w.rows);
    copy_in(g, out.g.row(), n, p.value_width, T(1), w.g_rows);
  }
  for (int64_t i = 0; i < block_q; ++i) {
    const int64_t query = b * p.queries + i0 + i;
    w.top[i] = i < n ? out.log_sums[2 * query] : std::numeric_limits<T>::infinity();
    w.log_total[i] = i < n ? out.log_sums[2 * query + 1] : T(0);
    w.delta[i] = i < n ? out.delta[query] : T(0);
  }
  std::fill(w.dq, w.dq + p.width * block_q, T(0));
  for (int64_t j0 = first, keys = 0; j0 < last; j0 += keys) {
    keys = keys_at_once(last - j0);
    const Factor<T> k = w.k.of(p.k, b / p.group, j0, keys, p.width),
                    v = w.v.of(p.v, b / p.group, j0, keys, p.value_width);
    scores(p, b, i0, n, j0, keys, k, w.columns, w.p);
    std::fill(w.d, w.d + keys * block_q, T(0));
    add_product(keys, lanes_for<T>(n), p.value_width, v, w.g_columns, block_q, w.d, block_q);
    score_gradients(n, keys, w);
    if (to_q) add_product(p.width, lanes_for<T>(n), keys, transposed(k), w.d, block_q, w.dq, block_q);
    if (!dk) continue;
    const int64_t width = padded(p.width), value_width = padded(p.value_width);
    add_product(keys, width, n, Factor<T>{w.d, block_q, 1}, w.rows, width, dk + (j0 - first) * width, width);
    add_product(keys, value_width, n, Factor<T>{w.p, block_q, 1}, w.g_rows, value_width,
                dv + (j0 - first) * value_width, value_width);
  }
  if (!to_q) return;
  std::fill(w.delta, w.delta + block_q, p.scale);
  transpose_out(w.dq, w.delta, n, p.width, out.q.at(b) + i0 * out.q.row(), out.q.row());
}

// The gradients of the keys and values [first, last) of their matrix s, from all queries that share it in order; with
// to_q, if that is all keys, also the queries' gradients.
template <class T>
void backward_keys(const Problem<T>& p, const Gradients<T>& out, int64_t s, int64_t first, int64_t last,
                   GradientScratch<T>& w, bool to_q) {
  const int64_t width = padded(p.width), value_width = padded(p.value_width), n = last - first;
  const Ref<Buffer> space = allocate(Device(), size_t(n * (width + value_width)) * sizeof(T));
  T *dk = static_cast<T*>(space->data), *dv = dk + n * width;
  std::fill(dk, dk + n * (width + value_width), T(0));
  for (int64_t b = s * p.group; b < (s + 1) * p.group; ++b)
    for (int64_t i = 0; i < p.blocks(); ++i) backward_block(p, out, b, i * block_q, first, last, w, to_q, dk, dv);
  for (int64_t j = 0; j < n; ++j) {
    std::copy_n(dk + j * width, p.width, out.k.at(s) + (first + j) * out.k.row());
    std::copy_n(dv + j * value_width, p.value_width, out.v.at(s) + (first + j) * out.v.row());
  }
}

// One thread for each matrix of keys if there are enough of them. Else the gradients of the queries and of the keys are
// computed separately, by blocks of each: the scores twice, and every sum in the same order as before.
template <class T>
void backward(const Problem<T>& p, const Gradients<T>& out) {
  const int64_t blocks = p.blocks(), shared = p.shared, chunks = (p.keys + block_k - 1) / block_k;
  const bool small = p.heads * blocks * p.work() < 60000;
  if (small || shared % num_threads() == 0 || shared >= 4 * num_threads()) {
    parallel_for(shared, small ? shared : 1, [&](int64_t begin, int64_t end) {
      GradientScratch<T> w(p);
      for (int64_t s = begin; s < end; ++s) backward_keys(p, out, s, 0, p.keys, w, true);
    });
    return;
  }
  parallel_for(p.heads * blocks, 1, [&](int64_t begin, int64_t end) {
    GradientScratch<T> w(p);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t at = t % blocks, block = at % 2 ? blocks - 1 - at / 2 : at / 2;  // see forward()
      backward_block<T>(p, out, t / blocks, block * block_q, 0, p.keys, w, true, nullptr, nullptr);
    }
  });
  parallel_for(shared * chunks, 1, [&](int64_t begin, int64_t end) {
    GradientScratch<T> w(p);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t at = t % chunks, chunk = at % 2 ? chunks - 1 - at / 2 : at / 2;
      backward_keys(p, out, t / chunks, chunk * block_k, std::min(p.keys, (chunk + 1) * block_k), w, false);
    }
  });
}

// --- The ops ---------------------------------------------------------------------------------------------------------

// The matrices of a tensor, copied if the numbers of a row are not contiguous.
template <class T, class F>
Matrices<const T> read_matrices(const Tensor& t, F layout_of) {
  Matrices<const T> m{reinterpret_cast<const T*>(t.rep()->data), layout_of(t), {}};
  if (m.layout.column == 1 || t.shape().back() == 1) return m;
  m.copy = empty_tensor(t.spec());
  copy_elements(t, m.copy);
  m.data = reinterpret_cast<const T*>(m.copy.rep()->data);
  m.layout = layout_of(m.copy);
  return m;
}
template <class T>
Matrices<T> write_matrices(Tensor& t, MatrixLayout layout) {
  return {reinterpret_cast<T*>(t.mutable_rep()->data), std::move(layout), {}};
}

// `mask`: the index of the mask operand, if there is one.
template <class T>
Problem<T> separate_problem(const KernelArgs& args, size_t mask) {
  const Tensor &q = args.input(0), &k = args.input(1), &v = args.input(2);
  const AttentionParams& a = args.attrs.as<AttentionParams>();
  const size_t n = q.shape().size();
  Problem<T> p{};
  p.heads = p.shared = p.group = 1;
  for (size_t i = 0; i + 2 < n; ++i) p.heads *= q.shape()[i], p.shared *= k.shape()[i];
  if (n > 2 && k.shape()[n - 3] > 0) p.group = q.shape()[n - 3] / k.shape()[n - 3];
  p.queries = q.shape()[n - 2], p.width = q.shape()[n - 1];
  p.keys = k.shape()[n - 2], p.value_width = v.shape()[n - 1];
  p.scale = T(a.scale), p.causal = a.causal;
  p.q = read_matrices<T>(q, matrices_of), p.k = read_matrices<T>(k, matrices_of);
  p.v = read_matrices<T>(v, matrices_of);
  if (args.in.size() > mask) p.mask = {&args.input(int(mask)), matrices_of(args.input(int(mask)))};
  return p;
}

template <class T>
Problem<T> joined_problem(const KernelArgs& args) {
  const Tensor& qkv = args.input(0);
  const AttentionParams& a = args.attrs.as<AttentionParams>();
  const Shape& shape = qkv.shape();
  const size_t n = shape.size();
  Problem<T> p{};
  p.heads = shape[n - 2], p.group = 1;
  for (size_t i = 0; i + 4 < n; ++i) p.heads *= shape[i];
  p.shared = p.heads;
  p.queries = p.keys = shape[n - 4];
  p.width = p.value_width = shape[n - 1];
  p.scale = T(a.scale), p.causal = a.causal;
  p.q = read_matrices<T>(qkv, [](const Tensor& t) { return joined_part(t, 0); });
  const Tensor& dense = p.q.copy.defined() ? p.q.copy : qkv;
  p.k = read_matrices<T>(dense, [](const Tensor& t) { return joined_part(t, 1); });
  p.v = read_matrices<T>(dense, [](const Tensor& t) { return joined_part(t, 2); });
  return p;
}

MatrixLayout by_head(const Tensor& t) { return matrices_by_head(t.shape(), t.strides()); }

template <class T>
void run_attention(const KernelArgs& args) {
  forward<T>(separate_problem<T>(args, 3), write_matrices<T>(args.output(), matrices_of(args.output())),
             args.out_data<T>(1));
}

template <class T>
void run_self_attention(const KernelArgs& args) {
  forward<T>(joined_problem<T>(args), write_matrices<T>(args.output(), by_head(args.output())), args.out_data<T>(1));
}

// A dense copy if it is not dense already, which `keep` owns.
template <class T>
const T* dense_data(const Tensor& t, Tensor& keep) {
  keep = cpu::as_dense(t);
  return reinterpret_cast<const T*>(keep.rep()->data);
}

template <class T>
void run_attention_grad(const KernelArgs& args) {
  Tensor sums, delta;
  const Gradients<T> out{dense_data<T>(args.input(3), sums),
                         dense_data<T>(args.input(4), delta),
                         read_matrices<T>(args.input(5), matrices_of),
                         write_matrices<T>(args.output(0), matrices_of(args.output(0))),
                         write_matrices<T>(args.output(1), matrices_of(args.output(1))),
                         write_matrices<T>(args.output(2), matrices_of(args.output(2)))};
  backward<T>(separate_problem<T>(args, 6), out);
}

template <class T>
void run_self_attention_grad(const KernelArgs& args) {
  Tensor sums, delta;
  auto part = [&](int64_t i) { return write_matrices<T>(args.output(), joined_part(args.output(), i)); };
  const Gradients<T> out{dense_data<T>(args.input(1), sums),
                         dense_data<T>(args.input(2), delta),
                         read_matrices<T>(args.input(3), by_head),
                         part(0),
                         part(1),
                         part(2)};
  backward<T>(joined_problem<T>(args), out);
}

#define RILL_BY_DTYPE(name)                                                   \
  void name##_tiles(const KernelArgs& args) {                                 \
    if (args.input(0).dtype() == DType::f64) return run_##name<double>(args); \
    run_##name<float>(args);                                                  \
  }
RILL_BY_DTYPE(attention)
RILL_BY_DTYPE(attention_grad)
RILL_BY_DTYPE(self_attention)
RILL_BY_DTYPE(self_attention_grad)
#undef RILL_BY_DTYPE

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

#define RILL_KERNEL(name)                          \
  HWY_EXPORT(name##_tiles);                        \
  void name(const KernelArgs& args) {              \
    const DType d = args.input(0).dtype();         \
    if (is_half(d)) through_f32(args, name);       \
    else HWY_DYNAMIC_DISPATCH(name##_tiles)(args); \
  }
RILL_KERNEL(attention)
RILL_KERNEL(attention_grad)
RILL_KERNEL(self_attention)
RILL_KERNEL(self_attention_grad)
#undef RILL_KERNEL

}  // namespace rill::cpu
#endif  // HWY_ONCE
