// A libcuda.so.1 without a GPU: rill's GPU code runs completely on a machine without one, with a driver that is
// stricter than NVIDIA's.
//
// * Device memory has an address range of its own, which is inaccessible: host code that reads a device address
//   faults. The bytes are `shift` further on, where kernels (RILL_AT) and copies access them. Freed memory
//   is unmapped, blocks have unmapped pages around them, and fresh memory holds noise.
// * A stream is a thread, which sleeps now and then: code that does not wait for it sees memory that is not written
// yet.
// * A kernel is its own text, compiled for the host (nvrtc.cpp).
// * A stream that is being captured runs nothing, and waiting for it fails; so do allocations there. A launched graph
// runs
//   on the stream that it is launched on, with the parameters that its nodes have at that time.
// * Tests say which call is to fail next (rill_simulated_fail), and count kernels (rill_simulated_launches) and graphs.
// * RILL_SIMULATED_MEMORY: the bytes of a device. RILL_SIMULATED_CUDA: the CUDA version of the driver, 12040 for 12.4;
//   13.0 by default. RILL_SIMULATED_POOLS=none: GPUs have no memory pools. RILL_SIMULATED_PROCESSORS:
//   multiprocessors of a GPU, 2 by default. RILL_SIMULATED_RACES=on: see state.h.
// * A kernel that fails (rill_simulated_fail("kernel", 1)), as by an illegal address, ends its context: every later call
//   returns that error. Calls that CUDA defines for a current context fail without one.
//
// The CUDA Driver API's documentation says what each call does. state.h has the data; here are the calls of
// devices, memory, streams and events, in kernels.cpp those of kernels and graphs.
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "shared.h"
#include "state.h"

using namespace simulated;

namespace {

// --- Pools ---

bool has_pools() {
  const char* wanted = std::getenv("RILL_SIMULATED_POOLS");
  return !wanted || std::string(wanted) != "none";
}

// RILL_SIMULATED_GPUS=1: as on a machine with one.
int visible_devices() {
  const char* wanted = std::getenv("RILL_SIMULATED_GPUS");
  return wanted ? std::min(std::atoi(wanted), devices) : devices;
}

int processors() {
  const char* wanted = std::getenv("RILL_SIMULATED_PROCESSORS");
  return wanted ? std::atoi(wanted) : 2;
}

struct CUpool {
  int device;
  std::set<int> readers;  // other devices
};
struct Place {
  int type, device;
};
struct PoolProperties {
  int allocation, handles;
  Place place;
  void* security;
  unsigned char reserved[64];
};
struct PoolAccess {
  Place place;
  int flags;
};
std::atomic<int> accesses = 0;

std::mutex streams_mutex;
std::vector<CUstream*> streams;
// With streams_mutex held, so that none is destroyed.
std::vector<CUstream*> all_streams(int device) {
  std::vector<CUstream*> here;
  for (CUstream* s : streams)
    if (s->device == device) here.push_back(s);
  return here;
}

}  // namespace

char* simulated_memory(const void* device, size_t bytes) { return memory().real(Pointer(device), bytes); }
bool simulated_failure(const char* name) { return fails(name); }
int simulated_work(void* stream, std::function<int()> work) {
  return static_cast<CUstream*>(stream)->add(std::move(work));
}
int simulated_device_of(void* stream) { return static_cast<CUstream*>(stream)->device; }
int simulated_device() { return current ? current->device : -1; }

