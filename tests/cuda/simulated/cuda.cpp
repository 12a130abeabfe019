// A libcuda.so.1 that has no GPU: rill's GPU code runs whole on a machine without one, against a driver that is
// stricter than NVIDIA's.
//
// * Device memory lies in address space of its own, which nothing may touch: an address that the driver gives faults
//   where host code reads it. The bytes are `shift` further on, where kernels look (RILL_AT) and copies go. What is
//   freed is unmapped, blocks have unmapped pages around them, and fresh memory holds noise.
// * A stream is a thread, which sleeps now and then: what does not wait for it meets memory that is not written yet.
// * A kernel is its own text, compiled for the host (nvrtc.cpp).
// * A stream that is captured runs nothing, and what waits for it fails; so do allocations there. A launched graph runs
//   on the stream that it is launched on, with the parameters that its nodes have at that time.
// * Tests say which call is to fail next (rill_simulated_fail), and count kernels (rill_simulated_launches) and graphs.
// * RILL_SIMULATED_MEMORY: the bytes of a device. RILL_SIMULATED_CUDA: the CUDA version of the driver, 12040 for 12.4;
//   13.0 where it is not set. RILL_SIMULATED_POOLS=none: GPUs have no memory pools.
//
// What each call does is said in the CUDA Driver API's documentation.
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shared.h"

namespace {

enum Error {
  ok = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialised = 3,
  invalid_context = 201,
  not_found = 500,
  not_supported = 801,
  capture_unsupported = 900,
  capture_invalidated = 901,
  too_many_peers = 711
};

constexpr int devices = 2;
#ifdef __SANITIZE_THREAD__
constexpr long long shift = 1ll << 36;  // of the addresses it leaves to programs
#else
constexpr long long shift = 1ll << 40;
#endif
constexpr size_t page = 4096;
using Pointer = unsigned long long;

// --- Failures on demand ---

std::mutex failure_mutex;
std::string failing_call;
int calls_until_failure = 0;
std::atomic<long> launches = 0, graphs = 0, graph_launches = 0, living_graphs = 0;

// Whether this call of `name` is the one that a test wants to fail.
bool fails(const char* name) {
  const std::lock_guard hold(failure_mutex);
  return failing_call == name && calls_until_failure > 0 && --calls_until_failure == 0;
}
#define FAIL_ON_DEMAND(error) \
  if (fails(__func__)) return error

// --- Contexts ---

struct CUctx {
  int device;
  std::atomic<int> retained{0};
  explicit CUctx(int d) : device(d) {}
};
CUctx contexts[devices] = {CUctx(0), CUctx(1)};
thread_local CUctx* current = nullptr;
std::atomic<bool> initialised = false;

// --- Memory ---

struct Memory {
  std::mutex mutex;
  char* begin = nullptr;  // of the addresses that are given out
  size_t used = 0;
  std::map<Pointer, std::pair<size_t, int>> live;  // bytes, device
  size_t in_use[devices] = {};
  size_t limit = 4ull << 30;
  // What the pools have of the system: blocks that were freed stay, for others of their size, until a pool is trimmed.
  std::map<size_t, int> kept[devices];  // by size
  size_t taken[devices] = {}, most_taken[devices] = {};

