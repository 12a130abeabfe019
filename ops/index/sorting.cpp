// Sorting: the records of sort, argsort, topk and searchsorted, and unique, which is composed of them.
#include <fmt/core.h>

#include "rill/devices/driver.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/index/runs.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/samples.h"
#include "rill/ops/sets.h"

namespace rill {
namespace {

Spec strong(const Spec& s, DType dtype) { return {s.shape, dtype, false, s.device}; }

OutSpecs infer_sort(const InferArgs& args) {
  args.check_axis(args.attrs.as<SortParams>().axis);
  return {strong(args[0], args[0].dtype)};
}
OutSpecs infer_argsort(const InferArgs& args) {
  args.check_axis(args.attrs.as<SortParams>().axis);
  return {strong(args[0], DType::i64)};
}
OutSpecs infer_topk(const InferArgs& args) {
  const auto& p = args.attrs.as<TopKParams>();
  args.check_axis(p.axis);
  const int64_t n = args[0].shape[size_t(p.axis)].hint();
  if (p.k < 0 || p.k > n) args.reject(fmt::format("k is {}, and axis {} has {} elements", p.k, p.axis, n));
  Spec values = strong(args[0], args[0].dtype);
  values.shape[size_t(p.axis)] = p.k;
  return {values, strong(values, DType::i64)};
}
OutSpecs infer_search(const InferArgs& args) {
  if (args[0].shape.size() != 1) args.reject("the sorted operand must be a vector");
  if (args[0].dtype != args[1].dtype) args.reject("both operands must have one dtype. convert one with astype");
  return {strong(args[1], DType::i64)};
}

Tensors sort_vjp(const VjpArgs& args) {
  const auto& p = args.attrs.as<SortParams>();
  const Tensor from = argsort(args.in[0], {.axis = p.axis, .descending = p.descending});
  return {put_along_axis(zeros_like(args.cotangent[0]), from, args.cotangent[0], p.axis)};
}
Tensors topk_vjp(const VjpArgs& args) {
  const Tensor& ct = args.cotangent[0];
  const Tensor nothing = zeros(args.in[0].shape(), {ct.dtype(), ct.device()});
  return {put_along_axis(nothing, args.out[1], ct, args.attrs.as<TopKParams>().axis)};
}

// Each row of v [rows, m] searches its own row of `sorted` [rows, n], by binary search in all rows at once.
Tensor search_rows(const Tensor& sorted, const Tensor& v, bool right) {
  const bool nans = is_floating(sorted.dtype());
  const auto before = [&](const Tensor& x, const Tensor& y) {
    return nans ? logical_or(x < y, logical_and(isnan(y), logical_not(isnan(x)))) : x < y;
  };
  const int64_t n = sorted.shape()[1];
  Tensor low = zeros(v.shape(), {DType::i64, v.device()}), high = low + n;
  for (int64_t width = n; width > 0; width /= 2) {
    const Tensor middle = (low + high) >> 1, there = take_along_axis(sorted, minimum(middle, n - 1), 1);
    const Tensor passed = right ? logical_not(before(v, there)) : before(there, v), open = low < high;
    high = where(logical_and(open, logical_not(passed)), middle, high);
    low = where(logical_and(open, passed), middle + 1, low);
  }
  return low;
}
Tensors batch_searchsorted(const BatchArgs& a) {
  if (!a.batched[0]) return {apply1(a.op, {&a.in[0], &a.in[1]}, a.attrs, a.where)};
  const Tensor all = with_batch(a, 1), v = reshape(all, {a.size, row_shape(a, 1).numel()});
  return {reshape(search_rows(a.in[0], v, a.attrs.as<SearchParams>().right), all.shape())};
}

// Tangents are permuted as their elements are.
Tensors sort_jvp(const JvpArgs& args) {
  const auto& p = args.attrs.as<SortParams>();
  return {take_along_axis(args.tangent[0], argsort(args.in[0], {.axis = p.axis, .descending = p.descending}), p.axis)};
}
Tensors topk_jvp(const JvpArgs& args) {
  return {take_along_axis(args.tangent[0], args.out[1], args.attrs.as<TopKParams>().axis), Tensor()};
}

std::vector<Sample> sort_samples() {
  const auto one = [](Tensor x, int64_t axis, bool descending = false) {
    return Sample{{std::move(x)}, SortParams{axis, descending}};
  };
  return {one(samples::distinct({1}), 0), one(samples::distinct({17}), 0, true), one(samples::distinct({5, 6}), 0),
          one(samples::distinct({5, 6}), 1), one(samples::distinct({2, 3, 4}), 1, true)};
}
std::vector<Sample> argsort_samples() {
  std::vector<Sample> s = sort_samples();
  for (bool descending : {false, true}) {  // ties; long enough for radix sort
    s.push_back({{samples::integers({700}, -50, 50, DType::i64)}, SortParams{0, descending}});
    s.push_back({{samples::uniform({2, 900})}, SortParams{1, descending}});
  }
  return s;
}
std::vector<Sample> topk_samples() {
  const auto one = [](Tensor x, int64_t k, int64_t axis, bool largest) {
    return Sample{{std::move(x)}, TopKParams{k, axis, largest}};
  };
  return {one(samples::distinct({1}), 1, 0, true), one(samples::distinct({40}), 3, 0, true),
          one(samples::distinct({5, 6}), 2, 0, false), one(samples::distinct({5, 6}), 6, 1, true)};
}
std::vector<Sample> search_samples() {
  const Tensor edges = samples::values({0, 1, 1, 3, 5, 5, 8}, {7});
  const Tensor values = samples::values({0, 0.5, 1, 2, 3, 5, 9, 4}, {2, 4});
  return {{{edges, values}, SearchParams{false}},
          {{edges, values}, SearchParams{true}},
          {{samples::values({}, {0}), values}, SearchParams{false}}};
}

const Op sort_op({.name = "sort",
                  .doc = "y = x in ascending (or descending) order along the axis; stable, NaN last",
                  .dtypes = real_set | bool_set,
                  .infer = infer_sort,
                  .vjp = sort_vjp,
                  .saves_in = save(0),
                  .jvp = sort_jvp,
                  .batch = batch_axes<&SortParams::axis>,
                  .cpu = cpu::sort,
                  .ref = ref::sort,
                  .samples = sort_samples});

const Op argsort_op({.name = "argsort",
                     .doc = "y = the indices along the axis that sort x; stable, NaN last",
                     .dtypes = real_set | bool_set,
                     .infer = infer_argsort,
                     .no_gradient = "an index does not change with small changes of x",
                     .batch = batch_axes<&SortParams::axis>,
                     .cpu = cpu::argsort,
                     .ref = ref::argsort,
                     .samples = argsort_samples});

const Op topk_op({.name = "topk",
                  .doc = "values, indices = the k largest (or smallest) x along the axis, in order; NaN last",
                  .dtypes = real_set | bool_set,
                  .outputs = 2,
                  .infer = infer_topk,
                  .vjp = topk_vjp,
                  .saves_out = save(1),
                  .jvp = topk_jvp,
                  .batch = batch_axes<&TopKParams::axis>,
                  .cpu = cpu::topk,
                  .ref = ref::topk,
                  .wants_contiguous = true,
                  .samples = topk_samples,
                  .exported = {"TopK", "TopKV2"}});

const Op searchsorted_op({.name = "searchsorted",
                          .doc = "y = how many elements of the sorted vector a stand before v (right: or equal it)",
                          .dtypes = real_set | bool_set,
                          .inputs = 2,
                          .infer = infer_search,
                          .no_gradient = "an index does not change with small changes of its operands",
                          .batch = batch_searchsorted,
                          .cpu = cpu::searchsorted,
                          .ref = ref::searchsorted,
                          .wants_contiguous = true,
                          .samples = search_samples});

}  // namespace

Tensor sort(const Tensor& x, const SortOptions& o, Where where) {
  require_operand("sort", x, where);
  return apply1(sort_op, {&x}, SortParams{normal_axis(o.axis, x, "sort", where), o.descending}, where);
}
Tensor argsort(const Tensor& x, const SortOptions& o, Where where) {
  require_operand("argsort", x, where);
  return apply1(argsort_op, {&x}, SortParams{normal_axis(o.axis, x, "argsort", where), o.descending}, where);
}

TopK topk(const Tensor& x, int64_t k, const TopKOptions& o, Where where) {
  require_operand("topk", x, where);
  Tensors y = apply(topk_op, {&x}, TopKParams{k, normal_axis(o.axis, x, "topk", where), o.largest}, where);
  return {std::move(y[0]), std::move(y[1])};
}

namespace {
// For u64 with a signed dtype, which no integer dtype holds both: values outside of the vector's dtype come before all
// its elements, or after them.
Tensor search_other_signs(const Tensor& sorted, const Tensor& values, bool right, const Where& where) {
  const DType d = sorted.dtype();
  if (is_unsigned(d)) {
    const Tensor found = searchsorted(sorted, astype(maximum(values, 0), d), right, where);
    return rill::where(values < 0, 0, found);
  }
  const auto largest = int64_t(iinfo(d).max);
  const Tensor found = searchsorted(sorted, astype(minimum(values, largest), d), right, where);
  return rill::where(values > largest, sorted.shape().back(), found);
}
}  // namespace

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right, Where where) {
  CallerScope caller(where);
  // A C++ integer that does not fit the vector's dtype is searched for by its mathematical value.
  const bool fits =
      !elementwise::overflows(values, sorted.dtype()) && !elementwise::may_overflow(values, sorted.dtype());
  const DType d = promote(sorted.dtype(), sorted.spec().weak, values.dtype(), values.spec().weak && fits);
  if (is_floating(d) && is_integer(sorted.dtype()) && is_integer(values.dtype()) && sorted.ndim() > 0)
    return search_other_signs(sorted, values, right, where);
  const Tensor a = astype(sorted, d), v = astype(values, d);
  if (a.ndim() < 2) return apply1(searchsorted_op, {&a, &v}, SearchParams{right}, where);
  const Shape rows(a.shape().begin(), a.shape().end() - 1);
  if (v.ndim() != a.ndim() || Shape(v.shape().begin(), v.shape().end() - 1) != rows)
    fail("searchsorted",
         fmt::format("rows to search take a row of values each, [..., n] and [..., m]. operands: {}, {}",
                     to_string(sorted.spec()), to_string(values.spec())),
         where);
  const Dim n = rows.numel();
  const Tensor found = search_rows(reshape(a, {n, a.shape().back()}), reshape(v, {n, v.shape().back()}), right);
  return reshape(found, v.shape());
}
Tensor searchsorted(const Tensor& sorted, const Tensor& values, const SearchOptions& o, Where where) {
  CallerScope caller(where);
  if (!o.sorter) return searchsorted(sorted, values, o.right, where);
  if (o.sorter->shape() != sorted.shape())
    fail("searchsorted",
         fmt::format("the sorter must have the shape of what it sorts. got {} for {}", to_string(o.sorter->spec()),
                     to_string(sorted.spec())),
         where);
  return searchsorted(take_along_axis(sorted, *o.sorter, -1), values, o.right, where);
}

