// Feature columns: how each raw column of a table (numbers, texts, ids) becomes numeric input of a model.
//
//   using namespace data::features;
//   Columns columns({bucketized("age", {18, 30, 65}), indicator(vocabulary("job", {"cook", "nurse"}, {.unknown = 1})),
//                    embedding(hashed("city", 1000), 8)});
//   Tensor x = columns(table);  // [rows, columns.width()]
//
// The functions make columns, which are values; a Columns applies them, eagerly and inside `function`. Buckets, hashes
// and crosses are TensorFlow's (tf.feature_column), number by number.
//
// A raw column is [rows], or [rows, n] if each row has up to n values. A missing value does not count: an empty text,
// -1 among integers, and NaN among numbers if `.missing` replaces it.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rill/data/vocabulary.h"
#include "rill/ops/names.h"
#include "rill/ops/sparse.h"
#include "rill/ops/variable.h"
#include "rill/serialize/table.h"
#include "rill/trace/function.h"

#pragma GCC visibility push(default)

namespace rill::data::features {

// --- Columns ---------------------------------------------------------------------------------------------------------

// A column: computed from one raw column or several. A plain name is the raw column of that name: a number where one is
// expected, its values in crossed().
class Column {
 public:
  struct Node;
  Column(const char* name, Where where = Where::current());
  Column(const std::string& name, Where where = Where::current());
  Column(std::nullptr_t) = delete;
  explicit Column(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  // Copies share what the column is; a move is a copy, so that what was moved from is whole.
  Column(const Column&) = default;
  Column& operator=(const Column&) = default;

  const std::string& name() const&;  // TensorFlow's: "age_bucketized", "age_bucketized_X_job"
  std::string name() const&& { return name(); }
  bool is_categorical() const;  // whether it yields ids, which indicator() and embedding() turn into numbers
  bool is_dense() const;        // whether TensorFlow treats it as numbers: no ids, or those of bucketized()
  int64_t buckets() const;      // the number of ids. Throws if it yields none
  int64_t width() const;        // in a Columns: of an embedding its dimension, of ids their buckets
  const Node& node() const { return *node_; }  // for the library

 private:
  std::shared_ptr<const Node> node_;
};

struct NumericOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  Shape shape = {};                                      // of a row; default: one number
  std::optional<double> missing = {};                    // replaces NaN
  std::function<Tensor(const Tensor&)> normalizer = {};  // of the f32 [rows, shape...]; keeps the shape
};
// Numbers as they are, f32.
Column numeric(const std::string& name, const NumericOptions& options = {}, Where where = Where::current());
// Which of the intervals between ascending boundaries a number is in: below the first, ..., from the last on. `source`:
// a name, or a numeric column, which may have several numbers a row. NaN is in the last.
Column bucketized(const Column& source, const std::vector<double>& boundaries, Where where = Where::current());

// The id of each text, or integer, in a list. Others are in one of `.unknown` buckets after the list, or have the id
// `.otherwise`; without either they count as missing.
Column vocabulary(const std::string& name, const Words& words, const VocabularyOptions& options = {},
                  Where where = Where::current());
Column vocabulary(const std::string& name, const Vocabulary& words, Where where = Where::current());
// The same of the lines of a file, of which the first `most` count.
Column vocabulary_file(const std::string& name, const std::string& path, int64_t most = -1,
                       const VocabularyOptions& options = {}, Where where = Where::current());

struct HashedOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  DType dtype = DType::string;  // of the raw column in Columns::signature(); a call takes texts and integers
};
// FarmHash of each text, modulo `buckets`; of an integer's digits.
Column hashed(const std::string& name, int64_t buckets, const HashedOptions& options = {},
              Where where = Where::current());

struct IdentityOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  std::optional<int64_t> otherwise = {};  // the id of values outside [0, buckets)
};
// Integers in [0, buckets) are ids. Others throw without an `.otherwise`; for the arguments of a traced function they
// count as missing.
Column identity(const std::string& name, int64_t buckets, const IdentityOptions& options = {},
                Where where = Where::current());

struct CrossedOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  uint64_t key = 0xDECAFCAFFE;  // of the hash: TensorFlow's default
  bool raw_last = false;        // names come after columns in the hash, as in TensorFlow with dense tensors
};
// One bucket for the combination of several columns: of names, texts and integers as they are; of other columns their
// ids. For rows with several values, each combination. A row that lacks one of them has none.
Column crossed(const std::vector<Column>& columns, int64_t buckets, const CrossedOptions& options = {},
               Where where = Where::current());
// The ids of a column, weighted by the numbers of another raw column with as many values.
Column weighted(const Column& ids, const std::string& weights, Where where = Where::current());

// How often, or with which weight, a row has each id: [rows, buckets].
Column indicator(const Column& ids, Where where = Where::current());

