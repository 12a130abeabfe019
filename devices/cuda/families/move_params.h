// Parameters of the kernels of move.cuh. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// One element's bytes, everywhere.
struct Fill {
  char* to;
  long long count;
  unsigned long long low, high;
};

// An axis of pad's result, of `padded` elements: number i is the operand's (i - lo) / step, if that is an integer and
// in [0, size). `stride`: the operand's, in bytes.
struct PadAxis {
  long long padded, lo, step, size, stride;
};
struct Padded {
  static constexpr int most_axes = 16;
  Fill fill;  // the result, and the value elsewhere
  const char* from;
  int axes;
  PadAxis axis[most_axes];
};

// start + step * i, where i is the index along an axis of `size` elements, repeated for `inner` elements:
// integers by `start` and `step`, others by the real ones.
struct Count {
  char* to;
  long long count, size, inner, start, step;
  double real_start, real_step;
};

// Integers that must be in [0, limit).
struct InRange {
  const char* values;
  long long count, limit;
  void* fault;  // Gpu::fault_slot()
  int code;
};

}  // namespace rill::cuda
