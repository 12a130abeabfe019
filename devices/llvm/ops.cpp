// The arithmetic of kernels as LLVM's IR; see ops.h.
#include "rill/devices/llvm/ops.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace rill::kernel {

Ops::Ops(LLVMModuleRef m, const Machine& target)
    : module(m), context(LLVMGetModuleContext(m)), b(LLVMCreateBuilderInContext(context)), machine(target) {}

// --- Types and constants ---------------------------------------------------------------------------------------------

Type Ops::element(DType d) const {
  if (d == DType::f32) return LLVMFloatTypeInContext(context);
  if (d == DType::f64) return LLVMDoubleTypeInContext(context);
  return integer(bits_of(d));
}

Value Ops::constant(DType d, uint64_t bits, int lanes) const {
  if (d == DType::boolean) bits = (bits & 0xff) != 0;
  if (bits_of(d) < 64) bits &= (uint64_t(1) << bits_of(d)) - 1;
  Value one = LLVMConstInt(integer(bits_of(d)), bits, false);
  if (is_float(d)) one = LLVMConstBitCast(one, element(d));
  if (lanes == 1) return one;
  std::vector<Value> all(size_t(lanes), one);
  return LLVMConstVector(all.data(), unsigned(lanes));
}

Value Ops::number(Type t, double value, int lanes) const {
  std::vector<Value> all(size_t(lanes), LLVMConstReal(t, value));
  return lanes == 1 ? all[0] : LLVMConstVector(all.data(), unsigned(lanes));
}

Value Ops::splat(Value scalar, int lanes) {
  if (lanes == 1) return scalar;
  if (LLVMIsConstant(scalar)) {
    std::vector<Value> all(size_t(lanes), scalar);
    return LLVMConstVector(all.data(), unsigned(lanes));
  }
  Type t = wide(LLVMTypeOf(scalar), lanes);
  Value v = LLVMBuildInsertElement(b, LLVMGetPoison(t), scalar, i64(0), "");
  return LLVMBuildShuffleVector(b, v, LLVMGetPoison(t), LLVMConstNull(wide(integer(32), lanes)), "");
}

Value Ops::intrinsic(const char* name, std::initializer_list<Type> overloads, std::initializer_list<Value> args) {
  const unsigned id = LLVMLookupIntrinsicID(name, std::strlen(name));
  if (id == 0) throw std::runtime_error(std::string("this LLVM has no ") + name);
  Type* types = const_cast<Type*>(overloads.begin());
  Value* values = const_cast<Value*>(args.begin());
  Type function = LLVMIntrinsicGetType(context, id, types, overloads.size());
  return LLVMBuildCall2(b, function, LLVMGetIntrinsicDeclaration(module, id, types, overloads.size()), values,
                        unsigned(args.size()), "");
}

Value Ops::to_memory(DType d, Value v, int lanes) {
  return d == DType::boolean ? LLVMBuildZExt(b, v, memory_type(d, lanes), "") : v;
}
Value Ops::from_memory(DType d, Value v, int lanes) {
  return d == DType::boolean ? LLVMBuildICmp(b, LLVMIntNE, v, LLVMConstNull(memory_type(d, lanes)), "") : v;
}

// --- Arithmetic ------------------------------------------------------------------------------------------------------

Value Ops::compare(Code c, DType d, Value x, Value y) {
  const int at = int(c) - int(Code::eq);  // eq ne lt le gt ge
  static constexpr LLVMRealPredicate real[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT,
                                               LLVMRealOLE, LLVMRealOGT, LLVMRealOGE};
  static constexpr LLVMIntPredicate with_sign[] = {LLVMIntEQ,  LLVMIntNE,  LLVMIntSLT,
                                                   LLVMIntSLE, LLVMIntSGT, LLVMIntSGE};
  static constexpr LLVMIntPredicate without[] = {LLVMIntEQ, LLVMIntNE, LLVMIntULT, LLVMIntULE, LLVMIntUGT, LLVMIntUGE};
  if (is_float(d)) return LLVMBuildFCmp(b, real[at], x, y, "");
  return LLVMBuildICmp(b, (is_signed_int(d) ? with_sign : without)[at], x, y, "");
}

