// The state of a Variable, and how threads share it. It is not in variable.h because it needs <mutex>, which users of a
// Variable do not.
//
// A value is replaced and never changed while a reader may hold it (it is written in place only if nothing else holds
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
  // The id of the next one to be created.
  static uint64_t next_id();

  // All but `value` (and, by move() and cast(), the device and dtype) is constant once the variable is created or, for
  // a deferred one, once `built` is true, and needs no lock.
  std::string name;
  bool trainable = true;             // as it was made
  std::atomic<bool> frozen = false;  // by Variable::freeze()
  bool trains() const { return trainable && !frozen.load(std::memory_order_relaxed); }
  const uint64_t id;  // unique in the process
  const Where made;   // the user's source line
  Spec spec;          // of every value that it holds; for a deferred one only the dtype and the device are valid
  std::atomic<bool> built = true;  // false: there is no value yet
  Tensor value;                    // to be accessed under the lock only

  // The lock. A thread that already holds it would wait for itself: it gets an error instead. (That happens if a call
  // that holds the variable runs a callback of the user's that uses it.)
  void lock();
  void unlock();

 private:
  ForkMutex mutex_;
  std::atomic<const void*> holder_{nullptr};
};

// How often a Variable was frozen or unfrozen: traces, which depend on it, are checked again when it has changed.
extern std::atomic<uint64_t> freeze_count;

// The current value. Throws if it is deferred.
Tensor value_of(VariableState& v);
// Throws the error of a deferred variable that has no value yet.
[[noreturn]] void fail_deferred(const VariableState& v, const Where& where);
inline void require_built(const VariableState& v, const Where& where) {
  if (!v.built.load(std::memory_order_acquire)) [[unlikely]]
    fail_deferred(v, where);
}
// {the value, the sum of it and `delta`, which it holds now}: atomically, so that each caller gets another value.
std::pair<Tensor, Tensor> take_and_add(VariableState& v, const Tensor& delta);
// Whether it is the generator of random numbers (ops/values/random.cpp), u64 {seed, draw}.
bool is_generator(const VariableState& v);
// `n` keys, u64[n, 2], whose draws differ from each other and from those of the state `key`; counts as one draw.
Tensor split_generator(const Tensor& key, Dim n);
void count_draw();

}  // namespace rill

#pragma GCC visibility pop
