// Models that are larger than the memory of one rank: each keeps a part of every parameter, of its gradient and of what an
// optimizer remembers of it, and has a unit of the model whole only while that runs (ZeRO; Rajbhandari et al., 2020;
// FSDP, Zhao et al., 2023).
//
//   nn::build(blocks, spec(f32, {any, 64}));
//   distribute::broadcast(blocks);
//   distribute::Shards shards(blocks);                  // a vector of layers, of which each is a unit
//   ...
//   rill::GradientTape tape;                            // not distribute's: the gradients of parts are means already
//   Tensor h = x;
//   for (size_t i = 0; i < blocks.size(); ++i) h = shards.run(i, blocks[i], h);
//   adam.minimize(loss(h, y), tape, shards.variables());
//
// Stage 3 computes a unit again on the way back, from its input and from the parameters, which come again: nothing else of
// it is kept. Stage 2 keeps the parameters whole from a unit's way forward to its way back, and computes nothing again. The
// next unit's parameters travel while one runs.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rill/distribute/session.h"
#include "rill/ops/names.h"
#include "rill/tensor/callback.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

struct ShardsOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  int stage = 3;     // of ZeRO: 2 or 3
  Group group = {};  // the ranks that the parts lie on; the gradients are means over them
};

class Shards {
 public:
  // Takes the trainable floating Variables of each unit apart. They have the same values on all ranks (broadcast()), and
  // from now on none of their own: they are frozen, and read as NaN outside of run(). Throws where a unit has none, or
  // several dtypes, where two units share one, and where one has no value yet.
  explicit Shards(const std::vector<NamedVariables>& units, const ShardsOptions& options = {},
                  Where where = Where::current());
  template <class Layer>
    requires(!std::is_same_v<Layer, NamedVariables>)
  explicit Shards(const std::vector<Layer>& units, const ShardsOptions& options = {}, Where where = Where::current())
      : Shards(variables_of(units), options, where) {}

  // f(x), in which the unit's parameters are whole. All ranks run the units in order; x and the result are one tensor each,
  // and all that depends on other units' parameters goes through x. Stage 3 runs f again on the way back, with the random
  // numbers of the first time: what it refers to lives until then. (A layer is copied, and shares its Variables.)
  Tensor run(size_t unit, const Callback<Tensor(const Tensor&)>& f, const Tensor& x,
             Where where = Where::current()) const;

  // What this rank keeps: a part of each parameter, flat, of as many elements on all ranks, with zeros behind the last.
  // Each has its parameter's name. Rules of optimizers that treat each element by itself give what they give of the whole.
  std::vector<Variable> variables() const;
  // Under the numbers of the units: what a Checkpoint of this rank has.
  void name_variables(VariablePaths& paths) const;
  size_t units() const;

  // Gives the parameters their values whole, on all ranks: for a checkpoint of the model, or for one that is done with
  // sharing. They stay so until release().
  void gather(Where where = Where::current()) const;
  void release(Where where = Where::current()) const;

  struct State;

 private:
  template <class Layer>
  static std::vector<NamedVariables> variables_of(const std::vector<Layer>& units) {
    std::vector<NamedVariables> all;
    for (const Layer& u : units) all.push_back(rill::variables(u));
    return all;
  }
  std::shared_ptr<State> state_;
};

}  // namespace rill::distribute

#pragma GCC visibility pop
