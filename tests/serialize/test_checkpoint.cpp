// Checkpoints: round trips, what is refused and reported, names and subsets, the manager, resuming with the same bits,
// and what is left when writing fails. tests/fixtures/checkpoint holds files that TensorFlow wrote, by its make.py.
#include "catch.h"

#include <rill/data.h>
#include <rill/nn.h>
#include <rill/ops/state/variable_state.h>
#include <rill/rill.h>
#include <rill/serialize.h>
#include <rill/serialize/records.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "io_helpers.h"

using namespace rill;
namespace fs = std::filesystem;
using Paths = std::vector<std::string>;

namespace {
std::string fixture(const std::string& name) {
  return std::string(std::getenv("RILL_SOURCE_ROOT")) + "/tests/fixtures/checkpoint/" + name;
}
}  // namespace

TEST_CASE("a model that was not called yet is restored with the shapes of the file") {
  const Folder folder;
  const nn::Sequential saved(nn::Dense(3, 4), nn::Dense(4, 2));
  nn::Adam adam;
  adam.apply_gradients(std::vector<Gradient>{ones({3, 4}), ones({4}), ones({4, 2}), ones({2})}, saved.parameters());
  Checkpoint{{"model", saved}, {"adam", adam}}.save(folder / "whole");
  const nn::Sequential lazy(nn::Dense(4), nn::Dense(2));
  nn::Adam other;
  Checkpoint{{"model", lazy}, {"adam", other}}.restore(folder / "whole");
  CHECK(array_equal(lazy(ones({2, 3})), saved(ones({2, 3}))));
  CHECK(other.variables().size() == adam.variables().size());
  // What does not fit leaves it as it was: without values.
  const nn::Sequential more(nn::Dense(4), nn::Dense(2), nn::Dense(1));
  CHECK(has(message_of([&] { Checkpoint{{"model", more}}.restore(folder / "whole"); }), "dense_2/kernel"));
  CHECK_FALSE(more.variables()[0].is_built());
  CHECK(more(ones({2, 9})).shape() == Shape{2, 1});
  // And is not saved without.
  CHECK(has(message_of([&] { Checkpoint{{"model", nn::Dense(3)}}.save(folder / "none"); }), "no value yet"));
}

TEST_CASE("tensors of every dtype come back as they were") {
  Folder folder;
  std::map<std::string, Tensor> all;
  for (int d = 0; d < int(DType::string); ++d)
    for (Shape shape : {Shape{}, Shape{3}, Shape{2, 0, 3}, Shape{4, 5}}) {
      Tensor x = reshape(arange(shape.numel()) % 2 == 0, shape).astype(DType(d));
      if (is_floating(DType(d)) || is_complex(DType(d))) x = x / 3;
      all.emplace(std::string(name(DType(d))) + "/" + to_string(shape), x);
    }
  all.emplace("text",
              tensor(std::vector<std::string>{"", "one", std::string(300, 'x'), std::string("\0\xff", 2)}, {2, 2}));
  all.emplace("strided", reshape(arange(12), {3, 4}).T());
  for (int shards : {1, 3}) {
    const std::string prefix = folder / ("s" + std::to_string(shards));
    save_checkpoint(prefix, all, shards);
    const auto back = load_checkpoint(prefix);
    REQUIRE(back.size() == all.size());
    for (const auto& [name, t] : all) {
      INFO(name);
      CHECK(back.at(name).spec() == t.spec());
      if (t.dtype() == DType::string) CHECK(back.at(name).to_vector<std::string>() == t.to_vector<std::string>());
      else CHECK(array_equal(back.at(name), t));
    }
    CHECK(checkpoint_entries(prefix).size() == all.size());
    CHECK(load_checkpoint(prefix, {"f32", "text"}).size() == 5);
  }
  CHECK(folder.names() == Paths{"s1.data-00000-of-00001", "s1.index", "s3.data-00000-of-00003",
                                "s3.data-00001-of-00003", "s3.data-00002-of-00003", "s3.index"});
  CHECK_THROWS_WITH(load_checkpoint(folder / "s1", {"nothing"}), contains_text("nothing that matches 'nothing'"));
  CHECK_THROWS_WITH(load_checkpoint(folder / "s2"), contains_text("s2.index"));
  save_checkpoint(folder / "empty", {});
  CHECK_THROWS_AS(save_checkpoint(folder / "twice", {{"w", ones({2})}, {"w", zeros({2})}}), Error);
  CHECK(load_checkpoint(folder / "empty").empty());
}

