// Products of floats too large for gemm_tiles.cpp: C is divided among the threads, and A and B into blocks that stay in
// the caches while they are reused. Start at product(); tile() is the loop that takes most of the time.
//
// An element's sum depends on its row of A, its column of B and k alone: each block of gemm_block_k is added up in
// order of k by one register, and the blocks in order. So the number of threads, the other rows, the layout of the
// operands, packing and the tail change no bits, and whatever is faster may be chosen.
#include <algorithm>
#include <utility>

#include "rill/devices/cpu/product/gemm.h"
#include "rill/devices/cpu/unroll.h"
#include "rill/devices/crowding.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/product/gemm_blocks.cpp"
// As in gemm_tiles.cpp: other instruction sets gain nothing here.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | (HWY_AVX3 - 1) | RILL_SVE_TARGETS)
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>

#include "rill/devices/cpu/product/gemm_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {

constexpr int64_t block_k = gemm_block_k;

template <class T>
constexpr int64_t vector_lanes = int64_t(hn::MaxLanes(hn::ScalableTag<T>()));
template <class T>
constexpr int64_t strip_width = tile_vectors * vector_lanes<T>;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// --- A tile ----------------------------------------------------------------------------------------------------------

// Prefetches the cache lines of a tile, which are written or read when its sums are done.
template <class T>
HWY_INLINE void fetch(const T* p, int64_t row, int64_t rows, int64_t columns) {
  constexpr int64_t line = 64 / int64_t(sizeof(T));
  for (int64_t r = 0; r < rows; ++r, p += row) {
    for (int64_t x = 0; x < columns; x += line) __builtin_prefetch(p + x, 1);
    __builtin_prefetch(p + columns - 1, 1);
  }
}

// C[R, V vectors] (+)= A[R, k] B[k, V vectors]. The rows of A, B and C are dense. Only `last` lanes of the last vector
// are written, but B is read in full vectors.
template <int R, int V, class T>
HWY_NOINLINE void tile(const T* HWY_RESTRICT a, int64_t a_m, const T* HWY_RESTRICT b, int64_t b_k, T* HWY_RESTRICT c,
                       int64_t c_m, int64_t k, size_t last, bool add) {
  const hn::ScalableTag<T> d;
  constexpr int64_t lanes = vector_lanes<T>;
  constexpr int steps = 2, bases = (R + 2) / 3;  // three rows for each pointer, as one index register can address
  hn::Vec<decltype(d)> sum[R][V];
  RILL_UNROLL for (int r = 0; r < R; ++r) { RILL_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = hn::Zero(d); }
  fetch(c, c_m, R, V * lanes);
  const T* row[bases];
  RILL_UNROLL for (int q = 0; q < bases; ++q) row[q] = a + 3 * q * a_m;
  const auto step = [&](int i) HWY_ATTR {
    hn::Vec<decltype(d)> right[V];
    RILL_UNROLL for (int v = 0; v < V; ++v) right[v] = hn::LoadU(d, b + v * lanes);
    RILL_UNROLL for (int r = 0; r < R; ++r) {
      const auto x = hn::Set(d, row[r / 3][r % 3 * a_m + i]);
      RILL_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(x, right[v], sum[r][v]);
    }
    b += b_k;
  };
  int64_t i = 0;
  for (; i + steps <= k; i += steps) {
    RILL_UNROLL for (int s = 0; s < steps; ++s) step(s);
    RILL_UNROLL for (int q = 0; q < bases; ++q) row[q] += steps;
  }
  if (i < k) step(0);
  RILL_UNROLL for (int r = 0; r < R; ++r) {
    RILL_UNROLL for (int v = 0; v < V; ++v) {
      T* p = c + r * c_m + v * lanes;
      if (v == V - 1 && last != size_t(lanes)) {
        if (add) sum[r][v] = hn::Add(load_first(d, p, last), sum[r][v]);
        store_first(d, sum[r][v], p, last);
      } else {
        if (add) sum[r][v] = hn::Add(hn::LoadU(d, p), sum[r][v]);
        hn::StoreU(sum[r][v], d, p);
      }
    }
  }
}

// All tiles: of up to tile_rows rows, and of twice as many if there are at most half as many vectors.
template <class T>
struct Tiles {
  using Tile = void (*)(const T*, int64_t, const T*, int64_t, T*, int64_t, int64_t, size_t, bool);
  Tile of[tile_vectors][tile_rows] = {}, tall[tile_vectors / 2] = {};

