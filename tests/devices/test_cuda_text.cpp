// Kernels as CUDA C++: the text of every elementwise record, compiled for the host (cuda/host_cuda.h), gives the bits
// of the interpreter on special values and random ones, dense and strided.
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "child.h"
#include "cuda/cubin.h"
#include "cuda/find_nvrtc.h"
#include "io_helpers.h"
#include "kernel_helpers.h"
#include "messages.h"
#include "rill/devices/cuda/kernel_text.h"
#include "rill/devices/cuda/nvrtc.h"
#include "rill/devices/kernel/record.h"
#include "rill/ops/apply.h"
#include "tested_device.h"

using namespace rill;
using kernel::Input;
using Recipe = kernel::Kernel;

namespace {

struct Recorded {
  std::string what;
  Recipe kernel;
};

// The kernels of all records that have no attributes, for each dtype.
std::vector<Recorded> recorded() {
  std::vector<Recorded> all;
  for (const Op* op : all_ops()) {
    if (!op->record_point || AttrsView(op->samples().front().attrs).type) continue;
    for (int d = 0; d < dtype_count; ++d) {
      const DType dtype = DType(d);
      const RecordPoint record = op->record_point(dtype);
      if (!record || !contains(op->dtypes, dtype)) continue;
      kernel::Recorder r;
      kernel::Recording recording(r);
      int32_t ids[3];
      for (int i = 0; i < op->inputs; ++i) ids[i] = r.input({dtype, Input::Kind::dense});
      const int32_t result = record(ids);
      r.kernel.outputs.push_back({result, r.type(result)});
      all.push_back({std::string(op->name) + " of " + std::string(name(dtype)), r.finish()});
    }
  }
  return all;
}

// Each dtype to each other.
std::vector<Recorded> conversions() {
  std::vector<Recorded> all;
  for (int from = 0; from < dtype_count; ++from)
    for (int to = 0; to < dtype_count; ++to) {
      const DType a = DType(from), b = DType(to);
      if (is_complex(a) || is_complex(b) || is_float8(a) || is_float8(b)) continue;  // kernels of their own
      if (a == rill::string || b == rill::string) continue;
      kernel::Recorder r;
      r.kernel.outputs.push_back({r.convert(r.input({a, Input::Kind::dense}), b), b});
      all.push_back({std::string(name(a)) + " to " + std::string(name(b)), r.finish()});
    }
  return all;
}

// Of instructions of every kind, half of them with reductions.
std::vector<Recorded> random_kernels() {
  std::vector<Recorded> all;
  for (uint64_t seed = 0; all.size() < 60; ++seed) {
    Recipe k = kernel_test::Generator(seed).make();
    const auto added = [](const kernel::Output& o) { return o.added; };
    if (std::any_of(k.outputs.begin(), k.outputs.end(), added)) continue;  // of sums over rows there is no text
    all.push_back({"seed " + std::to_string(seed), std::move(k)});
  }
  return all;
}

class Library {
 public:
  explicit Library(const std::vector<Recorded>& kernels) {
    const char* root = std::getenv("RILL_SOURCE_ROOT");
    std::string text =
        "#define RILL_THREAD __thread\n#include \"" + std::string(root ? root : ".") + "/tests/cuda/host_cuda.cpp\"\n";
    text += cuda::prelude();
    for (size_t i = 0; i < kernels.size(); ++i) {
      text += cuda::kernel_text(kernels[i].kernel, "k" + std::to_string(i));
      if (!cuda::takes_rows(kernels[i].kernel)) continue;
      text += cuda::kernel_text(kernels[i].kernel, "dense" + std::to_string(i), {.dense = true});
      text += cuda::kernel_text(kernels[i].kernel, "kept" + std::to_string(i), {.dense = true, .keeping_warps = 8});
    }
    put_file(folder_ / "kernels.cpp", text);
    const std::string line = "c++ -std=c++17 -O1 -w -ffp-contract=off -fPIC -shared -o " + (folder_ / "kernels.so") +
                             " " + (folder_ / "kernels.cpp");
    REQUIRE(std::system(line.c_str()) == 0);
    handle_ = dlopen((folder_ / "kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE(handle_);
  }
  // Runs kernel number `i`, in three blocks of two warps, or of others.
  void run(size_t i, const cuda::Space& s, int threads = 64, const char* variant = "k") const {
    auto* launch = reinterpret_cast<void (*)(void*, const cuda::Space*, int, int)>(dlsym(handle_, "rill_launch"));
    launch(dlsym(handle_, (variant + std::to_string(i)).c_str()), &s, 3, threads);
  }

 private:
  Folder folder_;
  void* handle_ = nullptr;
};

// How operands lie: dense, every second element, or in rows of 100, of which the first operand has but one.
enum class Lie { dense, strided, rows };
constexpr Lie everywhere[] = {Lie::dense, Lie::strided, Lie::rows};

// Whether the text gives what the interpreter gives, for 700 points.
bool agrees(const Recipe& k, const Library& library, size_t number, Lie lie) {
  constexpr int64_t points = 700, row = 100;
  kernel_test::Rng r(7);
  const int64_t step = lie == Lie::strided ? 2 : 1;
  cuda::Space s;
  s.n = points;
  if (lie == Lie::rows) s.n = row, s.axes = 1, s.rows = s.outer[0] = points / row;
  std::vector<std::vector<char>> memory;
  std::vector<char*> base;
  std::vector<std::vector<char>> dense;
  for (const Input& in : k.inputs) {
    const int64_t size = int64_t(size_of(in.dtype));
    const bool once = lie == Lie::rows && memory.empty();
    const size_t o = memory.size();
    auto& m = memory.emplace_back(size_t(points * step * size));
    kernel_test::fill(r, in.dtype, m.data(), points * step);
    auto& d = dense.emplace_back(size_t(points * size));
    for (int64_t i = 0; i < points; ++i)
      std::memcpy(d.data() + i * size, m.data() + (once ? i % row : i * step) * size, size_t(size));
    s.stride[o][0] = once ? 0 : row * size;
    s.point[o] = step * size;
  }
  for (size_t i = 0; i < k.inputs.size(); ++i) {
    s.base[i] = memory[i].data();
    base.push_back(dense[i].data());
  }
  const DType out = k.outputs[0].dtype;
  std::vector<char> want(points * size_of(out)), is(points * size_of(out));
  base.push_back(want.data());
  s.base[k.inputs.size()] = is.data();
  s.point[k.inputs.size()] = int64_t(size_of(out));
  s.stride[k.inputs.size()][0] = row * int64_t(size_of(out));
  const std::vector<int64_t> no_strides(base.size());
  kernel::interpret(k, base.data(), no_strides.data(), 1, points);
  library.run(number, s);
  return kernel_test::same(out, want.data(), is.data(), points);
}

void check(const std::vector<Recorded>& all) {
  const Library library(all);
  for (size_t i = 0; i < all.size(); ++i)
    for (const Lie lie : everywhere) {
      if (all[i].what == "digamma of f64") continue;  // below
      INFO(all[i].what << ", lying " << int(lie) << "\n" << kernel::to_string(all[i].kernel));
      CHECK(agrees(all[i].kernel, library, i, lie));
    }
}

}  // namespace

TEST_CASE("every record's arithmetic") {
  const std::vector<Recorded> all = recorded();
  CHECK(all.size() > 200);
  check(all);
}

// GPUs have no long double, by which the CPU computes it.
TEST_CASE("digamma of f64 is right beside its zeros and poles, and far away") {
  std::vector<Recorded> all = recorded();
  std::erase_if(all, [](const Recorded& r) { return r.what != "digamma of f64"; });
  REQUIRE(all.size() == 1);
  const Library library(all);
  // By mpmath, with 200 bits.
  const std::map<double, double> known{
      {-2.610751721520843, -0.0003347164786078958},
      {-0.5040830082644554, 7.289763902976895e-17},
      {-23.752371782880463, -0.0001768746633040162},
      {1.4616321449683622, -9.241265521729427e-17},
      {1.45, -0.011316422586445888},
      {0.001, -1000.5755719318103},
      {-0.999, -999.5745709308084},
      {3.75, 1.1825373886117962},
      {17.5, 2.8333574322286843},
      {-150.0625, 20.808232933966007},
      {1e-20, -1e+20},
      {1e16, 36.841361487904734},
      {1e300, 690.7755278982137},
  };
  std::vector<double> x, is(known.size());
  for (const auto& [at, value] : known) x.push_back(at);
  cuda::Space s;
  s.n = int64_t(x.size());
  s.point[0] = s.point[1] = 8;
  s.base[0] = reinterpret_cast<char*>(x.data()), s.base[1] = reinterpret_cast<char*>(is.data());
  library.run(0, s);
  for (size_t i = 0; i < x.size(); ++i) {
    INFO("at " << x[i]);
    CHECK(std::abs(is[i] - known.at(x[i])) <= std::max(std::abs(known.at(x[i])) * 0x1p-53, 0x1p-64));
  }
}

TEST_CASE("every conversion") { check(conversions()); }

namespace {

// Every way to cut rows among threads (kernel_text.h): by warps, by parts of warps, by blocks, and in pieces; by warps and
// in pieces also as the variant for dense rows, and as the one that keeps what several passes read.
enum class Cut { warps, lanes, blocks, pieces, dense_warps, dense_pieces, kept };

void run_rows(const Library& library, size_t i, const Recipe& k, cuda::RowSpace s, Cut cut) {
  s.piece = s.n;
  if (cut == Cut::lanes) s.lanes = int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(s.n, 1))));
  if (cut == Cut::warps || cut == Cut::lanes) return library.run(i, s);
  if (cut == Cut::dense_warps) return library.run(i, s, 64, "dense");
  if (cut == Cut::kept) {
    const cuda::RowSpace kept = cuda::cut_kept_rows(s);
    return library.run(i, kept, kept.warps > 1 ? int(kept.warps) * 32 : 64, "kept");
  }
  s.warps = 8, s.piece = 8192;
  if (cut == Cut::blocks) return library.run(i, s, 256);
  const cuda::RowPasses passes = cuda::row_passes(k);
  s.pieces = (s.n + s.piece - 1) / s.piece;
  std::vector<double> parts(size_t(s.rows * s.pieces * 32 * passes.folds)), totals(size_t(s.rows * passes.folds));
  s.parts = reinterpret_cast<char*>(parts.data()), s.totals = reinterpret_cast<char*>(totals.data());
  const int last = 2 * passes.passes + passes.stores_points * (1 + passes.stores_rows);
  for (s.step = 0; s.step < last; ++s.step) library.run(i, s, 256, cut == Cut::pieces ? "k" : "dense");
}

