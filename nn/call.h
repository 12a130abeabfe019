// Call: the settings of a layer's call: model(x, nn::Mode::training), model(x, nn::Call{.compute = bf16}).
#pragma once
#include <optional>

#include "rill/ops/ops.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct Call;

// Whether a layer is trained. It is the mode of one call: there is no hidden global one. Converts to a Call.
class Mode {
 public:
  static const Mode inference, training;
  constexpr Mode() = default;  // inference
  friend constexpr bool operator==(Mode, Mode) = default;
  inline operator Call() const;

 private:
  explicit constexpr Mode(bool training) : training_(training) {}
  bool training_ = false;
};
inline constexpr Mode Mode::inference{false}, Mode::training{true};

// How a model is called. Layers pass it on to the layers inside them: `inner(x, call)`.
struct Call {
  Mode mode = Mode::inference;
  // The dtype that inputs and parameters are converted to before they are used, such as bf16 on f32 weights; otherwise
  // a layer computes in what its input and its parameters promote to. Normalisation keeps its statistics wide.
  std::optional<DType> compute = {};

  // Whether the mode is training.
  bool training() const { return mode == Mode::training; }
  // `x` as a layer computes with it: converted to `compute` where that is given and x is floating.
  Tensor in(const Tensor& x, Where where = Where::current()) const;
};
inline Mode::operator Call() const { return Call{.mode = *this}; }

}  // namespace rill::nn

#pragma GCC visibility pop
