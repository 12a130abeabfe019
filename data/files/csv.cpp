// The reader of CSV files: it finds the fields of a row, and parses them into columns. Start at CsvReader::read_row.
// See csv.h.
#include "rill/data/files/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <thread>

#include "rill/data/files/blocks.h"
#include "rill/data/files/csv_rows.h"
#include "rill/devices/cpu/text/marks.h"
#include "rill/serialize/records/byte_stream.h"
#include "rill/serialize/utf8.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::data {
namespace {

using detail::Block;
using detail::CsvSchema;
using detail::CsvSlot;

constexpr const char* csv_name = "data::csv";
constexpr int64_t longest_row = int64_t(1) << 28;
constexpr int64_t longest_survey = int64_t(1) << 22;
constexpr size_t csv_piece = 1 << 18;  // that is asked of the file at once
// The window that is read ahead: so many bytes of rows at first, and at most, or for a batch that needs more; in
// pieces, which the threads take one after the other.
constexpr size_t first_window = 1 << 14, window_of_thread = 1 << 19, most_window = 1 << 24, most_piece = 1 << 18;
constexpr int64_t most_piece_rows = 1024;
constexpr int most_csv_threads = 8;
constexpr size_t fast_margin = 16;  // after a field that is parsed by the fast path

// Shared by all passes through a dataset. The first one finds the schema.
struct Shared {
  CsvRowOptions options;
  detail::RowMaker maker;
  ForkMutex mutex;
  std::shared_ptr<const CsvSchema> schema;
};

class CsvReader final : public detail::BlockReader {
 public:
  CsvReader(std::vector<std::string> files, std::shared_ptr<Shared> shared, const Where& where)
      : BlockReader(std::move(files), where),
        shared_(std::move(shared)),
        options_(shared_->options),
        fields_to_(options_) {
    classes_.fill(plain);
    classes_[0] = zero;
    classes_[uint8_t('\n')] = classes_[uint8_t('\r')] = line_end;
    classes_[uint8_t(options_.delimiter)] = delimiter;
    classes_[uint8_t(options_.quote)] = quote;
  }
  void use_threads(int most) override {
    threads_ = std::clamp(std::min(most, int(std::thread::hardware_concurrency())), 1, most_csv_threads);
  }
  bool has_ready() const override { return !ready_.empty(); }

 private:
  enum Class : uint8_t { plain, delimiter, line_end, quote, zero };  // zero: it may be the end of the bytes at hand
  enum Mode { fill, pass, survey };                                  // what to do with a row's fields
  enum class Found { row, end, wait };

  // --- Files ---
  void open(const std::string& path) override;
  void close() override {
    in_.reset();
    forget();
  }
  void begin();
  bool goes_on() const override { return !ended_; }
  void read_some(int64_t want, Block& out) override;
  void skip_some(int64_t n, int64_t& gone) override {
    for (; n > 0 && read_row<pass>(false) == Found::row; --n) ++gone;
  }
  void save_place(StateWriter& w) const override {
    w.number(ready_.empty() ? begin_ + int64_t(at_) : ready_.front().begin);
    w.number(ready_.empty() ? line_ : ready_.front().line);
  }
  void restore_place(StateReader& r) override {
    begin_ = r.count(), line_ = r.count();
    bytes_.clear(), at_ = hold_ = 0;
    forget();
    in_->seek(begin_, where());
    at_end_ = false, broken_ = nullptr;
  }
  std::vector<std::string> read_header();
  void find_schema(const std::vector<std::string>& names);

  // --- Rows ---
  template <Mode mode>
  Found read_row(bool may_wait);
  template <Mode mode>
  Found read_fields(const char*& p);
  const char* skip_field(const char* p, const char* end) const;
  Found read_quoted(const char*& p, const char* end, std::string_view& text);
  template <Mode mode>
  void take(size_t column, std::string_view text, bool quoted);
  bool refill();
  detail::CsvRows rows_from_here() const {
    detail::CsvRows rows;
    rows.begin = begin_ + int64_t(at_), rows.line = line_;
    return rows;
  }

  // --- Many rows at once ---
  void read_ahead(int64_t want);
  void fill_window();
  bool find_pieces(int64_t want);
  int64_t find_rows(int64_t want, size_t end, size_t& at, int64_t& line);
  void take_pieces();
  void forget() {
    ready_.clear();
    failed_ = nullptr;
    careful_ = false;
    window_ = first_window;
  }
  [[noreturn]] void reject(int64_t line, const std::string& what) const {
    fail(csv_name, fmt::format("'{}', line {}: {}", path_, line, what), where());
  }
  // At the end of a file in which the header was not found.
  void reject_no_header() const {
    if (options_.header)
      fail(csv_name, fmt::format("'{}' is empty: expected a header, the row with the columns' names", path_), where());
  }

