// Sequential, and what calls of layers report.
#include "rill/nn/sequential.h"

#include <fmt/format.h>

#include <ostream>

#include "rill/autodiff/recompute.h"

namespace rill::nn {

// --- Calls of layers -------------------------------------------------------------------------------------------------

namespace {
thread_local constinit LayerObserver* observer = nullptr;
}  // namespace

LayerObserver::LayerObserver() : outer_(std::exchange(observer, this)) {}
LayerObserver::~LayerObserver() { observer = outer_; }

LayerRun::LayerRun(const void* layer, const std::string& name, const Where& where, const char* function)
    : layer_(layer), caller_(where, function) {
  if (observer) [[unlikely]]
    if (const std::string heard = observer->began(layer, function); !heard.empty()) heard_.emplace(heard);
  if (!name.empty()) scope_.emplace(name);
}
LayerRun::~LayerRun() = default;
Tensor LayerRun::give(Tensor y) const {
  if (observer) [[unlikely]]
    observer->gave(layer_, y);
  return y;
}

AnyLayer::AnyLayer(Tensor (*f)(const Tensor&, Where), Where where) {
  if (!f) fail("AnyLayer", "the function is empty. give a layer or a function of a tensor", where);
  *this = AnyLayer(fn(f));
}

// --- Sequential ------------------------------------------------------------------------------------------------------

std::vector<Variable> trainable(const std::vector<Variable>& variables) {
  std::vector<Variable> result;
  for (const Variable& v : variables)
    if (v.trainable(Where())) result.push_back(v);
  return result;
}

Tensor Sequential::operator()(const Tensor& x, const Call& call, Where where) const {
  CallerScope caller(where);
  if (moved_.from)
    fail("Sequential", "this model was moved from, and has no layers. assign a model to it first", where);
  Tensor y = x;
  if (!chain_) {
    for (const AnyLayer& layer : layers_) y = layer(y, call, where);
    return y;
  }
  std::vector<std::function<Tensor(const Tensor&)>> chain;
  for (const AnyLayer& layer : layers_)
    chain.push_back([layer, call, where](const Tensor& v) { return layer(v, call, where); });
  return recompute_chain(chain, y, *chain_, where);
}

Sequential& Sequential::add(AnyLayer layer) {
  layers_.push_back(std::move(layer));
  return *this;
}

AnyLayer& Sequential::at(int64_t i, Where where) {
  const auto n = int64_t(layers_.size());
  if (i < -n || i >= n)
    fail("Sequential", fmt::format("there is no layer {}: it has {}, counted from 0, or from -1 back", i, n), where);
  return layers_[size_t(i < 0 ? i + n : i)];
}

Sequential& Sequential::insert(int64_t i, AnyLayer layer, Where where) {
  if (i == int64_t(layers_.size())) return add(std::move(layer));
  layers_.insert(layers_.begin() + (&at(i, where) - layers_.data()), std::move(layer));
  return *this;
}

Sequential& Sequential::erase(int64_t i, Where where) {
  layers_.erase(layers_.begin() + (&at(i, where) - layers_.data()));
  return *this;
}

Sequential& Sequential::named(std::string name) & {
  name_ = std::move(name);
  return *this;
}

void Sequential::visit_parts(ModelVisitor& visitor) {
  for (size_t i = 0; i < layers_.size(); ++i) layers_[i].visit_as_part(i, visitor);
}

std::ostream& operator<<(std::ostream& out, const Sequential& model) { return out << model.summary(); }

Sequential& Sequential::recompute(ChainOptions options) & {
  chain_ = std::move(options);
  return *this;
}

}  // namespace rill::nn
