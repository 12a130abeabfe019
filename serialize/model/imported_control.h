// What the interpreters of ONNX and TensorFlow share of choices and loops: values as the tensors that cond, scan and
// while_loop carry, and what happens where a file's graphs do not fit together.
//
// A file says nothing of shapes: branches that give different ones, or loops whose carried values grow, are sound when
// they are run, and cannot be traced. Such a model is run op by op (NeedsValues). Only the branch that is chosen has to
// be sound, so that an error in one of them says the same.
#pragma once
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "rill/serialize/model/imported_node.h"
#include "rill/tensor/dim_table.h"
#include "rill/tensor/user_scope.h"
#include "rill/trace/control/mismatch.h"
#include "rill/trace/control_flow.h"

namespace rill::imported {

using Tensors = std::vector<Tensor>;

inline bool truth(const Tensor& t) {
  const EagerScope eager;
  return not_equal(reshape(t, {}), 0).item<bool>();
}
// While this lives, what is traced will be written for all sizes (export_model), which has no traces to choose from.
class AllSizes {
 public:
  AllSizes() : outer_(std::exchange(lives_, true)) {}
  ~AllSizes() { lives_ = outer_; }
  AllSizes(const AllSizes&) = delete;
  static bool lives() { return lives_; }

 private:
  static inline thread_local bool lives_ = false;
  bool outer_;
};
// What the file decides by sizes: it counts as decided by the user, and not by a function of rill's.
inline bool decided(Dim is_true) {
  const UserScope user;
  return is_true != 0;
}
// both() where AllSizes lives and that does not need the values of anything; else one(), which may look at sizes.
template <class Both, class One>
auto for_all_sizes(Both&& both, One&& one) {
  if (!AllSizes::lives()) return one();
  try {
    return both();
  } catch (const Error& e) {
    if (!is_kind<NeedsValues>(e)) throw;
  }
  return one();
}

// A scalar as a condition: any number but 0 is true.
inline Tensor as_condition(const Tensor& t) {
  const Tensor scalar = reshape(t, {});
  return scalar.dtype() == DType::boolean ? scalar : not_equal(scalar, 0);
}

// Values that control flow hands on.
template <class Call, class Values>
Tensors tensors_of(const Call& c, const Values& values) {
  using Kind = typename Values::value_type::Kind;
  Tensors out;
  for (const auto& v : values) {
    if (v.kind != Kind::tensor && v.kind != Kind::sizes)
      c.needs_values("a condition: it decides about what is no tensor, or is not there");
    out.push_back(as_tensor(v, fmt::format("{}: a result", described(c.node))));
  }
  return out;
}
template <class Values>
Values values_of(const Tensors& tensors) {
  return {tensors.begin(), tensors.end()};
}

// run() in a trace; where graphs do not fit together, the model needs the values of what decides.
template <class Call, class F>
auto fitting(const Call& c, F&& run) {
  try {
    return run();
  } catch (const Error& e) {
    if (is_kind<NeedsValues>(e) || !is_kind<ControlMismatch>(e)) throw;
    c.needs_values(std::string("what decides, since its graphs do not fit together: ") + e.what());
  }
}
// Thrown for a branch, of which nobody knows yet whether it is chosen.
struct UnsoundBranch {
  size_t which;
  std::string why;
};
template <class F>
auto perhaps_unsound(size_t which, F&& run) {
  try {
    return run();
  } catch (const Error& e) {
    if (is_kind<NeedsValues>(e)) throw;
    throw UnsoundBranch{which, e.what()};
  }
}
// Throws where a branch that is wrong for these sizes is chosen: the other can be run without asking again.
inline void assert_not_chosen(const Tensor& is_chosen, const std::string& why) {
  std::string text;
  for (const char ch : why) text += ch == '{' || ch == '}' ? std::string(2, ch) : std::string(1, ch);
  assert_that(logical_not(is_chosen), "the branch that is chosen is wrong: " + text);
}

// One of several branches by the integer `which`, or the first where the bool is true: each is run by run(i).
template <class Call, class F>
auto chosen(const Call& c, const Tensor& which, size_t branches, F run) {
  using Values = decltype(run(size_t(0)));
  using Branch = Callback<Tensors()>;
  std::vector<Branch> all;
  for (size_t i = 0; i < branches; ++i)
    all.push_back([&c, &run, i] { return perhaps_unsound(i, [&] { return tensors_of(c, run(i)); }); });
  const auto choose = [&] {
    return fitting(c, [&] {
      if (which.dtype() == DType::boolean) return values_of<Values>(cond(which, all[0], all[1]));
      return values_of<Values>(switch_case<Tensors>(which, all));
    });
  };
  std::string why;
  try {
    return choose();
  } catch (const UnsoundBranch& wrong) {
    why = wrong.why;
    // It may be right for other sizes, where they are open; and a file cannot say that a branch is wrong.
    if (which.dtype() == DType::boolean && !AllSizes::lives() && !OpenDims::now()) {
      assert_not_chosen(wrong.which == 0 ? which : logical_not(which), why);
      try {
        return run(1 - wrong.which);
      } catch (const Error& e) {
        if (is_kind<NeedsValues>(e)) throw;
        c.needs_values("its condition, since both branches are wrong: " + why + "; and " + e.what());
      }
    }
  }
  c.needs_values("its condition, since a branch that may not be chosen is wrong: " + why);
}

}  // namespace rill::imported
