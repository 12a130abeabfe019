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

constexpr int tag_of_short = 0;

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
  // Open MPI's own plug-ins look for its symbols among the program's, which lack those of a library that was opened
  // late.
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

void* rill_mpi_tell(void* group, const void* in, int bytes, int to) {
  MPI_Request request;
  MPI_Isend(in, bytes, MPI_BYTE, to, tag_of_short, comm_of(group), &request);
  int done = 0;
  MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  return done ? nullptr : new MPI_Request(request);
}
void* rill_mpi_listen(void* group, void* out, int bytes) {
  auto* r = new MPI_Request(MPI_REQUEST_NULL);
  MPI_Recv_init(out, bytes, MPI_BYTE, MPI_ANY_SOURCE, tag_of_short, comm_of(group), r);
  MPI_Start(r);
  return r;
}
void rill_mpi_listen_again(void* request) { MPI_Start(static_cast<MPI_Request*>(request)); }
int rill_mpi_heard(void* request, int* from, int* bytes) {
  MPI_Status status;
  int done = 0;
  MPI_Test(static_cast<MPI_Request*>(request), &done, &status);
  if (done) *from = status.MPI_SOURCE, MPI_Get_count(&status, MPI_BYTE, bytes);
  return done;
}
void rill_mpi_stop_listening(void* request) {
  auto* r = static_cast<MPI_Request*>(request);
  MPI_Cancel(r);
  MPI_Wait(r, MPI_STATUS_IGNORE);
  MPI_Request_free(r);
  delete r;
}

void* rill_mpi_window(void* group, int64_t bytes) {
  auto* window = new MPI_Win(MPI_WIN_NULL);
  void* base = nullptr;
  constexpr int64_t page = 4096;  // MPICH 4.0 lets the memory of neighbours overlap where it ends elsewhere
  MPI_Win_allocate(MPI_Aint((bytes / page + 1) * page), 1, MPI_INFO_NULL, comm_of(group), &base, window);
  MPI_Win_lock_all(0, *window);
  return window;
}
void* rill_mpi_window_run(void* window, int change, int number, const void* in, void* out, int64_t count, int rank,
                          int64_t at) {
  const MPI_Datatype type = number == 0 ? MPI_FLOAT : number == 1 ? MPI_DOUBLE : MPI_INT64_T;
  const MPI_Op op = change == 0 ? MPI_NO_OP : change == 1 ? MPI_SUM : MPI_REPLACE;
  return begun([&](MPI_Request* r) {
    MPI_Rget_accumulate(in, int(count), type, out, int(count), type, rank, MPI_Aint(at), int(count), type, op,
                        *static_cast<MPI_Win*>(window), r);
  });
}
void rill_mpi_window_end(void* window) {
  auto* w = static_cast<MPI_Win*>(window);
  MPI_Win_unlock_all(*w);
  MPI_Win_free(w);
  delete w;
}
}
