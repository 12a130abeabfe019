// Damages good files and has rill's readers read them: each gives what it read or throws a rill::Error that names the file,
// never crashes, hangs or throws anything else, and takes memory in proportion to the file. A model that could be read is called, too.
// Made to be built with sanitizers.
//
//   fuzz_files [ENDING...]   all readers, or those: .npy .tfrecord
//   RILL_FUZZ_COUNT    how many files for each reader (a million by hand: some minutes)
//   RILL_FUZZ_SEED     which; what a failure prints runs it again
//   RILL_FUZZ_CORPUS   a folder with more good files
//
// A new reader is a line in `readers`, and its good files go into tests/fixtures. How files are damaged:
// fuzz_damage.h. Files are read in a child process, so that a crash is told with its number and the rest goes on.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "fuzz_damage.h"
#include "fuzz_models.h"
#include "fuzz_repair.h"
#include "own_new.h"
#include "rill/data.h"
#include "rill/rill.h"
#include "rill/serialize.h"
#include "rill/serialize/rill_file/package.h"

// --- No piece of memory that a small file may ask for is larger than this --------------------------------------------

namespace {
constexpr size_t largest_allocation = size_t(64) << 20;
bool calling = false;  // a model: its computation may be as large as it says, and may fail for that
}  // namespace

static void* memory_for_new(size_t bytes) {
  if (bytes <= largest_allocation) return std::malloc(bytes ? bytes : 1);
  if (calling) return nullptr;
  std::fprintf(stderr, "a reader asks for %zu bytes\n", bytes);
  std::abort();
}

extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1:max_allocation_size_mb=256"; }
extern "C" const char* __ubsan_default_options() { return "halt_on_error=1:print_stacktrace=1"; }

using namespace rill;
using namespace fuzz;

