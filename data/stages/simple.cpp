// Transformations of one element at a time, which read no further than they must.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "rill/data/engine/calls.h"
#include "rill/data/stages/stages.h"

namespace rill::data::stages {
namespace {

// A cursor over one input that keeps no elements: its state is the input's.
class Through : public Cursor {
 public:
  Through(const Stage& stage, CursorPtr input) : Cursor(stage), input_(std::move(input)) {}
  void save(StateWriter& w) const override { input_->save(w); }
  void restore(StateReader& r) override { input_->restore(r); }

 protected:
  CursorPtr input_;
};

// --- filter, take_while ----------------------------------------------------------------------------------------------

class Filter final : public Stage {
 public:
  Filter(std::string name, StagePtr input, Test test, bool ends, const Where& where)
      : Stage(std::move(name), where, {std::move(input)}), test_(std::move(test)), ends_(ends) {}
  CursorPtr open(const Pass& pass) const override {
    return std::make_unique<Kept>(*this, input()->begin(pass.for_input()), pass);
  }
  bool draws() const override { return true; }  // the test may

 private:
  struct Kept final : Through {
    Kept(const Filter& s, CursorPtr input, const Pass& pass) : Through(s, std::move(input)), stage(s), calls(s, pass) {}
    Item next() override {
      while (!ended) {
        Item x = input_->next();
        ended = !x;
        bool holds = false;
        try {
          const CallScope scope(calls, number);
          holds = x && stage.test_(x);
          ++number;
        } catch (...) {
          fail_at_element(stage, number++, &x);
        }
        if (holds) return x;
        ended |= stage.ends_;
      }
      return {};
    }
    void save(StateWriter& w) const override { w.number(number), w.number(ended), input_->save(w); }
    void restore(StateReader& r) override { number = r.count(), ended = r.count(1), input_->restore(r); }
    const Filter& stage;
    const Calls calls;
    int64_t number = 0;
    bool ended = false;
  };
  Test test_;
  bool ends_;  // at the first that does not hold
};

// --- scan ------------------------------------------------------------------------------------------------------------

class Scan final : public Stage {
 public:
  Scan(StagePtr input, Item initial, Callback<Item(Item&, Item&)> f, Callback<void(Item&, StateWriter&)> save,
       Callback<void(Item&, StateReader&)> restore, const Where& where)
      : Stage("scan", where, {std::move(input)}),
        initial_(std::move(initial)),
        f_(std::move(f)),
        save_(std::move(save)),
        restore_(std::move(restore)) {}
  std::optional<int64_t> size() const override { return input()->size(); }
  CursorPtr open(const Pass& pass) const override {
    return std::make_unique<Carrying>(*this, input()->begin(pass.for_input()), pass);
  }
  bool draws() const override { return true; }  // f may

 private:
  struct Carrying final : Through {
    Carrying(const Scan& s, CursorPtr input, const Pass& pass)
        : Through(s, std::move(input)), stage(s), calls(s, pass), state(s.initial_.copy()) {}
    Item next() override {
      Item x = input_->next();
      if (!x) return {};
      try {
        const CallScope scope(calls, number++);
        return stage.f_(state, x);
      } catch (...) {
        fail_at_element(stage, number - 1, &x);
      }
    }
    void save(StateWriter& w) const override {
      w.number(number);
      Item carried = state.copy();
      stage.save_(carried, w);
      input_->save(w);
    }
    void restore(StateReader& r) override {
      number = r.count();
      stage.restore_(state, r);
      input_->restore(r);
    }
    const Scan& stage;
    const Calls calls;
    Item state;
    int64_t number = 0;
  };
  Item initial_;
  Callback<Item(Item&, Item&)> f_;
  Callback<void(Item&, StateWriter&)> save_;
  Callback<void(Item&, StateReader&)> restore_;
};

// --- take, skip, shard -----------------------------------------------------------------------------------------------

// Elements `first`, first + step, ... of the input, at most `most` of them.
class Slice final : public Stage {
 public:
  Slice(std::string name, StagePtr input, int64_t first, int64_t step, int64_t most, const Where& where)
      : Stage(std::move(name), where, {std::move(input)}), first_(first), step_(step), most_(most) {}
  std::optional<int64_t> size() const override {
    const auto n = input()->size();
    if (!n) return most_ == 0 ? std::optional<int64_t>(0) : std::nullopt;
    if (*n == endless) return most_;
    return std::min(most_, *n > first_ ? (*n - first_ - 1) / step_ + 1 : 0);
  }
  bool is_indexed() const override { return input()->is_indexed(); }
  Item at(int64_t i, const Pass& pass) const override { return input()->at(first_ + i * step_, pass); }
  CursorPtr open(const Pass& pass) const override { return std::make_unique<Parts>(*this, input()->begin(pass)); }
  std::string details() const override {
    return most_ < endless ? fmt::format("({})", most_) : fmt::format("({})", first_);
  }

