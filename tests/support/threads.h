// For tests of what any number of threads must give.
#pragma once
#include "rill/rill.h"

// So many threads, while one of these lives.
struct Threads {
  const int before = rill::num_threads();
  explicit Threads(int count) { rill::set_num_threads(count); }
  ~Threads() { rill::set_num_threads(before); }
};
