// Folders of checkpoints that more than one manager, program or person has a hand in: prefixes of their own, links,
// copies, other working directories, pipes in the place of files. And what many Variables take.
#include "catch.h"

#include <fcntl.h>
#include <rill/nn.h>
#include <rill/rill.h>
#include <rill/serialize.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <thread>

#include "io_helpers.h"

using namespace rill;
namespace fs = std::filesystem;
using Paths = std::vector<std::string>;

namespace {
float first(const std::map<std::string, Tensor>& values, const char* name = "v") {
  return values.at(name)(0).item<float>();
}
double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }
}  // namespace

TEST_CASE("managers with prefixes of their own share a folder and its list") {
  Folder folder;
  const std::string shared = folder / "a";
  Variable v(zeros({2}), "v");
  Checkpoint checkpoint{{"v", v}};
  CheckpointManager last(checkpoint, shared, {.max_to_keep = 2});
  CheckpointManager best(checkpoint, shared, {.max_to_keep = 1, .asynchronous = true, .prefix = "best"});
  for (int i = 1; i <= 4; ++i) {
    v.assign(full({2}, float(i)));
    if (i % 2) best.save(i);
    last.save(i);
    best.wait();  // so that it is known which is the latest
  }
  CHECK(best.all() == Paths{shared + "/best-3"});
  CHECK(last.all() == Paths{shared + "/ckpt-3", shared + "/ckpt-4"});
  CHECK(latest_checkpoint(shared) == shared + "/ckpt-4");
  CHECK(folder.names("a") == Paths{"best-3.data-00000-of-00001", "best-3.index", "checkpoint",
                                   "ckpt-3.data-00000-of-00001", "ckpt-3.index", "ckpt-4.data-00000-of-00001",
                                   "ckpt-4.index"});
  // Another program: each finds its own, and what it saves is the latest of all.
  CheckpointManager again(checkpoint, shared, {.prefix = "best"});
  again.restore();
  CHECK(v.value()(0).item<float>() == 3);
  CHECK(again.latest_step() == 3);
  again.save(5);
  CHECK(latest_checkpoint(shared) == shared + "/best-5");
  CHECK(CheckpointManager(checkpoint, shared).latest_step() == 4);
  CHECK(best.latest_step() == 5);  // as the folder has it by now
  CHECK(CheckpointManager(checkpoint, shared, {.prefix = "other"}).latest().empty());
  CHECK_THROWS_WITH(CheckpointManager(checkpoint, shared, {.prefix = "other"}).restore(),
                    contains_text("called 'other-STEP'"));
}

TEST_CASE("a manager removes the whole checkpoints that killed writers left out of the list") {
  Folder folder;
  Variable v(zeros({2}), "v");
  const Checkpoint checkpoint{{"v", v}};
  CheckpointManager(checkpoint, folder.path()).save(1);
  auto leave = [&](const std::string& name) {
    if (!fs::exists(folder / (name + ".index"))) checkpoint.save(folder / name);
    put_file(folder / (name + ".unlisted"), "");
  };
  leave("ckpt-1");                     // killed between listing it and taking the mark away
  leave("ckpt-2");                     // killed before listing it
  leave("other-3");                    // another prefix's
  checkpoint.save(folder / "ckpt-4");  // nobody's: a person saved it
  leave("ckpt-5");                     // of a writer that lives
  const int lives = open((folder / "ckpt-5.unlisted").c_str(), O_RDWR);
  REQUIRE(flock(lives, LOCK_EX) == 0);
  CheckpointManager next(checkpoint, folder.path());
  next.save(6);
  auto has_file = [&](const char* name) { return fs::exists(folder / name); };
  CHECK(has_file("ckpt-1.index"));
  CHECK_FALSE(has_file("ckpt-1.unlisted"));
  CHECK_FALSE(has_file("ckpt-2.index"));
  CHECK_FALSE(has_file("ckpt-2.data-00000-of-00001"));
  CHECK_FALSE(has_file("ckpt-2.unlisted"));
  CHECK(has_file("other-3.index"));
  CHECK(has_file("ckpt-4.index"));
  CHECK(has_file("ckpt-5.index"));
  CHECK(has_file("ckpt-5.unlisted"));
  CHECK(next.all() == Paths{folder / "ckpt-1", folder / "ckpt-6"});
  close(lives);
  CheckpointManager(checkpoint, folder.path()).save(7);
  CHECK_FALSE(has_file("ckpt-5.index"));
  CHECK_FALSE(has_file("ckpt-5.unlisted"));
}

