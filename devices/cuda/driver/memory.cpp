// The memory of a GPU: CUDA's stream-ordered pool, or if a GPU has none (some virtual ones) cuMemAlloc, and in front
// of it lists of freed blocks, so that most allocations call no driver. Blocks of up to 1 MiB are multiples of 512
// bytes, larger ones of 2 MiB.
#include <algorithm>

#include "rill/devices/cuda/driver/capture.h"
#include "rill/devices/cuda/driver/exchange.h"
#include "rill/devices/cuda/driver/gpu.h"
#include "rill/devices/host_memory.h"
#include "rill/tensor/error.h"

#include <fmt/format.h>

namespace rill::cuda {

namespace {
size_t rounded(size_t bytes) {
  const size_t unit = bytes <= (1 << 20) ? 512 : 2 << 20;
  const size_t whole = (std::max<size_t>(bytes, 1) + unit - 1) / unit * unit;
  if (whole < bytes) throw host_memory::OutOfMemory(fmt::format("{} bytes are more than there are", bytes));
  return whole;
}
}  // namespace

// A pool of our own: the process's default one is for others, with their settings.
void Gpu::make_pool() {
  int has = 0;
  RILL_CUDA(cuDeviceGetAttribute, &has, has_memory_pools, device_of_driver_);
  if (!has) return;
  const PoolProperties properties{pinned_allocation, 0, {on_device, device_of_driver_}, nullptr, {}};
  Pool pool = nullptr;
  RILL_CUDA(cuMemPoolCreate, &pool, &properties);
  uint64_t all = ~uint64_t(0);  // the pool frees nothing by itself: Gpu::release_cached() does
  RILL_CUDA(cuMemPoolSetAttribute, pool, pool_release_threshold, &all);
  pool_ = pool;
  for (int i = 0; i < gpu_count(); ++i) {
    const int peer = found_gpu(Device(DeviceKind::gpu, i)).device_of_driver_;
    int can = 0;
    if (peer == device_of_driver_ || api().cuDeviceCanAccessPeer(&can, peer, device_of_driver_) != 0 || !can) continue;
    const PoolAccess access{{on_device, peer}, read_and_write};
    // A GPU has a limited number of peers. Copies work without access too, through the host's memory: no kernel reads
    // another GPU's.
    static_cast<void>(api().cuMemPoolSetAccess(pool_, &access, 1));
  }
}

// Throws host_memory::OutOfMemory.
DevicePointer Gpu::allocate_from_driver(size_t bytes) {
  enter();
  DevicePointer block = 0;
  const auto is_beyond_limit = [&] { return limit_ > 0 && bytes > limit_ - std::min(limit_, counts_.reserved); };
  if (is_beyond_limit()) {
    free_cached();
    trim_pool();  // else it keeps its memory, and requests more from the system if that is fragmented
    if (is_beyond_limit())
      throw host_memory::OutOfMemory(fmt::format("{} bytes are more than the limit of {} for {} leaves: {} are in use",
                                                 bytes, limit_, to_string(device), counts_.in_use));
  }
  const auto take = [&] {
    return pool_ ? api().cuMemAllocFromPoolAsync(&block, bytes, pool_, stream_) : api().cuMemAlloc(&block, bytes);
  };
  Result result = take();
  if (result == out_of_memory) {  // cached memory, here and in the pool, may be enough
    free_cached();
    trim_pool();
    result = take();
  }
  if (result == out_of_memory) {
    size_t free = 0, total = 0;
    api().cuMemGetInfo(&free, &total);
    throw host_memory::OutOfMemory(fmt::format("out of memory on {}: {} bytes are wanted, {} of {} are free",
                                               to_string(device), bytes, free, total));
  }
  require(result, pool_ ? "cuMemAllocFromPoolAsync" : "cuMemAlloc");
  counts_.reserved += bytes;
  return block;
}

Ref<Buffer> Gpu::allocate(size_t wanted) {
  if (Capture* capture = Capture::current(*this)) return capture->allocate(wanted);
  try {
    return allocate_block(wanted);
  } catch (const host_memory::OutOfMemory&) {
    if (!has_gathered_) throw;
  }
  launch_gathered();  // which frees the buffers that it has held
  return allocate_block(wanted);
}

Ref<Buffer> Gpu::allocate_block(size_t wanted) {
  size_t bytes = rounded(wanted);
  require_no_fork();
  auto buffer = std::make_unique<Buffer>();
  {
    const std::lock_guard hold(memory_mutex_);
    DevicePointer block = 0;
    // A cached block is used if at most a fifth of it stays unused.
    auto list = cached_.lower_bound(bytes);
    while (list != cached_.end() && list->second.empty() && list->first - bytes <= list->first / 5) ++list;
    if (list != cached_.end() && !list->second.empty() && list->first - bytes <= list->first / 5) {
      bytes = list->first;
      block = list->second.back();
      list->second.pop_back();
    } else {
      block = allocate_from_driver(bytes);
    }
    buffer->data = reinterpret_cast<void*>(block);  // NOLINT(performance-no-int-to-ptr): a GPU's address
    counts_.in_use += bytes;
    counts_.peak = std::max(counts_.peak, counts_.in_use);
    ++counts_.allocations;
  }
  buffer->device = device;
  buffer->bytes = bytes;
  buffer->release = release;
  buffer->owner = this;
  return Ref<Buffer>::adopt(buffer.release());
}

void Gpu::release(Buffer* b) {
  static_cast<Gpu*>(b->owner)->give_back(reinterpret_cast<DevicePointer>(b->data), b->bytes);
  delete b;
}

void Gpu::give_back(DevicePointer block, size_t bytes) {
  if (in_fork()) return;
  const std::lock_guard hold(memory_mutex_);
  counts_.in_use -= bytes;
  cached_[bytes].push_back(block);
}

void Gpu::free_to_driver(DevicePointer block) {
  if (pool_) api().cuMemFreeAsync(block, stream_);
  else api().cuMemFree(block);  // waits for the stream
}

void Gpu::free_cached() {
  enter();
  for (auto& [bytes, blocks] : cached_) {
    for (const DevicePointer block : blocks) {
      free_to_driver(block);
      counts_.reserved -= bytes;
    }
    blocks.clear();
  }
}

void Gpu::trim_pool() {
  wait_for_exchanges(*this);
  RILL_CUDA(cuStreamSynchronize, stream_);
  if (pool_) RILL_CUDA(cuMemPoolTrimTo, pool_, 0);
}

MemoryStats Gpu::stats() {
  require_no_fork();
  const std::lock_guard hold(memory_mutex_);
  return counts_;
}

void Gpu::reset_peak() {
  require_no_fork();
  const std::lock_guard hold(memory_mutex_);
  counts_.peak = counts_.in_use;
}

void Gpu::release_cached() {
  require_no_fork();
  if (!is_open()) return;
  const std::lock_guard hold(memory_mutex_);
  free_cached();
  trim_pool();
}

void Gpu::reserve(size_t bytes) {
  require_no_fork();
  const std::lock_guard hold(memory_mutex_);
  const size_t whole = rounded(bytes);
  const DevicePointer block = allocate_from_driver(whole);
  if (!pool_) return cached_[whole].push_back(block);  // for tensors of about this size
  counts_.reserved -= whole;
  RILL_CUDA(cuMemFreeAsync, block, stream_);  // to the pool, which caches it
}

std::string unreadable_place(Device d, const void* memory) {
  if (gpu_count() == 0 || in_fork()) return "";
  const auto at = reinterpret_cast<DevicePointer>(memory);
  unsigned type = 0;
  int managed = 0, number = -1, pageable = 0;
  const bool host = d.kind() != DeviceKind::gpu;
  if (!host) gpu_of(d).enter();
  if (api().cuPointerGetAttribute(&type, pointer_memory_type, at) != 0) type = 0;
  if (type == 0) {  // memory that CUDA does not know
    if (host) return "";
    api().cuDeviceGetAttribute(&pageable, reads_pageable_memory, gpu_of(d).ordinal);
    return pageable ? "" : "the host";
  }
  if (type != device_memory) return "";  // pinned
  if (api().cuPointerGetAttribute(&managed, pointer_is_managed, at) == 0 && managed) return "";
  api().cuPointerGetAttribute(&number, pointer_device, at);
  for (int i = 0; i < gpu_count(); ++i)
    if (const Device there(DeviceKind::gpu, i); found_gpu(there).ordinal == number)
      return there == d ? "" : to_string(there);
  return "another GPU";
}

Tensor take_workspace(const Gpu& gpu, size_t bytes, std::unique_lock<std::mutex>& hold) {
  if (bytes == 0) return {};
  hold.unlock();
  Tensor workspace = empty_tensor(Spec{{int64_t(bytes)}, DType::u8, false, gpu.device});
  hold.lock();
  return workspace;
}

void Gpu::set_limit(size_t bytes) {
  require_no_fork();
  const std::lock_guard hold(memory_mutex_);
  limit_ = bytes;
}

}  // namespace rill::cuda
