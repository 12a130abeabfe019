// Running TensorFlow's nodes by rill's public functions. An operator is a rule: a function from a Call (the node with
// its operands and attributes) to values. Each family of rules has a table (import_*.cpp); find_rule() joins them.
// Nodes are run when their value is needed (Run::value), each once, after those that must come first by control
// dependencies.
//
// Inside `function` the interpreter runs once for each trace. Values that depend only on constants are computed at once
// and leave nothing in the trace; sizes that a signature leaves open are carried as Dims (Kind::sizes), so that Shape
// -> StridedSlice -> Pack -> Reshape keeps one trace for every size. A rule that has to know the elements of a value
// that the trace computes calls needs_values(): the model is then run op by op.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph.pb.h"
#include "rill/ops/ops.h"
#include "rill/serialize/model/imported_node.h"

namespace rill::tensorflow_in {

using imported::axis_of;

// A variable of the graph; it has no value until it is restored.
struct Slot {
  std::string name;
  const proto::NodeDef* node;        // the first one that stands for it
  Tensor value;                      // as it was restored
  std::optional<Variable> variable;  // once the model is made
  std::optional<bool> trainable;     // if the model's objects say so
};

// A TensorList: stacked rows. The first row that is written determines the shape of rows if that is open.
struct List {
  Dim length = 0;
  DType dtype = DType::f32;
  Tensor rows;  // [length, ...]; undefined: none written yet
};

struct Value {
  enum class Kind : uint8_t { absent, tensor, sizes, variable, list };
  Value() = default;
  Value(Tensor t, bool is_constant = false) : kind(Kind::tensor), tensor(std::move(t)), constant(is_constant) {}
  // Integers, a vector or one scalar: a constant tensor unless some of them is open.
  static Value sizes(const Dims& d, bool scalar, DType dtype);
  static Value of(Slot* slot);
  static Value of(List list);

  Kind kind = Kind::absent;
  Tensor tensor;
  bool constant = false;  // depends only on the file and on sizes
  Dims dims;              // of Kind::sizes
  bool scalar = false;
  DType dtype = DType::i64;
  Slot* slot = nullptr;
  std::shared_ptr<const List> list;
  std::vector<Value> parts = {};  // of integers that were packed along a first axis: some may be known
};
using Values = std::vector<Value>;

// Nodes that refer to each other by name: a graph's, or a function's.
struct Body {
  std::string name;
  std::unordered_map<std::string, const proto::NodeDef*> nodes;
  const proto::FunctionDef* function = nullptr;
};

// TensorFlow's values from outside of the graph.
class Outside {
 public:
  virtual Slot* variable(const proto::NodeDef& node) = 0;  // of a VarHandleOp
  virtual Tensor restored(const std::string& key) = 0;     // of a RestoreV2
  virtual Value constant(const proto::NodeDef& node) = 0;  // of a Const

 protected:
  ~Outside() = default;
};

struct Program {
  proto::GraphDef graph;
  Body main;
  std::map<std::string, Body> functions;
  Outside* outside = nullptr;
};
// Fills `main` and `functions`. Throws if two nodes have the same name.
void index(Program& program);

class Call;

// One body, while it is run.
class Run {
 public:
  Run(const Program& program, const Body& body) : program_(program), body_(body) {}
  // A branch of a choice made by Switch and Merge: values from before the choice are known to `outer`.
  Run(const Run& outer, std::string condition, bool taken)
      : program_(outer.program_), body_(outer.body_), outer_(&outer), condition_(std::move(condition)), taken_(taken) {}
  void set(const std::string& name, Value v) { done_[name] = {std::move(v)}; }
  // The value of "node", "node:1", "node:result:0" or an argument.
  Value value(const std::string& name);
  // Runs the node for its effect.
  void effect(const std::string& node) { finish(node); }

 private:
  void finish(const std::string& node);
  void run(const proto::NodeDef& node);
  Values run_switch(const Call& c) const;
  Values run_merge(const Call& c);
  // The results of a node, here or before the choice; null if it has not run.
  const Values* find(const std::string& node) const;

  const Program& program_;
  const Body& body_;
  const Run* outer_ = nullptr;
  std::string condition_;  // of a branch: the condition of its Switches
  bool taken_ = false;     // and which of their results is read
  std::unordered_map<std::string, Values> done_;
};

// One node, about to be run.
class Call : public imported::NodeCall<Call, Value, proto::NodeDef> {
 public:
  Call(const Program& program, const Body& body, const proto::NodeDef& node)
      : NodeCall(node), program(program), body(body) {}
  const Program& program;
  const Body& body;

  Axes axes(size_t i) const;

  const proto::AttrValue* attribute(const std::string& name) const;
  bool flag(const std::string& name, bool otherwise = false) const;
  std::vector<int64_t> integers(const std::string& name) const;
  DType dtype(const std::string& name) const;
  std::string function(const std::string& name) const;
  std::vector<std::string> functions(const std::string& name) const;
};

// TensorFlow 1's choices: for each value that a branch reads, a Switch produces one of two results, and Merge returns
// the result of the branch that ran. (switches.cpp)
bool is_switch(const proto::NodeDef& node);
bool is_merge(const proto::NodeDef& node);
// The condition of a Merge, the values that its Switches pass on, and the operand from each branch.
struct Choice {
  std::string condition;
  std::vector<std::string> passed;
  int operand[2] = {-1, -1};  // if the condition is false, and true
};
Choice choice_of(const Body& body, const proto::NodeDef& merge);
// For a variable of TensorFlow 1, which is its value wherever a tensor is needed.
bool is_reference(const Slot& slot);
Value value_of(const Call& c, const Slot& slot);

using Rule = Values (*)(const Call&);
using RuleTable = std::unordered_map<std::string_view, Rule>;
const RuleTable& elementwise_rules();
const RuleTable& shape_rules();
const RuleTable& matrix_rules();
const RuleTable& neural_rules();
const RuleTable& recurrent_rules();
const RuleTable& gradient_rules();
const RuleTable& quantised_rules();
const RuleTable& order_rules();
const RuleTable& segment_rules();
const RuleTable& signal_rules();
const RuleTable& image_rules();
const RuleTable& box_rules();
const RuleTable& random_rules();
const RuleTable& string_rules();
const RuleTable& control_rules();
// Null if there is none.
Rule find_rule(const std::string& op);
// For integers, some of which are open sizes: returns false if the general rule has to do it.
bool run_on_sizes(const Call& c, Values& out);

// The index of an operator's result "node:name:index".
size_t result_index(const std::string& op, const std::string& name, size_t index);

Values run_function(const Call& c, const std::string& name, const Values& arguments);
Tensor as_tensor(const Value& v, const std::string& what);
// The value of a TensorProto. Throws, naming `what`, if it is not valid.
Tensor read_tensor(const proto::TensorProto& p, const std::string& what);
DType dtype_of(proto::DataType type, const std::string& what);
double lowest(DType dtype);  // the lowest finite number of a floating dtype

}  // namespace rill::tensorflow_in
