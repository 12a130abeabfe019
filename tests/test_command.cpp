// `rill`, the program: what each subcommand prints and writes, exit codes, bad calls and bad files, full disks and
// closed pipes. Models and tensors are made here; the program runs in a process of its own.
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <regex>

#include "catch.h"
#include "io_helpers.h"
#include "rill/rill.h"
#include "rill/serialize.h"
#include "rill/summary.h"

using namespace rill;

namespace {

struct Done {
  int code;
  std::string out, err;
};

std::string program() {
  const char* root = std::getenv("RILL_BUILD_ROOT");
  return std::string(root ? root : "build") + "/command/rill";
}

// A folder with models and tensors, in which the program runs.
class Workplace : public Folder {
 public:
  Workplace() {
    random::seed(3);
    w_.assign(random::normal({3, 2}));
    auto f = function("mlp",
                      [&](const Tensor& x) {
                        NameScope scope("dense");
                        return relu(matmul(x, w_) + b_);
                      },
                      {.signature = {spec(f32, {any, 3}, "x")}});
    export_model(f, *this / "mlp.onnx", {.outputs = {"y"}});
    x_ = random::normal({4, 3});
    y_ = f(x_);
    save(*this / "x.npz", NamedTensors{{"x", x_}});
    save(*this / "x.npy", x_);
  }
  // The program with these arguments, by a shell.
  Done rill(const std::string& arguments, const std::string& before = "") const {
    const std::string line =
        "cd " + path() + " && " + before + " " + program() + " " + arguments + " >out.txt 2>err.txt";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(*this / "out.txt"),
            contents(*this / "err.txt")};
  }
  Tensor result(const std::string& file, const std::string& name = "y") const { return load(*this / file).at(name); }

  Variable w_{zeros({3, 2}), "dense/w"}, b_{full({2}, 0.1f), "dense/b"};
  Tensor x_, y_;
};

// `done` failed so, with a message of one line that says `part` and names no line of the program.
void check_fails(const Done& done, int code, const std::string& part) {
  INFO(done.out << done.err);
  CHECK(done.code == code);
  CHECK(done.out.empty());
  CHECK(done.err.starts_with("rill: "));
  CHECK(has(done.err, part));
  CHECK_FALSE(has(done.err, ".cpp:"));
}

}  // namespace

