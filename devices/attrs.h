// Attributes: an op's parameters besides its tensors (axes, strides, a dtype, ...), as small plain structs.
//
// A struct lists its fields once, in `fields`; hashing, equality, printing, export and saving all read that list:
//
//   struct ReduceAttrs {
//     Dims axes;
//     bool keepdims = false;
//     template <class S, class V> static void fields(S& s, V&& v) { v("axes", s.axes); v("keepdims", s.keepdims); }
//   };
//
// AttrsView points to one on the caller's stack, so that an eager call allocates nothing; Attrs owns a copy, for tapes
// and graphs.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rill/tensor/dtype.h"
#include "rill/tensor/shape.h"

namespace rill {

using AttrValue = std::variant<bool, int64_t, double, std::string, DType, Dims>;
using AttrList = std::vector<std::pair<std::string, AttrValue>>;

struct AttrsType {
  AttrList (*list)(const void*);
  std::shared_ptr<const void> (*clone)(const void*);
};

namespace detail {
template <class F>
AttrValue to_attr_value(const F& field) {
  if constexpr (std::is_enum_v<F> && !std::is_same_v<F, DType>) return std::string(name(field));  // by ADL
  else if constexpr (std::is_same_v<F, bool> || std::is_same_v<F, DType>) return field;
  else if constexpr (std::is_integral_v<F>) return int64_t(field);
  else if constexpr (std::is_floating_point_v<F>) return double(field);
  else if constexpr (std::is_base_of_v<Dims, F>) return Dims(field);
  else return std::string(field);
}
template <class A>
inline constexpr AttrsType attrs_type = {
    [](const void* p) {
      AttrList list;
      A::fields(*static_cast<const A*>(p),
                [&](const char* name, const auto& f) { list.emplace_back(name, to_attr_value(f)); });
      return list;
    },
    [](const void* p) -> std::shared_ptr<const void> { return std::make_shared<const A>(*static_cast<const A*>(p)); }};
}  // namespace detail

class AttrsView {
 public:
  AttrsView() = default;
  template <class A>
    requires requires(const A& a) { A::fields(a, [](const char*, const auto&) {}); }
  AttrsView(const A& a) : type(&detail::attrs_type<A>), data(&a) {}
  AttrsView(const AttrsType* t, const void* d) : type(t), data(d) {}

  // The struct itself; `A` must be what it was made from.
  template <class A>
  const A& as() const {
    return *static_cast<const A*>(data);
  }
  // The fields by name; empty where the op has none.
  AttrList list() const { return type ? type->list(data) : AttrList(); }

  const AttrsType* type = nullptr;
  const void* data = nullptr;
};

class Attrs {
 public:
  Attrs() = default;
  Attrs(AttrsView v) : type_(v.type), data_(v.type ? v.type->clone(v.data) : nullptr) {}
  template <class A>
    requires requires(const A& a) { A::fields(a, [](const char*, const auto&) {}); }
  Attrs(const A& a) : Attrs(AttrsView(a)) {}
  operator AttrsView() const { return {type_, data_.get()}; }
  template <class A>
  const A& as() const {
    return *static_cast<const A*>(data_.get());
  }
  AttrList list() const { return AttrsView(*this).list(); }

 private:
  const AttrsType* type_ = nullptr;
  std::shared_ptr<const void> data_;
};

bool operator==(const AttrsView& a, const AttrsView& b);
size_t hash(const AttrsView& a);
// "axes=[0,1], keepdims=true".
std::string to_string(const AttrsView& a);

}  // namespace rill
