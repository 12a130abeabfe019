// window: elements that follow each other, as one; windows may overlap, or leave elements out.
#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "rill/data/engine/lookahead.h"
#include "rill/data/stages/stages.h"

namespace rill::data::stages {
namespace {

// Window k has the elements k * shift, k * shift + stride, ..., n of them.
class Window final : public Stage {
 public:
  Window(StagePtr input, int64_t n, const WindowOptions& o, Join join, const Where& where)
      : Stage("window", where, {std::move(input)}),
        n_(n),
        shift_(o.shift == 0 ? n : o.shift),
        stride_(o.stride),
        partial_(o.partial),
        join_(std::move(join)) {
    constexpr int64_t most = 1 << 30;
    const auto require = [&](const char* what, int64_t value, int64_t least) {
      if (value < least || value > most)
        fail("data::window", fmt::format("{} is {} and must be from {} to {}", what, value, least, most), where);
    };
    require("the size", n, 1), require("shift", o.shift, 0), require("stride", o.stride, 1);
  }
  std::optional<int64_t> size() const override {
    const auto all = input()->size();
    if (!all || *all == endless) return all;
    if (partial_) return (*all + shift_ - 1) / shift_;
    return *all < span() ? 0 : (*all - span()) / shift_ + 1;
  }
  bool is_indexed() const override { return input()->is_indexed(); }
  Item at(int64_t i, const Pass& pass) const override {
    std::vector<Item> items;
    const int64_t first = i * shift_, end = std::min(first + span(), *input()->size());
    for (int64_t k = first; k < end; k += stride_) items.push_back(input()->at(k, pass));
    return join_(items);
  }
  CursorPtr open(const Pass& pass) const override { return std::make_unique<Windows>(*this, input()->begin(pass)); }
  std::string details() const override {
    return fmt::format("({}{}{})", n_, shift_ == n_ ? "" : fmt::format(", shift {}", shift_),
                       stride_ == 1 ? "" : fmt::format(", stride {}", stride_));
  }

 private:
  // From the first element of a window past its last.
  int64_t span() const { return (n_ - 1) * stride_ + 1; }

  struct Windows final : Cursor {
    Windows(const Window& s, CursorPtr from) : Cursor(s), stage(s), input(std::move(from)) {}
    // If an element fails, the window continues without it at the next call.
    Item next() override {
      while (!ended && int64_t(held.size()) < stage.span()) read();
      if (held.empty() || (int64_t(held.size()) < stage.span() && !stage.partial_)) return {};
      std::vector<Item> items;
      const size_t end = std::min(held.size(), size_t(stage.span()));
      for (size_t i = 0; i < end; i += size_t(stage.stride_)) items.push_back(held[i].item.copy());
      go_past(stage.shift_);
      return stage.join_(items);
    }
    struct Held {
      Item item;
      int64_t number;  // of the input's elements, those that failed counted
    };
    void read() {
      const int64_t number = ahead.read();
      ahead.about_to_read(*input);
      Item x = input->next();
      ended = !x;
      if (ended) ahead.was_end();
      else held.push_back({std::move(x), number});
    }
    void go_past(int64_t n) {
      const int64_t here = std::min(n, int64_t(held.size()));
      held.erase(held.begin(), held.begin() + here);
      ahead.given(held.empty() ? ahead.read() : held.front().number);
      if (n == here || ended) return;
      const int64_t more = input->skip(n - here);  // between the windows
      ended = more < n - here;
      ahead.jump(more);
    }
    int64_t skip(int64_t n) override {
      const auto all = stage.input()->size();
      if (!all || *all == endless || n < 1 || n > endless / stage.shift_ || !stage.partial_) return Cursor::skip(n);
      const int64_t left = *all - at();
      const int64_t gone = std::min(n, (left + stage.shift_ - 1) / stage.shift_);
      go_past(std::min(gone * stage.shift_, left));
      return gone;
    }
    // The number of the first element that is held, or of the next.
    int64_t at() const { return held.empty() ? ahead.read() : held.front().number; }
    // Held elements are read again; errors between them were reported.
    void save(StateWriter& w) const override {
      w.number(ended), w.number(int64_t(held.size())), w.number(ahead.read() - ahead.given());
      ahead.save(*input, w);
    }
    void restore(StateReader& r) override {
      const bool at_end = r.count(1);
      const int64_t count = r.count(), again = r.count();
      ahead.restore(*input, r);
      held.clear();
      ended = false;
      for (int64_t i = 0; i < again && !ended; ++i) try {
          read();
        } catch (...) {
        }
      if (int64_t(held.size()) != count)
        fail("Iterator.restore", "the input of window() gives other elements than it gave");
      ended = at_end;
    }
    const Window& stage;
    CursorPtr input;
    Lookahead ahead;
    std::deque<Held> held;
    bool ended = false;
  };
  int64_t n_, shift_, stride_;
  bool partial_;
  Join join_;
};

}  // namespace

StagePtr window(StagePtr input, int64_t n, const WindowOptions& o, Join join, const Where& where) {
  return std::make_shared<Window>(std::move(input), n, o, std::move(join), where);
}

}  // namespace rill::data::stages
