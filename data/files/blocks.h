// Passes through files that are read in blocks of rows. A BlockReader reads rows of columns; a BlockCursor makes
// elements of them, or entire batches. Not installed.
#pragma once
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "rill/data/files/rows.h"
#include "rill/tensor/callback.h"

namespace rill::data::detail {

// Reads files, one after the other. Before an error, the rows before it are returned.
class BlockReader {
 public:
  BlockReader(std::vector<std::string> files, const Where& where) : files_(std::move(files)), where_(where) {}
  virtual ~BlockReader() = default;
  BlockReader(const BlockReader&) = delete;

  // The next rows, about `want` if there are as many; none at the end. Returns the error of the row after them, or
  // throws it if there are none; in both cases the next call continues after it.
  std::exception_ptr read(int64_t want, Block& out);
  // Goes past rows, those that are wrong among them.
  int64_t skip(int64_t n);
  void save(StateWriter& w) const;
  void restore(StateReader& r);
  virtual void use_threads(int most) { (void)most; }
  // Whether the next rows were read already.
  virtual bool has_ready() const { return false; }

 protected:
  // For the current file. Rows that were read before an exception are in `out`; none at its end.
  virtual void open(const std::string& path) = 0;
  virtual void close() = 0;
  virtual void read_some(int64_t want, Block& out) = 0;
  // Counts rows that it goes past, n at most; none at its end.
  virtual void skip_some(int64_t n, int64_t& gone) = 0;
  virtual bool goes_on() const { return false; }  // after an error; otherwise with the next file
  virtual void save_place(StateWriter& w) const = 0;
  virtual void restore_place(StateReader& r) = 0;
  const std::vector<std::string>& files() const { return files_; }
  const Where& where() const { return where_; }

 private:
  bool ready();  // opens a file if none is open; throws, and continues with the next, if that fails
  void leave();
  void leave_after_error();

  std::vector<std::string> files_;
  Where where_;
  size_t which_ = 0;
  bool open_ = false;
};

// The elements that `maker` makes of the rows that open() reads, again for each pass. It throws if a pass cannot begin.
StagePtr block_stage(std::string name, Callback<std::unique_ptr<BlockReader>()> open, RowMaker maker,
                     const Where& where);

// Rows of a block as a block of its own, dense.
Block rows_of_block(const Block& block, int64_t from, int64_t to);
Tensor string_column(std::vector<std::string>&& texts);
// Called by a pass that reads the standard input: a second one throws, under the name of `op`, if it is a pipe.
void begin_standard_input(const std::string& op, const Where& where);

}  // namespace rill::data::detail
