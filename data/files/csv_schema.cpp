// See csv_schema.h.
#include "rill/data/files/csv_schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <string_view>
#include <unordered_map>

namespace rill::data::detail {
namespace {

constexpr const char* csv_op = "data::csv";

template <class T>
bool put_number(std::string_view text, char* to) {
  const std::optional<T> x = csv::number<T>(text);
  if (!x) return false;
  std::memcpy(to, &*x, sizeof *x);
  return true;
}
template <class T>
bool put_half(float x, char* to) {
  const T half(x);
  std::memcpy(to, &half, sizeof half);
  return true;
}
// In a floating column true and false are 1 and 0, as in read_csv().
template <class T>
bool put_real(std::string_view text, char* to) {
  if (put_number<T>(text, to)) return true;
  const std::optional<bool> t = csv::truth(text);
  if (!t) return false;
  const T x = *t;
  std::memcpy(to, &x, sizeof x);
  return true;
}
bool put_bool(std::string_view text, char* to) {
  const std::optional<bool> t = csv::truth(text);
  const std::optional<int64_t> x = t ? std::optional<int64_t>(*t) : csv::number<int64_t>(text);
  if (!x || (*x != 0 && *x != 1)) return false;
  *to = char(*x);
  return true;
}

bool is_readable(DType d) {
  return d == DType::string || is_bool(d) || is_integer(d) || (is_floating(d) && !is_float8(d));
}

}  // namespace

bool parse_csv_value(std::string_view text, DType dtype, char* to) {
  switch (dtype) {
    case DType::boolean: return put_bool(text, to);
    case DType::i8: return put_number<int8_t>(text, to);
    case DType::i16: return put_number<int16_t>(text, to);
    case DType::i32: return put_number<int32_t>(text, to);
    case DType::i64: return put_number<int64_t>(text, to);
    case DType::u8: return put_number<uint8_t>(text, to);
    case DType::u16: return put_number<uint16_t>(text, to);
    case DType::u32: return put_number<uint32_t>(text, to);
    case DType::u64: return put_number<uint64_t>(text, to);
    case DType::f32: return put_real<float>(text, to);
    case DType::f64: return put_real<double>(text, to);
    case DType::f16:
    case DType::bf16: {
      float x = 0;
      if (!put_real<float>(text, reinterpret_cast<char*>(&x))) return false;
      return dtype == DType::f16 ? put_half<Half>(x, to) : put_half<BFloat16>(x, to);
    }
    default: return false;
  }
}

bool missing_csv_value(DType dtype, char* to) { return is_floating(dtype) && parse_csv_value("nan", dtype, to); }

std::string csv_shortened(std::string_view text) {
  return text.size() <= 40 ? std::string(text) : std::string(text.substr(0, 40)) + "...";
}

void check_csv_options(const CsvRowOptions& o, const Where& where) {
  const auto usable = [](char c) { return c != '\n' && c != '\r' && c != '\0'; };
  if (!usable(o.delimiter) || !usable(o.quote) || o.delimiter == o.quote)
    fail(csv_op, "the delimiter and the quote are two different characters, neither the end of a line", where);
  for (const char c : {o.delimiter, o.quote})
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '-' || c == '.')
      fail(csv_op, fmt::format("'{}' is a part of numbers. take another delimiter or quote", c), where);
  if (o.comment == o.delimiter || o.comment == o.quote || o.comment == '\n' || o.comment == '\r')
    fail(csv_op, "comments begin with a character that is neither the delimiter, nor the quote, nor the end of a line",
         where);
  if (o.skip_lines < 0) fail(csv_op, fmt::format("skip_lines is {} and must be 0 or more", o.skip_lines), where);
  if (o.infer_rows < 1) fail(csv_op, fmt::format("infer_rows is {} and must be 1 or more", o.infer_rows), where);
  for (const auto& [name, dtype] : o.dtypes)
    if (!is_readable(dtype))
      fail(csv_op, fmt::format("the column '{}' cannot be read as {}", name, rill::name(dtype)), where);
}

bool needs_survey(const RowMaker& maker) {
  return maker.all || std::ranges::any_of(maker.fields, [&](const FieldType& f) { return !f.dtype; });
}

namespace {

std::string list_of(const CsvSurvey& survey) {
  std::vector<std::string> names;
  for (const csv::Column& c : survey) names.push_back("'" + c.name + "'");
  return fmt::format("{}", fmt::join(names, ", "));
}

// Where a file's columns are, by name.
class Places {
 public:
  Places(const CsvSurvey& survey, const std::string& path, const Where& where)
      : survey_(survey), path_(path), where_(where) {
    for (size_t i = 0; i < survey.size(); ++i)
      if (const auto [at, is_new] = by_name_.try_emplace(survey[i].name, int(i)); !is_new) at->second = twice;
  }
  int of(const std::string& name) const {
    const auto at = by_name_.find(name);
    if (at == by_name_.end())
      fail(csv_op, fmt::format("'{}' has no column '{}'. it has {}", path_, name, list_of(survey_)), where_);
    if (at->second == twice) fail(csv_op, fmt::format("'{}' has two columns '{}'", path_, name), where_);
    return at->second;
  }

