// `rill debug`: what its commands print of a dump and of a model, expressions, lines from a pipe, completion at a terminal.
#include "command_helpers.h"
#include "rill/serialize/debugger.h"

using namespace command_tests;

namespace {

// A place with a dump of two steps, of which the second has infinities.
struct Dumped : Workplace {
  Dumped() { dump("d", 2.f); }
  void dump(const std::string& folder, float last) {
    const auto f = function("net", [&](const Tensor& x) {
      Tensor h;
      {
        NameScope scope("hidden");
        h = relu(matmul(x, w_) + b_);
      }
      return sum(log(h));
    });
    const auto watched = debug::dump(f, *this / folder, {.tensors = true});
    w_.assign(tensor({{1.f, -1.f}, {1.f, -1.f}, {1.f, -1.f}}));
    watched(tensor({{1.f, -3.f, 1.f}}));
    watched(full({1, 3}, last));
  }
  Done debug(const std::string& lines, const std::string& what = "d") const {
    std::string arguments = "debug " + what;
    std::istringstream in(lines);
    for (std::string line; std::getline(in, line, ';');) arguments += " -c '" + line + "'";
    return rill(arguments);
  }
};

}  // namespace

TEST_CASE("tensors are listed, filtered and sorted") {
  const Dumped at;
  const Done all = at.debug("lt");
  CHECK(all.code == 0);
  CHECK(has(all.out, "hidden/matmul:0"));
  CHECK(has(all.out, "test_command_debug.cpp:"));
  CHECK(has(all.out, "1 -inf"));
  CHECK(has(at.debug("lt -f has_inf_or_nan").out, "2 of"));
  CHECK(!has(at.debug("lt -f has_inf_or_nan").out, "hidden/matmul"));
  CHECK(has(at.debug("lt -o relu").out, "1 of"));
  CHECK(has(at.debug("lt -s hidden -n \"*relu*\"").out, "hidden/relu:0"));
  CHECK(has(at.debug("lt -d f64").out, "0 of"));
  const std::string sorted = at.debug("lt -s hidden --sort greatest -r -o matmul; lt --sort name").out;
  CHECK(has(sorted, "hidden/matmul:0"));
  CHECK(has(at.debug("use 0; lt -f has_inf").out, "2 of"));
  CHECK(has(at.debug("lc").out, "net"));
}

TEST_CASE("nodes, operands, readers, sources") {
  const Dumped at;
  const std::string node = at.debug("ni hidden/relu").out;
  for (const char* part :
       {"relu", "hidden", "test_command_debug.cpp:", "operand", "hidden/add:0", "read by", "log", "zero"})
    CHECK(has(node, part));
  CHECK(has(node, "h = relu(matmul(x, w_) + b_);"));
  const std::string inputs = at.debug("li log -d 9").out, outputs = at.debug("lo hidden/matmul -d 9").out;
  CHECK(has(inputs, "dense/w"));
  CHECK(has(inputs, "variable"));
  CHECK(has(outputs, "sum"));
  CHECK(!has(at.debug("li log -d 1").out, "matmul"));
  CHECK(has(at.debug("find rel").out, "hidden/relu"));
  CHECK(has(at.debug("ps").out, "test_command_debug.cpp"));
  CHECK(has(at.debug("ps test_command_debug.cpp -l 9223372036854775807").out, "TEST_CASE"));
  CHECK(at.debug("ps test_command_debug.cpp -b 9223372036854775807 -l 9223372036854775807").out.empty());
  const std::string source = at.debug("ps test_command_debug.cpp -l 12").out;
  CHECK(has(source, "return sum(log(h));"));
  CHECK(has(source, "bad"));
  CHECK(has(source, "nodes"));
}

