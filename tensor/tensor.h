// Tensor: an immutable n-dimensional array, a value as cheap to copy as a pointer.
//
// A Tensor points to a TensorRep, which has its Spec (shape, dtype, device), its memory (Buffer, offset, strides) and,
// while a tape or a trace records, its index there. Views may share buffers because no one can write through a Tensor;
// a buffer is written in place only if its reference count shows that it has one owner. Start reading at TensorRep; the
// arithmetic is in ops/ops.h.
#pragma once
#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "rill/tensor/buffer.h"
#include "rill/tensor/dtype.h"
#include "rill/tensor/error.h"
#include "rill/tensor/index.h"
#include "rill/tensor/other_names.h"
#include "rill/tensor/shape.h"

#pragma GCC visibility push(default)

namespace rill {

// What an op knows of an operand before it looks at elements.
struct Spec {
  Shape shape;
  DType dtype = DType::f32;
  bool weak = false;  // of a C++ scalar, which yields in promotion
  Device device;
  friend bool operator==(const Spec&, const Spec&) = default;
};
// "f32[2,3]"; an open size of a signature is '?'.
std::string to_string(const Spec& s);

struct TensorRep {
  Count refs;

  // The tensor's index on a tape: written once, when the op that makes it is recorded.
  uint32_t tape_node = 0;
  // The graph value that this tensor stands for, in a trace. Such a tensor has a spec and no buffer.
  int32_t trace_value = -1;
  uint32_t trace = 0;  // serial number of the trace; 0: a real tensor
  uint64_t tape = 0;   // serial number of the tape; 0: none

  uint64_t id = 0;  // never used twice in a process
  Spec spec;
  Strides strides;       // in elements
  char* data = nullptr;  // the first element, inside buffer->data
  Ref<Buffer> buffer;

  static void destroy(TensorRep* r);  // called by the last Ref
  static void* operator new(size_t bytes);
  static void operator delete(void* p);
};

template <class T>
concept Scalar =
    std::is_arithmetic_v<T> || detail::ComplexOf<T, float> || detail::ComplexOf<T, double> || is_small_float_type<T>;

class IndexedTensor;
class RowIterator;

class Tensor : public detail::OtherNames {
 public:
  // An undefined tensor: it can be assigned to, and asked whether it is defined(); everything else throws.
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  template <class T>
  void operator=(const T&) && {
    static_assert(!sizeof(T),
                  "assigning to x(i) changes nothing, for tensors never change: write x = x.at(i).set(value)");
  }
  // What gives several tensors: does not compile, and says what does.
  template <std::same_as<Tensor> T>
  void operator=(const std::vector<T>&) & {
    static_assert(!sizeof(T),
                  "a std::vector of tensors is no Tensor: what gives several, such as split(x, 2) or gradient(v), is "
                  "kept by auto, and one of them is split(x, 2)[0]");
  }
  // A weak scalar: of shape {}, on the CPU; it takes the dtype of the tensor that it is combined with.
  template <Scalar T>
  Tensor(T value) : Tensor(scalar(&value, dtype_of<T>(), true)) {}
  // Deleted, with a message that says how to make a tensor of elements.
  template <Scalar A, Scalar B, Scalar... More>
  Tensor(A, B, More...) {
    static_assert(!sizeof(A), "a tensor with these elements is tensor({1.f, 2.f}), one of this shape zeros({2, 3})");
  }
  template <Scalar T>
  Tensor(const std::vector<T>&) {
    static_assert(!sizeof(T), "a tensor with the elements of a std::vector is tensor(v)");
  }
  // A size as a weak scalar. While its trace is open, the value follows the size.
  Tensor(Dim size);
  explicit Tensor(Ref<TensorRep> rep) : rep_(std::move(rep)) {}

  bool defined() const { return bool(rep_); }  // false for an undefined tensor, of which all else throws
  // Calls with a missing argument, or one too many; tensor/other_names.h says what to write instead.
  using OtherNames::astype, OtherNames::data, OtherNames::dim, OtherNames::item, OtherNames::reshape, OtherNames::shape,
      OtherNames::size, OtherNames::to_vector;
  // The size of each axis.
  const Shape& shape(Where where = Where::current()) const& { return checked(where).spec.shape; }
  // The size of one axis; negative axes count from the back. Throws where there is no such axis.
  Size dim(Axis axis, Where where = Where::current()) const;
  // The type of the elements.
  DType dtype(Where where = Where::current()) const { return checked(where).spec.dtype; }
  // The device that stores them.
  Device device(Where where = Where::current()) const { return checked(where).spec.device; }
  // The number of axes.
  int ndim(Where where = Where::current()) const { return int(checked(where).spec.shape.size()); }
  // The number of elements.
  Size size(Where where = Where::current()) const { return checked(where).spec.shape.numel(); }
  // Shape, dtype and device.
  const Spec& spec(Where where = Where::current()) const& { return checked(where).spec; }
  // The distance between neighbouring elements along each axis, in elements.
  const Strides& strides(Where where = Where::current()) const& {
    if (checked(where).trace) [[unlikely]]
      look_at_sizes();
    return rep_->strides;
  }
  // Of a temporary these are copies, for it may be gone when they are looked at.
  Shape shape(Where where = Where::current()) const&& { return shape(where); }
  Spec spec(Where where = Where::current()) const&& { return spec(where); }
  Strides strides(Where where = Where::current()) const&& { return strides(where); }
  // Whether the elements lie row-major without gaps.
  bool is_contiguous(Where where = Where::current()) const;
  // Whether it stands for a value of a graph that is being traced, and has no elements to read.
  bool is_symbolic(Where where = Where::current()) const { return checked(where).trace != 0; }

