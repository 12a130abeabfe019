// Compares rill with its judges: each case (cases.h) eager, on ref:0, traced, and compiled; its gradients by a tape
// inside a traced function and by one around it. Values are held to what the judge says, traced ones to eager bits.
// Those of transforms (transforms.h): jvp, vjp, jacfwd, ..., eager and traced.
//
//   runner CASES.gz... [--compile N] [--only NAME] [--cover FILE] [--every N] [--device D] [--guarded]
//
// --compile N compiles the traces of every N-th case (0: of none); --only takes one function's cases; --cover fails
// where more of the public functions in FILE have no case than tests/oracle/without_case.txt says, or fewer, so that
// the number may only fall; and likewise where differentiable ones have no transforms. --every N takes one case of N;
// RILL_TEST_TURN says which.
// --device takes all operands to a device, and counts apart what has no kernel there. --guarded takes them to one whose
// memory the host cannot touch (guarded_device.h), and fails where something has.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>
#include <set>

#include "cases.h"
#include "compare.h"
#include "guarded_device.h"
#include "transforms.h"

namespace oracle {

using namespace rill;

namespace {

// --- One case --------------------------------------------------------------------------------------------------------

// The gradients of the operands that the case has some for.
Values gradients(const Case& c, const std::function<Values(const Values&)>& call, const Values& in) {
  GradientTape tape;
  std::vector<Source> sources;
  for (size_t i = 0; i < in.size(); ++i)
    if (c.gradients[i]) tape.watch(in[i]), sources.emplace_back(in[i]);
  Values out = call(in), targets, cotangents;
  for (size_t i = 0; i < out.size(); ++i)
    if (c.cotangents[i].defined()) targets.push_back(out[i]), cotangents.push_back(c.cotangents[i]);
  return tape.gradient(targets, sources, {.unconnected = Unconnected::zero, .output_gradients = cotangents});
}

class Checker {
 public:
  Checker(const Entry& entry, const Case& c) : entry_(entry), case_(c) {}

  // Faults, each with how the case was run. `compile`: also with compiled kernels.
  std::vector<std::string> run(bool compile) {
    if (case_.transforms) {
      for (const std::string& name : transforms_of(case_)) check_transform(name, compile);
      return faults_;
    }
    const Values eager = attempt("eager", [&] { return call(case_.in); });
    if (!faults_.empty()) return faults_;
    expect("eager", difference(eager, case_.out));
    if (entry_.traces) {
      attempt("on ref:0", [&] { return on_reference(); });
      for (bool c : {false, true})
        if (c <= compile) traced(eager, c);
    }
    if (!case_.gradients.empty()) check_gradients(compile);
    return faults_;
  }

 private:
  Values call(const Values& in) const { return entry_.call(Call(in, case_.options)); }

  Values attempt(const std::string& how, const std::function<Values()>& f) {
    try {
      return f();
    } catch (const std::exception& e) {
      faults_.push_back(how + ": throws " + e.what());
      return {};
    }
  }
  void expect(const std::string& how, const std::string& difference) {
    if (!difference.empty()) faults_.push_back(how + ": " + difference);
  }

  Values on_reference() {
    WithDevice device("ref:0");
    Values in;
    for (const Tensor& t : case_.in) in.push_back(t.spec().weak ? t : t.to("ref:0"));
    Values out = call(in);
    expect("on ref:0", difference(out, case_.out));
    return out;
  }

  void check_transform(const std::string& name, bool compile) {
    const Values given = arguments_of(case_);
    auto call = [&](const Values& in) { return transformed(case_, entry_, name, in); };
    const Values eager = attempt(name, [&] { return call(given); });
    if (eager.empty()) return;
    expect(name, difference(eager, expected_of(case_, name)));
    if (!entry_.traces) return;
    for (bool c : {false, true}) {
      if (c > compile) break;
      const std::string how = name + (c ? ", compiled" : ", traced");
      jit::set_mode(c ? jit::Mode::wait : jit::Mode::off);
      attempt(how, [&] {
        Values out = function(name, call)(given);
        expect(how, case_.rounds ? difference(out, expected_of(case_, name)) : difference(out, eager));
        return out;
      });
    }
  }

  void traced(const Values& eager, bool compile) {
    const std::string how = compile ? "compiled" : "traced";
    jit::set_mode(compile ? jit::Mode::wait : jit::Mode::off);
    attempt(how, [&] {
      auto f = function("case", [&](const Values& in) { return call(in); });
      Values out = f(case_.in);
      expect(how, difference(out, eager));
      if (compile) expect("called again", difference(f(case_.in), eager));
      return out;
    });
  }

