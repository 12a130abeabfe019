// Session: this process as one rank of a job of many, from when it is made until it ends.
//
//   int main(int argc, char** argv) {
//     distribute::Session session(argc, argv);  // mpirun -n 4 ./program
//     ...
//   }
//
// Started alone, the one rank is 0 of 1, and all functions do what they do for one. MPI is loaded where the program was
// started by mpirun or srun, and nowhere else.
//
// All ranks run one program. A rank that calls something else than the others (another function, shape, dtype or order,
// or that has ended) is found at that call, on all of them, as an error that names both ranks and both lines; so are
// ranks that wait for one another. After such an error a Session is of no more use. A rank that ends by an exception
// prints its message and ends the job.
#pragma once
#include <vector>

#include "rill/tensor/error.h"
#include "rill/tensor/shape.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

struct SessionOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  // Waiting for other ranks is an error after so many seconds: for a rank that has stopped without ending. Ranks that
  // call different things, have ended or wait for one another are found at once, whatever it is.
  double timeout = 600;
  // Sums and means of tensors on GPUs are added up by NCCL, in whatever order it likes: faster over many machines, and the
  // same bits on all ranks, but not those of the host, nor of another number of GPUs. The same on all ranks.
  bool nccl_sums = false;
};

class Session {
 public:
  // Throws where there is one already, and where the program was started as one of several ranks and this rill has no
  // librill_mpi.
  [[nodiscard]] explicit Session(int argc, char** argv, const SessionOptions& options = {},
                                 Where where = Where::current());
  [[nodiscard]] explicit Session(const SessionOptions& options = {}, Where where = Where::current());
  // Waits until all ranks have come here. One that still calls something is told.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

// This rank, from 0 on, and how many there are. Without a Session, 0 and 1; throws where there is none and the program
// was started as one of several ranks.
int64_t rank(Where where = Where::current());
int64_t size(Where where = Where::current());
// This rank among those of its machine, by what the launcher says: for the GPU that is its own,
//   set_default_device(Device(DeviceKind::gpu, int(distribute::local_rank())));
int64_t local_rank();

// Some of the ranks, in an order: collectives on a group are among these alone. One that is made of nothing is all.
class Group {
 public:
  Group() = default;
  // Throws where there is none, one stands there twice, or is no rank of the job.
  explicit Group(const std::vector<int64_t>& ranks, Where where = Where::current());
  // A move is a copy: one that was moved from would be all ranks.
  Group(const Group&) = default;
  Group& operator=(const Group&) = default;
  // How many they are.
  int64_t size(Where where = Where::current()) const;
  // This rank's place among them, or -1.
  int64_t rank(Where where = Where::current()) const;
  // Which ranks of the job they are; empty where they are all.
  const Dims& ranks() const& { return ranks_; }
  Dims ranks() const&& { return ranks_; }

 private:
  Dims ranks_;
};

}  // namespace rill::distribute

#pragma GCC visibility pop
