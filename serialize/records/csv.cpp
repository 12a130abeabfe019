// CSV by libcsv, which calls back for each field and row. A file is read twice: Survey finds the dtypes, Filler fills
// the columns. Start at read_csv.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>

#include <csv.h>

#include "rill/ops/apply.h"
#include "rill/serialize/csv.h"
#include "rill/serialize/files.h"
#include "rill/serialize/records/byte_stream.h"
#include "rill/serialize/records/csv_values.h"
#include "rill/serialize/utf8.h"

namespace rill {
namespace {

using csv::Column;
using csv::number;
using csv::truth;

// What reads a file's fields: at(column, text) in order, then end_of_row(columns).
class FieldReader {
 public:
  FieldReader(const std::string& path, const CsvOptions& options, const Where& where)
      : path_(path), options_(options), where_(where) {}
  virtual ~FieldReader() = default;
  FieldReader(const FieldReader&) = delete;

  virtual void at(size_t column, std::string_view text) = 0;
  virtual void end_of_row(size_t columns) = 0;

  void read(std::string_view bytes) {
    if (bytes.substr(0, 3) == "\xEF\xBB\xBF") bytes.remove_prefix(3);  // the mark of UTF-8
    if (is_utf16(bytes)) reject(is_utf16_text);
    csv_parser parser;
    if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) != 0) fail("read_csv", "libcsv cannot be started", where_);
    struct Free {
      csv_parser& p;
      ~Free() { csv_free(&p); }
    } free{parser};
    csv_set_delim(&parser, static_cast<unsigned char>(options_.delimiter));
    csv_set_quote(&parser, static_cast<unsigned char>(options_.quote));
    csv_set_space_func(&parser, [](unsigned char) { return 0; });  // spaces belong to the text
    bool ok = csv_parse(&parser, bytes.data(), bytes.size(), on_field, on_row, this) == bytes.size();
    if (ok && !caught_) ok = csv_fini(&parser, on_field, on_row, this) == 0;
    if (caught_) std::rethrow_exception(caught_);
    if (!ok) reject(std::string("its quotes do not fit: ") + csv_strerror(csv_error(&parser)));
  }
  [[noreturn]] void reject(const std::string& what) const {
    fail("read_csv", "'" + path_ + "', row " + std::to_string(row_ + 1) + ": " + what, where_);
  }
  bool is_missing(std::string_view text) const {
    return std::find(options_.missing.begin(), options_.missing.end(), text) != options_.missing.end();
  }

 protected:
  const std::string& path_;
  const CsvOptions& options_;
  const Where& where_;
  size_t row_ = 0;  // of the file, those before this one

 private:
  // No exception may pass through libcsv's frames: the first is kept, and the rest of the file goes unheard.
  template <class F>
  void call(F&& f) {
    if (caught_) return;
    try {
      f();
    } catch (...) {
      caught_ = std::current_exception();
    }
  }
  static void on_field(void* text, size_t size, void* self) {
    auto& r = *static_cast<FieldReader*>(self);
    r.call([&] { r.at(r.column_++, std::string_view(static_cast<const char*>(text), size)); });
  }
  static void on_row(int, void* self) {
    auto& r = *static_cast<FieldReader*>(self);
    r.call([&] {
      r.end_of_row(r.column_);
      r.column_ = 0;
      ++r.row_;
    });
  }
  size_t column_ = 0;
  std::exception_ptr caught_;
};

std::string shortened(std::string_view text) {
  return text.size() <= 40 ? std::string(text) : std::string(text.substr(0, 40)) + "...";
}

// --- The first reading -----------------------------------------------------------------------------------------------

class Survey final : public FieldReader {
 public:
  using FieldReader::FieldReader;
  void at(size_t column, std::string_view text) override {
    if (row_ == 0) {
      columns.emplace_back().name = options_.header ? std::string(text) : std::to_string(column);
      if (options_.header) return;
    }
    if (column >= columns.size()) return;  // end_of_row refuses the row
    Column& c = columns[column];
    if (is_missing(text)) {
      c.gaps = true;
      return;
    }
    c.see(text);
  }
  void end_of_row(size_t n) override {
    if (n != columns.size())
      reject("has " + std::to_string(n) + " fields. expected " + std::to_string(columns.size()) +
             ", as in the first row");
    rows += row_ > 0 || !options_.header;
  }
  std::vector<Column> columns;
  size_t rows = 0;
};

