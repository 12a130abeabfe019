// Loop: trains a model on a dataset. Its step is one traced function with an open batch size; metrics add up inside it,
// so that a step reads nothing from the device.
//
//   train::Loop loop(net, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::AdamW(), .metrics = {metrics::accuracy()}});
//   train::History h = loop.fit(batches, {.epochs = 20, .validation = test});
//   std::cout << h;
//
// Elements are batches: pairs {x, y}, tuples {x, y, weights}, or x alone for predict(). x is passed to the model
// unchanged; for a model of several inputs x is a pair, tuple or struct of them. Of elements with weights, those to
// validate on may have none. If training is more than a loss of the model's result, give a step of your own:
// train::Loop(model, [&](const Tensor& x, const Tensor& y) { ...; return loss; }).
#pragma once
#include <deque>
#include <memory>
#include <tuple>
#include <utility>

#include "rill/data/dataset.h"
#include "rill/distribute/session.h"
#include "rill/nn/call.h"
#include "rill/trace/function.h"
#include "rill/train/core.h"

#pragma GCC visibility push(default)

namespace rill::train {

namespace impl {

// The parts of an element.
template <class T>
struct Parts {
  using X = T;
  static constexpr int count = 1;
};
template <class A, class B>
struct Parts<std::pair<A, B>> {
  using X = A;
  static constexpr int count = 2;
};
template <class A, class B>
struct Parts<std::tuple<A, B>> : Parts<std::pair<A, B>> {};
template <class A, class B, class C>
struct Parts<std::tuple<A, B, C>> {
  using X = A;
  static constexpr int count = 3;
};
template <class T>
const auto& input_of(const T& element) {
  if constexpr (Parts<T>::count == 1) return element;
  else return std::get<0>(element);
}

template <class Model, class X>
constexpr bool takes_parts() {
  if constexpr (requires { std::tuple_size<X>::value; })
    return []<size_t... i>(std::index_sequence<i...>) {
      return std::is_invocable_r_v<Tensor, const Model&, const std::tuple_element_t<i, X>&..., const nn::Call&>;
    }(std::make_index_sequence<std::tuple_size_v<X>>());
  else return false;
}
template <class Model, class X>
inline constexpr bool takes_input = std::is_invocable_r_v<Tensor, const Model&, const X&, const nn::Call&> ||
                                    std::is_invocable_r_v<Tensor, const Model&, const X&> || takes_parts<Model, X>();

// model(x, call), or model(a, b, call) of an x that is {a, b}.
template <class Model, class X>
Tensor call_model(const Model& model, const X& x, const nn::Call& call) {
  const rill::detail::UserScopeOf<Model> scope;  // a model of the user's is at the user's own lines
  if constexpr (std::is_invocable_r_v<Tensor, const Model&, const X&, const nn::Call&>) return model(x, call);
  else if constexpr (std::is_invocable_r_v<Tensor, const Model&, const X&>) return model(x);
  else return std::apply([&](const auto&... part) { return model(part..., call); }, x);
}

// The specs of an element's tensors with open batch sizes, as the signature of a step.
template <class T>
std::vector<ArgSpec> open_batch(const T& element) {
  T copy = element;
  rill::detail::TensorList leaves;
  walk(copy, leaves);
  std::vector<ArgSpec> specs;
  for (const Tensor& t : leaves.tensors) {
    Shape shape = t.shape();
    if (!shape.empty()) shape[0] = any;
    specs.push_back(spec(t.dtype(), shape, "", t.device()));
  }
  return specs;
}

// A function for each set of shapes after the batch axis, and dtypes: usually one.
template <class F>
class ByShape {
 public:
  template <class T, class Make>
  const F& of(const T& element, const Make& make) {
    T copy = element;
    rill::detail::TensorList leaves;
    walk(copy, leaves);
    for (const auto& [specs, f] : made_)
      if (fits(specs, leaves.tensors)) return f;
    std::vector<ArgSpec> specs = open_batch(element);
    made_.emplace_back(specs, make(specs));
    return made_.back().second;
  }
  void clear() { made_.clear(); }

