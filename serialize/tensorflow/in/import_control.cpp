// Variables, functions, choices, loops, and the TensorLists that loops carry.
//
// A loop becomes while_loop: values that its body returns unchanged stay outside, TensorLists are carried as their
// rows. A list without rows gets its shape from a step that is only run for that.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "rill/ops/enclosing_trace.h"
#include "rill/serialize/model/imported_control.h"
#include "rill/serialize/tensorflow/in/interpreter.h"

namespace rill::tensorflow_in {
namespace {

using imported::Tensors;
using imported::truth;

// --- Variables -------------------------------------------------------------------------------------------------------

Slot& slot_of(const Call& c, size_t i = 0) {
  if (i >= c.count() || c.in[i].kind != Value::Kind::variable) c.reject(fmt::format("operand {} is no variable", i));
  return *c.in[i].slot;
}
Tensor tensor_of(const Call& c, const Slot& slot) {
  if (slot.variable) return slot.variable->value();
  if (!slot.value.defined()) c.reject(fmt::format("variable '{}' has no value: no checkpoint gives it one", slot.name));
  return slot.value;
}
Values handle_rule(const Call& c) { return {Value::of(c.program.outside->variable(c.node))}; }
Values read_rule(const Call& c) { return {tensorflow_in::value_of(c, slot_of(c))}; }
Values assign_rule(const Call& c) {
  Slot& slot = slot_of(c);
  const Tensor value = c.x(1);
  if (slot.variable) slot.variable->assign(value);
  else if (!slot.value.defined()) slot.value = value;  // while it is restored
  else c.reject("assigns a variable that cannot change. import the model with {.trainable = true}");
  return {};
}
Values assign_add_rule(const Call& c) {
  Slot& slot = slot_of(c);
  if (!slot.variable) c.reject("adds to a variable that cannot change");
  slot.variable->assign(slot.variable->value() + c.x(1));
  return {};
}
Values assign_sub_rule(const Call& c) {
  Slot& slot = slot_of(c);
  if (!slot.variable) c.reject("subtracts from a variable that cannot change");
  slot.variable->assign(slot.variable->value() - c.x(1));
  return {};
}
// The same for TensorFlow 1's variables, which are returned again.
template <Rule rule>
Values on_reference(const Call& c) {
  rule(c);
  return {Value::of(&slot_of(c))};
}
Values gather_rule(const Call& c) {
  if (c.integer("batch_dims", 0) != 0) c.reject("batch_dims are not understood");
  return {take(tensor_of(c, slot_of(c)), c.x(1), 0)};
}
Values gather_nd_rule(const Call& c) { return {gather_nd(tensor_of(c, slot_of(c)), c.x(1))}; }
Values has_value_rule(const Call& c) {
  const Slot& slot = slot_of(c);
  return {Value(full({}, slot.variable || slot.value.defined()), true)};
}
Values shape_rule(const Call& c) {
  const Shape s = tensor_of(c, slot_of(c)).shape();
  return {Value::sizes(Dims(s.begin(), s.end()), false, c.attribute("out_type") ? c.dtype("out_type") : i32)};
}
Values restore_rule(const Call& c) {
  const Tensor names = c.known(1);
  Values out;
  for (const std::string& key : names.to_vector<std::string>()) out.emplace_back(c.program.outside->restored(key));
  return out;
}
// Has an effect while a program of TensorFlow runs, and returns nothing.
Values nothing_rule(const Call&) { return {}; }

// --- Functions and choices -------------------------------------------------------------------------------------------

// Run::run does it.
Values unpaired_rule(const Call& c) { c.reject("stands where it cannot be run"); }

Values call_rule(const Call& c) { return run_function(c, c.function("f"), c.in); }

Values without_first(const Call& c) {
  if (c.in.empty()) c.reject("operand 0 is missing");
  return {c.in.begin() + 1, c.in.end()};
}
Values if_rule(const Call& c) {
  const std::string names[] = {c.function("then_branch"), c.function("else_branch")};
  const Values operands = without_first(c);
  auto run = [&](size_t i) { return run_function(c, names[i], operands); };
  if (c.knows(0)) return run(truth(c.known(0)) ? 0 : 1);
  return imported::chosen(c, imported::as_condition(c.x(0)), 2, run);
}
Values case_rule(const Call& c) {
  const std::vector<std::string> names = c.functions("branches");
  if (names.empty()) c.reject("has no branches");
  const Values operands = without_first(c);
  auto run = [&](size_t i) { return run_function(c, names[i], operands); };
  if (c.knows(0)) {
    const double i = c.number(0);
    const bool fits = i >= 0 && i < double(names.size());
    return run(fits ? size_t(i) : names.size() - 1);
  }
  return imported::chosen(c, reshape(c.x(0), {}), names.size(), run);
}

// --- TensorLists -----------------------------------------------------------------------------------------------------

const List& list_of(const Call& c, size_t i = 0) {
  if (i >= c.count() || c.in[i].kind != Value::Kind::list) c.reject(fmt::format("operand {} is no TensorList", i));
  return *c.in[i].list;
}
// Rows of a shape that is known.
Tensor no_rows(const List& list, const Dims& row) {
  Shape shape{list.length};
  for (Dim d : row) shape.push_back(d);
  return zeros(shape, list.dtype);
}
Values reserve_rule(const Call& c) {
  List list{c.dim(1), c.dtype("element_dtype"), {}};
  const Dims row = c.in[0].kind == Value::Kind::sizes || c.x(0).ndim() == 1 ? c.dims(0) : Dims{-1};
  bool known = true;
  for (Dim d : row) known = known && (d.is_open() || d >= 0);
  if (known) list.rows = no_rows(list, row);
  return {Value::of(list)};
}
Values from_tensor_rule(const Call& c) {
  const Tensor x = c.x(0);
  return {Value::of(List{x.dim(0), x.dtype(), x})};
}
Values length_rule(const Call& c) { return {Value::sizes({list_of(c).length}, true, i32)}; }
Values get_rule(const Call& c) {
  const List& list = list_of(c);
  if (!list.rows.defined()) c.reject("reads a list that nothing has been written to");
  return {take(list.rows, c.x(1), 0)};
}
// Whether lists grow as they are written: a TensorArray whose size is not known before.
bool grows(const Call& c) { return c.flag("resize_if_index_out_of_bounds"); }
void grow(List& list, Dim length) {
  if (list.rows.defined() && length != list.length) {
    Shape more = list.rows.shape();
    more[0] = length - list.length;
    list.rows = concat({list.rows, zeros(more, list.dtype)}, 0);
  }
  list.length = length;
}
Values set_rule(const Call& c) {
  List list = list_of(c);
  const Tensor at = c.x(1), item = c.x(2);
  if (grows(c) && c.knows(1)) grow(list, larger(list.length, c.dim(1) + 1));
  if (!list.rows.defined()) list.rows = no_rows(list, Dims(item.shape().begin(), item.shape().end()));
  GatherAttrs first;
  first.axes = {0};
  list.rows = scatter(list.rows, {at}, item, first, ScatterMode::set);
  return {Value::of(list)};
}
Values stack_rule(const Call& c) {
  const List& list = list_of(c);
  if (list.rows.defined()) return {list.rows};
  const Dims row = c.dims(1);
  for (Dim d : row)
    if (!d.is_open() && d < 0) c.reject("stacks a list that nothing has been written to");
  return {no_rows(list, row)};
}

// A list without a length: rows are pushed and popped at its end.
Values empty_list_rule(const Call& c) { return {Value::of(List{0, c.dtype("element_dtype"), {}})}; }
Values push_rule(const Call& c) {
  List list = list_of(c);
  const Tensor row = expand_dims(c.x(1), 0);
  list.rows = list.rows.defined() && !(list.length == 0) ? concat({list.rows, row}, 0) : row;
  list.length = list.rows.dim(0);
  return {Value::of(list)};
}
Values pop_rule(const Call& c) {
  List list = list_of(c);
  if (!list.rows.defined() || list.length == 0) c.reject("takes a row from an empty list");
  const Dim last = list.length - 1;
  const Tensor row = squeeze(slice_axis(list.rows, 0, last, list.length), 0);
  list.rows = slice_axis(list.rows, 0, 0, last);
  list.length = last;
  return {Value::of(list), Value(row)};
}
Values resize_rule(const Call& c) {
  List list = list_of(c);
  const Dim length = c.dim(1);
  if (!length.is_open() && length < 0) c.reject("a negative length");
  if (list.rows.defined() && length < list.length) {
    list.rows = slice_axis(list.rows, 0, 0, length);
    list.length = length;
  } else {
    grow(list, length);
  }
  return {Value::of(list)};
}
Values gather_list_rule(const Call& c) {
  const List& list = list_of(c);
  if (!list.rows.defined()) c.reject("reads a list that nothing has been written to");
  return {take(list.rows, c.x(1), 0)};
}
// Rows of operand 0 placed at the indices of operand 1, in a new list that is as long as necessary, or as operand 3
// says.
Values scatter_list_rule(const Call& c) {
  const Tensor rows = c.x(0), at = c.known(1);
  int64_t length = c.has(3) ? int64_t(c.dim(3)) : -1;
  {
    const EagerScope eager;
    for (int64_t i : at.to_vector<int64_t>()) length = std::max(length, i + 1);
  }
  if (length > int64_t(1) << 28) c.reject("an index is out of range");
  Shape shape = rows.shape();
  shape[0] = std::max<int64_t>(length, 0);
  GatherAttrs first;
  first.axes = {0};
  return {Value::of(
      List{shape[0], rows.dtype(), scatter(zeros(shape, rows.dtype()), {at}, rows, first, ScatterMode::set)})};
}
// The rows' first axes joined, and the length of each.
Values concat_list_rule(const Call& c) {
  const List& list = list_of(c);
  if (!list.rows.defined() || list.rows.ndim() < 2) c.reject("joins rows that have no first axis");
  Shape shape(list.rows.shape().begin() + 1, list.rows.shape().end());
  const Dim each = shape[0];
  shape[0] = each * list.length;
  return {Value(reshape(list.rows, shape)), Value(broadcast_to(Tensor(each).astype(i64), {list.length}))};
}
Values element_shape_rule(const Call& c) {
  const List& list = list_of(c);
  if (!list.rows.defined()) c.reject("asks for the shape of a list that nothing has been written to");
  const DType d = c.attribute("shape_type") ? c.dtype("shape_type") : i32;
  return {Value::sizes(Dims(list.rows.shape().begin() + 1, list.rows.shape().end()), false, d)};
}

// --- Loops -----------------------------------------------------------------------------------------------------------

struct Loop {
  const Call& c;
  std::string condition, body;
  std::vector<bool> constant;  // returned unchanged by the body
  Values now;

