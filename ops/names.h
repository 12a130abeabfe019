// Names of Variables: every Variable of a model, an optimizer, a struct or a container has a path of its own, such as
// "encoder/dense_1/kernel". Checkpoints, summaries and freeze() go by it. Not in rill.h; rill/nn.h and rill/serialize.h
// bring it.
//
// A part of a path is the name of a struct's field or a map's key; else the thing's own name (a layer's `name`, what a
// Variable was made with); else its index in a container. A name that is taken gets a number: dense, dense_1, dense_2.
// A Variable that occurs more than once has the path of its first occurrence.
//
// How a type of yours gives its Variables, in the order in which it is asked:
//   * its fields are named in it, RILL_LAYER(Net, encoder, decoder), or beside it, RILL_FIELDS(Net, encoder, decoder),
//     see rill/ops/tree.h;
//   * `void name_variables(VariablePaths& paths) const` calls paths.add("kernel", kernel) for each;
//   * `std::vector<Variable> variables() const`, as layers have it: under the names that they were made with;
//   * it is an aggregate, `struct Net { nn::Dense hidden, out; };`: by its fields.
#pragma once
#include <deque>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "rill/ops/conv.h"
#include "rill/ops/random.h"
#include "rill/ops/tree.h"

#pragma GCC visibility push(default)

namespace rill {

class Graph;  // trace/graph.h, which has a freeze() of its own

// Variables under their paths, in the order of the model.
class NamedVariables {
 public:
  using value_type = std::pair<std::string, Variable>;

  // Of the list, which is in order.
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  size_t size() const { return list_.size(); }
  bool empty() const { return list_.empty(); }
  // Whether there is such a path.
  bool contains(std::string_view path) const { return find(path) != nullptr; }
  size_t count(std::string_view path) const { return contains(path); }
  // The Variable at a path: variables(net).at("head/bias").assign(b). Throws, and lists the paths, where there is none.
  Variable at(std::string_view path, Where where = Where::current()) const;
  // Of the list.
  std::vector<std::string> paths() const;
  std::vector<Variable> values() const;
  // As a std::map<std::string, Variable>.
  template <class Map>
    requires requires(Map& m, const std::string& path, const Variable& v) { m.emplace(path, v); }
  operator Map() const {
    Map m;
    for (const auto& [path, v] : list_) m.emplace(path, v);
    return m;
  }
  // Appends; `path` must not be taken.
  void add(std::string path, const Variable& v);

 private:
  const Variable* find(std::string_view path) const;
  std::vector<value_type> list_;
  std::map<std::string, size_t, std::less<>> places_;  // in the list, by path
};

// A table: path, dtype, shape, number of parameters, whether it is trained; and the sums.
std::string to_string(const NamedVariables& variables);
std::ostream& operator<<(std::ostream& out, const NamedVariables& variables);

// What an optimizer remembers of the Variables of a model, for which it has slots.
struct VariableSlots {
  struct Slot {
    Variable of;
    std::string name;
    Variable variable;
  };
  std::vector<Slot> made;
  std::vector<std::string> names;  // that each Variable may have
  // Makes one, zeros; for a checkpoint that has it.
  std::function<Variable(const Variable& of, const std::string& name)> make;
};

// What is inside a model, as a ModelVisitor is told it.
struct ModelPart {
  const void* address = nullptr;  // of the layer or struct
  std::string_view type = {};     // "Dense": without namespaces and template arguments
};

// Walks a model: the structs, layers and containers in it, which it enters and leaves, and their Variables, in order.
class ModelVisitor {
 public:
  // What follows, until leave(), is inside of what stands here under `name`.
  virtual void enter(std::string_view name, const ModelPart& part) = 0;
  virtual void leave() = 0;
  // A Variable, which a visitor may replace.
  virtual void variable(std::string_view name, Variable& v) = 0;
  // Of a type that lists its Variables and does not name its fields: copies of them.
  virtual void listed(const std::vector<Variable>& variables, const ModelPart& part) = 0;
  // Collects paths, which types with name_variables() are asked for; null: it needs the fields themselves.
  virtual class VariablePaths* paths() { return nullptr; }
  // Such a type was met, and paths() is null.
  virtual void unreachable(const ModelPart&) {}
  // Copies of what smart pointers own, by the old address, where owners are to get their own; else null.
  virtual std::unordered_map<const void*, std::shared_ptr<void>>* copies() { return nullptr; }

