// GradientTape: records ops as they run, in program order, and walks them backward for gradients.
//
//   Variable w(ones({2}), "w");
//   GradientTape tape;
//   Tensor loss = sum(square(w * x));
//   Tensor dw = tape.gradient(loss, w);
//
// A tape records from its construction until it is destroyed or, unless persistent, used for a gradient. It watches the
// trainable Variables that are read and records what is computed from watched tensors. Tapes nest: an inner tape's
// gradient is recorded by the outer ones, which gives higher orders. Inside `function` a tape records the traced
// values; around one, the whole call is one entry.
#pragma once
#include <array>
#include <span>
#include <string>
#include <vector>

#include "rill/autodiff/sparse.h"
#include "rill/ops/variable.h"
#include "rill/tensor/callback.h"

#pragma GCC visibility push(default)

namespace rill {

struct TapeOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool persistent = false;      // gradient() may be called again; what the tape holds is kept until it is destroyed
  bool watch_variables = true;  // trainable Variables are watched when read
};

// What gradient() does for a source on which the target does not depend.
enum class Unconnected : uint8_t {
  error,  // throws, naming the source
  zero,   // returns zeros of its shape
  none    // returns an undefined tensor
};

struct GradientOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Unconnected unconnected = Unconnected::error;
  Tensor output_gradient = {};                // the cotangent to start from, of the target's shape; ones by default
  std::vector<Tensor> output_gradients = {};  // the same for several targets, one each
  // For Jacobians: about so many bytes of cotangents go through the tape at a time; more rows take several walks.
  int64_t chunk_bytes = int64_t(1) << 28;
};

// What a gradient is taken with respect to: a Variable, or a tensor that is watched or was recorded.
class Source {
 public:
  Source(const Tensor& t) : tensor(t) {}
  Source(const Variable& v) : variable(v.shared_state()) {}
  Tensor tensor;
  Shared<VariableState> variable;
};

namespace detail {
template <class T>
struct GradientType;  // structures.h
}
// A C++ value with tensors or Variables inside (ops/tree.h), which is not a list of sources itself.
template <class T>
concept GradientStructure =
    std::is_class_v<T> && !std::convertible_to<const T&, Source> &&
    !std::convertible_to<const T&, std::vector<Tensor>> && !std::convertible_to<const T&, std::vector<Variable>> &&
    !std::convertible_to<const T&, std::vector<Source>>;

// The target of a gradient by any number of sources, with the caller's line, which cannot be a last parameter there.
struct Target {
  Target(const Tensor& t, Where where = Where::current()) : tensor(t), where(where) {}
  const Tensor& tensor;
  Where where;
};

class GradientTape {
 public:
  [[nodiscard]] explicit GradientTape(TapeOptions options = {});
  template <std::same_as<bool> B>
  explicit GradientTape(B) : GradientTape() {
    static_assert(!sizeof(B), "a tape for several gradients is GradientTape tape({.persistent = true})");
  }
  ~GradientTape();
  GradientTape(const GradientTape&) = delete;
  GradientTape& operator=(const GradientTape&) = delete;

  // From now on, computations with `x` are recorded. Throws unless x is floating or complex.
  void watch(const Tensor& x, Where where = Where::current());
  void watch(const Variable& v, Where where = Where::current());

  // d sum(target) / d source, of the source's shape and dtype. Throws where the target is not floating or not known to
  // this tape, where a source is unconnected (see GradientOptions), and where a tape that is not persistent was asked
  // before.
  Tensor gradient(const Tensor& target, const Source& source, const GradientOptions& options = {},
                  Where where = Where::current());
  // By several sources in one walk: auto [dw, db] = tape.gradient(loss, w, b).
  template <class... More>
    requires(std::convertible_to<const More&, Source> && ...)
  std::array<Tensor, 2 + sizeof...(More)> gradient(const Target& target, const Source& first, const Source& second,
                                                   const More&... more) {
    const Source sources[] = {first, second, Source(more)...};
    std::array<Tensor, 2 + sizeof...(More)> out;
    gradients({&target.tensor, 1}, sources, {}, target.where, out);
    return out;
  }
  std::vector<Tensor> gradient(const Tensor& target, std::initializer_list<Source> sources,
                               const GradientOptions& options = {}, Where where = Where::current()) {
    std::vector<Tensor> out(sources.size());
    gradients({&target, 1}, {sources.begin(), sources.size()}, options, where, out);
    return out;
  }
  std::vector<Tensor> gradient(const Tensor& target, const std::vector<Variable>& sources,
                               const GradientOptions& options = {}, Where where = Where::current());
  std::vector<Tensor> gradient(const Tensor& target, const std::vector<Tensor>& sources,
                               const GradientOptions& options = {}, Where where = Where::current());
  // By every tensor and Variable in a structure, as a structure like it: with a Tensor for each Variable, and zeros for
  // tensors without a derivative (integers, say).
  template <GradientStructure T>
  typename detail::GradientType<T>::type gradient(const Target& target, const T& structure,
                                                  const GradientOptions& options = {});
  // Of the sum of several targets.
  std::vector<Tensor> gradient(const std::vector<Tensor>& targets, const std::vector<Source>& sources,
                               const GradientOptions& options = {}, Where where = Where::current());

