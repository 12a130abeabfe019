// numpy's functions beyond those of table_numeric.cpp, for the cases of arrays.py.
#include "cases.h"

using namespace rill;

namespace oracle {
namespace {

void add_splitting(Table& t) {
  t["hsplit"] = {[](const Call& c) -> Values { return hsplit(c[0], c.integer("parts", 1)); }};
  t["vsplit"] = {[](const Call& c) -> Values { return vsplit(c[0], c.integer("parts", 1)); }};
  t["dsplit"] = {[](const Call& c) -> Values { return dsplit(c[0], c.integer("parts", 1)); }};
  t["diagflat"] = {[](const Call& c) -> Values { return {diagflat(c[0], int(c.integer("k", 0)))}; }};
  t["ediff1d"] = {[](const Call& c) -> Values {
    if (c.in.size() == 1) return {ediff1d(c[0])};
    return {ediff1d(c[0], c[1], c[2])};
  }};
}

void add_tests(Table& t) {
  using Unary = Tensor (*)(const Tensor&, Where);
  for (auto [name, f] : std::initializer_list<std::pair<const char*, Unary>>{{"isposinf", isposinf},
                                                                             {"isneginf", isneginf},
                                                                             {"isreal", isreal},
                                                                             {"iscomplex", iscomplex},
                                                                             {"bitwise_count", bitwise_count},
                                                                             {"spacing", spacing}})
    t[name] = {[f = f](const Call& c) -> Values { return {f(c[0], Where::current())}; }};
  t["float_power"] = {[](const Call& c) -> Values { return {float_power(c[0], c[1])}; }};
  t["array_equiv"] = {[](const Call& c) -> Values { return {Tensor(array_equiv(c[0], c[1]))}; }, false};
}

void add_places(Table& t) {
  t["flatnonzero"] = {[](const Call& c) -> Values { return {flatnonzero(c[0])}; }, false};
  t["trim_zeros"] = {[](const Call& c) -> Values {
                       const std::string trim = c.text("trim");
                       const auto has = [&](char end) { return trim.find(end) != std::string::npos; };
                       return {trim_zeros(c[0], {.front = has('f'), .back = has('b')})};
                     },
                     false};
  t["diag_indices"] = {[](const Call& c) -> Values { return diag_indices(c.integer("n", 0), c.integer("ndim", 2)); }};
  t["ix_"] = {[](const Call& c) -> Values { return ix_(c.in); }, false};
  t["choose"] = {[](const Call& c) -> Values { return {choose(c[0], c.rest(1))}; }};
}

void add_products(Table& t) {
  t["matvec"] = {[](const Call& c) -> Values { return {matvec(c[0], c[1])}; }};
  t["vecmat"] = {[](const Call& c) -> Values { return {vecmat(c[0], c[1])}; }};
  t["polysub"] = {[](const Call& c) -> Values { return {polysub(c[0], c[1])}; }};
  t["polydiv"] = {[](const Call& c) -> Values {
    const PolyDivision d = polydiv(c[0], c[1]);
    return {d.quotient, d.remainder};
  }};
  t["poly"] = {[](const Call& c) -> Values { return {poly(c[0])}; }};
  // The sums of their powers, since roots have no order.
  t["roots"] = {[](const Call& c) -> Values {
                  const Tensor r = roots(c[0]);
                  std::vector<Tensor> sums;
                  for (int k = 0; k < 4; ++k) sums.push_back(sum(power(r, k)));
                  return {stack(sums)};
                },
                false};
  t["linalg::tensorsolve"] = {[](const Call& c) -> Values { return {linalg::tensorsolve(c[0], c[1])}; }};
  t["linalg::tensorinv"] = {[](const Call& c) -> Values { return {linalg::tensorinv(c[0], c.integer("ind", 2))}; }};
}

}  // namespace

void add_arrays(Table& t) { add_splitting(t), add_tests(t), add_places(t), add_products(t); }

}  // namespace oracle