extern "C" {

// The `nth` call of `name` from now on fails; 1: the next one.
void rill_simulated_fail(const char* name, int nth) {
  const std::lock_guard hold(failure_mutex);
  failing_call = name;
  calls_until_failure = nth;
}
long rill_simulated_launches() { return launches; }  // those of graphs, too
// The largest number of blocks of a kernel since the last call.
unsigned rill_simulated_most_blocks() { return most_blocks.exchange(0); }
long rill_simulated_waits() { return waits; }  // of the host, for streams
// How many graphs were instantiated, and launched; how many exist, executable ones counted separately.
long rill_simulated_graphs() { return graphs; }
long rill_simulated_graph_launches() { return graph_launches; }
// The largest number of kernels of a graph that could have run concurrently since the last call.
size_t rill_simulated_branches() { return most_branches.exchange(0); }
long rill_simulated_living_graphs() { return living_graphs; }
// How many times the primary context of a device was retained.
int rill_simulated_contexts(int device) { return contexts[device].retained; }
// How often pools were made accessible to another device.
int rill_simulated_accesses() { return accesses; }
// The most bytes of the system that a device's pools had at once since the last call.
size_t rill_simulated_most_taken(int device) {
  const std::lock_guard hold(memory().mutex);
  return std::exchange(memory().most_taken[device], memory().taken[device]);
}

int cuInit(unsigned) {
  FAIL_ON_DEMAND(999);
  initialised = true;
  return ok;
}
int cuDriverGetVersion(int* version) {
  const char* given = std::getenv("RILL_SIMULATED_CUDA");
  *version = given ? std::atoi(given) : 13000;
  return ok;
}
int cuGetErrorName(int error, const char** name) {
  *name = error == out_of_memory     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == invalid_value   ? "CUDA_ERROR_INVALID_VALUE"
          : error == 701             ? "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
          : error == invalid_context ? "CUDA_ERROR_INVALID_CONTEXT"
          : error == illegal_address ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                     : "CUDA_ERROR_UNKNOWN";
  return ok;
}
int cuGetErrorString(int, const char** text) {
  *text = "the simulated driver says so";
  return ok;
}
int cuDeviceGetCount(int* count) {
  *count = visible_devices();
  return initialised ? ok : not_initialised;
}
int cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal >= visible_devices()) return 101;
  *device = ordinal;
  return ok;
}
int cuDeviceGetName(char* name, int length, int device) {
  std::snprintf(name, size_t(length), "simulated GPU %d", device);
  return ok;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case 16: *value = processors(); break;                                       // multiprocessors
    case 75: *value = 9; break;                                                  // compute capability, major
    case 88: *value = std::getenv("RILL_SIMULATED_PAGEABLE") != nullptr; break;  // reads the host's memory
    case 115: *value = has_pools(); break;
    default: *value = 0;
  }
  return ok;
}
// Different for each process of a job; RILL_SIMULATED_SHARED: the same for all.
int cuDeviceGetUuid_v2(char* uuid, int device) {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (!rank) rank = std::getenv("PMI_RANK");
  std::memset(uuid, 0, 16);
  std::snprintf(uuid, 16, "%s/%d", rank && !std::getenv("RILL_SIMULATED_SHARED") ? rank : "", device);
  return ok;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  FAIL_ON_DEMAND(out_of_memory);
  ++contexts[device].retained;
  *context = &contexts[device];
  return ok;
}
int cuCtxSetCurrent(void* context) {
  current = static_cast<CUctx*>(context);
  return ok;
}
int cuCtxGetCurrent(void** context) {
  *context = current;
  return ok;
}
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  NEEDS_CONTEXT;
  const std::lock_guard hold(memory().mutex);
  *total = memory().limit;
  *free = memory().limit - memory().in_use[current->device];
  return ok;
}
int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer;
  return ok;
}
int cuMemPoolCreate(void** pool, const PoolProperties* p) {
  if (!has_pools()) return not_supported;
  FAIL_ON_DEMAND(999);
  const auto* rest = std::find_if(p->reserved, std::end(p->reserved), [](unsigned char c) { return c != 0; });
  if (p->allocation != 1 || p->handles != 0 || p->place.type != 1 || p->security || rest != std::end(p->reserved))
    return invalid_value;
  if (p->place.device < 0 || p->place.device >= devices) return 101;
  *pool = new CUpool{p->place.device, {}};
  return ok;
}
int cuMemPoolSetAccess(void* pool, const PoolAccess* list, size_t count) {
  FAIL_ON_DEMAND(too_many_peers);
  auto& p = *static_cast<CUpool*>(pool);
  for (size_t i = 0; i < count; ++i) {
    if (list[i].place.type != 1 || list[i].flags != 3 || list[i].place.device == p.device) return invalid_value;
    if (p.readers.insert(list[i].place.device).second) ++accesses;
  }
  return ok;
}
int cuMemPoolSetAttribute(void*, int, void*) { return ok; }
int cuMemPoolTrimTo(void* pool, size_t) {
  memory().trim(static_cast<CUpool*>(pool)->device);
  return ok;
}
int cuPointerGetAttribute(void* value, int attribute, Pointer p) {
  const std::lock_guard hold(memory().mutex);
  auto block = memory().live.upper_bound(p);
  if (block == memory().live.begin()) return invalid_value;
  --block;
  if (p >= block->first + block->second.first) return invalid_value;
  if (attribute == 2) *static_cast<unsigned*>(value) = 2;
  else if (attribute == 8) *static_cast<int*>(value) = 0;
  else if (attribute == 9) *static_cast<int*>(value) = block->second.second;
  else return invalid_value;
  return ok;
}

