// See blocks.h.
#include "rill/data/files/blocks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "rill/devices/registry.h"
#include "rill/ops/ops.h"

namespace rill::data::detail {

// --- Columns ---------------------------------------------------------------------------------------------------------

const void* element_at(const Tensor& column, int64_t i) {
  return column.rep()->data + size_t(i) * size_of(column.dtype());
}

namespace {
Tensor on_default_device(const Tensor& t) {
  const Device d = default_device();
  return d == Device() || t.dtype() == DType::string ? t : t.to(d);
}
}  // namespace

namespace {
// Values of a column of lists, and where the lists `from` to `to` begin among them.
Tensor values_of(const Block& block, size_t column, int64_t from, int64_t to) {
  const auto* at = reinterpret_cast<const int64_t*>(block.splits[column].rep()->data);
  return slice_axis(block.columns[column], 0, at[from], at[to]).contiguous();
}
Tensor splits_of(const Block& block, size_t column, int64_t from, int64_t to) {
  const auto* at = reinterpret_cast<const int64_t*>(block.splits[column].rep()->data);
  std::vector<int64_t> own(at + from, at + to + 1);
  for (int64_t& split : own) split -= at[from];
  return tensor(own, {.device = Device()});
}
}  // namespace

Tensor row_tensor(const Block& block, size_t c, int64_t i) {
  if (block.has_lists(c)) return on_default_device(values_of(block, c, i, i + 1));
  const Tensor& column = block.columns[c];
  if (column.ndim() == 1) {  // a copy, which keeps nothing else in memory
    if (column.dtype() == DType::string)
      return tensor(*static_cast<const std::string*>(element_at(column, i)), {.device = Device()});
    Tensor t = empty_tensor(Spec{Shape{}, column.dtype(), false, Device()});
    std::memcpy(t.mutable_rep()->data, element_at(column, i), size_of(column.dtype()));
    return on_default_device(t);
  }
  return on_default_device(row_of(column, i));
}
Tensor column_tensor(const Tensor& column) { return on_default_device(column); }

Tensor string_column(std::vector<std::string>&& texts) {
  Tensor t = empty_tensor(Spec{Shape{int64_t(texts.size())}, DType::string, false, Device()});
  auto* to = reinterpret_cast<std::string*>(t.mutable_rep()->data);
  for (std::string& text : texts) *to++ = std::move(text);
  return t;
}

Block rows_of_block(const Block& block, int64_t from, int64_t to) {
  if (from == 0 && to == block.rows) return block;
  Block out{block.names, {}, {}, to - from};
  out.splits.resize(block.splits.size());
  for (size_t c = 0; c < block.columns.size(); ++c) {
    const bool lists = block.has_lists(c);
    out.columns.push_back(lists ? values_of(block, c, from, to)
                                : slice_axis(block.columns[c], 0, from, to).contiguous());
    if (lists) out.splits[c] = splits_of(block, c, from, to);
  }
  for (const auto& v : block.valid)
    out.valid.push_back(v.empty() ? v : std::vector<uint8_t>(v.begin() + from, v.begin() + to));
  return out;
}

namespace {
// Of a later file, which may have others.
void require_same_columns(const Block& a, const Block& b) {
  const auto names = [](const Block& x) { return x.names ? *x.names : std::vector<std::string>(); };
  if (names(a) == names(b) && a.columns.size() == b.columns.size() && !b.has_lists()) return;
  throw Error(fmt::format("batch(): rows of the columns {} cannot be stacked upon rows of {}",
                          fmt::join(names(b), ", "), fmt::join(names(a), ", ")));
}

Block joined(const std::vector<Block>& parts) {
  Block out{parts[0].names, {}, {}, 0};
  for (const Block& p : parts) out.rows += p.rows;
  for (size_t c = 0; c < parts[0].columns.size(); ++c) {
    std::vector<Tensor> columns;
    bool gaps = false;
    for (const Block& p : parts) columns.push_back(p.columns[c]), gaps |= !p.valid[c].empty();
    out.columns.push_back(concat(columns, 0));
    std::vector<uint8_t>& valid = out.valid.emplace_back();
    for (const Block& p : parts)
      if (gaps && p.valid[c].empty()) valid.insert(valid.end(), size_t(p.rows), 1);
      else valid.insert(valid.end(), p.valid[c].begin(), p.valid[c].end());
  }
  return out;
}

std::atomic<bool> standard_input_was_read{false};
}  // namespace

void begin_standard_input(const std::string& op, const Where& where) {
  if (!standard_input_was_read.exchange(true) || lseek(STDIN_FILENO, 0, SEEK_SET) == 0) return;
  fail(op, "'-', the standard input, is a pipe and was read: it gives its bytes once. cache() keeps what it gave",
       where);
}

// --- Files one after the other ---------------------------------------------------------------------------------------

void BlockReader::leave() {
  if (open_) close();
  open_ = false;
  ++which_;
}
void BlockReader::leave_after_error() {
  if (!goes_on()) leave();
}

bool BlockReader::ready() {
  if (open_) return true;
  if (which_ == files_.size()) return false;
  try {
    open(files_[which_]);
  } catch (...) {
    close();
    ++which_;
    throw;
  }
  return open_ = true;
}

std::exception_ptr BlockReader::read(int64_t want, Block& out) {
  out = Block();
  while (out.rows == 0 && ready()) {
    try {
      read_some(want, out);
    } catch (...) {
      leave_after_error();
      if (out.rows > 0) return std::current_exception();
      throw;
    }
    if (out.rows == 0) leave();
  }
  return nullptr;
}

int64_t BlockReader::skip(int64_t n) {
  int64_t gone = 0;
  while (gone < n) try {
      if (!ready()) break;
      const int64_t before = gone;
      skip_some(n - gone, gone);
      if (gone == before) leave();
    } catch (...) {  // errors of skipped rows do not matter
      ++gone;
      if (open_) leave_after_error();
    }
  return gone;
}

void BlockReader::save(StateWriter& w) const {
  w.number(int64_t(which_)), w.number(open_);
  if (open_) save_place(w);
}
void BlockReader::restore(StateReader& r) {
  if (open_) close();
  open_ = false;
  which_ = size_t(r.count(int64_t(files_.size())));
  if (!r.count(1)) return;
  if (!ready()) fail("Iterator.restore", "there are fewer files than there were", where_);
  restore_place(r);
}

// --- Elements --------------------------------------------------------------------------------------------------------

namespace {

class BlockStage final : public Stage {
 public:
  BlockStage(std::string name, Callback<std::unique_ptr<BlockReader>()> open, RowMaker maker, const Where& where)
      : Stage(std::move(name), where), open_(std::move(open)), maker_(std::move(maker)) {}
  CursorPtr open(const Pass& pass) const override { return std::make_unique<Rows>(*this, pass.most_threads); }

