// Finding strings in a list: open addressing by their fingerprints, in a table that is a tensor, so that a graph holds
// and stores it like any other.
#include <bit>

#include "rill/ops/creation.h"
#include "rill/ops/strings/records.h"
#include "rill/ops/strings/string_maps.h"

namespace rill::strings {

Tensor slots_of(const Tensor& keys) {
  const EagerScope eager;
  const Texts texts(keys, keys.shape());
  const uint64_t n = std::bit_ceil(uint64_t(std::max<int64_t>(2 * keys.size(), 2)));
  std::vector<int64_t> slots(n, -1);
  for (int64_t i = 0; i < keys.size(); ++i) {
    uint64_t at = farm_hash(texts[i]) & (n - 1);
    while (slots[at] >= 0) at = (at + 1) & (n - 1);
    slots[at] = i;
  }
  return tensor(slots);
}

Tensor lookup(const Tensor& x, const Tensor& keys, const Tensor& slots, const Where& where) {
  if (is_later(x)) return apply1(lookup_op, {&x, &keys, &slots}, {}, where);
  const Texts texts(keys, keys.shape());
  const Elements<int64_t> table(slots, slots.shape());
  const uint64_t mask = uint64_t(slots.size()) - 1;
  const auto find = [&](const std::string& s) {
    for (uint64_t at = farm_hash(s) & mask, tries = 0; tries <= mask; at = (at + 1) & mask, ++tries) {
      if (table[int64_t(at)] < 0) break;
      if (texts[table[int64_t(at)]] == s) return table[int64_t(at)];
    }
    return int64_t(-1);
  };
  return mapped<int64_t>("lookup", x, where, find);
}

}  // namespace rill::strings
