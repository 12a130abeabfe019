// Runs of kernels that a device captures once (DeviceDriver::capture) and then starts with a single call, which costs
// the host less than starting each kernel. Executable::find_capture_ranges() says what can be captured. Start at
// Captures::launch().
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "rill/devices/driver.h"

#pragma GCC visibility push(default)

namespace rill {

// Instructions in a row whose kernels all work on one device.
struct CaptureRange {
  Device device;
  size_t begin = 0, end = 0;     // instructions
  std::vector<uint32_t> moving;  // numbers of values among their operands that lie elsewhere from call to call
};

// What was captured of a range, for the frame of an executable, in which the other values have their places.
class Captures {
 public:
  // `is_off`: of the executable, whose captures all stay off where memory was out.
  explicit Captures(std::shared_ptr<std::atomic<bool>> is_off);
  Captures(const Captures&) = delete;
  ~Captures();
  // Frees what all of them keep, because memory is out, except those that are in launch() now. The executables of those
  // that kept something capture no more.
  static void give_back_memory();
  // To be asked once a call: not at the first one, when kernels are compiled and libraries make plans.
  bool may_launch() { return std::exchange(is_warm_, true) && credit_ >= 0 && !*is_off_; }
  // A call could not be captured.
  void charge() { --credit_; }
  // Begins the range's kernels, whose operands are among `values`; `run` gives them to the device one by one. False
  // where the caller has to run them itself: where capturing fails or does not pay.
  bool launch(const CaptureRange& range, std::span<const Tensor> values, const Callback<void()>& run);

 private:
  // Where the moving values are: their blocks of memory, and all else that a kernel's launch may depend on.
  struct Places {
    std::vector<MovingMemory> blocks;
    std::vector<int64_t> layout;
  };
  struct Kept {
    std::vector<int64_t> layout;
    std::unique_ptr<CapturedWork> work;
  };
  static bool find_places(const CaptureRange& range, std::span<const Tensor> values, Places& places);
  bool capture(const CaptureRange& range, const Places& places, const Callback<void()>& run);

  std::vector<Kept> kept_;  // the one that was used last stands last
  int credit_;              // captures it may still make: each costs one, each launch of a kept one earns one back
  bool is_warm_ = false;
  const std::shared_ptr<std::atomic<bool>> is_off_;
  std::atomic<bool> is_at_work_ = false;
};

}  // namespace rill

#pragma GCC visibility pop
