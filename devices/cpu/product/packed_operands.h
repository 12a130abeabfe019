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

// What an instruction keeps: of which kind it is, for a kernel may take several.
struct PackedAny {
  const void* kind;
};
template <class Kind>
inline char packed_kind = 0;

// Layout: from where to where, comparable.
template <class Layout>
struct PackedOperand : PackedAny {
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
    Shared made = std::make_shared<PackedOperand<Layout>>(
        PackedOperand<Layout>{{&packed_kind<Layout>}, operand, data, layout, pack()});
    by_data_.emplace(data, made);
    return made;
  }

 private:
  ForkMutex mutex_;
  std::unordered_multimap<const void*, std::weak_ptr<const PackedOperand<Layout>>> by_data_;
};

// What `packed` keeps, made by make() where nothing is there: null where that is of another kind.
template <class Kept, class Kind, class Make>
std::shared_ptr<const Kept> kept_in(Packed& packed, Make&& make) {
  const std::shared_ptr<const void> there = packed.get([&]() -> std::shared_ptr<const PackedAny> { return make(); });
  if (static_cast<const PackedAny*>(there.get())->kind != &packed_kind<Kind>) return nullptr;
  return std::static_pointer_cast<const Kept>(std::static_pointer_cast<const PackedAny>(there));
}

// The packed `operand`, whose elements begin at `data`; null where another layout, operand or kind is kept in `packed`.
template <class Layout, class Pack>
std::shared_ptr<const PackedOperand<Layout>> packed_operand(Packed& packed, const Tensor& operand, const void* data,
                                                            const Layout& layout, Pack&& pack) {
  auto made = kept_in<PackedOperand<Layout>, Layout>(
      packed, [&] { return PackedOperands<Layout>::all().get(operand, data, layout, pack); });
  return made && made->data == data && made->layout == layout ? made : nullptr;
}

}  // namespace rill::cpu
