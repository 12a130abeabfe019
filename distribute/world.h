// The World: what a Session holds. How ranks agree on a call before any of them moves data, and how they wait.
//
// Before each call, a rank sends every other member of the group a note of what it calls, and where, and waits for
// theirs (World::agree). Notes of two ranks arrive in order, so the calls that any two have in common are compared one by
// one, whatever groups they are in. A rank that ends, or throws, says so by a last note. One that has waited for a
// second tells all ranks for whom, so that each can see whether they wait in a circle.
//
// One thread at a time is in here. Start at World::agree.
#pragma once
#include <atomic>
#include <chrono>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rill/distribute/mpi/plug_in.h"
#include "rill/distribute/session.h"
#include "rill/tensor/callback.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::distribute {

// What the plug-in gives.
struct Mpi {
  decltype(&rill_mpi_begin) begin = nullptr;
  decltype(&rill_mpi_end) end = nullptr;
  decltype(&rill_mpi_abort) abort = nullptr;
  decltype(&rill_mpi_group) group = nullptr;
  decltype(&rill_mpi_send) send = nullptr;
  decltype(&rill_mpi_receive) receive = nullptr;
  decltype(&rill_mpi_broadcast) broadcast = nullptr;
  decltype(&rill_mpi_gather) gather = nullptr;
  decltype(&rill_mpi_scatter) scatter = nullptr;
  decltype(&rill_mpi_all_gather) all_gather = nullptr;
  decltype(&rill_mpi_all_gather_blocks) all_gather_blocks = nullptr;
  decltype(&rill_mpi_all_to_all_blocks) all_to_all_blocks = nullptr;
  decltype(&rill_mpi_test) test = nullptr;
  std::string why;  // it cannot be used

  static const Mpi& get();
};

// The ranks of a group, and this one's place among them.
struct Members {
  std::vector<int> ranks;
  int me = 0;
  void* channels[3] = {};  // MPI's communicators, each made at the first call that moves data by it
  int size() const { return int(ranks.size()); }
};

// A call as other ranks are told of it.
struct Call {
  std::string op;       // "all_reduce"
  std::string what;     // "all_reduce of f32[3] (sum)"
  std::string expects;  // what the others' must be: the same, or its counterpart
  std::string place;    // the user's line
};

// What MPI's communicators are for. Calls that go on while others begin have two of their own, for MPI wants the calls on
// one in the same order on all ranks, and when such a call comes to its last part is another moment on each.
enum class Channel { calls, first_parts, last_parts };

// A call on which ranks have agreed, and whose data moves while the program goes on.
class Moving {
 public:
  virtual ~Moving() = default;
  // As far as it gets without waiting. Its last part begins `in_turn` alone: behind those of all that began before it.
  virtual void go_on(bool in_turn) = 0;
  virtual bool has_begun_last() const = 0;
  virtual bool is_done() const = 0;
};

class World {
 public:
  // This process's, while a Session lives; else null.
  static World* now();
  // Throws where there is none and the program was started as one of several ranks.
  static World* now_or_alone(const Where& where);

  World(const SessionOptions& options, const Where& where);
  ~World();
  World(const World&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool alone() const { return !mpi_; }
  const Mpi& mpi() const { return *mpi_; }

  // Those of a group (Group::ranks). Throws where this rank is none of them.
  Members& members(const Dims& ranks, std::string_view op);
  // Tells the members with these places of a call, and waits until they have said that they make it too. Throws where one
  // says something else.
  void agree(const Call& call, const Members& members, std::span<const int> places);
  void agree(const Call& call, const Members& members);
  // The group's communicator, of which all members must ask at once; and that of all ranks.
  void* channel(Members& members, Channel what = Channel::calls);
  void* channel_of_all() { return control_; }
  // Waits until what MPI was asked for is done.
  void finish(void* request, const Call& call);
  // Holds it until it is done, and lets it go on whenever somebody is in here.
  void hold(std::shared_ptr<Moving> moving) { moving_.push_back(std::move(moving)); }
  void finish(const Moving& moving, const Call& call);
  void progress();
  // Whether some thread waits, and so lets all go on.
  bool is_waiting() const { return is_waiting_.load(std::memory_order_relaxed); }

  // The Session ends, by an exception or not. All ranks come here.
  void leave(bool thrown, const std::string& place);
  // Prints what a rank died of, and ends the job.
  [[noreturn]] void end_job(const std::string& message);

  // Whether this is the process that made it, and no child of fork().
  bool is_own() const;

  UserCodeMutex mutex;  // held while ranks wait for each other, which a fork() does not

 private:
  struct Note;
  struct Pending;
  struct Peer;
  using Clock = std::chrono::steady_clock;

  void send(int rank, const Note& note);
  void tell_all(const Note& note);
  void listen(int rank);
  void take(int rank);
  // Polls until `done`. What it waits for is said by `waits_for`, ranks of the job.
  void wait(const Call& call, const Callback<bool()>& done, const Callback<std::vector<int>()>& waits_for);
  void tell_of_waiting(const Call& call, const std::vector<int>& ranks);
  std::string circle() const;
  void check_circle(const Call& call, std::string& seen, Clock::time_point& since);
  [[noreturn]] void fail_mismatch(const Call& call, int rank, const Note& other);
  [[noreturn]] void fail_broken(const Call& call, const std::string& message);
  bool all_left() const;

  const Mpi* mpi_ = nullptr;  // null: alone
  const int process_;
  int rank_ = 0, size_ = 1;
  const double timeout_;
  void* control_ = nullptr;  // where notes go, with tag 0
  std::vector<std::unique_ptr<Peer>> peers_;
  std::list<Pending> sending_;
  std::list<std::shared_ptr<Moving>> moving_;  // in the order in which they began
  std::map<std::vector<int>, Members> groups_;
  std::string broken_;  // the error after which nothing can be called
  int64_t waits_ = 0;   // how often others were told of waiting
  bool told_ = false;   // that this rank waits
  std::atomic<bool> is_waiting_ = false;
};

}  // namespace rill::distribute
