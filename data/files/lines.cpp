// Lines of text; see text.h.
#include <fmt/format.h>

#include <cstring>

#include "rill/data/files/blocks.h"
#include "rill/data/files/text.h"
#include "rill/serialize/records/byte_stream.h"

namespace rill::data {
namespace {

constexpr int64_t longest_line = int64_t(1) << 30;
constexpr size_t line_piece = 1 << 18;

class LineReader final : public detail::BlockReader {
 public:
  using BlockReader::BlockReader;

 private:
  void open(const std::string& path) override {
    if (path == "-") detail::begin_standard_input("data::text_lines", where());
    in_ = std::make_unique<ByteStream>(path, "data::text_lines", where());
    if (const Packing p = packing_by_mark(in_->start()); p != Packing::none) in_->unpack(p, where());
    bytes_.clear(), at_ = 0, begin_ = 0;
  }
  void close() override { in_.reset(); }
  // If a pipe has no more lines for the moment, those that were read are returned.
  void read_some(int64_t want, detail::Block& out) override {
    std::vector<std::string> lines;
    const auto give = [&] {
      out.rows = int64_t(lines.size());
      out.columns = {detail::string_column(std::move(lines))};
      out.valid.resize(1);
    };
    std::string_view line;
    try {
      while (int64_t(lines.size()) < want && (lines.empty() || has_line()) && next(line)) lines.emplace_back(line);
    } catch (...) {
      give();
      throw;
    }
    give();
  }
  void skip_some(int64_t n, int64_t& gone) override {
    for (std::string_view line; n > 0 && next(line); --n) ++gone;
  }
  void save_place(StateWriter& w) const override { w.number(begin_ + int64_t(at_)); }
  void restore_place(StateReader& r) override {
    begin_ = r.count();
    bytes_.clear(), at_ = 0;
    in_->seek(begin_, where());
  }

  bool has_line() const { return std::memchr(bytes_.data() + at_, '\n', bytes_.size() - at_) != nullptr; }
  bool next(std::string_view& line) {
    size_t looked = 0;
    for (;;) {
      const char* from = bytes_.data() + at_;
      const auto* end = static_cast<const char*>(std::memchr(from + looked, '\n', bytes_.size() - at_ - looked));
      if (end) {
        line = {from, size_t(end - from)};
        at_ += line.size() + 1;
        break;
      }
      looked = bytes_.size() - at_;
      if (int64_t(looked) > longest_line)
        in_->reject(
            fmt::format("a line that began at byte {} has more than {} bytes", begin_ + int64_t(at_), longest_line),
            where());
      if (refill()) continue;
      if (looked == 0) return false;
      line = {bytes_.data() + at_, looked};
      at_ = bytes_.size();
      break;
    }
    if (line.ends_with('\r')) line.remove_suffix(1);
    return true;
  }
  bool refill() {
    bytes_.erase(0, at_);
    begin_ += int64_t(std::exchange(at_, 0));
    const size_t old = bytes_.size(), piece = in_->piece(line_piece);
    bytes_.resize(old + piece);
    size_t n = 0;
    try {
      n = in_->some(bytes_.data() + old, piece, where());
    } catch (...) {
      bytes_.resize(old);
      throw;
    }
    bytes_.resize(old + n);
    return n > 0;
  }

  std::unique_ptr<ByteStream> in_;
  std::string bytes_;  // of the file, from byte begin_ of it on; those before at_ were given
  size_t at_ = 0;
  int64_t begin_ = 0;
};

}  // namespace

Dataset<Tensor> text_lines(const Paths& paths, Where where) {
  const Where at = caller_or(where);
  return Dataset<Tensor>(detail::block_stage(
      "text_lines",
      [files = paths.files("data::text_lines", at), at] { return std::make_unique<LineReader>(files, at); },
      detail::row_maker<Tensor>(), at));
}

}  // namespace rill::data
