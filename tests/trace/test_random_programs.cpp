// Random programs (random_program.h) under every way of running them, all with the same bits: eager, traced on eager
// kernels, fused and interpreted, fused and compiled, with sizes left open, on two threads at once; results, assigned
// variables, and gradients by tapes inside and around. Two judges that are not rill's fast kernels: each op of a
// program on the reference kernels, and finite differences.
//
// On the device that tested_device.h says; on a GPU the CPU's kernels judge too, bit for bit where that is promised.
// RILL_RANDOM_SEED=n starts at another seed, RILL_RANDOM_COUNT=n runs so many, each in all ways where
// RILL_RANDOM_THOROUGH is set (`./dev soak` does). A failure prints its seed and the smallest part of the program that
// still fails, as C++.
#include <cstdlib>
#include <iostream>
#include <map>
#include <thread>

#include "catch.h"
#include "needs.h"
#include "op_check.h"
#include "random_steps.h"
#include "rill/trace/fusion/fusion.h"
#include "rill/trace/jit.h"
#include "rill/trace/passes.h"
#include "rill/trace/run/executable.h"
#include "same.h"
#include "tested_device.h"

using namespace random_program;

namespace {

const bool thorough = std::getenv("RILL_RANDOM_THOROUGH") != nullptr;

// What was compared, printed at the end.
struct Counts {
  std::map<std::string, int64_t> of;
  ~Counts() {
    std::string text = "random programs:";
    for (const auto& [what, n] : of) text += fmt::format(" {} {};", n, what);
    std::cout << text << "\n";
  }
} counts;

// How much of a kind has been compared since: each test case says at least how much there must be, for a generator
// whose programs cannot be compared would find no fault.
class Since {
 public:
  explicit Since(const char* what) : what_(what), before_(counts.of[what]) {}
  operator int64_t() const { return counts.of[what_] - before_; }

