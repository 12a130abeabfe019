// Models that are larger than the memory of one rank: each keeps a part of every parameter, of its gradient and of its
// optimizer's slots, and has the complete parameters of a unit only while that runs (ZeRO; Rajbhandari et al., 2020;
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
// Stage 3 computes a unit again on the way back, from its input and its parameters, which are gathered again: nothing
// else of it is kept. Stage 2 keeps the complete parameters from a unit's way forward to its way back, and computes
// nothing again. The next unit's parameters are gathered while one runs.
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
  Group group = {};  // the ranks of the parts; the gradients are means over them
};

class Shards {
 public:
  // Splits the trainable floating Variables of each unit. They must have the same values on all ranks (broadcast()),
  // and from now on none of their own: they are frozen, and read as NaN outside of run(). Throws if a unit has none, or
  // several dtypes, if two units share one, and if one has no value yet.
  explicit Shards(const std::vector<NamedVariables>& units, const ShardsOptions& options = {},
                  Where where = Where::current());
  template <class Layer>
    requires(!std::is_same_v<Layer, NamedVariables>)
  explicit Shards(const std::vector<Layer>& units, const ShardsOptions& options = {}, Where where = Where::current())
      : Shards(variables_of(units), options, where) {}

  // f(x), with the unit's parameters complete. All ranks run the units in order; x and the result are one tensor each,
  // and everything that depends on other units' parameters goes through x. Stage 3 runs f again on the way back, with
  // the random numbers of the first time: what it refers to must live until then. (A layer is copied, and shares its
  // Variables.)
  Tensor run(size_t unit, const Callback<Tensor(const Tensor&)>& f, const Tensor& x,
             Where where = Where::current()) const;

  // This rank's part of each parameter, flat, with as many elements on all ranks, padded with zeros. Each has its
  // parameter's name. Optimizers that treat each element by itself compute the same as for the full parameters.
  std::vector<Variable> variables() const;
  // By the indices of the units: for this rank's Checkpoint.
  void name_variables(VariablePaths& paths) const;
  size_t units() const;

  // Gives the parameters their complete values, on all ranks: for a checkpoint of the model, or when sharding is over.
  // They stay so until release().
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
