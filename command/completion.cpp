// rill completion SHELL: scripts by which a shell completes the program's commands and options. They are generated from
// the program's options.
#include "command.h"
#include "terminal.h"

namespace command {
namespace {

struct Word {
  std::string text, description;
};

// The subcommands, each with its options.
std::vector<std::pair<Word, std::vector<Word>>> commands_of(const CLI::App& app) {
  std::vector<std::pair<Word, std::vector<Word>>> all;
  for (const CLI::App* sub : app.get_subcommands({})) {
    std::vector<Word> options;
    for (const CLI::Option* o : sub->get_options())
      for (const std::string& name : o->get_lnames()) options.push_back({"--" + name, o->get_description()});
    all.push_back({{sub->get_name(), sub->get_description()}, options});
  }
  return all;
}

std::vector<Word> global_options(const CLI::App& app) {
  std::vector<Word> options;
  for (const CLI::Option* o : app.get_options())
    for (const std::string& name : o->get_lnames()) options.push_back({"--" + name, o->get_description()});
  return options;
}

std::string joined(const std::vector<Word>& words) {
  std::string text;
  for (const Word& w : words) text += (text.empty() ? "" : " ") + w.text;
  return text;
}

// Removes the single quotes of every shell, and zsh's special characters.
std::string plain(std::string text) {
  for (char& c : text)
    if (c == '\'' || c == '[' || c == ']' || c == ':' || c == '\\') c = ' ';
  return text;
}

std::string bash_script(const CLI::App& app) {
  std::string cases, names;
  for (const auto& [command, options] : commands_of(app)) {
    names += (names.empty() ? "" : " ") + command.text;
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command.text, joined(options));
  }
  return fmt::format(R"(# bash completion of rill: source <(rill completion bash)
_rill() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} command= words= i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case " {0} " in *" ${{COMP_WORDS[i]}} "*) command=${{COMP_WORDS[i]}}; break ;; esac
  done
  case $command in
{1}    *) words="{2} {0}" ;;
  esac
  COMPREPLY=()
  if [[ $command == completion && $word != -* ]]; then
    COMPREPLY=($(compgen -W "bash zsh fish" -- "$word"))
  elif [[ -z $command || $word == -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  fi
}}
complete -o default -F _rill rill
)",
                     names, cases, joined(global_options(app)));
}

std::string zsh_script(const CLI::App& app) {
  std::string names, cases;
  for (const auto& [command, options] : commands_of(app)) {
    names += fmt::format("    '{}:{}'\n", command.text, plain(command.description));
    std::string list;
    for (const Word& o : options) list += fmt::format(" '{}[{}]'", o.text, plain(o.description));
    cases += fmt::format("    {}) _arguments{} '*:file:{}' ;;\n", command.text, list,
                         command.text == "completion" ? "(bash zsh fish)" : "_files");
  }
  std::string global;
  for (const Word& o : global_options(app)) global += fmt::format(" '{}[{}]'", o.text, plain(o.description));
  return fmt::format(R"(#compdef rill
# zsh completion of rill: rill completion zsh > a folder of $fpath/_rill
_rill() {{
  local -a commands=(
{0}  )
  local curcontext=$curcontext state line
  _arguments -C{1} '1:command:->command' '*::argument:->argument'
  case $state in
  command) _describe command commands ;;
  argument)
    case $words[1] in
{2}    esac ;;
  esac
}}
if [ "$funcstack[1]" = _rill ]; then _rill "$@"; else compdef _rill rill; fi
)",
                     names, global, cases);
}

std::string fish_script(const CLI::App& app) {
  std::string text = "# fish completion of rill: rill completion fish > ~/.config/fish/completions/rill.fish\n";
  for (const Word& o : global_options(app))
    text += fmt::format("complete -c rill -n __fish_use_subcommand -l {} -d '{}'\n", o.text.substr(2),
                        plain(o.description));
  for (const auto& [command, options] : commands_of(app)) {
    text += fmt::format("complete -c rill -n __fish_use_subcommand -f -a {} -d '{}'\n", command.text,
                        plain(command.description));
    for (const Word& o : options)
      text += fmt::format("complete -c rill -n '__fish_seen_subcommand_from {}' -l {} -d '{}'\n", command.text,
                          o.text.substr(2), plain(o.description));
  }
  return text + "complete -c rill -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n";
}

}  // namespace

void add_completion(Program& program) {
  auto shell = std::make_shared<std::string>();
  CLI::App* sub = add(program, "completion", "a script that makes a shell complete rill's commands and options",
                      {"source <(rill completion bash)                  # in ~/.bashrc",
                       "rill completion zsh > ~/.zfunc/_rill            # with ~/.zfunc in $fpath",
                       "rill completion fish > ~/.config/fish/completions/rill.fish"});
  sub->add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  on_call(program, sub, [shell, &program] {
    print("{}", *shell == "bash"  ? bash_script(program.app)
                : *shell == "zsh" ? zsh_script(program.app)
                                  : fish_script(program.app));
    return succeeded;
  });
}

}  // namespace command
