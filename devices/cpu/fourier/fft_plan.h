// What a Fourier transform of one length needs besides its operands: its stages and their roots of unity, computed once
// and kept for later calls.
//
// A length whose prime factors are at most 13 is a chain of stages (Stockham's autosort, decimation in frequency). Any
// other is a convolution of a length of the first kind (Bluestein 1970).
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace rill::cpu {

// y[q + s (r p + k)] = w^(pk) sum_j x[q + s (p + m j)] exp(-2 pi i jk / r), where w = exp(-2 pi i / (r m)), for all
// p < m and q < s.
struct FftStage {
  int64_t radix, m, s;
  size_t roots;  // where w^(pk) begins among the plan's: radix - 1 pairs for each p, real and imaginary part
};

template <class R>
struct FftPlan {
  int64_t n;
  std::vector<FftStage> stages;
  std::vector<R> roots;

  // Where Bluestein's convolution is needed: the plan of its length, exp(-pi i k^2 / n), and the transform, divided by
  // the length, of the conjugate of these.
  std::shared_ptr<const FftPlan> convolution;
  std::vector<R> chirp_re, chirp_im, filter_re, filter_im;

  explicit FftPlan(int64_t n);
  int64_t work_size() const { return convolution ? convolution->n : n; }
};

// The plan of a length, from a small cache.
template <class R>
std::shared_ptr<const FftPlan<R>> fft_plan(int64_t n);

enum class FftForm : uint8_t { complex_to_complex, real_to_complex, complex_to_real };

// The transforms of all lines of a tensor along one axis.
template <class R>
struct FftLines {
  const FftPlan<R>& plan;
  FftForm form;
  bool inverse;
  R scale;
  const R* from;  // complex numbers are pairs
  R* to;          // may be `from`
  int64_t inner;  // the distance between the elements of a line, and lines that lie side by side
  int64_t from_size, to_size;

  // `lanes` of them at a time, side by side, or, where lines are long, one after another.
  void run(int64_t first, int64_t count) const;
};

}  // namespace rill::cpu