// Whether kernel number `i`, cut so, gives the bits of the interpreter, on rows of n points.
bool rows_agree(const Recorded& r, const Library& library, size_t i, int64_t n, Cut cut) {
  const Recipe& k = r.kernel;
  const auto run = [&](char* const* operands, const int64_t* row_strides, int64_t rows, int64_t points, char*,
                       const void* const*) {
    cuda::RowSpace s;
    s.n = points, s.rows = rows, s.axes = 1, s.outer[0] = rows;
    for (size_t o = 0; o < k.inputs.size() + k.outputs.size(); ++o) {
      const bool input = o < k.inputs.size();
      const kernel::Output* out = input ? nullptr : &k.outputs[o - k.inputs.size()];
      s.base[o] = operands[o];
      s.stride[o][0] = row_strides[o];
      s.point[o] =
          input && kernel::is_number(k.inputs[o].kind) ? 1 : int64_t(size_of(input ? k.inputs[o].dtype : out->dtype));
    }
    if (cuda::takes_rows(k)) run_rows(library, i, k, s, cut);
    else library.run(i, s);
  };
  return kernel_test::agrees(k, run, 3, n, uint64_t(n));
}

}  // namespace

TEST_CASE("random kernels, with reductions, however rows are cut") {
  const std::vector<Recorded> all = random_kernels();
  const Library library(all);
  int reducing = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    reducing += cuda::takes_rows(all[i].kernel);
    for (const Cut cut :
         {Cut::warps, Cut::lanes, Cut::blocks, Cut::pieces, Cut::dense_warps, Cut::dense_pieces, Cut::kept})
      for (const int64_t n : {0, 1, 2, 7, 16, 31, 33, 64, 1000, 1024, 1025, 2100, 5000, 8192, 8193, 20000}) {
        if (!cuda::takes_rows(all[i].kernel) && cut != Cut::warps) continue;
        if ((cut == Cut::lanes && n > 32) || ((cut == Cut::blocks || cut == Cut::kept) && n > 8192)) continue;
        const bool pieces = cut == Cut::pieces || cut == Cut::dense_pieces;
        if (pieces && (n < 1000 || cuda::row_passes(all[i].kernel).folds == 0)) continue;
        INFO(all[i].what << ", rows of " << n << ", cut " << int(cut) << "\n" << kernel::to_string(all[i].kernel));
        CHECK(rows_agree(all[i], library, i, n, cut));
      }
  }
  CHECK(reducing > 15);
}

