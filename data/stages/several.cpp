// Several datasets: in parallel, one after the other, in turns, by choice and at random.
#include <fmt/format.h>

#include <algorithm>

#include "rill/data/engine/calls.h"
#include "rill/data/engine/lookahead.h"
#include "rill/data/engine/seeds.h"
#include "rill/data/stages/stages.h"

namespace rill::data::stages {
namespace {

std::vector<CursorPtr> open_all(const std::vector<StagePtr>& inputs, const Pass& pass) {
  std::vector<CursorPtr> all;
  for (const StagePtr& input : inputs) all.push_back(input->begin(pass.for_input(all.size())));
  return all;
}
int64_t sum_of_sizes(int64_t a, int64_t b) { return a == endless || b == endless || a > endless - b ? endless : a + b; }

// --- zip -------------------------------------------------------------------------------------------------------------

class Zip final : public Stage {
 public:
  Zip(std::vector<StagePtr> inputs, Join join, const Where& where)
      : Stage("zip", where, std::move(inputs)), join_(std::move(join)) {}
  std::optional<int64_t> size() const override {
    int64_t least = endless;
    for (const StagePtr& input : inputs()) {
      const auto n = input->size();
      if (!n) return {};
      least = std::min(least, *n);
    }
    return least;
  }
  bool is_indexed() const override {
    return std::ranges::all_of(inputs(), [](const StagePtr& s) { return s->is_indexed(); });
  }
  Item at(int64_t i, const Pass& pass) const override {
    std::vector<Item> items;
    for (const StagePtr& input : inputs()) items.push_back(input->at(i, pass.for_input(items.size())));
    return join_(items);
  }
  CursorPtr open(const Pass& pass) const override { return std::make_unique<Rows>(*this, open_all(inputs(), pass)); }
  CursorPtr open_in(std::shared_ptr<const Order> order, const Pass& pass) const override {
    std::vector<CursorPtr> all;
    for (const StagePtr& input : inputs()) all.push_back(input->begin_in(order, pass.for_input(all.size())));
    return std::make_unique<Rows>(*this, std::move(all));
  }

 private:
  struct Rows final : Cursor {
    Rows(const Zip& s, std::vector<CursorPtr> c) : Cursor(s), stage(s), cursors(std::move(c)) {}
    Item next() override {
      if (ended) return {};
      std::vector<Item> items;
      std::exception_ptr error;  // if one fails, the parallel elements are dropped too
      for (const CursorPtr& c : cursors) {
        try {
          items.push_back(c->next());
          ended |= !items.back();
        } catch (...) {
          if (!error) error = std::current_exception();
        }
      }
      if (error) std::rethrow_exception(error);
      return ended ? Item() : stage.join_(items);
    }
    int64_t skip(int64_t n) override {
      int64_t least = n;
      for (const CursorPtr& c : cursors) least = std::min(least, c->skip(n));
      ended |= least < n;
      return least;
    }
    void save(StateWriter& w) const override {
      w.number(ended);
      for (const CursorPtr& c : cursors) c->save(w);
    }
    void restore(StateReader& r) override {
      ended = r.count(1);
      for (const CursorPtr& c : cursors) c->restore(r);
    }
    const Zip& stage;
    std::vector<CursorPtr> cursors;
    bool ended = false;
  };
  Join join_;
};

// --- concatenate -----------------------------------------------------------------------------------------------------

class Concatenate final : public Stage {
 public:
  Concatenate(std::vector<StagePtr> inputs, const Where& where) : Stage("concatenate", where, std::move(inputs)) {
    // Once: a chain of these would query all earlier ones again, at each link.
    int64_t all = 0;
    for (const StagePtr& input : this->inputs()) {
      all = input->is_indexed() ? sum_of_sizes(all, *input->size()) : endless;
      if (all == endless) {
        ends_.clear();
        break;
      }
      ends_.push_back(all);
    }
  }
  std::optional<int64_t> size() const override {
    if (is_indexed()) return ends_.back();
    int64_t all = 0;
    for (const StagePtr& input : inputs()) {
      const auto n = input->size();
      if (!n) return {};
      all = sum_of_sizes(all, *n);
    }
    return all;
  }
  bool is_indexed() const override { return !ends_.empty(); }
  Item at(int64_t i, const Pass& pass) const override {
    const size_t which = size_t(std::ranges::upper_bound(ends_, i) - ends_.begin());
    return inputs()[which]->at(which > 0 ? i - ends_[which - 1] : i, pass.for_input(which));
  }
  CursorPtr open(const Pass& pass) const override {
    return std::make_unique<OneAfterOther>(*this, open_all(inputs(), pass));
  }

