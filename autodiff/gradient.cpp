// The requests to a tape: gradients and Jacobians. Checks them, and starts the walk (backward.cpp).
#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "rill/autodiff/batching.h"
#include "rill/autodiff/gradient_hook.h"
#include "rill/autodiff/tape_impl.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"
#include "rill/tensor/dim_table.h"
#include "rill/tensor/fork_mutex.h"

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

// Resumes recording if the tape was recording before and was not used up.
struct Paused {
  GradientTape::Impl& tape;
  bool recorded;
  explicit Paused(GradientTape::Impl& t) : tape(t), recorded(t.recording) { t.stop_recording(); }
  ~Paused() {
    if (recorded && !tape.used) tape.start_recording();
  }
};

// A walk that frees entries as it goes: the tape is used up afterwards, even if the walk throws.
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
                             const GradientOptions& options, const Where& where, std::span<Tensor> out,
                             std::vector<IndexedSlices>* slices) {
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
  std::vector<DType> types;
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
    types.push_back(spec_of(sources[i]).dtype);
  }
  auto unconnected = [&](size_t i) {
    fail("GradientTape.gradient",
         fmt::format("the target does not depend on {}: {}, or ask for {{.unconnected = Unconnected::zero}}",
                     describe(sources[i], i), tape.why_unconnected(targets, sources[i])),
         where);
  };
  if (options.unconnected == Unconnected::error) {
    // Checked before anything is freed, so that the tape can be used again.
    const std::vector<bool> reached = tape.reaches(target_nodes, source_nodes);
    for (size_t i = 0; i < sources.size(); ++i)
      if (!reached[i]) unconnected(i);
  }
  Consumed consumed{tape, !tape.options.persistent};
  std::vector<Tensor> result = tape.backward(target_nodes, seeds, source_nodes, consumed.on, types, slices,
                                             GradientHook::begin(*this, sources.size()));
  for (size_t i = 0; i < sources.size(); ++i) {
    if (slices && (*slices)[i].indices.defined()) continue;
    if (!result[i].defined() && options.unconnected == Unconnected::error) unconnected(i);
    if (!result[i].defined() && options.unconnected == Unconnected::zero) {
      Spec s = spec_of(sources[i]);
      result[i] = zeros(s.shape, {.dtype = s.dtype, .device = s.device});
    }
    out[i] = std::move(result[i]);
  }
  GradientHook::run(*this, sources, out, slices);
}

std::vector<Tensor> GradientTape::Impl::partial_sums(GradientTape& of, std::span<const Tensor> targets,
                                                     std::span<const Source> sources, std::span<const Tensor> seeds) {
  Impl& tape = *of.impl_;
  Paused paused(tape);
  std::vector<TapeNode> target_nodes, source_nodes;
  for (const Tensor& t : targets) target_nodes.push_back(tape.node_of(t));
  for (const Source& s : sources) source_nodes.push_back(tape.node_of(s));
  Consumed consumed{tape, !tape.options.persistent};
  return tape.backward(target_nodes, seeds, source_nodes, consumed.on, {});
}

// --- Hooks -----------------------------------------------------------------------------------------------------------

namespace {
// One for the process, for another thread may use a tape than the one that made it.
struct Hooks {
  struct Made {
    const GradientTape* tape = nullptr;
    GradientHook::What what;
  };
  ForkMutex mutex;
  std::atomic<int> count{0};
  std::vector<Made> made;

  static Hooks& all() {
    static Hooks* only = new Hooks;  // never destroyed, for tapes may end after main()
    return *only;
  }
  // That of a tape, or an empty one.
  Made of(const GradientTape& tape) {
    if (count.load(std::memory_order_relaxed) == 0) return {};
    const std::lock_guard lock(mutex);
    for (const Made& m : made)
      if (m.tape == &tape) return m;
    return {};
  }
};
}  // namespace

GradientHook::GradientHook(const GradientTape& tape, What what) : tape_(tape) {
  Hooks& all = Hooks::all();
  const std::lock_guard lock(all.mutex);
  all.made.push_back({&tape, std::move(what)});
  ++all.count;
}

GradientHook::~GradientHook() {
  Hooks& all = Hooks::all();
  const std::lock_guard lock(all.mutex);
  all.count -= int(std::erase_if(all.made, [&](const Hooks::Made& h) { return h.tape == &tape_; }));
}

GradientHook::Arrived GradientHook::begin(const GradientTape& tape, size_t sources) {
  const Begin begin = Hooks::all().of(tape).what.begin;
  return begin ? begin(sources) : Arrived();
}

