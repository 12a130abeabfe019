// `rill`, the program: what each subcommand prints, exit codes, bad calls, terminals, full disks and closed pipes. What
// it makes of files is in test_command_files.cpp.
#include <regex>

#include "command_helpers.h"

using namespace command_tests;

TEST_CASE("help and version") {
  const Workplace at;
  const Done help = at.rill("--help");
  CHECK(help.code == 0);
  for (const char* name : {"show", "run", "bench", "graph", "convert", "freeze", "optimize", "inspect", "debug", "diff",
                           "launch", "completion"}) {
    CHECK(has(help.out, name));
    const Done one = at.rill(std::string(name) + " --help");
    CHECK(one.code == 0);
    CHECK(has(one.out, "Examples:"));
    CHECK(has(one.out, std::string("rill ") + name));
  }
  CHECK(has(at.rill("--version").out, "rill 0."));
}

TEST_CASE("a wrong call exits with 2") {
  const Workplace at;
  for (const char* arguments : {"",
                                "nonsense",
                                "show",
                                "show mlp.onnx --nonsense",
                                "run mlp.onnx",
                                "--color pink show mlp.onnx",
                                "run mlp.onnx --input z=x.npy",
                                "run mlp.onnx --inputs x.npz --repeat 0",
                                "completion tcsh",
                                "launch -n 2",
                                "launch -n 0 -- true",
                                "run mlp.onnx --random --shape x=1,4",
                                "run mlp.onnx --random --shape x=a,3",
                                "run mlp.onnx --input x=x.npy[9]",
                                "inspect mlp.onnx",
                                "convert mlp.onnx ./mlp.onnx",
                                "bogus",
                                "--threads 1 bogus",
                                "diff x.npz x.npz --tolerance nan",
                                "diff x.npz x.npz --tolerance -1",
                                "bench mlp.onnx --seconds inf",
                                "bench mlp.onnx --seconds nan",
                                "run mlp.onnx --inputs x.npz --outputs y.txt",
                                "run mlp.onnx --inputs x.npz -o y",
                                "run mlp.onnx --input x.npy[]",
                                "run mlp.onnx --input x.npy[9223372036854775807]",
                                "convert x.npz y.onnx",
                                "convert mlp.onnx y.onnx --compress",
                                "convert mlp.onnx y.npz --external-data",
                                "convert mlp.onnx y.npz --shape 4,3"}) {
    const Done done = at.rill(arguments);
    INFO(arguments << ": " << done.err);
    CHECK(done.code == 2);
    CHECK(done.err.starts_with("rill: "));
    CHECK(has(done.err, "--help"));
  }
  CHECK(has(at.rill("bogus").err, "'bogus' is no command. commands are show, run"));
  CHECK(has(at.rill("convert mlp.onnx mlp.unknown").err, "mlp.unknown"));
}

TEST_CASE("files that are missing, or are something else, exit with 1") {
  const Workplace at;
  put_file(at / "bad.onnx", "nonsense");
  put_file(at / "bad.npz", "nonsense");
  put_file(at / "text.txt", "nonsense");
  put_file(at / "bad.png", "nonsense");
  for (const char* command : {"show", "run", "bench", "graph", "inspect", "freeze absent"})
    for (const char* file : {"absent", "absent.onnx", "absent.index", "absent.npz"})
      check_fails(at.rill(std::string(command) + " " + file), 1, "'absent");
  check_fails(at.rill("show absent.onnx"), 1, "'absent.onnx': No such file");
  check_fails(at.rill("show absent"), 1, "'absent': no such file");
  check_fails(at.rill("run mlp.onnx --random --shape x=9999999999,3"), 1, "");
  check_fails(at.rill("show bad.onnx"), 1, "bad.onnx");
  check_fails(at.rill("show text.txt"), 1, "text.txt");
  check_fails(at.rill("inspect bad.npz"), 1, "bad.npz");
  check_fails(at.rill("inspect text.txt"), 1, "says nothing of what it is");
  check_fails(at.rill("inspect absent"), 1, "no such file");
  check_fails(at.rill("run mlp.onnx --input bad.png"), 1, "no PNG file");
  check_fails(at.rill("run mlp.onnx --inputs absent.npz"), 1, "absent.npz");
  check_fails(at.rill("run mlp.onnx --inputs x.npz --fetch nothing"), 1, "has no value 'nothing'");
  check_fails(at.rill("graph mlp.onnx -o mlp.unknown"), 1, "mlp.unknown");
  check_fails(at.rill("diff x.npz absent.npz"), 2, "absent.npz");  // 1 would say that they differ
}

