// Writing ONNX nodes: Exporter walks a traced graph and appends, for each node, what the record's rule (export_rules.h)
// says. Start at Exporter::run. Another format derives from it (tensorflow/graph_writer.h): the rules here are written
// in ONNX's operators, and it translates each of them.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "onnx.pb.h"
#include "rill/ops/op.h"
#include "rill/serialize/export_model.h"
#include "rill/serialize/onnx/out/opsets.h"
#include "rill/tensor/dim_table.h"
#include "rill/trace/graph.h"
#include "rill/trace/graph/unique_names.h"
#include "rill/trace/graph/variable_values.h"

namespace rill::onnx_out {

// A value of the ONNX graph that is being written. "" is an optional operand that is left out.
struct Value {
  std::string name;
  DType dtype = DType::f32;
};
using Values = std::vector<Value>;

struct Attribute {
  std::string name;
  std::variant<int64_t, double, std::string, std::vector<int64_t>, onnx::GraphProto*> value;
};
using Attributes = std::vector<Attribute>;

onnx::TensorProto::DataType element_type(DType dtype);

// One ONNX graph: the model's, or one inside an If, Loop or Scan, which sees the values of those around it.
struct Scope {
  onnx::GraphProto* proto = nullptr;  // null in other formats
  Scope* outer = nullptr;
  std::set<std::string> made = {};       // by its nodes
  std::map<uint32_t, Value> sizes = {};  // open sizes, by the index of their expression
};

struct Idiom;

// The last node of a function of rill that is an operator of the format (idioms.h): its operand and its number.
struct IdiomMatch {
  const Idiom* idiom = nullptr;
  ValueId x;
  double p = 0;
};

// A graph of rill that is being written, and the exported values of its values.
struct Frame {
  const Graph& graph;
  Scope& scope;
  std::vector<Values> values;           // by node; empty: not yet
  std::vector<char> begun;              // by node
  std::vector<std::vector<char>> read;  // by node and result: whether something reads it
  const Node* stands_for = nullptr;     // the user's node for which a composite is written
  std::map<int32_t, IdiomMatch> idioms;

  Frame(const Graph& g, Scope& s, std::map<int32_t, IdiomMatch> found = {});
};

struct Rule;

class Exporter {
 public:
  // `values`: of the graph's Variables.
  Exporter(const Graph& graph, Shared<DimTable> dims, const VariableValues& values, const ExportOptions& options,
           const Where& where);
  virtual ~Exporter() = default;
  Exporter(const Exporter&) = delete;
  onnx::ModelProto run();

  // --- For rules: each appends nodes to the graph that is being written now -----------------------------------------

  virtual Values ops(std::string_view type, const Values& in, const Attributes& attributes,
                     const std::vector<DType>& out);
  // One result, by default of the first operand's dtype.
  Value op(std::string_view type, const Values& in, const Attributes& attributes = {}, std::optional<DType> out = {});
  // An initializer: equal ones are shared.
  virtual Value constant(const Tensor& t);
  // A constant that was a weight, under its name.
  virtual Value named_constant(const Tensor& t, const std::string& name);
  // One number of any dtype.
  Value number(double x, DType dtype);
  Value ints(const std::vector<int64_t>& values);
  // Sizes, as an i64 vector; of a single one, [1]. Open ones are computed.
  Value sizes(std::span<const Dim> dims);
  Value size(Dim d) { return sizes({&d, 1}); }
  // Whether sizes() can write it: not if it is the size of a value that is still to be written.
  bool can_write(Dim d) const;
  Value cast(const Value& v, DType dtype);
  Value transposed(const Value& v, const std::vector<int64_t>& axes);
  Value reshaped(const Value& v, std::span<const Dim> shape);
  // `v` from `start` to `stop` along an axis that is not negative; both as sizes() gives them.
  virtual Value cut(const Value& v, int64_t axis, const Value& start, const Value& stop);
  // Writes rill's own functions on these values, each of that spec, in place of a node.
  using Composite = Callback<Tensors(std::span<const Tensor> in)>;
  Values composed(const Values& in, std::span<const Spec> specs, const Composite& f);
  // Writes the graph with these values as its inputs, in a scope of its own whose results are unique.
  void write_inner(Scope& scope, const Graph& g, const Values& inputs, Values& results);
  // `v`, as a result of `scope` that no other result is.
  Value own_result(Scope& scope, const Value& v, const std::set<std::string>& taken);
  Scope& scope() { return *now_; }
  // While it lives, another graph is written.
  class Inside {
   public:
    Inside(Exporter& e, Scope& scope) : e_(e), outer_(e.now_) { e.now_ = &scope; }
    ~Inside() { e_.now_ = outer_; }
    Inside(const Inside&) = delete;

