// Device: the name of a place where tensors are stored and ops run, "cpu:0". A small value; devices/registry.h says
// which devices there are.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace rill {

enum class DeviceKind : uint8_t { cpu, ref, gpu };
inline constexpr int device_kind_count = 3;

class Device {
 public:
  constexpr Device() = default;  // cpu:0
  constexpr Device(DeviceKind kind, int index) : kind_(kind), index_(uint8_t(index)) {}
  // "cpu:0", "gpu:1", "ref:0", and TensorFlow's spellings "/device:CPU:0", "/job:x/task:0/device:GPU:1"; the index
  // may be left out. Naming a device does not need it to exist. Throws rill::Error for any other text.
  Device(std::string_view text);
  Device(const char* text) : Device(std::string_view(text)) {}
  Device(const std::string& text) : Device(std::string_view(text)) {}

  constexpr DeviceKind kind() const { return kind_; }  // cpu, ref or gpu
  constexpr int index() const { return index_; }       // which one of that kind
  friend constexpr bool operator==(Device, Device) = default;

 private:
  DeviceKind kind_ = DeviceKind::cpu;
  uint8_t index_ = 0;
};

// "cpu:0".
std::string to_string(Device d);

}  // namespace rill

#pragma GCC visibility pop