 protected:
  ~ModelVisitor() = default;
};

// Collects Variables under paths: what name_variables(), a member of yours, is given.
class VariablePaths final : public ModelVisitor {
 public:
  // While it lives, paths begin with `name` (numbered where that is taken).
  class Scope {
   public:
    Scope(VariablePaths& paths, std::string_view name);
    ~Scope();
    Scope(const Scope&) = delete;
    // "encoder/dense_1": the path of what is inside.
    const std::string& path() const { return path_; }

   private:
    VariablePaths& paths_;
    std::string outer_, name_, path_;
    size_t before_;
  };

  // A Variable that was added before keeps its path, unless it is `again` to be added.
  void add(std::string_view name, const Variable& v, bool again = false);
  // Under the names that they were made with; where two are the same, their outermost scopes are told apart.
  void add_all(const std::vector<Variable>& variables);
  // Of an optimizer: at "m" of the Variable at "dense/kernel" is "dense/kernel/m" in this scope, once all are known.
  void add_slots(VariableSlots slots);

  // See ModelVisitor.
  void enter(std::string_view name, const ModelPart&) override { open_.emplace_back(*this, name); }
  void leave() override { open_.pop_back(); }
  void variable(std::string_view name, Variable& v) override { add(name, v); }
  void listed(const std::vector<Variable>& variables, const ModelPart&) override { add_all(variables); }
  VariablePaths* paths() override { return this; }
  // Of what was entered last and not left.
  const std::string& path() const { return open_.back().path(); }

  // All that was added, the slots too.
  const NamedVariables& finish();
  // Of each slot that an optimizer could have and has not made yet: what its path would be, and the optimizer's scope.
  struct Unmade {
    std::string path, scope;
    Variable of;
    std::string name;
    const VariableSlots* slots;
  };
  std::vector<Unmade> unmade() const;
  // The scope of the optimizer that `v` is a slot of, "adam/"; null where it is none.
  const std::string* scope_of_slot(const Variable& v) const;
  // The paths of slots whose Variables have no path here and share their name, dtype and shape with another such one:
  // they are numbered in the order in which the optimizer met them, which another program may do differently.
  const std::vector<std::string>& ambiguous_slots() const { return ambiguous_; }

 private:
  std::string unique(const std::string& name);
  void found(std::string path, const Variable& v);
  void finish_slots(const std::string& scope, const VariableSlots& slots);