   private:
    Exporter& e_;
    Scope* outer_;
  };
  std::string fresh(const std::string& wanted);
  // "x.dim(0)", or its name in the options.
  std::string size_name(const std::string& size) const;
  void fill(onnx::ValueInfoProto& info, const std::string& name, const Spec& spec) const;
  // Throws: `n` cannot be exported, for this reason.
  [[noreturn]] void refuse(const Node& n, const std::string& reason) const;
  const Where& where() const { return where_; }
  bool is_never_negative(Dim d) const { return dims_ ? dims_->is_never_negative(d) : d.hint() >= 0; }

 protected:
  // Null if there is none.
  virtual const Rule* find_rule(const Op& op) const;
  virtual std::span<const Idiom> idioms() const;
  virtual std::string_view format() const { return "ONNX"; }
  // Whether complex numbers may be written, as pairs.
  virtual bool writes_pairs() const { return true; }
  void reserve_outputs();
  // Notes the open sizes of an argument; throws if they are those of a graph without its function.
  void note_sizes(const Value& input, const Spec& spec);
  // The value of a captured tensor or a Variable.
  Tensor weight_of(const GraphInput& in) const;
  // Throws unless there is one name for each result.
  void check_output_names() const;
  void write(Frame& f);
  const Value& value(Frame& f, ValueId v);
  // Checks the guards of the trace, and those that rules have added so far.
  void check_guards() const;
  void try_sizes() const;

  const Graph& graph_;
  Shared<DimTable> dims_;
  const size_t traced_guards_;  // the number of guards of dims_ from the trace
  const VariableValues& variables_;
  const ExportOptions& options_;
  const Where where_;
  Scope main_;
  Scope* now_ = &main_;
  std::map<uint32_t, Frame*> frames_;               // by the serial number of their trace
  std::vector<std::unique_ptr<Graph>> composites_;  // kept, with their frames, for sizes that refer to their values
  std::vector<std::unique_ptr<Frame>> kept_frames_;
  UniqueNames names_;
  const Node* node_ = nullptr;  // the node that is being written

 private:
  void add_inputs(Frame& main);
  void add_outputs(Frame& main);
  void describe();
  [[noreturn]] void refuse_sizes(const std::string& reason) const;
  [[noreturn]] void refuse_complex(const std::string& name) const;
  void write_node(Frame& f, size_t i);
  Values apply_rule(Frame& f, const Node& n, Values in);
  Value open_size(Dim d);
  void write_size(Dim d, DimTable::Expression e);
  const Value* written_size(Dim d) const;  // if it is visible to the graph that is being written; else null
  void rename(const std::map<std::string, std::string>& names, onnx::GraphProto& g) const;

  onnx::ModelProto model_;
  OpsetNeed need_;
  struct OpenAxis {
    Value input;
    int64_t axis, traced;  // `traced`: the size in the trace
  };
  std::map<int32_t, OpenAxis> symbols_;
  std::map<std::string, Value> constants_;  // by dtype, shape and bytes
};

}  // namespace rill::onnx_out
