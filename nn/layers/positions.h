// Layers that encode the positions of tokens.
#pragma once
#include "rill/nn/layer.h"
#include "rill/nn/param.h"
#include "rill/ops/positions.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// x [..., tokens, width] plus sinusoids() of the tokens' positions, 0, 1, ... where not given.
class SinusoidalPositions {
 public:
  SinusoidalPositions() = default;
  explicit SinusoidalPositions(const SinusoidOptions& options) : options(options) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  // `positions` are integers or floats [tokens], or what broadcasts to [..., tokens]: of a decoder's further tokens.
  Tensor operator()(const Tensor& x, const Tensor& positions, const Call& call = {},
                    Where where = Where::current()) const;
  RILL_LAYER(SinusoidalPositions)

  SinusoidOptions options;
};

struct LearnedPositionsOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Initializer initializer = normal(0, 0.02);
  std::string name = "positions";
};
// x [..., tokens, width] plus the rows of a table that is learnt, for positions in [0, count). Throws where there are
// more tokens than rows.
class LearnedPositions {
 public:
  explicit LearnedPositions(int64_t count, const LearnedPositionsOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  // `positions` are integers [tokens], or what broadcasts to [..., tokens].
  Tensor operator()(const Tensor& x, const Tensor& positions, const Call& call = {},
                    Where where = Where::current()) const;
  RILL_LAYER(LearnedPositions, table)
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  std::string name;
  int64_t count;
  Param table;  // [count, width]
};

}  // namespace rill::nn

#pragma GCC visibility pop