 private:
  static bool fits(const std::vector<ArgSpec>& specs, const std::vector<Tensor>& tensors) {
    if (specs.size() != tensors.size()) return false;
    for (size_t i = 0; i < specs.size(); ++i) {
      const Spec& have = tensors[i].spec();
      const Shape& want = specs[i].spec.shape;
      if (have.dtype != specs[i].spec.dtype || have.shape.size() != want.size()) return false;
      for (size_t k = 1; k < want.size(); ++k)
        if (have.shape[k] != want[k]) return false;
    }
    return true;
  }
  std::deque<std::pair<std::vector<ArgSpec>, F>> made_;
};

struct NoStep {};

// The functions of a loop for elements of type T.
template <class Model, class Step, class T>
class Steps {
 public:
  Steps(Core& core, Model& model, const Step& step) : core_(core), model_(model), step_(step) {}

  // A target is one of the tensors that tell: x of an example that is not in a batch may look like one.
  static void require_batch([[maybe_unused]] const T& element, [[maybe_unused]] const char* name) {
    if constexpr (std::is_same_v<Step, NoStep> && Parts<T>::count >= 2)
      if constexpr (std::is_same_v<std::tuple_element_t<1, T>, Tensor>)
        if (std::get<1>(element).ndim() == 0)
          fail("Loop", std::string(name) + "'s elements are single examples, and are to be batches: dataset.batch(32)");
  }
  Tensor train(const T& element, bool traced) { return traced ? train_step(element)(element) : train_body(element); }
  const Function<Tensor(const T&)>& train_step(const T& element) {
    return train_.of(element, [&](std::vector<ArgSpec> specs) {
      return function("train_step", [this](const T& e) { return train_body(e); }, {.signature = std::move(specs)});
    });
  }
  void evaluate(const T& element) {
    if (!core_.options().traced) return evaluate_body(element);
    evaluate_.of(element, [&](std::vector<ArgSpec> specs) {
      return function("evaluate_step", [this](const T& e) { evaluate_body(e); }, {.signature = std::move(specs)});
    })(element);
  }
  Tensor predict(const T& element) {
    if (!core_.options().traced) return predict_body(inputs_of(element));
    return predict_.of(inputs_of(element), [&](std::vector<ArgSpec> specs) {
      return function("predict_step", [this](const Inputs& x) { return predict_body(x); },
                      {.signature = std::move(specs)});
    })(inputs_of(element));
  }
  // Traces again if the model has changed since, or the class weights.
  void prepare(const std::map<int64_t, double>* class_weights) {
    const std::string now = core_.fingerprint();
    const bool weights_differ = class_weights && *class_weights != class_weights_;
    if (weights_differ) class_weights_ = *class_weights;
    if (class_weights) core_.begin_class_weights(*class_weights);
    if (now != fingerprint_ || weights_differ) train_.clear();
    if (now != fingerprint_) evaluate_.clear(), predict_.clear();
    fingerprint_ = now;
  }

 private:
  using X = typename Parts<T>::X;

 public:
  // predict() needs no target: where a model takes the whole of a pair or a tuple of three, and not its first part, these
  // are its inputs.
  static constexpr bool inputs_alone = takes_input<Model, T> && !takes_input<Model, X>;
  static constexpr bool has_target = Parts<T>::count >= 2 && !inputs_alone;

 private:
  using Inputs = std::conditional_t<inputs_alone, T, X>;
  static const Inputs& inputs_of(const T& element) {
    if constexpr (inputs_alone) return element;
    else return input_of(element);
  }

  nn::Call call(nn::Mode mode) const { return {.mode = mode, .compute = core_.options().compute}; }
  template <class In>
  Tensor predict_body(const In& x) const {
    if constexpr (takes_input<Model, In>) {
      return call_model(model_, x, call(nn::Mode::inference));
    } else {
      static_assert(
          !std::is_same_v<Step, NoStep>,
          "the model does not take the inputs of this dataset: it is called as model(x, call), where x is the "
          "first part of an element, or as model(a, b, call) where that is a pair {a, b}");
      fail("Loop", "the model is not called with this dataset's inputs: a loop with a step of your own only fits");
    }
  }

