// See world.h.
#include "rill/distribute/world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>

#include "rill/devices/modules.h"

namespace rill::distribute {

// --- The plug-in -----------------------------------------------------------------------------------------------------

const Mpi& Mpi::get() {
  static const Mpi only = [] {
    Mpi m;
    ModuleFunctions mpi("librill_mpi.so", "rill_mpi_version", RILL_VERSION,
                        "this rill has no librill_mpi: it was built without the feature mpi (Open MPI or MPICH)");
    mpi.find(m.begin, "rill_mpi_begin"), mpi.find(m.end, "rill_mpi_end"), mpi.find(m.abort, "rill_mpi_abort");
    mpi.find(m.group, "rill_mpi_group"), mpi.find(m.send, "rill_mpi_send"), mpi.find(m.receive, "rill_mpi_receive");
    mpi.find(m.broadcast, "rill_mpi_broadcast"), mpi.find(m.gather, "rill_mpi_gather"),
        mpi.find(m.scatter, "rill_mpi_scatter");
    mpi.find(m.all_gather, "rill_mpi_all_gather"), mpi.find(m.all_gather_blocks, "rill_mpi_all_gather_blocks");
    mpi.find(m.all_to_all_blocks, "rill_mpi_all_to_all_blocks"), mpi.find(m.test, "rill_mpi_test");
    m.why = mpi.why();
    return m;
  }();
  return only;
}

namespace {

// How many ranks the launcher of this process has started, by what it says to MPI; 1 where nobody has.
int ranks_started() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"})
    if (const char* text = std::getenv(name)) return std::max(1, std::atoi(text));
  const char* tasks = std::getenv("SLURM_NTASKS");
  return std::getenv("PMIX_RANK") && tasks ? std::max(1, std::atoi(tasks)) : 1;
}

// Whether each rank of this machine has a core, by what the launcher says of how many there are here.
bool has_core_each() {
  static const bool has = [] {
    int ranks = ranks_started();
    for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
      if (const char* text = std::getenv(name)) ranks = std::atoi(text);
    return ranks <= sysconf(_SC_NPROCESSORS_ONLN);
  }();
  return has;
}

World* world = nullptr;  // the one of the Session that lives

}  // namespace

World* World::now() { return world; }

World* World::now_or_alone(const Where& where) {
  if (!world && ranks_started() > 1)
    fail("distribute",
         "the program was started as one of several ranks, and has no Session. make a distribute::Session first, and "
         "keep it until main() ends",
         where);
  return world;
}

// --- Notes -----------------------------------------------------------------------------------------------------------

// What ranks tell each other, of one size. Texts are cut; what must be equal is compared by its hash as well.
struct World::Note {
  enum class Kind : int32_t { call, waits, goes_on, ended, threw };
  static constexpr int most_waited_for = 16;
  Kind kind = Kind::call;
  int32_t waited_for_count = 0;
  int64_t number = 0;
  uint64_t hash = 0;
  int32_t waited_for[most_waited_for] = {};
  char what[240] = {}, place[120] = {};

  static uint64_t hash_of(std::string_view text) {
    uint64_t h = 14695981039346656037u;  // FNV-1a
    for (const char c : text) h = (h ^ uint8_t(c)) * 1099511628211u;
    return h;
  }
  template <size_t n>
  static void put(char (&to)[n], std::string_view text) {
    std::memcpy(to, text.data(), std::min(n - 1, text.size()));
  }
  static Note of(Kind kind, std::string_view what, std::string_view place) {
    Note note;
    note.kind = kind, note.hash = hash_of(what);
    put(note.what, what), put(note.place, place);
    return note;
  }
};

struct World::Pending {
  void* request;
  std::unique_ptr<Note> note;
};

struct World::Peer {
  Note arriving;
  void* request = nullptr;
  std::deque<Note> calls;  // that it has told of, and this rank has not made
  std::optional<Note> waits, left;
};

void World::send(int rank, const Note& note) {
  auto kept = std::make_unique<Note>(note);
  void* request = mpi_->send(control_, kept.get(), sizeof(Note), 1, rank, 0);
  sending_.push_back({request, std::move(kept)});
}

void World::tell_all(const Note& note) {
  for (int r = 0; r < size_; ++r)
    if (r != rank_) send(r, note);
}

void World::listen(int rank) {
  Peer& p = *peers_[size_t(rank)];
  p.request = mpi_->receive(control_, &p.arriving, sizeof(Note), 1, rank, 0);
}

