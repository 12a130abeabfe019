// The reader of CSV files: it finds the fields of a row, and puts what they say into columns. Start at
// CsvReader::read_row. See csv.h.
#include "rill/data/files/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "rill/data/files/blocks.h"
#include "rill/data/files/csv_schema.h"
#include "rill/devices/registry.h"
#include "rill/serialize/records/byte_stream.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::data {
namespace {

using detail::Block;
using detail::CsvSchema;
using detail::CsvSlot;

constexpr const char* csv_name = "data::csv";
constexpr int64_t longest_row = int64_t(1) << 28;
constexpr int64_t longest_survey = int64_t(1) << 22;
constexpr size_t csv_piece = 1 << 18;

// What all passes through a dataset share. The first that is begun finds the schema.
struct Shared {
  CsvRowOptions options;
  detail::RowMaker maker;
  ForkMutex mutex;
  std::shared_ptr<const CsvSchema> schema;
};

// The values of a column, as they come.
struct Values {
  std::string bytes;
  std::vector<std::string> texts;
  std::vector<uint8_t> valid;
  bool gaps = false;
};

class CsvReader final : public detail::BlockReader {
 public:
  CsvReader(std::vector<std::string> files, std::shared_ptr<Shared> shared, const Where& where)
      : BlockReader(std::move(files), where), shared_(std::move(shared)), options_(shared_->options) {
    classes_.fill(plain);
    classes_[0] = zero;
    classes_[uint8_t('\n')] = classes_[uint8_t('\r')] = line_end;
    classes_[uint8_t(options_.delimiter)] = delimiter;
    classes_[uint8_t(options_.quote)] = quote;
    for (const std::string& word : options_.missing) starts_missing_[word.empty() ? 0 : uint8_t(word[0])] = true;
  }

 private:
  enum Class : uint8_t { plain, delimiter, line_end, quote, zero };  // zero: it may be the end of the bytes at hand
  enum Mode { fill, pass, survey };                                  // what is done with a row's fields
  enum class Found { row, end, wait };

  // --- Files ---
  void open(const std::string& path) override;
  void close() override { in_.reset(); }
  void begin();
  bool goes_on() const override { return !ended_; }
  void read_some(int64_t want, Block& out) override;
  void skip_some(int64_t n, int64_t& gone) override {
    for (; n > 0 && read_row<pass>(false) == Found::row; --n) ++gone;
  }
  void save_place(StateWriter& w) const override { w.number(begin_ + int64_t(at_)), w.number(line_); }
  void restore_place(StateReader& r) override {
    begin_ = r.count(), line_ = r.count();
    bytes_.clear(), at_ = hold_ = 0;
    in_->seek(begin_, where());
    at_end_ = false;
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
  void fill_slot(const CsvSlot& slot, Values& v, std::string_view text, bool quoted);
  void fill_missing(const CsvSlot& slot, Values& v, std::string_view text);
  bool is_missing(std::string_view text) const {
    return starts_missing_[text.empty() ? 0 : uint8_t(text[0])] &&
           std::ranges::find(options_.missing, text) != options_.missing.end();
  }
  bool refill();
  void resume_behind_line(const char* p);
  void make_room();
  void give(Block& out);
  [[noreturn]] void reject(int64_t line, const std::string& what) const {
    fail(csv_name, fmt::format("'{}', line {}: {}", path_, line, what), where());
  }

  std::shared_ptr<Shared> shared_;
  const CsvRowOptions& options_;
  std::shared_ptr<const CsvSchema> schema_;
  std::array<Class, 256> classes_;
  std::array<bool, 256> starts_missing_ = {};

  std::string path_;
  std::unique_ptr<ByteStream> in_;
  std::string bytes_;         // of the file, from byte begin_ of it on
  size_t at_ = 0, hold_ = 0;  // the next row; what before it is needed still
  bool holds_ = false, at_end_ = false, ended_ = false;
  int64_t begin_ = 0, line_ = 1;
  std::vector<int> slots_;  // of each column of this file
  size_t fields_ = 0;       // of a row; 0: not known yet

  std::vector<Values> values_;  // of the rows that are being read
  int64_t rows_ = 0, room_ = 0;
  std::vector<csv::Column> found_;
  std::string unquoted_;  // a field without its quotes
  std::string wrong_;     // what is, of the row at hand
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
  begin();
}

void CsvReader::begin() {
  while (bytes_.size() < 3 && refill()) {
  }
  if (bytes_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // the mark of UTF-8
  for (int64_t n = options_.skip_lines; n > 0; --n, ++line_) {
    size_t end = 0;
    while ((end = bytes_.find('\n', at_)) == bytes_.npos) {
      at_ = bytes_.size();
      if (!refill()) return;
    }
    at_ = end + 1;
  }
  const std::vector<std::string> names = options_.header ? read_header() : std::vector<std::string>();
  if (options_.header && names.empty()) {
    return;
  }
  {
    const std::lock_guard lock(shared_->mutex);
    schema_ = shared_->schema;
  }
  if (!schema_) find_schema(names);
  if (!schema_) return;  // a file without rows says nothing
  slots_ = detail::slots_of(*schema_, names, options_.header, path_, where());
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
  hold_ = at_, holds_ = true;
  while (needs_rows && rows < options_.infer_rows && int64_t(at_ - hold_) < longest_survey) {
    const std::vector<csv::Column> before = found_;
    try {
      if (read_row<survey>(rows > 0) != Found::row) break;
      if (fields_ == 0) fields_ = found_.size();
      ++rows;
    } catch (const Error&) {  // told when its turn comes
      found_ = before;
      if (ended_) break;
    }
  }
  at_ = hold_, holds_ = false, line_ = line, ended_ = false;
  if (needs_rows && rows == 0) return;
  auto schema =
      std::make_shared<const CsvSchema>(detail::make_schema(found_, options_, shared_->maker, path_, where()));
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->schema) shared_->schema = schema;
  schema_ = shared_->schema;
}

// --- Bytes -----------------------------------------------------------------------------------------------------------

// More of the file behind what is there; pieces grow with a row, so that a long one is not looked through too often.
bool CsvReader::refill() {
  if (at_end_) return false;
  const size_t from = holds_ ? hold_ : at_;
  bytes_.erase(0, from);
  begin_ += int64_t(from);
  at_ -= from, hold_ = 0;
  if (int64_t(bytes_.size() - at_) > longest_row) {
    ended_ = true;
    reject(line_, fmt::format("a row of more than {} bytes: are there quotes that do not end?", longest_row));
  }
  const size_t old = bytes_.size(), piece = std::max(csv_piece, old - at_);
  bytes_.resize(old + piece);
  size_t n = 0;
  try {
    n = in_->some(bytes_.data() + old, piece, where());
  } catch (...) {
    bytes_.resize(old);
    ended_ = true;
    throw;
  }
  bytes_.resize(old + n);
  at_end_ = n == 0;
  if (at_end_ && in_->is_cut()) {
    ended_ = true;
    in_->reject("the packed bytes end before their stream does. the file is not complete", where());
  }
  return n > 0;
}

// --- Rows ------------------------------------------------------------------------------------------------------------

// The next row that is no comment and not empty. Throws what is wrong with it, and stands behind it then.
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

// `p` moves from the row's first byte behind its last. Found::wait where the bytes at hand do not have all of it.
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
    fill_slot(schema_->slots[k], values_[k], text, quoted);
  } else if constexpr (mode == survey) {
    if (fields_ == 0 && column >= found_.size())
      found_.emplace_back().name = options_.header ? std::string(text) : std::to_string(column);
    if (column >= found_.size() || (fields_ == 0 && options_.header)) return;
    csv::Column& c = found_[column];
    if (!is_missing(text)) return c.see(text);
    const auto instead = options_.defaults.find(c.name);
    if (instead == options_.defaults.end()) c.gaps = true;
    else c.see(instead->second);
  }
}

