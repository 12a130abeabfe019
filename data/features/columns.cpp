// The columns of numbers and ids. node.h describes a column; Columns (apply.cpp) applies them.
#include <algorithm>
#include <cmath>

#include "rill/data/features/node.h"
#include "rill/ops/apply.h"

namespace rill::data::features {

void fail_column(const std::string& name, const std::string& message, const Where& where) {
  fail("data::features", fmt::format("column '{}': {}", name, message), where);
}

bool is_known(const Tensor& t) { return !t.is_symbolic(); }

const Raw* as_raw(const Column& c) { return dynamic_cast<const Raw*>(&c.node()); }

void require_ids(const char* function, const Column& c, const Where& where) {
  if (as_raw(c))
    fail_column(c.name(),
                fmt::format("{} takes a column of ids, and this is a name. say how its values become ids: "
                            "vocabulary(\"{}\", ...), hashed(\"{}\", 1000), identity(\"{}\", 10)",
                            function, c.name(), c.name(), c.name()),
                where);
  if (c.node().buckets() == 0)
    fail_column(c.name(),
                fmt::format("{} takes a column of ids, and this one gives numbers. bucketized(...) makes ids of them",
                            function),
                where);
}

namespace {

// Place [row] or [row, i] of element i of a raw column [rows, n].
std::string row_of(const Tensor& t, int64_t i) {
  const int64_t n = t.ndim() > 1 ? t.size() / std::max<int64_t>(t.dim(0), 1) : 1;
  return n == 1 ? fmt::format("row {}", i) : fmt::format("row {}, value {}", i / n, i % n);
}

std::string quoted(const Tensor& texts, int64_t i) {
  const std::string s = ravel(texts)(i).item<std::string>();
  return fmt::format("'{}'", s.size() > 60 ? s.substr(0, 60) + "..." : s);
}

// --- Numbers ---------------------------------------------------------------------------------------------------------

struct Numeric final : Column::Node {
  NumericOptions options;
  Numeric(const std::string& n, NumericOptions o, const Where& w) : Node(n, w), options(std::move(o)) {}

  void add_raw(std::vector<RawSpec>& all) const override { all.push_back({name, DType::f32, options.shape}); }
  int64_t width() const override { return options.shape.numel(); }
  // [rows, width], before what stands for missing numbers is a number of its own.
  Tensor dense(const Input& in) const override {
    Tensor x = in.raw(name, options.shape);
    if (x.dtype() == DType::string) reject_texts(x, in.where());
    if (is_complex(x.dtype())) fail_column(name, "it is complex. take its real part", in.where());
    x = astype(at(x, default_device()), f32);
    if (options.missing) x = where_nan(x);
    if (options.normalizer) {
      const Shape wanted = x.shape();
      x = options.normalizer(x);
      if (!x.defined() || x.shape() != wanted)
        fail_column(name,
                    fmt::format("the normalizer gives {} for {}, and must keep the shape",
                                x.defined() ? to_string(x.spec()) : "an undefined tensor", to_string(wanted)),
                    in.where());
      x = astype(x, f32);
    }
    return reshape(x, Shape{in.rows() * in.steps(), width()});
  }

 private:
  Tensor where_nan(const Tensor& x) const { return rill::where(isnan(x), float(*options.missing), x); }
  [[noreturn]] void reject_texts(const Tensor& x, const Where& where) const {
    std::string first;
    if (is_known(x) && x.size() > 0) first = fmt::format(", {} of row 0", quoted(x, 0));
    fail_column(name,
                fmt::format("numeric takes numbers, and the table has texts{}. strings::to_number makes numbers of "
                            "them; vocabulary and hashed take texts",
                            first),
                where);
  }
};

struct Bucketized final : Column::Node {
  Column source;
  Tensor boundaries;
  Bucketized(const Column& s, Tensor b, const Where& w)
      : Node(s.name() + "_bucketized", w), source(s), boundaries(std::move(b)) {}

