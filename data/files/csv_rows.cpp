// See csv_rows.h.
#include "rill/data/files/csv_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "rill/data/engine/pool.h"
#include "rill/data/files/csv_numbers.h"
#include "rill/devices/cpu/text/marks.h"
#include "rill/devices/registry.h"
#include "rill/tensor/per_thread.h"

namespace rill::data::detail {

// --- Columns ---------------------------------------------------------------------------------------------------------

namespace {

constexpr size_t least_for_threads = size_t(1) << 17;  // bytes that are worth waking another for

std::string* texts_of(const CsvValues& v) { return reinterpret_cast<std::string*>(v.data); }

// The first `keep` rows in a tensor of its own, of `room` rows.
Tensor in_room(const Tensor& from, DType dtype, int64_t keep, int64_t room) {
  Tensor to = empty_tensor(Spec{Shape{room}, dtype, false, Device()});
  if (keep == 0) return to;
  char *const a = from.rep()->data, *const b = to.mutable_rep()->data;
  if (dtype == DType::string)
    std::move(reinterpret_cast<std::string*>(a), reinterpret_cast<std::string*>(a) + keep,
              reinterpret_cast<std::string*>(b));
  else std::memcpy(b, a, size_t(keep) * size_of(dtype));
  return to;
}

}  // namespace

void CsvRows::make_room(const CsvSchema& schema, int64_t want) {
  if (want <= room) return;
  room = want;
  columns.resize(schema.slots.size());
  for (size_t k = 0; k < columns.size(); ++k) {
    columns[k].values = in_room(columns[k].values, schema.slots[k].dtype, rows, room);
    columns[k].data = columns[k].values.mutable_rep()->data;
    if (schema.slots[k].optional) columns[k].valid.resize(size_t(room), 1);
  }
}

Block CsvRows::block(const CsvSchema& schema) {
  Block out;
  out.rows = rows;
  if (rows == 0) return out;
  out.names = schema.names;
  for (size_t k = 0; k < columns.size(); ++k) {
    CsvValues& v = columns[k];
    out.columns.push_back(rows == room ? std::move(v.values) : in_room(v.values, schema.slots[k].dtype, rows, rows));
    v.valid.resize(std::min(v.valid.size(), size_t(rows)));
    if (std::ranges::find(v.valid, 0) == v.valid.end()) v.valid.clear();
    out.valid.push_back(std::move(v.valid));
  }
  return out;
}

// --- Fields ----------------------------------------------------------------------------------------------------------

CsvFields::CsvFields(const CsvRowOptions& options) : options_(options) {
  for (const std::string& word : options_.missing) starts_missing_[word.empty() ? 0 : uint8_t(word[0])] = true;
}

void CsvFields::use(std::shared_ptr<const CsvSchema> schema, std::vector<int> slots) {
  schema_ = std::move(schema);
  slots_ = std::move(slots);
}

bool CsvFields::is_missing(std::string_view text) const {
  return starts_missing_[text.empty() ? 0 : uint8_t(text[0])] &&
         std::ranges::find(options_.missing, text) != options_.missing.end();
}

bool CsvFields::fill(size_t k, CsvValues& v, int64_t row, std::string_view text, bool quoted,
                     std::string* wrong) const {
  const CsvSlot& slot = schema_->slots[k];
  if (slot.optional) v.valid[size_t(row)] = 1;
  if (slot.dtype == DType::string) {
    if (text.empty() && !quoted && (slot.optional || slot.has_default)) return fill_missing(slot, v, row, text, wrong);
    texts_of(v)[row].assign(text);
    return true;
  }
  if (is_missing(text)) return fill_missing(slot, v, row, text, wrong);
  if (parse_csv_value(text, slot.dtype, v.data + size_t(row) * size_of(slot.dtype))) return true;
  if (!wrong) return false;
  *wrong = fmt::format("'{}' in the column '{}' is no {}", csv_shortened(text), slot.name, rill::name(slot.dtype));
  if (slot.inferred)
    *wrong += fmt::format(
        ", which the first rows are. CsvRowOptions::dtypes says what it is: {{\"{}\", f64}}, or string", slot.name);
  return false;
}

bool CsvFields::fill_missing(const CsvSlot& slot, CsvValues& v, int64_t row, std::string_view text,
                             std::string* wrong) const {
  if (slot.dtype == DType::string) texts_of(v)[row] = slot.default_text;
  char* const to = v.data + size_t(row) * size_of(slot.dtype);
  if (slot.has_default) return slot.default_bytes.copy(to, slot.default_bytes.size()), true;
  if (slot.optional) {
    v.valid[size_t(row)] = 0;
    return true;
  }
  if (missing_csv_value(slot.dtype, to)) return true;
  if (wrong)
    *wrong = fmt::format(
        "'{}' in the column '{}' stands for no value, and a {} has none. CsvRowOptions::defaults says what to take: "
        "{{\"{}\", \"0\"}}; a field that is a std::optional takes it as it is",
        csv_shortened(text), slot.name, rill::name(slot.dtype), slot.name);
  return false;
}

// --- Rows ------------------------------------------------------------------------------------------------------------

namespace {

bool is_line_end(char c) { return c == '\n' || c == '\r'; }

// The fast path for most fields, without checks for special values.
bool fill_number(DType dtype, const char* from, size_t n, char* data, int64_t row) {
  switch (dtype) {
    case DType::i64: return csv::quick_integer(from, n, reinterpret_cast<int64_t*>(data)[row]);
    case DType::i32: return csv::quick_integer(from, n, reinterpret_cast<int32_t*>(data)[row]);
    case DType::f64: return csv::quick_real(from, n, reinterpret_cast<double*>(data)[row]);
    case DType::f32: return csv::quick_real(from, n, reinterpret_cast<float*>(data)[row]);
    default: return false;
  }
}

// The quoted field whose first quote is at `mark`, which moves past its last one; null if there is no such field.
const char* quoted_field(const char* text, const char* p, const uint32_t*& mark, const uint32_t* marks_end, char quote,
                         std::string& unquoted, std::string_view& field) {
  const char* from = p + 1;
  ++mark;
  unquoted.clear();
  for (bool copied = false;;) {
    if (mark == marks_end) return nullptr;
    const char* const close = text + *mark++;
    if (mark == marks_end) return nullptr;
    if (text + *mark != close + 1) return nullptr;
    if (close[1] == quote) {  // doubled: one of the text's
      unquoted.append(from, close + 1);
      copied = true;
      from = close + 2;
      ++mark;
      continue;
    }
    if (copied) unquoted.append(from, close);
    field = copied ? std::string_view(unquoted) : std::string_view(from, size_t(close - from));
    return close + 1;
  }
}

}  // namespace

// Parses the row at p and returns the beginning of the next; null if it is malformed. The fast path for a field needs
// 16 readable bytes after it.
const char* CsvFields::read_row(const char* text, const char* p, const uint32_t*& mark, const uint32_t* marks_end,
                                CsvPiece& piece, CsvRows& to) const {
  thread_local constinit PerThread<std::string> text_of_thread;
  std::string& unquoted = *text_of_thread;
  const int64_t row = piece.first + piece.done;
  const char* const quick_end = text + (piece.quick - piece.from);
  const size_t columns = slots_.size();
  for (size_t column = 0; column < columns; ++column) {
    if (mark == marks_end) return nullptr;
    const bool quoted = *p == options_.quote;
    const char* end = text + *mark;
    std::string_view field(p, size_t(end - p));
    if (quoted) {
      end = quoted_field(text, p, mark, marks_end, options_.quote, unquoted, field);
      if (!end) return nullptr;
    }
    ++mark;
    if (column + 1 < columns ? *end != options_.delimiter : !is_line_end(*end)) return nullptr;
    p = end + 1;
    if (slots_[column] < 0) continue;
    const auto k = size_t(slots_[column]);
    const CsvSlot& slot = schema_->slots[k];
    CsvValues& v = to.columns[k];
    const bool quick = !quoted && !field.empty() && end <= quick_end && !starts_missing_[uint8_t(field[0])];
    if (quick && fill_number(slot.dtype, field.data(), field.size(), v.data, row)) {
      if (slot.optional) v.valid[size_t(row)] = 1;
      continue;
    }
    if (!fill(k, v, row, field, quoted, nullptr)) return nullptr;
  }
  return p;
}

void CsvFields::read_rows(const char* bytes, CsvPiece& piece, CsvRows& to) const {
  thread_local constinit PerThread<std::vector<uint32_t>> marks_of_thread;
  std::vector<uint32_t>& marks = *marks_of_thread;
  const size_t n = piece.to - piece.from;
  marks.resize(std::max(marks.size(), n + cpu::mark_room));
  const char *const text = bytes + piece.from, *p = text;
  const uint32_t* mark = marks.data();
  const uint32_t* const end = mark + cpu::find_marks(text, n, options_.delimiter, options_.quote, marks.data());
  for (; piece.done < piece.rows; ++piece.done) {
    for (; mark < end && p == text + *mark && is_line_end(*p); ++mark) ++p;
    p = read_row(text, p, mark, end, piece, to);
    if (!p) return;
  }
}

// --- Pieces ----------------------------------------------------------------------------------------------------------

namespace {

// Each thread reads the next piece until there are none.
struct Pieces {
  const CsvFields& fields;
  const char* text;
  std::vector<CsvPiece>& pieces;
  std::vector<CsvRows>& to;
  std::atomic<size_t> next = 0;