namespace {

// --- Time and memory have an end -------------------------------------------------------------------------------------

// The report of a child process.
struct Progress {
  uint64_t next, read, calls, endless;  // files: the current one, and how many of which kind
  uint64_t begun;                       // calls, those that throw too
  bool calling;
};
Progress* progress = nullptr;
Random call_random;

constexpr int seconds_each = 10;  // of the processor, for reading a file and for a call
void start_clock() {
  const itimerval clock = {{0, 0}, {seconds_each, 0}};
  setitimer(ITIMER_VIRTUAL, &clock, nullptr);
  alarm(600);  // where it sleeps for ever
}
void limit_memory() {
#ifndef RILL_SANITIZED
  const rlimit memory = {rlim_t(1) << 30, rlim_t(1) << 30};
  setrlimit(RLIMIT_DATA, &memory);
#endif
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
}

// --- Readers ---------------------------------------------------------------------------------------------------------

// Of a function that is not told which file it reads.
template <class F>
void of_file(const std::string& path, F&& f) {
  try {
    f();
  } catch (const Error& e) {
    throw Error(path + ": " + e.what());
  }
}

// Goes through a dataset to its end, by rows and by batches, whatever rows are wrong; throws the first error.
template <class T>
int64_t go_through(const data::Dataset<T>& ds) {
  constexpr int64_t most = 5000;
  std::string refused;
  int64_t rows = 0, wrong = 0;
  const auto all = [&](auto it) {
    for (int64_t n = 0; n < most; ++n) try {
        if (!it.next()) return;
        ++rows;
      } catch (const Error& e) {
        ++wrong;
        const bool of_batch = std::string_view(e.what()).find("[data::batch]") != std::string_view::npos;
        if (!of_batch) refused = e.what();  // batch() knows no files: lists of several lengths
      }
  };
  all(ds.iterator());
  const int64_t singles = rows;
  if (ds.size()) all(ds.shuffle({.seed = 1}).iterator());
  auto it = ds.iterator();
  try {
    it.next();
  } catch (const Error&) {
  }
  auto other = ds.iterator();
  other.restore(it.save());
  all(ds.batch(7).iterator());
  all(ds.skip(singles / 2).iterator());
  if (!refused.empty()) throw Error(refused);
  return singles;
}

// Looks at every element, read and mapped.
void read_tensors(const std::string& path) {
  static bool mapped = false;
  mapped = !mapped;
  const NamedTensors all = load(path, {.mapped = mapped});
  for (const auto& [name, t] : all) {
    if (t.dtype() == rill::string) t.to_vector<std::string>();
    else if (t.size() < 1 << 20) t.to_vector<double>();
  }
  load_metadata(path);
  for (const auto& [name, t] : all) try {
      if (path.ends_with(".npy")) go_through(data::npy(path));
      if (path.ends_with(".npz")) go_through(data::npz<Tensor>(path, {.names = {name}}));
      if (path.ends_with(".safetensors")) go_through(data::safetensors<Tensor>(path, {.names = {name}}));
    } catch (const Error&) {  // a scalar
    }
}

std::string all_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void parse(const std::vector<std::string>& examples) {
  const Partition rows = {Partition::Kind(examples[0].size() % 6), "splits", 2};
  for (const auto& [name, t] : read_example(examples[0]))
    if (t.dtype() == rill::string) t.to_vector<std::string>();
  // Each by itself: one that fails does not keep the others from being tried.
  const std::map<std::string, FeatureSpec> features = {{"image", fixed_feature(f32, {2, 3})},
                                                       {"label", fixed_feature(i64, {}, zeros({}, i64))},
                                                       {"words", variable_feature(rill::string)},
                                                       {"ids", padded_feature(i64, {2})},
                                                       {"rows", ragged_feature(i64, {rows}, "ids")}};
  std::string refused;
  for (const auto& feature : features) try {
      for (const auto& [name, r] : parse_examples(examples, {feature}).ragged) {
        r.indices();
        r.padded();
      }
    } catch (const Error& e) {
      refused = e.what();
    }
  if (!refused.empty()) throw Error(refused);
}

void read_record_file(const std::string& path) {
  RecordReader in(path, {.largest = 1 << 20});
  std::vector<std::string> records;
  for (std::string r; in.next(r);) records.push_back(r);
  if (!records.empty()) of_file(path, [&] { parse(records); });
  go_through(data::tfrecords(path));
}
void read_bare_example(const std::string& path) {
  of_file(path, [&] { parse({all_of(path)}); });
}
void read_bare_sequence(const std::string& path) {
  of_file(path, [&] {
    const auto parsed =
        parse_sequence_examples({all_of(path)}, {{"length", fixed_feature(i64, {}, zeros({}, i64))}},
                                {{"steps", fixed_feature(f32, {2})}, {"tokens", variable_feature(rill::string)}});
    parsed.ragged.at("tokens").padded();
  });
}
void read_table(const std::string& path) {
  const Table t = read_csv(path);
  of_file(path, [&] {
    for (const std::string& name : t.names) t.at(name);
  });
}
// Both readers accept the same files, or else the reader of entire files accepts fewer.
void read_csv_files(const std::string& path) {
  int64_t rows = -1;
  try {
    const Table t = read_csv(path);
    rows = t.columns.empty() ? 0 : int64_t(t.columns[0].dim(0));
  } catch (const Error&) {
  }
  std::map<std::string, DType> texts;
  if (rows >= 0)
    for (const std::string& name : read_csv(path).names) texts[name] = rill::string;
  if (texts.size() > 0 && int64_t(read_csv(path).names.size()) == int64_t(texts.size())) {
    const int64_t others = go_through(data::csv(path, {.dtypes = texts}));
    if (rows < 5000 && others != rows) throw std::runtime_error("data::csv() reads another number of rows");
  }
  go_through(data::csv(path));
  read_table(path);
}
void read_lines(const std::string& path) {
  std::string refused;
  try {
    go_through(data::csv<std::tuple<int64_t, double, std::string>>(path, {.columns = {"0", "1", "2"}}));
  } catch (const Error&) {
  }
  go_through(data::text_lines(path));
}
void read_sound(const std::string& path) { go_through(data::audio(path)); }
void read_idx_file(const std::string& path) { go_through(data::idx(path)); }

void read_columns(const std::string& path) {
  static bool masks = false;
  masks = !masks;
  std::string refused;
  try {
    go_through(data::arrow(path, {.masks = masks}));
  } catch (const Error& e) {
    refused = e.what();
  }
  read_arrow(path, {.masks = masks});
  if (!refused.empty()) throw Error(refused);
}

void read_parquet(const std::string& path) { go_through(data::parquet(path, {.masks = true})); }

void read_picture(const std::string& path) {
  static bool all_frames = false;
  all_frames = !all_frames;
  images::read_image(path, {.all_frames = all_frames, .max_pixels = 1 << 20});
}

// A model that computes for long or needs much memory is no fault of the reader's: import_model() has returned.
void call_if_small(const Model& model) {
  start_clock();
  progress->calling = calling = true;
  ++progress->begun;
  try {
    progress->calls += call_model(model, call_random);
  } catch (const Error&) {
  }
  progress->calling = calling = false;
}
void read_model(const std::string& path) {
  const Model model = import_model(path, {.trainable = below(call_random, 2) == 0});
  model.explain();
  call_if_small(model);
}
void read_saved_model(const std::string& path) { read_model(std::filesystem::path(path).parent_path().string()); }

// The graphs of a .rill file, out of the zip, whose checksum would catch the damage.
void read_graph(const std::string& path) {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  static const std::string weights =
      all_of((root ? root : ".") + std::string("/tests/fixtures/formats/functions.safetensors"));
  of_file(path, [&] { rill_file::read_package(all_of(path), weights, path, true, Where::current()); });
}

// A graph's text; a graph that is read prints, reads back and runs.
void read_graph_text(const std::string& path) {
  static const Variable w(ones({3, 2}), "w"), count(zeros({}, i64), "count");
  const GraphVariables variables = {{"w", w}, {"count", count}};
  Graph g;
  of_file(path, [&] { g = parse_graph(all_of(path), variables); });
  const std::string text = to_text(g);
  if (to_text(parse_graph(text, variables)) != text) throw std::runtime_error("prints otherwise when it is read back");
  GraphFeeds feeds;
  for (const GraphInput& in : g.inputs) {
    if (in.kind != GraphInput::Kind::argument) continue;
    const Spec& s = g.spec({in.node, 0});
    ValueInfo v{"x", s.dtype, s.shape};
    Tensor x;
    if (!make_input(v, call_random, x)) return;
    feeds.emplace_back(ValueId{in.node, 0}, x.to(s.device));
  }
  start_clock();
  progress->calling = calling = true;
  ++progress->begun;
  try {
    g.run(feeds);
    ++progress->calls;
  } catch (const Error&) {
  }
  progress->calling = calling = false;
}

// Each tensor by itself, and by the names of objects.
void read_checkpoint(const std::string& path) {
  const std::string prefix = path.substr(0, path.rfind('.'));
  std::string refused;
  const auto attempt = [&](auto&& f) {
    try {
      f();
    } catch (const Error& e) {
      refused = e.what();
    }
  };
  for (const auto& [name, spec] : checkpoint_entries(prefix))
    attempt([&, &name = name] {
      for (const auto& [found, t] : load_checkpoint(prefix, {name}))
        if (t.dtype() == rill::string) t.to_vector<std::string>();
    });
  Variable v(zeros({2}), "w");
  attempt([&] {
    Checkpoint{{"net/w", v}, {"model/_functional/_operations/1/_kernel", v}, {"w", v}}.restore(
        prefix, {.allow_missing = true, .allow_extra = true, .allow_misshapen = true});
  });
  if (!refused.empty()) throw Error(refused);
}
void read_list_of_checkpoints(const std::string& path) {
  latest_checkpoint(std::filesystem::path(path).parent_path().string());
}

// --- The list --------------------------------------------------------------------------------------------------------

struct Reader {
  const char* ending;  // of the names of its files
  void (*read)(const std::string& path);
  bool messages = false;  // of protobuf
  bool leaks = false;     // a library's fault, for which children are short-lived
};
constexpr Reader readers[] = {{".npy", read_tensors},
                              {".npz", read_tensors},
                              {".safetensors", read_tensors},
                              {".gguf", read_tensors},
                              {".tfrecord", read_record_file},
                              {".tfexample", read_bare_example, true},
                              {".tfsequence", read_bare_sequence, true},
                              {".csv", read_csv_files},
                              {".gz", read_lines},
                              {".zst", read_lines},
                              {".wav", read_sound},
                              {".flac", read_sound},
                              {".ogg", read_sound, false, true},  // libsndfile 1.2 loses 6 KB with a bad header
                              {".mp3", read_sound},
                              {".idx", read_idx_file},
                              {".arrow", read_columns},
                              {".arrows", read_columns},
                              {".feather", read_columns},
                              {".parquet", read_parquet},
                              {".jpg", read_picture},
                              {".png", read_picture},
                              {".gif", read_picture},
                              {".webp", read_picture},
                              {".bmp", read_picture},
                              {".onnx", read_model, true},
                              {".rill", read_model},
                              {".rillgraph", read_graph},
                              {".graphtext", read_graph_text},
                              {"saved_model.pb", read_saved_model, true},
                              {".pb", read_model, true},
                              {".index", read_checkpoint},
                              {"checkpoint", read_list_of_checkpoints}};
constexpr const char* corpus = "/tests/fixtures";

// --- Good files ------------------------------------------------------------------------------------------------------

namespace fs = std::filesystem;

struct GoodFile {
  std::string name, bytes;                    // the name from its corpus on
  std::map<std::string, std::string> beside;  // files that go with it: external weights, shards of a checkpoint
};

bool is_beside(const fs::path& file, const fs::path& other) {
  if (file.filename() == "saved_model.pb") return other.parent_path() == file.parent_path() / "variables";
  return other.parent_path() == file.parent_path() &&
         other.filename().string().starts_with(file.stem().string() + ".data");
}

bool is_for(const Reader& reader, const fs::path& path) {
  const std::string name = path.filename().string();
  const auto first = std::ranges::find_if(readers, [&](const Reader& r) { return name.ends_with(r.ending); });
  return first != std::end(readers) && first->ending == reader.ending;
}

void add_good_files(const Reader& reader, const std::string& folder, std::vector<GoodFile>& files) {
  std::vector<fs::path> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  const auto name_of = [&](const fs::path& path) { return path.lexically_relative(folder).string(); };
  for (const fs::path& path : all) {
    if (!is_for(reader, path)) continue;
    files.push_back({name_of(path), all_of(path.string()), {}});
    for (const fs::path& other : all)
      if (is_beside(path, other)) files.back().beside[name_of(other)] = all_of(other.string());
  }
}

std::vector<GoodFile> good_files(const Reader& reader) {
  const char *root = std::getenv("RILL_SOURCE_ROOT"), *more = std::getenv("RILL_FUZZ_CORPUS");
  std::vector<GoodFile> files;
  add_good_files(reader, (root ? root : ".") + std::string(corpus), files);
  if (more) add_good_files(reader, more, files);
  return files;
}

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), std::streamsize(bytes.size()));
}

