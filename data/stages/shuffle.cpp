// Shuffles. With random access, the order is a permutation of all elements, for which a pass only needs its seed and a
// position. Else a buffer is filled and each element is drawn from it; the content of the buffer at some position
// follows from the seed alone, so that a state names none of it: a restored pass draws numbers instead of elements up
// to there, and reads again those that it then holds.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "rill/data/engine/bytes.h"
#include "rill/data/engine/lookahead.h"
#include "rill/data/engine/seeds.h"
#include "rill/data/stages/stages.h"

namespace rill::data::stages {
namespace {

// --- Permutations ----------------------------------------------------------------------------------------------------

// Fisher and Yates's shuffle for up to 2^16 elements. For more, Feistel's network over the smallest even number of bits
// that holds them, applied again while the result is too large (Black and Rogaway, "Ciphers with arbitrary finite
// domains", 2002): any element of any permutation at once, without memory.
class Permutation final : public Order {
 public:
  Permutation(int64_t size, uint64_t seed) : size_(size) {
    const Draws draws(seed, 0);
    if (size <= few) {
      table_.resize(size_t(size));
      std::iota(table_.begin(), table_.end(), uint16_t(0));
      for (int64_t i = size; i-- > 1;)
        std::swap(table_[size_t(i)], table_[size_t(draws.below(uint64_t(i), uint64_t(i) + 1))]);
    } else {
      half_ = (std::bit_width(uint64_t(size - 1)) + 1) / 2;
      for (size_t r = 0; r < keys_.size(); ++r) keys_[r] = draws.at(r);
    }
  }
  int64_t size() const override { return size_; }
  int64_t at(int64_t i) const override {
    if (!table_.empty()) return table_[size_t(i)];
    auto x = uint64_t(i);
    do x = network(x);
    while (x >= uint64_t(size_));
    return int64_t(x);
  }

 private:
  static constexpr int64_t few = 1 << 16;
  uint64_t network(uint64_t x) const {
    const uint64_t mask = (uint64_t(1) << half_) - 1;
    uint64_t left = x >> half_, right = x & mask;
    for (const uint64_t key : keys_) {
      const uint64_t next = left ^ (mixed(right ^ key) & mask);
      left = right, right = next;
    }
    return left << half_ | right;
  }
  int64_t size_;
  std::vector<uint16_t> table_;
  int half_ = 0;
  std::array<uint64_t, 8> keys_{};
};

// --- The stage -------------------------------------------------------------------------------------------------------

class Shuffle final : public Stage {
 public:
  Shuffle(StagePtr input, std::optional<int64_t> buffer, const ShuffleOptions& o, const Where& where)
      : Stage("shuffle", where, {std::move(input)}), buffer_(buffer.value_or(INT64_MAX)), options_(o) {
    if (buffer && *buffer < 1)
      fail("data::shuffle", fmt::format("the buffer is {} and must be 1 or more", *buffer), where);
    if (o.bytes < 1) fail("data::shuffle", fmt::format("bytes is {} and must be 1 or more", o.bytes), where);
    if (!buffer && !is_in_bytes() && !this->input()->is_indexed())
      fail("data::shuffle",
           fmt::format("the elements of {} cannot be had by number, so that a buffer is needed: shuffle(10000), or "
                       "shuffle({{.bytes = 1 << 30}}). the whole "
                       "of it is shuffled where the source has its elements at hand (from_tensors, range, list_files)",
                       this->input()->name()),
           where);
  }
  std::optional<int64_t> size() const override { return input()->size(); }
  CursorPtr open(const Pass& pass) const override;
  std::string details() const override {
    if (input()->is_indexed()) return "  exact";
    std::string text = buffer_ < INT64_MAX ? fmt::format("({})", buffer_) : "";
    if (is_in_bytes()) text += fmt::format("  {} bytes", options_.bytes);
    return text;
  }

  bool draws() const override { return !options_.seed || Stage::draws(); }
  uint64_t seed_of(const Pass& pass) const {
    const uint64_t seed = options_.seed.value_or(pass.seed);
    return options_.each_epoch ? mixed(seed + mixed(pass.epoch)) : mixed(seed);
  }
  int64_t buffer() const { return buffer_; }
  int64_t most_bytes() const { return options_.bytes; }
  bool is_in_bytes() const { return options_.bytes < INT64_MAX; }

 private:
  int64_t buffer_;
  ShuffleOptions options_;
};

class Exact final : public Cursor {
 public:
  Exact(const Shuffle& stage, const Pass& pass) : Cursor(stage) {
    const auto order = std::make_shared<Permutation>(*stage.input()->size(), stage.seed_of(pass));
    input_ = stage.input()->begin_in(order, pass.for_input());
  }
  Item next() override { return input_->next(); }
  Item next_stacked(int64_t n, int64_t& count) override { return input_->next_stacked(n, count); }
  int64_t skip(int64_t n) override { return input_->skip(n); }
  void save(StateWriter& w) const override { input_->save(w); }
  void restore(StateReader& r) override { input_->restore(r); }

 private:
  CursorPtr input_;
};

// A buffer that is bounded in bytes holds fewer elements once it is full: at first as many as it then has, later half
// of them each time, so that a state names at most 64 such positions.
class Buffered final : public Cursor {
 public:
  Buffered(const Shuffle& stage, const Pass& pass)
      : Cursor(stage), stage_(stage), draws_(stage.seed_of(pass), 1), input_(stage.input()->begin(pass.for_input())) {}

