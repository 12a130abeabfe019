// Compiled kernels on disk and the loader that runs them: shared by threads and processes, killed, damaged, unwritable,
// full; and object files that are not what they say.
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "catch.h"
#include "kernel_helpers.h"
#include "needs.h"
#include "rill/devices/kernel/cache.h"
#include "rill/devices/kernel/compiler.h"
#include "rill/devices/kernel/object.h"
#include "rill/devices/llvm/compile.h"

namespace kernel_test {

namespace fs = std::filesystem;
using kernel::Compiled;
using kernel::DiskCache;

namespace {

struct Folder {
  std::string path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "rill-cache-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
};

std::string read_file(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}
void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  chmod(path.c_str(), 0600);
}

std::string value_for(int i) { return std::string(size_t(500 + i), char('a' + i % 26)) + std::to_string(i); }

// Runs `action` in a process of its own and gives what it returns.
template <class F>
int in_child(F action) {
  const pid_t child = fork();
  if (child == 0) _exit(action());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Kernel scaled(uint64_t bits) {
  Kernel k;
  k.inputs = {{f32}};
  k.body = {{Code::input, f32, {}, 0}, {Code::constant, f32, {}, bits}, {Code::mul, f32, {0, 1, -1}, 0}};
  k.outputs = {{2, f32}};
  return k;
}

}  // namespace

TEST_CASE("what is stored is found, by its whole key") {
  Folder folder;
  DiskCache cache(folder.path + "/a/b");
  CHECK(cache.find("key").empty());
  cache.store("key", "value");
  CHECK(cache.find("key") == "value");
  CHECK(cache.find("kez").empty());
  cache.store("key", std::string("other\0value", 11));
  CHECK(cache.find("key") == std::string("other\0value", 11));
  CHECK(DiskCache(folder.path + "/a/b").find("key").size() == 11);
}

TEST_CASE("a damaged file counts as absent, and is written again") {
  Folder folder;
  DiskCache cache(folder.path);
  const std::string key = "some key", path = cache.path_of(key);
  cache.store(key, "the value");
  const std::string good = read_file(path);
  REQUIRE(cache.find(key) == "the value");
  for (size_t i = 0; i < good.size(); ++i)
    for (int flip : {1, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = char(bad[i] ^ flip);
      write_file(path, bad);
      INFO("byte " << i);
      REQUIRE(cache.find(key).empty());
    }
  for (size_t size = 0; size < good.size(); ++size) {
    write_file(path, good.substr(0, size));
    REQUIRE(cache.find(key).empty());
  }
  write_file(path, good + "x");
  CHECK(cache.find(key).empty());
  cache.store(key, "the value");
  CHECK(cache.find(key) == "the value");
  chmod(path.c_str(), 0666);  // anybody could have written it
  CHECK(cache.find(key).empty());
}

TEST_CASE("a FIFO in the place of a file counts as absent") {
  Folder folder;
  DiskCache cache(folder.path);
  REQUIRE(mkfifo(cache.path_of("key").c_str(), 0600) == 0);
  CHECK(cache.find("key").empty());
  cache.store("key", "value");
  CHECK(cache.find("key") == "value");
}

TEST_CASE("where nothing can be written the cache is empty") {
  Folder folder;
  write_file(folder.path + "/file", "");
  for (std::string path :
       {std::string(), folder.path + "/file", folder.path + "/file/below", std::string("/proc/rill")}) {
    DiskCache cache(path);
    cache.store("key", "value");
    CHECK(cache.find("key").empty());
  }
}

TEST_CASE("the folder: RILL_CACHE_DIR, XDG_CACHE_HOME, HOME, in this order") {
  const auto in = [](const char* own, const char* xdg, const char* home, const std::string& expected) {
    return in_child([&] {
      for (auto [name, value] : {std::pair{"RILL_CACHE_DIR", own}, {"XDG_CACHE_HOME", xdg}, {"HOME", home}})
        value ? setenv(name, value, 1) : unsetenv(name);
      return DiskCache::default_folder() == expected ? 0 : 1;
    });
  };
  CHECK(in("/x", "/y", "/z", "/x") == 0);
  CHECK(in(nullptr, "/y", "/z", "/y/rill") == 0);
  CHECK(in(nullptr, "relative", "/z", "/z/.cache/rill") == 0);
  CHECK(in(nullptr, nullptr, nullptr, "") == 0);
}

TEST_CASE("writers and readers in threads and processes, some of them killed") {
  Folder folder;
  const auto work = [&](int rounds) {
    DiskCache cache(folder.path);
    for (int r = 0; r < rounds; ++r)
      for (int i = 0; i < 10; ++i) {
        const std::string key = fmt::format("key {}", i), found = cache.find(key);
        if (!found.empty() && found != value_for(i)) return 1;
        cache.store(key, value_for(i));
      }
    return 0;
  };
  std::vector<pid_t> children;
  for (int c = 0; c < 2; ++c) {
    children.push_back(fork());
    if (children.back() == 0) _exit(work(1 << 20));
  }
  int faults[3] = {};
  std::vector<std::thread> threads;
  for (int& f : faults) threads.emplace_back([&] { f = work(20); });
  for (std::thread& t : threads) t.join();
  for (pid_t child : children) {
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));  // it met no wrong value before
  }
  CHECK(faults[0] + faults[1] + faults[2] == 0);
  DiskCache cache(folder.path);
  for (int i = 0; i < 10; ++i) CHECK(cache.find(fmt::format("key {}", i)) == value_for(i));
}

