// Tensors in files: those that numpy, safetensors and gguf wrote (tests/fixtures/formats), and what we write ourselves.
// test_formats.py hands our files to these programs; test_bad_tensor_files.cpp has the files that are no good.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include "catch.h"
#include "tensor_files.h"

using namespace rill;
using namespace std::string_literals;

namespace {

Tensor one(const std::string& name, LoadOptions options = {}) { return load(fixture(name), options).at(""); }
Tensor grid(DType d) { return arange(6).reshape({2, 3}).astype(d); }

}  // namespace

TEST_CASE("Files that numpy wrote") {
  for (bool mapped : {false, true}) {
    const LoadOptions how{.mapped = mapped};
    CHECK(same(one("plain.npy", how), grid(f32)));
    CHECK(same(one("big.npy", how), grid(f64)));
    CHECK(same(one("fortran.npy", how), grid(i32)));
    CHECK(one("fortran.npy", how).is_contiguous());
    CHECK(same(one("bools.npy", how), arange(6).reshape({2, 3}) % 2 == 1));
    CHECK(same(one("empty.npy", how), zeros({2, 0, 3}, {.dtype = u8})));
    CHECK(same(one("scalar.npy", how), full({}, 1.5, {.dtype = f16})));
    CHECK(same(one("version2.npy", how), grid(i64)));
    CHECK(same(one("version3.npy", how), grid(i64)));
    CHECK(same(one("python2.npy", how), grid(f32)));
    Tensor z = one("big_fortran_complex.npy", how);
    CHECK(same(real(z), grid(f32)));
    CHECK(same(imag(z), grid(f32) * 2));
  }
  CHECK(one("text.npy").to_vector<std::string>() == std::vector<std::string>{"a", "käse", "", "日本🎉"});
  CHECK(one("text.npy").shape() == Shape{2, 2});
  CHECK(one("big_text.npy").to_vector<std::string>() == std::vector<std::string>{"abc", "ü"});
  CHECK(one("bytes.npy").to_vector<std::string>() == std::vector<std::string>{"a\xff", "\0b"s, ""});
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    NamedTensors all = load(fixture(name));
    CHECK(all.size() == 4);
    CHECK(same(all.at("w"), grid(f32)));
    CHECK(same(all.at("dense/bias"), arange(3).astype(f64)));
    CHECK(same(all.at("ünï"), full({}, true, {.dtype = boolean})));
    CHECK(same(all.at("fortran"), grid(i64)));
  }
  CHECK(load(fixture("none.npz")).empty());
}

TEST_CASE("Files of numpy's that no tensor holds") {
  auto error = [](const char* name) { return message_of([&] { load(fixture(name)); }); };
  CHECK(has(error("structure.npy"), "structure of several fields"));
  CHECK(has(error("object.npy"), "pickled Python objects, which rill never reads"));
  CHECK(has(error("date.npy"), "dates"));
  CHECK(has(error("bfloat16.npy"), "keep bf16 in .safetensors"));
}