 private:
  // An order of the slice's elements as one of the input's.
  struct Within final : Order {
    Within(std::shared_ptr<const Order> o, int64_t f, int64_t s) : of(std::move(o)), first(f), step(s) {}
    int64_t size() const override { return of->size(); }
    int64_t at(int64_t i) const override { return first + of->at(i) * step; }
    std::shared_ptr<const Order> of;
    int64_t first, step;
  };
  struct Parts final : Through {
    Parts(const Slice& s, CursorPtr input) : Through(s, std::move(input)), stage(s) {}
    Item next() override {
      if (given >= stage.most_) return {};
      const int64_t gap = given == 0 && !begun ? stage.first_ : stage.step_ - 1;
      begun = true;
      if (gap > 0 && input_->skip(gap) < gap) return {};
      ++given;
      return input_->next();
    }
    int64_t skip(int64_t n) override {
      n = std::min(n, stage.most_ - given);
      if (stage.step_ > 1 || n < 1) return Cursor::skip(n);
      if (!begun && stage.first_ > 0 && input_->skip(stage.first_) < stage.first_) return 0;
      begun = true;
      const int64_t gone = input_->skip(n);
      given += gone;
      return gone;
    }
    void save(StateWriter& w) const override { w.number(given), w.number(begun), input_->save(w); }
    void restore(StateReader& r) override { given = r.count(), begun = r.count(1), input_->restore(r); }
    const Slice& stage;
    int64_t given = 0;
    bool begun = false;
  };
  int64_t first_, step_, most_;
};

// --- shard, within elements ------------------------------------------------------------------------------------------

class RowShard final : public Stage {
 public:
  RowShard(StagePtr input, int64_t count, int64_t index, Function cut, const Where& where)
      : Stage("shard", where, {std::move(input)}), count_(count), index_(index), cut_(std::move(cut)) {}
  std::optional<int64_t> size() const override { return input()->size(); }
  bool is_indexed() const override { return input()->is_indexed(); }
  Item at(int64_t i, const Pass& pass) const override {
    Item x = input()->at(i, pass);
    return part(x, i);
  }
  CursorPtr open(const Pass& pass) const override { return std::make_unique<Parts>(*this, input()->begin(pass)); }
  CursorPtr open_in(std::shared_ptr<const Order> order, const Pass& pass) const override {
    return std::make_unique<Parts>(*this, input()->begin_in(std::move(order), pass));
  }
  std::string details() const override { return fmt::format("({} of {}, of each element)", index_, count_); }

 private:
  Item part(Item& x, int64_t number) const {
    try {
      return cut_(x);
    } catch (...) {
      fail_at_element(*this, number, &x);
    }
  }
  struct Parts final : Through {
    Parts(const RowShard& s, CursorPtr input) : Through(s, std::move(input)), stage(s) {}
    Item next() override {
      Item x = input_->next();
      return x ? stage.part(x, number++) : Item();
    }
    int64_t skip(int64_t n) override {
      const int64_t gone = input_->skip(n);
      number += gone;
      return gone;
    }
    void save(StateWriter& w) const override { w.number(number), input_->save(w); }
    void restore(StateReader& r) override { number = r.count(), input_->restore(r); }
    const RowShard& stage;
    int64_t number = 0;
  };
  int64_t count_, index_;
  Function cut_;
};

// --- with_options ----------------------------------------------------------------------------------------------------

class WithOptions final : public Stage {
 public:
  WithOptions(StagePtr input, const PipelineOptions& o, const Where& where)
      : Stage("with_options", where, {std::move(input)}), options_(o) {
    if (o.threads < 0) fail("data::with_options", fmt::format("threads is {} and must be 1 or more", o.threads), where);
  }
  std::optional<int64_t> size() const override { return input()->size(); }
  bool is_indexed() const override { return input()->is_indexed(); }
  bool draws() const override { return !options_.seed && Stage::draws(); }
  Item at(int64_t i, const Pass& pass) const override { return input()->at(i, told(pass)); }
  CursorPtr open(const Pass& pass) const override { return input()->begin(told(pass)); }
  CursorPtr open_in(std::shared_ptr<const Order> order, const Pass& pass) const override {
    return input()->begin_in(std::move(order), told(pass));
  }

