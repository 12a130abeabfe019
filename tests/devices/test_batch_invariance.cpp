// A row's bits do not depend on the batch that it stands in: every record that has a batch rule, by its samples, and
// larger layers, in batches of several sizes, on several threads, eager and traced. What does not hold is in a list,
// with its reason (docs/determinism.md, "Batch invariance").
#include <algorithm>
#include <functional>
#include <map>
#include <span>

#include "catch.h"
#include "op_check.h"
#include "record_samples.h"
#include "rill/rill.h"
#include "same.h"
#include "threads.h"

using namespace rill;
using op_check::Inputs;

namespace {

// Records whose rows may depend on their batch where one of `operands` differs from row to row, and why.
struct Exception {
  std::string_view op;
  uint64_t operands;
  const char* why;
};
constexpr uint64_t any = ~uint64_t(0);
// Unless set_deterministic(true).
constexpr Exception by_default[] = {
    {"conv", any, "oneDNN plans for a batch and for a number of threads"},
    {"conv_grad_input", any, "the same"},
};
// Whatever is set.
constexpr Exception always[] = {
    {"random_bits", any, "what is drawn depends on the whole shape"},
    {"batch_norm", any, "a row is a batch of its own; its channels stand beside those of the others"},
    {"batch_norm_grad", any, "the same"},
    {"conv_grad_weight", any, "a row is a batch of its own"},
    {"conv", 2, "weights of each row's own are groups of one convolution"},
    {"conv_grad_input", 2, "the same"},
    {"layer_norm_grad", 2, "a scale of each row's own is multiplied beforehand"},
    {"adam_update", 0b1110000, "the kernel takes one rate for all; of each row's own it is composed of ops"},
};
// Products of two vectors are added up in several sums at once, and those of halves as oneDNN likes.
bool is_special_product(const Op& op, DType d, const Inputs& in) {
  return op.name == "matmul" &&
         (is_half(d) || in[0].size() == in[0].shape().back() || in[1].size() == in[1].shape()[0]);
}
bool excepted(std::span<const Exception> list, const Op& op, uint64_t batched) {
  return std::any_of(list.begin(), list.end(),
                     [&](const Exception& e) { return e.op == op.name && (batched & e.operands); });
}

constexpr int64_t batches[] = {1, 2, 3, 5, 33, 64};

struct Deterministic {
  explicit Deterministic(bool on) { set_deterministic(on); }
  ~Deterministic() { set_deterministic(false); }
};

// What stands for the operand in row i: other numbers that the op takes as well.
Tensor variant(const Op& op, const Tensor& t, size_t operand, int64_t i) {
  if (i == 0 || t.size() == 0) return t;
  if (op.name == "searchsorted" && operand == 0) return t + i;  // stays sorted
  if (op.name == "cholesky") return t * (i + 1);                // stays positive definite
  const Tensor flat = ravel(t);
  return reshape(i == 1 ? reverse(flat) : roll(flat, 1), t.shape());
}
constexpr int64_t kinds = 3;  // of rows; row i of a batch is of kind i modulo 3

// One op on rows: `batched` operands differ from row to row, others are the same for all.
struct Rows {
  const Op& op;
  const Attrs& attrs;
  Inputs in;
  uint64_t batched;

