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
#include <string>
#include <string_view>
#include <type_traits>

#include "rill/tensor/dtype.h"
#include "rill/tensor/shape.h"
#include "rill/tensor/shared.h"

#pragma GCC visibility push(default)

namespace rill {

// A number of any dtype, as `full` and `pad` fill with. Compared and printed as text, so that -0.0 and 0.0 differ and
// NaN equals itself, as a cache key needs.
struct FillValue {
  Dim whole = 0;  // for integers and bool; u64 by its bits. If it is open, `real` has its value
  double real = 0, imag = 0;

  // `whole` read as `dtype`, or real and imag: "7", "0.1", "nan", "1+2i".
  std::string text(DType dtype) const;
  // The number as a C++ value.
  template <class T>
  T as() const {
    if constexpr (std::is_same_v<T, bool>) return whole != 0;
    else if constexpr (std::is_integral_v<T>) return T(whole);
    else if constexpr (detail::ComplexOf<T, float>) return {float(real), float(imag)};
    else if constexpr (detail::ComplexOf<T, double>) return {real, imag};
    else if constexpr (std::is_same_v<T, std::string>) return {};
    else if constexpr (std::is_same_v<T, double>) return real;
    else return T(float(real));
  }
};

// A FillValue field of a struct, with the dtype that it is read as.
template <class V>
struct FillField {
  V& value;
  DType dtype;
};
template <class V>
FillField<V> fill_field(V& value, DType dtype) {
  return {value, dtype};
}

// Visits each field.
class AttrVisitor {
 public:
  virtual void field(const char* name, bool value) = 0;
  virtual void field(const char* name, int64_t value) = 0;
  virtual void field(const char* name, double value) = 0;
  virtual void field(const char* name, std::string_view value) = 0;
  virtual void field(const char* name, DType value) = 0;
  virtual void field(const char* name, const Dims& value) = 0;

 protected:
  ~AttrVisitor() = default;
};

// May change the fields that can hold sizes, indices and what is computed from them.
class AttrRewriter {
 public:
  virtual void field(const char* name, Dim& value) = 0;
  virtual void field(const char* name, Dims& value) = 0;
  virtual void field(const char* name, FillValue& value, DType dtype) = 0;

 protected:
  ~AttrRewriter() = default;
};

struct AttrsType {
  void (*visit)(const void*, AttrVisitor&);
  Shared<void> (*clone)(const void*);
  void (*rewrite)(void*, AttrRewriter&);
};

namespace detail {
template <class F>
inline constexpr bool is_whole = std::is_integral_v<F> && !std::is_same_v<F, bool>;

template <class F>
void visit_attr(AttrVisitor& v, const char* key, const F& field) {
  if constexpr (requires { field.value.text(field.dtype); })
    v.field(key, std::string_view(field.value.text(field.dtype)));
  else if constexpr (std::is_same_v<F, bool> || std::is_same_v<F, DType>) v.field(key, field);
  else if constexpr (std::is_enum_v<F>) v.field(key, std::string_view(name(field)));  // by ADL
  else if constexpr (is_whole<F> || DimOrSize<F>) v.field(key, int64_t(field));
  else if constexpr (std::is_floating_point_v<F>) v.field(key, double(field));
  else if constexpr (std::is_base_of_v<Dims, F>) v.field(key, static_cast<const Dims&>(field));
  else v.field(key, std::string_view(field));
}

template <class F>
void rewrite_attr(AttrRewriter& r, const char* key, F&& field) {
  using T = std::remove_cvref_t<F>;
  if constexpr (requires { field.value.text(field.dtype); }) {
    r.field(key, field.value, field.dtype);
  } else if constexpr (DimOrSize<T>) {
    r.field(key, field);
  } else if constexpr (std::is_base_of_v<Dims, T>) {
    r.field(key, static_cast<Dims&>(field));
  }
}

template <class A>
inline constexpr AttrsType attrs_type = {
    [](const void* p, AttrVisitor& v) {
      A::fields(*static_cast<const A*>(p), [&](const char* key, const auto& f) { visit_attr(v, key, f); });
    },
    [](const void* p) -> Shared<void> { return Shared<A>::make(*static_cast<const A*>(p)); },
    [](void* p, AttrRewriter& r) {
      A::fields(*static_cast<A*>(p), [&](const char* key, auto&& f) { rewrite_attr(r, key, f); });
    }};
}  // namespace detail

class AttrsView {
 public:
  AttrsView() = default;
  template <class A>
    requires requires(const A& a) { A::fields(a, [](const char*, const auto&) {}); }
  AttrsView(const A& a) : type(&detail::attrs_type<A>), data(&a) {}
  AttrsView(const AttrsType* t, const void* d) : type(t), data(d) {}

  // The struct itself; `A` must be the type that it was made from.
  template <class A>
  const A& as() const {
    return *static_cast<const A*>(data);
  }
  // Visits the fields in order; does nothing if the op has no attributes. attr_list.h returns them as a list.
  void visit(AttrVisitor& v) const {
    if (type) type->visit(data, v);
  }

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
  // A copy, changed by `r`.
  Attrs rewritten(AttrRewriter& r) const {
    Attrs copy{AttrsView(*this)};
    if (type_) type_->rewrite(copy.data_.get(), r);
    return copy;
  }

 private:
  const AttrsType* type_ = nullptr;
  Shared<void> data_;  // never changed while shared
};

bool operator==(const AttrsView& a, const AttrsView& b);
size_t hash(const AttrsView& a);
// "axes=[0,1], keepdims=true".
std::string to_string(const AttrsView& a);
// The same for people to read: open sizes of a graph print as '?'.
std::string with_open_sizes(const AttrsView& a);

}  // namespace rill

#pragma GCC visibility pop
