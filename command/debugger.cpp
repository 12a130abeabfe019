// The session of `rill debug`: parsing, and the commands for values. Start at Debugger::run_line.
#include "debugger.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "files.h"
#include "terminal.h"

namespace command {

using rill::Tensor;
namespace debug = rill::debug;

// --- Words -----------------------------------------------------------------------------------------------------------

namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool any = false;
  int depth = 0;
  char quote = '\0';
  for (const char c : line) {
    if (quote) {
      if (c == quote) quote = '\0';
      else word += c;
      continue;
    }
    if (c == '\'' || c == '"') {
      quote = c;
      any = true;
      continue;
    }
    depth += (c == '[' || c == '(') - (c == ']' || c == ')');
    if (c != ' ' && c != '\t') word += c, any = true;
    else if (depth > 0) word += c;
    else if (any) words.push_back(std::exchange(word, "")), any = false;
  }
  if (quote) throw LineError("a quote is not closed");
  if (any) words.push_back(word);
  return words;
}

std::vector<std::string> names_of_option(const std::string& text) {
  const size_t bar = text.find('|');
  if (bar == text.npos) return {text};
  return {text.substr(0, bar), text.substr(bar + 1)};
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.", text[0] == '-') == text.npos && text != "-";
}

}  // namespace

Words::Words(const std::string& line, const std::vector<std::string>& flags, const std::vector<std::string>& values) {
  const std::vector<std::string> words = words_of(line);
  std::string known;
  for (const auto& list : {flags, values})
    for (const std::string& option : list) known += (known.empty() ? "" : ", ") + option;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with('-') || is_number(word)) {
      rest_.push_back(word);
      continue;
    }
    const auto is_word = [&](const std::string& option) {
      const std::vector<std::string> names = names_of_option(option);
      return std::find(names.begin(), names.end(), word) != names.end();
    };
    if (const auto at = std::find_if(flags.begin(), flags.end(), is_word); at != flags.end()) {
      options_[names_of_option(*at)[0]] = "";
    } else if (const auto v = std::find_if(values.begin(), values.end(), is_word); v != values.end()) {
      if (++i == words.size()) throw LineError(fmt::format("{} takes a value", word));
      options_[names_of_option(*v)[0]] = words[i];
    } else {
      throw LineError(fmt::format("there is no option {} here{}{}", word, known.empty() ? "" : ". there are ", known));
    }
  }
}

std::string Words::value(const std::string& option, const std::string& otherwise) const {
  const auto at = options_.find(option);
  return at == options_.end() ? otherwise : at->second;
}

int64_t Words::number(const std::string& option, int64_t otherwise) const {
  const auto at = options_.find(option);
  if (at == options_.end()) return otherwise;
  int64_t n = 0;
  const std::string& text = at->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size())
    throw LineError(fmt::format("{} takes an integer, and not '{}'", option, text));
  return n;
}

const std::string& Words::only(const std::string& what) const {
  if (rest_.size() != 1) throw LineError(fmt::format("give {}", what));
  return rest_[0];
}

// --- Lines -----------------------------------------------------------------------------------------------------------

