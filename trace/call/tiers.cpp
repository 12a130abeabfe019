// The background thread (Worker) compiles one graph after another. A graph that its function has dropped meanwhile is
// skipped, and waiting graphs are dropped when the process ends.
#include "rill/trace/call/tiers.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>

#include "rill/devices/driver.h"
#include "rill/devices/kernel/compiler.h"
#include "rill/devices/registry.h"
#include "rill/tensor/background_thread.h"
#include "rill/tensor/fork_condition.h"
#include "rill/tensor/settings.h"
#include "rill/tensor/text.h"
#include "rill/trace/call/inner_call.h"
#include "rill/trace/fusion/byte_tails.h"
#include "rill/trace/fusion/epilogues.h"
#include "rill/trace/fusion/fusion.h"
#include "rill/trace/graph/control_node.h"
#include "rill/trace/jit.h"
#include "rill/trace/passes.h"

namespace rill {

namespace {

class Worker {
 public:
  using Job = std::function<void()>;

  // Drops the waiting jobs, and the running one after its current kernel; accepts no more.
  void end() {
    kernel::stop_compiling();
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
      jobs_.clear();
    }
    changed_.notify_all();
    thread_.join();
  }
  // False where no thread can be had to do it.
  bool add(Job job) {
    std::lock_guard lock(mutex_);
    if (stop_) return true;
    if (!has_thread()) return false;
    jobs_.push_back(std::move(job));
    changed_.notify_all();
    return true;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    // A child of fork() inherits the queue, but not the thread. Without one, those graphs stay eager.
    if (!stop_ && !jobs_.empty() && !has_thread()) return;
    changed_.wait(lock, [this] { return jobs_.empty() && !busy_; });
  }

  // Around a fork(): the child inherits the thread's state without the thread, so the thread must be idle. Jobs waiting in
  // the child are compiled when it traces again.
  void before_fork() {
    std::unique_lock lock(mutex_);
    ++forking_;
    if (!thread_.is_current()) changed_.wait(lock, [this] { return !busy_; });
  }
  void after_fork(bool is_child) {
    if (is_child) busy_ = false;
    const std::lock_guard lock(mutex_);
    forking_ = is_child ? 0 : forking_ - 1;
    changed_.notify_all();
  }

 private:
  bool has_thread() {
    return thread_.is_here() || thread_.start([this] { work(); });
  }
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || (!jobs_.empty() && forking_ == 0); });
      if (stop_) return;
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
      lock.unlock();
      job();
      job = {};
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  ForkMutex mutex_;
  ForkCondition changed_;
  std::deque<Job> jobs_;
  bool busy_ = false, stop_ = false;
  int forking_ = 0;  // threads that are about to fork
  BackgroundThread thread_;
};

// Made after everything that compiling needs (the memory cache of kernels), so that it ends first.
Worker& worker() {
  static Worker& w = []() -> Worker& {
    static_cast<void>(kernel::no_compiler_reason());
    static auto& made = *new Worker;  // not destroyed, only ended: ops may run while a program ends
    static const struct Ends {
      ~Ends() { made.end(); }
    } ends;
    at_fork([] { made.before_fork(); }, [](bool is_child) { made.after_fork(is_child); });
    return made;
  }();
  return w;
}

// LLVM creates static objects while it compiles; they are destroyed before ours, which are older, while a compilation
// may still use them. Thread-locals of the main thread are destroyed before all static objects, so this is where to
// wait. A static LLVM is safe without this (exit.cpp). With a shared one, a program can still crash when it ends while
// a kernel is being compiled, if only other threads than the main one have traced.
struct EndWithMain {
  bool is_main = syscall(SYS_gettid) == getpid();
  ~EndWithMain() {
    if (is_main) worker().end();
  }
};

std::atomic<jit::Mode>& mode_now() {
  static std::atomic<jit::Mode> mode = [] {
    const std::string_view wanted = settings::jit();
    return wanted == "off" ? jit::Mode::off : wanted == "wait" ? jit::Mode::wait : jit::Mode::tiered;
  }();
  return mode;
}

}  // namespace

namespace jit {
Mode mode() { return mode_now(); }
void set_mode(Mode m) { mode_now() = m; }
void wait() { worker().wait(); }
}  // namespace jit

namespace {
// Whether the graph runs on a device whose driver compiles kernels, so that LLVM is not needed.
bool has_own_compiler(const Graph& g) {
  return std::any_of(g.nodes().begin(), g.nodes().end(), [](const Node& n) {
    return n.kind == Node::Kind::op && !n.outputs.empty() && !is_host(n.outputs[0].device) &&
           fuses(n.outputs[0].device);
  });
}
}  // namespace

