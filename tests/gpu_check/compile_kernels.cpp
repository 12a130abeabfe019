// Compiles kernels ahead, for a GPU that is not there: compile_kernels ARCHITECTURE SECONDS FOLDER.
//
// FOLDER holds the texts of the kernels that tests have started on the simulated GPU (RILL_SIMULATED_TEXTS). What comes
// of them goes where rill looks for it, into RILL_CACHE_DIR, under the version of the NVRTC that RILL_NVRTC names. What
// is there already costs nothing; kernels that cannot be begun within SECONDS are left to the GPU's own machine. It
// says how many there are, how many were compiled, and which took more than 3 s of processor time or 200 KB.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "rill/devices/cuda/kernel_text.h"
#include "rill/devices/cuda/nvrtc.h"

using namespace rill;

namespace {

double processor_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// The kernels of a folder, without the prelude that stands in front of each; those of another version are left out.
std::vector<std::string> kernels_in(const std::filesystem::path& folder) {
  std::vector<std::string> all;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".cu") continue;
    std::ifstream in(file.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (text.starts_with(cuda::prelude())) all.push_back(text.substr(cuda::prelude().size()));
  }
  return all;
}

std::string last_line(const std::string& text) { return text.substr(text.rfind("RILL_KERNEL(k, ")); }

}  // namespace

int main(int count, char** words) {
  if (count != 4) return std::fprintf(stderr, "compile_kernels ARCHITECTURE SECONDS FOLDER\n"), 2;
  const int architecture = std::atoi(words[1]);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(words[2]));
  if (const std::string none = cuda::no_nvrtc_reason(); !none.empty())
    return std::fprintf(stderr, "%s\n", none.c_str()), 1;
  const std::vector<std::string> kernels = kernels_in(words[3]);
  std::atomic<size_t> next = 0, done = 0, failed = 0;
  const auto work = [&] {
    for (size_t i; std::chrono::steady_clock::now() < end && (i = next++) < kernels.size();) try {
        const double begin = processor_seconds();
        const size_t bytes = cuda::machine_code(kernels[i], architecture).size();
        const double seconds = processor_seconds() - begin;
        ++done;
        if (seconds > 3 || bytes > 200'000)
          std::printf("%.1f s, %zu bytes: %.120s\n", seconds, bytes, last_line(kernels[i]).c_str());
      } catch (const std::exception& e) {
        ++failed;
        std::printf("%s\n", e.what());
      }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  std::printf("%zu of %zu kernels are compiled for sm_%d by NVRTC %s, %zu failed\n", size_t(done), kernels.size(),
              architecture, cuda::nvrtc_version(architecture).c_str(), size_t(failed));
  return failed > 0;
}
