// The table of creation, shaping, indexing and linear algebra.
#include <stdexcept>

#include "cases.h"

namespace oracle {

using namespace rill;

static TensorOptions made(const Call& c) { return {c.dtype(), {}}; }

// A C++ number as a user writes it: an integer or not.
static detail::Number number(const Call& c, const char* name, int64_t otherwise) {
  if (!c.has(name)) return otherwise;
  if (c.options[name].is_number_integer()) return c.options[name].get<int64_t>();
  return c.options[name].get<double>();
}

static void add_creation(Table& t) {
  t["zeros"] = {[](const Call& c) -> Values { return {zeros(c.dims("shape"), made(c))}; }};
  t["ones"] = {[](const Call& c) -> Values { return {ones(c.dims("shape"), made(c))}; }};
  t["empty"] = {[](const Call& c) -> Values { return {zeros_like(empty(c.dims("shape"), made(c)))}; }};
  t["full"] = {[](const Call& c) -> Values { return {full(c.dims("shape"), c[0], made(c))}; }};
  t["size_of"] = {[](const Call& c) -> Values { return {size_of(c[0], int(c.integer("axis", 0)))}; }};
  t["zeros_like"] = {[](const Call& c) -> Values { return {zeros_like(c[0], made(c))}; }};
  t["ones_like"] = {[](const Call& c) -> Values { return {ones_like(c[0], made(c))}; }};
  t["empty_like"] = {[](const Call& c) -> Values { return {zeros_like(empty_like(c[0], made(c)))}; }};
  t["full_like"] = {[](const Call& c) -> Values { return {full_like(c[0], c[1], made(c))}; }};
  t["arange"] = {[](const Call& c) -> Values {
    if (!c.has("start")) return {arange(number(c, "stop", 0), made(c))};
    return {arange(number(c, "start", 0), number(c, "stop", 0), number(c, "step", 1), made(c))};
  }};
  t["iota"] = {[](const Call& c) -> Values {
    return {iota(c.dims("shape"), c.integer("axis", 0), {c.dtype().value_or(i64), {}})};
  }};
  t["linspace"] = {[](const Call& c) -> Values {
    return {
        linspace(c.number("start", 0), c.number("stop", 1), c.integer("count", 50), c.flag("endpoint", true), made(c))};
  }};
  t["logspace"] = {[](const Call& c) -> Values {
    return {logspace(c.number("start", 0), c.number("stop", 1), c.integer("count", 50), c.number("base", 10), made(c))};
  }};
  t["eye"] = {[](const Call& c) -> Values {
    return {eye(c.integer("rows", 1), c.integer("columns", -1), c.integer("k", 0), made(c))};
  }};
  t["tri"] = {[](const Call& c) -> Values {
    return {tri(c.integer("rows", 1), c.integer("columns", -1), c.integer("k", 0), made(c))};
  }};
  t["tril"] = {[](const Call& c) -> Values { return {tril(c[0], c.integer("k", 0))}; }};
  t["triu"] = {[](const Call& c) -> Values { return {triu(c[0], c.integer("k", 0))}; }};
  t["meshgrid"] = {[](const Call& c) -> Values { return meshgrid(c.in, c.text("indexing", "xy")); }};
  t["tensor"] = {[](const Call& c) -> Values { return {tensor(c.numbers("values"), c.dims("shape"), made(c))}; },
                 false};
  t["from_data"] = {
      [](const Call& c) -> Values { return {from_data(c.numbers("values").data(), c.dims("shape"), made(c))}; }, false};
}

static PadMode pad_mode(const std::string& text) {
  return text == "edge"        ? PadMode::edge
         : text == "reflect"   ? PadMode::reflect
         : text == "symmetric" ? PadMode::symmetric
                               : PadMode::wrap;
}

static void add_views(Table& t) {
  t["reshape"] = {[](const Call& c) -> Values { return {reshape(c[0], c.dims("shape"))}; }};
  t["transpose"] = {[](const Call& c) -> Values { return {transpose(c[0], c.axes("axes"))}; }};
  t["broadcast_to"] = {[](const Call& c) -> Values { return {broadcast_to(c[0], c.dims("shape"))}; }};
  t["strided_slice"] = {[](const Call& c) -> Values {
    return {strided_slice(c[0], c.dims("starts"), c.dims("stops"), c.dims("steps"))};
  }};
  t["update_slice"] = {[](const Call& c) -> Values {
    return {update_slice(c[0], c[1], c.dims("starts"), c.dims("stops"), c.dims("steps"))};
  }};
  t["slice_axis"] = {[](const Call& c) -> Values {
    return {slice_axis(c[0], c.integer("axis", 0), c.integer("start", 0), c.integer("stop", 0))};
  }};
  t["broadcast_shapes"] = {[](const Call& c) -> Values {
                             const Shape s = broadcast_shapes(c.dims("a"), c.dims("b"));
                             return {tensor(std::vector<int64_t>(s.begin(), s.end()))};
                           },
                           false};
  t["broadcast_arrays"] = {[](const Call& c) -> Values { return broadcast_arrays(c.in); }};
  t["squeeze"] = {[](const Call& c) -> Values { return {squeeze(c[0], c.axes("axes"))}; }};
  t["expand_dims"] = {[](const Call& c) -> Values { return {expand_dims(c[0], c.axes("axes"))}; }};
  t["swapaxes"] = {[](const Call& c) -> Values { return {swapaxes(c[0], c.integer("a", 0), c.integer("b", 0))}; }};
  t["moveaxis"] = {[](const Call& c) -> Values { return {moveaxis(c[0], c.axes("from"), c.axes("to"))}; }};
  t["flatten"] = {[](const Call& c) -> Values { return {flatten(c[0], c.integer("start", 0), c.integer("end", -1))}; }};
  t["ravel"] = {[](const Call& c) -> Values { return {ravel(c[0])}; }};
  t["atleast_1d"] = {[](const Call& c) -> Values { return {atleast_1d(c[0])}; }};
  t["atleast_2d"] = {[](const Call& c) -> Values { return {atleast_2d(c[0])}; }};
  t["atleast_3d"] = {[](const Call& c) -> Values { return {atleast_3d(c[0])}; }};
  t["reverse"] = {[](const Call& c) -> Values { return {reverse(c[0], c.axes("axes"))}; }};
  t["flip"] = {[](const Call& c) -> Values { return {flip(c[0], c.axes("axes"))}; }};
  t["fliplr"] = {[](const Call& c) -> Values { return {fliplr(c[0])}; }};
  t["flipud"] = {[](const Call& c) -> Values { return {flipud(c[0])}; }};
  t["rot90"] = {[](const Call& c) -> Values {
    return {c.has("axes") ? rot90(c[0], c.integer("k", 1), c.axes("axes")) : rot90(c[0], c.integer("k", 1))};
  }};
  t["roll"] = {[](const Call& c) -> Values { return {roll(c[0], c.axes("shift"), c.axes("axes"))}; }};
}

static std::vector<Padding> paddings(const Call& c) {
  std::vector<Padding> out;
  for (const json& p : c.options.at("widths"))
    out.push_back({p.at(0).get<int64_t>(), p.at(1).get<int64_t>(), p.at(2).get<int64_t>()});
  return out;
}

static void add_joins(Table& t) {
  t["tile"] = {[](const Call& c) -> Values { return {tile(c[0], c.axes("reps"))}; }};
  t["repeat"] = {[](const Call& c) -> Values {
    if (c.options.at("times").is_number()) return {repeat(c[0], c.integer("times", 1), c.axis())};
    return {repeat(c[0], c.list("times"), c.axis())};
  }};
  t["repeat by a tensor"] = {[](const Call& c) -> Values { return {repeat(c[0], c[1], c.axis())}; }, false};
  t["space_to_depth"] = {[](const Call& c) -> Values { return {space_to_depth(c[0], c.integer("block", 2))}; }};
  t["depth_to_space"] = {[](const Call& c) -> Values { return {depth_to_space(c[0], c.integer("block", 2))}; }};
  t["pad"] = {[](const Call& c) -> Values {
    if (c.has("mode")) return {pad(c[0], paddings(c), pad_mode(c.text("mode")))};
    if (c.in.size() > 1) return {pad(c[0], paddings(c), c[1])};
    return {pad(c[0], paddings(c))};
  }};
  t["concat"] = {[](const Call& c) -> Values { return {concat(c.in, c.integer("axis", 0))}; }};
  t["stack"] = {[](const Call& c) -> Values { return {stack(c.in, c.integer("axis", 0))}; }};
  t["hstack"] = {[](const Call& c) -> Values { return {hstack(c.in)}; }};
  t["vstack"] = {[](const Call& c) -> Values { return {vstack(c.in)}; }};
  t["dstack"] = {[](const Call& c) -> Values { return {dstack(c.in)}; }};
  t["split"] = {[](const Call& c) -> Values { return split(c[0], c.integer("parts", 1), c.integer("axis", 0)); }};
  t["split_at"] = {[](const Call& c) -> Values { return split_at(c[0], c.list("places"), c.integer("axis", 0)); }};
  t["array_split"] = {
      [](const Call& c) -> Values { return array_split(c[0], c.integer("parts", 1), c.integer("axis", 0)); }};
  t["unstack"] = {[](const Call& c) -> Values { return unstack(c[0], c.integer("axis", 0)); }};
}

static ScatterMode scatter_mode(const Call& c) {
  const std::string m = c.text("mode", "set");
  return m == "set"        ? ScatterMode::set
         : m == "add"      ? ScatterMode::add
         : m == "multiply" ? ScatterMode::multiply
         : m == "min"      ? ScatterMode::min
                           : ScatterMode::max;
}

static GatherAttrs gather_attrs(const Call& c) {
  return {c.dims("axes"), c.dims("batch_axes"), c.dims("batch_dims"), c.integer("at", 0)};
}

// An entry of numpy's index: a number, [start or null, stop or null, step], "...", "new", or {"tensor": operand}.
static Index index_entry(const json& e, const Call& c) {
  if (e.is_number()) return Index(e.get<int64_t>());
  if (e.is_object()) return Index(c[e.at("tensor").get<size_t>()]);
  if (e.is_string()) return e == "..." ? Index(ellipsis) : e == "new" ? Index(newaxis) : Index(all);
  Slice s;
  if (!e.at(0).is_null()) s.start = e.at(0).get<int64_t>();
  if (!e.at(1).is_null()) s.stop = e.at(1).get<int64_t>();
  s.step = e.at(2);
  return Index(s);
}

static Values indexed(const Call& c) {
  Index at[8];
  size_t n = 0;
  for (const json& e : c.options.at("index")) at[n++] = index_entry(e, c);
  if (!c.has("mode")) return {c[0](at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7])};
  IndexedTensor place = c[0].at(at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7]);
  const Tensor& value = c.in.back();
  const std::string mode = c.text("mode");
  if (mode == "get") return {std::move(place).get()};
  if (mode == "set") return {std::move(place).set(value)};
  if (mode == "add") return {std::move(place).add(value)};
  if (mode == "multiply") return {std::move(place).multiply(value)};
  if (mode == "min") return {std::move(place).min(value)};
  if (mode == "max") return {std::move(place).max(value)};
  throw std::runtime_error("no way to update is called " + mode);
}