const std::vector<Debugger::Command>& Debugger::commands() {
  static const std::vector<Command> all{
      {"help", "help [COMMAND]", "what there is, or how a command is used", &Debugger::help},
      {"run", "run [-f FILTER]",
       "a model: runs it on its inputs. a dump: looks at the last step, or, with a filter, at the next step in which a "
       "value passes it",
       &Debugger::run},
      {"lt", "lt [-n PATTERN] [-o OP] [-s SCOPE] [-d DTYPE] [-f FILTER] [--sort KEY] [-r] [-l N]",
       "lists tensors, in the order in which they were computed. filters: has_inf_or_nan, has_nan, has_inf, all_zero. "
       "keys: time, name, op, dtype, size, least, greatest, mean, variance, nan, inf, zero; -r the other way round",
       &Debugger::list_tensors},
      {"lc", "lc", "lists steps and the calls in them", &Debugger::list_calls},
      {"use", "use STEP", "looks at that step from now on", &Debugger::use},
      {"ni", "ni NODE", "a node: op, attributes, line, operands, readers, values", &Debugger::node_info},
      {"pt", "pt NAME[SLICES] [-t TIME]",
       "prints a tensor, or a part of it: pt layer1/relu[0, :5]. of a node in a loop its TIME-th value",
       &Debugger::print_tensor},
      {"li", "li NODE [-d DEPTH]", "the operands of a node, and theirs, to a depth (1)", &Debugger::list_inputs},
      {"lo", "lo NODE [-d DEPTH]", "what reads a node, and what reads that, to a depth (1)", &Debugger::list_outputs},
      {"ps", "ps [FILE] [-b LINE] [-l N]",
       "lists the source files of the program; prints one, with the nodes and the bad values that its lines made",
       &Debugger::print_source},
      {"step", "step [N|NODE] [-r]",
       "the next N values (1), or those up to a node, one by one; -r begins again. a model that has not run computes "
       "them "
       "now",
       &Debugger::step},
      {"eval", "eval EXPRESSION", "computes: eval max(abs(`layer1/relu:0`[0] - 1))", &Debugger::eval},
      {"find", "find PATTERN", "nodes whose name, op, scope or line matches; * and ? stand for characters",
       &Debugger::find},
      {"diff", "diff FOLDER [-a]",
       "another dump, value by value: the first that differs, and by how much; -a lists all that differ",
       &Debugger::diff},
      {"history", "history", "the lines so far", &Debugger::print_history},
      {"quit", "quit", "the end", nullptr},
  };
  return all;
}

bool Debugger::run_line(const std::string& given) {
  std::string line = given;
  line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
  line.erase(line.find_last_not_of(" \t\r") + 1);
  if (line.empty() || line[0] == '#') return true;
  history_.push_back(line);
  const size_t blank = std::min(line.find_first_of(" \t"), line.size());
  const std::string name = line.substr(0, blank), rest = line.substr(blank);
  if (name == "quit" || name == "exit" || name == "q") return false;
  for (const Command& c : commands()) {
    if (c.name != name) continue;
    (this->*c.run)(rest);
    return true;
  }
  std::string known;
  for (const Command& c : commands()) known += (known.empty() ? "" : ", ") + c.name;
  throw LineError(fmt::format("there is no command '{}'. there are {}", name, known));
}

void Debugger::help(const std::string& rest) {
  const Words words(rest, {}, {});
  const auto is_wanted = [&](const Command& c) { return words.rest().empty() || c.name == words.rest()[0]; };
  if (std::none_of(commands().begin(), commands().end(), is_wanted))
    throw LineError(fmt::format("there is no command '{}'. `help` lists them", words.rest()[0]));
  Table table("<<");
  for (const Command& c : commands()) {
    if (!is_wanted(c)) continue;
    if (words.rest().empty())
      table.add({c.usage.substr(0, c.usage.find(" [-n ")), c.help.substr(0, c.help.find(". "))});
    else print("{}\n  {}\n", bold(c.usage), c.help);
    if (words.rest().empty() || c.name != "eval") continue;
    print("  + - * / @, comparisons, slices as in `pt`, and\n");
    for (const auto& [name, what] : expression_functions()) table.add({"    " + name, what});
  }
  print("{}", table.text(0));
}

void Debugger::print_history(const std::string&) {
  for (size_t i = 0; i < history_.size(); ++i) print("{:>4}  {}\n", i + 1, history_[i]);
}

std::vector<std::string> Debugger::completions(const std::string& begun, bool first) const {
  std::set<std::string> all;
  const auto add = [&](const std::string& word) {
    if (word.starts_with(begun)) all.insert(word);
  };
  if (first) {
    for (const Command& c : commands()) add(c.name);
  } else {
    for (const char* filter : {"has_inf_or_nan", "has_nan", "has_inf", "all_zero"}) add(filter);
    for (size_t i = 0; dump_ && i < dump_->nodes().size(); ++i) add(dump_->nodes()[i].name);
    if (dump_)
      for (const auto& [file, lines] : dump_->sources()) add(file);
  }
  return {all.begin(), all.end()};
}

