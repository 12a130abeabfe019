// A libnccl.so.2 between simulated GPUs of several processes, stricter than NVIDIA's.
//
// * A call transfers nothing itself: it becomes work of its stream, which a thread does when the stream gets
//   there, with the contents of the GPU's memory at that time. Groups (ncclGroupStart, ncclGroupEnd) start together; a
//   stream has none of a nonblocking communicator's work before ncclCommGetAsyncError has said so.
// * Processes meet in shared memory, in which each has a ring of bytes for each other. A header precedes each
//   transfer: if another process expects something else (call, count, type, operation, root), both communicators fail.
// * What has failed never ends, as with NVIDIA's, until ncclCommAbort().
// * Sums are computed from the last member to the first, so that they differ from sums by rill.
// * Two members with one GPU are rejected.
// * Tests say which group is to fail (rill_simulated_nccl_fail), and count calls.
//
// NCCL's documentation says what each call does. Start at Work::run.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "numbers.h"
#include "shared.h"

extern "C" int cuDeviceGetUuid_v2(char*, int);

namespace {

enum Result { ok = 0, unhandled = 1, invalid_argument = 4, invalid_usage = 5, remote = 6, in_progress = 7 };
enum class Kind : int { send, all_gather, broadcast, all_reduce, reduce_scatter };

constexpr int most_members = 8;

// --- Shared memory ---

struct Ring {
  static constexpr uint64_t bytes = 1 << 15;
  std::atomic<uint64_t> written, read;
  char data[bytes];

  uint64_t put(const char* from, uint64_t most) {
    const uint64_t at = written.load(), room = bytes - (at - read.load(std::memory_order_acquire));
    const uint64_t now = std::min(most, room);
    for (uint64_t i = 0; i < now; ++i) data[(at + i) % bytes] = from[i];
    written.store(at + now, std::memory_order_release);
    return now;
  }
  uint64_t take(char* to, uint64_t most) {
    const uint64_t at = read.load(), there = written.load(std::memory_order_acquire) - at;
    const uint64_t now = std::min(most, there);
    for (uint64_t i = 0; i < now; ++i) to[i] = data[(at + i) % bytes];
    read.store(at + now, std::memory_order_release);
    return now;
  }
};
struct Meeting {  // initially zeros
  std::atomic<int> came, failed;
  char uuids[most_members][16];
  Ring rings[most_members][most_members];  // from, to
};

struct Id {
  char bytes[128];
};
struct Config {
  size_t size;
  unsigned magic, version;
  int blocking;
};

// The header of a transfer.
struct Head {
  Kind kind;
  int type, operation, root;
  uint64_t count;
  bool operator==(const Head&) const = default;
  std::string text() const {
    static const char* const names[] = {"send or receive", "all_gather", "broadcast", "all_reduce", "reduce_scatter"};
    return std::string(names[int(kind)]) + " of " + std::to_string(count) + " of type " + std::to_string(type) +
           ", operation " + std::to_string(operation) + ", root " + std::to_string(root);
  }
};

}  // namespace

struct ncclComm {
  Meeting* meeting = nullptr;
  std::string name;
  int members = 0, me = 0, device = 0;
  bool blocks = true, is_ready = false;
  std::atomic<bool> aborted = false;
  std::mutex mutex;
  int error = ok;
  std::string last_error;
  std::vector<std::pair<void*, std::function<int()>>> waiting;  // groups that no stream has yet
  bool said_in_progress = false;

  int fail(int result, const std::string& why) {
    const std::lock_guard hold(mutex);
    if (error == ok) error = result, last_error = why;
    if (meeting) meeting->failed = 1;
    return result;
  }
};

