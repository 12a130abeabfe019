// Random programs for tests/trace/test_random_programs.cpp: a program is a list of steps, each a public op on values of
// earlier steps, that runs, prints itself as C++ and can be made smaller. tests/trace/random_steps.h makes them.
#pragma once
#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "rill/ops/state/variable_state.h"
#include "rill/rill.h"

namespace random_program {

using namespace rill;
using Values = std::vector<Tensor>;

// Where a step says $0, $1, ..., its code has an operand.
struct Step {
  std::string code;     // "exp($0)"
  std::vector<int> in;  // earlier steps
  std::function<Tensor(const Values& arguments, const Values& operands)> run;
  Spec spec;            // of its value
  bool draws = false;   // from the global generator
  bool effect = false;  // assigns a variable
  bool kink = false;    // has points where no derivative is, or a derivative that finite differences cannot see
};

// A tensor and the C++ that makes it.
struct Made {
  Tensor tensor;
  std::string code;
};

struct Program {
  std::vector<Step> steps;
  std::vector<int> outputs;
  Values arguments;
  std::vector<Made> made;  // arguments, captured tensors and variables' first values, in the order of `declarations`
  std::vector<std::string> declarations;  // "Tensor a0", "Variable v0"
  std::vector<Variable> variables;
  Values initial;  // of the variables
  bool aliased = false;

  Values operator()(const Values& args) const {
    Values values, results;
    for (const Step& s : steps) {
      Values in;
      for (int i : s.in) in.push_back(values[size_t(i)]);
      values.push_back(s.run(args, in));
    }
    for (int i : outputs) results.push_back(values[size_t(i)]);
    return results;
  }
  // Variables and the generator as before the first run.
  void rewind() const {
    random::seed(5);
    for (size_t i = 0; i < variables.size(); ++i) variables[i].state().value = initial[i];
  }
  template <class F>
  bool any_step(F f) const {
    return std::any_of(steps.begin(), steps.end(), f);
  }
};

// --- Printing --------------------------------------------------------------------------------------------------------

inline std::string code_of(const Step& s) {
  std::string text;
  for (size_t i = 0; i < s.code.size(); ++i)
    if (s.code[i] == '$') text += "x" + std::to_string(s.in[size_t(s.code[++i] - '0')]);
    else text += s.code[i];
  return text;
}

// The program as C++ that a person can compile: arguments, variables, and the callable.
inline std::string print(const Program& p) {
  std::string s = "  random::seed(5);\n";
  const auto used = [&](const std::string& name) {
    return p.any_step([&](const Step& t) { return t.code.find(name) != t.code.npos; });
  };
  std::string arguments;
  for (size_t i = 0; i < p.made.size(); ++i) {
    const std::string name = p.declarations[i].substr(p.declarations[i].find(' ') + 1);
    const bool argument = name[0] == 'a', variable = name[0] == 'v';
    if (!argument && !used(name)) continue;
    s += "  " + p.declarations[i] + (variable ? "(" + p.made[i].code + ", \"" + name + "\")" : " = " + p.made[i].code) +
         ";\n";
    if (argument) arguments += (arguments.empty() ? "" : ", ") + name;
  }
  s += "  auto f = [&](const std::vector<Tensor>& a) {\n";
  for (size_t i = 0; i < p.steps.size(); ++i)
    s +=
        "    Tensor x" + std::to_string(i) + " = " + code_of(p.steps[i]) + ";  // " + to_string(p.steps[i].spec) + "\n";
  s += "    return std::vector<Tensor>{";
  for (size_t i = 0; i < p.outputs.size(); ++i) s += (i ? ", x" : "x") + std::to_string(p.outputs[i]);
  return s + "};\n  };\n  f({" + arguments + "});\n";
}

// --- Making one smaller ----------------------------------------------------------------------------------------------

// The steps that `outputs` need, and effects before them.
inline Program slice_of(const Program& p, const std::vector<int>& outputs, bool keep_effects) {
  std::vector<char> needed(p.steps.size(), 0);
  for (int o : outputs) needed[size_t(o)] = 1;
  for (size_t i = p.steps.size(); i-- > 0;) {
    needed[i] |= char(keep_effects && p.steps[i].effect);
    if (needed[i])
      for (int k : p.steps[i].in) needed[size_t(k)] = 1;
  }
  Program part = p;
  part.steps.clear(), part.outputs.clear();
  std::vector<int> place(p.steps.size(), -1);
  for (size_t i = 0; i < p.steps.size(); ++i) {
    if (!needed[i]) continue;
    place[i] = int(part.steps.size());
    part.steps.push_back(p.steps[i]);
    for (int& k : part.steps.back().in) k = place[size_t(k)];
  }
  for (int o : outputs) part.outputs.push_back(place[size_t(o)]);
  return part;
}

// The program without step i: whoever read it reads its operand `by` instead.
inline Program without(const Program& p, size_t i, int by) {
  Program part = p;
  for (Step& s : part.steps)
    for (int& k : s.in)
      if (k == int(i)) k = by;
  for (int& o : part.outputs)
    if (o == int(i)) o = by;
  return slice_of(part, part.outputs, true);
}

// The smallest part of `p` found for which `fails` still holds: one output, then without steps that can be passed by.
template <class F>
Program minimise(Program p, F&& fails) {
  for (bool effects : {false, true})
    for (size_t i = 0; i < p.steps.size(); ++i)
      if (Program part = slice_of(p, {int(i)}, effects); part.steps.size() < p.steps.size() && fails(part)) {
        p = std::move(part);
        effects = true;
        break;
      }
  for (size_t i = p.steps.size(); i-- > 0;)
    for (int k : p.steps[i].in)
      if (p.steps[size_t(k)].spec == p.steps[i].spec)
        if (Program part = without(p, i, k); fails(part)) {
          p = std::move(part);
          i = std::min(i, p.steps.size());
          break;
        }
  return p;
}

}  // namespace random_program