namespace {
std::string counted(int64_t n, const char* what) {
  return fmt::format("{} {}{}", count_text(n), what, n == 1 ? "" : "s");
}
}  // namespace

std::string Debugger::greeting() const {
  if (!dump_) return "the model has not run. `run`, or `step` by step; `help` lists what there is\n";
  std::set<int64_t> steps;
  for (const Value& v : dump_->values()) steps.insert(v.step);
  const auto bad = std::count_if(dump_->values().begin(), dump_->values().end(),
                                 [](const Value& v) { return v.health.has_inf_or_nan(); });
  return fmt::format("{}: {} of {}, {} in {}; {} with a NaN or an infinity. `help` lists what there is\n",
                     run_model_ ? "the model has run" : dump_->folder(),
                     counted(int64_t(dump_->values().size()), "value"), counted(int64_t(dump_->nodes().size()), "node"),
                     counted(int64_t(dump_->calls().size()), "call"), counted(int64_t(steps.size()), "step"),
                     count_text(bad));
}

// --- Finding values --------------------------------------------------------------------------------------------------

const debug::Dump& Debugger::dump() const {
  if (!dump_) throw LineError("the model has not run. run it: run");
  return *dump_;
}

void Debugger::forget() {
  step_.reset();
  at_ = 0;
}

std::vector<size_t> Debugger::current() const {
  const std::vector<Value>& all = dump().values();
  int64_t step = step_.value_or(0);
  if (!step_)
    for (const Value& v : all) step = std::max(step, v.step);
  std::vector<size_t> some;
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].step == step) some.push_back(i);
  return some;
}

bool Debugger::passes(const Value& v, const std::string& filter) const {
  const debug::Health& h = v.health;
  if (filter.empty()) return true;
  if (filter == "has_inf_or_nan") return h.has_inf_or_nan();
  if (filter == "has_nan") return h.nan > 0;
  if (filter == "has_inf") return h.negative_infinite + h.positive_infinite > 0;
  if (filter == "all_zero") return h.size > 0 && h.zero == h.size;
  throw LineError(fmt::format("there is no filter '{}'. there are has_inf_or_nan, has_nan, has_inf, all_zero", filter));
}

// A name, its end after a '/', or either with ":1" appended.
int Debugger::node_named(const std::string& given) const {
  const size_t colon = given.rfind(':');
  const std::string name = colon == given.npos || !is_number(given.substr(colon + 1)) ? given : given.substr(0, colon);
  const std::vector<Node>& nodes = dump().nodes();
  std::vector<int> exact, ends;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string whole = dump_->graphs()[size_t(nodes[i].graph)].name + "/" + nodes[i].name;
    if (nodes[i].name == name || whole == name) exact.push_back(int(i));
    else if (nodes[i].name.ends_with("/" + name)) ends.push_back(int(i));
  }
  if (!exact.empty()) {  // if several graphs have it, the one with values in this step
    for (const size_t i : current())
      if (std::find(exact.begin(), exact.end(), dump_->values()[i].node) != exact.end()) return dump_->values()[i].node;
    return exact[0];
  }
  if (ends.size() == 1) return ends[0];
  std::string like;
  int count = 0;
  for (const Node& n : nodes)
    if (n.name.find(name) != n.name.npos && ++count <= 5) like += (like.empty() ? ". such as " : ", ") + n.name;
  throw LineError(ends.empty() ? fmt::format("there is no node '{}'{}", name, like)
                               : fmt::format("'{}' is the end of several nodes{}", name, like));
}

