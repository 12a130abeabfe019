// Tensors in files, as a user saves and loads them. With an argument it is a converter, for test_formats.py: each line
// of its input names a file to load, one to save, and "compress" or "mapped", with tabs between. It answers with lines
// "name=value", the metadata of the first, and then "done" or "error: MESSAGE".
#include <rill/rill.h>
#include <rill/serialize.h>

#include <cstdio>
#include <iostream>
#include <sstream>

#include "expect.h"
using namespace rill;

namespace {

void convert(const std::string& from, const std::string& to, const std::string& option) {
  SaveOptions out{.compress = option == "compress"};
  const auto metadata = load_metadata(from);
  for (const auto& [name, value] : metadata) std::cout << name << "=" << value << "\n";
  if (to.ends_with(".safetensors")) out.metadata = metadata;
  save(to, load(from, {.mapped = option == "mapped"}), out);
}

int serve() {
  for (std::string line; std::getline(std::cin, line); std::cout.flush()) {
    std::istringstream words(line);
    std::string from, to, option;
    std::getline(std::getline(std::getline(words, from, '\t'), to, '\t'), option);
    try {
      convert(from, to, option);
      std::cout << "done\n";
    } catch (const Error& e) {
      std::cout << "error: " << e.what() << "\n";
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char**) try {
  if (argc > 1) return serve();
  Tensor w = random::normal({8, 4}), b = arange(4).astype(f32);
  save("one.npy", w);
  save("all.npz", {{"w", w}, {"b", b}});
  save("all.safetensors", {{"w", w}, {"b", b}}, {.metadata = {{"step", "3"}}});
  EXPECT(array_equal(load("one.npy").at(""), w) && array_equal(load("all.npz").at("b"), b));
  EXPECT(array_equal(load("all.safetensors").at("w"), w));
  EXPECT(load_metadata("all.safetensors").at("step") == "3");

  std::map<std::string, Variable> variables;
  variables.emplace("dense/kernel", Variable(w, "kernel"));
  save("variables.safetensors", variables);
  save("variable.npy", Variable(b, "b"));
  EXPECT(array_equal(load("variables.safetensors", {.mapped = true}).at("dense/kernel"), w));
  EXPECT(array_equal(load("variable.npy").at(""), b));
  for (const char* name : {"one.npy", "all.npz", "all.safetensors", "variables.safetensors", "variable.npy"})
    std::remove(name);
} catch (const Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
