// Special functions and distributions with parameters, for the cases of special.py.
#include "cases.h"

using namespace rill;

namespace oracle {
namespace {

void add_functions(Table& t) {
  using Unary = Tensor (*)(const Tensor&, Where);
  for (auto [name, f] : std::initializer_list<std::pair<const char*, Unary>>{{"j0", j0},
                                                                             {"j1", j1},
                                                                             {"y0", y0},
                                                                             {"y1", y1},
                                                                             {"i0", i0},
                                                                             {"i1", i1},
                                                                             {"i0e", i0e},
                                                                             {"i1e", i1e},
                                                                             {"k0", k0},
                                                                             {"k1", k1},
                                                                             {"erfcx", erfcx},
                                                                             {"tgamma", tgamma},
                                                                             {"factorial", factorial},
                                                                             {"log_ndtr", log_ndtr},
                                                                             {"erfcinv", erfcinv},
                                                                             {"lambertw", lambertw},
                                                                             {"k0e", k0e},
                                                                             {"k1e", k1e},
                                                                             {"exp1", exp1},
                                                                             {"expi", expi},
                                                                             {"dawsn", dawsn},
                                                                             {"ellipk", ellipk},
                                                                             {"ellipe", ellipe},
                                                                             {"entr", entr}})
    t[name] = {[f = f](const Call& c) -> Values { return {f(c[0], Where::current())}; }};
  using Binary = Tensor (*)(const Tensor&, const Tensor&, Where);
  for (auto [name, f] : std::initializer_list<std::pair<const char*, Binary>>{{"igamma", igamma},
                                                                              {"igammac", igammac},
                                                                              {"zeta", zeta},
                                                                              {"polygamma", polygamma},
                                                                              {"betaln", betaln},
                                                                              {"beta", beta},
                                                                              {"binom", binom},
                                                                              {"xlog1py", xlog1py},
                                                                              {"rel_entr", rel_entr},
                                                                              {"kl_div", kl_div},
                                                                              {"jv", jv},
                                                                              {"iv", iv},
                                                                              {"kv", kv},
                                                                              {"spherical_jn", spherical_jn}})
    t[name] = {[f = f](const Call& c) -> Values { return {f(c[0], c[1], Where::current())}; }};
  const auto two = [](SineCosine f) -> Values { return {f.sine, f.cosine}; };
  t["sici"] = {[two](const Call& c) { return two(sici(c[0])); }};
  t["fresnel"] = {[two](const Call& c) { return two(fresnel(c[0])); }};
  t["airy"] = {[](const Call& c) -> Values {
    const AiryFunctions a = airy(c[0]);
    return {a.ai, a.ai_slope, a.bi, a.bi_slope};
  }};
  t["eval_legendre"] = {[](const Call& c) -> Values { return {eval_legendre(c.integer("n", 0), c[0])}; }};
  t["eval_chebyt"] = {[](const Call& c) -> Values { return {eval_chebyt(c.integer("n", 0), c[0])}; }};
  t["eval_hermite"] = {[](const Call& c) -> Values { return {eval_hermite(c.integer("n", 0), c[0])}; }};
  t["betainc"] = {[](const Call& c) -> Values { return {betainc(c[0], c[1], c[2])}; }};
  t["multigammaln"] = {[](const Call& c) -> Values { return {multigammaln(c[0], c.integer("p", 1))}; }};
}

void add_signals(Table& t) {
  t["stft"] = {[](const Call& c) -> Values {
    StftOptions o{.hop_length = c.integer("hop", 0),
                  .win_length = c.integer("win", 0),
                  .center = c.flag("center", true),
                  .zero_pad = c.text("pad", "reflect") == "constant",
                  .normalized = c.flag("normalized")};
    if (c.in.size() > 1) o.window = c[1];
    if (c.text("pad") == "replicate") o.pad_mode = PadMode::edge;
    if (c.has("onesided")) o.onesided = c.flag("onesided");
    return {stft(c[0], c.integer("n_fft", 1), o)};
  }};
  t["istft"] = {[](const Call& c) -> Values {
    IstftOptions o{.hop_length = c.integer("hop", 0),
                   .win_length = c.integer("win", 0),
                   .center = c.flag("center", true),
                   .normalized = c.flag("normalized"),
                   .onesided = c.flag("onesided", true)};
    if (c.in.size() > 1) o.window = c[1];
    if (c.has("length")) o.length = c.integer("length", 0);
    return {istft(c[0], c.integer("n_fft", 1), o)};
  }};
  t["kaiser"] = {
      [](const Call& c) -> Values { return {kaiser(c.integer("n", 0), c.number("beta", 0), {.dtype = c.dtype()})}; }};
  t["polyfit"] = {[](const Call& c) -> Values {
    PolyfitOptions o;
    if (c.in.size() > 2) o.weights = c[2];
    return {polyfit(c[0], c[1], c.integer("degree", 1), o)};
  }};
}

Tensor special_draw(const Call& c) {
  const std::string kind = c.text("kind");
  const random::RandomOptions o{.dtype = c.dtype(), .key = random::Key(uint64_t(c.integer("key", 1)))};
  const Shape n = c.dims("shape");
  const double a = c.number("a", 1), b = c.number("b", 1);
  if (kind == "gamma") return random::gamma(a, n, o);
  if (kind == "log_gamma") return random::log_gamma(a, n, o);
  if (kind == "beta") return random::beta(a, b, n, o);
  if (kind == "chisquare") return random::chisquare(a, n, o);
  if (kind == "student_t") return random::student_t(a, n, o);
  if (kind == "logistic") return random::logistic(n, o);
  if (kind == "rayleigh") return random::rayleigh(n, o);
  if (kind == "weibull") return random::weibull(a, n, o);
  if (kind == "pareto") return random::pareto(a, n, o);
  if (kind == "poisson") return random::poisson(c[0], n, o);
  if (kind == "binomial") return random::binomial(c[0], c[1], n, o);
  return random::geometric(c[0], n, o);
}

void add_special_draws(Table& t) {
  for (const char* name :
       {"gamma", "log_gamma", "beta", "chisquare", "student_t", "logistic", "rayleigh", "weibull", "pareto"})
    t[std::string("random::") + name] = {[](const Call& c) -> Values {
      const Tensor x = special_draw(c).astype(f64).reshape({-1});
      return {quantile(x, tensor(c.numbers("q"))), mean(x)};
    }};
  // How often each of 0, 1, ... was drawn; larger ones are not counted.
  for (const char* name : {"poisson", "binomial", "geometric"})
    t[std::string("random::") + name] = {[](const Call& c) -> Values {
      const int64_t length = c.integer("length", 2);
      return {
          bincount(minimum(special_draw(c).astype(i64).reshape({-1}), length), {.length = length + 1})(slice(length))};
    }};
}

}  // namespace

void add_special(Table& t) { add_functions(t), add_signals(t), add_special_draws(t); }

}  // namespace oracle
