// Choices of TensorFlow 1, and those that freezing a graph makes of If: Switch and Merge, paired and run as one branch
// or the other. Start at choice_of() and Run::run_merge().
#include <fmt/format.h>

#include <set>

#include "rill/serialize/model/imported_control.h"
#include "rill/serialize/tensorflow/in/interpreter.h"

namespace rill::tensorflow_in {
namespace {

// A value's name without ":0", so that names of the same value are equal.
std::string plain_value(const std::string& value) {
  return value.ends_with(":0") ? value.substr(0, value.size() - 2) : value;
}
std::string node_behind(const std::string& value) {
  const size_t start = value.starts_with("^") ? 1 : 0;
  return value.substr(start, value.find(':') - start);
}

// The condition of a Switch, before it was passed on under other names.
std::string condition_of(const Body& body, const proto::NodeDef& node) {
  std::string value = plain_value(node.input(1));
  for (int i = 0; i < 100; ++i) {
    const auto behind = body.nodes.find(value);
    if (behind == body.nodes.end() || behind->second->op() != "Identity" || behind->second->input_size() < 1) break;
    value = plain_value(behind->second->input(0));
  }
  return value;
}

// Walks back from an operand of a Merge to the Switches that it is paired with: nested choices have pairs of their own.
class Pairing {
 public:
  Pairing(const Body& body, const proto::NodeDef& merge) : body_(body), merge_(merge) {}

  Choice run() {
    std::vector<std::string> operands;
    for (const std::string& in : merge_.input())
      if (!in.starts_with("^")) operands.push_back(in);
    if (operands.size() != 2) reject("it has another number of operands than two");
    for (int i = 0; i < 2; ++i) {
      const std::optional<bool> side = side_of(operands[size_t(i)]);
      if (side) take(*side, i);
    }
    // A constant without dependencies belongs to the other branch.
    for (int side = 0; side < 2; ++side)
      if (choice_.operand[side] < 0 && choice_.operand[1 - side] >= 0)
        choice_.operand[side] = 1 - choice_.operand[1 - side];
    if (choice_.condition.empty()) reject("no Switch comes before it");
    return choice_;
  }

 private:
  [[noreturn]] void reject(const std::string& why) const {
    imported::fail_import(fmt::format("{}: {}", imported::described(merge_), why));
  }
  void take(bool side, int operand) {
    if (choice_.operand[side] >= 0) reject("both operands come from one branch");
    choice_.operand[side] = operand;
  }

  // The result of its Switches that an operand comes from; nothing if there is none.
  std::optional<bool> side_of(const std::string& operand) {
    std::optional<bool> side;
    std::set<std::pair<std::string, int>> seen;
    std::vector<std::pair<std::string, int>> waiting{{operand, 0}};  // with the number of nested choices between
    while (!waiting.empty()) {
      const auto [value, inside] = waiting.back();
      waiting.pop_back();
      const auto found = body_.nodes.find(node_behind(value));
      if (found == body_.nodes.end()) continue;  // an argument
      const proto::NodeDef& node = *found->second;
      if (is_switch(node) && inside == 0) {
        const bool here = value.ends_with(":1") || value.ends_with(":output_true:0");
        if (side && *side != here) reject("an operand comes from both branches");
        side = here;
        found_switch(node);
        continue;
      }
      const int next = inside + (is_merge(node) ? 1 : is_switch(node) ? -1 : 0);
      for (const std::string& in : node.input())
        if (seen.emplace(in, next).second) waiting.emplace_back(in, next);
    }
    return side;
  }
  void found_switch(const proto::NodeDef& node) {
    if (node.input_size() < 2) reject("a Switch has no condition");
    const std::string condition = condition_of(body_, node);
    if (!choice_.condition.empty() && choice_.condition != condition) reject("its Switches ask different conditions");
    choice_.condition = condition;
    if (seen_.insert(node.name()).second) choice_.passed.push_back(node.input(0));
  }

  const Body& body_;
  const proto::NodeDef& merge_;
  Choice choice_;
  std::set<std::string> seen_;  // Switches
};

}  // namespace

bool is_switch(const proto::NodeDef& node) { return node.op() == "Switch" || node.op() == "RefSwitch"; }
bool is_merge(const proto::NodeDef& node) { return node.op() == "Merge" || node.op() == "RefMerge"; }
Choice choice_of(const Body& body, const proto::NodeDef& merge) { return Pairing(body, merge).run(); }

// Inside a branch, and if the condition is known, one result exists; elsewhere (before an Assert) both do.
Values Run::run_switch(const Call& c) const {
  if (c.count() < 2) c.reject("has no condition");
  Values out{c.in[0], c.in[0]};
  std::optional<bool> taken;
  for (const Run* r = this; r && !taken; r = r->outer_)
    if (r->outer_ && r->condition_ == condition_of(body_, c.node)) taken = r->taken_;
  if (!taken && c.knows(1)) taken = imported::truth(c.known(1));
  if (taken) out[*taken ? 0 : 1] = Value();
  return out;
}

// The result of the chosen branch, and its operand index.
Values Run::run_merge(const Call& c) {
  const Choice choice = choice_of(body_, c.node);
  std::vector<std::string> operands;
  for (const std::string& in : c.node.input())
    if (!in.starts_with("^")) operands.push_back(in);
  Call asked = c;
  asked.in = {value(choice.condition)};
  const auto run = [&](bool taken) -> Values {
    Run branch(*this, choice.condition, taken);
    const int operand = choice.operand[taken];
    Value v = branch.value(operands[size_t(operand)]);
    if (v.kind == Value::Kind::variable && is_reference(*v.slot)) v = value_of(c, *v.slot);
    const EagerScope eager;
    return {v, Value(full({}, operand, i32), true)};
  };
  if (asked.knows(0)) return run(imported::truth(asked.known(0)));
  return imported::chosen(asked, imported::as_condition(asked.x(0)), 2, [&](size_t i) { return run(i == 0); });
}

}  // namespace rill::tensorflow_in
