// Batches: goes through the rows of a data set, epoch after epoch, each in an order of its own. Where it stands is kept
// in Variables, so that a checkpoint has it: a run that is stopped and resumed sees the batches that were to come.
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
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool shuffle = true;  // otherwise in order
  bool partial = true;  // an epoch ends with what is left, though it be less than a batch
};

class Batches {
 public:
  // Of `count` rows, `batch` at a time. Throws unless both are above 0, and the count is not below the batch where
  // partial ones are left out.
  Batches(int64_t count, int64_t batch, const BatchesOptions& options = {}, Where where = Where::current());
  // The next rows: i64 indices. An epoch's order is drawn from the process's generator when its first batch is asked
  // for, as random::permutation does. Throws inside a traced function.
  Tensor next(Where where = Where::current());
  // How many batches an epoch has, and how many of this one were given. 0: an epoch is about to begin.
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