  void check_gradients(bool compile) {
    auto eagerly = [&](const Values& in) { return call(in); };
    const Values eager = attempt("gradient", [&] { return gradients(case_, eagerly, case_.in); });
    if (eager.empty()) return;
    std::vector<Expected> want;
    for (const auto& g : case_.gradients)
      if (g) want.push_back(*g);
    expect("gradient", difference(eager, want));
    if (!entry_.traces) return;
    auto compare = [&](const std::string& how, const Values& got) {
      expect(how, case_.rounds ? difference(got, want) : difference(got, eager));
    };
    for (bool c : {false, true}) {
      if (c > compile) break;
      const std::string how = c ? "gradient, compiled" : "gradient, traced";
      jit::set_mode(c ? jit::Mode::wait : jit::Mode::off);
      attempt(how, [&] {
        auto inside = function("gradient", [&](const Values& in) { return gradients(case_, eagerly, in); });
        compare(how + ", tape inside", inside(case_.in));
        auto f = function("case", [&](const Values& in) { return call(in); });
        Values around = gradients(case_, [&](const Values& in) { return f(in); }, case_.in);
        compare(how + ", tape around", around);
        return around;
      });
    }
  }

  const Entry& entry_;
  const Case& case_;
  std::vector<std::string> faults_;
};

std::string describe(const Case& c) {
  std::string text = c.fn + "(";
  for (size_t i = 0; i < c.in.size(); ++i) text += (i > 0 ? ", " : "") + to_string(c.in[i].spec());
  return text + ")" + (c.options.empty() ? "" : " " + c.options.dump());
}

// --- All cases -------------------------------------------------------------------------------------------------------

struct Settings {
  std::vector<std::string> files;
  int compile = 8;
  std::string only;
  std::string cover;  // the file of public functions
  bool verbose = false;
  bool guarded = false;
  std::optional<Device> device;  // where operands go
  int every = 1, turn = 0;
};

Settings settings(int argc, char** argv) {
  Settings s;
  if (const char* turn = std::getenv("RILL_TEST_TURN")) s.turn = std::atoi(turn);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* next = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--compile") s.compile = std::atoi(next), ++i;
    else if (word == "--only") s.only = next, ++i;
    else if (word == "--cover") s.cover = next, ++i;
    else if (word == "--verbose") s.verbose = true;
    else if (word == "--guarded") s.guarded = true, s.device = "gpu:0";
    else if (word == "--device") s.device = next, ++i;
    else if (word == "--every") s.every = std::atoi(next), ++i;
    else s.files.push_back(word);
  }
  return s;
}

// Second order: the gradient of the sum of the squares of a function's first result.
void add_gradients(Table& table) {
  table["gradient of"] = {[&table](const Call& c) -> Values {
    const Tensor& x = c[size_t(c.integer("by", 0))];
    GradientTape tape;
    tape.watch(x);
    const Values y = table.at(c.text("of")).call(Call(c.in, c.options.at("opt")));
    return {tape.gradient(sum(square(y.at(0))), x, {.unconnected = Unconnected::zero})};
  }};
}

struct Counts {
  std::set<std::string> functions, differentiable;
  std::set<std::pair<std::string, std::string>> transforms;  // of functions
  int cases = 0, gradients = 0, compiled = 0, faulty = 0;
  std::map<std::string, int> faults;          // of each function
  std::map<std::string, int> without_kernel;  // on the requested device
};

// A GPU has nothing wider than f64 to compute special functions of f64 in: docs/cuda.md says how much that costs.
void allow_for_f64(Case& c) {
  const auto allow = [](Expected& e) {
    if (e.exact || e.value.dtype() != f64 || e.value.size() == 0) return;
    const double largest = max(where(isfinite(e.value), abs(e.value), 0)).item<double>();
    e.abs = maximum(e.abs, 64 * std::numeric_limits<double>::epsilon() * largest);
  };
  for (Expected& e : c.out) allow(e);
  for (std::optional<Expected>& e : c.gradients)
    if (e) allow(*e);
  if (c.transforms)
    for (auto& [name, list] : c.transforms->want)
      for (Expected& e : list) allow(e);
}

// Takes a case's operands to a device; not those with strings, which live on the host.
bool to_device(Case& c, Device device) {
  const auto has_strings = [](const Tensor& t) { return t.defined() && t.dtype() == DType::string; };
  if (std::any_of(c.in.begin(), c.in.end(), has_strings)) return false;
  std::vector<Values*> lists{&c.in, &c.cotangents};
  if (Transforms* t = c.transforms ? &*c.transforms : nullptr)
    lists.insert(lists.end(), {&t->tangents, &t->cotangents, &t->batch});
  for (Values* list : lists)
    for (Tensor& t : *list)
      if (t.defined() && !t.spec().weak) t = t.to(device);
  return true;
}

void run_case(const Case& c, const Table& table, const Settings& s, Counts& n) {
  auto entry = table.find(c.fn);
  std::vector<std::string> faults;
  const bool compile = s.compile > 0 && n.cases % s.compile == 0;
  if (entry == table.end()) faults = {"the runner has no function of this name"};
  else faults = Checker(entry->second, c).run(compile);
  if (s.guarded)
    for (const std::string& place : guarded_device::touched()) faults.push_back("touched by the host:\n" + place);
  const auto no_kernel = [](const std::string& fault) { return fault.find("there is no kernel") != std::string::npos; };
  if (s.device && std::any_of(faults.begin(), faults.end(), no_kernel)) return void(++n.without_kernel[c.fn]);
  n.functions.insert(c.fn);
  if (c.transforms)
    for (const std::string& name : transforms_of(c)) n.transforms.emplace(c.fn, name);
  else if (!c.gradients.empty()) n.differentiable.insert(c.fn);
  ++n.cases, n.compiled += compile;
  for (const auto& g : c.gradients) n.gradients += g.has_value();
  if (faults.empty()) return;
  ++n.faulty;
  if (++n.faults[c.fn] > 3 && !s.verbose) return;
  std::cout << "FAILED " << describe(c) << "\n";
  if (s.verbose)
    for (const Tensor& t : c.in) std::cout << "    operand " << to_string(t) << "\n";
  for (const std::string& f : faults) std::cout << "    " << f << "\n";
}

// Whether as many functions lack something as tests/oracle/`file` says.
bool check_number(const std::vector<std::string>& without, const std::string& what, const std::string& file) {
  std::cout << without.size() << " " << what << ":";
  for (const std::string& f : without) std::cout << " " << f;
  std::cout << "\n";
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  size_t allowed = 0;
  std::ifstream(std::string(root ? root : ".") + "/tests/oracle/" + file) >> allowed;
  if (without.size() > allowed)
    std::cout << file << " allows " << allowed << ": a new function needs cases in generate.py\n";
  if (without.size() < allowed) std::cout << file << " still says " << allowed << ": write the smaller number there\n";
  return without.size() == allowed;
}

// Whether the numbers of functions without a case, and of differentiable ones without transforms, are those committed.
bool check_cover(const Counts& n, const Settings& s) {
  if (s.cover.empty()) return true;
  std::vector<std::string> without, not_transformed;
  std::ifstream functions(s.cover);
  if (!functions) throw std::runtime_error(s.cover + ": cannot be read");
  for (std::string f; std::getline(functions, f);)
    if (!n.functions.contains(f)) without.push_back(f);
  std::set<std::string> transformed;
  for (const auto& [f, transform] : n.transforms) transformed.insert(f);
  for (const std::string& f : n.differentiable)
    if (f != "gradient of" && !transformed.contains(f)) not_transformed.push_back(f);
  const bool cased = check_number(without, "public functions without a case", "without_case.txt");
  const bool derived =
      check_number(not_transformed, "differentiable functions without transforms", "without_transforms.txt");
  std::cout << n.functions.size() << " functions, " << n.cases << " cases, " << n.gradients << " gradients compared; "
            << transformed.size() << " functions under jvp, vjp, jacfwd, jacrev, hessian, vmap, vmap of grad, grad of "
            << "vmap: " << n.transforms.size() << " pairs compared; " << without.size()
            << " public functions without a case\n";
  return cased && derived;
}

}  // namespace