TEST_CASE("show") {
  const Workplace at;
  const Done done = at.rill("show mlp.onnx");
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  for (const char* part : {"f32[?,3]", "f32[?,2]", "matmul", "dense/w", "f32[3,2]", "8 in 2 tensors, 32 B"}) {
    INFO(done.out);
    CHECK(has(done.out, part));
  }
  CHECK(has(at.rill("show mlp.onnx --nodes").out, "%0 = input(x)"));
  CHECK(has(at.rill("show mlp.onnx --shape 5,3").out, "FLOP a call"));
  const std::string json = at.rill("show mlp.onnx --json").out;
  CHECK(has(json, "\"shape\": [\n        null,\n        3\n      ]"));
  CHECK(has(json, "\"matmul\": 1"));
}

// Whether `script` can give the program a terminal.
static bool has_terminals() {
  if (std::system("script -qec true /dev/null >/dev/null 2>&1") == 0) return true;
  skip_case("script(1) has no pseudo-terminal to give");
  return false;
}

TEST_CASE("colours are for terminals") {
  const Workplace at;
  CHECK_FALSE(has(at.rill("show mlp.onnx").out, "\033["));
  CHECK(has(at.rill("--color always show mlp.onnx").out, "\033["));
  CHECK_FALSE(has(at.rill("--color never show mlp.onnx").out, "\033["));
  if (!has_terminals()) return;
  auto on_terminal = [&](const std::string& setting) {
    const std::string line =
        "cd " + at.path() + " && " + setting + " script -qec '" + program() + " show mlp.onnx' /dev/null >t.txt";
    REQUIRE(std::system(line.c_str()) == 0);
    return contents(at / "t.txt");
  };
  CHECK(has(on_terminal("TERM=xterm"), "\033[1m"));
  CHECK_FALSE(has(on_terminal("TERM=xterm NO_COLOR=1"), "\033["));
  CHECK_FALSE(has(on_terminal("TERM=dumb"), "\033["));
}

TEST_CASE("progress bars are for terminals") {
  const Workplace at;
  const std::string arguments = "bench mlp.onnx --seconds 0.8";
  CHECK(at.rill(arguments).err.find('\r') == std::string::npos);
  if (!has_terminals()) return;
  const std::string line = "cd " + at.path() + " && script -qec '" + program() + " " + arguments + "' /dev/null >t.txt";
  REQUIRE(std::system(line.c_str()) == 0);
  CHECK(has(contents(at / "t.txt"), "\rcalls "));
}