TEST_CASE("the program of the issue") {
  Folder folder;
  Tensor w = random::normal({8, 4}), b = arange(4).astype(f32);
  Variable vw(w, "w"), vb(b, "b");
  CheckpointManager manager(Checkpoint{{"dense/w", vw}, {"dense/b", vb}}, folder / "ckpt", {.max_to_keep = 2});
  for (int step : {1, 2, 3}) manager.save(step);
  vw.assign(zeros({8, 4}));
  CHECK(manager.latest() == folder / "ckpt/ckpt-3");
  CHECK(manager.all() == Paths{folder / "ckpt/ckpt-2", folder / "ckpt/ckpt-3"});
  manager.restore();
  CHECK(array_equal(vw, w));
  CHECK_THROWS_WITH((Checkpoint{{"dense/w2", vw}}.restore(folder / "ckpt/ckpt-3")), contains_text("dense/w2"));
  CHECK(latest_checkpoint(folder / "ckpt") == folder / "ckpt/ckpt-3");
  const std::string list = contents(folder / "ckpt/checkpoint");
  CHECK_THAT(list, contains_text("model_checkpoint_path: \"ckpt-3\"\nall_model_checkpoint_paths: \"ckpt-2\"\n"));
}

TEST_CASE("what does not fit is reported, and nothing is restored unless it is allowed") {
  Folder folder;
  Variable a(ones({2}), "a"), b(ones({3}), "b"), c(ones({1}), "c");
  Checkpoint{{"a", a}, {"b", b}, {"old", c}}.save(folder / "x");
  Variable a2(zeros({2}), "a"), b2(zeros({4}), "b"), d(zeros({1}), "d");
  Checkpoint other{{"a", a2}, {"b", b2}, {"new", d}};
  const std::string message = message_of([&] { other.restore(folder / "x"); });
  CHECK_THAT(message, contains_text("missing from the file: new") && contains_text("extra in the file: old") &&
                          contains_text("misshapen: b: f32[4] here, f32[3] in the file"));
  CHECK(array_equal(a2, zeros({2})));
  const RestoreReport report =
      other.restore(folder / "x", {.allow_missing = true, .allow_extra = true, .allow_misshapen = true});
  CHECK(report.restored == Paths{"a"});
  CHECK(report.missing == Paths{"new"});
  CHECK(report.extra == Paths{"old"});
  CHECK(report.misshapen.size() == 1);
  CHECK_FALSE(report.complete());
  CHECK(array_equal(a2, ones({2})));
  for (RestoreOptions o : {RestoreOptions{.allow_missing = true, .allow_extra = true},
                           RestoreOptions{.allow_missing = true, .allow_misshapen = true},
                           RestoreOptions{.allow_extra = true, .allow_misshapen = true}})
    CHECK_THROWS_AS(other.restore(folder / "x", o), Error);
  Variable whole(tensor({1, 2}), "whole");  // another dtype is another shape
  CHECK_THROWS_WITH((Checkpoint{{"a", whole}}.restore(folder / "x", {.allow_extra = true})),
                    contains_text("i32[2] here"));
  // A subset, and other names.
  CHECK(other.restore(folder / "x", {.only = {"a"}}).complete());
  CHECK(Checkpoint{{"z", a2}}.restore(folder / "x", {.allow_extra = true, .names = {{"z", "a"}}}).restored ==
        Paths{"z"});
  other.save(folder / "part", {.only = {"a", "n*"}, .names = {{"a", "renamed/a"}}});
  CHECK(load_checkpoint(folder / "part").size() == 2);
  CHECK(load_checkpoint(folder / "part").contains("renamed/a"));
  CHECK_THROWS_WITH(other.save(folder / "y", {.only = {"q"}}), contains_text("none of the paths matches q"));
  CHECK_THROWS_WITH(other.save(folder / "y", {.names = {{"q", "p"}}}), contains_text("there is no 'q'"));
  CHECK_THROWS_WITH(other.save(folder / "y", {.names = {{"a", "b"}}}), contains_text("two Variables would"));
  CHECK_THROWS_WITH((Checkpoint{{"a", a}, {"a", b}}), contains_text("two parts"));
  CHECK_THROWS_WITH(other.save(""), contains_text("no name of a checkpoint"));
  auto traced = function("traced", [&] { return other.save(folder / "y"), a.value(); });
  CHECK_THROWS_WITH(traced(), contains_text("outside of traced functions"));
}