  constexpr Tiles() {
    const auto rows = [this]<int V, int... R>(std::integral_constant<int, V>, std::integer_sequence<int, R...>) {
      ((of[V - 1][R] = tile<R + 1, V, T>), ...);
      if constexpr (V <= tile_vectors / 2) tall[V - 1] = tile<2 * tile_rows, V, T>;
    };
    [&]<int... V>(std::integer_sequence<int, V...>) {
      (rows(std::integral_constant<int, V + 1>(), std::make_integer_sequence<int, tile_rows>()), ...);
    }(std::make_integer_sequence<int, tile_vectors>());
  }
};
template <class T>
constexpr Tiles<T> tiles;

// --- The tail --------------------------------------------------------------------------------------------------------

// V vectors of a row of C from element `at` on, of which the last has `last` lanes: the sums `from`, then each step.
template <int V, class T>
HWY_INLINE void finish_vectors(const GemmTail& tail, const T* from, T* c, int64_t at, int64_t column, size_t last) {
  const hn::ScalableTag<T> d;
  constexpr int64_t lanes = vector_lanes<T>;
  const auto load = [&](const T* p, int v) HWY_ATTR {
    return v == V - 1 && last != size_t(lanes) ? load_first(d, p + v * lanes, last) : hn::LoadU(d, p + v * lanes);
  };
  hn::Vec<decltype(d)> x[V];
  RILL_UNROLL for (int v = 0; v < V; ++v) x[v] = load(from, v);
  for (size_t s = 0; s < tail.steps.size(); ++s) {
    const TailStep step = tail.steps[s];
    if (step.kind == TailStep::Kind::relu) {
      RILL_UNROLL for (int v = 0; v < V; ++v) x[v] = relu_of(x[v]);
      break;
    }
    const T* p = static_cast<const T*>(tail.operands[s]);
    hn::Vec<decltype(d)> t[V];
    if (step.broadcast == TailStep::Broadcast::scalar) {
      RILL_UNROLL for (int v = 0; v < V; ++v) t[v] = hn::Set(d, *p);
    } else {
      p += step.broadcast == TailStep::Broadcast::row ? column : at;
      RILL_UNROLL for (int v = 0; v < V; ++v) t[v] = load(p, v);
    }
    switch (step.kind) {
      case TailStep::Kind::add: {
        RILL_UNROLL for (int v = 0; v < V; ++v) x[v] = hn::Add(x[v], t[v]);
        break;
      }
      case TailStep::Kind::subtract: {
        RILL_UNROLL for (int v = 0; v < V; ++v) x[v] = hn::Sub(x[v], t[v]);
        break;
      }
      case TailStep::Kind::subtract_from: {
        RILL_UNROLL for (int v = 0; v < V; ++v) x[v] = hn::Sub(t[v], x[v]);
        break;
      }
      case TailStep::Kind::multiply: {
        RILL_UNROLL for (int v = 0; v < V; ++v) x[v] = hn::Mul(x[v], t[v]);
        break;
      }
      case TailStep::Kind::relu: break;  // computed above
    }
  }
  RILL_UNROLL for (int v = 0; v < V; ++v) {
    if (v == V - 1 && last != size_t(lanes)) store_first(d, x[v], c + at + v * lanes, last);
    else hn::StoreU(x[v], d, c + at + v * lanes);
  }
}

// The usual tail of a layer, a bias and perhaps relu, on rows of full strips: `bias` is read once.
template <bool relu, class T>
void add_bias(const T* bias, const T* from, int64_t from_m, T* to, int64_t to_m, int64_t rows) {
  const hn::ScalableTag<T> d;
  constexpr int64_t lanes = vector_lanes<T>;
  hn::Vec<decltype(d)> b[tile_vectors];
  RILL_UNROLL for (int v = 0; v < tile_vectors; ++v) b[v] = hn::LoadU(d, bias + v * lanes);
  for (int64_t r = 0; r < rows; ++r, from += from_m, to += to_m) {
    RILL_UNROLL for (int v = 0; v < tile_vectors; ++v) {
      const auto x = hn::Add(hn::LoadU(d, from + v * lanes), b[v]);
      hn::StoreU(relu ? relu_of(x) : x, d, to + v * lanes);
    }
  }
}
inline bool is_bias(const TailStep& s) {
  return s.kind == TailStep::Kind::add && s.broadcast == TailStep::Broadcast::row;
}

