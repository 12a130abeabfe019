#include "transforms.h"

#include <stdexcept>

namespace oracle {

using namespace rill;

namespace {

// A case's tensors, as the traced function gets them: those of arguments_of(), separated again.
struct Given {
  Values operands, tangents, cotangents, batch;
};

Given apart(const Case& c, const Values& all) {
  Given out;
  auto at = all.begin();
  for (auto [part, like] :
       {std::pair(&out.operands, &c.in), std::pair(&out.tangents, &c.transforms->tangents),
        std::pair(&out.cotangents, &c.transforms->cotangents), std::pair(&out.batch, &c.transforms->batch)}) {
    part->assign(at, at + int64_t(like->size()));
    at += int64_t(like->size());
  }
  return out;
}

// The sum of squares (of complex numbers, the magnitudes') times weights.
Tensor weighted(const Tensor& weights, const Tensor& y) {
  return is_complex(y.dtype()) ? sum(real(weights) * (square(real(y)) + square(imag(y)))) : sum(weights * square(y));
}

// The function of the operands that a case differentiates, and the scalar whose gradients it checks.
class Program {
 public:
  Program(const Case& c, const Entry& entry, Given given) : case_(c), entry_(entry), given_(std::move(given)) {}

  Values operator()(const Values& x) const {
    Values in = given_.operands;
    for (size_t i = 0; i < x.size(); ++i) in[case_.transforms->by[i]] = x[i];
    const Values all = entry_.call(Call(in, case_.options));
    Values y;
    for (size_t k : case_.transforms->kept) y.push_back(all.at(k));
    return y;
  }
  Tensor loss(const Values& y) const {
    Tensor total = weighted(given_.cotangents.at(0), y.at(0));
    for (size_t k = 1; k < y.size(); ++k) total = total + weighted(given_.cotangents[k], y[k]);
    return total;
  }
  Values at_point() const {
    Values x;
    for (size_t i : case_.transforms->by) x.push_back(given_.operands[i]);
    return x;
  }

