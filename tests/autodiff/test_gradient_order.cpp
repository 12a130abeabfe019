// Gradients have the bits of eager code wherever the tape stands, because cotangents are added in eager's order: random
// programs with fan-out, calls in calls, results given twice, arguments given back, captured tensors and Variables that
// are arguments too, control flow, recompute and custom_gradient, eagerly, with calls traced, with the tape inside a
// traced function and around one. RILL_RANDOM_SEED=n starts at another seed, RILL_ORDER_COUNT=n runs so many.
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"
#include "rill/trace/jit.h"
#include "same.h"

using namespace rill;

namespace {

using Values = std::vector<Tensor>;

// What the programs read from outside.
struct World {
  Values arguments, captured;
  std::vector<Variable> variables;
};

enum class Wrap { call, recompute, cond, scan, while_loop, custom };
const char* const wrap_names[] = {"call", "recompute", "cond", "scan", "while_loop", "custom"};

struct Block;
struct Step {
  int kind, a, b;  // 0: unary, 1: binary, 2: captured, 3: variable, 4: block, 5: assign and read a variable
  std::shared_ptr<Block> block;  // given `args`
  std::vector<int> args;
};
struct Block {
  Wrap wrap = Wrap::call;
  int inputs = 0;
  std::vector<Step> steps;  // values: the inputs, then what steps give
  std::vector<int> outputs;
};

// How blocks run: as the C++ they are, or what they say.
enum class Mode { plain, wrapped };

Values run(const Block& b, const Values& in, World& w, Mode mode);

Tensor unary(int k, const Tensor& x) {
  switch (k % 7) {
    case 0: return sin(x);
    case 1: return tanh(x);
    case 2: return x * x;
    case 3: return reverse(x);
    case 4: return x * 0.7f;
    case 5: return softmax(x, -1);
    default: return cumsum(x, 0) * 0.25f;
  }
}
Tensor binary(int k, const Tensor& x, const Tensor& y) {
  switch (k % 4) {
    case 0: return x + y;
    case 1: return x * y;
    case 2: return x - y;
    default: return squared_difference(x, y);
  }
}

Values wrapped(const std::shared_ptr<Block>& b, const Values& in, World& w, Mode mode) {
  auto body = [b, &w, mode](const Values& args) { return run(*b, args, w, mode); };
  switch (b->wrap) {
    case Wrap::call:
      if (mode == Mode::plain) return body(in);
      return function("block", [body](const Values& args) { return body(args); })(in);
    case Wrap::recompute: {
      auto f = [&](const Tensor& x, const Tensor& y) { return body({x, y})[0]; };
      return {mode == Mode::plain ? f(in[0], in[1]) : recompute([body](const Tensor& x, const Tensor& y) {
        return body({x, y})[0];
      })(in[0], in[1])};
    }
    case Wrap::cond:
      return cond(
          sum(in[0]) > -1e9f, [&] { return body(in); },
          [&] {
            Values other;
            for (size_t k = 0; k < b->outputs.size(); ++k) other.push_back(in[1] * 2);
            return other;
          });
    case Wrap::scan: {
      auto [last, ys] = scan(
          [&](const Tensor& carry, const Tensor& row) {
            Values out = body({carry, row + in[1] * 0});
            return std::pair(out[0], out[out.size() - 1]);
          },
          in[0], stack({in[1], in[0], in[1]}));
      return {last, sum(ys, 0)};
    }
    case Wrap::while_loop: {
      auto [x, y, n] = while_loop([](const Tensor&, const Tensor&, const Tensor& n) { return n < 3; },
                                  [&](const Tensor& x, const Tensor& y, const Tensor& n) {
                                    Values out = body({x, y});
                                    return std::tuple(out[0] * 0.5f + in[0], out[out.size() - 1], n + 1);
                                  },
                                  in[0], in[1], tensor(int64_t(0)), {.max_steps = 3});
      return {x, y};
    }
    case Wrap::custom:
      return {custom_gradient([&](const Tensor& x, const Tensor& y) {
        Tensor out = body({x, y})[0];
        return std::pair(out, [x, y, out](const Tensor& g) { return Tensors{g * out + y, g * x * y + g}; });
      })(in[0], in[1])};
  }
  return {};
}

Values run(const Block& b, const Values& in, World& w, Mode mode) {
  Values v = in;
  for (const Step& s : b.steps) {
    switch (s.kind) {
      case 0: v.push_back(unary(s.b, v[size_t(s.a)])); break;
      case 1: v.push_back(binary(s.args[0], v[size_t(s.a)], v[size_t(s.b)])); break;
      case 2: v.push_back(w.captured[size_t(s.a)]); break;
      case 3: v.push_back(w.variables[size_t(s.a)].value()); break;
      case 5:
        w.variables[size_t(s.a)].assign(stop_gradient(v[size_t(s.b)]) * 0.5f);
        v.push_back(w.variables[size_t(s.a)].value());
        break;
      default: {
        Values args;
        for (int k : s.args) args.push_back(v[size_t(k)]);
        Values out = wrapped(s.block, args, w, mode);
        v.insert(v.end(), out.begin(), out.end());
      }
    }
  }
  Values out;
  for (int k : b.outputs) out.push_back(v[size_t(k)]);
  return out;
}

class Maker {
 public:
  explicit Maker(uint64_t seed) : rng_(seed) {}
  int below(int n) { return int(rng_() % uint64_t(n)); }

