// Columns, SequenceColumns and Linear: columns applied to tables.
#include <algorithm>
#include <set>

#include "rill/data/features/node.h"
#include "rill/ops/apply.h"
#include "rill/ops/tree.h"

namespace rill::data::features {

// --- Raw columns -----------------------------------------------------------------------------------------------------

Input::Input(const Table& table, bool steps, const Where& where) : table_(table), sequence_(steps), where_(where) {
  rill::detail::require_names(table, "data::features", where);
  if (table.columns.empty()) fail("data::features", "the table has no columns", where);
}

const Tensor& Input::find(const std::string& name) const {
  const auto at = std::ranges::find(table_.names, name);
  if (at == table_.names.end())
    fail_column(name, fmt::format("the table has none of that name, but {}", fmt::join(table_.names, ", ")), where_);
  if (std::find(at + 1, table_.names.end(), name) != table_.names.end())
    fail_column(name, "the table has two of that name", where_);
  return table_.columns[size_t(at - table_.names.begin())];
}

Tensor Input::raw(const std::string& name) const {
  const Tensor& x = find(name);
  const int64_t axes = sequence_ ? 2 : 1;
  if (!x.defined() || x.ndim() < axes || x.ndim() > axes + 1)
    fail_column(name,
                fmt::format("a raw column is {}, and this is {}",
                            sequence_ ? "[rows, steps] or [rows, steps, n]" : "[rows] or [rows, n]",
                            x.defined() ? to_string(x.spec()) : "undefined"),
                where_);
  return reshape(x, Shape{rows_ * steps_, x.ndim() == axes ? Dim(1) : x.shape().back()});
}

Tensor Input::raw(const std::string& name, const Shape& row) const {
  const Tensor& x = find(name);
  const size_t axes = sequence_ ? 2 : 1;
  bool fits = x.defined() && size_t(x.ndim()) >= axes;
  if (fits) {
    const Shape own(x.shape().begin() + axes, x.shape().end());
    fits = own == row || (row.empty() && own == Shape{1});
  }
  if (!fits)
    fail_column(name,
                fmt::format("a row is {}, and the table has {}. numeric(\"{}\", {{.shape = {{3}}}}) is for rows of 3",
                            row.empty() ? "one number" : "of shape " + to_string(row),
                            x.defined() ? to_string(x.spec()) : "an undefined tensor", name),
                where_);
  Shape shape{rows_ * steps_};
  for (Dim d : row) shape.push_back(d);
  return reshape(x, shape);
}

namespace {

std::vector<RawSpec> raw_of(const std::vector<Column>& columns) {
  std::vector<RawSpec> all;
  for (const Column& c : columns) c.node().add_raw(all);
  std::vector<RawSpec> once;
  for (const RawSpec& s : all) {
    const auto known = std::ranges::find(once, s.name, &RawSpec::name);
    if (known == once.end()) once.push_back(s);
    else if (known->guessed) *known = s;  // another column may know better
  }
  return once;
}

}  // namespace

void Input::measure(const std::vector<Column>& columns) {
  const std::string* first = nullptr;
  for (const RawSpec& s : raw_of(columns)) {
    const Tensor& x = find(s.name);
    if (!x.defined() || x.ndim() < (sequence_ ? 2 : 1)) raw(s.name);  // throws, with the reason
    const Dim rows = x.shape()[0], steps = sequence_ ? x.shape()[1] : Dim(1);
    if (!first) rows_ = rows, steps_ = steps;
    if (rows != rows_ || steps != steps_)
      fail_column(s.name,
                  fmt::format("it is {}, and '{}' has {} rows{}", to_string(x.spec()), *first, int64_t(rows_),
                              sequence_ ? fmt::format(" of {} steps", int64_t(steps_)) : ""),
                  where_);
    if (!first) first = &table_.names[size_t(std::ranges::find(table_.names, s.name) - table_.names.begin())];
  }
}

// --- Columns ---------------------------------------------------------------------------------------------------------

Columns::Columns(const std::vector<Column>& columns, Where where) {
  if (columns.empty()) fail("data::features", "there are no columns", where);
  for (const Column& c : columns) columns_.push_back(with_numbers(c));
}

namespace {

Tensor side_by_side(const std::vector<Column>& columns, const Input& in) {
  std::vector<Tensor> parts;
  for (const Column& c : columns) {
    const NameScope scope(c.name());
    parts.push_back(c.node().dense(in));
  }
  return parts.size() == 1 ? parts[0] : concat(parts, 1);
}

}  // namespace

Tensor Columns::operator()(const Table& table, Where where) const {
  CallerScope caller(where);
  Input in(table, false, where);
  in.measure(columns_);
  return side_by_side(columns_, in);
}

SparseTensor Columns::sparse(const Table& table, Where where) const {
  CallerScope caller(where);
  Input in(table, false, where);
  in.measure(columns_);
  std::vector<Tensor> rows, places, values;
  int64_t before = 0;
  for (const Column& c : columns_) {
    if (c.node().table()) fail_column(c.name(), "a vector of an embedding is dense. call the Columns itself", where);
    Ids ids;
    if (const Column::Node* of = c.node().looked_up()) ids = of->ids(in);
    else {
      const Tensor x = c.node().dense(in);
      ids = {broadcast_to(arange(x.shape()[1]).astype(i64), x.shape()), x};
    }
    const Tensor there = ids.ids >= 0;
    // A missing value stays in the list, as a zero: the number of elements does not depend on values.
    const Tensor weights = ids.weights.defined() ? ids.weights : ones(ids.ids.shape(), f32);
    values.push_back(ravel(rill::where(there, weights, 0)));
    places.push_back(ravel(rill::where(there, ids.ids, int64_t(0)) + before));
    rows.push_back(ravel(broadcast_to(expand_dims(arange(in.rows()).astype(i64), 1), ids.ids.shape())));
    before += c.width();
  }
  const Tensor indices = stack({concat(rows, 0), concat(places, 0)}, 1);
  return SparseTensor(indices, concat(values, 0), Shape{in.rows(), width()}, where);
}

Table Columns::table(const std::vector<Tensor>& raw, Where where) const {
  const std::vector<std::string> names = inputs();
  if (raw.size() != names.size())
    fail(
        "data::features",
        fmt::format("there are {} tensors for the {} raw columns {}", raw.size(), names.size(), fmt::join(names, ", ")),
        where);
  return {names, raw};
}

int64_t Columns::width() const {
  int64_t all = 0;
  for (const Column& c : columns_) all += c.width();
  return all;
}
std::vector<int64_t> Columns::widths() const {
  std::vector<int64_t> all;
  for (const Column& c : columns_) all.push_back(c.width());
  return all;
}
std::vector<std::string> Columns::names() const {
  std::vector<std::string> all;
  for (const Column& c : columns_) all.push_back(c.name());
  return all;
}
Columns Columns::sorted() const {
  // TensorFlow's name for ids that are used as an indicator is the indicator's.
  std::vector<std::pair<std::string, Column>> all;
  for (const Column& c : columns_)
    all.emplace_back(c.is_categorical() && !as_bucketized(c) ? c.name() + "_indicator" : c.name(), c);
  std::ranges::stable_sort(all, {}, [](const auto& p) { return p.first; });
  std::vector<Column> columns;
  for (const auto& [name, c] : all) columns.push_back(c);
  return Columns(columns);
}
std::vector<std::string> Columns::inputs() const {
  std::vector<std::string> all;
  for (const RawSpec& s : raw_of(columns_)) all.push_back(s.name);
  return all;
}
std::vector<ArgSpec> Columns::signature(Where where) const {
  std::vector<ArgSpec> all;
  for (const RawSpec& s : raw_of(columns_)) {
    Shape shape{any};
    for (Dim d : s.row) shape.push_back(d);
    all.push_back(spec(s.dtype, shape, s.name, {}, where));
  }
  return all;
}

std::vector<Variable> Columns::variables() const {
  std::vector<Variable> all;
  std::set<uint64_t> seen;
  for (const Column& c : columns_)
    if (const Variable* v = c.node().table(); v && seen.insert(rill::detail::identity_of(*v)).second) all.push_back(*v);
  return all;
}
void Columns::name_variables(VariablePaths& paths) const { paths.add_all(variables()); }

// --- Sequences -------------------------------------------------------------------------------------------------------

SequenceColumns::SequenceColumns(const std::vector<Column>& columns, Where where) : columns_(columns, where) {}

namespace {

// One more than the last step at which a raw column [rows, steps, ...] has a value.
Tensor lengths_of(const Tensor& x) {
  const Dim rows = x.shape()[0], steps = x.shape()[1];
  Tensor there = x.dtype() == DType::string ? strings::not_equal(x, tensor(""))
                 : is_integer(x.dtype())    ? (is_unsigned(x.dtype()) ? ones(x.shape(), boolean) : x != -1)
                                            : logical_not(isnan(x));
  there = any(reshape(there, Shape{rows, steps, x.ndim() > 2 ? Dim(x.shape().numel() / (rows * steps)) : Dim(1)}), 2);
  return max(rill::where(there, arange(steps).astype(i64) + 1, int64_t(0)), 1);
}

}  // namespace

Sequence SequenceColumns::operator()(const Table& table, Where where) const {
  CallerScope caller(where);
  Input in(table, true, where);
  in.measure(columns_.columns());
  Tensor lengths;
  for (const RawSpec& s : raw_of(columns_.columns())) {
    const Tensor& x = table.columns[size_t(std::ranges::find(table.names, s.name) - table.names.begin())];
    const Tensor own = lengths_of(x);
    lengths = lengths.defined() ? maximum(lengths, own) : own;
  }
  Tensor values = reshape(side_by_side(columns_.columns(), in), Shape{in.rows(), in.steps(), columns_.width()});
  const Tensor past = arange(in.steps()).astype(i64) >= expand_dims(lengths, 1);
  return {rill::where(expand_dims(past, -1), 0, values), lengths};
}

// --- Linear models ---------------------------------------------------------------------------------------------------

Linear::Linear(const std::vector<Column>& columns, const LinearOptions& o, Where where)
    : name(o.name), columns_(columns, where), combiner_(o.combiner) {
  if (o.units < 1) fail("data::features", fmt::format("a linear model has {} units", o.units), where);
  const EagerScope eager;
  const NameScope scope(name);
  for (const Column& c : columns_.columns()) {
    if (c.node().table())
      fail_column(c.name(), "a linear model takes ids and numbers. give it the column that the embedding is of", where);
    const NameScope inner(c.name());
    weights_.emplace_back(zeros({c.width(), o.units}), "weights", where);
  }
  if (o.use_bias) bias_.emplace(zeros({o.units}), "bias_weights", where);
}

Tensor Linear::operator()(const Table& table, Where where) const {
  CallerScope caller(where);
  const NameScope scope(name);
  Input in(table, false, where);
  in.measure(columns_.columns());
  Tensor total;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const Column& c = columns_.columns()[i];
    const NameScope inner(c.name());
    const Column::Node* of = c.node().looked_up();
    const Tensor part = of ? combined(of->ids(in), weights_[i], combiner_, {}, where)
                           : matmul(c.node().dense(in), weights_[i].value(where));
    total = total.defined() ? total + part : part;
  }
  return bias_ ? total + bias_->value(where) : total;
}

std::vector<Variable> Linear::variables() const {
  std::vector<Variable> all = weights_;
  if (bias_) all.push_back(*bias_);
  return all;
}
void Linear::name_variables(VariablePaths& paths) const {
  for (size_t i = 0; i < weights_.size(); ++i) {
    const VariablePaths::Scope scope(paths, columns_.columns()[i].name());
    paths.add("weights", weights_[i]);
  }
  if (bias_) paths.add("bias_weights", *bias_);
}

}  // namespace rill::data::features
