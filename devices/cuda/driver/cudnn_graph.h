// Computations for cuDNN: a Graph describes a computation, as data; a Plan is the library's implementation of it for a
// GPU, which takes from milliseconds to seconds to make, and is cached (cudnn_plans.h).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "rill/devices/cuda/driver/cudnn.h"

#pragma GCC visibility push(default)

namespace rill::cuda::dnn {

// An attribute of a part: integers, or indices of descriptors in the graph's list of parts.
struct Setting {
  Name name;
  Type type;
  std::vector<int64_t> values;
};
// The description of a descriptor.
struct Part {
  Kind kind;
  std::vector<Setting> settings;
};

// Operands are tensors in memory; their ids are 1, 2, ... in the order in which they are added.
class Graph {
 public:
  // Engines on tensor cores are not used: they round f32 to fewer digits.
  bool without_tensor_cores = false;

  // Returns its index. Strides are in elements; every address is a multiple of `alignment` bytes.
  int64_t tensor(int type, std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t alignment);
  // `kind`: forward, or a gradient. x, w and y are the indices of three tensors: input [batch, channels, space...],
  // weights [out, in / groups, space...], result [batch, out, space...].
  struct Window {
    std::vector<int64_t> strides, dilations, pads;  // as many before as after
    int compute;                                    // data type
  };
  void convolution(Kind kind, int64_t x, int64_t w, int64_t y, const Window& window);

  int64_t operands() const { return operands_; }
  const std::vector<Part>& parts() const { return parts_; }
  // The complete graph, a line for each part: "17 900:3:16 901:1:0 ...", kind and attributes with name, type and
  // values; the last line is that of the operation graph.
  std::string text() const;
  // The graph of such a text. Throws rill::Error.
  static Graph parse(const std::string& text);

 private:
  int64_t add(Part part);

  std::vector<Part> parts_;
  std::vector<int64_t> operations_;
  int64_t operands_ = 0;
};

// A descriptor, destroyed with this.
class OwnedDescriptor {
 public:
  OwnedDescriptor() = default;
  explicit OwnedDescriptor(Kind kind);
  OwnedDescriptor(OwnedDescriptor&& o) noexcept : descriptor_(o.descriptor_) { o.descriptor_ = nullptr; }
  OwnedDescriptor& operator=(OwnedDescriptor&& o) noexcept {
    std::swap(descriptor_, o.descriptor_);
    return *this;
  }
  ~OwnedDescriptor();
  Descriptor get() const { return descriptor_; }

 private:
  Descriptor descriptor_ = nullptr;
};

// The GPU for which plans are made: that of a handle, or, without one, one that a text describes (cuDNN 9.8).
struct Target {
  Handle handle = nullptr;
  Descriptor device = nullptr;
};

struct Plan {
  std::vector<OwnedDescriptor> parts;  // that the plan refers to
  OwnedDescriptor plan;
  size_t workspace_bytes = 0;
  std::string text;  // restores it, with this cuDNN and this kind of GPU
};

// The library's first choice among engines that are deterministic, compute in full precision, are compiled already and
// need no more workspace than `most_workspace`; or nullptr, and `why` says why there is none.
std::unique_ptr<Plan> make_plan(const Graph& g, const Target& target, size_t most_workspace, std::string& why);
// The plan of Plan::text, or nullptr.
std::unique_ptr<Plan> restore_plan(const std::string& text, const Target& target);

// Starts it on the handle's stream. Returns the library's status, 0 on success.
int execute(Handle handle, const Plan& plan, const std::vector<void*>& operands, void* workspace);

// A device for Target that such a text describes. Throws rill::Error.
OwnedDescriptor device_of(const std::string& text);

}  // namespace rill::cuda::dnn

#pragma GCC visibility pop