// LLVM leaves division by 0, and of the least integer by -1, undefined.
Value Ops::quotient(DType d, Value x, Value y, int lanes) {
  const Value zero = constant(d, 0, lanes), one = constant(d, 1, lanes),
              none = LLVMBuildICmp(b, LLVMIntEQ, y, zero, "");
  if (!is_signed_int(d)) return select(none, zero, LLVMBuildUDiv(b, x, select(none, one, y), ""));
  const Value negates = LLVMBuildICmp(b, LLVMIntEQ, y, LLVMConstAllOnes(type(d, lanes)), "");
  const Value q = LLVMBuildSDiv(b, x, select(LLVMBuildOr(b, none, negates, ""), one, y), "");
  return select(none, zero, select(negates, LLVMBuildNeg(b, x, ""), q));
}

// And shifts by at least as many bits as the type has.
Value Ops::shift(Code c, DType d, Value x, Value y, int lanes) {
  const uint64_t bits = uint64_t(bits_of(d));
  const Value fits = LLVMBuildICmp(b, LLVMIntULT, y, constant(d, bits, lanes), "");
  const Value by = select(fits, y, constant(d, bits - 1, lanes)), zero = constant(d, 0, lanes);
  if (c == Code::shift_left) return select(fits, LLVMBuildShl(b, x, by, ""), zero);
  if (is_signed_int(d)) return LLVMBuildAShr(b, x, by, "");
  return select(fits, LLVMBuildLShr(b, x, by, ""), zero);
}

// x86 has an instruction for it, and this calls it by name: LLVM combines comparisons and selections with their
// neighbours, and has been wrong about NaN in that (see `passes` in machine.cpp), but leaves target intrinsics alone.
Value Ops::min_max(bool largest, DType d, Value x, Value y) {
  const Type t = LLVMTypeOf(x);
  const int lanes = LLVMGetTypeKind(t) == LLVMVectorTypeKind ? int(LLVMGetVectorSize(t)) : 1;
  const int bits = lanes * bits_of(d), widest = 8 * machine.vector_bytes;
  if (!machine.x86 || !is_float(d) || bits < 128) return select(compare(largest ? Code::gt : Code::lt, d, x, y), x, y);
  if (bits > widest) {  // several registers
    const auto part = [&](int first) {
      const Value at = lane_indices(first, lanes / 2), none = LLVMGetPoison(t);
      return min_max(largest, d, LLVMBuildShuffleVector(b, x, none, at, ""),
                     LLVMBuildShuffleVector(b, y, none, at, ""));
    };
    const Value low = part(0), high = part(lanes / 2);
    return LLVMBuildShuffleVector(b, low, high, lane_indices(0, lanes), "");
  }
  const char letter = d == DType::f64 ? 'd' : 's';
  const char* set = bits == 512 ? "avx512" : bits == 256 ? "avx" : d == DType::f64 ? "sse2" : "sse";
  std::string name = std::string("llvm.x86.") + set + (largest ? ".max.p" : ".min.p") + letter;
  if (bits > 128) name += "." + std::to_string(bits);
  if (bits == 512) return intrinsic(name.c_str(), {}, {x, y, LLVMConstInt(integer(32), 4, false)});  // 4: no rounding
  return intrinsic(name.c_str(), {}, {x, y});
}

std::optional<double> Ops::constant_number(Value v) {
  if (!LLVMIsConstant(v)) return {};
  if (LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind) v = LLVMGetAggregateElement(v, 0);  // all lanes are equal
  if (!v || !LLVMIsAConstantFP(v)) return {};
  LLVMBool inexact = false;
  const double number = LLVMConstRealGetDouble(v, &inexact);
  return number == number ? std::optional(number) : std::nullopt;
}

Value Ops::truncate_to_i32(Value x, int lanes) {
  const Type i32s = wide(integer(32), lanes);
  if (machine.x86 && lanes == 16 && machine.vector_bytes >= 64)
    return intrinsic("llvm.x86.avx512.mask.cvttps2dq.512", {},
                     {x, LLVMConstNull(i32s), LLVMConstAllOnes(integer(16)), LLVMConstInt(integer(32), 4, false)});
  if (machine.x86 && lanes == 8 && machine.vector_bytes >= 32) return intrinsic("llvm.x86.avx.cvtt.ps2dq.256", {}, {x});
  if (machine.x86 && lanes == 4) return intrinsic("llvm.x86.sse2.cvttps2dq", {}, {x});
  const Type f32s = type(DType::f32, lanes);
  const Value near = LLVMBuildFCmp(b, LLVMRealOLT, intrinsic("llvm.fabs", {f32s}, {x}),
                                   number(element(DType::f32), 0x1p31, lanes), "");
  return select(near, LLVMBuildFPToSI(b, x, i32s, ""), LLVMConstNull(i32s));
}

