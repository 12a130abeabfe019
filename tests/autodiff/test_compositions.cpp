// All compositions of three among {tape, persistent tape, accumulator, vmap, recompute, function, cond, scan,
// while_loop, custom_gradient}, around a function that reads a Variable, assigns another and draws random numbers:
// their values, what they assign and draw, and the derivatives of the whole by its argument and by the Variable,
// backward and forward.
// A share of those with a gradient by the Variable inside, jacfwd, rows that draw their own numbers, and pullbacks that
// are traced or run for several rows; and of those that are four deep.
//
// The judge knows no derivative rule and no graph: the same program over plain numbers, with finite differences in
// quadruple precision for derivatives and C++ loops for the rest. RILL_TEST_TURN says which share a run takes;
// RILL_COMPOSITION_SHARE=1 takes all, and RILL_COMPOSITION=VTR one: vmap of a tape's gradient of recompute.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <regex>
#include <string_view>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"
#include "rill/trace/jit.h"
#include "tested_device.h"
#include "within.h"

using namespace rill;

namespace {

// --- The judge -------------------------------------------------------------------------------------------------------

#ifdef __SIZEOF_FLOAT128__
__extension__ typedef __float128 Wide;
#else
using Wide = long double;  // as wide, where there is no such type
#endif
constexpr int size = 3;
using Vec = std::array<Wide, size>;

// What a run finds, and what it leaves.
struct State {
  size_t drawn = 0;
  std::vector<int> rows = {};  // in which it draws, of vmaps that give each its own
  Wide count = 0;
  Vec w = {};
};
using Numbers = std::function<Vec(const Vec& x, State& s)>;

Vec map(const std::function<Wide(int)>& f) {
  Vec y;
  for (int i = 0; i < size; ++i) y[size_t(i)] = f(i);
  return y;
}
Wide sum_of(const Vec& x) { return x[0] + x[1] + x[2]; }
Wide dot_of(const Vec& x, const Vec& y) { return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]; }

// The step of differences within one another `deep` times, where rounding weighs as much as what they leave out.
Wide h;
void set_step(int deep) { h = Wide(std::pow(1e-34, 1.0 / (deep + 2))); }

// d f / d x along t, by a central difference; from the same state.
Vec slope(const Numbers& f, const Vec& x, const State& s, const Vec& t) {
  State a = s, b = s;
  const Vec up = f(map([&](int i) { return x[size_t(i)] + h * t[size_t(i)]; }), a);
  const Vec down = f(map([&](int i) { return x[size_t(i)] - h * t[size_t(i)]; }), b);
  return map([&](int i) { return (up[size_t(i)] - down[size_t(i)]) / (2 * h); });
}
Vec unit(int k) {
  return map([&](int i) { return Wide(i == k); });
}

// What the generator gives: in a row what a key of the row's gives, which is split off its state.
constexpr uint64_t seed = 11;
Vec draw(State& s) {
  static std::map<std::pair<size_t, std::vector<int>>, Vec> known;
  Vec& v = known[{s.drawn, s.rows}];
  if (v == Vec()) {
    random::Key key(tensor({seed, uint64_t(s.drawn)}));
    for (const int row : s.rows) key = key.split(2)[size_t(row)];
    const auto all = random::uniform({size}, {.dtype = f64, .key = key}).to_vector<double>();
    v = {all[0], all[1], all[2]};
  }
  ++s.drawn;
  return v;
}

// --- Transforms, of tensors and of numbers ---------------------------------------------------------------------------

using Fn = std::function<Tensor(const Tensor&)>;

// What programs read and assign.
struct Program {
  Variable w{tensor({0.4, -0.3, 0.7}), "w"};
  Variable count{tensor(0.0), {.name = "count", .trainable = false}};
  bool stateful = true;

