// What summary::Writer makes of images, sounds, curves, hyperparameters, embeddings and profiles, against numbers that
// TensorFlow 2.21.0 gave for the same operands; and that asynchronous writers lose nothing. What TensorBoard's own
// readers make of the files is in test_tensorboard.py.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "catch.h"
#include "forks.h"
#include "io_helpers.h"
#include "rill/rill.h"
#include "rill/serialize.h"
#include "rill/summary.h"
#include "wire.h"

using namespace rill;

namespace {

using Bytes = std::vector<int>;

std::vector<Wire> events_of(const std::string& path) {
  std::vector<Wire> events;
  const std::vector<std::string> records = read_records(path);
  for (size_t i = 1; i < records.size(); ++i) events.emplace_back(records[i]);
  return events;
}
Wire value_of(const Wire& event) { return event.message(5).message(1); }
std::string plugin_of(const Wire& value) { return value.message(9).message(1).bytes(1); }
Wire content_of(const Wire& value) { return Wire(value.message(9).message(1).bytes(2)); }

// The PNG of one row of pixels.
std::string png_of(const Bytes& row, int64_t channels = 1) {
  return encode_png(std::vector<uint8_t>(row.begin(), row.end()), 1, int64_t(row.size()) / channels, int(channels));
}

// Whether values, as one row, are shown as these bytes.
bool shows(const Tensor& values, const Bytes& expected, summary::ImageOptions options = {}, int64_t channels = 1) {
  Folder out;
  summary::Writer log(out.path());
  log.image("i", values.reshape({1, values.size() / channels, channels}), 0, options);
  return value_of(events_of(log.path()).at(0)).message(8).bytes(8, 2) == png_of(expected, channels);
}

}  // namespace

TEST_CASE("Images are scaled as tf.image.convert_image_dtype does, in their own precision") {
  const std::vector<double> v = {0, 0.001, 0.00391, 0.25, 0.5, 0.75, 0.999, 1, 2, -1, 0.1, 0.9};
  const Bytes unit = {0, 0, 0, 63, 127, 191, 255, 255, 255, 0, 25, 229};
  for (DType d : {f32, f64, f16}) CHECK(shows(tensor(v).astype(d), unit));
  CHECK(shows(tensor(v).astype(bf16), Bytes{0, 0, 1, 64, 128, 192, 255, 255, 255, 0, 25, 230}));
  CHECK(shows(tensor({NAN, INFINITY, -INFINITY}), Bytes{0, 255, 0}));
  CHECK(shows(tensor({0, 7, 255}, u8), Bytes{0, 7, 255}));
  CHECK(shows(tensor({0, 255, 256, 65535, 32768}, u16), Bytes{0, 0, 1, 255, 128}));
  CHECK(shows(tensor({0, 127, 128, 32767, -5}, i16), Bytes{0, 0, 1, 255, 0}));
  CHECK(shows(tensor({0, (1 << 23) - 1, 1 << 23, INT32_MAX, -5}, i32), Bytes{0, 0, 1, 255, 0}));
  CHECK(shows(tensor({0, 1, 127, -128, 64}, i8), Bytes{0, 2, 254, 0, 128}));
  CHECK(shows(tensor({INT64_MAX, int64_t(1) << 55, int64_t(-1)}), Bytes{255, 1, 0}));
}

TEST_CASE("Images by their largest, as TensorFlow 1 scaled them") {
  const summary::ImageOptions largest = {.scale = summary::ImageScale::largest};
  CHECK(shows(tensor({0.f, 0.5f, 2.f, 1.f}), Bytes{0, 63, 255, 127}, largest));
  CHECK(shows(tensor({-1.f, 0.5f, 2.f, NAN}), Bytes{64, 159, 255, 255}, largest));
  CHECK(shows(tensor({1e-7f, 0.f}), Bytes{0, 0}, largest));
  CHECK(shows(tensor({1.f, 2.f, INFINITY, 0.5f, 0.f, 4.f}), Bytes{255, 0, 0, 31, 0, 255}, largest, 3));
  // Each image of a batch by its own.
  Folder out;
  summary::Writer log(out.path());
  log.image("i", tensor({1.f, 2.f, 10.f, 20.f}).reshape({2, 1, 2, 1}), 0, largest);
  const Wire t = value_of(events_of(log.path()).at(0)).message(8);
  CHECK(t.bytes(8, 2) == png_of({127, 255}));
  CHECK(t.bytes(8, 3) == png_of({127, 255}));
}

