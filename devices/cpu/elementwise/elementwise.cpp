// The driver of elementwise kernels: splits operands of any strides and dtypes into dense runs, in parallel. If all
// operands are dense or single elements, each thread gets one run. Otherwise axes that form one run are joined and the
// other axes are iterated row by row; operands that are not dense along the row are gathered into a small block first.
#include "rill/devices/cpu/elementwise/elementwise.h"

#include <hwy/targets.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "rill/devices/axes.h"
#include "rill/devices/cpu/elementwise/halves.h"
#include "rill/devices/cpu/elementwise/map_run.h"
#include "rill/devices/cpu/elementwise/select_run.h"
#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/kernel/convert.h"
#include "rill/devices/kernel/record.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"
#include "rill/tensor/callback.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::cpu {

void ScalarLoops::offer(long long target, const LoopTable* table, const RecordTable* records) {
  static const long long supported = hwy::SupportedTargets();
  if (records) records_ = records;
  if (!(supported & target) || (table_ && target_ <= target)) return;
  table_ = table;
  target_ = target;
}

namespace {

constexpr int64_t grain = 16 << 10;  // elements a thread should have at least
constexpr int64_t block = 512;       // elements gathered or converted at a time; three of f64 stay in the L1 cache

constexpr size_t convert_block = 64;

// Converts floats to an integer of up to 32 bits: values in the range of i32 take one instruction each;
// convert_number() handles the others.
template <class From, class To>
void convert_block_of(const From* in, To* out) {
  From x[convert_block];
  std::copy_n(in, convert_block, x);
  uint32_t beyond = 0;
  for (From v : x) beyond |= uint32_t(!(v >= From(-0x1p31))) | uint32_t(!(v < From(0x1p31)));
  if (beyond == 0) map_run(x, out, convert_block, [](From v) { return To(int32_t(v)); });
  else map_run(x, out, convert_block, [](From v) { return convert_number<To>(v); });
}

// Converts dense runs between small floats and f32.
template <class Small>
void widen_run(const Small* in, float* out, size_t n) {
  if constexpr (is_half_type<Small>) convert_halves(in, out, n);
  else map_run(in, out, n, [](Small v) { return float(v); });
}
template <class Small>
void narrow_run(const float* in, Small* out, size_t n) {
  if constexpr (is_half_type<Small>) convert_halves(in, out, n);
  else map_run(in, out, n, [](float v) { return Small(v); });
}

// Converts dense runs between any dtypes. Halves and 8-bit floats go through f32.
template <class From, class To>
void convert_dense(const From* in, To* out, size_t n) {
  constexpr bool to_small_integer =
      std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) <= 4 && !std::is_same_v<To, bool>;
  constexpr bool from_small = is_small_float_type<From> && !std::is_same_v<From, To>,
                 to_small = is_small_float_type<To> && std::is_arithmetic_v<From>;
  const auto convert = [](const From& v) { return convert_number<To>(v); };
  if constexpr (std::is_same_v<From, std::string> || std::is_same_v<To, std::string>) {
    if constexpr (std::is_same_v<From, To>) std::copy_n(in, n, out);
  } else if constexpr (from_small && std::is_same_v<To, float>) {
    widen_run(in, out, n);
  } else if constexpr (to_small && std::is_same_v<From, float>) {
    narrow_run(in, out, n);
  } else if constexpr (to_small_integer) {
    size_t i = 0;
    for (; i + convert_block <= n; i += convert_block) convert_block_of(in + i, out + i);
    map_run(in + i, out + i, n - i, convert);
  } else if constexpr (from_small || to_small) {
    float wide[convert_block];
    for (size_t i = 0; i < n; i += convert_block) {
      const size_t count = std::min(convert_block, n - i);
      if constexpr (from_small) {
        widen_run(in + i, wide, count);
        convert_dense(wide, out + i, count);
      } else {
        map_run(in + i, wide, count, [](From v) { return float_for_half(v); });
        narrow_run(wide, out + i, count);
      }
    }
  } else {
    map_run(in, out, n, convert);
  }
}

}  // namespace

void convert_run(DType from, const void* in, DType to, void* out, size_t n) {
  visit_stored_dtype(from, [&](auto f) {
    visit_stored_dtype(
        to, [&](auto t) { convert_dense(static_cast<const decltype(f)*>(in), static_cast<decltype(t)*>(out), n); });
  });
}

namespace {

// --- Iterating over strided operands ---------------------------------------------------------------------------------

constexpr int max_operands = max_scalar_inputs + 1;

// The index space of a call, outer axes first, with the byte strides of each operand (0 along broadcast axes).
struct SpaceAxis {
  int64_t size;
  std::array<int64_t, max_operands> stride;  // of the inputs, then of the output
};
struct Space {
  SmallVec<SpaceAxis, 6> axes;
  int operands = 0;