  void reset() const {
    Variable(count).assign(0.0);
    random::seed(seed);
  }
  Fn base() {
    return [this](const Tensor& x) {
      Tensor drawn = full({size}, 0.5, {f64}), number = tensor(1.0);
      if (stateful) {
        count.assign_add(1.0);
        drawn = random::uniform({size}, {.dtype = f64});
        number = count;
      }
      return 0.2 * x * x * w + x / (1.0 + x * x) + 0.1 * drawn * x + 0.01 * number * x * x + 0.05 * sum(x) * x;
    };
  }
  Numbers numbers() const {
    return [on = stateful](const Vec& x, State& s) {
      Vec drawn{0.5, 0.5, 0.5};
      Wide number = 1;
      if (on) drawn = draw(s), number = s.count += 1;
      const Wide all = sum_of(x);
      return map([&](int k) {
        const size_t i = size_t(k);
        return Wide(0.2) * x[i] * x[i] * s.w[i] + x[i] / (1 + x[i] * x[i]) + Wide(0.1) * drawn[i] * x[i] +
               Wide(0.01) * number * x[i] * x[i] + Wide(0.05) * all * x[i];
      });
    };
  }
};

const double seeds[] = {1.0, -0.5, 0.75}, direction[] = {0.5, 1.25, -1.0}, steps[] = {0.3, -0.2};
Vec wide(const double (&v)[size]) {
  return map([&](int i) { return Wide(v[i]); });
}
Tensor narrow(const double (&v)[size]) { return tensor({v[0], v[1], v[2]}); }

struct Transform {
  char letter;
  Fn (*of)(Program&, const Fn&);
  Numbers (*judge)(const Numbers&);
};

// d seeds f(x) / dw.
Vec gradient_by_w(const Numbers& f, const Vec& x, State& s) {
  const Numbers of_w = [&](const Vec& w, State& now) {
    now.w = w;
    return f(x, now);
  };
  const State start = s;
  f(x, s);
  return map([&](int i) { return dot_of(wide(seeds), slope(of_w, start.w, start, unit(i))); });
}
// d seeds f(x) / dx.
Vec gradient_of(const Numbers& f, const Vec& x, State& s) {
  const State start = s;
  f(x, s);
  return map([&](int i) { return dot_of(wide(seeds), slope(f, x, start, unit(i))); });
}

