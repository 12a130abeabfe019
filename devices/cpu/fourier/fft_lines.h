// Transforms of lines that fit the caches, as many at a time as fill a vector.
#pragma once
#include <cstdint>

#include "rill/devices/cpu/fourier/fft_plan.h"
#include "rill/devices/registry.h"

namespace rill::cpu {

// Memory of one thread for `lanes` lines at a time.
template <class R>
class FftWorkspace {
 public:
  FftWorkspace(const FftPlan<R>& plan, int64_t lanes)
      : length_(size_t((plan.work_size() + 1) * lanes)),
        all_(allocate(Device(), (plan.convolution ? 6 : 4) * length_ * sizeof(R))) {}
  R* part(size_t i) { return static_cast<R*>(all_->data) + (i ^ exchanged_) * length_; }
  // Parts 0 and 1 become parts 2 and 3, and vice versa.
  void exchange() { exchanged_ ^= 2; }

 private:
  size_t length_, exchanged_ = 0;
  Ref<Buffer> all_;
};

// The forward transform (of a plan that is not long) of the real and imaginary parts in parts 0 and 1, [element][lane].
// The result is in parts 0 and 1 again, which may have moved: call part() again.
template <class R>
void transform_lanes(const FftPlan<R>& plan, int64_t lanes, FftWorkspace<R>& w);

// Splits n elements of `own` of `lanes` lines of complex numbers into [element][lane]; element j of line l is the pair
// at
// 2 * (l * line + j * element). And the reverse, times `scale`.
template <class R>
void gather_pairs(const R* at, int64_t line, int64_t element, int64_t n, int64_t own, int64_t lanes, R* re, R* im);
template <class R>
void put_pairs(const R* re, const R* im, R scale, int64_t n, int64_t own, int64_t lanes, R* at, int64_t line,
               int64_t element);

enum class FftForm : uint8_t { complex_to_complex, real_to_complex, complex_to_real };

// The transforms of all lines of a tensor along one axis.
template <class R>
struct FftLines {
  const FftPlan<R>& plan;     // of half the length if `turns` is set
  const RealTurns<R>* turns;  // for an even number of real numbers
  FftForm form;
  bool inverse;
  R scale;
  const R* from;  // complex numbers are pairs
  R* to;          // may be `from`
  int64_t inner;  // the distance between the elements of a line; lines closer than that are interleaved
  int64_t from_size, to_size;

  // `lanes` of them at a time, or, if lines are long, one after another.
  void run(int64_t first, int64_t count) const;
  // The position of a line's first element.
  int64_t from_at(int64_t line) const { return line / inner * from_size * inner + line % inner; }
  int64_t to_at(int64_t line) const { return line / inner * to_size * inner + line % inner; }

 private:
  void gather(int64_t first, int64_t own, int64_t lanes, R* re, R* im) const;
  void put(int64_t first, int64_t own, int64_t lanes, const R* re, const R* im) const;
  void gather_some(int64_t at, int64_t line, int64_t own, int64_t lanes, R* re, R* im) const;
  void put_some(int64_t at, int64_t line, int64_t own, int64_t lanes, const R* re, const R* im) const;
};

}  // namespace rill::cpu
