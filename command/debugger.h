// `rill debug`: a session at a prompt. debug.cpp has the subcommand and reads lines, debugger.cpp the commands for
// values, debugger_views.cpp those for graphs and sources, expression.cpp the language of `eval`.
#pragma once
#include <rill/rill.h>
#include <rill/serialize.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "command.h"

namespace command {

// An invalid line. The session continues.
class LineError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The words of a line and its options: "lt -n relu --sort size" with which options take a value.
class Words {
 public:
  // Blanks separate words, except inside quotes, brackets and parentheses. Throws LineError for an option that is not
  // in `flags` and `values`, which are "-r" or "-n|--name".
  Words(const std::string& line, const std::vector<std::string>& flags, const std::vector<std::string>& values);
  bool has(const std::string& option) const { return options_.contains(option); }
  std::string value(const std::string& option, const std::string& otherwise = "") const;
  int64_t number(const std::string& option, int64_t otherwise) const;
  const std::vector<std::string>& rest() const { return rest_; }
  // The only word; throws LineError, saying `what` it should be.
  const std::string& only(const std::string& what) const;

 private:
  std::map<std::string, std::string> options_;  // by the first of its names
  std::vector<std::string> rest_;
};

// The value of the expression `text`: numbers, names of values in backticks or bare, + - * / @ and comparisons,
// functions, [slices].
rill::Tensor evaluate(const std::string& text, const std::function<rill::Tensor(const std::string&)>& value_of);
// Splits "name[1:3, 0]": the name, and "[1:3, 0]" or "".
std::pair<std::string, std::string> split_slices(const std::string& text);
rill::Tensor sliced(const rill::Tensor& x, const std::string& slices);
// The functions that evaluate() knows, with what they do.
const std::vector<std::pair<std::string, std::string>>& expression_functions();

class Debugger {
 public:
  // Dumps a model's call on inputs into a folder.
  using RunModel = std::function<void(const std::string& folder)>;
  explicit Debugger(std::unique_ptr<rill::debug::Dump> dump) : dump_(std::move(dump)) { forget(); }
  Debugger(RunModel run, std::string folder, std::unique_ptr<rill::GraphRun> steps)
      : run_model_(std::move(run)), folder_(std::move(folder)), live_(std::move(steps)) {}

  struct Command {
    std::string name, usage, help;
    void (Debugger::*run)(const std::string& rest);
  };
  static const std::vector<Command>& commands();
  // Executes a line. False if it ends the session. Throws LineError and rill::Error.
  bool run_line(const std::string& line);
  // The completions of a partial word.
  std::vector<std::string> completions(const std::string& begun, bool first) const;
  std::string greeting() const;
  const std::vector<std::string>& history() const { return history_; }
  // Folders with source files that the dump does not have.
  void add_sources(const std::vector<std::string>& folders) { source_folders_ = folders; }

 private:
  using Value = rill::debug::DumpValue;
  using Node = rill::debug::DumpNode;

  void help(const std::string& rest);
  void run(const std::string& rest);
  void list_tensors(const std::string& rest);
  void list_calls(const std::string& rest);
  void use(const std::string& rest);
  void node_info(const std::string& rest);
  void print_tensor(const std::string& rest);
  void list_inputs(const std::string& rest);
  void list_outputs(const std::string& rest);
  void print_source(const std::string& rest);
  void step(const std::string& rest);
  void eval(const std::string& rest);
  void find(const std::string& rest);
  void diff(const std::string& rest);
  void print_history(const std::string& rest);

  const rill::debug::Dump& dump() const;  // throws if the model has not run
  void forget();                          // clears what depends on another dump
  // The indices of the current step's values in values().
  std::vector<size_t> current() const;
  bool passes(const Value& v, const std::string& filter) const;
  // The value with a name: "layer1/relu", "layer1/relu:1", or its end, if that is unique.
  const Value& value_named(const std::string& name, int64_t time = 0) const;
  int node_named(const std::string& name) const;
  rill::Tensor tensor_named(const std::string& name, int64_t time = 0) const;
  std::string shown(const Value& v) const { return dump_->name_of(v); }
  // The node of an operand "x:0" in `graph`; -1: unknown.
  int operand(int graph, const std::string& input) const;
  std::vector<int> readers(int node) const;
  void tree(int node, int depth, int most, bool inputs, std::set<int>& seen) const;
  std::vector<std::string> lines_of(const std::string& file) const;
  void step_live(int64_t count, const std::string& until);

  RunModel run_model_;
  std::string folder_;
  std::unique_ptr<rill::GraphRun> live_;  // node by node
  std::unique_ptr<rill::debug::Dump> dump_;
  std::optional<int64_t> step_;  // the current one; none: the last one
  size_t at_ = 0;                // of the stepper, in current()
  std::vector<std::string> history_, source_folders_;
};

// Lines from a terminal, edited, with history and completion, if libedit is installed; otherwise, and from a pipe,
// unedited.
class LineReader {
 public:
  explicit LineReader(std::function<std::vector<std::string>(const std::string&, bool)> complete);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  // None at the end of the input.
  std::optional<std::string> next(const std::string& prompt);
  bool is_terminal() const { return terminal_; }

 private:
  bool terminal_;
};

}  // namespace command
