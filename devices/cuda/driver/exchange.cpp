// See exchange.h.
#include "rill/devices/cuda/driver/exchange.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "rill/devices/cuda/driver/capture.h"
#include "rill/devices/cuda/driver/nccl.h"
#include "rill/tensor/error.h"
#include "rill/tensor/later_errors.h"

namespace rill::cuda {

namespace {

using Clock = std::chrono::steady_clock;
using Message = DeviceGroup::Message;

constexpr int oldest_nccl = 21400;  // 2.14, the first with nonblocking calls

int type_of_number(DType d) {
  switch (d) {
    case DType::i8: return nccl::i8;
    case DType::u8: return nccl::u8;
    case DType::i32: return nccl::i32;
    case DType::u32: return nccl::u32;
    case DType::i64: return nccl::i64;
    case DType::u64: return nccl::u64;
    case DType::f16: return nccl::f16;
    case DType::bf16: return nccl::bf16;
    case DType::f32: return nccl::f32;
    case DType::f64: return nccl::f64;
    default: return -1;
  }
}
int operation_of(Combine c) {
  switch (c) {
    case Combine::sum: return nccl::sum;
    case Combine::mean: return nccl::mean;
    case Combine::product: return nccl::product;
    case Combine::max: return nccl::max;
    case Combine::min: return nccl::min;
  }
  return -1;
}

std::string why_failed(int result, nccl::Communicator c) {
  const char* more = c ? nccl::library().ncclGetLastError(c) : nullptr;
  return fmt::format("NCCL: {}{}{}", nccl::library().ncclGetErrorString(result), more && *more ? ": " : "",
                     more ? more : "");
}

class NcclGroup;

// A running exchange: between these events of the stream on which it runs.
struct Moving {
  explicit Moving(NcclGroup& g, Message m) : group(&g), message(std::move(m)) {
    for (Event* e : {&ready, &begun, &ended}) RILL_CUDA(cuEventCreate, e, event_disable_timing);
  }
  Moving(const Moving&) = delete;
  ~Moving() {
    for (const Event e : {ready, begun, ended}) api().cuEventDestroy(e);
  }
  static bool has_passed(Event e) {
    const Result result = api().cuEventQuery(e);
    if (result != not_ready) require(result, "cuEventQuery");
    return result == 0;
  }

  NcclGroup* group;  // while it is in a lane's list
  const Message message;
  Event ready = nullptr, begun = nullptr, ended = nullptr;
  std::optional<Clock::time_point> seen_begun;
};

// A GPU's stream for exchanges, and those that have not yet been seen to end there, in order.
struct Lane {
  std::mutex mutex;
  Stream stream = nullptr;
  std::deque<std::shared_ptr<Moving>> moving;
  std::atomic<bool> some_move = false;

  void forget_ended() {  // with the mutex held
    while (!moving.empty() && Moving::has_passed(moving.front()->ended)) moving.pop_front();
    some_move = !moving.empty();
  }
  void add(std::shared_ptr<Moving> m) {
    const std::lock_guard hold(mutex);
    forget_ended();
    moving.push_back(std::move(m)), some_move = true;
  }
  void forget(const NcclGroup& group) {
    const std::lock_guard hold(mutex);
    std::erase_if(moving, [&](const auto& m) { return m->group == &group; });
    some_move = !moving.empty();
  }
};
Lane& lane_of(const Gpu& gpu) { return of_gpu<Lane>(gpu); }

class NcclGroup final : public DeviceGroup {
 public:
  NcclGroup(Gpu& gpu, double timeout) : gpu_(gpu), timeout_(timeout) {}
  ~NcclGroup() override {
    const RestoredContext kept;
    end();
    lane_of(gpu_).forget(*this);
  }

  void join(const std::string& id, int members, int me, const Wait& wait, const Message& message);
  std::unique_ptr<Exchange> begin(std::span<const ExchangeStep> steps, const Wait& wait,
                                  const Message& message) override;
  bool adds(DType dtype) const override { return type_of_number(dtype) >= 0; }
  void abort() noexcept override {
    const RestoredContext kept;
    const std::lock_guard hold(mutex_);
    if (communicator_) nccl::library().ncclCommAbort(std::exchange(communicator_, nullptr));
  }