TEST_CASE("managers that save at the same time lose nothing from the list") {
  Folder folder;
  Variable v(ones({2}), "v");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)  // two of the one prefix, two of the other
    threads.emplace_back([&, t] {
      CheckpointManager manager(Checkpoint{{"v", v}}, folder.path(),
                                {.max_to_keep = 0, .prefix = t % 2 ? "odd" : "even"});
      for (int i = 0; i < 10; ++i) manager.save(10 * t + i);
    });
  for (std::thread& t : threads) t.join();
  for (const char* prefix : {"odd", "even"})
    CHECK(CheckpointManager(Checkpoint{{"v", v}}, folder.path(), {.prefix = prefix}).all().size() == 20);
  // Of the same name, at the same time: one or the other, and whole.
  threads.clear();
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i)
        save_checkpoint(folder / "same", {{"v", full({100}, t)}, {"w", full({100}, t)}}, 1 + t % 2);
    });
  for (std::thread& t : threads) t.join();
  const auto values = load_checkpoint(folder / "same");
  CHECK(array_equal(values.at("v"), values.at("w")));
}

TEST_CASE("what is removed is in the folder, also where a copied list names another") {
  Folder folder;
  Variable v(ones({2}), "v");
  Checkpoint checkpoint{{"v", v}};
  const std::string here = folder / "original", copy = folder / "copy";
  CheckpointManager original(checkpoint, here);
  for (int i : {1, 2, 3}) original.save(i);
  std::string list = "model_checkpoint_path: \"" + here + "/ckpt-3\"\n";  // as TensorFlow's Saver writes it
  for (int i : {1, 2, 3}) list += "all_model_checkpoint_paths: \"" + here + "/ckpt-" + std::to_string(i) + "\"\n";
  put_file(here + "/checkpoint", list);
  fs::copy(here, copy, fs::copy_options::recursive);
  CHECK(latest_checkpoint(copy) == copy + "/ckpt-3");
  CheckpointManager manager(checkpoint, copy, {.max_to_keep = 1});
  CHECK(manager.all() == Paths{copy + "/ckpt-1", copy + "/ckpt-2", copy + "/ckpt-3"});
  manager.save(4);
  CHECK(manager.all() == Paths{copy + "/ckpt-4"});
  CHECK(folder.names("copy").size() == 3);
  CHECK(folder.names("original").size() == 7);
  CHECK(contents(here + "/checkpoint") == list);
  // Paths that are relative to the folder, as they may be written.
  fs::create_directory(copy + "/inner");
  fs::copy(copy + "/ckpt-4.index", copy + "/inner/ckpt-4.index");
  put_file(copy + "/checkpoint",
           "model_checkpoint_path: \"./ckpt-4\"\nall_model_checkpoint_paths: \"inner/ckpt-4\"\n"
           "all_model_checkpoint_paths: \"inner/../ckpt-4\"\n");
  CHECK(CheckpointManager(checkpoint, copy).all() == Paths{copy + "/ckpt-4"});
  CHECK(latest_checkpoint(copy) == copy + "/ckpt-4");
  fs::remove_all(copy + "/inner");
  // A checkpoint of another folder stays in the list, and where it is.
  put_file(copy + "/checkpoint", "model_checkpoint_path: \"ckpt-4\"\nall_model_checkpoint_paths: \"" + here +
                                     "/ckpt-1\"\nall_model_checkpoint_paths: \"ckpt-4\"\n");
  fs::remove(copy + "/ckpt-1.index");
  CheckpointManager again(checkpoint, copy, {.max_to_keep = 1});
  again.save(5);
  CHECK(again.all() == Paths{copy + "/ckpt-5"});
  CHECK(fs::exists(here + "/ckpt-1.index"));
  CHECK_THAT(contents(copy + "/checkpoint"), contains_text("all_model_checkpoint_paths: \"" + here + "/ckpt-1\""));
}

