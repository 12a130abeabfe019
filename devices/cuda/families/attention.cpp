// Starts the kernels of attention.cuh, for separate operands and for joined ones.
#include <algorithm>

#include "rill/devices/axes.h"
#include "rill/devices/cuda/families/attention_params.h"
#include "rill/devices/cuda/families/families.h"
#include "rill/devices/params/attention_params.h"

namespace rill::cuda {

namespace {

// False if there are more leading axes than the grid's digits.
bool grid_of(MatrixGrid& g, const Tensor& t, const MatrixLayout& at) {
  g = MatrixGrid{};
  g.data = address(t) + at.start * int64_t(size_of(t.dtype()));
  g.row = at.row, g.column = at.column;
  for (size_t a = 0; a < at.sizes.size(); ++a) {
    if (at.sizes[a] == 1) continue;
    const int last = g.digits - 1;
    const bool joins = g.digits > 0 && is_one_run(g.stride[last], at.strides[a], at.sizes[a]);
    if (!joins && g.digits == MatrixGrid::most_digits) return false;
    const int d = joins ? last : g.digits++;
    g.size[d] = joins ? g.size[d] * at.sizes[a] : int64_t(at.sizes[a]);
    g.stride[d] = at.strides[a];
  }
  return true;
}

MatrixLayout by_head(const Tensor& t) { return matrices_by_head(t.shape(), t.strides()); }

// One call: its parameters, and dense copies of operands whose leading axes do not fit a grid.
class Call {
 public:
  explicit Call(const KernelArgs& args) : args_(args) {
    const AttentionParams& params = args.attrs.as<AttentionParams>();
    p.scale = params.scale, p.causal = params.causal;
    p.group = 1;
  }

  template <class Layout>
  void set_grid(MatrixGrid& g, const Tensor& t, Layout&& layout) {
    if (grid_of(g, t, layout(t))) return;
    copies_.push_back(empty_tensor(Spec{t.shape(), t.dtype(), false, t.device()}));
    copy_elements(t, copies_.back());
    grid_of(g, copies_.back(), layout(copies_.back()));
  }
  // q, k, v, and the mask if there is such an operand.
  void separate(size_t mask) {
    const Shape &q = args_.input(0).shape(), &k = args_.input(1).shape();
    const size_t n = q.size();
    p.heads = p.shared = 1;
    for (size_t i = 0; i + 2 < n; ++i) p.heads *= q[i], p.shared *= k[i];
    p.group = n > 2 && k[n - 3] > 0 ? q[n - 3] / k[n - 3] : 1;
    p.queries = q[n - 2], p.keys = k[n - 2], p.width = q[n - 1], p.value_width = args_.input(2).shape()[n - 1];
    set_grid(p.q, args_.input(0), matrices_of);
    set_grid(p.k, args_.input(1), matrices_of);
    set_grid(p.v, args_.input(2), matrices_of);
    if (args_.in.size() <= mask) return;
    set_grid(p.mask, args_.input(int(mask)), matrices_of);
    p.mask_kind = args_.input(int(mask)).dtype() == DType::boolean ? 1 : 2;
  }
  // [..., tokens, 3, heads, columns]
  void joined() {
    const Shape& s = args_.input(0).shape();
    const size_t n = s.size();
    p.heads = s[n - 2];
    for (size_t i = 0; i + 4 < n; ++i) p.heads *= s[i];
    p.shared = p.heads;
    p.queries = p.keys = s[n - 4], p.width = p.value_width = s[n - 1];
    MatrixGrid* parts[] = {&p.q, &p.k, &p.v};
    for (int64_t i = 0; i < 3; ++i)
      set_grid(*parts[i], args_.input(0), [&](const Tensor& t) { return joined_part(t, i); });
  }
  void outputs(MatrixLayout (*layout)(const Tensor&)) {
    grid_of(p.out, args_.output(0), layout(args_.output(0)));
    grid_of(p.out_sums, args_.output(1), matrices_of(args_.output(1)));
  }

