// Batches: iterates over the rows of a data set, epoch after epoch, each in its own order. Its position is kept in
// Variables, so that checkpoints save it: a run that is stopped and resumed continues with the next batch.
//
//   data::Batches batches(images.dim(0), 64);
//   for (int i = 0; i < steps; ++i) {
//     Tensor chosen = batches.next();
//     step(take(images, chosen, 0), take(labels, chosen, 0));
//   }
#pragma once
#include "rill/ops/names.h"
#include "rill/ops/variable.h"

#pragma GCC visibility push(default)

namespace rill::data {

struct BatchesOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  bool shuffle = true;  // otherwise in order
  bool partial = true;  // an epoch ends with the remaining rows, even if fewer than a batch
};

class Batches {
 public:
  // `count` rows, `batch` at a time. Throws unless both are above 0, and the count is not below the batch if partial
  // ones are left out.
  Batches(int64_t count, int64_t batch, const BatchesOptions& options = {}, Where where = Where::current());
  // The next rows: i64 indices. An epoch's order is drawn from the process's generator when its first batch is asked
  // for, as random::permutation does. Throws inside a traced function.
  Tensor next(Where where = Where::current());
  // The number of batches in an epoch, and of those returned in this one. 0: an epoch is about to begin.
  int64_t per_epoch() const;
  int64_t given() const;
  // How many epochs are over.
  int64_t epoch() const;
  // "position" i64[2] {epoch, batches given} and "order" u64[2], the key of this epoch's order.
  void name_variables(VariablePaths& paths) const;
  std::vector<Variable> variables() const { return {position_, key_}; }

 private:
  int64_t count_, batch_;
  BatchesOptions options_;
  Variable position_, key_;
  Tensor order_, order_key_;  // of the epoch whose key is order_key_
};

}  // namespace rill::data

#pragma GCC visibility pop
