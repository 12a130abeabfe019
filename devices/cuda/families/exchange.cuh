// Sums over the members of a group, in the order of the tree that distribute/collectives.h promises, with the bits of
// distribute/engine/sums.cpp: numbers T are added as A, and a mean is divided as A.
namespace rill::cuda {

using scalar_math::Complex;

template <class A> struct Rule {
  RILL A identity() { return A(0); }  // of no members, which does not occur
};
template <class A> struct SumOf : Rule<A> {
  RILL A of(A a, A b) { return add(a, b); }
};
template <class A> struct SumOf<Complex<A>> : Rule<Complex<A>> {
  RILL Complex<A> of(Complex<A> a, Complex<A> b) { return a + b; }
};
template <class A> struct ProductOf : Rule<A> {
  RILL A of(A a, A b) { return mul(a, b); }
};
template <class A> struct ProductOf<Complex<A>> : Rule<Complex<A>> {
  RILL Complex<A> of(Complex<A> a, Complex<A> b) { return a * b; }
};
// NaN is larger, and smaller, than all else, and the first of equal ones stays.
template <class A> struct LargerOf : Rule<A> {
  RILL A of(A a, A b) { return a != a ? a : b > a || b != b ? b : a; }
};
template <class A> struct SmallerOf : Rule<A> {
  RILL A of(A a, A b) { return a != a ? a : b < a || b != b ? b : a; }
};

template <class A> RILL A divided(A a, int n) { return a / A(n); }
template <class A> RILL Complex<A> divided(Complex<A> a, int n) { return Complex<A>(a.re / A(n), a.im / A(n)); }

template <class To> struct Stands {
  template <class From> RILL To of(From x) { return Convert<To>::of(x); }
};
template <class To> struct Stands<Complex<To>> {
  RILL Complex<To> of(Complex<To> x) { return x; }
};

template <class T, class A, class F, bool mean>
RILL void add_up(const AddingUp& s) {
  for (i64 i = first_thread(); i < s.count; i += all_threads()) {
    PairwiseFold<A, F> blocks;  // joined in pairs, pairs of pairs, ..., and what remains from the right: the tree
    for (int m = 0; m < s.members; ++m) {
      const char* block = m == s.me ? s.own : s.blocks + m * s.stride;
      blocks.push(Stands<A>::of(Stored<T>::load(block + i * i64(sizeof(T)))));
    }
    A x = blocks.result();
    if constexpr (mean) x = divided(x, s.members);
    store(s.to + i * i64(sizeof(T)), Stands<T>::of(x));
  }
}

}  // namespace rill::cuda
