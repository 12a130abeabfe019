// `rill`, the program, and files: convert, inspect, diff, freeze and optimize, kinds of files, names and numbers in
// them.
#include <cmath>
#include <cstdlib>
#include <regex>

#include "command_helpers.h"
#include "rill/nn.h"
#include "rill/serialize/wav_audio.h"
#include "rill/summary.h"

using namespace command_tests;

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

TEST_CASE("show and bench say where each combination of sizes has a trace") {
  const Workplace at;
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  std::filesystem::copy(std::string(root ? root : ".") + "/tests/fixtures/onnx/rooted.onnx", at / "rooted.onnx");
  CHECK(has(at.rill("show rooted.onnx").out, "it has a trace for each combination of sizes: "));
  CHECK(has(at.rill("bench rooted.onnx --shape x=9 --seconds 0.01").out,
            "it has a trace for each combination of sizes: "));
  CHECK_FALSE(has(at.rill("show mlp.onnx").out, "it has a trace"));
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
  CHECK(has(at.rill("inspect x.tfrecord --stats").out, "label    i64[1]    0    2     1"));
  CHECK(has(at.rill("inspect x.tfrecord --head 2").out, "label=[1]"));
  put_file(at / "g.csv", "n,x,t\n1,0.5,a\n2,,bb\n7,2.5,\n");
  const std::string table = at.rill("inspect g.csv --stats --head 1").out;
  INFO(table);
  for (const char* part :
       {"n     i64       1    7      3.333", "x     f64     0.5  2.5        1.5  1 missing", "3 rows", "1  0.5  a"})
    CHECK(has(table, part));
  put_file(at / "s.tsv", "n\tm\n1\t2\nx\t3\n4.5\t5\n");
  const Done tabs = at.rill("inspect s.tsv");
  CHECK(has(tabs.out, "n  string\nm  i64\n3 rows"));
  put_file(at / "train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\3abc", 11));
  CHECK(has(at.rill("inspect train-labels-idx1-ubyte --stats").out, "u8[3]   97   99    98"));
  const std::vector<float> tone(16000, 0.25f);
  put_file(at / "tone.wav", encode_wav(tone, 2, 8000));
  CHECK(has(at.rill("inspect tone.wav --stats").out, "8,000 frames of 2 channels, 8,000 a second: 1"));
  std::filesystem::create_directories(at / "pets/cats");
  put_file(at / "pets/cats/1.png", "no picture");
  CHECK(has(at.rill("inspect pets").out, "1 pictures in 1 folders"));
  put_file(at / "t.csv", "a,b\n1,x\n2,y\n");
  CHECK(has(at.rill("inspect t.csv").out, "b  string\n2 rows"));
  put_file(at / "odd.csv", "a,b\ninf,1\n,2\n-inf,3\n0.5,inf\n");
  const std::string odd = at.rill("inspect odd.csv --stats").out;
  INFO(odd);
  CHECK(has(odd, "a     f64  0.5  0.5   0.5  1 missing, 2 not finite"));
  CHECK(has(odd, "b     f64    1    3     2  1 not finite"));
  put_file(at / "none.csv", "a,b\n");
  CHECK(has(at.rill("inspect none.csv").out, "a  "));
  CHECK(has(at.rill("inspect none.csv").out, "0 rows"));
  put_file(at / "nothing.csv", "");
  CHECK(has(at.rill("inspect nothing.csv").err, "nothing.csv' is empty: expected a header"));
  try {
    write_arrow(at / "t.arrow", {{"a", "b"}, {ones({4}), zeros({4, 3}, i16)}});
  } catch (const Error& e) {
    return skip_case(e.what());  // a build without Arrow
  }
  CHECK(has(at.rill("inspect t.arrow").out, "a  f32\nb  i16[3]\n4 rows"));
  write_arrow(at / "none.arrow", {{"a", "b"}, {ones({0}), zeros({0, 3}, i16)}});
  CHECK(has(at.rill("inspect none.arrow").out, "a  f32\nb  i16[3]\n0 rows"));
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  const std::string fixtures = std::string(root ? root : ".") + "/tests/fixtures/";
  const std::string lists =
      "tokens  i32[0 to 3]       1    7       3.25  1 missing\nwords   string[0 to 3]            up to 2 B\n"
      "points  f32[0 to 2,2]     1    8        4.5\nid      i64              10   40      26.67  1 missing\n4 rows\n"
      "tokens   words       points     id\n[1 2 3]  ['a' 'bb']  [[1. 2.]]  10\n[]       ['c']       []         -\n";
  CHECK(has(at.rill("inspect " + fixtures + "arrow/lists.arrow --stats --head 2").out, lists));
  const Done parquet = at.rill("inspect " + fixtures + "parquet/lists.parquet --stats --head 2");
  CHECK((has(parquet.out, lists) || has(parquet.err, "librill_parquet")));
  const Done others = at.rill("inspect " + fixtures + "arrow/others.arrow --head 1");
  CHECK(has(others.out, "any     i64[1 to 2]\nnone    f64\nnumber  i64\n2 rows\nany  none  number\n[1]  -     10\n"));
  CHECK(has(others.err, "the column 'when', of Arrow's type Decimal, is none that rill reads"));
  CHECK(has(at.rill("inspect " + fixtures + "arrow/late.arrow --head 4").out, "5 rows\nn  s\n1  a\n2  b\n-  c\n4  d"));
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

