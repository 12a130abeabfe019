// prefetch: a task of the pool that keeps a buffer full while elements are used. It ends when the buffer is full and is
// started again when it is half empty, so that a pipeline that nobody asks holds no thread.
#include <fmt/format.h>

#include <deque>
#include <mutex>

#include "rill/data/engine/lookahead.h"
#include "rill/data/engine/pool.h"
#include "rill/data/stages/stages.h"

namespace rill::data::stages {
namespace {

class Prefetch final : public Stage {
 public:
  Prefetch(StagePtr input, int64_t depth, const Where& where, int threads)
      : Stage("prefetch", where, {std::move(input)}), depth_(depth), threads_(threads) {
    if (depth < 1 || depth > 1 << 20)
      fail("data::prefetch", fmt::format("keeps {} elements ahead: give 1 to {}", depth, 1 << 20), where);
  }
  std::optional<int64_t> size() const override { return input()->size(); }
  bool is_indexed() const override { return input()->is_indexed(); }
  Item at(int64_t i) const override { return input()->at(i); }
  CursorPtr open(const Pass& pass) const override { return over(input()->open(pass)); }
  CursorPtr open_in(std::shared_ptr<const Order> order, const Pass& pass) const override {
    return over(input()->open_in(std::move(order), pass));
  }
  std::string details() const override { return fmt::format("({})", depth_); }

 private:
  class Buffer;
  CursorPtr over(CursorPtr input) const;
  int64_t depth_;
  int threads_;
};

class Prefetch::Buffer final : public Cursor {
 public:
  Buffer(const Stage& stage, int64_t depth, int threads, CursorPtr input)
      : Cursor(stage), depth_(depth), threads_(threads), input_(std::move(input)) {}
  ~Buffer() override { stop(); }

  Item next() override {
    std::unique_lock lock(mutex_);
    while (buffer_.empty() && !ended_) {
      if (filling_ && !Pool::take_back(*task_)) {  // at work
        changed_.wait(lock, [&] { return !buffer_.empty() || ended_ || !filling_; });
        continue;
      }
      filling_ = false;
      read(lock);  // the first is not worth a thread
    }
    if (buffer_.empty()) return {};
    Held one = std::move(buffer_.front());
    buffer_.pop_front();
    ahead_.given(++given_);
    if (!filling_ && !ended_ && int64_t(buffer_.size()) <= depth_ / 2) start();
    lock.unlock();
    if (one.error) std::rethrow_exception(one.error);
    return std::move(one.item);
  }
  void save(StateWriter& w) const override {
    const std::lock_guard lock(mutex_);
    ahead_.save(*input_, w);
  }
  void restore(StateReader& r) override {
    stop();
    buffer_.clear();
    ended_ = stopped_ = false;
    ahead_.restore(*input_, r);
    given_ = ahead_.given();
  }

 private:
  struct Held {
    Item item;
    std::exception_ptr error;
  };
  struct Fill final : Task {
    explicit Fill(Buffer& b) : buffer(b) {}
    void run() noexcept override {
      std::unique_lock lock(buffer.mutex_);
      while (!buffer.stopped_ && !buffer.ended_ && int64_t(buffer.buffer_.size()) < buffer.depth_) buffer.read(lock);
      buffer.filling_ = false;
      buffer.changed_.notify_all();
    }
    Buffer& buffer;
  };
  // One element more. The input is used outside of the lock, by one thread.
  void read(std::unique_lock<ForkMutex>& lock) {
    ahead_.about_to_read(*input_);
    lock.unlock();
    Held one;
    try {
      one.item = input_->next();
    } catch (...) {
      one.error = std::current_exception();
    }
    lock.lock();
    if (one.item || one.error) buffer_.push_back(std::move(one));
    else ended_ = true;
    changed_.notify_all();
  }
  void start() {
    if (task_) Pool::finish(*task_);  // past its last line, which needs no lock
    filling_ = true;
    task_ = std::make_shared<Fill>(*this);
    Pool::get().start(task_, threads_);
  }
  // Nobody uses the buffer afterwards.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    if (task_) Pool::abandon(*task_);
    filling_ = false;
  }

  const int64_t depth_;
  const int threads_;
  CursorPtr input_;
  mutable ForkMutex mutex_;
  ForkCondition changed_;
  std::deque<Held> buffer_;
  Lookahead ahead_;
  std::shared_ptr<Task> task_;  // the last one that was started
  bool filling_ = false;        // whether it may still use the input
  int64_t given_ = 0;
  bool ended_ = false, stopped_ = false;
};

CursorPtr Prefetch::over(CursorPtr input) const {
  return std::make_unique<Buffer>(*this, depth_, threads_, std::move(input));
}

}  // namespace

StagePtr prefetch(StagePtr input, int64_t depth, const Where& where, int threads) {
  return std::make_shared<Prefetch>(std::move(input), depth, where, threads);
}

}  // namespace rill::data::stages