  explicit Loop(const Call& call)
      : c(call), condition(call.function("cond")), body(call.function("body")), now(call.in) {
    auto found = c.program.functions.find(body);
    if (found == c.program.functions.end()) c.reject(fmt::format("there is no function '{}'", body));
    const proto::FunctionDef& f = *found->second.function;
    const int n = f.signature().output_arg_size();
    if (n != int(now.size()) || f.signature().input_arg_size() != n)
      c.reject("its body takes or gives another number of values than are carried");
    for (int i = 0; i < n; ++i) {
      const std::optional<size_t> from = argument(found->second, result(found->second, i));
      constant.push_back(from == size_t(i));
    }
    auto test = c.program.functions.find(condition);
    if (test == c.program.functions.end()) c.reject(fmt::format("there is no function '{}'", condition));
    const proto::OpDef& signature = test->second.function->signature();
    if (signature.input_arg_size() != int(now.size()) || signature.output_arg_size() != 1)
      c.reject("its condition does not take what is carried, or does not give one value");
  }
  bool is_carried(size_t i) const { return !constant[i]; }

  // The values that while_loop carries: tensors, and the rows of lists.
  Tensors carried(const Values& values) const {
    Tensors out;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!is_carried(i)) continue;
      const Value& v = values[i];
      out.push_back(v.kind == Value::Kind::list ? v.list->rows : as_tensor(v, "a carried value"));
    }
    return out;
  }
  Values values(const Tensors& state) const {
    Values out = now;
    size_t next = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      if (!is_carried(i)) continue;
      const Tensor& t = state[next++];
      if (out[i].kind == Value::Kind::list) {
        List list = *out[i].list;
        list.rows = t;
        out[i] = Value::of(list);
      } else {
        out[i] = t;
      }
    }
    return out;
  }
  // Gives growing lists their full length, if each step writes at a counter and the number of steps is known.
  void grow_lists() {
    const std::optional<Dim> count = steps();
    for (size_t i = 0; i < now.size(); ++i) {
      if (!is_carried(i) || now[i].kind != Value::Kind::list) continue;
      const Body& step = c.program.functions.at(body);
      std::string name = result(step, int(i));
      const proto::NodeDef* n = source(step, name);
      if (!n || n->op() != "TensorListSetItem" || !grows(Call(c.program, step, *n))) continue;
      const std::optional<size_t> at = n->input_size() > 1 ? argument(step, n->input(1)) : std::nullopt;
      if (!count || !at || !is_carried(*at) || growth(step, *at) != 1 || !c.knows(*at))
        c.reject("a list grows as the loop runs, by a number of rows that is not known before");
      List list = *now[i].list;
      grow(list, larger(list.length, c.dim(*at) + *count));
      now[i] = Value::of(list);
    }
  }
  // Gives lists without rows the shape that a step writes.
  void shape_lists() {
    bool open = false;
    for (size_t i = 0; i < now.size(); ++i)
      open |= is_carried(i) && now[i].kind == Value::Kind::list && !now[i].list->rows.defined();
    if (!open) return;
    const Values after = run_function(c, body, now);
    for (size_t i = 0; i < now.size(); ++i) {
      if (!is_carried(i) || now[i].kind != Value::Kind::list || now[i].list->rows.defined()) continue;
      if (after[i].kind != Value::Kind::list || !after[i].list->rows.defined())
        c.reject("it carries a list to which no step writes");
      List list = *now[i].list;
      list.rows = zeros_like(after[i].list->rows);
      now[i] = Value::of(list);
    }
  }
  // The number of steps, if the condition determines it: that counters, which start at known numbers and grow by a
  // known one, are below limits that do not change. Throws if the condition says only that, and a counter does not
  // grow.
  std::optional<Dim> steps() const {
    const Body& test = c.program.functions.at(condition);
    const Body& step = c.program.functions.at(body);
    Run run(c.program, test);
    for (size_t i = 0; i < now.size(); ++i)
      if (!is_carried(i)) run.set(test.function->signature().input_arg(int(i)).name(), now[i]);
    std::vector<std::string> tests{result(test, 0)};
    std::optional<Dim> least;
    bool several = false;
    while (!tests.empty()) {
      const proto::NodeDef* n = source(test, tests.back());
      tests.pop_back();
      if (!n || n->input_size() < 2) return {};
      if (n->op() == "LogicalAnd") {
        several = true;
        tests.push_back(n->input(0)), tests.push_back(n->input(1));
        continue;
      }
      const std::optional<size_t> counter = argument(test, n->input(0));
      if (n->op() != "Less" || !counter || !is_carried(*counter)) return {};
      const std::optional<int64_t> by = growth(step, *counter);
      if (!by) return {};
      if (!is_unchanging(test, n->input(1)) || !c.knows(*counter)) return {};
      Call limit(c.program, test, *n);
      limit.in = {run.value(n->input(1))};
      if (!limit.knows(0)) return {};
      const Dim rest = larger(limit.dim(0) - c.dim(*counter), 0);
      const bool endless = *by < 1 && !several && !rest.is_open() && rest > 0;
      if (endless) c.reject(fmt::format("never ends: its counter grows by {} in each step", *by));
      if (*by < 1) return {};
      const Dim count = *by == 1 ? rest : (rest + (*by - 1)) / *by;
      least = least ? Dim(smaller(*least, count)) : count;
    }
    return least;
  }
  // Whether a value of the condition depends on nothing that is carried.
  bool is_unchanging(const Body& test, const std::string& name) const {
    const auto& arguments = test.function->signature().input_arg();
    std::vector<std::string> waiting{name};
    std::set<std::string> seen;
    while (!waiting.empty()) {
      const std::string input = waiting.back(), one = input.substr(input.starts_with("^"), input.find(':'));
      waiting.pop_back();
      if (!seen.insert(one).second) continue;
      if (auto node = test.nodes.find(one); node != test.nodes.end()) {
        waiting.insert(waiting.end(), node->second->input().begin(), node->second->input().end());
        continue;
      }
      const auto argument = std::ranges::find(arguments, one, &proto::OpDef::ArgDef::name);
      if (argument == arguments.end() || is_carried(size_t(argument - arguments.begin()))) return false;
    }
    return true;
  }
  static std::string result(const Body& f, int i) {
    auto from = f.function->ret().find(f.function->signature().output_arg(i).name());
    return from == f.function->ret().end() ? "" : from->second;
  }
  // The node that computes a value, and the argument that it is, looking through nodes that only pass it on.
  static const proto::NodeDef* source(const Body& f, std::string& name) {
    for (int i = 0; i < 8; ++i) {
      auto node = f.nodes.find(name.substr(0, name.find(':')));
      if (node == f.nodes.end()) return nullptr;
      if (node->second->op() != "Identity" || node->second->input_size() < 1) return node->second;
      name = node->second->input(0);
    }
    return nullptr;
  }
  static std::optional<size_t> argument(const Body& f, std::string name) {
    if (source(f, name)) return {};
    for (int i = 0; i < f.function->signature().input_arg_size(); ++i)
      if (f.function->signature().input_arg(i).name() == name) return size_t(i);
    return {};
  }
  // The known number that a step adds to this carried value.
  std::optional<int64_t> growth(const Body& step, size_t i) const {
    std::string name = result(step, int(i));
    const proto::NodeDef* n = source(step, name);
    if (!n || (n->op() != "AddV2" && n->op() != "Add") || n->input_size() < 2) return {};
    for (int k = 0; k < 2; ++k) {
      std::string one = n->input(1 - k);
      const proto::NodeDef* constant = source(step, one);
      if (argument(step, n->input(k)) != i) continue;
      Call added(c.program, step, *n);
      const std::optional<size_t> outside = argument(step, n->input(1 - k));
      if (constant && constant->op() == "Const") added.in = {c.program.outside->constant(*constant)};
      else if (outside && !is_carried(*outside) && c.knows(*outside)) added.in = {c.in[*outside]};
      else continue;
      if (!is_integer(added.x().dtype()) || added.x().size() != 1) return {};
      const Dim by = added.dim(0);
      if (by.is_open()) return {};
      return by.plain();
    }
    return {};
  }
  Tensor goes_on(const Values& v) const {
    const Values test = run_function(c, condition, v);
    if (test.size() != 1) c.reject("its condition does not give one value");
    return imported::as_condition(as_tensor(test[0], "the condition"));
  }
};

