// A kernel's loops as LLVM's IR; see emitter.h. Start at Emitter::run.
#include "rill/devices/llvm/emitter.h"

#include <algorithm>

namespace rill::kernel {

namespace {

// The number of lanes of a vector: those that fill the widest register with numbers of the most frequent element size.
// Wider types then take several registers, narrower ones a part of one.
int choose_lanes(const Kernel& k, const Schedule& s, const Machine& m) {
  int count[4] = {};
  for (size_t n = 0; n < k.body.size(); ++n) {
    if (s.row_level[n] || k.body[n].type == DType::boolean) continue;
    int log2 = 0;
    while ((1 << log2) < int(size_of(k.body[n].type))) ++log2;
    // Types of one and two bytes are rarely computed with: they are widened first.
    ++count[log2];
  }
  int best = 2;
  for (int i : {2, 3, 1, 0})
    if (count[i] > count[best]) best = i;
  return std::clamp(m.vector_bytes >> best, 4, Fold::tree_lanes);
}

}  // namespace

Emitter::Emitter(const Kernel& k, LLVMModuleRef module, const Machine& machine)
    : k_(k), s_(schedule(k)), o_(module, machine), lanes_(choose_lanes(k, s_, machine)) {
  choose_fetches();
}

// A row that is read in several passes waits for memory in the first, which mostly adds or compares, and leaves memory
// idle in the pass that computes most. So that pass prefetches the next row: the inputs of earlier passes, and the
// outputs (softmax and layer_norm + gelu of 4096x1024 gain a third; hardware prefetchers do not look that far ahead).
void Emitter::choose_fetches() {
  for (const Pass& p : s_.passes)
    if (condition(p) < 0 && (!fetching_ || p.elements.size() > fetching_->elements.size())) fetching_ = &p;
  if (fetching_ == s_.passes.data()) fetching_ = nullptr;  // the first pass waits for memory itself
  if (!fetching_) return;
  for (const Pass& p : std::span(s_.passes.data(), fetching_))
    for (int32_t n : p.elements)
      if (const Inst& i = k_.body[size_t(n)];
          i.code == Code::input && !is_counter(n) && std::ranges::find(fetched_, i.imm) == fetched_.end())
        fetched_.push_back(size_t(i.imm));
  std::ranges::sort(fetched_);
  if (k_.streaming) return;
  for (size_t out = 0; out < k_.outputs.size(); ++out)
    if (!k_.outputs[out].per_row) fetched_.push_back(k_.inputs.size() + out);
}

void Emitter::begin_function() {
  const Type pointer = LLVMPointerTypeInContext(o_.context, 0), i64 = o_.integer(64);
  Type parameters[] = {pointer, pointer, i64, i64, pointer, pointer};
  Type type = LLVMFunctionType(LLVMVoidTypeInContext(o_.context), parameters, 6, false);
  function_ = LLVMAddFunction(o_.module, "rill_kernel", type);
  const auto attribute = [&](const char* name, const char* value) {
    LLVMAddAttributeAtIndex(function_, LLVMAttributeIndex(LLVMAttributeFunctionIndex),
                            LLVMCreateStringAttribute(o_.context, name, unsigned(std::char_traits<char>::length(name)),
                                                      value, unsigned(std::char_traits<char>::length(value))));
  };
  const unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);  // no tables for unwinding
  LLVMAddAttributeAtIndex(function_, LLVMAttributeIndex(LLVMAttributeFunctionIndex),
                          LLVMCreateEnumAttribute(o_.context, nounwind, 0));
  if (o_.machine.vector_bytes == 64) {
    attribute("prefer-vector-width", "512");  // some processors' defaults would halve our vectors
    attribute("min-legal-vector-width", "512");
  }
  allocas_ = LLVMAppendBasicBlockInContext(o_.context, function_, "");
  enter(o_, LLVMAppendBasicBlockInContext(o_.context, function_, ""));
  n_ = LLVMGetParam(function_, 3);
  if (s_.slots > 0) {  // Schedule::slot_bytes
    Value bytes = LLVMBuildAdd(o_.b, LLVMBuildMul(o_.b, n_, o_.i64(8), ""), o_.i64(511 + 512), "");
    slot_bytes_ = LLVMBuildAnd(o_.b, bytes, o_.i64(-512), "");
  }
}

