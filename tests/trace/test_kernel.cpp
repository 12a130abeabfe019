// The kernel IR: what is recorded from the ops' own arithmetic gives the eager kernels' bits through the interpreter,
// and the printed form, the checks and the schedule of kernels are as ir.h says.
#include <cmath>
#include <limits>

#include "catch.h"
#include "rill/devices/cpu/elementwise/elementwise.h"
#include "rill/devices/kernel/interpret.h"
#include "rill/devices/kernel/record.h"
#include "rill/devices/kernel/schedule.h"
#include "rill/ops/apply.h"
#include "rill/rill.h"
#include "same.h"

using namespace rill;
using kernel::Code;
using kernel::Input;
using kernel::Rec;
using kernel::Recorder;
using kernel::Recording;
using kernel::Schedule;

namespace {

constexpr int points = 1000;

// Numbers of all magnitudes and signs, and the special ones.
Tensor numbers(DType d, uint64_t seed) {
  random::Key key(seed);
  if (d == DType::boolean) return random::uniform({points}, {.key = key}) < 0.5f;
  if (!is_floating(d)) return (random::normal({points}, {.dtype = f64, .key = key}) * 40.0).astype(d);
  Tensor x = random::normal({points}, {.dtype = d, .key = key});
  x = x * exp(random::normal({points}, {.dtype = d, .key = random::Key(seed + 100)}) * 4.0);
  const double inf = std::numeric_limits<double>::infinity();
  Tensor special = tensor({0.0, -0.0, inf, -inf, std::nan(""), 1.0, -1.0, 0.5, 1e-40, 3e38, 1e6, -1e6}).astype(d);
  return concat({special, x})(Slice(0, points)).contiguous();
}

Tensor run(const kernel::Kernel& k, const std::vector<Tensor>& in, DType out_dtype, int64_t rows, int64_t n) {
  Tensor out = empty_tensor(Spec{k.outputs[0].per_row ? Shape{rows} : Shape{rows, n}, out_dtype, false, {}});
  std::vector<char*> p;
  std::vector<int64_t> strides;
  for (size_t i = 0; i < in.size(); ++i) {
    p.push_back(in[i].rep()->data);
    strides.push_back(int64_t(size_of(in[i].dtype())) * (k.inputs[i].kind == Input::Kind::dense ? n : 1));
  }
  p.push_back(out.mutable_rep()->data);
  strides.push_back(int64_t(size_of(out_dtype)) * (k.outputs[0].per_row ? 1 : n));
  interpret(k, p.data(), strides.data(), rows, n);
  return out;
}

}  // namespace

TEST_CASE("every elementwise op's recorded arithmetic gives the eager kernel's bits") {
  int recorded = 0;
  for (const Op* op : all_ops()) {
    if (!op->record_point || AttrsView(op->samples().front().attrs).type) continue;  // cast: the dtype is an attribute
    for (int d = 0; d < dtype_count; ++d) {
      DType dtype = DType(d);
      const RecordPoint record = op->record_point(dtype);
      if (!record || !contains(op->dtypes, dtype)) continue;
      ++recorded;
      std::vector<Tensor> in;
      for (int i = 0; i < op->inputs; ++i) in.push_back(numbers(dtype, uint64_t(7 + i)));
      Recorder r;
      Recording recording(r);
      int32_t ids[3];
      for (int i = 0; i < op->inputs; ++i) ids[i] = r.input({dtype, Input::Kind::dense});
      int32_t result = record(ids);
      r.kernel.outputs.push_back({result, r.type(result)});
      INFO(op->name << " on " << name(dtype) << "\n" << kernel::to_string(r.kernel));
      REQUIRE_NOTHROW(verify(r.kernel));
      std::vector<const Tensor*> p;
      for (const Tensor& t : in) p.push_back(&t);
      Tensor eager = apply1(*op, Operands(p), {}, Where::current());
      Tensor again = run(r.kernel, in, r.type(result), 1, points).reshape({points});
      REQUIRE(again.dtype() == eager.dtype());
      CHECK(same(again, eager));
    }
  }
  CHECK(recorded > 200);
}

TEST_CASE("a kernel's reductions follow the eager tree") {
  for (int64_t n : {1, 2, 31, 32, 33, 100, 1000, 1024, 1025, 2048, 5000}) {
    for (DType dtype : {f32, f64, i64}) {
      struct Case {
        Code code;
        Tensor (*eager)(const Tensor&);
      };
      const Case cases[] = {{Code::reduce_sum, [](const Tensor& x) { return sum(x, 1); }},
                            {Code::reduce_prod, [](const Tensor& x) { return prod(x, 1); }},
                            {Code::reduce_max, [](const Tensor& x) { return max(x, 1); }},
                            {Code::reduce_min, [](const Tensor& x) { return min(x, 1); }}};
      for (const Case& c : cases) {
        Tensor x = (random::normal({3, n}, {.dtype = f64, .key = random::Key(uint64_t(n))}) * 3.0).astype(dtype);
        Recorder r;
        int32_t in = r.input({dtype, Input::Kind::dense});
        r.kernel.outputs.push_back({r.add({c.code, dtype, {in, -1, -1}, 0}), dtype, true});
        INFO(name(c.code) << " of " << n << " " << name(dtype));
        CHECK(same(run(r.kernel, {x}, dtype, 3, n), c.eager(x)));
      }
    }
  }
}

