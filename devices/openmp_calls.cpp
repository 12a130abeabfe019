// See openmp_calls.h. A shared library calls others through a table of addresses, which the loader fills from its
// list of relocations (System V ABI, "Dynamic Linking"); here the addresses of OpenMP's functions are replaced by ours,
// which behave like GNU OpenMP's (its source, libgomp: parallel.c, loop.c, iter.c). Start at redirect_openmp_calls().
#include "rill/devices/openmp_calls.h"

#include <cstddef>  // defines which C library this is

#if defined(RILL_HAVE_ONEDNN) && defined(__GLIBC__) && defined(__LP64__)
#include <dlfcn.h>
#include <dnnl.h>
#include <link.h>
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "rill/devices/cpu/product/onednn_library.h"
#include "rill/devices/crowding.h"
#include "rill/devices/workers.h"

namespace rill::detail {
namespace {

// --- OpenMP's functions ----------------------------------------------------------------------------------------------

struct Region;
// A thread's role in a region.
struct Member {
  Region* region = nullptr;
  int number = 0;
  long start = 0, step = 0, count = 0, chunk = 0, chunk_index = 0;  // of its loop
};
thread_local constinit Member member;

// A parallel region of oneDNN's, on the heap between GOMP_parallel_start() and GOMP_parallel_end().
struct Region {
  void (*body)(void*);
  void* data;
  int size;
  bool active;   // it or one around it has several threads
  Member outer;  // the starting thread's role outside
  Barrier barrier{size};
  std::unique_ptr<Team> team = {};

  static void run(void* region, int number) {
    auto* r = static_cast<Region*>(region);
    member = {r, number};
    r->body(r->data);
    member = {};
  }
};

int in_parallel() { return (member.region && member.region->active) || omp_in_parallel(); }
int thread_num() { return member.region ? member.number : omp_get_thread_num(); }
int thread_count() { return member.region ? member.region->size : omp_get_num_threads(); }

void parallel_start(void (*body)(void*), void* data, unsigned asked) {
  const int size = in_parallel() ? 1 : asked ? int(asked) : omp_get_max_threads();
  auto* r = new Region{body, data, size, size > 1 || in_parallel(), member};
  member = {r, 0};
  if (size > 1) r->team = std::make_unique<Team>(size, Region::run, r);
}
void parallel_end() {
  Region* r = member.region;
  if (!r) {  // started before OpenMP's functions were replaced
    const auto end = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "GOMP_parallel_end"));
    return end ? end() : void();
  }
  const Member outer = r->outer;
  if (r->team) {
    const Attendance came = r->team->end();
    process_crowding().saw(came.now, came.late);
  }
  delete r;
  member = outer;
}
void parallel(void (*body)(void*), void* data, unsigned asked, unsigned) {
  parallel_start(body, data, asked);
  body(data);
  parallel_end();
}
void barrier() {
  if (member.region && member.region->size > 1) member.region->barrier.wait();
}

// The part of a loop that this thread runs next: its complete part, or, with chunks, its next chunk.
bool loop_next(long* from, long* to) {
  Member& m = member;
  const long threads = m.region ? m.region->size : 1, i = m.region ? m.number : 0;
  long begin, end;
  if (m.chunk == 0) {
    if (m.chunk_index > 0) return false;
    const long each = m.count / threads, more = m.count % threads;
    begin = i * each + std::min(i, more), end = begin + each + (i < more);
  } else {
    begin = (m.chunk_index * threads + i) * m.chunk, end = std::min(begin + m.chunk, m.count);
  }
  if (begin >= end) return false;
  ++m.chunk_index;
  *from = m.start + begin * m.step, *to = m.start + end * m.step;
  return true;
}
bool loop_start(long start, long end, long step, long chunk, long* from, long* to) {
  const long count = (end - start + step - (step > 0 ? 1 : -1)) / step;
  member.start = start, member.step = step, member.count = std::max(0L, count), member.chunk = chunk,
  member.chunk_index = 0;
  return loop_next(from, to);
}
void loop_end() {}

struct Function {
  std::string_view name;
  void* ours;
};
template <class F>
void* address(F* f) {
  return reinterpret_cast<void*>(f);
}
const Function functions[] = {
    {"GOMP_parallel", address(parallel)},
    {"GOMP_parallel_start", address(parallel_start)},
    {"GOMP_parallel_end", address(parallel_end)},
    {"GOMP_barrier", address(barrier)},
    {"GOMP_loop_static_start", address(loop_start)},
    {"GOMP_loop_static_next", address(loop_next)},
    {"GOMP_loop_end_nowait", address(loop_end)},
    {"omp_get_thread_num", address(thread_num)},
    {"omp_get_num_threads", address(thread_count)},
    {"omp_in_parallel", address(in_parallel)},
    {"omp_get_max_threads", nullptr},  // OpenMP's own answer is right
};

// --- The table of addresses ------------------------------------------------------------------------------------------

