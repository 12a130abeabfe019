// Attributes from names and values, as in files and text: the inverse of list_of(). A struct's `fields` says which
// fields to set, as it says which to print; a struct that files may contain is registered by a static ReadableAttrs
// (those of this folder in read_attrs.cpp, others beside their records).
#pragma once
#include <type_traits>

#include "rill/devices/params/attr_list.h"
#include "rill/tensor/callback.h"
#include "rill/tensor/device.h"

#pragma GCC visibility push(default)

namespace rill {

// The open size that a text in a file names: "s3". Throws if there is none.
using ReadDim = Callback<Dim(std::string_view)>;

namespace detail {
template <class E>
std::string_view enumerator_name(int i) {
  return name(E(i));  // by ADL
}
}  // namespace detail

// Gives each field the value of its name. Every kind of field accepts text ("true", "0.5"), so that a list may come
// from a format without types. Throws rill::Error if a value is missing, has the wrong kind, or is left over.
class AttrValues {
 public:
  // `operand`: the dtype of the op's first operand.
  AttrValues(const AttrList& list, DType operand, const ReadDim& read_dim);
  DType operand() const { return operand_; }
  void set(const char* name, bool& v);
  void set(const char* name, int64_t& v);
  void set(const char* name, int& v);
  void set(const char* name, double& v);
  void set(const char* name, std::string& v);
  void set(const char* name, DType& v);
  void set(const char* name, Device& v);
  void set(const char* name, Dim& v);
  void set(const char* name, Dims& v);
  void set(const char* name, FillField<FillValue> v) { set(name, v.value); }
  void set(const char* name, FillValue& v);
  template <class E>
    requires std::is_enum_v<E>
  void set(const char* name, E& v) {
    v = E(choice(name, detail::enumerator_name<E>, enumerators(E())));
  }
  // Sets a field that `fields` lists only if it differs from its default.
  template <class T>
  void set_if_given(const char* name, T& v) {
    if (has(name)) set(name, v);
  }
  bool has(const char* name) const;
  // Throws if a value was not used.
  void finish() const;

 private:
  const AttrValue& at(const char* name);
  int choice(const char* name, std::string_view (*text)(int), int count);
  [[noreturn]] static void reject(const char* name, std::string_view expected);

  const AttrList& list_;
  const DType operand_;
  const ReadDim& read_dim_;
  std::vector<char> used_;
};

namespace detail {
template <class A>
Attrs read_attrs(AttrValues& values) {
  A a;
  if constexpr (requires { hidden_fields(a, values); }) hidden_fields(a, values);
  A::fields(a, [&](const char* key, auto&& field) {
    using F = decltype(field);
    // Values computed from a hidden field are printed, but cannot be set.
    if constexpr (std::is_lvalue_reference_v<F> || requires { field.dtype; }) values.set(key, field);
  });
  values.finish();
  return a;
}
}  // namespace detail

// Registers a struct. `hidden_fields(A&, AttrValues&)`, if there is one, sets what `fields` does not always list.
class ReadableAttrs {
 public:
  // `op`: the record that has these attributes, if none of its samples shows that.
  template <class A>
  explicit ReadableAttrs(std::type_identity<A>, std::string_view op = "")
      : type(&detail::attrs_type<A>), op(op), read(&detail::read_attrs<A>) {
    add();
  }
  ReadableAttrs(const ReadableAttrs&) = delete;

  // The one of this type, or of the op of this name; null if there is none.
  static const ReadableAttrs* find(const AttrsType* type);
  static const ReadableAttrs* find(std::string_view op);

  const AttrsType* const type;
  const std::string_view op;
  Attrs (*const read)(AttrValues&);

 private:
  void add();
  const ReadableAttrs* next_ = nullptr;
};

// The open sizes of an op outside of lists, with their fields' names; list_of() shows their present values.
std::vector<std::pair<std::string, Dim>> open_fields(const Attrs& a);

}  // namespace rill

#pragma GCC visibility pop