TEST_CASE("a kernel prints one way, whatever order it was recorded in, and equal instructions are recorded once") {
  Recorder r;
  Recording recording(r);
  using V = Rec<float>;
  V x = V::of(r.input({f32, Input::Kind::dense})), s = V::of(r.input({f32, Input::Kind::uniform}));
  V top = reduce_max(x);
  V y = select(x > V(0), (x - top) * s, (x - top) * V(2));
  r.kernel.outputs.push_back({y.id, f32});
  r.kernel.outputs.push_back({top.id, f32, true});
  const kernel::Kernel k = r.finish();
  CHECK(kernel::to_string(k) ==
        "kernel\n"
        "in 0: f32 dense\n"
        "in 1: f32 uniform\n"
        "%0 = input f32 0\n"
        "%1 = constant f32 0x0\n"
        "%2 = gt bool %0, %1\n"
        "%3 = reduce_max f32 %0\n"
        "%4 = sub f32 %0, %3\n"
        "%5 = input f32 1\n"
        "%6 = mul f32 %4, %5\n"
        "%7 = constant f32 0x40000000\n"
        "%8 = mul f32 %4, %7\n"
        "%9 = select f32 %2, %6, %8\n"
        "out 0: f32 %9\n"
        "out 1: f32 %3 per row\n");
  verify(k);
  Schedule s2 = schedule(k);
  REQUIRE(s2.passes.size() == 2);
  CHECK(s2.passes[0].folded == std::vector<int32_t>{3});
  CHECK(s2.passes[1].stored == std::vector<int32_t>{0});
  CHECK(s2.row_outputs == std::vector<int32_t>{1});
  CHECK(s2.slots == 0);
}

TEST_CASE("what is dear to compute is kept between passes, what is cheap is computed again") {
  Recorder r;
  Recording recording(r);
  using V = Rec<float>;
  V x = V::of(r.input({f32, Input::Kind::dense}));
  V root = sqrt(x + V(1)), sum = reduce_sum(root), y = root / sum;
  r.kernel.outputs.push_back({y.id, f32});
  Schedule s = schedule(r.kernel);
  REQUIRE(s.passes.size() == 2);
  CHECK(s.slots == 1);
  CHECK(s.passes[0].kept == std::vector<int32_t>{root.id});
  CHECK(s.passes[1].restored == std::vector<int32_t>{root.id});
}

TEST_CASE("a sum that a row does not want is 0, and its pass keeps nothing from being right") {
  const Tensor x = random::normal({40, 1500}, {.key = random::Key(3)});
  Recorder r;
  Recording recording(r);
  using V = Rec<float>;
  const V in = V::of(r.input({f32, Input::Kind::dense}));
  const V largest = reduce_top(in), rest = reduce_sum_where(sqrt(largest - in), largest > V(3.4f));
  r.kernel.outputs.push_back({rest.id, f32, true});
  verify(r.kernel);
  const Tensor top = max(x, {.axis = 1, .keepdims = true}), all = sum(sqrt(top - x), 1);
  const Tensor wanted = squeeze(top, 1) > 3.4f;
  REQUIRE(any(wanted).item<bool>());
  REQUIRE_FALSE(rill::all(wanted).item<bool>());
  CHECK(same(run(r.kernel, {x}, f32, 40, 1500), where(wanted, all, 0.f)));
}

TEST_CASE("kernels that make no sense are rejected") {
  Recorder r;
  int32_t x = r.input({f32, Input::Kind::dense}), n = r.input({i32, Input::Kind::uniform});
  auto rejected = [&](kernel::Inst i) {
    kernel::Kernel k = r.kernel;
    k.body.push_back(i);
    CHECK_THROWS_AS(verify(k), Error);
  };
  rejected({Code::add, f32, {x, n, -1}, 0});
  rejected({Code::add, f32, {x, 5, -1}, 0});
  rejected({Code::sqrt, i32, {n, -1, -1}, 0});
  rejected({Code::shl, i32, {n, -1, -1}, 32});
  rejected({Code::input, f32, {}, 2});
  rejected({Code::select, f32, {x, x, x}, 0});
  rejected({Code::reduce_top, i32, {n, -1, -1}, 0});
  rejected({Code::reduce_sum_where, f32, {x, x, -1}, 0});
  rejected({Code::reduce_sum_where, f32, {x, r.add({Code::gt, boolean, {x, x, -1}, 0}), -1}, 0});  // a mask of points
  kernel::Kernel k = r.kernel;
  k.outputs.push_back({x, f32, true});
  CHECK_THROWS_AS(verify(k), Error);
}
