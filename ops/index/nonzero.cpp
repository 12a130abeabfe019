// nonzero and argwhere, and the indices that a mask selects. A mask is read twice: the true elements of each piece are
// counted, and then each piece writes its indices after those of the pieces before it.
#include "rill/ops/index/nonzero.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "rill/devices/registry.h"
#include "rill/devices/threads.h"
#include "rill/ops/apply.h"
#include "rill/ops/call_replay.h"
#include "rill/ops/editing.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/ops.h"

namespace rill {
namespace {

constexpr int64_t piece = 1 << 10;  // elements

int64_t count_set(const uint8_t* mask, int64_t n) {
  int64_t count = 0;
  for (; n >= 8; mask += 8, n -= 8) {
    uint64_t word;
    std::memcpy(&word, mask, 8);
    count += __builtin_popcountll(word);  // a bool is 0 or 1
  }
  return std::accumulate(mask, mask + n, count);
}

Tensor nonzero_indices(const Tensor& x, std::string_view op, const Where& where) {
  if (x.is_symbolic() && !compute_delayed(x))
    fail(op,
         fmt::format("how many elements are not zero depends on values, which {}. use where(mask, x, y), which keeps "
                     "the shape",
                     EnclosingTrace::why_unknown()),
         where);
  EagerScope eager;
  return flat_nonzero(is_bool(x.dtype()) ? x : x != 0, where);
}

}  // namespace

Tensor flat_nonzero(const Tensor& mask, const Where& where) {
  EagerScope eager;
  const Tensor dense = mask.to(Device(), where).contiguous();
  const auto* on = reinterpret_cast<const uint8_t*>(dense.data<bool>(where).data());
  const int64_t n = dense.size(), pieces = (n + piece - 1) / piece;
  const auto size_at = [&](int64_t i) { return std::min(piece, n - i * piece); };
  std::vector<int64_t> begins(size_t(pieces) + 1, 0);
  parallel_for(pieces, 64, [&](int64_t b, int64_t e) {
    for (; b < e; ++b) begins[size_t(b) + 1] = count_set(on + b * piece, size_at(b));
  });
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  Tensor out = empty_tensor(Spec{Shape{begins.back()}, DType::i64, false, dense.device()});
  auto* to = reinterpret_cast<int64_t*>(out.mutable_rep()->data);
  parallel_for(pieces, 64, [&](int64_t b, int64_t e) {
    int64_t indices[piece + 1];
    for (; b < e; ++b) {
      int64_t found = 0;
      for (int64_t i = 0, size = size_at(b); i < size; ++i) {  // branch-free: random masks are mispredicted
        indices[found] = b * piece + i;
        found += on[b * piece + i];
      }
      std::copy_n(indices, found, to + begins[size_t(b)]);
    }
  });
  return out.to(mask.device(), where);
}

Tensor argwhere(const Tensor& x, Where where) {
  CallerScope caller(where);
  if (x.ndim() == 0) return zeros({rill::any(x).item<bool>(where) ? 1 : 0, 0}, {i64, x.device()}, where);
  const Tensor flat = nonzero_indices(x, "argwhere", where);
  EagerScope eager;
  return stack(unravel_index(flat, x.shape()), -1);
}

std::vector<Tensor> nonzero(const Tensor& x, Where where) {
  CallerScope caller(where);
  if (x.ndim() == 0) fail("nonzero", "a tensor without axes has no indices. use reshape(x, {1})", where);
  const Tensor flat = nonzero_indices(x, "nonzero", where);
  EagerScope eager;
  return unravel_index(flat, x.shape());
}

Tensor flatnonzero(const Tensor& x, Where where) {
  CallerScope caller(where);
  return nonzero_indices(x, "flatnonzero", where);
}

}  // namespace rill