TEST_CASE("WAV files are those of tf.audio.encode_wav, byte for byte") {
  const std::string hex =
      "524946463800000057415645666d7420100000000100020044ac000010b10200040010006461746114000000"
      "0000ff7f00800040ff7f00800000ffff01000200";
  const std::vector<float> samples = {0, 1, -1, 0.5f, 2, -2, 0.00001f, -0.00002f, 1 / 65536.f, 3 / 65536.f};
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += char(std::stoi(hex.substr(i, 2), nullptr, 16));
  CHECK(encode_wav(samples, 2, 44100) == bytes);
  CHECK(encode_wav(std::vector<float>{NAN}, 1, 1).substr(44) == std::string("\0\0", 2));
  CHECK_THROWS_AS(encode_wav(samples, 3, 44100), Error);
  CHECK_THROWS_AS(encode_wav(samples, 0, 44100), Error);
  CHECK_THROWS_AS(encode_wav(samples, 1, 0), Error);

  Folder out;
  summary::Writer log(out.path());
  log.audio("a", tensor(samples).reshape({5, 2}), 44100, 3);
  log.audio("many", zeros({5, 4, 1}), 8000, 4, {.max_clips = 2});
  log.audio("mono", zeros({4}), 8000, 4);
  const auto events = events_of(log.path());
  const Wire v = value_of(events.at(0));
  CHECK(plugin_of(v) == "audio");
  CHECK(content_of(v).number(2) == 11);
  CHECK(v.message(8).bytes(8, 0) == bytes);
  CHECK(value_of(events.at(1)).message(8).count(8) == 4);  // two clips, each with a label
  CHECK(value_of(events.at(2)).message(8).bytes(8, 0).size() == 44 + 8);
  CHECK(has(message_of([&] { log.audio("a", zeros({2}), 0, 0); }), "0 Hz"));
  CHECK(has(message_of([&] { log.audio("a", zeros({2}, i32), 8000, 0); }), "i32[2]"));
  CHECK(has(message_of([&] { log.audio("a", zeros({1, 1, 1, 1}), 8000, 0); }), "f32[1,1,1,1]"));
}

TEST_CASE("Precision and recall at each threshold") {
  Folder out;
  summary::Writer log(out.path());
  const Tensor labels = tensor({true, false, true, true, false}), p = tensor({0.9f, 0.4f, 0.35f, 1.f, 0.f});
  log.pr_curve("c", labels, p, 1, {.thresholds = 5});
  log.pr_curve("w", labels, p, 1, {.thresholds = 5, .weights = tensor({1.f, 2.f, 0.5f, 1.f, 1.f})});
  const auto events = events_of(log.path());
  const Wire v = value_of(events.at(0));
  CHECK(plugin_of(v) == "pr_curves");
  CHECK(content_of(v).number(2) == 5);
  auto rows = [](const Wire& value) { return Wire::packed<float>(value.message(8).bytes(5)); };
  // Buckets floor(4 p): 3, 1, 1, 4, 0. tensorboard's pr_curve.summary.pb gives the same.
  CHECK(rows(v) == std::vector<float>{3,    3,     2, 2, 1, 2, 1, 0,       0,       0,
                                      0,    1,     2, 2, 2, 0, 0, 1,       1,       2,  //
                                      0.6f, 0.75f, 1, 1, 1, 1, 1, 2 / 3.f, 2 / 3.f, 1 / 3.f});
  CHECK(rows(value_of(events.at(1)))[0] == 2.5f);
  CHECK(rows(value_of(events.at(1)))[5] == 3.f);
  CHECK(has(message_of([&] { log.pr_curve("c", labels, p * 2, 1); }), "0 to 1"));
  CHECK(has(message_of([&] { log.pr_curve("c", labels, p * NAN, 1); }), "0 to 1"));
  CHECK(has(message_of([&] { log.pr_curve("c", labels, zeros({2}), 1); }), "one shape"));
  CHECK(has(message_of([&] { log.pr_curve("c", full(p.shape(), 2, i64), p, 1); }), "labels == k"));
  CHECK(has(message_of([&] { log.pr_curve("c", labels, p, 1, {.thresholds = 1}); }), "two thresholds"));
}

