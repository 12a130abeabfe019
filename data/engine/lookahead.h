// The input's positions at elements that were read but not returned yet: for stages that read ahead. States of the
// input are kept at some of them, not at each, and a restored pass skips the few between again.
#pragma once
#include <algorithm>
#include <deque>

#include "rill/data/stage.h"

namespace rill::data {

class Lookahead {
 public:
  // Call it before reading the input's next element.
  void about_to_read(const Cursor& input) {
    if (read_ >= next_kept_) keep(input);
    ++read_;
  }
  // The input had none any more.
  void was_end() { --read_; }
  // The first `n` elements that were read need not be read again.
  void given(int64_t n) {
    given_ = n;
    while (kept_.size() > 1 && kept_[1].at <= n) kept_.pop_front();
  }
  // Element `n` need not be read again; those before it may have to be.
  void given_one(int64_t n) {
    const auto i = size_t(n - given_);
    if (gone_.size() <= i) gone_.resize(i + 1);
    gone_[i] = true;
    int64_t first = given_;
    for (; !gone_.empty() && gone_.front(); ++first) gone_.pop_front();
    given(first);
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
    kept_.clear(), gone_.clear();
    next_kept_ = read_;
  }

  // The same for an input of which nothing is ahead, so that a stage may be saved with threads and restored without.
  static void save_plain(const Cursor& input, int64_t number, StateWriter& w) {
    StateWriter now;
    input.save(now);
    w.number(number), w.number(0), w.text(now.bytes);
  }
  // Returns the number of elements that were returned.
  static int64_t restore_plain(Cursor& input, StateReader& r) {
    Lookahead ahead;
    ahead.restore(input, r);
    return ahead.given_;
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
  std::deque<bool> gone_;  // from element given_ on: which were given before older ones
  int64_t read_ = 0, given_ = 0, next_kept_ = 0;
};

}  // namespace rill::data
