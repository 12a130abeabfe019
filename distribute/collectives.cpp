// The records of the collectives, and the functions that call them. How data moves is in calls.cpp, and how ranks agree on
// a call in world.cpp. Start at all_reduce.
#include "rill/distribute/engine/calls.h"

#include <fmt/format.h>

#include <algorithm>

#include <vector>

#include "rill/devices/params/read_attrs.h"
#include "rill/devices/registry.h"
#include "rill/distribute/engine/device_calls.h"
#include "rill/distribute/engine/pending.h"
#include "rill/distribute/engine/sums.h"
#include "rill/distribute/engine/world.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/ops.h"

namespace rill::distribute {

std::string_view name(Reduce r) {
  switch (r) {
    case Reduce::sum: return "sum";
    case Reduce::mean: return "mean";
    case Reduce::max: return "max";
    case Reduce::min: return "min";
    case Reduce::product: return "product";
  }
  return "?";
}
constexpr int enumerators(Reduce) { return 5; }

namespace {

const ReadableAttrs readable_reduce(std::type_identity<ReduceAttrs>(), "all_reduce");
const ReadableAttrs readable_scattered(std::type_identity<ReduceAttrs>(), "reduce_scatter");
const ReadableAttrs readable_group(std::type_identity<GroupAttrs>(), "all_gather");
const ReadableAttrs readable_root(std::type_identity<RootAttrs>(), "broadcast");
const ReadableAttrs readable_permute(std::type_identity<PermuteAttrs>(), "permute");
const ReadableAttrs readable_receive(std::type_identity<ReceiveAttrs>(), "receive");

// --- Shapes ----------------------------------------------------------------------------------------------------------

const GroupAttrs& group_of(AttrsView attrs) { return *static_cast<const GroupAttrs*>(attrs.data); }

Spec strong(Shape shape, const Spec& like) { return Spec{std::move(shape), like.dtype, false, like.device}; }

void check_reduce(const InferArgs& a) {
  const Reduce r = a.attrs.as<ReduceAttrs>().reduce;
  if (r == Reduce::mean && !is_differentiable(a[0].dtype))
    a.reject(fmt::format("the mean of {} is none of its dtype. convert with astype(f32), or take the sum",
                         name(a[0].dtype)));
  if ((r == Reduce::max || r == Reduce::min) && is_complex(a[0].dtype))
    a.reject("complex numbers have no order, and so no largest or smallest");
}

OutSpecs infer_same(const InferArgs& a) { return {strong(a[0].shape, a[0])}; }
OutSpecs infer_all_reduce(const InferArgs& a) {
  check_reduce(a);
  return infer_same(a);
}
OutSpecs infer_gathered(const InferArgs& a) {
  Shape shape{Dim(group_of(a.attrs).size)};
  for (const Dim d : a[0].shape) shape.push_back(d);
  return {strong(std::move(shape), a[0])};
}

// The first axis, which is `n` of something.
void require_parts(const InferArgs& a, bool exactly) {
  const int64_t n = group_of(a.attrs).size;
  if (a[0].shape.empty() || (exactly ? a[0].shape[0] != n : a[0].shape[0] % n != 0))
    a.reject(
        fmt::format("the first axis must be {} {}, the number of ranks", exactly ? "of size" : "a multiple of", n));
}
OutSpecs infer_reduce_scatter(const InferArgs& a) {
  check_reduce(a);
  require_parts(a, false);
  Shape shape = a[0].shape;
  shape[0] = shape[0] / group_of(a.attrs).size;
  return {strong(std::move(shape), a[0])};
}
OutSpecs infer_all_to_all(const InferArgs& a) {
  require_parts(a, false);
  return infer_same(a);
}
OutSpecs infer_scatter(const InferArgs& a) {
  require_parts(a, true);
  Shape shape;
  for (size_t i = 1; i < a[0].shape.size(); ++i) shape.push_back(a[0].shape[i]);
  return {strong(std::move(shape), a[0])};
}
OutSpecs infer_receive(const InferArgs& a) {
  const auto& r = a.attrs.as<ReceiveAttrs>();
  if (!contains(plain_set | float8_set, r.dtype)) a.reject(fmt::format("{} is not received", name(r.dtype)));
  return {Spec{Shape(r.shape), r.dtype, false, r.device}};
}
OutSpecs infer_nothing(const InferArgs&) { return {}; }

// --- Derivatives -----------------------------------------------------------------------------------------------------

Group group_named(const GroupAttrs& a) {
  return a.ranks.empty() ? Group() : Group(std::vector<int64_t>(a.ranks.begin(), a.ranks.end()));
}
bool is_linear(Reduce r) { return r == Reduce::sum || r == Reduce::mean; }

// The product of all ranks' x but this one's.
Tensor product_of_others(const Tensor& x, const Group& group) {
  const Tensor all = all_gather(x, group);
  Tensor product = ones_like(x);
  for (int64_t r = 0; r < group.size(); ++r)
    if (r != group.rank()) product = product * all(r);
  return product;
}
// 1 / n if this rank's x is the largest (or smallest), one of n; else 0.
Tensor fraction_of_extreme(const Tensor& x, const Tensor& extreme, const Group& group) {
  const Tensor mine = astype(x == extreme, x.dtype());
  return mine / maximum(all_reduce(mine, Reduce::sum, group), ones_like(mine));
}

Tensors vjp_all_reduce(const VjpArgs& a) {
  const auto& attrs = a.attrs.as<ReduceAttrs>();
  return {all_reduce(a.cotangent[0], attrs.reduce, group_named(attrs))};
}
// The derivative of a product or an extreme by this rank's x.
Tensor factor_of(const ReduceAttrs& attrs, const Tensor& in, const Tensor& out) {
  const Group group = group_named(attrs);
  return attrs.reduce == Reduce::product ? product_of_others(in, group) : fraction_of_extreme(in, out, group);
}
Tensors vjp_reduce_by(const VjpArgs& a) {
  const auto& attrs = a.attrs.as<ReduceAttrs>();
  const Tensor ct = all_reduce(a.cotangent[0], Reduce::sum, group_named(attrs));
  return {multiply_no_nan(conj(factor_of(attrs, a.in[0], a.out[0])), ct)};
}
Tensors jvp_reduce_by(const JvpArgs& a) {
  const auto& attrs = a.attrs.as<ReduceAttrs>();
  const Tensor own = multiply_no_nan(factor_of(attrs, a.in[0], a.out[0]), a.tangent[0]);
  return {all_reduce(own, Reduce::sum, group_named(attrs))};
}

Tensors vjp_reduce_scatter(const VjpArgs& a) {
  const auto& attrs = a.attrs.as<ReduceAttrs>();
  if (!is_linear(attrs.reduce))
    fail("reduce_scatter",
         fmt::format("there is no derivative of one by the {}. take all_reduce(), and this rank's part",
                     name(attrs.reduce)));
  Tensor ct = all_gather(a.cotangent[0], group_named(attrs));
  if (attrs.reduce == Reduce::mean) ct = ct / double(attrs.size);
  return {ct.reshape(a.in[0].shape())};
}

Tensors vjp_all_gather(const VjpArgs& a) {
  const auto& attrs = a.attrs.as<GroupAttrs>();
  return {reduce_scatter(a.cotangent[0], Reduce::sum, group_named(attrs)).reshape(a.in[0].shape())};
}

Tensors vjp_broadcast(const VjpArgs& a) {
  const auto& attrs = a.attrs.as<RootAttrs>();
  const Group group = group_named(attrs);
  const Tensor ct = all_reduce(a.cotangent[0], Reduce::sum, group);
  return {group.rank() == attrs.root ? ct : zeros_like(ct)};
}
Tensors vjp_scatter(const VjpArgs& a) {
  const auto& attrs = a.attrs.as<RootAttrs>();
  return {distribute::gather(a.cotangent[0], attrs.root, group_named(attrs))};
}
Tensors vjp_gather(const VjpArgs& a) {
  const auto& attrs = a.attrs.as<RootAttrs>();
  return {distribute::scatter(a.cotangent[0], attrs.root, group_named(attrs))};
}
Tensors vjp_all_to_all(const VjpArgs& a) { return {all_to_all(a.cotangent[0], group_named(a.attrs.as<GroupAttrs>()))}; }
Tensors vjp_permute(const VjpArgs& a) {
  const auto& attrs = a.attrs.as<PermuteAttrs>();
  std::vector<std::pair<int64_t, int64_t>> back;
  for (size_t i = 0; i < attrs.to.size(); ++i)
    if (attrs.to[i] >= 0) back.emplace_back(int64_t(attrs.to[i]), int64_t(i));
  return {permute(a.cotangent[0], back, group_named(attrs))};
}

// --- vmap ------------------------------------------------------------------------------------------------------------

// The rows' first axis is split or made: it stays the first, and the batch axis comes after it meanwhile.
Tensors batch_behind(const BatchArgs& a) {
  const Tensor x = moveaxis(with_batch(a, 0), 0, 1);
  const Tensor* in[] = {&x};
  const Tensor y = apply(a.op, in, a.attrs, a.where)[0];
  return {a.op.name == "rank_scatter" ? y : moveaxis(y, 1, 0)};
}
Tensors batch_gathered(const BatchArgs& a) {
  const Tensor x = with_batch(a, 0);
  const Tensor* in[] = {&x};
  return {moveaxis(apply(a.op, in, a.attrs, a.where)[0], 1, 0)};
}

// --- GPUs ------------------------------------------------------------------------------------------------------------

// Devices exchange directly if they can. Otherwise ranks exchange host memory: an operand on a GPU is copied there, and
// the result is copied back.
template <size_t n>
struct FixedName {
  char text[n];
  constexpr FixedName(const char (&t)[n]) { std::copy_n(t, n, text); }
};
template <FixedName name, Tensors (*call)(Operands, AttrsView)>
Tensors by_place(Operands in, AttrsView attrs) {
  if (const std::optional<Rest> rest = begin_on_devices(name.text, *in[0], attrs)) return {(*rest)()};
  const Tensor here = on_host(*in[0]);
  const Tensor* operand[] = {&here};
  Tensors out = call(Operands(operand, 1), attrs);
  for (Tensor& t : out) t = moved_to(t, in[0]->device());
  return out;
}

// --- Records ---------------------------------------------------------------------------------------------------------

constexpr DTypeSet moved_set = plain_set | float8_set;
constexpr DTypeSet gathered_set = every_set;  // texts too
constexpr std::string_view waits_for_permute = "its counterpart would run on another rank: permute() has a derivative";

const Op all_reduce_op({.name = "all_reduce",
                        .doc = "the sum or mean over ranks",
                        .dtypes = number_set,
                        .infer = infer_all_reduce,
                        .vjp = vjp_all_reduce,
                        .linear_in = save(0),
                        .batch = batch_rows,
                        .call = by_place<"all_reduce", call_all_reduce>,
                        .effect = true});
// Apart, for a derivative needs the operand.
const Op reduce_by_op({.name = "all_reduce_by",
                       .doc = "the largest, smallest or product over ranks",
                       .dtypes = number_set,
                       .infer = infer_all_reduce,
                       .vjp = vjp_reduce_by,
                       .saves_in = save(0),
                       .saves_out = save(0),
                       .jvp = jvp_reduce_by,
                       .batch = batch_rows,
                       .call = by_place<"all_reduce_by", call_all_reduce>,
                       .effect = true});
const Op reduce_scatter_op({.name = "reduce_scatter",
                            .doc = "of the sum (mean, ...) over ranks, this rank's part of the first axis",
                            .dtypes = number_set,
                            .infer = infer_reduce_scatter,
                            .vjp = vjp_reduce_scatter,
                            .linear_in = save(0),
                            .batch = batch_behind,
                            .call = by_place<"reduce_scatter", call_reduce_scatter>,
                            .effect = true});
const Op all_gather_op({.name = "all_gather",
                        .doc = "the ranks' tensors along a new first axis",
                        .dtypes = gathered_set,
                        .infer = infer_gathered,
                        .vjp = vjp_all_gather,
                        .linear_in = save(0),
                        .batch = batch_gathered,
                        .call = by_place<"all_gather", call_all_gather>,
                        .effect = true});
const Op broadcast_op({.name = "broadcast",
                       .doc = "the root's tensor on all ranks",
                       .dtypes = gathered_set,
                       .infer = infer_same,
                       .vjp = vjp_broadcast,
                       .linear_in = save(0),
                       .batch = batch_rows,
                       .call = by_place<"broadcast", call_broadcast>,
                       .effect = true});
const Op scatter_op({.name = "rank_scatter",
                     .doc = "of the root's tensor, row i on rank i",
                     .dtypes = moved_set,
                     .infer = infer_scatter,
                     .vjp = vjp_scatter,
                     .linear_in = save(0),
                     .batch = batch_behind,
                     .call = by_place<"rank_scatter", call_scatter>,
                     .effect = true});
const Op gather_op({.name = "rank_gather",
                    .doc = "the ranks' tensors along a new first axis on the root, zeros elsewhere",
                    .dtypes = gathered_set,
                    .infer = infer_gathered,
                    .vjp = vjp_gather,
                    .linear_in = save(0),
                    .batch = batch_gathered,
                    .call = by_place<"rank_gather", call_gather>,
                    .effect = true});
const Op all_to_all_op({.name = "all_to_all",
                        .doc = "part j of the first axis goes to rank j, and part i comes from rank i",
                        .dtypes = moved_set,
                        .infer = infer_all_to_all,
                        .vjp = vjp_all_to_all,
                        .linear_in = save(0),
                        .batch = batch_behind,
                        .call = by_place<"all_to_all", call_all_to_all>,
                        .effect = true});
const Op permute_op({.name = "permute_ranks",
                     .doc = "from each rank to the one that `to` says; zeros where none comes",
                     .dtypes = moved_set,
                     .infer = infer_same,
                     .vjp = vjp_permute,
                     .linear_in = save(0),
                     .batch = batch_rows,
                     .call = by_place<"permute_ranks", call_permute>,
                     .effect = true});
const Op send_op({.name = "send",
                  .doc = "to one rank; gives its operand",
                  .dtypes = moved_set,
                  .infer = infer_same,
                  .no_gradient = waits_for_permute,
                  .batch = batch_rows,
                  .call = call_send,
                  .effect = true});
const Op receive_op({.name = "receive",
                     .doc = "what one rank sends",
                     .kind = OpKind::creation,
                     .dtypes = moved_set,
                     .inputs = 0,
                     .infer = infer_receive,
                     .no_gradient = waits_for_permute,
                     .call = call_receive,
                     .effect = true});
const Op barrier_op({.name = "barrier",
                     .doc = "waits until all ranks have come here",
                     .kind = OpKind::creation,
                     .inputs = 0,
                     .outputs = 0,
                     .infer = infer_nothing,
                     .no_gradient = "it gives nothing",
                     .call = call_barrier,
                     .effect = true});

// --- Functions -------------------------------------------------------------------------------------------------------

Tensor run(const Op& op, const Tensor& x, AttrsView attrs, const Where& where) {
  const Tensor* in[] = {&x};
  return std::move(apply(op, in, attrs, where)[0]);
}

void require_place(std::string_view op, std::string_view what, int64_t place, const Group& group, const Where& where) {
  if (place < 0 || place >= group.size(where))
    fail(op, fmt::format("{} is {} and must be from 0 to {}", what, place, group.size(where) - 1), where);
}
void require_other(std::string_view op, std::string_view what, int64_t place, const Group& group, const Where& where) {
  require_place(op, what, place, group, where);
  if (place == group.rank(where)) fail(op, fmt::format("{} is this rank itself, {}", what, place), where);
}

}  // namespace

Dims permute_targets(const std::vector<std::pair<int64_t, int64_t>>& pairs, const Group& group, const Where& where) {
  Dims to(size_t(group.size(where)), Dim(-1));
  for (const auto& [from, there] : pairs) {
    require_place("permute", "a rank", from, group, where), require_place("permute", "a rank", there, group, where);
    if (to[size_t(from)] >= 0) fail("permute", fmt::format("rank {} sends twice", from), where);
    if (std::find(to.begin(), to.end(), Dim(there)) != to.end())
      fail("permute", fmt::format("rank {} is sent to twice", there), where);
    to[size_t(from)] = there;
  }
  return to;
}

std::vector<std::pair<int64_t, int64_t>> ring(int64_t shift, const Group& group, const Where& where) {
  const int64_t n = group.size(where);
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (int64_t r = 0; r < n; ++r) pairs.emplace_back(r, ((r + shift) % n + n) % n);
  return pairs;
}

Tensor all_reduce(const Tensor& x, Reduce reduce, const Group& group, Where where) {
  CallerScope caller(where);
  ReduceAttrs attrs;
  attrs.reduce = reduce;
  return run(is_linear(reduce) ? all_reduce_op : reduce_by_op, x, with_group(attrs, group, where), where);
}
Tensor mean(const Tensor& x, const Group& group, Where where) { return all_reduce(x, Reduce::mean, group, where); }
Tensor reduce_scatter(const Tensor& x, Reduce reduce, const Group& group, Where where) {
  CallerScope caller(where);
  ReduceAttrs attrs;
  attrs.reduce = reduce;
  return run(reduce_scatter_op, x, with_group(attrs, group, where), where);
}
Tensor all_gather(const Tensor& x, const Group& group, Where where) {
  CallerScope caller(where);
  return run(all_gather_op, x, with_group(GroupAttrs(), group, where), where);
}
Tensor all_to_all(const Tensor& x, const Group& group, Where where) {
  CallerScope caller(where);
  return run(all_to_all_op, x, with_group(GroupAttrs(), group, where), where);
}

namespace {
Tensor run_rooted(const Op& op, std::string_view name, const Tensor& x, int64_t root, const Group& group,
                  const Where& where) {
  CallerScope caller(where);
  require_place(name, "the root", root, group, where);
  RootAttrs attrs;
  attrs.root = root;
  return run(op, x, with_group(attrs, group, where), where);
}
}  // namespace

Tensor broadcast(const Tensor& x, int64_t root, const Group& group, Where where) {
  return run_rooted(broadcast_op, "broadcast", x, root, group, where);
}
Tensor scatter(const Tensor& x, int64_t root, const Group& group, Where where) {
  return run_rooted(scatter_op, "scatter", x, root, group, where);
}
Tensor gather(const Tensor& x, int64_t root, const Group& group, Where where) {
  return run_rooted(gather_op, "gather", x, root, group, where);
}

Tensor permute(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& pairs, const Group& group,
               Where where) {
  CallerScope caller(where);
  PermuteAttrs attrs;
  attrs.to = permute_targets(pairs, group, where);
  return run(permute_op, x, with_group(attrs, group, where), where);
}
Tensor rotate(const Tensor& x, int64_t shift, const Group& group, Where where) {
  return permute(x, ring(shift, group, where), group, where);
}

Tensor send(const Tensor& x, int64_t to, const Group& group, Where where) {
  CallerScope caller(where);
  require_other("send", "the receiver", to, group, where);
  RootAttrs attrs;
  attrs.root = to;
  return run(send_op, x, with_group(attrs, group, where), where);
}
Tensor receive(const Shape& shape, DType dtype, int64_t from, const Group& group, Where where) {
  CallerScope caller(where);
  require_other("receive", "the sender", from, group, where);
  ReceiveAttrs attrs;
  attrs.from = from, attrs.shape = shape, attrs.dtype = dtype, attrs.device = default_device();
  return apply(receive_op, Operands(), with_group(attrs, group, where), where)[0].to(default_device());
}
void barrier(const Group& group, Where where) {
  CallerScope caller(where);
  apply(barrier_op, Operands(), with_group(GroupAttrs(), group, where), where);
}

}  // namespace rill::distribute
