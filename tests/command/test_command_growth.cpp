// `rill`, the program, on files of thousands of tensors, nodes and events: work that grows as their number (growth.h).
#include <memory>

#include "catch.h"
#include "command_helpers.h"
#include "growth.h"
#include "io_helpers.h"
#include "rill/rill.h"
#include "rill/serialize/serialize.h"
#include "rill/serialize/summary.h"

using namespace rill;

namespace {

// A run of the program in a folder where `write` has put what it reads.
template <class W>
growth::MakeWalk run_on(W write, const std::string& arguments) {
  return [=](int n) -> growth::Walk {
    auto folder = std::make_shared<Folder>();
    write(n, *folder);
    const std::string line = "cd " + folder->path() + " && " + command_tests::program() + " " + arguments + " >out.txt";
    return [=, kept = folder] { REQUIRE(std::system(line.c_str()) == 0); };
  };
}

}  // namespace

TEST_CASE("inspect, diff and show of files of thousands of things") {
  const auto tensors = [](int n, const Folder& folder) {
    NamedTensors all;
    for (int i = 0; i < n; ++i) all.emplace("layer/" + std::to_string(i), full({2}, i));
    save(folder / "a.safetensors", all);
    save(folder / "b.npz", all);
  };
  for (const char* arguments :
       {"inspect a.safetensors --stats", "inspect b.npz --largest", "diff a.safetensors b.npz --all"})
    growth::is_linear(arguments, run_on(tensors, arguments));
  const auto logs = [](int n, const Folder& folder) {
    summary::Writer writer(folder.path());
    for (int i = 0; i < n; ++i) writer.scalar("loss/" + std::to_string(i % 100), i, i);
    for (int i = 0; i < n; ++i) writer.scalar("once/" + std::to_string(i), i, 0);
  };
  growth::is_linear("inspect of events", run_on(logs, "inspect ."));
  const auto model = [](int n, const Folder& folder) {
    const auto f = function("f", [n](const Tensor& x) {
      Tensor y = x;
      for (int i = 0; i < n; ++i) y = i % 2 ? sin(y) : y * x;
      return y;
    });
    export_model(f, folder / "m.rill", {.signature = {spec(f32, {}, "x")}});
  };
  growth::is_linear("show", run_on(model, "show m.rill"), 500);
}
