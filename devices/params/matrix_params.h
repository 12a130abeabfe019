// Attributes and kernels of the ops on matrices (ops/linear_algebra.h). Kernels get dense operands whose last two axes
// are a matrix; all axes before them are batch axes, the same for every operand.
#pragma once
#include "rill/devices/kernel.h"

#pragma GCC visibility push(default)

namespace rill {

struct TriangularParams {
  bool lower = false;    // which triangle of the matrix is read
  bool adjoint = false;  // solves with the conjugate transpose
  bool unit = false;     // the diagonal is taken to be ones
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("lower", s.lower), v("adjoint", s.adjoint), v("unit", s.unit);
  }
};

// qr and svd: full square factors instead of reduced ones.
struct FactorParams {
  bool full = false;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("full", s.full);
  }
};

// pinv and lstsq.
struct PinvParams {
  double rtol = -1;  // singular values up to rtol * the largest count as 0; negative: max(rows, columns) * epsilon
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("rtol", s.rtol);
  }
};

#pragma GCC visibility pop  // kernels are not shown

#define RILL_MATRIX_KERNELS(K) \
  K(cholesky)                  \
  K(solve)                     \
  K(triangular_solve)          \
  K(det) K(slogdet) K(lu) K(qr) K(svd) K(svdvals) K(eigh) K(eigvalsh) K(eig) K(eigvals) K(pinv) K(lstsq) K(expm)
#define RILL_DECLARE_KERNEL(name) void name(const KernelArgs& args);
namespace cpu {
RILL_MATRIX_KERNELS(RILL_DECLARE_KERNEL)
}
namespace ref {
RILL_MATRIX_KERNELS(RILL_DECLARE_KERNEL)
}
#undef RILL_DECLARE_KERNEL

}  // namespace rill
