// The cache of oneDNN calls; see onednn.h.
#include "rill/devices/cpu/product/onednn.h"

#ifdef RILL_HAVE_ONEDNN
#include <list>
#include <unordered_map>

#include "rill/devices/cpu/product/onednn_defects.h"
#include "rill/devices/cpu/product/packed_operands.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"
#include "rill/tensor/error.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/tensor/per_thread.h"

namespace rill::cpu::onednn {
namespace {

constexpr size_t cache_capacity = 512;  // calls for each thread; one takes a few KB

struct KeyHash {
  size_t operator()(const Key* k) const { return k->hash(); }
};
struct KeyEqual {
  bool operator()(const Key* a, const Key* b) const { return *a == *b; }
};

struct Cache {
  struct Entry {
    Key key;
    Call call;
  };
  std::list<Entry> entries;  // most recently used first
  std::unordered_map<const Key*, std::list<Entry>::iterator, KeyHash, KeyEqual> index;
};

Cache& cache() {
  static thread_local constinit PerThread<Cache> c;
  return *c;
}

dnnl_stream_t stream() {
  struct Stream {
    dnnl::stream of_thread{engine()};
  };
  static thread_local constinit PerThread<Stream> s;
  return s->of_thread.get();
}

// The caller of the op adds its name and operands (ops/run_errors.h).
void check(dnnl_status_t status) {
  if (status != dnnl_success) throw dnnl::error(status, "a primitive of oneDNN failed");
}

}  // namespace

size_t Key::hash() const {
  uint64_t h = words_.size();
  for (int64_t word : words_) {
    h = (h ^ uint64_t(word)) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
  }
  return size_t(h);
}

bool operator==(const Key& a, const Key& b) { return a.words_ == b.words_; }

const dnnl::engine& engine() {
  const ForkDelay no_fork;                                               // a child must not find it half made
  static const auto& e = *new dnnl::engine(dnnl::engine::kind::cpu, 0);  // ops may run while a program ends
  return e;
}

dnnl::memory::data_type data_type(DType d) {
  using type = dnnl::memory::data_type;
  return d == DType::bf16 ? type::bf16 : d == DType::f16 ? type::f16 : type::f32;
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

dnnl::memory::desc tail_operand(TailStep::Broadcast broadcast, const dnnl::memory::desc& result, int channel_axis) {
  if (broadcast == TailStep::Broadcast::full || broadcast == TailStep::Broadcast::in_place) return result;
  dnnl::memory::dims sizes(result.get_dims().size(), 1), strides(sizes.size(), 1);
  if (broadcast == TailStep::Broadcast::row) {
    sizes[size_t(channel_axis)] = result.get_dims()[size_t(channel_axis)];
    for (size_t i = 0; i < sizes.size(); ++i) strides[i] = int(i) == channel_axis ? 1 : sizes[size_t(channel_axis)];
  }
  return dnnl::memory::desc(sizes, result.get_data_type(), strides);
}

dnnl::primitive_attr with_tail(std::span<const TailStep> steps, const dnnl::memory::desc& result, int channel_axis) {
  using dnnl::algorithm;
  dnnl::post_ops ops;
  for (const TailStep& s : steps) {
    const algorithm a = s.kind == TailStep::Kind::multiply   ? algorithm::binary_mul
                        : s.kind == TailStep::Kind::subtract ? algorithm::binary_sub
                                                             : algorithm::binary_add;
    // t - x is -x + t; adding -0 keeps the sign of a zero, also by an fma.
    if (s.kind == TailStep::Kind::subtract_from) ops.append_eltwise(algorithm::eltwise_linear, -1.0f, -0.0f);
    if (s.broadcast == TailStep::Broadcast::in_place) ops.append_sum(1.0f);
    else ops.append_binary(a, tail_operand(s.broadcast, result, channel_axis));
  }
  dnnl::primitive_attr attr = user_scratchpad();
  attr.set_post_ops(ops);
  return attr;
}

int tail_arg(std::span<const TailStep> steps, size_t i) {
  int index = 0;
  for (size_t k = 0; k <= i; ++k) index += steps[k].kind == TailStep::Kind::subtract_from ? 2 : 1;
  return DNNL_ARG_ATTR_MULTIPLE_POST_OP(index - 1) | DNNL_ARG_SRC_1;
}

int Call::add_memory(const dnnl::memory::desc& desc, int slot) {
  memories_.emplace_back(desc, engine(), nullptr);
  const dnnl_memory_t m = memories_.back().get();
  if (slot >= 0) {
    slots_.emplace_back(m, slot);
  } else {
    temporaries_.push_back({m, temporary_bytes_});
    temporary_bytes_ += (desc.get_size() + 63) / 64 * 64;
  }
  return int(memories_.size()) - 1;
}

int Call::add_packed_memory(const dnnl::memory::desc& plain, const dnnl::memory::desc& wanted, int slot) {
  packed_ = {plain, wanted, slot};
  return add_memory(wanted, slot);
}

void Call::add_step(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad,
                    const std::vector<std::pair<int, int>>& args) {
  Step step{std::move(primitive), {}};
  for (auto [arg, memory] : args) step.args.push_back({arg, memories_[size_t(memory)].get()});
  if (scratchpad.get_size() > 0)
    step.args.push_back({DNNL_ARG_SCRATCHPAD, memories_[size_t(add_memory(scratchpad, -1))].get()});
  steps_.push_back(std::move(step));
}

void Call::run(std::span<const void* const> slots) {
  for (auto [memory, slot] : slots_) check(dnnl_memory_set_data_handle(memory, const_cast<void*>(slots[size_t(slot)])));
  Ref<Buffer> space;
  if (temporary_bytes_ > 0) {
    space = allocate(Device(), temporary_bytes_);
    for (const Temporary& t : temporaries_)
      check(dnnl_memory_set_data_handle(t.memory, static_cast<char*>(space->data) + t.offset));
  }
  const detail::LibraryThreads threads;
  for (const Step& s : steps_)
    check(dnnl_primitive_execute(s.primitive.get(), stream(), int(s.args.size()), s.args.data()));
}

namespace {
Ref<Buffer> reordered(const void* data, const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  Ref<Buffer> buffer = allocate(Device(), to.get_size());
  const detail::LibraryThreads threads;
  dnnl::memory plain(from, engine(), const_cast<void*>(data)), packed(to, engine(), buffer->data);
  dnnl::stream s(engine());
  dnnl::reorder(plain, packed).execute(s, plain, packed);
  s.wait();
  return buffer;
}
}  // namespace

bool Call::run_packed(std::span<const void* const> slots, const Tensor& operand, Packed& packed, bool finite_only) {
  SmallVec<const void*, 8> pointers(slots.begin(), slots.end());
  const void*& slot = pointers[size_t(packed_.slot)];
  const auto made = packed_operand(packed, operand, slot, std::pair(packed_.plain, packed_.wanted), [&] {
    return finite_only && !all_finite(operand) ? Ref<Buffer>() : reordered(slot, packed_.plain, packed_.wanted);
  });
  if (!made || !made->buffer) return false;
  slot = made->buffer->data;
  run(pointers);
  return true;
}

Call& find_call(Key key, Call (*build)(const void*), const void* context) {
  const detail::LibraryThreads threads;
  key.add(threads.count());  // a primitive divides its work when it is created
  Cache& c = cache();
  if (!c.entries.empty() && c.entries.front().key == key) return c.entries.front().call;
  if (auto found = c.index.find(&key); found != c.index.end()) {
    c.entries.splice(c.entries.begin(), c.entries, found->second);
    return found->second->call;
  }
  Call call;
  try {
    const ForkDelay no_fork;  // oneDNN guards its caches by its own locks
    call = build(context);
  } catch (const dnnl::error& e) {
    if (e.status != dnnl_unimplemented && e.status != dnnl_invalid_arguments) throw;
    call = Call();
  }
  if (c.entries.size() >= cache_capacity) {
    c.index.erase(&c.entries.back().key);
    c.entries.pop_back();
  }
  c.entries.push_front({key, std::move(call)});
  c.index.emplace(&c.entries.front().key, c.entries.begin());
  return c.entries.front().call;
}

}  // namespace rill::cpu::onednn
#endif