  std::shared_ptr<Shared> shared_;
  const CsvRowOptions& options_;
  std::shared_ptr<const CsvSchema> schema_;
  std::array<Class, 256> classes_;
  detail::CsvFields fields_to_;
  int threads_ = 1;

  std::string path_;
  std::unique_ptr<ByteStream> in_;
  std::string bytes_;         // of the file, from byte begin_ of it on
  size_t at_ = 0, hold_ = 0;  // the next row; what before it is needed still
  bool holds_ = false, at_end_ = false, ended_ = false;
  int64_t begin_ = 0, line_ = 1;
  std::vector<int> slots_;  // of each column of this file
  size_t fields_ = 0;       // of a row; 0: not known yet

  detail::CsvRows now_;                // that are read row by row
  std::deque<detail::CsvRows> ready_;  // read ahead; the rows after them begin at at_
  std::vector<detail::CsvRows> blocks_;
  std::vector<detail::CsvPiece> pieces_;
  size_t window_ = first_window;  // the bytes that read_ahead() examines
  bool careful_ = false;          // the next row is not as it should be
  std::exception_ptr failed_;     // the error of reading on, after the bytes in memory
  std::exception_ptr broken_;     // the file's: thrown again where the rows before it are read again
  std::vector<csv::Column> found_;
  std::string unquoted_;  // a field without its quotes
  std::string wrong_;     // the error of the current row
  int64_t lines_ = 0;     // within it
};

// --- Files -----------------------------------------------------------------------------------------------------------

void CsvReader::open(const std::string& path) {
  if (path == "-") detail::begin_standard_input(csv_name, where());
  path_ = path;
  in_ = std::make_unique<ByteStream>(path, csv_name, where());
  if (const Packing p = packing_by_mark(in_->start()); p != Packing::none) in_->unpack(p, where());
  bytes_.clear();
  at_ = hold_ = 0, begin_ = 0, line_ = 1, fields_ = 0;
  slots_.clear();
  at_end_ = ended_ = holds_ = false;
  broken_ = nullptr;
  begin();
}

void CsvReader::begin() {
  while (bytes_.size() < 3 && refill()) {
  }
  if (bytes_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // the mark of UTF-8
  if (is_utf16(bytes_)) reject(1, is_utf16_text);
  for (int64_t n = options_.skip_lines; n > 0; --n, ++line_) {
    size_t end = 0;
    while ((end = bytes_.find('\n', at_)) == bytes_.npos) {
      at_ = bytes_.size();
      if (!refill()) return reject_no_header();
    }
    at_ = end + 1;
  }
  const std::vector<std::string> names = options_.header ? read_header() : std::vector<std::string>();
  if (options_.header && names.empty()) return reject_no_header();
  {
    const std::lock_guard lock(shared_->mutex);
    schema_ = shared_->schema;
  }
  if (!schema_) find_schema(names);
  if (!schema_) return;  // a file without rows has no types
  slots_ = detail::slots_of(*schema_, names, options_.header, path_, where());
  fields_to_.use(schema_, slots_);
  fields_ = slots_.size();
}

std::vector<std::string> CsvReader::read_header() {
  found_.clear();
  const int64_t line = line_;
  fields_ = 0;
  if (read_row<survey>(false) != Found::row) return {};
  std::vector<std::string> names;
  for (const csv::Column& c : found_) names.push_back(c.name);
  if (std::ranges::all_of(names, [](const std::string& n) { return n.empty(); }))
    reject(line, "a header without names");
  return names;
}

// From the first rows of the first file that has any, which are read again afterwards.
void CsvReader::find_schema(const std::vector<std::string>& names) {
  for (const std::string& file : files()) {  // a pass that is restored may begin with a later one
    if (file == path_) break;
    CsvReader(std::vector<std::string>{file}, shared_, where()).skip(1);
    const std::lock_guard lock(shared_->mutex);
    schema_ = shared_->schema;
    if (schema_) return;
  }
  found_.clear();
  fields_ = names.size();
  for (const std::string& name : names) found_.emplace_back().name = name;
  const bool needs_rows = !options_.header || detail::needs_survey(shared_->maker);
  int64_t rows = 0;
  const int64_t line = line_;
  std::exception_ptr wrong;
  hold_ = at_, holds_ = true;
  while (needs_rows && rows < options_.infer_rows && int64_t(at_ - hold_) < longest_survey) {
    const std::vector<csv::Column> before = found_;
    try {
      if (read_row<survey>(rows > 0) != Found::row) break;
      if (fields_ == 0) fields_ = found_.size();
      ++rows;
    } catch (const Error&) {  // thrown when the row is reached, unless no row is right
      if (!wrong) wrong = std::current_exception();
      found_ = before;
      if (ended_) break;
    }
  }
  at_ = hold_, holds_ = false, line_ = line, ended_ = false;
  if (needs_rows && rows == 0 && wrong) std::rethrow_exception(wrong);
  if (needs_rows && rows == 0) return;
  auto schema =
      std::make_shared<const CsvSchema>(detail::make_schema(found_, options_, shared_->maker, path_, where()));
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->schema) shared_->schema = schema;
  schema_ = shared_->schema;
}

// --- Bytes -----------------------------------------------------------------------------------------------------------

// Reads more of the file; pieces grow with a row, so that a long one is not scanned too often.
bool CsvReader::refill() {
  if (broken_) {
    ended_ = true;
    std::rethrow_exception(broken_);
  }
  if (at_end_) return false;
  if (failed_) {
    ended_ = true;
    std::rethrow_exception(std::exchange(failed_, nullptr));
  }
  const size_t from = holds_ ? hold_ : at_;
  bytes_.erase(0, from);
  begin_ += int64_t(from);
  at_ -= from, hold_ = 0;
  if (int64_t(bytes_.size() - at_) > longest_row) {
    ended_ = true;
    reject(line_, fmt::format("a row of more than {} bytes: are there quotes that do not end?", longest_row));
  }
  const size_t old = bytes_.size(), piece = std::max(in_->piece(csv_piece), old - at_);
  bytes_.resize(old + piece);
  size_t n = 0;
  try {
    n = in_->some(bytes_.data() + old, piece, where());
  } catch (...) {
    bytes_.resize(old);
    ended_ = true;
    broken_ = std::current_exception();
    throw;
  }
  bytes_.resize(old + n);
  at_end_ = n == 0;
  return n > 0;
}

// --- Rows ------------------------------------------------------------------------------------------------------------

// The next row that is not a comment and not empty. Throws its error, and is then positioned after it.
template <CsvReader::Mode mode>
CsvReader::Found CsvReader::read_row(bool may_wait) {
  for (;;) {
    const char* p = bytes_.data() + at_;
    const char* const end = bytes_.data() + bytes_.size();
    bool whole = p < end;
    if (whole && (*p == '\n' || *p == '\r')) {
      const bool pair = *p == '\r' && p + 1 < end && p[1] == '\n';
      if (*p == '\r' && p + 1 == end && !at_end_) whole = false;
      else {
        at_ += pair ? 2 : 1;
        ++line_;
        continue;
      }
    } else if (whole && options_.comment != '\0' && *p == options_.comment) {
      while (p < end && *p != '\n' && *p != '\r') ++p;
      whole = p < end || at_end_;
      if (whole) {
        at_ = size_t(p - bytes_.data());
        continue;
      }
    } else if (whole) {
      wrong_.clear(), lines_ = 0;
      const int64_t line = line_;
      if (read_fields<mode>(p) == Found::row) {
        at_ = size_t(p - bytes_.data());
        line_ += lines_;
        if (mode != pass && !wrong_.empty()) reject(line, wrong_);
        return Found::row;
      }
      whole = false;
    }
    if (at_end_) return Found::end;
    if (may_wait && in_->is_pipe()) return Found::wait;
    refill();
  }
}

// `p` moves from the row's first byte past its last. Found::wait if the bytes in memory do not contain all of it.
template <CsvReader::Mode mode>
CsvReader::Found CsvReader::read_fields(const char*& p) {
  const char* const end = bytes_.data() + bytes_.size();
  size_t column = 0;
  for (;; ++column) {
    std::string_view text;
    const bool quoted = classes_[uint8_t(*p)] == quote && p < end;
    if (quoted) {
      if (read_quoted(p, end, text) == Found::wait) return Found::wait;
    } else {
      const char* const from = p;
      p = skip_field(p, end);
      text = {from, size_t(p - from)};
      if (p < end && *p == options_.quote && wrong_.empty())
        wrong_ = fmt::format(
            "a quote within the field '{}': a field that has quotes begins and ends with one, and "
            "those within are doubled",
            detail::csv_shortened(text));
      while (p < end && classes_[uint8_t(*p)] != line_end && *p != options_.delimiter) ++p;
    }
    if (p == end && !at_end_) return Found::wait;
    take<mode>(column, text, quoted);
    if (p == end || *p != options_.delimiter) break;
    ++p;
  }
  if (p < end) {
    if (*p == '\r') {
      if (p + 1 == end && !at_end_) return Found::wait;
      p += p + 1 < end && p[1] == '\n' ? 2 : 1;
    } else {
      ++p;
    }
    ++lines_;
  }
  if (fields_ != 0 && column + 1 != fields_ && wrong_.empty())
    wrong_ = fmt::format("has {} field{}. expected {}, as in the {}", column + 1, column == 0 ? "" : "s", fields_,
                         options_.header ? "header" : "first row");
  return Found::row;
}

// Behind the field that begins at `p` and is not quoted.
const char* CsvReader::skip_field(const char* p, const char* end) const {
  for (;;) {
    while (classes_[uint8_t(*p)] == plain) ++p;
    if (classes_[uint8_t(*p)] != zero || p == end) return p;
    ++p;
  }
}

CsvReader::Found CsvReader::read_quoted(const char*& p, const char* end, std::string_view& text) {
  const char* from = ++p;
  bool copied = false;
  int64_t ends = 0;
  for (;;) {
    const auto* close = static_cast<const char*>(std::memchr(p, options_.quote, size_t(end - p)));
    if (!close) {
      if (!at_end_) return Found::wait;
      wrong_ = "quotes that do not end: the rest of the file is within them";
      ended_ = true;
      p = end;
      return Found::row;
    }
    if (close + 1 == end && !at_end_) return Found::wait;
    if (close + 1 < end && close[1] == options_.quote) {  // doubled: one of the text's
      if (!copied) unquoted_.clear();
      copied = true;
      unquoted_.append(from, close + 1);
      p = from = close + 2;
      continue;
    }
    if (copied) unquoted_.append(from, close);
    text = copied ? std::string_view(unquoted_) : std::string_view(from, size_t(close - from));
    p = close + 1;
    break;
  }
  for (const char c : text) ends += c == '\n';
  lines_ += ends;
  if (p < end && *p != options_.delimiter && classes_[uint8_t(*p)] != line_end) {
    if (wrong_.empty())
      wrong_ = fmt::format("something stands behind the quotes of the field '{}'", detail::csv_shortened(text));
    while (p < end && classes_[uint8_t(*p)] != line_end && *p != options_.delimiter) ++p;
  }
  return Found::row;
}

// --- Values ----------------------------------------------------------------------------------------------------------

template <CsvReader::Mode mode>
void CsvReader::take(size_t column, std::string_view text, bool quoted) {
  if constexpr (mode == fill) {
    if (column >= slots_.size() || slots_[column] < 0 || !wrong_.empty()) return;
    const auto k = size_t(slots_[column]);
    fields_to_.fill(k, now_.columns[k], now_.rows, text, quoted, &wrong_);
  } else if constexpr (mode == survey) {
    if (fields_ == 0 && column >= found_.size())
      found_.emplace_back().name = options_.header ? std::string(text) : std::to_string(column);
    if (column >= found_.size() || (fields_ == 0 && options_.header)) return;
    csv::Column& c = found_[column];
    if (!fields_to_.is_missing(text)) return c.see(text);
    const auto instead = options_.defaults.find(c.name);
    if (instead == options_.defaults.end()) c.gaps = true;
    else c.see(instead->second);
  }
}

void CsvReader::read_some(int64_t want, Block& out) {
  if (!schema_ || slots_.empty()) return;
  if (ready_.empty() && !std::exchange(careful_, false)) read_ahead(want);
  if (!ready_.empty()) {
    out = ready_.front().block(*schema_);
    ready_.pop_front();
    return;
  }
  now_ = rows_from_here();
  try {
    for (; now_.rows < want; ++now_.rows) {
      if (now_.rows == now_.room) now_.make_room(*schema_, std::min(want, std::max<int64_t>(16, 2 * now_.room)));
      if (read_row<fill>(now_.rows > 0) != Found::row) break;
    }
  } catch (...) {
    out = now_.block(*schema_);
    throw;
  }
  out = now_.block(*schema_);
}

// --- Many rows at once -----------------------------------------------------------------------------------------------

// Blocks of `want` rows, from the complete rows in memory. If comments may be between rows, quotes within them would
// hide the ends of rows.
void CsvReader::read_ahead(int64_t want) {
  if (options_.comment != '\0') return;
  fill_window();
  while (find_pieces(want) && window_ >= first_window && window_ < most_window) {
    window_ *= 2;
    fill_window();
  }
  if (pieces_.empty()) return;
  for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece)
    blocks_[piece->which].make_room(*schema_, piece->first + piece->rows);
  detail::read_pieces(fields_to_, bytes_.data(), pieces_, blocks_, threads_);
  window_ = std::max(window_, std::min(2 * window_, size_t(threads_) * window_of_thread));
  take_pieces();
}

