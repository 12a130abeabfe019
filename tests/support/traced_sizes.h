// Checks that a function of a vector is traced once for all sizes, and gives the eager results.
#pragma once
#include "catch.h"
#include "rill/rill.h"

template <class F>
void is_traced_once(const char* what, F f) {
  INFO(what);
  auto traced = rill::function(what, f, {.signature = {rill::spec(rill::f32, {rill::any})}});
  for (int64_t n : {4, 5, 9, 12}) {
    const rill::Tensor x = rill::random::uniform({n}, {.low = 0.1, .high = 2, .key = rill::random::Key(uint64_t(n))});
    CHECK(rill::array_equal(traced(x), f(x)));
  }
  CHECK(traced.trace_count() == 1);
}