const Debugger::Value& Debugger::value_named(const std::string& given, int64_t time) const {
  const int node = node_named(given);
  const size_t colon = given.rfind(':');
  int output = 0;
  if (colon != given.npos && is_number(given.substr(colon + 1)))
    if (std::from_chars(given.data() + colon + 1, given.data() + given.size(), output).ec != std::errc())
      throw LineError(fmt::format("'{}' has no value of that number", given.substr(0, colon)));
  const Value* found = nullptr;
  for (const size_t i : current()) {
    const Value& v = dump_->values()[i];
    if (v.node == node && v.output == output && (time == 0 || v.time == time)) found = &v;
  }
  if (!found)
    throw LineError(fmt::format("this step has no value {} of '{}'{}", output, dump_->nodes()[size_t(node)].name,
                                time ? fmt::format(" at time {}", time) : ""));
  return *found;
}

Tensor Debugger::tensor_named(const std::string& name, int64_t time) const {
  if (!dump_ && live_) return live_->value(name, rill::Where());
  return dump().tensor(value_named(name, time), rill::Where());
}

// --- Commands --------------------------------------------------------------------------------------------------------

void Debugger::run(const std::string& rest) {
  const Words words(rest, {}, {"-f|--filter"});
  const std::string filter = words.value("-f");
  if (run_model_) {
    run_model_(folder_);
    dump_ = std::make_unique<debug::Dump>(folder_, rill::Where());
    forget();
  }
  const std::vector<Value>& all = dump().values();
  int64_t from = step_ && !filter.empty() && !run_model_ ? *step_ + 1 : INT64_MIN;
  if (filter.empty()) {
    forget();
    print("{}", greeting());
    return;
  }
  const Value* first = nullptr;
  for (const Value& v : all)
    if (v.step >= from && passes(v, filter) && (!first || v.step < first->step)) first = &v;
  if (!first) {
    print("no value {}passes {}\n", step_ ? "after this step " : "", filter);
    return;
  }
  step_ = first->step;
  at_ = 0;
  print("step {}: {} is the first that passes {}\n", first->step, green(shown(*first)), filter);
  list_tensors(" -f " + filter);
}

void Debugger::use(const std::string& rest) {
  const Words words(rest, {}, {});
  const std::string text = words.only("the number of a step, as `lc` lists them");
  int64_t wanted = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), wanted);
  const auto is_of_step = [&](const Value& v) { return v.step == wanted; };
  if (error != std::errc() || end != text.data() + text.size() ||
      std::none_of(dump().values().begin(), dump().values().end(), is_of_step))
    throw LineError(fmt::format("the dump has no step {}. `lc` lists them", text));
  step_ = wanted;
  at_ = 0;
}

namespace {

std::string number_text(double x) { return fmt::format("{:.5g}", x); }

std::string bad_text(const debug::Health& h) {
  std::string text;
  const auto add = [&](int64_t n, const char* what) {
    if (n) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count_text(n), what);
  };
  add(h.nan, "NaN");
  add(h.positive_infinite, "inf");
  add(h.negative_infinite, "-inf");
  return text;
}

// "1 to 3, mean 2", "all 1".
std::string range_text(const debug::Health& h) {
  if (!h.finite()) return "";
  if (h.least == h.greatest) return (h.finite() == 1 ? "" : "all ") + number_text(h.least);
  return fmt::format("{} to {}, mean {}", number_text(h.least), number_text(h.greatest), number_text(h.mean));
}

std::string spec_of(const debug::DumpValue& v) {
  return fmt::format("{}{}", rill::name(v.dtype), rill::to_string(v.shape));
}

// The number by which a list of values is sorted.
double key_of(const debug::DumpValue& v, const std::string& key) {
  const debug::Health& h = v.health;
  if (key == "size") return double(h.size);
  if (key == "least") return h.least;
  if (key == "greatest") return h.greatest;
  if (key == "mean") return h.mean;
  if (key == "variance") return h.variance;
  if (key == "nan") return double(h.nan);
  if (key == "inf") return double(h.positive_infinite + h.negative_infinite);
  if (key == "zero") return double(h.zero);
  throw LineError(
      fmt::format("tensors are not sorted by '{}', but by time, name, op, dtype, size, least, greatest, mean, "
                  "variance, nan, inf, zero",
                  key));
}

bool matches(std::string_view text, const std::string& pattern) {
  return pattern.empty() || rill::path_matches(text, pattern) ||
         (pattern.find_first_of("*?") == pattern.npos && text.find(pattern) != text.npos);
}

}  // namespace

