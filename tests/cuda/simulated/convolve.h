// The computations of the simulated cuDNN: convolutions and their gradients, by plain loops over tensors of any
// strides.
#pragma once
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "numbers.h"

// Kinds of descriptors.
enum Kind {
  k_convolution = 1,
  k_engine = 2,
  k_config = 3,
  k_heuristics = 4,
  k_plan = 5,
  k_forward = 10,
  k_filter_gradient = 11,
  k_data_gradient = 12,
  k_graph = 15,
  k_operands = 16,
  k_tensor = 17
};
enum Data { d_f32 = 0, d_f64 = 1, d_f16 = 2, d_bf16 = 9 };

struct Tensor {
  int type = 0;
  int64_t alignment = 0, id = 0;
  std::vector<int64_t> sizes, strides;
  size_t element() const { return type == d_f64 ? 8 : type == d_f32 ? 4 : 2; }
  size_t bytes() const {
    int64_t last = 0;
    for (size_t a = 0; a < sizes.size(); ++a) last += (sizes[a] - 1) * strides[a];
    return size_t(last + 1) * element();
  }
  bool has_channels_at(bool end) const {  // dense, and they are first or last
    std::vector<size_t> order{0};
    if (!end) order.push_back(1);
    for (size_t a = 2; a < sizes.size(); ++a) order.push_back(a);
    if (end) order.push_back(1);
    int64_t dense = 1;
    for (size_t i = order.size(); i-- > 0; dense *= sizes[order[i]])
      if (sizes[order[i]] > 1 && strides[order[i]] != dense) return false;
    return true;
  }
};
struct Convolution {
  int compute = 0;
  std::vector<int64_t> strides, dilations, before, after;
};
struct Operation {
  int kind = 0;
  Convolution how;
  Tensor w, x, y;
};

inline double load(int type, const char* base, int64_t index) {
  switch (type) {
    case d_f64: return read<double>(base + index * 8);
    case d_f32: return double(read<float>(base + index * 4));
    case d_f16: return double(half_value(read<uint16_t>(base + index * 2)));
    default: return double(bfloat_value(read<uint16_t>(base + index * 2)));
  }
}
inline void store(int type, char* base, int64_t index, double x) {
  switch (type) {
    case d_f64: return write(base + index * 8, x);
    case d_f32: return write(base + index * 4, float(x));
    case d_f16: return write(base + index * 2, half_bits(double(float(x))));
    default: return write(base + index * 2, bfloat_bits(float(x)));
  }
}

// Three spatial axes, the missing ones first.
struct Sizes {
  int64_t outer, inner, space[3], outer_stride, inner_stride, stride[3];
  explicit Sizes(const Tensor& t)
      : outer(t.sizes[0]),
        inner(t.sizes[1]),
        space{1, 1, 1},
        outer_stride(t.strides[0]),
        inner_stride(t.strides[1]),
        stride{0, 0, 0} {
    const size_t axes = t.sizes.size() - 2;
    for (size_t a = 0; a < axes; ++a) space[3 - axes + a] = t.sizes[a + 2], stride[3 - axes + a] = t.strides[a + 2];
  }
  int64_t at(int64_t o, int64_t i, const int64_t* p) const {
    return o * outer_stride + i * inner_stride + p[0] * stride[0] + p[1] * stride[1] + p[2] * stride[2];
  }
  template <class F>
  static void each_place(const int64_t* sizes, F&& f) {
    for (int64_t p[3] = {0, 0, 0}; p[0] < sizes[0]; ++p[0])
      for (p[1] = 0; p[1] < sizes[1]; ++p[1])
        for (p[2] = 0; p[2] < sizes[2]; ++p[2]) f(p);
  }
};

// --- Convolutions: sums of products of two of three tensors, which give the third ---

// A tensor's numbers, by their offsets in memory.
inline std::vector<double> numbers_of(const Tensor& t, const char* base) {
  std::vector<double> all(t.bytes() / t.element());
  for (size_t i = 0; i < all.size(); ++i) all[i] = load(t.type, base, int64_t(i));
  return all;
}

struct Convolved {
  const Operation& o;
  const Sizes w, x, y;
  const int64_t groups, out_of_group;
  int64_t step[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, pad[3] = {0, 0, 0};

  explicit Convolved(const Operation& of)
      : o(of), w(o.w), x(o.x), y(o.y), groups(x.inner / w.inner), out_of_group(w.outer / groups) {
    const size_t first = 3 - o.how.strides.size();
    for (size_t a = first; a < 3; ++a)
      step[a] = o.how.strides[a - first], dilation[a] = o.how.dilations[a - first], pad[a] = o.how.before[a - first];
  }

  // Calls f(nw, nx, ny) for each product, with the offsets of its factors and of its sum; nx is -1 for padding.
  template <class F>
  void each_product(F&& f) const {
    for (int64_t n = 0; n < y.outer; ++n)
      Sizes::each_place(y.space, [&](const int64_t* at) {
        Sizes::each_place(w.space, [&](const int64_t* k) {
          int64_t p[3];
          bool inside = true;
          for (int a = 0; a < 3; ++a) {
            p[a] = at[a] * step[a] + k[a] * dilation[a] - pad[a];
            inside = inside && p[a] >= 0 && p[a] < x.space[a];
          }
          for (int64_t c = 0; c < w.outer; ++c) {
            const int64_t first = c / out_of_group * w.inner, ny = y.at(n, c, at);
            int64_t nw = w.at(c, 0, k), nx = inside ? x.at(n, first, p) : 0;
            for (int64_t i = 0; i < w.inner; ++i, nw += w.inner_stride, nx += x.inner_stride)
              f(nw, inside ? nx : -1, ny);
          }
        });
      });
  }

  // The padding is multiplied too, as the real library may do, which shows where it is multiplied by an infinity.
  void run(const char* pw, const char* px, const char* py, char* out) const {
    const Tensor& made = o.kind == k_forward ? o.y : o.kind == k_data_gradient ? o.x : o.w;
    const std::vector<double> vw = made.id == o.w.id ? std::vector<double>() : numbers_of(o.w, pw),
                              vx = made.id == o.x.id ? std::vector<double>() : numbers_of(o.x, px),
                              vy = made.id == o.y.id ? std::vector<double>() : numbers_of(o.y, py);
    std::vector<double> sums(made.bytes() / made.element());
    if (o.kind == k_forward)
      each_product([&](int64_t nw, int64_t nx, int64_t ny) {
        sums[size_t(ny)] += vw[size_t(nw)] * (nx < 0 ? 0 : vx[size_t(nx)]);
      });
    else if (o.kind == k_filter_gradient)
      each_product([&](int64_t nw, int64_t nx, int64_t ny) {
        sums[size_t(nw)] += vy[size_t(ny)] * (nx < 0 ? 0 : vx[size_t(nx)]);
      });
    else
      each_product([&](int64_t nw, int64_t nx, int64_t ny) {
        if (nx >= 0) sums[size_t(nx)] += vy[size_t(ny)] * vw[size_t(nw)];
      });
    if (o.kind == k_data_gradient && !std::isfinite(std::accumulate(vw.begin(), vw.end(), 0.0)))
      sums.assign(sums.size(), std::nan(""));  // every position is at an edge of the cotangent for some element of w
    for (size_t i = 0; i < sums.size(); ++i) store(made.type, out, int64_t(i), sums[i]);
  }
};