DType dtype_of(const Column& c, const CsvOptions& options) {
  const auto named = options.dtypes.find(c.name);
  return named == options.dtypes.end() ? c.dtype() : named->second;
}

// --- The second reading ----------------------------------------------------------------------------------------------

class Filler final : public FieldReader {
 public:
  Filler(const std::string& path, const CsvOptions& options, const Where& where, const Survey& survey)
      : FieldReader(path, options, where), survey_(survey) {
    for (const Column& c : survey.columns) {
      dtypes_.push_back(dtype_of(c, options));
      const DType d = dtypes_.back();
      Values& v = values_.emplace_back();
      if (d == DType::string) v.texts.reserve(survey.rows);
      else if (is_floating(d)) v.reals.reserve(survey.rows);
      else if (is_integer(d) || is_bool(d)) v.wholes.reserve(survey.rows);
      else fail("read_csv", "'" + c.name + "' cannot be read as " + std::string(rill::name(d)), where);
    }
  }
  void at(size_t column, std::string_view text) override {
    if (row_ == 0 && options_.header) return;
    Values& v = values_[column];
    const DType d = dtypes_[column];
    if (d == DType::string) {
      v.texts.emplace_back(text);
    } else if (is_floating(d)) {
      std::optional<double> x = is_missing(text) ? std::numeric_limits<double>::quiet_NaN() : number<double>(text);
      if (const auto t = truth(text); !x && t) x = *t;
      if (!x) refuse(column, text);
      v.reals.push_back(*x);
    } else if (is_missing(text)) {
      refuse(column, text);
    } else if (is_bool(d)) {
      const std::optional<bool> t = truth(text);
      const std::optional<int64_t> x = t ? std::optional<int64_t>(*t) : number<int64_t>(text);
      if (!x || (*x != 0 && *x != 1)) refuse(column, text);
      v.wholes.push_back(*x);
    } else {
      v.wholes.push_back(whole(column, text, d));
    }
  }
  void end_of_row(size_t) override {}
  Tensor tensor(size_t column) const {
    const Values& v = values_[column];
    const DType d = dtypes_[column];
    const Shape shape{int64_t(survey_.rows)};
    if (d == DType::string) return rill::tensor(v.texts, shape, TensorOptions{}, where_);
    if (is_floating(d)) return rill::tensor(v.reals, shape, TensorOptions{}, where_).astype(d, where_);
    return rill::tensor(v.wholes, shape, TensorOptions{}, where_).astype(d, where_);  // u64 keeps its bits
  }

 private:
  struct Values {
    std::vector<int64_t> wholes;
    std::vector<double> reals;
    std::vector<std::string> texts;
  };
  [[noreturn]] void refuse(size_t column, std::string_view text) const {
    reject("'" + shortened(text) + "' in the column '" + survey_.columns[column].name + "' is no " +
           std::string(rill::name(dtypes_[column])));
  }
  int64_t whole(size_t column, std::string_view text, DType d) const {
    if (d == DType::u64) {
      const auto x = number<uint64_t>(text);
      if (!x) refuse(column, text);
      return int64_t(*x);
    }
    const auto x = number<int64_t>(text);
    const int bits = int(size_of(d)) * 8;
    const bool is_signed = d == DType::i8 || d == DType::i16 || d == DType::i32 || d == DType::i64;
    const int64_t high = is_signed ? INT64_MAX >> (64 - bits) : INT64_MAX >> (63 - bits);
    if (!x || *x > high || *x < (is_signed ? -high - 1 : 0)) refuse(column, text);
    return *x;
  }
  const Survey& survey_;
  std::vector<DType> dtypes_;
  std::vector<Values> values_;
};

// --- Writing ---------------------------------------------------------------------------------------------------------

class Writer {
 public:
  explicit Writer(const CsvOptions& options) : options_(options) {}
  // Quoted where the reader would take it for something else.
  void text(std::string_view s) {
    const std::string_view special = "\r\n";
    const bool plain = !s.empty() && s.find_first_of(special) == s.npos && s.find(options_.delimiter) == s.npos &&
                       s.find(options_.quote) == s.npos && s.front() != ' ' && s.back() != ' ';
    if (plain) {
      out += s;
      return;
    }
    const size_t old = out.size();
    out.resize(old + 2 * s.size() + 2);
    out.resize(old + csv_write2(out.data() + old, out.size() - old, s.data(), s.size(),
                                static_cast<unsigned char>(options_.quote)));
  }
  template <class T>
  void number(T value) {
    char digits[64];
    out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }
  void separate(size_t column) {
    if (column) out += options_.delimiter;
  }
  std::string out;