TEST_CASE("help and version") {
  const Workplace at;
  const Done help = at.rill("--help");
  CHECK(help.code == 0);
  for (const char* name :
       {"show", "run", "bench", "graph", "convert", "freeze", "optimize", "inspect", "diff", "completion"}) {
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

TEST_CASE("convert, freeze, optimize") {
  const Workplace at;
  for (const char* task : {"convert", "freeze", "optimize"}) {
    const Done done = at.rill(std::string(task) + " mlp.onnx again.onnx");
    INFO(done.err);
    REQUIRE(done.code == 0);
    const Model again = import_model(at / "again.onnx");
    CHECK(to_string(again.inputs().at(0)) == "x: f32[?,3]");
    CHECK(again.outputs().at(0).name == "y");
    CHECK(allclose(again({{"x", at.x_}}).at("y"), at.y_));
  }
  REQUIRE(at.rill("convert mlp.onnx four.onnx --shape 4,3").code == 0);
  CHECK(to_string(import_model(at / "four.onnx").inputs().at(0)) == "x: f32[4,3]");

  REQUIRE(at.rill("convert mlp.onnx w.safetensors").code == 0);
  CHECK(same_bits(load(at / "w.safetensors").at("dense/w"), at.w_));
  REQUIRE(at.rill("convert w.safetensors w.npz --compress").code == 0);
  CHECK(same_bits(load(at / "w.npz").at("dense/w"), at.w_));
}

TEST_CASE("optimize merges equal nodes, for every size") {
  const Workplace at;
  auto f = function("f", [](const Tensor& x) { return exp(x) * 2 + exp(x) * (full({3}, 1.f) + 1); },
                    {.signature = {spec(f32, {any, 3}, "x")}});
  export_model(f, at / "twice.onnx", {.outputs = {"y"}});
  REQUIRE(at.rill("optimize twice.onnx once.onnx").code == 0);
  CHECK(has(at.rill("show twice.onnx").out, "exp       2"));
  CHECK_FALSE(has(at.rill("show once.onnx").out, "exp       2"));
  const Model once = import_model(at / "once.onnx");
  for (const int64_t n : {1, 5}) {
    const Tensor x = random::normal({n, 3});
    CHECK(allclose(once({{"x", x}}).at("y"), f(x)));
  }
}

TEST_CASE("inspect") {
  const Workplace at;
  save(at / "all.safetensors", {{"a", ones({2, 3})}, {"big", zeros({100}) / 0}}, {.metadata = {{"made by", "a test"}}});
  const Done done = at.rill("inspect all.safetensors");
  for (const char* part : {"a    f32[2,3]", "big", "106 numbers in 2 tensors, 424 B", "made by: a test"})
    CHECK(has(done.out, part));
  CHECK(has(at.rill("inspect all.safetensors --stats").out, "100 not finite"));
  CHECK(at.rill("inspect all.safetensors --largest").out.starts_with("big"));
  CHECK(has(at.rill("inspect all.safetensors --tensor a").out, "[[1. 1. 1.]"));
  CHECK(at.rill("inspect all.safetensors --tensor z").code == 2);
  {
    summary::Writer log(at / "logs");
    for (int step = 0; step < 3; ++step) log.scalar("loss", 0.5 * step, step);
  }
  const std::string events = at.rill("inspect logs").out;
  INFO(events);
  for (const char* part : {"tfevents", "loss", "scalars", "steps 0 to 2", "last 1"}) CHECK(has(events, part));
  RecordWriter records(at / "x.tfrecord");
  for (int i = 0; i < 3; ++i) records.write(make_example({{"label", tensor({i})}}));
  records.close();
  const std::string examples = at.rill("inspect x.tfrecord").out;
  CHECK(has(examples, "3 records"));
  CHECK(has(examples, "label  i64[1]"));
  put_file(at / "t.csv", "a,b\n1,x\n2,y\n");
  CHECK(has(at.rill("inspect t.csv").out, "b  string\n2 rows"));
  try {
    write_arrow(at / "t.arrow", {{"a", "b"}, {ones({4}), zeros({4, 3}, i16)}});
  } catch (const Error& e) {
    return skip_case(e.what());  // a build without Arrow
  }
  CHECK(has(at.rill("inspect t.arrow").out, "a  f32\nb  i16[3]\n4 rows"));
  CHECK(at.rill("convert t.arrow t.npz").code == 0);
  CHECK(same_bits(load(at / "t.npz").at("b"), zeros({4, 3}, i16)));
}

TEST_CASE("inspect and diff of checkpoints") {
  const Workplace at;
  try {
    save_checkpoint(at / "ckpt/one", {{"w", ones({2})}, {"b", zeros({3})}});
  } catch (const Error& e) {
    return skip_case(e.what());  // a build without leveldb
  }
  save_checkpoint(at / "ckpt/two", {{"w", ones({2}) * 2}, {"b", zeros({3})}});
  CHECK(has(at.rill("inspect ckpt/one").out, "w  f32[2]"));
  CHECK(at.rill("inspect ckpt/one.index").out == at.rill("inspect ckpt/one").out);
  const Done done = at.rill("diff ckpt/one ckpt/two");
  CHECK(done.code == 1);
  CHECK(has(done.out, "! w  f32[2]  2 of 2 differ, by 1 at most"));
  CHECK(has(done.out, "1 equal, 1 different"));
}

TEST_CASE("diff") {
  const Workplace at;
  const Tensor nan = zeros({1}) / 0;
  save(at / "a.npz", {{"same", ones({2})}, {"gone", ones({1})}, {"w", tensor({1.f, 2.f})}, {"nan", nan}});
  save(at / "b.safetensors", {{"same", ones({2})}, {"new", ones({1})}, {"w", tensor({1.f, 2.5f})}, {"nan", nan}});
  const Done done = at.rill("diff a.npz b.safetensors");
  CHECK(done.code == 1);
  for (const char* part : {"- gone", "+ new", "! w", "1 of 2 differ, by 0.5 at most", "2 equal, 3 different"})
    CHECK(has(done.out, part));
  CHECK_FALSE(has(done.out, "same"));
  CHECK(has(at.rill("diff a.npz b.safetensors --all").out, "= same"));
  CHECK(at.rill("diff a.npz a.npz").code == 0);
  CHECK(at.rill("diff a.npz b.safetensors -q").out.empty());
  save(at / "c.npy", tensor({1.f, 2.f}));
  save(at / "d.npy", tensor({1.f, 2.5f}));
  CHECK(at.rill("diff c.npy d.npy --tolerance 0.6").code == 0);
  CHECK(at.rill("diff c.npy d.npy --tolerance 0.4").code == 1);
  save(at / "e.npy", tensor({1.f, 2.f, 3.f}));
  CHECK(has(at.rill("diff c.npy e.npy").out, "f32[2] and f32[3]"));
  CHECK(at.rill("diff mlp.onnx mlp.onnx").code == 0);
  save(at / "large.npy",
       tensor({int64_t(1) << 60, (int64_t(1) << 60) + 1, INT64_MIN}));  // f64 holds no such odd number
  save(at / "larger.npy", tensor({(int64_t(1) << 60) + 1, int64_t(1) << 60, INT64_MIN}));
  CHECK(has(at.rill("diff large.npy larger.npy").out, "2 of 3 differ, by 1 at most"));
  CHECK(at.rill("diff large.npy larger.npy --tolerance 1").code == 0);
}

TEST_CASE("inspect --stats is of the finite numbers") {
  const Workplace at;
  save(at / "odd.npz", NamedTensors{{"a", tensor({5., double(INFINITY), 7.})}, {"b", tensor({-5., double(NAN), -7.})}});
  const std::string out = at.rill("inspect odd.npz --stats").out;
  INFO(out);
  CHECK(std::regex_search(out, std::regex("a +f64\\[3\\].* 5 +7 +6 +1 not finite")));
  CHECK(std::regex_search(out, std::regex("b +f64\\[3\\].* -7 +-5 +-6 +1 not finite")));
  CHECK(at.rill("run mlp.onnx --random --steps --outputs y.npz").code == 2);
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

TEST_CASE("kinds of files go by the end of their names, in any case, not by what stands in between") {
  const Workplace at;
  namespace fs = std::filesystem;
  fs::copy(at / "mlp.onnx", at / "MLP.ONNX");
  fs::create_directory(at / "all.csv");
  fs::copy(at / "x.npz", at / "all.csv/x.tfevents.NPZ");
  fs::copy(at / "x.npy", at / "train-ubyte-x.png.NPY");
  CHECK(has(at.rill("show MLP.ONNX").out, "matmul"));
  CHECK(has(at.rill("inspect all.csv/x.tfevents.NPZ").out, "x  f32[4,3]"));
  CHECK(at.rill("run mlp.onnx --inputs all.csv/x.tfevents.NPZ -o Y.NPY").code == 0);
  CHECK(allclose(at.result("Y.NPY", ""), at.y_));
  CHECK(at.rill("run mlp.onnx --input train-ubyte-x.png.NPY").code == 0);
  // A folder called .csv makes no table of what is in it, whose numbers would be converted.
  save(at / "all.csv/ones.npy", ones({2, 3}, i64));
  CHECK(at.rill("run mlp.onnx --input all.csv/ones.npy").code == 2);
  CHECK(at.rill("convert MLP.ONNX W.NPZ").code == 0);
  CHECK(at.rill("convert MLP.ONNX Again.ONNX").code == 0);
  CHECK(at.rill("graph MLP.ONNX -o G.HTML").code == 0);
}

TEST_CASE("numbers that the model's dtype does not hold are an error") {
  const Workplace at;
  auto f = function("f", [](const Tensor& x) { return x + 1; }, {.signature = {spec(i32, {any}, "x")}});
  export_model(f, at / "whole.onnx", {.outputs = {"y"}});
  save(at / "large.npy", tensor({int64_t(1) << 40}));
  save(at / "small.npy", tensor({int64_t(1) << 20}));
  save(at / "real.npy", tensor({1.5f, 1e20f}));
  save(at / "nan.npy", tensor({NAN}));
  save(at / "complex.npy", complex(ones({2, 3}), ones({2, 3})));
  CHECK(at.rill("run whole.onnx --input small.npy -o y.npy").code == 0);
  check_fails(at.rill("run whole.onnx --input large.npy"), 2, "i32 does not hold");
  check_fails(at.rill("run whole.onnx --cast --input real.npy"), 2, "i32 does not hold");
  check_fails(at.rill("run whole.onnx --cast --input nan.npy"), 2, "i32 does not hold");
  CHECK(at.rill("run whole.onnx --cast --input real.npy[0]").code == 0);
  check_fails(at.rill("run mlp.onnx --cast --input complex.npy"), 2, "real numbers hold no complex ones");
}

TEST_CASE("outputs that cannot be written are found before the model runs") {
  const Workplace at;
  auto f = function("f", [](const Tensor& x) { return std::vector{x, x + 1}; }, {.signature = {spec(f32, {any}, "x")}});
  export_model(f, at / "two.onnx");
  for (const char* out : {"y.npy", "y.txt", "y"}) {
    const Done done = at.rill(std::string("run two.onnx --random --steps --outputs ") + out);
    CHECK(done.code == 2);
    check_fails(at.rill(std::string("run two.onnx --random --outputs ") + out), 2, out);
  }
  std::filesystem::create_directory(at / "folder.npz");
  check_fails(at.rill("run two.onnx --random --outputs folder.npz"), 1, "is a folder");
  check_fails(at.rill("run two.onnx --random --outputs x.npy/y.npz"), 1, "is no folder");
}

TEST_CASE("names from files reach the terminal as visible text") {
  const Workplace at;
  const std::string name = "a\x1b]0;owned\x07\x1b[2J\nrill: all is well\xc2\x9b\xe2\x80\xae";
  save(at / "odd.safetensors", {{name, ones({2})}}, {.metadata = {{"key\x1b[2J", "value\r"}}});
  save(at / "even.safetensors", {{name, zeros({2})}});
  Variable v(ones({3}), name);
  auto f = function("f", [&](const Tensor& x) { return x + v; }, {.signature = {spec(f32, {any, 3}, name)}});
  save_functions(at / "odd.rill", {{"f" + name, f, {.outputs = {name}}}, {"g", f, {.outputs = {name}}}});
  auto check_clean = [](const Done& done) {
    INFO(done.out << done.err);
    for (const std::string& text : {done.out, done.err}) {
      for (const char c : text) CHECK((c == '\n' || uint8_t(c) >= 0x20));
      CHECK_FALSE(has(text, "\xc2\x9b"));
      CHECK_FALSE(has(text, "\xe2\x80\xae"));
      CHECK_FALSE(has(text, "\nrill: all is well"));
    }
  };
  for (const char* call :
       {"inspect odd.safetensors", "inspect odd.safetensors --stats", "diff odd.safetensors even.safetensors",
        "show odd.rill", "show odd.rill --nodes --weights", "show odd.rill --json", "run odd.rill --random",
        "run odd.rill --random --steps", "bench odd.rill --seconds 0.01 --profile", "graph odd.rill", "run odd.rill",
        "run odd.rill --input odd.safetensors", "inspect odd.safetensors --tensor no"})
    check_clean(at.rill(call));
  CHECK(has(at.rill("inspect odd.safetensors").out, "a\\x1b]0;owned\\x07\\x1b[2J\\nrill: all is well\\u009b\\u202e"));
  CHECK(has(at.rill("--color always inspect odd.safetensors").out, "\033[32ma\\x1b]0;"));
  CHECK(has(at.rill("show odd.rill --json").out, "\"name\": \"fa\\u001b"));
}

TEST_CASE("functions and signatures are listed and chosen") {
  const Workplace at;
  auto twice = function("twice", [](const Tensor& x) { return x * 2; }, {.signature = {spec(f32, {any}, "x")}});
  auto sum_of = function("sum_of", [](const Tensor& a, const Tensor& b) { return a + b; },
                         {.signature = {spec(f32, {any}, "a"), spec(f32, {any}, "b")}});
  save_functions(at / "both.rill", {{"twice", twice}, {"sum_of", sum_of}});
  export_saved_model(at / "saved", {{"twice", twice}, {"sum_of", sum_of}});
  for (const char* file : {"both.rill", "saved", "saved/saved_model.pb"}) {
    const std::string path = file, choice = path + " --signature sum_of ";
    INFO(path);
    const std::string first = path == "both.rill" ? path : path + " --signature twice";
    const std::string out = at.rill("show " + first).out;
    CHECK(has(out, "functions"));
    CHECK(std::regex_search(out, std::regex("sum_of +\\(a: f32\\[\\?\\], b: f32\\[\\?\\]\\) +-> ")));
    CHECK(has(at.rill("show " + choice).out, "inputs\n  a  f32[?]\n  b  f32[?]"));
    CHECK(has(at.rill("show " + choice + "--json").out, "\"name\": \"twice\""));
    CHECK(at.rill("run " + choice + "--random --shape a=3 --shape b=3 -o y.npy").code == 0);
    CHECK(at.result("y.npy", "").size() == 3);
    CHECK(at.rill("bench " + choice + "--seconds 0.01").code == 0);
    CHECK(has(at.rill("graph " + choice).out, "add("));
    REQUIRE(at.rill("convert " + choice + "one.onnx").code == 0);
    CHECK(import_model(at / "one.onnx").inputs().size() == 2);
    check_fails(at.rill("show " + path + " --signature none"), 1, "'none'");
    check_fails(at.rill("show " + path + " --signature none"), 1, "'sum_of'");
  }
  REQUIRE(at.rill("convert both.rill again.rill").code == 0);
  CHECK(import_model(at / "again.rill").functions() == import_model(at / "both.rill").functions());
  CHECK(has(at.rill("convert both.rill first.onnx").err, "of 2 functions, this is 'twice'"));
  CHECK(at.rill("show saved --signature twice --tags serve").code == 0);
  check_fails(at.rill("show saved --signature twice --tags serve,gpu"), 1, "no graph with the tags");
  check_fails(at.rill("show both.rill --tags gpu"), 1, "tags");
  check_fails(at.rill("show mlp.onnx --signature f"), 1, "holds one function");
  check_fails(at.rill("show mlp.onnx --tags serve,gpu"), 1, "tags");
}

TEST_CASE("convert to a checkpoint") {
  const Workplace at;
  try {
    save_checkpoint(at / "probe", {{"w", ones({2})}});
  } catch (const Error& e) {
    return skip_case(e.what());  // a build without leveldb
  }
  for (const char* to : {"ckpt/one", "ckpt/two.index", "ckpt/three.ckpt"}) {
    const Done done = at.rill(std::string("convert x.npz ") + to);
    INFO(done.err);
    REQUIRE(done.code == 0);
  }
  CHECK(same_bits(load_checkpoint(at / "ckpt/one").at("x"), at.x_));
  CHECK(same_bits(load_checkpoint(at / "ckpt/two").at("x"), at.x_));
  CHECK(same_bits(load_checkpoint(at / "ckpt/three.ckpt").at("x"), at.x_));
  REQUIRE(at.rill("convert mlp.onnx start.ckpt").code == 0);
  CHECK(same_bits(load_checkpoint(at / "start.ckpt").at("dense/w"), at.w_));
  CHECK(at.rill("diff mlp.onnx start.ckpt").code == 0);
  REQUIRE(at.rill("convert mlp.onnx folder").code == 0);  // a SavedModel
  CHECK(at.rill("diff mlp.onnx folder").code == 0);
}