  Tensor weights_of(const T& element) const {
    if constexpr (Parts<T>::count == 3) return std::get<2>(element);
    else return Tensor();
  }
  Tensor train_weights_of(const T& element, const Tensor& prediction) {
    const Tensor weights = weights_of(element);
    if constexpr (Parts<T>::count >= 2) {
      if (!class_weights_.empty()) {
        const Tensor by_class = core_.example_weights(class_weights_, std::get<1>(element), prediction);
        return weights.defined() ? by_class * core_.rows_like(weights, by_class) : by_class;
      }
    }
    return weights;
  }
  Tensor train_body(const T& element) {
    if constexpr (!std::is_same_v<Step, NoStep>) {
      return own_step(element);
    } else if constexpr (!has_target) {
      return Tensor();  // fit() of such elements does not compile
    } else {
      GradientTape tape;
      const Tensor prediction = call_model(model_, input_of(element), call(nn::Mode::training));
      const Tensor target = std::get<1>(element), weights = train_weights_of(element, prediction);
      const Tensor loss = core_.loss_of(prediction, target, weights);
      const Tensor share = core_.weighted_loss(loss, prediction);
      core_.descend(share, tape);
      core_.count(loss, prediction, target, weights);
      return core_.joined_loss(share);
    }
  }
  // Gives the loss, or, of several numbers, the one called "loss", or the first.
  Tensor own_step(const T& element) {
    auto result = [&] {
      const UserScope user;
      if constexpr (data::detail::takes<const Step, T>()) {
        T copy = element;
        return data::detail::call_with(step_, copy);
      } else {
        static_assert(!sizeof(T), "the step does not take this dataset's elements, nor their parts");
        return Tensor();
      }
    }();
    if constexpr (std::is_convertible_v<decltype(result), Tensor>) {
      const Tensor loss = result;
      core_.count_own({{"loss", loss}});
      return one_number(loss);
    } else {
      std::map<std::string, Tensor> numbers(result.begin(), result.end());
      core_.count_own(numbers);
      if (numbers.empty()) fail("Loop", "the step gives no number. return the loss, or numbers by name");
      return one_number(numbers.contains("loss") ? numbers.at("loss") : numbers.begin()->second);
    }
  }
  static Tensor one_number(const Tensor& loss) { return loss.ndim() == 0 ? loss : mean(loss); }
  void evaluate_body(const T& element) {
    if constexpr (!std::is_same_v<Step, NoStep>) {
      fail("Loop", "a loop with a step of your own does not know how to evaluate. predict, and compare");
    } else if constexpr (has_target) {
      const Tensor prediction = predict_body(input_of(element));
      const Tensor target = std::get<1>(element), weights = weights_of(element);
      core_.count(core_.loss_of(prediction, target, weights), prediction, target, weights);
    }
  }

  Core& core_;
  Model& model_;
  const Step& step_;
  std::map<int64_t, double> class_weights_;
  std::string fingerprint_;
  ByShape<Function<Tensor(const T&)>> train_;
  ByShape<Function<void(const T&)>> evaluate_;
  ByShape<Function<Tensor(const Inputs&)>> predict_;
};

template <class StepsOf, class T>
class TypedPass final : public Pass {
 public:
  TypedPass(StepsOf& steps, const data::Dataset<T>& dataset, uint64_t epoch, bool traced, const char* name,
            const Where& where)
      : steps_(steps), iterator_(dataset.iterator({.epoch = epoch}, where)), traced_(traced), name_(name) {}
  bool next() override {
    std::optional<T> element = iterator_.next();
    if (!element) return false;  // the last one stays, for uses after the epoch
    StepsOf::require_batch(*element, name_);
    element_ = std::move(element);
    return true;
  }
  std::string save() const override { return iterator_.save(); }
  void restore(const std::string& state) override { iterator_.restore(state); }
  Tensor train() override { return steps_.train(*element_, traced_); }
  Tensor train_unchanged() override { return steps_.train(*element_, false); }
  std::optional<Profile> profile(const ProfileOptions& options) override {
    if (!traced_) return std::nullopt;
    return rill::profile(steps_.train_step(*element_), options, *element_);
  }
  std::optional<Graph> graph() override {
    if (!traced_) return std::nullopt;
    return steps_.train_step(*element_).graph(*element_);
  }
  void evaluate() override { steps_.evaluate(*element_); }
  Tensor predict() override { return steps_.predict(*element_); }