// From a pipe no more than one row needs, for the next may take long to arrive.
void CsvReader::fill_window() {
  const auto is_enough = [&] {
    const size_t have = bytes_.size() - at_;
    return have >= window_ ||
           (in_->is_pipe() && cpu::scan_rows(bytes_.data() + at_, have, options_.quote, 1).rows == 1);
  };
  try {
    while (!failed_ && !is_enough() && refill()) {
    }
  } catch (...) {  // told behind the rows at hand
    failed_ = std::current_exception();
    ended_ = at_end_ = false;
  }
}

// The last block may have fewer rows than `want` if no more can follow, or if it is the only one; returns whether more
// of the file would fill it.
bool CsvReader::find_pieces(int64_t want) {
  pieces_.clear(), blocks_.clear();
  const size_t end = at_ + std::min(window_, bytes_.size() - at_);
  const bool is_last = end == bytes_.size() && (at_end_ || failed_ || in_->is_pipe());
  size_t at = at_;
  int64_t line = line_;
  for (;;) {
    const size_t pieces = pieces_.size();
    detail::CsvRows block;
    block.begin = begin_ + int64_t(at), block.line = line;
    const int64_t rows = find_rows(want, end, at, line);
    if (rows == want || (rows > 0 && (is_last || blocks_.empty()))) blocks_.push_back(std::move(block));
    else pieces_.resize(pieces);
    if (rows < want) return !is_last && pieces == 0;
  }
}

