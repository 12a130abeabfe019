// Attention and its gradient by their formulas, one row of scores at a time, in double (long double for f64).
#include "rill/devices/params/attention_params.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "rill/devices/ref/iterate.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::ref {

namespace {

// An operand's or output's matrices, element by element.
template <class T>
struct Matrices {
  T* data;
  MatrixLayout at;
  T& operator()(int64_t b, int64_t i, int64_t c) const { return data[at.at(b) + i * at.row + c * at.column]; }
};

template <class T>
struct Operands {
  int64_t heads, group, queries, keys, width, value_width;
  Matrices<const T> q, k, v;
  const Tensor* mask = nullptr;
  AttentionParams params;
};

template <class T>
Matrices<const T> in(const KernelArgs& args, int i, MatrixLayout at) {
  return {args.in_data<T>(i), std::move(at)};
}
template <class T>
Matrices<T> out(const KernelArgs& args, int i, MatrixLayout at) {
  return {args.out_data<T>(i), std::move(at)};
}

template <class T>
Operands<T> separate(const KernelArgs& args, size_t mask) {
  const Shape &q = args.input(0).shape(), &k = args.input(1).shape(), &v = args.input(2).shape();
  const size_t n = q.size();
  int64_t heads = 1;
  for (size_t i = 0; i + 2 < n; ++i) heads *= q[i];
  const int64_t group = n > 2 && k[n - 3] > 0 ? q[n - 3] / k[n - 3] : Dim(1);
  return {heads,
          group,
          q[n - 2],
          k[n - 2],
          q[n - 1],
          v[n - 1],
          in<T>(args, 0, matrices_of(args.input(0))),
          in<T>(args, 1, matrices_of(args.input(1))),
          in<T>(args, 2, matrices_of(args.input(2))),
          args.in.size() > mask ? &args.input(int(mask)) : nullptr,
          args.attrs.as<AttentionParams>()};
}

template <class T>
Operands<T> joined(const KernelArgs& args) {
  const Tensor& x = args.input(0);
  const Shape& s = x.shape();
  const size_t n = s.size();
  int64_t heads = s[n - 2];
  for (size_t i = 0; i + 4 < n; ++i) heads *= s[i];
  return {heads,
          1,
          s[n - 4],
          s[n - 4],
          s[n - 1],
          s[n - 1],
          in<T>(args, 0, joined_part(x, 0)),
          in<T>(args, 0, joined_part(x, 1)),
          in<T>(args, 0, joined_part(x, 2)),
          nullptr,
          args.attrs.as<AttentionParams>()};
}

// The scores of query i for every key, -inf where it does not attend; `seen`: the number of keys that it attends to.
template <class T>
std::vector<Wide<T>> scores(const Operands<T>& x, int64_t b, int64_t i, int64_t* attended = nullptr) {
  constexpr auto inf = std::numeric_limits<Wide<T>>::infinity();
  std::vector<Wide<T>> s(static_cast<size_t>(x.keys));
  for (int64_t j = 0; j < x.keys; ++j) {
    Wide<T> dot = 0;
    for (int64_t c = 0; c < x.width; ++c) dot += widen(x.q(b, i, c)) * widen(x.k(b / x.group, j, c));
    Wide<T>& to = s[size_t(j)];
    to = dot * Wide<T>(x.params.scale);
    bool visible = true;
    if (x.mask) {
      const MatrixLayout at = matrices_of(*x.mask);
      const int64_t element = at.at(b) + i * at.row + j * at.column;
      const char* data = x.mask->rep()->data;
      if (x.mask->dtype() == DType::boolean) {
        visible = reinterpret_cast<const bool*>(data)[element];
      } else {
        const Wide<T> added = widen(reinterpret_cast<const T*>(data)[element]);
        visible = added != -inf;
        to += added;
      }
    }
    if (x.params.causal && j > i + x.keys - x.queries) visible = false;
    if (!visible) to = -inf;
    if (attended) *attended += visible;
  }
  return s;
}

// The dtype of log_sums: f32 for half precision, else the operands' own.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
void forward(const Operands<T>& x, const Matrices<T>& y, Sum<T>* log_sums) {
  using W = Wide<T>;
  constexpr W inf = std::numeric_limits<W>::infinity();
  for (int64_t b = 0; b < x.heads; ++b)
    for (int64_t i = 0; i < x.queries; ++i) {
      int64_t attended = 0;
      std::vector<W> s = scores(x, b, i, &attended);
      W top = -inf, total = 0;
      for (W e : s) top = std::max(top, e);
      // Rounded as it is stored: the other part is the difference from that.
      if (std::isfinite(top)) {
        constexpr W largest = std::numeric_limits<Sum<T>>::max();
        top = W(Sum<T>(std::clamp(top, -largest, largest)));
      }
      for (W& e : s) total += e = top == -inf ? W(0) : std::exp(e - top);
      // A query that attends to no key gives 0; one whose scores are all -inf, NaN.
      const W none = attended == 0 ? W(0) : std::numeric_limits<W>::quiet_NaN();
      for (int64_t c = 0; c < x.value_width; ++c) {
        W sum = 0;
        for (int64_t j = 0; j < x.keys; ++j) sum += s[size_t(j)] * widen(x.v(b / x.group, j, c));
        y(b, i, c) = narrow<T>(total == 0 ? none : sum / total);
      }
      Sum<T>* parts = log_sums + 2 * (b * x.queries + i);
      parts[0] = Sum<T>(total == 0 ? none : top);
      parts[1] = Sum<T>(total == 0 ? none : std::log(total));
    }
}

template <class T>
struct Gradients {
  Matrices<const Sum<T>> log_sums, delta;  // [queries, 2] and [queries, 1]
  Matrices<const T> g;
  Matrices<T> q, k, v;
};

template <class T>
void backward(const Operands<T>& x, const Gradients<T>& out) {
  using W = Wide<T>;
  for (int64_t s = 0; s < x.heads / x.group; ++s) {
    std::vector<W> dk(size_t(x.keys * x.width)), dv(size_t(x.keys * x.value_width));
    for (int64_t b = s * x.group; b < (s + 1) * x.group; ++b)
      for (int64_t i = 0; i < x.queries; ++i) {
        std::vector<W> p = scores(x, b, i), dq(size_t(x.width));
        for (int64_t j = 0; j < x.keys; ++j) {
          const W e = std::exp((p[size_t(j)] - W(out.log_sums(b, i, 0))) - W(out.log_sums(b, i, 1)));
          W dot = 0;
          for (int64_t c = 0; c < x.value_width; ++c) {
            dot += widen(out.g(b, i, c)) * widen(x.v(s, j, c));
            dv[size_t(j * x.value_width + c)] += e * widen(out.g(b, i, c));
          }
          const W d = e * (dot - W(out.delta(b, i, 0))) * W(x.params.scale);
          for (int64_t c = 0; c < x.width; ++c) {
            dq[size_t(c)] += d * widen(x.k(s, j, c));
            dk[size_t(j * x.width + c)] += d * widen(x.q(b, i, c));
          }
        }
        for (int64_t c = 0; c < x.width; ++c) out.q(b, i, c) = narrow<T>(dq[size_t(c)]);
      }
    for (int64_t j = 0; j < x.keys; ++j) {
      for (int64_t c = 0; c < x.width; ++c) out.k(s, j, c) = narrow<T>(dk[size_t(j * x.width + c)]);
      for (int64_t c = 0; c < x.value_width; ++c) out.v(s, j, c) = narrow<T>(dv[size_t(j * x.value_width + c)]);
    }
  }
}

MatrixLayout by_head(const Tensor& t) { return matrices_by_head(t.shape(), t.strides()); }

template <class F>
void by_dtype(const KernelArgs& args, F&& f) {
  switch (args.input(0).dtype()) {
    case DType::f16: return f(Half());
    case DType::bf16: return f(BFloat16());
    case DType::f64: return f(double());
    default: return f(float());
  }
}

}  // namespace

