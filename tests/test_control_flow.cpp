// Control flow on data and effects in order: traced must equal eager bit for bit, in values, Variables, prints, errors.
#include <unistd.h>

#include <cstdio>

#include "catch.h"
#include "rill/rill.h"

using namespace rill;

namespace {

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

// What `f` writes to stderr.
template <class F>
std::string stderr_of(F&& f) {
  std::fflush(stderr);
  std::FILE* file = std::tmpfile();
  int kept = dup(2);
  dup2(fileno(file), 2);
  f();
  std::fflush(stderr);
  dup2(kept, 2);
  close(kept);
  std::rewind(file);
  std::string text;
  for (int c; (c = std::fgetc(file)) != EOF;) text += char(c);
  std::fclose(file);
  return text;
}

}  // namespace

TEST_CASE("print and assert_that, eager and traced, at every call") {
  Tensor x = tensor({1.f, 2.f});
  CHECK(stderr_of([&] { print("x {} {{}} {}", x, 3); }) == "x [1. 2.] {} 3\n");
  CHECK(has(message_of([&] { print("{} {}", x); }), "2 {} for 1 tensors"));
  CHECK(has(message_of([&] { print("{", x); }), "single brace"));

  Variable n(tensor(0.f), "n");
  auto f = function("f", [&](const Tensor& v) {
    print("before {}", n);
    n.assign_add(sum(v));
    print("after {}", n);
    Tensor unused = exp(v);
    print("after {}", n);
    assert_that(n.value() < 8, "n stays small", n, v);
    return v * 2;
  });
  int line = __LINE__ - 3;
  auto text = stderr_of([&] { f(x), f(x); });
  CHECK(text == "before 0.0\nafter 3.0\nafter 3.0\nbefore 3.0\nafter 6.0\nafter 6.0\n");
  std::string m;
  stderr_of([&] { m = message_of([&] { f(x); }); });
  CHECK(has(m, "n stays small. values: 9.0, [1. 2.]"));
  CHECK(has(m, "test_control_flow.cpp:" + std::to_string(line)));
  CHECK(n.value().item<float>() == 6);
  CHECK(f.trace_count() == 1);
  m = message_of([&] { assert_that(sum(x) < 0, "eager", x); });
  CHECK(has(m, "test_control_flow.cpp:" + std::to_string(__LINE__ - 1)));
  CHECK(has(m, "eager. values: [1. 2.]"));
  CHECK(has(message_of([&] { assert_that(x < 0, "a vector"); }), "bool scalar"));
  CHECK(has(to_string(f.graph(spec(f32, {2}))), " after %"));
}

TEST_CASE("a traced print runs once a call under a tape, too") {
  Tensor x = tensor({1.f, 2.f});
  auto f = function("f", [&](const Tensor& v) {
    print("v {}", v);
    return sum(v * v);
  });
  std::string text = stderr_of([&] {
    GradientTape tape;
    tape.watch(x);
    CHECK(array_equal(tape.gradient(f(x), x), 2 * x));
  });
  CHECK(text == "v [1. 2.]\n");
}
