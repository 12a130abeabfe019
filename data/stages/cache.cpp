// cache: the elements of the first complete pass, which later passes read from memory, or from a file.
#include <fmt/format.h>

#include <filesystem>
#include <mutex>

#include "rill/data/engine/bytes.h"
#include "rill/data/engine/element_file.h"
#include "rill/data/stages/stages.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::data::stages {
namespace {

class Cache final : public Stage {
 public:
  Cache(StagePtr input, const CacheOptions& o, const detail::Codec& codec, const Where& where)
      : Stage("cache", where, {std::move(input)}), options_(o), codec_(codec) {
    if (o.most_bytes < 1)
      fail("data::cache", fmt::format("most_bytes is {} and must be 1 or more", o.most_bytes), where);
    if (!in_file()) return;
    if (!codec.save)
      fail("data::cache",
           "elements of this type cannot be kept in a file, which holds tensors, numbers, strings, and pairs, tuples, "
           "vectors and structs of them. map() to such, or leave out .file",
           where);
    if (std::filesystem::exists(o.file)) whole_ = open_file();
  }
  std::optional<int64_t> size() const override {
    const StagePtr whole = whole_now();
    return whole ? whole->size() : input()->size();
  }
  // Not by the file's content: a shuffle would have one order before it exists, and another one afterwards.
  bool is_indexed() const override { return input()->is_indexed(); }
  Item at(int64_t i, const Pass& pass) const override {
    if (const StagePtr whole = whole_now()) return whole->at(i, pass);
    if (in_file()) return input()->at(i, pass);
    const size_t n = size_t(i);
    {
      const std::lock_guard lock(mutex_);
      if (by_number_.empty()) by_number_.resize(size_t(*input()->size()));
      if (by_number_[n]) return by_number_[n].copy();
    }
    Item x = input()->at(i, pass);
    const std::lock_guard lock(mutex_);
    if (!by_number_[n]) count(x, bytes_), by_number_[n] = x.copy();
    return x;
  }
  CursorPtr open(const Pass& pass) const override {
    if (const StagePtr whole = whole_now()) return whole->begin(pass);
    return std::make_unique<Filling>(*this, pass);
  }
  CursorPtr open_in(std::shared_ptr<const Order> order, const Pass& pass) const override {
    if (in_file() && !whole_now()) fill(pass);
    return Stage::open_in(std::move(order), pass);
  }
  std::string details() const override { return in_file() ? fmt::format("('{}')", options_.file) : ""; }

 private:
  bool in_file() const { return !options_.file.empty(); }
  StagePtr whole_now() const {
    const std::lock_guard lock(mutex_);
    return whole_;
  }
  StagePtr open_file() const {
    const auto file = std::make_shared<const ElementReader>(options_.file, codec_, "data::cache", where());
    const std::optional<int64_t> wanted = input()->size();
    if (wanted && *wanted != file->count())
      fail_in(*this, fmt::format("'{}' holds {} elements, and those before it are {}: the pipeline was another one. "
                                 "remove the file to have it made again",
                                 options_.file, file->count(), *wanted));
    return indexed("cache", file->count(), [file](int64_t i) { return file->at(i); }, where());
  }
  // A file is in the order of the input, in whichever order its elements are first needed.
  void fill(const Pass& pass) const {
    Filling all(*this, pass);
    for (;;) try {
        if (!all.next()) return;
      } catch (const Error&) {  // reported when it is reached
        return;
      }
  }
  // Adds those of an element that is kept.
  void count(Item& x, int64_t& bytes) const {
    bytes += bytes_of(x);
    if (bytes > options_.most_bytes)
      fail_in(*this, fmt::format("the elements take more than most_bytes, {} bytes. cache fewer of them, before they "
                                 "are decoded, or raise it",
                                 options_.most_bytes));
  }
  // A pass that stores its elements; only one from the first element to the last makes the cache.
  struct Filling final : Cursor {
    Filling(const Cache& s, const Pass& p) : Cursor(s), stage(s), pass(p), input(s.input()->begin(p)) { begin(); }
    void begin() {
      number = bytes = 0, whole = true;
      items.clear(), file.reset();
      if (stage.in_file())
        file = std::make_unique<ElementWriter>(stage.options_.file, stage.codec_, "data::cache", stage.where());
    }
    Item next() override {
      if (from_memory) return from_memory->next();
      Item x;
      try {
        x = input->next();
      } catch (...) {  // with a missing element the pass is not complete
        stop();
        throw;
      }
      number += bool(x);
      if (x && whole) keep(x);
      else if (whole) end();
      return x;
    }
    void keep(Item& x) {
      stage.count(x, bytes);
      if (file) file->add(x);
      else items.push_back(x.copy());
    }
    void end() {
      if (file) file->commit(number);
      const StagePtr made = file ? stage.open_file() : from_items("cache", std::move(items), stage.where());
      const std::lock_guard lock(stage.mutex_);
      if (!stage.whole_) stage.whole_ = made;
      stop();
    }
    void stop() { items.clear(), file.reset(), whole = false; }
    // A cursor over the cache and one over the input save the same, so that a state serves both.
    void save(StateWriter& w) const override {
      if (from_memory) return from_memory->save(w);
      w.number(number);
    }
    void restore(StateReader& r) override {
      const int64_t n = r.count();
      if (const StagePtr kept = stage.whole_now()) {
        from_memory = kept->begin(pass);
        from_memory->skip(n);
        return;
      }
      input = stage.input()->begin(pass);
      begin();
      for (int64_t i = 0; i < n;) try {
          if (!next()) break;
          ++i;
        } catch (...) {  // it was reported
        }
    }
    const Cache& stage;
    Pass pass;
    CursorPtr input, from_memory;
    int64_t bytes = 0;
    std::vector<Item> items;
    std::unique_ptr<ElementWriter> file;
    int64_t number = 0;
    bool whole = true;
  };

  CacheOptions options_;
  detail::Codec codec_;
  mutable ForkMutex mutex_;
  mutable StagePtr whole_;
  mutable std::vector<Item> by_number_;
  mutable int64_t bytes_ = 0;
};

}  // namespace

StagePtr cache(StagePtr input, const CacheOptions& o, const detail::Codec& codec, const Where& where) {
  return std::make_shared<Cache>(std::move(input), o, codec, where);
}

}  // namespace rill::data::stages
