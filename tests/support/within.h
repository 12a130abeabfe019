// Numbers within an error of the expected ones.
#pragma once
#include <cmath>
#include <vector>

#include "catch.h"

// Whether |got - expected| <= absolute + relative |expected|. Infinities and NaN only equal themselves: a
// relative tolerance of infinity would allow anything.
inline bool within(double got, double expected, double relative, double absolute = 0) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return true;
  return std::isfinite(expected) && std::abs(got - expected) <= absolute + relative * std::abs(expected);
}

inline bool within(const std::vector<double>& got, const std::vector<double>& expected, double relative,
                   double absolute = 0) {
  if (got.size() != expected.size()) {
    UNSCOPED_INFO(got.size() << " elements, expected " << expected.size());
    return false;
  }
  for (size_t i = 0; i < got.size(); ++i)
    if (!within(got[i], expected[i], relative, absolute)) {
      UNSCOPED_INFO("element " << i << " is " << got[i] << ", expected " << expected[i]);
      return false;
    }
  return true;
}