namespace {
struct Run {  // everything that training has
  nn::Sequential model{nn::Dense(3, 8, {.activation = tanh}), nn::Dropout(0.3), nn::BatchNorm(8), nn::Dense(8, 2)};
  nn::Adam adam{{.learning_rate = 0.01}};
  data::Batches batches{20, 6};
  Tensor x = random::normal({20, 3}, {.key = random::Key(5)}), y = random::normal({20, 2}, {.key = random::Key(6)});
  std::vector<Variable> parameters = model.parameters();
  Checkpoint checkpoint{{"model", model}, {"adam", adam}, {"random", random::generator()}, {"batches", batches}};

  void train(int steps, bool traced) {
    auto plain = [this](const Tensor& x, const Tensor& y) {
      GradientTape tape;
      Tensor loss = mean_squared_error(model(x, nn::Mode::training), y);
      adam.apply_gradients(tape.gradient(loss, parameters), parameters);
      return loss;
    };
    auto compiled = function("step", plain);
    for (int i = 0; i < steps; ++i) {
      const Tensor rows = batches.next();
      const Tensor bx = take(x, rows, 0), by = take(y, rows, 0);
      traced ? compiled(bx, by) : plain(bx, by);
    }
  }
};
}  // namespace

TEST_CASE("a run that is stopped and resumed gives the bits of one that was not") {
  for (bool traced : {false, true})
    for (int stop : {0, 1, 3, 6}) {  // in the middle of an epoch, and at its end
      INFO(traced << " " << stop);
      Folder folder;
      random::seed(7);
      Run whole;
      whole.train(10, traced);
      const auto expected = whole.checkpoint.values();
      {
        random::seed(7);
        Run first;
        first.train(stop, traced);
        first.adam.learning_rate.assign(0.01);
        first.checkpoint.save(folder / "run");
      }
      random::seed(99);
      Run second;                              // whose optimizer has made no slots yet
      if (stop == 3) second.train(2, traced);  // or has, and a trace that uses them
      CHECK(second.checkpoint.restore(folder / "run").complete());
      second.train(10 - stop, traced);
      const auto values = second.checkpoint.values();
      REQUIRE(values.size() == expected.size());
      for (const auto& [name, v] : expected) {
        INFO(name);
        CHECK(array_equal(values.at(name), v));
      }
    }
}

TEST_CASE("slots that a checkpoint has not are zeros if its optimizer had made none, and else are missing") {
  Folder folder;
  random::seed(1);
  Run run;
  run.checkpoint.save(folder / "start");
  run.train(3, false);
  run.checkpoint.restore(folder / "start");
  CHECK(all(variables(run.adam).at("iterations").value() == 0).item<bool>());
  for (const auto& [path, v] : variables(std::tie(run.model, run.adam)))
    if (path.ends_with("/m") || path.ends_with("/v")) CHECK(all(v.value() == 0).item<bool>());
  Checkpoint{{"model", run.model}}.save(folder / "model");
  CHECK_THROWS_WITH((Checkpoint{{"model", run.model}, {"adam", run.adam}}.restore(folder / "model")),
                    contains_text("adam/iterations") && contains_text("adam/model/dense/kernel/m"));
}

