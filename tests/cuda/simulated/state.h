// The state of a simulated driver: contexts, memory, streams that are threads, events, launches and graphs. Start at
// cuda.cpp.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace simulated {

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

constexpr int illegal_address = 700;  // the error of streams, as an int
constexpr int devices = 2;
#ifdef __SANITIZE_THREAD__
constexpr long long shift = 1ll << 36;  // distance of the bytes from the addresses that programs get
#else
constexpr long long shift = 1ll << 40;
#endif
constexpr size_t page = 4096;
using Pointer = unsigned long long;

// --- Failures on demand ---

inline std::mutex failure_mutex;
inline std::string failing_call;
inline int calls_until_failure = 0;
inline std::atomic<unsigned> most_blocks = 0;  // of a kernel that was started
inline std::atomic<long> waits = 0;            // of the host for a stream
inline std::atomic<long> launches = 0, graphs = 0, graph_launches = 0, living_graphs = 0;

// Whether this call of `name` is the one that a test wants to fail.
inline bool fails(const char* name) {
  const std::lock_guard hold(failure_mutex);
  return failing_call == name && calls_until_failure > 0 && --calls_until_failure == 0;
}
#define FAIL_ON_DEMAND(error) \
  if (fails(__func__)) return error

// --- Contexts ---

struct CUctx {
  int device;
  std::atomic<int> retained{0};
  std::atomic<int> lost{ok};  // what has ended it permanently: a kernel's fault, say; every later call returns it
  explicit CUctx(int d) : device(d) {}
};
inline CUctx contexts[devices] = {CUctx(0), CUctx(1)};
inline thread_local CUctx* current = nullptr;
// The result of a call that needs a context, before any other check.
inline int context_error() { return current ? current->lost.load() : int(invalid_context); }
#define NEEDS_CONTEXT \
  if (const int error = context_error(); error != ok) return error
inline std::atomic<bool> initialised = false;

// --- Memory ---

struct Memory {
  std::mutex mutex;
  char* begin = nullptr;  // of the addresses that are handed out
  size_t used = 0;
  std::map<Pointer, std::pair<size_t, int>> live;  // bytes, device
  size_t in_use[devices] = {};
  size_t limit = 4ull << 30;
  // The system memory of the pools: freed blocks stay, for others of their size, until a pool is trimmed.
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
    used += whole(bytes) + page;  // addresses are never reused
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
  // Unmaps the pages, when the stream gets there.
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
  // The host's address of device memory with at least `bytes` from there on, or nullptr.
  char* real(Pointer p, size_t bytes) {
    const std::lock_guard hold(mutex);
    auto block = live.upper_bound(p);
    if (block == live.begin()) return nullptr;
    --block;
    return p + bytes <= block->first + block->second.first ? reinterpret_cast<char*>(p) + shift : nullptr;
  }
};
inline Memory& memory() {
  static auto* all = new Memory;
  return *all;
}

// --- Streams ---

struct CUevent {
  std::mutex mutex;
  std::condition_variable changed;
  long recorded = 0, passed = 0;  // times
  bool has_clock = true;
  std::chrono::steady_clock::time_point at;
};

// --- Kernels and graphs ---

struct CUfunc {
  void (*run)(const void*);
  unsigned bytes;
  void (*launch)(void (*)(const void*), const void*, unsigned, unsigned);
  void (*record)(bool);  // rill_begin_recording(), rill_recorded(): see ../host_cuda.cpp
  void (*recorded)(void (*)(void*, Pointer, Pointer, bool), void*);
};

// RILL_SIMULATED_RACES=on: kernels that access the same memory without order abort the program, both two blocks of a
// launch and two nodes of a graph.
inline bool looks_for_races() {
  static const char* const wanted = std::getenv("RILL_SIMULATED_RACES");
  return wanted && std::string(wanted) == "on";
}
struct Range {
  Pointer begin, end;
  bool writes;
};