TEST_CASE("Files that safetensors and gguf wrote") {
  for (bool mapped : {false, true}) {
    NamedTensors all = load(fixture("several.safetensors"), {.mapped = mapped});
    CHECK(all.size() == 6);
    CHECK(same(all.at("w"), grid(f32)));
    CHECK(same(all.at("b"), arange(3)));
    CHECK(same(all.at("half"), grid(bf16)));
    CHECK(same(all.at("empty"), zeros({0, 4}, {.dtype = u8})));
    CHECK(same(all.at("scalar"), full({}, 2.5, {.dtype = f64})));
    CHECK(same(all.at("ü\"\\/"), arange(6).reshape({2, 3}) % 2 == 1));
    for (const char* name : {"several.gguf", "big.gguf"}) {
      NamedTensors weights = load(fixture(name), {.mapped = mapped});
      CHECK(same(weights.at("w"), grid(f32)));
      CHECK(same(weights.at("h"), arange(3).astype(f16)));
      if (!weights.count("Q8_0")) continue;
      Tensor numbers = linspace(-1, 1, 256).astype(f32).reshape({1, 256});
      CHECK(max(abs(weights.at("Q8_0") - numbers)).item<float>() < 0.005f);
      CHECK(max(abs(weights.at("Q5_1") - numbers)).item<float>() < 0.01f);
      CHECK(max(abs(weights.at("Q4_0") - numbers)).item<float>() < 0.15f);
      NamedMap<Blocks> blocks;
      const NamedTensors rest = load(fixture(name), {.mapped = mapped, .blocks = &blocks});
      CHECK(rest.size() + blocks.size() == weights.size());
      for (const auto& [key, b] : blocks) {
        CHECK(b.shape() == weights.at(key).shape());
        CHECK(same(b.values(), weights.at(key)));
        CHECK(same(matmul_transposed(numbers, b), matmul(numbers, matrix_transpose(weights.at(key)))));
      }
      CHECK(blocks.at("Q8_0").bytes.size() == 8 * 34);
    }
  }
  CHECK(load_metadata(fixture("several.safetensors")) == std::map<std::string, std::string>{{"step", "3"}});
  auto metadata = load_metadata(fixture("several.gguf"));
  CHECK(metadata.at("general.name") == "fixture");
  CHECK(metadata.at("tokens") == "[\"a\",\"b\\\"c\"]");
  CHECK(metadata.at("scale") == "0.5");
  CHECK(load_metadata(fixture("plain.npy")).empty());
  CHECK(same(load(fixture("float8.safetensors")).at("f"), zeros({4}, f8_e4m3fn)));
  CHECK(has(message_of([] { load(fixture("scales.safetensors")); }),
            "'f' has the dtype F8_E8M0, which is none of rill's"));
  CHECK(same(load(fixture("scales.safetensors"), {.names = {"w"}}).at("w"), grid(f16)));
}

TEST_CASE("What is saved is byte for byte what numpy and safetensors write") {
  Folder out;
  for (const char* name : {"plain.npy", "scalar.npy", "empty.npy", "bools.npy", "text.npy", "bytes.npy"}) {
    save(out / name, load(fixture(name)));
    CHECK(contents(out / name) == contents(fixture(name)));
  }
  save(out / "fortran.npy", arange(6).reshape({2, 3}).astype(i32).T().contiguous().T());
  CHECK(contents(out / "fortran.npy") == contents(fixture("fortran.npy")));
  save(out / "several.safetensors", load(fixture("several.safetensors")), {.metadata = {{"step", "3"}}});
  CHECK(contents(out / "several.safetensors") == contents(fixture("several.safetensors")));
}

TEST_CASE("Every dtype, through every format, dense and not") {
  Folder out;
  for (int i = 0; i < dtype_count; ++i) {
    const DType d = DType(i);
    if (d == rill::string) continue;
    INFO(name(d));
    Tensor x = arange(24).reshape({2, 3, 4}).astype(d);
    NamedTensors all = {{"x", x},
                        {"turned", x.T()},
                        {"part", x(1, slice(0, 3, 2))},
                        {"back", flip(x, {2})},
                        {"scalar", x(1, 2, 3)},
                        {"none", x(slice(0, 0))},
                        {"spread", broadcast_to(x(0, 0), {5, 4})}};
    for (const char* path : {"a.npz", "a.safetensors"}) {
      if (path == "a.npz"s ? d == bf16 || is_float8(d) : d == c128) {
        CHECK(has(message_of([&] { save(out / path, all); }), std::string(name(d))));
        continue;
      }
      for (bool option : {false, true}) {
        save(out / path, all, {.compress = option && path == "a.npz"s});
        NamedTensors back = load(out / path, {.mapped = option});
        CHECK(back.size() == all.size());
        for (const auto& [key, value] : all) CHECK(same(back.at(key), value));
      }
    }
    if (d == bf16 || is_float8(d)) continue;
    for (const auto& [key, value] : all) {
      save(out / "a.npy", value);
      CHECK(same(load(out / "a.npy").at(""), value));
    }
  }
}