TEST_CASE("links become checkpoints of their own, and what they led to stays") {
  Folder folder;
  save_checkpoint(folder / "ckpt-3", {{"v", full({4}, 3)}});
  put_file(folder / "list", "model_checkpoint_path: \"ckpt-3\"\n");
  for (const char* end : {".index", ".data-00000-of-00001"})
    fs::create_symlink("ckpt-3" + std::string(end), folder / ("best" + std::string(end)));
  CHECK(first(load_checkpoint(folder / "best")) == 3);
  save_checkpoint(folder / "best", {{"v", full({4}, 5)}});
  CHECK(first(load_checkpoint(folder / "best")) == 5);
  CHECK(first(load_checkpoint(folder / "ckpt-3")) == 3);
  CHECK_FALSE(fs::is_symlink(folder / "best.index"));
  CHECK(folder.names().size() == 5);
  fs::create_symlink("list", folder / "checkpoint");
  Variable v(ones({4}), "v");
  CheckpointManager(Checkpoint{{"v", v}}, folder.path()).save(4);
  CHECK(contents(folder / "list") == "model_checkpoint_path: \"ckpt-3\"\n");
  // A folder may be a link.
  fs::create_directory_symlink(folder.path(), folder / "link");
  CheckpointManager linked(Checkpoint{{"v", v}}, folder / "link", {.max_to_keep = 1});
  linked.save(6);
  CHECK(linked.all() == Paths{folder / "link/ckpt-6"});
  CHECK(latest_checkpoint(folder.path()) == folder / "ckpt-6");
}

TEST_CASE("a relative folder stays where it was, and slashes at its end say nothing") {
  Folder folder;
  const fs::path before = fs::current_path();
  fs::create_directory(folder / "elsewhere");
  Variable v(ones({2}), "v");
  {
    fs::current_path(folder.path());
    CheckpointManager manager(Checkpoint{{"v", v}}, "runs/", {.max_to_keep = 1});
    CHECK(manager.save(1) == "runs/ckpt-1");
    CHECK(manager.latest() == "runs/ckpt-1");
    CheckpointManager slow(Checkpoint{{"v", v}}, "", {.asynchronous = true});
    slow.save(7);
    fs::current_path(folder / "elsewhere");
    manager.save(2);
    v.assign(zeros({2}));
    manager.restore();
    CHECK(v.value()(0).item<float>() == 1);
    slow.save(8);
    slow.wait();
    fs::current_path(before);
  }
  CHECK(folder.names("runs") == Paths{"checkpoint", "ckpt-2.data-00000-of-00001", "ckpt-2.index"});
  CHECK(folder.names("elsewhere").empty());
  CHECK(latest_checkpoint(folder.path() + "//") == folder.path() + "//ckpt-8");
}

TEST_CASE("how many are kept may change, and so may the clock") {
  Folder folder;
  Variable v(ones({2}), "v");
  Checkpoint checkpoint{{"v", v}};
  CheckpointManager many(checkpoint, folder / "a", {.max_to_keep = 0});
  for (int i = 0; i < 6; ++i) many.save(i);
  CheckpointManager(checkpoint, folder / "a", {.max_to_keep = 2}).save(6);
  CHECK(many.all() == Paths{folder / "a/ckpt-5", folder / "a/ckpt-6"});
  many.save(2);  // a step that is older, and the latest all the same
  CHECK(many.latest_step() == 2);
  CHECK(many.all().size() == 3);
  // The last that was kept for good seems to come from a day after tomorrow.
  CheckpointManager(checkpoint, folder / "b").save(1);
  const std::string time = std::to_string(int64_t(now()) + 100000), later = std::to_string(int64_t(now()) + 200000);
  put_file(folder / "b/checkpoint",
           "model_checkpoint_path: 'ckpt-1'\nall_model_checkpoint_paths: 'ckpt-1'\n"
           "all_model_checkpoint_timestamps: " +
               time + "\nlast_preserved_timestamp: " + later + "\n");
  CheckpointManager hours(checkpoint, folder / "b", {.max_to_keep = 1, .keep_every_hours = 1});
  hours.save(2);
  CHECK(hours.all() == Paths{folder / "b/ckpt-2"});
  CHECK(fs::exists(folder / "b/ckpt-1.index"));
}

