// Files that pipelines read (tables, records, audio, IDX, folders of pictures): their contents, the first elements, and
// statistics, with only some rows in memory. See inspect.h.
#include <rill/data.h>
#include <rill/rill.h>
#include <rill/serialize.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "files.h"
#include "inspect.h"
#include "terminal.h"

namespace command {
namespace {

using rill::DType;
using rill::Tensor;

constexpr int64_t rows_at_once = 4096;

std::string shown_number(double x, DType dtype) {
  if (rill::is_integer(dtype) && std::fabs(x) < 1e15) return fmt::format("{:.0f}", x);
  return fmt::format("{:.4g}", x);
}

// Statistics of a column's values so far.
struct Statistics {
  DType dtype = DType::string;
  rill::Shape row;
  int64_t finite = 0, missing = 0, nans = 0, infinite = 0, longest = 0;
  int64_t shortest = INT64_MAX, longest_list = 0;  // of lists, whose lengths differ
  double least = INFINITY, most = -INFINITY, sum = 0;
  bool whole = true;

  void add(const Tensor& x) {
    if (x.dtype() == DType::string) {
      for (const std::string& s : x.to_vector<std::string>()) {
        missing += s.empty();
        longest = std::max(longest, int64_t(s.size()));
      }
      return;
    }
    if (x.size() == 0 || rill::is_complex(x.dtype())) return;
    for (const double v : x.astype(rill::f64).to_vector<double>()) {
      if (!std::isfinite(v)) {
        ++(std::isnan(v) ? nans : infinite);
        continue;
      }
      ++finite;
      least = std::min(least, v), most = std::max(most, v), sum += v;
      whole = whole && v == std::floor(v);
    }
  }
  // `x`: some rows.
  void add_length(const Tensor& x) {
    if (x.ndim() < 2) return;
    shortest = std::min(shortest, int64_t(x.dim(1))), longest_list = std::max(longest_list, int64_t(x.dim(1)));
  }
  // min, max, mean, and the number of missing values.
  std::vector<std::string> cells() const {
    const std::string lacks = missing ? red(fmt::format("{} missing", count_text(missing))) : "";
    if (dtype == DType::string)
      return {"", "", longest ? fmt::format("up to {}", bytes_text(double(longest))) : "", lacks};
    const int64_t odd = nans + infinite;
    const std::string others = odd ? red(fmt::format("{} not finite", count_text(odd))) : "";
    const std::string both = lacks.empty() || others.empty() ? lacks + others : lacks + ", " + others;
    if (finite == 0) return {"", "", "", both};
    return {shown_number(least, dtype), shown_number(most, dtype), fmt::format("{:.4g}", sum / double(finite)), both};
  }
};

std::string row_text(DType dtype, const rill::Shape& row, int64_t shortest = 0, int64_t longest = 0) {
  if (shortest < longest) {  // "i32[0 to 7,2]"
    std::string sizes = fmt::format("{} to {}", shortest, longest);
    for (size_t k = 1; k < row.size(); ++k) sizes += fmt::format(",{}", int64_t(row[k]));
    return fmt::format("{}[{}]", rill::name(dtype), sizes);
  }
  return row.empty() ? std::string(rill::name(dtype)) : rill::to_string(rill::Spec{row, dtype, false, {}});
}

// An element on a line.
std::string element_text(const Tensor& x) {
  constexpr size_t longest = 60;
  std::string text = x.dtype() == DType::string && x.ndim() == 0 ? x.to_vector<std::string>()[0] : rill::to_string(x);
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return text;
}

void print_statistics(const std::vector<std::string>& names, const std::vector<Statistics>& all, bool stats) {
  Table table(stats ? "<<>>><" : "<<");
  if (stats) table.add({dim("name"), "", dim("min"), dim("max"), dim("mean"), ""});
  for (size_t i = 0; i < names.size(); ++i) {
    std::vector<std::string> row = {green(names[i]),
                                    row_text(all[i].dtype, all[i].row, all[i].shortest, all[i].longest_list)};
    if (stats)
      for (std::string& cell : all[i].cells()) row.push_back(std::move(cell));
    table.add(std::move(row));
  }
  print("{}", table.text(0));
}

// --- Tables ----------------------------------------------------------------------------------------------------------

bool is_parquet(const std::string& path) { return ends_in(path, {".parquet"}); }
bool is_arrow(const std::string& path) { return ends_in(unpacked_name(path), {".arrow", ".arrows", ".feather"}); }

rill::data::CsvRowOptions csv_options(const std::string& path) {
  return {.delimiter = ends_in(unpacked_name(path), {".tsv"}) ? '\t' : ','};
}

// The dtypes of a CSV file's columns by their first rows. Numbers are then read as f64, so that a later row may lack a
// value, or have a fraction.
struct CsvColumns {
  explicit CsvColumns(const std::string& path) : options(csv_options(path)) {
    auto first = rill::data::csv(path, options, rill::Where()).ignore_errors({.log = false}).iterator();
    const std::optional<rill::Table> row = first.next(rill::Where());
    if (!row) return;
    for (size_t i = 0; i < row->names.size(); ++i) {
      const DType d = row->columns[i].dtype();
      dtypes[row->names[i]] = d;
      options.dtypes[row->names[i]] = d == DType::string ? d : DType::f64;
    }
  }
  rill::data::CsvRowOptions options;
  std::map<std::string, DType> dtypes;
};

// Whether column c says which rows of the one before it have a value.
bool is_mask_of_column(const rill::Table& t, size_t c) {
  return c > 0 && c < t.names.size() && t.names[c] == t.names[c - 1] + ".valid";
}

// The rows of tables, batch by batch. For Arrow a column NAME.valid says which rows of NAME have a value.
class TableReport {
 public:
  explicit TableReport(bool has_masks) : has_masks_(has_masks) {}