void World::take(int rank) {
  Peer& p = *peers_[size_t(rank)];
  const Note note = p.arriving;
  switch (note.kind) {
    case Note::Kind::call: p.calls.push_back(note); break;
    case Note::Kind::waits: p.waits = note; break;
    case Note::Kind::goes_on: p.waits.reset(); break;
    case Note::Kind::ended:
    case Note::Kind::threw: p.left = note, p.waits.reset(); return;  // its last
  }
  listen(rank);
}

void World::progress() {
  for (int r = 0; r < size_; ++r) {
    Peer* p = peers_[size_t(r)].get();
    while (p && p->request && mpi_->test(p->request)) p->request = nullptr, take(r);
  }
  std::erase_if(sending_, [&](const Pending& s) { return mpi_->test(s.request) != 0; });
  bool in_turn = true;
  for (const auto& m : moving_) m->go_on(in_turn), in_turn = in_turn && m->has_begun_last();
  std::erase_if(moving_, [](const auto& m) { return m->is_done(); });
}

// --- The world -------------------------------------------------------------------------------------------------------

namespace {

std::terminate_handler terminate_before = nullptr;

// The message of what is thrown and not caught.
std::string message_of_exception() {
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
  return "std::terminate() was called";
}

void end_by_exception() {
  if (world && !world->alone() && world->is_own()) world->end_job(message_of_exception());
  if (terminate_before) terminate_before();
  std::abort();
}

void end_by_exit() {
  if (world && !world->alone() && world->is_own()) world->end_job("exit() was called before the Session had ended");
}

}  // namespace

World::World(const SessionOptions& options, const Where& where) : process_(getpid()), timeout_(options.timeout) {
  constexpr std::string_view op = "distribute::Session";
  if (world) fail(op, "there is one already, and a process has one at a time", where);
  if (!(options.timeout > 0)) fail(op, fmt::format("timeout is {} and must be positive", options.timeout), where);
  if (ranks_started() > 1) {
    static bool ended = false;
    if (std::exchange(ended, true))
      fail(op, "this process has ended one, and MPI cannot begin again. keep one until main() ends", where);
    const Mpi& mpi = Mpi::get();
    if (!mpi.why.empty())
      fail(op, fmt::format("the program was started as one of {} ranks, and {}", ranks_started(), mpi.why), where);
    if (mpi.begin(&rank_, &size_) != 0) fail(op, "MPI_Init_thread failed", where);
    mpi_ = &mpi;
    control_ = mpi.group(nullptr, 0);
    for (int r = 0; r < size_; ++r) {
      peers_.push_back(r == rank_ ? nullptr : std::make_unique<Peer>());
      if (r != rank_) listen(r);
    }
    terminate_before = std::set_terminate(end_by_exception);
    static const int registered = std::atexit(end_by_exit);
    (void)registered;
  }
  world = this;
}

World::~World() { world = nullptr; }

bool World::is_own() const { return getpid() == process_; }

Members& World::members(const Dims& ranks, std::string_view op) {
  std::vector<int> key;
  for (const Dim r : ranks) key.push_back(int(int64_t(r)));
  const auto [at, is_new] = groups_.try_emplace(key);
  Members& m = at->second;
  if (is_new) {
    if (key.empty())
      for (int r = 0; r < size_; ++r) key.push_back(r);
    m.ranks = key;
    m.me = int(std::find(key.begin(), key.end(), rank_) - key.begin());
  }
  if (m.me == m.size()) fail(op, fmt::format("rank {} is none of the group's, {}", rank_, to_string(Shape(ranks))));
  return m;
}

void* World::channel(Members& m, Channel what) {
  const bool all = m.size() == size_ && std::is_sorted(m.ranks.begin(), m.ranks.end());
  void*& made = m.channels[int(what)];
  if (!made && all) made = what == Channel::calls ? control_ : mpi_->group(nullptr, 0);
  if (!made) made = mpi_->group(m.ranks.data(), m.size());
  return made;
}

// --- Agreeing --------------------------------------------------------------------------------------------------------

void World::agree(const Call& call, const Members& m) {
  std::vector<int> places;
  for (int i = 0; i < m.size(); ++i)
    if (i != m.me) places.push_back(i);
  agree(call, m, places);
}

