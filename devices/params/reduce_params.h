// Attributes and kernels of reductions, cumulative ops, sorting and random bits. The records that name them are in
// ops/; the kernels in cpu/ and ref/.
#pragma once
#include "rill/devices/kernel.h"

#pragma GCC visibility push(default)

namespace rill {

// sum, prod, max, min, all, any, norm.
struct ReduceParams {
  Dims axes;  // ascending, none negative, no duplicates; the axes that are reduced
  bool keepdims = false;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("axes", s.axes);
    v("keepdims", s.keepdims);
  }
};

// argmax, argmin.
struct ArgReduceParams {
  int64_t axis = 0;  // not negative
  bool keepdims = false;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("axis", s.axis);
    v("keepdims", s.keepdims);
  }
};

// cumsum, cumprod, cummax, cummin, recurrence.
struct CumulativeParams {
  int64_t axis = 0;        // not negative
  bool exclusive = false;  // out[i] folds the elements before i, not i itself
  bool reverse = false;    // from the end
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("axis", s.axis);
    v("exclusive", s.exclusive);
    v("reverse", s.reverse);
  }
};

// sort, argsort.
struct SortParams {
  int64_t axis = 0;  // not negative
  bool descending = false;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("axis", s.axis);
    v("descending", s.descending);
  }
};

struct TopKParams {
  int64_t k = 1;
  int64_t axis = 0;     // not negative
  bool largest = true;  // else the smallest
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("k", s.k);
    v("axis", s.axis);
    v("largest", s.largest);
  }
};

struct SearchParams {
  bool right = false;  // after equal elements, else before them
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("right", s.right);
  }
};

struct RandomParams {
  Dims shape;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("shape", s.shape);
  }
};

#define RILL_DECLARE_KERNELS                  \
  void reduce_sum(const KernelArgs& args);    \
  void reduce_prod(const KernelArgs& args);   \
  void reduce_max(const KernelArgs& args);    \
  void reduce_min(const KernelArgs& args);    \
  void reduce_all(const KernelArgs& args);    \
  void reduce_any(const KernelArgs& args);    \
  void reduce_norm(const KernelArgs& args);   \
  void reduce_argmax(const KernelArgs& args); \
  void reduce_argmin(const KernelArgs& args); \
  void cumulate_sum(const KernelArgs& args);  \
  void cumulate_prod(const KernelArgs& args); \
  void cumulate_max(const KernelArgs& args);  \
  void cumulate_min(const KernelArgs& args);  \
  void recur(const KernelArgs& args);         \
  void sort(const KernelArgs& args);          \
  void argsort(const KernelArgs& args);       \
  void topk(const KernelArgs& args);          \
  void searchsorted(const KernelArgs& args);  \
  void random_bits(const KernelArgs& args);

#pragma GCC visibility pop  // kernels are not shown

namespace cpu {
RILL_DECLARE_KERNELS
// Words [first, first + n) of the stream that random_bits generates from the key {seed, draw}.
void random_words(uint64_t seed, uint64_t draw, uint64_t first, int64_t n, uint32_t* out);
}  // namespace cpu
namespace ref {
RILL_DECLARE_KERNELS
}
#undef RILL_DECLARE_KERNELS

}  // namespace rill
