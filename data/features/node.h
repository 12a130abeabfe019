// The inside of a column: the raw columns that it reads, and its ids or numbers.
#pragma once
#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "rill/data/features.h"
#include "rill/devices/registry.h"
#include "rill/ops/ops.h"
#include "rill/ops/strings.h"

namespace rill::data::features {

// The raw columns of one call: [rows, n] each.
class Input {
 public:
  Input(const Table& table, bool steps, const Where& where);
  // A raw column as [rows, n]; in a sequence [rows * steps, n].
  Tensor raw(const std::string& name) const;
  // As above, with a shape of a row: [rows, shape...].
  Tensor raw(const std::string& name, const Shape& row) const;
  // Sets the number of rows of these raw columns. Throws if they differ.
  void measure(const std::vector<Column>& columns);
  Dim rows() const { return rows_; }
  Dim steps() const { return steps_; }  // of a sequence
  const Where& where() const { return where_; }

 private:
  const Tensor& find(const std::string& name) const;

  const Table& table_;
  bool sequence_;
  Dim rows_ = 0, steps_ = 1;
  const Where& where_;
};

// Ids of rows: i64 [rows, n], -1 if missing. Weights, if there are any: f32 of the same shape.
struct Ids {
  Tensor ids, weights;
};

// The requirements for a raw column, for signatures.
struct RawSpec {
  std::string name;
  DType dtype;
  Shape row;             // of a row
  bool guessed = false;  // texts, as nothing says what it holds
};

struct Column::Node {
  std::string name;
  Where where;
  Node(std::string n, const Where& w) : name(std::move(n)), where(w) {}
  virtual ~Node() = default;
  Node(const Node&) = delete;

  virtual void add_raw(std::vector<RawSpec>& all) const = 0;
  // The number of ids. 0: it yields numbers.
  virtual int64_t buckets() const { return 0; }
  virtual Ids ids(const Input&) const { return {}; }
  virtual int64_t width() const { return buckets(); }
  // f32 [rows, width].
  virtual Tensor dense(const Input& in) const;
  // The ids that a linear model or a sparse matrix looks up, if the numbers depend only on ids.
  virtual const Node* looked_up() const { return buckets() > 0 ? this : nullptr; }
  virtual const Variable* table() const { return nullptr; }
};

// The raw column of a name, whose kind is not known yet.
struct Raw final : Column::Node {
  using Node::Node;
  void add_raw(std::vector<RawSpec>& all) const override { all.push_back({name, DType::string, {}, true}); }
};
const Raw* as_raw(const Column& c);
// TensorFlow takes a bucketized column as numbers without an indicator's name.
bool as_bucketized(const Column& c);

// Texts are on the host; what is computed from them moves to the model's device.
inline Tensor at(const Tensor& t, Device device) { return t.device() == device ? t : t.to(device); }
// Throws, naming the column.
[[noreturn]] void fail_column(const std::string& name, const std::string& message, const Where& where);
// A column of numbers or ids; for a name, numeric(name).
Column with_numbers(const Column& c);
// Throws unless it yields ids.
void require_ids(const char* function, const Column& c, const Where& where);
// Whether the elements may be read now.
bool is_known(const Tensor& t);
// How often each row has each of `buckets` ids, by weight.
Tensor counts_of(const Ids& ids, int64_t buckets);
// The rows of `table` that ids name, combined: [rows, width].
Tensor combined(const Ids& ids, const Tensor& table, Combiner how, std::optional<double> max_norm, const Where& where);

}  // namespace rill::data::features
