// Where an input stood at elements that were not given yet: for stages that read ahead. States of the input are kept at
// some of them, not at each, and a restored pass goes past the few between again.
#pragma once
#include <algorithm>
#include <deque>

#include "rill/data/stage.h"

namespace rill::data {

class Lookahead {
 public:
  // Before the input is asked for its next element.
  void about_to_read(const Cursor& input) {
    if (read_ >= next_kept_) keep(input);
    ++read_;
  }
  // The first `n` elements that were read need not be read again.
  void given(int64_t n) {
    given_ = n;
    while (kept_.size() > 1 && kept_[1].at <= n) kept_.pop_front();
  }
  // The input went past n elements, which are as if read and given. Nothing may be ahead.
  void jump(int64_t n) {
    given_ = read_ = read_ + n;
    kept_.clear();
    next_kept_ = read_;
  }
  int64_t read() const { return read_; }
  int64_t given() const { return given_; }

  void save(const Cursor& input, StateWriter& w) const {
    w.number(given_);
    if (kept_.empty() || read_ == given_) {  // nothing is ahead
      StateWriter now;
      input.save(now);
      w.number(0), w.text(now.bytes);
    } else {
      w.number(given_ - kept_.front().at), w.text(kept_.front().state);
    }
  }
  void restore(Cursor& input, StateReader& r) {
    given_ = read_ = r.count();
    const int64_t past = r.count(given_);
    StateReader state(r.text());
    input.restore(state);
    input.skip(past);
    kept_.clear();
    next_kept_ = read_;
  }

 private:
  struct Kept {
    int64_t at;
    std::string state;
  };
  void keep(const Cursor& input) {
    StateWriter w;
    input.save(w);
    next_kept_ = read_ + std::max<int64_t>(16, int64_t(w.bytes.size()) / 8);  // so that it costs little an element
    kept_.push_back({read_, std::move(w.bytes)});
  }
  std::deque<Kept> kept_;
  int64_t read_ = 0, given_ = 0, next_kept_ = 0;
};

}  // namespace rill::data