  bool is_batched(size_t k) const { return batched >> k & 1; }
  Inputs alone(int64_t kind) const {
    Inputs row;
    for (size_t k = 0; k < in.size(); ++k) row.push_back(is_batched(k) ? variant(op, in[k], k, kind) : in[k]);
    return op_check::run(op, row, attrs);
  }
  Inputs stacked(int64_t size) const {
    std::vector<Tensor> batch;
    for (size_t k = 0; k < in.size(); ++k) {
      if (!is_batched(k)) continue;
      std::vector<Tensor> of, rows;
      for (int64_t kind = 0; kind < kinds; ++kind) of.push_back(variant(op, in[k], k, kind));
      for (int64_t i = 0; i < size; ++i) rows.push_back(of[size_t(i % kinds)]);
      batch.push_back(stack(rows));
    }
    return batch;
  }
  Inputs call(const Inputs& batch) const {
    return vmap([this](const std::vector<Tensor>& rows) {
      Inputs all;
      for (size_t k = 0, r = 0; k < in.size(); ++k) all.push_back(is_batched(k) ? rows[r++] : in[k]);
      return op_check::run(op, all, attrs);
    })(batch);
  }
};

// The size of the first batch whose rows differ from those that stand alone, or 0.
int64_t first_that_differs(const Rows& r, bool traced) {
  std::vector<Inputs> alone;
  for (int64_t kind = 0; kind < kinds; ++kind) alone.push_back(r.alone(kind));
  for (int64_t size : batches) {
    if (traced && size != 33) continue;
    const Inputs batch = r.stacked(size);
    const Inputs have =
        traced ? function("rows", [&](const std::vector<Tensor>& b) { return r.call(b); })(batch) : r.call(batch);
    for (int64_t i = 0; i < size; ++i)
      for (size_t k = 0; k < have.size(); ++k)
        if (!same(have[k](i), alone[size_t(i % kinds)][k])) return size;
  }
  return 0;
}

std::vector<uint64_t> choices(size_t operands) {
  const uint64_t whole = (uint64_t(1) << operands) - 1;
  std::vector<uint64_t> all{whole};
  if (operands > 1)
    for (size_t k = 0; k < operands; ++k) all.push_back(uint64_t(1) << k);
  return all;
}

// Every record and dtype, by some of its samples; calls that differ are told by `report`. With set_deterministic(true)
// those records only that look at it.
template <class Report>
void walk_records(bool traced, Report report) {
  record_samples::for_each_op([&](const Op& op) {
    if (!op.samples || op.inputs == 0) return;
    if (deterministic() && op.name != "matmul" && !excepted(by_default, op, any)) return;
    for (DType d : {f32, f64, bf16, f16}) {
      int count = 0;
      for (const Sample& s : op.samples()) {
        if (s.in.empty() || s.in[0].size() > 400 || ++count > 6) continue;
        const DType main = record_samples::main_dtype(s);
        if (main != f32 && d != f32) continue;  // no floats in it
        const auto in = d == f32 ? std::optional(s.in) : record_samples::in_dtype(op, s, d);
        if (!in) continue;
        for (uint64_t batched : choices(in->size())) {
          if (excepted(always, op, batched) || (!deterministic() && excepted(by_default, op, batched))) continue;
          if (!deterministic() && is_special_product(op, d, *in)) continue;
          const Rows rows{op, s.attrs, *in, batched};
          const int64_t size = first_that_differs(rows, traced);
          report(op, size == 0,
                 op_check::describe(op, *in, s.attrs) + " operands " + std::to_string(batched) + ", batch of " +
                     std::to_string(size));
        }
      }
    }
  });
}

}  // namespace

TEST_CASE("a row of every record, alone and in batches") {
  for (int count : {1, 2, 3}) {
    const Threads threads(count);
    std::map<std::string, std::string> differ;
    walk_records(false, [&](const Op& op, bool holds, const std::string& call) {
      if (!holds) differ.emplace(op.name, call);
    });
    for (const auto& [op, call] : differ) UNSCOPED_INFO(call);
    INFO(count << " threads");
    CHECK(differ.empty());
  }
}

TEST_CASE("with set_deterministic(true), of convolutions as well") {
  const Deterministic on(true);
  const Threads threads(2);
  std::map<std::string, std::string> differ;
  walk_records(false, [&](const Op& op, bool holds, const std::string& call) {
    if (!holds) differ.emplace(op.name, call);
  });
  for (const auto& [op, call] : differ) UNSCOPED_INFO(call);
  CHECK(differ.empty());
}

TEST_CASE("a row of every record in a traced batch") {
  const Threads threads(2);
  std::map<std::string, std::string> differ;
  walk_records(true, [&](const Op& op, bool holds, const std::string& call) {
    if (!holds) differ.emplace(op.name, call);
  });
  for (const auto& [op, call] : differ) UNSCOPED_INFO(call);
  CHECK(differ.empty());
}

// --- Layers of usual sizes -------------------------------------------------------------------------------------------

