// Operations on any model: see model.h.
#include "rill/nn/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ostream>

#include "rill/ops/op.h"
#include "rill/ops/state/variable_state.h"

namespace rill::nn {
namespace impl {

void name_by_path(const NamedVariables& variables, const FieldVariables& fields) {
  for (const auto& [path, v] : variables) {
    VariableState& state = v.state();
    const std::lock_guard lock(state);
    if (fields.states.contains(&state) || !state.built.load(std::memory_order_relaxed)) state.name = path;
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

std::string CallNotes::began(const void* layer, const char* function) {
  open_.push_back(notes.size());
  notes.push_back({layer, function});
  return fmt::format("@{}", open_.back());
}

void CallNotes::gave(const void* layer, const Tensor& y) {
  while (!open_.empty() && notes[open_.back()].layer != layer) open_.pop_back();  // those that threw
  if (open_.empty()) return;
  notes[open_.back()].output = y.spec();
  open_.pop_back();
}

namespace {
// Whether a function's name is of a member of this type: "... rill::nn::Dense::operator()(...)".
bool is_member(std::string_view function, const std::string& type) {
  const std::string name = "::" + type;
  for (size_t at = function.find(name); at != std::string_view::npos; at = function.find(name, at + 1)) {
    const std::string_view rest = function.substr(at + name.size());
    if (rest.starts_with("::") || rest.starts_with('<')) return true;
  }
  return false;
}

// The part that a call is of. A layer's first field has its address; a layer that is called by a function of its base
// class is the outermost.
SummaryVisitor::Part* part_of_call(const CallNotes::Note& note, std::vector<SummaryVisitor::Part>& parts) {
  SummaryVisitor::Part* outermost = nullptr;
  for (SummaryVisitor::Part& p : parts) {
    if (p.address != note.layer) continue;
    if (is_member(note.function, p.row.type)) return &p;
    if (!outermost) outermost = &p;
  }
  return outermost;
}

// With 1 for a size that is open.
Spec of_one(Spec spec) {
  for (Dim& d : spec.shape)
    if (d.is_open() || d == any) d = 1;
  return spec;
}

// Multiplications and additions of a node.
double flops_of(const Graph& graph, const Node& n) {
  if (n.kind != Node::Kind::op || !n.op->flops) return 0;
  std::vector<Spec> specs;
  for (ValueId v : n.inputs) specs.push_back(of_one(graph.spec(v)));
  std::vector<const Spec*> in;
  for (const Spec& s : specs) in.push_back(&s);
  return n.op->flops(in, of_one(n.outputs[0]), n.attrs);
}

// "f32[any,28,28,8]".
std::string output_text(const Spec& spec) {
  std::string sizes;
  for (const Dim& d : spec.shape)
    sizes += (sizes.empty() ? "" : ",") + (d.is_open() ? std::string("any") : std::to_string(d.hint()));
  return fmt::format("{}[{}]", name(spec.dtype), sizes);
}

// Of all nodes, and of those of each call, including those of the layers in it.
double count_flops(const Graph& graph, std::vector<double>& by_call) {
  double sum = 0;
  for (const Node& n : graph.nodes()) {
    const double flops = flops_of(graph, n);
    if (flops == 0) continue;
    sum += flops;
    for (size_t at = n.scope.find('@'); at != std::string::npos; at = n.scope.find('@', at + 1)) {
      const size_t call = std::strtoul(n.scope.c_str() + at + 1, nullptr, 10);
      if (call < by_call.size()) by_call[call] += flops;
    }
  }
  return sum;
}
}  // namespace

Summary summarize(SummaryVisitor& visitor, const NamedVariables& variables, const CallNotes& calls,
                  const Graph& graph) {
  Summary summary;
  std::vector<double> flops(calls.notes.size(), 0);
  summary.flops = count_flops(graph, flops);
  for (size_t i = 0; i < calls.notes.size(); ++i) {
    const CallNotes::Note& note = calls.notes[i];
    SummaryVisitor::Part* const part = part_of_call(note, visitor.parts);
    if (!part || !note.output) continue;
    part->has_rows = true;
    ++part->row.calls;
    part->row.output = output_text(*note.output);
    part->row.flops += flops[i];
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
