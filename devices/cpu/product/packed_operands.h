// Operands that never change, in the layout that a kernel prefers: packed at the first call and kept by the
// instruction's Packed (devices/packed.h). All instructions, of any trace, that read the same elements in the same
// layout share the packed copy, which lives as long as one of them keeps it.
#pragma once
#include <unordered_map>
#include <vector>

#include "rill/devices/packed.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/tensor/tensor.h"

namespace rill::cpu {

// What an instruction keeps, with its kind, as a kernel may use several kinds.
struct PackedAny {
  const void* kind;
};
template <class Kind>
inline char packed_kind = 0;

// Layout: the layouts before and after packing, comparable.
template <class Layout>
struct PackedOperand : PackedAny {
  Tensor operand;  // kept, so that its memory cannot be reused for another tensor
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

  // `pack` creates the buffer, if no other instruction has it yet.
  template <class Pack>
  Shared get(const Tensor& operand, const void* data, const Layout& layout, Pack&& pack) {
    std::vector<Shared> others;  // released after the lock: one may be the last reference
    const std::lock_guard hold(mutex_);
    const auto [begin, end] = by_data_.equal_range(data);
    for (auto it = begin; it != end; ++it) {
      Shared there = it->second.lock();
      if (there && there->layout == layout) return there;
      others.push_back(std::move(there));
    }
    std::erase_if(by_data_, [](const auto& entry) { return entry.second.expired(); });
    Shared made = std::make_shared<PackedOperand<Layout>>(
        PackedOperand<Layout>{{&packed_kind<Layout>}, operand, data, layout, pack()});
    by_data_.emplace(data, made);
    return made;
  }

 private:
  ForkMutex mutex_;
  std::unordered_multimap<const void*, std::weak_ptr<const PackedOperand<Layout>>> by_data_;
};

// What `packed` keeps, made by make() if it is empty: null if it is of another kind.
template <class Kept, class Kind, class Make>
std::shared_ptr<const Kept> kept_in(Packed& packed, Make&& make) {
  const std::shared_ptr<const void> there = packed.get([&]() -> std::shared_ptr<const PackedAny> { return make(); });
  if (static_cast<const PackedAny*>(there.get())->kind != &packed_kind<Kind>) return nullptr;
  return std::static_pointer_cast<const Kept>(std::static_pointer_cast<const PackedAny>(there));
}

// The packed `operand`, whose elements start at `data`; null if `packed` keeps another layout, operand or kind.
template <class Layout, class Pack>
std::shared_ptr<const PackedOperand<Layout>> packed_operand(Packed& packed, const Tensor& operand, const void* data,
                                                            const Layout& layout, Pack&& pack) {
  auto made = kept_in<PackedOperand<Layout>, Layout>(
      packed, [&] { return PackedOperands<Layout>::all().get(operand, data, layout, pack); });
  return made && made->data == data && made->layout == layout ? made : nullptr;
}

}  // namespace rill::cpu
