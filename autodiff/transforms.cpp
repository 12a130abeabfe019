#include "rill/autodiff/transforms.h"

#include <fmt/format.h>

#include "rill/autodiff/tape_impl.h"
#include "rill/ops/ops.h"

namespace rill::detail {

Tensor fresh(const Tensor& x) { return identity(x); }

void require_scalar(std::string_view op, const Tensor& y, const Where& where) {
  if (y.size() != 1)
    fail(op,
         fmt::format("the function gives {}, and a gradient needs one number. sum() it, or use jacrev()",
                     to_string(y.spec())),
         where);
}

Tensor stack_rows(std::vector<Tensor> rows, const Tensor& x, const Where& where) {
  if (rows.empty())
    fail("vmap", fmt::format("{} has no rows, so the shape of a result is unknown", to_string(x.spec())), where);
  return stack(rows, 0, where);
}

Tensor jvp_from(const Tensor& y, GradientTape& tape, const Tensor& x, const Tensor& tangent, const Where& where) {
  CallerScope caller(where);
  if (!(tangent.shape() == x.shape()))
    fail("jvp",
         fmt::format("the tangent is {} and x {}: their shapes must be equal", to_string(tangent.spec()),
                     to_string(x.spec())),
         where);
  GradientTape second({.watch_variables = false});
  Tensor u = fresh(zeros_like(y));
  second.watch(u);
  Tensor g = tape.gradient(y, x, {.unconnected = Unconnected::zero, .output_gradient = u});
  return second.gradient(g, u, {.unconnected = Unconnected::zero, .output_gradient = tangent});
}

Tensor forward_jacobian(const Callback<Tensor(const Tensor&)>& f, const Tensor& x, const Where& where) {
  CallerScope caller(where);
  GradientTape tape({.persistent = true, .watch_variables = false});
  Tensor v = fresh(x);
  tape.watch(v);
  Tensor y = f(v);
  Shape shape = y.shape();
  for (int64_t d : x.shape()) shape.push_back(d);
  if (shape.numel() == 0) return zeros(shape, {.dtype = y.dtype(), .device = y.device()});
  Tensor units = eye(x.size(), x.size(), 0, {.dtype = x.dtype(), .device = x.device()});
  std::vector<Tensor> columns;
  for (int64_t i = 0; i < x.size(); ++i) columns.push_back(jvp_from(y, tape, v, units(i).reshape(x.shape()), where));
  return stack(columns, -1).reshape(shape);
}

// --- custom_gradient -------------------------------------------------------------------------------------------------

namespace {
void record_on(std::span<TapeListener* const> tapes, Operands in, Tensor& out, const CustomVjp& vjp,
               const Where& where) {
  for (TapeListener* tape : tapes) tape->record_custom(in, {&out, 1}, vjp, where);
}
}  // namespace

Tensor run_custom(const Callback<std::pair<Tensor, Callback<Tensors(const Tensor&)>>()>& f,
                  std::initializer_list<const Tensor*> in, const Where& where) {
  Tensor out;
  Callback<Tensors(const Tensor&)> rule;
  {
    PauseTapes pause;
    std::tie(out, rule) = f();
  }
  out = make_alias(out);  // the value may be an argument, which tapes know already
  size_t count = in.size();
  auto vjp = [rule, count, where](std::span<const Tensor> cotangents, uint64_t) {
    Tensors back = rule(cotangents[0]);
    if (back.size() != count)
      fail("custom_gradient", fmt::format("the rule gave {} cotangents for {} arguments", back.size(), count), where);
    return back;
  };
  auto& tapes = thread_state().tapes;
  record_on({tapes.data(), tapes.size()}, {in.begin(), in.size()}, out, {vjp}, where);
  return out;
}

// --- recompute -------------------------------------------------------------------------------------------------------

namespace {

// Something that the function reads from outside and a tape knows: a watched tensor, or a variable.
struct Captured {
  Tensor tensor;
  Shared<VariableState> variable;
};

// Listens in place of the outer tapes and notes what of theirs the function reads.
class CaptureFinder final : public TapeListener {
 public:
  explicit CaptureFinder(std::span<TapeListener* const> outer) : outer_(outer) {}
  bool watches(const Tensor&) const override { return false; }
  void record(const Op&, Operands in, std::span<Tensor>, AttrsView, const Where&) override { note(in); }
  void record_custom(Operands in, std::span<Tensor>, const CustomVjp&, const Where&) override { note(in); }
  void watch_variable(const Shared<VariableState>& v, Tensor& value) override {
    for (const Captured& c : captured)
      if (c.variable == v) return;
    for (TapeListener* tape : outer_) tape->watch_variable(v, value);
    captured.push_back({value, v});
  }
  std::vector<Captured> captured;

 private:
  void note(Operands in) {
    for (const Tensor* t : in) {
      bool is_new = false;
      for (TapeListener* tape : outer_) is_new |= tape->watches(*t);
      for (const Captured& c : captured) is_new &= c.tensor.rep() != t->rep();
      if (is_new) captured.push_back({*t, nullptr});
    }
  }
  std::span<TapeListener* const> outer_;
};

}  // namespace

Tensor run_recompute(const Callback<Tensor(std::span<const Tensor>)>& f, std::vector<Tensor> in, const Where& where) {
  Tensor out;
  std::vector<Captured> captured;
  {
    PauseTapes pause;
    CaptureFinder finder(pause.tapes());
    if (!pause.tapes().empty()) thread_state().tapes.push_back(&finder);
    std::vector<Tensor> arguments;
    for (const Tensor& t : in) arguments.push_back(make_alias(t));  // not the outer tapes' own: they are inputs below
    out = make_alias(f(arguments));
    captured = std::move(finder.captured);
  }
  SmallVec<const Tensor*, 4> inputs;
  for (const Tensor& t : in) inputs.push_back(&t);
  for (const Captured& c : captured) inputs.push_back(&c.tensor);
  auto vjp = [f, in, captured, where](std::span<const Tensor> cotangents, uint64_t) {
    GradientTape tape;
    std::vector<Tensor> arguments;
    std::vector<Source> sources;
    for (const Tensor& t : in) {
      arguments.push_back(identity(t));
      if (is_differentiable(t.dtype())) tape.watch(arguments.back());
      sources.emplace_back(arguments.back());
    }
    for (const Captured& c : captured) {
      sources.emplace_back(c.tensor);
      if (c.variable) sources.back().variable = c.variable;
      else tape.watch(c.tensor);
    }
    Tensor y = f(arguments);
    std::vector<Tensor> g =
        tape.gradient(std::vector<Tensor>{y}, sources, {Unconnected::none, cotangents[0], {}}, where);
    return Tensors(g.begin(), g.end());
  };
  auto& tapes = thread_state().tapes;
  std::vector<Tensor> keeps = in;
  for (const Captured& c : captured) keeps.push_back(c.tensor);
  record_on({tapes.data(), tapes.size()}, {inputs.data(), inputs.size()}, out, {vjp, std::move(keeps)}, where);
  return out;
}

}  // namespace rill::detail
