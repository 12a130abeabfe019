// A call of a public function with arguments from fuzz_api.h: the entries of the tables of functions.
#pragma once
#include <tuple>

#include "fuzz_api.h"

namespace fuzz {

// --- What calls give -------------------------------------------------------------------------------------------------

using Results = std::vector<Tensor>;

inline void add(Results& out, const Tensor& t) { out.push_back(t); }
inline void add(Results& out, const std::vector<Tensor>& list) { out.insert(out.end(), list.begin(), list.end()); }
inline void add(Results& out, const std::pair<Tensor, Tensor>& p) { out.insert(out.end(), {p.first, p.second}); }
inline void add(Results& out, const TopK& t) { out.insert(out.end(), {t.values, t.indices}); }
inline void add(Results& out, const Unique& u) { out.insert(out.end(), {u.values, u.indices, u.inverse, u.counts}); }
inline void add(Results& out, const linalg::Slogdet& y) { out.insert(out.end(), {y.sign, y.logabsdet}); }
inline void add(Results& out, const linalg::Qr& y) { out.insert(out.end(), {y.q, y.r}); }
inline void add(Results& out, const linalg::Lu& y) { out.insert(out.end(), {y.p, y.l, y.u}); }
inline void add(Results& out, const linalg::Svd& y) { out.insert(out.end(), {y.u, y.s, y.vh}); }
inline void add(Results& out, const linalg::Eigen& y) { out.insert(out.end(), {y.eigenvalues, y.eigenvectors}); }
inline void add(Results& out, const BatchNormResult& b) { out.insert(out.end(), {b.y, b.mean, b.variance}); }
inline void add(Results& out, const SineCosine& y) { out.insert(out.end(), {y.sine, y.cosine}); }
inline void add(Results& out, const AiryFunctions& y) { out.insert(out.end(), {y.ai, y.ai_slope, y.bi, y.bi_slope}); }
inline void add(Results& out, const PolyDivision& y) { out.insert(out.end(), {y.quotient, y.remainder}); }
inline void add(Results& out, const IndexedPool& p) { out.insert(out.end(), {p.values, p.indices}); }
inline void add(Results& out, const Moments& m) { out.insert(out.end(), {m.mean, m.variance}); }
inline void add(Results& out, const AdamUpdate& u) { out.insert(out.end(), {u.value, u.m, u.v}); }
inline void add(Results& out, const ClippedGradients& g) { add(out, g.gradients), add(out, g.norm); }
inline void add(Results& out, const std::vector<random::Key>& keys) {
  if (!keys.empty()) out.push_back(keys.back().value());
}
inline void add(Results& out, const random::Key& key) { out.push_back(key.value()); }
inline void add(Results&, const auto&) {}

template <class... A, class F>
Results call(Arguments& a, F&& f) {
  const std::tuple<A...> args{a.make<A>()...};
  Results out;
  add(out, std::apply(f, args));
  return out;
}

struct Function {
  const char* name;
  Results (*run)(Arguments&);
};
#define RUN(name, expression, ...) \
  {name, [](Arguments& a) { return call<__VA_ARGS__>(a, [](const auto&... x) { return expression; }); }}
#define FN(name, ...) RUN(#name, name(x...), __VA_ARGS__)
#define UNARY(name) FN(name, Tensor)
#define BINARY(name) FN(name, Tensor, Tensor)
#define REDUCTION(name) FN(name, Tensor, ReduceOptions)
#define LINE(name)                                                                                              \
  {#name, [](Arguments& a) {                                                                                    \
     return call<Tensor, int64_t, int64_t, int64_t>(                                                            \
         a, [](const Tensor& x, auto n, auto axis, auto norm) { return name(x, fft_options(n, axis, norm)); }); \
   }}
#define GRID(name, options)                                                                                         \
  {#name, [](Arguments& a) {                                                                                        \
     return call<Tensor, Shape, Axes, int64_t>(a, [](const Tensor& x, const auto& s, const auto& axes, auto norm) { \
       return name(x, options(s, axes, norm));                                                                      \
     });                                                                                                            \
   }}
#define OPERATOR(symbol) \
  {"operator" #symbol,   \
   [](Arguments& a) { return call<Tensor, Tensor>(a, [](const Tensor& x, const Tensor& y) { return x symbol y; }); }}

}  // namespace fuzz