  std::string scope_;  // "" or "encoder/"
  std::deque<Scope> open_;
  NamedVariables found_;
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, size_t> numbers_;  // the last that a name was given
  std::unordered_set<const VariableState*> seen_;
  std::unordered_map<const VariableState*, size_t> places_;       // the first in found_
  std::unordered_map<const VariableState*, size_t> slot_places_;  // the optimizer in slots_
  std::vector<std::pair<std::string, VariableSlots>> slots_;
  std::vector<std::string> ambiguous_;
  size_t finished_slots_ = 0;
};

// Whether values of T hold no Variables, so that they may stand beside some in a struct. Specialise it for types of
// yours of which that is true and which no rule of this header covers.
template <class T>
inline constexpr bool holds_no_variables =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_empty_v<T> || std::is_same_v<T, Tensor> ||
    std::is_same_v<T, DType> || std::is_same_v<T, Device> || std::is_same_v<T, Spec> || std::is_same_v<T, Tensors> ||
    std::is_same_v<T, random::Key> || std::is_same_v<T, SpacePadding> || std::is_base_of_v<Dims, T> || DimOrSize<T> ||
    std::is_convertible_v<const T&, std::string_view> || detail::is_a<T, std::function> ||
    (std::is_pointer_v<T> && std::is_function_v<std::remove_pointer_t<T>>);

namespace detail {

template <class T>
concept NamesVariables = requires(T& t, VariablePaths& paths) { t.name_variables(paths); };
template <class T>
concept ListsVariables = requires(T& t) {
  { t.variables() } -> std::convertible_to<std::vector<Variable>>;
};
template <class T>
inline constexpr bool is_owner = is_a<T, std::shared_ptr>;
template <class T, class D>
inline constexpr bool is_owner<std::unique_ptr<T, D>> = true;

// The field of an aggregate by its place, read from how compilers write a pointer to it. The object is never made.
template <class T>
union Unmade {
  char nothing;
  T value;
  constexpr Unmade() : nothing() {}
  constexpr ~Unmade() {}
};
template <class T>
inline constinit Unmade<T> unmade{};
template <class P>
struct FieldPointer {
  P pointer;
};
template <class T, size_t i>
consteval auto field_pointer() {
  auto* p = &std::get<i>(aggregate_fields(unmade<T>.value));
  return FieldPointer<decltype(p)>{p};
}
template <auto p>
consteval std::string_view field_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text = text.substr(0, text.find_last_of('}'));
  if (text.ends_with(')')) text.remove_suffix(1);
  return text.substr(text.find_last_of(".:") + 1);
}
template <class T, size_t... i>
std::vector<std::string_view> aggregate_names(std::index_sequence<i...>) {
  return {field_name<field_pointer<T, i>()>()...};
}

std::vector<std::string_view> split_names(const char* names);  // "a, b"

// The names of the fields that fields_of() gives; empty where nobody says.
template <class T>
std::vector<std::string_view> names_of_fields() {
  if constexpr (requires(const T* t) { rill_field_names(t); })
    return split_names(rill_field_names(static_cast<const T*>(nullptr)));
  else if constexpr (NamesFields<T> || Walkable<T>) return {};
  else return aggregate_names<T>(std::make_index_sequence<field_count<T>()>());
}

// "kernel" of "dense/kernel"; empty where nobody has named it.
std::string own_name(const Variable& v);
template <class T>
std::string own_name(const T& x) {
  if constexpr (requires { x.name_of_scope(); }) return std::string(x.name_of_scope());
  else return {};
}

// "Dense" of rill::nn::Dense<...>.
template <class T>
consteval std::string_view type_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text = text.substr(text.find("T = ") + 4);
  text = text.substr(0, text.find_first_of(";]"));
  text = text.substr(0, text.find('<'));
  return text.substr(text.find_last_of(": ") +
                     1);  // no npos: find_last_of gives it where there is none, and 1 more is 0
}
template <class T>
ModelPart part_of(const T& x) {
  return {std::addressof(x), type_name<T>()};
}
class Entered {
 public:
  Entered(ModelVisitor& visitor, std::string_view name, const ModelPart& part) : visitor_(visitor) {
    visitor.enter(name, part);
  }
  ~Entered() { visitor_.leave(); }
  Entered(const Entered&) = delete;

 private:
  ModelVisitor& visitor_;
};

template <class T>
concept VisitsParts = requires(T& t, ModelVisitor& v) { t.visit_parts(v); };

template <class T>
void visit_inside(T& x, ModelVisitor& visitor);

// Of a shared_ptr: what it owns becomes its own copy, where the visitor makes some.
template <class P>
void own_pointee(P& owner, ModelVisitor& visitor) {
  if constexpr (is_a<P, std::shared_ptr>) {
    using T = typename P::element_type;
    auto* const copies = visitor.copies();
    if (!copies) return;
    if constexpr (std::is_copy_constructible_v<T> && !std::is_polymorphic_v<T>) {
      if (!copies->contains(owner.get())) {
        const auto fresh = std::make_shared<std::remove_const_t<T>>(*owner);
        copies->emplace(owner.get(), fresh);
        copies->emplace(fresh.get(), fresh);
      }
      owner = std::static_pointer_cast<T>(copies->at(owner.get()));
    } else {
      visitor.unreachable(part_of(*owner));
    }
  }
}

// `x` under `name`.
template <class T>
void visit_as(T& x, const std::string& name, ModelVisitor& visitor) {
  using Plain = std::remove_const_t<T>;
  if constexpr (is_variable<Plain>) {
    if constexpr (!std::is_same_v<Plain, Variable>)
      if (!x) return;  // a parameter that the layer does without
    visitor.variable(name, const_cast<Plain&>(x));
  } else if constexpr (is_owner<Plain> || is_a<Plain, std::optional>) {
    if (!x) return;
    own_pointee(const_cast<Plain&>(x), visitor);
    visit_as(*x, name, visitor);
  } else if constexpr (!holds_no_variables<Plain>) {
    const Entered inside(visitor, name, part_of(x));
    visit_inside(x, visitor);
  }
}