TEST_CASE("Hyperparameters") {
  Folder out;
  summary::Writer log(out.path());
  log.hparams_config(
      {{"rate", "how fast", {}, {{1e-4, 1e-1}}}, {"layers", "", {1, 2, 3}}, {"kind", "", {"adam", "sgd"}}, {"free"}},
      {{"loss", "the loss"}});
  log.hparams({{"rate", 0.01}, {"layers", 2}, {"kind", "adam"}, {"bias", true}}, "trial 1");
  log.hparams_end();
  const auto events = events_of(log.path());
  REQUIRE(events.size() == 3);
  const Wire v = value_of(events[0]);
  CHECK(plugin_of(v) == "hparams");
  CHECK(v.bytes(1) == "_hparams_/experiment");
  const Wire experiment = content_of(v).message(2);
  CHECK(experiment.count(4) == 4);
  CHECK(experiment.message(4, 0).message(6).has(2));
  CHECK(experiment.message(4, 1).message(5).count(1) == 3);
  CHECK(experiment.message(5).message(1).bytes(2) == "loss");
  CHECK(value_of(events[1]).bytes(1) == "_hparams_/session_start_info");
  const auto values = content_of(value_of(events[1])).message(3).entries(1);
  CHECK(values.at("bias").number(4) == 1);
  CHECK(values.at("kind").bytes(3) == "adam");
  CHECK(values.at("layers").number(2) == 0x4000000000000000);  // 2.0
  CHECK(content_of(value_of(events[1])).message(3).bytes(4) == "trial 1");
  CHECK(content_of(value_of(events[2])).message(4).number(1) == 1);
  CHECK(has(message_of([&] { log.hparams_config({{"x", "", {1, "a"}}}, {}); }), "several kinds"));
  CHECK(has(message_of([&] { log.hparams_config({{"x", "", {1}, {{0., 1.}}}}, {}); }), "one of the two"));
}

TEST_CASE("Embeddings: several writers of a folder, and what somebody else has put there") {
  Folder out;
  const Tensor vectors = tensor({{1.f, -0.5f}, {0.1f, 1e-10f}, {3.f, 4.f}});
  put_file(out / "projector_config.pbtxt",
           "# by hand\nmodel_checkpoint_path: 'model'\nembeddings: < tensor_name: \"mine\" tensor_shape: [3, 2] "
           "sprite { image_path: 'a' 'b' } >");
  summary::Writer first(out.path()), second(out.path());
  first.embedding("a/b", vectors);
  second.embedding("a_b", vectors);  // whose folder would be the same
  second.embedding("a/b", vectors, {.metadata = {{"word", {"x", "y", "z"}}}});
  CHECK(contents(out / "projector_config.pbtxt") ==
        "model_checkpoint_path: \"model\"\n"
        "embeddings {\n  tensor_name: \"mine\"\n  tensor_shape: 3\n  tensor_shape: 2\n"
        "  sprite {\n    image_path: \"ab\"\n  }\n}\n"
        "embeddings {\n  tensor_name: \"a_b\"\n  tensor_path: \"a_b_1/tensors.tsv\"\n  tensor_shape: 3\n"
        "  tensor_shape: 2\n}\n"
        "embeddings {\n  tensor_name: \"a/b\"\n  tensor_path: \"a_b/tensors.tsv\"\n  tensor_shape: 3\n"
        "  tensor_shape: 2\n  metadata_path: \"a_b/metadata.tsv\"\n}\n");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) summary::Writer(out.path()).embedding(std::to_string(10 * t + i), vectors);
    });
  for (std::thread& t : threads) t.join();
  const std::string all = contents(out / "projector_config.pbtxt");
  for (int t = 0; t < 4; ++t)
    for (int i = 0; i < 5; ++i) CHECK(has(all, "tensor_name: \"" + std::to_string(10 * t + i) + "\""));
  put_file(out / "projector_config.pbtxt", "embeddings {\n  tensor_name: \"x\"\n");
  CHECK(has(message_of([&] { first.embedding("y", vectors); }),
            "projector_config.pbtxt', line 3: a message does not end. expected the projector's configuration"));
}