  Block block(int inputs, int depth, bool assigns) {
    Block b;
    b.inputs = inputs;
    int count = inputs;
    auto pick = [&] { return below(3) ? below(count) : count - 1 - below(std::min(count, 3)); };
    for (int n = 2 + below(7); n-- > 0;) {
      Step s{below(10), pick(), pick(), nullptr, {}};
      if (s.kind < 3) s.kind = 0, s.b = below(100);
      else if (s.kind < 6) s.kind = 1, s.args = {below(100)};
      else if (s.kind == 6) s.kind = 2, s.a = below(2);
      else if (s.kind == 7) s.kind = assigns && below(3) == 0 ? 5 : 3, s.a = below(2);
      else if (depth == 0) continue;
      else {
        s.kind = 4;
        const Wrap wrap = Wrap(below(3) ? 0 : below(6));
        const int args = wrap == Wrap::call ? 1 + below(4) : 2;
        for (int k = 0; k < args; ++k) s.args.push_back(pick());
        s.block = std::make_shared<Block>(block(args, depth - 1, assigns && wrap == Wrap::call));
        s.block->wrap = wrap;
        const bool one = wrap == Wrap::recompute || wrap == Wrap::custom;
        count += one ? 1 : wrap == Wrap::scan || wrap == Wrap::while_loop ? 2 : int(s.block->outputs.size());
        b.steps.push_back(s);
        continue;
      }
      ++count;
      b.steps.push_back(s);
    }
    for (int n = 1 + below(3); n-- > 0;) b.outputs.push_back(pick());
    if (below(3) == 0) b.outputs.push_back(b.outputs[0]);
    return b;
  }