  void add_raw(std::vector<RawSpec>& all) const override { source.node().add_raw(all); }
  int64_t buckets() const override { return (boundaries.size() + 1) * source.node().width(); }
  Ids ids(const Input& in) const override {
    const Tensor x = source.node().dense(in), edges = at(boundaries, x.device());
    // NaN is in the last one, also where a model is run by another program.
    const Tensor place = rill::where(isnan(x), int64_t(boundaries.size()), searchsorted(edges, x, true));
    const int64_t n = source.node().width();
    return {n == 1 ? place : place + at(arange(n).astype(i64), x.device()) * (boundaries.size() + 1), {}};
  }
};

// --- Ids -------------------------------------------------------------------------------------------------------------

// Texts and integers as they are in the table; floats mean that a wrong column was used.
void require_values(const std::string& name, const char* function, const Tensor& x, const Where& where) {
  if (x.dtype() == DType::string || is_integer(x.dtype()) || is_bool(x.dtype())) return;
  fail_column(name,
              fmt::format("{} takes texts or integers, and the table has {}. bucketized(\"{}\", ...) makes ids of "
                          "numbers; astype(i64) is for whole ones",
                          function, rill::name(x.dtype()), name),
              where);
}

Tensor is_present(const Tensor& x) {
  if (x.dtype() == DType::string) return strings::not_equal(x, tensor(""));
  return is_unsigned(x.dtype()) || is_bool(x.dtype()) ? ones(x.shape(), boolean) : x != -1;
}

struct InVocabulary final : Column::Node {
  Vocabulary words;
  InVocabulary(const std::string& n, const Vocabulary& v, const Where& w) : Node(n, w), words(v) {}

  void add_raw(std::vector<RawSpec>& all) const override { all.push_back({name, words.keys().dtype(), {}}); }
  int64_t buckets() const override { return words.buckets(); }
  Ids ids(const Input& in) const override {
    const Tensor x = at(in.raw(name), Device());
    require_values(name, "vocabulary", x, in.where());
    if ((x.dtype() == DType::string) != words.has_texts())
      fail_column(name,
                  words.has_texts() ? fmt::format("the vocabulary has texts, and the table has {}. "
                                                  "strings::as_string makes texts of numbers",
                                                  rill::name(x.dtype()))
                                    : "the vocabulary has numbers, and the table has texts. strings::to_number(x, i64) "
                                      "makes numbers of them",
                  in.where());
    return {at(rill::where(is_present(x), words.ids(x, in.where()), int64_t(-1)), default_device()), {}};
  }
};

struct Hashed final : Column::Node {
  int64_t count;
  DType dtype;
  Hashed(const std::string& n, int64_t c, DType d, const Where& w) : Node(n, w), count(c), dtype(d) {}

  void add_raw(std::vector<RawSpec>& all) const override { all.push_back({name, dtype, {}, dtype == DType::string}); }
  int64_t buckets() const override { return count; }
  Ids ids(const Input& in) const override {
    const Tensor x = at(in.raw(name), Device());
    require_values(name, "hashed", x, in.where());
    const Tensor texts = x.dtype() == DType::string ? x : strings::as_string(is_bool(x.dtype()) ? astype(x, i32) : x);
    return {at(rill::where(is_present(x), strings::to_hash_bucket(texts, count), int64_t(-1)), default_device()), {}};
  }
};

struct Identity final : Column::Node {
  int64_t count;
  std::optional<int64_t> otherwise;
  Identity(const std::string& n, int64_t c, std::optional<int64_t> o, const Where& w)
      : Node(n, w), count(c), otherwise(o) {}

  void add_raw(std::vector<RawSpec>& all) const override { all.push_back({name, DType::i64, {}}); }
  int64_t buckets() const override { return count; }
  Ids ids(const Input& in) const override {
    const Tensor x = in.raw(name);
    if (!is_integer(x.dtype()) && !is_bool(x.dtype()))
      fail_column(name,
                  fmt::format("identity takes integers, and the table has {}. {}", rill::name(x.dtype()),
                              x.dtype() == DType::string ? "vocabulary and hashed take texts"
                                                         : "astype(i64) makes integers of whole numbers"),
                  in.where());
    const Tensor all = at(astype(x, i64), default_device()), fits = logical_and(all >= 0, all < count);
    if (otherwise) return {rill::where(logical_or(fits, all == -1), all, *otherwise), {}};
    if (is_known(all) && !rill::all(logical_or(fits, all == -1)).item<bool>()) reject(all, in.where());
    return {rill::where(fits, all, int64_t(-1)), {}};
  }

