// oneDNN on rill's workers. It uses OpenMP, and two thread pools on the same cores would disturb each
// other: GNU OpenMP's idle threads spin for milliseconds, and that cannot be configured any more
// once it is loaded.
#pragma once

namespace rill::detail {

// Redirects oneDNN's calls of OpenMP to ours, only in that library. Returns false if it calls an unknown function, or
// is not a separate library: then it keeps OpenMP's threads.
bool redirect_openmp_calls();

}  // namespace rill::detail
