// Recording: the numbers of tensors on a tape, and its entries. Start at Impl::record. The backward walk is in
// backward.cpp, the requests for gradients and Jacobians are in gradient.cpp.
#include "rill/autodiff/tape.h"

#include <fmt/format.h>

#include <atomic>

#include "rill/autodiff/tape_impl.h"
#include "rill/autodiff/transforms.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"
#include "rill/tensor/id_mark.h"
#include "rill/tensor/per_thread.h"

namespace rill {

thread_local constinit int detail::open_bodies = 0;

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
std::atomic<uint64_t> next_serial{1};
// The thread's next tape reuses the storage of the entries.
thread_local constinit PerThread<EntryList<TapeEntry>> spare_entries;

uint64_t address_of(const VariableState* v) { return reinterpret_cast<uintptr_t>(v); }
}  // namespace

uint64_t new_tape_serial() { return next_serial++; }

// --- The thread's list of tapes --------------------------------------------------------------------------------------

OwnedTape::OwnedTape() {
  auto& tapes = listeners().tapes;
  for (size_t i = tapes.size(); i-- > 0;)  // those without an owner live as long as the call that made them
    if (OwnedTape* left = dynamic_cast<OwnedTape*>(tapes[i]); left && left->abandoned_) tapes.erase(i), delete left;
}
void OwnedTape::start_recording() {
  if (!list_) (list_ = &listeners())->add(*this);
  recording = true;
}
void OwnedTape::stop_recording() {
  recording = false;
  if (list_ != &listeners()) return;
  list_->remove(*this);
  list_ = nullptr;
}
void OwnedTape::end() {
  stop_recording();
  if (!list_) return delete this;
  forget();
  abandoned_ = true;
}
void OwnedTape::list_ends(const Listeners& list) {
  if (list_ != &list) return;
  recording = false;
  list_ = nullptr;
  if (abandoned_) delete this;
}

// --- A tape ----------------------------------------------------------------------------------------------------------

GradientTape::Impl::Impl(TapeOptions o)
    : options(o),
      entries(std::move(*spare_entries)),
      serial_(new_tape_serial()),
      thread_(this_thread()),
      begun_(next_id_here()) {
  start_recording();
}

GradientTape::Impl::~Impl() {
  entries.clear();  // except for one block
  *spare_entries = std::move(entries);
}

void GradientTape::Impl::forget() {
  entries.clear();
  tensors_.clear();
  variables_.clear();
  alive_.clear();
  serial_ = new_tape_serial();  // so that the marks left on tensors mean nothing
  next_node_ = 1;
  makers_.clear(), made_ = 0, marks_.clear(), spare_.reset();
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
  return s.variable ? variables_.find(address_of(s.variable.get())) : node_of(s.tensor);
}

void GradientTape::Impl::watch(const Tensor& t) {
  if (!node_of(t)) tensors_.insert(t.rep()->id, new_node());
}

void GradientTape::Impl::watch(const Shared<VariableState>& v) {
  if (variables_.find(address_of(v.get()))) return;
  variables_.insert(address_of(v.get()), new_node());
  alive_.push_back(v);
}

void GradientTape::Impl::watch_variable(const Shared<VariableState>& v, Tensor& value) {
  if (!recording) return;
  if (options.watch_variables && v->trains()) watch(v);
  if (TapeNode node = variables_.find(address_of(v.get()))) name_output(value, node);
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
  // With open sizes, equal numbers may be different sizes.
  if (!stand_in_.defined() || listeners().open_sizes || !(stand_in_.spec() == spec)) stand_in_ = make_stand_in(spec);
  return stand_in_;
}

bool any_differentiable(std::span<const Tensor> ts) {
  for (const Tensor& t : ts)
    if (is_differentiable(t.dtype())) return true;
  return false;
}

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
  if (op.stops_gradient) note_dead_end(op, in, where);  // its result may still be a source
  SmallVec<TapeNode, 4> nodes;
  if (!find_inputs(in, nodes)) return;
  TapeEntry& e = add_entry(op.name, where);
  e.op = &op;
  e.in_body = detail::open_bodies != bodies_;
  e.attrs = attrs;
  e.where = where;
  e.in_nodes = std::move(nodes);
  uint64_t saved = op.saves_in;
  if (in.size() == 2) saved &= (e.in_nodes[0] ? op.saves_for[0] : 0) | (e.in_nodes[1] ? op.saves_for[1] : 0);
  auto kept = [this](const Tensor& t, uint64_t saved, size_t i) {
    return i >= 64 || (saved >> i & 1) ? t : stand_in(t.spec());
  };
  for (size_t i = 0; i < in.size(); ++i) e.in.push_back(kept(*in[i], saved, i));
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

void GradientTape::stop() { impl_->stop(); }

void GradientTape::reset() {
  impl_->forget();
  impl_->start_again();
}

size_t GradientTape::size() const { return impl_->entries.size(); }

size_t GradientTape::bytes_held() const { return impl_->bytes_held(); }

size_t bytes_of(const TapeEntry& e, std::set<const Buffer*>& seen) {
  size_t bytes = 0;
  auto count = [&](const auto& ts) {
    for (const Tensor& t : ts)
      if (const Buffer* b = t.rep()->buffer.get(); b && seen.insert(b).second) bytes += b->bytes;
  };
  count(e.in), count(e.out), count(e.custom.keeps);
  return bytes;
}

size_t GradientTape::Impl::bytes_held() const {
  std::set<const Buffer*> seen;
  size_t bytes = 0;
  for (const TapeEntry& e : entries) bytes += bytes_of(e, seen);
  return bytes;
}

StopRecording::StopRecording(GradientTape& tape) : tape_(tape), was_recording_(tape.impl_->recording) {
  tape.impl_->stop();
}
StopRecording::~StopRecording() {
  if (was_recording_) tape_.impl_->start_again();
}

}  // namespace rill
