// Compiled code gives eager code's bits: every elementwise op after every other, and random chains of them, over
// special values, in each float dtype. RILL_PAIR_SHARE=n compares one pair in n (1: all), RILL_CHAIN_COUNT=n so many
// chains (a million take processes of their own), RILL_CHAIN_SEED=n from that seed on. RILL_TEST_TURN=n takes other
// pairs and chains. A failure prints the shortest part of a chain that still fails. RILL_ISA=avx2 in the environment
// makes all of it code for an older processor.
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>

#include "catch.h"
#include "child.h"
#include "elementwise_forms.h"
#include "needs.h"
#include "rill/trace/jit.h"

using namespace forms;

namespace {

// What is compiled here is not left in the user's cache.
const bool no_disk = [] { return setenv("RILL_CACHE_DIR", "/dev/null", 1) == 0; }();

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

using Values = std::vector<Tensor>;
using Body = std::function<Values(const Values&)>;

// Eager results and those of compiled code.
struct Both {
  Values eager, compiled;
};
Both run_both(const Body& body, const Values& in) {
  jit::set_mode(jit::Mode::wait);
  auto f = function("forms", [&](const Values& v) { return body(v); });
  f(in);
  return {body(in), f(in)};
}

std::string element(const Tensor& t, int64_t i) { return to_string(t.reshape({-1})(i)); }

// Where `a` and `b` differ, and what x and y are there; "" where they do not.
std::string difference(const Tensor& a, const Tensor& b, const Grid& g) {
  const int64_t i = first_difference(a, b);
  if (i < 0) return "";
  std::string text = "eager " + element(a, i) + ", compiled " + element(b, i) + " (" + to_string(a.spec()) + ")";
  if (a.size() == g.x.size()) text += " where x = " + element(g.x, i) + ", y = " + element(g.y, i);
  if (is_floating(a.dtype())) text += "; signs " + element(signbit(a), i) + ", " + element(signbit(b), i);
  return text;
}

// Calls made(k) for k < n in groups, each group one traced function; says what differs of which.
void compare_groups(const std::vector<std::function<Tensor(const Tensor&, const Tensor&)>>& made, const Grid& g,
                    size_t group, const std::function<std::string(size_t)>& text, std::string& wrong) {
  for (size_t first = 0; first < made.size(); first += group) {
    const size_t end = std::min(made.size(), first + group);
    const Both r = run_both(
        [&](const Values& v) {
          Values out;
          for (size_t k = first; k < end; ++k) out.push_back(made[k](v[0], v[1]));
          return out;
        },
        {g.x, g.y});
    for (size_t k = first; k < end; ++k)
      if (std::string d = difference(r.eager[k - first], r.compiled[k - first], g); !d.empty() && wrong.size() < 8000)
        wrong += text(k) + ": " + d + "\n";
  }
}

// A number made of the words, the same everywhere.
uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t h = (a + 1) * 0x9e3779b97f4a7c15u ^ (b + 1) * 0xc2b2ae3d27d4eb4fu;
  h ^= h >> 29;
  h *= 0xbf58476d1ce4e5b9u;
  return h ^ h >> 32;
}

}  // namespace

// --- Programs that compiled code once got wrong ----------------------------------------------------------------------

