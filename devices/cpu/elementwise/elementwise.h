// Elementwise ops on the CPU. An op's arithmetic is written once, as a functor over lanes (devices/kernel/lanes.h), in
// the file of its record; scalar_loops-inl.h turns it into loops over dense runs, once for each dtype and instruction
// set. This header has the table for those loops, and the driver that splits any operands (strided, broadcast, half
// precision) into dense runs and divides the work among threads. What librill_ops calls of it has default visibility.
#pragma once
#include <algorithm>
#include <cstddef>

#include "rill/devices/kernel.h"

namespace rill::cpu {

inline constexpr int max_scalar_inputs = 3;

// One dense run: out[i] = f(in0[i], ...) for i < n. If bit k of `uniform` is set, input k is a single element for all
// i. `out` may be an input's memory.
struct Run {
  const void* in[max_scalar_inputs];
  void* out;
  size_t n;
  unsigned uniform;
};
using Loop = void (*)(const Run&);

// The loops of one op, by the dtype of its last input; null if there is none (f16 and bf16 go through f32).
struct LoopTable {
  Loop loop[dtype_count] = {};
};

// How to record the op's arithmetic, by dtype; null if it cannot be recorded.
struct RecordTable {
  RecordPoint record[dtype_count] = {};
};

// The best table that this machine can run. Filled by static initialisers, one for each instruction set.
class ScalarLoops {
 public:
  // `target` is Highway's number of the instruction set; smaller is better. Only one instruction set passes `records`.
  [[gnu::visibility("default")]] void offer(long long target, const LoopTable* table, const RecordTable* records);
  // Loops on complex numbers, for every machine (complex.cpp).
  void offer_complex(Loop c64, Loop c128) { c64_ = c64, c128_ = c128; }
  Loop operator[](DType d) const {
    if (is_complex(d)) return d == DType::c64 ? c64_ : c128_;
    return table_ ? table_->loop[int(d)] : nullptr;
  }
  RecordPoint record(DType d) const { return records_ ? records_->record[int(d)] : nullptr; }

 private:
  const LoopTable* table_ = nullptr;
  long long target_ = 0;
  const RecordTable* records_ = nullptr;
  Loop c64_ = nullptr, c128_ = nullptr;
};

// A string as a template argument: scalar_kernel<"tanh">.
template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&t)[N]) { std::copy_n(t, N, text); }
};
template <Name name>
inline constinit ScalarLoops scalar_loops;

// Runs the op with these loops on any operands that broadcast to the output.
[[gnu::visibility("default")]] void run_elementwise(const ScalarLoops& loops, const KernelArgs& args);

// The `cpu` and `record_point` entries of an elementwise record: .cpu = scalar_kernel<"tanh">.
struct ScalarKernel {
  Kernel run = nullptr;
  RecordPoint (*record)(DType) = nullptr;
};
template <Name name>
inline constexpr ScalarKernel scalar_kernel{[](const KernelArgs& args) { run_elementwise(scalar_loops<name>, args); },
                                            [](DType d) { return scalar_loops<name>.record(d); }};

// Converts dense runs between dtypes, as C++ does; float to bool is != 0, complex to real drops the imaginary part.
void convert_run(DType from, const void* in, DType to, void* out, size_t n);
// The kernel of `cast`.
void cast(const KernelArgs& args);
// The kernel of `copy`: makes strided operands dense.
void copy(const KernelArgs& args);
// The kernel of `where`: in = bool condition, two values.
void select(const KernelArgs& args);
// The `record_point` of `cast` and `copy` (their operand, whose reader converts it to the result's dtype) and of
// `where`.
RecordPoint record_operand(DType dtype);
RecordPoint record_select(DType dtype);

}  // namespace rill::cpu
