// rill diff A B: which weights of two models, checkpoints or files of tensors differ, and by how much.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "command.h"
#include "files.h"
#include "terminal.h"

namespace command {
namespace {

using rill::Tensor;

struct DiffSettings {
  std::string a, b;
  double tolerance = 0;
  bool all = false, quiet = false;
};

struct Difference {
  std::string what;    // "" if they are equal
  double largest = 0;  // between numbers
};

// For integers that f64 cannot distinguish.
Difference compare_wide(const Tensor& a, const Tensor& b, double tolerance) {
  // Modulo 2^64, the larger minus the smaller is right whatever the signs.
  const Tensor distance = rill::where(a > b, a - b, b - a).astype(rill::u64);
  const Tensor differ = distance > rill::full({}, uint64_t(std::fmin(std::fmax(tolerance, 0), 0x1p63)), rill::u64);
  const auto n = rill::count_nonzero(differ).item<int64_t>();
  if (n == 0) return {};
  const auto largest = rill::max(distance).item<uint64_t>();
  return {fmt::format("{} of {} differ, by {} at most", count_text(n), count_text(a.size()), largest), double(largest)};
}

Difference compare_texts(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<std::string>(), y = b.to_vector<std::string>();
  int64_t n = 0;
  for (size_t i = 0; i < x.size(); ++i) n += x[i] != y[i];
  return {n ? fmt::format("{} of {} differ", count_text(n), count_text(a.size())) : "", double(n > 0)};
}

// How two tensors of one shape and dtype differ, by more than `tolerance`.
Difference compare(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape())
    return {fmt::format("{} and {}", spec_text(a), spec_text(b)), INFINITY};
  if (rill::same_bits(a, b) || a.size() == 0) return {};
  const bool complex = rill::is_complex(a.dtype());
  if (rill::is_integer(a.dtype()) && rill::size_of(a.dtype()) == 8) return compare_wide(a, b, tolerance);
  if (a.dtype() == rill::string) return compare_texts(a, b);
  if (a.dtype() == rill::boolean) {
    const auto n = rill::count_nonzero(a != b).item<int64_t>();
    return {n ? fmt::format("{} of {} differ", count_text(n), count_text(a.size())) : "", double(n > 0)};
  }
  const rill::DType wide = complex ? rill::c128 : rill::f64;
  const Tensor x = a.astype(wide), y = b.astype(wide);
  const Tensor equal = rill::logical_or(x == y, rill::logical_and(x != x, y != y));  // NaN and NaN, infinities
  const Tensor distance = rill::where(equal, 0., rill::abs(x - y));
  const Tensor differ = rill::logical_not(distance <= tolerance);
  const auto n = rill::count_nonzero(differ).item<int64_t>();
  if (n == 0) return {};
  const double largest = rill::max(distance).item<double>();
  const double size = rill::max(rill::where(rill::isfinite(x), rill::abs(x), 0.)).item<double>();
  std::string text = fmt::format("{} of {} differ, by {:.3g} at most, {:.3g} on average", count_text(n),
                                 count_text(a.size()), largest, rill::mean(distance).item<double>());
  if (size > 0) text += fmt::format(" (largest number {:.3g})", size);
  return {text, std::isnan(largest) ? INFINITY : largest};
}

int diff(const DiffSettings& s) {
  Unreadable unreadable;
  const rill::NamedTensors a = load_tensors(s.a, &unreadable), b = load_tensors(s.b, &unreadable);
  std::set<std::string> names;
  for (const auto& [name, x] : a) names.insert(name);
  for (const auto& [name, x] : b) names.insert(name);
  for (const auto& [name, why] : unreadable) names.erase(name);
  Table table("<<<");
  Progress progress("comparing", int64_t(names.size()));
  int64_t different = 0, equal = 0, done = 0;
  for (const std::string& name : names) {
    const auto x = a.find(name), y = b.find(name);
    const std::string shown = name.empty() ? "(no name)" : name;
    if (x == a.end() || y == b.end()) {
      ++different;
      const Tensor& there = x == a.end() ? y->second : x->second;
      table.add({(x == a.end() ? green("+ ") : red("- ")) + shown, spec_text(there),
                 fmt::format("only in {}", x == a.end() ? s.b : s.a)});
    } else if (const Difference d = compare(x->second, y->second, s.tolerance); !d.what.empty()) {
      ++different;
      table.add({yellow("! ") + shown, spec_text(x->second), d.what});
    } else {
      ++equal;
      if (s.all) table.add({dim("= " + shown), spec_text(x->second), dim("equal")});
    }
    progress.show(++done);
  }
  if (!s.quiet) {
    print("{}", table.text(0));
    for (const auto& [name, why] : unreadable) print("{} {}: {}\n", red("? cannot be read:"), name, why);
    print("{} equal, {} different{}\n", count_text(equal), count_text(different),
          unreadable.empty() ? "" : fmt::format(", {} not compared", unreadable.size()));
  }
  return !unreadable.empty() ? wrong_usage : different ? failed : succeeded;
}

}  // namespace

void add_diff(Program& program) {
  auto s = std::make_shared<DiffSettings>();
  CLI::App* sub =
      add(program, "diff", "which weights differ, and by how much",
          {"rill diff before.onnx after.onnx", "rill diff ckpt/step-100 ckpt/step-200",
           "rill diff a.npz b.safetensors --tolerance 1e-6", "rill diff --quiet a.npz b.npz && echo equal"});
  sub->add_option("A", s->a, "a model, a checkpoint or a file of tensors")->required();
  sub->add_option("B", s->b, "another")->required();
  sub->add_option("--tolerance", s->tolerance, "what numbers may differ by")
      ->check(number_in(0, std::numeric_limits<double>::infinity()))
      ->capture_default_str();
  sub->add_flag("--all", s->all, "list those that are equal, too");
  sub->add_flag("-q,--quiet", s->quiet, "print nothing; the exit code says it");
  on_call(program, sub, [s, &program] {
    program.on_error = wrong_usage;  // 1 means that they differ
    return diff(*s);
  });
}

}  // namespace command