static void add_indexing(Table& t) {
  t["gather"] = {[](const Call& c) -> Values { return {gather(c[0], c.rest(1), gather_attrs(c))}; }};
  t["scatter"] = {
      [](const Call& c) -> Values { return {scatter(c[0], c.rest(2), c[1], gather_attrs(c), scatter_mode(c))}; }};
  t["take"] = {[](const Call& c) -> Values { return {take(c[0], c[1], c.axis())}; }};
  t["take_along_axis"] = {[](const Call& c) -> Values { return {take_along_axis(c[0], c[1], c.integer("axis", 0))}; }};
  t["put_along_axis"] = {[](const Call& c) -> Values {
    return {put_along_axis(c[0], c[1], c[2], c.integer("axis", 0), scatter_mode(c))};
  }};
  t["gather_nd"] = {[](const Call& c) -> Values { return {gather_nd(c[0], c[1])}; }};
  t["segment_sum"] = {[](const Call& c) -> Values { return {segment_sum(c[0], c[1], c.integer("segments", 1))}; }};
  t["nonzero"] = {[](const Call& c) -> Values { return nonzero(c[0]); }, false};
  t["argwhere"] = {[](const Call& c) -> Values { return {argwhere(c[0])}; }, false};
  t["boolean_mask"] = {[](const Call& c) -> Values { return {boolean_mask(c[0], c[1], c.integer("axis", 0))}; }, false};
  t["index"] = {indexed};
  t["index by mask"] = {indexed, false};  // the size of the result depends on values
}