// `x`, the i-th of what has no names for its parts.
template <class T>
void visit_part(T& x, size_t i, ModelVisitor& visitor) {
  using Plain = std::remove_const_t<T>;
  if constexpr (is_owner<Plain> || is_a<Plain, std::optional>) {
    if (!x) return;
    own_pointee(const_cast<Plain&>(x), visitor);
    visit_part(*x, i, visitor);
  } else if constexpr (holds_no_variables<Plain>) {
  } else if constexpr (ListsVariables<const Plain> && !NamesFields<Plain> && !NamesVariables<const Plain> &&
                       !Walkable<Plain> && !VisitsParts<Plain>) {
    visitor.listed(x.variables(), part_of(x));
  } else {
    const std::string own = own_name(x);
    visit_as(x, own.empty() ? std::to_string(i) : own, visitor);
  }
}

// The fields of `x` under their names; those that have none by what they are called themselves.
template <class... Field>
void visit_fields(const std::vector<std::string_view>& names, ModelVisitor& visitor, Field&... fields) {
  size_t i = 0;
  [[maybe_unused]] const auto one = [&](auto& field) {
    if (i < names.size()) visit_as(field, std::string(names[i]), visitor);
    else visit_part(field, i, visitor);
    ++i;
  };
  (one(fields), ...);
}

// What is in `x`, in the current scope.
template <class T>
void visit_inside(T& x, ModelVisitor& visitor) {
  using Plain = std::remove_const_t<T>;
  size_t i = 0;
  if constexpr (holds_no_variables<Plain>) {
  } else if constexpr (is_variable<Plain>) {
    if constexpr (!std::is_same_v<Plain, Variable>)
      if (!x) return;
    const std::string own = own_name(static_cast<const Variable&>(x));
    visitor.variable(own.empty() ? "variable" : own, const_cast<Plain&>(x));
  } else if constexpr (VisitsParts<Plain>) {
    if constexpr (requires { typename Plain::RillLayer; })
      static_assert(sizeof(Plain) == sizeof(typename Plain::RillLayer),
                    "this type has fields of its own, and the RILL_LAYER of its base class does not name them: write a "
                    "RILL_LAYER(Type, ...) in it that names those of both");
    const_cast<Plain&>(x).visit_parts(visitor);
  } else if constexpr (NamesFields<T>) {
    std::apply([&](auto&... field) { visit_fields(names_of_fields<Plain>(), visitor, field...); }, rill_fields(x));
  } else if constexpr (NamesVariables<T>) {
    if (VariablePaths* paths = visitor.paths()) x.name_variables(*paths);
    else visitor.unreachable(part_of(x));
  } else if constexpr (is_owner<Plain> || is_a<Plain, std::optional>) {
    if (!x) return;
    own_pointee(const_cast<Plain&>(x), visitor);
    visit_inside(*x, visitor);
  } else if constexpr (std::is_same_v<Plain, std::vector<Variable>>) {
    if (VariablePaths* paths = visitor.paths()) paths->add_all(x);
    else
      for (Variable& v : const_cast<std::vector<Variable>&>(x)) visitor.variable(std::to_string(i++), v);
  } else if constexpr (is_a<Plain, std::vector>) {
    for (auto&& part : x) {
      if constexpr (std::is_lvalue_reference_v<decltype(part)>) visit_part(part, i++, visitor);
    }
  } else if constexpr (MapLike<Plain>) {
    for (auto& [key, value] : x) {
      if constexpr (std::is_arithmetic_v<typename Plain::key_type>) visit_as(value, std::to_string(key), visitor);
      else visit_as(value, std::string(key), visitor);
    }
  } else if constexpr (TupleLike<Plain>) {
    std::apply([&](auto&... part) { (visit_part(part, i++, visitor), ...); }, x);
  } else if constexpr (Walkable<T>) {
    x.walk([&](auto&... part) { visit_fields(names_of_fields<Plain>(), visitor, part...); });
  } else if constexpr (ListsVariables<T>) {
    visitor.listed(x.variables(), part_of(x));
  } else if constexpr (Aggregate<Plain>) {
    std::apply([&](auto&... field) { visit_fields(names_of_fields<Plain>(), visitor, field...); }, aggregate_fields(x));
  } else {
    static_assert(
        std::is_same_v<T, void>,
        "this type does not say which Variables it has: name its fields with RILL_LAYER(Type, a, b) inside of "
        "it or RILL_FIELDS(Type, a, b) beside it, or see rill/ops/names.h; of a type without Variables, say so "
        "with rill::holds_no_variables<Type>");
  }
}

