// Tracer: turns the ops that a C++ function calls into a Graph. While one is installed on a thread, apply() appends to
// it instead of running; tensors then stand for graph values.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "rill/autodiff/forward_impl.h"
#include "rill/autodiff/recompute_policy.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/tensor/id_mark.h"
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

class Tracer final : public EnclosingTrace, public TangentTracer {
 public:
  // A separate trace, or one nested in the trace of this thread (a branch, a loop body), which may read the outer
  // trace's tensors: they become captured inputs.
  enum class Nesting : uint8_t { separate, inside };

  // Installs itself on this thread; `name` is the function's, for messages. Outer tapes pause, and record the complete
  // call.
  explicit Tracer(std::string name, Nesting nesting = Nesting::separate);
  ~Tracer();
  // A trace whose gradients may never be needed: if a gradient is impossible, the error is thrown by the call that
  // needs it. Nested traces do the same.
  void set_speculative() { speculative_ = true; }
  bool speculative() const override { return speculative_ || (parent_ && parent_->speculative()); }
  Tracer(const Tracer&) = delete;

  // A new graph input of this spec, and its tensor.
  Tensor add_argument(const Spec& spec, std::string name);
  // The results of the function.
  void add_output(const Tensor& t, const Where& where = Where());
  // The graph, complete; nothing may be traced afterwards.
  Graph finish();
  bool assigns(const VariableState& v) const override;
  const std::string& name() const override { return graph_.name; }
  bool runs_now() const override { return false; }
  // Number of nodes so far.
  size_t size() const { return graph_.nodes().size(); }
  // The value of a tensor; a tensor with elements becomes a captured input or a constant.
  // Errors name no line if the caller knows none.
  ValueId value_of(const Tensor& t, std::string_view user, const Where& where = Where());

  Tensors append(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, const Where& where) override;
  Tensor read(const Shared<VariableState>& v) override;
  void assign(const Shared<VariableState>& v, const Tensor& value) override;
  Tensor as_reading(const Shared<VariableState>& v, const Tensor& value) override;
  bool made_by(const Tensor& t, const Op& op, AttrsView& attrs) const override;
  Tensor constant_value(const Tensor& t) const override;
  Tensor append_rule(const Tensor& value, Operands in, const GradientRule& rule, const Where& where) override;
  Tensor append_tangent_rule(const Tensor& value, Operands in, const TangentRule& rule, const GradientRule& gradient,
                             const Where& where) override;
  bool is_constant(const Tensor& t) const override;
  [[noreturn]] void fail_read(std::string_view what, const Where& where) override;
  bool sees(const Tensor& t) const override;
  bool makes(const Tensor& t) const override;
  bool is_watched(const Tensor& t) const override;

  // Throws: each call of `function` creates this variable.
  [[noreturn]] static void fail_created_each_call(const VariableState& v, const std::string& function,
                                                  const Where& where = Where());

 private:
  Tensor append_marked(const Tensor& value, Operands in, const GradientRule& gradient, const TangentRule& tangents,
                       const Where& where);
  void name_sizes(Node& node) const;
  Tensor stand_for(ValueId v);
  ValueId capture(const Tensor& t);

  Graph graph_;
  std::vector<ValueId> values_;                     // by TensorRep::trace_value
  std::unordered_map<uint64_t, ValueId> captured_;  // by tensor id
  std::vector<Tensor> keep_;                        // so that no captured id is reused
  struct VariableValue {
    Shared<VariableState> variable;
    ValueId input;
    Tensor now;       // the result of a read
    Tensor assigned;  // the assigned value; undefined: none
    bool fresh;       // assigned and not yet read
  };
  std::vector<VariableValue> variables_;
  std::unordered_map<const VariableState*, size_t> variable_at_;  // in variables_
  int arguments_ = 0;                                             // so far
  void reject_lost_variables() const;

  const uint64_t first_variable_;  // ids from here on are of Variables created since
  VariableValue& variable(const Shared<VariableState>& v);
  Tensor variable_alias(const Tensor& value, const VariableValue& v);
  IdMark start_;
  const EnclosingTrace* parent_ = nullptr;  // whose tensors may be read
  const EnclosingTrace* rows_ = nullptr;    // of a separate trace: the vmap that calls it, whose rows may be captured
  bool speculative_ = false;
  ListenersScope level_;
  detail::MarkScope marks_{detail::TraceMarks{}};  // outer marks do not apply
};

}  // namespace rill

#pragma GCC visibility pop
