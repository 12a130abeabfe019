// For the tests of `rill`, the program: a folder with models and tensors in which it runs, in a process of its own.
#pragma once
#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "catch.h"
#include "io_helpers.h"
#include "rill/rill.h"
#include "rill/serialize.h"

namespace command_tests {

using namespace rill;

struct Done {
  int code;
  std::string out, err;
};

inline std::string program() {
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
inline void check_fails(const Done& done, int code, const std::string& part) {
  INFO(done.out << done.err);
  CHECK(done.code == code);
  CHECK(done.out.empty());
  CHECK(done.err.starts_with("rill: "));
  CHECK(has(done.err, part));
  CHECK_FALSE(has(done.err, ".cpp:"));
}

}  // namespace command_tests