void Emitter::run() {
  begin_function();
  Block first = LLVMGetInsertBlock(o_.b);
  Loop rows(o_, o_.i64(0), LLVMGetParam(function_, 2), o_.i64(1));
  row(rows.i);
  rows.next();
  if (k_.streaming && o_.machine.x86) o_.intrinsic("llvm.x86.sse.sfence", {}, {});
  LLVMBuildRetVoid(o_.b);
  enter(o_, allocas_);
  LLVMBuildBr(o_.b, first);
}

Value Emitter::local(Type t) {
  Block here = LLVMGetInsertBlock(o_.b);
  enter(o_, allocas_);
  Value p = LLVMBuildAlloca(o_.b, t, "");
  LLVMSetAlignment(p, 64);
  enter(o_, here);
  return p;
}

// --- One row ---------------------------------------------------------------------------------------------------------

void Emitter::row(Value r) {
  const Type pointer = LLVMPointerTypeInContext(o_.context, 0);
  pointers_.clear();
  next_row_.clear();
  rows_.assign(k_.body.size(), nullptr);
  for (size_t j = 0; j < k_.inputs.size() + k_.outputs.size(); ++j) {
    Value at = o_.i64(int64_t(8 * j));
    Value stride = LLVMBuildLoad2(o_.b, o_.integer(64),
                                  LLVMBuildGEP2(o_.b, o_.integer(8), LLVMGetParam(function_, 1), &at, 1, ""), "");
    Value base = LLVMBuildGEP2(o_.b, o_.integer(8), LLVMGetParam(function_, 0), &at, 1, "");
    Value offset = LLVMBuildMul(o_.b, r, stride, "");
    if (j < k_.inputs.size() && is_number(k_.inputs[j].kind)) {
      pointers_.push_back(LLVMBuildAdd(o_.b, LLVMBuildLoad2(o_.b, o_.integer(64), base, ""), offset, ""));
    } else {
      base = LLVMBuildLoad2(o_.b, pointer, base, "");
      pointers_.push_back(LLVMBuildGEP2(o_.b, o_.integer(8), base, &offset, 1, ""));
    }
    if (std::ranges::find(fetched_, j) != fetched_.end())
      next_row_.push_back(LLVMBuildGEP2(o_.b, o_.integer(8), pointers_.back(), &stride, 1, ""));
  }
  for (const Pass& p : s_.passes) pass(p);
  for (int32_t out : s_.row_outputs) {
    const Output& o = k_.outputs[size_t(out)];
    LLVMBuildStore(o_.b, o_.to_memory(o.dtype, rows_[size_t(o.value)], 1), pointers_[k_.inputs.size() + size_t(out)]);
  }
}

void Emitter::row_value(int32_t n) {
  const Inst& i = k_.body[size_t(n)];
  if (i.code == Code::input && k_.inputs[size_t(i.imm)].kind == Input::Kind::coordinate) {
    rows_[size_t(n)] = pointers_[size_t(i.imm)];
    return;
  }
  if (i.code == Code::input) {
    Value v = LLVMBuildLoad2(o_.b, o_.memory_type(i.type, 1), pointers_[size_t(i.imm)], "");
    rows_[size_t(n)] = o_.from_memory(i.type, v, 1);
    return;
  }
  Value in[3] = {};
  for (int j = 0; j < operand_count(i.code); ++j) in[j] = rows_[size_t(i.in[j])];
  rows_[size_t(n)] = i.code == Code::patch ? patched(i, in, nullptr, 1)
                                           : o_.compute(i, operand_count(i.code) ? type_of(i.in[0]) : i.type, in, 1);
}

// --- One pass over the points of a row -------------------------------------------------------------------------------

