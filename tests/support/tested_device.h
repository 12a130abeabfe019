// The device under test: RILL_TEST_DEVICE=gpu:0, else cpu:0. It is the default device too. If a
// run has no time for all cases (kernels for GPUs are compiled one by one), RILL_TEST_SHARE=n runs one of n, and
// RILL_TEST_TURN=k says which, so that CI runs others for each commit.
#pragma once
#include <cstdlib>

#include "rill/rill.h"

inline const rill::Device tested = [] {
  const char* name = std::getenv("RILL_TEST_DEVICE");
  const rill::Device d(name ? name : "cpu:0");
  rill::set_default_device(d);
  return d;
}();
inline const bool on_host = tested.kind() != rill::DeviceKind::gpu;

inline uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Whether this run includes the case of this number.
inline bool in_share(uint64_t number) {
  static const uint64_t share = setting("RILL_TEST_SHARE", 1), turn = setting("RILL_TEST_TURN", 0);
  return number % share == turn % share;
}
