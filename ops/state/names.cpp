// Paths of Variables: how names are made unique, how they print and match. See rill/ops/names.h.
#include "rill/ops/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "rill/ops/state/variable_state.h"

namespace rill {

// --- NamedVariables --------------------------------------------------------------------------------------------------

const Variable* NamedVariables::find(std::string_view path) const {
  for (const auto& [p, v] : list_)
    if (p == path) return &v;
  return nullptr;
}

namespace {
// The first paths, for an error.
std::string listed(const NamedVariables& variables) {
  std::string text;
  size_t n = 0;
  for (const auto& [path, v] : variables) {
    if (++n > 8) return text + fmt::format(", ... ({} in all)", variables.size());
    text += (text.empty() ? "" : ", ") + path;
  }
  return text.empty() ? "none" : text;
}
}  // namespace

const Variable& NamedVariables::at(std::string_view path, Where where) const {
  if (const Variable* v = find(path)) return *v;
  fail("variables", fmt::format("there is no '{}'. the paths are: {}", path, listed(*this)), where);
}

std::vector<std::string> NamedVariables::paths() const {
  std::vector<std::string> result;
  for (const auto& [path, v] : list_) result.push_back(path);
  return result;
}

std::vector<Variable> NamedVariables::values() const {
  std::vector<Variable> result;
  for (const auto& [path, v] : list_) result.push_back(v);
  return result;
}

std::string to_string(const NamedVariables& variables) {
  struct Row {
    std::string path, dtype, shape, count, trained;
  };
  std::vector<Row> rows{{"path", "dtype", "shape", "parameters", "trainable"}};
  int64_t all = 0, trained = 0, bytes = 0;
  for (const auto& [path, v] : variables) {
    const int64_t n = v.shape().numel();
    all += n;
    bytes += n * int64_t(size_of(v.dtype()));
    if (v.trainable()) trained += n;
    rows.push_back({path, std::string(name(v.dtype())), to_string(v.shape()), std::to_string(n),
                    v.trainable() ? "yes" : (v.state().frozen ? "frozen" : "no")});
  }
  size_t w[4] = {};
  for (const Row& r : rows) {
    w[0] = std::max(w[0], r.path.size());
    w[1] = std::max(w[1], r.dtype.size());
    w[2] = std::max(w[2], r.shape.size());
    w[3] = std::max(w[3], r.count.size());
  }
  std::string text;
  for (const Row& r : rows)
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>{}}  {}\n", r.path, w[0], r.dtype, w[1], r.shape, w[2], r.count,
                        w[3], r.trained);
  return text + fmt::format("{} parameters, {} of them trainable, {} bytes\n", all, trained, bytes);
}

std::ostream& operator<<(std::ostream& out, const NamedVariables& variables) { return out << to_string(variables); }

// --- VariablePaths ---------------------------------------------------------------------------------------------------

std::string VariablePaths::unique(const std::string& name) const {
  if (!used_.contains(name)) return name;
  for (size_t i = 1;; ++i)
    if (std::string numbered = fmt::format("{}_{}", name, i); !used_.contains(numbered)) return numbered;
}

VariablePaths::Scope::Scope(VariablePaths& paths, std::string_view name)
    : paths_(paths), outer_(paths.scope_), before_(paths.found_.size() + paths.slots_.size()) {
  path_ = paths.unique(outer_ + std::string(name));
  paths.used_.insert(path_);
  paths.scope_ = path_ + "/";
}
VariablePaths::Scope::~Scope() {
  paths_.scope_ = outer_;
  // Nothing is under that name, as of a layer that stands here for the second time: the next one may have it.
  if (paths_.found_.size() + paths_.slots_.size() == before_) paths_.used_.erase(path_);
}

void VariablePaths::add(std::string_view name, const Variable& v, bool again) {
  if (!seen_.insert(&v.state()).second && !again) return;
  std::string path = unique(scope_ + std::string(name));
  used_.insert(path);
  found_.add(std::move(path), v);
}

void VariablePaths::add_all(const std::vector<Variable>& variables) {
  // The names have scopes in them: "dense/kernel", "dense/bias". The first of those that are taken is numbered, and
  // what follows belongs to the same one, until it has such a thing already.
  std::vector<std::pair<std::string, std::string>> now;  // the outermost scope, and as what it stands here
  std::unordered_set<std::string> here;
  for (const Variable& v : variables) {
    if (seen_.contains(&v.state())) continue;
    const std::string& name = v.name();
    const size_t slash = name.find('/');
    if (slash == std::string::npos) {
      add(name, v);
      continue;
    }
    const std::string outer = name.substr(0, slash), rest = name.substr(slash);
    auto at = std::find_if(now.begin(), now.end(), [&](auto& p) { return p.first == outer; });
    if (at == now.end()) at = now.insert(now.end(), {outer, ""});
    if (at->second.empty() || here.contains(at->second + rest)) {
      at->second = unique(scope_ + outer);
      used_.insert(at->second);
    }
    here.insert(at->second + rest);
    seen_.insert(&v.state());
    used_.insert(at->second + rest);
    found_.add(at->second + rest, v);
  }
}

