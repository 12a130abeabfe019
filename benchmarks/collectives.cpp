// allreduce_BYTES: distribute::all_reduce compared with MPI_Allreduce in the same processes, and a data-parallel step
// whose buckets are sent during the backward pass, or after it. collectives.py starts this on several ranks.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <rill/distribute.h>
#include <rill/rill.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "answer.h"

using namespace rill;

namespace {

// The median of equally many calls on all ranks, also if one of them is slow.
double median_of(int calls, const std::function<void()>& call) {
  call();
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) {
    distribute::barrier();
    const double begin = bench::clock_us();
    for (int k = 0; k < calls; ++k) call();
    times.push_back((bench::clock_us() - begin) / calls);
  }
  std::nth_element(times.begin(), times.begin() + 3, times.end());
  return times[3];
}

void print(const std::string& row, const char* peer, double us) {
  if (distribute::rank() == 0)
    std::printf("{\"row\": \"%s\", \"peer\": \"%s\", \"median_us\": %.3f}\n", row.c_str(), peer, us);
}

bool sums_alone = false;  // through a slow network, which MPI's own collectives bypass

void all_reduce_of(int64_t bytes) {
  const int calls = int(std::clamp<int64_t>((int64_t(16) << 20) / bytes, 2, sums_alone ? 50 : 500));
  const std::string row = "allreduce_" + std::to_string(bytes);
  const Tensor x = full({bytes / 4}, 1.5, f32);
  print(row, "rill", median_of(calls, [&] { distribute::all_reduce(x); }));
  if (sums_alone) return;
  std::vector<float> in(size_t(bytes / 4), 1.5f), out(in.size());
  print(row, "mpi", median_of(calls, [&] {
          MPI_Allreduce(in.data(), out.data(), int(in.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        }));
}

// Twelve layers of 512 x 512: the gradients are 12 MiB, in buckets of 1 MiB.
void step() {
  std::vector<Variable> layers;
  for (int i = 0; i < 12; ++i) layers.push_back(Variable(random::normal({512, 512}) / 32.0, "w"));
  const Tensor x = random::normal({64, 512});
  const distribute::TapeOptions options{.bucket_bytes = 1 << 20};
  const auto forward = [&] {
    Tensor h = x;
    for (const Variable& w : layers) h = tanh(matmul(h, w));
    return sum(square(h));
  };
  print("distributed_step", "overlapped", median_of(5, [&] {
          distribute::GradientTape tape(options);
          tape.gradient(forward(), layers);
        }));
  print("distributed_step", "afterwards", median_of(5, [&] {
          GradientTape tape;
          distribute::mean_of_gradients(tape.gradient(forward(), layers), options);
        }));
  print("distributed_step", "alone", median_of(5, [&] {
          GradientTape tape;
          tape.gradient(forward(), layers);
        }));
}

}  // namespace

int main(int argc, char** argv) {
  distribute::Session session(argc, argv);
  if (distribute::size() == 1) {
    std::fprintf(stderr, "start it on several ranks: collectives.py does\n");
    return 1;
  }
  const int64_t most = argc > 1 ? std::atoll(argv[1]) : 16 << 20;
  sums_alone = argc > 2 && std::string(argv[2]) == "sums";
  for (int64_t bytes = 4; bytes <= most; bytes *= 8) all_reduce_of(bytes);
  if (!sums_alone) step();
}