Value Ops::lane_indices(int first, int lanes) const {
  std::vector<Value> index;
  for (int i = 0; i < lanes; ++i) index.push_back(LLVMConstInt(integer(32), uint64_t(first + i), false));
  return LLVMConstVector(index.data(), unsigned(lanes));
}

// One instruction of AVX-512. Otherwise as scale() and scale_small() of devices/kernel/math/math_common.h.
Value Ops::scale(DType d, Value x, Value n, int lanes, bool small) {
  const bool wide64 = d == DType::f64;
  if (const int width = lanes * bits_of(d); machine.masked_moves && (width == 128 || width == 256 || width == 512)) {
    const std::string name =
        std::string("llvm.x86.avx512.mask.scalef.") + (wide64 ? "pd." : "ps.") + std::to_string(width);
    const Value all_lanes = LLVMConstAllOnes(integer(std::max(lanes, 8))),
                current_rounding = LLVMConstInt(integer(32), 4, false);
    if (width == 512) return intrinsic(name.c_str(), {}, {x, n, x, all_lanes, current_rounding});
    return intrinsic(name.c_str(), {}, {x, n, x, all_lanes});
  }
  const DType whole = wide64 ? DType::i64 : DType::i32;
  const double step = wide64 ? 512 : 64, zero = wide64 ? 0x1.8p52 + 1023 : 0x1.8p23 + 127;
  const auto c = [&](double v) { return number(element(d), v, lanes); };
  const Value less = small ? nullptr : LLVMBuildFCmp(b, LLVMRealOLT, n, c(0), "");
  const auto choose = [&](double if_less, double if_not) {
    return small ? c(if_less) : select(less, c(if_less), c(if_not));
  };
  const Value power = LLVMBuildFAdd(b, n, choose(zero + step, zero - step), "");
  const Value bits =
      LLVMBuildShl(b, LLVMBuildBitCast(b, power, type(whole, lanes), ""), constant(whole, wide64 ? 52 : 23, lanes), "");
  const Value near = LLVMBuildFMul(b, x, LLVMBuildBitCast(b, bits, type(d, lanes), ""), "");
  return LLVMBuildFMul(b, near, choose(wide64 ? 0x1p-512 : 0x1p-64, wide64 ? 0x1p512 : 0x1p64), "");
}

Value Ops::binary(Code c, DType d, Value x, Value y, int lanes) {
  const bool real = is_float(d);
  switch (c) {
    case Code::add: return real ? LLVMBuildFAdd(b, x, y, "") : LLVMBuildAdd(b, x, y, "");
    case Code::sub: return real ? LLVMBuildFSub(b, x, y, "") : LLVMBuildSub(b, x, y, "");
    case Code::mul: return real ? LLVMBuildFMul(b, x, y, "") : LLVMBuildMul(b, x, y, "");
    case Code::div: return LLVMBuildFDiv(b, x, y, "");
    case Code::copysign: return intrinsic("llvm.copysign", {type(d, lanes)}, {x, y});
    case Code::mul_high: {
      Type twice = wide(integer(64), lanes);
      Value product = LLVMBuildMul(b, LLVMBuildZExt(b, x, twice, ""), LLVMBuildZExt(b, y, twice, ""), "");
      return LLVMBuildTrunc(b, LLVMBuildLShr(b, product, constant(DType::i64, 32, lanes), ""), type(d, lanes), "");
    }
    case Code::quotient: return quotient(d, x, y, lanes);
    case Code::shift_left:
    case Code::shift_right: return shift(c, d, x, y, lanes);
    case Code::min:
    case Code::max: {
      // The processor's instruction returns its second operand if either is NaN, or if both are equal.
      if (real && constant_number(y).value_or(0) != 0) return min_max(c == Code::max, d, y, x);
      const Value extreme = min_max(c == Code::max, d, x, y);
      return real && !constant_number(x) ? select(LLVMBuildFCmp(b, LLVMRealUNO, x, x, ""), x, extreme) : extreme;
    }
    default: break;
  }
  Type bits = wide(integer(bits_of(d)), lanes);  // bit_and, bit_or, bit_xor
  Value p = real ? LLVMBuildBitCast(b, x, bits, "") : x, q = real ? LLVMBuildBitCast(b, y, bits, "") : y;
  Value r = c == Code::bit_and  ? LLVMBuildAnd(b, p, q, "")
            : c == Code::bit_or ? LLVMBuildOr(b, p, q, "")
                                : LLVMBuildXor(b, p, q, "");
  return real ? LLVMBuildBitCast(b, r, type(d, lanes), "") : r;
}