// Reads one file, made from a good one or its neighbours. Returns how it failed.
std::string read_one(const Reader& reader, const std::vector<GoodFile>& good, uint64_t seed, const fs::path& folder) {
  Random random(seed);
  call_random.seed(seed);
  const GoodFile& file = good[below(random, good.size())];
  const std::string& other = good[below(random, good.size())].bytes;
  const bool of_message = reader.messages && below(random, 4) != 0;
  const auto damaged = [&](const std::string& name, std::string bytes, bool message) {
    for (size_t k = 1 + below(random, 1 + below(random, 5)); k-- > 0;)
      message ? damage_message(bytes, other, random) : damage(bytes, other, random);
    if (below(random, 8) != 0) repair(name, bytes);
    return bytes;
  };
  const bool shard = !file.beside.empty() && below(random, 8) == 0;
  const auto beside =
      shard ? std::next(file.beside.begin(), ptrdiff_t(below(random, file.beside.size()))) : file.beside.end();
  const std::string bytes = shard ? file.bytes : damaged(file.name, file.bytes, of_message);
  if (shard) write(folder / beside->first, damaged(beside->first, beside->second, false));
  write(folder / file.name, bytes);
  reset_peak_memory(Device());
  const size_t before = memory_stats(Device()).in_use;
  const uint64_t begun = progress->begun;
  std::string fault;
  start_clock();
  try {
    reader.read((folder / file.name).string());
    ++progress->read;
  } catch (const Error& e) {
    const std::string what = e.what();
    const bool is_built_without = what.find("this rill has no") != what.npos;  // the library that reads such files
    if (!is_built_without && what.find(folder.string()) == what.npos)
      fault = "an error that does not name the file: " + what;
  } catch (const std::exception& e) {
    fault = e.what()[0] ? e.what() : "an exception";
  }
  if (shard) write(folder / beside->first, beside->second);
  if (begun == progress->begun && memory_stats(Device()).peak - before > 2048 * bytes.size() + largest_allocation)
    fault = "too much memory";
  return fault;
}

