// CPU kernels of full, pad and update_slice. The latter two fill or copy first, and then write a strided part.
#include <algorithm>
#include <cstring>

#include "rill/devices/cpu/move/shape_kernels.h"
#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/params/shape_params.h"
#include "rill/devices/threads.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::cpu {

namespace {

template <class T>
bool all_bytes_zero(const T& v) {
  static constexpr char zeros[sizeof(T)] = {};
  return std::memcmp(&v, zeros, sizeof v) == 0;
}

void fill(DType dtype, void* to, int64_t n, const FillValue& value) {
  if (dtype == DType::string) return;  // constructed empty
  visit_stored_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, std::string>) {
      const T v = value.as<T>();
      const bool clear = all_bytes_zero(v);
      parallel_for(n, 256 * 1024 / int64_t(sizeof(T)), [&](int64_t b, int64_t e) {
        T* out = static_cast<T*>(to) + b;
        if (clear) std::memset(static_cast<void*>(out), 0, size_t(e - b) * sizeof(T));
        else std::fill_n(out, e - b, v);
      });
    }
  });
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

void full(const KernelArgs& a) {
  fill(a.output().dtype(), a.out_data<char>(), a.output().size(), a.attrs.as<FullAttrs>().value);
}

void pad(const KernelArgs& a) {
  const auto& p = a.attrs.as<PadAttrs>();
  const Tensor &x = a.input(0), &out = a.output();
  Shape shape;
  Strides to_strides;
  int64_t from = 0, to = 0;
  for (size_t i = 0; i < x.shape().size(); ++i) {
    // Element k of the axis is copied to lo + k * step, if that is inside the output.
    int64_t step = p.interior[i] + 1;
    int64_t first = p.lo[i] < 0 ? ceil_div(-p.lo[i], step) : 0;
    int64_t room = out.shape()[i] - p.lo[i];
    int64_t end = room <= 0 ? 0 : std::min<int64_t>(x.shape()[i], ceil_div(room, step));
    shape.push_back(std::max<int64_t>(0, end - first));
    to_strides.push_back(out.strides()[i] * step);
    from += first * x.strides()[i];
    to += (p.lo[i] + first * step) * out.strides()[i];
  }
  if (shape.numel() < out.size()) fill(x.dtype(), a.out_data<char>(), out.size(), p.value);
  int64_t bytes = int64_t(size_of(x.dtype()));
  strided_copy(x.dtype(), shape, x.rep()->data + from * bytes, x.strides(), a.out_data<char>() + to * bytes,
               to_strides);
}

void update_slice(const KernelArgs& a) {
  const auto& s = a.attrs.as<SliceAttrs>();
  const Tensor& x = a.input(0);
  if (x.rep()->data != a.output().rep()->data)  // otherwise it is updated in place
    strided_copy(x.dtype(), x.shape(), x.rep()->data, x.strides(), a.out_data<char>(), a.output().strides());
  const Tensor& value = a.input(1);
  Window w = slice_window(a.output().shape(), a.output().strides(), s);
  Strides strides(w.shape.size(), 0);  // of the value, including the dropped axes
  for (size_t i = 0, k = 0; i < w.shape.size(); ++i)
    if (std::find(s.drop.begin(), s.drop.end(), int64_t(i)) == s.drop.end()) strides[i] = value.strides()[k++];
  strided_copy(value.dtype(), w.shape, value.rep()->data, strides,
               a.out_data<char>() + w.offset * int64_t(size_of(value.dtype())), w.strides);
}

}  // namespace rill::cpu
