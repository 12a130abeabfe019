// Tables of thousands of rows and of columns, as CSV and as Arrow files: work that grows as their number (growth.h).
#include <memory>

#include "catch.h"
#include "growth.h"
#include "io_helpers.h"
#include "rill/data.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "rill/serialize/serialize.h"

using namespace rill;

namespace {

Table many_rows(int n) {
  std::vector<std::string> words;
  for (int i = 0; i < n; ++i) words.push_back("word " + std::to_string(i % 100) + (i % 7 ? "" : ", \"quoted\""));
  return {{"i", "x", "text"}, {arange(n), arange(n).astype(f32) / 3, tensor(words)}};
}
Table many_columns(int n) {
  Table t;
  for (int i = 0; i < n; ++i) t.names.push_back("c" + std::to_string(i)), t.columns.push_back(full({3}, i));
  return t;
}

}  // namespace

TEST_CASE("tables of many rows and of many columns") {
  for (const auto& [shape, make] :
       {std::pair<std::string, Table (*)(int)>("rows", many_rows), {"columns", many_columns}}) {
    for (const char* name : {"t.csv", "t.arrow"}) {
      const bool csv = name[2] == 'c';
      const auto write = [name, csv, make = make](int n, const Folder& folder) {
        if (csv) write_csv(folder / name, make(n));
        else write_arrow(folder / name, make(n));
      };
      growth::is_linear(std::string("writing ") + name + ", " + shape, [write](int n) -> growth::Walk {
        auto folder = std::make_shared<Folder>();
        return [=] { write(n, *folder); };
      });
      growth::is_linear(std::string("reading ") + name + ", " + shape, [=](int n) -> growth::Walk {
        auto folder = std::make_shared<Folder>();
        write(n, *folder);
        return [=] {
          if (csv) read_csv(*folder / name);
          else read_arrow(*folder / name);
        };
      });
    }
  }
}

TEST_CASE("pipelines of many columns") {
  growth::is_linear("data::csv", [](int n) -> growth::Walk {
    auto folder = std::make_shared<Folder>();
    write_csv(*folder / "t.csv", many_columns(n));
    return [=] { data::csv(*folder / "t.csv").batch(2).count(); };
  });
}

TEST_CASE("weights by many rules") {
  growth::is_linear("load_weights", [](int n) -> growth::Walk {
    std::map<std::string, Variable> model;
    NamedTensors file;
    LoadWeightsOptions options;
    for (int i = 0; i < n; ++i) {
      const std::string number = std::to_string(i);
      model.emplace("layer_" + number, Variable(zeros({1}), "w"));
      file.emplace("w." + number, ones({1}));
      options.rules.push_back({"w." + number, "layer_" + number});
    }
    return [=] { load_weights(model, file, options); };
  });
}
