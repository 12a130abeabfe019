// EntryList: a tape's list of entries, in blocks, so that none moves as the list grows, and the blocks after its end
// are freed while a backward walk removes entries.
#pragma once
#include <memory>
#include <utility>
#include <vector>

namespace rill {

template <class T>
class EntryList {
 public:
  EntryList() = default;
  EntryList(EntryList&& o) noexcept : blocks_(std::move(o.blocks_)), size_(std::exchange(o.size_, 0)) {
    o.blocks_.clear();
  }
  EntryList& operator=(EntryList&& o) noexcept {
    clear();
    blocks_ = std::exchange(o.blocks_, {});
    size_ = std::exchange(o.size_, 0);
    return *this;
  }
  ~EntryList() { clear(); }

  size_t size() const { return size_; }
  T& operator[](size_t i) { return *at(i); }
  const T& operator[](size_t i) const { return *at(i); }
  T& emplace_back() {
    if (size_ == blocks_.size() * block) blocks_.push_back(std::make_unique<Block>());
    T* t = new (at(size_)) T();
    ++size_;
    return *t;
  }
  void pop_back() {
    at(--size_)->~T();
    if (size_ + 2 * block <= blocks_.size() * block) blocks_.pop_back();
  }
  void clear() {
    while (size_) pop_back();
  }

  class Iterator {
   public:
    Iterator(const EntryList& list, size_t i) : list_(list), i_(i) {}
    const T& operator*() const { return list_[i_]; }
    Iterator& operator++() { return ++i_, *this; }
    bool operator!=(const Iterator& o) const { return i_ != o.i_; }

   private:
    const EntryList& list_;
    size_t i_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size_}; }

 private:
  static constexpr size_t block = 128;
  struct Block {
    Block() {}  // leaves the bytes uninitialised
    alignas(T) char bytes[block * sizeof(T)];
  };
  T* at(size_t i) const { return reinterpret_cast<T*>(blocks_[i / block]->bytes) + i % block; }

  std::vector<std::unique_ptr<Block>> blocks_;
  size_t size_ = 0;
};

}  // namespace rill