TEST_CASE("run: inputs of every kind, outputs of every kind") {
  const Workplace at;
  auto check_run = [&](const std::string& arguments, const Tensor& expected) {
    const Done done = at.rill("run mlp.onnx " + arguments + " --outputs y.npz");
    INFO(arguments << ": " << done.err);
    REQUIRE(done.code == 0);
    CHECK(done.out.empty());
    CHECK(allclose(at.result("y.npz"), expected));
  };
  check_run("--inputs x.npz", at.y_);
  check_run("--input x=x.npy", at.y_);
  check_run("--input x.npy", at.y_);
  check_run("--input x=x.npz:x", at.y_);
  check_run("--input x=x.npy[1:3]", at.y_(slice(1, 3)));
  check_run("--input x=x.npy[-1]", at.y_(slice(3, 4)));
  check_run("--input x=x.npz:x[2]", at.y_(slice(2, 3)));
  save(at / "wide.npy", at.x_.astype(f64));
  check_run("--input wide.npy", at.y_);
  save(at / "row.npy", at.x_(0));
  check_run("--input row.npy", at.y_(slice(0, 1)));  // a batch of one
  save(at / "ones.npy", ones({2, 3}, {.dtype = i64}));
  check_fails(at.rill("run mlp.onnx --input ones.npy"), 2, "--cast");
  check_run("--cast --input ones.npy", relu(matmul(ones({2, 3}), at.w_) + at.b_));
  write_csv(at / "x.csv", {{"a", "b", "c"}, {at.x_(all, 0), at.x_(all, 1), at.x_(all, 2)}});
  check_run("--input x.csv", at.y_);

  CHECK(has(at.rill("run mlp.onnx --input x.npy[0]").out, "y  f32[1,2]\n[["));
  REQUIRE(at.rill("run mlp.onnx --inputs x.npz --outputs y.npy").code == 0);
  CHECK(allclose(at.result("y.npy", ""), at.y_));
  REQUIRE(at.rill("run mlp.onnx --inputs x.npz -o deep/y.safetensors").code == 0);
  CHECK(allclose(at.result("deep/y.safetensors"), at.y_));
}

TEST_CASE("run: random inputs, time, parts and steps") {
  const Workplace at;
  const Done once = at.rill("run mlp.onnx --random --shape x=2,3 --seed 5"),
             again = at.rill("run mlp.onnx --random --shape x=2,3 --seed 5");
  CHECK(once.code == 0);
  CHECK(once.out == again.out);
  CHECK(has(once.out, "y  f32[2,2]"));
  const Done timed = at.rill("run mlp.onnx --random --repeat 20 --time -o y.npz");
  CHECK(timed.code == 0);
  CHECK(has(timed.err, "median"));
  CHECK(has(timed.err, "20 calls"));

  const Done steps = at.rill("run mlp.onnx --inputs x.npz --steps");
  INFO(steps.out << steps.err);
  CHECK(steps.code == 0);
  CHECK(has(steps.out, "matmul"));
  CHECK(has(steps.out, "mean"));
  // The name of the product, as the steps have it.
  std::istringstream lines(steps.out);
  std::string line, name;
  while (std::getline(lines, line))
    if (has(line, "matmul")) std::istringstream(line) >> name >> name;
  REQUIRE(at.rill("run mlp.onnx --inputs x.npz --fetch " + name + " -o part.npz").code == 0);
  CHECK(allclose(at.result("part.npz", name), matmul(at.x_, at.w_)));
}

TEST_CASE("run: pictures") {
  const Workplace at;
  auto f = function("brightness", [](const Tensor& images) { return mean(images.astype(f32), {1, 2}); },
                    {.signature = {spec(u8, {any, 2, 3}, "images")}});
  export_model(f, at / "brightness.onnx", {.outputs = {"y"}});
  const std::vector<uint8_t> pixels = {0, 10, 20, 30, 40, 50};
  put_file(at / "grey.png", encode_png(pixels, 2, 3, 1));
  REQUIRE(at.rill("run brightness.onnx --input grey.png -o y.npz").code == 0);
  CHECK(at.result("y.npz").item<float>() == 25);
}

TEST_CASE("bench") {
  const Workplace at;
  const Done done = at.rill("bench mlp.onnx --batch 8 --seconds 0.05 --profile");
  INFO(done.out << done.err);
  CHECK(done.code == 0);
  for (const char* part : {"f32[8,3]", "first call", "median", "items/s", "peak memory", "matmul"})
    CHECK(has(done.out, part));
}

