// The World: the state of a Session. How ranks agree on a call before any of them uses its data, and how they wait.
//
// All members of a group learn in a few rounds that each makes the call (World::agree): in round k a rank sends a note
// to the one 2^k before it and receives one from the one 2^k after it, so that their knowledge doubles. A note is a
// hash of the call; short tensors are sent with it. Notes between two ranks arrive in order, so the first unexpected
// one is a mismatch; only then do ranks exchange their calls as text, and report to all others. A rank that waits for a
// second sends a note along the chain of those that wait; if it comes back, there is a deadlock.
//
// Only one thread at a time may be in here. Start at World::agree.
#pragma once
#include <atomic>
#include <chrono>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rill/distribute/engine/mail.h"
#include "rill/distribute/mpi/plug_in.h"
#include "rill/distribute/session.h"
#include "rill/tensor/callback.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/tensor/tensor.h"

namespace rill {
class DeviceGroup;
}

namespace rill::distribute {

// The functions of the plug-in.
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
  decltype(&rill_mpi_tell) tell = nullptr;
  decltype(&rill_mpi_listen) listen = nullptr;
  decltype(&rill_mpi_listen_again) listen_again = nullptr;
  decltype(&rill_mpi_heard) heard = nullptr;
  decltype(&rill_mpi_stop_listening) stop_listening = nullptr;
  decltype(&rill_mpi_window) window = nullptr;
  decltype(&rill_mpi_window_run) window_run = nullptr;
  decltype(&rill_mpi_window_end) window_end = nullptr;
  std::string why;  // it cannot be used

  static const Mpi& get();
};

// The ranks of a group, and this one's index among them.
struct Members {
  std::vector<int> ranks;
  int me = 0;
  std::string among;        // " among ranks [0,1]"; nothing where they are all
  void* channel = nullptr;  // MPI's communicator, made at the first call that moves data by it
  int size() const { return int(ranks.size()); }
};

// A call as other ranks are told of it: by a hash, and as text for errors.
struct Call {
  std::string_view op;        // "all_reduce"
  std::string_view other_op;  // the expected call of the others: the same, or its counterpart
  Spec spec;
  std::string detail;  // " (sum)"
  std::string among;   // of the members
  std::string place;   // the user's line

  std::string what() const;  // "all_reduce of f32[3] (sum)"
  uint64_t hash() const { return hash_of(op); }
  uint64_t expected() const { return op == other_op ? hash() : hash_of(other_op); }

 private:
  uint64_t hash_of(std::string_view op) const;
};

// A call on which ranks have agreed, and whose data moves while the program continues.
class Moving {
 public:
  virtual ~Moving() = default;
  virtual void advance() = 0;  // as far as it gets without waiting
  virtual bool is_done() const = 0;
};

class World {
 public:
  // This process's, while a Session lives; else null.
  static World* now();
  // Throws if there is none and the program was started as one of several ranks.
  static World* now_or_alone(const Where& where);