  Memory() {
    if (const char* bytes = std::getenv("RILL_SIMULATED_MEMORY")) limit = std::strtoull(bytes, nullptr, 10);
    begin = static_cast<char*>(
        mmap(nullptr, size_t(2 * shift), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (begin == MAP_FAILED) std::abort();
  }
  static size_t whole(size_t bytes) { return (bytes + page - 1) / page * page; }
  Pointer take(size_t bytes, int device) {
    const std::lock_guard hold(mutex);
    if (in_use[device] + bytes > limit || used + whole(bytes) + page > size_t(shift)) return 0;
    char* at = begin + used;
    used += whole(bytes) + page;  // addresses are not given out twice
    char* real = at + shift;
    if (mprotect(real, whole(bytes), PROT_READ | PROT_WRITE) != 0) return 0;
    std::memset(real, 0xa5, std::min<size_t>(bytes, 1 << 16));
    in_use[device] += bytes;
    if (int& same = kept[device][bytes]; same > 0) --same;
    else taken[device] += bytes;
    most_taken[device] = std::max(most_taken[device], taken[device]);
    live[Pointer(at)] = {bytes, device};
    return Pointer(at);
  }
  // Takes the pages away, where the stream has come so far.
  bool give(Pointer p) {
    const std::lock_guard hold(mutex);
    const auto block = live.find(p);
    if (block == live.end()) return false;
    in_use[block->second.second] -= block->second.first;
    ++kept[block->second.second][block->second.first];
    char* real = reinterpret_cast<char*>(p) + shift;
    mmap(real, whole(block->second.first), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    live.erase(block);
    return true;
  }
  void trim(int device) {
    const std::lock_guard hold(mutex);
    for (const auto& [bytes, count] : kept[device]) taken[device] -= bytes * size_t(count);
    kept[device].clear();
  }
  // The host's address of device memory that holds `bytes` from there on, or nullptr.
  char* real(Pointer p, size_t bytes) {
    const std::lock_guard hold(mutex);
    auto block = live.upper_bound(p);
    if (block == live.begin()) return nullptr;
    --block;
    return p + bytes <= block->first + block->second.first ? reinterpret_cast<char*>(p) + shift : nullptr;
  }
};
Memory& memory() {
  static auto* all = new Memory;
  return *all;
}

// --- Pools ---

bool has_pools() {
  const char* wanted = std::getenv("RILL_SIMULATED_POOLS");
  return !wanted || std::string(wanted) != "none";
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

// --- Streams ---

struct CUevent {
  std::mutex mutex;
  std::condition_variable changed;
  long recorded = 0, passed = 0;  // times
  bool has_clock = true;
  std::chrono::steady_clock::time_point at;
};

// --- Graphs ---

struct CUfunc {
  void (*run)(const void*);
  unsigned bytes;
  void (*launch)(void (*)(const void*), const void*, unsigned, unsigned);
};

struct Launch {
  const CUfunc* function = nullptr;
  std::vector<char> params;
  unsigned grid = 0, block = 0;
  int operator()() const {
    function->launch(function->run, params.data(), grid, block);
    return ok;
  }
};

struct CUgraphnode {
  std::function<int()> work;  // of a library, or a graph's; or else
  Launch kernel;
  int run() const { return work ? work() : kernel(); }
};
// In their order: each comes after the one before it.
int run_all(const std::vector<CUgraphnode>& nodes) {
  for (const CUgraphnode& n : nodes)
    if (const int error = n.run(); error != ok) return error;
  return ok;
}
struct CUgraph {
  std::vector<std::unique_ptr<CUgraphnode>> nodes;
  CUgraph() { ++living_graphs; }
  ~CUgraph() { --living_graphs; }
  CUgraphnode* add(CUgraphnode node) {
    nodes.push_back(std::make_unique<CUgraphnode>(std::move(node)));
    return nodes.back().get();
  }
  // Whether what is added now comes after all.
  bool is_end(void* const* after, size_t count) const {
    return nodes.empty() ? count == 0 : count == 1 && after[0] == nodes.back().get();
  }
};
struct CUgraphexec {
  std::vector<const CUgraphnode*> originals;
  std::vector<CUgraphnode> nodes;
  CUgraphexec() { ++living_graphs; }
  ~CUgraphexec() { --living_graphs; }
};

struct CUstream {
  int device;
  std::unique_ptr<CUgraph> captured;  // while it is
  bool invalid = false;               // what is captured
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<int()>> work;
  bool ends = false;
  long added = 0, done = 0;
  int error = 0;  // stays, as a context's does
  unsigned noise = 12345;

  explicit CUstream(int d) : device(d) {
    std::thread([this] { run(); }).detach();
  }
  void run() {
    std::unique_lock hold(mutex);
    for (;;) {
      changed.wait(hold, [&] { return !work.empty() || ends; });
      if (work.empty()) break;
      auto next = std::move(work.front());
      work.pop_front();
      noise = noise * 1664525 + 1013904223;
      const unsigned sleep = noise >> 24;  // one in sixteen calls
      hold.unlock();
      if (sleep < 16) std::this_thread::sleep_for(std::chrono::microseconds(20 * sleep));
      const int result = next();
      hold.lock();
      if (result != 0 && error == 0) error = result;
      ++done;
      changed.notify_all();
    }
    hold.unlock();
    delete this;
  }
  int capture(CUgraphnode node) {
    if (invalid) return capture_invalidated;
    captured->add(std::move(node));
    return ok;
  }
  int add(std::function<int()> f) {
    const std::lock_guard hold(mutex);
    if (error != 0) return error;
    if (captured) return capture({std::move(f), {}});
    work.push_back(std::move(f));
    ++added;
    changed.notify_all();
    return 0;
  }
  int add(Launch kernel) {
    {
      const std::lock_guard hold(mutex);
      if (captured) return capture({nullptr, std::move(kernel)});
    }
    ++launches;
    return add(std::function<int()>(std::move(kernel)));
  }
  int wait() {
    std::unique_lock hold(mutex);
    if (captured) {
      invalid = true;
      return capture_unsupported;
    }
    const long begun = added;  // what comes later is not waited for
    changed.wait(hold, [&] { return done >= begun; });
    return error;
  }
};

std::mutex streams_mutex;
std::vector<CUstream*> streams;
// With streams_mutex held, under which none goes.
std::vector<CUstream*> all_streams(int device) {
  std::vector<CUstream*> here;
  for (CUstream* s : streams)
    if (s->device == device) here.push_back(s);
  return here;
}

// --- Kernels ---

constexpr unsigned most_threads = 1024;
constexpr int illegal_address = 700;

}  // namespace

char* simulated_memory(const void* device, size_t bytes) { return memory().real(Pointer(device), bytes); }
bool simulated_failure(const char* name) { return fails(name); }
int simulated_work(void* stream, std::function<int()> work) {
  return static_cast<CUstream*>(stream)->add(std::move(work));
}

extern "C" {

// The `nth` call of `name` from now on fails; 1: the next one.
void rill_simulated_fail(const char* name, int nth) {
  const std::lock_guard hold(failure_mutex);
  failing_call = name;
  calls_until_failure = nth;
}
long rill_simulated_launches() { return launches; }  // those of graphs, too
// How many graphs were made executable, and launched; how many there are, executable ones counted apart.
long rill_simulated_graphs() { return graphs; }
long rill_simulated_graph_launches() { return graph_launches; }
long rill_simulated_living_graphs() { return living_graphs; }
// How many times the primary context of a device was taken.
int rill_simulated_contexts(int device) { return contexts[device].retained; }
// How many pools were opened to another device.
int rill_simulated_accesses() { return accesses; }
// The most bytes that a device's pools had of the system at once, since this was last asked.
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
  *count = devices;
  return initialised ? ok : not_initialised;
}
int cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal >= devices) return 101;
  *device = ordinal;
  return ok;
}
int cuDeviceGetName(char* name, int length, int device) {
  std::snprintf(name, size_t(length), "simulated GPU %d", device);
  return ok;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 16 ? 2 : attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 115 ? has_pools() : 0;
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
  if (!current) return invalid_context;
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
  FAIL_ON_DEMAND(out_of_memory);
  if (!current) return invalid_context;
  *p = bytes == 0 ? 0 : memory().take(bytes, current->device);
  memory().trim(current->device);
  return bytes == 0 ? invalid_value : *p ? ok : out_of_memory;
}
int cuMemFree_v2(Pointer p) {
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
  *p = std::aligned_alloc(64, Memory::whole(bytes));
  return *p ? ok : out_of_memory;
}

// The host's memory is read when the stream gets there, which the driver may do.
int cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t bytes, void* stream) {
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
  FAIL_ON_DEMAND(illegal_address);
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
  return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}

int cuStreamCreate(void** stream, unsigned) {
  if (!current) return invalid_context;
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
  if (!current) return invalid_context;
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
int cuStreamSynchronize(void* stream) { return static_cast<CUstream*>(stream)->wait(); }
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
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
  auto e = std::make_shared<CUevent>();
  e->has_clock = !(flags & 2);
  *event = new std::shared_ptr<CUevent>(std::move(e));
  return ok;
}
int cuEventRecord(void* event, void* stream) {
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

int cuModuleLoadData(void** module, const void* image) {
  FAIL_ON_DEMAND(200);
  std::string machine_code;
  if (std::strncmp(static_cast<const char*>(image), ptx_begins, std::strlen(ptx_begins)) == 0) {
    const char* digits = static_cast<const char*>(image) + std::strlen(ptx_begins);
    for (; digits[0] && digits[1]; digits += 2) machine_code += char((digits[0] - 'a') * 16 + digits[1] - 'a');
    image = machine_code.data();
  }
  const auto* header = static_cast<const Elf64_Ehdr*>(image);
  const size_t bytes = header->e_shoff + size_t(header->e_shnum) * header->e_shentsize;  // sections' headers come last
  char path[] = "/tmp/rill-kernel-XXXXXX";  // a name of its own: the loader takes files of one name for one
  const int file = mkstemp(path);
  const auto* data = static_cast<const char*>(image);
  bool whole = file >= 0;
  for (size_t done = 0; whole && done < bytes;) {
    const ssize_t n = write(file, data + done, bytes - done);
    whole = n > 0;
    done += size_t(std::max<ssize_t>(n, 0));
  }
  *module = whole ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!*module) std::fprintf(stderr, "simulated driver: %s\n", whole ? dlerror() : "a kernel cannot be written");
  close(file);
  unlink(path);
  if (!*module) return 200;
  if (void* at = dlsym(*module, "rill_shift")) *static_cast<long long*>(at) = shift;
  return ok;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  auto f = std::make_unique<CUfunc>();
  f->run = reinterpret_cast<decltype(f->run)>(dlsym(module, name));
  const auto bytes = reinterpret_cast<unsigned (*)()>(dlsym(module, (std::string(name) + "_bytes").c_str()));
  f->launch = reinterpret_cast<decltype(f->launch)>(dlsym(module, "rill_launch"));
  if (!f->run || !bytes || !f->launch) return not_found;
  f->bytes = bytes();
  *function = f.release();
  return ok;
}
int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned, void* stream, void** parameters, void**) {
  FAIL_ON_DEMAND(719);
  if (!current || grid_x == 0 || block_x == 0 || block_x > most_threads) return invalid_value;
  if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1) return invalid_value;  // rill uses one dimension
  if (current->device != static_cast<CUstream*>(stream)->device) return invalid_context;
  const auto& f = *static_cast<CUfunc*>(function);
  const auto* first = static_cast<const char*>(parameters[0]);
  return static_cast<CUstream*>(stream)->add(Launch{&f, {first, first + f.bytes}, grid_x, block_x});
}

