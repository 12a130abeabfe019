// Passes through files that are read some rows at once. A BlockReader reads rows of columns; a BlockCursor makes
// elements of them, or whole batches. Not installed.
#pragma once
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "rill/data/files/rows.h"
#include "rill/tensor/callback.h"

namespace rill::data::detail {

// Reads files, one after the other. Where a row is wrong, the rows before it come first.
class BlockReader {
 public:
  BlockReader(std::vector<std::string> files, const Where& where) : files_(std::move(files)), where_(where) {}
  virtual ~BlockReader() = default;
  BlockReader(const BlockReader&) = delete;

  // The next rows, about `want` where there are as many; none at the end. Gives what is wrong with the row behind them,
  // or throws it where there are none; in both cases the next call goes on behind it.
  std::exception_ptr read(int64_t want, Block& out);
  // Goes past rows, those that are wrong among them.
  int64_t skip(int64_t n);
  void save(StateWriter& w) const;
  void restore(StateReader& r);
  virtual void use_threads(int most) { (void)most; }
  // Whether the next rows were read already.
  virtual bool has_ready() const { return false; }

 protected:
  // Of the file at hand. Rows that were read before something is thrown are in `out`; none were read at its end.
  virtual void open(const std::string& path) = 0;
  virtual void close() = 0;
  virtual void read_some(int64_t want, Block& out) = 0;
  // Counts rows that it goes past, n at most; none at its end.
  virtual void skip_some(int64_t n, int64_t& gone) = 0;
  virtual bool goes_on() const { return false; }  // behind what was wrong; otherwise with the next file
  virtual void save_place(StateWriter& w) const = 0;
  virtual void restore_place(StateReader& r) = 0;
  const std::vector<std::string>& files() const { return files_; }
  const Where& where() const { return where_; }

 private:
  bool ready();  // a file is open; throws, and goes on to the next, where that cannot be done
  void leave();
  void leave_after_error();

  std::vector<std::string> files_;
  Where where_;
  size_t which_ = 0;
  bool open_ = false;
};

// The elements that `maker` makes of the rows that open() reads, anew for each pass. It throws where a pass cannot be
// begun.
StagePtr block_stage(std::string name, Callback<std::unique_ptr<BlockReader>()> open, RowMaker maker,
                     const Where& where);

// Rows of a block as a block of its own, dense.
Block rows_of_block(const Block& block, int64_t from, int64_t to);
Tensor string_column(std::vector<std::string>&& texts);
// A pass that reads the standard input is told here: a second one throws, under the name of `op`, where it is a pipe.
void begin_standard_input(const std::string& op, const Where& where);

}  // namespace rill::data::detail
