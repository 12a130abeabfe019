// Shared by stages: passes in an order, errors with their origin, and the tree as text. See stage.h.
#include "rill/data/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "rill/data/engine/pool.h"
#include "rill/data/engine/stats.h"

namespace rill::data {

namespace {
// Each stage needs some hundred bytes of the stack for a call of the next, and threads have a few MB.
constexpr int max_depth = 4000;
}  // namespace

Cursor::Cursor(const Stage& stage) : stage_(stage.shared_from_this()) {}
Cursor::~Cursor() = default;
Order::~Order() = default;
Stage::~Stage() = default;

Stage::Stage(std::string name, const Where& where, std::vector<StagePtr> inputs)
    : name_(std::move(name)), where_(caller_or(where)), inputs_(std::move(inputs)) {
  for (const StagePtr& input : inputs_) depth_ = std::max(depth_, input->depth_ + 1);
  if (depth_ > max_depth)
    fail("data::" + name_,
         fmt::format("{} transformations stand behind each other, which is more than the {} that a pass has room for. "
                     "of many datasets make one at once: concatenate({{a, b, c}})",
                     depth_, max_depth),
         where_);
}

Item Cursor::next_stacked(int64_t, int64_t&) { return {}; }
int64_t Cursor::skip(int64_t n) {
  int64_t gone = 0;
  for (; gone < n; ++gone) try {
      if (!next()) break;
    } catch (...) {  // errors of skipped elements do not matter
    }
  return gone;
}

Pass Pass::for_input(uint64_t which) const {
  Pass p = *this;
  p.seed = mixed(seed + which + 1);
  return p;
}
Pass Pass::for_inner(int64_t number) const {
  Pass p = for_input(uint64_t(number) + 1);
  p.stats = nullptr;
  return p;
}
CursorPtr Stage::begin(const Pass& pass) const { return counted_in(pass, *this, open(pass)); }
CursorPtr Stage::begin_in(std::shared_ptr<const Order> order, const Pass& pass) const {
  return counted_in(pass, *this, open_in(std::move(order), pass));
}
int Stage::threads() const {
  int most = own_threads();
  for (const StagePtr& input : inputs_) most = std::max(most, input->threads());
  return most;
}
bool Stage::draws() const {
  return std::ranges::any_of(inputs_, [](const StagePtr& s) { return s->draws(); });
}
Item Stage::at(int64_t, const Pass&) const { fail_in(*this, "its elements cannot be had by number"); }

Item Stage::stacked(const std::vector<int64_t>&) const { return {}; }

namespace {

// The element at which a state continues. It may be beyond the present number of elements, if files were removed, say.
int64_t position_in(const Order& order, StateReader& r, const Stage& stage) {
  const int64_t at = r.count();
  if (at > order.size())
    fail(
        "Iterator.restore",
        fmt::format("{} elements of {} were given, and now it has {}: its source has become smaller, or is another one",
                    at, stage.name(), order.size()),
        stage.where());
  return at;
}

class InOrder final : public Cursor {
 public:
  InOrder(const Stage& stage, std::shared_ptr<const Order> order, const Pass& pass)
      : Cursor(stage), stage_(stage), order_(std::move(order)), pass_(pass) {}
  Item next() override {
    if (at_ >= order_->size()) return {};
    return stage_.at(order_->at(at_++), pass_);
  }
  Item next_stacked(int64_t n, int64_t& count) override {
    std::vector<int64_t> indices;
    const int64_t end = at_ + std::min(n, order_->size() - at_);
    for (int64_t i = at_; i < end; ++i) indices.push_back(order_->at(i));
    if (indices.empty()) return {};
    Item rows = stage_.stacked(indices);
    if (rows) at_ = end, count = int64_t(indices.size());
    return rows;
  }
  int64_t skip(int64_t n) override {
    const int64_t gone = std::min(n, order_->size() - at_);
    at_ += gone;
    return gone;
  }
  void save(StateWriter& w) const override { w.number(at_); }
  void restore(StateReader& r) override { at_ = position_in(*order_, r, stage_); }