// A tile of C that starts in row i, column j; `c` is all of C, whose rows have n elements.
template <class T>
void finish(const GemmTail& tail, const T* from, int64_t from_m, T* c, int64_t n, int64_t i, int64_t j, int64_t rows,
            int64_t columns) {
  constexpr int64_t lanes = vector_lanes<T>;
  const size_t steps = tail.steps.size();
  const bool relu = tail.steps[steps - 1].kind == TailStep::Kind::relu;
  if (columns == strip_width<T> && steps == (relu ? 2 : 1) && is_bias(tail.steps[0]))
    return (relu ? add_bias<true, T> : add_bias<false, T>)(static_cast<const T*>(tail.operands[0]) + j, from, from_m,
                                                           c + i * n + j, n, rows);
  for (int64_t r = 0; r < rows; ++r, from += from_m) {
    const int64_t at = (i + r) * n + j;
    if (columns == strip_width<T>) {
      finish_vectors<tile_vectors>(tail, from, c, at, j, size_t(lanes));
      continue;
    }
    for (int64_t x = 0; x < columns; x += lanes)
      finish_vectors<1>(tail, from + x, c, at + x, j + x, size_t(std::min(lanes, columns - x)));
  }
}

// --- Packing ---------------------------------------------------------------------------------------------------------

// The width of a packed strip of B: its columns rounded up to full vectors.
template <class T>
int64_t packed_width(int64_t columns) {
  return ceil_div(std::min(columns, strip_width<T>), vector_lanes<T>) * vector_lanes<T>;
}

// Strips of B one after another, each dense in order of k.
template <class T>
void pack_strips(int64_t k, int64_t columns, const T* b, int64_t b_k, int64_t b_n, T* to) {
  constexpr int64_t width = strip_width<T>, lanes = vector_lanes<T>;
  int64_t j = 0;
  if (b_n == 1) {  // several strips at once: contiguous memory is read together
    constexpr int64_t together = 8 / tile_vectors;
    const hn::ScalableTag<T> d;
    for (; j + together * width <= columns; j += together * width, to += together * k * width) {
      for (int64_t i = 0; i < k; ++i) {
        RILL_UNROLL for (int64_t s = 0; s < together; ++s) {
          RILL_UNROLL for (int64_t v = 0; v < width; v += lanes)
              hn::StoreU(hn::LoadU(d, b + i * b_k + j + s * width + v), d, to + (s * k + i) * width + v);
        }
      }
    }
  }
  for (; j < columns; j += width, to += k * width) {
    const int64_t n = std::min(width, columns - j), step = packed_width<T>(n);
    copy_matrix(k, n, b + j * b_n, b_k, b_n, to, step);
    for (int64_t i = 0; i < k && n < step; ++i) std::memset(to + i * step + n, 0, size_t(step - n) * sizeof(T));
  }
}

// --- Blocks ----------------------------------------------------------------------------------------------------------

// Some rows of a block of A, from the caches or in place, and strips of B.
template <class T>
struct Operands {
  const T* a;
  int64_t a_m;
  const T* b;
  int64_t b_k, b_strip;  // strides: between rows of B; between strips
  bool packed;           // the last strip is rounded up to full vectors
  int64_t k;
  bool first, last;  // whether this is the first or last block of k
};

// A thread's part: rows [i, i + m) and columns [j, j + n) of C.
template <class T>
struct Task {
  const GemmProduct<T>& p;
  int64_t i, j, m, n;
  T* sums;         // where sums are stored: in C, or in scratch memory if the tail reads C
  int64_t sums_m;  // the stride of their rows; 0: each tile reuses the same memory
};

// Narrow tiles take so little time that prefetching their lines costs as much as it saves.
template <class T>
constexpr bool fetches_tail = strip_width<T> * sizeof(T) > 128;

// Prefetches what the tail of a tile at row i, column j of C writes, which has mostly left the caches long ago. (If the
// tail reads C, that is the same memory.)
template <class T>
void fetch_tail(const Task<T>& t, int64_t i, int64_t j, int64_t rows, int64_t columns) {
  if (t.sums_m == 0) fetch(t.p.c + i * t.p.g.n + j, t.p.g.n, rows, columns);
}

