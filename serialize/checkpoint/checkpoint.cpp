// Checkpoints: Variables to the tensors of a bundle, and back. Start at Checkpoint::restore.
#include "rill/serialize/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_lock.h"
#include "rill/serialize/checkpoint/bundle.h"
#include "rill/serialize/checkpoint/object_graph.h"

namespace rill {
namespace {

using ByName = NamedMap<Tensor>;

bool is_selected(const std::string& path, const std::vector<std::string>& only) {
  return only.empty() || std::any_of(only.begin(), only.end(), [&](auto& p) { return path_matches(path, p); });
}

std::vector<VariableState*> states_of(const NamedVariables& variables) {
  std::vector<VariableState*> states;
  for (const auto& [path, v] : variables) states.push_back(&v.state());
  return states;
}

constexpr std::string_view value_suffix = "/.ATTRIBUTES/VARIABLE_VALUE";
constexpr const char* counter_key = "save_counter/.ATTRIBUTES/VARIABLE_VALUE";

// The entries of a file by the names that a program knows.
class FileNames {
 public:
  explicit FileNames(const BundleReader& file) : file_(file), graph_(file), full_names_(graph_.full_names()) {}

  // The entry that `name` refers to; "" if there is none.
  std::string find(const std::string& name) const {
    if (file_.contains(name)) return name;
    if (const std::string object = name + std::string(value_suffix); file_.contains(object)) return object;
    if (const std::string entry = entry_at_path(name); !entry.empty()) return entry;
    auto at = full_names_.find(name);
    return at == full_names_.end() ? std::string() : at->second;
  }

 private:
  // The entry at the end of a path of attributes, "model/layers/0/kernel".
  std::string entry_at_path(std::string_view rest) const {
    int at = ObjectGraph::root;
    while (!rest.empty()) {
      const std::string_view part = rest.substr(0, rest.find('/'));
      rest.remove_prefix(std::min(part.size() + 1, rest.size()));
      at = graph_.child(at, part);
    }
    return at == ObjectGraph::root ? std::string() : graph_.entry(at);
  }

  const BundleReader& file_;
  const ObjectGraph graph_;
  const std::map<std::string, std::string> full_names_;
};

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i == 16) return all + fmt::format(", ... ({} in all)", texts.size());
    all += (i ? ", " : "") + texts[i];
  }
  return all;
}

}  // namespace

std::string to_string(const RestoreReport& r) {
  std::string text = fmt::format("{} restored", r.restored.size());
  if (!r.missing.empty()) text += "; missing from the file: " + joined(r.missing);
  if (!r.extra.empty()) text += "; extra in the file: " + joined(r.extra);
  if (!r.misshapen.empty()) text += "; misshapen: " + joined(r.misshapen);
  return text;
}

Checkpoint::Checkpoint(std::initializer_list<std::pair<std::string, Trackable>> parts, Where where)
    : Checkpoint(std::vector<std::pair<std::string, Trackable>>(parts), where) {}

Checkpoint::Checkpoint(std::vector<std::pair<std::string, Trackable>> parts, Where where) : parts_(std::move(parts)) {
  std::set<std::string> seen;
  for (const auto& [name, part] : parts_) {
    if (name.empty() || name[0] == '\0') fail("Checkpoint", "a part has no name", where);
    if (!seen.insert(name).second) fail("Checkpoint", "two parts have the name '" + name + "'", where);
  }
}

void Checkpoint::collect(VariablePaths& paths) const {
  for (const auto& [name, part] : parts_) part.name_variables(name, paths);
}

namespace {
// Slots that another program could confuse would be swapped silently.
void refuse_ambiguous(const VariablePaths& paths, const std::vector<std::string>& only, std::string_view op,
                      const Where& where) {
  for (const std::string& path : paths.ambiguous_slots())
    if (is_selected(path, only))
      fail(
          op,
          fmt::format("nobody could tell what '{}' belongs to: its optimizer has several Variables of that name, dtype "
                      "and shape, which have no path in this checkpoint. put the model beside the optimizer, "
                      "Checkpoint{{{{\"model\", model}}, {{\"adam\", adam}}}}, or give them names of their own",
                      path),
          where);
}
}  // namespace

NamedVariables Checkpoint::variables() const {
  VariablePaths paths;
  collect(paths);
  return paths.finish();
}

// --- Saving ----------------------------------------------------------------------------------------------------------

ByName Checkpoint::values(const SaveCheckpointOptions& options, Where where) const {
  if (!executing_eagerly())
    fail("save", "a checkpoint is saved outside of traced functions: there are no values inside yet", where);
  VariablePaths paths;
  collect(paths);
  const NamedVariables& all = paths.finish();
  refuse_ambiguous(paths, options.only, "save", where);
  for (const auto& [path, name] : options.names)
    if (!all.contains(path)) fail("save", fmt::format("there is no '{}' to be saved as '{}'", path, name), where);
  NamedVariables chosen;
  for (const auto& [path, v] : all)
    if (is_selected(path, options.only)) chosen.add(path, v);
  if (chosen.empty() && !all.empty())
    fail("save", "none of the paths matches " + joined(options.only) + ". they are: " + joined(all.paths()), where);
  for (const auto& [path, v] : chosen) require_built(v.state(), where);
  ByName values;
  const LockVariables lock(states_of(chosen));
  for (const auto& [path, v] : chosen) {
    auto other = options.names.find(path);
    const std::string& name = other == options.names.end() ? path : other->second;
    if (!values.emplace(name, v.state().value).second)
      fail("save", fmt::format("two Variables would have the name '{}' in the file", name), where);
  }
  return values;
}