  // The one element as a C++ value (T = float, int64_t, bool, std::string, ...), converted from any numeric dtype.
  // Throws unless size() == 1, and while tracing.
  template <class T>
  T item(Where where = Where::current()) const {
    T out{};
    read_item(&out, dtype_of<T>(), where);
    return out;
  }
  // x.item<float>(i, j): the same for one element, by one index per axis.
  template <class T>
  T item(Index i0, Index i1 = {}, Index i2 = {}, Index i3 = {}, Index i4 = {}, Index i5 = {}, Index i6 = {},
         Index i7 = {}, Where where = Where::current()) const {
    return (*this)(i0, i1, i2, i3, i4, i5, i6, i7, where).template item<T>(where);
  }
  // All elements in row-major order, converted to T. Copies from the device where needed. Throws while tracing.
  template <class T>
  std::vector<T> to_vector(Where where = Where::current()) const {
    std::vector<T> out;
    make_room(out, where);
    if constexpr (std::same_as<T, bool>) {
      std::vector<char> bytes;
      make_room(bytes, where);
      read_all(bytes.data(), DType::boolean, where);
      for (size_t i = 0; i < out.size(); ++i) out[i] = bytes[i];
    } else {
      read_all(out.data(), dtype_of<T>(), where);
    }
    return out;
  }
  // The elements in memory, or those of a row-major copy where they fill it in another order. Throws unless the tensor is
  // on a host device, of dtype T and dense in some order (see contiguous() and astype()).
  template <class T>
  std::span<const T> data(Where where = Where::current()) const& {
    return {static_cast<const T*>(host_data(dtype_of<T>(), where)), size_t(size())};
  }
  // Deleted: a temporary's elements are gone at the end of the statement. Name the tensor first.
  template <class T>
  std::span<const T> data(Where where = Where::current()) const&& = delete;

  // The same elements under another shape; one size may be -1. A view where the strides allow it, else a copy.
  Tensor reshape(const Shape& shape, Where where = Where::current()) const;
  // Converted to `dtype` as C++ converts; float to bool is `!= 0`. The same tensor if it has that dtype already.
  Tensor astype(DType dtype, Where where = Where::current()) const;
  // Copied to `device`; the same tensor if it is there already.
  Tensor to(Device device, Where where = Where::current()) const;
  // astype() under torch's name.
  Tensor to(DType dtype, Where where = Where::current()) const { return astype(dtype, where); }
  // Dense and row-major: the tensor itself, or a copy.
  Tensor contiguous(Where where = Where::current()) const;
  // All axes reversed; a view.
  Tensor T(Where where = Where::current()) const;

