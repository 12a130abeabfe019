// For the records of row kernels (softmax, layer_norm, cross entropy): runs their programs (row_programs.h) on
// recording lanes. Include it in the record's file alone.
#pragma once
#include <algorithm>
#include <vector>

#include "rill/devices/kernel/targets.h"

#ifndef HWY_COMPILE_ONLY_STATIC
#define HWY_COMPILE_ONLY_STATIC
#endif
#include "rill/devices/cpu/rows/row_programs.h"
#include "rill/devices/kernel/record.h"
#include "rill/ops/op.h"

HWY_BEFORE_NAMESPACE();  // the programs' lambdas are compiled for its target, and inlined here
namespace rill {

template <class T>
kernel::Rec<T> RowArgs::lane(int i) const {
  return kernel::Rec<T>::of(in[size_t(i)]);
}

namespace HWY_NAMESPACE {

// A row of a recorded kernel, for the programs of row_programs.h: all its numbers are lanes.
template <class T>
class RecordedRow {
 public:
  using V = kernel::Rec<T>;
  using Number = V;
  explicit RecordedRow(const RowArgs& args) : args_(args) {}

  AttrsView attrs() const { return args_.attrs; }
  V operand(int i) const { return args_.lane<T>(i); }
  V number(int i) const { return args_.lane<T>(i); }
  V count() const { return V(T(args_.n)); }
  V constant(double c) const { return V(T(c)); }
  // In f64, as in the eager row.
  V log1p(V x, V y) const {
    using Wide = kernel::Rec<double>;
    const auto wide = [&](V v) { return Wide::of(args_.recorder.convert(v.id, DType::f64)); };
    return V::of(args_.recorder.convert(rill::HWY_NAMESPACE::log1p(wide(x) + wide(y)).id, dtype_of<T>()));
  }
  V max(V x) const { return reduce_top(x); }
  V at_label(V x) const { return reduce_sum(select(is_label(), x, V(T(-0.0)))); }  // -0.0 changes no sum

  template <class F, class... X>
  V sum(F f, X... x) const {
    return reduce_sum(f(x...));
  }
  template <class F>
  V sum(FetchNext, F f, V x) const {
    return sum(f, x);
  }
  template <class F>
  V sum(NoFetch, F f, V x) const {
    return sum(f, x);
  }
  template <class F>
  V sum_where(kernel::RecMask condition, F f, V x) const {
    return reduce_sum_where(f(x), condition);
  }
  struct Kept {
    V kept, sum;
  };
  template <class F>
  Kept sum_kept(FetchNext, int, F f, V x) const {
    const V kept = f(x);
    return {kept, reduce_sum(kept)};
  }
  template <class F, class... X>
  V sum_adding(int o, F f, X... x) {
    const SumTerms<V> s = f(x...);
    write_number(o, s.added[0]), write_number(o + 1, s.added[1]);
    return reduce_sum(s.term);
  }
  template <class F, class... X>
  void write(int o, F f, X... x) {
    write_number(o, f(x...));
  }
  template <class F, class... X>
  void write(FetchNext, int o, F f, X... x) {
    write(o, f, x...);
  }
  void write_number(int o, V v) {
    results_.resize(std::max(results_.size(), size_t(o) + 1));
    results_[size_t(o)] = v.id;
  }
  template <class F>
  void write_less_at_label(int o, V less, F f, V x) {
    const V all = f(x);
    write_number(o, select(is_label(), all - less, all));
  }
  const std::vector<int32_t>& results() const { return results_; }

 private:
  // Whether the point is the one that operand 1, one number for each row, names.
  kernel::RecMask is_label() const {
    using Whole = typename V::Int;  // as wide as the row's numbers, so that a vector holds the same number of them
    auto whole = [&](int32_t v) { return Whole::of(args_.recorder.convert(v, dtype_of<typename Whole::Scalar>())); };
    const RowArgs::Point point = args_.point();
    return whole(point.counter) == whole(args_.in[1]) + Whole(typename Whole::Scalar(point.first));
  }

  const RowArgs& args_;
  std::vector<int32_t> results_;
};

template <class Program, class T>
std::vector<int32_t> record_row(const RowArgs& args) {
  RecordedRow<T> row(args);
  Program::run(row);
  return row.results();
}

// The `record_row` of a record: the program in the number type of its first operand.
template <class Program>
std::vector<int32_t> record_row(const RowArgs& args) {
  return args.recorder.type(args.in[0]) == DType::f64 ? record_row<Program, double>(args)
                                                      : record_row<Program, float>(args);
}

}  // namespace HWY_NAMESPACE

using HWY_NAMESPACE::record_row;

}  // namespace rill
HWY_AFTER_NAMESPACE();