 private:
  // The state is the beginning of the current block, and the number of rows returned since.
  class Rows final : public Cursor {
   public:
    Rows(const BlockStage& s, int most_threads) : Cursor(s), stage_(s), reader_(s.open_()) {
      reader_->use_threads(most_threads);
    }
    Item next() override {
      if (at_ == block_.rows && !fill()) return {};
      return stage_.maker_.row(block_, at_++);
    }
    // A batch that is not full is the last one: where a row in it is wrong, elements are given one by one.
    Item next_stacked(int64_t n, int64_t& count) override {
      if (!stage_.maker_.stacked || failed_) return {};
      if (at_ == block_.rows && !read(n)) return {};
      if (block_.has_lists()) return {};
      if (block_.rows - at_ < n) extend(n);
      const int64_t have = std::min(n, block_.rows - at_);
      if (have < n && failed_) return {};
      count = have;
      at_ += have;
      return stage_.maker_.stacked(rows_of_block(block_, at_ - have, at_));
    }
    int64_t skip(int64_t n) override {
      int64_t gone = std::min(n, block_.rows - at_);
      at_ += gone;
      if (gone < n && failed_) tell_none(), ++gone;
      while (gone < n && reader_->has_ready() && read(n - gone)) gone += at_ = std::min(n - gone, block_.rows);
      if (gone == n) return n;
      gone += reader_->skip(n - gone);
      clear();
      return gone;
    }
    void save(StateWriter& w) const override {
      const bool between = at_ == block_.rows && !failed_;
      w.text(between ? now() : before_);
      w.number(between ? 0 : earlier_ + at_);
    }
    void restore(StateReader& r) override {
      StateReader place(r.text());
      reader_->restore(place);
      clear();
      const int64_t given = r.count();
      if (given == 0) return;
      before_ = now();
      earlier_ = reader_->skip(given);
    }

   private:
    std::string now() const {
      StateWriter w;
      reader_->save(w);
      return std::move(w.bytes);
    }
    void clear() {
      block_ = Block();
      at_ = earlier_ = 0;
      failed_ = nullptr;
    }
    void tell_none() { failed_ = nullptr; }
    bool read(int64_t want) {
      clear();
      before_ = now();
      failed_ = reader_->read(want, block_);
      return block_.rows > 0;
    }
    // The first blocks are small: an element is there soon.
    bool fill() {
      if (failed_) {
        const std::exception_ptr error = failed_;
        clear();
        std::rethrow_exception(error);
      }
      const int64_t want = want_;
      want_ = std::min<int64_t>(2 * want_, 1024);
      return read(want);
    }
    // Joins further rows to those that are left, until there are n, or all, or one that is wrong.
    void extend(int64_t n) {
      std::vector<Block> parts{rows_of_block(block_, at_, block_.rows)};
      int64_t have = block_.rows - at_;
      while (have < n && !failed_) try {
          Block more;
          failed_ = reader_->read(n - have, more);
          if (more.rows == 0) break;
          require_same_columns(parts[0], more);
          have += more.rows;
          parts.push_back(std::move(more));
        } catch (...) {
          failed_ = std::current_exception();
        }
      earlier_ += at_;
      at_ = 0;
      if (parts.size() > 1) block_ = joined(parts);
      else block_ = std::move(parts[0]);
    }

    const BlockStage& stage_;
    std::unique_ptr<BlockReader> reader_;
    Block block_;
    int64_t at_ = 0, want_ = 16;
    std::string before_;         // where the rows began of which block_ has the last
    int64_t earlier_ = 0;        // rows from there to block_
    std::exception_ptr failed_;  // of the row after block_
  };
  Callback<std::unique_ptr<BlockReader>()> open_;
  RowMaker maker_;
};

}  // namespace

StagePtr block_stage(std::string name, Callback<std::unique_ptr<BlockReader>()> open, RowMaker maker,
                     const Where& where) {
  return std::make_shared<BlockStage>(std::move(name), std::move(open), std::move(maker), where);
}

}  // namespace rill::data::detail
