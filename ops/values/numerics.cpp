// debug::check_numerics(), and who else watches: dispatch (apply.cpp), Variables and executables hand over what each op took and gave.
#include "rill/ops/numerics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "rill/devices/registry.h"
#include "rill/ops/call_replay.h"
#include "rill/ops/numerics_check.h"
#include "rill/ops/ops.h"

namespace rill {

constinit std::atomic<int> run_watchers{0};

namespace debug {
struct NumericsNow {
  static const NumericsOptions& options(const NumericsScope& s) { return s.options_; }
};
}  // namespace debug

namespace {

thread_local constinit const debug::NumericsScope* innermost = nullptr;
thread_local constinit RunWatcher* watcher = nullptr;
thread_local constinit const WatchedCall* watched_call = nullptr;

bool has_numbers(const Tensor& t) {
  return t.defined() && t.rep()->buffer && !t.rep()->trace && is_differentiable(t.dtype()) && t.size() > 0;
}

bool is_bad(const Tensor& given, const debug::NumericsOptions& o) {
  if (!has_numbers(given)) return false;
  const Tensor t = computable(given);
  if (o.nan && o.infinity) return !all(isfinite(t)).item<bool>();
  return (o.nan && any(isnan(t)).item<bool>()) || (o.infinity && any(isinf(t)).item<bool>());
}
bool is_finite(const Tensor& t) { return !has_numbers(t) || all(isfinite(computable(t))).item<bool>(); }

}  // namespace

debug::NumericsScope::NumericsScope(const NumericsOptions& options)
    : options_(options), outer_(std::exchange(innermost, this)) {
  run_watchers.fetch_add(1, std::memory_order_relaxed);
}
debug::NumericsScope::~NumericsScope() {
  innermost = outer_;
  run_watchers.fetch_sub(1, std::memory_order_relaxed);
}
bool debug::checks_numerics() { return innermost != nullptr; }

// --- Whoever watches -------------------------------------------------------------------------------------------------

bool runs_are_watched_here() { return innermost || watcher; }
RunWatcher* run_watcher() { return watcher; }

WatchScope::WatchScope(RunWatcher& w) : outer_(std::exchange(watcher, &w)) {
  run_watchers.fetch_add(1, std::memory_order_relaxed);
}
WatchScope::~WatchScope() {
  watcher = outer_;
  run_watchers.fetch_sub(1, std::memory_order_relaxed);
}

struct UnwatchedScope::Saved {
  const debug::NumericsScope* const scope = std::exchange(innermost, nullptr);
  RunWatcher* const shown = std::exchange(watcher, nullptr);
  const EagerScope eager;
  const PauseTapes tapes;
  const CallReplay::Pause replay;
};
UnwatchedScope::UnwatchedScope() : saved_(new Saved) {}
UnwatchedScope::~UnwatchedScope() {
  innermost = saved_->scope;
  watcher = saved_->shown;
  delete saved_;
}

WatchedCall::WatchedCall(const std::string& name, const Where& where)
    : name(name), where(where), outer(std::exchange(watched_call, this)) {}
WatchedCall::~WatchedCall() { watched_call = outer; }
const WatchedCall* WatchedCall::now() { return watched_call; }

void show_results(const Op& op, Operands in, std::span<const Tensor> out, const Where& where) {
  check_results(op, in, out, where);
  if (watcher && !op.call) watcher->ran(op, in, out, where);  // what a call calls is shown op by op
}

// --- Checking numbers ------------------------------------------------------------------------------------------------

void check_results(const Op& op, Operands in, std::span<const Tensor> out, const Where& where, const Origin* origin) {
  if (!innermost || op.call || op.view || in.empty()) return;  // what a call calls is checked op by op
  const debug::NumericsOptions& options = debug::NumericsNow::options(*innermost);
  const UnwatchedScope unseen;
  const auto bad = std::find_if(out.begin(), out.end(), [&](const Tensor& t) { return is_bad(t, options); });
  if (bad == out.end() || !std::all_of(in.begin(), in.end(), [](const Tensor* t) { return is_finite(*t); })) return;
  std::string operands;
  for (const Tensor* t : in) operands += (operands.empty() ? "" : "; ") + describe_numbers(*t);
  const std::string text = fmt::format("the result is not finite, and all operands are. result: {}. operands: {}",
                                       describe_numbers(*bad), operands);
  const auto fail_here = [&] {
    if (!origin) fail(op.name, text, where);
    try {
      fail(op.name, text, Where());
    } catch (const Error& e) {
      fail_at(*origin, e);
    }
  };
  if (!options.log) fail_here();
  try {
    fail_here();
  } catch (const Error& e) {
    options.log(e.what());
  }
}

OperandsBefore::OperandsBefore(Operands in, std::span<Tensor* const> out) {
  kept_.reserve(in.size());
  for (const Tensor* t : in) {
    const bool shared = has_numbers(*t) && std::any_of(out.begin(), out.end(), [&](const Tensor* o) {
                          return o->defined() && o->rep()->buffer == t->rep()->buffer;
                        });
    if (!shared) {
      pointers_.push_back(t);
      continue;
    }
    Tensor copy = empty_tensor(t->spec());
    copy_elements(*t, copy);
    pointers_.push_back(&kept_.emplace_back(std::move(copy)));
  }
}

// --- Numbers as text -------------------------------------------------------------------------------------------------

Tensor computable(const Tensor& t) { return is_float8(t.dtype()) ? astype(t, f32) : t; }

std::string describe_numbers(const Tensor& given) {
  if (!given.defined()) return "nothing";
  std::string text = to_string(given.spec());
  if (!has_numbers(given)) return text;
  const UnwatchedScope unseen;
  const Tensor t = computable(given);
  const Tensor finite = isfinite(t);
  const auto count = [](const Tensor& which) { return sum(astype(which, DType::i64)).item<int64_t>(); };
  if (is_floating(t.dtype()) && any(finite).item<bool>()) {
    const Tensor wide = astype(t, DType::f64);
    const double low = min(where(finite, wide, HUGE_VAL)).item<double>(),
                 high = max(where(finite, wide, -HUGE_VAL)).item<double>();
    const auto digits = [&](double v) {  // those that tell it from its neighbours of this dtype
      return t.dtype() == DType::f64 ? fmt::format("{}", v) : fmt::format("{}", float(v));
    };
    text +=
        low == high ? fmt::format(", all {}", digits(low)) : fmt::format(" from {} to {}", digits(low), digits(high));
  }
  if (const int64_t n = count(isnan(t))) text += fmt::format(", {} NaN", n);
  if (const int64_t n = count(isinf(t))) text += fmt::format(", {} infinite", n);
  return text;
}

std::string describe_numbers(std::span<const Tensor> ts) {
  std::string text;
  for (const Tensor& t : ts) text += (text.empty() ? "" : "; ") + describe_numbers(t);
  return text;
}

}  // namespace rill
