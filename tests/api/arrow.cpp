// Arrow tables as a user reads and writes them. With a folder as argument: reads each file of it whose name begins with
// "in_", and writes it anew as a file and as a stream for test_arrow.py.
#include <rill/rill.h>
#include <rill/serialize.h>

#include <filesystem>

#include "expect.h"

using namespace rill;

int main(int argc, char** argv) {
  if (argc == 1) {
    const Table houses{{"rooms", "area", "city"}, {tensor({2, 3}), tensor({41.5, 72.0}), tensor({"Ulm", "Kiel"})}};
    write_arrow("arrow/houses.arrow", houses);
    const Table t = read_arrow("arrow/houses.arrow", {.columns = {"rooms", "area"}});
    EXPECT(t.stacked().to_vector<float>() == std::vector<float>{2, 41.5f, 3, 72});
    return 0;
  }
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("in_")) continue;
    const Table t = read_arrow(entry.path().string(), {.masks = true});
    const std::string to = (entry.path().parent_path() / ("out_" + entry.path().stem().string())).string();
    write_arrow(to + ".arrow", t);
    write_arrow(to + ".arrows", t);
  }
}
