// Recording and the backward walk. Start at Impl::record and Impl::backward; the public members check and delegate.
#include "rill/autodiff/tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "rill/autodiff/tape_impl.h"
#include "rill/autodiff/transforms.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"
#include "rill/tensor/id_mark.h"

namespace rill {

// --- Nodes -----------------------------------------------------------------------------------------------------------

TapeNode NodeMap::find(uint64_t key) const {
  for (const Item& i : few_)
    if (i.key == key) return i.node;
  if (many_.empty()) return 0;
  auto it = many_.find(key);
  return it == many_.end() ? 0 : it->second;
}
void NodeMap::insert(uint64_t key, TapeNode node) {
  if (few_.size() < 8) few_.push_back({key, node});
  else many_.emplace(key, node);
}

namespace {
std::atomic<uint32_t> next_serial{1};
// The storage of the entries is reused by the next tape of the thread.
thread_local std::vector<TapeEntry> spare_entries;

uint64_t key_of(const VariableState* v) { return reinterpret_cast<uintptr_t>(v); }
}  // namespace

GradientTape::Impl::Impl(TapeOptions o)
    : options(o),
      entries(std::move(spare_entries)),
      serial_(next_serial++),
      thread_(&thread_state()),
      begun_(next_id_here()) {
  auto& tapes = thread_state().tapes;
  for (size_t i = tapes.size(); i-- > 0;)  // the only other tapes there are CaptureFinders
    if (Impl* left = dynamic_cast<Impl*>(tapes[i]); left && left->abandoned) tapes.erase(i), delete left;
  start_recording();
}

GradientTape::Impl::~Impl() {
  entries.clear();
  if (entries.capacity() < 4096) spare_entries = std::move(entries);
}

void GradientTape::Impl::start_recording() {
  if (!listed) thread_state().tapes.push_back(this);
  recording = listed = true;
}
void GradientTape::Impl::stop_recording() {
  recording = false;
  auto& tapes = thread_state().tapes;
  for (size_t i = 0; listed && i < tapes.size(); ++i)
    if (tapes[i] == this) {
      tapes.erase(i);
      listed = false;
    }
}
void GradientTape::Impl::end() {
  stop_recording();
  if (!listed) return delete this;
  forget();
  abandoned = true;
}
void GradientTape::Impl::forget() {
  entries.clear();
  tensors_.clear();
  variables_.clear();
  alive_.clear();
  serial_ = next_serial++;  // so that what tensors still carry means nothing
  next_node_ = 1;
  used = false;
  dead_ends_.clear();
  begun_ = next_id_here();
}
void GradientTape::Impl::stop() {
  stop_recording();
  stopped_ = next_id_here(), resumed_ = UINT64_MAX;
}
void GradientTape::Impl::start_again() {
  start_recording();
  resumed_ = next_id_here();
}

TapeNode GradientTape::Impl::node_of(const Tensor& t) const {
  const TensorRep* r = t.rep();
  if (r->tape == serial_) return r->tape_node;
  return tensors_.empty() ? 0 : tensors_.find(r->id);
}
TapeNode GradientTape::Impl::node_of(const Source& s) const {
  return s.variable ? variables_.find(key_of(s.variable.get())) : node_of(s.tensor);
}

void GradientTape::Impl::watch(const Tensor& t) {
  if (!node_of(t)) tensors_.insert(t.rep()->id, new_node());
}

void GradientTape::Impl::watch(const Shared<VariableState>& v) {
  if (variables_.find(key_of(v.get()))) return;
  variables_.insert(key_of(v.get()), new_node());
  alive_.push_back(v);
}

void GradientTape::Impl::watch_variable(const Shared<VariableState>& v, Tensor& value) {
  if (!recording) return;
  if (options.watch_variables && v->trainable) watch(v);
  if (TapeNode node = variables_.find(key_of(v.get()))) name_output(value, node);
}

void GradientTape::Impl::name_output(Tensor& t, TapeNode node) {
  TensorRep* r = t.mutable_rep();
  if (r->tape == 0) r->tape = serial_, r->tape_node = node;
  else tensors_.insert(r->id, node);
}

// --- Recording -------------------------------------------------------------------------------------------------------

bool GradientTape::Impl::find_inputs(Operands in, SmallVec<TapeNode, 4>& nodes) const {
  bool any_known = false;
  nodes.reserve(in.size());
  for (const Tensor* t : in) {
    nodes.push_back(node_of(*t));
    any_known |= nodes.back() != 0;
  }
  return any_known;
}

// Operands and results often have the same spec, so one stand-in serves many of them.
const Tensor& GradientTape::Impl::stand_in(const Spec& spec) {
  // Where sizes are open, equal numbers may be different sizes.
  if (!stand_in_.defined() || thread_state().open_sizes || !(stand_in_.spec() == spec)) stand_in_ = make_stand_in(spec);
  return stand_in_;
}

namespace {
bool any_differentiable(std::span<const Tensor> ts) {
  for (const Tensor& t : ts)
    if (is_differentiable(t.dtype())) return true;
  return false;
}
}  // namespace

TapeEntry& GradientTape::Impl::add_entry(std::string_view op, const Where& where) try {
  return entries.emplace_back();
} catch (const std::bad_alloc&) {
  fail(op,
       fmt::format("out of memory: the tape that records this holds {} ops and {} bytes of tensors. ask for gradients "
                   "more often, or see recompute()",
                   entries.size(), bytes_held()),
       where);
}

void GradientTape::Impl::record(const Op& op, Operands in, std::span<Tensor> out, AttrsView attrs, const Where& where) {
  if (!recording) return;
  if (&op == &known_as_op) {
    if (TapeNode node = node_of(*in[1])) name_output(out[0], node);
    return;
  }
  if (!op.vjp || !any_differentiable(out)) return note_dead_end(op, in, where);
  if (op.stops_gradient) note_dead_end(op, in, where);  // whose result may be a source
  SmallVec<TapeNode, 4> nodes;
  if (!find_inputs(in, nodes)) return;
  TapeEntry& e = add_entry(op.name, where);
  e.op = &op;
  e.attrs = attrs;
  e.where = where;
  e.in_nodes = std::move(nodes);
  auto kept = [this](const Tensor& t, uint64_t saved, size_t i) {
    return i >= 64 || (saved >> i & 1) ? t : stand_in(t.spec());
  };
  for (size_t i = 0; i < in.size(); ++i) e.in.push_back(kept(*in[i], op.saves_in, i));
  e.first_out = next_node_;
  next_node_ += uint32_t(out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    name_output(out[i], e.first_out + uint32_t(i));
    e.out.push_back(kept(out[i], op.saves_out, i));
  }
}

void GradientTape::Impl::record_custom(Operands in, std::span<Tensor> out, const CustomVjp& vjp, const Where& where) {
  if (!recording) return;
  SmallVec<TapeNode, 4> nodes;
  if (!find_inputs(in, nodes)) return;
  TapeEntry& e = add_entry("GradientTape", where);
  e.where = where;
  e.custom = vjp;
  e.in_nodes = std::move(nodes);
  for (const Tensor* t : in) e.in.push_back(stand_in(t->spec()));
  e.first_out = next_node_;
  next_node_ += uint32_t(out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    name_output(out[i], e.first_out + uint32_t(i));
    e.out.push_back(stand_in(out[i].spec()));
  }
}

// --- Backward --------------------------------------------------------------------------------------------------------

// Which nodes depend on a source: only their cotangents are worth computing.
std::vector<char> GradientTape::Impl::nodes_from(std::span<const TapeNode> sources) const {
  std::vector<char> active(next_node_, 0);
  for (TapeNode s : sources) active[s] = 1;
  for (const TapeEntry& e : entries) {
    bool any_active = false;
    for (TapeNode n : e.in_nodes) any_active |= active[n] && n;
    if (any_active)
      for (size_t i = 0; i < e.out.size(); ++i) active[e.first_out + i] = 1;
  }
  return active;
}

std::vector<char> GradientTape::Impl::nodes_behind(std::span<const TapeNode> targets) const {
  std::vector<char> behind(next_node_, 0);
  for (TapeNode t : targets) behind[t] = 1;
  for (size_t at = entries.size(); at-- > 0;) {
    const TapeEntry& e = entries[at];
    bool reached = false;
    for (size_t i = 0; i < e.out.size(); ++i) reached |= behind[e.first_out + i] != 0;
    if (reached && !(e.op && e.op->stops_gradient))
      for (TapeNode n : e.in_nodes) behind[n] = 1;
  }
  return behind;
}

namespace {

void accumulate(Tensor& sum, Tensor&& term) {
  if (!sum.defined()) sum = std::move(term);
  else sum = sum + term;
}

// By input: the first one with the same number.
SmallVec<int32_t, 8> first_alike(const SmallVec<TapeNode, 4>& nodes) {
  SmallVec<int32_t, 8> first;
  for (size_t i = 0; i < nodes.size(); ++i) {
    size_t k = i;
    for (size_t j = 0; j < i && k == i && nodes[i]; ++j)
      if (nodes[j] == nodes[i]) k = j;
    first.push_back(int32_t(k));
  }
  return first;
}

}  // namespace

void GradientTape::Impl::pull(TapeEntry& e, std::span<const Tensor> given, std::span<const char> active,
                              std::vector<Tensor>& cotangent) {
  auto wanted = [&](size_t i) { return e.in_nodes[i] && active[e.in_nodes[i]]; };
  uint64_t needed = 0;
  for (size_t i = 0; i < e.in_nodes.size(); ++i)
    if (i >= 64 || wanted(i)) needed |= uint64_t(1) << (i & 63);
  auto apply_rule = [&](const CotangentSums& sums) {
    return e.op->vjp(
        VjpArgs{*e.op, e.attrs, {e.in.data(), e.in.size()}, {e.out.data(), e.out.size()}, given, needed, sums});
  };
  auto add = [&](std::span<Tensor> terms) {
    for (size_t i = 0; i < terms.size() && i < e.in_nodes.size(); ++i)
      if (terms[i].defined() && wanted(i)) accumulate(cotangent[e.in_nodes[i]], std::move(terms[i]));
  };
  if (e.op && !e.op->call) {
    Tensors back = apply_rule({});
    return add({back.data(), back.size()});
  }

  // Rules that add to the sums themselves, in an order of their own.
  const SmallVec<int32_t, 8> first = first_alike(e.in_nodes);
  Tensors sums;
  for (size_t i = 0; i < e.in_nodes.size(); ++i)
    sums.push_back(wanted(i) && first[i] == int32_t(i) ? std::move(cotangent[e.in_nodes[i]]) : Tensor());
  const CotangentSums arrived{{sums.data(), sums.size()}, {first.data(), first.size()}};
  Tensors back;
  if (e.op) back = apply_rule(arrived);
  else e.custom.rule(given, needed, arrived);
  add({sums.data(), sums.size()});
  add({back.data(), back.size()});
}

std::vector<Tensor> GradientTape::Impl::backward(std::span<const TapeNode> targets, std::span<const Tensor> seeds,
                                                 std::span<const TapeNode> sources, bool consume) {
  std::vector<char> active = nodes_from(sources);
  std::vector<Tensor> cotangent(next_node_);
  std::vector<char> is_source(next_node_, 0);
  for (TapeNode s : sources) is_source[s] = 1;
  for (size_t i = 0; i < targets.size(); ++i)
    if (targets[i] && active[targets[i]]) accumulate(cotangent[targets[i]], Tensor(seeds[i]));

  for (size_t at = entries.size(); at-- > 0;) {
    TapeEntry& e = entries[at];
    size_t outputs = e.out.size();
    bool reached = false;
    for (size_t i = 0; i < outputs; ++i) reached |= cotangent[e.first_out + i].defined();
    if (reached) {
      CallerScope caller(e.where);
      Tensors given;
      for (size_t i = 0; i < outputs; ++i) {
        Tensor& c = cotangent[e.first_out + i];
        // A record's rule gets zeros where no cotangent arrived; a custom one is told, and so is control flow.
        given.push_back(c.defined() || !e.op || e.op->call
                            ? c
                            : zeros(e.out[i].shape(), {.dtype = e.out[i].dtype(), .device = e.out[i].device()}));
        if (!is_source[e.first_out + i]) c = Tensor();
      }
      pull(e, given, active, cotangent);
    }
    if (consume) entries.pop_back();
  }
  std::vector<Tensor> out;
  for (TapeNode s : sources) out.push_back(s ? cotangent[s] : Tensor());
  return out;
}

// --- The public members ----------------------------------------------------------------------------------------------

GradientTape::GradientTape(TapeOptions options) : impl_(new Impl(options)) {}
GradientTape::~GradientTape() { impl_->end(); }

void GradientTape::watch(const Tensor& x, Where where) {
  require_defined("GradientTape.watch", x, "what is watched", where);
  if (!is_differentiable(x.dtype()))
    fail("GradientTape.watch",
         fmt::format("{} cannot be watched: gradients need a floating or complex dtype", to_string(x.spec())), where);
  impl_->watch(x);
}
void GradientTape::watch(const Variable& v, Where where) {
  if (!is_differentiable(v.dtype(where)))
    fail("GradientTape.watch",
         fmt::format("variable '{}' ({}) cannot be watched: gradients need a floating or complex dtype", v.name(),
                     name(v.dtype())),
         where);
  impl_->watch(v.shared_state());
}

namespace {

std::string describe(const Source& s, size_t position) {
  if (s.variable) return fmt::format("variable '{}' ({})", s.variable->name, to_string(s.variable->spec));
  return fmt::format("source {} ({})", position, to_string(s.tensor.spec()));
}

Spec spec_of(const Source& s) { return s.variable ? s.variable->spec : s.tensor.spec(); }

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
  std::vector<TapeNode> target_nodes, source_nodes;
  std::vector<Tensor> seeds;
  if (!options.output_gradients.empty() && options.output_gradients.size() != targets.size())
    fail("GradientTape.gradient",
         fmt::format("{} output_gradients for {} targets. give one each", options.output_gradients.size(),
                     targets.size()),
         where);
  if (options.unconnected > Unconnected::none)
    fail("GradientTape.gradient", fmt::format("Unconnected({}) does not exist", int(options.unconnected)), where);
  if (options.output_gradient.defined() && !options.output_gradients.empty())
    fail("GradientTape.gradient",
         "output_gradient and output_gradients are both given. give the one for a single target, the other for several",
         where);
  if (options.output_gradient.defined() && targets.size() > 1)
    fail("GradientTape.gradient",
         fmt::format("output_gradient is given for {} targets. give output_gradients, one each", targets.size()),
         where);
  for (size_t i = 0; i < targets.size(); ++i) {
    const Tensor& t = targets[i];
    if (!t.defined())
      require_defined("GradientTape.gradient", t, targets.size() == 1 ? "the target" : fmt::format("target {}", i),
                      where);
    if (!is_differentiable(t.dtype()))
      fail("GradientTape.gradient",
           fmt::format("the target is {}: gradients need a floating or complex dtype", to_string(t.spec())), where);
    target_nodes.push_back(tape.node_of(t));
    seeds.push_back(
        seed_for(t, options.output_gradients.empty() ? options.output_gradient : options.output_gradients[i], where));
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

void GradientTape::stop() { impl_->stop(); }

void GradientTape::reset() {
  impl_->forget();
  impl_->start_again();
}

size_t GradientTape::size() const { return impl_->entries.size(); }

size_t GradientTape::bytes_held() const { return impl_->bytes_held(); }

size_t GradientTape::Impl::bytes_held() const {
  std::set<const Buffer*> seen;
  size_t bytes = 0;
  auto count = [&](const auto& ts) {
    for (const Tensor& t : ts)
      if (const Buffer* b = t.rep()->buffer.get(); b && seen.insert(b).second) bytes += b->bytes;
  };
  for (const TapeEntry& e : entries) count(e.in), count(e.out), count(e.custom.keeps);
  return bytes;
}

StopRecording::StopRecording(GradientTape& tape) : tape_(tape), was_recording_(tape.impl_->recording) {
  tape.impl_->stop();
}
StopRecording::~StopRecording() {
  if (was_recording_) tape_.impl_->start_again();
}

}  // namespace rill