void World::agree(const Call& call, const Members& m, std::span<const int> places) {
  if (!broken_.empty())
    fail(call.op,
         fmt::format("ranks have disagreed before, and nothing can be called any more. the error was: {}", broken_));
  const Note mine = Note::of(Note::Kind::call, call.what, call.place);
  for (const int i : places) send(m.ranks[size_t(i)], mine);
  const auto missing = [&] {
    std::vector<int> ranks;
    for (const int i : places)
      if (peers_[size_t(m.ranks[size_t(i)])]->calls.empty()) ranks.push_back(m.ranks[size_t(i)]);
    return ranks;
  };
  // One that says something else is told of at once, whoever is missing.
  const auto differs = [&]() -> int {
    for (const int i : places) {
      const Peer& p = *peers_[size_t(m.ranks[size_t(i)])];
      if (p.calls.empty() ? p.left.has_value() : p.calls.front().hash != Note::hash_of(call.expects))
        return m.ranks[size_t(i)];
    }
    return -1;
  };
  wait(call, [&] { return differs() >= 0 || missing().empty(); }, missing);
  if (const int r = differs(); r >= 0) {
    const Peer& p = *peers_[size_t(r)];
    fail_mismatch(call, r, p.calls.empty() ? *p.left : p.calls.front());
  }
  for (const int i : places) peers_[size_t(m.ranks[size_t(i)])]->calls.pop_front();
}

void World::finish(void* request, const Call& call) {
  bool done = false;
  wait(call, [&] { return done = done || mpi_->test(request) != 0; }, [] { return std::vector<int>(); });
}

void World::finish(const Moving& moving, const Call& call) {
  wait(call, [&] { return moving.is_done(); }, [] { return std::vector<int>(); });
}

void World::fail_mismatch(const Call& call, int rank, const Note& other) {
  std::string does;
  switch (other.kind) {
    case Note::Kind::ended: does = fmt::format("has ended its Session ({})", other.place); break;
    case Note::Kind::threw:
      does = other.what[0] ? fmt::format("has failed: {}", other.what) : "has left by an exception";
      break;
    default: does = fmt::format("calls {} ({})", other.what, other.place);
  }
  fail_broken(call, fmt::format("rank {} calls {} ({}), while rank {} {}. all ranks of a group must make the same "
                                "calls in the same order",
                                rank_, call.what, call.place, rank, does));
}

void World::fail_broken(const Call& call, const std::string& message) {
  broken_ = fmt::format("{}: [{}] {}", call.place, call.op, message);
  throw Error(broken_);
}

// --- Waiting ---------------------------------------------------------------------------------------------------------

namespace {
constexpr auto soon = std::chrono::microseconds(200);
// By the clock and not by counting, for on a crowded machine each yield may take as long as the others' turns. Data moves
// by pieces, each when both ranks ask MPI: who sleeps between them makes it many times slower.
void give_way(std::chrono::steady_clock::duration waited, bool data_moves) {
  using std::chrono::microseconds;
  const bool stays = data_moves && has_core_each();
  if (waited < microseconds(stays ? 2000 : 50)) return;
  if (waited < soon || (stays && waited < microseconds(100000))) return std::this_thread::yield();
  std::this_thread::sleep_for(microseconds(waited < microseconds(20000) ? 50 : 500));
}

constexpr auto tell_after = std::chrono::milliseconds(1000);
constexpr auto circle_stands = std::chrono::milliseconds(1000);
constexpr auto patience = std::chrono::seconds(5);  // of a rank that has failed, with the others
}  // namespace

void World::wait(const Call& call, const Callback<bool()>& done, const Callback<std::vector<int>()>& waits_for) {
  const Clock::time_point begun = Clock::now();
  Clock::time_point circle_since = begun;
  std::string circle_seen;
  std::vector<int> said;
  const struct Waits {
    std::atomic<bool>& flag;
    explicit Waits(std::atomic<bool>& f) : flag(f) { flag = true; }
    ~Waits() { flag = false; }
  } waits(is_waiting_);
  for (;;) {
    progress();
    if (done()) break;
    const auto waited = Clock::now() - begun;
    give_way(waited, waited > std::chrono::microseconds(50) && waits_for().empty());
    if (waited < tell_after) continue;
    if (std::vector<int> now = waits_for(); !now.empty() && now != said) tell_of_waiting(call, now), said = now;
    check_circle(call, circle_seen, circle_since);
    if (std::chrono::duration<double>(waited).count() > timeout_) {
      std::string ranks;
      for (const int r : waits_for()) ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", r);
      fail_broken(call, fmt::format("rank {} has waited {:.0f} s for {}, which has neither called anything nor ended. "
                                    "Session({{.timeout = seconds}}) waits longer",
                                    rank_, timeout_, ranks.empty() ? "MPI" : "rank " + ranks));
    }
  }
  if (std::exchange(told_, false)) tell_all(Note::of(Note::Kind::goes_on, "", ""));
}

