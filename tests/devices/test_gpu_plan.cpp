// What the rows of the benchmarks are on a GPU, by a model of an H100: the kernels of each traced step, the memory that
// they move and the least time that this takes, held in golden/h100. So a superfluous launch or pass over memory is
// seen as a number where nothing can be timed. Where a change is meant, RILL_UPDATE_GOLDEN=1 build/tests/test_gpu_plan.
#include <fmt/format.h>

#include <algorithm>

#include "../../benchmarks/models.h"
#include "catch.h"
#include "golden.h"
#include "rill/devices/cuda/kernel_text.h"
#include "rill/ops/op.h"
#include "rill/trace/fusion/fusion.h"
#include "rill/trace/passes.h"

using namespace rill;

namespace {

// NVIDIA's data sheet of the H100 SXM: bytes and operations a second, of halves in tensor cores. A launch takes 3 us on
// the host.
constexpr double memory = 3.35e12, f32_operations = 67e12, half_operations = 990e12, launch = 3e-6;

double bytes(const Spec& s) { return double(s.shape.numel()) * double(size_of(s.dtype)); }

struct Cost {
  int launches = 0;
  double read = 0, written = 0, flops = 0, operations = f32_operations;  // the last a second
  double seconds() const { return std::max((read + written) / memory, flops / operations); }
};

// How an H100 cuts the rows of a kernel that reduces them. A thread takes points of a piece one after the other, in steps.
cuda::RowSpace cut_of(const FusedKernel& f) {
  constexpr int processors = 132;
  cuda::Space space;
  for (size_t i = 0; i < f.space.size(); ++i)
    (i + size_t(f.row_axes) < f.space.size() ? space.rows : space.n) *= f.space[i];
  return cuda::cut_rows(space, cuda::row_passes(f.kernel), processors);
}

// A view takes nothing. What a kernel of several ops computes for a fold over other axes than its rows' is stored
// whole and read again, by a launch of its own (devices/cuda/driver/fused.cpp).
Cost cost_of(const Graph& g, const Node& n) {
  Cost c;
  if (n.op->view || n.op->call) return c;
  c.launches = 1;
  std::vector<const Spec*> in;
  for (const ValueId v : n.inputs) {
    in.push_back(&g.spec(v));
    if (std::find(n.inputs.begin(), n.inputs.begin() + (long(in.size()) - 1), v) ==
        n.inputs.begin() + (long(in.size()) - 1))
      c.read += bytes(g.spec(v));
  }
  for (const Spec& s : n.outputs) c.written += bytes(s);
  if (is_half(n.outputs[0].dtype) && n.op != &fused_op) c.operations = half_operations;
  if (n.op->flops) c.flops = n.op->flops({in.data(), in.size()}, n.outputs[0], n.attrs);
  if (n.op != &fused_op) return c;
  const FusedKernel& f = *n.attrs.as<FusedParams>().fused;
  double points = 1;
  for (const int64_t size : f.space) points *= double(size);
  for (size_t o = 0; o < f.outputs.size(); ++o) {
    if (!f.kernel.outputs[o].added && !(f.fold && o == 0)) continue;
    const double whole = points * double(size_of(f.kernel.outputs[o].dtype));
    ++c.launches, c.written += whole, c.read += whole;
  }
  c.flops = points * double(f.kernel.body.size());
  if (const cuda::RowPasses p = cuda::row_passes(f.kernel); cuda::takes_rows(f.kernel) && cut_of(f).pieces > 1)
    c.launches += 2 * p.passes - 1 + p.stores_points * (1 + p.stores_rows);
  return c;
}

std::string rows_of(const FusedKernel& f) {
  if (!cuda::takes_rows(f.kernel)) return "";
  const cuda::RowSpace s = cut_of(f);
  const int64_t threads = s.lanes * s.warps, steps = (s.piece + threads - 1) / threads;
  return fmt::format(", {} rows of {} in {} piece{}, {} threads each, {} step{}", s.rows, s.n, s.pieces,
                     s.pieces > 1 ? "s" : "", threads, steps, steps > 1 ? "s" : "");
}

std::string plan(const Graph& g) {
  std::string text;
  Cost all;
  double seconds = 0;
  for (const Node& n : g.nodes()) {
    if (n.kind != Node::Kind::op) continue;
    const Cost c = cost_of(g, n);
    if (c.launches == 0) continue;
    const std::string what =
        n.op == &fused_op ? "fused(" + n.attrs.as<FusedParams>().fused->ops() + ")" : std::string(n.op->name);
    text += fmt::format("{} -> {}: {} launch{}, {:.3g} MB read, {:.3g} written, {:.3g} MFLOP, {:.2f} us{}\n", what,
                        to_string(n.outputs[0]), c.launches, c.launches > 1 ? "es" : "", c.read / 1e6, c.written / 1e6,
                        c.flops / 1e6, c.seconds() * 1e6,
                        n.op == &fused_op ? rows_of(*n.attrs.as<FusedParams>().fused) : "");
    all.launches += c.launches, all.read += c.read, all.written += c.written, all.flops += c.flops;
    seconds += c.seconds();
  }
  return text + fmt::format(
                    "in all {} launches, {:.3g} MB read, {:.3g} written, {:.3g} MFLOP: kernels {:.1f} us, launches "
                    "{:.1f} us\n",
                    all.launches, all.read / 1e6, all.written / 1e6, all.flops / 1e6, seconds * 1e6,
                    all.launches * launch * 1e6);
}

template <class Step>
void check_step(const std::string& name, Step step, const Shape& x, const Spec& y) {
  const Graph traced = step.graph(ArgSpec{{x, f32, false, {}}, ""}, ArgSpec{y, ""});
  golden::check("h100/" + name + ".txt", plan(eliminate_dead_code(fuse(optimize(traced), nullptr))));
}

const Spec ten_labels(int64_t n) { return {{n}, i64, false, {}}; }

}  // namespace