void GradientHook::run(const GradientTape& tape, std::span<const Source> sources, std::span<Tensor> gradients,
                       std::vector<IndexedSlices>* slices) {
  const Change change = Hooks::all().of(tape).what.change;
  if (change) change(sources, gradients, slices);
}

// --- The public members ----------------------------------------------------------------------------------------------

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

std::vector<Gradient> GradientTape::sparse_gradient(const Tensor& target, const std::vector<Source>& sources,
                                                    const GradientOptions& options, Where where) {
  std::vector<Tensor> dense(sources.size());
  std::vector<IndexedSlices> slices(sources.size());
  gradients({&target, 1}, sources, options, where, dense, &slices);
  std::vector<Gradient> out;
  for (size_t i = 0; i < sources.size(); ++i)
    out.push_back(slices[i].indices.defined() ? Gradient(std::move(slices[i])) : Gradient(std::move(dense[i])));
  return out;
}

// --- Jacobians -------------------------------------------------------------------------------------------------------

namespace {

void refuse_output_gradients(std::string_view op, const GradientOptions& options, const Where& where) {
  if (options.output_gradient.defined() || !options.output_gradients.empty())
    fail(op, "an output gradient is given, but a Jacobian has one row for each element of the target. leave it out",
         where);
  if (options.chunk_bytes < 1)
    fail(op, fmt::format("chunk_bytes is {} and must be 1 or more", options.chunk_bytes), where);
}

// For a walk that is followed by others; if it throws, the tape stays usable.
class Persistent {
 public:
  explicit Persistent(bool& now) : now_(now), before_(std::exchange(now, true)) {}
  ~Persistent() { now_ = before_; }
  Persistent(const Persistent&) = delete;

 private:
  bool& now_;
  const bool before_;
};

// How many rows go through the tape at a time; nothing if all do, however many an open size makes of them.
std::optional<Dim> rows_at_a_time(const Tensor& target, std::span<const Source> sources, Dim rows, int64_t bytes) {
  Dim widest = target.size();
  for (const Source& s : sources) widest = larger(widest, spec_of(s).shape.numel());
  const Dim row = larger(widest * int64_t(size_of(target.dtype())), 1);
  {
    const CostDims either_is_right;
    if (row * rows <= bytes) return {};
  }
  return larger(bytes / row, 1);
}

// Rows [start, stop) of the identity matrix of size n.
Tensor unit_rows(Dim start, Dim stop, Dim n, const Tensor& like) {
  const TensorOptions o{i64, like.device()};
  return astype(iota({stop - start, 1}, 0, o) + start == iota({1, n}, 1, o), like.dtype());
}

Shape joined(Shape first, const Shape& second, size_t from = 0) {
  for (size_t i = from; i < second.size(); ++i) first.push_back(second[i]);
  return first;
}

}  // namespace

namespace {
// A walk back gives the conjugate of a complex Jacobian, and for a real source only its real part.
Tensor jacobian_from(const Tensor& rows, const Tensor& target) {
  return rows.defined() && is_complex(target.dtype()) ? conj(rows) : rows;
}
void refuse_real_sources(std::string_view op, const Tensor& target, std::span<const Source> sources,
                         const Where& where) {
  if (!is_complex(target.dtype())) return;
  for (const Source& s : sources)
    if (!is_complex(spec_of(s).dtype))
      fail(
          op,
          fmt::format("the target is {} and the source {}, whose Jacobian would lose the imaginary part. take those of "
                      "real(target) and imag(target), or jacfwd()",
                      to_string(target.spec()), to_string(spec_of(s))),
          where);
}
}  // namespace

