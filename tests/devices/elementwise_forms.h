// What tests/devices/test_elementwise_bits.cpp puts together: every elementwise op as a function of two tensors, made from the
// records, so that a new op is covered by being written; public functions that are made of several; and the numbers
// that they meet. Start at all_forms().
#pragma once
#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "rill/ops/apply.h"
#include "rill/rill.h"
#include "rill/tensor/visit_dtype.h"

namespace forms {

using namespace rill;

// One way to call an op on x, or on x and y. Any dtype comes out.
struct Form {
  std::string text;  // of x and y: "maximum(x, y)"
  bool two = false;
  std::function<Tensor(const Tensor& x, const Tensor& y)> run;
};

// --- Numbers ---------------------------------------------------------------------------------------------------------

template <class T>
void add_limits(std::vector<double>& v) {
  using L = std::numeric_limits<T>;
  for (double x : {double(L::max()), double(L::min()), double(L::denorm_min()), double(L::min()) * 0.7,
                   1 + double(L::epsilon()), 1 - double(L::epsilon()) / 2})
    v.push_back(x), v.push_back(-x);
}

// Zeros, subnormals, infinities, NaN of both signs, and the bounds of the formats and of the ops' own cases.
inline Tensor special_values(DType d) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> v = {0.0,
                           -0.0,
                           inf,
                           -inf,
                           nan,
                           -nan,
                           1,
                           -1,
                           0.5,
                           -0.5,
                           2,
                           -2,
                           3,
                           -3,
                           1.5,
                           -1.5,
                           2.5,
                           6,
                           0.1,
                           -0.1,
                           1e-3,
                           -1e-3,
                           0.75,
                           9.5,
                           -9.5,
                           20,
                           -20,
                           89,
                           -89,
                           128,
                           300,
                           -104,
                           1e5,
                           3e5,
                           -0.7853981633974483,
                           1.5707963267948966,
                           3.14159265358979};
  if (d == f16) {
    for (double x : {65504.0, 6.103515625e-5, 5.9604644775390625e-8, 3e-5, 1.0009765625, 2048.0})
      v.push_back(x), v.push_back(-x);
  } else if (d == f64) {
    add_limits<double>(v);
    v.insert(v.end(), {709.5, -745.2, 0x1p31, 0x1p53, 0x1p63, -0x1p63, 1e-200});
  } else {
    add_limits<float>(v);
    v.insert(v.end(), {16777216.0, 0x1p31, -0x1p31, 0x1p63, 1e-20, -1e30});
  }
  return tensor(v).astype(d);
}

// Every pair of them: x along the rows, y down the columns.
struct Grid {
  Tensor x, y;
};
inline Grid special_pairs(DType d) {
  const Tensor v = special_values(d);
  const int64_t n = v.size();
  return {broadcast_to(reshape(v, {1, n}), {n, n}).contiguous(), broadcast_to(reshape(v, {n, 1}), {n, n}).contiguous()};
}

// The first element whose bits differ, or -1. Where both are NaN they do not: its sign and payload are nobody's
// promise. But an element that is made of one, and is none itself, is compared like any other.
inline int64_t first_difference(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return 0;
  const Tensor p = a.contiguous(), q = b.contiguous();
  int64_t found = -1;
  visit_dtype(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, std::string>)
      for (int64_t i = 0; i < p.size() && found < 0; ++i) {
        T s, t;
        std::memcpy(static_cast<void*>(&s), p.rep()->data + size_t(i) * sizeof(T), sizeof(T));
        std::memcpy(static_cast<void*>(&t), q.rep()->data + size_t(i) * sizeof(T), sizeof(T));
        bool nan = false;
        if constexpr (requires { float(s); }) nan = double(s) != double(s) && double(t) != double(t);
        if (!nan && std::memcmp(&s, &t, sizeof(T)) != 0) found = i;
      }
  });
  return found;
}

// --- Forms -----------------------------------------------------------------------------------------------------------

