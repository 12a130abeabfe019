// Device names: reading and printing them.
#include "rill/tensor/device.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/tensor/error.h"

namespace rill {

namespace {
constexpr std::string_view kind_names[device_kind_count] = {"cpu", "ref", "gpu"};

bool parse(std::string_view text, DeviceKind& kind, int& index) {
  // TensorFlow's long form is a path of /key:value parts; the device part comes last.
  if (size_t at = text.rfind('/'); at != text.npos) {
    text.remove_prefix(at + 1);
    if (text.starts_with("device:")) text.remove_prefix(7);
  }
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  size_t colon = lower.find(':');
  std::string head = lower.substr(0, colon), number = colon == lower.npos ? "0" : lower.substr(colon + 1);
  if (number.empty() || number.size() > 3 ||
      !std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return false;
  index = std::stoi(number);
  if (index > 255) return false;
  for (int k = 0; k < device_kind_count; ++k)
    if (head == kind_names[k]) {
      kind = DeviceKind(k);
      return true;
    }
  if (head == "cuda") {
    kind = DeviceKind::gpu;
    return true;
  }
  return false;
}
}  // namespace

Device::Device(std::string_view text, Where where) {
  int index = 0;
  if (!parse(text, kind_, index))
    fail("device", fmt::format("'{}' names no device. write cpu:0, gpu:0, ref:0 or /device:CPU:0", text), where);
  index_ = uint8_t(index);
}

void Device::fail_index(DeviceKind kind, int index, const Where& where) {
  fail("device", fmt::format("the index of {} is {} and must be in [0, 255]", kind_names[size_t(kind)], index), where);
}

std::string to_string(Device d) {
  const int kind = int(d.kind());  // a cast may have made it from any number, which errors name
  return kind < device_kind_count ? fmt::format("{}:{}", kind_names[kind], d.index())
                                  : fmt::format("DeviceKind({}):{}", kind, d.index());
}

}  // namespace rill
