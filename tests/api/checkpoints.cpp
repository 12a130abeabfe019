// Checkpoints as a user writes and reads them. test_checkpoint_formats.py runs it beside TensorFlow, a command on each
// line that it is given:
//   convert FROM TO SHARDS           all tensors of a checkpoint into another
//   restore PREFIX OUT PATH SHAPE... Variables of f32, [1,2] as 1x2, by their paths in it, into an .npz
//   manage FOLDER NAME KEEP STEP...  a manager saves the steps, whose Variable `step` is that
#include <rill/rill.h>
#include <rill/serialize.h>

#include <filesystem>
#include <iostream>
#include <sstream>

#include "expect.h"
using namespace rill;

namespace {

void restore(std::istringstream& words) {
  std::string prefix, out, path, sizes;
  words >> prefix >> out;
  std::vector<std::pair<std::string, Trackable>> parts;
  while (words >> path >> sizes) {
    Dims shape;
    std::istringstream each(sizes);
    for (std::string size; std::getline(each, size, 'x');) shape.push_back(std::stoll(size));
    parts.emplace_back(path, Variable(zeros(Shape(shape)), path));
  }
  Checkpoint checkpoint(parts);
  checkpoint.restore(prefix, {.allow_extra = true});
  save(out, checkpoint.values());
}

void manage(std::istringstream& words) {
  std::string folder, name;
  int keep = 0;
  words >> folder >> name >> keep;
  Variable step(zeros({}, {.dtype = i64}), "step");
  CheckpointManager manager(Checkpoint{{"step", step}}, folder, {.max_to_keep = keep, .prefix = name});
  for (int64_t i; words >> i;) {
    step.assign(full({}, i, {.dtype = i64}));
    manager.save(i);
  }
  for (const std::string& path : manager.all()) std::cout << path << " ";
}

bool serve() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command, from, to;
    int shards = 1;
    words >> command;
    try {
      if (command == "convert" && words >> from >> to >> shards) save_checkpoint(to, load_checkpoint(from), shards);
      else if (command == "restore") restore(words);
      else if (command == "manage") manage(words);
      else return false;
      std::cout << std::endl;
    } catch (const Error& e) {
      std::cout << "error: " << e.what() << std::endl;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) return std::string(argv[1]) == "serve" && serve() ? 0 : 1;
  Variable w(ones({2, 3}), "w");
  CheckpointManager manager(Checkpoint{{"w", w}}, "checkpoints", {.max_to_keep = 2});
  for (int step : {1, 2, 3}) {
    w.assign_add(ones({2, 3}));
    manager.save(step);
  }
  w.assign(zeros({2, 3}));
  manager.restore();
  EXPECT(w.value()(0, 0).item<float>() == 4);
  EXPECT(manager.all().size() == 2);
  std::filesystem::remove_all("checkpoints");
}
