// For the tests of files that rill writes: a temporary folder, file helpers, and a small graph made by hand.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "messages.h"
#include "rill/devices/registry.h"
#include "rill/ops/op.h"
#include "rill/ops/state/variable_state.h"
#include "rill/trace/graph.h"

// A new folder, removed with its contents when the test ends.
class Folder {
 public:
  Folder() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("rill-test-" + std::to_string(getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }
  // The names in it, or in a folder inside it, sorted.
  std::vector<std::string> names(const std::string& inside = "") const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(path_ / inside))
      all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  std::filesystem::path path_;
};

inline std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}
inline void put_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
}

// An f32 tensor with these elements.
inline rill::Tensor make_f32(rill::Shape shape, const std::vector<float>& values) {
  rill::Spec spec;
  spec.shape = std::move(shape);
  rill::Tensor t = rill::empty_tensor(spec);
  std::copy(values.begin(), values.end(), reinterpret_cast<float*>(t.mutable_rep()->data));
  return t;
}

// Every kind of attribute.
struct TestAttrs {
  rill::Dims axes = {0, -1};
  bool keepdims = true;
  int64_t groups = 3;
  double eps = 0.5;
  rill::DType dtype = rill::DType::bf16;
  std::string mode = "a \"quoted\"\\ mode";
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("axes", s.axes);
    v("keepdims", s.keepdims);
    v("groups", s.groups);
    v("eps", s.eps);
    v("dtype", s.dtype);
    v("mode", s.mode);
  }
};

inline const rill::Op& test_op(const char* name) {
  static const rill::Op matmul({.name = "test_matmul", .doc = "", .inputs = 2, .exported = {.tensorflow = "MatMul"}});
  static const rill::Op relu({.name = "test_relu", .doc = "", .exported = {.tensorflow = "Relu"}});
  static const rill::Op split({.name = "test_split", .doc = "", .outputs = 2});
  return name == std::string("matmul") ? matmul : name == std::string("relu") ? relu : split;
}

// x[?,8] -> layer1/{matmul, relu} -> layer2/split -> two outputs; the constant 2 and a variable "layer1/w" that is
// assigned. Two nodes have the same name.
inline rill::Graph small_graph() {
  using namespace rill;
  auto spec = [](Shape s) {
    Spec p;
    p.shape = std::move(s);
    return p;
  };
  auto node = [&](Node::Kind kind, std::vector<ValueId> in, std::vector<Spec> out) {
    Node n;
    n.kind = kind;
    n.inputs = std::move(in);
    n.outputs = std::move(out);
    n.where = "train.cpp:41";
    return n;
  };
  auto op = [&](const char* name, std::vector<ValueId> in, std::vector<Spec> out, const char* scope) {
    Node n = node(Node::Kind::op, std::move(in), std::move(out));
    n.op = &test_op(name);
    n.scope = scope;
    return n;
  };
  auto variable = Shared<VariableState>::make(Where());
  variable->name = "layer1/w";
  Graph g;
  g.name = "small \"net\"";
  Node x = node(Node::Kind::input, {}, {spec({open_size, 8})});
  x.name = "x";
  Node w = node(Node::Kind::input, {}, {spec({8, 4})});
  w.name = "layer1/w";
  Node two = node(Node::Kind::constant, {}, {spec({})});
  two.constant = make_f32({}, {2.5f});
  int32_t ix = g.append(x), iw = g.append(w);
  int32_t product = g.append(op("matmul", {{ix, 0}, {iw, 0}}, {spec({open_size, 4})}, "layer1"));
  int32_t again = g.append(op("matmul", {{ix, 0}, {iw, 0}}, {spec({open_size, 4})}, "layer1"));
  int32_t relu = g.append(op("relu", {{product, 0}}, {spec({open_size, 4})}, "layer1"));
  int32_t constant = g.append(two);
  Node split = op("split", {{relu, 0}, {again, 0}, {constant, 0}}, {spec({2}), spec({3, 0})}, "layer2");
  split.attrs = TestAttrs();
  int32_t parts = g.append(split);
  g.inputs = {{GraphInput::Kind::argument, ix, 0, {}, nullptr}, {GraphInput::Kind::variable, iw, -1, {}, variable}};
  g.outputs = {{parts, 1}, {relu, 0}};
  g.assigns = {{variable, {parts, 0}}};
  return g;
}
