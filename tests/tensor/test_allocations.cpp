// Each allocation of a training step fails in turn: the step ends with an exception, whichever it was, and the next one
// is right. Eagerly and traced, the first call and a later one; with the heap's allocations and those of the tensors'
// memory. (Memory that compiling takes is another thread's, and LLVM cannot do without.)
#include <malloc.h>

#include <cerrno>
#include <cstdlib>
#include <new>

#include "catch.h"
#include "messages.h"
#include "own_new.h"
#include "rill/nn.h"
#include "rill/rill.h"

// --- Allocations of this thread that can fail ------------------------------------------------------------------------

namespace {
thread_local long left = -1;  // until one fails; less than 0: none does
thread_local long made = 0;
thread_local bool used_up = false;  // there is no more memory for tensors
bool fails() {
  ++made;
  return left >= 0 && left-- == 0;
}
}  // namespace

static void* memory_for_new(size_t bytes) { return fails() ? nullptr : std::malloc(bytes ? bytes : 1); }

// What tensors' memory is made of.
extern "C" int posix_memalign(void** p, size_t alignment, size_t bytes) {
  *p = used_up || fails() ? nullptr : memalign(alignment, bytes);
  return *p ? 0 : ENOMEM;
}

// --- The steps -------------------------------------------------------------------------------------------------------

using namespace rill;

namespace {

struct Model {
  explicit Model(bool traced)
      : w(reshape(cos(arange(0, 24, 1, {f32, {}})), {4, 6}), "w"),
        b(zeros({6}), "b"),
        out(reshape(sin(arange(0, 18, 1, {f32, {}})), {6, 3}), "out"),
        x(reshape(sin(arange(0, 32, 1, {f32, {}})), {8, 4})),
        labels(tensor({0, 1, 2, 0, 1, 2, 0, 1})) {
    if (traced) step = function("step", [this](const Tensor& t) { return eager(t); });
  }
  Tensor forward(const Tensor& t, const Tensor& w, const Tensor& b, const Tensor& out) const {
    const Tensor hidden = layer_norm(tanh(matmul(t, w) + b));
    return mean(sparse_softmax_cross_entropy(matmul(hidden, out), labels));
  }
  Tensor eager(const Tensor& t) {
    GradientTape tape;
    const Tensor loss = forward(t, w, b, out);
    const std::vector<Variable> all{w, b, out};
    adam.apply_gradients(tape.gradient(loss, all), all);
    return loss;
  }
  Tensor run() { return step ? (*step)(x) : eager(x); }
  // What the next step's loss must be.
  Tensor expected() const { return forward(x, w.value(), b.value(), out.value()); }

  Variable w, b, out;
  Tensor x, labels;
  nn::Adam adam{{.learning_rate = 0.01}};
  using Step = decltype(function("", [](const Tensor& t) { return Tensor(t); }));
  std::optional<Step> step;
};

// Fails each allocation of the step that comes after `warm` others; gives how many there were.
long fail_each(bool traced, int warm, long stride) {
  long wrong = 0, n = 0;
  for (bool all_made = false; !all_made; n += stride) {
    Model m(traced);
    for (int i = 0; i < warm; ++i) m.run();
    bool thrown = false;
    made = 0;
    left = n;
    try {
      m.run();
    } catch (const std::exception&) {
      thrown = true;
    }
    const bool reached = left < 0;  // the one that fails was asked for
    left = -1;
    all_made = !reached;
    static_cast<void>(thrown);  // what is asked for without need may fail in silence
    for (int again = 0; again < 2; ++again) {
      const Tensor want = m.expected();
      wrong += !array_equal(want, m.run());
    }
  }
  CHECK(wrong == 0);
  return n;
}

}  // namespace

TEST_CASE("a step whose n-th allocation fails throws, and the next one is right") {
  SECTION("eager, the first step") { CHECK(fail_each(false, 0, 1) > 30); }
  SECTION("eager, a later step") { CHECK(fail_each(false, 2, 1) > 10); }
  SECTION("traced, the first call") { CHECK(fail_each(true, 0, 1) > 100); }
  SECTION("traced, a later call") { CHECK(fail_each(true, 2, 1) > 5); }
}

TEST_CASE("an op that memory does not suffice for gives rill::Error with its name") {
  const Tensor x = ones({1 << 18});
  release_cached_memory("cpu:0");
  used_up = true;
  const std::string message = message_of([&] { exp(x); });
  used_up = false;
  CHECK(has(message, "[exp]"));
  CHECK(exp(x)(0).item<float>() == Approx(2.718282));
  for (long n = 0; n < 20; ++n) {  // nor is there memory for all of the message
    release_cached_memory("cpu:0");
    used_up = true;
    left = n;
    bool thrown = false;
    try {
      exp(x);
    } catch (const std::exception&) {
      thrown = true;
    }
    left = -1;
    used_up = false;
    CHECK(thrown);
    CHECK(exp(x)(0).item<float>() == Approx(2.718282));
  }
}
