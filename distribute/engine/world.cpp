// See world.h.
#include "rill/distribute/engine/world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "rill/devices/cuda/open.h"
#include "rill/devices/exchange.h"
#include "rill/distribute/engine/started.h"

namespace rill::distribute {

namespace {
World* world = nullptr;  // the one of the Session that lives
}  // namespace

World* World::now() { return world; }

// --- Calls in words and as hashes ------------------------------------------------------------------------------------

std::string Call::what() const { return fmt::format("{} of {}{}{}", op, to_string(spec), detail, among); }

namespace {
// FNV-1a, of 8 bytes at once.
void mix(uint64_t& h, uint64_t value) {
  h = (h ^ value) * 1099511628211u;
  h ^= h >> 32;
}
void mix(uint64_t& h, std::string_view text) {
  mix(h, uint64_t(text.size()));
  for (; !text.empty(); text.remove_prefix(std::min<size_t>(text.size(), 8))) {
    uint64_t some = 0;
    std::memcpy(&some, text.data(), std::min<size_t>(text.size(), 8));
    mix(h, some);
  }
}
}  // namespace

uint64_t Call::hash_of(std::string_view name) const {
  uint64_t h = 14695981039346656037u;
  mix(h, name), mix(h, uint64_t(spec.dtype)), mix(h, detail), mix(h, among);
  for (const Dim d : spec.shape) mix(h, uint64_t(int64_t(d)));
  mix(h, uint64_t(spec.shape.size()));
  return h;
}

std::string World::Said::text() const {
  const auto cut = [](const std::string& s) { return std::string_view(s).substr(0, 1000); };
  const char zero = '\0';
  return fmt::format("{}{}{}{}{}{}{}{}{}{}", rank, zero, int(does), zero, hash, zero, cut(what), zero, cut(place),
                     zero);
}

std::vector<World::Said> World::Said::all_of(const std::string& text) {
  std::vector<std::string> fields;
  for (size_t at = 0, end; (end = text.find('\0', at)) != text.npos; at = end + 1)
    fields.push_back(text.substr(at, end - at));
  std::vector<Said> all;
  for (size_t i = 0; i + 4 < fields.size(); i += 5)
    all.push_back({std::stoi(fields[i]), Does(std::stoi(fields[i + 1])), std::stoull(fields[i + 2]), fields[i + 3],
                   fields[i + 4]});
  return all;
}

// --- Notes -----------------------------------------------------------------------------------------------------------

void World::take(int rank, Note& note) {
  Peer& p = peer(rank);
  switch (note.kind) {
    case NoteKind::call: p.calls.push_back(std::move(note)); return;
    case NoteKind::asks:
      p.asked = Said::all_of(note.text).at(0);
      if (asked_by_ < 0) asked_by_ = rank;
      return answer(rank);
    case NoteKind::tells: p.said = Said::all_of(note.text).at(0); return;
    case NoteKind::broken:
      if (const std::vector<Said> both = Said::all_of(note.text); !news_) {
        news_.emplace(both.at(0), both.at(1));
        tell_broken(both[0], both[1]);
      }
      return;
    case NoteKind::waits: return take_waits(note);
    case NoteKind::stands:
      if (note.number == waits_) stands_at_ = int(note.hash);
      return;
    case NoteKind::is_gone: p.is_gone = true;
  }
}

void World::progress() {
  for (int from; mail_->hear(from, arriving_);) take(from, arriving_);
  if (moving_.empty()) return;
  for (const Held& h : moving_) h.moving->advance();
  std::erase_if(moving_, [this](Held& h) {
    if (!h.moving->is_done()) return false;
    if (!h.event.what.empty()) h.event.end = seconds(), events_.push_back(std::move(h.event));
    return true;
  });
}

double World::seconds() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

void World::hold(std::shared_ptr<Moving> moving, const Call* call) {
  const double now = notes_events_ ? seconds() : 0;
  moving_.push_back({std::move(moving), {notes_events_ && call ? call->what() : "", true, now, now}});
}

// Powers of two before and after: a message reaches all in as many steps as there are powers.
std::vector<int> World::neighbours() const {
  std::vector<int> ranks;
  for (int d = 1; d < size_; d *= 2)
    for (const int r : {(rank_ + d) % size_, (rank_ - d + size_) % size_})
      if (r != rank_ && std::find(ranks.begin(), ranks.end(), r) == ranks.end()) ranks.push_back(r);
  return ranks;
}

// --- The world -------------------------------------------------------------------------------------------------------

namespace {

std::terminate_handler terminate_before = nullptr;

// The message of the exception in flight.
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

World::World(const SessionOptions& options, const Where& where) : forks_(fork_count()), options_(options) {
  constexpr std::string_view op = "distribute::Session";
  if (world) fail(op, "there is one already, and a process has one at a time", where);
  if (!(options.timeout > 0)) fail(op, fmt::format("timeout is {} and must be positive", options.timeout), where);
  if (ranks_started() > 1) {
    const ForkDelay begins_to_count_forks;
    static bool ended = false;
    if (std::exchange(ended, true))
      fail(op, "this process has ended one, and MPI cannot begin again. keep one until main() ends", where);
    const Mpi& mpi = Mpi::get();
    if (!mpi.why.empty())
      fail(op, fmt::format("the program was started as one of {} ranks, and {}", ranks_started(), mpi.why), where);
    if (mpi.begin(&rank_, &size_) != 0) fail(op, "MPI_Init_thread failed", where);
    mpi_ = &mpi;
    control_ = mpi.group(nullptr, 0);
    mail_ = std::make_unique<Mail>(mpi, control_);
    peers_.resize(size_t(size_));
    learn_exchanges();
    terminate_before = std::set_terminate(end_by_exception);
    static const int registered = std::atexit(end_by_exit);
    (void)registered;
  }
  world = this;
}

World::~World() { world = nullptr; }

// Whether all ranks have the library by which GPUs exchange memory. It does not look for GPUs: the program may choose
// them once it knows its rank.
void World::learn_exchanges() {
  const std::string why = cuda::no_nccl_reason();
  const char mine = why.empty() ? 1 : 0;
  std::vector<char> all(peers_.size());
  void* request = mpi_->all_gather(control_, &mine, all.data(), 1, 1);
  while (!mpi_->test(request)) std::this_thread::yield();
  const auto first = std::find(all.begin(), all.end(), 0) - all.begin();
  if (first < size_) no_exchange_reason_ = first == rank_ ? why : fmt::format("rank {} has no NCCL", first);
}

Members& World::members(const Dims& ranks, std::string_view op) {
  if (ranks.empty() && all_) return *all_;
  std::vector<int> key;
  for (const Dim r : ranks) key.push_back(int(int64_t(r)));
  const auto [at, is_new] = groups_.try_emplace(key);
  Members& m = at->second;
  if (is_new) {
    if (key.empty())
      for (int r = 0; r < size_; ++r) key.push_back(r);
    m.ranks = key;
    m.me = int(std::find(key.begin(), key.end(), rank_) - key.begin());
    if (!ranks.empty()) m.among = fmt::format(" among ranks {}", to_string(Shape(ranks)));
  }
  if (m.me == m.size()) fail(op, fmt::format("rank {} is none of the group's, {}", rank_, to_string(Shape(ranks))));
  if (ranks.empty()) all_ = &m;
  return m;
}

int World::tag_with(int rank) {
  int& tag = peer(rank).tag;
  tag = (tag + 1) % tags;
  return 2 + tag;  // 0: notes, 1: what moves while its call lasts
}

void* World::channel(Members& m) {
  const bool all = m.size() == size_ && std::is_sorted(m.ranks.begin(), m.ranks.end());
  if (!m.channel) m.channel = all ? control_ : mpi_->group(m.ranks.data(), m.size());
  return m.channel;
}

// --- Agreeing --------------------------------------------------------------------------------------------------------

namespace {
constexpr auto patience = std::chrono::seconds(5);  // of a rank that has failed, with the others

// Registers something for its lifetime.
template <class T>
struct While {
  T& place;
  const T before;
  While(T& p, T value) : place(p), before(std::exchange(p, value)) {}
  ~While() { place = before; }
};
}  // namespace

void World::note_failure(const std::string& message) {
  const std::lock_guard<ForkMutex> hold(failure_mutex_);
  if (failure_.empty()) failure_ = message;
  has_failed_ = true;
}

void World::require_whole(const Call& call) {
  if (has_failed_ && broken_.empty()) {
    const std::lock_guard<ForkMutex> hold(failure_mutex_);
    broken_ = failure_;
  }
  if (!broken_.empty())
    fail(call.op,
         fmt::format("something has failed before, and nothing can be called any more. the error was: {}", broken_));
}

// Notes how long something took.
struct World::Noted {
  World& world;
  Event event;
  Noted(World& w, const Call& call) : world(w), event{} {
    if (world.notes_events_) event = {call.what(), false, seconds(), 0};
  }
  ~Noted() {
    if (world.notes_events_ && !event.what.empty()) event.end = seconds(), world.events_.push_back(std::move(event));
  }
};

void World::agree(const Call& call, const Members& m, std::span<const char> mine, char* all) {
  require_whole(call);
  const Noted noted(*this, call);
  const While<const Call*> now(current_, &call);
  const int n = m.size();
  const size_t each = mine.size();
  const uint64_t hash = call.hash();
  if (n == 2) {
    const int other = 1 - m.me;
    mail_->tell(m.ranks[size_t(other)], NoteKind::call, 0, hash, mine);
    if (each > 0) std::memcpy(all + size_t(m.me) * each, mine.data(), each);
    return hear(call, m.ranks[size_t(other)], hash, {all + size_t(other) * each, each});
  }
  if (carried_.size() < each * size_t(n)) carried_.resize(each * size_t(n));
  char* const held = carried_.data();  // of the members from this one on
  if (each > 0) std::memcpy(held, mine.data(), each);
  for (int d = 1, round = 0; d < n; d *= 2, ++round) {
    const size_t bytes = size_t(std::min(d, n - d)) * each;
    mail_->tell(m.ranks[size_t((m.me - d + n) % n)], NoteKind::call, round, hash, {held, bytes});
    hear(call, m.ranks[size_t((m.me + d) % n)], hash + uint64_t(round), {held + size_t(d) * each, bytes});
  }
  for (int i = 0; each > 0 && i < n; ++i)
    std::memcpy(all + size_t((m.me + i) % n) * each, held + size_t(i) * each, each);
}

void World::agree_with(int rank, const Call& call, std::span<const char> mine, std::span<char> theirs) {
  require_whole(call);
  const While<const Call*> now(current_, &call);
  mail_->tell(rank, NoteKind::call, 0, call.hash(), mine);
  hear(call, rank, call.expected(), theirs);
}

// The next call of a rank, which must be this one. `expected`: its hash and round.
void World::hear(const Call& call, int rank, uint64_t expected, std::span<char> out) {
  Peer& p = peer(rank);
  const auto take_text = [&](const Note& note) {
    if (!out.empty()) std::memcpy(out.data(), note.text.data(), std::min(out.size(), note.text.size()));
  };
  constexpr int soon = 500;  // polls without reading the clock
  for (int i = 0; i < soon && p.calls.empty(); ++i) {
    if (!moving_.empty()) {
      progress();
      continue;
    }
    int from = 0;
    if (!mail_->hear(from, arriving_)) continue;
    if (from == rank && arriving_.kind == NoteKind::call && arriving_.hash + uint64_t(arriving_.number) == expected)
      return take_text(arriving_);
    take(from, arriving_);
  }
  const auto done = [&] { return !p.calls.empty() || is_bad_news(); };
  if (!done()) wait(call, done, [&] { return std::vector<int>{rank}; });
  if (p.calls.empty()) fail_by_news(call);
  const Note& note = p.calls.front();
  if (note.hash + uint64_t(note.number) != expected) {
    if (is_bad_news()) fail_by_news(call);  // one that has failed by now, and so ends
    ask(rank, patience);
    fail_mismatch(call, p.said ? *p.said : Said{rank, Said::Does::call, 0, "something else", "nobody knows where"});
  }
  take_text(note);
  p.calls.pop_front();
}

void World::finish_or_fail(const Call& call, const Callback<bool()>& done) {
  const Noted noted(*this, call);
  const While<const Call*> now(current_, &call);
  wait(call, [&] { return done() || is_bad_news(); }, [] { return std::vector<int>(); });
  if (!done()) fail_by_news(call);
}
void World::finish(void* request, const Call& call) {
  bool is_done = false;
  finish_or_fail(call, [&] { return is_done = is_done || mpi_->test(request) != 0; });
}
void World::finish(const Moving& moving, const Call& call) {
  finish_or_fail(call, [&] { return moving.is_done(); });
}

void World::wait_for(const Call& call, const Callback<bool()>& done, const Callback<std::vector<int>()>& waits_for) {
  require_whole(call);
  const While<const Call*> now(current_, &call);
  bool is_done = false;
  wait(call, [&] { return is_bad_news() || (is_done = done()); }, waits_for);
  if (!is_done) fail_by_news(call);
}
void World::end_together(const Call& call) {
  const While<bool> patient(is_patient_, true);
  agree(call, members({}, call.op));
}

// --- Mismatches ------------------------------------------------------------------------------------------------------

std::optional<World::Said> World::said_here() const {
  if (current_) return Said{rank_, Said::Does::call, current_->hash(), current_->what(), current_->place};
  return last_;
}

void World::answer(int rank) {
  if (const std::optional<Said> here = said_here()) mail_->tell(rank, NoteKind::tells, 0, 0, here->text());
}

// Asks a rank for its call. It is in that call, and so it answers soon.
void World::ask(int rank, Clock::duration most) {
  const Clock::time_point begun = Clock::now();
  mail_->tell(rank, NoteKind::asks, 0, 0, said_here()->text());
  while (!peer(rank).said && Clock::now() - begun < most) {
    progress();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void World::tell_broken(const Said& one, const Said& other) {
  if (std::exchange(told_, true)) return;
  for (const int r : neighbours()) mail_->tell(r, NoteKind::broken, 0, 0, one.text() + other.text());
}

void World::fail_by_news(const Call& call) {
  if (asked_by_ >= 0 && (!news_ || peer(asked_by_).asked->hash != call.expected())) {
    answer(asked_by_);
    fail_mismatch(call, *peer(asked_by_).asked);
  }
  const auto& [one, other] = *news_;  // the one that does not do what this rank does
  const bool takes_one = other.rank == rank_ || (one.rank != rank_ && one.hash != call.expected());
  fail_mismatch(call, takes_one ? one : other);
}

void World::fail_mismatch(const Call& call, const Said& other) {
  last_ = said_here();
  std::string does;
  switch (other.does) {
    case Said::Does::ends: does = fmt::format("has ended its Session ({})", other.place); break;
    case Said::Does::threw:
      does = other.what.empty() ? "has left by an exception" : fmt::format("has failed: {}", other.what);
      break;
    case Said::Does::call: does = fmt::format("calls {} ({})", other.what, other.place);
  }
  tell_broken(*last_, other);
  fail_broken(call, fmt::format("rank {} calls {} ({}), while rank {} {}. all ranks of a group must make the same "
                                "calls in the same order",
                                rank_, call.what(), call.place, other.rank, does));
}

void World::fail_broken(const Call& call, const std::string& message) {
  last_ = said_here();
  broken_ = fmt::format("{}: [{}] {}", call.place, call.op, message);
  throw Error(broken_);
}

// --- Waiting ---------------------------------------------------------------------------------------------------------

namespace {
constexpr auto soon = std::chrono::microseconds(200);
// By the clock and not by counting, for on a crowded machine each yield may take as long as the others' time slices.
// Data moves in pieces, each when both ranks call MPI: sleeping between them makes it many times slower.
void give_way(std::chrono::steady_clock::duration waited, bool data_moves) {
  using std::chrono::microseconds;
  const bool stays = data_moves && has_core_each();
  if (waited < microseconds(stays ? 2000 : 50)) return;
  if (waited < soon || (stays && waited < microseconds(100000))) return std::this_thread::yield();
  std::this_thread::sleep_for(microseconds(waited < microseconds(20000) ? 50 : 500));
}

constexpr auto ask_after = std::chrono::milliseconds(1000);
}  // namespace

void World::wait(const Call& call, const Callback<bool()>& done, const Callback<std::vector<int>()>& waits_for) {
  const Clock::time_point begun = Clock::now();
  Clock::time_point asked = begun;
  const struct Waits {
    World& world;
    explicit Waits(World& w) : world(w) { world.is_waiting_ = true; }
    ~Waits() { world.is_waiting_ = false, world.waits_in_ = nullptr, world.circle_.clear(); }
  } waits(*this);
  const bool data_moves = waits_for().empty();
  for (;;) {
    progress();
    if (done()) return;
    const Clock::time_point now = Clock::now();
    give_way(now - begun, data_moves);
    if (now - asked < ask_after) continue;
    asked = now;
    const std::vector<int> ranks = waits_for();
    ask_for_circle(call, ranks);
    if (!circle_.empty()) fail_broken(call, fmt::format("ranks wait for one another: {}", circle_));
    if (!is_patient_ && std::chrono::duration<double>(now - begun).count() > timeout()) fail_waiting(call, ranks);
  }
}

void World::fail_waiting(const Call& call, const std::vector<int>& ranks) {
  const std::string whom = stands_at_ >= 0 ? fmt::format("rank {}", stands_at_)
                           : ranks.empty() ? std::string("what moves data")
                                           : fmt::format("rank {}", ranks.front());
  fail_broken(call, fmt::format("rank {} has waited {:.0f} s for {}, which has neither called anything nor ended. "
                                "Session({{.timeout = seconds}}) waits longer",
                                rank_, timeout(), whom));
}

// --- Who waits for whom ----------------------------------------------------------------------------------------------

// A note goes from each rank that waits to the one that it waits for. Notes between two ranks arrive in order, so that
// if it comes back, none of those it has passed can have continued meanwhile.
void World::ask_for_circle(const Call& call, const std::vector<int>& ranks) {
  if (!waits_in_) ++waits_, stands_at_ = -1;
  waits_in_ = &call, waits_for_ = ranks;
  const Said here{rank_, Said::Does::call, 0, call.what(), call.place};
  for (const int r : ranks) mail_->tell(r, NoteKind::waits, waits_, uint64_t(rank_), here.text());
}

void World::take_waits(const Note& note) {
  const int origin = int(note.hash);
  if (!waits_in_ || waits_for_.empty()) return;  // this rank does not wait, and the origin asks again
  std::vector<Said> way = Said::all_of(note.text);
  if (origin == rank_) {
    if (note.number != waits_) return;
    for (const Said& s : way)
      circle_ +=
          fmt::format("{}rank {} calls {} ({})", circle_.empty() ? "" : ", which waits for ", s.rank, s.what, s.place);
    circle_ += fmt::format(", which waits for rank {}", rank_);
    return;
  }
  for (const Said& s : way)
    if (s.rank == rank_) return;  // a circle without the origin, which others find
  const Said here{rank_, Said::Does::call, 0, waits_in_->what(), waits_in_->place};
  const std::string text = note.text + here.text();
  if (text.size() > Mail::most) return;
  for (const int r : waits_for_) {
    mail_->tell(r, NoteKind::waits, note.number, note.hash, text);
    mail_->tell(origin, NoteKind::stands, note.number, uint64_t(r), {});
  }
}

// --- Ending ----------------------------------------------------------------------------------------------------------

// On several ranks, one that does not agree with this one's end.
void World::print_call(const Said& said, bool& bad, std::vector<int>& printed) const {
  bad = true;
  if (said.does != Said::Does::call || std::find(printed.begin(), printed.end(), said.rank) != printed.end()) return;
  printed.push_back(said.rank);
  const std::string line =
      fmt::format("rank {}: {}: [distribute::Session] rank {} ends its Session, while rank {} calls {} ({})\n", rank_,
                  last_->place, rank_, said.rank, said.what, said.place);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

// Waits until a rank has ended too: false where something is wrong, and it does not soon.
bool World::end_with(int rank, uint64_t hash, bool& bad, Clock::time_point begun, std::vector<int>& printed) {
  Peer& p = peer(rank);
  for (bool asks = true;;) {
    progress();
    while (!p.calls.empty()) {
      const bool ends = p.calls.front().hash + uint64_t(p.calls.front().number) == hash;
      p.calls.pop_front();
      if (ends) return true;
      bad = true;
      if (std::exchange(asks, false)) mail_->tell(rank, NoteKind::asks, 0, 0, last_->text());
    }
    for (Peer& other : peers_) {
      if (other.asked) print_call(*other.asked, bad, printed);
      if (other.said) print_call(*other.said, bad, printed);
    }
    if (news_) bad = true;
    if (bad && Clock::now() - begun > patience) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void World::leave(bool thrown, const std::string& place) {
  if (alone() || !is_own()) return;
  Call end;
  end.op = end.other_op = "the end of the Session", end.place = place;
  bool bad = thrown || !broken_.empty() || has_failed_;
  const auto does = thrown ? Said::Does::threw : Said::Does::ends;
  if (!last_ || !bad) last_ = Said{rank_, does, end.hash(), "", place};
  if (thrown) std::fprintf(stderr, "rank %d leaves its Session (%s) by an exception\n", rank_, place.c_str());
  if (thrown) tell_broken(*last_, *last_);
  for (int r = 0; r < size_; ++r)
    if (peer(r).asked) answer(r);
  // A rank that has failed waits for the others for a while, so that each can report its error.
  const Clock::time_point begun = Clock::now();
  bool all_left = true;
  std::vector<int> printed;
  for (int d = 1, round = 0; d < size_; d *= 2, ++round) {
    mail_->tell((rank_ - d + size_) % size_, NoteKind::call, round, end.hash(), {});
    all_left &= end_with((rank_ + d) % size_, end.hash() + uint64_t(round), bad, begun, printed);
  }
  if (bad) {
    for (auto& [key, group] : device_groups_)
      if (group) group->abort();
    std::fflush(nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // mpirun reads the others' output
    // Exceptions are printed by whoever catches them; the job must fail.
    if (!thrown || !moving_.empty() || !all_left) {
      mpi_->abort(1);
      _exit(1);
    }
  }
  while (!mail_->is_sent() || !moving_.empty()) progress();
  device_groups_.clear();
  mail_->stop();
  mpi_->end();
}

void World::end_job(const std::string& message) {
  world = nullptr;
  std::fflush(stdout);
  const std::string line = fmt::format("rank {}: {}\n", rank_, message);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  if (!last_) last_ = Said{rank_, Said::Does::threw, 0, message, ""};
  const std::vector<int> others = neighbours();
  tell_broken(*last_, *last_);
  for (const int r : others) mail_->tell(r, NoteKind::is_gone, 0, 0, {});
  const auto all_gone = [&] {
    return std::all_of(others.begin(), others.end(), [&](int r) { return peer(r).is_gone; });
  };
  const Clock::time_point begun = Clock::now();
  while (!all_gone() && Clock::now() - begun < patience) {
    progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // mpirun reads the others' output
  mpi_->abort(1);
  _exit(1);
}

}  // namespace rill::distribute
