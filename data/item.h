// Item: one element of a pipeline, of any C++ type. Stages that do not look into elements (shuffle, prefetch, take,
// ...) are compiled once for all types; those that do are made by Dataset<T>, which knows the type.
#pragma once
#include <cstddef>
#include <new>
#include <string>
#include <utility>

#include "rill/ops/tree.h"

#pragma GCC visibility push(default)

namespace rill::data {

namespace detail {
// The operations on the type of an Item's value.
struct ItemType {
  void (*move)(void* from, void* to);  // and destroys `from`
  void (*copy)(const void* from, void* to);
  void (*destroy)(void* value);
  void (*visit)(void* value, LeafVisitor& v);
  void* (*allocate)();  // for values that do not fit into the item; null for others
  void (*free)(void* room);
};

inline constexpr size_t item_room = 48;
template <class T>
inline constexpr bool fits_item =
    sizeof(T) <= item_room && alignof(T) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<T>;
template <class T>
inline constexpr ItemType item_type = {
    [](void* from, void* to) {
      new (to) T(std::move(*static_cast<T*>(from)));
      static_cast<T*>(from)->~T();
    },
    [](const void* from, void* to) { new (to) T(*static_cast<const T*>(from)); },
    [](void* value) { static_cast<T*>(value)->~T(); },
    [](void* value, LeafVisitor& v) { walk(*static_cast<T*>(value), v); },
    fits_item<T> ? nullptr : +[]() -> void* { return ::operator new(sizeof(T), std::align_val_t(alignof(T))); },
    [](void* room) { ::operator delete(room, std::align_val_t(alignof(T))); },
};
}  // namespace detail

class Item {
 public:
  Item() = default;
  template <class T>
  static Item of(T value) {
    Item item;
    item.make(detail::item_type<T>, [&](void* room) { new (room) T(std::move(value)); });
    return item;
  }
  Item(Item&& o) noexcept { take(o); }
  Item& operator=(Item&& o) noexcept {
    if (this != &o) clear(), take(o);
    return *this;
  }
  ~Item() { clear(); }

  explicit operator bool() const { return type_ != nullptr; }
  // The value. T is the type from which the item was made: Dataset<T> ensures that.
  template <class T>
  T& as() {
    return *static_cast<T*>(value());
  }
  template <class T>
  const T& as() const {
    return *static_cast<const T*>(const_cast<Item*>(this)->value());
  }
  Item copy() const {
    Item other;
    if (type_) other.make(*type_, [&](void* room) { type_->copy(const_cast<Item*>(this)->value(), room); });
    return other;
  }
  void visit(LeafVisitor& v) {
    if (type_) type_->visit(value(), v);
  }

 private:
  void* value() { return type_->allocate ? *reinterpret_cast<void**>(room_) : room_; }
  // Nothing is held where construct() throws.
  template <class F>
  void make(const detail::ItemType& type, F&& construct) {
    void* const room = type.allocate ? type.allocate() : room_;
    try {
      construct(room);
    } catch (...) {
      if (type.allocate) type.free(room);
      throw;
    }
    if (type.allocate) *reinterpret_cast<void**>(room_) = room;
    type_ = &type;
  }
  void take(Item& o) {
    type_ = std::exchange(o.type_, nullptr);
    if (!type_) return;
    if (type_->allocate) *reinterpret_cast<void**>(room_) = *reinterpret_cast<void**>(o.room_);
    else type_->move(o.room_, room_);
  }
  void clear() {
    if (!type_) return;
    type_->destroy(value());
    if (type_->allocate) type_->free(value());
    type_ = nullptr;
  }

  const detail::ItemType* type_ = nullptr;
  alignas(std::max_align_t) std::byte room_[detail::item_room];
};

}  // namespace rill::data

#pragma GCC visibility pop
