// All optimizers, learning rates and schedules. Their common base, and how to write a rule of your own:
// optimizers/optimizer.h. A table of the rules: docs/optimizers.md.
#pragma once
#include "rill/nn/optimizers/adam.h"
#include "rill/nn/optimizers/adaptive.h"
#include "rill/nn/optimizers/closures.h"
#include "rill/nn/optimizers/layerwise.h"
#include "rill/nn/optimizers/optimizer.h"
#include "rill/nn/optimizers/schedules.h"
#include "rill/nn/optimizers/sgd.h"
