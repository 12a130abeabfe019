// What the examples of training share. Each is a program that prints its result next to that of others; with
// --quick it only runs a few steps, which shows that it works.
#pragma once
#include <rill/data.h>
#include <rill/nn.h>
#include <rill/rill.h>
#include <rill/serialize.h>
#include <rill/train.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

namespace example {

inline bool quick = false;

// A file of examples/data.
inline std::string data_file(const std::string& name) { return EXAMPLES_DATA "/" + name; }

// Prints a line of the result: the value, and what to compare it with.
inline void print(const char* what, double value, const std::string& beside) {
  std::printf("%-34s %8.4f   %s\n", what, value, beside.c_str());
}

// Rows of a table or tensor whose index modulo 5 is 4 are the test set, the others the training set.
inline rill::Tensor test_rows(int64_t n) { return rill::arange(n / 5) * 5 + 4; }
inline rill::Tensor train_rows(int64_t n) { return rill::boolean_mask(rill::arange(n), rill::arange(n) % 5 != 4); }

// Runs it; errors go to stderr.
inline int main(int argc, char** argv, void (*run)()) {
  quick = argc > 1 && !std::strcmp(argv[1], "--quick");
  try {
    rill::random::seed(1);
    run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 1;
  }
  return 0;
}

}  // namespace example
