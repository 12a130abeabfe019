// See fold_norms.h; start at fold().
#include "rill/serialize/onnx/in/fold_norms.h"

#include <set>

#include "rill/ops/apply.h"

namespace rill::onnx_import {
namespace {

// How often nodes, including those of inner graphs, read each name, and graphs return it.
void count_uses(const onnx::GraphProto& g, std::unordered_map<std::string, int>& uses) {
  for (const onnx::NodeProto& n : g.node()) {
    for (const std::string& name : n.input()) ++uses[name];
    for (const onnx::AttributeProto& a : n.attribute()) {
      if (a.has_g()) count_uses(a.g(), uses);
      for (const onnx::GraphProto& inner : a.graphs()) count_uses(inner, uses);
    }
  }
  for (const onnx::ValueInfoProto& v : g.output()) ++uses[v.name()];
}

class Folder {
 public:
  Folder(Program& program, Constants& constants)
      : program_(program), graph_(*program.model.mutable_graph()), constants_(constants) {
    count_uses(graph_, uses_);
    for (const onnx::TensorProto& t : graph_.initializer()) initializers_[t.name()] = &t;
    for (onnx::NodeProto& n : *graph_.mutable_node())
      for (const std::string& name : n.output()) makers_[name] = &n;
  }

  void run() {
    std::set<const onnx::NodeProto*> done;
    for (const onnx::NodeProto& n : graph_.node())
      if (fold(n)) done.insert(&n);
    auto& nodes = *graph_.mutable_node();
    for (int i = nodes.size(); i-- > 0;)
      if (done.contains(&nodes[i])) nodes.DeleteSubrange(i, 1);
  }

 private:
  bool is(const onnx::NodeProto& n, const char* op) const {
    return n.op_type() == op && (n.domain().empty() || n.domain() == "ai.onnx") && !program_.function(n);
  }

  // The value of an initializer that only this node reads, as f64; undefined otherwise.
  Tensor own(const std::string& name) const {
    auto it = initializers_.find(name);
    if (it == initializers_.end() || uses_.at(name) != 1) return {};
    auto value = constants_.find(it->second);
    return value == constants_.end() ? Tensor() : value->second.astype(f64);
  }
  void replace(const std::string& name, const Tensor& value) {
    Tensor& old = constants_.at(initializers_.at(name));
    old = value.astype(old.dtype());
  }

  bool fold(const onnx::NodeProto& norm) {
    if (!is(norm, "BatchNormalization") || norm.input_size() != 5 || norm.output_size() != 1) return false;
    double epsilon = 1e-5f;
    for (const onnx::AttributeProto& a : norm.attribute()) {
      if (a.name() == "epsilon") epsilon = double(a.f());
      if ((a.name() == "training_mode" && a.i() != 0) || (a.name() == "spatial" && a.i() == 0)) return false;
    }
    auto maker = makers_.find(norm.input(0));
    if (maker == makers_.end() || uses_.at(norm.input(0)) != 1) return false;
    onnx::NodeProto& conv = *maker->second;
    if (!is(conv, "Conv") || conv.input_size() < 2 || conv.output_size() != 1) return false;
    const bool has_bias = conv.input_size() > 2 && !conv.input(2).empty();
    const Tensor w = own(conv.input(1)), scale = own(norm.input(1)), offset = own(norm.input(2)),
                 mean = own(norm.input(3)), variance = own(norm.input(4));
    if (!w.defined() || w.ndim() < 3) return false;
    const Tensor bias = has_bias ? own(conv.input(2)) : zeros({w.dim(0)}, f64);
    for (const Tensor* t : {&scale, &offset, &mean, &variance, &bias})
      if (!t->defined() || t->shape() != Shape{w.dim(0)}) return false;
    const Tensor factor = scale / sqrt(variance + epsilon);
    replace(conv.input(1), w * along_channels(factor, w.ndim(), 0));
    replace(norm.input(2), (bias - mean) * factor + offset);
    while (conv.input_size() < 3) conv.add_input();
    conv.set_input(2, norm.input(2));  // the norm's offset has become the convolution's
    conv.set_output(0, norm.output(0));
    makers_[norm.output(0)] = &conv;
    return true;
  }

  Program& program_;
  onnx::GraphProto& graph_;
  Constants& constants_;
  std::unordered_map<std::string, int> uses_;
  std::unordered_map<std::string, const onnx::TensorProto*> initializers_;
  std::unordered_map<std::string, onnx::NodeProto*> makers_;
};

}  // namespace

void fold_batch_norms(Program& program, Constants& constants) {
  const EagerScope eager;
  const PauseTapes pause;
  Folder(program, constants).run();
}

}  // namespace rill::onnx_import
