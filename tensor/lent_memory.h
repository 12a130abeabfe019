// Memory that the user owns and tensors read in place: MemoryOwner keeps it alive, lend() makes a Buffer of it. rill
// never writes into lent memory, so code that wants to overwrite a buffer must ask may_write(), not Tensor::exclusive()
// alone.
#pragma once
#include <type_traits>
#include <utility>

#include "rill/tensor/buffer.h"
#include "rill/tensor/dtype.h"
#include "rill/tensor/shared.h"

#pragma GCC visibility push(default)

namespace rill {

class Tensor;

// Keeps memory alive while a tensor reads it. An object, such as a std::shared_ptr to the memory or a std::vector moved
// in, is destroyed after the last tensor, on whichever thread that is; a callable without parameters is called then,
// and must not throw. An empty owner, or nullptr, means that the memory outlives every tensor.
class MemoryOwner {
 public:
  MemoryOwner() = default;
  MemoryOwner(std::nullptr_t) {}
  template <class T>
    requires(!std::is_same_v<std::remove_cvref_t<T>, MemoryOwner> && !std::is_same_v<std::remove_cvref_t<T>, DType>)
  MemoryOwner(T&& owner) {
    using Kept = std::decay_t<T>;
    if constexpr (std::is_invocable_v<Kept&>) {
      kept_ = Shared<AtEnd<Kept>>::make(std::forward<T>(owner));
    } else {
      static_assert(!std::is_pointer_v<Kept>,
                    "a plain pointer owns nothing: give a std::shared_ptr, a std::unique_ptr, or a lambda that frees "
                    "the memory");
      constexpr bool is_container = requires(Kept& k) {
        k.data();
        k.size();
      };
      static_assert(!(is_container && std::is_lvalue_reference_v<T>),
                    "a container that is given by its name is copied, and the copy owns other memory: move it in, or "
                    "give a std::shared_ptr to it");
      kept_ = Shared<Kept>::make(std::forward<T>(owner));
    }
  }
  explicit operator bool() const { return bool(kept_); }  // whether it owns anything

 private:
  template <class F>
  struct AtEnd {
    explicit AtEnd(const F& f) : call(f) {}
    explicit AtEnd(F&& f) : call(std::move(f)) {}
    AtEnd(const AtEnd&) = delete;
    ~AtEnd() { call(); }
    F call;
  };
  Shared<void> kept_;
};

// Makes a buffer of the `bytes` bytes at `data` on `device`. No op writes into it.
Ref<Buffer> lend(const void* data, size_t bytes, Device device, MemoryOwner owner);
bool is_lent(const Buffer& b);  // whether lend() made the buffer
// Whether the elements of `t` may be overwritten: no one else sees them, and the memory is rill's own.
bool may_write(const Tensor& t);

}  // namespace rill

#pragma GCC visibility pop
