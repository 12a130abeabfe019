// What a tape is asked for: gradients, Jacobians. The checks of what is asked, and the walk (backward.cpp).
#include <fmt/format.h>

#include "rill/autodiff/tape_impl.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"

namespace rill {

namespace {

std::string describe(const Source& s, size_t position) {
  if (s.variable) return fmt::format("variable '{}' ({})", s.variable->name, to_string(s.variable->spec));
  return fmt::format("source {} ({})", position, to_string(s.tensor.spec()));
}

Spec spec_of(const Source& s) { return s.variable ? s.variable->spec : s.tensor.spec(); }

void check_options(const GradientOptions& options, size_t targets, const Where& where) {
  if (!options.output_gradients.empty() && options.output_gradients.size() != targets)
    fail("GradientTape.gradient",
         fmt::format("{} output_gradients for {} targets. give one each", options.output_gradients.size(), targets),
         where);
  if (options.unconnected > Unconnected::none)
    fail("GradientTape.gradient", fmt::format("Unconnected({}) does not exist", int(options.unconnected)), where);
  if (options.output_gradient.defined() && !options.output_gradients.empty())
    fail("GradientTape.gradient",
         "output_gradient and output_gradients are both given. give the one for a single target, the other for several",
         where);
  if (options.output_gradient.defined() && targets > 1)
    fail("GradientTape.gradient",
         fmt::format("output_gradient is given for {} targets. give output_gradients, one each", targets), where);
}

void check_target(const Tensor& t, std::string_view what, const Where& where) {
  require_defined("GradientTape.gradient", t, what, where);
  if (!is_differentiable(t.dtype()))
    fail("GradientTape.gradient",
         fmt::format("the target is {}: gradients need a floating or complex dtype", to_string(t.spec())), where);
}

Tensor seed_for(const Tensor& target, const Tensor& output_gradient, const Where& where) {
  if (!output_gradient.defined()) return ones_like(target);
  if (!(output_gradient.shape() == target.shape()))
    fail("GradientTape.gradient",
         fmt::format("output_gradient is {} and the target {}: their shapes must be equal",
                     to_string(output_gradient.spec()), to_string(target.spec())),
         where);
  return output_gradient.astype(target.dtype());
}

// Resumes recording where a tape was recording before and was not used up.
struct Paused {
  GradientTape::Impl& tape;
  bool recorded;
  explicit Paused(GradientTape::Impl& t) : tape(t), recorded(t.recording) { t.stop_recording(); }
  ~Paused() {
    if (recorded && !tape.used) tape.start_recording();
  }
};

// A walk that frees entries as it goes: even if it throws, the tape is used up afterwards.
struct Consumed {
  GradientTape::Impl& tape;
  bool on;
  ~Consumed() {
    if (!on) return;
    tape.stop_recording();
    tape.forget();
    tape.used = true;
  }
};

}  // namespace

void GradientTape::gradients(std::span<const Tensor> targets, std::span<const Source> sources,
                             const GradientOptions& options, const Where& where, std::span<Tensor> out) {
  Impl& tape = *impl_;
  if (tape.used)
    fail("GradientTape.gradient",
         "this tape was asked for a gradient before and has freed what it held. make it persistent: GradientTape "
         "tape({.persistent = true})",
         where);
  CallerScope caller(where, "GradientTape.gradient");
  Paused paused(tape);
  check_options(options, targets.size(), where);
  std::vector<TapeNode> target_nodes, source_nodes;
  std::vector<Tensor> seeds;
  for (size_t i = 0; i < targets.size(); ++i) {
    check_target(targets[i], targets.size() == 1 ? "the target" : fmt::format("target {}", i), where);
    target_nodes.push_back(tape.node_of(targets[i]));
    const bool several = !options.output_gradients.empty();
    seeds.push_back(seed_for(targets[i], several ? options.output_gradients[i] : options.output_gradient, where));
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!sources[i].variable && !sources[i].tensor.defined())
      require_defined("GradientTape.gradient", sources[i].tensor, fmt::format("source {}", i), where);
    source_nodes.push_back(tape.node_of(sources[i]));
  }
  auto unconnected = [&](size_t i) {
    fail("GradientTape.gradient",
         fmt::format("the target does not depend on {}: {}, or ask for {{.unconnected = Unconnected::zero}}",
                     describe(sources[i], i), tape.why_unconnected(targets, sources[i])),
         where);
  };
  if (options.unconnected == Unconnected::error) {
    // Found before anything is freed, so that the tape can be asked again.
    std::vector<char> behind = tape.nodes_behind(target_nodes);
    for (size_t i = 0; i < sources.size(); ++i)
      if (!source_nodes[i] || !behind[source_nodes[i]]) unconnected(i);
  }
  Consumed consumed{tape, !tape.options.persistent};
  std::vector<Tensor> result = tape.backward(target_nodes, seeds, source_nodes, consumed.on);
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!result[i].defined() && options.unconnected == Unconnected::error) unconnected(i);
    if (!result[i].defined() && options.unconnected == Unconnected::zero) {
      Spec s = spec_of(sources[i]);
      result[i] = zeros(s.shape, {.dtype = s.dtype, .device = s.device});
    }
    out[i] = std::move(result[i]);
  }
}

