// Weights by the names of another program. Start at WeightLoader::match.
#include "rill/serialize/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_lock.h"
#include "rill/serialize/checkpoint/bundle.h"
#include "rill/serialize/checkpoint/object_graph.h"

namespace rill {
namespace {

using Stars = std::vector<std::string>;

// The texts matched by each * of a pattern; nothing if it does not match. Each piece between two stars is matched at
// its first occurrence, which leaves most to those after it: no piece is searched for twice, whatever the names in a
// file.
std::optional<Stars> stars_of(std::string_view text, std::string_view pattern) {
  size_t star = pattern.find('*');
  if (star == std::string_view::npos) return text == pattern ? std::optional(Stars()) : std::nullopt;
  if (!text.starts_with(pattern.substr(0, star))) return std::nullopt;
  text.remove_prefix(star);
  Stars stars;
  for (;;) {
    pattern.remove_prefix(star + 1);
    star = pattern.find('*');
    const std::string_view piece = pattern.substr(0, star);
    const bool is_last = star == std::string_view::npos;
    if (is_last && !text.ends_with(piece)) return std::nullopt;
    const size_t at = is_last ? text.size() - piece.size() : text.find(piece);
    if (at == std::string_view::npos) return std::nullopt;
    stars.emplace_back(text.substr(0, at));
    if (is_last) return stars;
    text.remove_prefix(at + piece.size());
  }
}

std::string with_stars(std::string_view pattern, const Stars& stars, char from, char to) {
  std::string text;
  size_t next = 0;
  for (const char c : pattern) {
    if (c != '*') {
      text += c;
      continue;
    }
    std::string star = stars[next++];
    std::replace(star.begin(), star.end(), from, to);
    text += star;
  }
  return text;
}

int64_t star_count(const std::string& pattern) { return std::count(pattern.begin(), pattern.end(), '*'); }

void check_rules(const LoadWeightsOptions& options, const Where& where) {
  for (const WeightRule& rule : options.rules)
    if (!rule.path.empty() && star_count(rule.path) != star_count(rule.name))
      fail("load_weights",
           fmt::format("the rule '{}' to '{}' has {} stars in the name and {} in the path: they stand for the same",
                       rule.name, rule.path, star_count(rule.name), star_count(rule.path)),
           where);
}

// The first 16 of a list, and how many there are.
template <class T, class F>
std::string listed(const std::vector<T>& all, const F& text) {
  std::string list;
  for (size_t i = 0; i < all.size() && i < 16; ++i) list += (i ? ", " : "") + text(all[i]);
  return all.size() > 16 ? list + fmt::format(", ... ({} in all)", all.size()) : list;
}

// The rules by their names, or by their paths: those without a star are looked up in a map.
class RuleIndex {
 public:
  RuleIndex(const std::vector<WeightRule>& rules, std::string WeightRule::* pattern)
      : rules_(rules), pattern_(pattern) {
    for (size_t i = 0; i < rules.size(); ++i)
      if (const std::string& text = rules[i].*pattern; text.find('*') != std::string::npos) starred_.push_back(i);
      else if (!text.empty()) exact_.try_emplace(text, i);
  }
  // The first rule that matches, and the texts of its stars; null: none.
  const WeightRule* find(const std::string& text, Stars& stars) const {
    const auto at = exact_.find(text);
    for (const size_t i : starred_) {
      if (at != exact_.end() && i > at->second) break;
      if (auto found = stars_of(text, rules_[i].*pattern_)) return stars = std::move(*found), &rules_[i];
    }
    return stars.clear(), at == exact_.end() ? nullptr : &rules_[at->second];
  }

 private:
  const std::vector<WeightRule>& rules_;
  std::string WeightRule::* pattern_;
  std::unordered_map<std::string_view, size_t> exact_;
  std::vector<size_t> starred_;
};

// The steps of detail::load_weights.
class WeightLoader {
 public:
  WeightLoader(const NamedVariables& variables, const NamedTensors& tensors, const std::string& from,
               const LoadWeightsOptions& options, const Where& where)
      : variables_(variables),
        tensors_(tensors),
        from_(from),
        options_(options),
        where_(where),
        by_name_(options.rules, &WeightRule::name),
        by_path_(options.rules, &WeightRule::path) {}

  void match() {
    std::map<std::string, std::string> names;  // by path
    for (const auto& [name, tensor] : tensors_) {
      const WeightRule* rule = nullptr;
      const std::string path = path_of(name, rule);
      if (rule && rule->path.empty()) continue;
      if (!variables_.contains(path)) {
        report_.extra.push_back({path, name});
        continue;
      }
      if (const auto [at, fresh] = names.emplace(path, name); !fresh)
        fail("load_weights", fmt::format("{}: '{}' and '{}' would both be {}", from_, at->second, name, path), where_);
      take(path, name, tensor, rule);
    }
    for (const auto& [path, v] : variables_)
      if (!names.contains(path)) report_.missing.push_back({path, name_for(path)});
  }