namespace {

Tensor normal(const Shape& s, DType d = f32, uint64_t seed = 1) {
  return random::normal(s, {.key = random::Key(uint64_t(s.numel()) * 7 + seed)}).astype(d);
}

struct Layer {
  std::string name;
  Shape row;  // of the operand
  std::function<Tensor(const Tensor&)> f;
  bool special = false;  // holds with set_deterministic(true) alone
};

std::vector<Layer> layers_of(DType d) {
  const auto weights = [d](const Shape& s) { return normal(s, d, 3); };
  std::vector<Layer> all;
  for (auto [k, n] : {std::pair<int64_t, int64_t>{300, 70}, {1000, 10}, {64, 256}, {2000, 2}, {700, 1}, {9000, 1}}) {
    const Tensor w = weights({k, n}), turned = transpose(w) + 0, bias = weights({n});
    const bool special = n == 1 || is_half(d);
    const std::string sizes = std::to_string(k) + " to " + std::to_string(n);
    all.push_back({"dense " + sizes, {k}, [=](const Tensor& x) { return relu(matmul(x, w) + bias); }, special});
    all.push_back(
        {"dense by columns " + sizes, {k}, [=](const Tensor& x) { return matmul(x, transpose(turned)); }, special});
  }
  all.push_back(
      {"attention", {8, 40, 32}, [](const Tensor& x) { return attention(x, x * 2, x + 1, {.causal = true}); }});
  all.push_back({"softmax", {3000}, [](const Tensor& x) { return softmax(x * 3); }});
  all.push_back({"layer_norm", {777}, [](const Tensor& x) { return layer_norm(x); }});
  all.push_back(
      {"sums", {5000}, [](const Tensor& x) { return stack({sum(x, -1), mean(x, -1), logsumexp(x, -1)}, -1); }});
  all.push_back({"sums of columns", {90, 40}, [](const Tensor& x) { return sum(x, -2); }});
  all.push_back({"norms", {600}, [](const Tensor& x) { return norm(x, {.axis = -1}); }});
  all.push_back({"cumsum and sort", {500}, [](const Tensor& x) { return cumsum(sort(x), -1); }});
  all.push_back({"pools", {20, 20, 5}, [](const Tensor& x) {
                   const Tensor image = x.ndim() == 3 ? expand_dims(x, {0}) : x;
                   const Tensor y = concat({max_pool(image, {3}), avg_pool(image, {3})}, -1);
                   return x.ndim() == 3 ? y(0) : y;
                 }});
  const Tensor kernel = weights({3, 3, 5, 12});
  all.push_back({"conv",
                 {20, 20, 5},
                 [=](const Tensor& x) {
                   const Tensor image = x.ndim() == 3 ? expand_dims(x, {0}) : x;
                   const Tensor y = conv(image, kernel, {.padding = "SAME"});
                   return x.ndim() == 3 ? y(0) : y;
                 },
                 true});
  if (!is_half(d)) {
    all.push_back({"fft", {360}, [](const Tensor& x) { return abs(fft::rfft(x)); }});
    all.push_back({"solve", {12, 12}, [](const Tensor& x) { return linalg::inv(x); }});
  }
  return all;
}

// A row alone, and in batches of each size at other places, eager and traced.
void rows_hold(DType d) {
  for (const Layer& layer : layers_of(d)) {
    if (!deterministic() && layer.special) continue;
    INFO(name(d) << ", " << layer.name);
    Shape whole = layer.row;
    whole.insert(0, 64);
    const Tensor x = normal(whole, d);
    const Tensor expected = layer.f(x(7));
    const auto traced = function("layer", layer.f);
    for (int count : {1, 2, 3}) {
      const Threads threads(count);
      for (int64_t size : batches) {
        const int64_t at = size / 2;
        const Tensor batch = roll(x, {at - 7}, {0})(slice(0, size));
        INFO("a batch of " << size << " on " << count << " threads");
        CHECK(same(layer.f(batch)(at), expected));
        if (size == 33 || size == 2) CHECK(same(traced(batch)(at), expected));
      }
    }
  }
}

}  // namespace

TEST_CASE("rows of layers, of f32 and f64") {
  for (DType d : {f32, f64}) rows_hold(d);
}

TEST_CASE("rows of layers with set_deterministic(true), of every dtype") {
  const Deterministic on(true);
  for (DType d : {f32, f64, bf16, f16}) rows_hold(d);
}
