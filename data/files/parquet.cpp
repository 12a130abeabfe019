// Parquet files, by librill_parquet, which is opened at the first one; see arrow.h. Start at ParquetReader.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "rill/data/files/arrow_rows.h"
#include "rill/devices/modules.h"
#include "rill/serialize/parquet/plug_in.h"

namespace rill::data {
namespace {

constexpr const char* parquet_name = "data::parquet";
constexpr int64_t rows_of_batch = 1 << 16;

// The functions of the plug-in.
struct Parquet {
  decltype(&rill_parquet_open) open = nullptr;
  decltype(&rill_parquet_close) close = nullptr;
  decltype(&rill_parquet_error) error = nullptr;
  decltype(&rill_parquet_groups) groups = nullptr;
  decltype(&rill_parquet_rows) rows = nullptr;
  decltype(&rill_parquet_begin) begin = nullptr;
  decltype(&rill_parquet_next) next = nullptr;
  std::string why;  // it cannot be used

  Parquet() {
    ModuleFunctions library(
        "librill_parquet.so", "rill_parquet_version", RILL_VERSION,
        "this rill has no librill_parquet: it was built without the feature parquet (Arrow's libparquet)");
    library.find(open, "rill_parquet_open"), library.find(close, "rill_parquet_close"),
        library.find(error, "rill_parquet_error");
    library.find(groups, "rill_parquet_groups"), library.find(rows, "rill_parquet_rows");
    library.find(begin, "rill_parquet_begin"), library.find(next, "rill_parquet_next");
    why = library.why();
  }
  static const Parquet& get() {
    static const Parquet only;
    return only;
  }
};

// The position is a row group, and a row in it.
class ParquetReader final : public detail::BlockReader {
 public:
  ParquetReader(std::vector<std::string> files, const ArrowRowOptions& options, const detail::RowMaker& maker,
                const Where& where)
      : BlockReader(std::move(files), where), parquet_(Parquet::get()), rows_(parquet_name, options, maker, where) {
    if (!parquet_.why.empty()) fail(parquet_name, parquet_.why, where);
  }
  ~ParquetReader() override { ParquetReader::close(); }

 private:
  void open(const std::string& path) override {
    path_ = path;
    rows_.set_path(path);
    std::vector<const char*> columns;
    for (const std::string& name : rows_.wanted().columns) columns.push_back(name.c_str());
    file_ = parquet_.open(path.c_str(), columns.data(), int(columns.size()), rows_of_batch);
    if (const std::string error = parquet_.error(file_); !error.empty()) rows_.reject(error);
    group_ = 0, row_ = 0, begun_ = false;
  }
  void close() override {
    if (file_) parquet_.close(file_);
    file_ = nullptr;
  }
  void read_some(int64_t, detail::Block& out) override {
    while (group_ < parquet_.groups(file_)) {
      const char* bytes = nullptr;
      int64_t size = 0;
      if (!begun_ && parquet_.begin(file_, group_) != 1) rows_.reject(parquet_.error(file_));
      if (!std::exchange(begun_, true)) read_ = 0;
      const int found = parquet_.next(file_, &bytes, &size);
      if (found < 0) rows_.reject(parquet_.error(file_));
      if (found == 0) {
        next_group();
        continue;
      }
      rill::arrow::Batches batches({bytes, size_t(size)}, path_, rows_.wanted(), parquet_name, where());
      const int64_t n = batches.rows().value_or(0), from = std::max<int64_t>(0, row_ - read_);
      read_ += n;
      if (from >= n) continue;
      row_ = read_;
      out = detail::rows_of_block(rows_.block_of(batches.next(), n), from, n);
      return;
    }
  }
  void skip_some(int64_t n, int64_t& gone) override {
    while (n > 0 && group_ < parquet_.groups(file_)) {
      const int64_t all = parquet_.rows(file_, group_), some = std::min(n, all - row_);
      row_ += some, n -= some, gone += some;
      if (row_ == all) next_group();
    }
  }
  void next_group() { ++group_, row_ = 0, begun_ = false; }
  void save_place(StateWriter& w) const override { w.number(group_), w.number(row_); }
  void restore_place(StateReader& r) override {
    group_ = int(r.count(parquet_.groups(file_))), row_ = r.count();
    begun_ = false;
  }

  const Parquet& parquet_;
  detail::ArrowRows rows_;
  std::string path_;
  void* file_ = nullptr;
  int group_ = 0;
  bool begun_ = false;          // the group's batches are being read, read_ rows of them
  int64_t row_ = 0, read_ = 0;  // the next row of the group
};

}  // namespace

StagePtr detail::parquet_stage(const Paths& paths, const ArrowRowOptions& options, RowMaker maker, const Where& given) {
  const Where where = caller_or(given);
  return block_stage(
      "parquet",
      [files = paths.files(parquet_name, where), options, maker, where] {
        return std::make_unique<ParquetReader>(files, options, maker, where);
      },
      maker, where);
}

}  // namespace rill::data
