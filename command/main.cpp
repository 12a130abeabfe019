// `rill`: models, graphs, tensors and logs on the command line, by the public functions of the library.
// docs/command_line.md shows what it does; each subcommand is a file of its own.
#include <rill/ops/op.h>
#include <rill/rill.h>

#include <algorithm>
#include <exception>

#include "command.h"
#include "terminal.h"

namespace command {

CLI::App* add(Program& program, const std::string& name, const std::string& description,
              const std::vector<std::string>& examples) {
  CLI::App* sub = program.app.add_subcommand(name, description);
  sub->fallthrough();  // --color and --threads may follow it
  std::string text = "Examples:";
  for (const std::string& line : examples) text += "\n  " + line;
  sub->footer(text + "\n");
  return sub;
}

CLI::Option* add_list(CLI::App* sub, const std::string& names, std::vector<std::string>& values,
                      const std::string& description) {
  return sub->add_option(names, values, description)->allow_extra_args(false);
}

CLI::Validator number_in(double least, double most) {
  return {[=](std::string& text) -> std::string {
            double v = 0;
            if (CLI::detail::lexical_cast(text, v) && v >= least && v <= most) return "";
            return fmt::format("{} is no number in [{}, {}]", text, least, most);
          },
          fmt::format("FLOAT in [{} - {}]", least, most)};
}

void on_call(Program& program, CLI::App* sub, std::function<int()> action) {
  sub->callback([&program, action = std::move(action)] { program.chosen = action; });
}

std::string without_function(const std::string& text) {
  const size_t end = text.find("] ");
  if (!text.starts_with('[') || end == text.npos || rill::find_op(text.substr(1, end - 1))) return text;
  return text.substr(end + 2);
}

namespace {

// "rill: ..." for CLI11's parse error.
std::string complaint(const CLI::App& app, const CLI::ParseError& e) {
  // For CLI11, an unknown first word is a missing command and an extra word.
  const std::vector<std::string> words = app.remaining();
  const auto word = std::find_if(words.begin(), words.end(), [](auto& w) { return !w.starts_with('-'); });
  if (!dynamic_cast<const CLI::RequiredError*>(&e) || word == words.end() || !app.get_subcommands().empty())
    return e.what();
  std::string names;
  for (const CLI::App* sub : app.get_subcommands({})) names += (names.empty() ? "" : ", ") + sub->get_name();
  return fmt::format("'{}' is no command. commands are {}", *word, names);
}

// Further lines are indented: text from a file cannot look like another message.
void complain(const std::string& what) {
  std::fflush(stdout);
  std::string text = visible_lines(what);
  for (size_t at = 0; (at = text.find('\n', at)) != text.npos; ++at)
    if (at + 1 < text.size() && text[at + 1] != ' ') text.insert(at + 1, "  ");
  fmt::print(stderr, "rill: {}\n", text);
}

int wrong_call(const std::string& what) {
  complain(what);
  std::fputs("Run with --help for more information.\n", stderr);
  return wrong_usage;
}

int run(int argc, char** argv) {
  CLI::App app(
      "Looks into models, runs, converts and compares them; looks into files of tensors, checkpoints and logs.",
      "rill");
  Program program{app, {}, failed};
  app.set_version_flag("--version", std::string("rill ") + RILL_VERSION, "print the version");
  app.require_subcommand(1);
  std::string colours = "auto";
  app.add_option("--color", colours, "when to use colours: auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  int threads = 0;
  app.add_option("--threads", threads, "threads that an op may use; 0: one a core")->check(CLI::Range(0, 4096));
  app.footer(
      "Models are ONNX files, .rill files, SavedModels and frozen graphs (.pb). `rill COMMAND --help` has examples of "
      "each command.\n"
      "Exit codes: 0 done, 1 failed, 2 wrong usage; of diff: 0 equal, 1 different, 2 trouble.\n");
  add_show(program);
  add_run(program);
  add_bench(program);
  add_graph(program);
  add_conversions(program);
  add_inspect(program);
  add_debug(program);
  add_diff(program);
  add_launch(program);
  add_completion(program);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) return wrong_call(complaint(app, e));
    app.exit(e);  // prints --help or --version
    flush_output();
    return succeeded;
  }
  set_colours(colours);
  if (threads > 0) rill::set_num_threads(threads);
  const rill::CallerScope nobody(rill::Where(), "");  // errors name no line of this program
  try {
    const int code = program.chosen();
    flush_output();
    return code;
  } catch (const UsageError& e) {
    return wrong_call(e.what());
  } catch (const std::exception& e) {
    complain(without_function(e.what()));
    return program.on_error;
  }
}

}  // namespace
}  // namespace command

int main(int argc, char** argv) {
  try {
    return command::run(argc, argv);
  } catch (const std::exception& e) {
    std::fputs((std::string("rill: ") + e.what() + "\n").c_str(), stderr);
    return command::failed;
  }
}