TEST_CASE("Embeddings: a label that is blank keeps its row") {
  Folder out;
  summary::Writer log(out.path());
  const Tensor vectors = zeros({4, 1});
  log.embedding("one", vectors, {.metadata = {{"w", {"", "a", " \t", "\xC2\xA0\xE3\x80\x80"}}}});
  CHECK(contents(out / "one/metadata.tsv") == "\xE2\x80\x8B\na\n\xE2\x80\x8B  \n\xE2\x80\x8B\xC2\xA0\xE3\x80\x80\n");
  log.embedding("two", vectors, {.metadata = {{"v", {"", "a", "", ""}}, {"w", {"", "", "b", ""}}}});
  CHECK(contents(out / "two/metadata.tsv") == "v\tw\n\xE2\x80\x8B\t\na\t\n\tb\n\xE2\x80\x8B\t\n");
  CHECK(has(message_of([&] { log.embedding("x", vectors, {.metadata = {{"w", {"\xff", "", "", ""}}}}); }), "no UTF-8"));
  CHECK(has(message_of([&] { log.embedding("\xff", vectors); }), "no UTF-8"));
}

TEST_CASE("Embeddings: the projector's files") {
  Folder out;
  summary::Writer log(out.path());
  const Tensor vectors = tensor({{1.f, -0.5f}, {0.1f, 1e-10f}, {3.f, 4.f}});
  log.embedding("words", vectors, {.metadata = {{"word", {"a", "b\tc", "d"}}}});
  log.embedding("../both \"x\"", vectors,
                {.metadata = {{"word", {"a", "b", "d"}}, {"count", {"1", "2", "3"}}}, .sprites = ones({3, 2, 4, 1})});
  CHECK(contents(out / "words/tensors.tsv") == "1\t-0.5\n0.1\t1e-10\n3\t4\n");
  CHECK(contents(out / "words/metadata.tsv") == "a\nb c\nd\n");
  CHECK(contents(out / ".._both__x_/metadata.tsv") == "word\tcount\na\t1\nb\t2\nd\t3\n");
  std::vector<uint8_t> sprites(2 * 2 * 2 * 4, 255);  // two by two of 2x4, the last one empty
  for (size_t y : {2u, 3u})
    for (size_t x : {4u, 5u, 6u, 7u}) sprites[y * 8 + x] = 0;
  CHECK(contents(out / ".._both__x_/sprites.png") == encode_png(sprites, 4, 8, 1));
  const std::string config = contents(out / "projector_config.pbtxt");
  CHECK(has(config, "tensor_name: \"../both \\\"x\\\"\""));
  CHECK(has(config, "tensor_path: \"words/tensors.tsv\""));
  CHECK(has(config, "single_image_dim: 4\n    single_image_dim: 2\n"));
  log.embedding("words", vectors);  // again: replaced
  CHECK(contents(out / "projector_config.pbtxt").find("words/metadata.tsv") == std::string::npos);
  log.embedding("a/b", vectors);
  log.embedding("a_b", vectors);
  CHECK(std::filesystem::exists(out / "a_b_1/tensors.tsv"));
  CHECK(has(message_of([&] { log.embedding("x", zeros({3})); }), "f32[3]"));
  CHECK(has(message_of([&] { log.embedding("x", vectors, {.metadata = {{"w", {"a"}}}}); }), "1 texts for 3 rows"));
  CHECK(has(message_of([&] { log.embedding("x", vectors, {.sprites = zeros({2, 2, 2, 1})}); }), "3 rows has sprites"));
  CHECK(has(message_of([&] { log.embedding("x", zeros({100, 1}), {.sprites = zeros({100, 1, 900, 1})}); }), "8192"));
  CHECK(!std::filesystem::exists(out / "x"));
}

