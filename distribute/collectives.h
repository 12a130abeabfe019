// Collectives: ops whose results depend on the tensors of all ranks of a group.
//
//   Tensor total = distribute::all_reduce(x);                     // the sum over all ranks, on each
//   Tensor parts = distribute::all_gather(x, pair);               // [2] + x.shape, of a group of two
//
// They are ops like others: eager, in `function`, in control flow, under tapes and vmap. In graphs they are effects:
// they run in each call, in the program's order. Derivatives are those of the sum over all ranks of what each rank
// differentiates: the gradient by x on this rank includes the effect of x on the other ranks' losses, and so the
// gradient of sum(all_reduce(x)) is the number of ranks. All ranks must take such a gradient, as its rules are
// collectives.
//
// The same bits, always: sums and products are formed in the order of a binary tree over the ranks of the group, the
// larger half of whose leaves (a power of two) is on the left; f16 and bf16 are added up in f32 and rounded once.
//
// Tensors on GPUs are exchanged by NCCL if it is available, else through the host; the bits are the host's
// (docs/distribute.md, GPUs). All throw if the ranks of the group make different calls.
#pragma once
#include <utility>
#include <vector>

#include "rill/distribute/session.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

enum class Reduce : uint8_t { sum, mean, max, min, product };
std::string_view name(Reduce r);  // "sum", "mean", ...

// The sum (mean, ...) of x over the ranks, of x's shape and dtype, on each of them. The mean requires floating or
// complex numbers; the largest and smallest do not support complex ones. NaN is larger and smaller than all else.
Tensor all_reduce(const Tensor& x, Reduce reduce = Reduce::sum, const Group& group = {},
                  Where where = Where::current());
// The mean over all ranks: all_reduce(x, Reduce::mean).
Tensor mean(const Tensor& x, const Group& group = {}, Where where = Where::current());
// The ranks' tensors along a new first axis, on each of them: [n] + x.shape. This, broadcast() and gather() take strings too.
Tensor all_gather(const Tensor& x, const Group& group = {}, Where where = Where::current());
// all_reduce(), of which each rank gets its part: x's first axis, a multiple of n, is cut into n.
Tensor reduce_scatter(const Tensor& x, Reduce reduce = Reduce::sum, const Group& group = {},
                      Where where = Where::current());
// x of the root. Roots are indices in the group.
Tensor broadcast(const Tensor& x, int64_t root = 0, const Group& group = {}, Where where = Where::current());
// Row i of the root's x, whose first axis is n, on rank i. The others' x has the same shape, and is not read.
Tensor scatter(const Tensor& x, int64_t root = 0, const Group& group = {}, Where where = Where::current());
// all_gather() on the root, and zeros of that shape on the others.
Tensor gather(const Tensor& x, int64_t root = 0, const Group& group = {}, Where where = Where::current());
// x's first axis, a multiple of n, in n parts: part j goes to rank j, and part i of the result came from rank i.
Tensor all_to_all(const Tensor& x, const Group& group = {}, Where where = Where::current());
// From rank `first` to rank `second` of each pair; a rank that receives nothing gets zeros. Throws if a rank occurs
// twice on either side.
Tensor permute(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& pairs, const Group& group = {},
               Where where = Where::current());
// The same around the ring: to the rank that is `shift` further on.
Tensor rotate(const Tensor& x, int64_t shift = 1, const Group& group = {}, Where where = Where::current());
// To one rank, which must receive() a tensor of this shape and dtype; waits until it does. Gives x. Neither has a
// derivative: permute() does.
Tensor send(const Tensor& x, int64_t to, const Group& group = {}, Where where = Where::current());
// From one rank, which must send() it; on the default device.
Tensor receive(const Shape& shape, DType dtype, int64_t from, const Group& group = {}, Where where = Where::current());
// Returns when all ranks have reached it.
void barrier(const Group& group = {}, Where where = Where::current());

}  // namespace rill::distribute

#pragma GCC visibility pop