Values while_rule(const Call& c) {
  Loop loop(c);
  if (!EnclosingTrace::now()) {  // step by step, so that carried values may grow
    Values state = loop.now;
    while (truth(loop.goes_on(state))) state = run_function(c, loop.body, state);
    return state;
  }
  loop.grow_lists();
  loop.shape_lists();
  auto step = [&](const Tensors& state) { return loop.carried(run_function(c, loop.body, loop.values(state))); };
  const Tensors first = loop.carried(loop.now);
  return imported::fitting(c, [&] {
    if (const std::optional<Dim> steps = loop.steps()) {  // its gradient needs no bound
      const auto [last, rows] =
          scan([&](const Tensors& state, const Tensor&) { return std::pair(step(state), Tensors()); }, first,
               iota({*steps}), {});
      return loop.values(last);
    }
    return loop.values(while_loop([&](const Tensors& state) { return loop.goes_on(loop.values(state)); }, step, first));
  });
}

}  // namespace

bool is_reference(const Slot& slot) { return slot.node->op() == "VariableV2" || slot.node->op() == "Variable"; }
Value value_of(const Call& c, const Slot& slot) { return {tensor_of(c, slot), !slot.variable}; }

const RuleTable& control_rules() {
  static const RuleTable table = {
      {"VarHandleOp", handle_rule},
      {"VariableV2", handle_rule},
      {"Variable", handle_rule},
      {"Assign", on_reference<assign_rule>},
      {"AssignAdd", on_reference<assign_add_rule>},
      {"AssignSub", on_reference<assign_sub_rule>},
      {"IsVariableInitialized", has_value_rule},
      {"Switch", unpaired_rule},
      {"RefSwitch", unpaired_rule},
      {"Merge", unpaired_rule},
      {"RefMerge", unpaired_rule},
      {"ReadVariableOp", read_rule},
      {"AssignVariableOp", assign_rule},
      {"AssignAddVariableOp", assign_add_rule},
      {"AssignSubVariableOp", assign_sub_rule},
      {"ResourceGather", gather_rule},
      {"ResourceGatherNd", gather_nd_rule},
      {"VariableShape", shape_rule},
      {"VarIsInitializedOp", has_value_rule},
      {"DisableCopyOnRead", nothing_rule},
      {"RestoreV2", restore_rule},
      {"NoOp", nothing_rule},
      {"Assert", nothing_rule},
      {"PrintV2", nothing_rule},
      {"PartitionedCall", call_rule},
      {"StatefulPartitionedCall", call_rule},
      {"If", if_rule},
      {"StatelessIf", if_rule},
      {"Case", case_rule},
      {"StatelessCase", case_rule},
      {"While", while_rule},
      {"StatelessWhile", while_rule},
      {"TensorListReserve", reserve_rule},
      {"TensorListFromTensor", from_tensor_rule},
      {"TensorListLength", length_rule},
      {"TensorListGetItem", get_rule},
      {"TensorListSetItem", set_rule},
      {"TensorListStack", stack_rule},
      {"EmptyTensorList", empty_list_rule},
      {"TensorListPushBack", push_rule},
      {"TensorListPopBack", pop_rule},
      {"TensorListResize", resize_rule},
      {"TensorListGather", gather_list_rule},
      {"TensorListScatter", scatter_list_rule},
      {"TensorListScatterV2", scatter_list_rule},
      {"TensorListConcat", concat_list_rule},
      {"TensorListConcatV2", concat_list_rule},
      {"TensorListElementShape", element_shape_rule},
  };
  return table;
}

}  // namespace rill::tensorflow_in
