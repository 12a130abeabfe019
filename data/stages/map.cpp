// map: on the consumer's thread, or ahead of it on those of the pool, in order or as elements become ready.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "rill/data/engine/bytes.h"
#include "rill/data/engine/calls.h"
#include "rill/data/engine/lookahead.h"
#include "rill/data/engine/placed_rows.h"
#include "rill/data/engine/pool.h"
#include "rill/data/stages/stages.h"

namespace rill::data::stages {
namespace {

class Map final : public Stage {
 public:
  Map(StagePtr input, Function f, const MapOptions& o, const Where& where)
      : Stage("map", where, {std::move(input)}), f_(std::move(f)), seed_(o.seed), ordered_(o.ordered) {
    if (o.threads < 0 || o.threads > 256)
      fail("data::map", fmt::format("threads is {} and must be from 0 (one a core) to 256", o.threads), where);
    threads_ = o.threads ? o.threads : std::max(1, int(std::thread::hardware_concurrency()));
  }
  std::optional<int64_t> size() const override { return input()->size(); }
  bool is_indexed() const override { return input()->is_indexed(); }
  Item at(int64_t i, const Pass& pass) const override {
    Item x = input()->at(i, pass.for_input());
    return call(x, i, Calls(*this, pass, seed_));
  }
  CursorPtr open(const Pass& pass) const override { return over(input()->begin(pass.for_input()), pass); }
  CursorPtr open_in(std::shared_ptr<const Order> order, const Pass& pass) const override {
    return over(input()->begin_in(std::move(order), pass.for_input()), pass);
  }
  bool draws() const override { return !seed_ || Stage::draws(); }
  int own_threads() const override { return threads_; }
  std::string details() const override {
    return threads_ > 1 ? fmt::format("  {} threads{}", threads_, ordered_ ? "" : ", in any order") : "";
  }

  Item call(Item& x, int64_t number, const Calls& calls) const {
    try {
      const CallScope scope(calls, number);
      return f_(x);
    } catch (...) {
      fail_at_element(*this, number, &x);
    }
  }
  bool ordered() const { return ordered_; }

 private:
  CursorPtr over(CursorPtr input, const Pass& pass) const;
  Function f_;
  std::optional<uint64_t> seed_;
  int threads_;
  bool ordered_;
};

class OneByOne final : public Cursor, public MakesRows {
 public:
  OneByOne(const Map& stage, CursorPtr input, const Calls& calls)
      : Cursor(stage), stage_(stage), calls_(calls), input_(std::move(input)) {}
  Item next() override {
    for (;; ++number_) {
      if (!before_.empty() && *before_.begin() == number_) {
        before_.erase(before_.begin());
        input_->skip(1);
        continue;
      }
      Item x = input_->next();
      if (!x) return x;
      const RowLoan loan = loans_ ? loans_->next() : RowLoan();
      return make_in(loan, [&] { return stage_.call(x, number_++, calls_); });
    }
  }
  int64_t skip(int64_t n) override {
    const int64_t gone = input_->skip(n);
    number_ += gone;
    if (loans_) loans_->restart();
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
    if (loans_) loans_->restart();
  }
  void lend_rows(std::shared_ptr<RowLoans> loans) override { loans_ = std::move(loans); }

 private:
  const Map& stage_;
  const Calls calls_;
  CursorPtr input_;
  std::shared_ptr<RowLoans> loans_;
  std::set<int64_t> before_;
  int64_t number_ = 0;
};

// Elements in work, the oldest first: a task of the pool for each, or for some that are quickly done.
class Ahead final : public Cursor, public MakesRows {
 public:
  Ahead(const Map& stage, CursorPtr input, const Calls& calls, int threads)
      : Cursor(stage), stage_(stage), calls_(calls), threads_(threads), input_(std::move(input)) {}
  ~Ahead() override { drop(); }

  Item next() override {
    fill();
    if (work_.empty()) return {};
    const size_t which = choose();
    const std::shared_ptr<Group> group = work_[which];
    Pool::finish(*group);
    adapt(*group);
    Element& e = give(which);
    if (e.error) std::rethrow_exception(std::exchange(e.error, nullptr));
    return std::move(e.item);
  }
  int64_t skip(int64_t n) override {
    int64_t gone = 0;
    for (; gone < n && !work_.empty(); ++gone) {
      Group& group = *work_[0];
      if (int64_t(group.elements.size() - group.given) <= n - gone) Pool::abandon(group);
      else Pool::finish(group);  // some of it will be needed
      give(0);
    }
    if (gone == n || ended_) return gone;
    const int64_t more = input_->skip(n - gone);
    ahead_.jump(more);
    if (loans_) loans_->restart();
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
    if (loans_) loans_->restart();
  }
  void lend_rows(std::shared_ptr<RowLoans> loans) override {
    if (stage_.ordered()) loans_ = std::move(loans);
  }

