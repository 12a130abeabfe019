// How this process was started: as one of how many ranks, by what a launcher says to MPI in the environment.
#pragma once

namespace rill::distribute {

// How many ranks the launcher has started; 1 where nobody has.
int ranks_started();
// Whether each rank of this machine has a core, by what the launcher says of how many there are here.
bool has_core_each();

}  // namespace rill::distribute