// `t` in a dtype that `op` takes: its own, else that of the test's numbers, else i32 or bool.
inline Tensor fit(const Op& op, const Tensor& t, DType main) {
  for (DType d : {t.dtype(), main, i32, boolean})
    if (contains(op.dtypes, d) && !is_complex(d)) return t.astype(d);
  return t;
}

// A record's op, with the attributes of one of its samples.
inline Tensor call(const Op& op, AttrsView attrs, const Tensor& x, const Tensor& y, DType main) {
  const Tensor a = fit(op, x, main);
  if (op.inputs == 1) return apply1(op, {&a}, attrs, Where::current());
  if (op.inputs == 2) {
    const Tensor b = y.astype(a.dtype());
    return apply1(op, {&a, &b}, attrs, Where::current());
  }
  const DType others = is_bool(a.dtype()) ? main : a.dtype();  // where: the second operand is of any dtype
  const Tensor b = x.astype(others), c = y.astype(others);
  return apply1(op, {&a, &b, &c}, attrs, Where::current());
}

// Those of the records that can be called on numbers of dtype `main`; the others' names go to `left_out`.
inline std::vector<Form> record_forms(DType main, std::vector<std::string>& left_out) {
  const Grid g = special_pairs(main);
  std::vector<Form> all;
  for (const Op* op : all_ops()) {
    if (op->kind != OpKind::elementwise) continue;
    bool covered = false;
    std::vector<Attrs> seen;
    for (const Sample& s : op->samples()) {
      if (std::find(seen.begin(), seen.end(), AttrsView(s.attrs)) != seen.end()) continue;
      seen.push_back(s.attrs);
      Form f{std::string(op->name) + (op->inputs > 1 ? "(x, y)" : "(x)"), op->inputs > 1,
             [op, attrs = s.attrs, main](const Tensor& x, const Tensor& y) { return call(*op, attrs, x, y, main); }};
      try {
        // A NaN's bits show in what bitcast gives; complex numbers are not compiled.
        const DType out = f.run(g.x, g.y).dtype();
        if (op->name == "bitcast" || is_complex(out)) continue;
        if (seen.size() > 1) f.text = std::string(op->name) + "<" + std::string(name(out)) + ">(x)";
        all.push_back(std::move(f));
        covered = true;
      } catch (const Error&) {
      }
    }
    if (!covered) left_out.emplace_back(op->name);
  }
  return all;
}

inline DType integer_of(DType d) { return size_of(d) == 2 ? i16 : size_of(d) == 4 ? i32 : i64; }