TEST_CASE("A profile: time and memory of each node") {
  auto f = function("f", [](const Tensor& x) { return matmul(exp(x), x) + 1.f; });
  const Profile p = profile(f, ones({16, 16}));
  Folder out;
  summary::Writer log(out.path());
  log.profile("step", p, 2);
  const auto events = events_of(log.path());
  REQUIRE(events.size() == 2);
  CHECK(events[0].has(4));
  const Wire v = value_of(events[1]);
  CHECK(plugin_of(v) == "graph_run_metadata");
  const Wire stats = Wire(v.message(8).bytes(8)).message(1).message(1);
  REQUIRE(stats.count(2) > 0);
  for (size_t i = 0; i < stats.count(2); ++i) {
    const Wire node = stats.message(2, i);
    CHECK(node.number(5) > 0);
    CHECK(node.message(6).number(2) == 16 * 16 * 4);
    CHECK(node.message(7).message(3).message(2).message(2, 1).number(1) == 16);
  }
}

// --- Asynchronous ----------------------------------------------------------------------------------------------------

TEST_CASE("An asynchronous writer: all threads' events, in each one's order, and none after flush() is missing") {
  Folder out;
  summary::Writer log(out.path(), {.asynchronous = true, .queue = 8});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        if (i % 10 == 0) log.histogram("h" + std::to_string(t), ones({10}) * float(i), i);
        else log.scalar("s" + std::to_string(t), i, i);
      }
    });
  for (auto& t : threads) t.join();
  log.flush();
  std::map<std::string, std::vector<uint64_t>> steps;
  for (const Wire& e : events_of(log.path())) steps[value_of(e).bytes(1).substr(1)].push_back(e.number(2));
  CHECK(steps.size() == 4);
  for (const auto& [thread, all] : steps) {
    CHECK(all.size() == 100);
    CHECK(std::is_sorted(all.begin(), all.end()));
  }
}

TEST_CASE("A Variable that is assigned after the call does not change what an asynchronous writer writes") {
  Folder out;
  Variable w(zeros({1000}));
  summary::Writer log(out.path(), {.asynchronous = true});
  for (int i = 0; i < 50; ++i) {
    log.histogram("w", w, i, 1);
    w.assign_add(ones({1000}));
  }
  log.flush();
  const auto events = events_of(log.path());
  REQUIRE(events.size() == 50);
  for (int i = 0; i < 50; ++i)
    CHECK(Wire::packed<double>(value_of(events[size_t(i)]).message(8).bytes(6)) ==
          std::vector<double>{double(i), double(i), 1000});
}

TEST_CASE("Destruction and moves write what waits") {
  Folder out;
  std::string path;
  {
    summary::Writer log(out.path(), {.asynchronous = true}), other = std::move(log);
    path = other.path();
    for (int i = 0; i < 100; ++i) other.text("t", "x", i);
  }
  CHECK(events_of(path).size() == 100);
}