 private:
  Pass told(Pass pass) const {
    if (options_.threads > 0) pass.most_threads = std::min(pass.most_threads, options_.threads);
    if (options_.seed) pass.seed = mixed(*options_.seed);
    return pass;
  }
  PipelineOptions options_;
};

// --- ignore_errors ---------------------------------------------------------------------------------------------------

class IgnoreErrors final : public Stage {
 public:
  IgnoreErrors(StagePtr input, const IgnoreErrorsOptions& o, const Where& where)
      : Stage("ignore_errors", where, {std::move(input)}), options_(o) {
    if (o.at_most < 0)
      fail("data::ignore_errors", fmt::format("at_most is {} and must not be negative", o.at_most), where);
  }
  CursorPtr open(const Pass& pass) const override { return std::make_unique<Sound>(*this, input()->begin(pass)); }

 private:
  struct Sound final : Through {
    Sound(const IgnoreErrors& s, CursorPtr input) : Through(s, std::move(input)), stage(s) {}
    Item next() override {
      for (;;) try {
          return input_->next();
        } catch (const std::exception& e) {
          if (++dropped > stage.options_.at_most)
            fail_in(stage, fmt::format("{} elements were dropped, and at most {} may be. the last error: {}", dropped,
                                       stage.options_.at_most, e.what()));
          log(e.what());
        }
    }
    void log(const char* why) {
      using Clock = std::chrono::steady_clock;
      if (!stage.options_.log || (dropped > 1 && Clock::now() - said < std::chrono::seconds(1))) return;
      said = Clock::now();
      std::fprintf(stderr, "rill: dropped (%lld so far): %s\n", static_cast<long long>(dropped), why);
    }
    void save(StateWriter& w) const override { w.number(dropped), input_->save(w); }
    void restore(StateReader& r) override { dropped = r.count(), input_->restore(r); }
    const IgnoreErrors& stage;
    int64_t dropped = 0;
    std::chrono::steady_clock::time_point said;
  };
  IgnoreErrorsOptions options_;
};

}  // namespace

StagePtr filter(StagePtr input, Test keep, const Where& where) {
  return std::make_shared<Filter>("filter", std::move(input), std::move(keep), false, where);
}
StagePtr take_while(StagePtr input, Test goes_on, const Where& where) {
  return std::make_shared<Filter>("take_while", std::move(input), std::move(goes_on), true, where);
}
StagePtr scan(StagePtr input, Item initial, Callback<Item(Item&, Item&)> f, Callback<void(Item&, StateWriter&)> save,
              Callback<void(Item&, StateReader&)> restore, const Where& where) {
  return std::make_shared<Scan>(std::move(input), std::move(initial), std::move(f), std::move(save), std::move(restore),
                                where);
}

namespace {
void require_count(const char* op, const char* option, int64_t n, int64_t least, const Where& where) {
  if (n < least) fail(op, fmt::format("{} is {} and must be {} or more", option, n, least), where);
}
}  // namespace

StagePtr take(StagePtr input, int64_t n, const Where& where) {
  require_count("data::take", "the count", n, 0, where);
  return std::make_shared<Slice>("take", std::move(input), 0, 1, n, where);
}
StagePtr skip(StagePtr input, int64_t n, const Where& where) {
  require_count("data::skip", "the count", n, 0, where);
  return std::make_shared<Slice>("skip", std::move(input), n, 1, endless, where);
}
namespace {
void require_shard(int64_t count, int64_t index, const Where& where) {
  require_count("data::shard", "the number of shards", count, 1, where);
  if (index < 0 || index >= count)
    fail("data::shard", fmt::format("the index is {} and must be from 0 to {}", index, count - 1), where);
}
}  // namespace

StagePtr shard(StagePtr input, int64_t count, int64_t index, const Where& where) {
  require_shard(count, index, where);
  return std::make_shared<Slice>("shard", std::move(input), index, count, endless, where);
}
StagePtr shard_rows(StagePtr input, int64_t count, int64_t index, Function cut, const Where& where) {
  require_shard(count, index, where);
  return std::make_shared<RowShard>(std::move(input), count, index, std::move(cut), where);
}
StagePtr with_options(StagePtr input, const PipelineOptions& o, const Where& where) {
  return std::make_shared<WithOptions>(std::move(input), o, where);
}
StagePtr ignore_errors(StagePtr input, const IgnoreErrorsOptions& o, const Where& where) {
  return std::make_shared<IgnoreErrors>(std::move(input), o, where);
}

}  // namespace rill::data::stages