 private:
  const CsvOptions& options_;
};

// How a column gives its rows to a Writer.
struct Source {
  explicit Source(const Tensor& t, const Where& where) : dtype(t.dtype()) {
    if (dtype == DType::string) texts = t.to_vector<std::string>(where);
    else if (dtype == DType::f64) doubles = t.to_vector<double>(where);
    else if (is_floating(dtype)) floats = t.to_vector<float>(where);
    else if (dtype == DType::u64) naturals = t.to_vector<uint64_t>(where);
    else wholes = t.to_vector<int64_t>(where);
  }
  void put(Writer& w, size_t row) const {
    if (dtype == DType::string) w.text(texts[row]);
    else if (dtype == DType::f64) w.number(doubles[row]);
    else if (is_floating(dtype)) w.number(floats[row]);
    else if (dtype == DType::u64) w.number(naturals[row]);
    else if (is_bool(dtype)) w.out += wholes[row] ? "true" : "false";
    else w.number(wholes[row]);
  }
  DType dtype;
  std::vector<std::string> texts;
  std::vector<double> doubles;
  std::vector<float> floats;
  std::vector<uint64_t> naturals;
  std::vector<int64_t> wholes;
};

void check_options(std::string_view op, const CsvOptions& o, const Where& where) {
  auto usable = [](char c) { return c != '\n' && c != '\r' && c != '\0'; };
  if (!usable(o.delimiter) || !usable(o.quote) || o.delimiter == o.quote)
    fail(op, "the delimiter and the quote are two different characters, neither the end of a line", where);
  for (char c : {o.delimiter, o.quote})
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '-' || c == '.')
      fail(op, fmt::format("'{}' is a part of numbers. take another delimiter or quote", c), where);
}

}  // namespace

Table read_csv(const std::string& path, CsvOptions options, Where where) {
  CallerScope caller(where);
  EagerScope eager;
  check_options("read_csv", options, where);
  ByteStream in(path, "read_csv", where);
  if (const Packing p = packing_by_mark(in.start()); p != Packing::none) in.unpack(p, where);
  std::string bytes;
  in.read(bytes, SIZE_MAX, where);
  Survey survey(path, options, where);
  survey.read(bytes);
  if (options.header && survey.columns.empty())
    fail("read_csv", fmt::format("'{}' is empty: expected a header, the row with the columns' names", path), where);
  for (const auto& [name, dtype] : options.dtypes)
    if (std::none_of(survey.columns.begin(), survey.columns.end(), [&](const Column& c) { return c.name == name; }))
      fail("read_csv", fmt::format("'{}' has no column '{}', for which a dtype is given", path, name), where);
  Filler filler(path, options, where, survey);
  filler.read(bytes);
  Table table;
  for (size_t i = 0; i < survey.columns.size(); ++i) {
    table.names.push_back(survey.columns[i].name);
    table.columns.push_back(filler.tensor(i));
  }
  return table;
}

void write_csv(const std::string& path, const Table& table, CsvOptions options, Where where) {
  CallerScope caller(where);
  EagerScope eager;
  constexpr std::string_view op = "write_csv";
  check_options(op, options, where);
  detail::require_names(table, op, where);
  std::vector<Source> sources;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const Tensor& t = table.columns[i];
    const bool good =
        t.defined() && !t.is_symbolic() && t.ndim() == 1 && t.size() == table.columns[0].size() &&
        (t.dtype() == DType::string || is_floating(t.dtype()) || is_integer(t.dtype()) || is_bool(t.dtype()));
    if (!good)
      fail(op,
           "the column '" + table.names[i] + "' is " + (t.defined() ? to_string(t.spec()) : "undefined") +
               ". columns have one dimension, one length, and numbers or texts",
           where);
    sources.emplace_back(t, where);
  }
  Writer w(options);
  if (options.header) {
    for (size_t i = 0; i < table.names.size(); ++i) w.separate(i), w.text(table.names[i]);
    w.out += '\n';
  }
  const size_t rows = table.columns.empty() ? 0 : size_t(table.columns[0].size());
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < sources.size(); ++i) w.separate(i), sources[i].put(w, row);
    w.out += '\n';
  }
  write_file(path, w.out, op, where);
}

}  // namespace rill