// How the vectors of a row's ids become one: their sum, divided by the sum of their weights, or by the root of the sum
// of the weights' squares.
enum class Combiner : uint8_t { mean, sum, sqrtn };
struct EmbeddingOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  Combiner combiner = Combiner::mean;
  // One of rill/nn.h, say. Default: Gaussian of deviation 1 / sqrt(dimension), truncated at 2.
  std::function<Tensor(const Shape&)> initializer = {};
  bool trainable = true;
  std::optional<double> max_norm = {};  // a longer vector is scaled to this length as it is read
  std::string name = "";                // of the scope of its Variable; default: the column's name
};
// A trained vector for each id: the Variable "<name>/embedding_weights" [buckets, dimension]. A row without ids gives
// zeros. Copies of the column share the Variable.
Column embedding(const Column& ids, int64_t dimension, const EmbeddingOptions& options = {},
                 Where where = Where::current());
// The same vectors for the ids of several columns, which must have equally many buckets.
std::vector<Column> shared_embeddings(const std::vector<Column>& ids, int64_t dimension,
                                      const EmbeddingOptions& options = {}, Where where = Where::current());

// --- Tables into tensors ---------------------------------------------------------------------------------------------

// Applies columns to tables. Columns of ids are used as indicators, a name as numeric(name).
class Columns {
 public:
  explicit Columns(const std::vector<Column>& columns, Where where = Where::current());
  Columns(const Columns&) = default;  // and no move, as of a Column
  Columns& operator=(const Columns&) = default;

  // f32 [rows, width]: the columns' numbers, side by side in the order of the columns. (TensorFlow orders them by their
  // names: sorted() does.) Columns of the table that are not used are not read.
  Tensor operator()(const Table& table, Where where = Where::current()) const;
  // The same as a sparse matrix, for linear models: for ids only their elements, for an indicator of 10^6 buckets one
  // element for each row. Not for embeddings.
  SparseTensor sparse(const Table& table, Where where = Where::current()) const;
  // A table by a vector of raw columns, in the order of inputs(): for functions whose arguments they are.
  Tensor operator()(const std::vector<Tensor>& raw, Where where = Where::current()) const {
    return (*this)(table(raw, where), where);
  }
  Table table(const std::vector<Tensor>& raw, Where where = Where::current()) const;

  int64_t width() const;                                            // of the result
  std::vector<int64_t> widths() const;                              // of each column
  std::vector<std::string> names() const;                           // of each column
  const std::vector<Column>& columns() const& { return columns_; }  // as they were given
  std::vector<Column> columns() const&& { return columns_; }
  Columns sorted() const;                   // by name, as TensorFlow has them
  std::vector<std::string> inputs() const;  // the raw columns, each once
  // The arguments of a traced function of the raw columns, by their names, for any number of rows.
  std::vector<ArgSpec> signature(Where where = Where::current()) const;
  // Tables of embeddings, each once.
  std::vector<Variable> variables() const;
  void name_variables(VariablePaths& paths) const;  // for variables(model), freeze() and checkpoints

 private:
  std::vector<Column> columns_;
};

// A sequence as a tensor.
struct Sequence {
  Tensor values;   // f32 [rows, steps, width]; zeros where a step is missing
  Tensor lengths;  // i64 [rows]: up to the last step that one of the columns has
};
// Applies columns to each step of raw columns [rows, steps], as sequence_* columns of TensorFlow: {rows, steps, width}.
class SequenceColumns {
 public:
  explicit SequenceColumns(const std::vector<Column>& columns, Where where = Where::current());
  Sequence operator()(const Table& table, Where where = Where::current()) const;
  int64_t width() const { return columns_.width(); }    // of a step
  const Columns& columns() const& { return columns_; }  // of a step
  Columns columns() const&& { return columns_; }
  std::vector<Variable> variables() const { return columns_.variables(); }  // tables of embeddings, each once
  void name_variables(VariablePaths& paths) const { columns_.name_variables(paths); }

 private:
  Columns columns_;
};

struct LinearOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  int64_t units = 1;
  bool use_bias = true;
  Combiner combiner = Combiner::sum;  // of the weights of a row's ids
  std::string name = "linear";
};
// A linear model of columns: of ids a row of weights each, which is looked up; of numbers a product. All weights begin
// as zeros.
class Linear {
 public:
  explicit Linear(const std::vector<Column>& columns, const LinearOptions& options = {},
                  Where where = Where::current());
  Linear(const Linear&) = default;  // and no move, as of a Column
  Linear& operator=(const Linear&) = default;
  Tensor operator()(const Table& table, Where where = Where::current()) const;  // [rows, units]
  std::vector<Variable> variables() const;
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }
  void name_variables(VariablePaths& paths) const;  // for variables(model), freeze() and checkpoints

  std::string name;

 private:
  Columns columns_;
  Combiner combiner_;
  std::vector<Variable> weights_;  // one for each column
  std::optional<Variable> bias_;
};

}  // namespace rill::data::features

#pragma GCC visibility pop
