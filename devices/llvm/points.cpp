// The straight-line code of one loop iteration: loads, computation and stores for one vector of points.
#include <algorithm>

#include "rill/devices/llvm/emitter.h"

namespace rill::kernel {

// The points from i on, `left` of them but at most a full vector; `left` is at least 1.
Emitter::Points Emitter::masked(Value i, Value left) {
  left = o_.select(LLVMBuildICmp(o_.b, LLVMIntSLT, left, o_.i64(lanes_), ""), left, o_.i64(lanes_));
  Points at{i, nullptr, left};
  Value ones = LLVMBuildSub(o_.b, LLVMBuildShl(o_.b, o_.i64(1), left, ""), o_.i64(1), "");
  at.mask =
      LLVMBuildBitCast(o_.b, LLVMBuildTrunc(o_.b, ones, o_.integer(lanes_), ""), o_.wide(o_.integer(1), lanes_), "");
  return at;
}

Value Emitter::address(Value base, Value i, DType d) {
  return LLVMBuildGEP2(o_.b, o_.memory_type(d, 1), base, &i, 1, "");
}

Value Emitter::scratch_row(int32_t slot) {
  Value offset = LLVMBuildMul(o_.b, slot_bytes_, o_.i64(slot), "");
  return LLVMBuildGEP2(o_.b, o_.integer(8), LLVMGetParam(function_, 4), &offset, 1, "");
}

// --- Memory ----------------------------------------------------------------------------------------------------------
// Masked moves are one instruction with AVX-512. Without it the points go through a buffer, by memcpy.

Value Emitter::load(DType d, Value p, const Points& at) {
  const Type t = o_.memory_type(d, lanes_), pointer = LLVMPointerTypeInContext(o_.context, 0);
  const unsigned element = unsigned(size_of(d));
  Value v;
  if (!at.mask) {
    v = LLVMBuildLoad2(o_.b, t, p, "");
    LLVMSetAlignment(v, element);
  } else if (o_.machine.masked_moves) {
    Value align = LLVMConstInt(o_.integer(32), element, false);
    v = o_.intrinsic("llvm.masked.load", {t, pointer}, {p, align, at.mask, LLVMConstNull(t)});
  } else {
    Value buffer = local(t);
    LLVMSetAlignment(LLVMBuildStore(o_.b, LLVMConstNull(t), buffer), 64);
    LLVMBuildMemCpy(o_.b, buffer, 64, p, element, LLVMBuildMul(o_.b, at.left, o_.i64(element), ""));
    v = LLVMBuildLoad2(o_.b, t, buffer, "");
  }
  return o_.from_memory(d, v, lanes_);
}

void Emitter::store(DType d, Value value, Value p, const Points& at, bool streaming) {
  const Type t = o_.memory_type(d, lanes_), pointer = LLVMPointerTypeInContext(o_.context, 0);
  const unsigned element = unsigned(size_of(d)), vector = element * unsigned(lanes_);
  Value v = o_.to_memory(d, value, lanes_);
  if (!at.mask) {
    Value s = LLVMBuildStore(o_.b, v, p);
    LLVMSetAlignment(s, streaming ? std::min(vector, 64u) : element);
    if (!streaming) return;
    LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(o_.integer(32), 1, false));
    LLVMMetadataRef node = LLVMMDNodeInContext2(o_.context, &one, 1);
    LLVMSetMetadata(s, LLVMGetMDKindIDInContext(o_.context, "nontemporal", 11), LLVMMetadataAsValue(o_.context, node));
  } else if (o_.machine.masked_moves) {
    Value align = LLVMConstInt(o_.integer(32), element, false);
    o_.intrinsic("llvm.masked.store", {t, pointer}, {v, p, align, at.mask});
  } else {
    Value buffer = local(t);
    LLVMBuildStore(o_.b, v, buffer);
    LLVMBuildMemCpy(o_.b, p, element, buffer, 64, LLVMBuildMul(o_.b, at.left, o_.i64(element), ""));
  }
}

// Prefetches the same points of the next row, once for each line of 64 bytes.
void Emitter::fetch_next_row(const Pass& p, const std::vector<Points>& at) {
  if (&p != fetching_) return;
  for (size_t f = 0; f < fetched_.size(); ++f) {
    const bool written = fetched_[f] >= k_.inputs.size();
    const DType d = written ? k_.outputs[fetched_[f] - k_.inputs.size()].dtype : k_.inputs[fetched_[f]].dtype;
    for (size_t c = 0; c < at.size(); ++c) {
      if (c * size_t(lanes_) * size_of(d) % 64 != 0) continue;
      const Value where = address(next_row_[f], at[c].i, d);
      const auto number = [&](uint64_t v) { return LLVMConstInt(o_.integer(32), v, false); };
      o_.intrinsic("llvm.prefetch", {LLVMTypeOf(where)}, {where, number(written), number(3), number(1)});
    }
  }
}

// first, first + 1, ...
Value Emitter::counter_values(Value first, int bits) {
  Values lane;
  for (int j = 0; j < lanes_; ++j) lane.push_back(LLVMConstInt(o_.integer(bits), uint64_t(j), false));
  return LLVMBuildAdd(o_.b, o_.splat(first, lanes_), LLVMConstVector(lane.data(), unsigned(lanes_)), "");
}