 private:
  [[noreturn]] void reject(const Tensor& all, const Where& where) const {
    const std::vector<int64_t> ids = all.to_vector<int64_t>();
    const auto wrong = std::ranges::find_if(ids, [&](int64_t id) { return id < -1 || id >= count; });
    fail_column(name,
                fmt::format("{} has {}, which is not in [0, {}). {{.otherwise = 0}} gives such values an id",
                            row_of(all, wrong - ids.begin()), *wrong, count),
                where);
  }
};

// --- Several columns -------------------------------------------------------------------------------------------------

struct Crossed final : Column::Node {
  std::vector<Column> parts;  // none is crossed itself
  int64_t count;
  CrossedOptions options;
  Crossed(std::string n, std::vector<Column> p, int64_t c, CrossedOptions o, const Where& w)
      : Node(std::move(n), w), parts(std::move(p)), count(c), options(o) {}

  void add_raw(std::vector<RawSpec>& all) const override {
    for (const Column& c : parts) c.node().add_raw(all);
  }
  int64_t buckets() const override { return count; }
  Ids ids(const Input& in) const override {
    std::vector<Tensor> values, present;
    Shape shape{in.rows() * in.steps()};
    for (size_t i = 0; i < parts.size(); ++i) {
      const Column& c = parts[i];
      Tensor x;
      if (as_raw(c)) {
        x = at(in.raw(c.name()), Device());
        require_values(c.name(), "crossed", x, in.where());
        present.push_back(in_axis(is_present(x), i));
        if (is_bool(x.dtype())) x = astype(x, i64);
      } else {
        x = at(c.node().ids(in).ids, Device());
        present.push_back(in_axis(x >= 0, i));
      }
      shape.push_back(x.shape()[1]);
      values.push_back(in_axis(x, i));
    }
    Tensor whole = present[0];
    for (size_t i = 1; i < present.size(); ++i) whole = logical_and(whole, present[i]);
    const Tensor ids =
        rill::where(whole, strings::to_cross_bucket(values, count, options.key, in.where()), int64_t(-1));
    Dim combinations = 1;
    for (size_t i = 1; i < shape.size(); ++i) combinations = combinations * shape[i];
    return {at(reshape(ids, Shape{shape[0], combinations}), default_device()), {}};
  }

 private:
  // [rows, n] with axes of size 1, so that part i has the axis 1 + i.
  Tensor in_axis(const Tensor& x, size_t i) const {
    Shape shape(1 + parts.size(), 1);
    shape[0] = x.shape()[0];
    shape[1 + i] = x.shape()[1];
    return reshape(x, shape);
  }
};

struct Weighted final : Column::Node {
  Column source;
  std::string by;
  Weighted(const Column& s, std::string b, const Where& w)
      : Node(fmt::format("{}_weighted_by_{}", s.name(), b), w), source(s), by(std::move(b)) {}

