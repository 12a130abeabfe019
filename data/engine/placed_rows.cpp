// See placed_rows.h.
#include "rill/data/engine/placed_rows.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>

#include "rill/devices/driver.h"
#include "rill/devices/host_memory.h"
#include "rill/devices/registry.h"
#include "rill/ops/listeners.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/tensor/lent_memory.h"

namespace rill::data {

namespace {

constexpr int64_t large_row = 64 << 10, largest_batch = 256 << 20;  // bytes
constexpr size_t alignment = 64;                                    // of tensors' memory

int64_t bytes_of(const Tensor& t) { return int64_t(t.size()) * int64_t(size_of(t.dtype())); }
size_t row_bytes_of(const Tensor& batch) { return size_t(batch.strides()[0]) * size_of(batch.dtype()); }

bool nobody_looks() { return !listeners().see_ops() && !listeners().calls; }

Tensor room_for(const Tensor& row, int64_t most) {
  if (!row.defined() || row.is_symbolic() || !is_host(row.device()) || row.dtype() == DType::string) return Tensor();
  const int64_t bytes = bytes_of(row);
  if (bytes < large_row || most > largest_batch / bytes || !nobody_looks()) return Tensor();
  Shape shape{most};
  for (int64_t i = 0; i < row.ndim(); ++i) shape.push_back(row.shape()[size_t(i)]);
  return empty_tensor(Spec{shape, row.dtype(), false, row.device()});
}

// Row `i` of a dense batch.
Tensor row_at(const Tensor& batch, int64_t i) {
  const Shape shape(batch.shape().begin() + 1, batch.shape().end());
  const Strides strides(batch.strides().begin() + 1, batch.strides().end());
  return make_view(batch, shape, strides, i * batch.strides()[0]);
}
char* data_of_row(const Tensor& batch, int64_t i) { return batch.rep()->data + i * int64_t(row_bytes_of(batch)); }

bool fits(const Tensor& row, const Tensor& batch) {
  return row.defined() && !row.is_symbolic() && row.device() == batch.device() && row.dtype() == batch.dtype() &&
         std::equal(row.shape().begin(), row.shape().end(), batch.shape().begin() + 1, batch.shape().end());
}

// f(tensor, which of the element's).
template <class F>
void for_each_tensor(Item& x, F f) {
  struct Looking final : LeafVisitor {
    explicit Looking(F& f) : f(f) {}
    void tensor(Tensor& t) override { f(t, next++); }
    void constant(const void*, size_t) override {}
    F& f;
    size_t next = 0;
  };
  Looking looking(f);
  x.visit(looking);
}

}  // namespace

// --- Rows that are lent ------------------------------------------------------------------------------------------------

// The tensors of an element that are lent memory.
struct LentSpecs {
  struct One {
    One(size_t which, const Spec& batch, size_t row_bytes) : which(which), batch(batch), row_bytes(row_bytes) {}
    const size_t which;  // of the element's
    const Spec batch;
    const size_t row_bytes;
    // The function's how manieth allocation of so many bytes becomes the result; -1: not known yet.
    std::atomic<int> made = -1;
  };
  std::deque<One> all;
};

// Batches whose rows are lent, each to one tensor at a time.
class LentBatch {
 public:
  LentBatch(const LentSpecs& specs, int64_t rows) {
    for (const LentSpecs::One& s : specs.all)
      parts_.push_back({empty_tensor(s.batch), std::vector<bool>(size_t(rows))});
  }
  // Of the `part`-th of LentSpecs. Whoever puts the batch together takes it.
  Tensor batch(size_t part) const {
    const std::lock_guard lock(mutex_);
    return parts_[part].batch;
  }
  // Whether the row was free, and is the caller's now.
  bool take(size_t part, int64_t row) {
    const std::lock_guard lock(mutex_);
    if (parts_[part].taken[size_t(row)]) return false;
    return parts_[part].taken[size_t(row)] = true;
  }
  void give_back(size_t part, int64_t row) {
    const std::lock_guard lock(mutex_);
    parts_[part].taken[size_t(row)] = false;
  }