#if defined(__x86_64__)
constexpr unsigned call_slot = R_X86_64_JUMP_SLOT, address_slot = R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
constexpr unsigned call_slot = R_AARCH64_JUMP_SLOT, address_slot = R_AARCH64_GLOB_DAT;
#else
constexpr unsigned call_slot = ~0u, address_slot = ~0u;
#endif

// The tables of a loaded library.
struct Library {
  const link_map* map;

  // The value of an entry, or 0; the loader has relocated those that are addresses in the library.
  uintptr_t entry(ElfW(Sxword) tag) const {
    for (const ElfW(Dyn)* d = map->l_ld; d->d_tag != DT_NULL; ++d)
      if (d->d_tag == tag) return d->d_un.d_ptr;
    return 0;
  }
  // Calls f(name, slot, type) for each symbol that it imports.
  template <class F>
  void each_slot(F&& f) const {
    const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(entry(DT_SYMTAB));
    const auto* names = reinterpret_cast<const char*>(entry(DT_STRTAB));
    for (auto [list, size] : {std::pair{DT_JMPREL, DT_PLTRELSZ}, std::pair{DT_RELA, DT_RELASZ}}) {
      const auto* r = reinterpret_cast<const ElfW(Rela)*>(entry(list));
      for (const auto* end = r + (r ? entry(size) / sizeof(*r) : 0); r < end; ++r)
        if (const auto symbol = ELF64_R_SYM(r->r_info))
          f(std::string_view(names + symbols[symbol].st_name), reinterpret_cast<void**>(map->l_addr + r->r_offset),
            unsigned(ELF64_R_TYPE(r->r_info)));
    }
  }
};

// The addresses to replace, including those in pages that the loader made read-only after filling them.
class Replacement {
 public:
  explicit Replacement(const void* library) {
    const auto* header = static_cast<const ElfW(Ehdr)*>(library);
    const auto* part = reinterpret_cast<const ElfW(Phdr)*>(static_cast<const char*>(library) + header->e_phoff);
    for (int i = 0; i < header->e_phnum; ++i, ++part)
      if (part->p_type == PT_GNU_RELRO) {
        read_only_ = uintptr_t(library) + part->p_vaddr;
        read_only_end_ = (read_only_ + part->p_memsz) / page() * page();
      }
  }
  void add(void** slot, void* value) { slots_.push_back({slot, value}); }
  // Replaces all or none.
  bool run() const {
    for (const Slot& s : slots_)
      if (is_read_only(s) && !protect(s, PROT_READ | PROT_WRITE)) return false;
    for (const Slot& s : slots_) __atomic_store_n(s.at, s.value, __ATOMIC_RELEASE);
    for (const Slot& s : slots_)
      if (is_read_only(s)) protect(s, PROT_READ);
    return true;
  }

 private:
  struct Slot {
    void** at;
    void* value;
  };
  static uintptr_t page() { return uintptr_t(sysconf(_SC_PAGESIZE)); }
  bool is_read_only(const Slot& s) const { return uintptr_t(s.at) >= read_only_ && uintptr_t(s.at) < read_only_end_; }
  static bool protect(const Slot& s, int how) {
    return mprotect(reinterpret_cast<void*>(uintptr_t(s.at) / page() * page()), page(), how) == 0;
  }
  uintptr_t read_only_ = 0, read_only_end_ = 0;
  SmallVec<Slot, 16> slots_;
};

}  // namespace

bool redirect_openmp_calls() {
#ifdef RILL_ONEDNN_LINKED
  const void* const inside = reinterpret_cast<const void*>(&dnnl_version);
#else
  const void* const inside = cpu::onednn::library_function("dnnl_version");
#endif
  Dl_info info;
  void* map = nullptr;
  if (!dladdr1(inside, &info, &map, RTLD_DL_LINKMAP) || !map) return false;
  const Library library{static_cast<const link_map*>(map)};
  if (!std::strstr(library.map->l_name, "libdnnl") || library.entry(DT_PLTREL) != DT_RELA) return false;
  const auto find = [](std::string_view name) {
    return std::find_if(std::begin(functions), std::end(functions), [&](const Function& f) { return f.name == name; });
  };
  bool known = true;
  library.each_slot([&](std::string_view name, void**, unsigned type) {
    if (name.starts_with("GOMP_") || name.starts_with("omp_") || name.starts_with("__kmpc_"))
      known &= find(name) != std::end(functions) && (type == call_slot || type == address_slot);
  });
  if (!known) return false;
  Replacement replacement(info.dli_fbase);
  library.each_slot([&](std::string_view name, void** slot, unsigned) {
    const auto f = find(name);
    if (f != std::end(functions) && f->ours) replacement.add(slot, f->ours);
  });
  return replacement.run();
}

}  // namespace rill::detail
#else
namespace rill::detail {
bool redirect_openmp_calls() { return false; }
}  // namespace rill::detail
#endif
