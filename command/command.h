// What the subcommands of `rill` share: adding them, exit codes, errors in the call. Each is in its own file
// (show.cpp, run.cpp, ...) with a function add_NAME below; main.cpp calls them all.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace command {

// 0: it worked; `diff` found no difference. 1: it failed, or `diff` found one. 2: wrong usage; for `diff`, any
// trouble, as for diff(1).
enum ExitCode { succeeded = 0, failed = 1, wrong_usage = 2 };

// Wrong usage: exit code 2, and a hint to use --help.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Program {
  CLI::App& app;
  std::function<int()> chosen;  // runs the chosen subcommand; returns the exit code
  int on_error = failed;        // the exit code of an exception
};

// A subcommand whose --help ends with `examples`, one on each line.
CLI::App* add(Program& program, const std::string& name, const std::string& description,
              const std::vector<std::string>& examples);
// An option that may be given several times, with one value each.
CLI::Option* add_list(CLI::App* sub, const std::string& names, std::vector<std::string>& values,
                      const std::string& description);
// Checks that a number is in [least, most]; NaN is not.
CLI::Validator number_in(double least, double most);
// Runs `action` if `sub` was given.
void on_call(Program& program, CLI::App* sub, std::function<int()> action);

// "[import_model] 'x.onnx': no such file" without the name of the function, which the user of a program has not called.
// An op's name stays: it says where in the model.
std::string without_function(const std::string& message);

void add_show(Program& program);
void add_run(Program& program);
void add_bench(Program& program);
void add_graph(Program& program);
void add_conversions(Program& program);  // convert, freeze, optimize
void add_inspect(Program& program);
void add_debug(Program& program);
void add_diff(Program& program);
void add_launch(Program& program);
void add_completion(Program& program);

}  // namespace command
