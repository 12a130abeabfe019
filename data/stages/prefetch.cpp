// prefetch: a task of the pool that keeps a buffer full while elements are used. It ends when the buffer is full and is
// started again when it is half empty, so that an idle pipeline holds no thread.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <utility>

#include "rill/data/engine/bytes.h"
#include "rill/data/engine/lookahead.h"
#include "rill/data/engine/pool.h"
#include "rill/data/stages/stages.h"

namespace rill::data::stages {
namespace {

class Prefetch final : public Stage {
 public:
  Prefetch(StagePtr input, const PrefetchOptions& o, const Where& where, int threads)
      : Stage("prefetch", where, {std::move(input)}), options_(o), threads_(threads) {
    if (o.depth != 0) check_depth(o.depth, where);
    if (o.most_bytes < 1)
      fail("data::prefetch", fmt::format("most_bytes is {} and must be 1 or more", o.most_bytes), where);
  }
  std::optional<int64_t> size() const override { return input()->size(); }
  bool is_indexed() const override { return input()->is_indexed(); }
  Item at(int64_t i, const Pass& pass) const override { return input()->at(i, pass); }
  CursorPtr open(const Pass& pass) const override { return over(input()->begin(pass)); }
  CursorPtr open_in(std::shared_ptr<const Order> order, const Pass& pass) const override {
    return over(input()->begin_in(std::move(order), pass));
  }
  std::string details() const override { return options_.depth > 0 ? fmt::format("({})", options_.depth) : "()"; }

 private:
  class Buffer;
  CursorPtr over(CursorPtr input) const;
  PrefetchOptions options_;
  int threads_;
};

// The consumer takes all ready elements at once, so that it and the reading thread seldom compete for the lock.
class Prefetch::Buffer final : public Cursor {
 public:
  Buffer(const Prefetch& stage, CursorPtr input)
      : Cursor(stage),
        options_(stage.options_),
        threads_(stage.threads_),
        input_(std::move(input)),
        depth_(options_.depth > 0 ? options_.depth : least_depth) {}
  ~Buffer() override { stop(); }

  Item next() override {
    if (taken_.empty()) take();
    if (taken_.empty()) return {};
    Held one = std::move(taken_.front());
    taken_.pop_front();
    taken_left_.store(int64_t(taken_.size()), std::memory_order_relaxed);
    ++given_;
    if (!asked_ && int64_t(taken_.size()) <= now_depth_ / 2) {
      const std::lock_guard lock(mutex_);
      asked_ = true;
      if (!filling_ && !ended_) start();
    }
    if (one.error) std::rethrow_exception(one.error);
    return std::move(one.item);
  }
  int64_t skip(int64_t n) override {
    stop();
    int64_t gone = 0;
    for (auto* held : {&taken_, &buffer_})
      for (; gone < n && !held->empty(); ++gone, ++given_) held->pop_front();
    taken_left_ = int64_t(taken_.size());
    asked_ = stopped_ = false;
    ahead_.given(given_);
    if (gone == n || ended_) return gone;
    const int64_t more = input_->skip(n - gone);
    ended_ = more < n - gone;
    ahead_.jump(more);
    given_ += more;
    return gone + more;
  }
  void save(StateWriter& w) const override {
    const std::lock_guard lock(mutex_);
    ahead_.given(given_);
    ahead_.save(*input_, w);
  }
  void restore(StateReader& r) override {
    stop();
    buffer_.clear(), taken_.clear();
    buffer_bytes_ = taken_bytes_ = taken_left_ = 0;
    ended_ = stopped_ = asked_ = false;
    ahead_.restore(*input_, r);
    given_ = ahead_.given();
  }

