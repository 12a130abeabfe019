// See started.h; and what a job of several ranks needs: the plug-in, and a Session.
#include "rill/distribute/engine/started.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "rill/devices/modules.h"
#include "rill/distribute/engine/world.h"

namespace rill::distribute {

int ranks_started() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"})
    if (const char* text = std::getenv(name)) return std::max(1, std::atoi(text));
  const char* tasks = std::getenv("SLURM_NTASKS");
  return std::getenv("PMIX_RANK") && tasks ? std::max(1, std::atoi(tasks)) : 1;
}

bool has_core_each() {
  static const bool has = [] {
    int ranks = ranks_started();
    for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
      if (const char* text = std::getenv(name)) ranks = std::atoi(text);
    return ranks <= sysconf(_SC_NPROCESSORS_ONLN);
  }();
  return has;
}

World* World::now_or_alone(const Where& where) {
  World* const world = now();
  if (!world && ranks_started() > 1)
    fail("distribute",
         "the program was started as one of several ranks, and has no Session. make a distribute::Session first, and "
         "keep it until main() ends",
         where);
  return world;
}

const Mpi& Mpi::get() {
  static const Mpi only = [] {
    Mpi m;
    ModuleFunctions mpi("librill_mpi.so", "rill_mpi_version", RILL_VERSION,
                        "this rill has no librill_mpi: it was built without the feature mpi (Open MPI or MPICH)");
    mpi.find(m.begin, "rill_mpi_begin"), mpi.find(m.end, "rill_mpi_end"), mpi.find(m.abort, "rill_mpi_abort");
    mpi.find(m.group, "rill_mpi_group"), mpi.find(m.send, "rill_mpi_send"), mpi.find(m.receive, "rill_mpi_receive");
    mpi.find(m.broadcast, "rill_mpi_broadcast"), mpi.find(m.gather, "rill_mpi_gather"),
        mpi.find(m.scatter, "rill_mpi_scatter");
    mpi.find(m.all_gather, "rill_mpi_all_gather"), mpi.find(m.all_gather_blocks, "rill_mpi_all_gather_blocks");
    mpi.find(m.all_to_all_blocks, "rill_mpi_all_to_all_blocks"), mpi.find(m.test, "rill_mpi_test");
    mpi.find(m.tell, "rill_mpi_tell"), mpi.find(m.listen, "rill_mpi_listen"), mpi.find(m.heard, "rill_mpi_heard");
    mpi.find(m.window, "rill_mpi_window"), mpi.find(m.window_run, "rill_mpi_window_run");
    mpi.find(m.window_end, "rill_mpi_window_end");
    mpi.find(m.listen_again, "rill_mpi_listen_again"), mpi.find(m.stop_listening, "rill_mpi_stop_listening");
    m.why = mpi.why();
    return m;
  }();
  return only;
}

}  // namespace rill::distribute
