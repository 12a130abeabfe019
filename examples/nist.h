// Two sets of the Statistical Reference Datasets for nonlinear regression of the U.S. National Institute of Standards
// and Technology (https://www.itl.nist.gov/div898/strd/nls/nls_main.shtml), with the certified parameters and residual
// sums of squares: examples/least_squares.cpp fits them and tests/matrices/test_least_squares.cpp checks the results.
#pragma once
#include <rill/rill.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace nist {

struct Problem {
  std::string name;
  std::vector<double> y, x;
  rill::Tensor (*model)(const rill::Tensor& x, const rill::Tensor& b);  // the predicted y
  std::vector<std::vector<double>> starts;                              // as given in the data set
  std::vector<double> certified;
  double residual_sum;
};

inline std::vector<Problem> problems() {
  using rill::Tensor;
  return {{"Misra1a (lower difficulty)",
           {10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.40, 75.47, 81.78},
           {77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0},
           [](const Tensor& x, const Tensor& b) { return b(0) * (1 - exp(-b(1) * x)); },
           {{500, 0.0001}, {250, 0.0005}},
           {2.3894212918e+02, 5.5015643181e-04},
           1.2455138894e-01},
          {"Thurber (higher difficulty)",
           {80.574,   84.248,   87.264,   87.195,   89.076,   89.608,   89.868,   90.101,   92.405,   95.854,
            100.696,  101.060,  401.672,  390.724,  567.534,  635.316,  733.054,  759.087,  894.206,  990.785,
            1090.109, 1080.914, 1122.643, 1178.351, 1260.531, 1273.514, 1288.339, 1327.543, 1353.863, 1414.509,
            1425.208, 1421.384, 1442.962, 1464.350, 1468.705, 1447.894, 1457.628},
           {-3.067, -2.981, -2.921, -2.912, -2.840, -2.797, -2.702, -2.699, -2.633, -2.481, -2.363, -2.322, -1.501,
            -1.460, -1.274, -1.212, -1.100, -1.046, -0.915, -0.714, -0.566, -0.545, -0.400, -0.309, -0.109, -0.103,
            0.010,  0.119,  0.377,  0.790,  0.963,  1.006,  1.115,  1.572,  1.841,  2.047,  2.200},
           [](const Tensor& x, const Tensor& b) {
             return (b(0) + x * (b(1) + x * (b(2) + x * b(3)))) / (1 + x * (b(4) + x * (b(5) + x * b(6))));
           },
           {{1000, 1000, 400, 40, 0.7, 0.3, 0.03}, {1300, 1500, 500, 75, 1, 0.4, 0.05}},
           {1.2881396800e+03, 1.4910792535e+03, 5.8323836877e+02, 7.5416644291e+01, 9.6629502864e-01, 3.9797285797e-01,
            4.9727297349e-02},
           5.6427082397e+03}};
}

// The x of A x = b, by elimination with row exchanges: a few numbers on the host.
inline std::vector<double> solved(std::vector<std::vector<double>> a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k; i < n; ++i)
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    std::swap(a[k], a[pivot]), std::swap(b[k], b[pivot]);
    for (size_t i = k + 1; i < n; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (size_t j = k; j < n; ++j) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  }
  for (size_t k = n; k-- > 0;) {
    for (size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

struct Fit {
  std::vector<double> parameters;
  double residual_sum;
  int steps;
};

// Least squares by Gauss-Newton steps, damped as by Levenberg and Marquardt: (J^T J + damping D) step = -J^T r, where D
// is the diagonal of J^T J and J the Jacobian of the residuals, from the tape.
inline Fit fit(const Problem& p, std::vector<double> b) {
  using namespace rill;
  const Tensor x = tensor(p.x), y = tensor(p.y);
  auto residuals = function(p.name, [&](const Tensor& b) { return p.model(x, b) - y; });
  auto jacobian = function(p.name + " Jacobian", jacrev([&](const Tensor& b) { return p.model(x, b) - y; }));
  const auto sum_of_squares = [&](const std::vector<double>& b) {
    return sum(square(residuals(tensor(b)))).item<double>();
  };
  double damping = 1e-3, now = sum_of_squares(b);
  int steps = 0;
  for (double change = 1; change > 1e-11 && steps < 1000; ++steps) {
    const Tensor r = residuals(tensor(b)), j = jacobian(tensor(b));
    const auto normal = matmul(transpose(j), j).to_vector<double>(),
               slope = matmul(transpose(j), r).to_vector<double>();
    std::vector<std::vector<double>> a(b.size(), std::vector<double>(b.size()));
    std::vector<double> down(b.size()), next = b;
    for (size_t i = 0; i < b.size(); ++i) {
      for (size_t k = 0; k < b.size(); ++k) a[i][k] = normal[i * b.size() + k];
      a[i][i] *= 1 + damping;
      down[i] = -slope[i];
    }
    const std::vector<double> step = solved(a, down);
    change = 0;
    for (size_t i = 0; i < b.size(); ++i) {
      next[i] += step[i];
      change = std::max(change, std::abs(step[i] / next[i]));
    }
    const double then = sum_of_squares(next);
    if (then <= now * (1 + 1e-13)) {  // the last steps change less than the sum's rounding
      b = next, now = then, damping /= 10;
    } else {
      damping *= 10, change = 1;
    }
  }
  return {b, now, steps};
}

}  // namespace nist