static void add_products(Table& t) {
  t["dot_general"] = {[](const Call& c) -> Values {
    return {dot_general(c[0], c[1],
                        {c.dims("lhs_contract"), c.dims("rhs_contract"), c.dims("lhs_batch"), c.dims("rhs_batch")})};
  }};
  t["matmul"] = {[](const Call& c) -> Values { return {matmul(c[0], c[1])}; }};
  t["einsum"] = {[](const Call& c) -> Values { return {einsum(c.text("equation"), c.in)}; }};
  t["tensordot"] = {[](const Call& c) -> Values {
    if (c.has("a_axes")) return {tensordot(c[0], c[1], c.axes("a_axes"), c.axes("b_axes"))};
    return {tensordot(c[0], c[1], int(c.integer("axes", 2)))};
  }};
  t["dot"] = {[](const Call& c) -> Values { return {dot(c[0], c[1])}; }};
  t["vdot"] = {[](const Call& c) -> Values { return {vdot(c[0], c[1])}; }};
  t["inner"] = {[](const Call& c) -> Values { return {inner(c[0], c[1])}; }};
  t["outer"] = {[](const Call& c) -> Values { return {outer(c[0], c[1])}; }};
  t["kron"] = {[](const Call& c) -> Values { return {kron(c[0], c[1])}; }};
  t["cross"] = {[](const Call& c) -> Values { return {cross(c[0], c[1], int(c.integer("axis", -1)))}; }};
  t["diagonal"] = {[](const Call& c) -> Values {
    return {diagonal(c[0], int(c.integer("offset", 0)), int(c.integer("axis1", 0)), int(c.integer("axis2", 1)))};
  }};
  t["diag"] = {[](const Call& c) -> Values { return {diag(c[0], int(c.integer("offset", 0)))}; }};
  t["trace"] = {[](const Call& c) -> Values {
    return {trace(c[0], int(c.integer("offset", 0)), int(c.integer("axis1", 0)), int(c.integer("axis2", 1)))};
  }};
  t["diag_embed"] = {[](const Call& c) -> Values {
    return {diag_embed(c[0], int(c.integer("offset", 0)), c.integer("axis1", -2), c.integer("axis2", -1))};
  }};
  t["matrix_transpose"] = {[](const Call& c) -> Values { return {matrix_transpose(c[0])}; }};
}

void add_shapes(Table& t) {
  add_creation(t);
  add_views(t);
  add_joins(t);
  add_indexing(t);
  add_products(t);
}

}  // namespace oracle
