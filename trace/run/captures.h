// Runs of kernels that a device captures once (DeviceDriver::capture) and then launches with a single call, which costs
// the host less than launching each kernel. Executable::find_capture_ranges() decides what is captured. Start at
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

// Consecutive instructions whose kernels all run on one device.
struct CaptureRange {
  Device device;
  size_t begin = 0, end = 0;     // instructions
  std::vector<uint32_t> moving;  // numbers of the values among their operands whose addresses change between calls
};

// The captures of a range, for one frame of an executable, in which all other values have fixed addresses.
class Captures {
 public:
  // `is_off`: of the executable; once memory has run out, all its captures stay off.
  explicit Captures(std::shared_ptr<std::atomic<bool>> is_off);
  Captures(const Captures&) = delete;
  ~Captures();
  // Frees what all of them keep, because memory has run out, except those that are in launch() now. The executables of
  // those that kept something never capture again.
  static void give_back_memory();
  // Call it once for each call: it is false for the first, when kernels are compiled and libraries make plans.
  bool may_launch() { return std::exchange(is_warm_, true) && credit_ >= 0 && !*is_off_; }
  // Counts a call that could not be captured.
  void charge() { --credit_; }
  // Launches the range's kernels, whose operands are among `values`; `run` gives them to the device one by one. False
  // if the caller has to run them itself: because capturing fails or does not pay.
  bool launch(const CaptureRange& range, std::span<const Tensor> values, const Callback<void()>& run);

 private:
  // The memory of the moving values: their blocks, and all else that a kernel's launch may depend on.
  struct MemoryLayout {
    std::vector<MovingMemory> blocks;
    std::vector<int64_t> layout;
  };
  struct Kept {
    std::vector<int64_t> layout;
    std::unique_ptr<CapturedWork> work;
  };
  static bool find_memory(const CaptureRange& range, std::span<const Tensor> values, MemoryLayout& memory);
  bool capture(const CaptureRange& range, const MemoryLayout& memory, const Callback<void()>& run);

  std::vector<Kept> kept_;  // the last used one is last
  int credit_;              // captures it may still make: each costs one, each launch of a kept one earns one
  bool is_warm_ = false;
  const std::shared_ptr<std::atomic<bool>> is_off_;
  std::atomic<bool> is_at_work_ = false;
};

}  // namespace rill

#pragma GCC visibility pop
