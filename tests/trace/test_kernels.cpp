// Which kernels known patterns become: how many, and their text, kept in tests/golden. A change of the text is seen
// here first; where it is meant, RILL_UPDATE_GOLDEN=1 build/tests/test_kernels writes the files anew, and the diff is
// for the reader of the commit.
#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "../../benchmarks/models.h"
#include "catch.h"
#include "child.h"
#include "cuda/cubin.h"
#include "cuda/find_nvrtc.h"
#include "cuda/sass.h"
#include "golden.h"
#include "messages.h"
#include "needs.h"
#include "rill/devices/cuda/kernel_text.h"
#include "rill/devices/cuda/nvrtc.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "rill/trace/fusion/fusion.h"
#include "rill/trace/jit.h"
#include "rill/trace/passes.h"
#include "rill/trace/run/executable.h"

using namespace rill;

namespace {

Graph fused_graph(const Graph& traced) { return eliminate_dead_code(fuse(optimize(traced), nullptr)); }

template <class F>
Graph fused_graph(F f, const std::vector<Spec>& in) {
  auto traced = function("f", [&](const std::vector<Tensor>& v) { return f(v); });
  std::vector<Tensor> arguments;
  for (const Spec& s : in) arguments.push_back(zeros(s.shape, s.dtype));
  return fused_graph(traced.graph(arguments));
}

size_t kernels(const Graph& g) { return Executable(g).kernel_count(); }

// "multiply, add" as "add, multiply": in which order the operands of one expression are traced is the compiler's
// choice.
std::string in_order(const std::string& names) {
  std::vector<std::string> list;
  for (size_t at = 0, end = 0; end != std::string::npos; at = end + 2) {
    end = names.find(", ", at);
    list.push_back(names.substr(at, end == std::string::npos ? end : end - at));
  }
  std::sort(list.begin(), list.end());
  std::string text = list[0];
  for (size_t i = 1; i < list.size(); ++i) text += ", " + list[i];
  return text;
}

// What these kernels take of an H100, each with its name, as the NVRTC compiles them that the files name; another may
// differ. Their inner loops keep all in registers, divide in 32 bits and have at least so many loads under way.
void check_resources(const std::string& name, const std::vector<std::pair<std::string, std::string>>& kernels,
                     int least_loads = 0) {
  find_nvrtc();
  if (!cuda::no_nvrtc_reason().empty()) return skip_case(cuda::no_nvrtc_reason());
  std::string text = "NVRTC " + cuda::nvrtc_version() + ", sm_90\n", known;
  std::ifstream file(golden::folder() / "sm_90" / name);
  if (std::getline(file, known) && known + "\n" != text) return skip_case("the files are of " + known);
  const std::string nvdisasm = sass::find_nvdisasm();
  for (const auto& [what, kernel] : kernels) {
    const std::string code = cuda::compile(kernel, 90);
    const cubin::Resources r = cubin::resources(code);
    INFO(what);
    if (!nvdisasm.empty()) {
      const sass::Loops loops = sass::loops(nvdisasm, code);
      CHECK(loops.count > 0);
      if (least_loads > 0) CHECK(loops.loads >= least_loads);
      CHECK(loops.local == 0);
      CHECK(loops.divided == 0);
    }
    text += what + ": " + std::to_string(r.registers) + " registers, " + std::to_string(r.stack) + " bytes of stack\n";
  }
  golden::check("sm_90/" + name, text);
}

// Those of a graph's fused kernels: loops over points have several loads under way.
void check_resources(const std::string& name, const Graph& g) {
  std::vector<std::pair<std::string, std::string>> kernels;
  for (const Node& n : g.nodes())
    if (n.op == &fused_op) {
      const FusedKernel& f = *n.attrs.as<FusedParams>().fused;
      kernel::Kernel k = f.kernel;
      for (kernel::Output& o : k.outputs) o.added = false;  // GPUs add up what the kernel stores
      const std::string what = "fused(" + in_order(f.ops()) + ")";
      kernels.emplace_back(what, cuda::kernel_text(k, "k"));
      if (!cuda::takes_rows(k)) continue;
      kernels.emplace_back(what + " of dense rows", cuda::kernel_text(k, "k", {.dense = true}));
      if (cuda::row_passes(k).kept_bytes > 0 && cuda::row_passes(k).kept_bytes <= 8)
        kernels.emplace_back(what + " of kept rows", cuda::kernel_text(k, "k", {.dense = true, .keeping_warps = 4}));
    }
  check_resources(name, kernels, 2);
}

// A kernel that is written by hand, of a family without further headers: CUDA C++ for NVRTC, as the build makes it.
std::string family_text(std::initializer_list<const char*> parts, const std::string& params, const std::string& call) {
  const char* const root = std::getenv("RILL_SOURCE_ROOT");
  const std::string folder = std::string(root ? root : ".") + "/devices/cuda/families/";
  std::string text;
  for (const char* ending : {"_params.h", ".cuh"})
    for (const char* part : parts) {
      std::ifstream file(folder + part + ending);
      text.append(std::istreambuf_iterator<char>(file), {});
    }
  return text + "\nusing namespace rill::cuda;\nRILL_KERNEL(k, " + params + ") { " + call + "(s); }\n";
}

// Compares the text of all fused kernels, or writes it; or what they take of a GPU, where the caller asks for that.
void check_golden(const std::string& name, const Graph& g) {
  if (std::getenv("RILL_GPU_RESOURCES")) return check_resources(name + ".txt", g);
  std::string text;
  for (const Node& n : g.nodes())
    if (n.op == &fused_op) {
      const FusedKernel& f = *n.attrs.as<FusedParams>().fused;
      text += "fused(" + in_order(f.ops()) + ")\n" + kernel::to_string(f.kernel) + "\n";
    }
  golden::check(name + ".txt", text);
}

using V = std::vector<Tensor>;
Spec of(const Shape& s, DType d = f32) { return {s, d, false, {}}; }

}  // namespace

