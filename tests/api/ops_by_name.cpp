// librill_ops, whose ops this program does not call and which it therefore does not link, is opened where a name asks for one of
// them: a graph in a file may hold any op. Where it is not beside librill, the error says so.
#include <rill/ops/op.h>
#include <rill/rill.h>
#include <rill/tensor/version.h>
#include <rill/trace/graph_text.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "expect.h"
#include "loaded.h"

using namespace rill;

namespace {

std::string graph_of(const std::string& op) {
  auto root = function("root", [](Tensor x) { return sqrt(x); });
  std::string text = to_text(root.graph(spec(f32, {2, 2})));
  return text.replace(text.find("sqrt("), 4, op);
}

void all_at_once() {
  const std::string dawson = graph_of("dawsn"), root = graph_of("cholesky");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      const Tensor x = tensor({{4.f, 2.f}, {2.f, 1.25f}});
      const Tensor y = parse_graph(i % 2 ? root : dawson).run({{"arg0", x}})[0];
      EXPECT(std::abs(y(1, 1).item<float>() - (i % 2 ? 0.5f : 0.49582707f)) < 1e-5f);
    });
  for (std::thread& t : threads) t.join();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    EXPECT(has(message_of([] { parse_graph(graph_of("dawsn")); }), "librill_ops"));
    return 0;
  }
  const std::string librill = loaded("librill.so");
  EXPECT(find_op("sqrt") && loaded("librill_ops").empty());
  all_at_once();
  EXPECT(librill.empty() || !loaded("librill_ops").empty());
  EXPECT(find_op("cholesky") && find_op("fft") && !find_op("no_op_of_that_name"));
  bool listed = false;
  for (const Op* op : all_ops()) listed = listed || op->name == "svd";
  EXPECT(listed);

  if (librill.empty()) return 0;  // a static one holds all
  const auto folder = std::filesystem::temp_directory_path() / ("rill-alone-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string major = std::to_string(RILL_VERSION_MAJOR), minor = "." + std::to_string(RILL_VERSION_MINOR);
  std::filesystem::copy_file(librill, folder / ("librill.so." + major + (RILL_VERSION_MAJOR == 0 ? minor : "")));
  setenv("LD_LIBRARY_PATH", folder.c_str(), 1);
  const int status = std::system(("'" + std::string(argv[0]) + "' alone").c_str());
  std::filesystem::remove_all(folder);
  EXPECT(status == 0);
}
