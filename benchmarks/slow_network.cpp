// A library to be loaded before MPI's (LD_PRELOAD), which makes the ranks of one machine as distant from each other as
// those of several: messages of MPI_Isend leave the rank one after the other at a given bandwidth, and arrive after a
// delay.
//   RILL_DELAY_US=50 RILL_BANDWIDTH_GBPS=1 LD_PRELOAD=libslow_network.so ...    collectives.py --delay 50 --bandwidth 1
//
// A send is a generalized request; MPI_Test, which rill calls while it waits, starts the real send when its time has
// come, in the order of the calls. So ranks compute meanwhile, as they would. MPI's own collectives are not delayed.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <list>

namespace {

using Clock = std::chrono::steady_clock;

double number(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atof(text) : otherwise;
}
const double delay = number("RILL_DELAY_US", 0) * 1e-6, byte = 1e-9 / number("RILL_BANDWIDTH_GBPS", 1e6);

struct Held {
  const void* data;
  int count;
  MPI_Datatype type;
  int to, tag;
  MPI_Comm comm;
  MPI_Request request;
  Clock::time_point leaves;
};
struct Sent {
  MPI_Request own, given;
};
std::deque<Held> held;
std::list<Sent> sent;
Clock::time_point free_at;  // when this rank's outgoing link is free

Clock::duration seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
}

int nothing(void*, MPI_Status* status) {
  MPI_Status_set_elements(status, MPI_BYTE, 0);
  MPI_Status_set_cancelled(status, 0);
  return MPI_SUCCESS;
}
int no_end(void*) { return MPI_SUCCESS; }
int no_cancel(void*, int) { return MPI_SUCCESS; }

void go_on() {
  const Clock::time_point now = Clock::now();
  for (; !held.empty() && held.front().leaves <= now; held.pop_front()) {
    const Held& h = held.front();
    sent.push_back({MPI_REQUEST_NULL, h.request});
    PMPI_Isend(h.data, h.count, h.type, h.to, h.tag, h.comm, &sent.back().own);
  }
  sent.remove_if([](Sent& s) {
    int done = 0;
    PMPI_Test(&s.own, &done, MPI_STATUS_IGNORE);
    if (done) MPI_Grequest_complete(s.given);
    return done != 0;
  });
}

}  // namespace

extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  int size = 0;
  MPI_Type_size(type, &size);
  free_at = std::max(free_at, Clock::now()) + seconds(double(count) * size * byte);
  MPI_Grequest_start(nothing, no_end, no_cancel, nullptr, request);
  held.push_back({data, count, type, to, tag, comm, *request, free_at + seconds(delay)});
  return MPI_SUCCESS;
}
extern "C" int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  go_on();
  return PMPI_Test(request, done, status);
}
