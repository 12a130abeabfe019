// For tests whose results must not depend on the number of threads.
#pragma once
#include "rill/rill.h"

// Sets the number of threads while it lives.
struct Threads {
  const int before = rill::num_threads();
  explicit Threads(int count) { rill::set_num_threads(count); }
  ~Threads() { rill::set_num_threads(before); }
};
