// Parameters of the kernels of fourier.cuh. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// exp(-2 pi i k / period), for k = 0, 1, ... or, with `squares`, for the squares of these.
struct Roots {
  char* to;
  long long count, period;
  int squares;
};

// The elements of a line: complex numbers, real ones, or the first n / 2 + 1 of the transform of real ones.
enum LineKind { complex_line, real_line, half_line };

// How a block transforms lines that fit. Two are for 2^k real numbers: these are as many halves of a complex line's,
// and their spectrum is made of that line's.
enum LineWay { any_lines, complex_lines, real_to_half, half_to_real };

// The transforms of lines along an axis of dense tensors. If n is not a power of two, they are computed as a
// convolution (Bluestein 1970) of 2^bits points: `chirp` and `filter` are then not null.
struct Lines {
  const char* from;
  char* to;
  long long first, count;        // lines, of which these are done
  long long inner;               // elements from one of a line to the next
  long long from_size, to_size;  // elements of a line
  long long n;
  int bits, inverse;
  int pairs;  // whether two real numbers may be accessed at once
  LineKind reads, writes;
  double factor;  // by which results are multiplied
  const char *roots, *chirp, *filter;
  char* work;  // of lines in pieces: 2^bits points each
};

// A pass over all lines in `work`: from one half of it to the other.
struct Pass {
  const char* from;
  char* to;
  long long butterflies;  // of all lines
  long long done;         // the product of the earlier radices
  int bits;
  const char* roots;
};

}  // namespace rill::cuda