void CsvReader::fill_slot(const CsvSlot& slot, Values& v, std::string_view text, bool quoted) {
  const auto row = size_t(rows_);
  if (slot.optional) v.valid[row] = 1;
  if (slot.dtype == DType::string) {
    if (text.empty() && !quoted && (slot.optional || slot.has_default)) return fill_missing(slot, v, text);
    v.texts[row].assign(text);
    return;
  }
  if (is_missing(text)) return fill_missing(slot, v, text);
  if (detail::parse_csv_value(text, slot.dtype, v.bytes.data() + row * size_of(slot.dtype))) return;
  wrong_ =
      fmt::format("'{}' in the column '{}' is no {}", detail::csv_shortened(text), slot.name, rill::name(slot.dtype));
  if (slot.inferred)
    wrong_ += fmt::format(
        ", which the first rows are. CsvRowOptions::dtypes says what it is: {{\"{}\", f64}}, or string", slot.name);
}

void CsvReader::fill_missing(const CsvSlot& slot, Values& v, std::string_view text) {
  const auto row = size_t(rows_);
  if (slot.dtype == DType::string) v.texts[row] = slot.default_text;
  char* const to = v.bytes.data() + row * size_of(slot.dtype);
  if (slot.has_default) return void(slot.default_bytes.copy(to, slot.default_bytes.size()));
  if (slot.optional) {
    v.valid[row] = 0;
    v.gaps = true;
    return;
  }
  if (detail::missing_csv_value(slot.dtype, to)) return;
  wrong_ = fmt::format(
      "'{}' in the column '{}' stands for no value, and a {} has none. CsvRowOptions::defaults says what to take: "
      "{{\"{}\", \"0\"}}; a field that is a std::optional takes it as it is",
      detail::csv_shortened(text), slot.name, rill::name(slot.dtype), slot.name);
}

void CsvReader::make_room() {
  if (rows_ < room_) return;
  room_ = std::max<int64_t>(16, 2 * room_);
  for (size_t k = 0; k < values_.size(); ++k) {
    const CsvSlot& slot = schema_->slots[k];
    Values& v = values_[k];
    if (slot.dtype == DType::string) v.texts.resize(size_t(room_));
    else v.bytes.resize(size_t(room_) * size_of(slot.dtype));
    if (slot.optional) v.valid.resize(size_t(room_), 1);
  }
}

void CsvReader::read_some(int64_t want, Block& out) {
  if (!schema_ || slots_.empty()) return;
  values_.assign(schema_->slots.size(), {});
  rows_ = room_ = 0;
  try {
    for (; rows_ < want; ++rows_) {
      make_room();
      if (read_row<fill>(rows_ > 0) != Found::row) break;
    }
  } catch (...) {
    give(out);
    throw;
  }
  give(out);
}

void CsvReader::give(Block& out) {
  out.rows = rows_;
  if (rows_ == 0) return;
  out.names = schema_->names;
  for (size_t k = 0; k < values_.size(); ++k) {
    Values& v = values_[k];
    const DType d = schema_->slots[k].dtype;
    if (d == DType::string) {
      v.texts.resize(size_t(rows_));
      out.columns.push_back(detail::string_column(std::move(v.texts)));
    } else {
      Tensor t = empty_tensor(Spec{Shape{rows_}, d, false, Device()});
      std::memcpy(t.mutable_rep()->data, v.bytes.data(), size_t(rows_) * size_of(d));
      out.columns.push_back(std::move(t));
    }
    if (v.gaps) v.valid.resize(size_t(rows_));
    else v.valid.clear();
    out.valid.push_back(std::move(v.valid));
  }
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