TEST_CASE("training steps on an H100, by its model") {
  check_step("train_tiny", bench::train_tiny(), {16, 8}, ten_labels(16));
  check_step("train_mlp", bench::train_mlp(), {128, 784}, ten_labels(128));
  check_step("train_cnn", bench::train_cnn(), {64, 28, 28, 1}, ten_labels(64));
  check_step("train_block", bench::train_block(), {8, 128, 256}, ten_labels(8));
}

TEST_CASE("rows of one kernel on an H100, by its model") {
  const auto check = [](const std::string& name, auto f, const Shape& shape, DType dtype = f32) {
    auto traced = function(name, f);
    golden::check("h100/" + name + ".txt",
                  plan(eliminate_dead_code(fuse(optimize(traced.graph(spec(dtype, shape))), nullptr))));
  };
  check("chain", [](const Tensor& x) { return bench::chain(x, x, x); }, {16 << 20});
  check("gelu", [](const Tensor& x) { return gelu(layer_norm(x)); }, {4096, 1024});
  check("matmul_512", [](const Tensor& x) { return matmul(x, x); }, {512, 512});
  check("matmul_2048", [](const Tensor& x) { return matmul(x, x); }, {2048, 2048});
  check("matmul_2048_bf16", [](const Tensor& x) { return matmul(x, x); }, {2048, 2048}, bf16);
  check("conv3x3", [](const Tensor& x) { return conv(x, ones({3, 3, 64, 64}), {.padding = "SAME"}); }, {8, 56, 56, 64});
  check("softmax", [](const Tensor& x) { return softmax(x, -1); }, {4096, 1024});
  check("layer_norm", [](const Tensor& x) { return layer_norm(x); }, {4096, 1024});
  check("mean_square", [](const Tensor& x) { return mean(square(x - 1)); }, {256, 256});
  check("softmax_of_one", [](const Tensor& x) { return softmax(x * 0.5f, -1); }, {1, 50257});
  check("softmax_of_ten", [](const Tensor& x) { return softmax(x * 0.5f, -1); }, {4096, 10});
  check("column_sums", [](const Tensor& x) { return sum(x * x, 0); }, {4096, 1024});
}
