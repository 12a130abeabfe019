// What can be done with any model: see model.h.
#include "rill/nn/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ostream>

#include "rill/ops/op.h"
#include "rill/ops/state/variable_state.h"

namespace rill::nn {
namespace impl {

void name_by_path(const NamedVariables& variables) {
  for (const auto& [path, v] : variables) {
    VariableState& state = v.state();
    const std::lock_guard lock(state);
    if (!state.built.load(std::memory_order_relaxed)) state.name = path;
  }
}

// --- clone() ---------------------------------------------------------------------------------------------------------

void Cloner::variable(std::string_view, Variable& v) {
  const auto known = made_.find(&v.state());
  if (known != made_.end()) {
    v = known->second;
    return;
  }
  VariableState& old = v.state();
  Variable fresh = Variable::deferred({.name = old.name, .trainable = old.trainable}, old.spec.dtype, where_);
  fresh.state().name = old.name;  // without the scope in which this is called
  fresh.state().spec.device = old.spec.device;
  if (v.is_built()) fresh.build(v.value(), where_);
  if (old.frozen) fresh.freeze(where_);
  made_.emplace(&old, fresh);
  made_.emplace(&fresh.state(), fresh);
  v = fresh;
}

void Cloner::listed(const std::vector<Variable>& variables, const ModelPart& part) {
  if (!variables.empty()) unreachable(part);
}

void Cloner::unreachable(const ModelPart& part) {
  std::string path;
  for (const std::string& name : path_) path += (path.empty() ? "" : "/") + name;
  fail("nn::clone",
       fmt::format(
           "'{}', a {}, only lists its Variables, so that a copy would share them. name its fields inside of it: "
           "RILL_LAYER({}, a, b)",
           path, part.type, part.type),
       where_);
}

// --- summary() -------------------------------------------------------------------------------------------------------

void SummaryVisitor::enter(std::string_view name, const ModelPart& part) {
  Part p{.address = part.address, .row = {}};
  if (!name.empty()) {
    paths_.enter(name, part);
    p.row.path = paths_.path();
  }
  p.row.type = std::string(part.type);
  open.push_back(parts.size());
  parts.push_back(std::move(p));
}

void SummaryVisitor::leave() {
  if (!parts[open.back()].row.path.empty()) paths_.leave();
  open.pop_back();
}

void SummaryVisitor::add(const Variable& v, size_t part) {
  Part& p = parts[part];
  p.has_rows = true;
  const auto [at, fresh] = seen_.emplace(&v.state(), p.row.path);
  if (!fresh) {
    if (at->second != p.row.path) p.row.shared_with = at->second;
    return;
  }
  if (!v.is_built()) return;
  const int64_t n = v.shape().numel();
  p.row.parameters += n;
  p.row.bytes += n * int64_t(size_of(v.dtype()));
}

void SummaryVisitor::variable(std::string_view name, Variable& v) {
  paths_.variable(name, v);
  add(v, open.back());
}

void SummaryVisitor::listed(const std::vector<Variable>& variables, const ModelPart& part) {
  paths_.listed(variables, part);
  for (const Variable& v : variables) add(v, open.back());
}

void CallNotes::began(const void* layer, const Tensor& x) {
  if (x.defined()) latest_ = std::max(latest_, x.rep()->trace_value);
  open_.push_back(notes.size());
  notes.push_back({layer, latest_ + 1});
}

void CallNotes::gave(const void* layer, const Tensor& y) {
  while (!open_.empty() && notes[open_.back()].layer != layer) open_.pop_back();  // those that threw
  if (open_.empty()) return;
  Note& note = notes[open_.back()];
  open_.pop_back();
  latest_ = std::max(latest_, y.rep()->trace_value);
  note.last = latest_;
  note.output = y.spec();
}

namespace {
// Multiplications and additions of the nodes of a graph, one by one.
std::vector<double> flops_by_node(const Graph& graph) {
  std::vector<double> result;
  for (const Node& n : graph.nodes()) {
    double flops = 0;
    if (n.kind == Node::Kind::op && n.op->flops) {
      std::vector<const Spec*> in;
      for (ValueId v : n.inputs) in.push_back(&graph.spec(v));
      flops = n.op->flops(in, n.outputs[0], n.attrs);
    }
    result.push_back(flops);
  }
  return result;
}
}  // namespace

Summary summarize(SummaryVisitor& visitor, const NamedVariables& variables, const CallNotes& calls,
                  const Graph& graph) {
  Summary summary;
  const std::vector<double> flops = flops_by_node(graph);
  for (double f : flops) summary.flops += f;
  for (const CallNotes::Note& note : calls.notes) {
    const auto part = std::find_if(visitor.parts.begin(), visitor.parts.end(),
                                   [&](const SummaryVisitor::Part& p) { return p.address == note.layer; });
    if (part == visitor.parts.end() || note.last < 0) continue;
    part->has_rows = true;
    ++part->row.calls;
    part->row.output = to_string(note.output);
    for (int32_t node = note.first; node <= note.last && size_t(node) < flops.size(); ++node)
      part->row.flops += flops[size_t(node)];
  }
  for (const auto& [path, v] : variables) {
    if (!v.is_built()) continue;
    const int64_t n = v.shape().numel();
    summary.parameters += n;
    summary.bytes += n * int64_t(size_of(v.dtype()));
    if (v.trainable()) summary.trainable += n;
  }
  for (SummaryVisitor::Part& p : visitor.parts)
    if (p.has_rows) summary.rows.push_back(std::move(p.row));
  return summary;
}

}  // namespace impl

namespace {
// 1234567 as "1.23 M".
std::string short_count(double n) {
  if (n == 0) return "";
  for (const auto& [unit, letter] : {std::pair(1e12, "T"), {1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
    if (n >= unit) return fmt::format("{:.3g} {}", n / unit, letter);
  return fmt::format("{:g}", n);
}
}  // namespace

std::string to_string(const Summary& s) {
  std::vector<std::array<std::string, 5>> table{{"layer", "type", "output", "parameters", "flops"}};
  for (const SummaryRow& r : s.rows)
    table.push_back(
        {r.path.empty() ? "." : r.path, r.type, r.output + (r.calls > 1 ? fmt::format(" x{}", r.calls) : ""),
         r.shared_with.empty() ? fmt::format("{}", r.parameters) : "as " + r.shared_with, short_count(r.flops)});
  std::array<size_t, 5> width{};
  for (const auto& row : table)
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  std::string text;
  for (const auto& row : table) {
    std::string line = fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>{}}", row[0], width[0], row[1], width[1], row[2],
                                   width[2], row[3], width[3], row[4], width[4]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text + fmt::format("{} parameters, {} of them trainable, {} bytes; {} flops a call\n", s.parameters,
                            s.trainable, s.bytes, s.flops > 0 ? short_count(s.flops) : "0");
}

std::ostream& operator<<(std::ostream& out, const Summary& summary) { return out << to_string(summary); }

}  // namespace rill::nn