TEST_CASE("slots go by the name of their Variable in the file, and are not taken for zeros where they may be there") {
  Folder folder;
  Variable w(ones({2}), "w"), u(ones({2}), "u");
  auto train = [&](auto& optimizer) {
    GradientTape tape;
    Tensor loss = sum(10 * w);
    optimizer.minimize(loss, tape, {w});
  };
  nn::Adam adam, fresh, other;
  train(adam);
  Checkpoint{{"net", w}, {"adam", adam}}.save(folder / "net");
  for (nn::Adam* a : {&adam, &fresh}) {  // whose slots are there, and are to be made
    Checkpoint renamed{{"model", w}, {"adam", *a}};
    if (a == &adam) renamed.variables().at("adam/model/m").state().value = zeros({2});
    CHECK(renamed.restore(folder / "net", {.names = {{"model", "net"}}}).complete());
    CHECK(all(renamed.variables().at("adam/model/m").value() > 0.9f).item<bool>());
  }
  // Nobody says that it is called net there.
  CHECK_THROWS_WITH((Checkpoint{{"model", w}, {"adam", adam}}.restore(folder / "net", {.allow_extra = true})),
                    contains_text("missing from the file: model, adam/model/m"));
  // A Variable that the optimizer had not met, and an optimizer of another kind.
  other.build({w, u});
  CHECK(Checkpoint{{"net", w}, {"u", u}, {"adam", other}}.restore(folder / "net", {.allow_missing = true}).missing ==
        Paths{"u"});
  nn::SGD sgd;
  train(sgd);
  Checkpoint{{"net", w}, {"adam", sgd}}.save(folder / "sgd");
  CHECK_THROWS_WITH((Checkpoint{{"net", w}, {"adam", adam}}.restore(folder / "sgd")),
                    contains_text("missing from the file: adam/net/m"));
}

TEST_CASE("the manager: what it keeps, when it saves, where it begins") {
  Folder folder;
  Variable v(zeros({2}), "v");
  Checkpoint checkpoint{{"v", v}};
  {
    CheckpointManager manager(checkpoint, folder / "a", {.max_to_keep = 3});
    CHECK(manager.latest().empty());
    CHECK(manager.latest_step() == -1);
    CHECK_FALSE(manager.restore_if_any());
    CHECK_THROWS_WITH(manager.restore(), contains_text("there is no checkpoint in"));
    for (int i = 0; i < 5; ++i) {
      v.assign(full({2}, float(i)));
      manager.save(i * 10);
    }
    manager.save(40);  // again: it is one, and whole
    CHECK(manager.all() == Paths{folder / "a/ckpt-20", folder / "a/ckpt-30", folder / "a/ckpt-40"});
  }
  // Another process finds what is there.
  v.assign(zeros({2}));
  CheckpointManager again(checkpoint, folder / "a", {.max_to_keep = 2, .every_steps = 5});
  CHECK(again.restore_if_any());
  CHECK(v.value()(0).item<float>() == 4);
  CHECK(again.latest_step() == 40);
  CHECK_FALSE(again.save_if_due(41));
  CHECK_FALSE(again.save_if_due(44));
  CHECK(again.save_if_due(45));
  CHECK_FALSE(again.save_if_due(46));
  CHECK(again.all() == Paths{folder / "a/ckpt-40", folder / "a/ckpt-45"});
  CHECK_FALSE(fs::exists(folder / "a/ckpt-20.index"));
  // A list that names what is not there, and one that is no list.
  fs::remove(folder / "a/ckpt-45.index");
  CHECK(CheckpointManager(checkpoint, folder / "a").latest() == folder / "a/ckpt-40");
  put_file(folder / "a/checkpoint", "nonsense");
  CHECK_THROWS_WITH(CheckpointManager(checkpoint, folder / "a"), contains_text("a/checkpoint', line 1"));
  put_file(folder / "a/checkpoint",
           "# by hand\nmodel_checkpoint_path: 'ckpt\\x2d40'  all_model_checkpoint_paths: \"ckpt-40\"\n"
           "unknown: 3\n");
  CHECK(CheckpointManager(checkpoint, folder / "a").latest() == folder / "a/ckpt-40");
  // Minutes, and hours of those that stay for good.
  CheckpointManager rare(checkpoint, folder / "b", {.every_minutes = 1000});
  CHECK_FALSE(rare.save_if_due(1));
  CheckpointManager kept(checkpoint, folder / "c", {.max_to_keep = 1, .keep_every_hours = 1e-9});
  for (int i : {1, 2, 3}) kept.save(i);
  CHECK(kept.all() == Paths{folder / "c/ckpt-3"});
  CHECK(fs::exists(folder / "c/ckpt-1.index"));
  CHECK(fs::exists(folder / "c/ckpt-2.index"));
  CheckpointManager every(checkpoint, folder / "d", {.max_to_keep = 0});
  for (int i = 0; i < 8; ++i) CHECK(every.save_if_due(i));
  CHECK(every.all().size() == 8);
  CHECK_THROWS_WITH(CheckpointManager(checkpoint, folder / "e", {.max_to_keep = -1}), contains_text("max_to_keep"));
  CHECK_THROWS_WITH(CheckpointManager(checkpoint, folder / "e", {.prefix = "a/b"}), contains_text("prefix"));
  CHECK_THROWS_WITH(every.save(-3), contains_text("negative"));
}

