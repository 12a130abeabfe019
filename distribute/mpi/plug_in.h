// What librill_mpi gives: C alone, for MPI's libraries differ in their ABI, and a program without a Session loads none.
// It is opened when a Session is made in a job of several ranks (world.cpp).
//
// All communication is begun here and tested by the caller until it is done, so that nothing waits inside MPI. What MPI
// itself finds wrong ends the job, as is its habit.
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

// A communicator of these ranks, which all of them ask for at once; of all for n = 0.
void* rill_mpi_group(const int* ranks, int n);

// Each gives a request. Counts and places are in elements of `size` bytes, and counts are below 2^31. Ranks, roots and
// the order of blocks are the group's.
void* rill_mpi_send(void* group, const void* in, int64_t count, int size, int to, int tag);
void* rill_mpi_receive(void* group, void* out, int64_t count, int size, int from, int tag);
void* rill_mpi_broadcast(void* group, void* data, int64_t count, int size, int root);
void* rill_mpi_gather(void* group, const void* in, void* out, int64_t count, int size, int root);
void* rill_mpi_scatter(void* group, const void* in, void* out, int64_t count, int size, int root);
void* rill_mpi_all_gather(void* group, const void* in, void* out, int64_t count, int size);
// Blocks of several lengths, one a rank; counts and places live until the request is done.
void* rill_mpi_all_gather_blocks(void* group, const void* in, int count, void* out, const int* counts,
                                 const int* places, int size);
void* rill_mpi_all_to_all_blocks(void* group, const void* in, const int* counts, const int* places, void* out,
                                 const int* out_counts, const int* out_places, int size);
// Whether it is done; then the request is gone.
int rill_mpi_test(void* request);
}

#pragma GCC visibility pop
