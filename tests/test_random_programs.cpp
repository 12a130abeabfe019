// Random programs (random_program.h): eager, traced on the eager kernels, fused and interpreted, fused and compiled,
// all with the same bits, gradients included. RILL_RANDOM_SEED=n starts at another seed, RILL_RANDOM_COUNT=n runs so
// many; a failure prints the seed of its program, and the smallest part of it that still fails.
#include <cstdlib>
#include <iostream>

#include "catch.h"
#include "random_program.h"
#include "rill/trace/executable.h"
#include "rill/trace/fusion.h"
#include "rill/trace/jit.h"
#include "rill/trace/passes.h"
#include "same.h"

using namespace random_program;

namespace {

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

using Values = std::vector<Tensor>;
enum class Ask { results, gradients_inside, gradients_around };
enum class How { eager, traced, interpreted, compiled };
const char* const how_names[] = {"eager", "traced on eager kernels", "fused, interpreted", "fused, compiled"};
const char* const ask_names[] = {"results", "gradients, tape inside", "gradients, tape around"};

std::vector<Tensor> floats_of(const Values& v) {
  std::vector<Tensor> f;
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
  std::vector<Tensor> known;
  for (const Tensor& t : targets) known.push_back(t + zero.astype(t.dtype()));
  Values g = tape.gradient(known, sources, {.unconnected = Unconnected::zero});
  results.insert(results.end(), g.begin(), g.end());
  return results;
}

// What the program gives, and what its variables hold afterwards.
Values answer(const Program& p, Ask ask, How how, int calls = 1) {
  auto body = [&](const Values& args) {
    return ask == Ask::gradients_inside ? gradients(p, [&](const Values& a) { return p(a); }, args) : p(args);
  };
  Values out;
  auto with_variables = [&] {
    for (const Variable& v : p.variables) out.push_back(v.value());
  };
  if (how == How::interpreted) {
    auto f = function("program", [&](const Values& args) { return body(args); });
    Graph g = optimize(f.graph(p.arguments));
    Executable e(eliminate_dead_code(fuse(g, nullptr)));
    p.rewind();
    Values in;
    for (const GraphInput& i : g.inputs)
      in.push_back(i.kind == GraphInput::Kind::argument   ? p.arguments[size_t(i.argument)]
                   : i.kind == GraphInput::Kind::captured ? i.captured
                                                          : i.variable->value);
    out.resize(e.result_count());
    e.run(in, out);
    for (size_t k = 0; k < g.assigns.size(); ++k) g.assigns[k].variable->value = out[g.outputs.size() + k].contiguous();
    out.resize(g.outputs.size());
    with_variables();
    return out;
  }
  jit::set_mode(how == How::compiled ? jit::Mode::wait : jit::Mode::off);
  auto f = function("program", [&](const Values& args) { return body(args); });
  for (int i = 0; i < calls; ++i) {
    p.rewind();
    auto call = [&](const Values& a) { return how == How::eager ? body(a) : f(a); };
    out = ask == Ask::gradients_around ? gradients(p, call, p.arguments) : call(p.arguments);
  }
  with_variables();
  return out;
}

// "" where all is equal.
std::string difference(const Program& p, Ask ask, How how) {
  try {
    Values eager = answer(p, ask, How::eager), got = answer(p, ask, how, how == How::interpreted ? 1 : 2);
    if (eager.size() != got.size()) return "another number of results";
    for (size_t i = 0; i < eager.size(); ++i)
      if (!same(eager[i], got[i])) {
        std::string text = "value " + std::to_string(i) + " of " + std::to_string(eager.size());
        if (eager[i].shape() == got[i].shape())
          for (int64_t k = 0; k < eager[i].size(); ++k) {
            Tensor a = eager[i].reshape({-1})(k), b = got[i].reshape({-1})(k);
            if (same(a, b)) continue;
            text += ", first at " + std::to_string(k) + ": " + to_string(a) + " and " + to_string(b);
            break;
          }
        if (eager[i].size() <= 64) text += "\neager " + to_string(eager[i]) + "\ngot   " + to_string(got[i]);
        return text;
      }
  } catch (const std::exception& e) {
    return std::string("it throws: ") + e.what();
  }
  return "";
}

void check(uint64_t seed, bool differentiable, Ask ask, How how, const Program& p) {
  std::string wrong = difference(p, ask, how);
  if (wrong.empty()) return;
  Program least = p;
  for (size_t i = 0; i < p.steps.size(); ++i) {
    Program part = slice_of(p, int(i));
    if (std::string d = difference(part, ask, how); !d.empty()) {
      least = part, wrong = d;
      break;
    }
  }
  FAIL_CHECK("seed " << seed << (differentiable ? " (differentiable)" : "") << ", " << how_names[int(how)] << ", "
                     << ask_names[int(ask)] << ": " << wrong << "\n"
                     << print(least) << "of\n"
                     << print(p));
}

}  // namespace

TEST_CASE("random programs: results and assigned variables") {
  const uint64_t first = setting("RILL_RANDOM_SEED", 1), count = setting("RILL_RANDOM_COUNT", 2000);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Program p = make_program(seed, false);
    check(seed, false, Ask::results, How::traced, p);
    check(seed, false, Ask::results, How::interpreted, p);
    if (seed % 4 == 0) check(seed, false, Ask::results, How::compiled, p);
  }
}

TEST_CASE("random programs: gradients") {
  const uint64_t first = setting("RILL_RANDOM_SEED", 1), count = setting("RILL_RANDOM_COUNT", 1000) / 2;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Program p = make_program(seed, true);
    if (floats_of(p.arguments).empty() || p.aliased) continue;
    check(seed, true, Ask::gradients_inside, How::traced, p);
    check(seed, true, Ask::gradients_inside, How::interpreted, p);
    check(seed, true, Ask::gradients_around, How::traced, p);
    if (seed % 4 == 0) check(seed, true, Ask::gradients_around, How::compiled, p);
    if (seed % 4 == 2) check(seed, true, Ask::gradients_inside, How::compiled, p);
  }
}