  int64_t step(int k) const { return axes.back().stride[size_t(k)]; }  // the stride along the innermost axis
};

// Drops axes of size one, and joins neighbours that are one run in every operand.
Space make_space(const KernelArgs& args) {
  const Tensor& out = args.output();
  const Shape& shape = out.shape();
  Space s;
  s.operands = int(args.in.size()) + 1;
  for (int i = 0; i < shape.ndim(); ++i) {
    if (shape[size_t(i)] == 1) continue;
    SpaceAxis here{shape[size_t(i)], {}};
    for (int k = 0; k < s.operands; ++k) {
      const Tensor& t = k + 1 < s.operands ? args.input(k) : out;
      int axis = i - (shape.ndim() - t.ndim());
      bool moves = axis >= 0 && t.shape()[size_t(axis)] != 1;
      here.stride[size_t(k)] = moves ? t.strides()[size_t(axis)] * int64_t(size_of(t.dtype())) : 0;
    }
    append_axis(s.axes, here, &SpaceAxis::stride);
  }
  if (s.axes.empty()) s.axes.push_back({1, {}});
  return s;
}

// Whether each element of an operand's row is in another cache line, as in a transposed matrix.
bool is_strided(const Space& s, const KernelArgs& args, size_t k) {
  constexpr int64_t line = 64, few = 16;
  return std::abs(s.step(int(k))) >= line && s.axes.back().size >= few &&
         args.output().size() >= few * s.axes.back().size;
}

// If all operands are strided in the same way: runs the op in the order of their memory and transposes only the result,
// a few lines of memory at a time, which stay in the cache.
bool run_in_memory_order(const Space& s, const KernelArgs& args, const Callback<void(const KernelArgs&)>& run) {
  constexpr int64_t piece_bytes = 128 << 10, least_lines = 64;
  if (!is_strided(s, args, args.in.size() - 1) && !is_strided(s, args, 0)) return false;
  Tensor& out = args.output();
  const Ints order = common_order(args.in, out.shape());
  if (order.empty()) return false;
  const size_t n = order.size();
  SmallVec<Tensor, 4> views;
  for (const Tensor* t : args.in) views.push_back(in_order(*t, order));
  Shape shape;
  Strides to;
  for (int64_t axis : order) shape.push_back(out.shape()[size_t(axis)]), to.push_back(out.strides()[size_t(axis)]);
  const int64_t lines = shape[0], line = out.size() / lines, element = int64_t(size_of(out.dtype()));
  const int64_t step = std::max(least_lines, piece_bytes / (line * element));
  char* const base = out.mutable_rep()->data;
  parallel_for((lines + step - 1) / step, std::max<int64_t>(1, grain / (line * step)), [&](int64_t from, int64_t end) {
    for (int64_t at = from * step; at < std::min(end * step, lines); at += step) {
      Shape piece_shape = shape;
      piece_shape[0] = std::min(step, lines - at);
      SmallVec<Tensor, 4> pieces;
      SmallVec<const Tensor*, 4> in;
      for (const Tensor& t : views)
        pieces.push_back(t.ndim() == int(n) ? make_view(t, piece_shape, t.strides(), at * t.strides()[0]) : t);
      for (const Tensor& t : pieces) in.push_back(&t);
      Tensor result = empty_tensor(Spec{piece_shape, out.dtype(), false, out.device()});
      Tensor* const results[] = {&result};
      run(KernelArgs{in, results, args.attrs, nullptr});
      strided_copy(out.dtype(), piece_shape, result.rep()->data, result.strides(), base + at * to[0] * element, to);
    }
  });
  return true;
}

// Operands that is_strided() is true of, copied in tiles first.
class CopiesOfStrided {
 public:
  CopiesOfStrided(const Space& s, const KernelArgs& args) : in_(args.in) {
    copies_.reserve(in_.size());
    for (size_t k = 0; k < in_.size(); ++k) {
      if (!is_strided(s, args, k)) continue;
      Tensor& copy = copies_.emplace_back(empty_tensor(in_[k]->spec()));
      copy_elements(*in_[k], copy);
      in_[k] = &copy;
    }
  }
  bool any() const { return !copies_.empty(); }
  KernelArgs args(const KernelArgs& a) const { return {in_, a.out, a.attrs, a.packed}; }

