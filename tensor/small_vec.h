// SmallVec<T, N>: a vector that stores up to N elements inside the object, so that shapes, strides and operand lists
// need no heap memory in an eager call. Longer ones are stored on the heap.
#pragma once
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#pragma GCC visibility push(default)

namespace rill {

template <class T, size_t N>
class SmallVec {
 public:
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVec() noexcept : data_(inline_data()) {}
  explicit SmallVec(size_t n, const T& value = T()) : SmallVec() { resize(n, value); }
  SmallVec(std::initializer_list<T> v) : SmallVec(v.begin(), v.end()) {}
  explicit SmallVec(std::span<const T> v) : SmallVec(v.data(), v.data() + v.size()) {}
  template <class It>
    requires(!std::is_arithmetic_v<It>)
  SmallVec(It first, It last) : SmallVec() {
    reserve(size_t(last - first));
    for (; first != last; ++first) new (data_ + size_++) T(*first);
  }
  SmallVec(const SmallVec& o) : SmallVec() { copy_from(o); }
  SmallVec(SmallVec&& o) noexcept : SmallVec() { move_from(o); }
  SmallVec& operator=(const SmallVec& o) {
    if (this != &o) {
      clear();
      copy_from(o);
    }
    return *this;
  }
  SmallVec& operator=(SmallVec&& o) noexcept {
    if (this != &o) {
      release();
      data_ = inline_data();
      capacity_ = N;
      size_ = 0;
      move_from(o);
    }
    return *this;
  }
  ~SmallVec() { release(); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  T& front() { return data_[0]; }
  const T& front() const { return data_[0]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  operator std::span<const T>() const { return {data_, size_}; }
  operator std::span<T>() { return {data_, size_}; }

  void reserve(size_t n) {
    if (n > capacity_) grow(n);
  }
  template <class... A>
  T& emplace_back(A&&... a) {
    if (size_ == capacity_) {
      T value(std::forward<A>(a)...);  // the argument may live in the storage that is about to move
      grow(capacity_ * 2);
      return *new (data_ + size_++) T(std::move(value));
    }
    return *new (data_ + size_++) T(std::forward<A>(a)...);
  }
  void push_back(const T& v) { emplace_back(v); }
  void push_back(T&& v) { emplace_back(std::move(v)); }
  void pop_back() { data_[--size_].~T(); }
  void clear() {
    if constexpr (trivial) size_ = 0;
    while (size_) pop_back();
  }
  void resize(size_t n, const T& value = T()) {
    reserve(n);
    while (size_ > n) pop_back();
    while (size_ < n) new (data_ + size_++) T(value);
  }
  void insert(size_t at, T value) {
    emplace_back(std::move(value));
    for (size_t i = size_ - 1; i > at; --i) std::swap(data_[i], data_[i - 1]);
  }
  void erase(size_t at) {
    for (size_t i = at; i + 1 < size_; ++i) data_[i] = std::move(data_[i + 1]);
    pop_back();
  }
  friend bool operator==(const SmallVec& a, const SmallVec& b) {
    if (a.size_ != b.size_) return false;
    for (size_t i = 0; i < a.size_; ++i)
      if (!(a.data_[i] == b.data_[i])) return false;
    return true;
  }

 private:
  T* inline_data() { return std::launder(reinterpret_cast<T*>(inline_)); }
  bool is_inline() const { return static_cast<const void*>(data_) == static_cast<const void*>(inline_); }
  [[gnu::noinline]] void grow(size_t n) {  // rare, and out of line it keeps callers small
    T* bigger = static_cast<T*>(::operator new(n * sizeof(T)));
    for (size_t i = 0; i < size_; ++i) {
      new (bigger + i) T(std::move(data_[i]));
      data_[i].~T();
    }
    if (!is_inline()) ::operator delete(data_);
    data_ = bigger;
    capacity_ = uint32_t(n);
  }
  // Trivial elements within N go as one block of fixed size, a few vector moves; any storage has room for N.
  static constexpr bool trivial = std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>;
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // of those past the size, which nobody reads
#endif
  void copy_block(const SmallVec& o) {
    std::memcpy(static_cast<void*>(data_), static_cast<const void*>(o.data_), N * sizeof(T));
    size_ = o.size_;
  }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
  void copy_from(const SmallVec& o) {
    if constexpr (trivial)
      if (o.size_ <= N) return copy_block(o);
    reserve(o.size_);
    for (size_t i = 0; i < o.size_; ++i) new (data_ + i) T(o.data_[i]);
    size_ = o.size_;
  }
  void move_from(SmallVec& o) noexcept {
    if (trivial && o.is_inline()) {
      copy_block(o);
      o.size_ = 0;
    } else if (o.is_inline()) {
      for (size_t i = 0; i < o.size_; ++i) {
        new (data_ + i) T(std::move(o.data_[i]));
        o.data_[i].~T();
      }
      size_ = std::exchange(o.size_, 0);
    } else {
      data_ = std::exchange(o.data_, o.inline_data());
      size_ = std::exchange(o.size_, 0);
      capacity_ = std::exchange(o.capacity_, uint32_t(N));
    }
  }
  void release() noexcept {
    for (size_t i = 0; i < size_; ++i) data_[i].~T();
    if (!is_inline()) ::operator delete(data_);
  }

  T* data_;
  uint32_t size_ = 0;
  uint32_t capacity_ = N;
  alignas(T) std::byte inline_[N * sizeof(T)];
};

}  // namespace rill

#pragma GCC visibility pop
