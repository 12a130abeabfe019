#include "compare.h"

#include <cmath>
#include <sstream>

#include "same.h"

namespace oracle {

using namespace rill;

namespace {

struct Precision {
  double epsilon, smallest, largest;
};
Precision precision(DType d) {
  switch (real_of(d)) {
    case DType::f16: return {0x1p-10, 0x1p-24, 65504};
    case DType::bf16: return {0x1p-7, 0x1p-133, 0x1.fep127};
    case DType::f32: return {0x1p-23, 0x1p-149, 0x1.fffffep127};
    default: return {0x1p-52, 0x1p-1074, 0x1.fffffffffffffp1023};
  }
}

double ulp_at(double x, const Precision& p) {
  if (x == 0 || !std::isfinite(x)) return p.smallest;
  return std::max(p.smallest, std::ldexp(p.epsilon, std::ilogb(x)));
}

// Real parts, or alternately real and imaginary ones.
std::vector<double> numbers(const Tensor& t) {
  if (!is_complex(t.dtype())) return t.astype(f64).to_vector<double>();
  std::vector<double> re = real(t).astype(f64).to_vector<double>(), im = imag(t).astype(f64).to_vector<double>(), out;
  for (size_t i = 0; i < re.size(); ++i) out.push_back(re[i]), out.push_back(im[i]);
  return out;
}

bool close(double got, double want, double unit, const Expected& e, double absolute, const Precision& p) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  if (got == want) return e.exact || absolute > 0 || want != 0 || std::signbit(got) == std::signbit(want);
  if (e.exact) return false;
  // If the judge rounds to infinity, the largest number may be a unit away.
  if (std::isinf(want) && !std::isinf(got))
    return e.ulp > 0 && std::abs(got) >= p.largest * (1 - e.ulp * p.epsilon) && (got > 0) == (want > 0);
  if (std::isinf(got) && !std::isinf(want))
    return e.ulp > 0 && std::abs(want) >= p.largest * (1 - e.ulp * p.epsilon) && (got > 0) == (want > 0);
  return std::abs(got - want) <= e.ulp * unit + absolute;
}

std::string element(const Tensor& t, int64_t i) { return to_string(t.reshape({-1})(i)); }

}  // namespace

static std::string difference(const Tensor& got, const Expected& e) {
  const Tensor& want = e.value;
  if (got.dtype() != want.dtype() || got.shape() != want.shape())
    return "gives " + to_string(got.spec()) + ", not " + to_string(want.spec());
  if (!is_differentiable(want.dtype()) && e.exact) {
    if (same_bits(got, want)) return "";
    Tensor differs = got != want;
    const int64_t i = argmax(differs).item<int64_t>();
    return "element " + std::to_string(i) + " is " + element(got, i) + ", not " + element(want, i);
  }
  const Precision p = precision(want.dtype());
  const std::vector<double> a = numbers(got), b = numbers(want),
                            off = e.exact ? std::vector<double>{0} : e.abs.to_vector<double>();
  const size_t parts = is_complex(want.dtype()) ? 2 : 1;
  std::string text;
  double worst = -1;
  for (size_t i = 0; i < a.size(); ++i) {
    const double size =
        parts == 2 && std::isfinite(b[i ^ 1]) && std::isfinite(b[i]) ? std::hypot(b[i], b[i ^ 1]) : b[i];
    const double unit = ulp_at(size, p), absolute = off.size() == 1 ? off[0] : off[i / parts];
    const bool ok = close(a[i], b[i], unit, e, absolute, p) &&
                    !(e.exact && a[i] == 0 && b[i] == 0 && std::signbit(a[i]) != std::signbit(b[i]));
    if (ok) continue;
    const double units = std::isfinite(a[i] - b[i]) ? std::abs(a[i] - b[i]) / unit : HUGE_VAL;
    if (units <= worst) continue;
    worst = units;
    std::ostringstream out;
    out.precision(17);
    out << "element " << i / parts << " is " << a[i] << ", not " << b[i] << ": off by " << units << " ulp, " << e.ulp
        << " ulp";
    if (absolute > 0) out << " + " << absolute;
    text = out.str() + " are allowed";
  }
  return text;
}

std::string difference(const Values& got, const std::vector<Expected>& want) {
  if (got.size() != want.size()) return std::to_string(got.size()) + " results, not " + std::to_string(want.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (std::string d = difference(got[i].to("cpu:0"), want[i]); !d.empty())
      return (got.size() > 1 ? "result " + std::to_string(i) + " " : "") + d;
  return "";
}

std::string difference(const Values& got, const Values& eager) {
  if (got.size() != eager.size()) return "another number of results than eager";
  for (size_t i = 0; i < got.size(); ++i) {
    if (same(got[i], eager[i])) continue;
    if (is_complex(got[i].dtype()) && got[i].dtype() == eager[i].dtype() && same(real(got[i]), real(eager[i])) &&
        same(imag(got[i]), imag(eager[i])))
      continue;
    return "result " + std::to_string(i) + " has other bits than eager: " + to_string(got[i]) + " and " +
           to_string(eager[i]);
  }
  return "";
}

}  // namespace oracle
