// Device: the name of a device that stores tensors and runs ops, "cpu:0". A small value; devices/registry.h lists the
// existing devices.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rill/tensor/error.h"

#pragma GCC visibility push(default)

namespace rill {

namespace detail {
// Text, and not nullptr, which C++20 makes a std::string_view that cannot be read.
template <class T>
concept Text = std::convertible_to<T, std::string_view> && !std::same_as<T, std::nullptr_t>;
}  // namespace detail

enum class DeviceKind : uint8_t { cpu, ref, gpu };
inline constexpr int device_kind_count = 3;

class Device {
 public:
  constexpr Device() = default;  // cpu:0
  // Throws unless `index` is in [0, 255].
  constexpr Device(DeviceKind kind, int index, Where where = Where::current()) : kind_(kind), index_(uint8_t(index)) {
    if (index < 0 || index > 255) fail_index(kind, index, where);
  }
  // "cpu:0", "gpu:1", "ref:0", and TensorFlow's spellings "/device:CPU:0", "/job:x/task:0/device:GPU:1"; the index
  // may be left out. Naming a device does not need it to exist. Throws rill::Error for any other text.
  Device(std::string_view text, Where where = Where::current());
  Device(const char* text, Where where = Where::current()) : Device(std::string_view(text), where) {}
  Device(const std::string& text, Where where = Where::current()) : Device(std::string_view(text), where) {}
  Device(std::nullptr_t) = delete;

  constexpr DeviceKind kind() const { return kind_; }  // cpu, ref or gpu
  constexpr int index() const { return index_; }       // which one of that kind
  friend constexpr bool operator==(Device, Device) = default;

 private:
  [[noreturn]] static void fail_index(DeviceKind kind, int index, const Where& where);

  DeviceKind kind_ = DeviceKind::cpu;
  uint8_t index_ = 0;
};

// An optional device, for option structs: {.device = "ref:0"}. Unlike std::optional, it passes the caller's line to a
// Device made from text.
class MaybeDevice : public std::optional<Device> {
 public:
  using std::optional<Device>::optional;
  MaybeDevice() = default;
  MaybeDevice(const std::optional<Device>& d) : std::optional<Device>(d) {}
  template <detail::Text S>
  MaybeDevice(const S& text, Where where = Where::current()) : std::optional<Device>(Device(text, where)) {}
};

// "cpu:0".
std::string to_string(Device d);

}  // namespace rill

#pragma GCC visibility pop
