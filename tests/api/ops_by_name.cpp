// librill_ops, whose ops this program does not call and which it therefore does not link, is opened where a name asks for one of
// them: a graph in a file may hold any op.
#include <rill/ops/op.h>
#include <rill/rill.h>
#include <rill/trace/graph_text.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "expect.h"

using namespace rill;

static bool is_loaded(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  const std::string all{std::istreambuf_iterator<char>(maps), {}};
  return all.find(library) != std::string::npos;
}

int main() {
  const bool is_static = !is_loaded("librill.so");
  auto root = function("root", [](Tensor x) { return sqrt(x); });
  std::string text = to_text(root.graph(spec(f32, {3})));
  EXPECT(find_op("sqrt") && (is_static || !is_loaded("librill_ops")));

  text.replace(text.find("sqrt"), 4, "dawsn");
  std::vector<std::thread> threads;  // the first to ask opens it, and the others wait
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      const Tensor y = parse_graph(text).run({{"arg0", tensor({1.f, 2.f, 0.5f})}})[0];
      EXPECT(std::abs(y(0).item<float>() - 0.53807951f) < 1e-6f);
    });
  for (std::thread& t : threads) t.join();
  EXPECT(is_static || is_loaded("librill_ops"));
  EXPECT(find_op("cholesky") && find_op("fft") && !find_op("no_op_of_that_name"));

  bool listed = false;
  for (const Op* op : all_ops()) listed = listed || op->name == "svd";
  EXPECT(listed);
}
