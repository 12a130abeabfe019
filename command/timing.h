// How long calls take: what `run --time` and `bench` print.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace command {

// Seconds of each of the calls; a progress bar shows how many are done.
std::vector<double> time_calls(const std::function<void()>& call, int64_t count);
// Calls until `seconds` are over, and at least three times.
std::vector<double> time_for(const std::function<void()>& call, double seconds);
// "median 1.23 ms, fastest 1.20 ms, 90 % within 1.31 ms, 100 calls".
std::string summary_of(std::vector<double> seconds);
double median_of(std::vector<double> seconds);

}  // namespace command