  // numpy indexing. Integers, slices, `all`, `newaxis`, `ellipsis` give views; a bool mask or integer tensors copy.
  // Throws where an index is out of bounds.
  Tensor operator()(Index i0, Index i1 = {}, Index i2 = {}, Index i3 = {}, Index i4 = {}, Index i5 = {}, Index i6 = {},
                    Index i7 = {}, Where where = Where::current()) const;
  // Iterates over the slices along the first axis, x(0), x(1), ...: for (const Tensor& row : x). Throws for a scalar.
  RowIterator begin(Where where = Where::current()) const;
  RowIterator end(Where where = Where::current()) const;
  // Deleted, with a message that says what to write.
  template <class I>
  Tensor operator[](const I&) const {
    static_assert(!sizeof(I), "a tensor is indexed with parentheses: x(i), x(i, j), x(slice(0, 2), all)");
    return *this;
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  explicit operator T() const {  // for float s = sum(x) write sum(x).item<float>()
    static_assert(!sizeof(T),
                  "a Tensor is no C++ number and decides no if: read x.item<bool>() or x.item<float>(), reduce with "
                  "all(x) or any(x); x && y is logical_and(x, y); traced code chooses with where() or cond()");
    return {};
  }
  // For updates: a.at(0, slice(0, 2)).set(9) is a copy of `a` with that part replaced; `a` itself never changes.
  // On a temporary with no other owner, it writes in place.
  IndexedTensor at(Index i0, Index i1 = {}, Index i2 = {}, Index i3 = {}, Index i4 = {}, Index i5 = {}, Index i6 = {},
                   Index i7 = {}, Where where = Where::current()) const&;
  IndexedTensor at(Index i0, Index i1 = {}, Index i2 = {}, Index i3 = {}, Index i4 = {}, Index i5 = {}, Index i6 = {},
                   Index i7 = {}, Where where = Where::current()) &&;

  // The representation, for kernels and graph passes.
  const TensorRep* rep() const { return rep_.get(); }
  TensorRep* mutable_rep() { return rep_.get(); }
  const Ref<TensorRep>& ref() const { return rep_; }
  // Whether no one else can see this tensor's elements, so that they may be overwritten.
  bool exclusive() const { return rep_.unique() && rep_->buffer.unique(); }
  static Tensor scalar(const void* value, DType dtype, bool weak);  // a tensor of shape {}

 private:
  const TensorRep& checked(const Where& where) const {
    if (!rep_) [[unlikely]]
      fail_undefined(where);
    return *rep_;
  }
  [[noreturn]] static void fail_undefined(const Where& where, std::string_view member = "tensor");
  void look_at_sizes() const;
  // Before all elements are copied: throws if there are none to read, or more than memory holds.
  template <class V>
  void make_room(V& v, const Where& where) const {
    const size_t n = readable_size(where);
    try {
      v.resize(n);
    } catch (const std::exception&) {
      fail_too_many(where);
    }
  }
  size_t readable_size(const Where& where) const;
  [[noreturn]] void fail_too_many(const Where& where) const;
  void read_item(void* out, DType as, const Where& where) const;
  void read_all(void* out, DType as, const Where& where) const;
  const void* host_data(DType as, const Where& where) const;

  Ref<TensorRep> rep_;
};

using Tensors = SmallVec<Tensor, 4>;

// Iterates over the slices along the first axis of a tensor.
class RowIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Tensor;
  using difference_type = std::ptrdiff_t;
  using pointer = const Tensor*;
  using reference = Tensor;
  RowIterator(const Tensor& x, int64_t row, const Where& where) : x_(x), row_(row), where_(where) {}
  Tensor operator*() const { return x_(row_, {}, {}, {}, {}, {}, {}, {}, where_); }
  RowIterator& operator++() {
    ++row_;
    return *this;
  }
  void operator++(int) { ++row_; }
  bool operator==(const RowIterator& other) const { return row_ == other.row_; }

 private:
  Tensor x_;
  int64_t row_;
  Where where_;
};

// Throws if `t`, the operand `what` of `op`, is undefined.
inline void require_defined(std::string_view op, const Tensor& t, std::string_view what, const Where& where) {
  if (!t.defined()) [[unlikely]]
    fail(op, std::string(what) + " is an undefined tensor. assign a value to it first", where);
}

// What a.at(...) returns: part of a tensor, to be updated. `value` broadcasts and is cast to the tensor's dtype. Where
// an index is repeated, set() keeps the last value in index order; add, multiply, min and max apply every one.
class IndexedTensor {
 public:
  IndexedTensor(Tensor base, std::span<const Index> index, const Where& where);
  [[nodiscard]] Tensor set(const Tensor& value) &&;       // replaces the elements by `value`
  [[nodiscard]] Tensor add(const Tensor& value) &&;       // adds `value`
  [[nodiscard]] Tensor multiply(const Tensor& value) &&;  // multiplies by `value`
  [[nodiscard]] Tensor min(const Tensor& value) &&;       // the smaller of element and `value`
  [[nodiscard]] Tensor max(const Tensor& value) &&;       // the larger of element and `value`
  [[nodiscard]] Tensor get() &&;                          // the elements themselves
  // Deleted, with a message that says what to write.
  template <class T>
  auto operator=(const T&) && {
    static_assert(!sizeof(T), "tensors never change: write x = x.at(i).set(value)");
  }
  template <class T>
  auto operator+=(const T&) && {
    static_assert(!sizeof(T), "tensors never change: write x = x.at(i).add(value)");
  }

 private:
  SmallVec<Index, 8> index() const;  // with pointers to tensors_

  Tensor base_;
  SmallVec<Index, 8> index_;
  SmallVec<Tensor, 4> tensors_;  // copies of those in index_, whose originals may be gone
  Where where_;
};

// numpy's text: "[[1. 2. 3.]\n [4. 5. 6.]]". Inside a trace, "f32[2,3] <name>".
std::ostream& operator<<(std::ostream& out, const Tensor& t);
std::string to_string(const Tensor& t);

// A new, dense tensor over `buffer`; a view of `base` with these strides and this offset of the first element.
Tensor make_tensor(Spec spec, Ref<Buffer> buffer);
Tensor make_view(const Tensor& base, Shape shape, Strides strides, int64_t offset_elements);
// The same elements as a new tensor, which no tape knows.
Tensor make_alias(const Tensor& t);
// A tensor with a spec and no elements.
Tensor make_stand_in(Spec spec);

}  // namespace rill

#pragma GCC visibility pop
