// Several elements as one, and one as several: batches, groups by a key, rows, and datasets of elements.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

#include "rill/data/engine/calls.h"
#include "rill/data/engine/lookahead.h"
#include "rill/data/engine/placed_rows.h"
#include "rill/data/stages/stages.h"

namespace rill::data::stages {
namespace {

// --- batch -----------------------------------------------------------------------------------------------------------

class Batch final : public Stage {
 public:
  Batch(std::string name, StagePtr input, int64_t n, bool partial, Join join, bool stacks, const Where& where)
      : Stage(std::move(name), where, {std::move(input)}),
        n_(n),
        partial_(partial),
        stacks_(stacks),
        join_(std::move(join)) {
    if (n < 1) fail("data::" + this->name(), fmt::format("a batch of {} elements: it must have 1 or more", n), where);
  }
  std::optional<int64_t> size() const override {
    const auto n = input()->size();
    if (!n || *n == endless) return n;
    return *n / n_ + (partial_ && *n % n_ != 0);
  }
  bool is_indexed() const override { return input()->is_indexed(); }
  Item at(int64_t i, const Pass& pass) const override {
    std::vector<Item> items;
    const int64_t end = std::min((i + 1) * n_, *input()->size());
    for (int64_t k = i * n_; k < end; ++k) items.push_back(input()->at(k, pass));
    return joined(items, i);
  }
  CursorPtr open(const Pass& pass) const override { return std::make_unique<Batches>(*this, input()->begin(pass)); }
  std::string details() const override { return fmt::format("({})", n_); }

 private:
  Item joined(std::vector<Item>& items, int64_t number) const {
    try {
      const CallerScope caller(where());
      return join_(items);
    } catch (...) {
      fail_at_element(*this, number, nullptr);
    }
  }
  struct Batches final : Cursor {
    Batches(const Batch& s, CursorPtr from) : Cursor(s), stage(s), input(std::move(from)) {
      auto* const maker = stage.stacks_ && most() > 1 ? dynamic_cast<MakesRows*>(input.get()) : nullptr;
      if (maker) maker->lend_rows(loans = std::make_shared<RowLoans>(most()));
    }
    // If an element fails, those before it wait for the next call.
    Item next() override {
      if (stage.stacks_ && items.empty()) {
        int64_t count = 0;
        if (Item all = input->next_stacked(stage.n_, count)) {
          ahead.jump(count);
          if (count < stage.n_ && !stage.partial_) return {};
          ++number;
          return all;
        }
      }
      while (int64_t(items.size()) < stage.n_) {
        ahead.about_to_read(*input);
        Item x = input->next();
        if (!x) break;
        if (items.empty() ? stage.stacks_ && stage.n_ > 1 : placed.any())
          placed.add(x, int64_t(items.size()), items.empty() ? most() : 0);
        if (items.empty() && loans) loans->begun(placed);
        items.push_back(std::move(x));
      }
      std::vector<Item> whole = std::move(items);
      items.clear();
      ahead.given(ahead.read());
      if (whole.empty() || (int64_t(whole.size()) < stage.n_ && !stage.partial_)) return {};
      const PlacedRows rows = std::exchange(placed, {});
      const PlacedRows::Scope scope(rows);
      return stage.joined(whole, number++);
    }
    // How many elements the batch can have.
    int64_t most() const { return std::min(stage.n_, stage.input()->size().value_or(stage.n_)); }
    int64_t skip(int64_t n) override {
      const auto all = stage.input()->size();
      if (!all || *all == endless || n < 1 || !items.empty()) return Cursor::skip(n);
      const int64_t elements = input->skip(n > endless / stage.n_ ? endless : n * stage.n_);
      ahead.jump(elements);
      const int64_t gone = elements / stage.n_ + (stage.partial_ && elements % stage.n_ != 0);
      number += gone;
      return gone;
    }
    // Waiting elements are read again; errors between them were reported.
    void save(StateWriter& w) const override {
      w.number(number), w.number(int64_t(items.size()));
      w.number(items.empty() ? 0 : ahead.read() - ahead.given());
      ahead.save(*input, w);
    }
    void restore(StateReader& r) override {
      number = r.count();
      const int64_t waiting = r.count(), read = r.count();
      ahead.restore(*input, r);
      items.clear(), placed.clear();
      for (int64_t i = 0; i < read; ++i) {
        ahead.about_to_read(*input);
        try {
          if (Item x = input->next()) items.push_back(std::move(x));
        } catch (...) {
        }
      }
      if (int64_t(items.size()) != waiting)
        fail("Iterator.restore", "the input of batch() gives other elements than it gave");
    }
    const Batch& stage;
    CursorPtr input;
    Lookahead ahead;
    std::vector<Item> items;  // of the batch that is begun
    PlacedRows placed;
    std::shared_ptr<RowLoans> loans;  // where the input can make elements in rows of the batch
    int64_t number = 0;
  };
  int64_t n_;
  bool partial_, stacks_;
  Join join_;
};

// --- unbatch ---------------------------------------------------------------------------------------------------------

class Unbatch final : public Stage {
 public:
  Unbatch(StagePtr input, Measure rows, Callback<Item(Item&, int64_t)> row, const Where& where)
      : Stage("unbatch", where, {std::move(input)}), rows_(std::move(rows)), row_(std::move(row)) {}
  CursorPtr open(const Pass& pass) const override { return std::make_unique<Rows>(*this, input()->begin(pass)); }

