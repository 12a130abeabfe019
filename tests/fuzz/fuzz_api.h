// Random arguments for fuzz_api.cpp: make<T>() returns one for each parameter type of the public functions, mostly ones
// that a user would pass, often absurd ones. The draws only depend on the call's number, so a call can be repeated.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rill/nn/nn.h"
#include "rill/trace/rill.h"
#include "tested_device.h"

namespace fuzz {

using namespace rill;

class Arguments {
 public:
  explicit Arguments(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}

  uint64_t word() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  int64_t below(int64_t n) { return int64_t(word() % uint64_t(n)); }
  bool one_in(int64_t n) { return below(n) == 0; }
  template <class T, size_t n>
  T one_of(const T (&list)[n]) {
    return list[below(int64_t(n))];
  }

  template <class T>
  T make();

  // The pool of earlier results, from which tensors are drawn so that kinds mix. Small ones only.
  static std::vector<Tensor>& pool() {
    static std::vector<Tensor> tensors;
    return tensors;
  }
  void remember(const Tensor& t) {
    constexpr size_t room = 400;
    if (!t.defined() || t.is_symbolic() || t.size() > 4096 || t.ndim() > 10) return;
    if (pool().size() < room) pool().push_back(t);
    else pool()[size_t(below(int64_t(room)))] = t;
  }
  Tensor fresh_tensor(const Shape& shape, DType dtype);

  GradientTape* tape = nullptr;  // watches the arguments, if not null
  std::vector<Tensor> watched;

 private:
  // Sizes between these would be accepted and take long.
  int64_t small_size() { return one_of<int64_t>({0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 16, 17, 33}); }
  Shape small_shape();
  Tensor one_tensor();