 private:
  const Stage& stage_;
  std::shared_ptr<const Order> order_;
  Pass pass_;
  int64_t at_ = 0;
};

// The same on threads, ahead of the consumer.
class InOrderAhead final : public Cursor {
 public:
  InOrderAhead(const Stage& stage, std::shared_ptr<const Order> order, const Pass& pass, int threads)
      : Cursor(stage), stage_(stage), order_(std::move(order)), pass_(pass), threads_(threads) {}
  ~InOrderAhead() override { drop(); }
  Item next() override {
    while (at_ + int64_t(work_.size()) < order_->size() && int(work_.size()) < 2 * threads_) {
      work_.push_back(std::make_shared<Made>(*this, order_->at(at_ + int64_t(work_.size()))));
      Pool::get().start(work_.back(), threads_);
    }
    if (work_.empty()) return {};
    const std::shared_ptr<Made> first = std::move(work_.front());
    work_.pop_front();
    ++at_;
    Pool::finish(*first);
    if (first->error) std::rethrow_exception(std::exchange(first->error, nullptr));
    return std::move(first->item);
  }
  int64_t skip(int64_t n) override {
    const int64_t gone = std::min(n, order_->size() - at_);
    for (int64_t i = 0; i < gone && !work_.empty(); ++i) {
      Pool::abandon(*work_.front());
      work_.pop_front();
    }
    at_ += gone;
    return gone;
  }
  void save(StateWriter& w) const override { w.number(at_); }
  void restore(StateReader& r) override {
    drop();
    at_ = position_in(*order_, r, stage_);
  }

 private:
  struct Made final : Task {
    Made(const InOrderAhead& c, int64_t i) : cursor(c), index(i) {}
    void run() noexcept override {
      try {
        item = cursor.stage_.at(index, cursor.pass_);
      } catch (...) {
        error = std::current_exception();
      }
    }
    const InOrderAhead& cursor;
    int64_t index;
    Item item;
    std::exception_ptr error;
  };
  void drop() {
    for (const auto& made : work_) Pool::abandon(*made);
    work_.clear();
  }
  const Stage& stage_;
  std::shared_ptr<const Order> order_;
  Pass pass_;
  int threads_;
  int64_t at_ = 0;
  std::deque<std::shared_ptr<Made>> work_;
};

void describe(const Stage& stage, int depth, std::string& text) {
  text += fmt::format("{:{}}{}{}", "", 2 * depth, stage.name(), stage.details());
  if (const auto n = stage.size(); n && *n != endless) text += fmt::format("  {} element{}", *n, *n == 1 ? "" : "s");
  text += '\n';
  for (const StagePtr& input : stage.inputs()) describe(*input, depth + 1, text);
}

// The first text in a value: a path, or a line of a file.
class FirstText final : public LeafVisitor {
 public:
  void tensor(Tensor& t) override {
    if (text.empty() && t.defined() && t.dtype() == DType::string && t.size() == 1)
      text = t.to_vector<std::string>()[0];
  }
  void constant(const void* bytes, size_t n) override {
    if (text.empty() && is_text_) text.assign(static_cast<const char*>(bytes), n);
    is_text_ = false;
  }
  void structure(size_t n) override { is_text_ = n > 0; }
  std::string text;

 private:
  bool is_text_ = false;
};

constexpr size_t longest_shown = 200;

}  // namespace

CursorPtr Stage::open_in(std::shared_ptr<const Order> order, const Pass& pass) const {
  const int n = std::min(threads(), pass.most_threads);
  if (n > 1) return std::make_unique<InOrderAhead>(*this, std::move(order), pass, n);
  return std::make_unique<InOrder>(*this, std::move(order), pass);
}

std::string names_of(const Stage& stage) {
  std::string names = stage.name();
  for (const StagePtr& input : stage.inputs()) names += fmt::format("({})", names_of(*input));
  return names;
}

std::string describe(const Stage& stage) {
  std::string text;
  describe(stage, 0, text);
  return text;
}

void fail_in(const Stage& stage, const std::string& message) { fail("data::" + stage.name(), message, stage.where()); }

void fail_at_element(const Stage& stage, int64_t number, Item* input) {
  std::string of, why = "an exception that is no std::exception";
  if (input) {
    FirstText first;
    input->visit(first);
    if (!first.text.empty()) of = fmt::format(" ('{}')", first.text.substr(0, longest_shown));
  }
  try {
    throw;
  } catch (const std::exception& e) {
    why = e.what();
  } catch (...) {
  }
  // Errors of the stage itself have this prefix already.
  const std::string own = fmt::format("{}: [data::{}] ", rill::to_string(stage.where()), stage.name());
  if (why.starts_with(own)) why.erase(0, own.size());
  std::string text;
  try {
    fail_in(stage, fmt::format("element {}{}: {}", number, of, why));
  } catch (const Error& e) {
    text = e.what();
  }
  std::throw_with_nested(Error(text));
}

}  // namespace rill::data