int run(int argc, char** argv) {
  const Settings s = settings(argc, argv);
  Table table;
  add_elementwise(table), add_reductions(table), add_shapes(table), add_networks(table), add_functional(table),
      add_arrays(table), add_numeric(table), add_matrices(table), add_programs(table), add_sparse(table),
      add_special(table), add_gradients(table);
  Table special;
  add_special(special);
  Counts n;
  if (s.guarded) guarded_device::add();
  const auto began = std::chrono::steady_clock::now();
  for (const std::string& path : s.files) {
    set_default_device("cpu:0");
    CaseFile file = read_cases(path);
    std::cout << path << ": " << file.cases.size() << " cases, " << file.versions << "\n";
    if (s.device) set_default_device(*s.device);
    int number = 0;
    for (Case& c : file.cases) {
      if (!s.only.empty() && c.fn != s.only) continue;
      if (number++ % s.every != s.turn % s.every || (s.device && !to_device(c, *s.device))) continue;
      if (s.device && s.device->kind() == DeviceKind::gpu && !s.guarded && special.contains(c.fn)) {
        const WithDevice here("cpu:0");
        allow_for_f64(c);
      }
      run_case(c, table, s, n);
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  for (const auto& [fn, count] : n.faults) std::cout << fn << ": " << count << " cases failed\n";
  for (const auto& [fn, count] : n.without_kernel) std::cout << fn << ": " << count << " cases without a kernel\n";
  const bool covered = check_cover(n, s);
  std::cout << n.compiled << " cases compiled too; " << n.faulty << " cases failed; " << seconds << " s\n";
  return n.faulty == 0 && n.cases > 0 && covered ? 0 : 1;
}

}  // namespace oracle

int main(int argc, char** argv) {
  try {
    return oracle::run(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 2;
  }
}
