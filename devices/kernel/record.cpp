// How recording lanes append to a kernel; see record.h. Equal instructions are merged.
#include "rill/devices/kernel/record.h"

namespace rill::kernel {

namespace {
// Whether `wide` has every value of `narrow`, so that converting to it and back changes nothing.
bool embeds(DType narrow, DType wide) {
  const bool half = is_half(narrow);
  if (half) return wide == DType::f32 || wide == DType::f64;
  return narrow == DType::f32 && wide == DType::f64;
}
}  // namespace

Recorder*& Recording::current() {
  thread_local Recorder* recorder = nullptr;
  return recorder;
}

size_t Recorder::Hash::operator()(const Inst& i) const {
  size_t h = size_t(i.code) * 31 + size_t(i.type);
  for (int32_t v : i.in) h = (h ^ size_t(uint32_t(v))) * 0x9e3779b97f4a7c15u + (h >> 29);
  return (h ^ i.imm) * 0x9e3779b97f4a7c15u;
}

int32_t Recorder::add(const Inst& i) {
  auto [at, is_new] = known_.try_emplace(i, int32_t(kernel.body.size()));
  if (is_new) kernel.body.push_back(i);
  return at->second;
}

int32_t Recorder::convert(int32_t value, DType to) {
  const Inst& i = kernel.body[size_t(value)];
  if (i.type == to) return value;
  if (i.code == Code::convert && type(i.in[0]) == to && embeds(to, i.type)) return i.in[0];
  return add({Code::convert, to, {value, -1, -1}, 0});
}

int32_t Recorder::input(const Input& in) {
  kernel.inputs.push_back(in);
  return add({Code::input, in.dtype, {}, kernel.inputs.size() - 1});
}

Kernel Recorder::finish() {
  std::vector<Inst> ordered;
  std::vector<int32_t> index(kernel.body.size(), -1), pending;
  for (auto o = kernel.outputs.rbegin(); o != kernel.outputs.rend(); ++o) pending.push_back(o->value);
  while (!pending.empty()) {  // operands first
    const int32_t at = pending.back();
    Inst i = kernel.body[size_t(at)];
    const size_t before = pending.size();
    if (index[size_t(at)] < 0)
      for (int k = operand_count(i.code); k-- > 0;)
        if (index[size_t(i.in[k])] < 0) pending.push_back(i.in[k]);
    if (pending.size() > before) continue;
    pending.pop_back();
    if (index[size_t(at)] >= 0) continue;
    for (int k = 0; k < operand_count(i.code); ++k) i.in[k] = index[size_t(i.in[k])];
    index[size_t(at)] = int32_t(ordered.size());
    ordered.push_back(i);
  }
  for (Output& o : kernel.outputs) o.value = index[size_t(o.value)];
  kernel.body = std::move(ordered);
  return std::move(kernel);
}

}  // namespace rill::kernel