Value Ops::unary(const Inst& i, DType from, Value x, int lanes) {
  const Type t = type(i.type, lanes);
  const bool real = is_float(i.type);
  switch (i.code) {
    case Code::neg: return real ? LLVMBuildFNeg(b, x, "") : LLVMBuildNeg(b, x, "");
    case Code::bit_not: return LLVMBuildNot(b, x, "");
    case Code::abs:
      if (real) return intrinsic("llvm.fabs", {t}, {x});
      return is_signed_int(i.type) ? intrinsic("llvm.abs", {t}, {x, LLVMConstInt(integer(1), 0, false)}) : x;
    case Code::sqrt: return intrinsic("llvm.sqrt", {t}, {x});
    case Code::floor: return intrinsic("llvm.floor", {t}, {x});
    case Code::ceil: return intrinsic("llvm.ceil", {t}, {x});
    case Code::trunc: return intrinsic("llvm.trunc", {t}, {x});
    case Code::round_even: return intrinsic("llvm.rint", {t}, {x});
    case Code::bitcast: return LLVMBuildBitCast(b, to_memory(from, x, lanes), memory_type(i.type, lanes), "");
    case Code::convert: return convert(from, i.type, x, lanes);
    // Frozen: for a number that does not fit LLVM returns poison, which could spread to other values; any bits will do.
    case Code::to_int: return LLVMBuildFreeze(b, LLVMBuildFPToSI(b, x, t, ""), "");
    case Code::to_float: return LLVMBuildSIToFP(b, x, t, "");
    case Code::shl: return LLVMBuildShl(b, x, constant(i.type, i.imm, lanes), "");
    default:
      return is_signed_int(i.type) ? LLVMBuildAShr(b, x, constant(i.type, i.imm, lanes), "")
                                   : LLVMBuildLShr(b, x, constant(i.type, i.imm, lanes), "");
  }
}

Value Ops::compute(const Inst& i, DType from, const Value* in, int lanes) {
  if (i.code == Code::constant) return constant(i.type, i.imm, lanes);
  if (i.code >= Code::eq && i.code <= Code::ge) return compare(i.code, from, in[0], in[1]);
  switch (operand_count(i.code)) {
    case 1: {
      Value y = unary(i, from, in[0], lanes);
      return i.code == Code::bitcast ? from_memory(i.type, y, lanes) : y;
    }
    case 2:
      if (i.code == Code::scale) return scale(i.type, in[0], in[1], lanes, i.imm != 0);
      return binary(i.code, i.type, in[0], in[1], lanes);
    default: break;
  }
  if (i.code == Code::select) return select(in[0], in[1], in[2]);
  if (i.code == Code::fma) return intrinsic("llvm.fma", {type(i.type, lanes)}, {in[0], in[1], in[2]});
  return min_max(true, i.type, in[1], min_max(false, i.type, in[2], in[0]));  // clamp
}

// --- Conversions: convert_number (devices/kernel/convert.h), lane by lane --------------------------------------------

Value Ops::widen(DType from, Value x, int lanes) {
  const Type i32 = wide(integer(32), lanes), f32 = type(DType::f32, lanes);
  const auto c = [&](uint32_t v) { return constant(DType::u32, v, lanes); };
  Value u = LLVMBuildZExt(b, x, i32, "");
  if (from == DType::bf16) return LLVMBuildBitCast(b, LLVMBuildShl(b, u, c(16), ""), f32, "");
  if (machine.f16_conversions) {
    Type half = wide(LLVMHalfTypeInContext(context), lanes);
    return LLVMBuildFPExt(b, LLVMBuildBitCast(b, x, half, ""), f32, "");
  }
  Value sign = LLVMBuildShl(b, LLVMBuildAnd(b, u, c(0x8000), ""), c(16), "");
  Value rest = LLVMBuildAnd(b, u, c(0x7fff), "");
  Value moved = LLVMBuildShl(b, rest, c(13), "");
  Value normal = LLVMBuildAdd(b, moved, c(0x38000000), "");
  Value special = LLVMBuildOr(b, moved, c(0x7f800000), "");  // infinity and NaN
  Value small = LLVMBuildFMul(b, LLVMBuildUIToFP(b, rest, f32, ""), number(element(DType::f32), 0x1p-24, lanes), "");
  Value y = select(LLVMBuildICmp(b, LLVMIntUGE, rest, c(0x7c00), ""), special, normal);
  y = select(LLVMBuildICmp(b, LLVMIntULT, rest, c(0x400), ""), LLVMBuildBitCast(b, small, i32, ""), y);
  return LLVMBuildBitCast(b, LLVMBuildOr(b, sign, y, ""), f32, "");
}