 private:
  static constexpr int twice = -1;
  const CsvSurvey& survey_;
  const std::string& path_;
  const Where& where_;
  std::unordered_map<std::string_view, int> by_name_;
};

// The columns that are read, in the order of the fields.
std::vector<int> chosen(const CsvSurvey& survey, const Places& columns, const CsvRowOptions& o, const RowMaker& maker,
                        bool by_name) {
  std::vector<int> places;
  for (const std::string& name : o.columns) places.push_back(columns.of(name));
  if (!o.columns.empty()) return places;
  if (by_name)
    for (const FieldType& f : maker.fields) places.push_back(columns.of(f.name));
  else
    for (size_t i = 0; i < survey.size(); ++i) places.push_back(int(i));
  return places;
}

void set_dtype(CsvSlot& s, const FieldType* field, const csv::Column& found, const CsvRowOptions& o,
               const Where& where) {
  const auto named = o.dtypes.find(s.name);
  if (field && field->dtype) {
    s.dtype = *field->dtype;
    if (named != o.dtypes.end() && named->second != s.dtype)
      fail(csv_op,
           fmt::format("the column '{}' is to be {}, and the field that takes it is {}", s.name,
                       rill::name(named->second), rill::name(s.dtype)),
           where);
  } else if (named != o.dtypes.end()) {
    s.dtype = named->second;
  } else {
    s.dtype = found.dtype();
    s.inferred = true;
  }
}

void set_default(CsvSlot& s, const CsvRowOptions& o, const Where& where) {
  const auto given = o.defaults.find(s.name);
  if (given == o.defaults.end()) return;
  s.has_default = true;
  s.default_text = given->second;
  if (s.dtype == DType::string) return;
  s.default_bytes.resize(size_of(s.dtype));
  if (!parse_csv_value(s.default_text, s.dtype, s.default_bytes.data()))
    fail(csv_op,
         fmt::format("the default '{}' of the column '{}' is no {}", s.default_text, s.name, rill::name(s.dtype)),
         where);
}

}  // namespace

CsvSchema make_schema(const CsvSurvey& survey, const CsvRowOptions& o, const RowMaker& maker, const std::string& path,
                      const Where& where) {
  const Places columns(survey, path, where);
  for (const auto& [name, dtype] : o.dtypes) columns.of(name);
  for (const auto& [name, text] : o.defaults) columns.of(name);
  const bool named_fields = !maker.fields.empty() && !maker.fields[0].name.empty();
  const bool by_name = o.header && named_fields;
  const std::vector<int> places = chosen(survey, columns, o, maker, by_name);
  if (!maker.all && places.size() != maker.fields.size())
    fail(
        csv_op,
        fmt::format("'{}': {} columns for a row of {} fields. CsvRowOptions::columns names those of the fields. it has "
                    "{}",
                    path, places.size(), maker.fields.size(), list_of(survey)),
        where);
  CsvSchema schema;
  std::vector<std::string> names;
  for (size_t k = 0; k < places.size(); ++k) {
    const csv::Column& column = survey[size_t(places[k])];
    CsvSlot& s = schema.slots.emplace_back();
    s.name = column.name, s.place = places[k];
    const FieldType* field = maker.all ? nullptr : &maker.fields[k];
    s.optional = field && field->optional;
    set_dtype(s, field, column, o, where);
    set_default(s, o, where);
    names.push_back(s.name);
  }
  schema.names = std::make_shared<const std::vector<std::string>>(std::move(names));
  schema.by_place = !o.header;
  schema.fields = survey.size();
  return schema;
}

std::vector<int> slots_of(const CsvSchema& schema, const std::vector<std::string>& names, bool header,
                          const std::string& path, const Where& where) {
  std::vector<int> slots(header ? names.size() : schema.fields, -1);
  CsvSurvey columns;
  for (const std::string& name : names) columns.emplace_back().name = name;
  const Places places(columns, path, where);
  for (size_t k = 0; k < schema.slots.size(); ++k) {
    const CsvSlot& s = schema.slots[k];
    const int place = header ? places.of(s.name) : s.place;
    if (slots[size_t(place)] >= 0) fail(csv_op, fmt::format("the column '{}' is asked for twice", s.name), where);
    slots[size_t(place)] = int(k);
  }
  return slots;
}

}  // namespace rill::data::detail
