// Elementwise ops on ref:0; see elementwise.h. Start at for_each_element.
#include "rill/devices/ref/elementwise.h"

#include <cstring>

#include "rill/tensor/visit_dtype.h"

namespace rill::ref {

template <class W>
W load_wide(DType d, const char* p) {
  return visit_stored_dtype(d, [&](auto zero) -> W {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, std::string>) return W();
    else {
      T v;
      std::memcpy(&v, p, sizeof v);
      if constexpr (requires { typename T::value_type; }) {
        if constexpr (std::is_same_v<W, Complex>) return Complex(v.real(), v.imag());
        else if constexpr (std::is_same_v<W, bool>) return v != T();
        else return W(v.real());
      } else if constexpr (is_small_float_type<T>) {
        return W(float(v));
      } else {
        return W(v);
      }
    }
  });
}
template Real load_wide<Real>(DType, const char*);
template double load_wide<double>(DType, const char*);
template float load_wide<float>(DType, const char*);
template Complex load_wide<Complex>(DType, const char*);
template int64_t load_wide<int64_t>(DType, const char*);
template uint64_t load_wide<uint64_t>(DType, const char*);
template bool load_wide<bool>(DType, const char*);

namespace {
// Converts the wide value to a small float directly: rounding to float first would round twice if the float is exactly
// between two halves, so such a float is moved by one bit toward the value first.
template <class H>
H round_half(long double x) {
  float f = float(x);
  uint32_t u;
  std::memcpy(&u, &f, sizeof u);
  if (f == f && (long double)(f) != x && std::isfinite(f)) {
    // Round to odd: an inexact float gets an odd last bit, so the second rounding finds no tie.
    if ((u & 1) == 0) {
      bool away = (long double)(std::fabs(f)) < std::fabs(x);
      u = away ? u + 1 : u - 1;
      std::memcpy(&f, &u, sizeof f);
    }
  }
  return H(f);
}
}  // namespace

template <class W>
void store_wide(DType d, char* p, W value) {
  visit_stored_dtype(d, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, std::string>) {
      T v{};
      if constexpr (std::is_same_v<W, Complex>) {
        if constexpr (requires { typename T::value_type; })
          v = T(typename T::value_type(value.real()), typename T::value_type(value.imag()));
        else v = T(double(value.real()));
      } else if constexpr (requires { typename T::value_type; }) {
        v = T(typename T::value_type(value));
      } else if constexpr (is_small_float_type<T>) {
        v = round_half<T>((long double)(value));
      } else {
        v = T(value);
      }
      std::memcpy(p, &v, sizeof v);
    }
  });
}
template void store_wide<Real>(DType, char*, Real);
template void store_wide<double>(DType, char*, double);
template void store_wide<float>(DType, char*, float);
template void store_wide<Complex>(DType, char*, Complex);
template void store_wide<int64_t>(DType, char*, int64_t);
template void store_wide<uint64_t>(DType, char*, uint64_t);
template void store_wide<bool>(DType, char*, bool);

void for_each_element(const KernelArgs& args, void (*body)(void*, const char* const*, char*), void* context) {
  Tensor& out = args.output();
  const Shape& shape = out.shape();
  int n = shape.ndim();
  Ints index(size_t(n), 0);
  char* q = out.mutable_rep()->data;
  for (int64_t i = 0, total = shape.numel(); i < total; ++i, q += size_of(out.dtype())) {
    const char* p[4] = {};
    for (size_t k = 0; k < args.in.size(); ++k) {
      const Tensor& t = *args.in[k];
      int64_t offset = 0;
      for (int a = 0; a < t.ndim(); ++a)
        if (t.shape()[size_t(a)] != 1) offset += t.strides()[size_t(a)] * index[size_t(a + n - t.ndim())];
      p[k] = t.rep()->data + offset * int64_t(size_of(t.dtype()));
    }
    body(context, p, q);
    for (int a = n - 1; a >= 0 && ++index[size_t(a)] == shape[size_t(a)]; --a) index[size_t(a)] = 0;
  }
}

namespace {
struct CastTypes {
  DType from, to;
};
}  // namespace

void cast(const KernelArgs& args) {
  CastTypes types{args.input(0).dtype(), args.output().dtype()};
  for_each_element(
      args,
      [](void* context, const char* const* p, char* q) {
        auto [from, to] = *static_cast<CastTypes*>(context);
        if (from == DType::string) *reinterpret_cast<std::string*>(q) = *reinterpret_cast<const std::string*>(p[0]);
        else if (is_complex(from)) {
          if (to == DType::boolean) store_wide(to, q, load_wide<bool>(from, p[0]));
          else store_wide(to, q, load_wide<Complex>(from, p[0]));
        } else if (is_floating(from)) {
          Real x = load_wide<Real>(from, p[0]);
          if (to == DType::boolean) store_wide(to, q, x != 0);
          else if (!is_integer(to)) store_wide(to, q, x);
          else if (to == DType::u64 && x >= 0x1p63L) store_wide(to, q, x >= 0x1p64L ? UINT64_MAX : uint64_t(x));
          else store_wide(to, q, !(x > -0x1p63L) ? INT64_MIN : x >= 0x1p63L ? INT64_MAX : int64_t(x));
        } else if (is_unsigned(from) || is_bool(from)) {
          store_wide(to, q, load_wide<uint64_t>(from, p[0]));
        } else {
          store_wide(to, q, load_wide<int64_t>(from, p[0]));
        }
      },
      &types);
}

void copy(const KernelArgs& args) { cast(args); }

void select(const KernelArgs& args) {
  if (args.output().dtype() == DType::string)
    return for_each_element(
        args,
        [](void*, const char* const* p, char* q) {
          *reinterpret_cast<std::string*>(q) = *reinterpret_cast<const std::string*>(*p[0] ? p[1] : p[2]);
        },
        nullptr);
  size_t bytes = size_of(args.output().dtype());
  for_each_element(
      args,
      [](void* context, const char* const* p, char* q) {
        std::memcpy(q, *p[0] ? p[1] : p[2], *static_cast<size_t*>(context));
      },
      &bytes);
}

}  // namespace rill::ref
