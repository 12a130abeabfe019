// Unsigned keys, without indices, in vectors: made of floats, sorted in ascending order, and made floats again.
#pragma once
#include <cstdint>
#include <type_traits>

namespace rill::cpu {

template <class K>
struct KeySort {
  // `n` keys in place. `spare` is as long as `keys`.
  void (*run)(K* keys, K* spare, int64_t n);
};

// Of floats whose bits are a U: keys that are in the floats' order, or in the opposite one.
template <class U>
struct FloatKeys {
  using K = std::conditional_t<sizeof(U) == 8, uint64_t, uint32_t>;
  // False where a float has no key of its own: a NaN, which is beyond `infinity`, or -0.
  bool (*of)(const U* x, int64_t n, U infinity, bool descending, K* keys);
  void (*to)(const K* keys, int64_t n, bool descending, U* x);
};

struct KeySorts {
  KeySort<uint32_t> u32;
  KeySort<uint64_t> u64;
  FloatKeys<uint16_t> halves;
  FloatKeys<uint32_t> floats;
  FloatKeys<uint64_t> doubles;
};
const KeySorts& key_sorts();

inline void sort_keys(uint32_t* keys, uint32_t* spare, int64_t n) { key_sorts().u32.run(keys, spare, n); }
inline void sort_keys(uint64_t* keys, uint64_t* spare, int64_t n) { key_sorts().u64.run(keys, spare, n); }

}  // namespace rill::cpu
