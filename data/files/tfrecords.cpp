// TFRecord files; see text.h.
#include <filesystem>

#include "rill/data/files/blocks.h"
#include "rill/data/files/text.h"
#include "rill/serialize/records.h"

namespace rill::data {
namespace {

constexpr const char* records_name = "data::tfrecords";

class RecordFiles final : public detail::BlockReader {
 public:
  using BlockReader::BlockReader;

 private:
  void open(const std::string& path) override {
    const CallerScope caller(where(), records_name);
    if (path == "-") detail::begin_standard_input(records_name, where());
    std::error_code unknown;
    waits_ = !std::filesystem::is_regular_file(path, unknown);
    in_ = std::make_unique<RecordReader>(path, RecordReaderOptions(), where());
  }
  void close() override { in_.reset(); }
  void read_some(int64_t want, detail::Block& out) override {
    const CallerScope caller(where(), records_name);
    constexpr int64_t max_ahead_bytes = 1 << 22;  // in memory at once, of records that have not been returned
    std::vector<std::string> records;
    int64_t bytes = 0;
    std::exception_ptr error;
    if (waits_) want = 1;  // those that are there are not held up by one that is not
    while (int64_t(records.size()) < want && bytes < max_ahead_bytes) {
      std::string record;
      try {
        if (!in_->next(record, where())) break;
      } catch (...) {
        error = std::current_exception();
        break;
      }
      bytes += int64_t(record.size());
      records.push_back(std::move(record));
    }
    out.rows = int64_t(records.size());
    out.columns = {detail::string_column(std::move(records))};
    out.valid.resize(1);
    if (error) std::rethrow_exception(error);
  }
  void skip_some(int64_t n, int64_t& gone) override {
    const CallerScope caller(where(), records_name);
    for (; n > 0 && in_->skip(where()); --n) ++gone;
  }
  void save_place(StateWriter& w) const override {
    const RecordPlace place = in_->place();
    w.number(place.number), w.number(place.offset);
  }
  void restore_place(StateReader& r) override {
    RecordPlace place;
    place.number = r.count(), place.offset = r.count();
    in_->go_to(place, where());
  }

  std::unique_ptr<RecordReader> in_;
  bool waits_ = false;
};

}  // namespace

Dataset<Tensor> tfrecords(const Paths& paths, Where where) {
  const Where at = caller_or(where);
  return Dataset<Tensor>(detail::block_stage(
      "tfrecords", [files = paths.files(records_name, at), at] { return std::make_unique<RecordFiles>(files, at); },
      detail::row_maker<Tensor>(), at));
}

}  // namespace rill::data