TEST_CASE("Mistakes are told at once, and what the disk refuses at the next call") {
  Folder out;
  summary::Writer log(out.path(), {.asynchronous = true});
  CHECK(has(message_of([&] { log.scalar("s", zeros({2}), 0); }), "f32[2]"));
  CHECK(has(message_of([&] { log.image("s", zeros({2}), 0); }), "f32[2]"));
  // A file of this process may now have no more than it has.
  struct rlimit old, small;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
  small = old;
  small.rlim_cur = rlim_t(std::filesystem::file_size(log.path()));
  auto before = signal(SIGXFSZ, SIG_IGN);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  log.text("t", "lost", 0);
  const std::string m = message_of([&] { log.flush(); });
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, before);
  CHECK(has(m, "File too large"));
  CHECK(has(m, "test_summaries.cpp:"));
  log.text("t", "kept", 1);
  log.flush();
  CHECK(events_of(log.path()).size() == 1);
}

namespace {

// Runs `body` in a child process, which is killed (or ends by itself) once it wrote to the pipe; gives how it ended.
template <class F>
int in_child(F&& body, bool kill_it) {
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // a child that hangs ends here, and the test fails
    body();
    const char byte = 1;
    if (write(ready[1], &byte, 1) != 1) _exit(3);
    if (kill_it) pause();
    std::exit(0);
  }
  close(ready[1]);
  char byte = 0;
  CHECK(read(ready[0], &byte, 1) == 1);
  if (kill_it) kill(child, SIGKILL);
  close(ready[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

size_t count_in(const Folder& out) {
  size_t events = 0;
  for (const std::string& name : out.names()) events += events_of(out / name).size();
  return events;
}

}  // namespace

TEST_CASE("A process that is killed after flush() loses no event, one that ends by itself none at all") {
  for (bool asynchronous : {false, true})
    for (int round = 0; round < 10; ++round) {
      Folder out;
      const int status = in_child(
          [&] {
            auto* log = new summary::Writer(out.path(), {.asynchronous = asynchronous});
            for (int i = 0; i < 200; ++i) log->scalar("s", i, i);
            log->flush();
          },
          true);
      CHECK(WIFSIGNALED(status));
      CHECK(count_in(out) == 200);
    }
  Folder out;  // never flushed, never destroyed
  in_child(
      [&] {
        auto* log = new summary::Writer(out.path(), {.asynchronous = true});
        for (int i = 0; i < 200; ++i) log->histogram("h", ones({1000}), i);
      },
      false);
  CHECK(count_in(out) == 200);
}

TEST_CASE("Without flush(), a killed process leaves whole events, in order from the first") {
  for (int round = 0; round < 10; ++round) {
    Folder out;
    in_child(
        [&] {
          auto* log = new summary::Writer(out.path(), {.asynchronous = true});
          for (int i = 0; i < 300; ++i) log->text("t", std::string(500, 'x'), i);
        },
        true);
    uint64_t next = 0;
    for (const std::string& name : out.names())
      for (const Wire& e : events_of(out / name)) CHECK(e.number(2) == next++);
  }
}

TEST_CASE("A child of fork() cannot use its parent's writer, and ends without it") {
  Folder out;
  summary::Writer log(out.path(), {.asynchronous = true});
  log.text("t", "parent", 0);
  log.flush();  // a sanitizer's allocator has no handler of fork(): no other thread may be inside it
  const int status = in_child(
      [&] {
        bool refused = false;
        try {
          log.text("t", "child", 1);
        } catch (const Error&) {
          refused = true;
        }
        if (!refused) _exit(4);
      },
      false);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(count_in(out) == 1);
}

TEST_CASE("A child of fork() may destroy its parent's writer") {
  Folder out;
  auto log = std::make_unique<summary::Writer>(out.path(), summary::WriterOptions{.asynchronous = true});
  log->text("t", "parent", 0);
  log->flush();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // its thread waits
  const int status = in_child([&] { log.reset(); }, false);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  log.reset();
  CHECK(count_in(out) == 1);
}

TEST_CASE("Tags that are no UTF-8 are refused, and what follows can be read") {
  Folder out;
  summary::Writer log(out.path());
  CHECK_THROWS_AS(log.scalar("bad\xff", 1.f, 0), Error);
  log.scalar("good", 1.f, 1);
  log.flush();
  CHECK(count_in(out) == 1);
}
