// Arrow files, a record batch at a time; see arrow.h.
#include "rill/data/files/arrow.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/data/files/arrow_rows.h"
#include "rill/serialize/arrow/batches.h"

namespace rill::data {
namespace {

constexpr const char* arrow_name = "data::arrow";

// The position is a batch, and a row in it.
class ArrowReader final : public detail::BlockReader {
 public:
  ArrowReader(std::vector<std::string> files, const ArrowRowOptions& options, const detail::RowMaker& maker,
              const Where& where)
      : BlockReader(std::move(files), where), rows_(arrow_name, options, maker, where) {}

 private:
  void open(const std::string& path) override {
    if (path == "-") detail::begin_standard_input(arrow_name, where());
    rows_.set_path(path);
    in_ = std::make_unique<rill::arrow::Batches>(path, rows_.wanted(), arrow_name, where());
    batch_ = row_ = 0;
  }
  void close() override { in_.reset(); }
  void read_some(int64_t, detail::Block& out) override {
    for (;;) {
      const std::optional<int64_t> rows = in_->rows();
      if (!rows) return;
      const int64_t from = std::exchange(row_, 0);
      ++batch_;
      if (from >= *rows) {
        in_->pass();
        continue;
      }
      const detail::Block all = rows_.block_of(in_->next(), *rows);
      out = detail::rows_of_block(all, from, all.rows);
      return;
    }
  }
  void skip_some(int64_t n, int64_t& gone) override {
    while (n > 0) {
      const std::optional<int64_t> rows = in_->rows();
      if (!rows) return;
      const int64_t some = std::min(n, *rows - row_);
      gone += some, n -= some, row_ += some;
      if (row_ == *rows) in_->pass(), ++batch_, row_ = 0;
    }
  }
  void save_place(StateWriter& w) const override { w.number(batch_), w.number(row_); }
  void restore_place(StateReader& r) override {
    const int64_t batch = r.count(), row = r.count();
    for (; batch_ < batch && in_->rows(); ++batch_) in_->pass();
    row_ = row;
  }

  detail::ArrowRows rows_;
  std::unique_ptr<rill::arrow::Batches> in_;
  int64_t batch_ = 0, row_ = 0;  // the next
};

}  // namespace

namespace detail {

ArrowRows::ArrowRows(const char* op, const ArrowRowOptions& options, const RowMaker& maker, const Where& where)
    : op_(op), maker_(maker), where_(where) {
  wanted_.columns = options.columns;
  wanted_.skip_others = options.skip_others;
  wanted_.masks = options.masks || !maker.all;
  if (!maker.all && wanted_.columns.empty() && !maker.fields[0].name.empty())
    for (const FieldType& f : maker.fields) wanted_.columns.push_back(f.name);
}

Block ArrowRows::block_of(rill::arrow::Columns columns, int64_t rows) const {
  const Table& table = columns.table;
  Block b;
  std::vector<std::string> names;
  for (size_t i = 0; i < table.names.size(); ++i) {
    std::vector<uint8_t> valid;
    const bool has_mask = !maker_.all && i + 1 < table.names.size() && table.names[i + 1] == table.names[i] + ".valid";
    b.columns.push_back(table.columns[i].to(Device()));
    names.push_back(table.names[i]);
    b.splits.push_back(columns.splits[i]);
    if (has_mask) {
      const Tensor mask = table.columns[++i].to(Device());
      const auto* bits = reinterpret_cast<const uint8_t*>(mask.rep()->data);
      valid.assign(bits, bits + mask.size());
    }
    b.valid.push_back(std::move(valid));
  }
  b.rows = rows;
  if (!maker_.all) check_fields(b, names);
  b.names = std::make_shared<const std::vector<std::string>>(std::move(names));
  return b;
}
void ArrowRows::check_fields(const Block& b, const std::vector<std::string>& names) const {
  if (b.columns.size() != maker_.fields.size())
    reject(fmt::format("{} columns for a row of {} fields. {{.columns}} names those of the fields", b.columns.size(),
                       maker_.fields.size()));
  for (size_t k = 0; k < b.columns.size(); ++k) {
    const FieldType& f = maker_.fields[k];
    const Tensor& c = b.columns[k];
    if (f.dtype && b.has_lists(k))
      reject(fmt::format("the column '{}' has lists of {}, and the field that takes its rows is {}: make it a Tensor",
                         names[k], rill::name(c.dtype()), rill::name(*f.dtype)));
    if (f.dtype && (*f.dtype != c.dtype() || c.ndim() != 1))
      reject(
          fmt::format("the column '{}' is {}, and the field that takes its rows is {}: make it a Tensor, or of "
                      "their type",
                      names[k], to_string(c.spec()), rill::name(*f.dtype)));
    if (f.optional || b.valid[k].empty() || is_floating(c.dtype())) continue;
    const auto gap = std::ranges::find(b.valid[k], 0);
    if (gap != b.valid[k].end())
      reject(
          fmt::format("the column '{}' has no value in row {} of a batch. a field that is a std::optional takes "
                      "it as it is",
                      names[k], gap - b.valid[k].begin()));
  }
}

void ArrowRows::reject(const std::string& what) const { fail(op_, fmt::format("'{}': {}", path_, what), where_); }

}  // namespace detail

StagePtr detail::arrow_stage(const Paths& paths, const ArrowRowOptions& options, RowMaker maker, const Where& given) {
  const Where where = caller_or(given);
  return block_stage(
      "arrow",
      [files = paths.files(arrow_name, where), options, maker, where] {
        return std::make_unique<ArrowReader>(files, options, maker, where);
      },
      maker, where);
}

}  // namespace rill::data