 private:
  struct Part {
    Tensor batch;
    std::vector<bool> taken;
  };
  mutable ForkMutex mutex_;
  std::vector<Part> parts_;
};

namespace {

// The memory of a lent row, which is free again when no tensor holds it any more.
struct Loan final : Buffer {
  std::shared_ptr<LentBatch> batch;
  Ref<Buffer> memory;  // the batch's
  size_t part = 0;
  int64_t row = 0;
};
void end_loan(Buffer* b) {
  auto* const loan = static_cast<Loan*>(b);
  loan->batch->give_back(loan->part, loan->row);
  delete loan;
}
const Loan* loan_of(const Tensor& t) {
  const bool lent = t.defined() && !t.is_symbolic() && t.rep()->buffer && t.rep()->buffer->release == end_loan;
  return lent ? static_cast<const Loan*>(t.rep()->buffer.get()) : nullptr;
}

}  // namespace

RowLender::RowLender(const RowLoan& to) : loan_(to), made_(to.specs->all.size()), scope_(this) {}

Ref<Buffer> RowLender::lend(Device device, size_t bytes) {
  for (size_t part = 0; part < made_.size(); ++part) {
    const LentSpecs::One& s = loan_.specs->all[part];
    if (bytes != s.row_bytes || device != s.batch.device || made_[part]++ != s.made) continue;
    if (loan_.batch && loan_.batch->take(part, loan_.row)) return row(part);
  }
  return {};
}

bool RowLender::lent(const Buffer& buffer) const { return buffer.release == end_loan; }

Ref<Buffer> RowLender::row(size_t part) const {
  const Tensor batch = loan_.batch->batch(part);
  auto* const b = new Loan;
  b->device = batch.device();
  b->data = data_of_row(batch, loan_.row);
  b->bytes = loan_.specs->all[part].row_bytes;
  b->release = end_loan;
  b->batch = loan_.batch, b->memory = batch.rep()->buffer;
  b->part = part, b->row = loan_.row;
  return Ref<Buffer>::adopt(b);
}

// A tensor that is not in its row was made by the last allocation of its size, it seems.
void RowLender::learn(Item& result) const {
  std::vector<bool> in_row;
  for_each_tensor(result, [&](Tensor& t, size_t) { in_row.push_back(loan_of(t) != nullptr); });
  for (size_t part = 0; part < made_.size(); ++part) {
    LentSpecs::One& s = loan_.specs->all[part];
    if (made_[part] == 0 || (s.which < in_row.size() && in_row[s.which])) continue;
    int last = made_[part] - 1;
    for (size_t later = part + 1; later < made_.size(); ++later)
      last -= loan_.specs->all[later].row_bytes == s.row_bytes;
    s.made = std::max(last, 0);
  }
}

// --- A batch ---------------------------------------------------------------------------------------------------------

void PlacedRows::add(Item& x, int64_t row, int64_t most) {
  if (row == 0) clear();
  for_each_tensor(x, [&](Tensor& t, size_t which) {
    if (row == 0) placed_.push_back(begun_by(t, most));
    if (which < placed_.size() && placed_[which].batch.defined()) place(t, placed_[which], row);
  });
  if (std::ranges::none_of(placed_, [](const Placed& p) { return p.batch.defined(); })) clear();
}

PlacedRows::Placed PlacedRows::begun_by(const Tensor& t, int64_t most) {
  if (const Loan* const loan = loan_of(t); loan && loan->row == 0)
    if (const Tensor batch = loan->batch->batch(loan->part); int64_t(batch.dim(0)) == most && fits(t, batch))
      return {batch, loan->batch, loan->part};
  return {room_for(t, most)};
}

void PlacedRows::place(Tensor& t, Placed& p, int64_t row) {
  if (!fits(t, p.batch)) return;
  Tensor place = row_at(p.batch, row);
  // What somebody else holds is copied, for either may be changed in place when the other is gone.
  const Loan* const loan = loan_of(t);
  const bool there = loan && loan->batch == p.lent && loan->part == p.part && t.rep()->data == place.rep()->data &&
                     t.is_contiguous() && may_write(t);
  if (!there) {
    if (p.lent && !p.lent->take(p.part, row)) return void(p = {});
    copy_elements(t, place);
  }
  t = std::move(place);
}

Tensor PlacedRows::whole(const std::vector<Tensor>& rows) {
  const PlacedRows* const here = current();
  if (!here || rows.empty() || !nobody_looks()) return Tensor();
  for (const auto& [batch, lent, part] : here->placed_) {
    if (!batch.defined() || batch.rep()->data != rows[0].rep()->data) continue;
    const int64_t count = int64_t(rows.size());
    for (int64_t i = 0; i < count; ++i)
      if (const TensorRep& r = *rows[size_t(i)].rep();
          r.buffer.get() != batch.rep()->buffer.get() || r.data != data_of_row(batch, i))
        return Tensor();
    if (count == batch.shape()[0]) return batch;
    Shape some = batch.shape();
    some[0] = count;
    return make_view(batch, some, batch.strides(), 0);
  }
  return Tensor();
}

const PlacedRows*& PlacedRows::current() {
  thread_local const PlacedRows* rows = nullptr;
  return rows;
}

// --- Which rows are lent ---------------------------------------------------------------------------------------------

RowLoan RowLoans::next() {
  const int64_t row = at_;
  at_ = (at_ + 1) % rows_;
  if (!specs_) return {};
  if (row == 0) batch_ = std::make_shared<LentBatch>(*specs_, rows_);
  RowLoan loan{specs_, batch_, row};
  if (at_ == 0) batch_.reset();  // then its rows alone hold it
  return loan;
}

void RowLoans::begun(const PlacedRows& batch) {
  constexpr int most_unused = 4;
  if (unused_ > most_unused) return;
  const bool used = std::ranges::any_of(batch.placed_, [](const auto& p) { return bool(p.lent); });
  if (specs_ && (unused_ = used ? 0 : unused_ + 1) > most_unused) return specs_.reset(), batch_.reset();
  if (specs_ || !nobody_looks()) return;
  auto specs = std::make_shared<LentSpecs>();
  for (size_t which = 0; which < batch.placed_.size(); ++which)
    if (const Tensor& b = batch.placed_[which].batch; b.defined() && row_bytes_of(b) % alignment == 0)
      specs->all.emplace_back(which, b.spec(), row_bytes_of(b));
  if (!specs->all.empty()) specs_ = std::move(specs);
}

}  // namespace rill::data