TEST_CASE("a manager that saves removes what killed writers have left, and nothing that may be a live one's") {
  Folder folder;
  Variable v(zeros({2}), "v");
  auto old = [&](const std::string& name) {
    put_file(folder / name, "half");
    fs::last_write_time(folder / name, fs::file_time_type::clock::now() - std::chrono::hours(2));
  };
  const Paths left{".rill-999999999-0.part", ".rill-1-0.part", "ckpt-50.data-00000-of-00001"};
  for (const std::string& name : left) old(name);
  // A writer's shards are in place before its index is.
  const Paths live{".rill-999999999-1.part", "ckpt-51.data-00000-of-00002"};
  for (const std::string& name : live) put_file(folder / name, "half");
  // Names of users, and of another prefix.
  const Paths others{"ckpt-7.data-notes.txt",          "ckpt-7.data-00000-of-00001.bak",
                     "ckpt-.data-00000-of-00001",      "ckpt-x.data-00000-of-00001",
                     "ckpt-7.data-00000-of-0000x",     "ckpt-7.data-00000_of_00001",
                     "other.data-00000-of-00001",      ".rill-1-x.part",
                     "best-7.data-00000-of-00001",     "ckpt-1.data-00000-of-00001.bak",
                     "ckpt-1.data-00000-of-00001.txt", "ckpt-1.data-readme"};
  for (const std::string& name : others) old(name);
  auto present = [&](const Paths& names) {
    return std::count_if(names.begin(), names.end(), [&](auto& name) { return fs::exists(folder / name); });
  };
  CheckpointManager manager(Checkpoint{{"v", v}}, folder.path(), {.max_to_keep = 1});
  CHECK(manager.latest().empty());
  CHECK(present(left) == 3);  // who only looks removes nothing
  manager.save(1);
  CHECK(present(left) == 0);
  manager.save(2);
  CHECK_FALSE(fs::exists(folder / "ckpt-1.data-00000-of-00001"));
  CHECK(present(live) == 2);
  CHECK(present(others) == int64_t(others.size()));
}