void attention(const KernelArgs& args) {
  by_dtype(args, [&]<class T>(T) {
    forward<T>(separate<T>(args, 3), out<T>(args, 0, matrices_of(args.output())), args.out_data<Sum<T>>(1));
  });
}

void self_attention(const KernelArgs& args) {
  by_dtype(args, [&]<class T>(T) {
    forward<T>(joined<T>(args), out<T>(args, 0, by_head(args.output())), args.out_data<Sum<T>>(1));
  });
}

void attention_grad(const KernelArgs& args) {
  by_dtype(args, [&]<class T>(T) {
    backward<T>(separate<T>(args, 6),
                {in<Sum<T>>(args, 3, matrices_of(args.input(3))), in<Sum<T>>(args, 4, matrices_of(args.input(4))),
                 in<T>(args, 5, matrices_of(args.input(5))), out<T>(args, 0, matrices_of(args.output(0))),
                 out<T>(args, 1, matrices_of(args.output(1))), out<T>(args, 2, matrices_of(args.output(2)))});
  });
}

void self_attention_grad(const KernelArgs& args) {
  by_dtype(args, [&]<class T>(T) {
    auto part = [&](int64_t i) { return out<T>(args, 0, joined_part(args.output(), i)); };
    backward<T>(joined<T>(args),
                {in<Sum<T>>(args, 1, matrices_of(args.input(1))), in<Sum<T>>(args, 2, matrices_of(args.input(2))),
                 in<T>(args, 3, by_head(args.input(3))), part(0), part(1), part(2)});
  });
}

}  // namespace rill::ref
