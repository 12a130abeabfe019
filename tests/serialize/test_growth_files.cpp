// Files of thousands of nodes, Variables and tensors, written and read: work that grows as their number (growth.h).
#include <memory>

#include "catch.h"
#include "growth.h"
#include "io_helpers.h"
#include "rill/rill.h"
#include "rill/serialize/serialize.h"
#include "rill/serialize/summary.h"

using namespace rill;

namespace {

// A chain of `n` ops that reads Variables of a few names, captured tensors and distinct constants.
auto chain_function(int n) {
  std::vector<Variable> weights;
  for (int i = 0; i < n / 8; ++i) weights.emplace_back(full({}, 1.0 / (1 + i)), "layer/w");
  return function("chain", [n, weights](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < n; ++i) {
      if (const auto at = size_t(i / 8); i % 8 == 1 && at < weights.size()) y = y * weights[at];
      else if (i % 8 == 3) y = y + double(i);
      else y = i % 2 ? sin(y) : y * x;
    }
    return y;
  });
}
using Chain = decltype(chain_function(1));
const Tensor half = tensor(0.5f);

template <class F>
growth::MakeWalk of_chain(F walk) {
  return [walk](int n) -> growth::Walk {
    auto f = std::make_shared<Chain>(chain_function(n));
    auto folder = std::make_shared<Folder>();
    return [=] { walk(*f, *folder); };
  };
}
// What reads the file that `write` has written.
template <class W, class R>
growth::MakeWalk of_file(W write, R read) {
  return [=](int n) -> growth::Walk {
    auto folder = std::make_shared<Folder>();
    write(n, *folder);
    return [=] { read(*folder); };
  };
}
NamedTensors tensors(int n) {
  NamedTensors all;
  for (int i = 0; i < n; ++i) all.emplace("layer/" + std::to_string(i), full({2}, i));
  return all;
}

}  // namespace

TEST_CASE("graphs for viewers") {
  for (const char* name : {"g.html", "g.dot", "g.json", "g.pb", "logs"})
    growth::is_linear(
        name, of_chain([name](const Chain& f, const Folder& folder) { export_graph(f.graph(half), folder / name); }));
}

TEST_CASE("models") {
  for (const char* name : {"m.rill", "m.onnx", "m.pb", "saved"}) {
    const auto write = [name](int n, const Folder& folder) {
      export_model(chain_function(n), folder / name, {.signature = {spec(f32, {}, "x")}});
    };
    growth::is_linear(
        std::string("writing ") + name,
        [write](int n) -> growth::Walk {
          auto folder = std::make_shared<Folder>();
          return [=] { write(n, *folder); };
        },
        500);
    growth::is_linear(std::string("reading ") + name,
                      of_file(write, [name](const Folder& folder) { import_model(folder / name); }), 500);
    growth::is_linear(std::string("a call of ") + name,
                      of_file(write, [name](const Folder& folder) { import_model(folder / name)({{"x", half}}); }),
                      500);
  }
  growth::is_linear("optimized", of_chain([](const Chain& f, const Folder& folder) {
                      export_model(f, folder / "m.onnx", {.signature = {spec(f32, {}, "x")}, .optimize = true});
                    }),
                    500);
}

TEST_CASE("tensors by thousands") {
  for (const char* name : {"t.npz", "t.safetensors"}) {
    const auto write = [name](int n, const Folder& folder) { save(folder / name, tensors(n)); };
    growth::is_linear(std::string("writing ") + name, [write](int n) -> growth::Walk {
      auto folder = std::make_shared<Folder>();
      return [=] { write(n, *folder); };
    });
    growth::is_linear(std::string("reading ") + name,
                      of_file(write, [name](const Folder& folder) { load(folder / name); }));
  }
}

TEST_CASE("checkpoints") {
  const auto state = [](int n) {
    std::vector<Variable> all;
    for (int i = 0; i < n; ++i) all.emplace_back(full({2}, i), "layer/" + std::to_string(i));
    return all;
  };
  const auto parts = [](const std::vector<Variable>& all) {
    std::vector<std::pair<std::string, Trackable>> parts;
    for (size_t i = 0; i < all.size(); ++i) parts.emplace_back("v" + std::to_string(i), all[i]);
    return parts;
  };
  growth::is_linear("saving", [=](int n) -> growth::Walk {
    auto all = std::make_shared<std::vector<Variable>>(state(n));
    auto folder = std::make_shared<Folder>();
    return [=] { Checkpoint(parts(*all)).save(*folder / "c"); };
  });
  growth::is_linear("restoring", [=](int n) -> growth::Walk {
    auto all = std::make_shared<std::vector<Variable>>(state(n));
    auto folder = std::make_shared<Folder>();
    Checkpoint(parts(*all)).save(*folder / "c");
    return [=] {
      Checkpoint(parts(*all)).restore(*folder / "c");
      load_checkpoint(*folder / "c");
      checkpoint_entries(*folder / "c");
    };
  });
}

TEST_CASE("summaries and events by thousands") {
  growth::is_linear("scalars", [](int n) -> growth::Walk {
    auto folder = std::make_shared<Folder>();
    return [=] {
      summary::Writer writer(folder->path());
      for (int i = 0; i < n; ++i) writer.scalar("loss/" + std::to_string(i % 100), i, i);
      writer.flush();
    };
  });
}

TEST_CASE("records and Examples by thousands") {
  const auto write = [](int n, const Folder& folder) {
    RecordWriter writer(folder / "r.tfrecord");
    for (int i = 0; i < n; ++i) writer.write(make_example({{"x", full({2}, i, f32)}}));
    writer.close();
  };
  growth::is_linear("writing", [write](int n) -> growth::Walk {
    auto folder = std::make_shared<Folder>();
    return [=] { write(n, *folder); };
  });
  growth::is_linear("reading", of_file(write, [](const Folder& folder) {
                      RecordReader reader(folder / "r.tfrecord");
                      for (std::string bytes; reader.next(bytes);) {
                      }
                      parse_examples(read_records(folder / "r.tfrecord"), {{"x", fixed_feature(f32, {2})}});
                    }));
  growth::is_linear("an Example of many features", [](int n) -> growth::Walk {
    std::map<std::string, Tensor> features;
    std::map<std::string, FeatureSpec> specs;
    for (int i = 0; i < n; ++i) {
      features.emplace("f" + std::to_string(i), full({1}, i, f32));
      specs.emplace("f" + std::to_string(i), fixed_feature(f32, {1}));
    }
    return [=] {
      const std::string bytes = make_example(features);
      read_example(bytes);
      parse_examples({bytes, bytes}, specs);
    };
  });
}