  uint64_t state_;
  Tensor last_;  // of this call: the next one often fits it
};

// --- Numbers ---------------------------------------------------------------------------------------------------------

template <>
inline bool Arguments::make<bool>() {
  return one_in(2);
}
template <>
inline int64_t Arguments::make<int64_t>() {
  if (!one_in(6)) return below(7) - 3;
  constexpr int64_t odd[] = {0,
                             8,
                             31,
                             32,
                             63,
                             64,
                             65,
                             100,
                             -5,
                             -9,
                             int64_t(1) << 24,
                             int64_t(1) << 31,
                             (int64_t(1) << 31) - 1,
                             -(int64_t(1) << 31),
                             int64_t(1) << 32,
                             int64_t(1) << 40,
                             int64_t(1) << 46,
                             int64_t(1) << 47,
                             int64_t(1) << 48,
                             int64_t(1) << 62,
                             -(int64_t(1) << 62),
                             std::numeric_limits<int64_t>::max(),
                             std::numeric_limits<int64_t>::max() - 1,
                             std::numeric_limits<int64_t>::min(),
                             std::numeric_limits<int64_t>::min() + 1};
  return one_of(odd);
}
template <>
inline int Arguments::make<int>() {
  if (!one_in(6)) return int(below(7) - 3);
  return one_of<int>({0, 9, 64, -70, INT32_MAX, INT32_MIN, INT32_MIN + 1, 1 << 30});
}
template <>
inline double Arguments::make<double>() {
  if (!one_in(4)) return double(below(2001) - 1000) / 256;
  constexpr double inf = std::numeric_limits<double>::infinity();
  return one_of<double>({0, -0.0, 1, -1, 0.5, 1e-30, -1e-300, 1e30, -1e300, 0x1p62, 0x1p63, -0x1p63, 1e15, inf, -inf,
                         std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::max(),
                         std::numeric_limits<double>::denorm_min()});
}
template <>
inline detail::Number Arguments::make<detail::Number>() {
  return one_in(2) ? detail::Number(make<int64_t>()) : detail::Number(make<double>());
}
template <>
inline DType Arguments::make<DType>() {
  if (one_in(2)) return DType::f32;
  return DType(below(dtype_count));
}
template <>
inline Device Arguments::make<Device>() {
  return one_in(8) ? Device("ref:0") : one_in(60) ? Device(DeviceKind::gpu, int(below(3))) : tested;
}

// --- Lists -----------------------------------------------------------------------------------------------------------

inline Shape Arguments::small_shape() {
  Shape shape;
  const int64_t rank = one_in(8) ? below(9) : below(4);
  int64_t n = 1;
  for (int64_t i = 0; i < rank; ++i) {
    int64_t size = small_size();
    if (n * size > 2048) size = 1;
    n *= std::max<int64_t>(size, 1);
    shape.push_back(size);
  }
  return shape;
}
template <>
inline Shape Arguments::make<Shape>() {
  if (last_.defined() && one_in(3)) return last_.shape();
  Shape shape = small_shape();
  if (one_in(5) && !shape.empty()) shape[size_t(below(int64_t(shape.size())))] = make<int64_t>();
  if (one_in(40)) shape.push_back(make<int64_t>());
  if (one_in(400)) shape = Shape(70, 1);
  return shape;
}
template <>
inline Axes Arguments::make<Axes>() {
  Axes axes;
  const int64_t rank = last_.defined() ? last_.ndim() : 3;
  for (int64_t n = below(4); n > 0; --n)
    axes.push_back(rank > 0 && !one_in(6) ? below(2 * rank) - rank : make<int64_t>());
  return axes;
}
template <>
inline Dims Arguments::make<Dims>() {
  Dims list;
  for (int64_t n = below(4); n > 0; --n) list.push_back(one_in(2) ? 1 + below(4) : make<int64_t>());
  return list;
}
template <>
inline std::vector<int64_t> Arguments::make<std::vector<int64_t>>() {
  const Dims list = make<Dims>();
  return {list.begin(), list.end()};
}
template <>
inline std::string Arguments::make<std::string>() {
  std::string text;
  for (int64_t n = below(9); n > 0; --n) text += "ijk,->. IJ1("[below(12)];
  return text;
}

// --- Tensors ---------------------------------------------------------------------------------------------------------

inline Tensor Arguments::fresh_tensor(const Shape& wanted, DType dtype) {
  const Shape shape = wanted.numel() <= 4096 ? wanted : Shape{3};
  if (dtype == DType::string) return full(shape, tensor("text"));
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (double& v : values) v = is_floating(dtype) || is_complex(dtype) ? make<double>() : double(below(9) - 4);
  Tensor t = astype(tensor(values, shape), dtype);
  return one_in(8) ? t.to(Device("ref:0")) : t;
}
inline Tensor Arguments::one_tensor() {
  if (one_in(50)) return Tensor();
  if (one_in(30)) return Tensor(make<double>());
  if (one_in(60)) return Tensor(make<int64_t>());
  if (last_.defined() && last_.size() <= 4096 && !one_in(3)) {  // what may go with the one before
    Shape shape = last_.shape();
    if (one_in(3) && shape.size() > 1) shape.erase(0);
    if (one_in(4) && !shape.empty()) shape[size_t(below(int64_t(shape.size())))] = 1;
    const DType dtype = one_in(5) ? make<DType>() : one_in(6) ? DType::i64 : last_.dtype();
    Tensor t = fresh_tensor(shape, dtype);
    return t.device() == last_.device() || one_in(20) ? t : t.to(last_.device());
  }
  if (pool().empty() || one_in(4)) return fresh_tensor(small_shape(), one_in(5) ? DType::i64 : make<DType>());
  Tensor t = pool()[size_t(below(int64_t(pool().size())))];
  if (one_in(6) && t.ndim() > 1) t = transpose(t);
  if (one_in(6) && t.ndim() > 0) t = reverse(t);
  if (one_in(8) && t.ndim() > 0 && t.dim(0) > 2) t = t(slice(1, none, 2));
  if (one_in(10))
    t = broadcast_to(t, [&] {
      Shape s(t.shape());
      s.insert(0, 1 + below(3));
      return s;
    }());
  return t;
}
template <>
inline Tensor Arguments::make<Tensor>() {
  last_ = one_tensor();
  if (tape && last_.defined() && (is_floating(last_.dtype()) || is_complex(last_.dtype()))) {
    tape->watch(last_);
    watched.push_back(last_);
  }
  return last_;
}
template <>
inline std::vector<Tensor> Arguments::make<std::vector<Tensor>>() {
  std::vector<Tensor> list;
  for (int64_t n = below(5); n > 0; --n) list.push_back(make<Tensor>());
  return list;
}
template <>
inline Variable Arguments::make<Variable>() {
  return Variable(make<Tensor>(), VariableOptions{.name = "v", .trainable = !one_in(5)});
}

// An image, or several, and a kernel that often fits it.
struct Image {
  Tensor x, w;
  operator const Tensor&() const { return x; }
};
template <>
inline Image Arguments::make<Image>() {
  const int64_t space = 1 + below(3), channels = 1 + below(4);
  Shape x{1 + below(2)}, w;
  for (int64_t i = 0; i < space; ++i) x.push_back(below(6)), w.push_back(1 + below(3));
  x.push_back(channels);
  w.push_back(one_in(4) ? 1 : channels);
  w.push_back(1 + below(5));
  const DType d = one_in(3) ? make<DType>() : DType::f32;
  Image image{fresh_tensor(x, d), fresh_tensor(w, d)};
  if (tape && is_floating(d)) {
    for (const Tensor* t : {&image.x, &image.w}) tape->watch(*t), watched.push_back(*t);
  }
  return image;
}

// --- Options ---------------------------------------------------------------------------------------------------------

template <>
inline PadMode Arguments::make<PadMode>() {
  return PadMode(below(4));
}
template <>
inline ScatterMode Arguments::make<ScatterMode>() {
  return ScatterMode(below(5));
}
template <>
inline Layout Arguments::make<Layout>() {
  return Layout(below(2));
}
template <>
inline nn::Mode Arguments::make<nn::Mode>() {
  return below(2) ? nn::Mode::training : nn::Mode::inference;
}
template <>
inline std::vector<Padding> Arguments::make<std::vector<Padding>>() {
  std::vector<Padding> list(size_t(last_.defined() && !one_in(5) ? last_.ndim() : below(4)));
  for (Padding& p : list) {
    p = {below(4) - 1, below(4) - 1, one_in(4) ? below(3) : 0};
    if (one_in(20)) p.lo = make<int64_t>();
    if (one_in(20)) p.hi = make<int64_t>();
    if (one_in(20)) p.interior = make<int64_t>();
  }
  return list;
}
template <>
inline SpacePadding Arguments::make<SpacePadding>() {
  if (one_in(3)) return SpacePadding(one_in(2) ? "SAME" : one_in(20) ? "same" : "VALID");
  if (one_in(2)) return SpacePadding(make<int>());
  return SpacePadding({{make<int64_t>(), make<int64_t>()}, {make<int64_t>(), 1}});
}
template <>
inline random::Key Arguments::make<random::Key>() {
  return one_in(8) ? random::Key(make<Tensor>()) : random::Key(word());
}
template <>
inline Index Arguments::make<Index>() {
  switch (below(6)) {
    case 0: return Index(make<int64_t>());
    case 1: return Index(slice(make<std::optional<int64_t>>(), make<std::optional<int64_t>>(), make<int64_t>()));
    case 2: return Index(newaxis);
    case 3: return Index(ellipsis);
    case 4: return Index(rill::all);
    default: break;
  }
  static std::array<Tensor, 16> kept;  // an Index points to its tensor
  Tensor& t = kept[size_t(below(16))];
  t = one_tensor();
  return Index(t);
}

template <>
inline TensorOptions Arguments::make<TensorOptions>() {
  return {make<std::optional<DType>>(), make<std::optional<Device>>()};
}
template <>
inline ReduceOptions Arguments::make<ReduceOptions>() {
  return {.axis = make<Axes>(), .keepdims = make<bool>()};
}
template <>
inline SumOptions Arguments::make<SumOptions>() {
  return {.axis = make<Axes>(), .keepdims = make<bool>(), .dtype = make<std::optional<DType>>()};
}
template <>
inline VarianceOptions Arguments::make<VarianceOptions>() {
  return {.axis = make<Axes>(), .keepdims = make<bool>(), .correction = make<double>()};
}
template <>
inline NormOptions Arguments::make<NormOptions>() {
  return {.ord = make<double>(), .axis = make<Axes>(), .keepdims = make<bool>()};
}
template <>
inline QuantileOptions Arguments::make<QuantileOptions>() {
  return {.axis = make<Axes>(), .keepdims = make<bool>(), .method = QuantileMethod(uint64_t(make<int64_t>()) % 13)};
}
template <>
inline CombinationsOptions Arguments::make<CombinationsOptions>() {
  return {rill::detail::NamedOnly(), make<int64_t>(), make<bool>()};
}
template <>
inline BincountOptions Arguments::make<BincountOptions>() {
  BincountOptions o{.minlength = make<int64_t>(), .length = make<std::optional<int64_t>>()};
  if (one_in(3)) o.weights = make<Tensor>();
  return o;
}
template <>
inline HistogramOptions Arguments::make<HistogramOptions>() {
  HistogramOptions o{.bins = make<int64_t>()};
  if (one_in(2)) o.range = std::pair(make<double>(), make<double>());
  if (one_in(3)) o.edges = make<Tensor>();
  if (one_in(3)) o.weights = make<Tensor>();
  o.density = make<bool>();
  return o;
}
template <>
inline CumulativeOptions Arguments::make<CumulativeOptions>() {
  return {.axis = make<std::optional<int64_t>>(), .exclusive = make<bool>(), .reverse = make<bool>()};
}
template <>
inline RunningSumOptions Arguments::make<RunningSumOptions>() {
  return {.axis = make<std::optional<int64_t>>(),
          .exclusive = make<bool>(),
          .reverse = make<bool>(),
          .dtype = make<std::optional<DType>>()};
}
template <>
inline SortOptions Arguments::make<SortOptions>() {
  return {.axis = make<int64_t>(), .descending = make<bool>()};
}
template <>
inline TopKOptions Arguments::make<TopKOptions>() {
  return {.axis = make<int64_t>(), .largest = make<bool>()};
}
template <>
inline CloseOptions Arguments::make<CloseOptions>() {
  return {rill::detail::NamedOnly(), make<double>(), make<double>(), make<bool>()};
}
template <>
inline NormalizeOptions Arguments::make<NormalizeOptions>() {
  return {rill::detail::NamedOnly(), make<int64_t>(), make<double>()};
}
template <>
inline DropoutOptions Arguments::make<DropoutOptions>() {
  return {rill::detail::NamedOnly(), make<bool>(), make<std::optional<random::Key>>()};
}
template <>
inline OneHotOptions Arguments::make<OneHotOptions>() {
  return {rill::detail::NamedOnly(), make<int64_t>(), make<double>(), make<double>(), make<DType>()};
}
template <>
inline AdamParams Arguments::make<AdamParams>() {
  return {make<double>(), make<double>(), make<double>()};
}
template <>
inline ConvOptions Arguments::make<ConvOptions>() {
  return {rill::detail::NamedOnly(), make<Dims>(), make<SpacePadding>(), make<Dims>(), 1 + below(3), make<Layout>()};
}
template <>
inline ConvTransposeOptions Arguments::make<ConvTransposeOptions>() {
  return {rill::detail::NamedOnly(),
          make<Dims>(),
          make<SpacePadding>(),
          make<Dims>(),
          1 + below(3),
          make<Layout>(),
          make<Dims>()};
}
template <>
inline ConvParams Arguments::make<ConvParams>() {
  return {make<Dims>(), make<Dims>(), make<Dims>(), make<Dims>(), make<int64_t>(), make<Layout>(), make<Dims>()};
}
template <>
inline PoolOptions Arguments::make<PoolOptions>() {
  return {rill::detail::NamedOnly(), make<Dims>(), make<SpacePadding>(), make<Layout>(), make<bool>()};
}
template <>
inline AttentionOptions Arguments::make<AttentionOptions>() {
  return {rill::detail::NamedOnly(), make<bool>(), one_in(2) ? Tensor() : make<Tensor>(),
          make<std::optional<double>>()};
}
template <>
inline SelfAttentionOptions Arguments::make<SelfAttentionOptions>() {
  return {rill::detail::NamedOnly(), make<bool>(), make<std::optional<double>>()};
}
template <>
inline GatherAttrs Arguments::make<GatherAttrs>() {
  return {make<Axes>(), one_in(2) ? Dims() : Dims(make<Axes>()), one_in(2) ? Dims() : Dims(make<Axes>()), below(3) - 1};
}
template <>
inline ContractionParams Arguments::make<ContractionParams>() {
  return {make<Axes>(), make<Axes>(), make<Axes>(), make<Axes>()};
}
template <>
inline random::RandomOptions Arguments::make<random::RandomOptions>() {
  return {rill::detail::NamedOnly(), make<std::optional<DType>>(), make<std::optional<random::Key>>(),
          make<std::optional<Device>>()};
}
template <>
inline random::UniformOptions Arguments::make<random::UniformOptions>() {
  return {rill::detail::NamedOnly(),
          make<double>(),
          make<double>(),
          make<std::optional<DType>>(),
          make<std::optional<random::Key>>(),
          {}};
}
template <>
inline random::NormalOptions Arguments::make<random::NormalOptions>() {
  return {rill::detail::NamedOnly(),
          make<double>(),
          make<double>(),
          make<std::optional<DType>>(),
          make<std::optional<random::Key>>(),
          {}};
}
template <>
inline random::TruncatedNormalOptions Arguments::make<random::TruncatedNormalOptions>() {
  return {rill::detail::NamedOnly(),
          make<double>(),
          make<double>(),
          make<double>(),
          make<double>(),
          make<std::optional<DType>>(),
          {},
          {}};
}
template <>
inline random::ChoiceOptions Arguments::make<random::ChoiceOptions>() {
  return {rill::detail::NamedOnly(), make<bool>(), make<std::optional<Tensor>>(), make<std::optional<random::Key>>()};
}

namespace detail {
template <class T>
struct Optional : std::false_type {};
template <class T>
struct Optional<std::optional<T>> : std::true_type {
  using Value = T;
};
}  // namespace detail

template <class T>
T Arguments::make() {
  static_assert(detail::Optional<T>::value, "make() does not know this type of argument: give it a specialisation");
  if (one_in(2)) return std::nullopt;
  return make<typename detail::Optional<T>::Value>();
}

}  // namespace fuzz