  // A block for each tile of `rows` and each part of `columns`, for each of `heads`.
  void start(std::string_view kernel, int64_t heads, int64_t rows, int64_t columns) {
    const DType dtype = args_.input(0).dtype();
    Gpu& gpu = gpu_of(args_.output(0).device());
    if (has_cores(gpu, dtype)) return start_by_cores(gpu, kernel, heads, rows);
    // f64: tiles that fit in static shared memory (48 KB).
    const bool is_double = dtype == DType::f64;
    const int64_t r = is_double ? 2 : 4, c = is_double || std::max(p.width, p.value_width) <= 64 ? 4 : 8;
    const auto tiles = [](int64_t n, int64_t of) { return (n + 16 * of - 1) / (16 * of); };
    const int64_t blocks = heads * tiles(rows, r) * std::max<int64_t>(1, tiles(columns, c));
    const std::string call = fmt::format("{}<{}, {}, {}>", kernel, name(dtype), r, c);
    if (kernel != "attention") return launch(gpu, attention_family, call, blocks, 256);
    launch(gpu, attention_family, call, blocks, 128, c == 4);
  }
  // Tensor cores: sm_80 is the first to support both kinds of halves; lanes hold complete rows in registers, at most
  // 256 columns.
  bool has_cores(const Gpu& gpu, DType dtype) const {
    const int64_t widest = std::max(p.width, p.value_width);
    return is_half(dtype) && gpu.architecture >= 80 && widest > 0 && widest <= 256;
  }
  void start_by_cores(Gpu& gpu, std::string_view kernel, int64_t heads, int64_t rows) {
    const int64_t widest = std::max(p.width, p.value_width);
    const int size = widest <= 64 ? 64 : widest <= 96 ? 96 : widest <= 128 ? 128 : 256;
    const std::string types = fmt::format("{}, {}", name(args_.input(0).dtype()), size);
    // Warps of 32 queries read keys and values half as often, but there must be enough of them.
    const int64_t large = heads * ((rows + 127) / 128);
    if (kernel == "attention" && size == 64 && large >= 2 * gpu.processors)
      return launch(gpu, attention_cores_family, fmt::format("attention_by_cores<{}, 2>", types), large, 128);
    if (kernel == "attention" || size <= 128)
      return launch(gpu, attention_cores_family, fmt::format("{}_by_cores<{}>", kernel, types),
                    heads * ((rows + 63) / 64), 128,
                    (kernel == "attention" && size <= 128) || (kernel == "attention_grad_q" && size == 64));
    const int64_t blocks = heads * ((rows + 31) / 32);
    if (kernel == "attention_grad_q")
      return launch(gpu, attention_cores_family, fmt::format("{}_of_wide_heads<{}>", kernel, types), blocks, 64);
    for (const bool of_values : {false, true})
      launch(gpu, attention_cores_family, fmt::format("{}_of_wide_heads<{}, {}>", kernel, types, of_values), blocks,
             64);
  }
  void start_gradients() {
    if (p.width > 0) start("attention_grad_q", p.heads, p.queries, p.width);
    start("attention_grad_kv", p.shared, p.keys, std::max(p.width, p.value_width));
  }

  Attention p{};

 private:
  void launch(Gpu& gpu, const Family& family, const std::string& call, int64_t blocks, int threads,
              bool by_threes = false) {
    const std::string_view params = by_threes ? "AttentionByThrees" : "Attention";
    gpu.launch_blocks(kernel_of(gpu, {family, params, call}), p, std::min<int64_t>(blocks, 1 << 30), threads);
  }

  const KernelArgs& args_;
  std::vector<Tensor> copies_;
};

void run_attention(const KernelArgs& args) {
  Call call(args);
  call.separate(3);
  call.outputs(matrices_of);
  call.start("attention", call.p.heads, call.p.queries, call.p.value_width);
}

void run_self_attention(const KernelArgs& args) {
  Call call(args);
  call.joined();
  call.outputs(by_head);
  call.start("attention", call.p.heads, call.p.queries, call.p.value_width);
}

void run_attention_grad(const KernelArgs& args) {
  Call call(args);
  call.separate(6);
  call.set_grid(call.p.log_sums, args.input(3), matrices_of);
  call.set_grid(call.p.delta, args.input(4), matrices_of);
  call.set_grid(call.p.g, args.input(5), matrices_of);
  grid_of(call.p.dq, args.output(0), matrices_of(args.output(0)));
  grid_of(call.p.dk, args.output(1), matrices_of(args.output(1)));
  grid_of(call.p.dv, args.output(2), matrices_of(args.output(2)));
  call.start_gradients();
}

void run_self_attention_grad(const KernelArgs& args) {
  Call call(args);
  call.joined();
  call.set_grid(call.p.log_sums, args.input(1), matrices_of);
  call.set_grid(call.p.delta, args.input(2), matrices_of);
  call.set_grid(call.p.g, args.input(3), by_head);
  MatrixGrid* parts[] = {&call.p.dq, &call.p.dk, &call.p.dv};
  for (int64_t i = 0; i < 3; ++i) grid_of(*parts[i], args.output(0), joined_part(args.output(0), i));
  call.start_gradients();
}

}  // namespace

std::span<const NamedKernel> attention_kernels() {
  static const NamedKernel all[] = {
      {"attention", for_floats<run_attention>},
      {"attention_grad", for_floats<run_attention_grad>},
      {"self_attention", for_floats<run_self_attention>},
      {"self_attention_grad", for_floats<run_self_attention_grad>},
  };
  return all;
}

}  // namespace rill::cuda