 private:
  struct Rows final : Cursor {
    Rows(const Unbatch& s, CursorPtr from) : Cursor(s), stage(s), input(std::move(from)) {}
    Item next() override {
      while (at >= count)
        if (!read()) return {};
      return stage.row_(whole, at++);
    }
    bool read() {
      StateWriter w;
      input->save(w);
      before = std::move(w.bytes);
      whole = input->next();
      at = count = 0;
      if (!whole) return false;
      try {
        const CallerScope caller(stage.where());
        count = stage.rows_(whole);
      } catch (...) {
        fail_at_element(stage, number++, &whole);
      }
      ++number;
      return true;
    }
    // The position of the element whose rows are being returned, and how many of them were.
    void save(StateWriter& w) const override {
      const bool within = at < count;
      w.number(number - within), w.number(within ? at : 0);
      if (within) w.text(before);
      else {
        StateWriter now;
        input->save(now);
        w.text(now.bytes);
      }
    }
    void restore(StateReader& r) override {
      number = r.count();
      const int64_t row = r.count();
      StateReader state(r.text());
      input->restore(state);
      at = count = 0;
      if (row > 0 && read()) at = row;
    }
    const Unbatch& stage;
    CursorPtr input;
    Item whole;
    std::string before;
    int64_t at = 0, count = 0, number = 0;
  };
  Measure rows_;
  Callback<Item(Item&, int64_t)> row_;
};

// --- flat_map --------------------------------------------------------------------------------------------------------

class FlatMap final : public Stage {
 public:
  FlatMap(std::string name, StagePtr input, Callback<StagePtr(Item&)> f, const Where& where)
      : Stage(std::move(name), where, {std::move(input)}), f_(std::move(f)) {}
  CursorPtr open(const Pass& pass) const override {
    return std::make_unique<Inner>(*this, input()->begin(pass.for_input()), pass);
  }
  bool draws() const override { return true; }  // the dataset of f may

 private:
  struct Inner final : Cursor {
    Inner(const FlatMap& s, CursorPtr from, const Pass& p)
        : Cursor(s), stage(s), calls(s, p), input(std::move(from)), pass(p) {}
    Item next() override {
      for (;;) {
        if (inner)
          if (Item x = inner->next()) return x;
        if (!open()) return {};
      }
    }
    bool open() {
      inner.reset();
      StateWriter w;
      input->save(w);
      before = std::move(w.bytes);
      Item x = input->next();
      if (!x) return false;
      try {
        {
          const CallScope scope(calls, number);
          recipe = stage.f_(x);
        }
        inner = recipe->begin(pass.for_inner(number));
      } catch (...) {
        fail_at_element(stage, number++, &x);
      }
      ++number;
      return true;
    }
    void save(StateWriter& w) const override {
      w.number(number - bool(inner)), w.number(bool(inner));
      if (inner) {
        w.text(before);
        inner->save(w);
      } else {
        StateWriter now;
        input->save(now);
        w.text(now.bytes);
      }
    }
    void restore(StateReader& r) override {
      inner.reset();
      number = r.count();
      const bool within = r.count(1);
      StateReader state(r.text());
      input->restore(state);
      if (!within) return;
      if (!open()) fail("Iterator.restore", "the input of flat_map() has fewer elements than it had");
      inner->restore(r);
    }
    const FlatMap& stage;
    const Calls calls;
    CursorPtr input;
    Pass pass;
    StagePtr recipe;
    CursorPtr inner;
    std::string before;
    int64_t number = 0;
  };
  Callback<StagePtr(Item&)> f_;
};

// --- Groups by a key -------------------------------------------------------------------------------------------------

// Elements wait until there are enough of their key for a group. A state has the numbers of those that wait, which are
// read again.
class GroupBy final : public Stage {
 public:
  GroupBy(std::string name, StagePtr input, Measure key, Callback<int64_t(int64_t)> size, bool partial, Join join,
          const Where& where)
      : Stage(std::move(name), where, {std::move(input)}),
        key_(std::move(key)),
        size_(std::move(size)),
        partial_(partial),
        join_(std::move(join)) {}
  CursorPtr open(const Pass& pass) const override {
    return std::make_unique<Groups>(*this, input()->begin(pass.for_input()), pass);
  }