  void read() {
    for (size_t i = 0; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces.size();)
      fields.read_rows(text, pieces[i], to[pieces[i].which]);
  }
};

class Reading final : public Task {
 public:
  explicit Reading(Pieces& pieces) : pieces_(pieces) {}
  void run() noexcept override {
    try {
      pieces_.read();
    } catch (...) {
      error = std::current_exception();
    }
  }
  std::exception_ptr error;

 private:
  Pieces& pieces_;
};

// None is at work when this has gone.
struct Helpers {
  ~Helpers() {
    for (const auto& task : tasks) Pool::abandon(*task);
  }
  std::vector<std::shared_ptr<Reading>> tasks;
};

}  // namespace

void read_pieces(const CsvFields& fields, const char* text, std::vector<CsvPiece>& pieces, std::vector<CsvRows>& to,
                 int threads) {
  Pieces all{fields, text, pieces, to};
  const size_t bytes = pieces.empty() ? 0 : pieces.back().to - pieces.front().from;
  const size_t helpers = std::min({size_t(threads), pieces.size(), bytes / least_for_threads + 1}) - 1;
  Helpers others;
  for (size_t i = 0; i < helpers; ++i) {
    others.tasks.push_back(std::make_shared<Reading>(all));
    Pool::get().start(others.tasks.back(), threads);
  }
  Reading own(all);
  own.run();
  std::exception_ptr error = own.error;
  for (const auto& other : others.tasks) {
    Pool::abandon(*other);
    if (!error) error = other->error;
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace rill::data::detail