struct Launch {
  const CUfunc* function = nullptr;
  std::vector<char> params;
  unsigned grid = 0, block = 0;
  int operator()(std::vector<Range>* ranges = nullptr) const {
    if (fails("kernel")) return illegal_address;
    if (grid > most_blocks) most_blocks = grid;
    if (looks_for_races()) function->record(true);
    function->launch(function->run, params.data(), grid, block);
    const auto append = [](void* to, Pointer begin, Pointer end, bool writes) {
      static_cast<std::vector<Range>*>(to)->push_back({begin, end, writes});
    };
    if (ranges) function->recorded(append, ranges);
    return ok;
  }
};

struct CUgraphnode {
  std::function<int()> work;  // of a library, or a graph; or else
  Launch kernel;
  std::vector<size_t> after;  // numbers of nodes
  int run(std::vector<Range>* ranges = nullptr) const { return work ? work() : kernel(ranges); }
};
inline std::atomic<size_t> most_branches = 0;  // nodes that could have run concurrently
// Aborts the program if two of these access the same memory, one of them writing, and neither depends on the other.
void require_no_race(const std::vector<CUgraphnode>& nodes, const std::vector<std::vector<Range>>& ranges);
// Each after its dependencies, else in any order: the last added first, as far as possible, or at random.
inline int run_all(const std::vector<CUgraphnode>& nodes) {
  static std::atomic<unsigned> calls = 0;
  unsigned noise = calls++;
  std::vector<bool> done(nodes.size());
  std::vector<size_t> ready;
  std::vector<std::vector<Range>> ranges(looks_for_races() ? nodes.size() : 0);
  for (size_t left = nodes.size(); left > 0; --left) {
    ready.clear();
    for (size_t i = 0; i < nodes.size(); ++i)
      if (!done[i] && std::all_of(nodes[i].after.begin(), nodes[i].after.end(), [&](size_t a) { return done[a]; }))
        ready.push_back(i);
    if (ready.size() > most_branches) most_branches = ready.size();
    noise = noise * 1664525 + 1013904223;
    const size_t next = noise >> 31 ? ready.back() : ready[(noise >> 8) % ready.size()];
    if (const int error = nodes[next].run(ranges.empty() ? nullptr : &ranges[next]); error != ok) return error;
    done[next] = true;
  }
  if (!ranges.empty()) require_no_race(nodes, ranges);
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
  // The numbers of a new node's dependencies; false if one is unknown, or is listed twice.
  bool find(void* const* after, size_t count, std::vector<size_t>& numbers) const {
    for (size_t a = 0; a < count; ++a) {
      const auto at = std::find_if(nodes.begin(), nodes.end(), [&](auto& n) { return n.get() == after[a]; });
      if (at == nodes.end() || std::find(after, after + a, after[a]) != after + a) return false;
      numbers.push_back(size_t(at - nodes.begin()));
    }
    return true;
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
  std::unique_ptr<CUgraph> captured;  // while it is being captured
  bool invalid = false;               // the captured graph is invalid
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<int()>> work;
  bool ends = false;
  long added = 0, done = 0;
  int error = 0;  // permanent
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
      if (result == illegal_address) contexts[device].lost = result;
      ++done;
      changed.notify_all();
    }
    hold.unlock();
    delete this;
  }
  int capture(CUgraphnode node) {
    if (invalid) return capture_invalidated;
    if (!captured->nodes.empty()) node.after = {captured->nodes.size() - 1};
    captured->add(std::move(node));
    return ok;
  }
  int add(std::function<int()> f) {
    const std::lock_guard hold(mutex);
    if (error != 0) return error;
    if (captured) return capture({std::move(f), {}, {}});
    work.push_back(std::move(f));
    ++added;
    changed.notify_all();
    return 0;
  }
  int add(Launch kernel) {
    {
      const std::lock_guard hold(mutex);
      if (captured) return capture({nullptr, std::move(kernel), {}});
    }
    ++launches;
    return add(std::function<int()>(std::move(kernel)));
  }
  int wait() {
    ++waits;
    std::unique_lock hold(mutex);
    if (captured) {
      invalid = true;
      return capture_unsupported;
    }
    const long begun = added;  // later work is not waited for
    changed.wait(hold, [&] { return done >= begun; });
    return error;
  }
};

}  // namespace simulated
