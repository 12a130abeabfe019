// librill_mpi: the one library that is linked with MPI. See plug_in.h.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "rill/distribute/mpi/plug_in.h"

#include <dlfcn.h>
#include <mpi.h>

#include <map>
#include <string>
#include <vector>

namespace {

// MPI counts in int, so elements are its units, not bytes.
MPI_Datatype type_of(int size) {
  static std::map<int, MPI_Datatype> known;
  const auto [at, is_new] = known.try_emplace(size, MPI_BYTE);
  if (is_new && size > 1) {
    MPI_Type_contiguous(size, MPI_BYTE, &at->second);
    MPI_Type_commit(&at->second);
  }
  return at->second;
}

MPI_Comm comm_of(void* group) { return *static_cast<MPI_Comm*>(group); }

template <class Begin>
void* begun(const Begin& begin) {
  auto* request = new MPI_Request(MPI_REQUEST_NULL);
  begin(request);
  return request;
}

}  // namespace

extern "C" {

extern const char rill_mpi_version[] = RILL_VERSION;

int rill_mpi_begin(int* rank, int* size) {
  // Open MPI's own plug-ins look for its symbols among the program's, where a library that was opened late has none.
  Dl_info mpi;
  if (dladdr(reinterpret_cast<const void*>(&MPI_Init_thread), &mpi) != 0 && mpi.dli_fname)
    dlopen(mpi.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) return -1;
  if (provided < MPI_THREAD_SERIALIZED) return -1;
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
  return 0;
}

void rill_mpi_end() { MPI_Finalize(); }
void rill_mpi_abort(int status) { MPI_Abort(MPI_COMM_WORLD, status); }

const char* rill_mpi_library() {
  static const std::string text = [] {
    char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int n = 0;
    MPI_Get_library_version(name, &n);
    const std::string all(name, size_t(n));
    return all.substr(0, all.find_first_of(",\n"));
  }();
  return text.c_str();
}

void* rill_mpi_group(const int* ranks, int n) {
  auto* comm = new MPI_Comm(MPI_COMM_NULL);
  if (n == 0) {
    MPI_Comm_dup(MPI_COMM_WORLD, comm);
    return comm;
  }
  MPI_Group all, some;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, n, ranks, &some);
  MPI_Comm_create_group(MPI_COMM_WORLD, some, 0, comm);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  return comm;
}

void* rill_mpi_send(void* group, const void* in, int64_t count, int size, int to, int tag) {
  return begun([&](MPI_Request* r) { MPI_Isend(in, int(count), type_of(size), to, tag, comm_of(group), r); });
}
void* rill_mpi_receive(void* group, void* out, int64_t count, int size, int from, int tag) {
  return begun([&](MPI_Request* r) { MPI_Irecv(out, int(count), type_of(size), from, tag, comm_of(group), r); });
}
void* rill_mpi_broadcast(void* group, void* data, int64_t count, int size, int root) {
  return begun([&](MPI_Request* r) { MPI_Ibcast(data, int(count), type_of(size), root, comm_of(group), r); });
}
void* rill_mpi_gather(void* group, const void* in, void* out, int64_t count, int size, int root) {
  const MPI_Datatype type = type_of(size);
  return begun(
      [&](MPI_Request* r) { MPI_Igather(in, int(count), type, out, int(count), type, root, comm_of(group), r); });
}
void* rill_mpi_scatter(void* group, const void* in, void* out, int64_t count, int size, int root) {
  const MPI_Datatype type = type_of(size);
  return begun(
      [&](MPI_Request* r) { MPI_Iscatter(in, int(count), type, out, int(count), type, root, comm_of(group), r); });
}
void* rill_mpi_all_gather(void* group, const void* in, void* out, int64_t count, int size) {
  const MPI_Datatype type = type_of(size);
  return begun([&](MPI_Request* r) { MPI_Iallgather(in, int(count), type, out, int(count), type, comm_of(group), r); });
}
void* rill_mpi_all_gather_blocks(void* group, const void* in, int count, void* out, const int* counts,
                                 const int* places, int size) {
  const MPI_Datatype type = type_of(size);
  return begun([&](MPI_Request* r) { MPI_Iallgatherv(in, count, type, out, counts, places, type, comm_of(group), r); });
}
void* rill_mpi_all_to_all_blocks(void* group, const void* in, const int* counts, const int* places, void* out,
                                 const int* out_counts, const int* out_places, int size) {
  const MPI_Datatype type = type_of(size);
  return begun([&](MPI_Request* r) {
    MPI_Ialltoallv(in, counts, places, type, out, out_counts, out_places, type, comm_of(group), r);
  });
}

int rill_mpi_test(void* request) {
  auto* r = static_cast<MPI_Request*>(request);
  int done = 0;
  MPI_Test(r, &done, MPI_STATUS_IGNORE);
  if (done) delete r;
  return done;
}
}
