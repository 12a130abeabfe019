// Reading a tensor's elements from C++: item(), to_vector(), data(). All reads go through here, so this is also where
// reading while tracing is rejected.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/driver.h"
#include "rill/ops/call_replay.h"
#include "rill/ops/ops.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/tensor/lent_memory.h"

namespace rill {

namespace {
void require_readable(const Tensor& t, std::string_view call, const Where& where) {
  if (!t.defined()) fail(call, "the tensor is undefined. assign a value to it before using it", where);
  if (!t.is_symbolic() || compute_delayed(t)) return;
  refuse_read_in_trace(call, where);
  fail_foreign(call, "the tensor", t, where);
}

void require_convertible(const Tensor& t, DType as, std::string_view call, const Where& where) {
  if ((t.dtype() == DType::string) != (as == DType::string))
    fail(call, fmt::format("{} cannot be read as {}", to_string(t.spec()), name(as)), where);
}

// Dense, on the host, of dtype `as`; outside any trace or tape, so that nobody puts off what it takes to read.
Tensor readable(const Tensor& t, DType as, std::string_view call, const Where& where) {
  require_readable(t, call, where);
  require_convertible(t, as, call, where);
  if (is_host(t.device()) && t.dtype() == as && t.is_contiguous()) return t;
  const EagerScope eager;
  const PauseTapes pause;
  return t.to(Device(DeviceKind::cpu, 0)).astype(as).contiguous();
}

// Dense copies of tensors that lie in another order, which live as long as the memory of those.
class DenseCopies {
 public:
  static DenseCopies& all() {
    static auto* copies = new DenseCopies;  // buffers may be released after main()
    return *copies;
  }
  const void* of(const Tensor& t) {
    Buffer* const b = t.rep()->buffer.get();
    const std::lock_guard lock(mutex_);
    Copies& copies = by_buffer_[b];
    if (!copies.release) copies.release = std::exchange(b->release, release);
    for (const auto& [id, copy] : copies.made)
      if (id == t.rep()->id) return copy.rep()->data;
    return copies.made.emplace_back(t.rep()->id, cpu::as_dense(t)).second.rep()->data;
  }

 private:
  struct Copies {
    void (*release)(Buffer*) = nullptr;             // the buffer's own
    std::vector<std::pair<uint64_t, Tensor>> made;  // by the tensor's id
  };
  static void release(Buffer* b) {
    DenseCopies& d = all();
    Copies mine;
    {
      const std::lock_guard lock(d.mutex_);
      mine = std::move(d.by_buffer_.extract(b).mapped());
    }
    b->release = mine.release;
    b->release(b);
  }

  ForkMutex mutex_;
  std::unordered_map<Buffer*, Copies> by_buffer_;
};

// Whether the elements, each of them once, fill memory of rill's own in any order: as results of operands do that are
// transposed or broadcast.
bool fills_its_memory(const Tensor& t) {
  if (is_lent(*t.rep()->buffer)) return false;
  Shape shape = t.shape();
  for (size_t i = 0; i < shape.size(); ++i)
    if (t.strides()[i] == 0) shape[i] = 1;
  const Tensor once = make_view(t, shape, t.strides(), 0);
  const Tensor* const one[] = {&once};
  return once.is_contiguous() || !cpu::common_order(one, shape).empty();
}

void copy_out(const Tensor& t, void* out) {
  if (t.dtype() == DType::string) {
    const auto* from = reinterpret_cast<const std::string*>(t.rep()->data);
    std::copy_n(from, t.size(), static_cast<std::string*>(out));
  } else if (t.size()) {
    std::memcpy(out, t.rep()->data, size_t(t.size()) * size_of(t.dtype()));
  }
}
}  // namespace

void Tensor::read_item(void* out, DType as, const Where& where) const {
  require_readable(*this, "item", where);
  if (size() != 1)
    fail("item",
         fmt::format(
             "{} has {} elements, and item() reads the one of a tensor that has one. index first, or use to_vector()",
             to_string(spec()), size()),
         where);
  copy_out(readable(*this, as, "item", where), out);
}

size_t Tensor::readable_size(const Where& where) const {
  require_readable(*this, "to_vector", where);
  return size_t(size());
}

void Tensor::fail_too_many(const Where& where) const {
  fail("to_vector", fmt::format("{} has {} elements, more than memory holds. index first", to_string(spec()), size()),
       where);
}

void Tensor::read_all(void* out, DType as, const Where& where) const {
  copy_out(readable(*this, as, "to_vector", where), out);
}

const void* Tensor::host_data(DType as, const Where& where) const {
  require_readable(*this, "data", where);
  if (dtype() != as)
    fail("data",
         fmt::format("{} has no elements of {}. convert with astype({})", to_string(spec()), name(as), name(as)),
         where);
  if (!is_host(device()))
    fail("data", fmt::format("{} is on {}. read a copy, to(\"cpu:0\")", to_string(spec()), to_string(device())), where);
  if (!is_contiguous() && fills_its_memory(*this)) return DenseCopies::all().of(*this);
  if (!is_contiguous())
    fail("data", fmt::format("{} is a strided view. call contiguous() first", to_string(spec())), where);
  return rep()->data;
}

Tensor Tensor::scalar(const void* value, DType dtype, bool weak) {
  Spec spec;
  spec.dtype = dtype;
  spec.weak = weak;
  Tensor t = empty_tensor(std::move(spec));
  std::memcpy(t.mutable_rep()->data, value, size_of(dtype));
  return t;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  if (a.dtype() == DType::string) return a.to_vector<std::string>() == b.to_vector<std::string>();
  Tensor x = readable(a, a.dtype(), "same_bits", Where::current());
  Tensor y = readable(b, b.dtype(), "same_bits", Where::current());
  return x.size() == 0 || std::memcmp(x.rep()->data, y.rep()->data, size_t(x.size()) * size_of(x.dtype())) == 0;
}

}  // namespace rill