void Debugger::list_tensors(const std::string& rest) {
  const Words words(rest, {"-r|--reverse"},
                    {"-n|--name", "-o|--op", "-s|--scope", "-d|--dtype", "-f|--filter", "-k|--sort", "-l|--limit"});
  std::vector<size_t> some = current();
  const size_t all = some.size();
  std::erase_if(some, [&](size_t i) {
    const Value& v = dump_->values()[i];
    const Node& n = dump_->nodes()[size_t(v.node)];
    return !matches(n.name, words.value("-n")) || !matches(n.op, words.value("-o")) ||
           !matches(n.scope, words.value("-s")) || !matches(rill::name(v.dtype), words.value("-d")) ||
           !passes(v, words.value("-f"));
  });
  const std::string key = words.value("-k", "time");
  const auto text_of = [&](size_t i) -> std::string {
    const Value& v = dump_->values()[i];
    return key == "name" ? shown(v)
           : key == "op" ? dump_->nodes()[size_t(v.node)].op
                         : std::string(rill::name(v.dtype));
  };
  if (key == "name" || key == "op" || key == "dtype")
    std::stable_sort(some.begin(), some.end(), [&](size_t a, size_t b) { return text_of(a) < text_of(b); });
  else if (key != "time")
    std::stable_sort(some.begin(), some.end(), [&](size_t a, size_t b) {
      return key_of(dump_->values()[a], key) < key_of(dump_->values()[b], key);
    });
  if (words.has("-r")) std::reverse(some.begin(), some.end());
  const auto most = size_t(std::max<int64_t>(words.number("-l", 200), 0));
  Table table("<<<<<");
  table.add({dim("tensor"), dim("op"), dim("what"), dim("range"), dim("line")});
  for (size_t i = 0; i < std::min(most, some.size()); ++i) {
    const Value& v = dump_->values()[some[i]];
    const Node& n = dump_->nodes()[size_t(v.node)];
    const std::string bad = bad_text(v.health), range = range_text(v.health);
    table.add({green(shown(v)) + (v.time > 1 ? fmt::format(" #{}", v.time) : ""), n.op, spec_of(v),
               bad.empty() ? range : red(bad) + (range.empty() ? "" : "; " + range),
               n.line ? fmt::format("{}:{}", n.file, n.line) : ""});
  }
  print("{}{} of {} tensors{}\n", table.text(0), count_text(int64_t(some.size())), count_text(int64_t(all)),
        some.size() > most ? fmt::format(", the first {} listed: -l {}", most, some.size()) : "");
}

void Debugger::list_calls(const std::string& rest) {
  const Words words(rest, {}, {"-l|--limit"});
  struct Row {
    int64_t values = 0, bad = 0;
  };
  std::map<std::pair<int64_t, int64_t>, Row> rows;  // by step and call
  for (const Value& v : dump().values()) {
    Row& row = rows[{v.step, v.call}];
    ++row.values;
    row.bad += v.health.has_inf_or_nan();
  }
  std::map<int64_t, const debug::DumpCall*> calls;
  for (const debug::DumpCall& c : dump_->calls()) calls[c.number] = &c;
  Table table(">><><<");
  table.add({dim("step"), dim("call"), dim("of"), dim("values"), dim("bad"), dim("line")});
  int64_t left = words.number("-l", 200);
  for (const auto& [which, row] : rows) {
    if (left-- <= 0) break;
    const auto call = calls.find(which.second);
    const bool known = call != calls.end();
    table.add({std::to_string(which.first), std::to_string(which.second),
               known ? call->second->name : "(ended by an error)", count_text(row.values),
               row.bad ? red(count_text(row.bad)) : "",
               known && call->second->line ? fmt::format("{}:{}", call->second->file, call->second->line) : ""});
  }
  print("{}", table.text(0));
}

