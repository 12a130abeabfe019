// Finds a kernel in memory or on disk, else compiles it by librill_llvm.so. Start at compile().
#include "rill/devices/kernel/compiler.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <list>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <unordered_map>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "rill/devices/kernel/cache.h"
#include "rill/devices/kernel/isa.h"
#include "rill/devices/kernel/object.h"
#include "rill/devices/llvm/compile.h"
#include "rill/devices/modules.h"
#include "rill/tensor/error.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/tensor/settings.h"

namespace rill::kernel {

extern const char* const llvm_version;  // LLVM of this build, from Meson; "" if it has none

namespace {

std::string version() { return fmt::format(RILL_VERSION " LLVM {}", llvm_version); }

// --- The compiler's library ------------------------------------------------------------------------------------------

#if defined(RILL_LLVM_LINKED)
// The compiler is linked into this program.
std::string library_path(struct stat& s) { return stat("/proc/self/exe", &s) == 0 ? "/proc/self/exe" : ""; }
#else
std::string library_path(struct stat& s) {
  std::string path = module_path("librill_llvm.so");
  return stat(path.c_str(), &s) == 0 ? path : "";
}
#endif

constexpr const char* jit_is_off = "RILL_JIT=off";

struct Library {
  std::string path;    // "" if it is not installed
  std::string reason;  // why kernels cannot be compiled, or ""
  std::string stamp;   // identifies this build: kernels that another build compiled are not used
};

const Library& library() {
  const ForkDelay no_fork;             // a child must not find it half made
  static const Library& found = *[] {  // never destroyed: ops may run while a program ends
    auto& l = *new Library;
    struct stat s{};
    if (settings::jit() == "off") l.reason = jit_is_off;
    else if (*llvm_version == '\0') l.reason = "this build has no LLVM";
    else if (l.path = library_path(s); l.path.empty()) l.reason = "librill_llvm.so is not installed";
    l.stamp = fmt::format("{} {} {}.{}", version(), s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
    return &l;
  }();
  return found;
}

// LLVM's own clean-up at the program's end must not run during a compilation; nor must a fork(), as a child needs LLVM
// in a consistent state.
std::atomic<bool> ending = false;
ForkMutex compiling;
std::atomic<std::thread::id> compiling_thread;  // which may end the program itself: LLVM does so for some errors

// After it, no compilation starts, and none is running.
void end_compiling() {
  ending = true;
  if (compiling_thread != std::this_thread::get_id()) const std::lock_guard wait(compiling);
}

LlvmCompile open_library() {
#if defined(RILL_LLVM_LINKED)
  std::atexit(end_compiling);
  return &rill_llvm_compile;
#else
  const Module module = open_module(library().path, "rill_llvm_version", version());
  if (!module.handle) {
    warn_without_compiler(module.why);
    throw Error("[kernel] " + module.why);
  }
  std::atexit(end_compiling);  // registered after LLVM's libraries were opened, so it runs before their clean-up
  return reinterpret_cast<LlvmCompile>(dlsym(module.handle, "rill_llvm_compile"));
#endif
}

// The processor's name for rill_llvm_compile().
const char* wanted_processor() {
  return isa_limit() == "avx2" ? "x86-64-v3" : isa_limit() == "baseline" ? "x86-64" : "";
}

std::string run_compiler(const Kernel& k, const std::string& name) {
  const std::lock_guard hold(compiling);
  if (ending) throw Error("[kernel] the program is ending");
  static const LlvmCompile compile_object = open_library();
  const std::string dump = settings::text("RILL_DUMP");
  std::string object, text;
  compiling_thread = std::this_thread::get_id();
  const bool good = compile_object(k, wanted_processor(), !dump.empty(), object, text);
  compiling_thread = std::thread::id();
  if (!good) throw Error(fmt::format("[kernel] LLVM: {}\n{}", text, to_string(k)));
  if (!dump.empty()) {
    std::ofstream ll(fmt::format("{}/{}.ll", dump, name)), o(fmt::format("{}/{}.o", dump, name), std::ios::binary);
    if (!(ll << text).flush() || !(o << object).flush())
      settings::report("RILL_DUMP", "nothing can be written there. it must be a folder");
  }
  return object;
}

// --- Keys ------------------------------------------------------------------------------------------------------------

// A description of the processor that code depends on: its model, and the features that it and the system support.
std::string processor() {
  std::string s = wanted_processor();
#if defined(__x86_64__)
  const auto add = [&](unsigned leaf, unsigned sub) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(leaf, sub, &a, &b, &c, &d)) return 0u;
    if (leaf == 1) b = 0;  // of the core, not the model
    s += fmt::format("{:x}.{:x}.{:x}.{:x} ", a, b, c, d);
    return c;
  };
  const unsigned features = add(1, 0);
  add(7, 0), add(7, 1), add(0x80000001, 0);
  if (features & bit_OSXSAVE) {
    unsigned low, high;  // registers that the system saves
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    s += fmt::format("{:x}", low);
  }
#elif defined(__aarch64__)
  s = fmt::format("{:x}.{:x}", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
#endif
  return s;
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

using LoadedCode = std::shared_ptr<const void>;

LoadedCode load(const std::string& object) { return load_code(object, "rill_kernel"); }

// --- The cache in memory ---------------------------------------------------------------------------------------------

struct Entry {
  std::string text;
  ForkMutex lock;  // held while compiling: others wait here for the same kernel, and only for it
  LoadedCode code;
  std::string fault;
};

// Bounded, since a program may make a kernel for each constant in its functions. A kernel that is evicted stays in
// memory for those who run it.
class Table {
 public:
  std::shared_ptr<Entry> entry_for(const std::string& text) {
    const std::lock_guard hold(lock_);
    if (const auto found = index_.find(text); found != index_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return entries_.front();
    }
    auto entry = std::make_shared<Entry>();
    entry->text = text;
    entries_.push_front(entry);
    index_.emplace(entry->text, entries_.begin());
    if (entries_.size() > most_kernels) {
      index_.erase(entries_.back()->text);
      entries_.pop_back();
    }
    return entry;
  }

 private:
  ForkMutex lock_;
  std::list<std::shared_ptr<Entry>> entries_;  // most recently used first
  std::unordered_map<std::string_view, std::list<std::shared_ptr<Entry>>::iterator> index_;
};

Table& table() {
  static Table& t = *new Table;  // outlives every thread
  return t;
}

// Loads it from the disk, or compiles it; returns which.
Compiled::From obtain(const Kernel& k, const std::string& text, LoadedCode& code) {
  static ForkMutex lock;
  static DiskCache& disk = *new DiskCache(DiskCache::default_folder());
  static const std::string& target = *new std::string(processor());
  const std::string key = fmt::format("{}\n{}\n{}", text, target, library().stamp);
  if (const std::string object = disk.find(key); !object.empty()) {
    try {
      code = load(object);
      return Compiled::From::disk;
    } catch (const Error&) {  // intact, but not usable, so it is compiled again
    }
  }
  const std::string object = run_compiler(k, fmt::format("{:016x}", std::hash<std::string>()(text)));
  code = load(object);
  const std::lock_guard hold(lock);
  disk.store(key, object);
  return Compiled::From::compiler;
}

void log(const std::string& text, const Compiled& c, const std::string& fault) {
  static const char* const from[] = {"in memory", "found on disk", "compiled"};
  const std::string how = fault.empty() ? from[int(c.from)] : "failed (" + fault + ")";
  fmt::print(stderr, "rill: kernel {}, {:.2f} ms\n{}", how, c.milliseconds, text);
}

}  // namespace

std::string no_compiler_reason() { return library().reason; }

void warn_without_compiler(const std::string& reason) {
  static std::atomic<bool> warned = false;
  if (reason == jit_is_off || warned.exchange(true)) return;
  fmt::print(stderr,
             "rill: traced functions run on the eager kernels, because kernels cannot be compiled: {}. "
             "In rill's source, ./dev build says what turns the compiler on; with RILL_JIT=off this is not warned\n",
             reason);
}

void stop_compiling() { ending = true; }
void throw_if_stopped() {
  if (ending) throw Error("[kernel] the program is ending");
}

Compiled compile(const Kernel& k) {
  const auto start = std::chrono::steady_clock::now();
  if (!library().reason.empty()) throw Error("[kernel] kernels cannot be compiled: " + library().reason);
  throw_if_stopped();
  static const bool logs = settings::logs("kernels");
  const std::string text = to_string(k);
  const std::shared_ptr<Entry> entry = table().entry_for(text);
  Compiled c;
  const std::lock_guard hold(entry->lock);
  if (!entry->code && entry->fault.empty()) {
    try {
      c.from = obtain(k, text, entry->code);
    } catch (const Error& e) {
      entry->fault = e.what();
    }
    c.milliseconds = milliseconds_since(start);
    if (logs) log(text, c, entry->fault);
  }
  if (!entry->fault.empty()) throw Error(entry->fault);
  c.code = entry->code;
  c.run = reinterpret_cast<RowFunction>(const_cast<void*>(c.code.get()));
  c.milliseconds = milliseconds_since(start);
  return c;
}

}  // namespace rill::kernel