  void add_raw(std::vector<RawSpec>& all) const override {
    source.node().add_raw(all);
    all.push_back({by, f32, {}});
  }
  int64_t buckets() const override { return source.node().buckets(); }
  Ids ids(const Input& in) const override {
    Ids of = source.node().ids(in);
    Tensor weights = in.raw(by);
    if (weights.dtype() == DType::string || is_complex(weights.dtype()))
      fail_column(by, fmt::format("weights are numbers, and the table has {}", rill::name(weights.dtype())),
                  in.where());
    if (weights.shape() != of.ids.shape())
      fail_column(by,
                  fmt::format("there is a weight for each value of '{}'. values are {}, weights {}", source.name(),
                              to_string(of.ids.shape()), to_string(weights.shape())),
                  in.where());
    weights = at(weights, default_device());
    of.weights = of.weights.defined() ? of.weights * astype(weights, f32) : astype(weights, f32);
    return of;
  }
};

}  // namespace

bool as_bucketized(const Column& c) { return dynamic_cast<const Bucketized*>(&c.node()) != nullptr; }

namespace {

void require_buckets(const char* function, const std::string& name, int64_t buckets, const Where& where) {
  if (buckets < 1) fail_column(name, fmt::format("{} has {} buckets and needs at least 1", function, buckets), where);
}

template <class N, class... A>
Column made(A&&... arguments) {
  return Column(std::make_shared<const N>(std::forward<A>(arguments)...));
}

}  // namespace

// --- The functions ---------------------------------------------------------------------------------------------------

Column::Column(const char* name, Where where) : Column(std::string(name ? name : ""), where) {}
Column::Column(const std::string& name, Where where) : node_(std::make_shared<const Raw>(name, where)) {
  if (name.empty()) fail("data::features", "a raw column's name is empty", where);
}
const std::string& Column::name() const& { return node_->name; }
bool Column::is_categorical() const { return node_->buckets() > 0; }
bool Column::is_dense() const { return !is_categorical() || as_bucketized(*this); }
int64_t Column::buckets() const {
  if (node_->buckets() == 0) fail_column(name(), "it gives no ids", node_->where);
  return node_->buckets();
}
int64_t Column::width() const { return as_raw(*this) ? 1 : node_->width(); }

Column numeric(const std::string& name, const NumericOptions& options, Where where) {
  const Column named(name, where);
  for (Dim d : options.shape)
    if (d < 1) fail_column(name, fmt::format("the shape {} has a size below 1", to_string(options.shape)), where);
  return made<Numeric>(name, options, where);
}

Column with_numbers(const Column& c) { return as_raw(c) ? numeric(c.name(), {}, c.node().where) : c; }

Column bucketized(const Column& source, const std::vector<double>& boundaries, Where where) {
  CallerScope caller(where);
  const Column numbers = with_numbers(source);
  if (!dynamic_cast<const Numeric*>(&numbers.node()))
    fail_column(source.name(), "bucketized takes a name or a numeric column", where);
  if (boundaries.empty()) fail_column(source.name(), "there are no boundaries", where);
  for (size_t i = 0; i < boundaries.size(); ++i)
    if (!std::isfinite(boundaries[i]) || (i > 0 && !(float(boundaries[i - 1]) < float(boundaries[i]))))
      fail_column(source.name(),
                  fmt::format("boundary {} is {}{}. they must be finite and ascend", i, boundaries[i],
                              i > 0 ? fmt::format(" after {}", boundaries[i - 1]) : ""),
                  where);
  const EagerScope eager;
  return made<Bucketized>(numbers, tensor(boundaries).astype(f32), where);
}

Column vocabulary(const std::string& name, const Vocabulary& words, Where where) {
  return made<InVocabulary>(Column(name, where).name(), words, where);
}
Column vocabulary(const std::string& name, const Words& words, const VocabularyOptions& options, Where where) {
  CallerScope caller(where);
  return vocabulary(name, Vocabulary(words, options, where), where);
}
Column vocabulary_file(const std::string& name, const std::string& path, int64_t most, const VocabularyOptions& options,
                       Where where) {
  CallerScope caller(where);
  return vocabulary(name, Vocabulary::from_file(path, most, options, where), where);
}

Column hashed(const std::string& name, int64_t buckets, const HashedOptions& options, Where where) {
  require_buckets("hashed", Column(name, where).name(), buckets, where);
  if (options.dtype != DType::string && !is_integer(options.dtype))
    fail_column(name, fmt::format("the dtype is {} and must be string or an integer", rill::name(options.dtype)),
                where);
  return made<Hashed>(name, buckets, options.dtype, where);
}

Column identity(const std::string& name, int64_t buckets, const IdentityOptions& options, Where where) {
  require_buckets("identity", Column(name, where).name(), buckets, where);
  if (options.otherwise && (*options.otherwise < 0 || *options.otherwise >= buckets))
    fail_column(name, fmt::format("otherwise is {} and must be in [0, {})", *options.otherwise, buckets), where);
  return made<Identity>(name, buckets, options.otherwise, where);
}

Column crossed(const std::vector<Column>& columns, int64_t buckets, const CrossedOptions& options, Where where) {
  std::vector<Column> parts;
  std::vector<std::string> names;
  for (const Column& c : columns) {
    if (const auto* inner = dynamic_cast<const Crossed*>(&c.node()))
      parts.insert(parts.end(), inner->parts.begin(), inner->parts.end());
    else parts.push_back(c);
  }
  for (const Column& c : parts) {
    if (!as_raw(c)) require_ids("crossed", c, where);
    names.push_back(c.name());
  }
  if (columns.size() < 2) fail("data::features", "crossed takes two columns or more", where);
  std::ranges::sort(names);
  std::string name = names[0];
  for (size_t i = 1; i < names.size(); ++i) name += "_X_" + names[i];
  require_buckets("crossed", name, buckets, where);
  if (options.raw_last) std::ranges::stable_partition(parts, [](const Column& c) { return !as_raw(c); });
  return made<Crossed>(name, parts, buckets, options, where);
}

Column weighted(const Column& ids, const std::string& weights, Where where) {
  require_ids("weighted", ids, where);
  return made<Weighted>(ids, Column(weights, where).name(), where);
}

}  // namespace rill::data::features
