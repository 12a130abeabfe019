// Numerical methods, editing, order statistics, sets and the array API's names, for the cases of numeric.py.
#include "cases.h"

using namespace rill;

namespace oracle {
namespace {

using Unary = Tensor (*)(const Tensor&, Where);
using Binary = Tensor (*)(const Tensor&, const Tensor&, Where);

ConvolveMode mode_of(const Call& c) {
  const std::string m = c.text("mode");
  return m == "full" ? ConvolveMode::full : m == "same" ? ConvolveMode::same : ConvolveMode::valid;
}

void add_names(Table& t) {
  for (auto [name, f] : std::initializer_list<std::pair<const char*, Unary>>{
           {"bitwise_invert", bitwise_invert}, {"positive", positive}, {"ndtr", ndtr}, {"ndtri", ndtri}})
    t[name] = {[f = f](const Call& c) -> Values { return {f(c[0], Where::current())}; }};
  for (auto [name, f] :
       std::initializer_list<std::pair<const char*, Binary>>{{"bitwise_left_shift", bitwise_left_shift},
                                                             {"bitwise_right_shift", bitwise_right_shift},
                                                             {"ldexp", ldexp},
                                                             {"polyval", polyval},
                                                             {"polyadd", polyadd},
                                                             {"polymul", polymul}})
    t[name] = {[f = f](const Call& c) -> Values { return {f(c[0], c[1], Where::current())}; }};
  for (auto [name, f] : std::initializer_list<std::pair<const char*, Binary>>{
           {"union1d", union1d}, {"intersect1d", intersect1d}, {"setdiff1d", setdiff1d}, {"setxor1d", setxor1d}})
    t[name] = {[f = f](const Call& c) -> Values { return {f(c[0], c[1], Where::current())}; }, false};
  t["permute_dims"] = {[](const Call& c) -> Values { return {permute_dims(c[0], c.axes())}; }};
  t["cumulative_sum"] = {[](const Call& c) -> Values {
    return {cumulative_sum(c[0], {.axis = c.axis(), .dtype = c.dtype(), .include_initial = c.flag("initial")})};
  }};
  t["cumulative_prod"] = {[](const Call& c) -> Values {
    return {cumulative_prod(c[0], {.axis = c.axis(), .dtype = c.dtype(), .include_initial = c.flag("initial")})};
  }};
  t["can_cast"] = {[](const Call& c) -> Values { return {Tensor(can_cast(c[0].dtype(), c[1].dtype()))}; }};
  t["result_type"] = {[](const Call& c) -> Values { return {zeros({}, result_type(c.rest(0)))}; }};
  t["isdtype"] = {[](const Call& c) -> Values { return {Tensor(isdtype(c[0].dtype(), c.text("kind")))}; }};
  t["finfo"] = {[](const Call& c) -> Values {
    const FloatInfo i = finfo(c[0].dtype());
    return {tensor({double(i.bits), i.eps, i.max, i.min, i.smallest_normal})};
  }};
  t["iinfo"] = {[](const Call& c) -> Values {
    const IntegerInfo i = iinfo(c[0].dtype());
    return {Tensor(int64_t(i.bits)), Tensor(i.max), Tensor(i.min)};
  }};
}

void add_sets(Table& t) {
  t["isin"] = {[](const Call& c) -> Values { return {isin(c[0], c[1], {.invert = c.flag("invert")})}; }};
  t["unique_values"] = {[](const Call& c) -> Values { return {unique_values(c[0])}; }, false};
  t["unique_counts"] = {[](const Call& c) -> Values {
                          const UniqueCounts u = unique_counts(c[0]);
                          return {u.values, u.counts};
                        },
                        false};
  t["unique_inverse"] = {[](const Call& c) -> Values {
                           const UniqueInverse u = unique_inverse(c[0]);
                           return {u.values, u.inverse};
                         },
                         false};
  t["unique_all"] = {[](const Call& c) -> Values {
                       const Unique u = unique_all(c[0]);
                       return {u.values, u.indices, u.inverse, u.counts};
                     },
                     false};
}

void add_unique_slices(Table& t) {
  t["unique_along"] = {[](const Call& c) -> Values {
                         const Unique u = unique(c[0], *c.axis());
                         return {u.values, u.indices, u.inverse, u.counts};
                       },
                       false};
  t["unique_consecutive"] = {[](const Call& c) -> Values {
                               const Unique u = unique_consecutive(c[0]);
                               return {u.values, u.inverse, u.counts};
                             },
                             false};
}

void add_editing(Table& t) {
  t["append"] = {[](const Call& c) -> Values { return {append(c[0], c[1], c.axis())}; }};
  t["insert"] = {[](const Call& c) -> Values { return {insert(c[0], c.list("places"), c[1], c.axis())}; }};
  t["erase"] = {[](const Call& c) -> Values { return {erase(c[0], c.list("places"), c.axis())}; }};
  t["column_stack"] = {[](const Call& c) -> Values { return {column_stack(c.rest(0))}; }};
  t["block"] = {[](const Call& c) -> Values { return {block({{c[0], c[1]}, {c[2], c[3]}})}; }};
  t["select"] = {[](const Call& c) -> Values { return {select({c[0], c[1]}, {c[2], c[3]}, c[4])}; }};
  t["masked_fill"] = {[](const Call& c) -> Values { return {masked_fill(c[0], c[1], c[2])}; }};
  t["masked_scatter"] = {[](const Call& c) -> Values { return {masked_scatter(c[0], c[1], c[2])}; }};
  t["band_part"] = {
      [](const Call& c) -> Values { return {band_part(c[0], c.integer("lower", -1), c.integer("upper", -1))}; }};
  t["index_add"] = {[](const Call& c) -> Values { return {index_add(c[0], c.integer("axis", 0), c[1], c[2])}; }};
  t["index_copy"] = {[](const Call& c) -> Values { return {index_copy(c[0], c.integer("axis", 0), c[1], c[2])}; }};
  t["index_fill"] = {[](const Call& c) -> Values { return {index_fill(c[0], c.integer("axis", 0), c[1], c[2])}; }};
  for (auto f : {std::pair("segment_prod", &segment_prod), std::pair("segment_mean", &segment_mean),
                 std::pair("segment_max", &segment_max), std::pair("segment_min", &segment_min)})
    t[f.first] = {
        [f](const Call& c) -> Values { return {f.second(c[0], c[1], c.integer("segments", 1), Where::current())}; }};
  for (auto f : {std::pair("tril_indices", &tril_indices), std::pair("triu_indices", &triu_indices)})
    t[f.first] = {[f](const Call& c) -> Values {
      return f.second(c.integer("n", 0), c.integer("k", 0), c.integer("m", 0), Where::current());
    }};
  t["unravel_index"] = {[](const Call& c) -> Values { return unravel_index(c[0], Shape(c.dims("shape"))); }};
  t["ravel_multi_index"] = {
      [](const Call& c) -> Values { return {ravel_multi_index(c.rest(0), Shape(c.dims("shape")))}; }};
  t["packbits"] = {[](const Call& c) -> Values { return {packbits(c[0], c.axis())}; }};
  t["unpackbits"] = {[](const Call& c) -> Values { return {unpackbits(c[0], c.axis())}; }};
}

void add_ordering(Table& t) {
  t["partition"] = {
      [](const Call& c) -> Values { return {partition(c[0], c.integer("k", 0), c.integer("axis", -1))}; }};
  t["argpartition"] = {
      [](const Call& c) -> Values { return {argpartition(c[0], c.integer("k", 0), c.integer("axis", -1))}; }};
  t["lexsort"] = {[](const Call& c) -> Values { return {lexsort(c.rest(0), c.integer("axis", -1))}; }};
  t["kthvalue"] = {[](const Call& c) -> Values {
    const ValuesAt v = kthvalue(c[0], c.integer("k", 1), c.integer("axis", -1), c.flag("keepdims"));
    return {v.values, v.indices};
  }};
  t["mode"] = {[](const Call& c) -> Values {
    const ModeResult m = mode(c[0], c.integer("axis", -1), c.flag("keepdims"));
    return {m.values, m.counts};
  }};
  t["nanargmax"] = {[](const Call& c) -> Values { return {nanargmax(c[0], c.axis(), c.flag("keepdims"))}; }};
  t["nanargmin"] = {[](const Call& c) -> Values { return {nanargmin(c[0], c.axis(), c.flag("keepdims"))}; }};
  t["nancumsum"] = {[](const Call& c) -> Values { return {nancumsum(c[0], c.axis())}; }};
  t["nancumprod"] = {[](const Call& c) -> Values { return {nancumprod(c[0], c.axis())}; }};
  t["nanmedian"] = {[](const Call& c) -> Values {
    return {nanmedian(c[0], ReduceOptions{.axis = c.axes(), .keepdims = c.flag("keepdims")})};
  }};
  t["nanquantile"] = {[](const Call& c) -> Values { return {nanquantile(c[0], c[1], quantile_options(c))}; }};
  t["nanpercentile"] = {[](const Call& c) -> Values {
    return {nanpercentile(c[0], c[1], {.axis = c.axes(), .keepdims = c.flag("keepdims")})};
  }};
}

void add_samples(Table& t) {
  t["interp"] = {[](const Call& c) -> Values {
    InterpOptions o;
    if (c.has("left")) o.left = c.number("left", 0);
    if (c.has("right")) o.right = c.number("right", 0);
    if (c.has("period")) o.period = c.number("period", 0);
    return {interp(c[0], c[1], c[2], o)};
  }};
  t["trapezoid"] = {[](const Call& c) -> Values {
    if (c.in.size() > 1) return {trapezoid(c[0], c[1], c.integer("axis", -1))};
    return {trapezoid(c[0], {.dx = c.number("dx", 1), .axis = c.integer("axis", -1)})};
  }};
  t["cumulative_trapezoid"] = {[](const Call& c) -> Values {
    if (c.in.size() > 1) return {cumulative_trapezoid(c[0], c[1], c.integer("axis", -1))};
    return {cumulative_trapezoid(c[0], {.dx = c.number("dx", 1), .axis = c.integer("axis", -1)})};
  }};
  t["gradient"] = {[](const Call& c) -> Values {
    return gradient(c[0], {.spacing = c.rest(1), .axis = c.axes(), .edge_order = int(c.integer("edge_order", 1))});
  }};
  t["unwrap"] = {[](const Call& c) -> Values {
    UnwrapOptions o{.axis = c.integer("axis", -1)};
    if (c.has("discont")) o.discont = c.number("discont", 0);
    if (c.has("period")) o.period = c.number("period", 0);
    return {unwrap(c[0], o)};
  }};
  t["convolve"] = {[](const Call& c) -> Values { return {convolve(c[0], c[1], mode_of(c))}; }};
  t["correlate"] = {[](const Call& c) -> Values { return {correlate(c[0], c[1], mode_of(c))}; }};
  t["histogramdd"] = {[](const Call& c) -> Values {
                        HistogramNdOptions o;
                        if (c.has("bins")) o.bins = c.list("bins");
                        const std::vector<double> r = c.numbers("range");
                        for (size_t i = 0; i + 1 < r.size(); i += 2) o.range.emplace_back(r[i], r[i + 1]);
                        if (c.flag("given")) o.edges = c.rest(1);
                        else if (c.in.size() > 1) o.weights = c[1];
                        o.density = c.flag("density");
                        HistogramNd h = histogramdd(c[0], o);
                        h.edges.insert(h.edges.begin(), h.counts);
                        return h.edges;
                      },
                      false};
  t["histogram2d"] = {[](const Call& c) -> Values {
                        HistogramNd h = histogram2d(c[0], c[1], {.bins = c.list("bins")});
                        return {h.counts, h.edges.at(0), h.edges.at(1)};
                      },
                      false};
}

void add_choices(Table& t) {
  t["round"] = {[](const Call& c) -> Values {
    return {c.has("decimals") ? round(c[0], c.integer("decimals", 0)) : round(c[0])};
  }};
  t["frac"] = {[](const Call& c) -> Values { return {frac(c[0])}; }};
  t["polar"] = {[](const Call& c) -> Values {
    const Tensor y = polar(c[0], c[1]);
    return {real(y), imag(y)};
  }};
  t["unflatten"] = {
      [](const Call& c) -> Values { return {unflatten(c[0], c.integer("axis", 0), Shape(c.dims("sizes")))}; }};
  t["sliding_window_view"] = {
      [](const Call& c) -> Values { return {sliding_window_view(c[0], c.axes("window"), c.axes("axes"))}; }};
  t["block_diag"] = {[](const Call& c) -> Values { return {block_diag(c.in)}; }};
  t["cartesian_prod"] = {[](const Call& c) -> Values { return {cartesian_prod(c.in)}; }};
  t["combinations"] = {[](const Call& c) -> Values {
    return {combinations(c[0], {.r = c.integer("r", 2), .with_replacement = c.flag("with_replacement")})};
  }};
}

void add_polynomials(Table& t) {
  t["polyder"] = {[](const Call& c) -> Values { return {polyder(c[0], int(c.integer("m", 1)))}; }};
  t["polyint"] = {[](const Call& c) -> Values { return {polyint(c[0], int(c.integer("m", 1)))}; }};
  t["vander"] = {[](const Call& c) -> Values {
    return {vander(c[0], {.n = c.integer("n", 0), .increasing = c.flag("increasing")})};
  }};
  using Window = Tensor (*)(int64_t, const TensorOptions&, Where);
  for (const auto& f : std::initializer_list<std::pair<const char*, Window>>{
           {"bartlett", bartlett}, {"blackman", blackman}, {"hamming", hamming}, {"hanning", hanning}})
    t[f.first] = {
        [f](const Call& c) -> Values { return {f.second(c.integer("n", 0), {.dtype = c.dtype()}, Where::current())}; }};
  t["geomspace"] = {[](const Call& c) -> Values {
    return {geomspace(c.number("start", 1), c.number("stop", 1), c.integer("num", 50), c.flag("endpoint", true),
                      {.dtype = c.dtype()})};
  }};
}

void add_pairwise(Table& t) {
  t["lerp"] = {[](const Call& c) -> Values { return {lerp(c[0], c[1], c[2])}; }};
  t["logit"] = {[](const Call& c) -> Values { return {logit(c[0], c.number("eps", 0))}; }};
  const auto two = [](auto f) {
    return [f](const Call& c) -> Values {
      auto [a, b] = f(c);
      return {a, b};
    };
  };
  t["divmod"] = {two([](const Call& c) { return divmod(c[0], c[1]); })};
  t["modf"] = {two([](const Call& c) { return modf(c[0]); })};
  t["frexp"] = {two([](const Call& c) { return frexp(c[0]); })};
  t["cdist"] = {[](const Call& c) -> Values { return {cdist(c[0], c[1], c.number("p", 2))}; }};
}

}  // namespace

void add_numeric(Table& t) {
  add_names(t), add_sets(t), add_unique_slices(t), add_editing(t), add_ordering(t), add_samples(t), add_polynomials(t),
      add_pairwise(t), add_choices(t);
}

}  // namespace oracle
