// Sorts unsigned keys without indices, in vectors: keys are made from floats, sorted in ascending order, and turned
// back into floats.
#pragma once
#include <cstdint>
#include <type_traits>

namespace rill::cpu {

template <class K>
struct KeySort {
  // Sorts `n` keys in place. `spare` has room for as many.
  void (*run)(K* keys, K* spare, int64_t n);
};

// For floats whose bits are a U: keys in the floats' order, or in the opposite one.
template <class U>
struct FloatKeys {
  using K = std::conditional_t<sizeof(U) == 8, uint64_t, uint32_t>;
  // False if a float has no unique key: a NaN, whose bits exceed `infinity`, or -0.
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
