// Sources: numbers, elements by number, generators.
#include <fmt/format.h>

#include "rill/data/stages/stages.h"

namespace rill::data::stages {
namespace {

class Identity final : public Order {
 public:
  explicit Identity(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  int64_t at(int64_t i) const override { return i; }

 private:
  int64_t size_;
};

class Indexed : public Stage {
 public:
  Indexed(std::string name, int64_t size, Callback<Item(int64_t)> at, const Where& where,
          Callback<Item(const std::vector<int64_t>&)> stacked)
      : Stage(std::move(name), where), size_(size), at_(std::move(at)), stacked_(std::move(stacked)) {}
  std::optional<int64_t> size() const override { return size_; }
  bool is_indexed() const override { return true; }
  Item at(int64_t i, const Pass&) const override { return at_(i); }
  Item stacked(const std::vector<int64_t>& indices) const override { return stacked_ ? stacked_(indices) : Item(); }
  CursorPtr open(const Pass& pass) const override { return open_in(std::make_shared<Identity>(size_), pass); }

 private:
  int64_t size_;
  Callback<Item(int64_t)> at_;
  Callback<Item(const std::vector<int64_t>&)> stacked_;
};

class Generator final : public Stage {
 public:
  Generator(Callback<Callback<Item()>()> make, const Where& where)
      : Stage("from_generator", where), make_(std::move(make)) {}
  CursorPtr open(const Pass&) const override { return std::make_unique<Calls>(*this); }

 private:
  // A restored one calls the function again, as often as it was called.
  struct Calls final : Cursor {
    explicit Calls(const Generator& s) : Cursor(s), stage(s), call(s.make_()) {}
    Item next() override {
      if (ended) return {};
      Item item;
      try {
        item = call();
      } catch (...) {
        fail_at_element(stage, given++, nullptr);
      }
      ended = !item;
      given += !ended;
      return item;
    }
    void save(StateWriter& w) const override { w.number(given), w.number(ended); }
    void restore(StateReader& r) override {
      call = stage.make_();
      const int64_t n = r.count();
      const bool at_end = r.count(1);
      given = 0, ended = false;
      skip(n);
      ended = at_end;
    }
    const Generator& stage;
    Callback<Item()> call;
    int64_t given = 0;
    bool ended = false;
  };
  Callback<Callback<Item()>()> make_;
};

}  // namespace

StagePtr indexed(std::string name, int64_t size, Callback<Item(int64_t)> at, const Where& where,
                 Callback<Item(const std::vector<int64_t>&)> stacked) {
  return std::make_shared<Indexed>(std::move(name), size, std::move(at), where, std::move(stacked));
}

StagePtr range(int64_t start, int64_t stop, int64_t step, const Where& where) {
  if (step == 0) fail("data::range", "the step is 0 and must not be", where);
  const bool any = step > 0 ? start < stop : start > stop;
  const uint64_t distance = any ? (step > 0 ? uint64_t(stop) - uint64_t(start) : uint64_t(start) - uint64_t(stop)) : 0;
  const uint64_t by = step > 0 ? uint64_t(step) : 0 - uint64_t(step);
  const uint64_t n = any ? (distance - 1) / by + 1 : 0;
  if (n > uint64_t(endless)) fail("data::range", fmt::format("{} numbers are more than can be counted", n), where);
  return indexed(
      "range", int64_t(n),
      [start, step](int64_t i) { return Item::of(int64_t(uint64_t(start) + uint64_t(i) * uint64_t(step))); }, where);
}

StagePtr generator(Callback<Callback<Item()>()> make, const Where& where) {
  return std::make_shared<Generator>(std::move(make), where);
}

StagePtr from_items(std::string name, std::vector<Item> items, const Where& where) {
  const auto size = int64_t(items.size());
  const auto held = std::make_shared<const std::vector<Item>>(std::move(items));
  return indexed(std::move(name), size, [held](int64_t i) { return (*held)[size_t(i)].copy(); }, where);
}

}  // namespace rill::data::stages