const Transform transforms[] = {
    {'T',
     [](Program&, const Fn& f) -> Fn {
       return [f](const Tensor& x) {
         GradientTape tape;
         tape.watch(x);
         return tape.gradient(sum(f(x) * narrow(seeds)), x, {.unconnected = Unconnected::zero});
       };
     },
     [](const Numbers& f) -> Numbers { return [f](const Vec& x, State& s) { return gradient_of(f, x, s); }; }},
    {'P',  // asked twice: for a gradient, and for a Jacobian
     [](Program&, const Fn& f) -> Fn {
       return [f](const Tensor& x) {
         GradientTape tape({.persistent = true});
         tape.watch(x);
         const Tensor y = f(x);
         const GradientOptions zero{.unconnected = Unconnected::zero};
         const Tensor g = tape.gradient(sum(y * narrow(seeds)), x, zero);
         return 0.25 * g + 0.75 * matmul(narrow(seeds), tape.jacobian(y, x, zero));
       };
     },
     [](const Numbers& f) -> Numbers { return [f](const Vec& x, State& s) { return gradient_of(f, x, s); }; }},
    {'A',
     [](Program&, const Fn& f) -> Fn {
       return [f](const Tensor& x) {
         const ForwardAccumulator along(x, narrow(direction));
         return along.jvp(f(x), Unconnected::zero);
       };
     },
     [](const Numbers& f) -> Numbers {
       return [f](const Vec& x, State& s) {
         const State start = s;
         f(x, s);
         return slope(f, x, start, wide(direction));
       };
     }},
    {'V',  // two rows that draw the same
     [](Program&, const Fn& f) -> Fn {
       const auto rows = vmap(f, {.randomness = Randomness::same});
       return [rows](const Tensor& x) {
         const Tensor y = rows(stack({x, 0.3 - 0.5 * x}));
         return 0.6 * y(0) + 0.4 * y(1);
       };
     },
     [](const Numbers& f) -> Numbers {
       return [f](const Vec& x, State& s) {
         State other = s;
         const Vec a = f(x, s);
         const Vec b = f(map([&](int i) { return Wide(0.3) - Wide(0.5) * x[size_t(i)]; }), other);
         return map([&](int i) { return Wide(0.6) * a[size_t(i)] + Wide(0.4) * b[size_t(i)]; });
       };
     }},
    {'R', [](Program&, const Fn& f) -> Fn { return recompute(f); }, [](const Numbers& f) { return f; }},
    {'F', [](Program&, const Fn& f) -> Fn { return function("f", f); }, [](const Numbers& f) { return f; }},
    {'C',
     [](Program& p, const Fn& f) -> Fn {
       return [&p, f](const Tensor& x) {
         return cond(sum(x) > 0.1, [&] { return f(x); }, [&] { return 0.5 * p.w * x * x; });
       };
     },
     [](const Numbers& f) -> Numbers {
       return [f](const Vec& x, State& s) {
         if (sum_of(x) > Wide(0.1)) return f(x, s);
         return map([&](int i) { return Wide(0.5) * s.w[size_t(i)] * x[size_t(i)] * x[size_t(i)]; });
       };
     }},
    {'S',
     [](Program&, const Fn& f) -> Fn {
       return [f](const Tensor& x) {
         const auto [last, ys] = scan(
             [&](const Tensor& v, const Tensor& row) {
               const Tensor y = f(v);
               return std::pair(0.5 * y + row * x, y * x);
             },
             x, tensor({steps[0], steps[1]}));
         return last + sum(ys, 0);
       };
     },
     [](const Numbers& f) -> Numbers {
       return [f](const Vec& x, State& s) {
         Vec v = x, sums = {};
         for (const double row : steps) {
           const Vec y = f(v, s);
           v = map([&](int i) { return Wide(0.5) * y[size_t(i)] + Wide(row) * x[size_t(i)]; });
           for (size_t i = 0; i < size; ++i) sums[i] += y[i] * x[i];
         }
         return map([&](int i) { return v[size_t(i)] + sums[size_t(i)]; });
       };
     }},
    {'W',
     [](Program& p, const Fn& f) -> Fn {
       return [&p, f](const Tensor& x) {
         using Carried = std::pair<Tensor, Tensor>;
         const auto [n, v] =
             while_loop([](const Carried& c) { return c.first < 2; },
                        [&](const Carried& c) { return Carried(c.first + 1, 0.5 * f(c.second) + 0.2 * x * p.w); },
                        Carried(tensor(0), x), {.max_steps = 3});
         return v;
       };
     },
     [](const Numbers& f) -> Numbers {
       return [f](const Vec& x, State& s) {
         Vec v = x;
         for (int step = 0; step < 2; ++step) {
           const Vec y = f(v, s);
           v = map([&](int i) { return Wide(0.5) * y[size_t(i)] + Wide(0.2) * x[size_t(i)] * s.w[size_t(i)]; });
         }
         return v;
       };
     }},
    {'G',  // its rule is written by hand, by both arguments
     [](Program& p, const Fn& f) -> Fn {
       const auto g = custom_gradient([](const Tensor& v, const Tensor& w) {
         return std::pair(v * v * w + v,
                          [v, w](const Tensor& c) { return std::vector<Tensor>{c * (2.0 * v * w + 1.0), c * v * v}; });
       });
       return [&p, f, g](const Tensor& x) { return g(f(x), p.w.value()); };
     },
     [](const Numbers& f) -> Numbers {
       return [f](const Vec& x, State& s) {
         const Vec v = f(x, s);
         return map([&](int i) { return v[size_t(i)] * v[size_t(i)] * s.w[size_t(i)] + v[size_t(i)]; });
       };
     }},
    // More than the ten.
    {'X',  // rows that draw each its own
     [](Program&, const Fn& f) -> Fn {
       const auto rows = vmap(f);
       return [rows](const Tensor& x) {
         const Tensor y = rows(stack({x, 0.3 - 0.5 * x}));
         return 0.6 * y(0) + 0.4 * y(1);
       };
     },
     [](const Numbers& f) -> Numbers {
       return [f](const Vec& x, State& s) {
         State other = s;
         s.rows.push_back(0), other.rows.push_back(1);
         const Vec a = f(x, s);
         const Vec b = f(map([&](int i) { return Wide(0.3) - Wide(0.5) * x[size_t(i)]; }), other);
         s.rows.pop_back();
         return map([&](int i) { return Wide(0.6) * a[size_t(i)] + Wide(0.4) * b[size_t(i)]; });
       };
     }},
    {'U',  // by the Variable
     [](Program& p, const Fn& f) -> Fn {
       return [&p, f](const Tensor& x) {
         GradientTape tape;
         return tape.gradient(sum(f(x) * narrow(seeds)), p.w, {.unconnected = Unconnected::zero});
       };
     },
     [](const Numbers& f) -> Numbers { return [f](const Vec& x, State& s) { return gradient_by_w(f, x, s); }; }},
    {'J',
     [](Program&, const Fn& f) -> Fn { return [f](const Tensor& x) { return matmul(narrow(seeds), jacfwd(f)(x)); }; },
     [](const Numbers& f) -> Numbers { return [f](const Vec& x, State& s) { return gradient_of(f, x, s); }; }},
    {'Q',  // a pullback, traced
     [](Program&, const Fn& f) -> Fn {
       return [f](const Tensor& x) {
         const auto pull = vjp(f, x).second;
         return function("pull", [&](const Tensor& g) { return pull(g); })(narrow(seeds));
       };
     },
     [](const Numbers& f) -> Numbers { return [f](const Vec& x, State& s) { return gradient_of(f, x, s); }; }},
    {'D',  // a pullback of two rows
     [](Program&, const Fn& f) -> Fn {
       return [f](const Tensor& x) {
         const auto pull = vjp(f, x).second;
         const Tensor g = narrow(seeds), rows = vmap([&](const Tensor& c) { return pull(c); })(stack({g, 2.0 * g}));
         return 0.5 * rows(0) + 0.25 * rows(1);
       };
     },
     [](const Numbers& f) -> Numbers { return [f](const Vec& x, State& s) { return gradient_of(f, x, s); }; }},
};
constexpr size_t ten = 10;
constexpr std::string_view derivatives = "TPAUJQD";

