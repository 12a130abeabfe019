// Exchanges of GPUs with those of other processes, by NCCL. They run on a separate stream for each GPU, which waits for
// the GPU's main stream when an exchange starts, and for which the main stream waits when its result is needed.
//
// NCCL's calls return at once, and so do ours; their outcome is checked where the host waits for the GPU:
// wait_for_exchanges() polls until all have ended, and throws if one has failed or does not end, because a stream that
// waits for a lost member would block the host forever. Start at NcclGroup::begin.
#pragma once
#include "rill/devices/cuda/driver/gpu.h"
#include "rill/devices/exchange.h"

namespace rill::cuda {

// Why GPUs cannot exchange memory with those of other processes; or empty.
const std::string& no_exchange_reason();
// nullptr if there is such a reason.
DeviceExchanges* exchanges();

// Sums on a stream (families/exchange.cpp).
void add_up(Gpu& gpu, const ExchangeSum& sum, int members, int me, Stream stream);

// Called before the host waits for a stream of the GPU: returns when the exchanges there have ended.
void wait_for_exchanges(Gpu& gpu);

}  // namespace rill::cuda