void Emitter::read(const Pass& p, const Points& at, Values& v) {
  for (int32_t n : p.elements) {
    const Inst& i = k_.body[size_t(n)];
    if (i.code != Code::input) continue;
    Value base = pointers_[size_t(i.imm)];
    if (k_.inputs[size_t(i.imm)].kind != Input::Kind::counter) {
      v[size_t(n)] = load(i.type, address(base, at.i, i.type), at);
      continue;
    }
    v[size_t(n)] = counter_values(LLVMBuildAdd(o_.b, base, at.i, ""), 64);
  }
  // A scratch slot has room for full vectors, so no mask is needed.
  for (int32_t n : p.restored) {
    const DType d = type_of(n);
    v[size_t(n)] = load(d, address(scratch_row(s_.slot[size_t(n)]), at.i, d), {at.i});
  }
}

void Emitter::write(const Pass& p, const Points& at, const Values& v) {
  for (int32_t n : p.kept)
    store(type_of(n), v[size_t(n)], address(scratch_row(s_.slot[size_t(n)]), at.i, type_of(n)), {at.i}, false);
  for (int32_t out : p.stored) {
    const Output& o = k_.outputs[size_t(out)];
    Value to = address(pointers_[k_.inputs.size() + size_t(out)], at.i, o.dtype), x = element(v, o.value);
    if (o.added) x = LLVMBuildFAdd(o_.b, load(o.dtype, to, at), x, "");
    store(o.dtype, x, to, at, k_.streaming && !o.added);
  }
}

// --- Arithmetic ------------------------------------------------------------------------------------------------------

void Emitter::compute(const Pass& p, const Points& at, Values& v) {
  for (int32_t n : p.elements) {
    const Inst& i = k_.body[size_t(n)];
    if (i.code == Code::input) continue;
    if (i.code == Code::convert && i.type == DType::i32 && is_counter(i.in[0])) {  // a vector of i32 is half as large
      Value first = LLVMBuildAdd(o_.b, pointers_[size_t(k_.body[size_t(i.in[0])].imm)], at.i, "");
      v[size_t(n)] = counter_values(LLVMBuildTrunc(o_.b, first, o_.integer(32), ""), 32);
      continue;
    }
    if (Value y = half_arithmetic(i, v)) {
      v[size_t(n)] = y;
      continue;
    }
    Value in[3] = {};
    for (int j = 0; j < operand_count(i.code); ++j) in[j] = element(v, i.in[j]);
    v[size_t(n)] = i.code == Code::patch ? patched(i, in, at.mask, lanes_)
                                         : o_.compute(i, operand_count(i.code) ? type_of(i.in[0]) : i.type, in, lanes_);
  }
}

// If `i` rounds the result of an operation on two widened f16 back to f16, that is one instruction on machines that
// have it. Usually nothing else reads the wider result, and LLVM drops it.
Value Emitter::half_arithmetic(const Inst& i, const Values& v) {
  if (!o_.machine.half_arithmetic || i.code != Code::convert || i.type != DType::f16) return nullptr;
  const Inst& wide = k_.body[size_t(i.in[0])];
  if (wide.type != DType::f32 || wide.code < Code::add || wide.code > Code::div) return nullptr;
  const auto half = [&](int32_t n) -> Value {
    const Inst& from = k_.body[size_t(n)];
    return from.code == Code::convert && type_of(from.in[0]) == DType::f16 ? v[size_t(from.in[0])] : nullptr;
  };
  const Value x = half(wide.in[0]), y = half(wide.in[1]);
  return x && y ? o_.half_arithmetic(wide.code, x, y) : nullptr;
}

// If any lane is flagged, all lanes go through memory to the scalar function, which looks at the flags.
Value Emitter::patched(const Inst& i, const Value* in, Value mask, int lanes) {
  const Type pointer = LLVMPointerTypeInContext(o_.context, 0), t = o_.type(i.type, lanes), size = o_.integer(64);
  Value flags = mask ? LLVMBuildAnd(o_.b, in[0], mask, "") : in[0];
  Value any = flags;
  if (lanes > 1) {
    Type bits = o_.integer(lanes);
    any = LLVMBuildICmp(o_.b, LLVMIntNE, LLVMBuildBitCast(o_.b, flags, bits, ""), LLVMConstNull(bits), "");
  }
  Block from = LLVMGetInsertBlock(o_.b), call = new_block(o_), after = new_block(o_);
  Value branch = LLVMBuildCondBr(o_.b, any, call, after);
  LLVMMetadataRef weights[] = {LLVMMDStringInContext2(o_.context, "branch_weights", 14),
                               LLVMValueAsMetadata(LLVMConstInt(o_.integer(32), 1, false)),
                               LLVMValueAsMetadata(LLVMConstInt(o_.integer(32), 10000, false))};
  LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(o_.context, "prof", 4),
                  LLVMMetadataAsValue(o_.context, LLVMMDNodeInContext2(o_.context, weights, 3)));
  enter(o_, call);
  Value flag = local(o_.memory_type(DType::boolean, lanes)), y = local(t), x = local(t);
  LLVMBuildStore(o_.b, o_.to_memory(DType::boolean, flags, lanes), flag);
  LLVMBuildStore(o_.b, in[1], y);
  LLVMBuildStore(o_.b, in[2], x);
  Value at = o_.i64(int64_t(2 * i.imm + (i.type == DType::f64)));
  Value function =
      LLVMBuildLoad2(o_.b, pointer, LLVMBuildGEP2(o_.b, pointer, LLVMGetParam(function_, 5), &at, 1, ""), "");
  Type parameters[] = {size, pointer, pointer, pointer};
  Value arguments[] = {o_.i64(lanes), flag, y, x};
  LLVMBuildCall2(o_.b, LLVMFunctionType(LLVMVoidTypeInContext(o_.context), parameters, 4, false), function, arguments,
                 4, "");
  Value patched = LLVMBuildLoad2(o_.b, t, y, "");
  LLVMBuildBr(o_.b, after);
  enter(o_, after);
  return join(o_, in[1], from, patched, call);
}

}  // namespace rill::kernel