namespace {

using Comm = ncclComm*;

std::mutex counts_mutex;
std::map<std::string, long> counts;
int groups_until_failure = 0, failure = 0;
void count(const char* name) {
  const std::lock_guard hold(counts_mutex);
  ++counts[name];
}
// The error of the next group; -1: none. 0: it never ends, and reports nothing.
int next_failure() {
  const std::lock_guard hold(counts_mutex);
  return groups_until_failure > 0 && --groups_until_failure == 0 ? failure : -1;
}

size_t width(int type) {
  return type <= 1 ? 1 : type == 6 || type == 9 ? 2 : type == 4 || type == 5 || type == 8 ? 8 : 4;
}

// --- Numbers ---

float wide(uint16_t bits, int type) { return type == 9 ? bfloat_value(bits) : half_value(bits); }
uint16_t narrow(float x, int type) { return type == 9 ? bfloat_bits(x) : half_bits(x); }
template <class T>
T combined(T a, T b, int operation) {
  switch (operation) {
    case 1: return T(a * b);
    case 2: return a > b ? a : b;
    case 3: return a < b ? a : b;
    default: return T(a + b);
  }
}
template <class T>
void combine_as(char* sum, const char* more, uint64_t n, int operation, int divide_by) {
  T* a = reinterpret_cast<T*>(sum);
  for (uint64_t i = 0; i < n; ++i) {
    if (divide_by) a[i] = T(a[i] / T(divide_by));
    else a[i] = combined(a[i], reinterpret_cast<const T*>(more)[i], operation);
  }
}
void combine(char* sum, const char* more, uint64_t n, int type, int operation, int divide_by) {
  switch (type) {
    case 0: return combine_as<int8_t>(sum, more, n, operation, divide_by);
    case 1: return combine_as<uint8_t>(sum, more, n, operation, divide_by);
    case 2: return combine_as<int32_t>(sum, more, n, operation, divide_by);
    case 3: return combine_as<uint32_t>(sum, more, n, operation, divide_by);
    case 4: return combine_as<int64_t>(sum, more, n, operation, divide_by);
    case 5: return combine_as<uint64_t>(sum, more, n, operation, divide_by);
    case 7: return combine_as<float>(sum, more, n, operation, divide_by);
    case 8: return combine_as<double>(sum, more, n, operation, divide_by);
    default: break;
  }
  auto* a = reinterpret_cast<uint16_t*>(sum);
  for (uint64_t i = 0; i < n; ++i) {
    const float x = wide(a[i], type);
    a[i] = narrow(divide_by ? x / float(divide_by)
                            : combined(x, wide(reinterpret_cast<const uint16_t*>(more)[i], type), operation),
                  type);
  }
}

// --- Work of a stream ---

struct Call {
  Comm comm;
  Head head;
  const char* from;
  char* to;
  int peer;  // of a send or receive
  bool sends, receives;
};

// Bytes that are being sent to a member, or received from it.
struct Way {
  Head head;
  char* at;
  uint64_t bytes, done = 0, head_done = 0;
  Head found = {};
};

struct Work {
  Comm comm;
  std::vector<Call> calls;
  int fails_with;

  std::map<int, std::deque<Way>> out, in;                                              // by member
  std::vector<std::vector<char>> came = std::vector<std::vector<char>>(most_members);  // of a sum

