#include "rill/devices/llvm/fold.h"

#include <cmath>

namespace rill::kernel {

Value Fold::combine(Ops& o, Value a, Value b, int width) const {
  const bool real = is_float(type);
  if (code == Code::reduce_sum) return real ? LLVMBuildFAdd(o.b, a, b, "") : LLVMBuildAdd(o.b, a, b, "");
  if (code == Code::reduce_prod) return real ? LLVMBuildFMul(o.b, a, b, "") : LLVMBuildMul(o.b, a, b, "");
  const bool largest = code == Code::reduce_max;
  if (!real) {
    const LLVMIntPredicate wins =
        is_signed_int(type) ? (largest ? LLVMIntSGT : LLVMIntSLT) : (largest ? LLVMIntUGT : LLVMIntULT);
    return o.select(LLVMBuildICmp(o.b, wins, a, b, ""), a, b);
  }
  // IEEE's maximum. Not llvm.maximum: some releases have no code for it.
  const Type bits = o.wide(o.integer(bits_of(type)), width);
  Value p = LLVMBuildBitCast(o.b, a, bits, ""), q = LLVMBuildBitCast(o.b, b, bits, "");
  Value of_equals = largest ? LLVMBuildAnd(o.b, p, q, "") : LLVMBuildOr(o.b, p, q, "");  // tells apart zeros only
  Value greater = o.select(LLVMBuildFCmp(o.b, largest ? LLVMRealOGT : LLVMRealOLT, a, b, ""), a, b);
  Value y = o.select(LLVMBuildFCmp(o.b, LLVMRealOEQ, a, b, ""),
                     LLVMBuildBitCast(o.b, of_equals, o.type(type, width), ""), greater);
  return o.select(LLVMBuildFCmp(o.b, LLVMRealUNO, a, a, ""), a, y);
}

Values Fold::identity(Ops& o) const {
  const Type t = o.type(type, 1);
  Value one;
  if (code == Code::reduce_sum) {
    one = LLVMConstNull(t);
  } else if (is_float(type)) {
    one = LLVMConstReal(t, code == Code::reduce_prod ? 1 : code == Code::reduce_max ? -INFINITY : INFINITY);
  } else if (code == Code::reduce_prod) {
    one = LLVMConstInt(t, 1, false);
  } else {
    const uint64_t top = uint64_t(1) << (bits_of(type) - 1);
    const uint64_t least = is_signed_int(type) ? top : 0;
    one = o.constant(type, code == Code::reduce_max ? least : ~least, 1);
  }
  return Values(size_t(vectors()), o.splat(one, lanes));
}

Values Fold::step(Ops& o, const Values& acc, Value x, Value mask) const {
  Value y = combine(o, acc[0], x, lanes);
  if (mask) y = o.select(mask, y, acc[0]);
  Values next(acc.begin() + 1, acc.end());
  next.push_back(y);
  return next;
}

Value Fold::finish(Ops& o, Values acc) const {
  for (size_t half = acc.size() / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) acc[i] = combine(o, acc[i], acc[i + half], lanes);
  Value y = acc[0];
  for (int half = lanes / 2; half > 0; half /= 2) {
    const auto part = [&](int first) {
      Values index;
      for (int i = 0; i < half; ++i) index.push_back(LLVMConstInt(o.integer(32), uint64_t(first + i), false));
      if (half == 1) return LLVMBuildExtractElement(o.b, y, index[0], "");
      return LLVMBuildShuffleVector(o.b, y, LLVMGetPoison(LLVMTypeOf(y)), LLVMConstVector(index.data(), unsigned(half)),
                                    "");
    };
    Value low = part(0), high = part(half);
    y = combine(o, low, high, half);
  }
  if (code == Code::reduce_sum && is_float(type)) y = LLVMBuildFAdd(o.b, y, LLVMConstNull(o.type(type, 1)), "");
  return y;
}

Value Fold::place(Ops& o, Value stack, Value at, int vector) const {
  const int64_t element = int64_t(size_of(type));
  Value bytes = LLVMBuildMul(o.b, at, o.i64(all * element), "");
  bytes = LLVMBuildAdd(o.b, bytes, o.i64(vector * lanes * element), "");
  return LLVMBuildGEP2(o.b, o.integer(8), stack, &bytes, 1, "");
}

Values Fold::load(Ops& o, Value stack, Value at) const {
  Values acc;
  for (int v = 0; v < vectors(); ++v)
    acc.push_back(LLVMBuildLoad2(o.b, o.type(type, lanes), place(o, stack, at, v), ""));
  return acc;
}

void Fold::store(Ops& o, Value stack, Value at, const Values& acc) const {
  for (int v = 0; v < vectors(); ++v) LLVMBuildStore(o.b, acc[size_t(v)], place(o, stack, at, v));
}

void Fold::merge(Ops& o, Value stack, Value below) const {
  Values a = load(o, stack, below), b = load(o, stack, LLVMBuildAdd(o.b, below, o.i64(1), ""));
  for (size_t v = 0; v < a.size(); ++v) a[v] = combine(o, a[v], b[v], lanes);
  store(o, stack, below, a);
}

}  // namespace rill::kernel