TEST_CASE("a manager restores what its own options have it save") {
  Folder folder;
  Variable w(ones({2}), "w"), u(ones({2}), "u");
  CheckpointManager manager(Checkpoint{{"w", w}, {"u", u}}, folder / "a",
                            {.save = {.only = {"w"}, .names = {{"w", "weight"}}}});
  const int64_t nanoseconds = 1700000000000000000;
  manager.save(nanoseconds);
  w.assign(zeros({2}));
  u.assign(zeros({2}));
  CHECK(manager.restore().restored == Paths{"w"});
  CHECK(array_equal(w.value(), ones({2})));
  CHECK(array_equal(u.value(), zeros({2})));
  CHECK_THROWS_WITH(manager.restore({.only = {"*"}}), contains_text("missing from the file: u"));  // the caller's own
  CHECK(manager.latest_step() == nanoseconds);
  manager.save(INT64_MAX);
  CHECK(manager.latest_step() == INT64_MAX);
  fs::rename(manager.latest() + ".index", folder / "a/ckpt-9223372036854775808.index");
  put_file(folder / "a/checkpoint", "model_checkpoint_path: \"ckpt-9223372036854775808\"");
  CHECK(CheckpointManager(Checkpoint{{"w", w}}, folder / "a").latest_step() == -1);
}

TEST_CASE("a child of fork() does not wait for what its parent writes") {
  Folder folder;
  Variable v(zeros({1 << 22}), "v");
  CheckpointManager manager(Checkpoint{{"v", v}}, folder / "a", {.asynchronous = true});
  manager.save(1);
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(60);  // where it hangs
    manager.wait();
    manager.save(2);
    manager.wait();
    _exit(load_checkpoint(folder / "a/ckpt-2").size() == 1 ? 0 : 1);
  }
  int status = 0;
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  manager.wait();
  CHECK(load_checkpoint(folder / "a/ckpt-1").size() == 1);
}

