// What GPUs exchange with those of other processes, by NCCL. It moves on a stream of its own, one of each GPU, which waits
// for the GPU's stream when an exchange begins, and for which the GPU's stream waits when its result is needed.
//
// NCCL's calls return at once, and so do ours; what becomes of them is found where the host waits for the GPU:
// wait_for_exchanges() polls until all have ended, and throws what has failed or does not end, for a stream that waits for
// a member which is gone would hold the host for ever. Start at NcclGroup::begin.
#pragma once
#include "rill/devices/cuda/driver/gpu.h"
#include "rill/devices/exchange.h"

namespace rill::cuda {

// Why GPUs exchange nothing with those of other processes; or empty.
const std::string& no_exchange_reason();
// nullptr where there is such a reason.
DeviceExchanges* exchanges();

// Adds up on a stream (families/exchange.cpp).
void add_up(Gpu& gpu, const ExchangeSum& sum, int members, int me, Stream stream);

// Before the host waits for a stream of the GPU: returns when what is exchanged there has ended.
void wait_for_exchanges(Gpu& gpu);

}  // namespace rill::cuda
