// Checkpoints whose writer is killed: RILL_KILLS says how often (500 by hand). A program of its own, for it forks.
#include "catch.h"

#include <dlfcn.h>
#include <rill/rill.h>
#include <rill/serialize.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

using namespace rill;
namespace fs = std::filesystem;

// What changes names or reaches the disk, of this program and the libraries in it, counted: a child can die at any.
static long until_kill = -1;  // so many come before it
static void step() {
  if (until_kill >= 0 && until_kill-- == 0) kill(getpid(), SIGKILL);
}
#define RILL_STEP(result, name, parameters, ...)                                              \
  extern "C" result name parameters noexcept {                                                \
    step();                                                                                   \
    static const auto real = reinterpret_cast<result(*) parameters>(dlsym(RTLD_NEXT, #name)); \
    return real(__VA_ARGS__);                                                                 \
  }
RILL_STEP(int, rename, (const char* from, const char* to), from, to)
RILL_STEP(int, renameat2, (int a, const char* from, int b, const char* to, unsigned flags), a, from, b, to, flags)
RILL_STEP(int, linkat, (int a, const char* from, int b, const char* to, int flags), a, from, b, to, flags)
RILL_STEP(int, link, (const char* from, const char* to), from, to)
RILL_STEP(int, unlink, (const char* path), path)
RILL_STEP(int, unlinkat, (int folder, const char* path, int flags), folder, path, flags)
RILL_STEP(int, remove, (const char* path), path)
RILL_STEP(int, mkdir, (const char* path, mode_t mode), path, mode)

TEST_CASE("kill -9 at any moment leaves the last checkpoint whole") {
  const fs::path folder = fs::temp_directory_path() / ("rill_kills_" + std::to_string(getpid()));
  fs::remove_all(folder);
  const std::string kept = (folder / "a").string();
  const char* wish = std::getenv("RILL_KILLS");
  const int kills = wish ? std::atoi(wish) : 12;
  uint64_t seed = 1;
  for (int i = 0; i < kills; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        // The same steps over and over, so that checkpoints are made, replaced and removed.
        Variable a(zeros({30000}), "a"), b(zeros({10}), "b");
        CheckpointManager manager(Checkpoint{{"a", a}, {"b", b}}, kept,
                                  {.max_to_keep = 2, .asynchronous = i % 3 == 2, .save = {.shards = 1 + i % 2}});
        for (int step = 1;; ++step) {
          a.assign(full({30000}, float(step)));
          b.assign(full({10}, float(step)));
          manager.save(step % 5);
        }
      } catch (...) {
        _exit(1);
      }
    }
    REQUIRE(child > 0);
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    for (int tries = 0; !fs::exists(kept + "/checkpoint") && tries < 60000; ++tries) usleep(1000);  // a busy machine
    REQUIRE(fs::exists(kept + "/checkpoint"));
    usleep(20000 + useconds_t(seed >> 40) % 40000);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    const std::string latest = latest_checkpoint(kept);
    REQUIRE(!latest.empty());
    const auto values = load_checkpoint(latest);
    REQUIRE(values.size() == 2);
    CHECK(array_equal(values.at("a"), full({30000}, values.at("b")(0).item<float>())));
    Variable a(zeros({30000}), "a"), b(zeros({10}), "b");
    CheckpointManager manager(Checkpoint{{"a", a}, {"b", b}}, kept);
    for (const std::string& path : manager.all()) CHECK_NOTHROW(load_checkpoint(path));
  }
  // What the killed ones left beside the list goes with the next save, whether its owner came to list it or not.
  Variable a(zeros({30000}), "a"), b(zeros({10}), "b");
  CheckpointManager manager(Checkpoint{{"a", a}, {"b", b}}, kept, {.max_to_keep = 2});
  manager.save(5);
  std::set<std::string> there, listed;
  for (const auto& entry : fs::directory_iterator(kept)) {
    if (entry.path().extension() == ".index") there.insert(entry.path().string());
    CHECK(entry.path().extension() != ".unlisted");
  }
  for (const std::string& path : manager.all()) listed.insert(path + ".index");
  CHECK(there == listed);
  fs::remove_all(folder);
}