// In the child process: those from progress->next on.
void read_all(const Reader& reader, const std::vector<GoodFile>& good, uint64_t seed, uint64_t count,
              const fs::path& folder) {
  limit_memory();
  const uint64_t end = reader.leaks ? std::min(count, progress->next + 2048) : count;
  for (; progress->next < end; ++progress->next) {
    const std::string fault = read_one(reader, good, seed + progress->next, folder);
    if (fault.empty()) continue;
    std::fprintf(stderr, "%s\n", fault.c_str());
    std::_Exit(1);
  }
}

// Whether each of `count` files is read as it should be.
bool run(const Reader& reader, uint64_t seed, uint64_t count, const fs::path& folder) {
  const std::vector<GoodFile> good = good_files(reader);
  if (good.empty()) return std::fprintf(stderr, "no good %s files\n", reader.ending), false;
  for (const GoodFile& file : good) {
    fs::create_directories((folder / file.name).parent_path());
    for (const auto& [name, bytes] : file.beside) {
      fs::create_directories((folder / name).parent_path());
      write(folder / name, bytes);
    }
  }
  *progress = {};
  int faults = 0;
  long peak = 0;
  for (bool done = false; !done && faults < 20; progress->calling = false) {
    const pid_t child = fork();
    if (child == 0) {
      read_all(reader, good, seed, count, folder);
      std::exit(0);
    }
    int status = 0;
    rusage use = {};
    wait4(child, &status, 0, &use);
    peak = std::max(peak, use.ru_maxrss / 1024);
    done = progress->next >= count;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    const uint64_t bad = seed + progress->next++;
    const bool endless = WIFSIGNALED(status) && WTERMSIG(status) == SIGVTALRM;
    if (endless && progress->calling) {
      ++progress->endless;
      std::printf("%s: a call takes long. RILL_FUZZ_SEED=%llu\n", reader.ending, static_cast<unsigned long long>(bad));
      std::fflush(stdout);  // before the next fork
      continue;
    }
    ++faults;
    std::fprintf(stderr, "%s: %s %d. RILL_FUZZ_SEED=%llu RILL_FUZZ_COUNT=1 fuzz_files %s\n", reader.ending,
                 endless               ? "takes too long, signal"
                 : WIFSIGNALED(status) ? "signal"
                                       : "exit status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), static_cast<unsigned long long>(bad),
                 reader.ending);
  }
  std::printf("%s: %llu damaged files, of which %llu could be read", reader.ending,
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(progress->read));
  if (progress->calls)
    std::printf(" and %llu called; %llu calls took longer than %d s", static_cast<unsigned long long>(progress->calls),
                static_cast<unsigned long long>(progress->endless), seconds_each);
  std::printf("; %ld MB at most\n", peak);
  std::fflush(stdout);
#ifndef RILL_SANITIZED
  if (!progress->calls && peak > 192) return false;  // libraries take memory past operator new
#endif
  return faults == 0;
}

}  // namespace

int main(int argc, char** argv) {
  setenv("RILL_JIT", "off", 0);
  // In memory where the system has a folder for that: a file is written for each.
  fs::path folder = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
  folder /= "rill-fuzz-" + std::to_string(getpid());
  fs::create_directories(folder);
  std::printf("a fault leaves its file in %s\n", folder.c_str());
  std::fflush(stdout);
  void* shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  progress = new (shared) Progress;
  bool good = true;
  for (const Reader& reader : readers) {
    const bool asked =
        argc == 1 || std::any_of(argv + 1, argv + argc, [&](char* a) { return reader.ending == std::string(a); });
    if (asked) good &= run(reader, setting("RILL_FUZZ_SEED", 1), setting("RILL_FUZZ_COUNT", 3000), folder);
  }
  if (good) fs::remove_all(folder);
  return good ? 0 : 1;
}