TEST_CASE("tensors are printed in part, and expressions computed") {
  const Dumped at;
  CHECK(has(at.debug("use 1; pt hidden/matmul").out, "[[ 6. -6.]]"));
  CHECK(has(at.debug("use 1; pt hidden/matmul:0[0, 1]").out, "-6"));
  CHECK(has(at.debug("use 1; pt relu[:, ::-1]").out, "[[0. "));
  const auto value = [&](const std::string& expression) {
    const Done done = at.debug("use 1; eval " + expression);
    INFO(done.err);
    CHECK(done.code == 0);
    return done.out.substr(done.out.find('\n') + 1);
  };
  CHECK(value("`hidden/matmul:0`[0, 0] * 2 + 1") == "13.0\n");
  CHECK(value("max(abs(`hidden/matmul`))") == "6.0\n");
  CHECK(value("count(isinf(log))") == "1\n");
  CHECK(value("any(isnan(log))") == "False\n");
  CHECK(value("-(1 + 2) * 3 - 4 / 8") == "-9.5\n");
  CHECK(value("sum(`hidden/matmul` > 0, 1)[0]") == "1\n");
  CHECK(value("mean(`hidden/matmul` @ transpose(`hidden/matmul`))") == "72.0\n");
  for (const char* wrong : {"eval 1 +",
                            "eval (1",
                            "eval nonsense(1)",
                            "eval nothing",
                            "eval `log",
                            "eval log[",
                            "eval 1 2",
                            "pt",
                            "pt nothing",
                            "pt log[9, 9]",
                            "lt --nonsense",
                            "lt --sort shoe size",
                            "lt -f nonsense",
                            "use 9",
                            "nonsense",
                            "ni",
                            "diff",
                            "ps nothing",
                            "step nothing",
                            "lt -l x",
                            "help nonsense",
                            "step -2",
                            "pt log:99999999999999999999"}) {
    const Done done = at.debug(wrong);
    INFO(wrong << ": " << done.out);
    CHECK(done.code == 1);
    CHECK(done.err.starts_with("rill: "));
  }
  CHECK(at.debug("eval " + std::string(5000, '(')).code == 1);
}

TEST_CASE("step by step, and to the first bad value") {
  const Dumped at;
  CHECK(has(at.debug("step; step 2; step hidden/relu").out, "hidden/relu:0"));
  CHECK(has(at.debug("step 99").out, "has ended"));
  CHECK(has(at.debug("use 0; run -f has_inf_or_nan").out, "step 1: log:0 is the first"));
  CHECK(has(at.debug("run").out, "values"));
  CHECK(has(at.debug("help").out, "has_inf_or_nan") == false);
  CHECK(has(at.debug("help lt").out, "has_inf_or_nan"));
  CHECK(has(at.debug("help eval").out, "isnan"));
  CHECK(has(at.debug("lc; history").out, "1  lc"));
}

TEST_CASE("two dumps: the first value that differs") {
  Dumped at;
  at.dump("same", 2.f);
  at.dump("other", 3.f);
  CHECK(has(at.debug("diff same").out, "0 different"));
  const std::string other = at.debug("diff other").out;
  CHECK(has(other, "the first that differs"));
  CHECK(has(other, "step 1"));
  CHECK(has(other, "by 1 at most"));
  CHECK(has(at.debug("diff other -a").out, "hidden/matmul:0"));
}

TEST_CASE("a model, run or stepped through") {
  const Workplace at;
  const std::string file = "debug mlp.onnx --inputs x.npz";
  Done done = at.rill(file + " -c run -c 'lt' -c 'ni relu' -c 'pt dense/Relu/relu'");
  INFO(done.err << done.out);
  CHECK(done.code == 0);
  CHECK(has(done.out, "MatMul") + has(done.out, "matmul") > 0);
  done = at.rill(file + " -c 'step 2' -c 'step 99'");
  CHECK(done.code == 0);
  CHECK(has(done.out, "%"));
  CHECK(has(done.out, "the model has run"));
  CHECK(at.rill(file + " -c lt").code == 1);
  CHECK(at.rill(file + " --dump net -c run").code == 0);
  CHECK(at.rill("debug net -c lt").code == 0);
  CHECK(has(at.rill(file + " -c 'run -f has_nan'").out, "no value passes has_nan"));
  CHECK(at.rill("debug mlp.onnx -c run").code == 2);
  CHECK(at.rill("debug net --random -c run").code == 2);
  CHECK(at.rill("debug nowhere").code == 1);
}

TEST_CASE("lines come from a pipe") {
  const Dumped at;
  const Done done = at.rill("debug d", "printf 'lc\\n# nothing\\n\\nnonsense\\nquit\\nlt\\n' |");
  CHECK(done.code == 1);
  CHECK(has(done.out, "net"));
  CHECK(!has(done.out, "hidden/matmul"));
  CHECK(has(done.err, "there is no command 'nonsense'"));
  CHECK(at.rill("debug d", "printf 'lc' |").code == 0);
}