void Checkpoint::save(const std::string& prefix, const SaveCheckpointOptions& options, Where where) const {
  write_bundle(prefix, values(options, where), options, "save", where);
}

void save_checkpoint(const std::string& prefix, const NamedMap<Tensor>& tensors, int shards, Where where) {
  write_bundle(prefix, tensors, shards, "save_checkpoint", where);
}

// --- Restoring -------------------------------------------------------------------------------------------------------

namespace {

struct Found {
  Variable variable;
  Tensor value;
};

// The steps of Checkpoint::restore.
class Restore {
 public:
  Restore(const std::string& prefix, const RestoreOptions& options, const Where& where)
      : prefix_(prefix), options_(options), where_(where), file_(prefix, "restore", where), names_(file_) {}

  ~Restore() {
    for (const Variable& v : built_) {  // nothing was restored
      VariableState& state = v.state();
      const std::lock_guard lock(state);
      state.built.store(false);
      state.value = Tensor();
    }
  }
  Restore(const Restore&) = delete;

  // Parameters that have no value yet, because their model was not called, get the shapes in the file.
  void build(const NamedVariables& variables) {
    for (const auto& [path, v] : variables) {
      const std::string entry = v.is_built() || !is_selected(path, options_.only) ? "" : entry_of(path);
      if (entry.empty() || !file_.is_known(entry) || file_.spec(entry).dtype != v.dtype()) continue;
      Variable(v).build(file_.read(entry));
      built_.push_back(v);
    }
  }

  std::string entry_of(const std::string& path) const {
    auto other = options_.names.find(path);
    return names_.find(other == options_.names.end() ? path : other->second);
  }

  // For "adam/model/m", a slot of the Variable at "model" that is called "net" in the file: "adam/net/m".
  std::string slot_entry(const std::string& scope, const std::string& path) const {
    const std::string rest = path.substr(scope.size());
    const size_t slash = rest.rfind('/');
    if (!options_.names.contains(path) && slash != std::string::npos)
      if (const auto other = options_.names.find(rest.substr(0, slash)); other != options_.names.end())
        if (const std::string entry = names_.find(scope + other->second + rest.substr(slash)); !entry.empty())
          return entry;
    return entry_of(path);
  }

  // Creates the slots that the file has and an optimizer lacks.
  void make_slots(const VariablePaths& paths) const {
    for (const VariablePaths::Unmade& u : paths.unmade())
      if (is_selected(u.path, options_.only) && !slot_entry(u.scope, u.path).empty()) u.slots->make(u.of, u.name);
  }

  void match(const NamedVariables& variables, const VariablePaths& paths) {
    std::vector<std::string> entries;
    for (const auto& [path, v] : variables) {
      const std::string* optimizer = paths.scope_of_slot(v);
      entries.push_back(optimizer ? slot_entry(*optimizer, path) : entry_of(path));
      used_.insert(entries.back());
    }
    auto next = entries.begin();
    for (const auto& [path, v] : variables) {
      const std::string& entry = *next++;
      if (!is_selected(path, options_.only)) continue;
      if (entry.empty()) {
        const std::string* optimizer = paths.scope_of_slot(v);
        const bool slot = optimizer && was_zeros(*optimizer);
        if (slot) found_.push_back({v, zeros(v.shape(), {v.dtype(), v.device()})});
        (slot ? report_.restored : report_.missing).push_back(path);
        continue;
      }
      const Spec& here = v.state().spec;
      const bool known = file_.is_known(entry);
      const Spec there = known ? file_.spec(entry) : Spec();
      const auto slice = options_.slices.find(entry);
      const bool fits = slice == options_.slices.end()
                            ? there.shape == here.shape
                            : there.shape == slice->second.whole && lies_in(here.shape, slice->second);
      if (!known || there.dtype != here.dtype || !fits)
        report_.misshapen.push_back(fmt::format("{}: {} here, {} in the file", path, to_string(here),
                                                known ? to_string(there) : std::string("no dtype of rill's")));
      else {
        report_.restored.push_back(path);
        entries_.emplace_back(entry, v);
      }
    }
    if (!options_.only.empty()) return;
    for (const std::string& name : file_.names())
      if (!used_.contains(name) && name != ObjectGraph::key && name != counter_key) report_.extra.push_back(name);
  }

