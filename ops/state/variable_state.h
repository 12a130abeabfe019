// The state of a Variable, and how threads share it. It is not in variable.h because it needs <mutex>, which users of a
// Variable do not.
//
// A value is replaced and never changed while a reader may hold it (it is written in place only where nobody else holds
// it); reading and replacing take the variable's lock. Code that needs several variables at once locks them in the
// order of their addresses, as a traced call does (variable_set.h), so that there is no deadlock.
#pragma once
#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "rill/ops/variable.h"
#include "rill/tensor/fork_mutex.h"

#pragma GCC visibility push(default)

namespace rill {

struct VariableState {
  explicit VariableState(const Where& made);
  // The id of the next one to be made.
  static uint64_t next_id();

  // All but `value` (and, by move() and cast(), the device and dtype) is settled when the variable is made or, of a
  // deferred one, before `built` is true, and needs no lock.
  std::string name;
  bool trainable = true;             // as it was made
  std::atomic<bool> frozen = false;  // by Variable::freeze()
  bool trains() const { return trainable && !frozen.load(std::memory_order_relaxed); }
  const uint64_t id;  // never used twice in a process
  const Where made;   // the user's line
  Spec spec;          // of every value that it holds; of a deferred one only the dtype and the device mean something
  std::atomic<bool> built = true;  // false: there is no value yet
  Tensor value;                    // to be touched under the lock only

  // The lock. A thread that holds it already would wait for itself: it gets an error instead. (It can come back here
  // where a call that holds the variable runs a callback of the user's.)
  void lock();
  void unlock();

 private:
  ForkMutex mutex_;
  std::atomic<const void*> holder_{nullptr};
};

// How often a Variable was frozen or unfrozen: what depends on that (a trace) looks again when it has changed.
extern std::atomic<uint64_t> freeze_count;

// The value now. Throws where it is deferred.
Tensor value_of(VariableState& v);
// Throws where a deferred variable has no value yet.
[[noreturn]] void fail_deferred(const VariableState& v, const Where& where);
inline void require_built(const VariableState& v, const Where& where) {
  if (!v.built.load(std::memory_order_acquire)) [[unlikely]]
    fail_deferred(v, where);
}
// {the value, the sum of it and `delta`, which it holds now}: what each caller gets is its own.
std::pair<Tensor, Tensor> take_and_add(VariableState& v, const Tensor& delta);
// Whether it is the generator of random numbers (ops/values/random.cpp), u64 {seed, draw}.
bool is_generator(const VariableState& v);
// `n` keys, u64[n, 2], that draw other numbers than each other and than its state `key`; and one draw counted.
Tensor split_generator(const Tensor& key, Dim n);
void count_draw();

}  // namespace rill

#pragma GCC visibility pop
