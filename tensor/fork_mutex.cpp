// How fork() waits until the library's mutexes are free. Start at before_fork.
//
// Before a thread locks a mutex it announces that it may hold one (Holder::inside). During a fork() a thread that holds
// none waits; one that holds a mutex may lock more, because others may depend on its progress. So the threads release
// their mutexes one by one, and no locking order is needed.
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

// The state of one thread. Never freed: a new thread reuses that of one that has ended.
struct Holder {
  std::atomic<bool> inside = false;
  std::atomic<bool> used = true;
  int depth = 0;                     // number of mutexes that it holds
  std::atomic<bool> delays = false;  // the first of them is a ForkDelay
  Holder* next = nullptr;
};

std::atomic<Holder*> holders = nullptr;
std::atomic<const void*> forking = nullptr;  // this_thread() of the thread that forks
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

// fork() calls the handlers that were registered last first. Ours are registered twice: as the library is loaded, and with
// the first lock, so that they run ahead of those of an allocator that was loaded later. The first of them that is called
// does what there is to do.
enum class Registered { as_loaded, with_first_lock };
Registered prepared_by;  // guarded by one_fork

// The wait has a limit for a thread that may wait for this one: if this one holds a mutex itself, any; and one with a
// ForkDelay, which may wait for the loader's lock, whose holder may wait for the fork.
template <Registered which>
void before_fork() {
  if (forking.load() == this_thread()) return;
  for (size_t i = handler_count; i-- > 0;) handlers[i].before();
  one_fork.lock();
  prepared_by = which;
  forking.store(this_thread());
  constexpr std::chrono::microseconds pause(50);
  const bool holds = own && own->depth > 0;
  int64_t turns = std::chrono::seconds(1) / pause;
  for (Holder* h = holders; h; h = h->next)
    while (h != own && h->inside.load() && turns != 0) {
      turns -= holds || h->delays.load();
      std::this_thread::sleep_for(pause);
    }
}

template <Registered which>
void after_fork(bool is_child) {
  if (prepared_by != which) return;
  if (is_child) {
    ++forks;
    for (Holder* h = holders; h; h = h->next)
      if (h != own) h->inside = false, h->used = false, h->delays = false, h->depth = 0;
  }
  forking.store(nullptr);
  one_fork.unlock();
  for (size_t i = 0; i < handler_count; ++i) handlers[i].after(is_child);
}

void give_back(void* holder) {
  own = nullptr;
  static_cast<Holder*>(holder)->used.store(false, std::memory_order_release);
}

template <Registered which>
void register_handlers() {
  pthread_atfork(before_fork<which>, [] { after_fork<which>(false); }, [] { after_fork<which>(true); });
}

// A pthread key returns the holder after all thread_locals are destroyed, whose destructors may lock mutexes.
pthread_key_t holder_key;
pthread_once_t holder_once = PTHREAD_ONCE_INIT;
void prepare() {
  pthread_key_create(&holder_key, give_back);
  register_handlers<Registered::as_loaded>();
}
[[gnu::constructor]] void prepare_as_loaded() { pthread_once(&holder_once, prepare); }
std::atomic<bool> has_locked = false;

Holder* make_own() {
  pthread_once(&holder_once, prepare);  // the initialiser of another static may be earlier
  if (!has_locked.exchange(true)) register_handlers<Registered::with_first_lock>();
  for (Holder* h = holders; h && !own; h = h->next)
    if (bool used = false; h->used.compare_exchange_strong(used, true)) own = h;
  if (!own) {
    own = new Holder;
    own->next = holders;
    while (!holders.compare_exchange_weak(own->next, own)) {
    }
  }
  pthread_setspecific(holder_key, own);
  return own;
}

// Whether this thread may lock a mutex: false if it holds none and a fork() is waiting.
bool enter() {
  Holder* h = own ? own : make_own();
  if (h->depth++ > 0) return true;
  h->inside.store(true);  // store, then load; before_fork() does the same, so one sees the other
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
  if (own->depth == 1) own->delays = true;
}
ForkDelay::~ForkDelay() {
  if (own->depth == 1) own->delays = false;
  leave();
}

struct UserCodeMutex::State {
  ForkMutex mutex;  // of what follows
  ForkCondition changed;
  std::thread::id owner;
  int depth = 0;
  uint64_t fork = fork_count();  // fork count of the process that used it last

  // In a child, resets the state left by threads that do not exist there.
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
