// A device whose memory the host may not access: each buffer is in pages of its own that only a copy or a kernel of
// the device makes accessible. Its kernels are the reference kernels. So it shows, on machines without another device,
// where rill accesses tensors' memory without the driver, and what silently runs on the host.
#pragma once
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "rill/devices/driver.h"
#include "rill/devices/host_memory.h"

namespace guarded_device {

using namespace rill;

// One buffer's pages. Never freed, and found by the signal handler without a lock.
struct Pages {
  char* begin;
  size_t bytes;
  int open;  // current number of uses
};

struct Fault {
  std::array<void*, 24> stack;
  int depth;
};

inline std::recursive_mutex mutex;
inline std::map<char*, Pages> live;  // by address
inline std::array<MemoryStats, 2> counts;
inline std::array<Fault, 64> faults;
inline int fault_count = 0;

inline Pages* pages_of(const void* address) {
  auto after = live.upper_bound(static_cast<char*>(const_cast<void*>(address)));
  if (after == live.begin()) return nullptr;
  Pages& p = std::prev(after)->second;
  return address < p.begin + p.bytes ? &p : nullptr;
}

inline void on_fault(int signal, siginfo_t* info, void*) {
  Pages* p = pages_of(info->si_addr);
  if (!p) {  // not ours: crash
    ::signal(signal, SIG_DFL);
    return;
  }
  if (fault_count < int(faults.size())) {
    Fault& f = faults[size_t(fault_count++)];
    f.depth = backtrace(f.stack.data(), int(f.stack.size()));
  }
  mprotect(p->begin, p->bytes, PROT_READ | PROT_WRITE);
}

inline void release(Buffer* b) {
  const std::lock_guard lock(mutex);
  Pages* p = pages_of(b->data);
  counts[size_t(b->device.index())].in_use -= p->bytes;
  munmap(p->begin, p->bytes);
  live.erase(p->begin);
  delete b;
}

// Makes the memory of tensors accessible while it lives.
class Open {
 public:
  Open() : lock_(mutex) {}
  ~Open() {
    for (Pages* p : pages_)
      if (--p->open == 0) mprotect(p->begin, p->bytes, PROT_NONE);
  }
  void add(const Tensor& t) {
    Pages* p = t.defined() && !is_host(t.device()) ? pages_of(t.rep()->buffer->data) : nullptr;
    if (!p) return;
    if (p->open++ == 0) mprotect(p->begin, p->bytes, PROT_READ | PROT_WRITE);
    pages_.push_back(p);
  }

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  std::vector<Pages*> pages_;
};

class Driver final : public DeviceDriver {
 public:
  int count() const override { return 2; }
  Ref<Buffer> allocate(Device d, size_t bytes) override {
    const size_t page = size_t(sysconf(_SC_PAGESIZE)), size = (std::max<size_t>(bytes, 1) + page - 1) / page * page;
    void* memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw host_memory::OutOfMemory("out of memory on the guarded device");
    const std::lock_guard lock(mutex);
    live[static_cast<char*>(memory)] = {static_cast<char*>(memory), size, 0};
    MemoryStats& s = counts[size_t(d.index())];
    s.in_use += size;
    s.peak = std::max(s.peak, s.in_use);
    ++s.allocations;
    auto* b = new Buffer;
    b->device = d;
    b->data = memory;
    b->bytes = bytes;
    b->release = release;
    return Ref<Buffer>::adopt(b);
  }
  MemoryStats stats(Device d) override {
    const std::lock_guard lock(mutex);
    MemoryStats s = counts[size_t(d.index())];
    s.reserved = s.in_use;
    return s;
  }
  void reset_peak(Device d) override {
    const std::lock_guard lock(mutex);
    counts[size_t(d.index())].peak = counts[size_t(d.index())].in_use;
  }
  void release_cached(Device) override {}
  void set_limit(Device, size_t) override {}
  void reserve(Device, size_t) override {}

  void copy(const Tensor& from, Tensor& to) override {
    Open open;
    open.add(from);
    open.add(to);
    Tensor source = on_host(from), target = on_host(to);
    copy_elements(source, target);
  }
  Kernel kernel(const Op&, std::string_view, DType, Kernel reference) override { return reference; }
  void run(Kernel kernel, const KernelArgs& args) override {
    Open open;
    for (const Tensor* t : args.in) open.add(*t);
    for (const Tensor* t : args.out) open.add(*t);
    kernel(args);
  }
  void synchronize(Device) override {}

 private:
  // The tensor as one of the host, on the same memory.
  static Tensor on_host(const Tensor& t) {
    Spec spec = t.spec();
    spec.device = Device();
    Tensor same = make_tensor(std::move(spec), t.rep()->buffer);
    same.mutable_rep()->data = t.rep()->data;
    same.mutable_rep()->strides = t.strides();
    return same;
  }
};

// Makes gpu:0 and gpu:1 such devices, for the whole process.
inline void add() {
  void* first[1];
  backtrace(first, 1);  // loads what it needs before a handler calls it
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  setenv("RILL_CUDA", "off", 1);
  add_driver(DeviceKind::gpu, std::make_unique<Driver>());
}

// The host's accesses since the last call: the call stack of each, innermost first. The page is then made accessible,
// so that a test continues.
inline std::vector<std::string> touched() {
  const std::lock_guard lock(mutex);
  std::vector<std::string> places;
  for (int i = 0; i < std::exchange(fault_count, 0); ++i) {
    const Fault& f = faults[size_t(i)];
    char** names = backtrace_symbols(f.stack.data(), f.depth);
    std::string text;
    for (int k = 2; k < f.depth; ++k) text += std::string(names[k]) + "\n";
    std::free(names);
    places.push_back(text);
  }
  return places;
}

}  // namespace guarded_device