TEST_CASE("kill -9 at any moment leaves no graph beside the weights of another") {
  const fs::path folder = fs::temp_directory_path() / ("rill_model_kills_" + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder);
  const char* wish = std::getenv("RILL_KILLS");
  const int kills = wish ? std::atoi(wish) : 12;
  for (const char* name : {"saved", "model.onnx"}) {
    const std::string path = (folder / name).string();
    int whole = 0;
    int done[2];  // the last child is killed after an export, which leaves a whole model; others whenever it comes
    REQUIRE(pipe(done) == 0);
    for (int i = 0; i < kills; ++i) {
      const bool is_last = i + 1 == kills;
      const pid_t child = fork();
      if (child == 0) {
        try {
          for (int step = 1;; ++step) {
            Variable w(full({4096}, float(step)), "w");
            const auto f = function("f", [&](const Tensor& x) { return x * float(step) + w; },
                                    {.signature = {spec(f32, {4096}, "x")}});
            export_model(f, path, {.outputs = {"y"}, .external_data = true});
            while (is_last && write(done[1], "", 1) == 1) pause();
          }
        } catch (...) {
          _exit(1);
        }
      }
      REQUIRE(child > 0);
      const std::string graph = i == 0 ? path + (name[0] == 's' ? "/saved_model.pb" : "") : path;
      for (int tries = 0; !fs::exists(graph) && tries < 60000; ++tries) usleep(1000);  // a busy machine
      if (char byte; is_last) REQUIRE(read(done[0], &byte, 1) == 1);
      else usleep(20000 + useconds_t(i) * 3700);
      kill(child, SIGKILL);
      int status = 0;
      waitpid(child, &status, 0);
      REQUIRE(WIFSIGNALED(status));
      try {
        const Model m = import_model(path);
        const float weight = m({{"x", zeros({4096})}}).at("y")(0).item<float>();
        CHECK(m({{"x", ones({4096})}}).at("y")(0).item<float>() == 2 * weight);
        ++whole;
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch): there is no graph
      }
    }
    CHECK(whole > 0);
    close(done[0]), close(done[1]);
  }
  fs::remove_all(folder);
}

TEST_CASE("an export over an old model that is killed at any step leaves the old one or the new one") {
  const fs::path folder = fs::temp_directory_path() / ("rill_export_kills_" + std::to_string(getpid()));
  const auto write = [](const std::string& path, float number) {
    Variable w(full({4096}, number), "w");
    const auto f =
        function("f", [&](const Tensor& x) { return x * number + w; }, {.signature = {spec(f32, {4096}, "x")}});
    export_model(f, path, {.outputs = {"y"}, .external_data = path.ends_with(".onnx")});
  };
  // 1 or 2, whichever both the graph and its weights have.
  const auto number_of = [](const std::string& path) {
    const Model m = import_model(path);
    const float weight = m({{"x", zeros({4096})}}).at("y")(0).item<float>();
    CHECK(m({{"x", ones({4096})}}).at("y")(0).item<float>() == 2 * weight);
    return int(weight);
  };
  for (const char* name : {"model.onnx", "model.rill", "model.pb", "saved"}) {
    INFO(name);
    const std::string path = (folder / name).string();
    int kills = 0, old = 0, fresh = 0;
    for (bool ended = false; !ended; ++kills) {
      REQUIRE(kills < 200);
      fs::remove_all(folder);
      fs::create_directories(folder);
      write(path, 1);
      const bool is_folder = fs::is_directory(path);
      if (is_folder) {  // of the user's
        fs::create_directories(path + "/assets");
        std::ofstream(path + "/assets/words.txt") << "a b c";
      }
      const pid_t child = fork();
      if (child == 0) {
        until_kill = kills;
        try {
          write(path, 2);
        } catch (...) {
          _exit(1);
        }
        _exit(0);
      }
      REQUIRE(child > 0);
      int status = 0;
      waitpid(child, &status, 0);
      ended = WIFEXITED(status);
      REQUIRE((!ended || WEXITSTATUS(status) == 0));
      const int number = number_of(path);
      CHECK((number == 1 || number == 2));
      (number == 1 ? old : fresh) += 1;
      if (is_folder) CHECK(fs::exists(path + "/assets/words.txt"));
      if (ended) CHECK(number == 2);
      write(path, 2);  // which what was left does not hinder
      CHECK(number_of(path) == 2);
    }
    CHECK(kills >= 3);
    CHECK((old > 0 && fresh > 0));
    int weights = 0;
    for (const auto& entry : fs::directory_iterator(folder)) weights += entry.path().extension() == ".data";
    CHECK(weights == (path.ends_with(".onnx") ? 1 : 0));
  }
  fs::remove_all(folder);
}
