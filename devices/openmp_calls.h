// oneDNN on rill's workers. It is written for OpenMP, and two pools of threads on the same cores would be in each
// other's way: GNU OpenMP's threads spin for milliseconds when they have nothing to do, and that cannot be set any more
// once it is loaded.
#pragma once

namespace rill::detail {

// Makes oneDNN's calls of OpenMP calls of ours, in that library alone. False where it calls something that is not known
// here, or is not a library of its own: then it stays with OpenMP's threads.
bool redirect_openmp_calls();

}  // namespace rill::detail