 private:
  StepsOf& steps_;
  data::Iterator<T> iterator_;
  bool traced_;
  const char* name_;  // of the dataset, in errors
  std::optional<T> element_;
};

// One Steps for each type of element.
class StepsByType {
 public:
  template <class S, class... A>
  S& get(A&... arguments) {
    auto& made = made_[std::type_index(typeid(S))];
    if (!made) made = std::make_shared<S>(arguments...);
    return *static_cast<S*>(made.get());
  }

 private:
  std::map<std::type_index, std::shared_ptr<void>> made_;
};

}  // namespace impl

template <class Model, class Step = impl::NoStep>
class Loop {
 public:
  // The model is referred to, and must live as long. Throws where there is no loss or no optimizer.
  Loop(Model& model, LoopOptions options, Where where = Where::current())
      : model_(model), core_(std::make_unique<impl::Core>(std::move(options), namer(model), false, where)) {}
  // With a step of your own: step(element), or step(part, part, ...), trains once and returns the loss or numbers by
  // name (std::map<std::string, Tensor>). It is traced. Its optimizers continue in a resumed run if they are fields of
  // a struct with the model.
  Loop(Model& model, Step step, LoopOptions options = {}, Where where = Where::current())
    requires(!std::same_as<Step, impl::NoStep>)
      : model_(model),
        step_(std::move(step)),
        core_(std::make_unique<impl::Core>(std::move(options), namer(model), true, where)) {}

  // Trains for some epochs and returns the history. Each epoch is a pass of its own, shuffled anew. Throws exceptions
  // of the data, the model and callbacks, and if the dataset is empty.
  template <class T>
  History fit(const data::Dataset<T>& dataset, const FitOptions& options = {}, Where where = Where::current()) {
    steps<T>().prepare(&options.class_weights);
    impl::FitData data{source(dataset, where), {}};
    if (options.validation) data.validation = validation_of<T>(options.validation, where);
    return impl::run_fit(*core_, data, options, where);
  }
  // The loss and the metrics over a dataset, or its first `steps` batches.
  template <class T>
  Logs evaluate(const data::Dataset<T>& dataset, std::optional<int64_t> steps = {}, Where where = Where::current()) {
    this->steps<T>().prepare(nullptr);
    return core_->evaluate(source(dataset, where), steps, where);
  }
  // The model's results for all batches, concatenated along the first axis; on every rank.
  template <class T>
  Tensor predict(const data::Dataset<T>& dataset, Where where = Where::current()) {
    steps<T>().prepare(nullptr);
    return core_->predict(source_of(dataset, where), where);
  }
  // Trains for some steps with a learning rate that grows from step to step, and returns the losses; then everything is
  // restored. Throws if the rate follows a schedule, and for a step of your own.
  template <class T>
  RateTest find_rate(const data::Dataset<T>& dataset, const FindRateOptions& options = {},
                     Where where = Where::current()) {
    steps<T>().prepare(nullptr);
    return core_->find_rate(source(dataset, where), options, where);
  }
  // Keras's names: none of them compiles, and each names its counterpart.
  template <class X, class... More>
    requires(!requires { typename X::Element; })
  History fit(const X&, const More&...) {
    static_assert(!sizeof(X), "fit() takes a dataset of batches: fit(data::from_tensors(std::pair(x, y)).batch(32))");
    return {};
  }
  template <class T, std::integral N, class... More>
  History fit(const data::Dataset<T>&, N, const More&...) {
    static_assert(!sizeof(T), "how many epochs is an option: fit(dataset, {.epochs = 10})");
    return {};
  }
  template <class X, class... More>
    requires(!requires { typename X::Element; })
  Logs evaluate(const X&, const More&...) {
    static_assert(!sizeof(X),
                  "evaluate() takes a dataset of batches: evaluate(data::from_tensors(std::pair(x, y)).batch(32))");
    return {};
  }
  template <class X, class... More>
    requires(!requires { typename X::Element; })
  Tensor predict(const X&, const More&...) {
    static_assert(!sizeof(X),
                  "predict() takes a dataset of batches: predict(data::from_tensors(x).batch(32)); of one "
                  "tensor call the model: model(x)");
    return {};
  }
  Model& model() { return model_; }
  Loop(const Loop&) = delete;