Tensor GradientTape::gradient(const Tensor& target, const Source& source, const GradientOptions& options, Where where) {
  Tensor out;
  gradients({&target, 1}, {&source, 1}, options, where, {&out, 1});
  return out;
}
std::vector<Tensor> GradientTape::gradient(const Tensor& target, const std::vector<Variable>& sources,
                                           const GradientOptions& options, Where where) {
  return gradient(std::vector<Tensor>{target}, std::vector<Source>(sources.begin(), sources.end()), options, where);
}
std::vector<Tensor> GradientTape::gradient(const Tensor& target, const std::vector<Tensor>& sources,
                                           const GradientOptions& options, Where where) {
  return gradient(std::vector<Tensor>{target}, std::vector<Source>(sources.begin(), sources.end()), options, where);
}
std::vector<Tensor> GradientTape::gradient(const std::vector<Tensor>& targets, const std::vector<Source>& sources,
                                           const GradientOptions& options, Where where) {
  std::vector<Tensor> out(sources.size());
  gradients(targets, sources, options, where, out);
  return out;
}

std::vector<Tensor> GradientTape::gradient_rows(const Tensor& target, const Source& source, int64_t n,
                                                const Callback<Tensor(int64_t)>& cotangent,
                                                const GradientOptions& options, const Where& where) {
  std::vector<Tensor> rows;
  struct Persistent {  // for the time of the walks; one that throws leaves the tape whole
    bool& now;
    bool before = std::exchange(now, true);
    ~Persistent() { now = before; }
  } persistent{impl_->options.persistent};
  {
    Paused paused(*impl_);
    for (int64_t i = 0; i < n; ++i)
      rows.push_back(gradient(target, source, {options.unconnected, cotangent(i), {}}, where));
  }
  const Consumed consumed{*impl_, !persistent.before};
  return rows;
}

namespace {
void refuse_output_gradients(std::string_view op, const GradientOptions& options, const Where& where) {
  if (options.output_gradient.defined() || !options.output_gradients.empty())
    fail(op, "an output gradient is given, but a Jacobian has one row for each element of the target. leave it out",
         where);
}
}  // namespace

Tensor GradientTape::jacobian(const Tensor& target, const Source& source, const GradientOptions& options, Where where) {
  CallerScope caller(where);
  refuse_output_gradients("GradientTape.jacobian", options, where);
  require_defined("GradientTape.jacobian", target, "the target", where);
  int64_t n = target.size();
  Tensor units = eye(n, n, 0, {.dtype = target.dtype(), .device = target.device()});
  auto rows =
      gradient_rows(target, source, n, [&](int64_t i) { return units(i).reshape(target.shape()); }, options, where);
  Shape shape = target.shape();
  for (int64_t d : spec_of(source).shape) shape.push_back(d);
  if (rows.empty()) return zeros(shape, {.dtype = target.dtype(), .device = target.device()});
  return rows[0].defined() ? stack(rows).reshape(shape) : Tensor();
}

Tensor GradientTape::batch_jacobian(const Tensor& target, const Tensor& source, const GradientOptions& options,
                                    Where where) {
  CallerScope caller(where);
  refuse_output_gradients("GradientTape.batch_jacobian", options, where);
  require_defined("GradientTape.batch_jacobian", target, "the target", where);
  require_defined("GradientTape.batch_jacobian", source, "the source", where);
  if (target.ndim() < 1 || source.ndim() < 1 || target.shape()[0] != source.shape()[0])
    fail("GradientTape.batch_jacobian",
         fmt::format("target {} and source {} must share their first axis, the batch", to_string(target.spec()),
                     to_string(source.spec())),
         where);
  const Dim batch = target.shape()[0], width = batch ? target.size() / batch : Dim(0);
  Tensor units = eye(width, width, 0, {.dtype = target.dtype(), .device = target.device()});
  auto unit = [&](int64_t i) { return broadcast_to(units(i), Shape{batch, width}).reshape(target.shape()); };
  auto rows = gradient_rows(target, source, width, unit, options, where);
  Shape shape = target.shape();
  for (int i = 1; i < source.ndim(); ++i) shape.push_back(source.shape()[size_t(i)]);
  if (rows.empty()) return zeros(shape, {.dtype = target.dtype(), .device = target.device()});
  return rows[0].defined() ? stack(rows, 1).reshape(shape) : Tensor();
}

}  // namespace rill