int cuMemAllocFromPoolAsync(Pointer* p, size_t bytes, void* pool, void* stream) {
  FAIL_ON_DEMAND(out_of_memory);
  if (bytes == 0 || static_cast<CUpool*>(pool)->device != static_cast<CUstream*>(stream)->device) return invalid_value;
  if (static_cast<CUstream*>(stream)->captured) return capture_unsupported;  // it would be the graph's
  *p = memory().take(bytes, static_cast<CUstream*>(stream)->device);
  return *p ? ok : out_of_memory;
}
int cuMemAlloc_v2(Pointer* p, size_t bytes) {
  NEEDS_CONTEXT;
  FAIL_ON_DEMAND(out_of_memory);
  *p = bytes == 0 ? 0 : memory().take(bytes, current->device);
  memory().trim(current->device);
  return bytes == 0 ? invalid_value : *p ? ok : out_of_memory;
}
int cuMemFree_v2(Pointer p) {
  NEEDS_CONTEXT;
  const std::lock_guard here(streams_mutex);
  for (CUstream* s : all_streams(current->device)) s->wait();
  const bool is_known = memory().give(p);
  memory().trim(current->device);
  return is_known ? ok : invalid_value;
}
int cuMemFreeAsync(Pointer p, void* stream) {
  return static_cast<CUstream*>(stream)->add([p] { return memory().give(p) ? ok : invalid_value; });
}
int cuMemHostAlloc(void** p, size_t bytes, unsigned) {
  NEEDS_CONTEXT;
  *p = std::aligned_alloc(64, Memory::whole(bytes));
  return *p ? ok : out_of_memory;
}

// The host's memory is read when the stream gets there, as the real driver may do.
int cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t bytes, void* stream) {
  NEEDS_CONTEXT;
  FAIL_ON_DEMAND(invalid_value);
  if (!memory().real(to, bytes)) return invalid_value;
  return static_cast<CUstream*>(stream)->add([=] {
    char* at = memory().real(to, bytes);
    if (!at) return illegal_address;
    std::memcpy(at, from, bytes);
    return int(ok);
  });
}
int cuMemcpyDtoHAsync_v2(void* to, Pointer from, size_t bytes, void* stream) {
  NEEDS_CONTEXT;
  FAIL_ON_DEMAND(invalid_value);
  if (!memory().real(from, bytes)) return invalid_value;
  return static_cast<CUstream*>(stream)->add([=] {
    const char* at = memory().real(from, bytes);
    if (!at) return illegal_address;
    std::memcpy(to, at, bytes);
    return int(ok);
  });
}
int cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, void* stream) {
  return static_cast<CUstream*>(stream)->add([=] {
    char *target = memory().real(to, bytes), *source = memory().real(from, bytes);
    if (!target || !source) return illegal_address;
    std::memmove(target, source, bytes);
    return int(ok);
  });
}
int cuMemcpyPeerAsync(Pointer to, void*, Pointer from, void*, size_t bytes, void* stream) {
  NEEDS_CONTEXT;
  return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}