const Transform& transform(char letter) {
  for (const Transform& t : transforms)
    if (t.letter == letter) return t;
  throw std::runtime_error("no such transform");
}

// --- What cannot be had ----------------------------------------------------------------------------------------------

// Compositions, by a pattern of their letters, that are refused where the function draws or assigns, and what is said.
struct Refusal {
  const char* pattern;
  const char* message;
};
const Refusal refusals[] = {
    // Rows of a batch may take different branches, and a Variable has one value.
    {"[VX].*C", "is assigned a value that differs from row to row"},
};
// Which keys rows draw with is the library's choice where several draws of a row are one node.
const std::regex unspecified("X.*[SWFQ]");

// --- Running ---------------------------------------------------------------------------------------------------------

struct Case {
  Program program;
  Fn f;
  Numbers judge;
  Vec x;
  State start;

  explicit Case(const std::string& letters, bool stateful) {
    program.stateful = stateful;
    f = program.base(), judge = program.numbers();
    for (size_t i = letters.size(); i-- > 0;) {
      f = transform(letters[i]).of(program, f);
      judge = transform(letters[i]).judge(judge);
    }
    start.w = {0.4, -0.3, 0.7};
    x = {0.6, -0.4, 0.9};
  }

  Tensor argument() const { return tensor({double(x[0]), double(x[1]), double(x[2])}); }
  bool left_as(const State& s) const {
    return program.count.value().item<double>() == double(s.count) &&
           random::state().to_vector<uint64_t>()[1] == s.drawn;
  }
};

bool near(const Tensor& got, const Vec& expected) {
  return within(got.to_vector<double>(), {double(expected[0]), double(expected[1]), double(expected[2])}, 1e-7, 1e-8);
}

