// cache: the elements of the first whole pass, which later passes are given from memory.
#include <fmt/format.h>

#include <mutex>

#include "rill/data/stages/stages.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::data::stages {
namespace {

// About what an element takes: its tensors, each as if it were alone.
class Bytes final : public LeafVisitor {
 public:
  void tensor(Tensor& t) override {
    all += int64_t(sizeof(TensorRep));
    if (!t.defined()) return;
    all += int64_t(t.size()) * int64_t(size_of(t.dtype()));
    if (t.dtype() == DType::string)
      for (const std::string& s : t.to_vector<std::string>()) all += int64_t(s.capacity());
  }
  void constant(const void*, size_t n) override { all += int64_t(n); }
  int64_t all = int64_t(sizeof(Item));
};

class Cache final : public Stage {
 public:
  Cache(StagePtr input, const CacheOptions& o, const Where& where)
      : Stage("cache", where, {std::move(input)}), options_(o) {
    if (o.most_bytes < 1)
      fail("data::cache", fmt::format("most_bytes is {} and must be 1 or more", o.most_bytes), where);
  }
  std::optional<int64_t> size() const override { return input()->size(); }
  bool is_indexed() const override { return input()->is_indexed(); }
  Item at(int64_t i) const override {
    const size_t n = size_t(i);
    {
      const std::lock_guard lock(mutex_);
      if (by_number_.empty()) by_number_.resize(size_t(*size()));
      if (by_number_[n]) return by_number_[n].copy();
    }
    Item x = input()->at(i);
    const std::lock_guard lock(mutex_);
    if (!by_number_[n]) count(x, bytes_), by_number_[n] = x.copy();
    return x;
  }
  CursorPtr open(const Pass& pass) const override {
    const std::lock_guard lock(mutex_);
    if (whole_) return whole_->open(pass);
    return std::make_unique<Filling>(*this, pass);
  }

 private:
  // Adds those of an element that is kept.
  void count(Item& x, int64_t& bytes) const {
    Bytes b;
    x.visit(b);
    bytes += b.all;
    if (bytes > options_.most_bytes)
      fail_in(*this, fmt::format("the elements take more than most_bytes, {} bytes. cache fewer of them, before they "
                                 "are decoded, or raise it",
                                 options_.most_bytes));
  }
  // A pass that keeps what it gives; only one from the first element to the last makes the cache.
  struct Filling final : Cursor {
    Filling(const Cache& s, const Pass& p) : Cursor(s), stage(s), pass(p), input(s.input()->open(p)) {}
    Item next() override {
      if (from_memory) return from_memory->next();
      Item x;
      try {
        x = input->next();
      } catch (...) {  // what is missing is no whole pass
        whole = false;
        throw;
      }
      number += bool(x);
      if (x && whole) {
        const std::lock_guard lock(stage.mutex_);
        stage.count(x, bytes);
        items.push_back(x.copy());
      } else if (whole) {
        const std::lock_guard lock(stage.mutex_);
        if (!stage.whole_) stage.whole_ = from_items("cache", std::move(items), stage.where());
        items.clear(), whole = false;
      }
      return x;
    }
    // A cursor over the cache and one over the input save the same, so that a state serves both.
    void save(StateWriter& w) const override {
      if (from_memory) return from_memory->save(w);
      w.number(number);
    }
    void restore(StateReader& r) override {
      items.clear();
      const int64_t n = r.count();
      {
        const std::lock_guard lock(stage.mutex_);
        if (stage.whole_) from_memory = stage.whole_->open(pass);
      }
      if (from_memory) {
        from_memory->skip(n);
        return;
      }
      input = stage.input()->open(pass);
      number = bytes = 0, whole = true;
      for (int64_t i = 0; i < n;) try {
          if (!next()) break;
          ++i;
        } catch (...) {  // it was told
        }
    }
    const Cache& stage;
    Pass pass;
    CursorPtr input, from_memory;
    int64_t bytes = 0;
    std::vector<Item> items;
    int64_t number = 0;
    bool whole = true;
  };

  CacheOptions options_;
  mutable ForkMutex mutex_;
  mutable StagePtr whole_;
  mutable std::vector<Item> by_number_;
  mutable int64_t bytes_ = 0;
};

}  // namespace

StagePtr cache(StagePtr input, const CacheOptions& o, const Where& where) {
  return std::make_shared<Cache>(std::move(input), o, where);
}

}  // namespace rill::data::stages
