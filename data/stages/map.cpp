// map: on the thread that asks, or ahead of it on those of the pool, in order or as elements become ready.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>
#include <thread>

#include "rill/data/engine/lookahead.h"
#include "rill/data/engine/pool.h"
#include "rill/data/stages/stages.h"

namespace rill::data::stages {
namespace {

class Map final : public Stage {
 public:
  Map(StagePtr input, Function f, const MapOptions& o, const Where& where)
      : Stage("map", where, {std::move(input)}), f_(std::move(f)), ordered_(o.ordered) {
    if (o.threads < 0 || o.threads > 256)
      fail("data::map", fmt::format("threads is {} and must be from 0 (one a core) to 256", o.threads), where);
    threads_ = o.threads ? o.threads : std::max(1, int(std::thread::hardware_concurrency()));
  }
  std::optional<int64_t> size() const override { return input()->size(); }
  bool is_indexed() const override { return input()->is_indexed(); }
  Item at(int64_t i) const override {
    Item x = input()->at(i);
    return call(x, i);
  }
  CursorPtr open(const Pass& pass) const override { return over(input()->open(pass)); }
  CursorPtr open_in(std::shared_ptr<const Order> order, const Pass& pass) const override {
    return over(input()->open_in(std::move(order), pass));
  }
  std::string details() const override {
    return threads_ > 1 ? fmt::format("  {} threads{}", threads_, ordered_ ? "" : ", in any order") : "";
  }

  Item call(Item& x, int64_t number) const {
    try {
      return f_(x);
    } catch (...) {
      fail_at_element(*this, number, &x);
    }
  }
  int threads() const { return threads_; }
  bool ordered() const { return ordered_; }

 private:
  CursorPtr over(CursorPtr input) const;
  Function f_;
  int threads_;
  bool ordered_;
};

class OneByOne final : public Cursor {
 public:
  OneByOne(const Map& stage, CursorPtr input) : Cursor(stage), stage_(stage), input_(std::move(input)) {}
  Item next() override {
    for (;; ++number_) {
      if (!before_.empty() && *before_.begin() == number_) {
        before_.erase(before_.begin());
        input_->skip(1);
        continue;
      }
      Item x = input_->next();
      return x ? stage_.call(x, number_++) : Item();
    }
  }
  int64_t skip(int64_t n) override {
    const int64_t gone = input_->skip(n);
    number_ += gone;
    return gone;
  }
  // As Ahead's; it may have been that which saved, and had given some before older ones.
  void save(StateWriter& w) const override {
    Lookahead::save_plain(*input_, number_, w);
    w.number(int64_t(before_.size()));
    for (int64_t n : before_) w.number(n - number_);
  }
  void restore(StateReader& r) override {
    number_ = Lookahead::restore_plain(*input_, r);
    before_.clear();
    for (int64_t n = r.count(); n > 0; --n) before_.insert(number_ + r.count());
  }

 private:
  const Map& stage_;
  CursorPtr input_;
  std::set<int64_t> before_;
  int64_t number_ = 0;
};

// Elements in work: the oldest first.
class Ahead final : public Cursor {
 public:
  Ahead(const Map& stage, CursorPtr input) : Cursor(stage), stage_(stage), input_(std::move(input)) {}
  ~Ahead() override { drop(); }

  Item next() override {
    fill();
    if (work_.empty()) return {};
    const size_t which = choose();
    const std::shared_ptr<Call> call = work_[which];
    Pool::finish(*call);
    give(which);
    if (call->error) std::rethrow_exception(std::exchange(call->error, nullptr));
    return std::move(call->y);
  }
  int64_t skip(int64_t n) override {
    int64_t gone = 0;
    for (; gone < n && !work_.empty(); ++gone) {
      Pool::abandon(*work_[0]);
      give(0);
    }
    if (gone == n || ended_) return gone;
    const int64_t more = input_->skip(n - gone);
    ahead_.jump(more);
    return gone + more;
  }
  void save(StateWriter& w) const override {
    ahead_.save(*input_, w);
    w.number(int64_t(before_.size()));
    for (int64_t n : before_) w.number(n - ahead_.given());
  }
  void restore(StateReader& r) override {
    drop();
    ended_ = false;
    ahead_.restore(*input_, r);
    before_.clear();
    for (int64_t n = r.count(); n > 0; --n) before_.insert(ahead_.given() + r.count());
  }

 private:
  struct Call final : Task {
    Call(const Map& s, Item item, int64_t n) : stage(s), x(std::move(item)), number(n) {}
    void run() noexcept override {
      try {
        if (!error) y = stage.call(x, number);
      } catch (...) {
        error = std::current_exception();
      }
      x = Item();
    }
    const Map& stage;
    Item x, y;
    int64_t number;
    std::exception_ptr error;
  };

  void fill() {
    const size_t most = 2 * size_t(stage_.threads());
    while (!ended_ && work_.size() < most) {
      const int64_t number = ahead_.read();
      ahead_.about_to_read(*input_);
      Item x;
      std::exception_ptr error;
      try {
        x = input_->next();
        ended_ = !x;
      } catch (...) {
        error = std::current_exception();
      }
      if (ended_ || before_.contains(number)) continue;
      work_.push_back(std::make_shared<Call>(stage_, std::move(x), number));
      work_.back()->error = error;
      if (!error) Pool::get().start(work_.back(), stage_.threads());
    }
  }
  size_t choose() const {
    if (stage_.ordered()) return 0;
    for (size_t i = 0; i < work_.size(); ++i)
      if (Pool::is_done(*work_[i]) || work_[i]->error) return i;
    return 0;
  }
  void give(size_t which) {
    if (which > 0) before_.insert(work_[which]->number);
    work_.erase(work_.begin() + std::ptrdiff_t(which));
    const int64_t oldest = work_.empty() ? ahead_.read() - ended_ : work_.front()->number;
    before_.erase(before_.begin(), before_.lower_bound(oldest));
    ahead_.given(oldest);
  }
  void drop() {
    for (const auto& call : work_) Pool::abandon(*call);
    work_.clear();
  }

  const Map& stage_;
  CursorPtr input_;
  Lookahead ahead_;
  std::deque<std::shared_ptr<Call>> work_;
  std::set<int64_t> before_;  // given before older ones
  bool ended_ = false;
};

CursorPtr Map::over(CursorPtr input) const {
  if (threads_ == 1) return std::make_unique<OneByOne>(*this, std::move(input));
  return std::make_unique<Ahead>(*this, std::move(input));
}

}  // namespace

StagePtr map(StagePtr input, Function f, const MapOptions& o, const Where& where) {
  return std::make_shared<Map>(std::move(input), std::move(f), o, where);
}

}  // namespace rill::data::stages
