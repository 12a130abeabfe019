// Runs ONNX's own test data through import_model: folders with a model.onnx and test_data_set_*/{input,output}_*.pb.
//
//   onnx_runner [--constants] FOLDER...     each holds such folders, or is one
//
// With --constants no weight is a Variable.
// One line a folder: "pass NAME", "unsupported NAME: why" where the file needs an operator or a dtype that rill does
// not have, "fail NAME: why"; then the counts. Each folder has a process of its own, so that none can stop the others.
#include <rill/rill.h>
#include <rill/serialize.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "rill/serialize/onnx/in/importer.h"

using namespace rill;
namespace fs = std::filesystem;

namespace {

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

OnnxValueKind kind_of(const ValueInfo& v) {
  const bool sequence = v.kind == ValueInfo::Kind::sequence;
  if (v.optional) return sequence ? OnnxValueKind::optional_sequence : OnnxValueKind::optional_tensor;
  return sequence ? OnnxValueKind::sequence : OnnxValueKind::tensor;
}

struct Tolerance {
  double rtol = 1e-3, atol = 1e-7;  // those of ONNX's own runner, where the folder has no file of that name
};
// Why they differ: |a - b| <= atol + rtol |b| everywhere, infinities and NaN equal to themselves; "" where not.
std::string difference(const Tensor& got, const Tensor& expected, const Tolerance& t) {
  if (got.dtype() != expected.dtype() || got.shape() != expected.shape())
    return to_string(got.spec()) + " in place of " + to_string(expected.spec());
  if (got.dtype() == string) {
    return got.to_vector<std::string>() == expected.to_vector<std::string>() ? "" : "other texts";
  }
  if (is_complex(got.dtype())) {
    const std::string re = difference(real(got), real(expected), t);
    return re.empty() ? difference(imag(got), imag(expected), t) : re;
  }
  const std::vector<double> a = got.to_vector<double>(), b = expected.to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                      (std::isfinite(b[i]) && std::abs(a[i] - b[i]) <= t.atol + t.rtol * std::abs(b[i]));
    if (!same) return "element " + std::to_string(i) + " is " + std::to_string(a[i]) + ", not " + std::to_string(b[i]);
  }
  return "";
}

// The tensors that a value is, under the names that a Model has for them.
void put(std::map<std::string, Tensor>& into, const ValueInfo& info, const OnnxValue& value) {
  if (value.absent) return;
  for (size_t i = 0; i < value.tensors.size(); ++i)
    into[value.sequence ? info.name + "/" + std::to_string(i) : info.name] = value.tensors[i];
}

std::map<std::string, Tensor> values_in(const fs::path& set, const std::string& kind,
                                        const std::vector<ValueInfo>& infos) {
  std::map<std::string, Tensor> out;
  for (size_t i = 0; i < infos.size(); ++i) {
    const fs::path file = set / (kind + "_" + std::to_string(i) + ".pb");
    if (fs::exists(file)) put(out, infos[i], read_onnx_value(content(file), kind_of(infos[i])));
  }
  return out;
}

std::string run_set(const Model& model, const fs::path& set) {
  Tolerance tolerance;
  std::ifstream(set.parent_path() / "tolerance") >> tolerance.rtol >> tolerance.atol;
  const auto got = model(values_in(set, "input", model.inputs()));
  const auto expected = values_in(set, "output", model.outputs());
  for (const auto& [name, value] : expected) {
    auto it = got.find(name);
    if (it == got.end()) return "gives no '" + name + "'";
    const std::string d = difference(it->second, value, tolerance);
    if (!d.empty()) return name + ": " + d;
  }
  if (expected.empty()) return "no output to compare with is in " + set.string();
  return got.size() == expected.size() ? "" : "gives more values than it should";
}

std::string run_folder(const fs::path& folder, const ImportOptions& options) {
  const std::string name = folder.filename().string();
  try {
    const Model model = import_model((folder / "model.onnx").string(), options);
    int sets = 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!entry.is_directory()) continue;
      const std::string why = run_set(model, entry.path());
      ++sets;
      if (!why.empty()) return "fail " + name + ": " + why;
    }
    return (sets ? "pass " + name : "fail " + name + ": no inputs to run it with");
  } catch (const std::exception& e) {
    const std::string why = e.what();
    const bool lacking =
        why.find("missing in rill") != std::string::npos || why.find("rill has no dtype") != std::string::npos;
    return (lacking ? "unsupported " : "fail ") + name + ": " + why;
  }
}

std::string run_apart(const fs::path& folder, const ImportOptions& options) {
  int ends[2];
  if (pipe(ends) != 0) return "fail " + folder.filename().string() + ": no pipe";
  const pid_t child = fork();
  if (child == 0) {
    alarm(120);
    const std::string line = run_folder(folder, options);
    (void)!write(ends[1], line.data(), std::min<size_t>(line.size(), 4000));
    _exit(0);
  }
  close(ends[1]);
  std::string line;
  char block[4096];
  for (ssize_t n; (n = read(ends[0], block, sizeof block)) > 0;) line.append(block, size_t(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (line.empty())
    return "fail " + folder.filename().string() + ": ended by signal " + std::to_string(WTERMSIG(status));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<fs::path> folders;
  ImportOptions options;
  for (int i = 1; i < count; ++i) {
    const fs::path root = arguments[i];
    if (root == "--constants") {
      options.trainable = false;
      continue;
    }
    if (fs::exists(root / "model.onnx")) folders.push_back(root);
    else
      for (const auto& entry : fs::directory_iterator(root))
        if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  std::map<std::string, int> counts;
  for (const fs::path& folder : folders) {
    const std::string line = run_apart(folder, options);
    ++counts[line.substr(0, line.find(' '))];
    std::cout << line << std::endl;
  }
  std::cout << "passed " << counts["pass"] << ", failed " << counts["fail"] << ", unsupported " << counts["unsupported"]
            << " of " << folders.size() << "\n";
}