TEST_CASE("Strings") {
  Folder out;
  Tensor x = tensor({{"", "a"}, {"käse", "日本🎉"}});
  save(out / "a.npz", {{"x", x}, {"turned", x.T()}, {"none", x(slice(0, 0))}});
  CHECK(load(out / "a.npz").at("x").to_vector<std::string>() == x.to_vector<std::string>());
  CHECK(load(out / "a.npz").at("turned").to_vector<std::string>() ==
        std::vector<std::string>{"", "käse", "a", "日本🎉"});
  CHECK(load(out / "a.npz").at("none").shape() == Shape{0, 2});
  CHECK(has(message_of([&] { save(out / "b.safetensors", {{"x", x}}); }), "holds no string"));
  Tensor zero = tensor({"a\0"s, "b"s});
  CHECK(has(message_of([&] { save(out / "b.npy", zero); }), "string 0 ends in one"));
}

TEST_CASE("A piece at a time of what is not dense") {
  Folder out;
  Tensor wide = arange(3 * 9'000'000).astype(f32).reshape({3, 9'000'000});
  Tensor x = wide(all, slice(0, 9'000'000, 2));  // 18 MB a row: several rows a piece
  save(out / "x.safetensors", {{"x", x}});
  CHECK(same(load(out / "x.safetensors").at("x"), x));
  Tensor rows = flip(arange(2 * 20'000'000).astype(f32).reshape({2, 20'000'000}), {1});  // a row is more than a piece
  save(out / "x.npy", rows);
  CHECK(same(load(out / "x.npy").at(""), rows));
}

TEST_CASE("Mapped tensors keep their values when the file is replaced or deleted") {
  Folder out;
  const std::string path = out / "x.safetensors";
  Tensor x = random::normal({1000, 100});
  save(path, {{"x", x}, {"y", x * 2}});
  NamedTensors mapped = load(path, {.mapped = true});
  save(path, {{"x", x + 1}});
  CHECK(same(mapped.at("x"), x));
  std::filesystem::remove(path);
  CHECK(same(mapped.at("y"), x * 2));
  Tensor alone = std::move(mapped.at("y"));
  mapped.clear();
  // Nobody else holds it: ops may write into its memory, which changes no file.
  Tensor z = std::move(alone).at(0, 0).set(7);
  CHECK(z(0, 0).item<float>() == 7);
  CHECK(same(exp(z * 0.5f + 1), exp(((x * 2).at(0, 0).set(7)) * 0.5f + 1)));
  save(out / "x.npy", x);
  for (int i = 0; i < 2; ++i) {
    Tensor again = load(out / "x.npy", {.mapped = true}).at("");
    again = std::move(again).at(0).set(0);
    CHECK(same(load(out / "x.npy").at(""), x));
  }
}

TEST_CASE("Devices") {
  Folder out;
  WithDevice device("ref:0");
  Tensor x = arange(6).reshape({2, 3});
  for (const char* name : {"x.npz", "x.safetensors"}) {
    save(out / name, {{"x", x}, {"turned", x.T()}});
    Tensor turned = load(out / name, {.mapped = true}).at("turned");
    CHECK(turned.device() == Device("ref:0"));
    CHECK(same(turned, x.T()));
  }
}

TEST_CASE("Only what is asked for") {
  Folder out;
  save(out / "a.npz", {{"x", arange(3)}, {"y", arange(4)}});
  CHECK(load(out / "a.npz", {.names = {"y"}}).size() == 1);
  CHECK(has(message_of([&] { load(out / "a.npz", {.names = {"y", "z"}}); }), "has no tensor named 'z'. it has x, y"));
  CHECK(has(message_of([&] { load(fixture("plain.npy"), {.names = {"x"}}); }), "has no tensor named 'x'"));
}