Tensor digitize(const Tensor& x, const Tensor& edges, bool right, Where where) {
  CallerScope caller(where);
  require_operand("digitize", edges, where);
  if (edges.ndim() != 1 || !is_real(edges)) return searchsorted(edges, x, !right, where);
  const auto falls_somewhere = [](const Tensor& e) { return rill::any(e(slice(1, {})) < e(slice({}, -1))); };
  const auto is_sorted = [&](const Tensor& e) {
    return logical_not(logical_and(falls_somewhere(e), rill::any(e(slice(1, {})) > e(slice({}, -1)))));
  };
  require_elements(is_sorted, "digitize", "edges must ascend or descend", edges, where);
  const Tensor falls = falls_somewhere(edges);
  const Tensor index = searchsorted(rill::where(falls, reverse(edges), edges), x, !right, where);
  return rill::where(falls, edges.shape()[0] - index, index);
}

Tensor starts_of_runs(const Tensor& x) {
  const Dim n = x.shape().back();
  if (n == 0) return zeros(x.shape(), {DType::boolean, x.device()});
  Shape first(x.shape());
  first[first.size() - 1] = 1;
  const Tensor next = slice_axis(x, -1, 1, n), last = slice_axis(x, -1, 0, n - 1);
  Tensor differs = next != last;
  if (is_floating(x.dtype())) differs = differs & !(isnan(next) & isnan(last));
  return concat({ones(first, {DType::boolean, x.device()}), differs}, -1);
}