 private:
  const char* what_;
  int64_t before_;
};

enum class Ask { results, gradients_inside, gradients_around, tangents_inside, tangents_around };
enum class How { eager, traced, interpreted, compiled, open, threads };
const char* const how_names[] = {"eager",    "traced on eager kernels", "fused and interpreted",
                                 "compiled", "with open sizes",         "on two threads"};
const char* const ask_names[] = {"results", "gradients, tape inside", "gradients, tape around",
                                 "tangents, accumulator inside", "tangents, accumulator around"};

Values floats_of(const Values& v) {
  Values f;
  for (const Tensor& t : v)
    if (is_floating(t.dtype())) f.push_back(t);
  return f;
}

// The gradients of the sum of all float results with respect to the float arguments.
template <class F>
Values gradients(const Program& p, F&& call, const Values& arguments) {
  GradientTape tape;
  std::vector<Source> sources;
  for (const Tensor& t : arguments)
    if (is_floating(t.dtype())) tape.watch(t), sources.emplace_back(t);
  for (const Variable& v : p.variables)
    if (is_floating(v.dtype())) sources.emplace_back(v);
  Values results = call(arguments), targets = floats_of(results);
  // A target that no source leads to would be an error: all get a zero that comes from the first.
  Tensor zero = multiply_no_nan(sum(floats_of(arguments)[0]), 0);
  Values known;
  for (const Tensor& t : targets) known.push_back(t + zero.astype(t.dtype()));
  Values g = tape.gradient(known, sources, {.unconnected = Unconnected::zero});
  results.insert(results.end(), g.begin(), g.end());
  return results;
}

// A direction for an argument or a Variable, another for each.
Tensor direction(const Shape& shape, DType dtype, size_t k) {
  return cos(arange(shape.numel()).astype(f32) * 0.7f + float(k)).reshape(shape).astype(dtype);
}

// The tangents of all float results along directions of the float arguments and of the Variables.
template <class F>
Values tangents(const Program& p, F&& call, const Values& arguments) {
  ForwardAccumulator along;
  size_t k = 0;
  for (const Tensor& t : arguments)
    if (is_floating(t.dtype())) along.watch(t, direction(t.shape(), t.dtype(), k++));
  for (const Variable& v : p.variables)
    if (is_floating(v.dtype())) along.watch(v, direction(v.shape(), v.dtype(), k++));
  Values results = call(arguments);
  for (const Tensor& t : floats_of(results)) results.push_back(along.jvp(t, Unconnected::zero));
  return results;
}

bool is_inside(Ask ask) { return ask == Ask::gradients_inside || ask == Ask::tangents_inside; }
template <class F>
Values derivatives(const Program& p, Ask ask, F&& call, const Values& arguments) {
  const bool forward = ask == Ask::tangents_inside || ask == Ask::tangents_around;
  return forward ? tangents(p, call, arguments) : gradients(p, call, arguments);
}

using Body = std::function<Values(const Values&)>;
Body body_of(const Program& p, Ask ask) {
  return [&p, ask](const Values& args) {
    return is_inside(ask) ? derivatives(p, ask, [&](const Values& a) { return p(a); }, args) : p(args);
  };
}

void add_variables(const Program& p, Values& out) {
  for (const Variable& v : p.variables) out.push_back(v.value());
}

// --- The ways --------------------------------------------------------------------------------------------------------

Values run_interpreted(const Program& p, const Body& body) {
  auto f = function("program", [&](const Values& args) { return body(args); });
  Graph g = optimize(f.graph(p.arguments));
  Executable e(eliminate_dead_code(fuse(g, nullptr)));
  p.rewind();
  Values in, out;
  for (const GraphInput& i : g.inputs)
    in.push_back(i.kind == GraphInput::Kind::argument   ? p.arguments[size_t(i.argument)]
                 : i.kind == GraphInput::Kind::captured ? i.captured
                                                        : i.variable->value);
  out.resize(e.result_count());
  e.run(in, out);
  for (size_t k = 0; k < g.assigns.size(); ++k) g.assigns[k].variable->value = out[g.outputs.size() + k].contiguous();
  out.resize(g.outputs.size());
  add_variables(p, out);
  return out;
}

// What the program gives, and what its variables hold afterwards.
Values answer(const Program& p, Ask ask, How how) {
  const Body body = body_of(p, ask);
  if (how == How::interpreted) return run_interpreted(p, body);
  jit::set_mode(how == How::compiled || how == How::threads ? jit::Mode::wait : jit::Mode::off);
  auto f = function("program", [&](const Values& args) { return body(args); });
  Values out;
  auto once = [&](Values& to) {
    auto call = [&](const Values& a) { return how == How::eager ? body(a) : f(a); };
    const bool around = ask != Ask::results && !is_inside(ask);
    to = around ? derivatives(p, ask, call, p.arguments) : call(p.arguments);
  };
  for (int i = 0; i < (how == How::eager ? 1 : 2); ++i) p.rewind(), once(out);
  if (how == How::threads) {
    Values other;
    std::thread second([&] {
      for (int i = 0; i < 3; ++i) once(other);
    });
    for (int i = 0; i < 3; ++i) once(out);
    second.join();
    for (size_t i = 0; i < out.size(); ++i)
      if (!same(out[i], other[i])) out[i] = other[i];
  }
  add_variables(p, out);
  return out;
}

std::string difference(const Values& want, const Values& got) {
  if (want.size() != got.size()) return "another number of results";
  for (size_t i = 0; i < want.size(); ++i)
    if (!same(want[i], got[i])) {
      std::string text = fmt::format("value {} of {}", i, want.size());
      if (want[i].shape() == got[i].shape() && want[i].size() <= 100000)
        for (int64_t k = 0; k < want[i].size(); ++k) {
          Tensor a = want[i].reshape({-1})(k), b = got[i].reshape({-1})(k);
          if (same(a, b)) continue;
          return text + fmt::format(", first at {}: {} where {} is right", k, to_string(b), to_string(a));
        }
      return text;
    }
  return "";
}

// "" where all is equal.
std::string difference(const Program& p, Ask ask, How how) {
  try {
    return difference(answer(p, ask, How::eager), answer(p, ask, how));
  } catch (const std::exception& e) {
    return std::string("it throws: ") + e.what();
  }
}

// --- Open sizes ------------------------------------------------------------------------------------------------------

// The tensor with size `from` along any axis made `to`.
Tensor resized(Tensor t, int64_t from, int64_t to) {
  for (int i = 0; i < t.ndim(); ++i)
    if (t.dim(i) == from) t = take(t, remainder(arange(to), from), i);
  return t;
}

// One function whose arguments' sizes are all open, called with several sizes: those that eager code takes.
std::string difference_with_open_sizes(const Program& p, Ask ask) {
  const bool around = ask != Ask::results && !is_inside(ask);
  const Body body = body_of(p, ask);
  auto call = [&](const Body& f, const Values& args) {
    p.rewind();
    Values out = around ? derivatives(p, ask, f, args) : f(args);
    add_variables(p, out);
    synchronize(tested);  // a GPU finds wrong indices later
    return out;
  };
  FunctionOptions options;
  for (const Tensor& t : p.arguments) {
    Shape open = t.shape();
    for (auto& d : open) d = any;
    options.signature.push_back(spec(t.dtype(), open));
  }
  jit::set_mode(jit::Mode::off);
  auto f = function("program", [&](const Values& args) { return body(args); }, options);
  std::vector<Values> calls{p.arguments};
  for (const auto& d : p.arguments[0].shape())
    for (int64_t to : {1, 2, 3, 7})
      if (int64_t(d) > 0) {
        calls.emplace_back();
        for (const Tensor& t : p.arguments) calls.back().push_back(resized(t, d, to));
      }
  calls.push_back(p.arguments);
  for (const Values& args : calls) {
    Values want;
    try {
      want = call(body, args);
    } catch (const Error&) {
      continue;  // these sizes do not fit together
    }
    try {
      ++counts.of["calls with open sizes"];
      if (std::string d = difference(want, call([&](const Values& a) { return f(a); }, args)); !d.empty()) {
        for (const Tensor& t : args) d += " " + to_string(t.spec());
        return d;
      }
    } catch (const std::exception& e) {
      return std::string("it throws: ") + e.what();
    }
  }
  return "";
}

// --- Judges outside the fast kernels ---------------------------------------------------------------------------------

// What one rounding of the largest operand is: a result far below that (gelu(-12) is 1e-32) may be off by more units in
// the last place than its record says of ordinary numbers.
double rounding_of(const Values& operands) {
  double largest = 0;
  for (const Tensor& t : operands)
    if (is_floating(t.dtype()))
      for (double x : t.astype(f64).to_vector<double>())
        if (std::isfinite(x)) largest = std::max(largest, std::abs(x) * op_check::epsilon(t.dtype()));
  return largest;
}

// What the order of a product's factors may change: one unit for each; anything (NaN) where the factors on one side of
// 1 overflow or vanish together.
double product_rounding(const Node& n, const Tensor& factors, const Tensor& result) {
  if (!is_differentiable(result.dtype()) || result.size() == 0) return 0;
  const Op& sum = *find_op("sum");
  auto bits = [&](const Tensor& x) { return max(op_check::run(sum, {abs(log2(x))}, n.attrs)[0]).item<double>(); };
  const Tensor x = where(isfinite(factors) & (factors != 0), abs(factors).astype(f64), 1.0);
  const double limit = op_check::real_of(factors.dtype()) == f64 ? 1000 : 120;  // halves are multiplied in f32
  if (std::max(bits(maximum(x, 1.0)), bits(minimum(x, 1.0))) > limit) return std::numeric_limits<double>::quiet_NaN();
  const double largest = max(where(isfinite(result), abs(result).astype(f64), 0.0)).item<double>();
  return double(factors.size()) / double(result.size()) * op_check::epsilon(result.dtype()) * largest;
}

// What a sum of like terms may lose beside: their roundings go one way, an eighth of a unit a term on average, in
// blocks of up to 256 terms; a running sum has no blocks.
double sum_rounding(const Op& op, const Tensor& terms, const Tensor& magnitude) {
  double largest = 0;
  for (double x : op_check::numbers(magnitude))
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  const int64_t count = op.name == "cumsum" ? int64_t(terms.size()) : std::min<int64_t>(terms.size(), 256);
  return double(count) / 8 * op_check::epsilon(magnitude.dtype()) * largest;
}

// Whether GPUs have the CPU's very bits: what moves elements, and arithmetic that is recorded (docs/cuda.md).
bool promises_bits(const Op& op) {
  if (op.name == "digamma" || op.name == "lgamma") return false;  // of f64: by a long double, and by the C library
  if (op.view) return true;
  return !op.sum_tolerance && !op.norm_tolerance && (op.max_ulp == 0 || op.record_point);
}

// "" where a GPU's results of a node have the CPU's bits.
std::string difference_from_cpu(const Node& n, const Values& in, const Values& got) {
  const Device host("cpu:0");
  const Values want =
      n.op->view ? op_check::run(*n.op, op_check::to(in, host), n.attrs) : op_check::run_on(host, *n.op, in, n.attrs);
  ++counts.of["ops with the CPU's bits"];
  const std::string d = difference(want, op_check::to(got, host));
  return d.empty() ? "" : op_check::describe(*n.op, in, n.attrs) + ", against the CPU: " + d;
}

// Each node of the program's graph on the reference kernels, with the operands that the program has there.
std::string difference_from_reference(const Program& p) {
  p.rewind();
  Graph g = function("program", [&](const Values& args) { return p(args); }).graph(p.arguments);
  std::vector<Values> values(g.nodes().size());
  for (const GraphInput& i : g.inputs)
    values[size_t(i.node)] = {i.kind == GraphInput::Kind::argument   ? p.arguments[size_t(i.argument)]
                              : i.kind == GraphInput::Kind::captured ? i.captured
                                                                     : i.variable->value};
  for (size_t k = 0; k < g.nodes().size(); ++k) {
    const Node& n = g.nodes()[k];
    if (n.kind == Node::Kind::constant) values[k] = {n.constant};
    if (n.kind != Node::Kind::op) continue;
    Values in;
    for (ValueId v : n.inputs) in.push_back(values[size_t(v.node)][size_t(v.index)]);
    values[k] = op_check::run(*n.op, in, n.attrs);
    if (!on_host && !n.op->call && promises_bits(*n.op)) {
      for (Tensor& t : in) t = n.op->view ? t : t.contiguous();
      if (std::string d = difference_from_cpu(n, in, values[k]); !d.empty()) return d;
      continue;
    }
    // What cancels (x - mean(x)) has an error that depends on the numbers, and is judged by the record's own samples.
    if (n.op->call || n.op->view || !n.op->ref || n.op->norm_tolerance) continue;
    for (Tensor& t : in) t = t.contiguous().to("cpu:0");
    const Values ref = op_check::run_on("ref:0", *n.op, in, n.attrs);
    Values magnitudes;
    if (n.op->sum_tolerance) magnitudes = op_check::run_on("ref:0", *n.op, op_check::magnitudes(in), n.attrs);
    double rounding = rounding_of(in);
    if (n.op->name == "prod") rounding += product_rounding(n, in[0], ref[0]);
    if (std::isnan(rounding)) continue;
    for (size_t i = 0; i < ref.size(); ++i) {
      ++counts.of["ops on reference kernels"];
      const Tensor m = magnitudes.empty() ? Tensor() : op_check::summed_parts(magnitudes[i]);
      const double beside = rounding + (m.defined() ? sum_rounding(*n.op, in[0], m) : 0);
      if (std::string d = op_check::mismatch(*n.op, values[k][i], ref[i], m, beside); !d.empty())
        return op_check::describe(*n.op, in, n.attrs) + ": " + d;
    }
  }
  return "";
}

// The derivative of the results' sum along a random direction, by the tape and by central differences, in f64, `shift`
// away from the arguments. Two step sizes must agree, else the function is too curved, too large or not a number near
// there; and the results must be small beside what differences of them can show.
std::string slope_mismatch(const Program& p, double shift) {
  Values direction, g, start;
  double magnitude = 0;
  auto total = [&](const Values& args) {
    double t = 0;
    p.rewind();
    magnitude = 0;
    for (const Tensor& y : floats_of(p(args))) {
      t += sum(y.astype(f64)).item<double>();
      magnitude += sum(abs(y).astype(f64)).item<double>();
    }
    return t;
  };
  auto at = [&](double h) {
    Values args;
    for (size_t i = 0; i < start.size(); ++i) args.push_back(start[i] + h * direction[i]);
    return total(args);
  };
  for (const Tensor& t : p.arguments) {
    direction.push_back(random::uniform(t.shape(), {.dtype = f64, .key = random::Key(9)}));
    start.push_back(shift == 0 ? t : t + shift * random::uniform(t.shape(), {.dtype = f64, .key = random::Key(10)}));
  }
  auto slope = [&](double h) { return (at(h) - at(-h)) / (2 * h); };
  const double rough = slope(2e-5), fine = slope(1e-5);
  if (!(std::abs(total(start)) < 1e4) || !(magnitude < 1e5) || !std::isfinite(fine) ||
      std::abs(rough - fine) > 1e-7 * (1 + std::abs(fine)))
    return "";
  p.rewind();
  g = gradients(p, [&](const Values& a) { return p(a); }, start);
  g.erase(g.begin(), g.begin() + int64_t(p.outputs.size()));
  double tape = 0;
  for (size_t i = 0; i < start.size(); ++i) tape += sum(g[i] * direction[i]).item<double>();
  ++counts.of["slopes by finite differences"];
  if (std::abs(tape - fine) <= 1e-5 * (1 + std::abs(fine))) return "";
  return fmt::format("the slope is {} by the tape and {} by finite differences", tape, fine);
}

// Where the two differ at the arguments (many of which are whole numbers) and agree beside them, the function has no
// derivative there.
std::string difference_from_slope(const Program& p) {
  std::string wrong = slope_mismatch(p, 0);
  return wrong.empty() ? "" : slope_mismatch(p, 1e-2);
}

// --- Checking --------------------------------------------------------------------------------------------------------

template <class Difference>
void check(uint64_t seed, const Program& p, const std::string& what, Difference difference) {
  ++counts.of["comparisons"];
  std::string wrong = difference(p);
  if (wrong.empty()) return;
  const Program least = minimise(p, [&](const Program& part) {
    std::string d = difference(part);
    if (!d.empty()) wrong = d;
    return !d.empty();
  });
  FAIL_CHECK("seed " << seed << ", " << what << ": " << wrong << "\n" << print(least));
}

void check(uint64_t seed, const Program& p, Ask ask, How how) {
  if (how == How::compiled && !has_compiler()) return;
  check(seed, p, std::string(how_names[int(how)]) + ", " + ask_names[int(ask)], [&](const Program& part) {
    if (ask != Ask::results && floats_of(part.arguments).empty()) return std::string();
    return how == How::open ? difference_with_open_sizes(part, ask) : difference(part, ask, how);
  });
}

// Whether it is this seed's turn for what is done for one program in n.
bool turn(uint64_t seed, uint64_t n, uint64_t which = 0) { return thorough || seed % n == which; }

// On a GPU all fused kernels are compiled, one by one: fewer programs get there.
bool is_fused(uint64_t seed) { return on_host || turn(seed, 8, 2); }

// CI takes others for each commit where it runs few.
uint64_t first_seed() { return setting("RILL_RANDOM_SEED", 1 + (on_host ? 0 : 10000 * setting("RILL_TEST_TURN", 0))); }
// RILL_RANDOM_COUNT, or a part of it, of which there is always one.
uint64_t programs(uint64_t part = 1) {
  const uint64_t count = setting("RILL_RANDOM_COUNT", 1000);
  if (count == 0) FAIL("RILL_RANDOM_COUNT is 0 or no number, and nothing would be tested. give at least 1");
  return (count + part - 1) / part;
}

constexpr uint64_t enough = 40;  // programs for a fraction of them to say something

bool is_pure(const Program& p) {
  return !p.any_step([](const Step& s) { return s.draws || s.effect; });
}

}  // namespace

