// Rows that need a process of their own, one a mode; run.py starts it and reads the JSON line that it prints.
//   --start        the first eager result; prints the clock, which run.py read before it started this process
//   --first-call   the first call of a traced function, tracing included
//   --peak-memory  a few steps of train_cnn; prints the resident peak
#include <cstdio>
#include <cstring>

#include "answer.h"
#include "models.h"

using namespace rill;

static void start() {
  Tensor c = ones({4, 4}) + ones({4, 4});
  const bool right = c.data<float>()[0] == 2;
  std::printf("{\"row\": \"start\", \"peer\": \"rill\", \"clock_us\": %.3f}\n", right ? bench::clock_us() : 0.0);
}

static void first_call() {
  Tensor x = random::normal({4096}), y = random::normal({4096}), z = random::normal({4096});
  auto begin = bench::clock_us();
  auto f = function("chain", bench::chain);
  Tensor result = f(x, y, z);
  std::printf("{\"row\": \"first_call\", \"peer\": \"rill\", \"median_us\": %.3f}\n", bench::clock_us() - begin);
}

static void peak_memory() {
  auto step = bench::train_cnn();
  Tensor x = random::normal({64, 28, 28, 1}), y = bench::labels(64, 10);
  for (int i = 0; i < 5; ++i) step(x, y);
  std::printf("{\"row\": \"peak_memory\", \"peer\": \"rill\", \"bytes\": %ld}\n", bench::peak_bytes());
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  if (!std::strcmp(mode, "--start")) return start(), 0;
  if (!std::strcmp(mode, "--first-call")) return first_call(), 0;
  if (!std::strcmp(mode, "--peak-memory")) return peak_memory(), 0;
  std::fprintf(stderr, "usage: %s --start | --first-call | --peak-memory\n", argv[0]);
  return 1;
}
