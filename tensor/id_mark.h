// Which tensors a thread has made since a given moment. Each thread takes tensor ids in blocks, so a larger id alone
// does not mean a later tensor: another thread may have made it long before.
#pragma once
#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)

namespace rill {

// Lives on the stack of the thread that it speaks of.
class IdMark {
 public:
  IdMark();
  ~IdMark();
  IdMark(const IdMark&) = delete;
  // Whether this thread has made the tensor with this id since the mark was made.
  bool made_since(uint64_t id) const;

 private:
  uint64_t first_, last_;  // what was left of the thread's block
  size_t later_;           // where the blocks begin that it has taken since
};

// For errors, which say when and where a tensor was made: ids that this thread gives later are not smaller than
// next_id_here(); and whether this thread gave an id, as far back as it remembers (some millions of tensors).
uint64_t next_id_here();
bool made_here(uint64_t id);

}  // namespace rill

#pragma GCC visibility pop
