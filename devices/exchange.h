// Devices of several processes that exchange memory by a library of their own, without the host: GPUs by NCCL. The
// caller ensures that all members of a group start the same exchanges in the same order (distribute/engine/device_calls.cpp).
//
// An exchange runs concurrently with the device's work, but ordered with it: after all work that the device was given
// before, and before later work if Exchange::order_work() was called. Start at DeviceExchanges.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rill/tensor/callback.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

enum class Combine : uint8_t { sum, mean, product, max, min };

// One member's part in an exchange; `count` in elements of `dtype`.
struct ExchangePart {
  enum class Does : uint8_t { send, receive, all_gather, broadcast, all_reduce, reduce_scatter };
  Does does = Does::send;
  const char* from = nullptr;
  char* to = nullptr;
  int64_t count = 0;
  DType dtype = DType::u8;
  int member = 0;                  // the receiver, sender or root
  Combine combine = Combine::sum;  // by the library, in its own order
};

// Sums the members' blocks, in the order of distribute/collectives.h's tree, with the host's bits: `blocks` has a block
// of each member but this one, whose own is `own`.
struct ExchangeSum {
  const char *blocks = nullptr, *own = nullptr;
  int64_t stride = 0;  // bytes from block to block
  char* to = nullptr;
  int64_t count = 0;
  DType dtype = DType::f32;
  Combine combine = Combine::sum;
};

// Parts that start as one, or a sum of the blocks that they brought.
struct ExchangeStep {
  std::vector<ExchangePart> parts;
  ExchangeSum sum;
};

// An exchange that has started.
class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  virtual ~Exchange() = default;
  // Orders the device's later work after the exchange. Its memory must be kept until then.
  virtual void order_work() = 0;
};

// A device as a member of a group. Used by one thread at a time.
class DeviceGroup {
 public:
  // Returns when a condition holds, or throws if it gives up waiting.
  using Wait = Callback<void(const Callback<bool()>&)>;
  // The error message for a reason: "step.cpp:31: [all_reduce] rank 0 ... {why}".
  using Message = Callback<std::string(const std::string& why)>;

  DeviceGroup() = default;
  DeviceGroup(const DeviceGroup&) = delete;
  virtual ~DeviceGroup() = default;
  // Starts the steps, one after the other. `wait`: for the library to accept them. Throws `message` if it does not;
  // later failures are reported to whoever waits for the device.
  virtual std::unique_ptr<Exchange> begin(std::span<const ExchangeStep> steps, const Wait& wait,
                                          const Message& message) = 0;
  // Whether the library itself can add numbers of this dtype.
  virtual bool adds(DType dtype) const = 0;
  // Ends running exchanges, for a group that has lost a member.
  virtual void abort() noexcept = 0;
};

class DeviceExchanges {
 public:
  virtual ~DeviceExchanges() = default;
  // Unique among all devices of all machines.
  virtual std::array<char, 16> identity(Device d) = 0;
  // An identifier that one member creates, and all pass to join().
  virtual std::string new_group() = 0;
  // Returns when all members have joined. `timeout`: seconds after which an unfinished exchange is an error.
  virtual std::unique_ptr<DeviceGroup> join(Device d, const std::string& group, int members, int me, double timeout,
                                            const DeviceGroup::Wait& wait, const DeviceGroup::Message& message) = 0;
};

}  // namespace rill

#pragma GCC visibility pop