 private:
  struct OneAfterOther final : Cursor {
    OneAfterOther(const Stage& s, std::vector<CursorPtr> c) : Cursor(s), cursors(std::move(c)) {}
    Item next() override {
      for (; which < cursors.size(); ++which)
        if (Item x = cursors[which]->next()) return x;
      return {};
    }
    int64_t skip(int64_t n) override {
      int64_t gone = 0;
      for (;; ++which) {
        if (which == cursors.size()) return gone;
        gone += cursors[which]->skip(n - gone);
        if (gone == n) return gone;
      }
    }
    void save(StateWriter& w) const override {
      w.number(int64_t(which));
      for (const CursorPtr& c : cursors) c->save(w);
    }
    void restore(StateReader& r) override {
      which = size_t(r.count(int64_t(cursors.size())));
      for (const CursorPtr& c : cursors) c->restore(r);
    }
    std::vector<CursorPtr> cursors;
    size_t which = 0;
  };
  std::vector<int64_t> ends_;  // of each input, in all elements; empty where these cannot be had by number
};

// --- choose_from, sample_from ----------------------------------------------------------------------------------------

class ChooseFrom final : public Stage {
 public:
  ChooseFrom(std::vector<StagePtr> inputs, const Where& where) : Stage("choose_from", where, std::move(inputs)) {}
  CursorPtr open(const Pass& pass) const override { return std::make_unique<Chosen>(*this, open_all(inputs(), pass)); }

 private:
  struct Chosen final : Cursor {
    Chosen(const ChooseFrom& s, std::vector<CursorPtr> c) : Cursor(s), stage(s), cursors(std::move(c)) {}
    Item next() override {
      const int64_t n = int64_t(cursors.size()) - 1;  // the last one has the choices
      while (!ended) {
        Item choice = cursors.back()->next();
        if (!choice) break;
        const int64_t which = choice.as<int64_t>();
        if (which < 0 || which >= n)
          fail_in(stage, fmt::format("choice {} is {}, and there are {} datasets, from 0 on", number++, which, n));
        ++number;
        if (Item x = cursors[size_t(which)]->next()) return x;
        break;
      }
      ended = true;
      return {};
    }
    void save(StateWriter& w) const override {
      w.number(number), w.number(ended);
      for (const CursorPtr& c : cursors) c->save(w);
    }
    void restore(StateReader& r) override {
      number = r.count(), ended = r.count(1);
      for (const CursorPtr& c : cursors) c->restore(r);
    }
    const ChooseFrom& stage;
    std::vector<CursorPtr> cursors;
    int64_t number = 0;
    bool ended = false;
  };
};

class SampleFrom final : public Stage {
 public:
  SampleFrom(std::vector<StagePtr> inputs, std::vector<double> weights, const SampleOptions& o, const Where& where)
      : Stage("sample_from", where, std::move(inputs)), weights_(std::move(weights)), options_(o) {
    if (weights_.empty()) weights_.assign(this->inputs().size(), 1.0);
    if (weights_.size() != this->inputs().size())
      fail("data::sample_from", fmt::format("{} weights for {} datasets", weights_.size(), this->inputs().size()),
           where);
    double sum = 0;
    for (const double w : weights_) {
      if (!(w >= 0 && w < 1e300))
        fail("data::sample_from", fmt::format("a weight is {} and must be finite and not negative", w), where);
      sum += w;
    }
    if (sum == 0) fail("data::sample_from", "all weights are 0", where);
  }
  bool draws() const override { return !options_.seed || Stage::draws(); }
  CursorPtr open(const Pass& pass) const override {
    const uint64_t seed = mixed(options_.seed.value_or(pass.seed) + mixed(pass.epoch));
    return std::make_unique<Sampled>(*this, open_all(inputs(), pass), seed);
  }

