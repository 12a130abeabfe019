#include "rill/trace/open_pattern.h"

#include "rill/trace/instantiate.h"

namespace rill {

OpenPattern::OpenPattern(const Mask& mask, const std::vector<Tensor>& leaves, Merge merge) {
  struct Known {
    size_t leaf;
    int64_t size;
    int number;
  };
  std::vector<Known> known;
  for (size_t i = 0; i < mask.size() && i < leaves.size(); ++i) {
    number_.emplace_back(mask[i].size(), -1);
    for (size_t d = 0; d < mask[i].size(); ++d) {
      if (!mask[i][d]) continue;
      int64_t size = leaves[i].shape()[d];
      int& number = number_.back()[d];
      for (const Known& k : known)
        if (number < 0 && k.size == size && (k.leaf != i || merge == Merge::all)) number = k.number;
      if (number < 0) number = count_++;
      known.push_back({i, size, number});
    }
  }
}

OpenPattern OpenPattern::of_open_sizes(const std::vector<Tensor>& leaves) {
  OpenPattern p;
  for (const Tensor& t : leaves) {
    p.number_.emplace_back();
    for (int64_t d : t.shape()) p.number_.back().push_back(d == open_size ? p.count_++ : -1);
  }
  return p;
}

bool OpenPattern::fits(const std::vector<Tensor>& traced, const std::vector<Tensor>& now,
                       SmallVec<int64_t, 4>& sizes) const {
  sizes.clear();
  sizes.resize(size_t(count_), -1);
  for (size_t i = 0; i < now.size(); ++i) {
    const Shape &was = traced[i].shape(), &is = now[i].shape();
    for (size_t d = 0; d < is.size(); ++d) {
      int number = i < number_.size() ? number_[i][d] : -1;
      if (number < 0) {
        if (is[d] != was[d]) return false;
      } else {
        int64_t& size = sizes[size_t(number)];
        if (size >= 0 && size != is[d]) return false;
        size = is[d];
      }
    }
  }
  return true;
}

std::vector<int64_t> OpenPattern::stand_ins() const {
  std::vector<int64_t> all;
  for (int i = 0; i < count_; ++i) all.push_back(stand_in_size(size_t(i)));
  return all;
}

Spec OpenPattern::with_sizes(Spec s, size_t leaf, std::span<const int64_t> sizes) const {
  if (leaf < number_.size())
    for (size_t d = 0; d < s.shape.size(); ++d)
      if (int number = number_[leaf][d]; number >= 0) s.shape[d] = sizes[size_t(number)];
  return s;
}
Spec OpenPattern::with_stand_ins(Spec s, size_t leaf) const {
  return empty() ? s : with_sizes(std::move(s), leaf, stand_ins());
}
Spec OpenPattern::with_open_sizes(Spec s, size_t leaf) const {
  return with_sizes(std::move(s), leaf, std::vector<int64_t>(size_t(count_), open_size));
}

OpenPattern::Mask sizes_that_change(std::vector<OpenHistory>& histories, const FunctionKey& key) {
  OpenHistory* history = nullptr;
  for (OpenHistory& h : histories)
    if (h.last.matches_but_sizes(key)) history = &h;
  if (!history) {
    history = &histories.emplace_back();
    history->last = key;
    for (const Tensor& t : key.leaves) history->changes.emplace_back(t.shape().size(), 0);
  }
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