void Emitter::pass(const Pass& p) {
  for (int32_t n : p.row) row_value(n);
  if (p.folded.empty() && p.stored.empty() && p.kept.empty()) return;
  splats_.assign(k_.body.size(), nullptr);  // made here, before the loops
  const auto want = [&](int32_t n) {
    if (is_row(n) && !splats_[size_t(n)]) splats_[size_t(n)] = o_.splat(rows_[size_t(n)], lanes_);
  };
  for (int32_t n : p.elements)
    for (int j = 0; j < operand_count(k_.body[size_t(n)].code); ++j) want(k_.body[size_t(n)].in[j]);
  for (int32_t f : p.folded) want(k_.body[size_t(f)].in[0]);
  for (int32_t out : p.stored) want(k_.outputs[size_t(out)].value);
  if (p.folded.empty()) map(p);
  else reduce(p);
}

// How often the loop's body is unrolled: short ones several times, so that their iterations overlap. Unrolling longer
// ones gains nothing (exp, gelu, tanh(x*y+z)*0.5+x on 4096 floats, with AVX2 and AVX-512: the arithmetic units are
// busy). One masked loop in place of a main loop and a rest would save a third of LLVM's time, but costs 5 % of every
// run (ten tanh).
int Emitter::copies(const Pass& p) const {
  const size_t length = p.elements.size();
  int c = length <= 12 ? 4 : length <= 30 ? 2 : 1;
  return p.folded.empty() ? c : std::min(c, Fold::tree_lanes / lanes_);
}

Emitter::Copies Emitter::computed(const Pass& p, Value i) {
  const int copy_count = copies(p);
  Copies all;
  for (int c = 0; c < copy_count; ++c) {
    all.at.push_back({LLVMBuildAdd(o_.b, i, o_.i64(int64_t(c) * lanes_), "")});
    all.values.emplace_back(k_.body.size(), nullptr);
  }
  fetch_next_row(p, all.at);
  // All copies read before any of them writes, so that none waits for another.
  for (int c = 0; c < copy_count; ++c) read(p, all.at[size_t(c)], all.values[size_t(c)]);
  for (int c = 0; c < copy_count; ++c) compute(p, all.at[size_t(c)], all.values[size_t(c)]);
  return all;
}

void Emitter::map(const Pass& p) {
  const int copy_count = copies(p);
  Value step = o_.i64(int64_t(lanes_) * copy_count);
  Value full_end = LLVMBuildAnd(o_.b, n_, o_.i64(-int64_t(lanes_) * copy_count), "");
  Loop main(o_, o_.i64(0), full_end, step);
  const Copies all = computed(p, main.i);
  for (size_t c = 0; c < all.at.size(); ++c) write(p, all.at[c], all.values[c]);
  main.next();
  Loop rest(o_, full_end, n_, o_.i64(lanes_));
  Points tail = masked(rest.i, LLVMBuildSub(o_.b, n_, rest.i, ""));
  Values w(k_.body.size(), nullptr);
  read(p, tail, w);
  compute(p, tail, w);
  write(p, tail, w);
  rest.next();
}

// --- Reductions ------------------------------------------------------------------------------------------------------

namespace {

Values flat(const std::vector<Values>& groups) {
  Values all;
  for (const Values& g : groups) all.insert(all.end(), g.begin(), g.end());
  return all;
}

// The inverse of flat(): the values of each fold.
std::vector<Values> grouped(const Values& all, const std::vector<Fold>& folds) {
  std::vector<Values> groups;
  auto at = all.begin();
  for (const Fold& f : folds) groups.emplace_back(at, at + f.vectors()), at += f.vectors();
  return groups;
}

}  // namespace

// The mask that decides whether the pass runs at all: that of its masked sums, if they share one and nothing else is
// computed. Otherwise -1.
int32_t Emitter::condition(const Pass& p) const {
  if (p.folded.empty() || !p.stored.empty() || !p.kept.empty()) return -1;
  const int32_t mask = k_.body[size_t(p.folded[0])].in[1];
  for (int32_t f : p.folded)
    if (const Inst& i = k_.body[size_t(f)]; i.code != Code::reduce_sum_where || i.in[1] != mask) return -1;
  return mask;
}