TEST_CASE("beyond its size the files least recently written go") {
  Folder folder;
  DiskCache cache(folder.path, 100'000);
  for (int i = 0; i < 400; ++i) cache.store(fmt::format("key {}", i), std::string(1000, 'x'));
  int64_t total = 0;
  for (const auto& e : fs::directory_iterator(folder.path)) total += int64_t(e.file_size());
  CHECK(total < 110'000);
  CHECK(total > 50'000);
  CHECK(cache.find("key 399").size() == 1000);
  CHECK(cache.find("key 0").empty());
}

TEST_CASE("a kernel on disk runs without the compiler; a damaged one is compiled again") {
  if (!has_compiler()) return;
  Folder folder;
  const Kernel k = scaled(0x40400000);
  const auto compiled_from = [&](Compiled::From expected) {
    return in_child([&] {
      setenv("RILL_CACHE_DIR", folder.path.c_str(), 1);
      const Compiled c = kernel::compile(k);
      const bool loaded = dlopen("librill_llvm.so", RTLD_NOW | RTLD_NOLOAD) != nullptr;
      if (expected == Compiled::From::disk && loaded) return 2;
      return c.from == expected && agrees(k, c.run, 2, 50, 1) ? 0 : 1;
    });
  };
  CHECK(compiled_from(Compiled::From::compiler) == 0);
  CHECK(compiled_from(Compiled::From::disk) == 0);
  for (const auto& e : fs::directory_iterator(folder.path)) write_file(e.path(), read_file(e.path()).substr(0, 900));
  CHECK(compiled_from(Compiled::From::compiler) == 0);
  CHECK(compiled_from(Compiled::From::disk) == 0);
}

TEST_CASE("damaged object files are errors, never crashes") {
  if (!has_compiler()) return;
  Folder folder;
  const int status = in_child([&] {
    setenv("RILL_CACHE_DIR", "", 1);
    unsetenv("HOME"), unsetenv("XDG_CACHE_HOME");
    setenv("RILL_DUMP", folder.path.c_str(), 1);
    Kernel k = scaled(0x40400001);  // with constants and calls of memcpy it has every kind of relocation
    k.body.push_back({Code::gt, boolean, {0, 2, -1}, 0});
    k.body.push_back({Code::patch, f32, {3, 2, 2}, 0});
    k.body.push_back({Code::reduce_max, f32, {4, -1, -1}, 0});
    k.body.push_back({Code::sub, f32, {4, 5, -1}, 0});
    k.outputs = {{6, f32}};
    kernel::compile(k);
    return 0;
  });
  REQUIRE(status == 0);
  std::string object;
  for (const auto& e : fs::directory_iterator(folder.path))
    if (e.path().extension() == ".o") object = read_file(e.path());
  REQUIRE(object.size() > 500);
  CHECK(kernel::load_code(object, "rill_kernel") != nullptr);
  CHECK_THROWS_AS(kernel::load_code(object, "another"), Error);
  int refused = 0;
  const auto attempt = [&](const std::string& bytes) {
    try {
      kernel::load_code(bytes, "rill_kernel");
    } catch (const Error&) {
      ++refused;
    }
  };
  for (int size = 0; size < int(object.size()); ++size) attempt(object.substr(0, size_t(size)));
  CHECK(refused == int(object.size()));
  refused = 0;
  for (size_t i = 0; i < object.size(); ++i)
    for (int to : {0, 0x7f, 0xff}) {
      std::string bad = object;
      bad[i] = char(to);
      attempt(bad);
    }
  CHECK(refused > 0);  // many bytes are code, which no loader can judge
  Rng r(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bad = object;
    for (int n = 0; n < 20; ++n) bad[size_t(r() % bad.size())] = char(r());
    attempt(bad);
  }
}

}  // namespace kernel_test
