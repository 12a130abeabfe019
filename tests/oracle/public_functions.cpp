// Which functions users may call, read from the headers: those of ops/, the transforms, control flow, and what nn has.
#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "cases.h"

namespace oracle {

namespace {

const char* const headers[] = {"ops/creation.h",  "ops/elementwise.h", "ops/reductions.h",     "ops/shaping.h",
                               "ops/indexing.h",  "ops/linalg.h",      "ops/conv.h",           "ops/nn_ops.h",
                               "ops/attention.h", "ops/random.h",      "ops/effects.h",        "autodiff/transforms.h",
                               "nn/layers.h",     "nn/optimizers.h",   "trace/control_flow.h", "nn/initializers.h"};

std::string read(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Without comments and preprocessor lines.
std::string code_of(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  bool continued = false;
  for (std::string line; std::getline(lines, line);) {
    const bool directive = continued || line.starts_with("#");
    continued = directive && line.ends_with("\\");
    if (!directive) out += line.substr(0, line.find("//")) + "\n";
  }
  return out;
}

// Without the angle brackets that follow "template", which may nest.
std::string without_template(const std::string& head) {
  const size_t at = head.find("template");
  size_t i = at == std::string::npos ? at : head.find('<', at);
  if (i == std::string::npos) return head;
  for (int depth = 0; i < head.size(); ++i) {
    depth += head[i] == '<' ? 1 : head[i] == '>' ? -1 : 0;
    if (depth == 0) return without_template(head.substr(0, at) + head.substr(i + 1));
  }
  return head;
}

// A declaration at namespace scope: the name of the function, or of the class of nn, if that is what it declares.
void note(const std::string& declaration, const std::string& space, std::set<std::string>& names) {
  static const std::regex of_macro("RILL_\\w+\\((\\w+)\\)"), function("(\\w+)\\s*\\("), type("^\\s*class (\\w+)"),
      other("\\b(struct|class|enum|using|concept|operator|friend|extern)\\b");
  for (std::sregex_iterator i(declaration.begin(), declaration.end(), of_macro), end; i != end; ++i)
    names.insert(space + (*i)[1].str());
  const std::string plain = without_template(std::regex_replace(declaration, of_macro, ""));
  std::smatch found;
  if (space == "nn::" && std::regex_search(plain, found, type)) names.insert(space + found[1].str());
  if (!std::regex_search(plain, other) && std::regex_search(plain, found, function) &&
      !found[1].str().starts_with("RILL_"))  // a macro that declares none
    names.insert(space + found[1].str());
}

void scan_header(const std::string& code, std::set<std::string>& names) {
  std::vector<std::string>
      scopes;  // "rill::", "random::", ...; "" is what is no namespace, "detail::" what is not public
  std::string declaration;
  int parentheses = 0;
  auto space = [&]() -> std::optional<std::string> {
    std::string all;
    for (const std::string& s : scopes) {
      if (s.empty() || s == "detail::") return std::nullopt;
      all += s;
    }
    return all.starts_with("rill::") ? all.substr(6) : all;
  };
  for (char c : code) {
    parentheses += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (parentheses > 0 || (c != '{' && c != '}' && c != ';')) {
      declaration += c;
      continue;
    }
    const size_t named = declaration.find("namespace ");
    if (auto s = space(); s && named == std::string::npos) note(declaration, *s, names);
    if (c == '{') {
      std::string name = named == std::string::npos ? "" : declaration.substr(named + 10);
      name.erase(std::remove_if(name.begin(), name.end(), [](char x) { return std::isspace(x); }), name.end());
      scopes.push_back(name.empty() ? "" : name + "::");
    } else if (c == '}') {
      scopes.pop_back();
    }
    declaration.clear();
  }
}

}  // namespace

std::vector<std::string> public_functions(const std::string& source_root) {
  std::set<std::string> names;
  for (const char* header : headers) scan_header(code_of(read(source_root + "/" + header)), names);
  return {names.begin(), names.end()};
}

}  // namespace oracle
