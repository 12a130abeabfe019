// Devices of several processes that exchange memory by a library of their own, without the host: GPUs by NCCL. Who calls
// it sees to it that all members of a group begin the same exchanges in the same order (distribute/engine/device_calls.cpp).
//
// What is exchanged moves beside the device's work, in the order of the calls: it comes after what the device was given to
// do before, and what it is given later comes after it where Exchange::order_work() was called. Start at DeviceExchanges.
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

// What one member does in an exchange; `count` in elements of `dtype`.
struct ExchangePart {
  enum class Does : uint8_t { send, receive, all_gather, broadcast, all_reduce, reduce_scatter };
  Does does = Does::send;
  const char* from = nullptr;
  char* to = nullptr;
  int64_t count = 0;
  DType dtype = DType::u8;
  int member = 0;                  // to whom, from whom, whose
  Combine combine = Combine::sum;  // by the library, in an order of its own
};

// Adds up what the members have given, in the order of distribute/collectives.h's tree, with the host's bits: `blocks` has
// a block of each member but this one, whose own is `own`.
struct ExchangeSum {
  const char *blocks = nullptr, *own = nullptr;
  int64_t stride = 0;  // bytes from block to block
  char* to = nullptr;
  int64_t count = 0;
  DType dtype = DType::f32;
  Combine combine = Combine::sum;
};

// Parts that begin as one, or a sum of what they have brought.
struct ExchangeStep {
  std::vector<ExchangePart> parts;
  ExchangeSum sum;
};

// What has begun.
class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  virtual ~Exchange() = default;
  // The device's work that begins from now on comes after it. Its memory must be kept until then.
  virtual void order_work() = 0;
};

// A device as one member of several. One thread at a time.
class DeviceGroup {
 public:
  // Returns when a condition holds, and throws where it is not waited for any longer.
  using Wait = Callback<void(const Callback<bool()>&)>;
  // What is said of why something has failed: "step.cpp:31: [all_reduce] rank 0 ... {why}".
  using Message = Callback<std::string(const std::string& why)>;

  DeviceGroup() = default;
  DeviceGroup(const DeviceGroup&) = delete;
  virtual ~DeviceGroup() = default;
  // Begins the steps, one after the other. `wait`: for the library, which takes what it is given. Throws `message` where it
  // does not; of what fails later, who waits for the device is told.
  virtual std::unique_ptr<Exchange> begin(std::span<const ExchangeStep> steps, const Wait& wait,
                                          const Message& message) = 0;
  // Whether the library adds numbers of this dtype by itself.
  virtual bool adds(DType dtype) const = 0;
  // Ends what moves, for a group of which a member is gone.
  virtual void abort() noexcept = 0;
};

class DeviceExchanges {
 public:
  virtual ~DeviceExchanges() = default;
  // Of no two devices, on whatever machine, the same.
  virtual std::array<char, 16> identity(Device d) = 0;
  // What one member makes, and all then give to join().
  virtual std::string new_group() = 0;
  // Returns when all members have come. `timeout`: seconds after which what moves and does not end is an error.
  virtual std::unique_ptr<DeviceGroup> join(Device d, const std::string& group, int members, int me, double timeout,
                                            const DeviceGroup::Wait& wait, const DeviceGroup::Message& message) = 0;
};

}  // namespace rill

#pragma GCC visibility pop