void Debugger::print_tensor(const std::string& rest) {
  const Words words(rest, {}, {"-t|--time"});
  const auto [name, slices] = split_slices(words.only("the name of a tensor, as `lt` lists them"));
  const Tensor x = tensor_named(name, words.number("-t", 0)), part = sliced(x, slices);
  print("{}  {}{}\n{}\n", green(name), dim(spec_text(x)), slices.empty() ? "" : fmt::format("  {}", slices),
        rill::to_string(part));
}

void Debugger::eval(const std::string& rest) {
  const Tensor x = evaluate(rest, [this](const std::string& name) { return tensor_named(name); });
  print("{}\n{}\n", dim(spec_text(x)), rill::to_string(x));
}

// --- Comparing dumps -------------------------------------------------------------------------------------------------

namespace {

// "" if they are equal.
std::string difference(const debug::Dump& a, const debug::DumpValue& x, const debug::Dump& b,
                       const debug::DumpValue& y) {
  if (x.dtype != y.dtype || x.shape != y.shape) return fmt::format("{} here, {} there", spec_of(x), spec_of(y));
  if (x.has_tensor && y.has_tensor) {
    const Tensor s = a.tensor(x, rill::Where()), t = b.tensor(y, rill::Where());
    if (rill::same_bits(s, t)) return "";
    if (x.dtype == rill::string) return "other texts";
    const rill::DType wide = rill::is_complex(x.dtype) ? rill::c128 : rill::f64;
    const Tensor p = s.astype(wide), q = t.astype(wide);
    const Tensor same = rill::logical_or(p == q, rill::logical_and(p != p, q != q));
    const Tensor far = rill::where(same, 0., rill::abs(p - q));
    return fmt::format("{} of {} elements, by {:.3g} at most, {:.3g} on average",
                       count_text(rill::count_nonzero(rill::logical_not(same)).item<int64_t>()), count_text(s.size()),
                       rill::max(far).item<double>(), rill::mean(far).item<double>());
  }
  const debug::Health &h = x.health, &k = y.health;
  if (h.nan != k.nan || h.positive_infinite != k.positive_infinite || h.negative_infinite != k.negative_infinite)
    return fmt::format("{} here, {} there", h.has_inf_or_nan() ? bad_text(h) : "all finite",
                       k.has_inf_or_nan() ? bad_text(k) : "all finite");
  if (h.least != k.least || h.greatest != k.greatest || h.mean != k.mean || h.variance != k.variance ||
      h.zero != k.zero)
    return fmt::format("{} here, {} there (of the health alone)", range_text(h), range_text(k));
  return "";
}

}  // namespace

void Debugger::diff(const std::string& rest) {
  const Words words(rest, {"-a|--all"}, {});
  const debug::Dump other(words.only("the folder of another dump"), rill::Where());
  using Key = std::tuple<int64_t, std::string, int>;
  std::map<std::pair<int64_t, std::string>, int> times;
  std::map<Key, const Value*> there;
  for (const Value& v : other.values()) {
    const std::string name = other.name_of(v);
    there[{v.step, name, ++times[{v.step, name}]}] = &v;
  }
  times.clear();
  Table table("<><<");
  int64_t equal = 0, different = 0, missing = 0;
  for (const Value& v : dump().values()) {
    const std::string name = shown(v);
    const int time = ++times[{v.step, name}];
    const auto at = there.find({v.step, name, time});
    if (at == there.end()) {
      ++missing;
      continue;
    }
    const std::string what = difference(*dump_, v, other, *at->second);
    if (what.empty()) {
      ++equal;
    } else if (++different == 1 || words.has("-a")) {
      const Node& n = dump_->nodes()[size_t(v.node)];
      table.add({yellow(name) + (time > 1 ? fmt::format(" #{}", time) : ""), fmt::format("step {}", v.step), what,
                 n.line ? fmt::format("{}:{}", n.file, n.line) : ""});
    }
  }
  if (different && !words.has("-a")) print("the first that differs:\n");
  print("{}{} equal, {} different, {} only here, {} only there\n", table.text(0), count_text(equal),
        count_text(different), count_text(missing), count_text(int64_t(there.size()) - equal - different));
}

}  // namespace command