 private:
  SmallVec<const Tensor*, 4> in_;
  SmallVec<Tensor, 4> copies_;
};

// Calls row(pointers, first, count) for pieces of the innermost axis that cover elements [begin, end) of the space.
template <class F>
void for_each_row(const Space& s, char* const* base, int64_t begin, int64_t end, F&& row) {
  int n = int(s.axes.size());
  int64_t inner = s.axes.back().size;
  for (int64_t at = begin; at < end;) {
    int64_t outer = at / inner, first = at % inner, count = std::min(inner - first, end - at);
    char* p[max_operands];
    for (int k = 0; k < s.operands; ++k) p[k] = base[k] + first * s.step(k);
    for (int i = n - 2; i >= 0; --i) {
      const SpaceAxis& axis = s.axes[size_t(i)];
      int64_t index = outer % axis.size;
      outer /= axis.size;
      for (int k = 0; k < s.operands; ++k) p[k] += index * axis.stride[size_t(k)];
    }
    row(p, count);
    at += count;
  }
}

// A row of an operand as a dense run of the loop's dtype: in place if it already is one, else copied to `room`.
const void* dense_row(const char* p, int64_t stride, int64_t n, DType dtype, DType as, std::byte* scratch,
                      std::byte* more_scratch) {
  size_t element = size_of(dtype);
  if (stride != int64_t(element) && n > 1) {
    gather_run(p, stride, element, scratch, n);
    p = reinterpret_cast<const char*>(scratch);
    std::swap(scratch, more_scratch);
  }
  if (dtype == as) return p;
  convert_run(dtype, p, as, scratch, size_t(n));
  return scratch;
}

// The dtype of the loop for operands of `d`: halves are computed as f32 unless they have a loop of their own.
DType loop_dtype(const ScalarLoops& loops, DType d) { return is_half(d) && !loops[d] ? DType::f32 : d; }

void run_row(const ScalarLoops& loops, Loop loop, const KernelArgs& args, const Space& s, char* const* p,
             int64_t count) {
  alignas(64) std::byte scratch[max_operands][2][block * sizeof(std::complex<double>)];
  int inputs = s.operands - 1;
  DType out_dtype = args.output().dtype(), result = loop_dtype(loops, out_dtype);
  // Halves are computed in f32, twice as many at a time: that saves a tenth of the time (exp of 2^24 bf16: 1.48 instead
  // of 1.64 ms; with four times as many 1.57).
  size_t widest = std::max(size_of(out_dtype), size_of(result));
  for (const Tensor* t : args.in)
    widest = std::max({widest, size_of(t->dtype()), size_of(loop_dtype(loops, t->dtype()))});
  const int64_t step = widest <= sizeof(float) ? 2 * block : block;
  for (int64_t at = 0; at < count; at += step) {
    int64_t n = std::min(step, count - at);
    Run run{{}, nullptr, size_t(n), 0};
    for (int k = 0; k < inputs; ++k) {
      int64_t stride = s.step(k);
      DType d = args.input(k).dtype();
      bool uniform = stride == 0;
      run.in[k] =
          dense_row(p[k] + at * stride, stride, uniform ? 1 : n, d, loop_dtype(loops, d), scratch[k][0], scratch[k][1]);
      if (uniform) run.uniform |= 1u << k;
    }
    if (run.uniform == (1u << inputs) - 1) run.n = 1;
    char* out = p[inputs] + at * s.step(inputs);
    run.out = result == out_dtype ? static_cast<void*>(out) : scratch[inputs][0];
    loop(run);
    if (run.n == 1 && n > 1)  // every element is the same
      for (int64_t i = 1; i < n; ++i)
        std::memcpy(static_cast<char*>(run.out) + i * int64_t(size_of(result)), run.out, size_of(result));
    if (result != out_dtype) convert_run(result, run.out, out_dtype, out, size_t(n));
  }
}

// Whether each row is one run of the loop in place: dense or one repeated element, but not all operands repeated.
bool rows_are_runs(const ScalarLoops& loops, const KernelArgs& args, const Space& s) {
  bool any_moves = false;
  for (int k = 0; k < s.operands; ++k) {
    const DType d = k + 1 < s.operands ? args.input(k).dtype() : args.output().dtype();
    const int64_t stride = s.step(k);
    if (d != loop_dtype(loops, d) || (stride != 0 && stride != int64_t(size_of(d)))) return false;
    any_moves |= k + 1 < s.operands && stride != 0;
  }
  return any_moves && s.step(s.operands - 1) != 0;
}

// If no operand moves along an axis, computes one index of it and repeats the results.
bool run_repeats_once(const ScalarLoops& loops, const KernelArgs& args) {
  constexpr int64_t few = 4096;
  Tensor& out = args.output();
  if (out.size() < few) return false;
  Shape shape = out.shape();
  SmallVec<Tensor, 4> views;
  for (const Tensor* t : args.in) views.push_back(*t);
  bool any = false;
  for (int i = 0; i < out.ndim(); ++i) {
    const auto is_still = [&](const Tensor& t) {
      const int axis = i - (out.ndim() - t.ndim());
      return axis < 0 || t.shape()[size_t(axis)] == 1 || t.strides()[size_t(axis)] == 0;
    };
    if (shape[size_t(i)] == 1 || !std::all_of(views.begin(), views.end(), is_still)) continue;
    any = true;
    shape[size_t(i)] = 1;
    for (Tensor& t : views)
      if (const int axis = i - (out.ndim() - t.ndim()); axis >= 0) {
        Shape once = t.shape();
        once[size_t(axis)] = 1;
        t = make_view(t, once, t.strides(), 0);
      }
  }
  if (!any) return false;
  Tensor once = empty_tensor(Spec{shape, out.dtype(), false, out.device()});
  SmallVec<const Tensor*, 4> in;
  for (const Tensor& t : views) in.push_back(&t);
  Tensor* const results[] = {&once};
  run_elementwise(loops, KernelArgs{in, results, args.attrs, nullptr});
  copy_repeated(once, out);
  return true;
}

void run_strided(const ScalarLoops& loops, Loop loop, const KernelArgs& args) {
  if (run_repeats_once(loops, args)) return;
  Space s = make_space(args);
  if (run_in_memory_order(s, args, [&](const KernelArgs& a) { run_elementwise(loops, a); })) return;
  if (const CopiesOfStrided dense(s, args); dense.any()) return run_elementwise(loops, dense.args(args));
  char* base[max_operands];
  for (int k = 0; k + 1 < s.operands; ++k) base[k] = args.input(k).rep()->data;
  base[s.operands - 1] = args.output().mutable_rep()->data;
  const bool plain = rows_are_runs(loops, args, s);
  parallel_for(args.output().size(), grain, [&](int64_t begin, int64_t end) {
    for_each_row(s, base, begin, end, [&](char* const* p, int64_t count) {
      if (!plain) return run_row(loops, loop, args, s, p, count);
      Run run{{}, p[s.operands - 1], size_t(count), 0};
      for (int k = 0; k + 1 < s.operands; ++k) {
        run.in[k] = p[k];
        if (s.step(k) == 0) run.uniform |= 1u << k;
      }
      loop(run);
    });
  });
}

// Whether `t` has the output's shape and is dense, as the output is.
bool has_layout_of(const Tensor& t, const Tensor& out) {
  const TensorRep &a = *t.rep(), &b = *out.rep();
  const size_t n = a.spec.shape.size();
  if (n != b.spec.shape.size()) return false;
  bool same_strides = true;
  for (size_t i = 0; i < n; ++i) {
    if (a.spec.shape[i].plain() != b.spec.shape[i].plain()) return false;
    same_strides &= a.strides[i] == b.strides[i];
  }
  return same_strides || t.is_contiguous();  // strides along axes of size one are arbitrary
}

}  // namespace

