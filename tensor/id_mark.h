// IdMark: tells which tensors a thread has made since a given moment. Threads take tensor ids in blocks, so a larger id
// does not mean a later tensor: another thread may have made it long before.
#pragma once
#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)

namespace rill {

// Lives on the stack of its thread.
class IdMark {
 public:
  IdMark();
  ~IdMark();
  IdMark(const IdMark&) = delete;
  // Whether this thread has made the tensor with this id since the mark was made.
  bool made_since(uint64_t id) const;

 private:
  uint64_t first_, last_;  // the rest of the thread's block of ids
  size_t later_;           // index of the first block that the thread has taken since
};

// For errors that say when and where a tensor was made. Ids that this thread gives later are at least next_id_here();
// the other tells whether this thread gave an id, for its last few million tensors.
uint64_t next_id_here();
bool made_here(uint64_t id);

}  // namespace rill

#pragma GCC visibility pop