 private:
  static constexpr int64_t least_depth = 2, most_depth = 64;
  struct Held {
    Item item;
    std::exception_ptr error;
  };
  struct Fill final : Task {
    explicit Fill(Buffer& b) : buffer(b) {}
    void run() noexcept override {
      std::unique_lock lock(buffer.mutex_);
      while (!buffer.stopped_ && !buffer.ended_ && buffer.has_room()) buffer.read(lock);
      buffer.filling_ = false;
      buffer.changed_.notify_all();
    }
    Buffer& buffer;
  };
  bool has_room() const {
    const int64_t ready = int64_t(buffer_.size()) + taken_left_.load(std::memory_order_relaxed);
    return ready == 0 || (ready < depth_ && buffer_bytes_ + taken_bytes_ < options_.most_bytes);
  }
  // Takes the ready elements, or waits for the next.
  void take() {
    std::unique_lock lock(mutex_);
    bool waited = false;
    while (buffer_.empty() && !ended_) {
      if (filling_ && !Pool::take_back(*task_)) {  // at work
        waited = true;
        if (spin(lock)) continue;
        is_waiting_ = true;
        changed_.wait(lock, [&] { return !buffer_.empty() || ended_ || !filling_; });
        is_waiting_ = false;
        continue;
      }
      filling_ = false;
      read(lock);  // the first is not worth a thread
    }
    if (waited && options_.depth == 0) depth_ = std::min(2 * depth_, most_depth);
    now_depth_ = depth_;
    taken_.swap(buffer_);
    taken_bytes_ = std::exchange(buffer_bytes_, 0);
    taken_left_ = int64_t(taken_.size());
    ready_ = 0;
    ahead_.given(given_);
    asked_ = false;
  }
  // Some microseconds, for elements that take less than to be woken does. Whether there is one now.
  bool spin(std::unique_lock<ForkMutex>& lock) const {
    constexpr int turns = 200;
    lock.unlock();
    for (int i = 0; i < turns && ready_.load(std::memory_order_relaxed) == 0; ++i) pause();
    lock.lock();
    return !buffer_.empty();
  }
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  // One element more. The input is used outside of the lock, by one thread.
  void read(std::unique_lock<ForkMutex>& lock) {
    ahead_.about_to_read(*input_);
    lock.unlock();
    Held one;
    int64_t bytes = 0;
    try {
      one.item = input_->next();
      bytes = bytes_of(one.item);
    } catch (...) {
      one.error = std::current_exception();
    }
    lock.lock();
    if (one.item || one.error) buffer_.push_back(std::move(one)), buffer_bytes_ += bytes;
    else ended_ = true;
    ready_.store(int64_t(buffer_.size()), std::memory_order_relaxed);
    if (is_waiting_) changed_.notify_all();
  }
  void start() {
    if (task_) Pool::finish(*task_);  // past its last line, which needs no lock
    filling_ = true;
    task_ = std::make_shared<Fill>(*this);
    Pool::get().start(task_, threads_);
  }
  // The buffer is not used afterwards, until stopped_ is false again.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    if (task_) Pool::abandon(*task_);
    filling_ = false;
  }

  const PrefetchOptions options_;
  const int threads_;
  CursorPtr input_;

  // by the consumer
  std::deque<Held> taken_;
  int64_t given_ = 0, now_depth_ = 0;
  bool asked_ = false;  // since it took: for more

  mutable ForkMutex mutex_;  // of what follows
  ForkCondition changed_;
  std::deque<Held> buffer_;
  int64_t depth_, buffer_bytes_ = 0, taken_bytes_ = 0;
  std::atomic<int64_t> taken_left_ = 0, ready_ = 0;  // their sizes, readable without the lock
  mutable Lookahead ahead_;
  std::shared_ptr<Task> task_;  // the last one that was started
  bool filling_ = false;        // whether it may still use the input
  bool ended_ = false, stopped_ = false, is_waiting_ = false;
};

CursorPtr Prefetch::over(CursorPtr input) const { return std::make_unique<Buffer>(*this, std::move(input)); }

}  // namespace

void check_depth(int64_t depth, const Where& where) {
  constexpr int64_t most = 1 << 20;
  if (depth < 1 || depth > most)
    fail("data::prefetch", fmt::format("keeps {} elements ahead: give 1 to {}, or nothing", depth, most), where);
}
StagePtr prefetch(StagePtr input, const PrefetchOptions& o, const Where& where, int threads) {
  return std::make_shared<Prefetch>(std::move(input), o, where, threads);
}

}  // namespace rill::data::stages