  Item next() override {
    while (!ended_ && int64_t(buffer_.size()) < room_) {
      if (bytes_ >= stage_.most_bytes() && !buffer_.empty()) shrink();
      else read();
    }
    if (buffer_.empty()) return {};
    const size_t which = size_t(draws_.below(uint64_t(given_++), buffer_.size()));
    Held out = std::exchange(buffer_[which], std::move(buffer_.back()));
    buffer_.pop_back();
    bytes_ -= out.bytes;
    ahead_.given_one(out.number);
    if (out.error) std::rethrow_exception(out.error);
    return std::move(out.item);
  }
  void save(StateWriter& w) const override {
    w.number(given_), w.number(ahead_.read()), w.number(ended_);
    if (stage_.is_in_bytes()) {
      w.number(int64_t(shrunk_.size()));
      for (const Shrunk& s : shrunk_) w.number(s.given), w.number(s.read), w.number(s.room);
    }
    ahead_.save(*input_, w);
  }
  void restore(StateReader& r) override {
    const int64_t given = r.count(), read = r.count();
    if (given > read) fail("Iterator.restore", "the state of shuffle() gives more elements than it has read");
    const bool at_end = r.count(1);
    shrunk_.clear();
    if (stage_.is_in_bytes())
      for (int64_t n = r.count(64); n > 0; --n) {
        const int64_t when = r.count(given), then = r.count(read);
        shrunk_.push_back({when, then, r.count()});
      }
    ahead_.restore(*input_, r);
    std::vector<int64_t> held = numbers(given, read);
    std::vector<std::pair<int64_t, size_t>> order;
    for (size_t i = 0; i < held.size(); ++i) order.emplace_back(held[i], i);
    std::sort(order.begin(), order.end());
    buffer_.clear();
    buffer_.resize(held.size());
    ended_ = false, bytes_ = 0;
    room_ = shrunk_.empty() ? stage_.buffer() : shrunk_.back().room;
    auto wanted = order.begin();
    while (ahead_.read() < read) {
      Held one = take();
      if (ended_) fail("Iterator.restore", "the input of shuffle() has fewer elements than it had");
      if (wanted == order.end() || wanted->first != one.number) {
        ahead_.given_one(one.number);
        continue;
      }
      bytes_ += one.bytes;
      buffer_[wanted->second] = std::move(one), ++wanted;
    }
    ended_ = at_end, given_ = given;
  }

 private:
  struct Held {
    int64_t number = 0, bytes = 0;  // these only where they are bounded
    Item item;
    std::exception_ptr error;  // of the input, instead of an element
  };
  struct Shrunk {
    int64_t given, read, room;  // when, and how many elements the buffer holds from then on
  };
  void shrink() {
    room_ = shrunk_.empty() ? int64_t(buffer_.size()) : std::max<int64_t>(1, int64_t(buffer_.size()) / 2);
    shrunk_.push_back({given_, ahead_.read(), room_});
  }
  Held take() {
    Held one;
    one.number = ahead_.read();
    ahead_.about_to_read(*input_);
    try {
      one.item = input_->next();
      ended_ = !one.item;
      if (ended_) ahead_.was_end();
      else if (stage_.is_in_bytes()) one.bytes = bytes_of(one.item);
    } catch (...) {
      one.error = std::current_exception();
    }
    return one;
  }
  void read() {
    Held one = take();
    if (ended_) return;
    bytes_ += one.bytes;
    buffer_.push_back(std::move(one));
  }
  // The buffer's content when `given` of `read` elements were returned: next(), for numbers.
  std::vector<int64_t> numbers(int64_t given, int64_t read) const {
    std::vector<int64_t> held;
    int64_t next = 0, room = stage_.buffer();
    auto shrunk = shrunk_.begin();
    const auto grow = [&](int64_t now) {
      for (;;) {
        for (; shrunk != shrunk_.end() && shrunk->given == now && shrunk->read == next; ++shrunk) room = shrunk->room;
        if (next == read || int64_t(held.size()) >= room) return;
        held.push_back(next++);
      }
    };
    for (int64_t n = 0; n < given; ++n) {
      grow(n);
      if (held.empty()) fail("Iterator.restore", "the state of shuffle() is damaged");
      const size_t which = size_t(draws_.below(uint64_t(n), held.size()));
      held[which] = held.back();
      held.pop_back();
    }
    while (next < read) held.push_back(next++);
    return held;
  }
  const Shuffle& stage_;
  Draws draws_;
  CursorPtr input_;
  Lookahead ahead_;
  std::vector<Held> buffer_;
  std::vector<Shrunk> shrunk_;
  int64_t given_ = 0, bytes_ = 0, room_ = stage_.buffer();
  bool ended_ = false;
};

CursorPtr Shuffle::open(const Pass& pass) const {
  if (input()->is_indexed()) return std::make_unique<Exact>(*this, pass);
  return std::make_unique<Buffered>(*this, pass);
}

}  // namespace

StagePtr shuffle(StagePtr input, std::optional<int64_t> buffer, const ShuffleOptions& o, const Where& where) {
  return std::make_shared<Shuffle>(std::move(input), buffer, o, where);
}

}  // namespace rill::data::stages