std::vector<Tensor> GradientTape::gradient_rows(const Tensor& target, std::span<const Source> sources, Dim n,
                                                const Callback<Tensor(Dim start, Dim stop)>& cotangents,
                                                const GradientOptions& options, std::string_view op,
                                                const Where& where) {
  std::vector<std::vector<Tensor>> parts(sources.size());
  std::optional<Persistent> whole(std::in_place, impl_->options.persistent);
  std::optional<Paused> paused(std::in_place, *impl_);  // before the batch begins: this tape does not record the walk
  const auto walk = [&](Dim start, Dim stop, bool is_whole) {
    Batcher batcher(stop - start, op);
    const Tensor rows = is_whole ? batcher.unit(target.spec()) : batcher.row_of(cotangents(start, stop));
    std::vector<Tensor> found(sources.size());
    gradients({&target, 1}, sources, {.unconnected = options.unconnected, .output_gradient = rows}, where, found);
    for (size_t k = 0; k < found.size(); ++k)
      if (found[k].defined()) parts[k].push_back(batcher.all_rows(found[k]));
  };
  if (const auto most = rows_at_a_time(target, sources, n, options.chunk_bytes); !most) walk(0, n, n == target.size());
  else
    for (Dim start = 0; start < n; start = smaller(start + *most, n)) walk(start, smaller(start + *most, n), false);
  paused.reset(), whole.reset();
  const Consumed consumed{*impl_, !impl_->options.persistent};
  std::vector<Tensor> out;
  for (const std::vector<Tensor>& p : parts) out.push_back(p.empty() ? Tensor() : p.size() == 1 ? p[0] : concat(p));
  return out;
}

std::vector<Tensor> GradientTape::jacobian_of(const Tensor& target, std::span<const Source> sources,
                                              const GradientOptions& options, const Where& where) {
  constexpr std::string_view op = "GradientTape.jacobian";
  require_defined(op, target, "the target", where);
  refuse_real_sources(op, target, sources, where);
  const Dim n = target.size();
  const auto units = [&](Dim start, Dim stop) {
    return reshape(unit_rows(start, stop, n, target), joined({stop - start}, target.shape()));
  };
  std::vector<Tensor> out = gradient_rows(target, sources, n, units, options, op, where);
  for (size_t k = 0; k < out.size(); ++k) {
    const Spec source = spec_of(sources[k]);
    const Shape shape = joined(target.shape(), source.shape);
    if (out[k].defined() && !(out[k].shape() == shape)) out[k] = out[k].reshape(shape);
    out[k] = jacobian_from(out[k], target);
  }
  return out;
}

Tensor GradientTape::jacobian(const Tensor& target, const Source& source, const GradientOptions& options, Where where) {
  CallerScope caller(where);
  refuse_output_gradients("GradientTape.jacobian", options, where);
  return jacobian_of(target, {&source, 1}, options, where)[0];
}

std::vector<Tensor> GradientTape::jacobian(const Tensor& target, const std::vector<Source>& sources,
                                           const GradientOptions& options, Where where) {
  CallerScope caller(where);
  refuse_output_gradients("GradientTape.jacobian", options, where);
  return jacobian_of(target, sources, options, where);
}

std::vector<std::vector<Tensor>> GradientTape::jacobian(const std::vector<Tensor>& targets,
                                                        const std::vector<Source>& sources,
                                                        const GradientOptions& options, Where where) {
  CallerScope caller(where);
  refuse_output_gradients("GradientTape.jacobian", options, where);
  std::vector<std::vector<Tensor>> out;
  for (size_t t = 0; t < targets.size(); ++t) {
    std::optional<Persistent> more;
    if (t + 1 < targets.size()) more.emplace(impl_->options.persistent);
    out.push_back(jacobian_of(targets[t], sources, options, where));
  }
  return out;
}

Tensor GradientTape::batch_jacobian(const Tensor& target, const Tensor& source, const GradientOptions& options,
                                    Where where) {
  constexpr std::string_view op = "GradientTape.batch_jacobian";
  CallerScope caller(where);
  refuse_output_gradients(op, options, where);
  require_defined(op, target, "the target", where);
  require_defined(op, source, "the source", where);
  if (target.ndim() < 1 || source.ndim() < 1 || target.shape()[0] != source.shape()[0])
    fail(op,
         fmt::format("target {} and source {} must share their first axis, the batch", to_string(target.spec()),
                     to_string(source.spec())),
         where);
  const Dim batch = target.shape()[0], width = batch ? target.size() / batch : Dim(0);
  const auto units = [&](Dim start, Dim stop) {
    const Tensor rows = reshape(unit_rows(start, stop, width, target), {stop - start, 1, width});
    return reshape(broadcast_to(rows, {stop - start, batch, width}), joined({stop - start}, target.shape()));
  };
  const Source sources[] = {source};
  refuse_real_sources(op, target, sources, where);
  const Tensor rows = jacobian_from(gradient_rows(target, sources, width, units, options, op, where)[0], target);
  const Shape shape = joined(target.shape(), source.shape(), 1);
  if (width == 0) return zeros(shape, {.dtype = source.dtype(), .device = source.device()});
  return rows.defined() ? reshape(moveaxis(rows, 0, 1), shape) : Tensor();
}

}  // namespace rill
