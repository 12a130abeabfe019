// The CPU kernels of the ops that create, slice, join and index tensors.
#pragma once
#include <cstdint>

#include "rill/devices/kernel.h"

namespace rill::cpu {

// An element of 16 bytes, for copies.
struct Bytes16 {
  uint64_t a, b;
};

void full(const KernelArgs& a);          // pad.cpp
void iota(const KernelArgs& a);          // iota.cpp
void concat(const KernelArgs& a);        // concat.cpp
void update_slice(const KernelArgs& a);  // pad.cpp
void pad(const KernelArgs& a);           // pad.cpp
void gather(const KernelArgs& a);        // gather.cpp
void scatter(const KernelArgs& a);       // gather.cpp

}  // namespace rill::cpu