  // Why the exchange will not end; the group is then unusable.
  std::string failure(Moving& m) {
    std::string why;
    if (const int result = state(); result != 0 && result != nccl::in_progress) {
      why = why_failed(result, communicator_);
    } else if (!m.seen_begun) {
      if (Moving::has_passed(m.begun)) m.seen_begun = Clock::now();
    } else if (std::chrono::duration<double>(Clock::now() - *m.seen_begun).count() > timeout_) {
      why = fmt::format("has not ended in {:.0f} s. Session({{.timeout = seconds}}) waits longer", timeout_);
    }
    if (why.empty()) return why;
    abort();
    return failed_ = why;
  }

 private:
  int state() {
    const std::lock_guard hold(mutex_);
    int result = 0;
    if (communicator_) nccl::library().ncclCommGetAsyncError(communicator_, &result);
    return result;
  }
  // Throws if a call has failed; otherwise returns when NCCL has accepted it.
  void take(int result, const Wait& wait, const Message& message) {
    if (result == nccl::in_progress) wait([&] { return (result = state()) != nccl::in_progress; });
    if (result == 0) return;
    failed_ = why_failed(result, communicator_);
    throw Error(message(failed_));
  }
  void move(const std::vector<ExchangePart>& parts, const Wait& wait, const Message& message);
  int call(const ExchangePart& p, Stream s) const;
  void end();

  Gpu& gpu_;
  const double timeout_;
  int members_ = 0, me_ = 0;
  std::mutex mutex_;  // of the communicator, which several threads may query
  nccl::Communicator communicator_ = nullptr;
  std::string failed_;
};

class NcclExchange final : public Exchange {
 public:
  NcclExchange(Gpu& gpu, std::shared_ptr<Moving> moving) : gpu_(gpu), moving_(std::move(moving)) {}
  // Memory that is freed now is reused by work that comes later in the GPU's stream.
  ~NcclExchange() override {
    if (!moving_ || in_fork()) return;
    try {
      order_work();
    } catch (...) {
      return;  // the GPU's next work reports it
    }
  }
  void order_work() override {
    const RestoredContext kept;
    if (!moving_) return;
    const std::shared_ptr<Moving> m = std::exchange(moving_, nullptr);
    gpu_.enter();
    RILL_CUDA(cuStreamWaitEvent, gpu_.stream(), m->ended, 0);
  }

