// Session: this process as one rank of a job of many, for the Session's lifetime.
//
//   int main(int argc, char** argv) {
//     distribute::Session session(argc, argv);  // mpirun -n 4 ./program
//     ...
//   }
//
// Started alone, it is rank 0 of 1, and all functions work for one rank. MPI is only loaded if the program was started
// by mpirun or srun.
//
// All ranks run one program. If a rank makes another call than the others (another function, shape, dtype or order, or
// if it has ended), all of them throw at that call, with an error that names both ranks and both lines; so do ranks
// that wait for one another. After such an error a Session is unusable. A rank that ends by an exception prints its
// message and ends the job.
#pragma once
#include <vector>

#include "rill/tensor/error.h"
#include "rill/tensor/shape.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

struct SessionOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  // Waiting for other ranks is an error after so many seconds: for a rank that has stopped without ending. Ranks that
  // make different calls, have ended or wait for one another are found at once, independently of it.
  double timeout = 600;
  // NCCL adds up sums and means of tensors on GPUs, in any order: faster over many machines, with the same bits on all
  // ranks, but not those of the host, nor of another number of GPUs. Must be the same on all ranks.
  bool nccl_sums = false;
};

class Session {
 public:
  // Throws where there is one already, and where the program was started as one of several ranks and this rill has no
  // librill_mpi.
  [[nodiscard]] explicit Session(int argc, char** argv, const SessionOptions& options = {},
                                 Where where = Where::current());
  [[nodiscard]] explicit Session(const SessionOptions& options = {}, Where where = Where::current());
  // Waits until all ranks have reached it. Ranks that still make calls get an error.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

// This rank, from 0 on, and the number of ranks. Without a Session, 0 and 1; throws if there is none and the program
// was started as one of several ranks.
int64_t rank(Where where = Where::current());
int64_t size(Where where = Where::current());
// This rank among those of its machine, according to the launcher: to use its own GPU,
//   set_default_device(Device(DeviceKind::gpu, int(distribute::local_rank())));
int64_t local_rank();

// Some of the ranks, in an order: collectives on a group involve only these. A default one has all ranks.
class Group {
 public:
  Group() = default;
  // Throws if it is empty, a rank occurs twice, or is not in the job.
  explicit Group(const std::vector<int64_t>& ranks, Where where = Where::current());
  // A move is a copy: one that was moved from would be all ranks.
  Group(const Group&) = default;
  Group& operator=(const Group&) = default;
  // How many they are.
  int64_t size(Where where = Where::current()) const;
  // This rank's index in it, or -1.
  int64_t rank(Where where = Where::current()) const;
  // Which ranks of the job they are; empty where they are all.
  const Dims& ranks() const& { return ranks_; }
  Dims ranks() const&& { return ranks_; }

 private:
  Dims ranks_;
};

}  // namespace rill::distribute

#pragma GCC visibility pop
