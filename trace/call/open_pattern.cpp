// See open_pattern.h.
#include "rill/trace/call/open_pattern.h"

#include <fmt/format.h>

#include <algorithm>

namespace rill {

OpenPattern::OpenPattern(Mask mask) : mask_(std::move(mask)) {
  for (const auto& leaf : mask_) {
    first_.push_back(count_);
    for (char open : leaf) count_ += size_t(open != 0);
  }
}

OpenPattern OpenPattern::of_open_sizes(const std::vector<Tensor>& leaves) {
  Mask mask;
  for (const Tensor& t : leaves) {
    mask.emplace_back();
    for (int64_t d : t.shape()) mask.back().push_back(d == open_size);
  }
  return OpenPattern(std::move(mask));
}

bool OpenPattern::fits(const std::vector<Tensor>& traced, const std::vector<Tensor>& now, Sizes& sizes) const {
  sizes.clear();
  for (size_t i = 0; i < now.size(); ++i) {
    const Shape &was = traced[i].shape(), &is = now[i].shape();
    for (size_t d = 0; d < is.size(); ++d) {
      if (open(i, d)) sizes.push_back(is[d]);
      else if (is[d] != was[d]) return false;
    }
  }
  return true;
}

OpenPattern::Sizes OpenPattern::sizes_of(const std::vector<Tensor>& leaves) const {
  Sizes sizes;
  fits(leaves, leaves, sizes);
  return sizes;
}

Spec OpenPattern::with_sizes(Spec s, size_t leaf, std::span<const Dim> sizes) const {
  size_t next = leaf < first_.size() ? first_[leaf] : 0;
  for (size_t d = 0; d < s.shape.size(); ++d)
    if (open(leaf, d)) s.shape[d] = sizes[next++];
  return s;
}
Spec OpenPattern::with_open_sizes(Spec s, size_t leaf) const {
  return with_sizes(std::move(s), leaf, std::vector<Dim>(count_, open_size));
}

std::vector<Dim> OpenPattern::symbols(DimTable& table, std::span<const int64_t> sizes,
                                      const std::vector<std::string>& names) const {
  std::vector<Dim> all;
  for (size_t i = 0; i < mask_.size(); ++i)
    for (size_t d = 0; d < mask_[i].size(); ++d) {
      if (!mask_[i][d]) continue;
      std::string name = i < names.size() && !names[i].empty() ? names[i] : fmt::format("arg{}", i);
      all.push_back(table.add_symbol(sizes[all.size()], fmt::format("{}.dim({})", name, d)));
    }
  return all;
}

OpenPattern::Mask sizes_that_change(std::vector<OpenHistory>& histories, const FunctionKey& key) {
  constexpr size_t most = 64;  // a C++ argument may differ at every call
  const auto known = std::find_if(histories.begin(), histories.end(),
                                  [&](const OpenHistory& h) { return h.last.matches_but_sizes(key); });
  if (known != histories.end()) {
    std::rotate(known, known + 1, histories.end());  // the most recently used comes last
  } else {
    if (histories.size() == most) histories.erase(histories.begin());
    histories.emplace_back().last = key;
    for (const Tensor& t : key.leaves) histories.back().changes.emplace_back(t.shape().size(), 0);
  }
  OpenHistory* history = &histories.back();
  OpenPattern::Mask mask;
  for (size_t i = 0; i < key.leaves.size(); ++i) {
    const Shape &is = key.leaves[i].shape(), &was = history->last.leaves[i].shape();
    mask.emplace_back();
    for (size_t d = 0; d < is.size(); ++d) {
      history->changes[i][d] += is[d] != was[d];
      mask.back().push_back(history->changes[i][d] >= 3);
    }
  }
  history->last = key;
  for (Tensor& leaf : history->last.leaves) leaf = make_stand_in(leaf.spec());
  return mask;
}

}  // namespace rill
