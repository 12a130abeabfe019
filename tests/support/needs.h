// What a test case may need of the build; without it, the case counts as skipped.
#pragma once
#include "catch.h"
#include "rill/devices/kernel/compiler.h"

// Whether traced functions are compiled here. Otherwise the calling test case is skipped.
inline bool has_compiler() {
  const std::string reason = rill::kernel::no_compiler_reason();
  if (!reason.empty()) skip_case(reason);
  return reason.empty();
}
