// What stages share: passes in an order, errors with their origin, and the tree as text. See stage.h.
#include "rill/data/stage.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/data/engine/seeds.h"

namespace rill::data {

Cursor::Cursor(const Stage& stage) : stage_(stage.shared_from_this()) {}
Cursor::~Cursor() = default;
Order::~Order() = default;
Stage::~Stage() = default;

Stage::Stage(std::string name, const Where& where, std::vector<StagePtr> inputs)
    : name_(std::move(name)), where_(caller_or(where)), inputs_(std::move(inputs)) {}

Item Cursor::next_stacked(int64_t, int64_t&) { return {}; }
int64_t Cursor::skip(int64_t n) {
  int64_t gone = 0;
  for (; gone < n; ++gone) try {
      if (!next()) break;
    } catch (...) {  // who goes past an element does not want to know what is wrong with it
    }
  return gone;
}

Pass Pass::for_input(uint64_t which) const {
  Pass p = *this;
  p.seed = mixed(seed + which + 1);
  return p;
}
bool Stage::draws() const {
  return std::ranges::any_of(inputs_, [](const StagePtr& s) { return s->draws(); });
}
Item Stage::at(int64_t) const { fail_in(*this, "its elements cannot be had by number"); }

Item Stage::stacked(const std::vector<int64_t>&) const { return {}; }

namespace {

class InOrder final : public Cursor {
 public:
  InOrder(const Stage& stage, std::shared_ptr<const Order> order)
      : Cursor(stage), stage_(stage), order_(std::move(order)) {}
  Item next() override {
    if (at_ >= order_->size()) return {};
    return stage_.at(order_->at(at_++));
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
  void restore(StateReader& r) override { at_ = r.count(order_->size()); }

 private:
  const Stage& stage_;
  std::shared_ptr<const Order> order_;
  int64_t at_ = 0;
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

CursorPtr Stage::open_in(std::shared_ptr<const Order> order, const Pass&) const {
  return std::make_unique<InOrder>(*this, std::move(order));
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
  std::string text;
  try {
    fail_in(stage, fmt::format("element {}{}: {}", number, of, why));
  } catch (const Error& e) {
    text = e.what();
  }
  std::throw_with_nested(Error(text));
}

}  // namespace rill::data
