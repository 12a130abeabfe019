// The commands of `rill debug` for graphs and sources, and the stepper.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include <rill/trace/graph/graph_names.h>

#include "debugger.h"
#include "files.h"
#include "terminal.h"

namespace command {

using rill::Tensor;
namespace debug = rill::debug;

// --- Nodes -----------------------------------------------------------------------------------------------------------

int Debugger::operand(int graph, const std::string& input) const {
  const std::string name = input.substr(0, input.rfind(':'));
  const auto& names = dump_->graphs()[size_t(graph)].by_name;
  if (const auto at = names.find(name); at != names.end()) return at->second;
  if (graph != 0) return -1;
  for (const debug::DumpGraph& g : dump_->graphs())  // an eager call on a traced function's result
    if (const auto at = g.by_name.find(name); at != g.by_name.end()) return at->second;
  return -1;
}

std::vector<int> Debugger::readers(int node) const {
  std::vector<int> found;
  const Node& n = dump_->nodes()[size_t(node)];
  for (const int other : dump_->graphs()[size_t(n.graph)].nodes)
    for (const std::string& input : dump_->nodes()[size_t(other)].inputs)
      if (operand(n.graph, input) == node) {
        found.push_back(other);
        break;
      }
  return found;
}

void Debugger::node_info(const std::string& rest) {
  const int number = node_named(Words(rest, {}, {}).only("the name of a node"));
  const Node& n = dump_->nodes()[size_t(number)];
  const debug::DumpGraph& g = dump_->graphs()[size_t(n.graph)];
  print("{}  {}\n", green(n.name), bold(n.op));
  Table table("<<");
  const auto add = [&](const char* what, const std::string& text) {
    if (!text.empty()) table.add({dim(what), text});
  };
  add("graph", g.outer < 0 ? g.name : fmt::format("{}, inside of {}", g.name, g.inside));
  add("attributes", n.attributes);
  add("scope", n.scope);
  add("line", n.line ? fmt::format("{}:{}{}", n.file, n.line, n.function.empty() ? "" : " in " + n.function) : "");
  for (const std::string& input : n.inputs) {
    const int from = operand(n.graph, input);
    add("operand", from < 0 ? input : fmt::format("{}  {}", input, dump_->nodes()[size_t(from)].op));
  }
  for (const int reader : readers(number)) add("read by", dump_->nodes()[size_t(reader)].name);
  for (size_t k = 0; k < n.outputs.size(); ++k) add("gives", n.outputs[k]);
  print("{}", table.text(2));
  const std::vector<std::string> lines = n.line ? lines_of(n.file) : std::vector<std::string>();
  if (n.line > 0 && size_t(n.line) <= lines.size()) print("{:>6} | {}\n", n.line, lines[size_t(n.line - 1)]);
  for (const size_t i : current())
    if (const Value& v = dump_->values()[i]; v.node == number) {
      const debug::Health& h = v.health;
      print("  {}{}: {} elements", shown(v), v.time > 1 ? fmt::format(" #{}", v.time) : "", count_text(h.size));
      if (v.dtype != rill::string)
        print("; {} negative, {} zero, {} positive, {} NaN, {} inf, {} -inf", count_text(h.negative),
              count_text(h.zero), count_text(h.positive), count_text(h.nan), count_text(h.positive_infinite),
              count_text(h.negative_infinite));
      if (h.finite())
        print("; {:.6g} to {:.6g}, mean {:.6g}, variance {:.6g}", h.least, h.greatest, h.mean, h.variance);
      print("\n");
    }
}

void Debugger::tree(int node, int depth, int most, bool inputs, std::set<int>& seen) const {
  const Node& n = dump_->nodes()[size_t(node)];
  const bool before = !seen.insert(node).second;
  print("{}{}  {}  {}{}\n", std::string(size_t(depth) * 2, ' '), green(n.name), n.op,
        n.outputs.empty() ? "" : dim(n.outputs[0]), before ? " (as above)" : "");
  if (before || depth >= most) return;
  if (!inputs) {
    for (const int reader : readers(node)) tree(reader, depth + 1, most, inputs, seen);
    return;
  }
  for (const std::string& input : n.inputs) {
    const int from = operand(n.graph, input);
    if (from >= 0) tree(from, depth + 1, most, inputs, seen);
    else print("{}{}\n", std::string(size_t(depth + 1) * 2, ' '), dim(input));
  }
}

void Debugger::list_inputs(const std::string& rest) {
  const Words words(rest, {}, {"-d|--depth"});
  std::set<int> seen;
  tree(node_named(words.only("the name of a node")), 0, int(std::clamp<int64_t>(words.number("-d", 1), 0, 100)), true,
       seen);
}
void Debugger::list_outputs(const std::string& rest) {
  const Words words(rest, {}, {"-d|--depth"});
  std::set<int> seen;
  tree(node_named(words.only("the name of a node")), 0, int(std::clamp<int64_t>(words.number("-d", 1), 0, 100)), false,
       seen);
}

void Debugger::find(const std::string& rest) {
  std::string pattern = Words(rest, {}, {}).only("a pattern, as *relu*");
  if (pattern.find_first_of("*?") == pattern.npos) pattern = "*" + pattern + "*";
  Table table("<<<<");
  int64_t count = 0;
  for (const Node& n : dump().nodes()) {
    const std::string line = n.line ? fmt::format("{}:{}", n.file, n.line) : "";
    const auto fits = [&](const std::string& text) { return rill::path_matches(text, pattern); };
    if (!fits(n.name) && !fits(n.op) && !fits(n.scope) && !fits(line)) continue;
    ++count;
    table.add({green(n.name), n.op, n.outputs.empty() ? "" : n.outputs[0], line});
  }
  print("{}{} of {} nodes\n", table.text(0), count_text(count), count_text(int64_t(dump().nodes().size())));
}

// --- Sources ---------------------------------------------------------------------------------------------------------

std::vector<std::string> Debugger::lines_of(const std::string& file) const {
  std::vector<std::string> lines = dump_->source(file);
  for (const std::string& folder : source_folders_) {
    if (!lines.empty()) break;
    std::ifstream in(std::filesystem::path(folder) / std::filesystem::path(file).filename());
    for (std::string line; std::getline(in, line);) lines.push_back(line);
  }
  return lines;
}

void Debugger::print_source(const std::string& rest) {
  const Words words(rest, {}, {"-b|--begin", "-l|--lines"});
  std::map<std::string, std::map<int64_t, std::pair<int, int>>> marks;  // by file and line: nodes, bad values
  for (const Node& n : dump().nodes())
    if (n.line) ++marks[n.file][n.line].first;
  for (const size_t i : current()) {
    const Node& n = dump_->nodes()[size_t(dump_->values()[i].node)];
    if (n.line && dump_->values()[i].health.has_inf_or_nan()) ++marks[n.file][n.line].second;
  }
  if (words.rest().empty()) {
    Table table("<>>>");
    table.add({dim("file"), dim("lines"), dim("nodes"), dim("bad values")});
    for (const auto& [file, lines] : marks) {
      int nodes = 0, bad = 0;
      for (const auto& [line, mark] : lines) nodes += mark.first, bad += mark.second;
      const size_t known = lines_of(file).size();
      table.add({green(file), known ? std::to_string(known) : "not here", std::to_string(nodes),
                 bad ? red(std::to_string(bad)) : ""});
    }
    print("{}", table.text(0));
    return;
  }
  const std::string& file = words.only("a source file, as `ps` lists them");
  if (!marks.contains(file)) throw LineError(fmt::format("no node was made in a file '{}'. `ps` lists those", file));
  const std::vector<std::string> lines = lines_of(file);
  if (lines.empty())
    throw LineError(
        fmt::format("the dump does not have the text of '{}'. say where it is: rill debug --sources FOLDER", file));
  const int64_t first = marks[file].begin()->first;
  const auto past = int64_t(lines.size()) + 1;
  const int64_t begin = std::clamp<int64_t>(words.number("-b", first - 3), 1, past);
  const int64_t end = begin + std::clamp<int64_t>(words.number("-l", 30), 0, past - begin);
  for (int64_t i = begin; i < end; ++i) {
    const auto at = marks[file].find(i);
    const bool any = at != marks[file].end();
    print("{:>5} {:<8}| {}{}\n", i,
          any ? fmt::format("{} node{}", at->second.first, at->second.first == 1 ? "" : "s") : "", lines[size_t(i - 1)],
          any && at->second.second ? red(fmt::format("   <- {} bad", at->second.second)) : "");
  }
}

// --- Step by step ----------------------------------------------------------------------------------------------------

namespace {
std::string health_text(const debug::Health& h) {
  std::string text = h.finite() ? fmt::format("{:.5g} to {:.5g}, mean {:.5g}", h.least, h.greatest, h.mean) : "";
  if (h.has_inf_or_nan())
    text = red(fmt::format("{} NaN, {} infinite; ", h.nan, h.positive_infinite + h.negative_infinite)) + text;
  return text;
}
}  // namespace

void Debugger::step(const std::string& rest) {
  const Words words(rest, {"-r|--restart"}, {});
  if (words.rest().size() > 1) throw LineError("give a number of steps, or the name of a node to go to");
  const std::string word = words.rest().empty() ? "1" : words.rest()[0];
  int64_t count = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), count);
  const bool counted = error == std::errc() && end == word.data() + word.size();
  if (counted && count < 0) throw LineError("steps go forward; step -r begins again");
  if (!dump_ && live_) return step_live(counted ? count : INT64_MAX, counted ? "" : word);
  const int until = counted ? -1 : node_named(word);
  if (words.has("-r")) at_ = 0;
  const std::vector<size_t> all = current();
  Table table("><<<");
  bool reached = false;
  for (; at_ < all.size() && !reached && (until >= 0 || count > 0); ++at_, --count) {
    const Value& v = dump_->values()[all[at_]];
    table.add({std::to_string(at_ + 1), green(shown(v)),
               fmt::format("{}{}", rill::name(v.dtype), rill::to_string(v.shape)), health_text(v.health)});
    reached = v.node == until;
  }
  print("{}", table.text(0));
  if (at_ >= all.size()) print("the step has ended: all {} values were seen. step -r begins again\n", all.size());
}

// Steps through a running model.
void Debugger::step_live(int64_t count, const std::string& until) {
  const rill::Graph& g = live_->graph();
  const rill::GraphNames names = rill::name_graph(g);
  const auto is_until = [&](const rill::NodeName& n) { return n.id == until || n.id.ends_with("/" + until); };
  if (!until.empty() && std::none_of(names.nodes.begin(), names.nodes.end(), is_until))
    throw LineError(fmt::format("the model has no node '{}'", until));
  Table table("><<<");
  bool ended = false;
  for (; count > 0; --count) {
    ended = !live_->step();
    if (ended) break;
    const auto i = size_t(live_->node());
    for (size_t k = 0; k < g.nodes()[i].outputs.size(); ++k) {
      const Tensor& x = live_->value(rill::ValueId{live_->node(), int32_t(k)}, rill::Where());
      table.add({k ? "" : fmt::format("%{}", i), k ? "" : green(names.nodes[i].id), spec_text(x),
                 health_text(debug::health_of(x))});
    }
    if (!until.empty() && is_until(names.nodes[i])) break;
  }
  print("{}", table.text(0));
  if (ended) print("the model has run. `run` runs it again, for lt, ni, li, lo, ps and diff\n");
}

}  // namespace command