// f32 has more than twice the precision of f16: rounding to it first changes nothing.
Value Ops::half_arithmetic(Code c, Value x, Value y) {
  const Type t = LLVMTypeOf(x), half = wide(LLVMHalfTypeInContext(context), int(LLVMGetVectorSize(t)));
  const Value p = LLVMBuildBitCast(b, x, half, ""), q = LLVMBuildBitCast(b, y, half, "");
  const Value z = c == Code::add   ? LLVMBuildFAdd(b, p, q, "")
                  : c == Code::sub ? LLVMBuildFSub(b, p, q, "")
                  : c == Code::mul ? LLVMBuildFMul(b, p, q, "")
                                   : LLVMBuildFDiv(b, p, q, "");
  return LLVMBuildBitCast(b, z, t, "");
}

Value Ops::narrow(DType to, Value x, int lanes) {
  const Type i16 = wide(integer(16), lanes), i32 = wide(integer(32), lanes), f32 = type(DType::f32, lanes);
  const auto c = [&](uint32_t v) { return constant(DType::u32, v, lanes); };
  const auto shr = [&](Value v, uint32_t by) { return LLVMBuildLShr(b, v, c(by), ""); };
  if (to == DType::f16 && machine.f16_conversions) {
    Type half = wide(LLVMHalfTypeInContext(context), lanes);
    return LLVMBuildBitCast(b, LLVMBuildFPTrunc(b, x, half, ""), i16, "");
  }
  Value all = LLVMBuildBitCast(b, x, i32, "");
  if (to == DType::bf16) {
    Value odd = LLVMBuildAnd(b, shr(all, 16), c(1), "");
    Value rounded = shr(LLVMBuildAdd(b, LLVMBuildAdd(b, all, c(0x7fff), ""), odd, ""), 16);
    Value nan = LLVMBuildOr(b, shr(all, 16), c(0x40), "");
    return LLVMBuildTrunc(b, select(LLVMBuildFCmp(b, LLVMRealUNO, x, x, ""), nan, rounded), i16, "");
  }
  Value sign = LLVMBuildAnd(b, shr(all, 16), c(0x8000), "");  // as Half(float) of tensor/dtype.cpp
  Value u = LLVMBuildAnd(b, all, c(0x7fffffff), "");
  Value odd = LLVMBuildAnd(b, shr(u, 13), c(1), "");
  Value normal = shr(LLVMBuildAdd(b, LLVMBuildAdd(b, u, c(0xfffu - 0x38000000u), ""), odd, ""), 13);
  Value moved = LLVMBuildFAdd(b, LLVMBuildBitCast(b, u, f32, ""), number(element(DType::f32), 0.5, lanes), "");
  Value small = LLVMBuildSub(b, LLVMBuildBitCast(b, moved, i32, ""), c(0x3f000000), "");
  Value y = select(LLVMBuildICmp(b, LLVMIntUGE, u, c(0x38800000), ""), normal, small);
  y = select(LLVMBuildICmp(b, LLVMIntUGE, u, c(0x47800000), ""), c(0x7c00), y);
  y = select(LLVMBuildICmp(b, LLVMIntUGT, u, c(0x7f800000), ""), c(0x7e00), y);
  return LLVMBuildTrunc(b, LLVMBuildOr(b, sign, y, ""), i16, "");
}

Value Ops::to_integer(DType from, DType to, Value x, int lanes) {
  const auto c = [&](double v) { return number(element(from), v, lanes); };
  if (from == DType::f32 && bits_of(to) == 8) {  // f32 from 2^31 on are multiples of 256
    const Value above = LLVMBuildFCmp(b, LLVMRealOGE, x, c(0x1p63), "");
    const Value y = select(above, constant(DType::i32, uint64_t(-1), lanes), truncate_to_i32(x, lanes));
    return LLVMBuildTrunc(b, y, type(to, lanes), "");
  }
  const Type wide64 = wide(integer(64), lanes);
  Value above = LLVMBuildFCmp(b, LLVMRealOGE, x, c(0x1p63), "");
  Value y = select(above, constant(DType::i64, INT64_MAX, lanes), LLVMBuildFPToSI(b, x, wide64, ""));
  if (to == DType::u64) {
    Value great = select(LLVMBuildFCmp(b, LLVMRealOGE, x, c(0x1p64), ""), constant(DType::u64, UINT64_MAX, lanes),
                         LLVMBuildFPToUI(b, x, wide64, ""));
    y = select(above, great, y);
  }
  Value inside = LLVMBuildFCmp(b, LLVMRealOGT, x, c(-0x1p63), "");
  return LLVMBuildTrunc(b, select(inside, y, constant(DType::i64, uint64_t(INT64_MIN), lanes)), type(to, lanes), "");
}