std::shared_ptr<Tiers> Tiers::make(Graph traced) {
  auto tiers = std::make_shared<Tiers>(optimize(std::move(traced)));
  const std::string no_compiler = jit::mode() == jit::Mode::off             ? "compiling is off"
                                  : has_own_compiler(tiers->eager_.graph()) ? ""
                                                                            : kernel::no_compiler_reason();
  if (!no_compiler.empty()) {
    if (jit::mode() != jit::Mode::off) kernel::warn_without_compiler(no_compiler);
    tiers->why_eager_ = no_compiler;
    tiers->done_ = true;
  } else if (jit::mode() == jit::Mode::wait) {
    tiers->compile();
  } else {
    worker();  // constructed before what waits for it
    static thread_local EndWithMain end;
    static_cast<void>(end);
    const bool is_taken = worker().add([job = std::weak_ptr<Tiers>(tiers)] {
      if (auto tiers = job.lock()) tiers->compile();
    });
    if (!is_taken) {
      tiers->why_eager_ = "no thread to compile on could be started";
      tiers->done_ = true;
    }
  }
  return tiers;
}

void Tiers::compile() {
  EagerScope eager;  // lowering computes values that must not enter an active trace
  const auto start = std::chrono::steady_clock::now();
  try {
    Graph fused = compile_graph(eager_.graph());
    bool any = false;
    for (const Node& n : fused.nodes()) any |= n.op == &fused_op || n.op == &epilogue_op || n.op == &byte_tail_op;
    if (any) compiled_ = std::make_unique<const Executable>(std::move(fused));
    else why_eager_ = "nothing to fuse";
  } catch (const std::exception& e) {
    why_eager_ = e.what();
  }
  milliseconds_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  ready_.store(compiled_.get(), std::memory_order_release);
  if (compiled_) {
    eager_.retire();
    if (eager_.plan().arena_bytes > (1 << 20)) release_cached_memory(eager_.graph().nodes()[0].outputs[0].device);
  }
  done_.store(true, std::memory_order_release);
  static const bool log = settings::logs("kernels");
  if (log) std::fputs(describe("", fmt::format("rill: {}: ", eager_.graph().name)).c_str(), stderr);
}

std::string Tiers::state() const {
  if (!done_.load(std::memory_order_acquire)) return "compiling";
  return why_eager_.empty() ? "compiled" : "eager kernels: " + why_eager_;
}

namespace {
std::string describe_inner(const Node& n, const std::string& indent) {
  std::string text;
  for (const auto& inner : held_by(n).graphs) {
    const GraphCall* call = call_if_made(*inner);
    text += call ? call->tiers().describe(indent, inner->role + ": ")
                 : fmt::format("{}{}: has not run\n", indent, inner->role);
  }
  return text;
}
}  // namespace

std::string Tiers::describe(const std::string& indent, const std::string& name) const {
  const Executable& e = now();
  std::string text = indent + name + state();
  if (done_.load(std::memory_order_acquire) && milliseconds_ > 0) text += fmt::format(" in {:.1f} ms", milliseconds_);
  text += fmt::format(", {}; arena {} ({} without sharing), {} in place\n", counted(e.kernel_count(), "kernel"),
                      counted(e.plan().arena_bytes, "byte"), e.plan().unshared_bytes,
                      counted(int64_t(e.plan().in_place), "result"));
  for (const Node& n : e.graph().nodes()) {
    if (n.kind != Node::Kind::op || n.op->view) continue;
    std::string outputs;
    for (const Spec& s : n.outputs) outputs += (outputs.empty() ? "" : ", ") + to_string(s);
    if (n.op == &epilogue_op || n.op == &byte_tail_op) {
      text += fmt::format("{}  {} in one -> {}\n", indent, n.op->title(n.attrs), outputs);
      continue;
    }
    if (n.op != &fused_op) {
      text += fmt::format("{}  {}{}{}\n", indent, n.op->name, outputs.empty() ? "" : " -> ", outputs);
      if (n.op->graphs) text += describe_inner(n, indent + "    ");
      continue;
    }
    const FusedKernel& f = *n.attrs.as<FusedParams>().fused;
    constexpr std::string_view from[] = {"from memory", "from the disk cache", "compiled"};
    text +=
        fmt::format("{}  fused({}) -> {}; {}, {} in {:.1f} ms\n", indent, f.ops(), outputs,
                    counted(int64_t(f.kernel.body.size()), "instruction"), from[int(f.code.from)], f.code.milliseconds);
  }
  return text;
}

}  // namespace rill
