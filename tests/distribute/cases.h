// What the cases of distribute_program share: which rank this is, tensors of its own, a small network and its examples.
#pragma once
#include <rill/data.h>
#include <rill/distribute.h>
#include <rill/metrics.h>
#include <rill/nn.h>
#include <rill/rill.h>
#include <rill/serialize.h>
#include <rill/train.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <optional>

#include "../api/expect.h"

using namespace rill;
using distribute::Group;
using distribute::Reduce;

using Cases = std::map<std::string, std::function<void()>>;
extern const Cases training_cases;           // training.cpp
extern const Cases loop_cases;               // loop.cpp
extern const Cases parallel_cases;           // parallel.cpp
extern const Cases spread_cases;             // spread.cpp
extern const Cases checkpoint_cases;         // checkpoints.cpp
extern const Cases server_cases;             // servers.cpp
extern const Cases gpu_cases, gpu_mistakes;  // gpus.cpp

inline int64_t n = 1, me = 0;
inline std::string folder;  // that all ranks share

// A tensor of this rank's own, the same at each run.
inline Tensor own(const Shape& shape, int64_t rank, DType dtype = f32) {
  return random::normal(shape, {.key = random::Key(uint64_t(100 + rank))}).astype(dtype);
}
inline bool same(const Tensor& a, const Tensor& b) { return a.dtype() == b.dtype() && array_equal(a, b); }

// Whether `f` throws an error whose message has this text.
inline bool says(const std::function<void()>& f, const std::string& text) {
  const std::string message = message_of(f);
  if (!has(message, text)) std::fprintf(stderr, "it says: %s\n", message.c_str());
  return has(message, text);
}

// A number that differs where an element of what came before or of `t` does.
inline uint64_t bits_with(uint64_t bits, const Tensor& t) {
  for (const float x : t.to_vector<float>()) bits = (bits ^ std::bit_cast<uint32_t>(x)) * 1099511628211u;
  return bits;
}

// Eagerly and traced.
inline bool holds(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, const Tensor& expected) {
  return same(f(x), expected) && same(function("f", f)(x), expected);
}

struct Net {
  nn::Dense hidden{16, {.activation = tanh}}, out{1};
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const { return out(hidden(x, call), call); }
};

inline auto examples() {
  return data::range(128).map([](int64_t i) {
    Tensor v = random::normal({4}, {.key = random::Key(uint64_t(i))});
    return std::pair(v, sum(v, {.axis = 0, .keepdims = true}));
  });
}