Value Ops::halfway_float(Value x, int lanes) {
  const auto c = [&](uint32_t v) { return constant(DType::u32, v, lanes); };
  const Type f64 = type(DType::f64, lanes);
  const Value f = LLVMBuildFPTrunc(b, x, type(DType::f32, lanes), ""), back = LLVMBuildFPExt(b, f, f64, "");
  const auto magnitude = [&](Value v) { return intrinsic("llvm.fabs", {f64}, {v}); };
  const Value u = LLVMBuildBitCast(b, f, wide(integer(32), lanes), "");
  const Value away = LLVMBuildFCmp(b, LLVMRealOLT, magnitude(back), magnitude(x), "");
  const Value moved = select(away, LLVMBuildAdd(b, u, c(1), ""), LLVMBuildSub(b, u, c(1), ""));
  const Value even = LLVMBuildICmp(b, LLVMIntEQ, LLVMBuildAnd(b, u, c(1), ""), c(0), "");
  const Value moves = LLVMBuildAnd(b, even, LLVMBuildFCmp(b, LLVMRealONE, back, x, ""), "");
  return LLVMBuildBitCast(b, select(moves, moved, u), type(DType::f32, lanes), "");
}

Value Ops::halfway_double(DType from, Value x, int lanes) {
  if (bits_of(from) == 64) {
    const auto c = [&](uint64_t v) { return constant(DType::u64, v, lanes); };
    constexpr uint64_t exact = uint64_t(1) << 53, low = 0x7ff;
    const Value beyond = is_signed_int(from)
                             ? LLVMBuildICmp(b, LLVMIntUGE, LLVMBuildAdd(b, x, c(exact), ""), c(2 * exact), "")
                             : LLVMBuildICmp(b, LLVMIntUGE, x, c(exact), "");
    const Value inexact = LLVMBuildICmp(b, LLVMIntNE, LLVMBuildAnd(b, x, c(low), ""), c(0), "");
    const Value odd = LLVMBuildOr(b, LLVMBuildAnd(b, x, c(~low), ""), c(low + 1), "");
    x = select(LLVMBuildAnd(b, beyond, inexact, ""), odd, x);
  }
  return convert(from, DType::f64, x, lanes);
}

Value Ops::convert(DType from, DType to, Value x, int lanes) {
  const Type t = type(to, lanes);
  if (from == to) return x;
  if (is_half(from)) return convert(DType::f32, to, widen(from, x, lanes), lanes);
  if (to == DType::boolean)
    return is_float(from) ? LLVMBuildFCmp(b, LLVMRealUNE, x, LLVMConstNull(type(from, lanes)), "")
                          : LLVMBuildICmp(b, LLVMIntNE, x, LLVMConstNull(type(from, lanes)), "");
  if (is_half(to) && from == DType::f64) return narrow(to, halfway_float(x, lanes), lanes);
  if (is_half(to) && !is_float(from) && bits_of(from) >= 32)
    return narrow(to, halfway_float(halfway_double(from, x, lanes), lanes), lanes);
  if (is_half(to)) return narrow(to, convert(from, DType::f32, x, lanes), lanes);
  if (is_float(from)) {
    if (!is_float(to)) return to_integer(from, to, x, lanes);
    return to == DType::f64 ? LLVMBuildFPExt(b, x, t, "") : LLVMBuildFPTrunc(b, x, t, "");
  }
  if (is_float(to)) return is_signed_int(from) ? LLVMBuildSIToFP(b, x, t, "") : LLVMBuildUIToFP(b, x, t, "");
  if (bits_of(to) < bits_of(from)) return LLVMBuildTrunc(b, x, t, "");
  if (bits_of(to) == bits_of(from)) return x;
  return is_signed_int(from) ? LLVMBuildSExt(b, x, t, "") : LLVMBuildZExt(b, x, t, "");
}

}  // namespace rill::kernel