  // As gradient(), but that of a Variable, or of a tensor that is watched, is IndexedSlices where all that it flows
  // through are lookups of rows: gather() and take() along the first axis, x(ids), nn::Embedding. Where the source is
  // used in another way as well (output weights that are tied to an embedding), it is the tensor that gradient() gives.
  // Several lookups give their slices one after another, the last one first. A slice x(slice(0, 9)), and a lookup
  // inside control flow, recompute() or a traced function that is called under the tape, are other ways.
  std::vector<Gradient> sparse_gradient(const Tensor& target, const std::vector<Source>& sources,
                                        const GradientOptions& options = {}, Where where = Where::current());
  std::vector<Gradient> sparse_gradient(const Tensor& target, const std::vector<Variable>& sources,
                                        const GradientOptions& options = {}, Where where = Where::current()) {
    return sparse_gradient(target, std::vector<Source>(sources.begin(), sources.end()), options, where);
  }
  std::vector<Gradient> sparse_gradient(const Tensor& target, std::initializer_list<Source> sources,
                                        const GradientOptions& options = {}, Where where = Where::current()) {
    return sparse_gradient(target, std::vector<Source>(sources), options, where);
  }
  Gradient sparse_gradient(const Tensor& target, const Source& source, const GradientOptions& options = {},
                           Where where = Where::current()) {
    return sparse_gradient(target, std::vector<Source>{source}, options, where)[0];
  }

  // d target[i] / d source[j], of shape target.shape + source.shape, by one walk for all elements of the target (see
  // GradientOptions::chunk_bytes). Of a complex target by a complex source it is the derivative of a holomorphic
  // function; a complex target by a real source is an error.
  Tensor jacobian(const Tensor& target, const Source& source, const GradientOptions& options = {},
                  Where where = Where::current());
  // By each of several sources, in one walk.
  std::vector<Tensor> jacobian(const Tensor& target, const std::vector<Source>& sources,
                               const GradientOptions& options = {}, Where where = Where::current());
  // Of several targets by several sources: entry [t][s] is d targets[t] / d sources[s].
  std::vector<std::vector<Tensor>> jacobian(const std::vector<Tensor>& targets, const std::vector<Source>& sources,
                                            const GradientOptions& options = {}, Where where = Where::current());
  // For target and source whose first axis is a batch of independent rows: shape [batch] + target row + source row.
  Tensor batch_jacobian(const Tensor& target, const Tensor& source, const GradientOptions& options = {},
                        Where where = Where::current());

  // Ends recording; gradients may still be requested.
  void stop();
  // Forgets everything recorded and watched, and records again.
  void reset();
  // Bytes of the distinct buffers that the tape keeps for its backward walk: operands and results that rules need,
  // what recompute() and calls of traced functions keep. What the rule of a custom_gradient captures is not counted.
  size_t bytes_held() const;
  // Number of recorded ops.
  size_t size() const;
  // A table for people to read: for each op how often it was recorded, the bytes that the tape holds for it (a buffer
  // counts for the first call that needs it), and the line of the call that holds the most.
  std::string summary() const;

  class Impl;

 private:
  friend class StopRecording;
  void gradients(std::span<const Tensor> targets, std::span<const Source> sources, const GradientOptions& options,
                 const Where& where, std::span<Tensor> out, std::vector<IndexedSlices>* slices = nullptr);
  // Gradients for `n` cotangents of the target, of one row each; then the tape is used up unless persistent.
  std::vector<Tensor> gradient_rows(const Tensor& target, std::span<const Source> sources, Dim n,
                                    const Callback<Tensor(Dim start, Dim stop)>& cotangents,
                                    const GradientOptions& options, std::string_view op, const Where& where);
  std::vector<Tensor> jacobian_of(const Tensor& target, std::span<const Source> sources, const GradientOptions& options,
                                  const Where& where);
  Impl* const impl_;  // its own
};

// While it lives, `tape` does not record.
class StopRecording {
 public:
  [[nodiscard]] explicit StopRecording(GradientTape& tape);
  ~StopRecording();
  StopRecording(const StopRecording&) = delete;

 private:
  GradientTape& tape_;
  bool was_recording_;
};

}  // namespace rill

#pragma GCC visibility pop