void VariablePaths::add_slots(VariableSlots slots) { slots_.emplace_back(scope_, std::move(slots)); }

std::string VariablePaths::path_of(const Variable& v) const {
  for (const auto& [path, other] : found_)
    if (&other.state() == &v.state()) return path;
  return {};
}

const NamedVariables& VariablePaths::finish() {
  for (; finished_slots_ < slots_.size(); ++finished_slots_) {
    const auto& [scope, slots] = slots_[finished_slots_];
    // Of a Variable without a path here: its own name, numbered where another has it.
    std::vector<std::pair<const VariableState*, std::string>> own;
    std::unordered_set<std::string> taken;
    for (const VariableSlots::Slot& s : slots.made) {
      std::string of = path_of(s.of);
      if (of.empty()) {
        auto at = std::find_if(own.begin(), own.end(), [&](auto& p) { return p.first == &s.of.state(); });
        if (at == own.end()) {
          std::string name = s.of.name();
          for (size_t i = 1; !taken.insert(name).second; ++i) name = fmt::format("{}_{}", s.of.name(), i);
          at = own.insert(own.end(), {&s.of.state(), name});
        }
        of = at->second;
      }
      if (!seen_.insert(&s.variable.state()).second) continue;
      std::string path = unique(scope + of + "/" + s.name);
      used_.insert(path);
      found_.add(std::move(path), s.variable);
    }
  }
  return found_;
}

std::vector<VariablePaths::Unmade> VariablePaths::unmade() const {
  std::vector<Unmade> result;
  for (const auto& [scope, slots] : slots_)
    for (const std::string& name : slots.names)
      for (const auto& [path, v] : found_) {
        const bool made = std::any_of(slots.made.begin(), slots.made.end(),
                                      [&](auto& s) { return &s.of.state() == &v.state() && s.name == name; });
        if (!made) result.push_back({fmt::format("{}{}/{}", scope, path, name), v, name, &slots});
      }
  return result;
}

const std::string* VariablePaths::scope_of_slot(const Variable& v) const {
  for (const auto& [scope, slots] : slots_)
    for (const VariableSlots::Slot& s : slots.made)
      if (&s.variable.state() == &v.state()) return &scope;
  return nullptr;
}

// --- Helpers of the templates ----------------------------------------------------------------------------------------

namespace detail {

std::vector<std::string_view> split_names(const char* names) {
  std::vector<std::string_view> result;
  std::string_view rest = names;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    std::string_view one = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    while (one.ends_with(' ')) one.remove_suffix(1);
    if (!one.empty()) result.push_back(one);
  }
  return result;
}

std::string own_name(const Variable& v) {
  const std::string& name = v.name();
  const std::string last = name.substr(name.find_last_of('/') + 1);
  return last == VariableOptions().name ? std::string() : last;
}

NamedVariables set_frozen(const NamedVariables& variables, std::string_view pattern, bool frozen, std::string_view op,
                          const Where& where) {
  NamedVariables matching;
  for (const auto& [path, v] : variables)
    if (path_matches(path, pattern)) matching.add(path, v);
  if (matching.empty())
    fail(op, fmt::format("no path matches '{}'. the paths are: {}", pattern, listed(variables)), where);
  for (const auto& [path, v] : matching) {
    if (frozen) Variable(v).freeze(where);
    else Variable(v).unfreeze(where);
  }
  return matching;
}

}  // namespace detail

namespace {
// `*` and `?`, by going back to the last star where something does not fit.
bool glob(std::string_view text, std::string_view pattern) {
  size_t t = 0, p = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == text[t] || pattern[p] == '?') && pattern[p] != '*') ++t, ++p;
    else if (p < pattern.size() && pattern[p] == '*') star = p++, from = t;
    else if (star != std::string_view::npos) p = star + 1, t = ++from;
    else return false;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}
}  // namespace

bool path_matches(std::string_view path, std::string_view pattern) {
  while (pattern.ends_with('/')) pattern.remove_suffix(1);
  for (size_t end = path.find('/'); end != std::string_view::npos; end = path.find('/', end + 1))
    if (glob(path.substr(0, end), pattern)) return true;
  return glob(path, pattern);
}

}  // namespace rill