// Rows [i, i + rows) and columns [j, j + columns) of the task.
template <class T>
void block(const Task<T>& t, const Operands<T>& x, int64_t i, int64_t rows, int64_t j, int64_t columns) {
  constexpr int64_t width = strip_width<T>, lanes = vector_lanes<T>;
  const T* b = x.b;
  for (int64_t y = 0; y < columns; y += width, b += x.b_strip) {
    const int64_t n = std::min(width, columns - y), vectors = ceil_div(n, lanes);
    const int64_t b_k = x.packed ? packed_width<T>(n) : x.b_k;
    const auto run = [&](auto tile, int64_t r, int64_t count) {
      T* to = t.sums_m == 0 ? t.sums : t.sums + (i + r) * t.sums_m + j + y;
      const int64_t to_m = t.sums_m == 0 ? width : t.sums_m;
      if (fetches_tail<T> && x.last && !t.p.tail.steps.empty()) fetch_tail(t, t.i + i + r, t.j + j + y, count, n);
      tile(x.a + r * x.a_m, x.a_m, b, b_k, to, to_m, x.k, size_t(n - (vectors - 1) * lanes), !x.first);
      if (x.last && !t.p.tail.steps.empty())
        finish(t.p.tail, to, to_m, t.p.c, t.p.g.n, t.i + i + r, t.j + j + y, count, n);
    };
    int64_t r = 0;
    if (vectors <= tile_vectors / 2)
      for (; r + 2 * tile_rows <= rows; r += 2 * tile_rows) run(tiles<T>.tall[vectors - 1], r, 2 * tile_rows);
    const int64_t begin = r, rest = rows - r, groups = ceil_div(rest, tile_rows);
    for (int64_t g = 1; g <= groups; ++g) {  // groups of about the same height
      const int64_t end = begin + rest * g / groups;
      run(tiles<T>.of[vectors - 1][end - r - 1], r, end - r);
      r = end;
    }
  }
}

// The distance of packed rows of A, which is not a power of two.
constexpr int64_t packed_a_step = block_k + 16;
// How many rows of A, and columns of B, are packed at a time.
constexpr int64_t most_rows = 24 * tile_rows, most_columns = 1024;
// For up to this many rows of C, B is read in place: each element is then read about as often as if it were packed.
constexpr int64_t rows_worth_packing = 4 * tile_rows;

template <class T>
struct Space {
  T *a, *b;
};

// What panel() does with a block of B: columns [j, j + columns) of the task, k from k0 on.
template <class T>
void rows_of_panel(const Task<T>& t, Operands<T> x, int64_t k0, int64_t j, int64_t columns, Space<T> space) {
  const Gemm& g = t.p.g;
  const int64_t height = ceil_div(ceil_div(t.m, ceil_div(t.m, most_rows)), tile_rows) * tile_rows;
  for (int64_t i = 0; i < t.m; i += height) {
    const int64_t rows = std::min(height, t.m - i);
    x.a = t.p.a + (t.i + i) * g.a_m + k0 * g.a_k;
    x.a_m = g.a_m;
    if (g.a_k != 1) {
      copy_matrix(rows, x.k, x.a, g.a_m, g.a_k, space.a, packed_a_step);
      x.a = space.a;
      x.a_m = packed_a_step;
    }
    block(t, x, i, rows, j, columns);
  }
}

// Columns [j, j + columns) of the task.
template <class T>
void panel(const Task<T>& t, int64_t j, int64_t columns, Space<T> space) {
  constexpr int64_t width = strip_width<T>;
  const Gemm& g = t.p.g;
  const int64_t all_columns = ceil_div(g.n, vector_lanes<T>) * vector_lanes<T>;
  for (int64_t k0 = 0; k0 < g.k; k0 += block_k) {
    const int64_t k = std::min(block_k, g.k - k0);
    Operands<T> x{nullptr, 0, nullptr, width, k * width, true, k, k0 == 0, k0 + k == g.k};
    int64_t plain = 0;  // columns that are read in place
    if (t.p.packed_b) {
      x.b = t.p.packed_b + k0 * all_columns + (t.j + j) * k;
    } else {
      const T* b = t.p.b + k0 * g.b_k + (t.j + j) * g.b_n;
      plain = g.b_n == 1 && t.m <= rows_worth_packing ? columns / width * width : 0;
      if (plain > 0)
        rows_of_panel(t, Operands<T>{nullptr, 0, b, g.b_k, width, false, k, x.first, x.last}, k0, j, plain, space);
      if (plain < columns) pack_strips(k, columns - plain, b + plain * g.b_n, g.b_k, g.b_n, space.b);
      x.b = space.b;
    }
    if (plain < columns) rows_of_panel(t, x, k0, j + plain, columns - plain, space);
  }
}

// --- Threads ---------------------------------------------------------------------------------------------------------

// Divides C into `down` times `across` parts for at most this many threads, so that each reads and copies little.
template <class T>
struct Grid {
  int64_t down = 1, across = 1, rows = 0, columns = 0;

