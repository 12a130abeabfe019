// Numbers of MPFR with operators, for the judges of rill's arithmetic: 192 bits, of which the formulas here lose few.
#pragma once
#include <mpfr.h>

#include <utility>

namespace rill::judge {

class Real {
 public:
  Real() { mpfr_init2(v, bits); }
  Real(double x) : Real() { mpfr_set_d(v, x, MPFR_RNDN); }
  Real(const Real& x) : Real() { mpfr_set(v, x.v, MPFR_RNDN); }
  Real& operator=(const Real& x) {
    mpfr_set(v, x.v, MPFR_RNDN);
    return *this;
  }
  ~Real() { mpfr_clear(v); }

  mpfr_t v;
  static constexpr mpfr_prec_t bits = 192;
};

#define RILL_REAL_OPERATOR(op, function)                  \
  inline Real operator op(const Real& x, const Real& y) { \
    Real z;                                               \
    function(z.v, x.v, y.v, MPFR_RNDN);                   \
    return z;                                             \
  }
RILL_REAL_OPERATOR(+, mpfr_add)
RILL_REAL_OPERATOR(-, mpfr_sub)
RILL_REAL_OPERATOR(*, mpfr_mul)
RILL_REAL_OPERATOR(/, mpfr_div)
#undef RILL_REAL_OPERATOR
inline Real operator-(const Real& x) {
  Real y;
  mpfr_neg(y.v, x.v, MPFR_RNDN);
  return y;
}

#define RILL_REAL_FUNCTION(name, function) \
  inline Real name(const Real& x) {        \
    Real y;                                \
    function(y.v, x.v, MPFR_RNDN);         \
    return y;                              \
  }
RILL_REAL_FUNCTION(abs, mpfr_abs)
RILL_REAL_FUNCTION(exp, mpfr_exp)
RILL_REAL_FUNCTION(exp2, mpfr_exp2)
RILL_REAL_FUNCTION(expm1, mpfr_expm1)
RILL_REAL_FUNCTION(log, mpfr_log)
RILL_REAL_FUNCTION(log2, mpfr_log2)
RILL_REAL_FUNCTION(log10, mpfr_log10)
RILL_REAL_FUNCTION(log1p, mpfr_log1p)
RILL_REAL_FUNCTION(sin, mpfr_sin)
RILL_REAL_FUNCTION(cos, mpfr_cos)
RILL_REAL_FUNCTION(tan, mpfr_tan)
RILL_REAL_FUNCTION(asin, mpfr_asin)
RILL_REAL_FUNCTION(acos, mpfr_acos)
RILL_REAL_FUNCTION(atan, mpfr_atan)
RILL_REAL_FUNCTION(sinh, mpfr_sinh)
RILL_REAL_FUNCTION(cosh, mpfr_cosh)
RILL_REAL_FUNCTION(tanh, mpfr_tanh)
RILL_REAL_FUNCTION(asinh, mpfr_asinh)
RILL_REAL_FUNCTION(acosh, mpfr_acosh)
RILL_REAL_FUNCTION(atanh, mpfr_atanh)
RILL_REAL_FUNCTION(erf, mpfr_erf)
RILL_REAL_FUNCTION(erfc, mpfr_erfc)
RILL_REAL_FUNCTION(digamma, mpfr_digamma)
RILL_REAL_FUNCTION(sqrt, mpfr_sqrt)
RILL_REAL_FUNCTION(cbrt, mpfr_cbrt)
#undef RILL_REAL_FUNCTION
inline Real lgamma(const Real& x) {
  Real y;
  int sign;
  mpfr_lgamma(y.v, &sign, x.v, MPFR_RNDN);
  return y;
}
inline Real pow(const Real& x, const Real& y) {
  Real z;
  mpfr_pow(z.v, x.v, y.v, MPFR_RNDN);
  return z;
}
inline Real atan2(const Real& x, const Real& y) {
  Real z;
  mpfr_atan2(z.v, x.v, y.v, MPFR_RNDN);
  return z;
}

inline bool operator<(const Real& x, const Real& y) { return mpfr_less_p(x.v, y.v); }
inline bool isnan(const Real& x) { return mpfr_nan_p(x.v); }
inline bool isinf(const Real& x) { return mpfr_inf_p(x.v); }
inline bool iszero(const Real& x) { return mpfr_zero_p(x.v); }
inline double number(const Real& x) { return mpfr_get_d(x.v, MPFR_RNDN); }

}  // namespace rill::judge
