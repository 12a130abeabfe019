// How fork() waits until the library's mutexes are free. Start at before_fork.
//
// Each thread says before it takes a mutex that it may hold one (Holder::inside). One that holds none while a fork() is
// going on waits until it is over; one that holds a mutex may take more, for others may need it to go on. So the threads
// leave one by one, and no order of the mutexes is needed.
#include "rill/tensor/fork_mutex.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "rill/tensor/fork_condition.h"

namespace rill {
namespace {

// Of one thread. They are never freed: a thread that ends leaves its own to another.
struct Holder {
  std::atomic<bool> inside = false;
  std::atomic<bool> used = true;
  int depth = 0;  // how many mutexes it holds
  Holder* next = nullptr;
};

std::atomic<Holder*> holders = nullptr;
std::atomic<const void*> forking = nullptr;  // this_thread() of the one that forks
std::atomic<uint64_t> forks = 0;
constinit std::mutex one_fork;  // held from before a fork() until after it
thread_local constinit Holder* own = nullptr;

const void* this_thread() { return &own; }

struct Handlers {
  void (*before)();
  void (*after)(bool);
};
constexpr size_t most_handlers = 8;
constinit Handlers handlers[most_handlers] = {};
constinit std::atomic<size_t> handler_count = 0;

// Where the thread that forks holds a mutex itself, another may wait for that and not let go of its own: there the wait
// has an end.
void before_fork() {
  for (size_t i = handler_count; i-- > 0;) handlers[i].before();
  one_fork.lock();
  forking.store(this_thread());
  constexpr std::chrono::microseconds pause(50);
  const bool holds = own && own->depth > 0;
  int64_t turns = holds ? std::chrono::seconds(1) / pause : -1;
  for (Holder* h = holders; h; h = h->next)
    while (h != own && h->inside.load() && turns != 0) turns -= turns > 0, std::this_thread::sleep_for(pause);
}

void after_fork(bool is_child) {
  if (is_child) {
    ++forks;
    for (Holder* h = holders; h; h = h->next)
      if (h != own) h->inside = false, h->used = false, h->depth = 0;
  }
  forking.store(nullptr);
  one_fork.unlock();
  for (size_t i = 0; i < handler_count; ++i) handlers[i].after(is_child);
}

void give_back(void* holder) {
  own = nullptr;
  static_cast<Holder*>(holder)->used.store(false, std::memory_order_release);
}

// The first that is asked for sets up what fork() does: not before, as an allocator must have told pthread_atfork()
// about its locks by then, which it takes after us. By a key of pthread's a holder is given back after all
// thread_locals are gone, whose destructors may take mutexes.
Holder* make_own() {
  static pthread_key_t key = [] {
    pthread_atfork(before_fork, [] { after_fork(false); }, [] { after_fork(true); });
    pthread_key_t k = 0;
    pthread_key_create(&k, give_back);
    return k;
  }();
  for (Holder* h = holders; h && !own; h = h->next)
    if (bool used = false; h->used.compare_exchange_strong(used, true)) own = h;
  if (!own) {
    own = new Holder;
    own->next = holders;
    while (!holders.compare_exchange_weak(own->next, own)) {
    }
  }
  pthread_setspecific(key, own);
  return own;
}

// Whether this thread may take a mutex: false where it holds none and a fork() waits.
bool enter() {
  Holder* h = own ? own : make_own();
  if (h->depth++ > 0) return true;
  h->inside.store(true);  // before it looks, as before_fork() looks after it has told
  const void* thread = forking.load();
  if (!thread || thread == this_thread()) [[likely]]
    return true;
  h->depth = 0;
  h->inside.store(false);
  return false;
}
void leave() {
  if (--own->depth == 0) own->inside.store(false, std::memory_order_release);
}
void wait_for_fork() { const std::lock_guard hold(one_fork); }

}  // namespace

void ForkMutex::lock() {
  while (!enter()) wait_for_fork();
  mutex_.lock();
}
void ForkMutex::unlock() {
  mutex_.unlock();
  leave();
}

ForkDelay::ForkDelay() {
  while (!enter()) wait_for_fork();
}
ForkDelay::~ForkDelay() { leave(); }

struct UserCodeMutex::State {
  ForkMutex mutex;  // of what follows
  ForkCondition changed;
  std::thread::id owner;
  int depth = 0;
  uint64_t fork = fork_count();  // of the process that used it last

  // In a child, what the threads left behind that it has not.
  void look_for_fork() {
    if (std::exchange(fork, fork_count()) == fork_count()) return;
    if (owner != std::this_thread::get_id()) owner = {}, depth = 0;
  }
};

UserCodeMutex::UserCodeMutex() : state_(new State) {}
UserCodeMutex::~UserCodeMutex() { delete state_; }
void UserCodeMutex::lock() {
  State& s = *state_;
  std::unique_lock hold(s.mutex);
  s.look_for_fork();
  const auto me = std::this_thread::get_id();
  s.changed.wait(hold, [&] { return s.depth == 0 || s.owner == me; });
  s.owner = me;
  ++s.depth;
}
void UserCodeMutex::unlock() {
  State& s = *state_;
  const std::lock_guard hold(s.mutex);
  s.look_for_fork();
  if (--s.depth == 0) s.owner = {}, s.changed.notify_one();
}

ForkCondition::ForkCondition() : changed_(), fork_(fork_count()) {}
ForkCondition::~ForkCondition() {
  if (fork_ == fork_count()) changed_.~condition_variable_any();
}
std::condition_variable_any& ForkCondition::here() {
  if (fork_ != fork_count()) {
    new (&changed_) std::condition_variable_any;
    fork_ = fork_count();
  }
  return changed_;
}

uint64_t fork_count() { return forks.load(std::memory_order_relaxed); }

void at_fork(void (*before)(), void (*after)(bool)) {
  if (!own) make_own();  // before_fork() is there
  const std::lock_guard hold(one_fork);
  handlers[handler_count] = {before, after};
  ++handler_count;
}

}  // namespace rill