void check(Case& c) {
  const Tensor x = c.argument();
  State end = c.start;
  const Vec y = c.judge(c.x, end);
  c.program.reset();
  for (int call = 0; call < 2; ++call) {  // a traced function is traced, and then called
    if (call) c.program.reset();
    CHECK(near(c.f(x), y));
    if (c.program.stateful) CHECK(c.left_as(end));
  }
  State start = c.start, again = c.start;
  const Vec by_x = gradient_of(c.judge, c.x, start), by_w = gradient_by_w(c.judge, c.x, again);
  // Scans in scans may stretch so much that the derivative, or what it is made of, is more than an f64 holds.
  for (const Vec& g : {by_x, by_w})
    for (const Wide& v : g)
      if (!(std::abs(double(v)) < 1e200)) return;
  {
    c.program.reset();
    GradientTape tape;
    tape.watch(x);
    const Tensor target = sum(c.f(x) * narrow(seeds));
    const auto g = tape.gradient(target, {x, c.program.w}, {.unconnected = Unconnected::zero});
    CHECK(near(g[0], by_x));
    CHECK(near(g[1], by_w));
    if (c.program.stateful) CHECK(c.left_as(end));
  }
  c.program.reset();
  const ForwardAccumulator along({{x, narrow(direction)}, {c.program.w, narrow(direction)}});
  const Tensor target = sum(c.f(x) * narrow(seeds));
  const Wide expected = dot_of(by_x, wide(direction)) + dot_of(by_w, wide(direction));
  CHECK(within(along.jvp(target, Unconnected::zero).item<double>(), double(expected), 1e-7, 1e-8));
}

void check_composition(const std::string& letters) {
  set_step(1 + int(std::count_if(letters.begin(), letters.end(),
                                 [](char c) { return derivatives.find(c) != derivatives.npos; })));
  for (const bool stateful : {true, false}) {
    INFO("composition " << letters << (stateful ? ", that draws and assigns" : ""));
    if (stateful && std::regex_search(letters, unspecified)) continue;
    Case c(letters, stateful);
    const Refusal* refused = nullptr;
    for (const Refusal& r : refusals)
      if (stateful && std::regex_search(letters, std::regex(r.pattern))) refused = &r;
    if (refused) says([&] { c.f(c.argument()); }, {refused->message});
    else CHECK_NOTHROW(check(c));
    if (stateful && !refused) return;  // the other asks for less
  }
}

// Those of `deep` among the first so many transforms, of which `takes` says which are taken.
void check_all(int deep, size_t among, const std::function<bool(const std::string&)>& takes, std::string outside = "") {
  if (deep == 0) {
    if (takes(outside)) check_composition(outside);
    return;
  }
  for (size_t k = 0; k < among; ++k) check_all(deep - 1, among, takes, outside + transforms[k].letter);
}

// Whether this is one of `shares` that this run takes.
bool in_turn(const std::string& letters, uint64_t shares) {
  uint64_t number = 0;
  for (const char c : letters) number = number * 31 + uint64_t(c);
  return number % setting("RILL_COMPOSITION_SHARE", shares) ==
         setting("RILL_TEST_TURN", 0) % setting("RILL_COMPOSITION_SHARE", shares);
}

// Compiled code has the same bits, and takes longer.
struct Interpreted {
  Interpreted() { jit::set_mode(jit::Mode::off); }
  ~Interpreted() { jit::set_mode(jit::Mode::tiered); }
};

}  // namespace

TEST_CASE("compositions of three transforms") {
  const Interpreted mode;
  if (const char* one = std::getenv("RILL_COMPOSITION")) return check_composition(one);
  check_all(3, ten, [](const std::string&) { return true; });
}

TEST_CASE("compositions of three transforms with gradients by Variables, Jacobians and pullbacks") {
  const Interpreted mode;
  const std::string_view more = "XUJQD";
  check_all(3, std::size(transforms), [&](const std::string& letters) {
    return letters.find_first_of(more) != letters.npos && in_turn(letters, 3);
  });
}

TEST_CASE("compositions of four transforms") {
  const Interpreted mode;
  check_all(4, std::size(transforms), [](const std::string& letters) { return in_turn(letters, 101); });
}