TEST_CASE(
    "a fused kernel keeps the few layouts that its operands come in: those of a loop's first step and of the others") {
  const Graph g = fused_graph([](const V& v) { return tanh(v[0]) * v[1]; }, {of({2, 3, 8}), of({2, 3, 8})});
  const FusedKernel& f = *g.nodes()[size_t(g.outputs[0].node)].attrs.as<FusedParams>().fused;
  const Tensor dense = ones({2, 3, 8}), wide = ones({2, 3, 16})(ellipsis, slice(0, 8)), once = ones({1, 1, 8}),
               all_same = broadcast_to(once, {2, 3, 8}), taller = ones({2, 9, 8})(all, slice(0, 9, 3));
  FusedLayout room;
  const auto is_kept = [&](const Tensor& x, const Tensor& y) {
    const Tensor* const in[] = {&x, &y};
    return &f.layout_of(in, room) != &room;
  };
  for (int turn = 0; turn < 2; ++turn) {
    CHECK(is_kept(all_same, wide));  // the first step
    CHECK(is_kept(dense, wide));
    CHECK(is_kept(wide, dense));
    CHECK(is_kept(wide, wide));
    CHECK(!is_kept(taller, dense));  // no more than four
  }
}

TEST_CASE("golden: an elementwise chain, in f32 and f16") {
  auto chain = [](const V& v) { return bench::chain(v[0], v[1], v[2]); };
  for (DType d : {f32, f16}) {
    Graph g = fused_graph(chain, {of({4096}, d), of({4096}, d), of({4096}, d)});
    CHECK(kernels(g) == 1);
    check_golden("chain_" + std::string(name(d)), g);
  }
}