int cuStreamBeginCapture_v2(void* stream, int mode) {
  FAIL_ON_DEMAND(capture_unsupported);
  auto& s = *static_cast<CUstream*>(stream);
  if (!current) return invalid_context;
  if (mode < 0 || mode > 2) return invalid_value;
  const std::lock_guard hold(s.mutex);
  if (s.captured) return invalid_value;
  s.captured = std::make_unique<CUgraph>();
  s.invalid = false;
  return ok;
}
int cuStreamEndCapture(void* stream, void** graph) {
  auto& s = *static_cast<CUstream*>(stream);
  const std::lock_guard hold(s.mutex);
  *graph = nullptr;
  if (!s.captured) return invalid_value;
  auto captured = std::exchange(s.captured, nullptr);
  if (fails(__func__) || s.invalid) return capture_invalidated;
  *graph = captured.release();
  return ok;
}
int cuGraphCreate(void** graph, unsigned flags) {
  FAIL_ON_DEMAND(out_of_memory);
  if (flags != 0) return invalid_value;
  *graph = new CUgraph;
  return ok;
}
// CUDA_KERNEL_NODE_PARAMS
struct KernelNode {
  void* function;
  unsigned grid[3], block[3], shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  void* context;
};
bool launch_of(const KernelNode& p, Launch& launch) {
  if (!p.function || p.extra || p.kernel) return false;
  if (p.grid[0] == 0 || p.grid[1] != 1 || p.grid[2] != 1) return false;
  if (p.block[0] == 0 || p.block[0] > most_threads || p.block[1] != 1 || p.block[2] != 1) return false;
  const auto& f = *static_cast<CUfunc*>(p.function);
  const auto* first = static_cast<const char*>(p.parameters[0]);
  launch = {&f, {first, first + f.bytes}, p.grid[0], p.block[0]};
  return true;
}
int cuGraphAddKernelNode_v2(void** node, void* graph, void* const* after, size_t count, const KernelNode* p) {
  FAIL_ON_DEMAND(invalid_value);
  auto& g = *static_cast<CUgraph*>(graph);
  Launch launch;
  if (!current) return invalid_context;
  if (!g.is_end(after, count) || !launch_of(*p, launch)) return invalid_value;
  *node = g.add({nullptr, std::move(launch)});
  return ok;
}
int cuGraphAddChildGraphNode(void** node, void* graph, void* const* after, size_t count, void* child) {
  FAIL_ON_DEMAND(invalid_value);
  auto& g = *static_cast<CUgraph*>(graph);
  if (!g.is_end(after, count)) return invalid_value;
  std::vector<CUgraphnode> nodes;  // a copy, as they are now
  for (const auto& n : static_cast<CUgraph*>(child)->nodes) nodes.push_back(*n);
  *node = g.add({[nodes = std::move(nodes)] { return run_all(nodes); }, {}});
  return ok;
}
int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long flags) {
  FAIL_ON_DEMAND(out_of_memory);
  if (!current) return invalid_context;
  if (flags != 0) return invalid_value;
  auto e = std::make_unique<CUgraphexec>();
  for (const auto& node : static_cast<CUgraph*>(graph)->nodes) {
    e->originals.push_back(node.get());
    e->nodes.push_back(*node);
  }
  *exec = e.release();
  ++graphs;
  return ok;
}
int cuGraphExecKernelNodeSetParams_v2(void* exec, void* node, const KernelNode* p) {
  FAIL_ON_DEMAND(invalid_value);
  auto& e = *static_cast<CUgraphexec*>(exec);
  if (!current) return invalid_context;
  const auto at = std::find(e.originals.begin(), e.originals.end(), node);
  Launch launch;
  if (at == e.originals.end() || !launch_of(*p, launch)) return invalid_value;
  CUgraphnode& own = e.nodes[size_t(at - e.originals.begin())];
  if (!own.kernel.function) return invalid_value;
  own.kernel = std::move(launch);
  return ok;
}
int cuGraphLaunch(void* exec, void* stream) {
  FAIL_ON_DEMAND(out_of_memory);
  if (!current || current->device != static_cast<CUstream*>(stream)->device) return invalid_context;
  ++graph_launches;
  const auto& e = *static_cast<CUgraphexec*>(exec);
  for (const CUgraphnode& n : e.nodes) launches += n.kernel.function != nullptr;
  return static_cast<CUstream*>(stream)->add(std::function<int()>([nodes = e.nodes] { return run_all(nodes); }));
}
int cuGraphExecDestroy(void* exec) {
  delete static_cast<CUgraphexec*>(exec);
  return ok;
}
int cuGraphDestroy(void* graph) {
  delete static_cast<CUgraph*>(graph);
  return ok;
}
}