TEST_CASE("random programs: results and assigned variables") {
  const uint64_t first = first_seed(), count = programs();
  const Since compared("comparisons"), judged("ops on reference kernels"), alike("ops with the CPU's bits"),
      open("calls with open sizes");
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Program p = make_program(seed, Kind::any);
    ++counts.of["programs"];
    check(seed, p, Ask::results, How::traced);
    if (is_fused(seed)) check(seed, p, Ask::results, How::interpreted);
    if (turn(seed, 4)) check(seed, p, Ask::results, How::compiled);
    if (turn(seed, 4, 1)) check(seed, p, Ask::results, How::open);
    if (turn(seed, 8, 3) && is_pure(p)) check(seed, p, Ask::results, How::threads);
    if (turn(seed, 2) || !on_host) check(seed, p, "against the reference kernels", difference_from_reference);
  }
  CHECK(compared >= int64_t(count));
  CHECK((count < enough || judged + alike >= int64_t(count)));  // on a GPU most ops have the CPU's bits
  CHECK((count < enough || open >= int64_t(count / 4)));
}

TEST_CASE("random programs: gradients") {
  const uint64_t first = first_seed(), count = programs(2);
  const Since taken("programs with gradients");
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Program p = make_program(seed, Kind::differentiable);
    if (floats_of(p.arguments).empty() || p.aliased) continue;
    ++counts.of["programs with gradients"];
    check(seed, p, Ask::gradients_inside, How::traced);
    if (is_fused(seed)) check(seed, p, Ask::gradients_inside, How::interpreted);
    check(seed, p, Ask::gradients_around, How::traced);
    if (turn(seed, 4)) check(seed, p, Ask::gradients_around, How::compiled);
    if (turn(seed, 4, 2)) check(seed, p, Ask::gradients_inside, How::compiled);
    if (turn(seed, 8, 1)) check(seed, p, Ask::gradients_inside, How::open);
    if (turn(seed, 8, 5)) check(seed, p, Ask::gradients_around, How::open);
  }
  CHECK(taken >= int64_t(count / 2));
}