namespace {

// Each of them in each float dtype, over all pairs of special values.
void compare_named(const std::vector<Form>& programs) {
  std::string wrong;
  for (DType d : {f32, f64, f16, bf16}) {
    std::vector<std::function<Tensor(const Tensor&, const Tensor&)>> made;
    for (const Form& f : programs) made.push_back(f.run);
    compare_groups(
        made, special_pairs(d), 40, [&](size_t k) { return std::string(name(d)) + ": " + programs[k].text; }, wrong);
  }
  INFO(wrong);
  CHECK(wrong.empty());
}

#define RILL_PROGRAM(...) \
  {#__VA_ARGS__, true, [](const Tensor& x, [[maybe_unused]] const Tensor& y) -> Tensor { return __VA_ARGS__; }}

Tensor related(int which, const Tensor& x, const Tensor& y) {
  switch (which) {
    case 0: return x < y;
    case 1: return x <= y;
    case 2: return x > y;
    case 3: return x >= y;
    case 4: return x == y;
    default: return x != y;
  }
}

}  // namespace

TEST_CASE("maxima and minima of what has no sign, clipped and compared") {
  if (!has_compiler()) return;
  compare_named({
      RILL_PROGRAM(maximum(abs(x), 0)),
      RILL_PROGRAM(maximum(0, abs(x))),
      RILL_PROGRAM(minimum(abs(x), 0)),
      RILL_PROGRAM(minimum(-abs(x), 0)),
      RILL_PROGRAM(maximum(-abs(x), -0.0)),
      RILL_PROGRAM(maximum(abs(x), -0.0)),
      RILL_PROGRAM(maximum(square(x), 0)),
      RILL_PROGRAM(maximum(sqrt(x), 0)),
      RILL_PROGRAM(maximum(exp(x), 0)),
      RILL_PROGRAM(relu(abs(x))),
      RILL_PROGRAM(relu6(abs(x))),
      RILL_PROGRAM(relu(-abs(x))),
      RILL_PROGRAM(clip(abs(x), 0, 1)),
      RILL_PROGRAM(clip(-abs(x), -1, 0)),
      RILL_PROGRAM(clip(x, -0.0, 0)),
      RILL_PROGRAM(clip(x, 0, -0.0)),
      RILL_PROGRAM(softplus(abs(x))),
      RILL_PROGRAM(mish(abs(x))),
      RILL_PROGRAM(logaddexp(abs(x), abs(x))),
      RILL_PROGRAM(clip(logaddexp(abs(x), abs(x)), 0, 1)),
      RILL_PROGRAM(clip(logaddexp(x, x), 0, 1)),
      RILL_PROGRAM(fmax(abs(x), 0)),
      RILL_PROGRAM(fmin(abs(x), 0)),
      RILL_PROGRAM(fmax(abs(x), y)),
      RILL_PROGRAM(fmin(-abs(x), abs(y))),
      RILL_PROGRAM(hard_tanh(abs(x))),
      RILL_PROGRAM(hard_sigmoid(abs(x))),
      RILL_PROGRAM(hard_swish(abs(x))),
      RILL_PROGRAM(leaky_relu(abs(x))),
      RILL_PROGRAM(elu(minimum(x, 0))),
      RILL_PROGRAM(celu(minimum(x, 0))),
      RILL_PROGRAM(selu(minimum(x, 0))),
      RILL_PROGRAM(elu(minimum(0, x))),
      RILL_PROGRAM(maximum(minimum(x, 0), 0)),
      RILL_PROGRAM(maximum(minimum(x, 0), -0.0)),
      RILL_PROGRAM(minimum(maximum(x, 0), 0)),
      RILL_PROGRAM(clip(minimum(x, 0), 0, 1)),
      RILL_PROGRAM(clip(minimum(x, 0), -1, 0)),
      RILL_PROGRAM(maximum(maximum(x, 1), 1)),
      RILL_PROGRAM(maximum(maximum(x, y), y)),
      RILL_PROGRAM(minimum(maximum(x, y), maximum(y, x))),
      RILL_PROGRAM(maximum(x, x)),
      RILL_PROGRAM(maximum(x, -x)),
      RILL_PROGRAM(minimum(minimum(erf(x), expm1(abs(y))), mish(x) + y)),
      RILL_PROGRAM(minimum(mish(expm1(tanh(abs(roll(transpose(erf(x)), 3, 0)))) + y), x)),
      RILL_PROGRAM(1 / maximum(abs(x), 0)),
      RILL_PROGRAM(abs(x) > 0),
      RILL_PROGRAM(logical_or(abs(x) > 0, isnan(x))),
      RILL_PROGRAM(logical_and(abs(x) <= 0, logical_not(isnan(x)))),
      RILL_PROGRAM(logical_xor(x > y, isnan(x * y))),
      RILL_PROGRAM(logical_or(x < y, logical_or(x > y, x == y))),
  });
}

TEST_CASE("the absolute value, over everything, is its own maximum with 0") {
  if (!has_compiler()) return;
  for (DType d : {f32, f64, f16, bf16}) {
    const Tensor x = special_values(d);
    const Both r = run_both([](const Values& v) { return Values{maximum(abs(v[0]), 0)}; }, {x});
    CHECK(first_difference(r.compiled[0], abs(x)) < 0);
    CHECK(first_difference(r.eager[0], abs(x)) < 0);
  }
}

TEST_CASE("choices among choices, by every comparison, NaN on either side") {
  if (!has_compiler()) return;
  std::vector<Form> nests;
  for (int first = 0; first < 6; ++first)
    for (int second = 0; second < 6; ++second)
      for (int order = 0; order < 4; ++order)
        for (double c : {0.0, 1.0, -0.0})
          nests.push_back({"nest " + std::to_string(first) + std::to_string(second) + std::to_string(order) + " at " +
                               std::to_string(c),
                           false, [=](const Tensor& x, const Tensor&) {
                             const Tensor k = constant_like(x, c), m = related(first, x, k);
                             const Tensor z = order & 1 ? where(m, k, x) : where(m, x, k), n = related(second, z, k);
                             return order & 2 ? where(n, k, z) : where(n, z, k);
                           }});
  compare_named(nests);
  compare_named({RILL_PROGRAM(where(x < y, where(x > 0, x, y), where(y >= x, y, 1))),
                 RILL_PROGRAM(where(x != x, y, where(y != y, x, maximum(x, y)))),
                 RILL_PROGRAM(where(isnan(x), 0, where(isnan(y), x, minimum(y, x)))),
                 RILL_PROGRAM(where(x > y, where(x > y, y, x), where(x <= y, x, y)))});
}

TEST_CASE("the sign of what any op gives, NaN included") {
  if (!has_compiler()) return;
  std::string wrong;
  for (DType d : {f32, f64, f16, bf16}) {
    std::vector<std::string> left_out;
    const std::vector<Form> all = all_forms(d, left_out);
    std::vector<std::function<Tensor(const Tensor&, const Tensor&)>> made;
    std::vector<std::string> texts;
    for (const Form& f : all) {
      const auto result = [run = f.run, d](const Tensor& x, const Tensor& y) { return run(x, y).astype(d); };
      made.push_back([result](const Tensor& x, const Tensor& y) { return signbit(result(x, y)); });
      texts.push_back("signbit of " + f.text);
      made.push_back([result](const Tensor& x, const Tensor& y) { return copysign(y, result(x, y)); });
      texts.push_back("copysign(y, " + f.text + ")");
    }
    compare_groups(made, special_pairs(d), 24, [&](size_t k) { return std::string(name(d)) + ": " + texts[k]; }, wrong);
  }
  INFO(wrong);
  CHECK(wrong.empty());
  // The promise: to those who look at signs, every NaN is positive.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor both = tensor({nan, -nan});
  CHECK_FALSE(any(signbit(both)).item<bool>());
  CHECK(same_bits(copysign(tensor({2.f, -2.f}), both), tensor({2.f, 2.f})));
  CHECK_FALSE(signbit(sqrt(tensor(-1.f))).item<bool>());
}

TEST_CASE("sums, differences, products and quotients of halves: each number with many others") {
  if (!has_compiler()) return;
  const Tensor i = arange(0, 65536);
  for (DType d : {f16, bf16})
    for (int64_t k : {1, 3, 101, 1023, 4099, 21845, 32769, 54321}) {
      const Tensor x = bitcast(i.astype(u16), d), y = bitcast((i * k + 77).astype(u16), d);
      const Both r = run_both(
          [](const Values& v) {
            return Values{v[0] + v[1], v[0] - v[1], v[0] * v[1], v[0] / v[1], v[0] * v[1] + v[0]};
          },
          {x, y});
      INFO(name(d) << ", " << k);
      for (size_t n = 0; n < r.eager.size(); ++n) CHECK(first_difference(r.eager[n], r.compiled[n]) < 0);
    }
}

// --- Pairs -----------------------------------------------------------------------------------------------------------

namespace {

// Every form of x (and y), each side of those of two operands a constant too.
std::vector<Form> outer_forms(const std::vector<Form>& forms, size_t turn) {
  std::vector<Form> all;
  for (size_t k = 0; k < forms.size(); ++k)
    for (int which = 0; which < (forms[k].two ? 4 : 1); ++which)
      all.push_back(
          variant(forms[k], which, forms::constants()[mixed(k, turn + size_t(which)) % forms::constants().size()]));
  return all;
}

int compare_pairs(DType d, size_t share, std::string& wrong) {
  std::vector<std::string> left_out;
  const std::vector<Form> forms = all_forms(d, left_out);
  const Grid g = special_pairs(d);
  const uint64_t turn = setting("RILL_TEST_TURN", 0);
  int pairs = 0;
  for (size_t first = 0; first < forms.size(); ++first) {
    // Of two operands: of x and y in every other round, else with a constant.
    const Form inner = forms[first].two ? variant(forms[first], first % 2 ? 0 : 2,
                                                  forms::constants()[first / 2 % forms::constants().size()])
                                        : forms[first];
    std::vector<Form> outer = outer_forms(forms, first);
    size_t number = 0;
    std::erase_if(outer,
                  [&](const Form&) { return mixed(first << 20 | number++, uint64_t(d)) % share != turn % share; });
    std::vector<std::function<Tensor(const Tensor&, const Tensor&)>> made;
    for (const Form& f : outer)
      made.push_back([&](const Tensor& x, const Tensor& y) { return f.run(inner.run(x, y), y); });
    compare_groups(
        made, g, 24, [&](size_t k) { return std::string(name(d)) + ": " + outer[k].text + " of x = " + inner.text; },
        wrong);
    pairs += int(made.size());
  }
  return pairs;
}

}  // namespace

TEST_CASE("every elementwise record is called") {
  for (DType d : {f32, f64, f16, bf16}) {
    std::vector<std::string> left_out;
    CHECK(record_forms(d, left_out).size() > 60);
    std::string names;
    for (const std::string& n : left_out) names += n + " ";
    // A NaN's bits show in what bitcast gives (composite_forms() has it of numbers); complex numbers are not compiled.
    CHECK(names == "bitcast complex conj imag real ");
  }
}

TEST_CASE("every elementwise op after every other: compiled code gives eager's bits") {
  if (!has_compiler()) return;
  const size_t share = setting("RILL_PAIR_SHARE", 600);
  int pairs = 0;
  std::string wrong;
  for (DType d : {f32, f64, f16, bf16})
    pairs += compare_pairs(d, d == f32 ? std::max<size_t>(1, share / 4) : share, wrong);
  std::cout << "elementwise pairs: " << pairs << " compared\n";
  INFO(wrong);
  CHECK(wrong.empty());
}

// --- Chains ----------------------------------------------------------------------------------------------------------

namespace {

using Rng = std::mt19937_64;
int below(Rng& r, size_t n) { return int(r() % n); }

struct Step {
  std::string text;
  int a, b;  // earlier values; 0 is x, 1 is y
  std::function<Tensor(const Tensor& a, const Tensor& b)> run;
};

struct Chain {
  DType main;
  std::vector<Step> steps;