 private:
  struct Element {
    Item item;  // the input, then the result
    int64_t number = 0;
    std::exception_ptr error;  // of the input, or of f
    RowLoan loan = {};
  };
  struct Group final : Task {
    explicit Group(const Ahead& c) : cursor(c) {}
    void run() noexcept override {
      const int64_t began = now_ns();
      for (Element& e : elements) try {
          const RowLoan loan = std::move(e.loan);
          if (!e.error) e.item = make_in(loan, [&] { return cursor.stage_.call(e.item, e.number, cursor.calls_); });
        } catch (...) {
          e.error = std::current_exception();
        }
      ns = now_ns() - began;
    }
    const Ahead& cursor;
    std::vector<Element> elements;
    size_t given = 0;  // so many of them
    int64_t ns = 0;
  };

  void fill() {
    while (!ended_ && work_.size() < 2 * size_t(threads_)) {
      auto group = std::make_shared<Group>(*this);
      while (!ended_ && group->elements.size() < group_size_) {
        read(group->elements);
        if (group->elements.size() == 1) fit_bytes(group->elements[0].item);
      }
      if (group->elements.empty()) return;
      work_.push_back(group);
      Pool::get().start(std::move(group), threads_);
    }
  }
  void read(std::vector<Element>& to) {
    Element e{Item(), ahead_.read(), nullptr};
    ahead_.about_to_read(*input_);
    try {
      e.item = input_->next();
      ended_ = !e.item;
    } catch (...) {
      e.error = std::current_exception();
    }
    if (ended_ || before_.contains(e.number)) return;
    if (loans_) e.loan = loans_->next();
    to.push_back(std::move(e));
  }
  // To hand an element over costs about a microsecond.
  void adapt(Group& done) {
    constexpr int64_t worth_a_task_ns = 50'000;
    constexpr size_t most = 64;
    if (done.given > 0 || !stage_.ordered()) return;
    const int64_t each = std::max<int64_t>(done.ns / int64_t(done.elements.size()), 1);
    group_size_ = std::clamp<size_t>(size_t(worth_a_task_ns / each), 1, most);
    fit_bytes(done.elements[0].item);
  }
  // Large elements are few in a group, however quickly they are done: all groups are in memory at once.
  void fit_bytes(Item& one) {
    constexpr int64_t most_bytes = 1 << 20;
    if (group_size_ > 1)
      group_size_ =
          std::min(group_size_, std::max<size_t>(1, size_t(most_bytes / std::max<int64_t>(1, bytes_of(one)))));
  }
  size_t choose() const {
    if (stage_.ordered()) return 0;
    for (size_t i = 0; i < work_.size(); ++i)
      if (Pool::is_done(*work_[i])) return i;
    return 0;
  }
  // The next element of a group, valid until the next one is given.
  Element& give(size_t which) {
    Group& group = *work_[which];
    Element& e = group.elements[group.given++];
    if (which > 0) before_.insert(e.number);
    if (group.given == group.elements.size()) {
      last_ = std::move(work_[which]);
      work_.erase(work_.begin() + std::ptrdiff_t(which));
    }
    const int64_t oldest =
        work_.empty() ? ahead_.read() - ended_ : work_.front()->elements[work_.front()->given].number;
    before_.erase(before_.begin(), before_.lower_bound(oldest));
    ahead_.given(oldest);
    return e;
  }
  void drop() {
    for (const auto& group : work_) Pool::abandon(*group);
    work_.clear();
  }

  const Map& stage_;
  const Calls calls_;
  const int threads_;
  CursorPtr input_;
  Lookahead ahead_;
  std::shared_ptr<RowLoans> loans_;
  std::deque<std::shared_ptr<Group>> work_;
  std::shared_ptr<Group> last_;  // that of the element which next() returns now
  size_t group_size_ = 1;
  std::set<int64_t> before_;  // given before older ones
  bool ended_ = false;
};

CursorPtr Map::over(CursorPtr input, const Pass& pass) const {
  const int n = std::min(threads_, pass.most_threads);
  const Calls calls(*this, pass, seed_);
  if (n == 1) return std::make_unique<OneByOne>(*this, std::move(input), calls);
  return std::make_unique<Ahead>(*this, std::move(input), calls, n);
}

}  // namespace

StagePtr map(StagePtr input, Function f, const MapOptions& o, const Where& where) {
  return std::make_shared<Map>(std::move(input), std::move(f), o, where);
}

}  // namespace rill::data::stages