NamedVariables set_frozen(const NamedVariables& variables, std::string_view pattern, bool frozen, std::string_view op,
                          const Where& where);
NamedVariables move_to(NamedVariables variables, Device device, const Where& where);
NamedVariables cast_to(const NamedVariables& variables, DType dtype, std::string_view pattern, const Where& where);

}  // namespace detail

// The Variables of a model (a layer, an optimizer, a struct, a container of such), by path, in order:
// variables(model).at("dense/kernel"). Of two Dense layers of one model: dense/kernel and dense_1/kernel.
template <class Model>
NamedVariables variables(Model&& model) {
  VariablePaths paths;
  detail::visit_inside(const_cast<std::remove_cvref_t<Model>&>(model), paths);
  return paths.finish();
}

// The paths, shapes and numbers of parameters of a model's Variables, as a table.
template <class Model>
std::string describe(Model&& model) {
  return to_string(variables(model));
}

// Names, inside of a struct or class, the fields that are layers or hold Variables: the one list from which
// variables(), checkpoints, summaries, nn::clone() and nn::cast() come. An aggregate of up to 16 fields needs none.
//
//   class Block {
//    public:
//     Tensor operator()(const Tensor& x, const nn::Call& call = {}) const;
//     RILL_LAYER(Block, norm, inner)
//    private:
//     nn::LayerNorm norm;
//     nn::Dense inner{8};
//   };
#define RILL_LAYER(Type, ...)                                                                                         \
  using RillLayer = Type;                                                                                             \
  void visit_parts([[maybe_unused]] ::rill::ModelVisitor& rill_visitor) {                                             \
    ::rill::detail::visit_fields(::rill::detail::split_names(#__VA_ARGS__), rill_visitor __VA_OPT__(, ) __VA_ARGS__); \
  }                                                                                                                   \
  ::std::vector<::rill::Variable> variables() const { return ::rill::variables(*this).values(); }

// Whether `path` is what `pattern` says: that path, or one below it; `*` stands for any characters, `?` for one.
bool path_matches(std::string_view path, std::string_view pattern);

// Freezes the Variables of a model whose paths match: tapes leave them alone, and trainable() is false. Gives those.
// "encoder" freezes all below encoder/, "*/bias" every bias, "*" all. Throws where nothing matches. Lists that were
// made before, such as an optimizer's parameters, still have them: take model.parameters() anew.
template <class Model>
  requires(!std::is_same_v<std::remove_cvref_t<Model>, Graph>)
NamedVariables freeze(Model&& model, std::string_view pattern = "*", Where where = Where::current()) {
  return detail::set_frozen(variables(model), pattern, true, "freeze", where);
}
// Undoes that: what was made trainable is so again.
template <class Model>
NamedVariables unfreeze(Model&& model, std::string_view pattern = "*", Where where = Where::current()) {
  return detail::set_frozen(variables(model), pattern, false, "unfreeze", where);
}

// Moves the Variables of a model to a device, move(model, "gpu:0"), all or (where memory is out, say) none, and gives
// them; strings stay on the host. An optimizer is moved likewise, with what it remembers: move(optimizer, "gpu:0"), or
// both at once in a struct. Functions that were traced are traced again at the next call. No other thread may use the
// model meanwhile. Throws where there is no such device, and inside a traced function.
template <class Model>
NamedVariables move(Model&& model, Device device, Where where = Where::current()) {
  return detail::move_to(variables(model), device, where);
}

}  // namespace rill

#pragma GCC visibility pop