  // What step `last` gives.
  Tensor operator()(const Tensor& x, const Tensor& y, size_t last) const {
    Values values{x, y};
    for (size_t i = 0; i <= last; ++i)
      values.push_back(steps[i].run(values[size_t(steps[i].a)], values[size_t(steps[i].b)]));
    return values.back();
  }
};

std::string print(const Chain& c, size_t last) {
  std::string s = std::string(name(c.main)) + ":\n";
  for (size_t i = 0; i <= last; ++i)
    s += "  %" + std::to_string(i + 2) + " = " + c.steps[i].text + "   where x = %" + std::to_string(c.steps[i].a) +
         ", y = %" + std::to_string(c.steps[i].b) + "\n";
  return s;
}

// All forms of each dtype, made once.
const std::vector<Form>& forms_of(DType d) {
  static std::map<DType, std::vector<Form>> known;
  std::vector<std::string> left_out;
  auto [at, is_new] = known.try_emplace(d);
  if (is_new) at->second = all_forms(d, left_out);
  return at->second;
}

Form choice(Rng& r, DType main) {
  static const char* const relations[] = {"<", "<=", ">", ">=", "==", "!="};
  const int which = below(r, 6), other = below(r, 3);
  const double c = forms::constants()[size_t(below(r, forms::constants().size()))];
  const auto relation = [which](const Tensor& x, const Tensor& y) { return related(which, x, y); };
  const std::string text = std::to_string(c);
  // where(x < c, x, c), where(x < c, c, x), where(x < c, y, x)
  return {std::string("where(x ") + relations[which] + " " + text + ", " +
              (other == 0   ? "x, " + text + ")"
               : other == 1 ? text + ", x)"
                            : "y, x)"),
          true, [=](const Tensor& s, const Tensor& t) {
            const Tensor x = s.astype(main), y = t.astype(main), k = constant_like(x, c);
            const Tensor m = relation(x, k);
            return other == 0 ? where(m, x, k) : other == 1 ? where(m, k, x) : where(m, y, x);
          }};
}

Form moved(Rng& r, DType main) {
  static constexpr DType dtypes[] = {f32, f64, f16, bf16, i32, i64, u8, i8, boolean};
  const int by = below(r, 7) - 3;
  const DType to = dtypes[below(r, 9)];
  const double low = forms::constants()[size_t(below(r, 8))], high = low + below(r, 3);
  switch (below(r, 5)) {
    case 0: return {"transpose(x)", false, [](const Tensor& x, const Tensor&) { return transpose(x); }};
    case 1:
      return {"roll(x, " + std::to_string(by) + ", 1)", false,
              [by](const Tensor& x, const Tensor&) { return roll(x, by, 1); }};
    case 2:
      return {"x.astype(" + std::string(name(to)) + ")", false,
              [to](const Tensor& x, const Tensor&) { return x.astype(to); }};
    case 3:
      return {"clip(x, " + std::to_string(low) + ", " + std::to_string(high) + ")", false,
              [=](const Tensor& x, const Tensor&) { return clip(x.astype(main), low, high); }};
    default:
      return {"clip(x, min(y, -y), inf)", true, [main](const Tensor& x, const Tensor& y) {
                const Tensor b = y.astype(main);
                return clip(x.astype(main), minimum(b, -b), std::numeric_limits<double>::infinity());
              }};
  }
}

Chain random_chain(uint64_t seed) {
  static constexpr DType mains[] = {f32, f32, f32, f64, f16, bf16};
  Rng r(seed);
  Chain c{mains[below(r, 6)], {}};
  const std::vector<Form>& forms = forms_of(c.main);
  for (int left = 2 + below(r, 9); left > 0; --left) {
    const size_t known = c.steps.size() + 2;
    const int kind = below(r, 10), a = below(r, 4) ? int(known) - 1 : below(r, known), b = below(r, known);
    Form f = kind < 7 ? forms[size_t(below(r, forms.size()))] : kind == 7 ? choice(r, c.main) : moved(r, c.main);
    if (kind < 7 && f.two) f = variant(f, below(r, 4), forms::constants()[size_t(below(r, forms::constants().size()))]);
    c.steps.push_back({f.text, a, b, f.run});
  }
  return c;
}

// The shortest part of the chain that fails by itself.
std::string least_failure(const Chain& c, const Grid& g) {
  for (size_t last = 0; last < c.steps.size(); ++last) {
    std::string wrong;
    compare_groups(
        {[&](const Tensor& x, const Tensor& y) { return c(x, y, last); }}, g, 1, [&](size_t) { return print(c, last); },
        wrong);
    if (!wrong.empty()) return wrong;
  }
  return "fails only beside its neighbours: " + print(c, c.steps.size() - 1);
}

void compare_chains(uint64_t first, uint64_t count, std::string& wrong) {
  constexpr uint64_t together = 8;  // chains of one dtype in one function
  std::map<DType, std::vector<Chain>> waiting;
  const auto compare = [&](DType d, std::vector<Chain>& chains) {
    const Grid g = special_pairs(d);
    std::vector<std::function<Tensor(const Tensor&, const Tensor&)>> made;
    for (const Chain& c : chains)
      made.push_back([&](const Tensor& x, const Tensor& y) { return c(x, y, c.steps.size() - 1); });
    std::string failed;
    compare_groups(made, g, together, [](size_t k) { return std::to_string(k); }, failed);
    if (!failed.empty())
      for (size_t k = 0; k < chains.size() && wrong.size() < 8000; ++k)
        if (("\n" + failed).find("\n" + std::to_string(k) + ": ") != std::string::npos)
          wrong += least_failure(chains[k], g);
    chains.clear();
  };
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Chain c = random_chain(seed);
    std::vector<Chain>& chains = waiting[c.main];
    chains.push_back(std::move(c));
    if (chains.size() == together) compare(chains[0].main, chains);
  }
  for (auto& [d, chains] : waiting)
    if (!chains.empty()) compare(d, chains);
}

}  // namespace

TEST_CASE("random elementwise chains") {
  if (!has_compiler()) return;
  const uint64_t first = setting("RILL_CHAIN_SEED", 1 + 1000 * setting("RILL_TEST_TURN", 0)),
                 count = setting("RILL_CHAIN_COUNT", 150);
  constexpr uint64_t at_once = 8000;  // in one process, which keeps every kernel that it has compiled
  std::string wrong;
  if (count <= at_once) {
    compare_chains(first, count, wrong);
  } else {
    for (uint64_t done = 0; done < count && wrong.size() < 8000; done += at_once) {
      const uint64_t some = std::min(at_once, count - done);
      std::string output;
      const std::string settings =
          "RILL_CHAIN_SEED=" + std::to_string(first + done) + " RILL_CHAIN_COUNT=" + std::to_string(some);
      if (child(settings, "random elementwise chains", output) != 0) std::cout << output, wrong += output;
      std::cout << "elementwise chains: " << done + some << " of " << count << std::endl;
    }
  }
  std::cout << "elementwise chains: " << count << " compared\n";
  INFO(wrong);
  CHECK(wrong.empty());
}
