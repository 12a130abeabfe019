// Parameters of the kernels of fourier.cuh. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// exp(-2 pi i k / period), for k = 0, 1, ... or, with `squares`, for the squares of these.
struct Roots {
  char* to;
  long long count, period;
  int squares;
};

// What the elements of a line are: complex numbers, real ones, or the first n / 2 + 1 of the transform of real ones.
enum LineKind { complex_line, real_line, half_line };

// The transforms of lines along an axis of dense tensors. Those of n points where n is no power of two are taken as a
// convolution (Bluestein 1970) of 2^bits points: `chirp` and `filter` are not null then.
struct Lines {
  const char* from;
  char* to;
  long long first, count;        // lines, of which these are done
  long long inner;               // elements from one of a line to the next
  long long from_size, to_size;  // elements of a line
  long long n;
  int bits, per_block, inverse;
  LineKind reads, writes;
  double factor;  // that results are multiplied by
  const char *roots, *chirp, *filter;
  char* work;  // of lines in pieces: 2^bits points each
};

// A pass over all lines in `work`: from one half of it to the other.
struct Pass {
  const char* from;
  char* to;
  long long butterflies;  // of all lines
  long long done;         // the product of the radices before
  int bits;
  const char* roots;
};

}  // namespace rill::cuda