// Non-temporal stores, from a block in the L1 cache, gained nothing here: for 2^24 numbers, add took 2.10 instead of
// 2.18 ms, exp 1.46 instead of 1.39 (AVX-512); with AVX2 3.78 instead of 3.98, and 2.99 instead of 2.71.
void run_elementwise(const ScalarLoops& loops, const KernelArgs& args) {
  Tensor& out = args.output();
  const int64_t n = out.size();
  if (n == 0) return;
  const DType d = args.input(int(args.in.size()) - 1).dtype();
  const Loop loop = loops[loop_dtype(loops, d)];
  Run run{{}, out.mutable_rep()->data, size_t(n), 0};
  bool dense = d == loop_dtype(loops, d) && out.dtype() == loop_dtype(loops, out.dtype());
  size_t element[max_scalar_inputs];
  for (size_t k = 0; k < args.in.size() && dense; ++k) {
    const Tensor& t = *args.in[k];
    run.in[k] = t.rep()->data;
    element[k] = size_of(t.dtype());
    if (has_layout_of(t, out)) continue;
    if (t.size() == 1) run.uniform |= 1u << k;
    else dense = false;
  }
  // A run needs at least one operand that is not uniform, unless it is a single element.
  if (!dense || (run.uniform == (1u << args.in.size()) - 1 && n > 1)) return run_strided(loops, loop, args);
  if (n <= grain) return loop(run);
  size_t out_element = size_of(out.dtype());
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    Run part = run;
    part.n = size_t(end - begin);
    part.out = static_cast<char*>(run.out) + size_t(begin) * out_element;
    for (size_t k = 0; k < args.in.size(); ++k)
      if (!(run.uniform >> k & 1)) part.in[k] = static_cast<const char*>(run.in[k]) + size_t(begin) * element[k];
    loop(part);
  });
}