// Of the test gpu_resources alone.
TEST_CASE("golden: attention on tensor cores, and maps of several runs, on a GPU", "[.gpu_resources]") {
  std::vector<std::pair<std::string, std::string>> kernels;
  const auto add = [&](const std::string& call, const char* params = "Attention") {
    kernels.emplace_back(
        call, family_text({"attention_scores", "attention", "core_fragments", "attention_cores"}, params, call));
  };
  add("attention_by_cores<f16, 64, 2>");
  for (const char* d : {"64", "96", "128"}) add("attention_by_cores<f16, " + std::string(d) + ">", "AttentionByThrees");
  add("attention_by_cores<f16, 256>");
  for (const char* d : {"64", "96", "128"})
    for (const char* part : {"q", "kv"})
      add("attention_grad_" + std::string(part) + "_by_cores<bf16, " + std::string(d) + ">",
          std::string(part) + d == "q64" ? "AttentionByThrees" : "Attention");
  add("attention_grad_q_of_wide_heads<f16, 256>");
  for (const char* part : {"false", "true"})
    add("attention_grad_kv_of_wide_heads<f16, 256, " + std::string(part) + ">");
  check_resources("attention_cores.txt", kernels);

  kernels.clear();
  const Graph step = fused_graph(
      [](const V& v) {
        const Tensor m = v[1] * 0.9f + v[2] * 0.1f;
        return V{v[0] - m / (sqrt(square(v[2])) + 1e-8f), m};
      },
      {of({100}), of({100}), of({100})});
  for (const Node& n : step.nodes())
    if (n.op == &fused_op) {
      const FusedKernel& f = *n.attrs.as<FusedParams>().fused;
      kernels.emplace_back("runs of fused(" + in_order(f.ops()) + ")", cuda::text_of_runs(f.kernel, "k"));
    }
  CHECK(kernels.size() == 1);
  check_resources("runs.txt", kernels);
}

TEST_CASE("golden: softmax, log_softmax, cross entropy") {
  Graph g = fused_graph([](const V& v) { return softmax(v[0] * 0.125f, -1); }, {of({64, 1000})});
  CHECK(kernels(g) == 1);
  check_golden("softmax", g);
  CHECK(kernels(fused_graph([](const V& v) { return -sum(log_softmax(v[0]) * v[1], 1); },
                            {of({64, 10}), of({64, 10})})) == 1);
}

TEST_CASE("golden: mean cross entropy with the gradients of logits and bias") {
  // One kernel for both directions, one for the mean over the batch.
  Graph g = fused_graph(
      [](const V& v) {
        GradientTape tape;
        tape.watch(v[0]);
        tape.watch(v[1]);
        Tensor loss = mean(sparse_softmax_cross_entropy(v[0] + v[1], v[2]));
        V result = tape.gradient(loss, {v[0], v[1]});
        result.push_back(loss);
        return result;
      },
      {of({64, 1000}), of({1000}), of({64}, i64)});
  CHECK(kernels(g) == 2);
  check_golden("cross_entropy", g);
}

TEST_CASE("golden: layer_norm's gradients, between a scaled cotangent and a residual") {
  Graph g = fused_graph(
      [](const V& v) {
        GradientTape tape;
        for (int i : {0, 1, 2}) tape.watch(v[size_t(i)]);
        Tensor y = layer_norm(v[0], v[1], v[2]);
        V result = tape.gradient(y, {v[0], v[1], v[2]}, {.output_gradient = v[3] * 0.5f});
        result[0] = result[0] + v[3];
        return result;
      },
      {of({64, 768}), of({768}), of({768}), of({64, 768})});
  CHECK(kernels(g) == 1);
  check_golden("layer_norm_gradient", g);
}

TEST_CASE("golden: layer_norm and gelu") {
  Graph g =
      fused_graph([](const V& v) { return gelu(layer_norm(v[0], v[1], v[2])); }, {of({32, 768}), of({768}), of({768})});
  CHECK(kernels(g) == 1);
  check_golden("layer_norm_gelu", g);
}

TEST_CASE("golden: the gradient of relu with the bias gradient") {
  Graph g = fused_graph(
      [](const V& v) {
        Tensor d = where(v[0] > 0, v[1], 0.0f);
        return V{d, sum(d, 0)};
      },
      {of({256, 512}), of({256, 512})});
  CHECK(kernels(g) == 1);
  check_golden("relu_grad_bias", g);
}

TEST_CASE("golden: dropout") {
  // Its random words are made in the kernel; the other two are the generator's own step and the key that it gives.
  Graph g = fused_graph([](const V& v) { return dropout(relu(v[0]), 0.25) * 2.0f; }, {of({64, 100})});
  CHECK(kernels(g) <= 3);
  check_golden("dropout", g);
}

