// Reads the network that train.cpp wrote, and prints the species of each flower in a CSV file. It does not depend on
// how the network is made: the file holds the computation and the weights.
//
// usage: classify iris.rill flowers.csv
#include <rill/rill.h>
#include <rill/serialize.h>

#include <cstdio>
#include <exception>

using namespace rill;

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: classify iris.rill flowers.csv\n");
    return 2;
  }
  const Model model = import_model(argv[1], {.trainable = false});
  const Table flowers = read_csv(argv[2]);
  const Tensor sizes = flowers.stacked({"sepal_length", "sepal_width", "petal_length", "petal_width"});

  const auto results = model({{"sizes", sizes}});
  const auto species = results.at("species").to_vector<std::string>();
  const auto probability = results.at("probability").to_vector<double>();
  for (size_t i = 0; i < species.size(); ++i) std::printf("%s %.2f\n", species[i].c_str(), probability[i]);
} catch (const std::exception& e) {
  std::fprintf(stderr, "classify: %s\n", e.what());
  return 1;
}
