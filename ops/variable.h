// Variable: mutable state. It has a name, a trainable flag and a tensor that assign_* replaces; it converts to Tensor,
// so every function takes one. Copies share the same state. Using a Variable that was moved from is an error.
//
// A deferred Variable has no value yet, because its shape is not known: a layer's parameter before the first call. It
// can be listed, frozen, moved and cast; build() gives it its value, and reading it before that is an error.
#pragma once
#include <string>

#include "rill/ops/scopes.h"
#include "rill/tensor/shared.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

struct VariableState;  // variable_state.h

struct VariableOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::string name = "Variable";
  bool trainable = true;
};

namespace detail {
struct WriteVariableInParentheses {};  // what compilers print of a constructor that is deleted
}  // namespace detail

class Variable : public detail::OtherNames {
 public:
  // Holds `initial` (made strong if it is a C++ scalar). Names are prefixed by the current NameScope.
  Variable(const Tensor& initial, VariableOptions options, Where where = Where::current());
  explicit Variable(const Tensor& initial, Where where = Where::current())
      : Variable(initial, VariableOptions{}, where) {}
  template <detail::Text S>
  Variable(const Tensor& initial, const S& name, Where where = Where::current())
      : Variable(initial, VariableOptions{.name = std::string(name)}, where) {}

  // Variable w = zeros({2}). Deleted, for an assertion would make a Tensor convertible: transforms ask whether it is.
  template <std::same_as<Tensor> T>
  Variable(const T&, detail::WriteVariableInParentheses = {}) = delete;  // write Variable w(zeros({2, 3}), "w")

  // One without a value, whose dtype is `dtype`. Names are prefixed by the current NameScope.
  static Variable deferred(VariableOptions options, DType dtype = DType::f32, Where where = Where::current());
  // Gives a deferred Variable its value, converted to its dtype and on its device; one that was built meanwhile, by
  // another thread, keeps the value it has. Throws where it was built with another shape.
  Variable& build(const Tensor& value, Where where = Where::current());
  // Whether it has a value.
  bool is_built(Where where = Where::current()) const;

  // The variable that `state` belongs to.
  explicit Variable(Shared<VariableState> state) : state_(std::move(state)) {}

  // The value now. Inside a tape a trainable Variable is watched; inside `function` this is a hidden input.
  Tensor value(Where where = Where::current()) const;
  operator Tensor() const { return value(Where()); }

  // Of the value, as numpy indexes: w(0), w(slice(0, 2), all).
  Tensor operator()(Index i0, Index i1 = {}, Index i2 = {}, Index i3 = {}, Index i4 = {}, Index i5 = {}, Index i6 = {},
                    Index i7 = {}, Where where = Where::current()) const {
    return value(where)(i0, i1, i2, i3, i4, i5, i6, i7, where);
  }

  const std::string& name(Where where = Where::current()) const;  // the name, with its scopes: "layer1/w"
  bool trainable(Where where = Where::current()) const;           // whether tapes watch it when it is read
  Shape shape(Where where = Where::current()) const;              // the shape of its values
  DType dtype(Where where = Where::current()) const;              // the dtype of its values
  Device device(Where where = Where::current()) const;            // where its values are stored

  // Of the value, as Tensor has them.
  using OtherNames::astype, OtherNames::dim, OtherNames::item, OtherNames::reshape, OtherNames::shape, OtherNames::size,
      OtherNames::to_vector;
  Size dim(Axis axis, Where where = Where::current()) const { return value(where).dim(axis, where); }
  int ndim(Where where = Where::current()) const { return value(where).ndim(where); }
  Size size(Where where = Where::current()) const { return value(where).size(where); }
  template <class T>
  T item(Where where = Where::current()) const {
    return value(where).template item<T>(where);
  }
  template <class T>
  std::vector<T> to_vector(Where where = Where::current()) const {
    return value(where).template to_vector<T>(where);
  }
  Tensor reshape(const Shape& shape, Where where = Where::current()) const {
    return value(where).reshape(shape, where);
  }
  Tensor astype(DType dtype, Where where = Where::current()) const { return value(where).astype(dtype, where); }
  Tensor T(Where where = Where::current()) const { return value(where).T(where); }
  RowIterator begin(Where where = Where::current()) const { return value(where).begin(where); }
  RowIterator end(Where where = Where::current()) const { return value(where).end(where); }
  template <class I>
  auto operator[](const I&) const {
    static_assert(!sizeof(I), "a Variable is indexed with parentheses: w(i), w(i, j), w(slice(0, 2), all)");
    return Tensor();
  }

  // From now on tapes leave it alone, and trainable() is false, until unfreeze() makes it what it was made as. Traced
  // functions that read it are traced again. See freeze(model, pattern) in rill/ops/names.h.
  Variable& freeze(Where where = Where::current());
  Variable& unfreeze(Where where = Where::current());

  // Replaces the value. `v` broadcasts to the shape and is cast where it is a C++ scalar; throws on any other dtype or
  // a shape that does not broadcast. Inside `function` the assignment happens at every call.
  Variable& assign(const Tensor& v, Where where = Where::current());
  Variable& assign_add(const Tensor& v, Where where = Where::current());  // adds v, as one operation to other threads
  Variable& assign_sub(const Tensor& v, Where where = Where::current());  // subtracts v, likewise

  // Changes slices along the first axis and leaves the others alone: row indices[i] becomes rows[i], or has it added or
  // subtracted, as one operation to other threads. `rows` broadcasts to indices.shape + shape[1:] and is cast where it
  // is a C++ scalar; negative indices count from the back. Of a row that is named several times, scatter_update keeps
  // the last, the others take every one, in order. The cost is that of these rows, unless somebody holds the value:
  // then it is copied first, for a tensor that was read keeps what it was. Throws on an index out of bounds, before
  // anything is changed.
  Variable& scatter_update(const Tensor& indices, const Tensor& rows, Where where = Where::current());
  Variable& scatter_add(const Tensor& indices, const Tensor& rows, Where where = Where::current());
  Variable& scatter_sub(const Tensor& indices, const Tensor& rows, Where where = Where::current());

  // Assignments do not compile, and say what does.
  template <std::convertible_to<Tensor> T>
    requires(!std::same_as<T, Variable>)
  Variable& operator=(const T&) {
    static_assert(!sizeof(T), "a Variable is given a value by w.assign(value)");
    return *this;
  }
#define RILL_UPDATES(op, function)                                                    \
  template <class T>                                                                  \
  Variable& operator op(const T&) {                                                   \
    static_assert(!sizeof(T), "a Variable is changed by w.assign(...) or " function); \
    return *this;                                                                     \
  }
  RILL_UPDATES(+=, "w.assign_add(x)")
  RILL_UPDATES(-=, "w.assign_sub(x)")
  RILL_UPDATES(*=, "w.assign(w * x)")
  RILL_UPDATES(/=, "w.assign(w / x)")
#undef RILL_UPDATES

  VariableState& state(Where where = Where::current()) const {  // the state that copies share
    if (!state_) fail_moved(where);
    return *state_;
  }
  const Shared<VariableState>& shared_state() const { return state_; }  // that state; null once moved from

 private:
  [[noreturn]] static void fail_moved(const Where& where);

  Shared<VariableState> state_;
};

// A Variable, or what is one: a layer's nn::Param.
template <class T>
inline constexpr bool is_variable = std::is_base_of_v<Variable, T>;

}  // namespace rill

#pragma GCC visibility pop