void Emitter::reduce(const Pass& p) {
  const int32_t mask = condition(p);
  Block from = LLVMGetInsertBlock(o_.b), done = nullptr;
  if (mask >= 0) {
    Block work = new_block(o_);
    done = new_block(o_);
    LLVMBuildCondBr(o_.b, rows_[size_t(mask)], work, done);
    enter(o_, work);
  }
  const Values sums = folded(p);
  Block worked = LLVMGetInsertBlock(o_.b);
  if (mask >= 0) {
    LLVMBuildBr(o_.b, done);
    enter(o_, done);
  }
  for (size_t f = 0; f < sums.size(); ++f) {
    const Inst& i = k_.body[size_t(p.folded[f])];
    Value& y = rows_[size_t(p.folded[f])];
    y = sums[f];
    const Value none = LLVMConstNull(LLVMTypeOf(y));
    if (mask >= 0) y = join(o_, y, worked, none, from);
    else if (i.code == Code::reduce_sum_where) y = o_.select(rows_[size_t(i.in[1])], y, none);
  }
}

// Folds blocks of 1024 points, and merges them as a binary tree: block number k (from 0) finds as many subtrees on the
// stack as k has one bits, and is followed by as many merges as k + 1 has trailing zero bits; the last block by as many
// as leave one subtree. A row of one block, and folds whose order does not affect the result, need no stack.
Values Emitter::folded(const Pass& p) {
  std::vector<Fold> folds;
  bool ordered = false;
  for (int32_t f : p.folded) {
    folds.push_back({k_.body[size_t(f)].code, type_of(f), lanes_});
    ordered = ordered || folds.back().ordered();
  }
  const std::vector<Values> all = ordered ? fold_blocks(p, folds) : fold_run(p, folds, o_.i64(0), n_);
  Values sums;
  for (size_t f = 0; f < folds.size(); ++f) sums.push_back(folds[f].finish(o_, all[f]));
  return sums;
}

std::vector<Values> Emitter::fold_blocks(const Pass& p, const std::vector<Fold>& folds) {
  Values stacks;
  for (const Fold& f : folds) stacks.push_back(f.ordered() ? local(f.stack_type(o_)) : nullptr);
  const auto smaller = [&](Value a, Value b) { return o_.select(LLVMBuildICmp(o_.b, LLVMIntSLT, a, b, ""), a, b); };
  Values start;  // the unordered folds, carried through all blocks
  for (const Fold& f : folds)
    if (!f.ordered()) {
      const Values identity = f.identity(o_);
      start.insert(start.end(), identity.begin(), identity.end());
    }
  Value one_block = LLVMBuildICmp(o_.b, LLVMIntSLE, n_, o_.i64(Fold::block), "");
  Value length = o_.select(LLVMBuildICmp(o_.b, LLVMIntSGT, n_, o_.i64(1), ""), n_, o_.i64(1));  // at least one block
  Block done = new_block(o_);
  Loop blocks(o_, o_.i64(0), length, o_.i64(Fold::block), start);
  Value next = LLVMBuildAdd(o_.b, blocks.i, o_.i64(Fold::block), "");
  const std::vector<Values> folded = fold_run(p, folds, blocks.i, smaller(next, n_), &blocks.carried);
  Block push = new_block(o_), from_block = LLVMGetInsertBlock(o_.b);
  LLVMBuildCondBr(o_.b, one_block, done, push);
  enter(o_, push);
  Value k = LLVMBuildLShr(o_.b, blocks.i, o_.i64(10), "");
  Value depth = o_.intrinsic("llvm.ctpop", {o_.integer(64)}, {k});
  Value merges = o_.intrinsic("llvm.cttz", {o_.integer(64)},
                              {LLVMBuildAdd(o_.b, k, o_.i64(1), ""), LLVMConstInt(o_.integer(1), 1, false)});
  merges = o_.select(LLVMBuildICmp(o_.b, LLVMIntSGE, next, n_, ""), depth, merges);
  Values carried;
  for (size_t f = 0; f < folds.size(); ++f) {
    if (folds[f].ordered()) folds[f].store(o_, stacks[f], depth, folded[f]);
    else carried.insert(carried.end(), folded[f].begin(), folded[f].end());
  }
  Loop merging(o_, o_.i64(1), LLVMBuildAdd(o_.b, merges, o_.i64(1), ""), o_.i64(1));
  Value below = LLVMBuildSub(o_.b, depth, merging.i, "");
  for (size_t f = 0; f < folds.size(); ++f)
    if (folds[f].ordered()) folds[f].merge(o_, stacks[f], below);
  merging.next();
  blocks.next(carried);

  Values last;  // the result for a row of several blocks
  auto at = blocks.carried.begin();
  for (size_t f = 0; f < folds.size(); ++f) {
    const Values acc =
        folds[f].ordered() ? folds[f].load(o_, stacks[f], o_.i64(0)) : Values(at, at + folds[f].vectors());
    if (!folds[f].ordered()) at += folds[f].vectors();
    last.insert(last.end(), acc.begin(), acc.end());
  }
  Block from_stack = LLVMGetInsertBlock(o_.b);
  LLVMBuildBr(o_.b, done);
  enter(o_, done);
  const Values one_block_result = flat(folded);
  Values all;
  for (size_t i = 0; i < one_block_result.size(); ++i)
    all.push_back(join(o_, one_block_result[i], from_block, last[i], from_stack));
  return grouped(all, folds);
}

