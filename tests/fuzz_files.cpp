// Damages good files and has rill's readers read them: each gives what it read or throws rill::Error, never crashes,
// hangs or throws anything else, and takes memory in proportion to the file. Made to be built with sanitizers.
//
//   fuzz_files [ENDING...]   all readers, or those: .npy .tfrecord
//   RILL_FUZZ_COUNT   how many files for each reader (a million by hand: some minutes)
//   RILL_FUZZ_SEED    which; what a failure prints runs it again
//
// A new reader is a line in `readers`, and its good files go into one of `corpora`.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <new>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "rill/rill.h"
#include "rill/serialize.h"
#include "rill/serialize/rill_file/package.h"

// --- No piece of memory that a small file may ask for is larger than this --------------------------------------------

namespace {
constexpr size_t largest_allocation = size_t(64) << 20;
void* allocate_or_end(size_t bytes) {
  void* p = bytes <= largest_allocation ? std::malloc(bytes ? bytes : 1) : nullptr;
  if (p) return p;
  std::fprintf(stderr, "a reader asks for %zu bytes\n", bytes);
  std::abort();
}
}  // namespace
void* operator new(size_t bytes) { return allocate_or_end(bytes); }
void* operator new[](size_t bytes) { return allocate_or_end(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return allocate_or_end(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return allocate_or_end(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }

extern "C" const char* __ubsan_default_options() { return "halt_on_error=1:print_stacktrace=1"; }

using namespace rill;

namespace {

// --- Readers ---------------------------------------------------------------------------------------------------------

// Looks at every element, read and mapped.
void read_tensors(const std::string& path) {
  static bool mapped = false;
  mapped = !mapped;
  for (const auto& [name, t] : load(path, {.mapped = mapped})) {
    if (t.dtype() == rill::string) t.to_vector<std::string>();
    else if (t.size() < 1 << 20) t.to_vector<double>();
  }
  load_metadata(path);
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
  if (!records.empty()) parse(records);
}
void read_bare_example(const std::string& path) { parse({all_of(path)}); }
void read_bare_sequence(const std::string& path) {
  const auto parsed =
      parse_sequence_examples({all_of(path)}, {{"length", fixed_feature(i64, {}, zeros({}, i64))}},
                              {{"steps", fixed_feature(f32, {2})}, {"tokens", variable_feature(rill::string)}});
  parsed.ragged.at("tokens").padded();
}
void read_table(const std::string& path) {
  const Table t = read_csv(path);
  for (const std::string& name : t.names) t.at(name);
}

// Read and checked, not run: what a sound model computes may be as large as it says.
void read_model(const std::string& path) { import_model(path).explain(); }

// The graphs of a .rill file, out of the zip, whose checksum would catch the damage.
void read_graph(const std::string& path) {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  static const std::string weights = all_of((root ? root : ".") + std::string("/tests/formats/functions.safetensors"));
  rill_file::read_package(all_of(path), weights, path, true, Where::current());
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

// --- Checksums that hide what stands behind them ---------------------------------------------------------------------

uint64_t take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto b = uint8_t(bytes[0]);
    bytes.remove_prefix(1);
    value |= uint64_t(b & 0x7F) << shift;
    if (b < 0x80) break;
  }
  return value;
}

// Of the block of a table that lies where `handle` says, and its entries' values; empty where it lies outside.
std::vector<std::string> repair_block(std::string& bytes, std::string_view handle) {
  const uint64_t offset = take_varint(handle), size = take_varint(handle);
  if (bytes.size() < 48 || offset > bytes.size() || size > bytes.size() || offset + size + 5 > bytes.size() - 48)
    return {};
  const uint32_t sum = masked_crc32c(std::string_view(bytes).substr(offset, size + 1));
  std::memcpy(&bytes[offset + size + 1], &sum, 4);
  std::vector<std::string> values;
  for (std::string_view rest = std::string_view(bytes).substr(offset, size); rest.size() > 8;) {
    take_varint(rest);
    const uint64_t key = take_varint(rest), length = take_varint(rest);
    if (key > rest.size() || length > rest.size() - key) break;
    values.emplace_back(rest.substr(key, length));
    rest.remove_prefix(key + length);
  }
  return values;
}

// The block that lists the others, whose place stands at the end behind another one's, and those.
void repair_table(std::string& bytes) {
  if (bytes.size() < 48) return;
  std::string_view end = std::string_view(bytes).substr(bytes.size() - 48);
  take_varint(end);
  take_varint(end);
  const std::string index(end);
  for (const std::string& handle : repair_block(bytes, index)) repair_block(bytes, handle);
}

struct Reader {
  const char* ending;  // of the names of its files
  void (*read)(const std::string& path);
  void (*repair)(std::string& bytes) = nullptr;  // of most damaged files, so that a reader looks further
};
constexpr Reader readers[] = {{".npy", read_tensors},
                              {".npz", read_tensors},
                              {".safetensors", read_tensors},
                              {".gguf", read_tensors},
                              {".tfrecord", read_record_file},
                              {".tfexample", read_bare_example},
                              {".tfsequence", read_bare_sequence},
                              {".csv", read_table},
                              {".onnx", read_model},
                              {".rill", read_model},
                              {".rillgraph", read_graph},
                              {".index", read_checkpoint, repair_table},
                              {"checkpoint", read_list_of_checkpoints}};
constexpr const char* corpora[] = {"/tests/formats", "/tests/onnx", "/tests/fixtures/checkpoint",
                                   "/tests/fixtures/checkpoint/keras"};

// --- Damage ----------------------------------------------------------------------------------------------------------

using Random = std::mt19937_64;
size_t below(Random& random, size_t n) { return n ? size_t(random() % n) : 0; }

void put_number(std::string& bytes, Random& random) {
  constexpr uint64_t numbers[] = {0,          1,          2,          7,          255,        256,
                                  65535,      1 << 16,    0x7fffffff, 0x80000000, 0xffffffff, 1ull << 32,
                                  1ull << 40, 1ull << 47, 1ull << 62, 1ull << 63, ~0ull - 7,  ~0ull};
  const uint64_t n = numbers[below(random, std::size(numbers))];
  const size_t width = size_t(1) << below(random, 4);
  if (bytes.size() >= width) std::memcpy(&bytes[below(random, bytes.size() - width + 1)], &n, width);
}

// Of what is written as text: another number in place of one.
void put_digits(std::string& bytes, Random& random) {
  constexpr const char* numbers[] = {
      "0", "1", "-1", "4294967296", "9223372036854775807", "18446744073709551615", "1e9", "99999999999999999999"};
  const size_t from = bytes.find_first_of("0123456789", below(random, bytes.size()));
  if (from == bytes.npos) return;
  const size_t to = std::min(bytes.find_first_not_of("0123456789", from), bytes.size());
  bytes.replace(from, to - from, numbers[below(random, std::size(numbers))]);
}

void damage(std::string& bytes, const std::string& other, Random& random) {
  const size_t at = below(random, bytes.size()), n = below(random, 1 + below(random, 64));
  switch (below(random, 10)) {
    case 0: bytes.resize(at); break;
    case 1: bytes.erase(at, n); break;
    case 2: bytes.insert(at, n, char(random())); break;
    case 3: bytes.insert(at, bytes.substr(below(random, bytes.size()), n)); break;
    case 4: bytes.replace(at, n, other.substr(below(random, other.size()), n)); break;
    case 5: bytes += bytes.substr(at); break;
    case 6: put_digits(bytes, random); break;
    case 7: put_number(bytes, random); break;
    default:
      if (!bytes.empty()) bytes[at] = char(below(random, 2) ? random() : uint8_t(bytes[at]) ^ 1u << below(random, 8));
  }
}

// --- Running ---------------------------------------------------------------------------------------------------------

struct GoodFile {
  std::string name, bytes;
  std::map<std::string, std::string> beside;  // files that go with it: shards of a checkpoint
};

std::vector<GoodFile> good_files(const std::string& ending) {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  std::vector<std::filesystem::path> paths, all;
  for (const char* folder : corpora)
    for (const auto& entry : std::filesystem::directory_iterator((root ? root : ".") + std::string(folder)))
      (entry.path().filename().string().ends_with(ending) && entry.is_regular_file() ? paths : all)
          .push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<GoodFile> files;
  for (const auto& path : paths) {
    files.push_back({path.filename().string(), all_of(path.string()), {}});
    for (const auto& other : all)
      if (other.filename().string().starts_with(path.stem().string() + ".data-"))
        files.back().beside[other.filename().string()] = all_of(other.string());
  }
  return files;
}

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Whether each of `count` files is read as it should be.
bool run(const Reader& reader, uint64_t seed, uint64_t count, const std::filesystem::path& folder) {
  const std::vector<GoodFile> good = good_files(reader.ending);
  if (good.empty()) return std::fprintf(stderr, "no good %s files\n", reader.ending), false;
  const auto write = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(folder / name, std::ios::binary | std::ios::trunc).write(bytes.data(), std::streamsize(bytes.size()));
  };
  for (const GoodFile& file : good)
    for (const auto& [name, bytes] : file.beside) write(name, bytes);
  uint64_t read = 0;
  for (uint64_t i = 0; i < count; ++i) {
    Random random(seed + i);
    const GoodFile& file = good[below(random, good.size())];
    const std::string path = (folder / file.name).string();
    std::string bytes = file.bytes;
    const std::string& other = good[below(random, good.size())].bytes;
    const auto damage_all = [&](std::string& some) {
      for (size_t k = 1 + below(random, 1 + below(random, 5)); k-- > 0;) damage(some, other, random);
    };
    // Of some that have files beside them, one of those.
    const bool shard = !file.beside.empty() && below(random, 8) == 0;
    const auto beside =
        shard ? std::next(file.beside.begin(), ptrdiff_t(below(random, file.beside.size()))) : file.beside.end();
    if (shard) {
      std::string damaged = beside->second;
      damage_all(damaged);
      write(beside->first, damaged);
    } else {
      damage_all(bytes);
      if (reader.repair && below(random, 8) != 0) reader.repair(bytes);
    }
    write(file.name, bytes);
    reset_peak_memory(Device());
    const size_t before = memory_stats(Device()).in_use;
    std::string fault;
    try {
      reader.read(path);
      ++read;
    } catch (const Error&) {
    } catch (const std::exception& e) {
      fault = e.what();
    }
    if (shard) write(beside->first, beside->second);
    if (memory_stats(Device()).peak - before > 2048 * bytes.size() + largest_allocation) fault = "too much memory";
    if (fault.empty()) continue;
    std::fprintf(stderr, "%s: %s. RILL_FUZZ_SEED=%llu RILL_FUZZ_COUNT=1 fuzz_files %s\n", reader.ending, fault.c_str(),
                 static_cast<unsigned long long>(seed + i), reader.ending);
    return false;
  }
  std::printf("%s: %llu damaged files, of which %llu could be read\n", reader.ending,
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(read));
  std::fflush(stdout);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  // In memory where the system has a folder for that: a file is written for each.
  std::filesystem::path folder =
      std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
  folder /= "rill-fuzz-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  std::printf("a crash leaves its file in %s\n", folder.c_str());
  std::fflush(stdout);
  bool good = true;
  for (const Reader& reader : readers) {
    const bool asked =
        argc == 1 || std::any_of(argv + 1, argv + argc, [&](char* a) { return reader.ending == std::string(a); });
    if (asked) good &= run(reader, setting("RILL_FUZZ_SEED", 1), setting("RILL_FUZZ_COUNT", 3000), folder);
  }
  std::filesystem::remove_all(folder);
  rusage use = {};
  getrusage(RUSAGE_SELF, &use);
  std::printf("%ld MB at most\n", use.ru_maxrss / 1024);
#ifndef RILL_SANITIZED
  if (use.ru_maxrss > 512 * 1024) good = false;  // libraries take memory past operator new
#endif
  return good ? 0 : 1;
}