 private:
  const Case& case_;
  const Entry& entry_;
  const Given given_;
};

// With another tensor at index i.
Values with(Values x, size_t i, const Tensor& t) {
  x[i] = t;
  return x;
}

// Tangents of what does not depend on the operands are undefined.
Values zeros_for_undefined(const Values& like, Values x) {
  for (size_t i = 0; i < x.size(); ++i)
    if (!x[i].defined()) x[i] = zeros_like(like[i]);
  return x;
}

// Every block: those above the diagonal forward over reverse, those below reverse over reverse.
Values hessians(const Program& f) {
  const Values x = f.at_point();
  auto loss = [&](const Values& v) { return f.loss(f(v)); };
  Values out;
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t j = 0; j < x.size(); ++j) {
      auto slope = [&](const Tensor& by) {
        return grad([&](const Tensor& v) { return loss(with(with(x, j, by), i, v)); })(x[i]);
      };
      if (i == j) out.push_back(hessian([&](const Tensor& v) { return loss(with(x, i, v)); })(x[i]));
      else out.push_back(i < j ? jacfwd(slope)(x[j]) : jacrev(slope)(x[j]));
    }
  return out;
}

MapAxes all_of(const std::vector<std::optional<int64_t>>& axes) {
  switch (axes.size()) {
    case 1: return {axes[0]};
    case 2: return {axes[0], axes[1]};
    default: return {axes[0], axes[1], axes[2]};
  }
}

Values list_of(const Tensor& x) { return {x}; }
Values list_of(const Values& x) { return x; }
template <class... T>
Values list_of(const std::tuple<T...>& x) {
  return std::apply([](const auto&... each) { return Values{each...}; }, x);
}
// For each result, the Jacobians by all arguments, one after the other.
template <class Rows>
Values joined(const std::vector<Rows>& results) {
  Values out;
  for (const Rows& r : results)
    for (const Tensor& t : list_of(r)) out.push_back(t);
  return out;
}

// The function and its arguments as std::vector.
Values of_list(const Case& c, const Program& f, const Given& given, const std::string& name) {
  const Transforms& t = *c.transforms;
  const Values x = f.at_point();
  auto loss = [&](const Values& v) { return f.loss(f(v)); };
  if (name == "jvp") {
    auto [y, dy] = jvp(f, x, given.tangents);
    return zeros_for_undefined(y, dy);
  }
  if (name == "vjp") return vjp(f, x).second(given.cotangents);
  if (name == "jacfwd") return joined(jacfwd(f)(x));
  if (name == "jacrev") return joined(jacrev(f)(x));
  if (name == "hessian") return joined(hessian(loss)(x));
  const VmapOptions rows{.in_axes = t.in_axes.at(0).value()};
  if (name == "vmap") return vmap(f, {.in_axes = rows.in_axes, .out_axes = t.out_axis})(given.batch);
  if (name == "vmap of grad") return vmap(grad(loss), rows)(given.batch);
  return grad([&](const Values& all) { return f.loss(vmap(f, rows)(all)); })(given.batch);
}

template <size_t... i>
auto tuple_of(const Values& x, std::index_sequence<i...>) {
  return std::tuple(x.at(i)...);
}

// The function with so many arguments; derivatives by their indices.
template <size_t... i>
Values of_arguments(const Case& c, const Program& f, const Given& given, const std::string& name,
                    std::index_sequence<i...> numbers) {
  const Transforms& t = *c.transforms;
  const Values x = f.at_point();
  auto each = [&](const std::same_as<Tensor> auto&... v) { return f(Values{v...}); };
  auto loss = [&](const std::same_as<Tensor> auto&... v) { return f.loss(f(Values{v...})); };
  if (name == "jvp") {
    auto [y, dy] = jvp(each, tuple_of(x, numbers), tuple_of(given.tangents, numbers));
    return zeros_for_undefined(y, dy);
  }
  if (name == "vjp") return list_of(vjp(each, tuple_of(x, numbers)).second(given.cotangents));
  if (name == "jacfwd") return joined(jacfwd<i...>(each)(x.at(i)...));
  if (name == "jacrev") return joined(jacrev<i...>(each)(x.at(i)...));
  const MapAxes in_axes = all_of(t.in_axes);
  if (name == "vmap") return vmap(each, {.in_axes = in_axes, .out_axes = t.out_axis})(given.batch.at(i)...);
  if (name == "vmap of grad") return list_of(vmap(grad<i...>(loss), {.in_axes = in_axes})(given.batch.at(i)...));
  auto of_rows = [&](const std::same_as<Tensor> auto&... v) { return f.loss(vmap(each, {.in_axes = in_axes})(v...)); };
  return list_of(grad<i...>(of_rows)(given.batch.at(i)...));
}

}  // namespace

std::vector<std::string> transforms_of(const Case& c) {
  std::vector<std::string> out;
  for (const auto& [name, want] : c.transforms->want)
    if (name == "jacobian") out.insert(out.end(), {"jacfwd", "jacrev"});
    else out.push_back(name);
  return out;
}

const std::vector<Expected>& expected_of(const Case& c, const std::string& transform) {
  return c.transforms->want.at(transform.starts_with("jac") ? "jacobian" : transform);
}

Values arguments_of(const Case& c) {
  Values all = c.in;
  for (const Values* part : {&c.transforms->tangents, &c.transforms->cotangents, &c.transforms->batch})
    all.insert(all.end(), part->begin(), part->end());
  return all;
}

Values transformed(const Case& c, const Entry& entry, const std::string& transform, const Values& arguments) {
  const Given given = apart(c, arguments);
  const Program f(c, entry, given);
  if (c.transforms->list) return of_list(c, f, given, transform);
  if (transform == "hessian") return hessians(f);
  switch (c.transforms->by.size()) {
    case 1: return of_arguments(c, f, given, transform, std::index_sequence<0>());
    case 2: return of_arguments(c, f, given, transform, std::index_sequence<0, 1>());
    case 3: return of_arguments(c, f, given, transform, std::index_sequence<0, 1, 2>());
    default: throw std::runtime_error("more than three arguments go in a list");
  }
}

}  // namespace oracle