int64_t CsvReader::find_rows(int64_t want, size_t end, size_t& at, int64_t& line) {
  int64_t rows = 0;
  while (rows < want) {
    const cpu::RowScan found = cpu::scan_rows(bytes_.data() + at, std::min(end - at, most_piece), options_.quote,
                                              std::min(want - rows, most_piece_rows));
    if (found.rows == 0) break;
    pieces_.push_back({.which = blocks_.size(),
                       .first = rows,
                       .rows = found.rows,
                       .from = at,
                       .to = at + found.bytes,
                       .quick = std::clamp(bytes_.size() - std::min(bytes_.size(), fast_margin), at, at + found.bytes),
                       .line = line,
                       .lines = found.lines});
    at += found.bytes, line += found.lines, rows += found.rows;
  }
  return rows;
}

// The first malformed row ends the block: it is read by itself, to report the error. There may be more, so less is read
// ahead then.
void CsvReader::take_pieces() {
  for (const detail::CsvPiece& piece : pieces_) {
    blocks_[piece.which].rows = piece.first + piece.done;
    at_ = piece.to, line_ = piece.line + piece.lines;
    if (piece.done == piece.rows) continue;
    const cpu::RowScan good =
        cpu::scan_rows(bytes_.data() + piece.from, piece.to - piece.from, options_.quote, piece.done);
    at_ = piece.from + good.bytes, line_ = piece.line + good.lines;
    careful_ = true;
    window_ = first_window / 4;
    break;
  }
  for (detail::CsvRows& block : blocks_)
    if (block.rows > 0) ready_.push_back(std::move(block));
  blocks_.clear();
}

}  // namespace

StagePtr detail::csv_stage(const Paths& paths, const CsvRowOptions& options, RowMaker maker, const Where& given) {
  const Where where = caller_or(given);
  check_csv_options(options, where);
  auto shared = std::make_shared<Shared>();
  shared->options = options, shared->maker = maker;
  return block_stage(
      "csv",
      [files = paths.files(csv_name, where), shared, where] {
        return std::make_unique<CsvReader>(files, shared, where);
      },
      std::move(maker), where);
}

}  // namespace rill::data
