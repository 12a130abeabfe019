// Elementwise ops on the CPU. An op's arithmetic is written once, as a functor over lanes (devices/kernel/lanes.h), in
// the file of its record; scalar_loops-inl.h turns it into loops over dense runs, once for each dtype and instruction
// set. This header has the table those loops go into, and the driver that brings any operands (strided, broadcast, half
// precision) into dense runs and shares the work between threads.
#pragma once
#include <algorithm>
#include <cstddef>

#include "rill/devices/kernel.h"

namespace rill::cpu {

inline constexpr int max_scalar_inputs = 3;

// One dense run: out[i] = f(in0[i], ...) for i < n. Bit k of `uniform` set: input k is one element, the same for all i.
// `out` may be an input's memory.
struct Run {
  const void* in[max_scalar_inputs];
  void* out;
  size_t n;
  unsigned uniform;
};
using Loop = void (*)(const Run&);

// The loops of one op, by the dtype of its last input; null where there is none (f16 and bf16 go through f32).
struct LoopTable {
  Loop loop[dtype_count] = {};
};

// Appends the op's arithmetic on the values `in` to the kernel that is being recorded (devices/kernel/record.h); gives
// the result.
using Record = int32_t (*)(const int32_t* in);

// The same by dtype, null where there are no loops.
struct RecordTable {
  Record record[dtype_count] = {};
};

// The best table that this machine can run. Filled while static objects are made, once for each instruction set.
class ScalarLoops {
 public:
  // `target` is Highway's number of the instruction set; smaller is better. `kernel` is the op's, by which
  // record_of() finds these loops; `records` is null but for one of the instruction sets.
  void offer(long long target, const LoopTable* table, Kernel kernel, const RecordTable* records);
  Loop operator[](DType d) const { return table_ ? table_->loop[int(d)] : nullptr; }

 private:
  friend Record record_of(Kernel kernel, DType dtype);
  const LoopTable* table_ = nullptr;
  long long target_ = 0;
  Kernel kernel_ = nullptr;
  const RecordTable* records_ = nullptr;
  const ScalarLoops* next_ = nullptr;
};

// How to record the elementwise op with this cpu kernel on operands of `dtype` (f32 for f16 and bf16, whose results are
// then rounded); null where it cannot be.
#pragma GCC visibility push(default)  // for tests
Record record_of(Kernel kernel, DType dtype);
#pragma GCC visibility pop

// A string as a template argument: scalar_kernel<"tanh">.
template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&t)[N]) { std::copy_n(t, N, text); }
};
template <Name name>
inline constinit ScalarLoops scalar_loops;

// Runs the op whose loops these are on any operands that broadcast to the output.
void run_elementwise(const ScalarLoops& loops, const KernelArgs& args);

// The `cpu` entry of an elementwise record: .cpu = scalar_kernel<"tanh">.
template <Name name>
void scalar_kernel(const KernelArgs& args) {
  run_elementwise(scalar_loops<name>, args);
}

// Converts dense runs between dtypes, as C++ does; float to bool is != 0, complex to real drops the imaginary part.
void convert_run(DType from, const void* in, DType to, void* out, size_t n);
// The kernel of `cast`.
void cast(const KernelArgs& args);
// The kernel of `copy`: makes strided operands dense.
void copy(const KernelArgs& args);
// The kernel of `where`: in = bool condition, two values.
void select(const KernelArgs& args);

}  // namespace rill::cpu
