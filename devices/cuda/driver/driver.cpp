// The DeviceDriver of NVIDIA's GPUs: which kernels there are, copies, and librill_cuda's entry.
#include "rill/devices/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "rill/devices/cuda/driver/capture.h"
#include "rill/devices/cuda/driver/exchange.h"
#include "rill/devices/cuda/driver/fused.h"
#include "rill/devices/cuda/driver/gpu.h"
#include "rill/devices/cuda/driver/recorded.h"
#include "rill/devices/cuda/driver/spaces.h"
#include "rill/devices/cuda/entry.h"
#include "rill/devices/cuda/families/families.h"
#include "rill/devices/cuda/nvrtc.h"
#include "rill/ops/op.h"
#include "rill/tensor/error.h"

namespace rill::cuda {

namespace {

size_t bytes_of(const Tensor& t) { return size_t(t.size()) * size_of(t.dtype()); }
DevicePointer pointer(const Tensor& t) { return reinterpret_cast<DevicePointer>(address(t)); }

void from_host(const Tensor& from, Tensor& to) {
  if (!from.is_contiguous()) return from_host(dense_copy(from), to);
  gpu_of(to.device()).upload(to.mutable_rep()->data, address(from), bytes_of(to));
}

void to_host(const Tensor& from, Tensor& to) {
  if (!from.is_contiguous()) return to_host(dense_copy(from), to);
  Gpu& gpu = gpu_of(from.device());
  Capture::require_none(gpu);
  gpu.enter();
  RILL_CUDA(cuMemcpyDtoHAsync, to.mutable_rep()->data, pointer(from), bytes_of(to), gpu.stream());
  gpu.synchronize();
}

// An event, destroyed with this; the driver keeps it until the recorded work has finished.
class OwnedEvent {
 public:
  explicit OwnedEvent(unsigned flags) { RILL_CUDA(cuEventCreate, &event, flags); }
  OwnedEvent(const OwnedEvent&) = delete;
  ~OwnedEvent() { api().cuEventDestroy(event); }
  Event event = nullptr;
};

// Makes the stream of `after` wait for all work that is on the stream of `before` now.
void order(Gpu& before, Gpu& after) {
  before.enter();
  const OwnedEvent done(event_disable_timing);
  RILL_CUDA(cuEventRecord, done.event, before.stream());
  after.enter();
  RILL_CUDA(cuStreamWaitEvent, after.stream(), done.event, 0);
}

void to_peer(const Tensor& from, Tensor& to) {
  if (!from.is_contiguous()) return to_peer(dense_copy(from), to);
  Gpu &here = gpu_of(from.device()), &there = gpu_of(to.device());
  Capture::require_none(here);
  Capture::require_none(there);
  order(here, there);
  there.enter();
  RILL_CUDA(cuMemcpyPeerAsync, pointer(to), there.context, pointer(from), here.context, bytes_of(to), there.stream());
  order(there, here);  // `from` may be freed and its memory reused on its own stream
}

double seconds_on_gpu(Gpu& gpu, const Callback<void()>& work) {
  gpu.synchronize();
  gpu.enter();
  const OwnedEvent start(0), end(0);
  RILL_CUDA(cuEventRecord, start.event, gpu.stream());
  work();
  gpu.enter();
  RILL_CUDA(cuEventRecord, end.event, gpu.stream());
  gpu.synchronize();
  float milliseconds = 0;
  RILL_CUDA(cuEventElapsedTime, &milliseconds, start.event, end.event);
  return double(milliseconds) / 1000;
}

// By name, else from the recorded arithmetic of the record; nullptr if there is none.
Kernel find_kernel(const Op& op, DType dtype) {
  using ByName = std::unordered_multimap<std::string_view, Kernel (*)(DType)>;
  static const ByName& by_name = *[] {  // never destroyed: ops may run while a program ends
    auto* all = new ByName{{"fused", [](DType) { return &run_fused; }}};
    for (const auto& family :
         {attention_kernels(), complex_kernels(), convolution_kernels(), fold_kernels(), fourier_kernels(),
          index_kernels(), matmul_kernels(), matrix_kernels(), move_kernels(), neural_kernels(), order_kernels(),
          pool_kernels(), random_kernels(), scan_kernels(), sparse_kernels(), special_kernels()})
      for (const NamedKernel& k : family) all->emplace(k.op, k.find);
    return all;
  }();
  const auto [begin, end] = by_name.equal_range(op.name);
  for (auto k = begin; k != end; ++k)
    if (const Kernel found = k->second(dtype)) return found;
  return recorded_kernel(op, dtype);
}

// Every call restores the caller's current context.
class CudaDriver final : public DeviceDriver {
 public:
  int count() const override { return gpu_count(); }
  int number(Device d) const override { return found_gpu(d).ordinal; }

