// Patterns of paths; see paths.h.
#include "rill/data/files/paths.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>

namespace rill::data {
namespace {

namespace fs = std::filesystem;

bool is_pattern(const std::string& part) { return part.find_first_of("*?[{") != std::string::npos; }

constexpr size_t most_alternatives = 10000;

// The index of the ',' or '}' that ends the alternative at `at`; npos if there is none.
size_t end_of_alternative(const std::string& pattern, size_t at) {
  int depth = 0;
  for (; at < pattern.size(); ++at) {
    const char c = pattern[at];
    if (depth == 0 && (c == ',' || c == '}')) return at;
    depth += (c == '{') - (c == '}');
  }
  return pattern.npos;
}

// "a{b,c}" -> "ab", "ac". Unmatched braces are literal.
void expand(const std::string& pattern, std::vector<std::string>& found) {
  const size_t open = pattern.find('{');
  std::vector<std::string> choices;
  size_t at = open + 1, end = open == pattern.npos ? open : end_of_alternative(pattern, at);
  for (; end != pattern.npos; at = end + 1, end = end_of_alternative(pattern, at)) {
    choices.push_back(pattern.substr(at, end - at));
    if (pattern[end] == '}') break;
  }
  if (end == pattern.npos) return found.push_back(pattern);
  for (const std::string& choice : choices) {
    if (found.size() > most_alternatives) return;
    expand(pattern.substr(0, open) + choice + pattern.substr(end + 1), found);
  }
}

// Adds the paths below `folder` that match the pattern's parts from `at` on. "**" matches folders of any depth, or
// none.
void match(const fs::path& folder, const std::vector<std::string>& parts, size_t at, std::vector<std::string>& found) {
  std::error_code unknown;
  if (at == parts.size()) return;
  const bool last = at + 1 == parts.size();
  const std::string& part = parts[at];
  if (!is_pattern(part)) {
    const fs::path next = folder / part;
    if (!fs::exists(next, unknown)) return;
    if (last) found.push_back(next.string());
    else match(next, parts, at + 1, found);
    return;
  }
  const fs::path where = folder.empty() ? fs::path(".") : folder;
  const bool any_depth = part == "**";
  if (any_depth) match(folder, parts, at + 1, found);
  for (const fs::directory_entry& e :
       fs::directory_iterator(where, fs::directory_options::skip_permission_denied, unknown)) {
    const std::string name = e.path().filename().string();
    const bool is_folder = e.is_directory(unknown);
    if (any_depth) {
      if (is_folder && !e.is_symlink(unknown) && name[0] != '.') match(folder / name, parts, at, found);
      if (last && !is_folder && name[0] != '.') found.push_back((folder / name).string());
    } else if (fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0) {
      if (!last) {
        if (is_folder) match(folder / name, parts, at + 1, found);
      } else if (!is_folder) {
        found.push_back((folder / name).string());
      }
    }
  }
}

}  // namespace

std::vector<std::string> detail::matches(const std::string& pattern, const std::string& op, const Where& where) {
  std::vector<std::string> patterns, found;
  expand(pattern, patterns);
  if (patterns.size() > most_alternatives)
    fail(op, fmt::format("'{}' has more than {} alternatives", pattern.substr(0, 80), most_alternatives), where);
  for (const std::string& one : patterns) {
    std::vector<std::string> parts;
    for (const fs::path& p : fs::path(one).relative_path())
      if (!p.empty()) parts.push_back(p.string());
    match(fs::path(one).root_path(), parts, 0, found);
  }
  if (found.empty())
    fail(op,
         fmt::format("no file matches '{}'. a pattern is as the shell's: *, ?, [abc], {{a,b}}, and ** for folders of "
                     "any depth",
                     pattern),
         where);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

Paths::Paths(const Tensor& paths, Where where) {
  if (!paths.defined() || paths.dtype() != DType::string)
    fail("data::Paths",
         "paths are strings. got " + (paths.defined() ? to_string(paths.spec()) : std::string("an undefined tensor")),
         where);
  given_ = paths.to_vector<std::string>(where);
}

std::vector<std::string> Paths::files(const std::string& op, const Where& where) const {
  std::vector<std::string> all;
  std::error_code unknown;
  for (const std::string& path : given_) {
    if (!is_pattern(path) || fs::exists(path, unknown)) all.push_back(path);
    else
      for (std::string& file : detail::matches(path, op, where)) all.push_back(std::move(file));
  }
  if (all.empty()) fail(op, "there are no files", where);
  return all;
}

}  // namespace rill::data
