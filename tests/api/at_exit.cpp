// Ops run until a process has ended: in destructors of statics, which come after those of the main thread's thread_locals,
// and in those of a thread's thread_locals.
#include <rill/ops/op.h>
#include <rill/rill.h>
#include <rill/trace/graph_text.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

using namespace rill;

namespace {

// Of what is wrong; a status that is given while a program ends is not heard otherwise.
void check(bool holds, int line) {
  if (holds) return;
  std::fprintf(stderr, "at_exit.cpp:%d\n", line);
  _exit(1);
}
#define CHECK(...) check(__VA_ARGS__, __LINE__)

auto twice = function("twice", [](const Tensor& x) { return exp(x) * 2 + sum(x, 0); });

void use_rill() {
  const Tensor x = arange(40000).astype(f32).reshape({200, 200}) / 40000;
  CHECK(sum(x > 0).item<int64_t>() == 39999);
  CHECK(allclose(matmul(x, eye(200)), x));
  GradientTape tape;
  tape.watch(x);
  const Tensor y = sum(twice(x) * x);
  CHECK(tape.gradient(y, x).shape() == x.shape());
  {
    const NameScope scope("a name that is longer than any string keeps within itself");
    auto fresh = function("fresh", [](const Tensor& x) { return tanh(x) - max(x, 1, {.keepdims = true}); });
    CHECK(array_equal(fresh(x), tanh(x) - max(x, 1, {.keepdims = true})));
    CHECK(parse_graph(to_text(fresh.graph(spec(f32, {2, 2})))).run({{"arg0", x(slice(0, 2), slice(0, 2))}})[0].size() ==
          4);
  }
  CHECK(vmap([](const Tensor& row) { return sum(row * row); })(x).size() == 200);
  CHECK(find_op("sqrt") && find_op("svd") && !find_op("no_op_of_that_name"));
  bool thrown = false;
  try {
    x.reshape({7, 7});
  } catch (const Error&) {
    thrown = true;
  }
  CHECK(thrown);
}

struct AtEnd {
  explicit AtEnd(bool now) {
    if (now) use_rill();
  }
  ~AtEnd() { use_rill(); }
};
AtEnd of_program(false);
thread_local AtEnd of_thread(true), before_the_first_op(false);

}  // namespace

int main() {
  std::thread([] { static_cast<void>(&before_the_first_op); }).join();
  std::thread([] { static_cast<void>(&of_thread), use_rill(); }).join();
  static_cast<void>(&of_thread);
  use_rill();
}