TEST_CASE("kernel counts: steps of optimizers") {
  // One parameter's update is one kernel; beyond that the step counter and the rates, which are scalars.
  auto count = [](auto optimizer) {
    Variable w(ones({1000}), "w");
    auto step = function("step", [&](const Tensor& g) { optimizer.apply_gradients({g}, {w}); });
    step(ones({1000}));  // makes the slots
    Graph graph = fused_graph(step.graph(spec(f32, {1000})));
    size_t large = 0;
    for (const Node& n : graph.nodes())
      if (n.kind == Node::Kind::op && !n.op->view) large += n.outputs[0].shape.numel() == 1000;
    return std::pair(large, kernels(graph));
  };
  CHECK(count(nn::SGD({.learning_rate = 0.1})).first == 1);
  CHECK(count(nn::SGD({.learning_rate = 0.1, .momentum = 0.9})).first == 1);
  CHECK(count(nn::SGD({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01})).first == 1);
  CHECK(count(nn::Adam()).first == 1);
  CHECK(count(nn::AdamW()).first == 1);
  CHECK(count(nn::RMSprop()).first == 1);
  CHECK(count(nn::SGD({.learning_rate = 0.1})).second <= 3);
  CHECK(count(nn::Adam()).second <= 6);
}

TEST_CASE("kernel counts: training steps") {
  // Each stands at what it is, so that losing a fusion shows here.
  auto count = [](auto model, const Spec& x, const Spec& y) {
    auto step = model();
    Graph g = fused_graph(step.graph(ArgSpec{x, ""}, ArgSpec{y, ""}));
    INFO(to_string(g));
    return kernels(g);
  };
  CHECK(count(bench::train_tiny, of({16, 8}), of({16}, i64)) <= 16);
  CHECK(count(bench::train_mlp, of({128, 784}), of({128}, i64)) <= 23);
}

TEST_CASE("kernel counts: what a call runs") {
  if (!has_compiler()) return;
  jit::Mode before = jit::mode();
  jit::set_mode(jit::Mode::wait);
  auto f = function("f", [](const Tensor& x) { return softmax(x * 2 + 1, -1); });
  f(ones({4, 5}));
  jit::set_mode(before);
  CHECK(has(f.explain(), "compiled"));
  CHECK(has(f.explain(), " 1 kernel;"));
}

TEST_CASE("child: some passes do something", "[.]") {
  jit::set_mode(jit::Mode::wait);
  auto f = function("logged", [](const Tensor& x) {
    Tensor unused = exp(x);
    return tanh(x) * tanh(x) + 1;
  });
  CHECK(f(ones({4})).shape() == Shape{4});
}

TEST_CASE("child: a loop with a kernel", "[.]") {
  jit::set_mode(jit::Mode::wait);
  auto f = function("looped", [](const Tensor& x) {
    return scan([](const Tensor& c, const Tensor& row) { return std::pair(tanh(c * row) + 1, c); }, ones({3}), x);
  });
  CHECK(f(ones({2, 3})).second.shape() == Shape{2, 3});
}

TEST_CASE("RILL_LOG=kernels: what each graph was compiled into, those inside control flow by their names") {
  std::string out;
  CHECK(child("RILL_LOG=kernels", "child: a loop with a kernel", out) == 0);
  INFO(out);
  if (!has_compiler()) return;
  CHECK(has(out, "rill: looped/body: compiled in "));
  CHECK(has(out, "  fused(multiply, tanh, add) -> f32[3]; "));
  CHECK(has(out, "rill: looped: eager kernels: nothing to fuse"));
  CHECK(has(out, "  scan -> f32[3], f32[2,3]"));
}

TEST_CASE("RILL_LOG=passes: a line a pass, what did nothing says so, fused kernels are named") {
  std::string out;
  CHECK(child("RILL_LOG=passes", "child: some passes do something", out) == 0);
  INFO(out);
  CHECK(has(out, "rill: logged: dead code (7 -> 6 nodes)"));
  CHECK(has(out, "rill: logged: constant folding (unchanged)"));
  CHECK(has(out, "rill: logged: common subexpressions (6 -> 5 nodes)"));
  CHECK(has(out, "rill: logged: copies for views (unchanged)"));
  if (has_compiler()) {
    CHECK(has(out, "rill: logged: fusion (5 -> 3 nodes)"));
    CHECK(has(out, "rill: logged:   fused(tanh, multiply, add) -> f32[4]"));
  }
}