int cuStreamCreate(void** stream, unsigned) {
  NEEDS_CONTEXT;
  *stream = new CUstream(current->device);
  const std::lock_guard hold(streams_mutex);
  streams.push_back(static_cast<CUstream*>(*stream));
  return ok;
}
int cuStreamDestroy_v2(void* stream) {
  auto* s = static_cast<CUstream*>(stream);
  {
    const std::lock_guard hold(streams_mutex);
    std::erase(streams, s);
  }
  const std::lock_guard hold(s->mutex);
  s->ends = true;  // when its work is done
  s->changed.notify_all();
  return ok;
}
int cuCtxSynchronize() {
  NEEDS_CONTEXT;
  bool captures = false;
  const std::lock_guard here(streams_mutex);
  for (CUstream* s : all_streams(current->device)) {
    const std::lock_guard hold(s->mutex);
    if (s->captured) s->invalid = captures = true;
  }
  if (captures) return capture_unsupported;
  int error = ok;
  for (CUstream* s : all_streams(current->device))
    if (const int e = s->wait(); e != ok) error = e;
  return error;
}
int cuStreamSynchronize(void* stream) {
  NEEDS_CONTEXT;
  return static_cast<CUstream*>(stream)->wait();
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  NEEDS_CONTEXT;
  auto held = *static_cast<std::shared_ptr<CUevent>*>(event);
  long wanted = 0;
  {
    const std::lock_guard hold(held->mutex);
    wanted = held->recorded;
  }
  return static_cast<CUstream*>(stream)->add([held, wanted] {
    std::unique_lock hold(held->mutex);
    held->changed.wait(hold, [&] { return held->passed >= wanted; });
    return int(ok);
  });
}
int cuEventCreate(void** event, unsigned flags) {
  NEEDS_CONTEXT;
  auto e = std::make_shared<CUevent>();
  e->has_clock = !(flags & 2);
  *event = new std::shared_ptr<CUevent>(std::move(e));
  return ok;
}
int cuEventRecord(void* event, void* stream) {
  NEEDS_CONTEXT;
  auto held = *static_cast<std::shared_ptr<CUevent>*>(event);
  {
    const std::lock_guard hold(held->mutex);
    ++held->recorded;
  }
  return static_cast<CUstream*>(stream)->add([held] {
    const std::lock_guard hold(held->mutex);
    ++held->passed;
    held->at = std::chrono::steady_clock::now();
    held->changed.notify_all();
    return int(ok);
  });
}
int cuEventQuery(void* event) {
  NEEDS_CONTEXT;
  CUevent& e = **static_cast<std::shared_ptr<CUevent>*>(event);
  const std::lock_guard hold(e.mutex);
  return e.passed >= e.recorded ? ok : 600;  // CUDA_ERROR_NOT_READY
}
int cuEventSynchronize(void* event) {
  NEEDS_CONTEXT;
  auto held = *static_cast<std::shared_ptr<CUevent>*>(event);
  std::unique_lock hold(held->mutex);
  const long wanted = held->recorded;
  held->changed.wait(hold, [&] { return held->passed >= wanted; });
  return ok;
}
int cuEventElapsedTime(float* milliseconds, void* start, void* end) {
  FAIL_ON_DEMAND(invalid_value);
  CUevent &a = **static_cast<std::shared_ptr<CUevent>*>(start), &b = **static_cast<std::shared_ptr<CUevent>*>(end);
  const std::scoped_lock hold(a.mutex, b.mutex);
  if (!a.has_clock || !b.has_clock || a.recorded == 0 || b.recorded == 0) return 400;  // CUDA_ERROR_INVALID_HANDLE
  if (a.passed < a.recorded || b.passed < b.recorded) return 600;                      // CUDA_ERROR_NOT_READY
  *milliseconds = std::chrono::duration<float, std::milli>(b.at - a.at).count();
  return ok;
}
int cuEventDestroy_v2(void* event) {
  delete static_cast<std::shared_ptr<CUevent>*>(event);
  return ok;
}
}
