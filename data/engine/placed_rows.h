// The large tensors of a batch's elements, joined as they come. What map() makes for a batch may lie in it from the
// beginning: its function is lent a row, which its result takes as memory. Other tensors are copied while they are in the
// cache; their own memory is free for the next element, and the threads of map() continue meanwhile. The elements then
// hold views of the batch, which stacking() recognises. (joiners.cpp)
#pragma once
#include <memory>
#include <vector>

#include "rill/data/item.h"
#include "rill/devices/host_memory.h"
#include "rill/tensor/tensor.h"

namespace rill::data {

class LentBatch;
struct LentSpecs;

// --- Of map() --------------------------------------------------------------------------------------------------------

// A row of the batch that an element will be in, for who makes the element; or nothing.
struct RowLoan {
  std::shared_ptr<LentSpecs> specs = nullptr;
  std::shared_ptr<LentBatch> batch = nullptr;
  int64_t row = 0;
};

// While it lives, allocations of this thread get the row, those from which results were made so far.
class RowLender final : host_memory::Lender {
 public:
  explicit RowLender(const RowLoan& loan);
  // Finds out which of the allocations the result is.
  void learn(Item& result) const;

 private:
  Ref<Buffer> lend(Device device, size_t bytes) override;
  bool lent(const Buffer& buffer) const override;
  Ref<Buffer> row(size_t part) const;
  const RowLoan& loan_;
  std::vector<int> made_;  // allocations so far of each size
  host_memory::LenderScope scope_;
};
// f(), with the row lent to it.
template <class F>
Item make_in(const RowLoan& loan, F&& f) {
  if (!loan.specs) return f();
  const RowLender lender(loan);
  Item x = f();
  lender.learn(x);
  return x;
}

// A cursor that can make elements in rows that are lent.
class MakesRows {
 public:
  virtual void lend_rows(std::shared_ptr<class RowLoans> loans) = 0;

 protected:
  ~MakesRows() = default;
};

// --- Of batch() ------------------------------------------------------------------------------------------------------

class PlacedRows {
 public:
  // Element `row` of a batch of `most`.
  void add(Item& x, int64_t row, int64_t most);
  void clear() { placed_.clear(); }
  // Whether more elements are to be added.
  bool any() const { return !placed_.empty(); }

  // While it lives, stacking() of this thread looks here.
  class Scope {
   public:
    explicit Scope(const PlacedRows& rows) : outer_(current()) { current() = &rows; }
    ~Scope() { current() = outer_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const PlacedRows* outer_;
  };
  // The batch whose first rows these are, or an undefined tensor.
  static Tensor whole(const std::vector<Tensor>& rows);

 private:
  friend class RowLoans;
  // Of one of an element's tensors; undefined where it is not put together here.
  struct Placed {
    Tensor batch;
    std::shared_ptr<LentBatch> lent = nullptr;  // where its rows are
    size_t part = 0;                            // of `lent`
  };
  static const PlacedRows*& current();
  static Placed begun_by(const Tensor& t, int64_t most);
  static void place(Tensor& t, Placed& p, int64_t row);
  std::vector<Placed> placed_;
};

// Which rows the next elements of map() get: those of one batch, then those of the next. Only the thread that goes through
// the pipeline calls it.
class RowLoans {
 public:
  explicit RowLoans(int64_t rows) : rows_(rows) {}  // of a batch
  RowLoan next();
  // The next element will be the first of a batch.
  void restart() { at_ = 0, batch_.reset(); }
  // The first element of a batch has come: what its tensors are like, and whether they lie in rows that were lent.
  void begun(const PlacedRows& batch);

 private:
  std::shared_ptr<LentSpecs> specs_;  // null where nothing is lent
  std::shared_ptr<LentBatch> batch_;
  int64_t rows_, at_ = 0;
  int unused_ = 0;  // batches that were lent for nothing, one after the other
};

}  // namespace rill::data
