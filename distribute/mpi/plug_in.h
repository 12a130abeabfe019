// The C interface of librill_mpi: MPI's libraries differ in their ABI, and a program without a Session loads none. It
// is opened when a Session is made in a job of several ranks (world.cpp).
//
// All communication is begun here and tested by the caller until it is done, so that nothing waits inside MPI. Errors
// of MPI itself end the job, as usual.
#pragma once
#include <cstdint>

#pragma GCC visibility push(default)

extern "C" {

extern const char rill_mpi_version[];  // of rill: the library that opens this one is of the same

// MPI_Init. Gives 0, or -1 where MPI cannot be had.
int rill_mpi_begin(int* rank, int* size);
void rill_mpi_end();              // MPI_Finalize
void rill_mpi_abort(int status);  // MPI_Abort
const char* rill_mpi_library();   // "Open MPI v4.1.4"

// A communicator of these ranks, all of which must call this at once; of all for n = 0.
void* rill_mpi_group(const int* ranks, int n);

// Each returns a request. Counts and offsets are in elements of `size` bytes, and counts are below 2^31. Ranks, roots
// and the order of blocks are the group's.
void* rill_mpi_send(void* group, const void* in, int64_t count, int size, int to, int tag);
void* rill_mpi_receive(void* group, void* out, int64_t count, int size, int from, int tag);
void* rill_mpi_broadcast(void* group, void* data, int64_t count, int size, int root);
void* rill_mpi_gather(void* group, const void* in, void* out, int64_t count, int size, int root);
void* rill_mpi_scatter(void* group, const void* in, void* out, int64_t count, int size, int root);
void* rill_mpi_all_gather(void* group, const void* in, void* out, int64_t count, int size);
// Blocks of several lengths, one for each rank; counts and offsets must live until the request is done.
void* rill_mpi_all_gather_blocks(void* group, const void* in, int count, void* out, const int* counts,
                                 const int* places, int size);
void* rill_mpi_all_to_all_blocks(void* group, const void* in, const int* counts, const int* places, void* out,
                                 const int* out_counts, const int* out_places, int size);
// Whether it is done; then the request is gone.
int rill_mpi_test(void* request);

// Short messages, which are sent and received repeatedly. The first returns null if MPI has taken the message at once:
// then `in` may be overwritten, else when the request is done.
void* rill_mpi_tell(void* group, const void* in, int bytes, int to);
// Receives one from any rank into `out`, and after rill_mpi_listen_again() the next. Those of one rank are in order.
void* rill_mpi_listen(void* group, void* out, int bytes);
void rill_mpi_listen_again(void* request);
int rill_mpi_heard(void* request, int* from, int* bytes);
void rill_mpi_stop_listening(void* request);

// Memory of each rank, of so many bytes, that others access directly. All ranks must create and free it at once; these
// two wait inside MPI. Numbers: 0 f32, 1 f64, 2 i64; `change`: 0 none, 1 adds, 2 sets. Returns a request, after which
// `out` has the old values, and the memory is changed.
void* rill_mpi_window(void* group, int64_t bytes);
void* rill_mpi_window_run(void* window, int change, int number, const void* in, void* out, int64_t count, int rank,
                          int64_t at);
void rill_mpi_window_end(void* window);
}

#pragma GCC visibility pop
