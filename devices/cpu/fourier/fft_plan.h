// What a Fourier transform of one length needs besides its operands: its stages and their roots of unity, computed once
// and cached for later calls.
//
// A length whose prime factors are at most 13 is a chain of stages (Stockham's autosort, decimation in frequency), or,
// if that would leave the caches, a matrix whose columns and then rows are transformed (Bailey 1990). Any other length
// is a convolution of a length of the first kind (Bluestein 1970). An even number of real numbers is transformed as
// half as many complex ones (RealTurns).
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace rill::cpu {

// y[q + s (r p + k)] = w^(pk) sum_j x[q + s (p + m j)] exp(-2 pi i jk / r), where w = exp(-2 pi i / (r m)), for all
// p < m and q < s.
struct FftStage {
  int64_t radix, m, s;
  size_t roots;  // index of the first w^(pk) in the plan's roots: radix - 1 pairs for each p, real and imaginary
};

template <class R>
struct FftPlan {
  using Number = R;
  int64_t n;
  std::vector<FftStage> stages;
  std::vector<R> roots;

  // For a long line: n = columns->n * rows->n, and exp(-2 pi i jk / n) at [k, j], k < columns->n, j < rows->n.
  std::shared_ptr<const FftPlan> columns, rows;
  std::vector<R> turns_re, turns_im;

  // For Bluestein's convolution: the plan of its length, exp(-pi i k^2 / n), and the transform, divided by the length,
  // of the conjugate of these.
  std::shared_ptr<const FftPlan> convolution;
  std::vector<R> chirp_re, chirp_im, filter_re, filter_im;

  explicit FftPlan(int64_t n);
  int64_t work_size() const { return convolution ? convolution->n : n; }
  // How many numbers it holds, without those of the plans it refers to.
  size_t size() const { return roots.size() + 2 * (turns_re.size() + chirp_re.size() + filter_re.size()); }
  // Whether fft_long.h computes the transform, with all threads, rather than fft_lines.h.
  bool is_long() const { return convolution ? convolution->is_long() : columns != nullptr; }

 private:
  void make_stages(const std::vector<int64_t>& factors);
  void make_convolution();
};

// The length from which a line is treated as a matrix.
inline constexpr int64_t long_line = 1 << 14;

// The transform of n = 2 m real numbers x, by that of z[j] = x[2j] + i x[2j + 1]: exp(-2 pi i k / n) for k <= m / 2.
template <class R>
struct RealTurns {
  using Number = R;
  int64_t n;
  std::vector<R> re, im;
  explicit RealTurns(int64_t n);
  size_t size() const { return 2 * re.size(); }
};

// From caches, each of the last 16 lengths, or of fewer if they hold more than 2^24 numbers. release_cached_memory()
// empties them.
template <class R>
std::shared_ptr<const FftPlan<R>> fft_plan(int64_t n);
template <class R>
std::shared_ptr<const RealTurns<R>> real_turns(int64_t n);

}  // namespace rill::cpu
