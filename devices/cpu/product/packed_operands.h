// Operands that never change, in the layout that a kernel prefers: packed at the first call and kept by the
// instruction's Packed (devices/packed.h). All instructions, of any trace, that read the same elements in the same
// layout share what is packed; nothing is kept here that none of them keeps.
#pragma once
#include <unordered_map>
#include <vector>

#include "rill/devices/packed.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/tensor/tensor.h"

namespace rill::cpu {

// Layout: from where to where, comparable.
template <class Layout>
struct PackedOperand {
  Tensor operand;  // kept, so that its memory cannot become another tensor's
  const void* data;
  Layout layout;
  Ref<Buffer> buffer;
};

template <class Layout>
class PackedOperands {
 public:
  using Shared = std::shared_ptr<const PackedOperand<Layout>>;

  // One for the process, which outlives every thread.
  static PackedOperands& all() {
    static PackedOperands& a = *new PackedOperands;
    return a;
  }

  // `pack` gives the buffer, where nobody has it yet.
  template <class Pack>
  Shared get(const Tensor& operand, const void* data, const Layout& layout, Pack&& pack) {
    std::vector<Shared> others;  // let go of when the lock has been: it may be for the last time
    const std::lock_guard hold(mutex_);
    const auto [begin, end] = by_data_.equal_range(data);
    for (auto it = begin; it != end; ++it) {
      Shared there = it->second.lock();
      if (there && there->layout == layout) return there;
      others.push_back(std::move(there));
    }
    std::erase_if(by_data_, [](const auto& entry) { return entry.second.expired(); });
    Shared made = std::make_shared<PackedOperand<Layout>>(PackedOperand<Layout>{operand, data, layout, pack()});
    by_data_.emplace(data, made);
    return made;
  }

 private:
  ForkMutex mutex_;
  std::unordered_multimap<const void*, std::weak_ptr<const PackedOperand<Layout>>> by_data_;
};

// The packed `operand`, whose elements begin at `data`; null where another layout or operand is kept in `packed`. A
// kernel asks for one Layout type only.
template <class Layout, class Pack>
std::shared_ptr<const PackedOperand<Layout>> packed_operand(Packed& packed, const Tensor& operand, const void* data,
                                                            const Layout& layout, Pack&& pack) {
  auto made = std::static_pointer_cast<const PackedOperand<Layout>>(
      packed.get([&] { return PackedOperands<Layout>::all().get(operand, data, layout, pack); }));
  return made->data == data && made->layout == layout ? made : nullptr;
}

}  // namespace rill::cpu
