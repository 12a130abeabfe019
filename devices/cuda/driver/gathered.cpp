// Defers maps and launches several as one; see gathered.h. Start at Gathered::add.
#include "rill/devices/cuda/driver/gathered.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rill/devices/cuda/driver/gpu.h"

namespace rill::cuda {

namespace {

constexpr size_t most_held = 1024, most_bytes = 64 << 20;
constexpr int64_t most_points = 1 << 16;  // of a run that is joined with others: a longer one fills the GPU by itself

}  // namespace

bool Gathered::is_full() const { return held_.size() >= most_held || bytes_ >= most_bytes; }

void Gathered::append_accesses(std::vector<MemoryAccess>& to, const LoadedKernel& k, const Space& s) {
  const std::vector<kernel::Input>& in = k.kernel.inputs;
  const std::vector<kernel::Output>& out = k.kernel.outputs;
  const auto add = [&](size_t operand, DType dtype, bool writes) {
    const char* low = s.base[operand];
    const char* high = low;
    const auto reach = [&](int64_t size, int64_t stride) { (stride < 0 ? low : high) += (size - 1) * stride; };
    reach(s.n, s.point[operand]);
    for (int64_t a = 0; a < s.axes; ++a) reach(s.outer[a], s.stride[operand][a]);
    to.push_back({low, high + size_of(dtype), writes});
  };
  for (size_t i = 0; i < in.size(); ++i)
    if (!kernel::is_number(in[i].kind)) add(i, in[i].dtype, false);
  for (size_t o = 0; o < out.size(); ++o) add(in.size() + o, out[o].dtype, true);
  for (size_t i = in.size() + out.size(); i < operand_count(k.kernel); ++i)
    to.push_back({s.base[i], s.base[i] + 16, false});
}

bool Gathered::touches(const char* begin, size_t bytes) const {
  const Levels l = ranges_.of({begin, begin + bytes, true});
  return l.read >= 0 || l.written >= 0;
}

void Gathered::add(const LoadedKernel& k, const Space& s, const Memory& memory) {
  std::vector<MemoryAccess> accesses;
  append_accesses(accesses, k, s);
  int level = 0;
  for (const MemoryAccess& t : accesses) {
    const Levels before = ranges_.of(t);
    level = std::max(level, (t.writes ? std::max(before.written, before.read) : before.written) + 1);
  }
  for (const MemoryAccess& t : accesses) {
    Levels now = ranges_.of(t);
    now.add(t.writes ? Levels{-1, level} : Levels{level, -1});
    ranges_.set(t, now);
  }
  held_.push_back({&k, s, level});
  for (const Ref<Buffer>& b : memory) bytes_ += b->bytes;
  memory_.insert(memory_.end(), memory.begin(), memory.end());
}

bool Gathered::joins(const Held& a, const Held& b) {
  const auto is_run = [](const Space& s) { return s.axes == 0 && s.n <= most_points; };
  return a.kernel == b.kernel && is_run(a.space) && is_run(b.space) &&
         std::equal(std::begin(a.space.point), std::end(a.space.point), b.space.point);
}

void Gathered::launch_grouped(Gpu& gpu, const std::vector<const Held*>& runs, const StartKernel& begin) const {
  const LoadedKernel& k = *runs[0]->kernel;
  const Function f =
      gpu.function(fmt::format("runs {}", static_cast<const void*>(&k)), [&] { return text_of_runs(k.kernel, "k"); });
  const size_t operands = operand_count(k.kernel), words = Runs::words_of_run(operands);
  const size_t most = Runs::most_words / words;
  for (size_t first = 0; first < runs.size(); first += most) {
    Runs all;
    int64_t blocks = 0;
    std::vector<MemoryAccess> accesses;
    std::copy(std::begin(runs[0]->space.point), std::end(runs[0]->space.point), all.point);
    for (size_t r = first; r < std::min(first + most, runs.size()); ++r) {
      const Space& s = runs[r]->space;
      char** const word = all.word + words * size_t(all.runs++);
      word[0] = Runs::as_word(blocks), word[1] = Runs::as_word(s.n);
      std::copy_n(s.base, operands, word + 2);
      append_accesses(accesses, k, s);
      blocks += (s.n + Runs::block_points - 1) / Runs::block_points;
    }
    begin(f, {reinterpret_cast<const char*>(&all), sizeof all}, blocks, accesses);
  }
}

Gathered::Memory Gathered::launch_all(Gpu& gpu, const StartKernel& begin) {
  std::vector<Held> held = std::exchange(held_, {});
  ranges_.clear();
  bytes_ = 0;
  Memory memory = std::exchange(memory_, {});
  std::stable_sort(held.begin(), held.end(), [](const Held& a, const Held& b) { return a.level < b.level; });
  std::vector<bool> begun(held.size());
  for (size_t i = 0; i < held.size(); ++i) {
    if (begun[i]) continue;
    std::vector<const Held*> runs{&held[i]};
    for (size_t j = i + 1; j < held.size() && held[j].level == held[i].level; ++j)
      if (!begun[j] && joins(held[i], held[j])) begun[j] = true, runs.push_back(&held[j]);
    if (runs.size() > 1) {
      launch_grouped(gpu, runs, begin);
      continue;
    }
    const Space& s = held[i].space;
    std::vector<MemoryAccess> accesses;
    append_accesses(accesses, *held[i].kernel, s);
    begin(held[i].kernel->function, {reinterpret_cast<const char*>(&s), sizeof s}, gpu.blocks_for(s.rows * s.n),
          accesses);
  }
  return memory;
}

}  // namespace rill::cuda