 private:
  std::mt19937_64 rng_;
};

std::string print(const Block& b, const std::string& indent = "  ") {
  std::string text;
  int next = b.inputs;
  for (const Step& s : b.steps) {
    text += indent + "%" + std::to_string(next) + " = ";
    if (s.kind == 4) {
      text += std::string(wrap_names[int(s.block->wrap)]) + "(";
      for (int k : s.args) text += " %" + std::to_string(k);
      text += " )\n" + print(*s.block, indent + "    ");
      const bool one = s.block->wrap == Wrap::recompute || s.block->wrap == Wrap::custom;
      next += one                                                                ? 1
              : s.block->wrap == Wrap::scan || s.block->wrap == Wrap::while_loop ? 2
                                                                                 : int(s.block->outputs.size());
      continue;
    }
    ++next;
    const std::string a = std::to_string(s.a), b2 = std::to_string(s.b);
    if (s.kind == 0) text += "unary" + std::to_string(s.b % 7) + "(%" + a + ")\n";
    if (s.kind == 1) text += "binary" + std::to_string(s.args[0] % 4) + "(%" + a + ", %" + b2 + ")\n";
    if (s.kind == 2) text += "captured " + a + "\n";
    if (s.kind == 3) text += "variable " + a + "\n";
    if (s.kind == 5) text += "variable " + a + " = 0.5 * %" + b2 + ", read\n";
  }
  text += indent + "return";
  for (int k : b.outputs) text += " %" + std::to_string(k);
  return text + "\n";
}

// Inside a traced function an argument and a captured tensor are two, even if the caller gives one: `aliased` leaves
// that out.
World world(bool aliased, DType dtype) {
  World w;
  auto numbers = [&](uint64_t key) {
    return random::normal({3, 4}, {.stddev = 0.8, .dtype = dtype, .key = random::Key(key)});
  };
  for (uint64_t k = 0; k < 3; ++k) w.arguments.push_back(numbers(k));
  for (uint64_t k = 0; k < 2; ++k) w.captured.push_back(numbers(10 + k));
  if (aliased) w.captured[1] = w.arguments[1];  // captured and an argument
  w.variables.emplace_back(numbers(20), "w");
  w.variables.emplace_back(numbers(21), "v");
  return w;
}

enum class Where_ { eager, calls, inside, around };
const char* const where_names[] = {"eager", "calls traced", "tape inside", "tape around"};

// Gradients by all that the program reads; where `second`, of their squares once more.
Values gradients(const Block& program, Where_ where, bool second, bool aliased, DType dtype) {
  World w = world(aliased, dtype);
  const Mode mode = where == Where_::eager ? Mode::plain : Mode::wrapped;
  auto results = [&](const Values& args) { return run(program, args, w, mode); };
  auto traced = function("program", [&](const Values& args) { return results(args); });
  auto once = [&](const Values& args, bool fn) {
    GradientTape tape;
    std::vector<Source> sources(args.begin(), args.end());
    for (const Tensor& t : args) tape.watch(t);
    for (const Tensor& t : w.captured) tape.watch(t), sources.emplace_back(t);
    for (const Variable& v : w.variables) sources.emplace_back(v);
    Values out = fn ? traced(args) : results(args);
    return tape.gradient(out, sources, {.unconnected = Unconnected::zero});
  };
  auto all = [&](const Values& args) {
    const bool fn = where == Where_::around;
    if (!second) return once(args, fn);
    GradientTape outer;
    std::vector<Source> sources(args.begin(), args.end());
    for (const Tensor& t : args) outer.watch(t);
    for (const Variable& v : w.variables) sources.emplace_back(v);
    Values g = once(args, fn), squares;
    for (const Tensor& t : g) squares.push_back(t * t);
    Values h = outer.gradient(squares, sources, {.unconnected = Unconnected::zero});
    g.insert(g.end(), h.begin(), h.end());
    return g;
  };
  if (where != Where_::inside) return all(w.arguments);
  return function("inside", [&](const Values& args) { return all(args); })(w.arguments);
}

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

void check(uint64_t seed, const Block& program, Where_ where, bool second) {
  try {
    const bool aliased = where != Where_::inside;
    const DType dtype = seed % 3 == 2 ? bf16 : f32;  // whose sums are kept in f32
    const Values eager = gradients(program, Where_::eager, second, aliased, dtype),
                 got = gradients(program, where, second, aliased, dtype);
    REQUIRE(got.size() == eager.size());
    for (size_t k = 0; k < eager.size(); ++k)
      if (!same(eager[k], got[k])) {
        FAIL_CHECK("seed " << seed << ", " << where_names[int(where)] << (second ? ", second order" : "")
                           << ": gradient " << k << " differs\n"
                           << print(program) << "eager\n"
                           << eager[k] << "\ngot\n"
                           << got[k]);
        return;
      }
  } catch (const std::exception& e) {
    FAIL_CHECK("seed " << seed << ", " << where_names[int(where)] << ": it throws " << e.what() << "\n"
                       << print(program));
  }
}

}  // namespace

TEST_CASE("random programs: cotangents are added in eager's order") {
  const uint64_t first = setting("RILL_RANDOM_SEED", 1), count = setting("RILL_ORDER_COUNT", 150);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    jit::set_mode(seed % 32 == 0 ? jit::Mode::wait : jit::Mode::off);
    const Block program = Maker(seed).block(3, seed % 3 ? 1 : 2, seed % 2);
    for (Where_ where : {Where_::calls, Where_::inside, Where_::around}) check(seed, program, where, false);
    if (seed % 4 == 0)
      for (Where_ where : {Where_::inside, Where_::around}) check(seed, program, where, true);
  }
  jit::set_mode(jit::Mode::tiered);
}