  Grid(const Gemm& g, int64_t threads) {
    int64_t least = INT64_MAX;
    for (int64_t x = 1; x <= threads; ++x) {
      const int64_t m = ceil_div(ceil_div(g.m, tile_rows), x) * tile_rows,
                    n = ceil_div(ceil_div(g.n, strip_width<T>), threads / x) * strip_width<T>;
      const int64_t cost = m * n / vector_lanes<T> + 2 * (m + n);
      if (cost >= least) continue;
      least = cost;
      rows = m, columns = n;
      down = ceil_div(g.m, m), across = ceil_div(g.n, n);
    }
  }
};

template <class T>
void run_task(const GemmProduct<T>& p, const Grid<T>& grid, int64_t index) {
  const Gemm& g = p.g;
  const int64_t i = index / grid.across * grid.rows, j = index % grid.across * grid.columns;
  Task<T> t{p, i, j, std::min(grid.rows, g.m - i), std::min(grid.columns, g.n - j), p.c + i * g.n + j, g.n};
  const bool reads_c = std::any_of(p.tail.steps.begin(), p.tail.steps.end(),
                                   [](const TailStep& s) { return s.broadcast == TailStep::Broadcast::in_place; });
  const int64_t columns = std::min(most_columns, ceil_div(t.n, strip_width<T>) * strip_width<T>);
  const int64_t for_b = p.packed_b ? 0 : columns * std::min(block_k, g.k),
                for_a = g.a_k == 1 ? 0 : (std::min(most_rows, t.m) + tile_rows) * packed_a_step,
                for_sums = !reads_c         ? 0
                           : g.k <= block_k ? 2 * tile_rows * strip_width<T>
                                            : t.m * t.n;
  Ref<Buffer> memory;
  Space<T> space{};
  if (for_b + for_a + for_sums > 0) {
    memory = allocate(Device(), size_t(for_b + for_a + for_sums) * sizeof(T));
    space.b = static_cast<T*>(memory->data);
    space.a = space.b + for_b;
    if (reads_c) t.sums = space.a + for_a, t.sums_m = g.k <= block_k ? 0 : t.n;
  }
  for (int64_t y = 0; y < t.n; y += most_columns) panel(t, y, std::min(most_columns, t.n - y), space);
}

template <class T>
void product(const GemmProduct<T>& p) {
  constexpr int64_t waits_less = 1 << 27;  // a millisecond or two: as long as a busy core may delay a thread
  const int64_t work = p.g.m * p.g.n * p.g.k;
  const Grid<T> grid(p.g, crowded(work, waits_less) ? 1 : detail::pieces_for(work, worth_a_thread));
  const int64_t tasks = grid.down * grid.across;
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run_task(p, grid, i);
  };
  if (tasks == 1) return run(0, 1);
  const auto call = [](void* f, int64_t begin, int64_t end) { (*static_cast<decltype(run)*>(f))(begin, end); };
  detail::parallel_pieces(tasks, int(tasks), call, const_cast<void*>(static_cast<const void*>(&run)));
}

// --- A B that never changes ------------------------------------------------------------------------------------------

template <class T>
void pack_all(const Gemm& g, const T* b, T* to) {
  const int64_t all_columns = ceil_div(g.n, vector_lanes<T>) * vector_lanes<T>;
  parallel_for(ceil_div(g.k, block_k), ceil_div(worth_a_thread, block_k * g.n), [&](int64_t begin, int64_t end) {
    for (int64_t k0 = begin * block_k; k0 < std::min(end * block_k, g.k); k0 += block_k)
      pack_strips(std::min(block_k, g.k - k0), g.n, b + k0 * g.b_k, g.b_k, g.b_n, to + k0 * all_columns);
  });
}

void product_f32(const GemmProduct<float>& p) { product(p); }
void product_f64(const GemmProduct<double>& p) { product(p); }
void pack_f32(const Gemm& g, const float* b, float* to) { pack_all(g, b, to); }

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(product_f32);
HWY_EXPORT(product_f64);
HWY_EXPORT(pack_f32);
void gemm_blocked(const GemmProduct<float>& p) { HWY_DYNAMIC_DISPATCH(product_f32)(p); }
void gemm_blocked(const GemmProduct<double>& p) { HWY_DYNAMIC_DISPATCH(product_f64)(p); }
int64_t packed_gemm_size(const Gemm& g) { return g.k * ((g.n + 15) / 16 * 16); }
void pack_gemm(const Gemm& g, const float* b, float* to) { HWY_DYNAMIC_DISPATCH(pack_f32)(g, b, to); }

}  // namespace rill::cpu
#endif