namespace {

// A .safetensors file of f32 tensors, of which the second claims a dtype that nobody has yet.
void write_with_unknown(const std::string& path) {
  save(path, {{"a", ones({2})}, {"b", ones({3})}, {"c", zeros({4})}});
  std::string bytes = contents(path);
  const size_t at = bytes.find("F32", bytes.find("\"b\""));
  REQUIRE(at != bytes.npos);
  bytes.replace(at, 3, "F99");
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("tensors of an unknown dtype are named, and the others are listed and compared") {
  const Workplace at;
  write_with_unknown(at / "new.safetensors");
  save(at / "old.safetensors", {{"a", ones({2})}, {"b", ones({3})}, {"c", ones({4})}});
  Done done = at.rill("inspect new.safetensors");
  CHECK(done.code == 0);
  for (const char* part : {"a  f32[2]", "c  f32[4]", "6 numbers in 2 tensors", "? cannot be read: b: ", "F99"})
    CHECK(has(done.out, part));
  CHECK(has(at.rill("inspect new.safetensors --stats").out, "? cannot be read: b: "));
  CHECK(has(at.rill("inspect new.safetensors --tensor b").err, "F99"));
  CHECK(has(at.rill("inspect new.safetensors --tensor a").out, "[1. 1.]"));
  for (const char* files : {"new.safetensors old.safetensors", "old.safetensors new.safetensors"}) {
    done = at.rill(std::string("diff ") + files);
    CHECK(done.code == 2);
    for (const char* part : {"! c", "? cannot be read: b: ", "1 equal, 1 different, 1 not compared"})
      CHECK(has(done.out, part));
  }
  CHECK_THROWS_AS(load(at / "new.safetensors"), Error);
  std::map<std::string, std::string> unreadable;
  CHECK(load(at / "new.safetensors", {.unreadable = &unreadable}).size() == 2);
  CHECK(has(unreadable.at("b"), "F99"));
}

TEST_CASE("diff of texts") {
  const Workplace at;
  save(at / "a.npz", {{"names", tensor({"a", "b", "c"})}, {"same", tensor({"x", "y"})}});
  save(at / "b.npz", {{"names", tensor({"a", "B", "C"})}, {"same", tensor({"x", "y"})}});
  const Done done = at.rill("diff a.npz b.npz");
  INFO(done.err);
  CHECK(done.code == 1);
  CHECK(has(done.out, "2 of 3 differ"));
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

TEST_CASE("diff finds none between the files of one model") {
  const Workplace at;
  nn::Sequential net(nn::Dense(3, 4), nn::Dense(4, 4), nn::Dense(4, 2));
  const auto f = function("f", [&](const Tensor& x) { return net(x); }, {.signature = {spec(f32, {any, 3}, "x")}});
  save(at / "net.safetensors", variables(net));
  for (const char* model : {"net.onnx", "net.rill", "net.pb"}) {
    export_model(f, at / model);
    CHECK(at.rill(std::string("diff net.safetensors ") + model).code == 0);
  }
  net.variables()[0].assign(zeros({3, 4}));
  export_model(f, at / "net.rill");
  CHECK(has(at.rill("diff net.onnx net.rill").out, "! dense/kernel"));
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
  auto g = function("g", [](const Tensor& x) { return x + 1; }, {.signature = {spec(u8, {any}, "x")}});
  export_model(g, at / "bytes.onnx", {.outputs = {"y"}});
  save(at / "below.npy", tensor({-1, 5}).astype(i8));
  save(at / "fits.npy", tensor({1, 5}).astype(i8));
  check_fails(at.rill("run bytes.onnx --input below.npy"), 2, "u8 does not hold");
  CHECK(at.rill("run bytes.onnx --input fits.npy").code == 0);
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
