// oneDNN, called with as little overhead as possible: primitives, memory objects and argument lists are created once a
// thread for each key (operation, sizes, strides, number of threads) and kept in a bounded cache, so that a repeated
// call costs a look-up, a few pointers and dnnl_primitive_execute. Start at find_call().
#pragma once
#ifdef RILL_HAVE_ONEDNN
#include <dnnl.hpp>
#include <initializer_list>
#include <span>
#include <vector>

#include "rill/devices/packed.h"
#include "rill/devices/params/contraction_tail.h"
#include "rill/tensor/buffer.h"
#include "rill/tensor/dtype.h"
#include "rill/tensor/shape.h"
#include "rill/tensor/tensor.h"

namespace rill::cpu::onednn {

// What a primitive was made for, as a list of numbers; the first says which operation.
class Key {
 public:
  explicit Key(int64_t operation) { add(operation); }
  void add(int64_t v) { words_.push_back(v); }
  template <class List>
  void add_all(const List& list) {
    for (int64_t v : list) add(v);
  }
  size_t hash() const;
  friend bool operator==(const Key& a, const Key& b);

 private:
  SmallVec<int64_t, 48> words_;  // enough for a convolution with three spatial axes
};

// A list of primitives that run one after another, whose operands are bound to slots: slot i is the i-th pointer passed
// to run(). Intermediate results are in temporary memory, which is allocated for each run.
class Call {
 public:
  Call() = default;
  Call(Call&&) = default;
  Call& operator=(Call&&) = default;

  // A memory object of the caller's slot `slot`, or (slot < 0) of temporary memory.
  int add_memory(const dnnl::memory::desc& desc, int slot);
  // A step; `args` pairs DNNL_ARG_* with what add_memory returned.
  void add_step(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad,
                const std::vector<std::pair<int, int>>& args);
  // Slot `slot` reads an operand in a layout of oneDNN's choice, reordered from `plain`: see run_packed().
  int add_packed_memory(const dnnl::memory::desc& plain, const dnnl::memory::desc& wanted, int slot);
  // Whether oneDNN has an implementation: a call without steps means that it has none.
  bool supported() const { return !steps_.empty(); }
  void run(std::span<const void* const> slots);
  void run(std::initializer_list<const void*> slots) { run(std::span(slots.begin(), slots.size())); }
  // The same, where the pointer of the packed slot is the plain operand, that of `operand`: packs it in the first run
  // and keeps it in `packed`. Returns false, having done nothing, if `packed` holds another layout or operand, or
  // (finite_only) if the operand has an infinity or a NaN, which is checked once.
  bool run_packed(std::span<const void* const> slots, const Tensor& operand, Packed& packed, bool finite_only = false);

 private:
  struct PackedSlot {
    dnnl::memory::desc plain, wanted;
    int slot = -1;
  };
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> args;
  };
  struct Temporary {
    dnnl_memory_t memory;
    size_t offset;
  };
  std::vector<Step> steps_;
  std::vector<dnnl::memory> memories_;                // owns what the others point to
  std::vector<std::pair<dnnl_memory_t, int>> slots_;  // memory object, slot
  std::vector<Temporary> temporaries_;
  PackedSlot packed_;
  size_t temporary_bytes_ = 0;
};

// This thread's call for `key`; made by build(context) the first time, or again after it was evicted from the full
// cache. build may throw dnnl::error: the call is then remembered as unsupported.
Call& find_call(Key key, Call (*build)(const void* context), const void* context);

const dnnl::engine& engine();
dnnl::memory::data_type data_type(DType d);  // f32, bf16, f16
dnnl::primitive_attr user_scratchpad();

// The same with a tail; at most one of its operands is in the result's memory, and is added. `result`: the sizes of
// the result, with its channels at `channel_axis`; operand i of the tail then goes into argument tail_arg(i), as
// tail_operand describes it.
dnnl::primitive_attr with_tail(std::span<const TailStep> steps, const dnnl::memory::desc& result, int channel_axis);
dnnl::memory::desc tail_operand(TailStep::Broadcast broadcast, const dnnl::memory::desc& result, int channel_axis);
// The index of step i among oneDNN's steps, because one of ours may need two.
int tail_arg(std::span<const TailStep> steps, size_t i);

}  // namespace rill::cpu::onednn
#endif