  World(const SessionOptions& options, const Where& where);
  ~World();
  World(const World&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool alone() const { return !mpi_; }
  const Mpi& mpi() const { return *mpi_; }
  const SessionOptions& options() const { return options_; }
  double timeout() const { return options_.timeout; }

  // Why tensors on GPUs go by the host on all ranks; or empty.
  const std::string& no_exchange_reason() const { return no_exchange_reason_; }
  // The failure of an exchange while the device was waited for, on any thread: no more calls are possible.
  void note_failure(const std::string& message);
  // Devices that exchange memory directly (device_calls.cpp): by the ranks, followed by the indices of their devices;
  // null if two are the same.
  std::map<std::vector<int>, std::unique_ptr<DeviceGroup>>& device_groups() { return device_groups_; }

  // The members of a group (Group::ranks). Throws if this rank is not one of them.
  Members& members(const Dims& ranks, std::string_view op);
  // Tells the members of a call, and waits until all make it. Throws if one makes another. `mine`, of equally many
  // bytes on all, is sent with it: `all` receives those of all members, in the order of their indices.
  void agree(const Call& call, const Members& members, std::span<const char> mine = {}, char* all = nullptr);
  // The same between two ranks, which may exchange data of different lengths.
  void agree_with(int rank, const Call& call, std::span<const char> mine = {}, std::span<char> theirs = {});
  // Whether so many bytes of each of `n` members can be sent with notes.
  static bool is_carried(int64_t bytes, int64_t n) { return bytes * n <= int64_t(Mail::most); }

  // The group's communicator, for which all members must call this at once; and that of all ranks.
  void* channel(Members& members);
  void* channel_of_all() { return control_; }
  // A tag, equal on both ranks, for the data of a call, on the communicator of all ranks; while it moves, no other has
  // that number, nor tag + tags. Both must call this for each call on which they have agreed.
  int tag_with(int rank);
  static constexpr int tags = 16000;
  // Waits until a request of MPI is done.
  void finish(void* request, const Call& call);
  // Keeps it until it is done, and advances it during any call in here.
  void hold(std::shared_ptr<Moving> moving, const Call* call = nullptr);
  void finish(const Moving& moving, const Call& call);
  // Until a library has done its part.
  void finish(const Callback<bool()>& done, const Call& call) { finish_or_fail(call, done); }
  void progress();
  // Waits for a condition that no note reports; `waits_for`: the ranks that fulfil it.
  void wait_for(const Call& call, const Callback<bool()>& done, const Callback<std::vector<int>()>& waits_for);
  // All ranks, however long it takes.
  void end_together(const Call& call);
  bool is_broken() const { return !broken_.empty(); }
  // Whether some thread waits, and so advances everything.
  bool is_waiting() const { return is_waiting_.load(std::memory_order_relaxed); }

  // Events for a Timeline: waiting, and data that moves; in seconds of a clock that ranks of one machine share.
  struct Event {
    std::string what;
    bool moves;
    double begin, end;
  };
  static double seconds();
  bool begin_events() { return notes_events_ ? false : (notes_events_ = true); }
  std::vector<Event> end_events() { return notes_events_ = false, std::exchange(events_, {}); }

  // The Session ends, by an exception or not. All ranks call it.
  void leave(bool thrown, const std::string& place);
  // Prints the error of a rank, and ends the job.
  [[noreturn]] void end_job(const std::string& message);

  // Whether this is the process that made it, and no child of fork().
  bool is_own() const { return fork_count() == forks_; }

  UserCodeMutex mutex;  // held while ranks wait for each other, which a fork() does not

 private:
  // The call of a rank, as text.
  struct Said {
    enum class Does : int { call, ends, threw };
    int rank = 0;
    Does does = Does::call;
    uint64_t hash = 0;
    std::string what = {}, place = {};
    std::string text() const;
    static std::vector<Said> all_of(const std::string& text);
  };
  struct Peer {
    std::deque<Note> calls;           // that it has announced, and this rank has not made
    std::optional<Said> asked, said;  // the call with which it has asked this rank; its answer
    bool is_gone = false;
    int tag = 0;
  };
  using Clock = std::chrono::steady_clock;

  Peer& peer(int rank) { return peers_[size_t(rank)]; }
  std::vector<int> neighbours() const;  // who is told of what all must know
  void take(int rank, Note& note);
  void take_waits(const Note& note);
  void require_whole(const Call& call);
  void hear(const Call& call, int rank, uint64_t expected, std::span<char> out);
  // Polls until `done`. `waits_for` returns the ranks of the job that it waits for.
  void wait(const Call& call, const Callback<bool()>& done, const Callback<std::vector<int>()>& waits_for);
  void ask_for_circle(const Call& call, const std::vector<int>& ranks);
  [[noreturn]] void fail_waiting(const Call& call, const std::vector<int>& ranks);
  std::optional<Said> said_here() const;
  void answer(int rank);
  void ask(int rank, Clock::duration patience);
  void tell_broken(const Said& one, const Said& other);
  void finish_or_fail(const Call& call, const Callback<bool()>& done);
  bool is_bad_news() const { return asked_by_ >= 0 || news_.has_value(); }
  void learn_exchanges();
  [[noreturn]] void fail_by_news(const Call& call);
  [[noreturn]] void fail_mismatch(const Call& call, const Said& other);
  [[noreturn]] void fail_broken(const Call& call, const std::string& message);
  bool end_with(int rank, uint64_t hash, bool& bad, Clock::time_point begun, std::vector<int>& printed);
  void print_call(const Said& said, bool& bad, std::vector<int>& printed) const;

  const Mpi* mpi_ = nullptr;  // null: a single rank
  const uint64_t forks_;
  int rank_ = 0, size_ = 1;
  const SessionOptions options_;
  std::string no_exchange_reason_;
  std::map<std::vector<int>, std::unique_ptr<DeviceGroup>> device_groups_;
  ForkMutex failure_mutex_;
  std::string failure_;
  std::atomic<bool> has_failed_ = false;
  bool is_patient_ = false;  // waits without a bound
  void* control_ = nullptr;  // where notes go
  std::unique_ptr<Mail> mail_;
  Note arriving_;
  std::vector<Peer> peers_;
  std::vector<char> carried_;  // the data received for the current call
  struct Noted;
  struct Held {
    std::shared_ptr<Moving> moving;
    Event event;  // where they are noted
  };
  std::list<Held> moving_;  // in the order in which they began
  bool notes_events_ = false;
  std::vector<Event> events_;
  std::map<std::vector<int>, Members> groups_;
  Members* all_ = nullptr;  // of all ranks, for they are used most
  std::string broken_;      // the error after which nothing can be called

  const Call* current_ = nullptr;              // on which ranks agree now
  std::optional<Said> last_;                   // with what this rank has failed, or its end
  int asked_by_ = -1;                          // a rank that makes another call than this one
  std::optional<std::pair<Said, Said>> news_;  // of a mismatch anywhere
  bool told_ = false;                          // that news
  const Call* waits_in_ = nullptr;             // for more than a second; for whom, and how far that is known
  std::vector<int> waits_for_;
  int32_t waits_ = 0;  // its number
  int stands_at_ = -1;
  std::string circle_;
  std::atomic<bool> is_waiting_ = false;
};

}  // namespace rill::distribute