void World::tell_of_waiting(const Call& call, const std::vector<int>& ranks) {
  Note note = Note::of(Note::Kind::waits, call.what, call.place);
  note.number = ++waits_;
  note.waited_for_count = std::min(int(ranks.size()), Note::most_waited_for);
  std::copy_n(ranks.begin(), note.waited_for_count, note.waited_for);
  told_ = true;
  if (!peers_[size_t(rank_)]) peers_[size_t(rank_)] = std::make_unique<Peer>();
  peers_[size_t(rank_)]->waits = note;
  tell_all(note);
}

// Who waits for whom from this rank back to it, or nothing. Each waits for all that it names, so one circle is enough.
std::string World::circle() const {
  std::vector<int> from(size_t(size_), -1), stack { rank_ };
  const auto note_of = [&](int r) { return peers_[size_t(r)] ? peers_[size_t(r)]->waits : std::nullopt; };
  const auto told = [&](int last) {
    std::vector<int> path{last};
    while (path.back() != rank_) path.push_back(from[size_t(path.back())]);
    std::string text;
    for (size_t i = path.size(); i-- > 0;) {
      const Note note = *note_of(path[i]);
      text += fmt::format("{}rank {} calls {} ({})", text.empty() ? "" : ", which waits for ", path[i], note.what,
                          note.place);
    }
    return text + fmt::format(", which waits for rank {}", rank_);
  };
  while (!stack.empty()) {
    const int r = stack.back();
    stack.pop_back();
    const std::optional<Note> note = note_of(r);
    for (int k = 0; note && k < note->waited_for_count; ++k) {
      const int next = note->waited_for[k];
      if (next == rank_) return told(r);
      if (from[size_t(next)] < 0) from[size_t(next)] = r, stack.push_back(next);
    }
  }
  return "";
}

// A circle that stands for a second is one: what could have broken it has had the time to arrive.
void World::check_circle(const Call& call, std::string& seen, Clock::time_point& since) {
  const std::string now = told_ ? circle() : "";
  if (now != seen) seen = now, since = Clock::now();
  if (now.empty() || Clock::now() - since < circle_stands) return;
  fail_broken(call, fmt::format("ranks wait for one another: {}", now));
}

// --- Ending ----------------------------------------------------------------------------------------------------------

bool World::all_left() const {
  for (int r = 0; r < size_; ++r)
    if (r != rank_ && !peers_[size_t(r)]->left) return false;
  return true;
}

void World::leave(bool thrown, const std::string& place) {
  if (alone() || !is_own()) return;
  tell_all(Note::of(thrown ? Note::Kind::threw : Note::Kind::ended, "", place));
  const Clock::time_point begun = Clock::now();
  bool bad = thrown || !broken_.empty();
  if (thrown) std::fprintf(stderr, "rank %d leaves its Session (%s) by an exception\n", rank_, place.c_str());
  // A rank that has failed waits for the others for a while, so that each can say what it saw.
  while (!all_left() && !(bad && Clock::now() - begun > patience)) {
    progress();
    for (int r = 0; r < size_ && !bad; ++r) {
      const Peer* p = r == rank_ ? nullptr : peers_[size_t(r)].get();
      if (!p || (p->calls.empty() && !(p->left && p->left->kind == Note::Kind::threw))) continue;
      bad = true;
      if (p->calls.empty()) break;
      const std::string line =
          fmt::format("rank {}: {}: [distribute::Session] rank {} ends its Session, while rank {} calls {} ({})\n",
                      rank_, place, rank_, r, p->calls.front().what, p->calls.front().place);
      std::fwrite(line.data(), 1, line.size(), stderr);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  if (bad) {
    std::fflush(nullptr);
    // What is thrown is printed by who catches it; the job must not end well.
    if (thrown && moving_.empty() && all_left()) return mpi_->end();
    mpi_->abort(1);
    _exit(1);
  }
  while (!sending_.empty() || !moving_.empty()) progress();
  mpi_->end();
}

void World::end_job(const std::string& message) {
  world = nullptr;
  std::fflush(stdout);
  const std::string line = fmt::format("rank {}: {}\n", rank_, message);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  tell_all(Note::of(Note::Kind::threw, message, ""));
  const Clock::time_point begun = Clock::now();
  while (!all_left() && Clock::now() - begun < std::chrono::milliseconds(500)) {
    progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  mpi_->abort(1);
  _exit(1);
}

}  // namespace rill::distribute