 private:
  static std::function<void(ModelVisitor&)> namer(Model& model) {
    return [&model](ModelVisitor& visitor) { rill::detail::visit_inside(model, visitor); };
  }
  template <class T>
  using StepsOf = impl::Steps<Model, Step, T>;
  template <class T>
  StepsOf<T>& steps() {
    return by_type_.get<StepsOf<T>>(*core_, model_, step_);
  }
  template <class T>
  impl::Source source(const data::Dataset<T>& dataset, const Where& where, const char* name = "the dataset") {
    static_assert(
        StepsOf<T>::has_target || !std::is_same_v<Step, impl::NoStep>,
        "the elements are the model's inputs alone, which predict() takes. to train and to evaluate they need a "
        "target: {x, y}, {x, y, weights} or {{a, b}, y}, and {x, x} for an autoencoder; of others, give the loop a "
        "step of your own");
    impl::Source s = source_of(core_->options().distribute ? shard(dataset, where) : dataset, where, name);
    s.stages = dataset.describe();
    return s;
  }
  // Of elements like those to train on or, where these have weights, of such without.
  template <class T>
  impl::Source validation_of(const Validation& validation, const Where& where) {
    constexpr const char* name = "the validation data";
    if (const auto* alike = validation.get<data::Dataset<T>>()) return source(*alike, where, name);
    if constexpr (impl::Parts<T>::count == 3) {
      using Plain = std::pair<std::tuple_element_t<0, T>, std::tuple_element_t<1, T>>;
      if (const auto* plain = validation.get<data::Dataset<Plain>>()) {
        steps<Plain>().prepare(nullptr);
        return source(*plain, where, name);
      }
    }
    rill::fail("Loop.fit", "the validation's elements are of another type than those to train on. map() them alike",
               where);
  }
  // This rank's rows of each batch.
  template <class T>
  data::Dataset<T> shard(const data::Dataset<T>& dataset, const Where& where) const {
    const auto [rank, ranks] = core_->options().distribute.share(where);
    return dataset.shard(ranks, rank, {.within_batch = true}, where);
  }
  template <class T>
  impl::Source source_of(const data::Dataset<T>& dataset, const Where& where, const char* name = "the dataset") {
    impl::Source s;
    s.size = dataset.size();
    s.name = name;
    s.pass = [this, dataset, name, where](uint64_t epoch) -> std::unique_ptr<impl::Pass> {
      return std::make_unique<impl::TypedPass<StepsOf<T>, T>>(steps<T>(), dataset, epoch, core_->options().traced, name,
                                                              where);
    };
    return s;
  }

  Model& model_;
  Step step_ = {};
  std::unique_ptr<impl::Core> core_;
  impl::StepsByType by_type_;
};
template <class Model>
Loop(Model&, LoopOptions) -> Loop<Model, impl::NoStep>;
template <class Model>
Loop(Model&, LoopOptions, Where) -> Loop<Model, impl::NoStep>;
template <class Model, class Step>
  requires(!std::convertible_to<Step, LoopOptions>)
Loop(Model&, Step) -> Loop<Model, Step>;
template <class Model, class Step>
  requires(!std::convertible_to<Step, LoopOptions>)
Loop(Model&, Step, LoopOptions) -> Loop<Model, Step>;

}  // namespace rill::train

#pragma GCC visibility pop
