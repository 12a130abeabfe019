// Transformations that decide about an element by those before it: unique, rejection_resample.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <unordered_set>

#include "rill/data/engine/calls.h"
#include "rill/data/stages/stages.h"

namespace rill::data::stages {
namespace {

// --- unique ----------------------------------------------------------------------------------------------------------

// 128 bits of a value: two of a billion values agree with a probability of 2^-68.
struct Fingerprint {
  uint64_t high, low;
  bool operator==(const Fingerprint&) const = default;
};
struct LowWord {
  size_t operator()(const Fingerprint& f) const { return f.low; }
};
Fingerprint fingerprint(std::string_view bytes) {
  Fingerprint f{mixed(bytes.size()), mixed(~bytes.size())};
  for (; !bytes.empty(); bytes.remove_prefix(std::min<size_t>(8, bytes.size()))) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), std::min<size_t>(8, bytes.size()));
    f = {mixed(f.high ^ word), mixed(f.low + mixed(word ^ 0x5bd1e995))};
  }
  return f;
}

class Unique final : public Stage {
 public:
  Unique(StagePtr input, Callback<void(Item&, StateWriter&)> bytes, const Where& where)
      : Stage("unique", where, {std::move(input)}), bytes_(std::move(bytes)) {}
  CursorPtr open(const Pass& pass) const override { return std::make_unique<First>(*this, pass); }

 private:
  struct First final : Cursor {
    First(const Unique& s, const Pass& p) : Cursor(s), stage(s), pass(p), input(s.input()->begin(p)) {}
    Item next() override {
      for (;;) {
        ++read;
        Item x = input->next();
        if (!x) {
          --read;
          return x;
        }
        StateWriter w;
        stage.bytes_(x, w);
        if (seen.insert(fingerprint(w.bytes)).second) return x;
      }
    }
    // The values seen would be too large for a state.
    void save(StateWriter& w) const override { w.number(read); }
    void restore(StateReader& r) override {
      const int64_t were = r.count();
      input = stage.input()->begin(pass);
      seen.clear();
      read = 0;
      while (read < were) try {
          Item x = input->next();
          if (!x) fail("Iterator.restore", "the input of unique() has fewer elements than it had");
          ++read;
          StateWriter w;
          stage.bytes_(x, w);
          seen.insert(fingerprint(w.bytes));
        } catch (const Error&) {
          if (++read > were) throw;
        }
    }
    const Unique& stage;
    Pass pass;
    CursorPtr input;
    std::unordered_set<Fingerprint, LowWord> seen;
    int64_t read = 0;
  };
  Callback<void(Item&, StateWriter&)> bytes_;
};

// --- rejection_resample ----------------------------------------------------------------------------------------------

std::vector<double> as_distribution(const char* what, std::vector<double> weights, const Where& where) {
  double sum = 0;
  for (const double w : weights) {
    if (!(w >= 0 && w < 1e300))
      fail("data::rejection_resample", fmt::format("{} holds {}: give finite numbers that are not negative", what, w),
           where);
    sum += w;
  }
  if (sum == 0) fail("data::rejection_resample", fmt::format("{} holds no number above 0", what), where);
  for (double& w : weights) w /= sum;
  return weights;
}

// An element of class c stays with probability target[c] / initial[c], in proportion to the largest such quotient.
class Resample final : public Stage {
 public:
  Resample(StagePtr input, Measure class_of, std::vector<double> target, const RejectionOptions& o, const Where& where)
      : Stage("rejection_resample", where, {std::move(input)}),
        class_of_(std::move(class_of)),
        target_(as_distribution("target", std::move(target), where)),
        seed_(o.seed) {
    if (o.initial.empty()) return;
    if (o.initial.size() != target_.size())
      fail("data::rejection_resample",
           fmt::format("target has {} classes and initial {}", target_.size(), o.initial.size()), where);
    initial_ = as_distribution("initial", o.initial, where);
    for (size_t i = 0; i < target_.size(); ++i)
      if (target_[i] > 0 && initial_[i] == 0)
        fail("data::rejection_resample",
             fmt::format("class {} is to be {:.3g} of the elements, and initial says that there are none of it", i,
                         target_[i]),
             where);
  }
  bool draws() const override { return true; }
  CursorPtr open(const Pass& pass) const override {
    return std::make_unique<Drawn>(*this, input()->begin(pass.for_input()), pass);
  }

 private:
  struct Drawn final : Cursor {
    Drawn(const Resample& s, CursorPtr from, const Pass& pass)
        : Cursor(s),
          stage(s),
          calls(s, pass, s.seed_),
          draws(calls.seed, 3),
          input(std::move(from)),
          counts(s.target_.size(), 0) {}
    Item next() override {
      for (;;) {
        Item x = input->next();
        if (!x) return x;
        int64_t c = 0;
        const int64_t n = number++;
        try {
          const CallScope scope(calls, n);
          c = stage.class_of_(x);
          if (c < 0 || size_t(c) >= counts.size())
            fail_in(stage, fmt::format("the class is {}, and target has {}, from 0 on", c, counts.size()));
        } catch (...) {
          fail_at_element(stage, n, &x);
        }
        ++counts[size_t(c)];
        if (draws.uniform(uint64_t(n)) < stays(size_t(c))) return x;
      }
    }
    double stays(size_t c) const {
      const auto quotient = [&](size_t k) {
        if (stage.target_[k] == 0) return 0.0;
        if (!stage.initial_.empty()) return stage.target_[k] / stage.initial_[k];
        // As if one of each class had come before the first.
        return stage.target_[k] * double(number + int64_t(counts.size())) / double(counts[k] + 1);
      };
      double largest = 0;
      for (size_t k = 0; k < counts.size(); ++k) largest = std::max(largest, quotient(k));
      return quotient(c) / largest;
    }
    void save(StateWriter& w) const override {
      w.number(number);
      for (const int64_t c : counts) w.number(c);
      input->save(w);
    }
    void restore(StateReader& r) override {
      number = r.count();
      for (int64_t& c : counts) c = r.count();
      input->restore(r);
    }
    const Resample& stage;
    const Calls calls;
    const Draws draws;
    CursorPtr input;
    std::vector<int64_t> counts;
    int64_t number = 0;
  };
  Measure class_of_;
  std::vector<double> target_, initial_;
  std::optional<uint64_t> seed_;
};

}  // namespace

StagePtr unique(StagePtr input, Callback<void(Item&, StateWriter&)> bytes, const Where& where) {
  return std::make_shared<Unique>(std::move(input), std::move(bytes), where);
}
StagePtr rejection_resample(StagePtr input, Measure class_of, std::vector<double> target, const RejectionOptions& o,
                            const Where& where) {
  if (target.empty()) fail("data::rejection_resample", "target is empty: give one number for each class", where);
  return std::make_shared<Resample>(std::move(input), std::move(class_of), std::move(target), o, where);
}

}  // namespace rill::data::stages