  WeightsReport finish() {
    WeightsReport refused;
    if (!options_.allow_missing) refused.missing = report_.missing;
    if (!options_.allow_extra) refused.extra = report_.extra;
    if (!options_.allow_misshapen) refused.misshapen = report_.misshapen;
    if (!refused.complete()) {
      const std::string text = to_string(refused);
      fail("load_weights",
           fmt::format("{} does not fit: {}. nothing was loaded. change .rules, or allow it with .allow_missing, "
                       ".allow_extra or .allow_misshapen",
                       from_, text.substr(text.find("; ") + 2)),
           where_);
    }
    std::vector<VariableState*> states;
    for (Found& f : found_)
      if (f.variable.is_built()) states.push_back(&f.variable.state());
      else f.variable.build(f.value, where_);
    const std::unordered_set<VariableState*> were_built(states.begin(), states.end());
    const LockVariables lock(states);  // nothing below throws
    for (Found& f : found_)
      if (were_built.contains(&f.variable.state())) std::swap(f.variable.state().value, f.value);
    return report_;
  }

 private:
  struct Found {
    Variable variable;
    Tensor value;
  };

  std::string path_of(const std::string& name, const WeightRule*& rule) const {
    Stars stars;
    rule = by_name_.find(name, stars);
    if (rule) return with_stars(rule->path, stars, '.', '/');
    std::string path = name;
    std::replace(path.begin(), path.end(), '.', '/');
    return path;
  }

  // The name of a path in the file, by the first rule that leads to it.
  std::string name_for(const std::string& path) const {
    Stars stars;
    const WeightRule* r = by_path_.find(path, stars);
    return r ? with_stars(r->name, stars, '/', r->name.find('.') == std::string::npos ? '/' : '.') : std::string();
  }

  void take(const std::string& path, const std::string& name, const Tensor& tensor, const WeightRule* rule) {
    const Variable v = variables_.at(path);
    Tensor value = tensor;
    try {
      if (rule && value.defined() && !rule->permute.empty()) value = transpose(value, rule->permute);
      if (rule && value.defined() && rule->convert) value = rule->convert(value);
    } catch (const Error& e) {
      fail("load_weights",
           fmt::format("{}: the rule that makes {} of '{}', {}, fails: {}", from_, path, name, to_string(tensor.spec()),
                       e.what()),
           where_);
    }
    if (!value.defined())
      fail("load_weights",
           rule && rule->convert
               ? fmt::format("{}: the rule that makes {} of '{}' gives an undefined tensor", from_, path, name)
               : fmt::format("{}: '{}' is an undefined tensor", from_, name),
           where_);
    const bool converts = is_floating(value.dtype()) && is_floating(v.dtype());
    const bool fits = (converts || value.dtype() == v.dtype()) && (!v.is_built() || value.shape() == v.shape());
    if (!fits) {
      const Spec here{v.is_built() ? v.shape() : value.shape(), v.dtype(), false, {}};
      report_.misshapen.push_back(fmt::format(
          "{}: {} here, '{}' is {} in the file{}", path, to_string(here), name, to_string(tensor.spec()),
          value.shape() == tensor.shape() ? std::string() : fmt::format(", {} by its rule", to_string(value.spec()))));
      return;
    }
    report_.loaded.push_back({path, name});
    found_.push_back({v, make_alias(value.astype(v.dtype()).to(v.device()).contiguous())});
  }

  const NamedVariables& variables_;
  const NamedTensors& tensors_;
  const std::string& from_;
  const LoadWeightsOptions& options_;
  const Where& where_;
  const RuleIndex by_name_, by_path_;
  std::vector<Found> found_;
  WeightsReport report_;
};

}  // namespace

std::string to_string(const WeightsReport& r) {
  const auto missing = [](const WeightsReport::Pair& p) {
    return p.name.empty() ? p.path + " (no rule leads there)" : fmt::format("{} (by the rules '{}')", p.path, p.name);
  };
  const auto extra = [](const WeightsReport::Pair& p) { return fmt::format("'{}' (here {})", p.name, p.path); };
  std::string text = fmt::format("{} loaded", r.loaded.size());
  if (!r.missing.empty()) text += "; missing from the file: " + listed(r.missing, missing);
  if (!r.extra.empty()) text += "; extra in the file: " + listed(r.extra, extra);
  if (!r.misshapen.empty()) text += "; misshapen: " + listed(r.misshapen, [](const std::string& text) { return text; });
  return text;
}

namespace detail {

NamedTensors weights_of(const std::string& path, const Where& where) {
  if (!std::filesystem::exists(path + ".index")) return load(path, {}, where);
  constexpr std::string_view suffix = "/.ATTRIBUTES/VARIABLE_VALUE";
  const CallerScope caller(where);
  const EagerScope eager;
  const BundleReader file(path, "load_weights", where);
  std::map<std::string, std::string> programs;  // the names that variables had in the program, by entry
  for (const auto& [name, entry] : ObjectGraph(file).full_names())
    if (!entry.empty()) programs.emplace(entry, name);
  NamedTensors tensors;
  for (const std::string& entry : file.names()) {
    if (!file.is_known(entry) || entry == ObjectGraph::key || entry.starts_with("save_counter/")) continue;
    const auto program = programs.find(entry);
    std::string name = program != programs.end() ? program->second : entry;
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
    tensors.emplace(std::move(name), file.read(entry));
  }
  return tensors;
}

WeightsReport load_weights(const NamedVariables& variables, const NamedTensors& tensors, const std::string& from,
                           const LoadWeightsOptions& options, const Where& where) {
  if (!executing_eagerly()) fail("load_weights", "weights are loaded outside of traced functions", where);
  const CallerScope caller(where);
  check_rules(options, where);
  WeightLoader loader(variables, tensors, from, options, where);
  loader.match();
  return loader.finish();
}

}  // namespace detail
}  // namespace rill