// --- What the host's side finds (cuda/host_cuda.cpp) ---

TEST_CASE("child: lanes that are not there", "[.]") {
  Folder folder;
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  put_file(folder / "k.cpp", "#include \"" + std::string(root ? root : ".") + R"(/tests/cuda/host_cuda.cpp"
struct None {};
RILL_KERNEL(ends, None) { if (threadIdx.x != 5) __shfl_sync(~0u, 1, 0); }
)");
  REQUIRE(std::system(("c++ -std=c++17 -w -fPIC -shared -o " + (folder / "k.so") + " " + (folder / "k.cpp")).c_str()) ==
          0);
  void* library = dlopen((folder / "k.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library);
  const char none = 0;
  reinterpret_cast<void (*)(void*, const void*, int, int)>(dlsym(library, "rill_launch"))(dlsym(library, "ends"), &none,
                                                                                          1, 32);
}
TEST_CASE("a shuffle that asks a lane which has ended ends the program") {
  std::string output;
  const int status = child("", "child: lanes that are not there", output);
  INFO(output);
  CHECK(status != 0);
  CHECK(has(output, "lane"));
  CHECK(has(output, "shuffle"));
}

TEST_CASE("child: two blocks that write one number", "[.]") {
  Folder folder;
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  put_file(folder / "k.cpp", "#define RILL_THREAD __thread\n#include \"" + std::string(root ? root : ".") +
                                 R"(/tests/cuda/host_cuda.cpp"
struct Numbers { int* to; };
RILL_KERNEL(adds, Numbers) { atomicAdd(RILL_AT(s.to), 1); *RILL_AT(s.to + 1 + blockIdx.x) = 1; }
RILL_KERNEL(races, Numbers) { *RILL_AT(s.to + (blockIdx.x + 1) / 2) = 1; }
)");
  REQUIRE(std::system(("c++ -std=c++17 -w -fPIC -shared -o " + (folder / "k.so") + " " + (folder / "k.cpp")).c_str()) ==
          0);
  void* library = dlopen((folder / "k.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library);
  int memory[4] = {};
  int* const to = memory;
  const auto launch = reinterpret_cast<void (*)(void*, const void*, int, int)>(dlsym(library, "rill_launch"));
  reinterpret_cast<void (*)(bool)>(dlsym(library, "rill_begin_recording"))(true);
  launch(dlsym(library, "adds"), &to, 3, 1);
  std::puts("no race so far");
  std::fflush(stdout);
  launch(dlsym(library, "races"), &to, 3, 1);
}
TEST_CASE("blocks of a launch that access the same bytes end the program") {
  std::string output;
  const int status = child("", "child: two blocks that write one number", output);
  INFO(output);
  CHECK(status != 0);
  CHECK(has(output, "no race so far"));
  CHECK(has(output, "a race in a kernel"));
}

namespace {
// What NVRTC compiles for: those that RILL_CUDA_ARCHITECTURES lists, as in 80,90,100, else one of these in turn, for
// each takes minutes.
std::vector<int> architectures() {
  const char* const wanted = std::getenv("RILL_CUDA_ARCHITECTURES");
  if (!wanted) {
    constexpr int in_turn[] = {90, 80, 100};
    return {in_turn[setting("RILL_TEST_TURN", 0) / 3 % 3]};  // a third of the turns have one share: in_share()
  }
  std::vector<int> all;
  std::istringstream list(wanted);
  for (std::string number; std::getline(list, number, ',');) all.push_back(std::stoi(number));
  return all;
}
}  // namespace

TEST_CASE("NVRTC takes all of it", "[.nvrtc]") {
  find_nvrtc();
  if (!cuda::no_nvrtc_reason().empty()) return skip_case(cuda::no_nvrtc_reason());
  std::string text;
  int count = 0;
  for (const auto& list : {recorded(), conversions(), random_kernels()})
    for (const Recorded& r : list) text += cuda::kernel_text(r.kernel, "k" + std::to_string(count++));
  for (const int architecture : architectures()) CHECK(cuda::compile(text, architecture).size() > 100'000);
  says([] { cuda::compile("not C++", 90); }, {"rill.cu", "error"});
}

namespace {

std::string contents(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The kernels that tests have started on the simulated GPU, by what stands in front of them: a family's functions, or
// nothing. Each is called "k".
std::map<std::string, std::vector<std::string>> started_kernels(const std::filesystem::path& folder) {
  std::map<std::string, std::vector<std::string>> all;
  uint64_t number = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string text = contents(file.path());
    if (!text.starts_with(cuda::prelude())) continue;  // of another version
    const size_t begin = cuda::prelude().size(), kernel = text.rfind("RILL_KERNEL(k, ");
    REQUIRE(kernel != std::string::npos);
    if (in_share(number++)) all[text.substr(begin, kernel - begin)].push_back(text.substr(kernel));
  }
  return all;
}

}  // namespace

TEST_CASE("NVRTC takes what was started on the simulated GPU", "[.nvrtc]") {
  const char* folder = std::getenv("RILL_SIMULATED_TEXTS");
  find_nvrtc();
  if (!folder || !cuda::no_nvrtc_reason().empty()) return skip_case(folder ? cuda::no_nvrtc_reason() : "no texts");
  const auto started = started_kernels(folder);
  if (started.empty()) return skip_case("no test has started a kernel on the simulated GPU in this build folder");
  int count = 0;
  for (const auto& [front, kernels] : started) {
    std::string text = front;
    for (size_t i = 0; i < kernels.size(); ++i) {
      text += "RILL_KERNEL(k" + std::to_string(i) + kernels[i].substr(std::string("RILL_KERNEL(k").size());
      if ((i + 1) % 64 != 0 && i + 1 != kernels.size()) continue;
      INFO(text);
      for (const int architecture : architectures()) {
        const std::string code = cuda::compile(text, architecture);
        const cubin::Section longest = cubin::longest(code);
        // NVRTC takes about 3 s for so long a kernel, which a program waits for at its first call.
        INFO("the longest kernel is " << longest.name << ": " << longest.bytes << " bytes");
        CHECK(longest.bytes > 100);
        CHECK(longest.bytes <= 200'000);
      }
      text = front;
    }
    count += int(kernels.size());
  }
  CHECK(count > 300);
}