TEST_CASE("Variables, pairs, one tensor in any format") {
  Folder out;
  Variable w(arange(3).astype(f32), "w");
  save(out / "v.npy", w);
  CHECK(same(load(out / "v.npy").at(""), w));
  std::map<std::string, Variable> variables = {{"a/w", w}};
  save(out / "v.npz", variables);
  CHECK(same(load(out / "v.npz").at("a/w"), w));
  save(out / "braces.npz", {{"w", w}});
  save(out / "braces.npz", {{"w", w}, {"one", 1}});
  CHECK(load(out / "braces.npz").at("one").item<int>() == 1);
  std::vector<std::pair<std::string, Tensor>> pairs = {{"b", arange(2)}, {"a", w}};
  save(out / "p.safetensors", pairs);
  CHECK(same(load(out / "p.safetensors").at("b"), arange(2)));
  pairs.push_back({"b", arange(3)});
  CHECK(has(message_of([&] { save(out / "p.safetensors", pairs); }), "'b' is given twice"));
  const std::string twice = message_of([&] { save(out / "twice.npz", {{"a", w}, {"a", w}}); });
  CHECK(has(twice, "the name 'a' is given twice"));
  CHECK(has(twice, "test_tensor_files.cpp"));
  CHECK(!std::filesystem::exists(out / "twice.npz"));
  for (const char* path : {"one.npz", "one.safetensors"}) {
    save(out / path, 2.5f);
    CHECK(load(out / path).at("").item<float>() == 2.5f);
  }
  save(out / "none.safetensors", NamedTensors());
  save(out / "none.npz", NamedTensors());
  CHECK((load(out / "none.safetensors").empty() && load(out / "none.npz").empty()));
  save(out / "new/folders/X.NPY", arange(2));
  CHECK(same(load(out / "new/folders/X.NPY").at(""), arange(2)));
}

TEST_CASE("What cannot be saved") {
  Folder out;
  auto error = [&](const std::string& name, const NamedTensors& x, SaveOptions options = {}) {
    const std::string text = message_of([&] { save(out / name, x, options); });
    CHECK(has(text, "[save] '"));
    CHECK(out.names().empty());
    return text;
  };
  const Tensor x = arange(3);
  CHECK(has(error("x.txt", {{"", x}}), "use .npy, .npz or .safetensors"));
  CHECK(has(error("x", {{"", x}}), "use .npy, .npz or .safetensors"));
  CHECK(has(error("x.gguf", {{"x", x}}), "only read"));
  CHECK(has(error("x.npy", {{"x", x}}), "holds one tensor and no names"));
  CHECK(has(error("x.npy", {}), "holds one tensor and no names"));
  CHECK(has(error("x.npy", {{"", x}}, {.metadata = {{"a", "b"}}}), "hold no metadata"));
  CHECK(has(error("x.npy", {{"", x}}, {.compress = true}), "not compressed"));
  CHECK(has(error("x.safetensors", {{"x", x}}, {.compress = true}), "not compressed"));
  CHECK(has(error("x.safetensors", {{"__metadata__", x}}), "meaning of its own"));
  CHECK(has(error("x.safetensors", {{"\xff", x}}), "UTF-8"));
  CHECK(has(error("x.safetensors", {{"x", x}}, {.metadata = {{"a", "\xff"}}}), "UTF-8"));
  CHECK(has(error("x.npz", {{"\xff", x}}), "UTF-8"));
  CHECK(has(error("x.npz", {{"a\0b"s, x}}), "UTF-8"));
  CHECK(has(error("x.npz", {{std::string(65532, 'x'), x}}), "65531"));
  CHECK(has(message_of([&] { save(out / "x.safetensors", {{"x", Tensor()}}); }), "'x' is an undefined tensor"));
  auto f = function("f", [&](const Tensor& t) {
    save(out / "x.npy", t);
    return t;
  });
  CHECK(has(message_of([&] { f(x); }), "cannot be written while a function is traced"));
  CHECK(out.names().empty());
}

TEST_CASE("A link stays a link, and what it points to is written") {
  Folder out;
  const Tensor x = arange(10);
  save(out / "first.npy", x);
  std::filesystem::create_symlink("first.npy", out / "latest.npy");
  save(out / "latest.npy", x + 1);
  CHECK(std::filesystem::is_symlink(out / "latest.npy"));
  CHECK(same(load(out / "first.npy").at(""), x + 1));
  CHECK(out.names() == std::vector<std::string>{"first.npy", "latest.npy"});
}

