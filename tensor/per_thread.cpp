// A pthread key is the one place whose destructors run behind those of thread_locals.
#include "rill/tensor/per_thread.h"

#include <pthread.h>

namespace rill::detail {

namespace {
struct Kept {
  Kept* next;
  void (*end)(void*);
  void* of;
};

void end_all(void* first) {
  for (auto* k = static_cast<Kept*>(first); k;) {
    k->end(k->of);
    delete std::exchange(k, k->next);
  }
}

pthread_key_t kept_key;
pthread_once_t kept_once = PTHREAD_ONCE_INIT;
}  // namespace

void at_thread_end(void (*end)(void*), void* of) {
  pthread_once(&kept_once, [] { pthread_key_create(&kept_key, end_all); });
  pthread_setspecific(kept_key, new Kept{static_cast<Kept*>(pthread_getspecific(kept_key)), end, of});
}

}  // namespace rill::detail
