// Layers that change a shape, and those that join others.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "rill/nn/layer.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// [batch, ...] to [batch, all the rest]; or the axes from `first` to `last` as one.
class Flatten {
 public:
  explicit Flatten(Axis first = 1, Axis last = -1) : first(first), last(last) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Flatten)

  Axis first, last;
};

// One axis as several, of these sizes, of which one may be -1; see unflatten().
class Unflatten {
 public:
  Unflatten(Axis axis, const Shape& sizes) : axis(axis), sizes(sizes) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Unflatten)

  Axis axis;
  Shape sizes;
};

// The sizes of all axes but the first, of which one may be -1.
class Reshape {
 public:
  explicit Reshape(const Shape& sizes) : sizes(sizes) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Reshape)

  Shape sizes;
};

// Axes in another order: {0, 2, 1} for [batch, a, b] to [batch, b, a]. The batch has a number as well, 0.
class Permute {
 public:
  explicit Permute(const Axes& axes) : axes(axes) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Permute)

  Axes axes;
};

// [batch, ...] to [batch, times, ...], the same each time.
class RepeatVector {
 public:
  explicit RepeatVector(int64_t times, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(RepeatVector)

  int64_t times;
};

// x itself, converted if the call has a dtype.
class Identity {
 public:
  explicit Identity(std::string name = "identity") : name(std::move(name)) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Identity)

  std::string name;
};

// Zeros where all features of a step, the last axis, are `value`. (Keras' layer also passes a mask on: mask() returns
// it.)
class Masking {
 public:
  explicit Masking(double value = 0) : value(value) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  // Bools, [batch, steps]: whether a step has another feature.
  Tensor mask(const Tensor& x, Where where = Where::current()) const;
  RILL_LAYER(Masking)

  double value;

 private:
  Tensor any_of(const Tensor& x) const;
};

// The results of several layers for one input, concatenated along an axis: nn::Concat({nn::Dense(3), nn::Dense(4)}).
class Concat {
 public:
  // Throws where there is no layer.
  explicit Concat(std::vector<AnyLayer> layers, Axis axis = -1, std::string name = "concat",
                  Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Concat, layers)
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  std::vector<AnyLayer> layers;
  Axis axis;
  std::string name;
};

// x + layer(x), or shortcut(x) + layer(x) where a shortcut changes the shape.
class Residual {
 public:
  template <class L>
    requires(!std::same_as<L, Residual>)
  explicit Residual(L layer, AnyLayer shortcut = {}, std::string name = "residual")
      : layer(std::move(layer)), shortcut(std::move(shortcut)), name(std::move(name)) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Residual, layer, shortcut)
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  AnyLayer layer, shortcut;
  std::string name;
};

// Applies a layer to each step of [batch, steps, ...]: the layer gets [batch * steps, ...].
class TimeDistributed {
 public:
  template <class L>
    requires(!std::same_as<L, TimeDistributed>)
  explicit TimeDistributed(L layer, std::string name = "time_distributed")
      : layer(std::move(layer)), name(std::move(name)) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(TimeDistributed, layer)
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  AnyLayer layer;
  std::string name;
};

}  // namespace rill::nn

#pragma GCC visibility pop
