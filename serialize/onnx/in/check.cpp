// See check.h.
#include "rill/serialize/onnx/in/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rill::onnx_import {
namespace {

// Operators whose operand must be fixed if their result must be.
bool passes_on(const std::string& op) {
  static const std::set<std::string> ops = {"Identity", "Cast",  "Concat", "Unsqueeze",
                                            "Squeeze",  "Slice", "Gather", "Reshape"};
  return ops.contains(op);
}

class Checker {
 public:
  Checker(const Program& program, const Source& source) : program_(program), source_(source) {}

  Names run() {
    const std::set<std::string> nothing;
    if (graph(program_.model.graph(), nothing) > most_nodes)
      source_.reject(fmt::format("its functions call each other more than {:.0f} times", most_nodes));
    if (!missing_.empty()) fail_missing();
    return std::move(names_);
  }

 private:
  using NameSet = std::set<std::string>;
  // Nested functions that call others twice let a small file have far too many nodes.
  static constexpr double most_nodes = 1e7;

  // How many nodes run, for each run of the graph.
  double graph(const onnx::GraphProto& g, NameSet known) {
    for (const onnx::TensorProto& t : g.initializer()) known.insert(t.name());
    for (const onnx::SparseTensorProto& t : g.sparse_initializer()) known.insert(t.values().name());
    for (const onnx::ValueInfoProto& v : g.input()) known.insert(v.name());
    const double count = nodes(g.node(), known);
    for (const onnx::ValueInfoProto& v : g.output())
      if (!known.contains(v.name()))
        source_.reject(fmt::format("no node gives '{}', an output of graph '{}'", v.name(), g.name()));
    return count;
  }

  template <class Nodes>
  double nodes(const Nodes& all, NameSet& known) {
    double count = 0;
    for (const onnx::NodeProto& n : all) {
      for (const std::string& name : n.input())
        if (!name.empty() && !known.contains(name))
          source_.reject(fmt::format("node '{}' ({}) reads '{}', which no node before it, input or initializer gives",
                                     shown(n), n.op_type(), name));
      count += node(n, known);
      for (const std::string& name : n.output()) known.insert(name);
    }
    for (int i = int(all.size()) - 1; i >= 0; --i) note_names(all.Get(i));
    return count;
  }

  static std::string shown(const onnx::NodeProto& n) {
    return !n.name().empty() ? n.name() : n.output_size() ? n.output(0) : "?";
  }

  double node(const onnx::NodeProto& n, const NameSet& known) {
    double count = 1;
    for (const onnx::AttributeProto& a : n.attribute()) {
      if (a.has_g()) count += graph(a.g(), known);
      for (const onnx::GraphProto& g : a.graphs()) count += graph(g, known);
    }
    if (const onnx::FunctionProto* f = program_.function(n)) return count + function(*f);
    if (!find_rule(n.domain(), n.op_type()))
      missing_[n.domain().empty() ? n.op_type() : n.op_type() + " of " + n.domain()].push_back(shown(n));
    return count;
  }

  double function(const onnx::FunctionProto& f) {
    if (auto it = done_.find(&f); it != done_.end()) return it->second;
    const Names outside = std::exchange(names_, {});  // its names are its own
    if (!open_.insert(&f).second) source_.reject(fmt::format("function '{}' calls itself", f.name()));
    if (open_.size() > 100) source_.reject(fmt::format("function '{}' stands more than 100 calls deep", f.name()));
    NameSet known(f.input().begin(), f.input().end());
    const double count = nodes(f.node(), known);
    open_.erase(&f);
    inputs_[&f] = std::exchange(names_, outside);
    return done_[&f] = count;
  }

  // What a function does with its inputs applies to the operands of its call.
  void note_operands(const onnx::NodeProto& call, const onnx::FunctionProto& f) {
    const Names& inside = inputs_.at(&f);
    for (int i = 0; i < call.input_size() && i < f.input_size(); ++i) {
      if (inside.fixed.contains(f.input(i))) names_.fixed.insert(call.input(i));
      if (inside.statistics.contains(f.input(i))) names_.statistics.insert(call.input(i));
    }
  }

  void note_names(const onnx::NodeProto& n) {
    if (const onnx::FunctionProto* f = program_.function(n)) return note_operands(n, *f);
    const Rule* rule = find_rule(n.domain(), n.op_type());
    const bool passes = passes_on(n.op_type()) && std::ranges::any_of(n.output(), [&](const std::string& name) {
                          return names_.fixed.contains(name);
                        });
    for (int i = 0; i < n.input_size() && i < 32; ++i) {
      if (passes || (rule && rule->fixed >> i & 1)) names_.fixed.insert(n.input(i));
      if (rule && rule->statistics >> i & 1) names_.statistics.insert(n.input(i));
    }
  }

  [[noreturn]] void fail_missing() {
    std::string text;
    for (const auto& [op, nodes] : missing_) {
      text += (text.empty() ? "" : "; ") + op + " (";
      for (size_t i = 0; i < std::min<size_t>(nodes.size(), 5); ++i) text += (i ? ", '" : "'") + nodes[i] + "'";
      text += nodes.size() > 5 ? fmt::format(" and {} more)", nodes.size() - 5) : ")";
    }
    source_.reject(fmt::format("{} of its operators {} missing in rill: {}", missing_.size(),
                               missing_.size() == 1 ? "is" : "are", text));
  }

  const Program& program_;
  const Source& source_;
  Names names_;
  std::map<std::string, std::vector<std::string>> missing_;
  std::set<const onnx::FunctionProto*> open_;
  std::map<const onnx::FunctionProto*, double> done_;   // and the number of nodes of each
  std::map<const onnx::FunctionProto*, Names> inputs_;  // the uses of each function's names, including its inputs
};

}  // namespace

Names check(const Program& program, const Source& source) { return Checker(program, source).run(); }

}  // namespace rill::onnx_import