 private:
  Gpu& gpu_;
  std::shared_ptr<Moving> moving_;
};

void NcclGroup::join(const std::string& id, int members, int me, const Wait& wait, const Message& message) {
  const RestoredContext kept;
  gpu_.enter();
  if (Lane& lane = lane_of(gpu_); !lane.stream) RILL_CUDA(cuStreamCreate, &lane.stream, stream_non_blocking);
  nccl::UniqueId unique{};
  std::memcpy(&unique, id.data(), std::min(id.size(), sizeof unique));
  nccl::Config config;
  members_ = members, me_ = me;
  take(nccl::library().ncclCommInitRankConfig(&communicator_, members, unique, me, &config), wait, message);
}

void NcclGroup::end() {
  const std::lock_guard hold(mutex_);
  if (!communicator_ || in_fork()) return;
  gpu_.enter();
  const nccl::Library& l = nccl::library();
  int result = l.ncclCommFinalize(communicator_);
  for (int i = 0; result == nccl::in_progress && i < 5000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    l.ncclCommGetAsyncError(communicator_, &result);
  }
  if (result == 0) l.ncclCommDestroy(communicator_);
  else l.ncclCommAbort(communicator_);
  communicator_ = nullptr;
}

int NcclGroup::call(const ExchangePart& p, Stream s) const {
  using Does = ExchangePart::Does;
  const nccl::Library& l = nccl::library();
  const nccl::Communicator c = communicator_;
  const size_t bytes = size_t(p.count) * size_of(p.dtype);  // plain transfers are of bytes
  const int type = type_of_number(p.dtype), op = operation_of(p.combine);
  switch (p.does) {
    case Does::send: return l.ncclSend(p.from, bytes, nccl::u8, p.member, c, s);
    case Does::receive: return l.ncclRecv(p.to, bytes, nccl::u8, p.member, c, s);
    case Does::all_gather: return l.ncclAllGather(p.from, p.to, bytes, nccl::u8, c, s);
    case Does::broadcast: return l.ncclBroadcast(p.from, p.to, bytes, nccl::u8, p.member, c, s);
    case Does::all_reduce: return l.ncclAllReduce(p.from, p.to, size_t(p.count), type, op, c, s);
    case Does::reduce_scatter: return l.ncclReduceScatter(p.from, p.to, size_t(p.count), type, op, c, s);
  }
  return 0;
}

void NcclGroup::move(const std::vector<ExchangePart>& parts, const Wait& wait, const Message& message) {
  const nccl::Library& l = nccl::library();
  int failed = l.ncclGroupStart();
  for (const ExchangePart& p : parts)
    if (failed == 0 || failed == nccl::in_progress) failed = call(p, lane_of(gpu_).stream);
  const int ended = l.ncclGroupEnd();
  take(failed != 0 && failed != nccl::in_progress ? failed : ended, wait, message);
}

std::unique_ptr<Exchange> NcclGroup::begin(std::span<const ExchangeStep> steps, const Wait& wait,
                                           const Message& message) {
  Capture::require_none(gpu_);
  if (!failed_.empty()) throw Error(message(failed_));
  const RestoredContext kept;
  gpu_.enter();
  Lane& lane = lane_of(gpu_);
  const auto moving = std::make_shared<Moving>(*this, message);
  RILL_CUDA(cuEventRecord, moving->ready, gpu_.stream());
  RILL_CUDA(cuStreamWaitEvent, lane.stream, moving->ready, 0);
  RILL_CUDA(cuEventRecord, moving->begun, lane.stream);
  for (const ExchangeStep& step : steps) {
    if (!step.parts.empty()) move(step.parts, wait, message);
    add_up(gpu_, step.sum, members_, me_, lane.stream);
  }
  RILL_CUDA(cuEventRecord, moving->ended, lane.stream);
  lane.add(moving);
  return std::make_unique<NcclExchange>(gpu_, moving);
}

class NcclExchanges final : public DeviceExchanges {
 public:
  std::array<char, 16> identity(Device d) override {
    std::array<char, 16> uuid{};
    RILL_CUDA(cuDeviceGetUuid, uuid.data(), found_gpu(d).ordinal);
    return uuid;
  }
  std::string new_group() override {
    nccl::UniqueId id{};
    if (const int result = nccl::library().ncclGetUniqueId(&id); result != 0) throw Error(why_failed(result, nullptr));
    return {id.bytes, sizeof id.bytes};
  }
  std::unique_ptr<DeviceGroup> join(Device d, const std::string& group, int members, int me, double timeout,
                                    const DeviceGroup::Wait& wait, const Message& message) override {
    auto made = std::make_unique<NcclGroup>(gpu_of(d), timeout);
    made->join(group, members, me, wait, message);
    return made;
  }
};

}  // namespace

const std::string& no_exchange_reason() {
  static const std::string& reason = *new std::string([]() -> std::string {
    const nccl::Library& l = nccl::library();
    int version = 0;
    if (!l.missing.empty()) return l.missing;
    if (l.ncclGetVersion(&version) != 0 || version < oldest_nccl)
      return fmt::format("this NCCL is of version {}, and 2.14 is the first that serves", version);
    return "";
  }());
  return reason;
}

DeviceExchanges* exchanges() {
  static auto* all = new NcclExchanges;
  return no_exchange_reason().empty() ? all : nullptr;
}

void wait_for_exchanges(Gpu& gpu) {
  Lane& lane = lane_of(gpu);
  if (!lane.some_move) return;
  const Clock::time_point since = Clock::now();
  for (int64_t polls = 0;; ++polls) {
    std::string failed;
    {
      const std::lock_guard hold(lane.mutex);
      lane.forget_ended();
      if (lane.moving.empty()) return;
      Moving& first = *lane.moving.front();
      if (polls % 64 == 63)
        if (const std::string why = first.group->failure(first); !why.empty()) failed = first.message(why);
      if (!failed.empty()) lane.moving.clear(), lane.some_move = false;
    }
    if (!failed.empty()) fail_later(failed);
    if (Clock::now() - since < std::chrono::milliseconds(2)) std::this_thread::yield();
    else std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace rill::cuda