// Public functions that are made of several records.
inline std::vector<Form> composite_forms() {
#define RILL_FORM1(...) {#__VA_ARGS__, false, [](const Tensor& x, const Tensor&) -> Tensor { return __VA_ARGS__; }}
#define RILL_FORM2(...) {#__VA_ARGS__, true, [](const Tensor& x, const Tensor& y) -> Tensor { return __VA_ARGS__; }}
  return {
      RILL_FORM1(silu(x)),
      RILL_FORM1(log_sigmoid(x)),
      RILL_FORM1(relu6(x)),
      RILL_FORM1(softsign(x)),
      RILL_FORM1(sinc(x)),
      RILL_FORM1(rad2deg(x)),
      RILL_FORM1(gelu(x, false)),
      RILL_FORM1(nan_to_num(x)),
      RILL_FORM1(leaky_relu(x)),
      RILL_FORM1(elu(x)),
      RILL_FORM1(celu(x, 0.5)),
      RILL_FORM1(selu(x)),
      RILL_FORM1(mish(x)),
      RILL_FORM1(hard_tanh(x)),
      RILL_FORM1(hard_sigmoid(x)),
      RILL_FORM1(hard_swish(x)),
      RILL_FORM1(angle(x)),
      RILL_FORM1(clip(x, 0, 1)),
      RILL_FORM1(clip(x, -1, 0)),
      RILL_FORM1(where(x > 0, x, -x)),
      RILL_FORM1(where(x >= 0, x, 0 - x)),
      RILL_FORM1(where(x < 0, -x, x)),
      RILL_FORM1(where(x == 0, 0, x)),
      RILL_FORM1(where(x != 0, x, 0)),
      RILL_FORM1(where(x <= 0, 0, x)),
      RILL_FORM1(where(isnan(x), 1, x)),
      RILL_FORM1(bitcast(where(isnan(x), 0, x), integer_of(x.dtype()))),
      RILL_FORM1(1 / x),
      RILL_FORM1(x * -1),
      RILL_FORM1(x + 0),
      RILL_FORM1(x + -0.0),
      RILL_FORM1(0 - x),
      RILL_FORM1(-0.0 - x),
      RILL_FORM1(x * 0),
      RILL_FORM1(x - x),
      RILL_FORM1(x / x),
      RILL_FORM1(x / 4),
      RILL_FORM1(x / 3),
      RILL_FORM1(x.astype(f64).astype(x.dtype())),
      RILL_FORM2(fmax(x, y)),
      RILL_FORM2(fmin(x, y)),
      RILL_FORM2(floor_divide(x, y)),
      RILL_FORM2(remainder(x, y)),
      RILL_FORM2(hypot(x, y)),
      RILL_FORM2(logaddexp(x, y)),
      RILL_FORM2(logaddexp2(x, y)),
      RILL_FORM2(heaviside(x, y)),
      RILL_FORM2(xlogy(x, y)),
      RILL_FORM2(squared_difference(x, y)),
      RILL_FORM2(logical_and(x, y)),
      RILL_FORM2(logical_xor(x, y)),
      RILL_FORM2(greater(x, y)),
      RILL_FORM2(greater_equal(x, y)),
      RILL_FORM2(where(x < y, x, y)),
      RILL_FORM2(where(x <= y, x, y)),
      RILL_FORM2(where(x > y, x, y)),
      RILL_FORM2(where(x >= y, x, y)),
      RILL_FORM2(where(x == y, x, y)),
      RILL_FORM2(where(x != y, x, y)),
      RILL_FORM2(where(x < y, y, x)),
      RILL_FORM2(where(x > y, y, x)),
      RILL_FORM2(x * y + x),
      RILL_FORM2(x - y * x),
      RILL_FORM2(signbit(x) != signbit(y)),
  };
#undef RILL_FORM1
#undef RILL_FORM2
}

// --- Forms of one operand --------------------------------------------------------------------------------------------

// The constants that take the place of an operand.
inline const std::vector<double>& constants() {
  static const std::vector<double> all = {0.0,
                                          1.0,
                                          -1.0,
                                          -0.0,
                                          0.5,
                                          2.0,
                                          -2.0,
                                          std::numeric_limits<double>::infinity(),
                                          std::numeric_limits<double>::quiet_NaN()};
  return all;
}

inline Tensor constant_like(const Tensor& x, double c) { return tensor(c).astype(x.dtype()); }

// A form of two operands with its sides changed, or one of them a constant: 0 as it is, 1 f(y, x), 2 f(x, c),
// 3 f(c, x).
inline Form variant(const Form& f, int which, double c) {
  const std::string text = f.text + (which == 1   ? " turned"
                                     : which == 2 ? " with y = " + std::to_string(c)
                                     : which == 3 ? " with x, y = " + std::to_string(c) + ", x"
                                                  : "");
  switch (which) {
    case 0: return f;
    case 1: return {text, true, [run = f.run](const Tensor& x, const Tensor& y) { return run(y, x); }};
    case 2:
      return {text, false, [run = f.run, c](const Tensor& x, const Tensor&) { return run(x, constant_like(x, c)); }};
    default:
      return {text, false, [run = f.run, c](const Tensor& x, const Tensor&) { return run(constant_like(x, c), x); }};
  }
}

inline std::vector<Form> all_forms(DType main, std::vector<std::string>& left_out) {
  std::vector<Form> all = record_forms(main, left_out);
  for (Form& f : composite_forms())
    all.push_back({f.text, f.two, [run = f.run, main](const Tensor& x, const Tensor& y) {
                     return run(x.astype(main), y.astype(main));
                   }});
  return all;
}

}  // namespace forms