TEST_CASE("pipes and devices are no checkpoints, and nobody waits for them") {
  Folder folder;
  REQUIRE(mkfifo((folder / "x.index").c_str(), 0600) == 0);
  REQUIRE(mkfifo((folder / "checkpoint").c_str(), 0600) == 0);
  REQUIRE(mkfifo((folder / "x.npy").c_str(), 0600) == 0);
  REQUIRE(mkfifo((folder / "x.onnx").c_str(), 0600) == 0);
  fs::create_symlink("/dev/zero", folder / "z.index");
  CHECK_THROWS_WITH(load_checkpoint(folder / "x"), contains_text("is a device or a pipe. expected a file"));
  CHECK_THROWS_WITH(load_checkpoint(folder / "z"), contains_text("is a device or a pipe. expected a file"));
  CHECK_THROWS_WITH(latest_checkpoint(folder.path()), contains_text("is a device or a pipe"));
  CHECK_THROWS_WITH(load(folder / "x.npy"), contains_text("is a device or a pipe"));
  CHECK_THROWS_WITH(import_model(folder / "x.onnx"), contains_text("is a device or a pipe"));
  save_checkpoint(folder / "y", {{"v", ones({2})}});
  fs::remove(folder / "y.data-00000-of-00001");
  REQUIRE(mkfifo((folder / "y.data-00000-of-00001").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(load_checkpoint(folder / "y"), contains_text("is a device or a pipe"));
}

TEST_CASE("paths that are nearly those of a checkpoint, and lists that are none") {
  Folder folder;
  save_checkpoint(folder / "x", {{"v", ones({2})}});
  CHECK_THROWS_WITH(load_checkpoint(folder / "x.index"), contains_text("x', without .index"));
  CHECK_THROWS_WITH(load_checkpoint(folder.path()), contains_text("is a folder. latest_checkpoint() gives the last"));
  for (const std::string& list :
       {std::string("\0\1\2\xff", 4), std::string("a: {"), std::string("model_checkpoint_path: \"x"),
        std::string("all_model_checkpoint_timestamps: 1,5")}) {
    put_file(folder / "checkpoint", list);
    CHECK_THROWS_WITH(latest_checkpoint(folder.path()), contains_text("expected TensorFlow's list of checkpoints"));
  }
  put_file(folder / "checkpoint", "");
  CHECK(latest_checkpoint(folder.path()).empty());
  CHECK(latest_checkpoint(folder / "nowhere").empty());
}

TEST_CASE("slots of Variables that nobody can tell apart are not saved, and not restored") {
  Folder folder;
  Variable a(ones({2}), "w"), b(zeros({2}), "w"), c(zeros({3}), "w");
  nn::Adam adam;
  adam.build({a, c});  // of different shapes
  Checkpoint alone{{"adam", adam}};
  alone.save(folder / "two");
  CHECK(alone.restore(folder / "two").complete());
  adam.build({a, c, b});
  CHECK_THROWS_WITH(alone.save(folder / "three"), contains_text("nobody could tell what 'adam/w_2/m' belongs to") &&
                                                      contains_text("put the model beside the optimizer"));
  CHECK_THROWS_WITH(alone.restore(folder / "two"), contains_text("nobody could tell"));
  Checkpoint{{"a", a}, {"b", b}, {"c", c}, {"adam", adam}}.save(folder / "all");
  CHECK(load_checkpoint(folder / "all").contains("adam/b/m"));
  alone.save(folder / "rest", {.only = {"adam/iterations"}});
}

TEST_CASE("what a checkpoint takes grows with its Variables, and not with their square") {
  Folder folder;
  const int n = 6000;
  std::vector<Variable> all;
  for (int i = 0; i < n; ++i) all.emplace_back(full({1}, float(i)), "layer/w");  // numbered: they share a name
  nn::Adam adam;
  adam.build(all);
  Variable(variables(adam).at("iterations")).assign(ones({}, {.dtype = i64}));  // so that slots are not taken for zeros
  Checkpoint checkpoint{{"model", all}, {"adam", adam}};
  const std::clock_t begin = std::clock();  // the processor's time: others may keep the machine busy
  checkpoint.save(folder / "x");
  nn::Adam fresh;  // whose slots are made
  CHECK(Checkpoint{{"model", all}, {"adam", fresh}}.restore(folder / "x").restored.size() == size_t(3 * n + 2));
  const RestoreReport report =
      Checkpoint{{"other", all}, {"adam", adam}}.restore(folder / "x", {.allow_missing = true, .allow_extra = true});
  CHECK(report.missing.size() == size_t(3 * n));
  CHECK(to_string(report).size() < 5000);
  const double seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;
  INFO(seconds << " s");
  CHECK(seconds < 20);
}
