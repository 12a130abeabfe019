// The operators of tensors. The records are in arithmetic.cpp, integers.cpp, comparisons.cpp and log_sums.cpp,
// functions composed of other ops in formulas.cpp.
#include "rill/devices/cpu/elementwise/elementwise.h"
#include "rill/devices/registry.h"
#include "rill/ops/elementwise/blocks.h"
#include "rill/ops/ops.h"
#include "rill/tensor/lent_memory.h"

namespace rill {

Tensor squared_difference(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  return square(x - y);
}

// --- Operators -------------------------------------------------------------------------------------------------------

namespace {

// Writes the loops' result into the memory of an operand that is a temporary, if nothing else refers to it: chains
// like a * b + c - d then need one buffer, which stays in the cache. Else returns an undefined tensor.
Tensor over_temporary(const cpu::ScalarLoops& loops, const TensorArg& a, const TensorArg& b) {
  constexpr int64_t worth_it = 1 << 14;  // elements; smaller buffers come from the thread's own lists
  const Tensor* in[] = {&*a, &*b};
  if (!elementwise::is_unobserved(in))
    return Tensor();  // checked first: a trace would record comparisons of sizes as guards
  const TensorArg& over = a.temporary && in[0]->size() >= worth_it ? a : b;
  if (!over.temporary || (*over).size() < worth_it) return Tensor();
  const Tensor& t = *over;
  const DType dtype = t.dtype();
  Shape shape;
  Tensor number;
  for (const Tensor*& x : in) {
    if (x != &t && x->spec().weak && x->size() == 1 && is_floating(dtype) && !is_complex(x->dtype())) {
      number = empty_tensor(Spec{x->shape(), dtype, false, t.device()});
      cpu::convert_run(x->dtype(), x->rep()->data, dtype, number.mutable_rep()->data, 1);
      x = &number;
    }
    if (x->dtype() != dtype || x->spec().weak || !broadcast_into(shape, x->shape())) return Tensor();
  }
  if (!loops[dtype] || !(shape == t.shape()) || !may_write(t) || !t.is_contiguous()) return Tensor();
  Tensor out = make_alias(t);
  Tensor* const results[] = {&out};
  run_elementwise(loops, KernelArgs{in, results, {}, nullptr});
  const_cast<Tensor&>(t) = Tensor();  // moved from: only the result holds the memory
  return out;
}

}  // namespace

#define RILL_ARITHMETIC_OPERATOR(symbol, fn)                                              \
  Tensor operator symbol(const TensorArg& a, const TensorArg& b) {                        \
    if (a.temporary || b.temporary)                                                       \
      if (Tensor y = over_temporary(cpu::scalar_loops<#fn>, a, b); y.defined()) return y; \
    return fn(*a, *b, a.where);                                                           \
  }
RILL_ARITHMETIC_OPERATOR(+, add)
RILL_ARITHMETIC_OPERATOR(-, subtract)
RILL_ARITHMETIC_OPERATOR(*, multiply)
RILL_ARITHMETIC_OPERATOR(/, divide)
#undef RILL_ARITHMETIC_OPERATOR

// clang-format off
#define RILL_OPERATOR(symbol, fn) \
  Tensor operator symbol(const TensorArg& a, const TensorArg& b) { return fn(*a, *b, a.where); }
RILL_OPERATOR(%, remainder) RILL_OPERATOR(&, bitwise_and) RILL_OPERATOR(|, bitwise_or) RILL_OPERATOR(^, bitwise_xor)
RILL_OPERATOR(<<, left_shift) RILL_OPERATOR(>>, right_shift)
RILL_OPERATOR(==, equal) RILL_OPERATOR(!=, not_equal) RILL_OPERATOR(<, less) RILL_OPERATOR(<=, less_equal)
RILL_OPERATOR(>, greater) RILL_OPERATOR(>=, greater_equal)
#undef RILL_OPERATOR
    // clang-format on

    Tensor
    operator-(const TensorArg& a) {
  return negative(*a, a.where);
}
Tensor operator+(const TensorArg& a) { return positive(*a, a.where); }
Tensor operator~(const TensorArg& a) { return bitwise_not(*a, a.where); }
Tensor detail::negated(const Tensor& a) { return logical_not(a, Where()); }
Tensor& operator+=(Tensor& a, const TensorArg& b) { return a = add(a, *b, b.where); }
Tensor& operator-=(Tensor& a, const TensorArg& b) { return a = subtract(a, *b, b.where); }
Tensor& operator*=(Tensor& a, const TensorArg& b) { return a = multiply(a, *b, b.where); }
Tensor& operator/=(Tensor& a, const TensorArg& b) { return a = divide(a, *b, b.where); }

}  // namespace rill