TEST_CASE("What a killed program left, modes, and what is no file") {
  Folder out;
  for (int k = 0; k < 3000; ++k) {  // names that this process would take next
    std::ofstream(out / (".rill-" + std::to_string(getpid()) + "-" + std::to_string(k) + ".part")) << "left";
  }
  save(out / "x.npy", arange(3));
  CHECK(same(load(out / "x.npy").at(""), arange(3)));
  std::filesystem::permissions(out / "x.npy", std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  save(out / "x.npy", arange(4));
  CHECK((std::filesystem::status(out / "x.npy").permissions() & std::filesystem::perms::others_read) ==
        std::filesystem::perms::none);
  REQUIRE(mkfifo((out / "pipe.npy").c_str(), 0600) == 0);
  CHECK(has(message_of([&] { save(out / "pipe.npy", arange(3)); }), "pipe"));
  CHECK(std::filesystem::is_fifo(out / "pipe.npy"));
}

TEST_CASE("A program that is killed as it saves leaves what was there, and nothing beside") {
  Folder out;
  const int unnamed = open((out / ".").c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (unnamed >= 0) close(unnamed);
  const Tensor large = ones({1 << 20});
  for (const char* name : {"x.npy", "x.safetensors"}) {
    save(out / name, arange(3));
    const std::string kept = contents(out / name);
    const pid_t child = fork();
    if (child == 0) {
      std::signal(SIGXFSZ, SIG_DFL);  // which ends the process as it writes
      rlimit small = {1 << 16, 1 << 16};
      setrlimit(RLIMIT_FSIZE, &small);
      save(out / name, large);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(contents(out / name) == kept);
  }
  // Else the file system has no files without a name.
  if (unnamed >= 0) CHECK(out.names() == std::vector<std::string>{"x.npy", "x.safetensors"});
}

TEST_CASE("A .npz file is the one that was opened, also when another takes its name") {
  Folder out;
  save(out / "a.npz", {{"x", arange(3)}});
  save(out / "b.npz", {{"x", arange(3)}, {"y", ones({1000})}});
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; i < 200; ++i) {
      std::filesystem::copy_file(out / (i % 2 ? "a.npz" : "b.npz"), out / "next.npz");
      std::filesystem::rename(out / "next.npz", out / "c.npz");
    }
    done = true;
  });
  while (!std::filesystem::exists(out / "c.npz")) std::this_thread::yield();
  while (!done) CHECK(same(load(out / "c.npz").at("x"), arange(3)));
  writer.join();
}

TEST_CASE("A disk that is full leaves the file that was there") {
  Folder out;
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const Tensor x = arange(10), large = ones({1 << 20});
  for (const char* name : {"x.npy", "x.npz", "x.safetensors"}) {
    save(out / name, x);
    const std::string kept = contents(out / name);
    rlimit small = before;
    small.rlim_cur = 1 << 16;
    setrlimit(RLIMIT_FSIZE, &small);
    const std::string text = message_of([&] { save(out / name, large); });
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK(has(text, "[save]"));
    CHECK(has(text, "File too large"));
    CHECK(contents(out / name) == kept);
  }
  CHECK(out.names() == std::vector<std::string>{"x.npy", "x.npz", "x.safetensors"});
  std::signal(SIGXFSZ, SIG_DFL);
}

TEST_CASE("More members than 16 bits count") {
  Folder out;
  NamedTensors all;
  for (int i = 0; i < 65600; ++i) all.emplace("t" + std::to_string(i), full({}, i));
  for (const char* name : {"many.npz", "many.safetensors"}) {
    save(out / name, all);
    NamedTensors back = load(out / name);
    CHECK(back.size() == all.size());
    CHECK(back.at("t65599").item<int>() == 65599);
  }
}

TEST_CASE("a tensor of a map that is gone stays") {
  static_assert(std::is_same_v<decltype(load("x.npy").at("")), Tensor>);
  const Tensor& from_temporary = load(fixture("plain.npy")).at("");
  CHECK(same(from_temporary, grid(f32)));
  NamedTensors all = load(fixture("plain.npy"));
  all.at("") = grid(f64);  // of a map that stays it is the element
  CHECK(same(std::as_const(all).at(""), grid(f64)));
}