TEST_CASE("graph") {
  const Workplace at;
  for (const char* file : {"g.html", "g.dot", "g.json", "g.pb", "logs/g"}) {
    const Done done = at.rill(std::string("graph mlp.onnx -o ") + file);
    INFO(done.err);
    CHECK(done.code == 0);
    CHECK(std::filesystem::exists(at / file));
  }
  CHECK(has(at.rill("graph mlp.onnx").out, "matmul"));
  CHECK(has(at.rill("graph mlp.onnx --optimize --shape x=2,3").out, "f32[2,3]"));
  if (std::system("dot -V 2>/dev/null") == 0) {
    REQUIRE(at.rill("graph mlp.onnx -o real.svg").code == 0);
    CHECK(has(contents(at / "real.svg"), "<svg"));
  }
  // A stand-in for Graphviz, called as `dot -Tsvg -o FILE FROM`.
  std::filesystem::create_directory(at / "bin");
  put_file(at / "bin/dot", "#!/bin/sh\n(echo \"$1\"; cat \"$4\") >\"$3\"\n");
  std::filesystem::permissions(at / "bin/dot", std::filesystem::perms::owner_all);
  REQUIRE(at.rill("graph mlp.onnx -o \"it's g.svg\"", "PATH=$PWD/bin:$PATH").code == 0);
  CHECK(contents(at / "it's g.svg").starts_with("-Tsvg\ndigraph"));
  put_file(at / "bin/dot", "#!/bin/sh\necho no >\"$3\"; exit 1\n");
  const Done failing = at.rill("graph mlp.onnx -o g.svg", "PATH=$PWD/bin:$PATH");
  CHECK(failing.code == 1);
  CHECK(has(failing.err, "has failed"));
  for (const std::string& name : at.names()) CHECK_FALSE(name.starts_with("g.svg"));  // nothing is left
  const Done none = at.rill("graph mlp.onnx -o g.svg", "PATH=/nowhere");
  CHECK(none.code == 1);
  CHECK(has(none.err, "apt-get install graphviz"));
}

TEST_CASE("completion scripts are sound") {
  const Workplace at;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Done done = at.rill(std::string("completion ") + shell);
    CHECK(done.code == 0);
    CHECK(has(done.out, "tolerance"));
    put_file(at / "script", done.out);
    const std::string has_shell = std::string("command -v ") + shell + " >/dev/null";
    if (std::system(has_shell.c_str()) == 0)
      CHECK(std::system((std::string(shell) + " -n " + (at / "script")).c_str()) == 0);
  }
  REQUIRE(at.rill("completion bash").code == 0);
  auto complete = [&](const std::string& words, int at_word) {
    const std::string line = "cd " + at.path() + " && bash -c 'source script.bash; COMP_WORDS=(" + words +
                             "); COMP_CWORD=" + std::to_string(at_word) + "; _rill; echo ${COMPREPLY[*]}' >words.txt";
    put_file(at / "script.bash", at.rill("completion bash").out);
    REQUIRE(std::system(line.c_str()) == 0);
    return contents(at / "words.txt");
  };
  CHECK(complete("rill sh", 1) == "show\n");
  CHECK(complete("rill diff a b --tol", 4) == "--tolerance\n");
  CHECK(complete("rill completion z", 2) == "zsh\n");
  CHECK(complete("rill show ", 2) == "\n");  // files
}

TEST_CASE("a full disk is an error, a closed pipe is not") {
  const Workplace at;
  if (!std::filesystem::exists("/dev/full")) return skip_case("there is no /dev/full here");
  auto code_of = [&](const std::string& line) {
    const int status = std::system(("cd " + at.path() + " && " + line).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  };
  CHECK(code_of(program() + " show mlp.onnx >/dev/full 2>err.txt") == 1);
  CHECK(has(contents(at / "err.txt"), "rill: cannot write to the standard output: No space left on device"));
  CHECK(code_of(program() + " --help >/dev/full 2>err.txt") == 1);
  CHECK(code_of(program() + " run mlp.onnx --inputs x.npz --outputs /proc/y.npz 2>err.txt") == 1);
  CHECK(has(contents(at / "err.txt"), "/proc/y.npz"));
  CHECK(code_of(program() + " show mlp.onnx 2>err.txt | head -1 >out.txt") == 0);
  CHECK(has(contents(at / "out.txt"), "mlp.onnx"));
  CHECK(contents(at / "err.txt").empty());
  CHECK(code_of(program() + " graph mlp.onnx 2>err.txt | true") == 0);
  CHECK(contents(at / "err.txt").empty());
}
