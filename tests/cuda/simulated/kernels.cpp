// The simulated driver's kernels, which are host libraries, stream captures, and graphs. See cuda.cpp.
#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "shared.h"
#include "state.h"

using namespace simulated;

namespace {

constexpr unsigned most_threads = 1024;

// Whether two lists of ranges, each sorted by their start, share a byte that one of them writes.
bool overlap(const std::vector<Range>& a, const std::vector<Range>& b) {
  for (const Range& x : a)
    for (const Range& y : b) {
      if (y.begin >= x.end) break;
      if (y.end > x.begin && (x.writes || y.writes)) return true;
    }
  return false;
}

}  // namespace

void simulated::require_no_race(const std::vector<CUgraphnode>& nodes, const std::vector<std::vector<Range>>& ranges) {
  std::vector<std::vector<bool>> after(nodes.size(), std::vector<bool>(nodes.size()));
  for (size_t i = 0; i < nodes.size(); ++i)  // a node's number is higher than those that it depends on
    for (const size_t a : nodes[i].after) {
      after[i][a] = true;
      for (size_t b = 0; b < a; ++b)
        if (after[a][b]) after[i][b] = true;
    }
  for (size_t i = 0; i < nodes.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      if (after[i][j] || !overlap(ranges[i], ranges[j])) continue;
      std::fprintf(stderr, "a race in a graph: nodes %zu and %zu of %zu access the same memory, and have no order\n", j,
                   i, nodes.size());
      std::abort();
    }
}

extern "C" {

int cuModuleLoadData(void** module, const void* image) {
  NEEDS_CONTEXT;
  FAIL_ON_DEMAND(200);
  std::string machine_code;
  if (std::strncmp(static_cast<const char*>(image), ptx_begins, std::strlen(ptx_begins)) == 0) {
    const char* digits = static_cast<const char*>(image) + std::strlen(ptx_begins);
    for (; digits[0] && digits[1]; digits += 2) machine_code += char((digits[0] - 'a') * 16 + digits[1] - 'a');
    image = machine_code.data();
  }
  const auto* header = static_cast<const Elf64_Ehdr*>(image);
  const size_t bytes = header->e_shoff + size_t(header->e_shnum) * header->e_shentsize;  // section headers come last
  char path[] = "/tmp/rill-kernel-XXXXXX";  // a unique name: the loader treats files of one name as one
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
  if (void* at = dlsym(*module, "rill_shift"))  // the same for all, in a library that kernels share
    __atomic_store_n(static_cast<long long*>(at), shift, __ATOMIC_RELAXED);
  return ok;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  NEEDS_CONTEXT;
  auto f = std::make_unique<CUfunc>();
  f->run = reinterpret_cast<decltype(f->run)>(dlsym(module, name));
  const auto bytes = reinterpret_cast<unsigned (*)()>(dlsym(module, (std::string(name) + "_bytes").c_str()));
  f->launch = reinterpret_cast<decltype(f->launch)>(dlsym(module, "rill_launch"));
  f->record = reinterpret_cast<decltype(f->record)>(dlsym(module, "rill_begin_recording"));
  f->recorded = reinterpret_cast<decltype(f->recorded)>(dlsym(module, "rill_recorded"));
  if (!f->run || !bytes || !f->launch || !f->record || !f->recorded) return not_found;
  f->bytes = bytes();
  *function = f.release();
  return ok;
}
int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned, void* stream, void** parameters, void**) {
  NEEDS_CONTEXT;
  FAIL_ON_DEMAND(701);  // out of the resources that a launch takes
  if (grid_x == 0 || block_x == 0 || block_x > most_threads) return invalid_value;
  if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1) return invalid_value;  // rill uses one dimension
  if (current->device != static_cast<CUstream*>(stream)->device) return invalid_context;
  const auto& f = *static_cast<CUfunc*>(function);
  const auto* first = static_cast<const char*>(parameters[0]);
  return static_cast<CUstream*>(stream)->add(Launch{&f, {first, first + f.bytes}, grid_x, block_x});
}

int cuStreamBeginCapture_v2(void* stream, int mode) {
  NEEDS_CONTEXT;
  FAIL_ON_DEMAND(capture_unsupported);
  auto& s = *static_cast<CUstream*>(stream);
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
  std::vector<size_t> numbers;
  NEEDS_CONTEXT;
  if (!g.find(after, count, numbers) || !launch_of(*p, launch)) return invalid_value;
  *node = g.add({nullptr, std::move(launch), std::move(numbers)});
  return ok;
}
int cuGraphAddChildGraphNode(void** node, void* graph, void* const* after, size_t count, void* child) {
  FAIL_ON_DEMAND(invalid_value);
  auto& g = *static_cast<CUgraph*>(graph);
  std::vector<size_t> numbers;
  if (!g.find(after, count, numbers)) return invalid_value;
  std::vector<CUgraphnode> nodes;  // a copy, as they are now
  for (const auto& n : static_cast<CUgraph*>(child)->nodes) nodes.push_back(*n);
  *node = g.add({[nodes = std::move(nodes)] { return run_all(nodes); }, {}, std::move(numbers)});
  return ok;
}
int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long flags) {
  NEEDS_CONTEXT;
  FAIL_ON_DEMAND(out_of_memory);
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
  NEEDS_CONTEXT;
  const auto at = std::find(e.originals.begin(), e.originals.end(), node);
  Launch launch;
  if (at == e.originals.end() || !launch_of(*p, launch)) return invalid_value;
  CUgraphnode& own = e.nodes[size_t(at - e.originals.begin())];
  if (!own.kernel.function) return invalid_value;
  own.kernel = std::move(launch);
  return ok;
}
int cuGraphLaunch(void* exec, void* stream) {
  NEEDS_CONTEXT;
  FAIL_ON_DEMAND(out_of_memory);
  if (current->device != static_cast<CUstream*>(stream)->device) return invalid_context;
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