// Folds points [begin, end), starting from the identity or, for unordered folds, from `carried`. `begin` and `end` are
// multiples of 32, except at the end of a row.
std::vector<Values> Emitter::fold_run(const Pass& p, const std::vector<Fold>& folds, Value begin, Value end,
                                      const Values* carried) {
  Values start;
  size_t at_carried = 0;
  for (const Fold& f : folds) {
    if (carried && !f.ordered()) {
      const auto from = carried->begin() + std::ptrdiff_t(at_carried);
      start.insert(start.end(), from, from + f.vectors());
      at_carried += size_t(f.vectors());
    } else {
      const Values identity = f.identity(o_);
      start.insert(start.end(), identity.begin(), identity.end());
    }
  }
  const int copy_count = copies(p);
  Value full_end = LLVMBuildAnd(o_.b, end, o_.i64(-Fold::tree_lanes), "");
  Loop main(o_, begin, full_end, o_.i64(int64_t(lanes_) * copy_count), start);
  const Copies all = computed(p, main.i);
  std::vector<Values> acc = grouped(main.carried, folds);
  for (size_t c = 0; c < all.at.size(); ++c) {
    write(p, all.at[c], all.values[c]);
    for (size_t f = 0; f < folds.size(); ++f)
      acc[f] = folds[f].step(o_, acc[f], element(all.values[c], k_.body[size_t(p.folded[f])].in[0]), nullptr);
  }
  main.next(flat(acc));
  return grouped(fold_rest(p, folds, main.carried, full_end, end), folds);
}

// The last, incomplete 32 points, if any. Every vector is rotated to the front; those without points stay as they are.
Values Emitter::fold_rest(const Pass& p, const std::vector<Fold>& folds, const Values& start, Value full_end,
                          Value end) {
  Value stop =
      LLVMBuildAnd(o_.b, LLVMBuildAdd(o_.b, end, o_.i64(Fold::tree_lanes - 1), ""), o_.i64(-Fold::tree_lanes), "");
  Loop rest(o_, full_end, stop, o_.i64(lanes_), start);
  const std::vector<Values> acc = grouped(rest.carried, folds);
  Block work = new_block(o_), joined = new_block(o_), from = LLVMGetInsertBlock(o_.b);
  LLVMBuildCondBr(o_.b, LLVMBuildICmp(o_.b, LLVMIntSLT, rest.i, end, ""), work, joined);
  enter(o_, work);
  Points tail = masked(rest.i, LLVMBuildSub(o_.b, end, rest.i, ""));
  Values v(k_.body.size(), nullptr);
  read(p, tail, v);
  compute(p, tail, v);
  write(p, tail, v);
  std::vector<Values> idle, busy;
  for (size_t f = 0; f < folds.size(); ++f) {
    idle.push_back(folds[f].rotated(acc[f]));
    busy.push_back(folds[f].step(o_, acc[f], element(v, k_.body[size_t(p.folded[f])].in[0]), tail.mask));
  }
  Block worked = LLVMGetInsertBlock(o_.b);
  LLVMBuildBr(o_.b, joined);
  enter(o_, joined);
  const Values a = flat(idle), b = flat(busy);
  Values next;
  for (size_t i = 0; i < a.size(); ++i) next.push_back(join(o_, a[i], from, b[i], worked));
  rest.next(next);
  return rest.carried;
}

}  // namespace rill::kernel