 private:
  struct Sampled final : Cursor {
    Sampled(const SampleFrom& s, std::vector<CursorPtr> c, uint64_t with)
        : Cursor(s), stage(s), cursors(std::move(c)), seed(with), left(s.weights_) {}
    Item next() override {
      for (;;) {
        double sum = 0;
        for (const double w : left) sum += w;
        if (sum == 0) return {};
        double at = Draws(seed, 2).uniform(uint64_t(number++)) * sum;
        size_t which = 0;
        for (size_t i = 0; i < left.size(); ++i) {
          if (left[i] == 0) continue;
          which = i;
          if (at < left[i]) break;
          at -= left[i];
        }
        if (Item x = cursors[which]->next()) return x;
        left[which] = 0;
        if (stage.options_.stop_at_first_end) left.assign(left.size(), 0.0);
      }
    }
    void save(StateWriter& w) const override {
      w.number(number);
      for (size_t i = 0; i < left.size(); ++i) w.number(left[i] == 0), cursors[i]->save(w);
    }
    void restore(StateReader& r) override {
      number = r.count();
      for (size_t i = 0; i < left.size(); ++i) {
        left[i] = r.count(1) ? 0.0 : stage.weights_[i];
        cursors[i]->restore(r);
      }
    }
    const SampleFrom& stage;
    std::vector<CursorPtr> cursors;
    uint64_t seed;
    std::vector<double> left;  // weights, 0 of those that have ended
    int64_t number = 0;
  };
  std::vector<double> weights_;
  SampleOptions options_;
};

// --- interleave ------------------------------------------------------------------------------------------------------

// For each element a dataset, `cycle` of which are open and yield `block` elements in turn: TensorFlow's order.
class Interleave final : public Stage {
 public:
  Interleave(StagePtr input, Callback<StagePtr(Item&)> f, const InterleaveOptions& o, const Where& where)
      : Stage("interleave", where, {std::move(input)}), f_(std::move(f)), options_(o) {
    if (o.cycle < 1 || o.cycle > 4096)
      fail("data::interleave", fmt::format("the cycle is {} and must be from 1 to 4096", o.cycle), where);
    if (o.block < 1) fail("data::interleave", fmt::format("the block is {} and must be 1 or more", o.block), where);
    if (o.threads < 1 || o.threads > 256)
      fail("data::interleave", fmt::format("threads is {} and must be from 1 to 256", o.threads), where);
  }
  CursorPtr open(const Pass& pass) const override {
    return std::make_unique<Turns>(*this, input()->begin(pass.for_input()), pass);
  }
  bool draws() const override { return true; }  // the dataset of f may
  int own_threads() const override { return options_.threads; }
  std::string details() const override { return fmt::format("  cycle {}, block {}", options_.cycle, options_.block); }

