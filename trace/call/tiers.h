// Tiers: runs a graph on eager kernels at first, and on fused, compiled kernels once the background thread has compiled
// them (jit.h). Both give the same bits.
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "rill/ops/run_watch.h"
#include "rill/trace/run/executable.h"

#pragma GCC visibility push(default)

namespace rill {

class Tiers : public std::enable_shared_from_this<Tiers> {
 public:
  // `traced` as the tracer made it. Starts compiling, or compiles before returning, depending on jit::mode().
  static std::shared_ptr<Tiers> make(Graph traced);
  explicit Tiers(Graph optimized) : eager_(std::move(optimized)) {}

  void run(std::span<const Tensor> inputs, std::span<Tensor> results) const { now().run(inputs, results); }
  // The eager tier; its graph has one node per op.
  const Executable& eager() const { return eager_; }
  // The tier that a call uses now; the eager one if single ops are being watched.
  const Executable& now() const {
    if (runs_are_watched()) [[unlikely]]
      return eager_;
    const Executable* compiled = ready_.load(std::memory_order_acquire);
    return compiled ? *compiled : eager_;
  }
  // "compiled", "compiling", or why it is not: "eager kernels: RILL_JIT=off".
  std::string state() const;
  // Lines for explain(), the first prefixed by `name`: the state, compile times, the memory plan, each kernel with the
  // ops fused into it, and the same for inner graphs.
  std::string describe(const std::string& indent, const std::string& name = "") const;

 private:
  void compile();

  Executable eager_;
  std::unique_ptr<const Executable> compiled_;
  std::atomic<const Executable*> ready_{nullptr};
  // Written before done_ is set, and read afterwards only.
  std::string why_eager_;
  double milliseconds_ = 0;
  std::atomic<bool> done_{false};
};

}  // namespace rill

#pragma GCC visibility pop
