// Collectives that begin now and are waited for later: their data moves while the program computes.
//
//   distribute::Pending sum = distribute::start_all_reduce(g);  // ranks agree on the call here, in the program's order
//   Tensor y = matmul(a, b);                                    // meanwhile
//   Tensor total = sum.wait();                                  // the bits of all_reduce(g)
//
// Each rank waits for what it has begun in any order, once, and where it has begun it: in the same traced function, or
// outside of all. A Pending keeps its operand, so the variable may be reassigned. Data moves whenever this rank is in a
// call of distribute/, and while it waits. In a function both are nodes, between which others run. Derivatives are
// those of the collective, and are not begun ahead.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "rill/distribute/collectives.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

// A collective that has begun. Copies are one. The last that goes before wait() or drop() has lost it: that is an error
// of the next collective that begins here, or of the end of the Session.
class [[nodiscard]] Pending {
 public:
  Pending() = default;
  // The result; waits for it. Throws where nothing has begun, at a second call, and in another function than that in
  // which it began.
  Tensor wait(Where where = Where::current());
  // Whether something has begun that was not waited for.
  bool is_pending() const;
  // Drops the result, without waiting, which is then no mistake. The exchange itself continues.
  void drop();

  struct State;
  explicit Pending(std::shared_ptr<State> state) : state_(std::move(state)) {}  // pending.h

 private:
  std::shared_ptr<State> state_;
};

// Each begins the collective of its name (collectives.h).
Pending start_all_reduce(const Tensor& x, Reduce reduce = Reduce::sum, const Group& group = {},
                         Where where = Where::current());
Pending start_all_gather(const Tensor& x, const Group& group = {}, Where where = Where::current());
Pending start_reduce_scatter(const Tensor& x, Reduce reduce = Reduce::sum, const Group& group = {},
                             Where where = Where::current());
Pending start_broadcast(const Tensor& x, int64_t root = 0, const Group& group = {}, Where where = Where::current());
Pending start_all_to_all(const Tensor& x, const Group& group = {}, Where where = Where::current());
Pending start_permute(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& pairs, const Group& group = {},
                      Where where = Where::current());
Pending start_rotate(const Tensor& x, int64_t shift = 1, const Group& group = {}, Where where = Where::current());

}  // namespace rill::distribute

#pragma GCC visibility pop