  Ref<Buffer> allocate(Device d, size_t bytes) override {
    const RestoredContext kept;
    return gpu_of(d).allocate(bytes);
  }
  MemoryStats stats(Device d) override { return found_gpu(d).stats(); }
  void reset_peak(Device d) override { found_gpu(d).reset_peak(); }
  void release_cached(Device d) override {
    const RestoredContext kept;
    found_gpu(d).release_cached();
  }
  void set_limit(Device d, size_t bytes) override { found_gpu(d).set_limit(bytes); }
  void reserve(Device d, size_t bytes) override {
    const RestoredContext kept;
    gpu_of(d).reserve(bytes);
  }
  std::string unreadable_place(Device d, const void* memory) override {
    const RestoredContext kept;
    return cuda::unreadable_place(d, memory);
  }

  void copy(const Tensor& from, Tensor& to) override {
    if (from.size() == 0) return;
    const RestoredContext kept;
    if (is_host(from.device())) return from_host(from, to);
    if (is_host(to.device())) return to_host(from, to);
    if (from.device() == to.device()) return copy_on_gpu(from, to);
    to_peer(from, to);
  }

  Kernel kernel(const Op& op, std::string_view, DType dtype, Kernel) override { return find_kernel(op, dtype); }
  bool fuses() const override { return true; }
  std::shared_ptr<const void> compile(const FusedKernel& f, Device d) override {
    const RestoredContext kept;
    return load_fused(f, d);
  }
  void run(Kernel kernel, const KernelArgs& args) override {
    const RestoredContext kept;
    if (Capture* capture = Capture::current(gpu_of(args.out[0]->device()))) capture->run_call(kernel, args);
    else kernel(args);
  }
  void together(Device d, const Callback<void()>& work) override {
    const RestoredContext kept;
    gpu_of(d).gather(work);
  }
  std::unique_ptr<CapturedWork> capture(Device d, std::span<const MovingMemory> moving,
                                        const Callback<void()>& work) override {
    const RestoredContext kept;
    return cuda::capture(gpu_of(d), moving, work);
  }
  double seconds_of(Device d, const Callback<void()>& work) override {
    const RestoredContext kept;
    return seconds_on_gpu(gpu_of(d), work);
  }
  void synchronize(Device d) override {
    const RestoredContext kept;
    found_gpu(d).synchronize();
  }
  void wait(Device d) override { found_gpu(d).wait(); }
  DeviceExchanges* exchanges() override { return cuda::exchanges(); }
};

}  // namespace

}  // namespace rill::cuda

extern "C" {

#pragma GCC visibility push(default)
const char rill_cuda_version[] = RILL_VERSION;

bool rill_cuda_has_kernel(const rill::Op& op, rill::DType dtype) { return rill::cuda::find_kernel(op, dtype); }

int rill_cuda_count(void* libcuda) {
  rill::cuda::load_api(libcuda);
  return rill::cuda::count_gpus();
}

rill::DeviceDriver* rill_cuda_open(void* libcuda, const std::vector<int>* gpus) {
  rill::cuda::load_api(libcuda);
  int version = 0;
  if (rill::cuda::api().cuDriverGetVersion(&version) == 0) rill::cuda::set_driver_version(version);
  if (const std::string reason = rill::cuda::no_nvrtc_reason(); !reason.empty())
    rill::fail("cuda", reason, rill::Where());
  rill::cuda::find_gpus(gpus);
  if (rill::cuda::gpu_count() == 0) return nullptr;
  return new rill::cuda::CudaDriver;
}
#pragma GCC visibility pop
}
