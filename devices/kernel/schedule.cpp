// The passes of a kernel over its row; see schedule.h. Start at Scheduler::run.
#include "rill/devices/kernel/schedule.h"

#include <algorithm>

namespace rill::kernel {

namespace {

// A value that takes at most this many instructions to compute from memory is recomputed rather than stored.
constexpr int cheap = 4;

class Scheduler {
 public:
  explicit Scheduler(const Kernel& k) : k_(k) {
    s_.row_level = row_level(k);
    s_.slot.assign(k.body.size(), -1);
    first_.assign(k.body.size(), -1);
    find_passes();
    find_costs();
  }

  Schedule run() {
    s_.passes.resize(size_t(count_));
    for (int p = 0; p < count_; ++p) roots(p);
    for (int p = 0; p < count_; ++p) fill(p);
    for (size_t o = 0; o < k_.outputs.size(); ++o)
      if (k_.outputs[o].per_row) s_.row_outputs.push_back(int32_t(o));
    return std::move(s_);
  }

 private:
  // The pass of each value; a row-level value is ready before the pass of its number.
  void find_passes() {
    for (size_t n = 0; n < k_.body.size(); ++n) {
      const Inst& i = k_.body[n];
      int pass = 0;
      for (int j = 0; j < operand_count(i.code); ++j) {
        size_t operand = size_t(i.in[j]);
        pass = std::max(pass, pass_[operand]);
      }
      pass_.push_back(pass + (is_reduction(i.code) ? 1 : 0));
      count_ = std::max(count_, pass_.back() + 1);
    }
  }

  void find_costs() {
    for (size_t n = 0; n < k_.body.size(); ++n) {
      const Inst& i = k_.body[n];
      int cost = 0;
      if (!s_.row_level[n] && i.code != Code::input) {
        cost = i.code == Code::div || i.code == Code::sqrt || i.code == Code::patch ? cheap + 1 : 1;
        for (int j = 0; j < operand_count(i.code); ++j) cost += cost_[size_t(i.in[j])];
      }
      cost_.push_back(std::min(cost, 1 << 20));
    }
  }

  // The roots of pass p: its reductions and its outputs.
  void roots(int p) {
    Pass& pass = s_.passes[size_t(p)];
    for (size_t n = 0; n < k_.body.size(); ++n)
      if (is_reduction(k_.body[n].code) && pass_[n] == p + 1) pass.folded.push_back(int32_t(n));
    for (size_t o = 0; o < k_.outputs.size(); ++o) {
      const Output& out = k_.outputs[o];
      if (out.per_row) continue;
      if (pass_[size_t(out.value)] == p) pass.stored.push_back(int32_t(o));
    }
    for (size_t n = 0; n < k_.body.size(); ++n)
      if (s_.row_level[n] && pass_[n] == p && !is_reduction(k_.body[n].code)) pass.row.push_back(int32_t(n));
  }

  // Marks what pass p evaluates (1) or reads back from scratch (2), from `value` down.
  void need(int p, int32_t value, std::vector<char>& in_pass) {
    size_t n = size_t(value);
    if (s_.row_level[n] || in_pass[n]) return;
    in_pass[n] = 1;
    if (first_[n] < 0) first_[n] = p;
    if (first_[n] < p && cost_[n] > cheap) {
      in_pass[n] = 2;
      if (s_.slot[n] < 0) s_.slot[n] = s_.slots++, s_.passes[size_t(first_[n])].kept.push_back(value);
      return;
    }
    const Inst& i = k_.body[n];
    for (int j = 0; j < operand_count(i.code); ++j) need(p, i.in[j], in_pass);
  }

  void fill(int p) {
    Pass& pass = s_.passes[size_t(p)];
    std::vector<char> in_pass(k_.body.size(), 0);
    for (int32_t f : pass.folded) need(p, k_.body[size_t(f)].in[0], in_pass);
    for (int32_t o : pass.stored) need(p, k_.outputs[size_t(o)].value, in_pass);
    for (size_t n = 0; n < k_.body.size(); ++n) {
      if (in_pass[n] == 1) pass.elements.push_back(int32_t(n));
      if (in_pass[n] == 2) pass.restored.push_back(int32_t(n));
    }
  }

  const Kernel& k_;
  Schedule s_;
  std::vector<int> pass_, cost_, first_;  // first_: the first pass that evaluates it
  int count_ = 1;
};

}  // namespace

Schedule schedule(const Kernel& k) { return Scheduler(k).run(); }

}  // namespace rill::kernel