  RestoreReport finish() {
    RestoreReport refused;
    if (!options_.allow_missing) refused.missing = report_.missing;
    if (!options_.allow_extra) refused.extra = report_.extra;
    if (!options_.allow_misshapen) refused.misshapen = report_.misshapen;
    if (!refused.complete())
      fail("restore",
           fmt::format("'{}' does not fit: {}. nothing was restored. allow it with .allow_missing, .allow_extra or "
                       ".allow_misshapen, or give other .names",
                       prefix_, to_string(refused).substr(to_string(refused).find("; ") + 2)),
           where_);
    for (const auto& [entry, v] : entries_) found_.push_back({v, value_of(entry, v.shape()).to(v.device())});
    std::vector<VariableState*> states;
    for (const Found& f : found_) states.push_back(&f.variable.state());
    const LockVariables lock(std::move(states));  // nothing below throws
    for (Found& f : found_) std::swap(f.variable.state().value, f.value);
    built_.clear();
    return report_;
  }

 private:
  // The full entry, or the requested slice of it.
  Tensor value_of(const std::string& entry, const Shape& shape) const {
    Tensor t = file_.read(entry);
    const auto slice = options_.slices.find(entry);
    for (size_t d = 0; slice != options_.slices.end() && d < shape.size(); ++d) {
      const int64_t start = slice->second.start[d];
      t = moveaxis(moveaxis(t, int64_t(d), 0)(rill::slice(start, start + int64_t(shape[d]))), 0, int64_t(d));
    }
    return t.contiguous();
  }
  // Whether the optimizer at `scope` had not created the slots that the file lacks: it had taken no step, or it has
  // slots in the file and all of them are known here. Otherwise the slot may be in the file under another name.
  bool was_zeros(const std::string& scope) {
    const auto [known, fresh] = zeros_.try_emplace(scope, false);
    if (fresh) known->second = look_for_zeros(scope);
    return known->second;
  }
  bool look_for_zeros(const std::string& scope) const {
    const std::string iterations = entry_of(scope + "iterations");
    if (iterations.empty()) return false;
    const bool counts = file_.is_known(iterations) && is_integer(file_.spec(iterations).dtype) &&
                        file_.spec(iterations).shape.numel() == 1;
    if (counts && astype(file_.read(iterations), DType::i64).item<int64_t>() == 0) return true;
    bool any = false;
    for (const std::string& name : file_.names()) {
      if (!name.starts_with(scope) || name == iterations || name == scope + "learning_rate") continue;
      if (!used_.contains(name)) return false;
      any = true;
    }
    return any;
  }

  std::string prefix_;
  const RestoreOptions& options_;
  const Where& where_;
  BundleReader file_;
  FileNames names_;
  std::vector<std::pair<std::string, Variable>> entries_;
  std::vector<Found> found_;
  std::vector<Variable> built_;  // by build()
  std::set<std::string> used_;
  std::map<std::string, bool> zeros_;  // was_zeros(), by scope
  RestoreReport report_;
};

}  // namespace

RestoreReport Checkpoint::restore(const std::string& prefix, const RestoreOptions& options, Where where) const {
  if (!executing_eagerly()) fail("restore", "a checkpoint is restored outside of traced functions", where);
  CallerScope caller(where);
  Restore restore(prefix, options, where);
  VariablePaths before;
  collect(before);
  restore.build(before.finish());
  restore.make_slots(before);
  VariablePaths paths;
  collect(paths);
  const NamedVariables& all = paths.finish();
  refuse_ambiguous(paths, options.only, "restore", where);
  for (const auto& [path, name] : options.names)
    if (!all.contains(path))
      fail("restore",
           fmt::format("there is no '{}' to be restored from '{}'. the paths are: {}", path, name, joined(all.paths())),
           where);
  restore.match(all, paths);
  return restore.finish();
}

ByName load_checkpoint(const std::string& prefix, const std::vector<std::string>& only, Where where) {
  BundleReader file(prefix, "load_checkpoint", where);
  ByName result;
  for (const std::string& name : file.names()) {
    const bool asked = std::find(only.begin(), only.end(), name) != only.end();
    if (asked || (file.is_known(name) && is_selected(name, only))) result.emplace(name, file.read(name));
  }
  for (const std::string& pattern : only)
    if (std::none_of(result.begin(), result.end(), [&](auto& r) { return path_matches(r.first, pattern); }))
      fail("load_checkpoint",
           fmt::format("'{}' has nothing that matches '{}'. it has: {}", prefix, pattern, joined(file.names())), where);
  return result;
}

std::vector<std::pair<std::string, Spec>> checkpoint_entries(const std::string& prefix, Where where) {
  std::map<std::string, std::string> unreadable;
  return checkpoint_entries(prefix, unreadable, where);
}

std::vector<std::pair<std::string, Spec>> checkpoint_entries(const std::string& prefix,
                                                             std::map<std::string, std::string>& unreadable,
                                                             Where where) {
  BundleReader file(prefix, "checkpoint_entries", where);
  std::vector<std::pair<std::string, Spec>> result;
  for (const std::string& name : file.names()) {
    if (file.is_known(name)) {
      result.emplace_back(name, file.spec(name));
      continue;
    }
    try {
      file.spec(name);
    } catch (const Error& e) {
      unreadable.emplace(name, e.what());
    }
  }
  return result;
}

}  // namespace rill