 private:
  struct Open {
    CursorPtr cursor;    // null: the next dataset is opened when its turn comes
    std::string before;  // the position of the input at the element of this dataset
    int64_t number = 0;  // of that element
  };
  struct Turns final : Cursor {
    Turns(const Interleave& s, CursorPtr from, const Pass& p)
        : Cursor(s), stage(s), calls(s, p), input(std::move(from)), pass(p), slots(size_t(s.options_.cycle)) {}
    Item next() override {
      for (size_t idle = 0; idle < slots.size();) {
        Open& slot = slots[which];
        if (!slot.cursor && (ended || !open(slot))) {
          ++idle;
          turn();
          continue;
        }
        idle = 0;
        Item x;
        try {
          x = slot.cursor->next();
        } catch (...) {
          if (++given == stage.options_.block) turn();
          throw;
        }
        if (x) {
          if (++given == stage.options_.block) turn();
          return x;
        }
        slot.cursor.reset();
        turn();
      }
      return {};
    }
    void turn() { which = (which + 1) % slots.size(), given = 0; }
    // The dataset of the input's next element.
    bool open(Open& slot) {
      StateWriter w;
      input->save(w);
      Item x = input->next();
      if (!x) {
        ended = true;
        return false;
      }
      try {
        StagePtr recipe;
        {
          const CallScope scope(calls, number);
          recipe = stage.f_(x);
        }
        // Read ahead by the pool, where several are to be read at once.
        if (stage.options_.threads > 1)
          recipe = prefetch(recipe, {.depth = std::max<int64_t>(2, stage.options_.block)}, stage.where(),
                            stage.options_.threads);
        slot.cursor = recipe->begin(pass.for_inner(number));
      } catch (...) {
        fail_at_element(stage, number++, &x);
      }
      slot.before = std::move(w.bytes);
      slot.number = number++;
      return true;
    }
    void save(StateWriter& w) const override {
      w.number(number), w.number(ended), w.number(int64_t(which)), w.number(given);
      for (const Open& slot : slots) {
        w.number(bool(slot.cursor));
        if (!slot.cursor) continue;
        w.text(slot.before), w.number(slot.number);
        if (stage.options_.threads > 1) slot.cursor->save(w);
        else Lookahead::save_plain(*slot.cursor, 0, w);
      }
      StateWriter now;
      input->save(now);
      w.text(now.bytes);
    }
    void restore(StateReader& r) override {
      const int64_t were = r.count();
      const bool at_end = r.count(1);
      which = size_t(r.count(int64_t(slots.size()) - 1)), given = r.count();
      for (Open& slot : slots) {
        slot.cursor.reset();
        if (!r.count(1)) continue;
        StateReader state(r.text());
        input->restore(state);
        number = r.count();
        if (!open(slot)) fail("Iterator.restore", "the input of interleave() has fewer elements than it had");
        if (stage.options_.threads > 1) slot.cursor->restore(r);
        else Lookahead::restore_plain(*slot.cursor, r);
      }
      StateReader state(r.text());
      input->restore(state);
      number = were, ended = at_end;
    }
    const Interleave& stage;
    const Calls calls;
    CursorPtr input;
    Pass pass;
    std::vector<Open> slots;
    size_t which = 0;
    int64_t given = 0, number = 0;
    bool ended = false;
  };
  Callback<StagePtr(Item&)> f_;
  InterleaveOptions options_;
};

}  // namespace

StagePtr zip(std::vector<StagePtr> inputs, Join join, const Where& where) {
  return std::make_shared<Zip>(std::move(inputs), std::move(join), where);
}
StagePtr concatenate(std::vector<StagePtr> inputs, const Where& where) {
  return std::make_shared<Concatenate>(std::move(inputs), where);
}
StagePtr interleave(StagePtr input, Callback<StagePtr(Item&)> f, const InterleaveOptions& o, const Where& where) {
  return std::make_shared<Interleave>(std::move(input), std::move(f), o, where);
}
StagePtr choose_from(std::vector<StagePtr> inputs, StagePtr choices, const Where& where) {
  if (inputs.empty()) fail("data::choose_from", "there are no datasets to choose from", where);
  inputs.push_back(std::move(choices));
  return std::make_shared<ChooseFrom>(std::move(inputs), where);
}
StagePtr sample_from(std::vector<StagePtr> inputs, std::vector<double> weights, const SampleOptions& o,
                     const Where& where) {
  return std::make_shared<SampleFrom>(std::move(inputs), std::move(weights), o, where);
}

}  // namespace rill::data::stages
