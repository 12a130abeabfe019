// Functions of numbers that kernels of the IR cannot contain: long ones (series, continued fractions, integrals), for
// which devices/kernel/math has the one definition for both compilers, and division with an integer quotient. The
// headers of that room precede this text.
//
// All are computed in f64. For f32 and the halves the CPU does the same; f64 it computes in long double, which GPUs
// do not have: there f64 is as exact as the functions are in their own type (docs/cuda.md).
namespace rill::cuda {

template <int operands>
struct OperandAddresses {
  char* at[operands];
  // Point q of the index space.
  inline OperandAddresses(const Space& s, i64 q) {
    i64 left = q / s.n;
    const i64 point = q - left * s.n;
    for (int k = 0; k < operands; ++k) at[k] = s.base[k] + point * s.point[k];
    for (i64 a = s.axes; a-- > 0;) {
      const i64 index = left % s.outer[a];
      left /= s.outer[a];
      for (int k = 0; k < operands; ++k) at[k] += index * s.stride[k][a];
    }
  }
};

// --- Long functions: computed in f64 for every dtype ---
RILL f64 load_float(const char* at, int dtype) {
  if (dtype == 0) return widen(Stored<f16>::load(at));
  if (dtype == 1) return widen(Stored<bf16>::load(at));
  return dtype == 2 ? f64(Stored<f32>::load(at)) : Stored<f64>::load(at);
}
RILL void store_float(char* at, f64 y, int dtype) {
  if (dtype == 0) store(at, narrow(f32(y), f16()));
  else if (dtype == 1) store(at, narrow(f32(y), bf16()));
  else if (dtype == 2) store(at, f32(y));
  else store(at, y);
}

template <class F, int inputs>
RILL void map_long(const Points& s) {
  for (i64 q = first_thread(); q < s.space.rows * s.space.n; q += all_threads()) {
    const OperandAddresses<inputs + 1> p(s.space, q);
    f64 x[inputs], y;
    for (int k = 0; k < inputs; ++k) x[k] = load_float(p.at[k], s.dtype);
    if constexpr (inputs == 1) y = F::template call<f64>(x[0]);
    else if constexpr (inputs == 2) y = F::template call<f64>(x[0], x[1]);
    else y = F::template call<f64>(x[0], x[1], x[2]);
    store_float(p.at[inputs], y, s.dtype);
  }
}

// --- Functions of two numbers of one dtype ---
struct Fmod {
  template <class T>
  RILL T of(T x, T y) { return std::fmod(x, y); }
};
struct Remainder {
  template <class T>
  RILL T of(T x, T y) { return special::float_remainder(x, y); }
};
struct FloorDivide {
  template <class T>
  RILL T of(T x, T y) { return special::float_floor_divide(x, y); }
};
// Halves as f32, rounded once.
template <class F>
struct InFloats {
  template <class T>
  RILL T of(T x, T y) { return F::of(x, y); }
  RILL f16 of(f16 x, f16 y) { return narrow(F::of(widen(x), widen(y)), f16()); }
  RILL bf16 of(bf16 x, bf16 y) { return narrow(F::of(widen(x), widen(y)), bf16()); }
};

struct NextAfter {
  RILL f32 of(f32 x, f32 y) { return ::nextafterf(x, y); }
  RILL f64 of(f64 x, f64 y) { return ::nextafter(x, y); }
  template <class H>
  RILL H of(H x, H y) {
    const f32 a = widen(x), b = widen(y);
    if (a != a || b != b) return narrow(a + b, H());
    if (a == b) return y;
    if (a == 0) x.bits = y.bits & 0x8000 ? 0x8001 : 1;
    else x.bits = u16((a < b) == (a > 0) ? x.bits + 1 : x.bits - 1);
    return x;
  }
};

// Of the magnitudes, as that of the least signed number does not fit; results wrap around.
template <class T>
RILL u64 magnitude(T x) { return x < T(0) ? 0 - u64(i64(x)) : u64(x); }
struct Divisor {
  RILL u64 common(u64 a, u64 b) {
    while (b != 0) {
      const u64 rest = a >> 32 || b >> 32 ? a % b : u64(u32(a) % u32(b));
      a = b, b = rest;
    }
    return a;
  }
  template <class T>
  RILL T of(T x, T y) { return T(common(magnitude(x), magnitude(y))); }
};
struct Multiple {
  template <class T>
  RILL T of(T x, T y) {
    const u64 a = magnitude(x), b = magnitude(y), divisor = Divisor::common(a, b);
    return divisor == 0 ? T(0) : T(a / divisor * b);
  }
};

template <class F, class T>
RILL void map_pairs(const Points& s) {
  for (i64 q = first_thread(); q < s.space.rows * s.space.n; q += all_threads()) {
    const OperandAddresses<3> p(s.space, q);
    store(p.at[2], F::of(Stored<T>::load(p.at[0]), Stored<T>::load(p.at[1])));
  }
}

}  // namespace rill::cuda