TEST_CASE("asynchronous saving takes the values of that moment, and tells its errors") {
  Folder folder;
  Variable v(zeros({1000}), "v");
  {
    CheckpointManager manager(Checkpoint{{"v", v}}, folder / "a", {.max_to_keep = 0, .asynchronous = true});
    for (int i = 1; i <= 5; ++i) {
      v.assign(full({1000}, float(i)));
      manager.save(i);
      v.assign_add(full({1000}, 0.5f));  // in place, were the value not held
    }
  }
  for (int i = 1; i <= 5; ++i)
    CHECK(array_equal(load_checkpoint(folder / ("a/ckpt-" + std::to_string(i))).at("v"), full({1000}, float(i))));
  put_file(folder / "file", "");
  CheckpointManager broken(Checkpoint{{"v", v}}, folder / "b", {.asynchronous = true});
  fs::create_symlink(folder / "file", folder / "b");  // where the folder was to be
  broken.save(1);
  CHECK_THROWS_WITH(broken.wait(), contains_text("/b"));
  CHECK_NOTHROW(broken.wait());  // it was told
  CheckpointManager seldom(Checkpoint{{"v", v}}, folder / "b", {.every_steps = 100, .asynchronous = true});
  seldom.save(1);
  const auto is_told = [&] {
    for (int tries = 0; tries < 3000; ++tries) {
      try {
        seldom.save_if_due(2);  // which it is not
      } catch (const Error& e) {
        return std::string_view(e.what()).find("/b") != std::string_view::npos;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  };
  CHECK(is_told());
}

TEST_CASE("a checkpoint that replaces another has its files' names") {
  Folder folder;
  for (int i = 0; i < 3; ++i) {
    save_checkpoint(folder / "x", {{"a", full({10}, i)}, {"b", full({3}, i)}}, i == 1 ? 2 : 1);
    CHECK(array_equal(load_checkpoint(folder / "x").at("a"), full({10}, i)));
    if (i != 1) CHECK(folder.names() == Paths{"x.data-00000-of-00001", "x.index"});
    else CHECK(folder.names() == Paths{"x.data-00000-of-00002", "x.data-00001-of-00002", "x.index"});
  }
  save_checkpoint(folder / "x", {{"a", ones({2})}});
  CHECK(folder.names() == Paths{"x.data-00000-of-00001", "x.index"});
}

namespace {
std::string word(uint32_t n) { return std::string(reinterpret_cast<const char*>(&n), 4); }
// The bytes of a small table of leveldb's with these entries, none of whose sizes and places takes a second byte.
std::string small_table(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string bytes;
  auto put = [&](const std::vector<std::pair<std::string, std::string>>& block) {
    std::string own;
    for (const auto& [key, value] : block)
      own +=
          std::string{'\0', char(key.size()), char(value.size())} + key + value;  // shares nothing with the one before
    own += word(0) + word(1);
    const std::string handle{char(bytes.size()), char(own.size())};
    own += '\0';  // not compressed
    bytes += own + word(masked_crc32c(own));
    return handle;
  };
  const std::string data = put(entries), meta = put({}), index = put({{entries.back().first, data}});
  return bytes + meta + index + std::string(36, '\0') + word(0x8b80fb57) + word(0xdb477524);
}
}  // namespace

TEST_CASE("an index that names a part of a tensor twice is refused before anything is read") {
  Folder folder;
  using namespace std::string_literals;
  // Of f32[4], the part [0, 2) twice: protobuf's bytes of the header, the part and the whole.
  const std::string data(8, '\0');
  const std::string slice = "\x3a\x04\x0a\x02\x10\x02", size = "\x08\x01\x12\x04\x12\x02\x08";
  put_file(folder / "x.data-00000-of-00001", data);
  put_file(folder / "x.index",
           small_table({{"", "\x08\x01"},
                        {"\0big\0\1\1\1\x80\x82"s, size + "\x02\x28\x08\x35" + word(masked_crc32c(data))},
                        {"big", size + "\x04" + slice + slice}}));
  CHECK_THROWS_WITH(load_checkpoint(folder / "x"), contains_text("names one of its parts twice"));
}

TEST_CASE("a full or read-only file system leaves what was there") {
  Folder folder;
  Variable v(ones({50000}), "v");
  CheckpointManager manager(Checkpoint{{"v", v}}, folder / "a");
  manager.save(1);
  const std::string list = contents(folder / "a/checkpoint");
  // No file may be larger than this: what writing meets is what it meets on a full disk.
  struct rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit small{100000, old.rlim_max};
  v.assign(zeros({50000}));
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string again = message_of([&] { manager.save(1); }), next = message_of([&] { manager.save(2); });
  setrlimit(RLIMIT_FSIZE, &old);
  CHECK_THAT(again, contains_text("cannot write") && contains_text("ckpt-1.data-"));
  CHECK_THAT(next, contains_text("ckpt-2.data-00000-of-00001"));
  CHECK(contents(folder / "a/checkpoint") == list);
  CHECK(array_equal(load_checkpoint(manager.latest()).at("v"), ones({50000})));
  CHECK(std::distance(fs::directory_iterator(folder / "a"), {}) == 3);  // nothing half written stays
  CHECK_THROWS_WITH(save_checkpoint("/proc/x/y", {{"v", ones({1})}}),
                    contains_text("/proc/x"));  // as of a read-only one
  manager.save(2);
  CHECK(manager.all().size() == 2);
}

TEST_CASE("checkpoints that TensorFlow and Keras wrote") {
  const auto all = load_checkpoint(fixture("dtypes"));
  CHECK(all.size() == 33);
  for (int d = 0; d < int(DType::string); ++d) {
    const DType dtype = DType(d);
    const std::map<DType, std::string> names = {
        {DType::boolean, "bool"}, {DType::i8, "int8"},       {DType::i16, "int16"},      {DType::i32, "int32"},
        {DType::i64, "int64"},    {DType::u8, "uint8"},      {DType::u16, "uint16"},     {DType::u32, "uint32"},
        {DType::u64, "uint64"},   {DType::f16, "float16"},   {DType::bf16, "bfloat16"},  {DType::f32, "float32"},
        {DType::f64, "float64"},  {DType::c64, "complex64"}, {DType::c128, "complex128"}};
    const Tensor expected = reshape(arange(6), {2, 3});
    INFO(names.at(dtype));
    CHECK(all.at(names.at(dtype)).dtype() == dtype);
    CHECK(array_equal(all.at(names.at(dtype)), (dtype == DType::boolean ? expected % 2 : expected).astype(dtype)));
    CHECK(all.at(names.at(dtype) + "_scalar").shape() == Shape{});
  }
  CHECK(all.at("string").to_vector<std::string>() ==
        std::vector<std::string>{"", "one", std::string(300, 'x'), std::string("\0\xff", 2)});
  CHECK(all.at("string_scalar").item<std::string>() == "text");
  CHECK(all.at("empty").shape() == Shape{0, 4});
  // In parts, over two shards.
  const auto parts = load_checkpoint(fixture("parts"));
  CHECK(parts.size() == 3);
  CHECK(array_equal(parts.at("rows"), reshape(arange(24), {4, 6}).astype(f32)));
  CHECK(array_equal(parts.at("blocks"), reshape(arange(24), {4, 6}).astype(f32)));
  CHECK(array_equal(load_checkpoint(fixture("long")).at("long"), arange(300).astype(f32)));
  // Objects: by their paths, and by the names that their variables had.
  Variable w(zeros({2}), "w"), first(zeros({}), "first"), step(zeros({}, {.dtype = i64}), "step");
  const RestoreReport report =
      Checkpoint{{"net/w", w}, {"first", first}, {"step", step}}.restore(fixture("module"), {.allow_extra = true});
  CHECK(report.extra == Paths{"net/list/1/.ATTRIBUTES/VARIABLE_VALUE"});
  CHECK(array_equal(w, tensor({1.f, 2.f})));
  CHECK(first.value().item<float>() == 3);
  CHECK(step.value().item<int64_t>() == 7);
  const std::string keras = latest_checkpoint(fixture("keras"));
  CHECK(keras == fixture("keras/ckpt-1"));
  nn::Sequential model(nn::Dense(3, 4, {.name = "hidden"}), nn::Dense(4, 2, {.name = "out"}));
  Checkpoint{{"sequential", model}}.restore(keras, {.allow_extra = true});
  Variable same(zeros({3, 4}), "same");  // by the path of its objects, which is not the one that it was saved under
  Checkpoint{{"model/_functional/_operations/1/_kernel", same}}.restore(keras, {.allow_extra = true});
  CHECK(array_equal(same, variables(model).at("hidden/kernel")));
  std::ifstream kernel(fixture("keras_kernel.txt")), bias(fixture("keras_bias.txt"));
  for (double k : variables(model).at("hidden/kernel").value().to_vector<double>()) {
    double expected = 0;
    kernel >> expected;
    CHECK(k == expected);
  }
  for (double b : variables(model).at("out/bias").value().to_vector<double>()) {
    double expected = 0;
    bias >> expected;
    CHECK(b == expected);
  }
}

TEST_CASE("LBFGS goes on from a checkpoint, bit for bit") {
  const Folder at;
  struct Search {
    Variable w{tensor({-1.2, 1.0}), "w"};
    nn::LBFGS lbfgs{{.max_iterations = 3, .max_evaluations = 4, .history = 4}};
    void steps(int n) {
      for (int i = 0; i < n; ++i)
        lbfgs.minimize([&] { return square(1 - w(0)) + 100 * square(w(1) - square(w(0))); }, {w});
    }
    Checkpoint checkpoint() { return Checkpoint({{"w", w}, {"lbfgs", lbfgs}}); }
  };
  Search whole, first, second;
  whole.steps(7);
  for (const int done : {0, 1, 3}) {  // also where it remembers nothing yet, and over what it remembers
    first = Search(), first.steps(done);
    first.checkpoint().save(at / "search");
    first.steps(1);
    second.checkpoint().restore(at / "search");
    second.steps(7 - done);
    CHECK(same_bits(second.w.value(), whole.w.value()));
  }
  // Saved again before a step was made.
  second.checkpoint().restore(at / "search");
  second.checkpoint().save(at / "again");
  Search third;
  third.checkpoint().restore(at / "again");
  third.steps(4);
  CHECK(same_bits(third.w.value(), whole.w.value()));
  Variable more(ones({3}, f64), "more");
  CHECK(has(message_of([&] { third.lbfgs.minimize([&] { return sum(square(more.value())); }, {more}); }),
            "it remembers steps of 2 numbers, and the variables have 3"));
}
