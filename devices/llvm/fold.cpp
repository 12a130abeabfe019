// Reductions as LLVM's IR; see fold.h.
#include "rill/devices/llvm/fold.h"

#include <algorithm>
#include <cmath>

namespace rill::kernel {

Value Fold::combine(Ops& o, Value a, Value b) const {
  const bool real = is_float(type), largest = code == Code::reduce_max || code == Code::reduce_top;
  if (adds()) return real ? LLVMBuildFAdd(o.b, a, b, "") : LLVMBuildAdd(o.b, a, b, "");
  if (code == Code::reduce_prod) return real ? LLVMBuildFMul(o.b, a, b, "") : LLVMBuildMul(o.b, a, b, "");
  if (real) return o.min_max(largest, type, b, a);
  const LLVMIntPredicate wins =
      is_signed_int(type) ? (largest ? LLVMIntSGT : LLVMIntSLT) : (largest ? LLVMIntUGT : LLVMIntULT);
  return o.select(LLVMBuildICmp(o.b, wins, a, b, ""), a, b);
}

Value Fold::last_nan(Ops& o, Value a, Value b) const {
  return o.select(LLVMBuildFCmp(o.b, LLVMRealUNO, b, b, ""), b, a);
}
Value Fold::join_bits(Ops& o, Value a, Value b) const {
  return code == Code::reduce_max ? LLVMBuildAnd(o.b, a, b, "") : LLVMBuildOr(o.b, a, b, "");
}

Values Fold::identity(Ops& o) const {
  const Type t = o.type(type, 1);
  Value one;
  if (adds()) {
    one = LLVMConstNull(t);
  } else if (is_float(type)) {
    one = LLVMConstReal(t, code == Code::reduce_prod ? 1 : code == Code::reduce_min ? INFINITY : -INFINITY);
  } else if (code == Code::reduce_prod) {
    one = LLVMConstInt(t, 1, false);
  } else {
    const uint64_t top = uint64_t(1) << (bits_of(type) - 1);
    const uint64_t least = is_signed_int(type) ? top : 0;
    one = o.constant(type, code == Code::reduce_max ? least : ~least, 1);
  }
  Values start(size_t(lane_vectors()), o.splat(one, lanes));
  if (!extreme()) return start;
  start.resize(2 * size_t(lane_vectors()), LLVMConstNull(o.type(type, lanes)));
  const Type bits = o.wide(o.integer(bits_of(type)), lanes);
  start.resize(size_t(vectors()), code == Code::reduce_max ? LLVMConstAllOnes(bits) : LLVMConstNull(bits));
  return start;
}

Values Fold::rotated(const Values& acc) const {
  Values next = acc;
  for (auto first = next.begin(); first != next.end(); first += lane_vectors())
    std::rotate(first, first + 1, first + lane_vectors());
  return next;
}

Values Fold::step(Ops& o, const Values& acc, Value x, Value mask) const {
  const auto where = [&](Value y, Value old) { return mask ? o.select(mask, y, old) : y; };
  Values next = acc;
  next[0] = where(combine(o, acc[0], x), acc[0]);
  if (extreme()) {
    Value &nan = next[size_t(lane_vectors())], &bits = next[2 * size_t(lane_vectors())];
    nan = where(last_nan(o, nan, x), nan);
    bits = where(join_bits(o, bits, LLVMBuildBitCast(o.b, x, LLVMTypeOf(bits), "")), bits);
  }
  return rotated(next);
}

Value Fold::finish(Ops& o, const Values& acc) const {
  // Combines all lanes with `join`, halving them each time.
  const auto down = [&](Values v, auto&& join) {
    for (size_t half = v.size() / 2; half > 0; half /= 2)
      for (size_t i = 0; i < half; ++i) v[i] = join(v[i], v[i + half]);
    Value y = v[0];
    for (int half = lanes / 2; half > 0; half /= 2) {
      const auto part = [&](int first) {
        Values index;
        for (int i = 0; i < half; ++i) index.push_back(LLVMConstInt(o.integer(32), uint64_t(first + i), false));
        if (half == 1) return LLVMBuildExtractElement(o.b, y, index[0], "");
        return LLVMBuildShuffleVector(o.b, y, LLVMGetPoison(LLVMTypeOf(y)),
                                      LLVMConstVector(index.data(), unsigned(half)), "");
      };
      Value low = part(0), high = part(half);
      y = join(low, high);
    }
    return y;
  };
  const auto group = [&](int g) {
    return Values(acc.begin() + g * lane_vectors(), acc.begin() + (g + 1) * lane_vectors());
  };
  Value y = down(group(0), [&](Value a, Value b) { return combine(o, a, b); });
  if (adds() && is_float(type)) return LLVMBuildFAdd(o.b, y, LLVMConstNull(o.type(type, 1)), "");
  if (!extreme()) return y;
  Value nan = down(group(1), [&](Value a, Value b) { return last_nan(o, a, b); });
  Value bits = down(group(2), [&](Value a, Value b) { return join_bits(o, a, b); });
  Value sign = LLVMBuildAnd(o.b, bits, LLVMConstInt(LLVMTypeOf(bits), uint64_t(1) << (bits_of(type) - 1), false), "");
  y = o.select(LLVMBuildFCmp(o.b, LLVMRealOEQ, y, LLVMConstNull(LLVMTypeOf(y)), ""),
               LLVMBuildBitCast(o.b, sign, LLVMTypeOf(y), ""), y);
  return last_nan(o, y, nan);
}

Value Fold::address(Ops& o, Value stack, Value at, int vector) const {
  const int64_t element = int64_t(size_of(type));
  Value bytes = LLVMBuildMul(o.b, at, o.i64(tree_lanes * element), "");
  bytes = LLVMBuildAdd(o.b, bytes, o.i64(vector * lanes * element), "");
  return LLVMBuildGEP2(o.b, o.integer(8), stack, &bytes, 1, "");
}

Values Fold::load(Ops& o, Value stack, Value at) const {
  Values acc;
  for (int v = 0; v < vectors(); ++v)
    acc.push_back(LLVMBuildLoad2(o.b, o.type(type, lanes), address(o, stack, at, v), ""));
  return acc;
}

void Fold::store(Ops& o, Value stack, Value at, const Values& acc) const {
  for (int v = 0; v < vectors(); ++v) LLVMBuildStore(o.b, acc[size_t(v)], address(o, stack, at, v));
}

void Fold::merge(Ops& o, Value stack, Value below) const {
  Values a = load(o, stack, below), b = load(o, stack, LLVMBuildAdd(o.b, below, o.i64(1), ""));
  for (size_t v = 0; v < a.size(); ++v) a[v] = combine(o, a[v], b[v]);
  store(o, stack, below, a);
}

}  // namespace rill::kernel