Runs runs_of(const Tensor& vector) {
  const Tensor starts_here = starts_of_runs(vector), starts = nonzero(starts_here)[0];
  const Tensor ends = concat({starts, full({1}, vector.size(), {DType::i64, vector.device()})});
  return {starts, cumsum(starts_here) - 1, diff(ends)};
}

void require_distinct(std::string_view op, const Tensor& x, const Where& where) {
  if (!EnclosingTrace::may_read(x))
    fail(op,
         fmt::format("the size of the result depends on values, which {}. call it outside",
                     EnclosingTrace::why_unknown()),
         where);
}

std::optional<ValueTable> value_table(const Tensor& x) {
  constexpr int64_t min_size = 1 << 12, max_range = 2;  // of a vector; of its values' range, for each element
  const int64_t n = x.size();
  if (!is_integer(x.dtype()) || !is_host(x.device()) || n < min_size) return std::nullopt;
  const Tensor least = astype(min(x), i64), greatest = astype(max(x), i64);  // u64 wraps, and differences are right
  const uint64_t span = uint64_t(greatest.item<int64_t>()) - uint64_t(least.item<int64_t>());
  if (span >= uint64_t(max_range * n)) return std::nullopt;
  return ValueTable{least, astype(reshape(x, {n}), i64) - least, int64_t(span) + 1};
}

namespace {
Unique unique_of(const ValueTable& t, const Tensor& x) {
  const Shape sizes{t.size};
  const TensorOptions numbers{DType::i64, x.device()};
  const Tensor counts = zeros(sizes, numbers).at(t.index).add(1),
               first = full(sizes, x.size(), numbers).at(t.index).min(arange(x.size(), numbers)), there = counts > 0,
               values = nonzero(there)[0];
  return {astype(values + t.least, x.dtype()), take(first, values, 0),
          reshape(take(cumsum(there) - 1, t.index, 0), x.shape()), take(counts, values, 0)};
}
}  // namespace

Unique unique(const Tensor& x, Where where) {
  CallerScope caller(where);
  require_distinct("unique", x, where);
  if (const std::optional<ValueTable> table = value_table(x)) return unique_of(*table, x);
  const Tensor flat = reshape(x, {x.size()}), order = argsort(flat), sorted = take(flat, order, 0);
  const Runs runs = runs_of(sorted);
  const Tensor inverse = put_along_axis(zeros_like(order), order, runs.number, 0);
  return {take(sorted, runs.starts, 0), take(order, runs.starts, 0), reshape(inverse, x.shape()), runs.counts};
}

}  // namespace rill
