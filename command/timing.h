// How long calls take: printed by `run --time` and `bench`.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace command {

// The seconds of each call; a progress bar shows how many are done.
std::vector<double> time_calls(const std::function<void()>& call, int64_t count);
// Calls for `seconds`, and at least three times.
std::vector<double> time_for(const std::function<void()>& call, double seconds);
// "median 1.23 ms, fastest 1.20 ms, 90 % within 1.31 ms, 100 calls".
std::string summary_of(std::vector<double> seconds);
double median_of(std::vector<double> seconds);

}  // namespace command
