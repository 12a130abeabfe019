#include "rill/tensor/lent_memory.h"

#include "rill/tensor/tensor.h"

namespace rill {

namespace {
void give_lent_back(Buffer* b) {
  delete static_cast<MemoryOwner*>(b->owner);
  delete b;
}
}  // namespace

Ref<Buffer> lend(const void* data, size_t bytes, Device device, MemoryOwner owner) {
  auto* kept = new MemoryOwner(std::move(owner));
  auto* b = new Buffer;
  b->device = device;
  b->data = const_cast<void*>(data);  // never written; see may_write()
  b->bytes = bytes;
  b->release = give_lent_back;
  b->owner = kept;
  return Ref<Buffer>::adopt(b);
}

bool is_lent(const Buffer& b) { return b.release == give_lent_back; }

bool may_write(const Tensor& t) { return t.exclusive() && !is_lent(*t.rep()->buffer); }

}  // namespace rill
