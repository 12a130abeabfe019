// The way of summaries into an event file: at once, or by a thread of the writer's own. Start at EventQueue::add.
#pragma once
#include <deque>
#include <exception>
#include <functional>
#include <mutex>

#include "rill/serialize/events.h"
#include "rill/serialize/messages.h"
#include "rill/summary.h"
#include "rill/tensor/background_thread.h"
#include "rill/tensor/fork_condition.h"

namespace rill {

class EventQueue {
 public:
  EventQueue(const std::string& folder, const summary::WriterOptions& options, std::string_view op, const Where& where);
  ~EventQueue();  // writes what waits
  EventQueue(const EventQueue&) = delete;

  // Writes the event that `make` makes, which runs now or, where the queue is asynchronous, on its thread. Throws
  // rill::Error where the disk refuses, this event or an earlier one.
  void add(std::function<proto::Event()> make, const Where& where);
  // Returns when all that was added has reached the disk.
  void flush(const Where& where);
  // Returns when all that was added is in the file. What cannot be written is lost.
  void drain() noexcept;
  const std::string& path() const { return file_.path(); }

 private:
  struct Job {
    std::function<proto::Event()> make;
    Where where;
  };
  void run();
  void wait_until_empty(std::unique_lock<ForkMutex>& lock);
  void throw_kept(std::unique_lock<ForkMutex>& lock);

  std::string op_;
  summary::WriterOptions options_;  // not asynchronous where there is no thread to be had
  EventFile file_;
  ForkMutex mutex_;  // of the file, where there is no thread; else of what follows
  ForkCondition changed_;
  std::deque<Job> jobs_;  // the first is being written where busy_
  bool busy_ = false, stop_ = false;
  std::exception_ptr kept_;  // the first that the thread met, until a caller is told
  BackgroundThread thread_;
};

}  // namespace rill