 private:
  struct Waiting {
    int64_t number;
    Item item;
  };
  struct Groups final : Cursor {
    Groups(const GroupBy& s, CursorPtr from, const Pass& pass)
        : Cursor(s), stage(s), calls(s, pass), input(std::move(from)) {}
    Item next() override {
      while (!ended) {
        const int64_t number = ahead.read();
        ahead.about_to_read(*input);
        Item x;
        try {
          x = input->next();
        } catch (...) {
          ahead.given_one(number);
          throw;
        }
        if (!x) {
          ended = true;
          ahead.was_end();
          break;
        }
        int64_t key = 0, most = 0;
        try {
          key = key_of(x, number), most = stage.size_(key);
          if (most < 1) fail_in(stage, fmt::format("a group of key {} is to have {} elements: 1 or more", key, most));
        } catch (...) {
          ahead.given_one(number);
          fail_at_element(stage, number, &x);
        }
        auto& group = waiting[key];
        group.push_back({number, std::move(x)});
        if (int64_t(group.size()) >= most) return give(key);
      }
      if (stage.partial_ && !waiting.empty()) return give(waiting.begin()->first);
      return {};
    }
    int64_t key_of(Item& x, int64_t number) {
      const CallScope scope(calls, number);
      return stage.key_(x);
    }
    Item give(int64_t key) {
      std::vector<Item> items;
      for (Waiting& w : waiting[key]) {
        items.push_back(std::move(w.item));
        ahead.given_one(w.number);
      }
      waiting.erase(key);
      try {
        const CallerScope caller(stage.where());
        Item joined = stage.join_(items);
        ++given;
        return joined;
      } catch (...) {
        fail_at_element(stage, given++, nullptr);
      }
    }
    void save(StateWriter& w) const override {
      w.number(ended), w.number(ahead.read());
      ahead.save(*input, w);
      w.number(int64_t(waiting.size()));
      for (const auto& [key, group] : waiting) {
        w.number(int64_t(group.size()));
        for (const Waiting& e : group) w.number(e.number - ahead.given());
      }
    }
    void restore(StateReader& r) override {
      waiting.clear();
      ended = false;
      const bool at_end = r.count(1);
      const int64_t read = r.count();
      ahead.restore(*input, r);
      std::vector<int64_t> numbers;
      for (int64_t groups = r.count(); groups > 0; --groups)
        for (int64_t n = r.count(); n > 0; --n) numbers.push_back(ahead.given() + r.count());
      std::sort(numbers.begin(), numbers.end());
      auto wanted = numbers.begin();
      while (ahead.read() < read) {
        const int64_t number = ahead.read();
        ahead.about_to_read(*input);
        Item x;
        try {
          x = input->next();
        } catch (...) {  // it was reported
          ahead.given_one(number);
          continue;
        }
        if (!x) break;
        if (wanted == numbers.end() || *wanted != number) {
          ahead.given_one(number);
          continue;
        }
        ++wanted;
        waiting[key_of(x, number)].push_back({number, std::move(x)});
      }
      ended = at_end;
    }
    const GroupBy& stage;
    const Calls calls;
    CursorPtr input;
    Lookahead ahead;
    std::map<int64_t, std::deque<Waiting>> waiting;
    int64_t given = 0;
    bool ended = false;
  };
  Measure key_;
  Callback<int64_t(int64_t)> size_;
  bool partial_;
  Join join_;
};

}  // namespace

StagePtr batch(std::string name, StagePtr input, int64_t n, bool partial, Join join, bool stacks, const Where& where) {
  return std::make_shared<Batch>(std::move(name), std::move(input), n, partial, std::move(join), stacks, where);
}
StagePtr unbatch(StagePtr input, Measure rows, Callback<Item(Item&, int64_t)> row, const Where& where) {
  return std::make_shared<Unbatch>(std::move(input), std::move(rows), std::move(row), where);
}
StagePtr flat_map(std::string name, StagePtr input, Callback<StagePtr(Item&)> f, const Where& where) {
  return std::make_shared<FlatMap>(std::move(name), std::move(input), std::move(f), where);
}
StagePtr group_by(std::string name, StagePtr input, Measure key, Callback<int64_t(int64_t)> size, bool partial,
                  Join join, const Where& where) {
  return std::make_shared<GroupBy>(std::move(name), std::move(input), std::move(key), std::move(size), partial,
                                   std::move(join), where);
}

}  // namespace rill::data::stages
