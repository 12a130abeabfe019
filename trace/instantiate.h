// Open sizes: one trace for every concrete size. The callable is traced with a stand-in, a large prime, for each size
// that a signature leaves open; `instantiate` then rebuilds that graph for concrete sizes, without the callable. Output
// shapes are inferred anew; the numbers in attributes and constants that were made from a size (2 * n, n - 1,
// batch * n, 1.0 / n) are recognised by the primes in them and made again from the concrete sizes.
//
// Nothing is guessed in silence: a number that looks made from an open size and is not understood, and a shape that
// does not come out as the recognised formulas say, throw NotOpen, and the function traces that size by itself.
// Start reading at OpenSizes; SizeMap (in the .cpp) is the arithmetic.
#pragma once
#include <span>
#include <stdexcept>
#include <vector>

#include "rill/trace/graph.h"

namespace rill {

struct OpenSize {
  int64_t stand_in;  // while tracing
  int64_t size;      // in this call
};

// The stand-in of the i-th open size of a trace.
int64_t stand_in_size(size_t i);
// Whether a size is made from one of these stand-ins, as far as can be told.
bool is_made_from(int64_t size, std::span<const int64_t> stand_ins);

// The graph cannot serve these sizes; the message says which node, why and where in the user's source.
class NotOpen : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// `traced` for concrete sizes. Throws NotOpen, or what infer throws where the sizes do not fit together.
Graph instantiate(const Graph& traced, std::span<const OpenSize> sizes);

// `traced` for people to read: sizes that are open, or made from one that is, are `open_size`, printed as '?'.
Graph with_open_sizes(const Graph& traced, std::span<const int64_t> stand_ins);

}  // namespace rill
