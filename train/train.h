// Training: a loop that shows, survives and explains.
//
//   train::Loop loop(net, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::AdamW(), .metrics = {metrics::accuracy()}});
//   train::History h = loop.fit(batches, {.epochs = 20, .validation = test, .callbacks = {train::early_stopping()}});
#pragma once
#include "rill/tensor/compiler.h"

#include "rill/train/callbacks.h"
#include "rill/train/estimators.h"
#include "rill/train/history.h"
#include "rill/train/loop.h"
#include "rill/train/monitored.h"
#include "rill/train/ranks.h"
#include "rill/train/search.h"
