// Paths of Variables: how names are made unique, how they print and match. See rill/ops/names.h.
#include "rill/ops/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "rill/devices/registry.h"
#include "rill/ops/apply.h"
#include "rill/ops/state/variable_state.h"
#include "rill/tensor/named_map.h"

namespace rill {

// --- NamedVariables --------------------------------------------------------------------------------------------------

const Variable* NamedVariables::find(std::string_view path) const {
  const auto at = places_.find(path);
  return at == places_.end() ? nullptr : &list_[at->second].second;
}

void NamedVariables::add(std::string path, const Variable& v) {
  places_.emplace(path, list_.size());
  list_.emplace_back(std::move(path), v);
}

Variable NamedVariables::at(std::string_view path, Where where) const {
  if (const Variable* v = find(path)) return *v;
  fail("variables", fmt::format("there is no '{}'. the paths are: {}", path, detail::some_of(paths())), where);
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
    if (!v.is_built()) {
      rows.push_back({path, std::string(name(v.dtype())), "?", "?", v.trainable() ? "yes" : "no"});
      continue;
    }
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

// Continues from the last number given to the name: a model may have thousands of layers of one name.
std::string VariablePaths::unique(const std::string& name) {
  if (!used_.contains(name)) return name;
  for (size_t& i = numbers_[name];;)
    if (std::string numbered = fmt::format("{}_{}", name, ++i); !used_.contains(numbered)) return numbered;
}

void VariablePaths::found(std::string path, const Variable& v) {
  used_.insert(path);
  places_.emplace(&v.state(), found_.size());
  found_.add(std::move(path), v);
}

VariablePaths::Scope::Scope(VariablePaths& paths, std::string_view name)
    : paths_(paths),
      outer_(paths.scope_),
      name_(outer_ + std::string(name)),
      path_(paths.unique(name_)),
      before_(paths.found_.size() + paths.slots_.size()) {
  paths.used_.insert(path_);
  paths.scope_ = path_ + "/";
}
VariablePaths::Scope::~Scope() {
  paths_.scope_ = outer_;
  // If nothing has that name, as for a layer that occurs a second time, the next one may have it.
  if (paths_.found_.size() + paths_.slots_.size() != before_) return;
  paths_.used_.erase(path_);
  paths_.numbers_.erase(name_);
}

void VariablePaths::add(std::string_view name, const Variable& v, bool again) {
  if (!seen_.insert(&v.state()).second && !again) return;
  found(unique(scope_ + std::string(name)), v);
}

void VariablePaths::add_all(const std::vector<Variable>& variables) {
  // The names have scopes in them: "dense/kernel", "dense/bias". If the scope of the first is taken, it gets a number,
  // and the following names belong to the same scope, until a name repeats in it.
  std::vector<std::pair<std::string, std::string>> now;  // the outermost scope, and its name here
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
    found(at->second + rest, v);
  }
}

void VariablePaths::add_slots(VariableSlots slots) {
  for (const VariableSlots::Slot& s : slots.made) slot_places_.emplace(&s.variable.state(), slots_.size());
  slots_.emplace_back(scope_, std::move(slots));
}

const NamedVariables& VariablePaths::finish() {
  for (; finished_slots_ < slots_.size(); ++finished_slots_)
    finish_slots(slots_[finished_slots_].first, slots_[finished_slots_].second);
  return found_;
}

// A slot is named by the path of its Variable or, if that has none here, by its own name, with a number if that
// is taken.
void VariablePaths::finish_slots(const std::string& scope, const VariableSlots& slots) {
  struct Outside {
    std::string name;
    bool ambiguous;
  };
  std::unordered_map<const VariableState*, Outside> outside;
  std::unordered_map<std::string, size_t> numbers;
  std::unordered_set<std::string> taken, kinds;
  for (const VariableSlots::Slot& s : slots.made) {
    const auto place = places_.find(&s.of.state());
    const Outside* own = nullptr;
    if (place == places_.end()) {
      auto [at, fresh] = outside.try_emplace(&s.of.state());
      own = &at->second;
      if (fresh) {
        std::string name = s.of.name();
        while (!taken.insert(name).second) name = fmt::format("{}_{}", s.of.name(), ++numbers[s.of.name()]);
        at->second = {name, !kinds.insert(s.of.name() + "\n" + to_string(s.of.state().spec)).second};
      }
    }
    if (!seen_.insert(&s.variable.state()).second) continue;
    std::string path = unique(scope + (own ? own->name : (found_.begin() + long(place->second))->first) + "/" + s.name);
    if (own && own->ambiguous) ambiguous_.push_back(path);
    found(std::move(path), s.variable);
  }
}

std::vector<VariablePaths::Unmade> VariablePaths::unmade() const {
  std::vector<Unmade> result;
  for (const auto& [scope, slots] : slots_) {
    std::map<std::string_view, std::unordered_set<const VariableState*>> made;
    for (const VariableSlots::Slot& s : slots.made) made[s.name].insert(&s.of.state());
    for (const std::string& name : slots.names)
      for (const auto& [path, v] : found_)
        if (!made[name].contains(&v.state()))
          result.push_back({fmt::format("{}{}/{}", scope, path, name), scope, v, name, &slots});
  }
  return result;
}

const std::string* VariablePaths::scope_of_slot(const Variable& v) const {
  const auto at = slot_places_.find(&v.state());
  return at == slot_places_.end() ? nullptr : &slots_[at->second].first;
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

namespace {
NamedVariables matching(const NamedVariables& variables, std::string_view pattern, std::string_view op,
                        const Where& where) {
  if (variables.empty())
    fail(op, "there are no Variables: the model has none, or names no fields (see RILL_LAYER)", where);
  NamedVariables result;
  for (const auto& [path, v] : variables)
    if (path_matches(path, pattern)) result.add(path, v);
  if (result.empty())
    fail(op, fmt::format("no path matches '{}'. the paths are: {}", pattern, some_of(variables.paths())), where);
  return result;
}

// Assigns change(value) to each variable: to all of them or, if that throws, to none. For a deferred one only the dtype
// and device change, by change_spec.
template <class F, class G>
void change_values(const NamedVariables& variables, std::string_view op, const Where& where, const F& change,
                   const G& change_spec) {
  if (!executing_eagerly())
    fail(op,
         "Variables are changed inside a traced function, which would happen once and not at each call. do it outside",
         where);
  const CallerScope caller(where, op.data());
  const PauseTapes pause;
  std::vector<Tensor> changed;
  for (const auto& [path, v] : variables) changed.push_back(v.is_built() ? change(v.value()) : Tensor());
  size_t k = 0;
  for (const auto& [path, v] : variables) {
    VariableState& state = v.state();
    const std::lock_guard lock(state);
    std::swap(state.value, changed[k++]);
    if (state.value.defined()) state.spec = state.value.spec();
    else change_spec(state.spec);
  }
  ++freeze_count;
}
}  // namespace

NamedVariables set_frozen(const NamedVariables& variables, std::string_view pattern, bool frozen, std::string_view op,
                          const Where& where) {
  const NamedVariables found = matching(variables, pattern, op, where);
  for (const auto& [path, v] : found) {
    if (frozen) Variable(v).freeze(where);
    else Variable(v).unfreeze(where);
  }
  return found;
}

NamedVariables move_to(NamedVariables variables, Device device, const Where& where) {
  require_device("move", device, where);
  change_values(
      variables, "move", where,
      [&](const Tensor& value) { return value.dtype() == DType::string ? value : value.to(device, where); },
      [&](Spec& spec) { spec.device = device; });
  return variables;
}

NamedVariables cast_to(const NamedVariables& variables, DType dtype, std::string_view pattern, const Where& where) {
  if (!is_floating(dtype))
    fail("cast", fmt::format("{} is not a floating dtype. a model computes in f16, bf16, f32 or f64", name(dtype)),
         where);
  NamedVariables floating;
  for (const auto& [path, v] : matching(variables, pattern, "cast", where))
    if (is_floating(v.dtype())) floating.add(path, v);
  change_values(
      floating, "cast", where, [&](const Tensor& value) { return value.astype(dtype, where); },
      [&](Spec& spec) { spec.dtype = dtype; });
  return floating;
}

}  // namespace detail

namespace {
// `*` and `?`, with backtracking to the last star.
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