  // Adds the columns, of a table that may have no rows.
  void begin(const rill::Table& t) {
    if (names.empty()) start(t);
  }
  void add(const rill::Table& t) {
    begin(t);
    for (size_t k = 0; k < columns_.size(); ++k) all[k].add_length(t.columns[columns_[k]]);
    rows += t.columns.empty() ? 0 : int64_t(t.columns[0].dim(0));
    for (size_t k = 0; k < columns_.size(); ++k) {
      const size_t c = columns_[k];
      if (!is_mask(t, c + 1)) {
        all[k].add(t.columns[c]);
        continue;
      }
      std::vector<int64_t> there;
      const std::vector<bool> mask = t.columns[c + 1].to_vector<bool>();
      for (size_t i = 0; i < mask.size(); ++i)
        if (mask[i]) there.push_back(int64_t(i));
      if (!there.empty()) all[k].add(rill::take(t.columns[c], rill::tensor(there), 0));
      all[k].missing += int64_t(mask.size() - there.size());
    }
  }
  std::vector<std::string> names;
  std::vector<Statistics> all;
  int64_t rows = 0;

 private:
  bool is_mask(const rill::Table& t, size_t c) const { return has_masks_ && is_mask_of_column(t, c); }
  void start(const rill::Table& t) {
    for (size_t i = 0; i < t.names.size(); ++i) {
      if (is_mask(t, i)) continue;
      names.push_back(t.names[i]);
      columns_.push_back(i);
      const rill::Shape& shape = t.columns[i].shape();
      Statistics& s = all.emplace_back();
      s.dtype = t.columns[i].dtype(), s.row = rill::Shape(shape.begin() + 1, shape.end());
    }
  }
  bool has_masks_;
  std::vector<size_t> columns_;
};

// In a column of floats of a CSV file NaN means no value. The printed dtype is that of all rows.
void finish_csv(TableReport& report, const CsvColumns& columns) {
  for (size_t i = 0; i < report.names.size(); ++i) {
    Statistics& s = report.all[i];
    if (s.dtype == DType::string) continue;
    const DType found = columns.dtypes.at(report.names[i]);
    s.missing = std::exchange(s.nans, 0);
    const bool fits = rill::is_floating(found) || (s.whole && s.missing == 0 && s.infinite == 0);
    s.dtype = fits ? found : DType::f64;
  }
}

// Rows, or batches of rows, whose number `take` returns; invalid ones are counted.
template <class Take>
void each_table(const rill::data::Dataset<rill::Table>& tables, const std::string& path, Take&& take) {
  auto it = tables.iterator();
  Progress progress("rows of " + std::filesystem::path(path).filename().string(), 0);
  int64_t wrong = 0, done = 0;
  std::string first_wrong;
  for (bool more = true; more;) try {
      const std::optional<rill::Table> t = it.next(rill::Where());
      more = bool(t);
      if (!t || t->columns.empty()) continue;
      progress.show(done += take(*t));
    } catch (const rill::Error& e) {
      if (wrong++ == 0) first_wrong = e.what();
      if (done == 0 && wrong > 1000) throw;
    }
  if (wrong && done == 0) throw rill::Error(first_wrong);
  if (wrong)
    note(fmt::format("{} row{} not fit. the first: {}", count_text(wrong), wrong == 1 ? " does" : "s do", first_wrong));
}

// Of an Arrow or Parquet file.
rill::data::Dataset<rill::Table> rows_of(const std::string& path, bool skip_others) {
  const rill::data::ArrowRowOptions options = {.masks = true, .skip_others = skip_others};
  return is_parquet(path) ? rill::data::parquet(path, options, rill::Where())
                          : rill::data::arrow(path, options, rill::Where());
}

// All rows of an Arrow or Parquet file. Lists of any length are no batches: such a file is read row by row.
void add_rows(TableReport& report, const rill::data::Dataset<rill::Table>& rows, const std::string& path) {
  try {
    Progress progress("rows of " + std::filesystem::path(path).filename().string(), 0);
    for (const rill::Table& t : rows.batch(rows_at_once)) report.add(t), progress.show(report.rows);
    return;
  } catch (const rill::Error&) {
    report = TableReport(true);
  }
  each_table(rows, path, [&](rill::Table row) {
    for (Tensor& x : row.columns) x = rill::expand_dims(x, 0);
    report.add(row);
    return int64_t(1);
  });
}

void print_first(const rill::data::Dataset<rill::Table>& rows, int64_t head, bool has_masks) {
  Table table("");
  for (const rill::Table& row : rows.ignore_errors({.log = false}).take(head)) {
    std::vector<std::string> names, cells;
    for (size_t i = 0; i < row.names.size(); ++i) {
      if (has_masks && is_mask_of_column(row, i)) {
        if (!row.columns[i].item<bool>()) cells.back() = dim("-");
        continue;
      }
      names.push_back(dim(row.names[i])), cells.push_back(element_text(row.columns[i]));
    }
    if (table.empty()) table = Table(std::string(names.size(), '<')), table.add(names);
    table.add(cells);
  }
  print("{}", table.text(0));
}

// --- Records ---------------------------------------------------------------------------------------------------------

// For Examples: each feature with its dtype and lengths.
struct Feature {
  Statistics statistics;
  int64_t in = 0, shortest = INT64_MAX, longest = 0;
};

// --- Pictures --------------------------------------------------------------------------------------------------------

bool is_any_picture(const std::string& path) {
  return ends_in(path, {".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp"});
}

}  // namespace

void show_table(const std::string& path, const DataSettings& s) {
  const bool arrow = is_arrow(path) || is_parquet(path);
  TableReport report(arrow);
  rill::data::Dataset<rill::Table> rows = rows_of(path, !arrow);
  if (arrow) {
    try {
      rows.iterator().next(rill::Where());
    } catch (const rill::Error& e) {  // of a column's type, say, which the others do not suffer from
      rows = rows_of(path, true);
      rows.iterator().next(rill::Where());
      note(e.what());
    }
    add_rows(report, rows, path);
  } else {
    const CsvColumns columns(path);
    each_table(rill::data::csv(path, columns.options, rill::Where()).batch(rows_at_once), path,
               [&](const rill::Table& t) {
                 report.add(t);
                 return int64_t(t.columns[0].dim(0));
               });
    finish_csv(report, columns);
    rows = rill::data::csv(path, csv_options(path), rill::Where());
  }
  if (report.rows == 0 && is_arrow(path))
    report.begin(rill::read_arrow(path, {.masks = true, .skip_others = true}, rill::Where()));
  if (report.rows == 0 && !arrow) report.begin(read_table(path));
  print_statistics(report.names, report.all, s.stats);
  print("{} rows\n", count_text(report.rows));
  if (s.head > 0) print_first(rows, s.head, arrow);
}

void show_records(const std::string& path, const DataSettings& s) {
  int64_t count = 0, bytes = 0, longest = 0, others = 0;
  std::map<std::string, Feature> features;
  each_record(path, [&](const std::string& record) {
    bytes += int64_t(record.size());
    longest = std::max(longest, int64_t(record.size()));
    if (count++ > 0 && !s.stats) return;
    std::map<std::string, Tensor> all;
    try {
      all = rill::read_example(record, rill::Where());
    } catch (const rill::Error&) {
      ++others;
      return;
    }
    for (const auto& [name, x] : all) {
      Feature& f = features[name];
      f.statistics.dtype = x.dtype();
      f.statistics.add(x);
      const auto n = int64_t(x.size());
      ++f.in, f.shortest = std::min(f.shortest, n), f.longest = std::max(f.longest, n);
    }
  });
  print("{}  {}\n", bold(path),
        dim(fmt::format("{} records, {} unpacked, the longest {}", count_text(count), bytes_text(double(bytes)),
                        bytes_text(double(longest)))));
  if (others)
    print("  {}\n", s.stats ? fmt::format("{} records are no tf.Example", count_text(others))
                            : "the first record is no tf.Example");
  Table table(s.stats ? "<<>>><" : "<<");
  if (s.stats && !features.empty()) table.add({dim("feature"), "", dim("min"), dim("max"), dim("mean"), ""});
  for (auto& [name, f] : features) {
    const std::string size =
        f.shortest == f.longest ? std::to_string(f.longest) : fmt::format("{}..{}", f.shortest, f.longest);
    std::vector<std::string> row = {green(name), fmt::format("{}[{}]", rill::name(f.statistics.dtype), size)};
    if (s.stats) {
      std::vector<std::string> cells = f.statistics.cells();
      if (const int64_t without = count - others - f.in)
        cells[3] = red(fmt::format("missing in {}", count_text(without)));
      row.insert(row.end(), cells.begin(), cells.end());
    }
    table.add(std::move(row));
  }
  if (!table.empty()) print("  {}\n{}", s.stats ? "tf.Examples:" : "the first, a tf.Example:", table.text(4));
  for (const Tensor& record : rill::data::tfrecords(path, rill::Where()).take(s.head)) {
    const std::string text = record.item<std::string>();
    try {
      std::string line;
      for (const auto& [name, x] : rill::read_example(text, rill::Where()))
        line += (line.empty() ? "" : "  ") + dim(name + "=") + element_text(x);
      print("{}\n", visible(line));
    } catch (const rill::Error&) {
      print("{}\n", visible(text.substr(0, 80)));
    }
  }
}

void show_idx(const std::string& path, const DataSettings& s) {
  const Tensor x = rill::data::read_idx(path, rill::Where());
  Statistics all{x.dtype(), x.shape()};
  all.add(x);
  print_statistics({std::filesystem::path(path).filename().string()}, {all}, s.stats);
  if (x.ndim() > 0) print("{} rows\n", count_text(int64_t(x.dim(0))));
  for (int64_t i = 0; x.ndim() > 0 && i < std::min<int64_t>(s.head, int64_t(x.dim(0))); ++i)
    print("{}\n", rill::to_string(x(i)));
}

void show_audio(const std::string& path, const DataSettings& s) {
  const auto [samples, rate] = rill::read_audio(path, rill::Where());
  Statistics all{samples.dtype(), samples.shape()};
  all.add(samples);
  print_statistics({std::filesystem::path(path).filename().string()}, {all}, s.stats);
  print("{} frames of {} channels, {} a second: {}\n", count_text(int64_t(samples.dim(0))), int64_t(samples.dim(1)),
        count_text(rate), seconds_text(double(int64_t(samples.dim(0))) / double(rate)));
  if (s.head > 0)
    print("{}\n", rill::to_string(rill::slice_axis(samples, 0, 0, std::min(s.head, int64_t(samples.dim(0))))));
}

bool holds_pictures(const std::string& folder) {
  for (const auto& e : std::filesystem::recursive_directory_iterator(folder))
    if (e.is_regular_file() && is_any_picture(e.path().string())) return true;
  return false;
}

void show_pictures(const std::string& folder, const DataSettings& s) {
  std::map<std::string, std::pair<int64_t, int64_t>> classes;  // files and bytes, by folder
  std::vector<std::string> files;
  int64_t bytes = 0;
  for (const auto& e : std::filesystem::recursive_directory_iterator(folder)) {
    if (!e.is_regular_file() || !is_any_picture(e.path().string())) continue;
    auto& [count, size] = classes[e.path().parent_path().lexically_relative(folder).string()];
    ++count, size += int64_t(e.file_size()), bytes += int64_t(e.file_size());
    files.push_back(e.path().string());
  }
  Table table("<>>");
  for (const auto& [name, c] : classes) table.add({green(name), count_text(c.first), bytes_text(double(c.second))});
  print("{}", table.text(0));
  print("{} pictures in {} folders, {}\n", count_text(int64_t(files.size())), count_text(int64_t(classes.size())),
        bytes_text(double(bytes)));
  std::sort(files.begin(), files.end());
  for (size_t i = 0; i < files.size() && int64_t(i) < s.head; ++i) print("{}\n", visible(files[i]));
}

}  // namespace command
