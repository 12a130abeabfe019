// The headers that a program includes, in the order that no other program here has: the last ones first.
// clang-format off
#include <rill/train.h>
#include <rill/summary.h>
#include <rill/serialize.h>
#include <rill/rill.h>
#include <rill/nn.h>
#include <rill/metrics.h>
#include <rill/distributions.h>
#include <rill/distribute.h>
#include <rill/data.h>
// clang-format on

#include "expect.h"

int main() { EXPECT(rill::data::range(3).size() == 3); }
