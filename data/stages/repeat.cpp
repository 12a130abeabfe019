// repeat: passes through the input, one after the other, each with an epoch of its own.
#include <fmt/format.h>

#include <algorithm>

#include "rill/data/stages/stages.h"

namespace rill::data::stages {
namespace {

class Repeat final : public Stage {
 public:
  Repeat(StagePtr input, std::optional<int64_t> times, const Where& where)
      : Stage("repeat", where, {std::move(input)}), times_(times.value_or(endless)) {
    if (times_ < 0)
      fail("data::repeat", fmt::format("repeats {} times: give 0 or more, or nothing for no end", times_), where);
  }
  std::optional<int64_t> size() const override {
    const auto n = input()->size();
    if (times_ == 0 || n == 0) return 0;
    if (!n) return times_ == endless ? std::optional<int64_t>(endless) : std::nullopt;
    return *n == endless || times_ > endless / *n ? endless : *n * times_;
  }
  CursorPtr open(const Pass& pass) const override { return std::make_unique<Epochs>(*this, pass); }
  std::string details() const override { return times_ == endless ? "()" : fmt::format("({})", times_); }

 private:
  struct Epochs final : Cursor {
    Epochs(const Repeat& s, const Pass& p) : Cursor(s), stage(s), pass(p) { open(); }
    // One repeat() counts the epochs, from the iterator's first; one inside another continues the count.
    void open() {
      Pass p = pass.for_input();
      p.epoch = (pass.repeated ? pass.epoch * uint64_t(stage.times_) : pass.epoch) + uint64_t(epoch);
      p.repeated = true;
      input = stage.input()->begin(p);
    }
    Item next() override {
      while (epoch < stage.times_) {
        if (Item x = input->next()) {
          any = true;
          return x;
        }
        if (!any) epoch = stage.times_;  // one without elements would be tried for ever
        else ++epoch, any = false, open();
      }
      return {};
    }
    int64_t skip(int64_t n) override {
      const auto size = stage.input()->size();
      int64_t gone = 0;
      while (gone < n && epoch < stage.times_) {
        const int64_t here = input->skip(n - gone);
        gone += here, any |= here > 0;
        if (gone == n) break;
        if (!any) {
          epoch = stage.times_;
          break;
        }
        const int64_t whole = size ? std::min((n - gone) / *size, stage.times_ - epoch - 1) : 0;
        gone += whole > 0 ? whole * *size : 0, epoch += 1 + whole, any = false;
        open();
      }
      return gone;
    }
    void save(StateWriter& w) const override { w.number(epoch), w.number(any), input->save(w); }
    void restore(StateReader& r) override {
      epoch = r.count(), any = r.count(1);
      open();
      input->restore(r);
    }
    const Repeat& stage;
    Pass pass;
    CursorPtr input;
    int64_t epoch = 0;
    bool any = false;  // of this epoch
  };
  int64_t times_;
};

}  // namespace

StagePtr repeat(StagePtr input, std::optional<int64_t> times, const Where& where) {
  return std::make_shared<Repeat>(std::move(input), times, where);
}

}  // namespace rill::data::stages