// --- cast, copy, where -----------------------------------------------------------------------------------------------

void cast(const KernelArgs& args) {
  const Tensor& in = args.input(0);
  Tensor& out = args.output();
  DType from = in.dtype(), to = out.dtype();
  if (in.is_contiguous() && to != DType::string) {
    parallel_for(out.size(), grain, [&](int64_t begin, int64_t end) {
      convert_run(from, in.rep()->data + begin * int64_t(size_of(from)), to,
                  out.mutable_rep()->data + begin * int64_t(size_of(to)), size_t(end - begin));
    });
    return;
  }
  Space s = make_space(args);
  if (const CopiesOfStrided dense(s, args); dense.any()) return cast(dense.args(args));
  char* base[] = {in.rep()->data, out.mutable_rep()->data};
  parallel_for(out.size(), grain, [&](int64_t begin, int64_t end) {
    for_each_row(s, base, begin, end, [&](char* const* p, int64_t count) {
      alignas(64) std::byte scratch[block * sizeof(std::complex<double>)];
      for (int64_t at = 0; at < count; at += block) {
        int64_t n = std::min(block, count - at);
        gather_run(p[0] + at * s.step(0), s.step(0), size_of(from), scratch, n);
        convert_run(from, scratch, to, p[1] + at * s.step(1), size_t(n));
      }
    });
  });
}

void copy(const KernelArgs& args) { copy_elements(args.input(0), args.output()); }

namespace {
template <class T>
void select_row(const char* const* p, const int64_t* stride, T* out, int64_t n) {
  const auto is_run = [&](int k) { return stride[k] == int64_t(sizeof(T)); };
  if constexpr (std::is_integral_v<T>)
    if (stride[0] == 1 && (is_run(1) || stride[1] == 0) && (is_run(2) || stride[2] == 0))
      return select_run(sizeof(T), reinterpret_cast<const uint8_t*>(p[0]), p[1], is_run(1), p[2], is_run(2), out,
                        size_t(n));
  for (int64_t i = 0; i < n; ++i) {
    const char* from = p[0][i * stride[0]] ? p[1] + i * stride[1] : p[2] + i * stride[2];
    out[i] = *reinterpret_cast<const T*>(from);
  }
}
}  // namespace

void select(const KernelArgs& args) {
  Tensor& out = args.output();
  if (out.size() == 0) return;
  Space s = make_space(args);
  const bool strings = out.dtype() == DType::string;  // iterated in place
  if (!strings && run_in_memory_order(s, args, [](const KernelArgs& a) { select(a); })) return;
  if (!strings)
    if (const CopiesOfStrided dense(s, args); dense.any()) return select(dense.args(args));
  char* base[max_operands] = {args.input(0).rep()->data, args.input(1).rep()->data, args.input(2).rep()->data,
                              out.mutable_rep()->data};
  auto rows = [&](auto zero) {
    using T = decltype(zero);
    parallel_for(out.size(), grain, [&](int64_t begin, int64_t end) {
      for_each_row(s, base, begin, end, [&](char* const* p, int64_t count) {
        int64_t stride[] = {s.step(0), s.step(1), s.step(2)};
        select_row<T>(p, stride, reinterpret_cast<T*>(p[3]), count);
      });
    });
  };
  if (strings) return rows(std::string());
  switch (size_of(out.dtype())) {
    case 1: return rows(uint8_t());
    case 2: return rows(uint16_t());
    case 4: return rows(uint32_t());
    case 8: return rows(uint64_t());
    default: return rows(std::complex<double>());
  }
}

// --- Recording -------------------------------------------------------------------------------------------------------

namespace {
bool has_lanes(DType d) { return d != DType::string && !is_complex(d) && !is_small_float(d); }
}  // namespace

RecordPoint record_operand(DType dtype) {
  if (!has_lanes(dtype)) return nullptr;
  return [](const int32_t* in) { return in[0]; };
}

RecordPoint record_select(DType dtype) {
  if (!has_lanes(dtype)) return nullptr;
  return [](const int32_t* in) {
    kernel::Recorder& r = *kernel::Recording::current();
    return r.add({kernel::Code::select, r.type(in[1]), {in[0], in[1], in[2]}, 0});
  };
}

}  // namespace rill::cpu