TEST_CASE("random programs: tangents") {
  const uint64_t first = first_seed(), count = programs(4);
  const Since taken("programs with tangents");
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Program p = make_program(seed, Kind::differentiable);
    if (floats_of(p.arguments).empty() || p.aliased) continue;
    ++counts.of["programs with tangents"];
    check(seed, p, Ask::tangents_inside, How::traced);
    check(seed, p, Ask::tangents_around, How::traced);
    if (turn(seed, 4)) check(seed, p, Ask::tangents_around, How::compiled);
    if (turn(seed, 4, 2)) check(seed, p, Ask::tangents_inside, How::compiled);
    if (turn(seed, 8, 5)) check(seed, p, Ask::tangents_around, How::open);
  }
  CHECK(taken >= int64_t(count / 2));
}

TEST_CASE("random programs: large operands") {
  const uint64_t first = first_seed(), count = programs(50);
  const Since compared("comparisons");
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Program p = make_program(seed, Kind::large);
    ++counts.of["programs with large operands"];
    check(seed, p, Ask::results, How::traced);
    check(seed, p, Ask::results, How::compiled);
    if (floats_of(p.arguments).empty() || p.aliased) continue;
    check(seed, p, Ask::gradients_inside, How::compiled);
    check(seed, p, Ask::gradients_around, turn(seed, 2) ? How::compiled : How::traced);
  }
  CHECK(compared >= int64_t(count));
}

TEST_CASE("random programs: slopes") {
  const uint64_t first = first_seed(), count = programs();
  const Since taken("slopes by finite differences");
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Program p = make_program(seed, Kind::smooth);
    if (!p.aliased) check(seed, p, "against finite differences", difference_from_slope);
  }
  CHECK((count < enough || taken >= int64_t(count / 4)));
}