  int run() {
    if (fails_with > 0) comm->fail(fails_with, "a test has asked for it");
    if (fails_with >= 0) return wait_for_abort();
    for (Call& c : calls)
      if (!prepare(c)) return 700;
    while (some_left()) {
      bool moved = false;
      for (auto& [member, ways] : out) moved |= push(comm->meeting->rings[comm->me][member], ways);
      for (auto& [member, ways] : in) moved |= pull(comm->meeting->rings[member][comm->me], ways, member);
      if (comm->aborted) return 0;
      if (comm->meeting->failed) return fail_too();
      if (!moved) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    for (Call& c : calls) finish(c);
    return 0;
  }

 private:
  int wait_for_abort() const {
    while (!comm->aborted) std::this_thread::sleep_for(std::chrono::microseconds(200));
    return 0;
  }
  int fail_too() const {
    comm->fail(remote, "another member has failed");
    return wait_for_abort();
  }
  bool some_left() const {
    for (const auto* ways : {&out, &in})
      for (const auto& [member, left] : *ways)
        if (!left.empty()) return true;
    return false;
  }
  static char* host(const void* device, uint64_t bytes) { return simulated_memory(device, bytes); }

  bool prepare(const Call& c) {
    const uint64_t bytes = c.head.count * width(c.head.type);
    const int n = comm->members, me = comm->me;
    const bool scatters = c.head.kind == Kind::reduce_scatter, gathers = c.head.kind == Kind::all_gather;
    const bool reads = c.head.kind == Kind::send ? c.sends : c.head.kind != Kind::broadcast || c.head.root == me;
    const bool writes = c.head.kind == Kind::send ? c.receives : true;
    char* from = reads ? host(c.from, scatters ? bytes * uint64_t(n) : bytes) : nullptr;
    char* to = writes ? host(c.to, gathers ? bytes * uint64_t(n) : bytes) : nullptr;
    if ((reads && !from) || (writes && !to)) return false;
    const auto goes = [&](int member, char* at) { out[member].push_back({c.head, at, bytes}); };
    const auto comes = [&](int member, char* at) { in[member].push_back({c.head, at, bytes}); };
    switch (c.head.kind) {
      case Kind::send:
        if (c.sends) goes(c.peer, from);
        if (c.receives) comes(c.peer, to);
        break;
      case Kind::all_gather:
        for (int i = 0; i < n; ++i) goes(i, from), comes(i, to + uint64_t(i) * bytes);
        break;
      case Kind::broadcast:
        for (int i = 0; me == c.head.root && i < n; ++i) goes(i, from);
        comes(c.head.root, to);
        break;
      case Kind::all_reduce:
      case Kind::reduce_scatter:
        for (int i = 0; i < n; ++i) {
          came[size_t(i)].resize(bytes);
          goes(i, from + (scatters ? uint64_t(i) * bytes : 0)), comes(i, came[size_t(i)].data());
        }
    }
    return true;
  }
  void finish(const Call& c) {
    if (c.head.kind != Kind::all_reduce && c.head.kind != Kind::reduce_scatter) return;
    const int n = comm->members;
    std::vector<char>& sum = came[size_t(n - 1)];
    for (int i = n - 1; i-- > 0;)
      combine(sum.data(), came[size_t(i)].data(), c.head.count, c.head.type, c.head.operation, 0);
    if (c.head.operation == 4) combine(sum.data(), nullptr, c.head.count, c.head.type, 0, n);
    std::memcpy(host(c.to, sum.size()), sum.data(), sum.size());
  }

  static bool push(Ring& ring, std::deque<Way>& ways) {
    if (ways.empty()) return false;
    Way& w = ways.front();
    bool moved = false;
    if (w.head_done < sizeof w.head) {
      const uint64_t now = ring.put(reinterpret_cast<const char*>(&w.head) + w.head_done, sizeof w.head - w.head_done);
      w.head_done += now, moved |= now > 0;
    }
    if (w.head_done == sizeof w.head) {
      const uint64_t now = ring.put(w.at + w.done, w.bytes - w.done);
      w.done += now, moved |= now > 0;
      if (w.done == w.bytes) ways.pop_front(), moved = true;
    }
    return moved;
  }
  bool pull(Ring& ring, std::deque<Way>& ways, int member) {
    if (ways.empty()) return false;
    Way& w = ways.front();
    bool moved = false;
    if (w.head_done < sizeof w.found) {
      const uint64_t now = ring.take(reinterpret_cast<char*>(&w.found) + w.head_done, sizeof w.found - w.head_done);
      w.head_done += now, moved |= now > 0;
      if (w.head_done == sizeof w.found && !(w.found == w.head))
        comm->fail(invalid_usage, "member " + std::to_string(member) + " has begun " + w.found.text() +
                                      ", and this one " + w.head.text());
    }
    if (w.head_done == sizeof w.found && w.found == w.head) {
      const uint64_t now = ring.take(w.at + w.done, w.bytes - w.done);
      w.done += now, moved |= now > 0;
      if (w.done == w.bytes) ways.pop_front(), moved = true;
    }
    return moved;
  }
};

// --- Groups ---

thread_local int depth = 0;
thread_local std::vector<std::pair<void*, Call>> called;  // with their streams
thread_local int group_error = ok;

int end_group() {
  std::map<Comm, std::pair<void*, Work>> works;
  for (auto& [stream, call] : called) {
    auto [at, is_new] = works.try_emplace(call.comm, stream, Work{call.comm, {}, -1, {}, {}});
    if (at->second.first != stream) group_error = call.comm->fail(invalid_usage, "one group has two streams");
    at->second.second.calls.push_back(call);
  }
  called.clear();
  int result = std::exchange(group_error, ok);
  for (auto& [comm, what] : works) {
    what.second.fails_with = next_failure();
    auto work = [w = std::make_shared<Work>(what.second)] { return w->run(); };
    const std::lock_guard hold(comm->mutex);
    if (comm->blocks) {
      simulated_work(what.first, work);
    } else {
      comm->waiting.emplace_back(what.first, work), comm->said_in_progress = false;
      if (result == ok) result = in_progress;
    }
  }
  return result;
}

int add_call(const char* name, void* stream, const Call& call) {
  count(name);
  Comm c = call.comm;
  int result = ok;
  const int type = call.head.type, operation = call.head.operation, root = call.head.root;
  if (c->error != ok) result = c->error;
  else if (!c->is_ready) result = c->fail(invalid_usage, "the communicator is not ready");
  else if (type < 0 || type > 9 || operation < 0 || operation > 4 || root < 0 || root >= c->members || call.peer < 0 ||
           call.peer >= c->members)
    result = c->fail(invalid_argument, call.head.text());
  else if (simulated_device_of(stream) != c->device) result = c->fail(invalid_usage, "the stream is another GPU's");
  if (result != ok) {
    group_error = result;
    return result;
  }
  called.emplace_back(stream, call);
  return depth > 0 ? ok : end_group();
}

// Whether all have joined; two of them may have one GPU.
int look_for_all(Comm c) {
  if (c->is_ready) return ok;
  if (c->meeting->came < c->members) return in_progress;
  c->is_ready = true;
  if (c->me == 0) shm_unlink(c->name.c_str());
  for (int i = 0; i < c->members; ++i)
    for (int k = 0; k < i; ++k)
      if (std::memcmp(c->meeting->uuids[i], c->meeting->uuids[k], 16) == 0) {
        c->error = invalid_usage, c->last_error = "Duplicate GPU detected";
        return invalid_usage;
      }
  return ok;
}

}  // namespace

extern "C" {

// The `nth` group from now on fails with this result, or, for 0, never ends.
void rill_simulated_nccl_fail(int nth, int result) {
  const std::lock_guard hold(counts_mutex);
  groups_until_failure = nth, failure = result;
}
long rill_simulated_nccl_count(const char* name) {
  const std::lock_guard hold(counts_mutex);
  return counts[name];
}

int ncclGetVersion(int* version) {
  *version = 22304;
  return ok;
}
int ncclGetUniqueId(Id* id) {
  static std::atomic<int> last = 0;
  *id = {};
  std::snprintf(id->bytes, sizeof id->bytes, "/rill-nccl-%d-%d-%lld", int(getpid()), ++last,
                static_cast<long long>(std::chrono::steady_clock::now().time_since_epoch().count()));
  return ok;
}
int ncclCommInitRankConfig(Comm* comm, int members, Id id, int me, Config* config) {
  count("ncclCommInitRankConfig");
  if (!config || config->magic != 0xcafebeef || config->size < sizeof(Config)) return invalid_argument;
  if (members < 1 || members > most_members || me < 0 || me >= members) return invalid_argument;
  auto* c = new ncclComm;
  c->members = members, c->me = me, c->name = id.bytes, c->device = simulated_device(),
  c->blocks = config->blocking != 0;
  if (c->device < 0) return unhandled;
  const int file = shm_open(id.bytes, O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, sizeof(Meeting)) != 0) return unhandled;
  void* at = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (at == MAP_FAILED) return unhandled;
  c->meeting = static_cast<Meeting*>(at);
  cuDeviceGetUuid_v2(c->meeting->uuids[me], c->device);
  ++c->meeting->came;
  *comm = c;
  if (!c->blocks) return in_progress;
  int result = in_progress;
  while ((result = look_for_all(c)) == in_progress) std::this_thread::sleep_for(std::chrono::microseconds(100));
  return result;
}
int ncclCommFinalize(Comm c) {
  count("ncclCommFinalize");
  return c->error;
}
int ncclCommDestroy(Comm c) {
  count("ncclCommDestroy");
  munmap(c->meeting, sizeof(Meeting));
  delete c;
  return ok;
}
int ncclCommAbort(Comm c) {
  count("ncclCommAbort");
  c->aborted = true;  // streams may still use it, so it is not freed
  if (!c->is_ready) shm_unlink(c->name.c_str());
  return ok;
}
const char* ncclGetErrorString(int result) {
  return result == invalid_argument ? "invalid argument"
         : result == invalid_usage  ? "invalid usage"
         : result == remote         ? "remote process exited or there was a network error"
                                    : "unhandled error";
}
const char* ncclGetLastError(Comm c) { return c ? c->last_error.c_str() : ""; }
int ncclCommGetAsyncError(Comm c, int* result) {
  const std::lock_guard hold(c->mutex);
  *result = c->error != ok ? c->error : look_for_all(c);
  if (*result != ok || c->waiting.empty()) return ok;
  if (!c->said_in_progress) {
    c->said_in_progress = true, *result = in_progress;
    return ok;
  }
  for (auto& [stream, work] : c->waiting) simulated_work(stream, std::move(work));
  c->waiting.clear();
  return ok;
}

int ncclAllReduce(const void* from, void* to, size_t n, int type, int op, Comm c, void* stream) {
  return add_call(
      "ncclAllReduce", stream,
      {c, {Kind::all_reduce, type, op, 0, n}, static_cast<const char*>(from), static_cast<char*>(to), 0, true, true});
}
int ncclReduceScatter(const void* from, void* to, size_t n, int type, int op, Comm c, void* stream) {
  return add_call("ncclReduceScatter", stream,
                  {c,
                   {Kind::reduce_scatter, type, op, 0, n},
                   static_cast<const char*>(from),
                   static_cast<char*>(to),
                   0,
                   true,
                   true});
}
int ncclAllGather(const void* from, void* to, size_t n, int type, Comm c, void* stream) {
  return add_call(
      "ncclAllGather", stream,
      {c, {Kind::all_gather, type, 0, 0, n}, static_cast<const char*>(from), static_cast<char*>(to), 0, true, true});
}
int ncclBroadcast(const void* from, void* to, size_t n, int type, int root, Comm c, void* stream) {
  return add_call(
      "ncclBroadcast", stream,
      {c, {Kind::broadcast, type, 0, root, n}, static_cast<const char*>(from), static_cast<char*>(to), 0, true, true});
}
int ncclSend(const void* from, size_t n, int type, int to, Comm c, void* stream) {
  return add_call("ncclSend", stream,
                  {c, {Kind::send, type, 0, 0, n}, static_cast<const char*>(from), nullptr, to, true, false});
}
int ncclRecv(void* to, size_t n, int type, int from, Comm c, void* stream) {
  return add_call("ncclRecv", stream,
                  {c, {Kind::send, type, 0, 0, n}, nullptr, static_cast<char*>(to), from, false, true});
}
int ncclGroupStart() {
  ++depth;
  return ok;
}
int ncclGroupEnd() {
  count("ncclGroupEnd");
  if (depth < 1) return invalid_usage;
  return --depth > 0 ? ok : end_group();
}
}
