// Batches; see batches.h. After a checkpoint is restored, the order is drawn again from its key, not stored.
#include "rill/data/batches.h"

#include <algorithm>

#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/values/next_key.h"

namespace rill::data {

namespace {
Variable hidden(const Tensor& first, const char* name) {
  EagerScope eager;
  return Variable(first, VariableOptions{.name = name, .trainable = false});
}
}  // namespace

Batches::Batches(int64_t count, int64_t batch, const BatchesOptions& options, Where where)
    : count_(count),
      batch_(batch),
      options_(options),
      position_(hidden(tensor({int64_t{0}, int64_t{0}}, {.device = Device()}), "batches/position")),
      key_(hidden(tensor({uint64_t{0}, uint64_t{0}}, {.device = Device()}), "batches/order")) {
  require_option(count >= 1, "Batches", "count", count, "1 or more", where);
  require_option(batch >= 1, "Batches", "batch", batch, "1 or more", where);
  if (!options.partial && batch > count)
    fail("Batches",
         "a batch of " + std::to_string(batch) + " of " + std::to_string(count) +
             " rows is a partial one, and these are left out",
         where);
}

int64_t Batches::per_epoch() const { return count_ / batch_ + (options_.partial && count_ % batch_ != 0); }
int64_t Batches::given() const { return position_.value()(1).item<int64_t>(); }
int64_t Batches::epoch() const { return position_.value()(0).item<int64_t>(); }

Tensor Batches::next(Where where) {
  CallerScope caller(where);
  int64_t done = given(), over = epoch();
  if (done < 0 || done >= per_epoch())
    fail("Batches",
         "its position, batch " + std::to_string(done) + " of " + std::to_string(per_epoch()) +
             ", is that of another data set or batch size. restore what was saved with the same ones",
         where);
  if (options_.shuffle) {
    // A single draw of the generator, for another thread may draw from it too: the saved key is that of the order.
    if (done == 0) key_.assign(random::next_key());
    if (const Tensor key = key_.value(); !order_key_.defined() || !array_equal(key, order_key_))
      order_ = random::permutation(count_, {.key = random::Key(key)}), order_key_ = key;
  } else if (!order_.defined()) {
    order_ = arange(count_);
  }
  const Tensor chosen = order_(slice(done * batch_, done * batch_ + std::min(batch_, count_ - done * batch_)));
  if (++done == per_epoch()) done = 0, ++over;
  position_.assign(tensor({over, done}, {.device = Device()}));
  return chosen;
}

void Batches::name_variables(VariablePaths& paths) const {
  paths.add("position", position_);
  paths.add("order", key_);
}

}  // namespace rill::data
