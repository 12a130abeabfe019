// The comparison behind gradcheck(): a table of real derivatives, of each part of each result's elements by each part
// of each input's, computed in three ways. A complex element has two parts.
#include "rill/autodiff/gradcheck.h"

#include <fmt/format.h>

#include <cmath>

#include "rill/ops/enclosing_trace.h"
#include "rill/ops/ops.h"

namespace rill::detail {

namespace {

// Derivatives of all parts of the results (rows) by all parts of the inputs (columns).
using Column = std::vector<double>;
using JacobianTable = std::vector<Column>;  // by column

// One part of one element of one tensor in a list.
struct Part {
  size_t tensor;
  int64_t element;
  bool imaginary;
};

std::vector<Part> parts_of(std::span<const Tensor> ts) {
  std::vector<Part> parts;
  for (size_t k = 0; k < ts.size(); ++k) {
    if (!ts[k].defined() || !is_differentiable(ts[k].dtype())) continue;
    for (int64_t i = 0; i < ts[k].size(); ++i)
      for (int part = 0; part < (is_complex(ts[k].dtype()) ? 2 : 1); ++part) parts.push_back({k, i, part == 1});
  }
  return parts;
}

// Zeros except for `size` in one part.
Tensor unit(const Spec& s, const Part& p, double size) {
  const Tensor there = (arange(s.shape.numel()) == p.element).reshape(s.shape);
  const Tensor real = where(there, size, 0.0).astype(is_complex(s.dtype) ? real_of(s.dtype) : s.dtype);
  if (!is_complex(s.dtype)) return real.to(s.device);
  return (p.imaginary ? complex(zeros_like(real), real) : complex(real, zeros_like(real))).to(s.device);
}

// The values of the parts, in f64. Tensors without readable elements give zeros.
Column values_of(std::span<const Tensor> ts) {
  Column all;
  for (const Tensor& t : ts) {
    if (!t.defined() || !is_differentiable(t.dtype())) continue;
    const bool two = is_complex(t.dtype());
    const std::vector<double> re = real(t).astype(f64).to_vector<double>();
    const std::vector<double> im = two ? imag(t).astype(f64).to_vector<double>() : std::vector<double>();
    for (size_t i = 0; i < re.size(); ++i) {
      all.push_back(re[i]);
      if (two) all.push_back(im[i]);
    }
  }
  return all;
}

JacobianTable by_differences(const FlatFunction& f, const std::vector<Tensor>& in, double eps) {
  JacobianTable table;
  for (const Part& p : parts_of(in)) {
    std::vector<Tensor> moved = in;
    moved[p.tensor] = in[p.tensor] + unit(in[p.tensor].spec(), p, eps);
    const Column above = values_of(f(moved));
    const Column high = values_of(moved);
    moved[p.tensor] = in[p.tensor] - unit(in[p.tensor].spec(), p, eps);
    Column slope = values_of(f(moved));
    const Column low = values_of(moved);
    const size_t at = table.size();
    for (size_t k = 0; k < slope.size(); ++k) slope[k] = (above[k] - slope[k]) / (high[at] - low[at]);
    table.push_back(std::move(slope));
  }
  return table;
}

JacobianTable by_tangents(const FlatFunction& f, const std::vector<Tensor>& in, const Where& where) {
  JacobianTable table;
  for (const Part& p : parts_of(in)) {
    std::vector<Tensor> fresh_in = in;
    fresh_in[p.tensor] = fresh("gradcheck", in[p.tensor], where);
    ForwardAccumulator along(fresh_in[p.tensor], unit(in[p.tensor].spec(), p, 1), where);
    std::vector<Tensor> tangents;
    for (const Tensor& y : f(fresh_in))
      tangents.push_back(y.defined() && is_differentiable(y.dtype()) ? along.jvp(y, Unconnected::zero, where)
                                                                     : Tensor());
    table.push_back(values_of(tangents));
  }
  return table;
}

// The tape's inputs and results, persistent.
struct Recorded {
  GradientTape tape{{.persistent = true, .watch_variables = false}};
  std::vector<Tensor> in, out;
  std::vector<Source> sources;
  Recorded(const FlatFunction& f, const std::vector<Tensor>& given, const Where& where) : in(given) {
    for (Tensor& t : in) {
      if (!t.defined() || !is_differentiable(t.dtype())) continue;
      t = fresh("gradcheck", t, where);
      tape.watch(t, where);
      sources.emplace_back(t);
    }
    out = f(in);
    tape.stop();
  }
};

JacobianTable by_gradients(const FlatFunction& f, const std::vector<Tensor>& in, const Where& where) {
  Recorded r(f, in, where);
  JacobianTable table(parts_of(in).size());
  for (const Part& p : parts_of(r.out)) {
    const Tensor& y = r.out[p.tensor];
    const Column row = values_of(
        r.tape.gradient(std::vector<Tensor>{y}, r.sources,
                        {.unconnected = Unconnected::zero, .output_gradients = {unit(y.spec(), p, 1)}}, where));
    for (size_t k = 0; k < row.size(); ++k) table[k].push_back(row[k]);
  }
  return table;
}

// The index of element `i` of a shape.
Shape index_of(const Shape& shape, int64_t i) {
  Shape at(shape);
  for (size_t k = shape.size(); k-- > 0;) {
    at[k] = i % int64_t(shape[k]);
    i /= int64_t(shape[k]);
  }
  return at;
}

// " [1, 0]"
std::string print_index(const Shape& at) {
  std::string text;
  for (const int64_t i : at) text += fmt::format("{}{}", text.empty() ? " [" : ", ", i);
  return text.empty() ? text : text + "]";
}

struct Allowed {
  double eps, rtol, atol;
};

Allowed allowed_for(std::span<const Tensor> in, const GradCheckOptions& o) {
  Allowed a{1e-6, 1e-3, 1e-5};
  for (const Tensor& t : in) {
    if (!t.defined() || !is_differentiable(t.dtype())) continue;
    if (real_of(t.dtype()) == f32) a = {std::max(a.eps, 1e-3), std::max(a.rtol, 1e-2), std::max(a.atol, 1e-2)};
    if (is_half(t.dtype())) a = {0.02, 0.1, 0.1};
  }
  return {o.eps.value_or(a.eps), o.rtol.value_or(a.rtol), o.atol.value_or(a.atol)};
}

// Notes in `check` where the table differs from the expected one.
void compare(GradCheck& check, const char* mode, const JacobianTable& given, const JacobianTable& expected,
             std::span<const Tensor> in, std::span<const Tensor> out, const Allowed& allowed) {
  const std::vector<Part> columns = parts_of(in), rows = parts_of(out);
  double worst = check.ok ? 0 : std::abs(check.difference) / (allowed.atol + allowed.rtol * std::abs(check.expected));
  for (size_t c = 0; c < columns.size(); ++c)
    for (size_t r = 0; r < rows.size(); ++r) {
      const double got = given[c][r], want = expected[c][r], off = std::abs(got - want);
      const double beyond = off / (allowed.atol + allowed.rtol * std::abs(want));
      ++check.compared;
      if (beyond <= 1) continue;
      ++check.wrong;
      if (beyond <= worst) continue;
      worst = std::isnan(beyond) ? INFINITY : beyond;
      check.ok = false;
      check.mode = mode;
      check.output = rows[r].tensor, check.input = columns[c].tensor;
      check.output_element = index_of(out[check.output].shape(), rows[r].element);
      check.input_element = index_of(in[check.input].shape(), columns[c].element);
      check.given = got, check.expected = want, check.difference = got - want;
    }
}

void describe(GradCheck& check) {
  if (check.ok) {
    check.message = fmt::format("{} derivatives agree with finite differences", check.compared);
    return;
  }
  check.message = fmt::format(
      "{}the {} of output {}{} by input {}{} is {:.9g}, and finite differences give {:.9g}: {:.3g} apart. {} of {} "
      "derivatives differ by more than is allowed, and this one by the most",
      check.order > 1 ? fmt::format("in order {}, ", check.order) : "", check.mode, check.output,
      print_index(check.output_element), check.input, print_index(check.input_element), check.given, check.expected,
      std::abs(check.difference), check.wrong, check.compared);
}

// The gradient of a sum of f's results with fixed weights, by all inputs: its derivatives are f's of the next order.
FlatFunction gradient_of(const FlatFunction& f, const Where& where) {
  return [f, where](std::span<const Tensor> given) {
    GradientTape tape({.watch_variables = false});
    std::vector<Tensor> in(given.begin(), given.end()), targets, seeds;
    std::vector<Source> sources;
    for (Tensor& t : in) {
      if (!t.defined() || !is_differentiable(t.dtype())) continue;
      t = fresh("gradcheck", t, where);
      tape.watch(t, where);
      sources.emplace_back(t);
    }
    for (const Tensor& y : f(in)) {
      if (!y.defined() || !is_differentiable(y.dtype())) continue;
      const Tensor weights = 0.75 + 0.5 * sin(arange(y.size()).astype(f64) + double(targets.size())).reshape(y.shape());
      targets.push_back(y);
      seeds.push_back(is_complex(y.dtype()) ? complex(weights, 0.25 + weights * weights).astype(y.dtype())
                                            : weights.astype(y.dtype()));
    }
    return tape.gradient(targets, sources, {.unconnected = Unconnected::zero, .output_gradients = seeds}, where);
  };
}

}  // namespace

GradCheck run_gradcheck(const FlatFunction& f, std::vector<Tensor> inputs, const GradCheckOptions& options,
                        const Where& where) {
  const CallerScope caller(where, "gradcheck");
  const Allowed allowed = allowed_for(inputs, options);
  if (parts_of(inputs).empty())
    fail("gradcheck", "no input has derivatives: give floating or complex tensors, with elements", where);
  if (options.order < 1) fail("gradcheck", fmt::format("the order is {} and must be 1 or more", options.order), where);
  if (!(allowed.eps > 0)) fail("gradcheck", fmt::format("eps is {} and must be positive", allowed.eps), where);
  if (!executing_eagerly())
    fail("gradcheck", fmt::format("it compares values, which {}. call it outside", EnclosingTrace::why_unknown()),
         where);
  GradCheck check;
  FlatFunction g = f;
  for (check.order = 1; check.order <= options.order; ++check.order) {
    const std::vector<Tensor> out = g(inputs);
    if (values_of(out) != values_of(g(inputs)) && values_of(out) == values_of(out))
      fail("gradcheck", "the function gives other values when it is called again. fix its random draws with a key",
           where);
    const JacobianTable expected = by_differences(g, inputs, allowed.eps);
    compare(check, "gradient", by_gradients(g, inputs, where), expected, inputs, out, allowed);
    if (options.forward) compare(check, "tangent", by_tangents(g, inputs, where), expected, inputs, out, allowed);
    if (!check.ok || check.order == options.order) break;
    g = gradient_of(g, where);
  }
  describe(check);
  return check;
}

}  // namespace rill::detail
