// The true cuDNN, which makes plans without a GPU (9.8 and later): for an H100, of every graph that tests have built on
// the simulated one. ./dev cuda --cudnn fetches it.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "catch.h"
#include "rill/devices/cuda/driver/cudnn_graph.h"

// cuDNN keeps memory of its own to the end; what leaks of ours, test_gpu_cudnn finds.
extern "C" int __lsan_is_turned_off();  // declared here for it is called by the sanitizer alone
extern "C" int __lsan_is_turned_off() { return 1; }

using namespace rill::cuda;
namespace fs = std::filesystem;

namespace {

fs::path source_root() {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  return root ? root : ".";
}
std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The cuDNN that ./dev cuda --cudnn has fetched, or the one of the oracle's torch, unless another is named.
void find_cudnn() {
  const fs::path wheels = source_root() / ".deps";
  for (const char* name : {"cudnn", "oracle"}) {
    if (!fs::exists(wheels / (std::string(name) + ".stamp"))) continue;  // not all of it is there
    for (const auto& python : fs::directory_iterator(wheels / name / "lib")) {
      const fs::path library = python.path() / "site-packages/nvidia/cudnn/lib/libcudnn.so.9";
      if (fs::exists(library)) setenv("RILL_CUDNN", library.c_str(), 0);
    }
  }
}

// How the plan of such a graph computes is told by the type of its first tensor.
dnn::Graph graph_of(const fs::path& file) {
  dnn::Graph g = dnn::Graph::parse(contents(file));
  for (const dnn::Setting& s : g.parts().at(0).settings)
    if (s.name == dnn::Name::tensor_type) g.without_tensor_cores = s.values.at(0) == dnn::f32;
  return g;
}

}  // namespace

TEST_CASE("cuDNN makes plans for an H100 of what was built on the simulated GPU") {
  const char* folder = std::getenv("RILL_SIMULATED_TEXTS");
  find_cudnn();
  if (!folder || !dnn::library().missing.empty())
    return skip_case(folder ? dnn::library().missing + " (./dev cuda --cudnn fetches it)" : "no graphs");
  if (dnn::library().cudnnGetVersion() < 90800) return skip_case("cuDNN before 9.8 needs a GPU for its plans");
  const dnn::OwnedDescriptor device = dnn::device_of(contents(source_root() / "tests/golden/h100/device.json"));
  const dnn::Target h100{nullptr, device.get()};
  constexpr size_t most_workspace = size_t(256) << 20;
  int count = 0;
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().extension() != ".cudnn") continue;
    const dnn::Graph g = graph_of(file.path());
    std::string why;
    const auto plan = dnn::make_plan(g, h100, most_workspace, why);
    INFO(g.text() << why);
    CHECK(plan);
    ++count;
    if (!plan) continue;
    CHECK(plan->workspace_bytes <= most_workspace);
    const auto restored = dnn::restore_plan(plan->text, h100);
    REQUIRE(restored);
    CHECK(restored->workspace_bytes == plan->workspace_bytes);
  }
  if (count == 0) return skip_case("no test has built a graph on the simulated GPU in this build folder");
  CHECK(count >= 20);  // half of the GPU's tests, as CI runs them, builds 65
}
