// rill, the whole public API but files (serialize.h), summaries (summary.h), layers (nn.h) and input pipelines
// (data.h).
#pragma once
#include "rill/tensor/compiler.h"

#include "rill/autodiff/debug.h"
#include "rill/autodiff/forward.h"
#include "rill/autodiff/gradcheck.h"
#include "rill/autodiff/jacobians.h"
#include "rill/autodiff/recompute.h"
#include "rill/autodiff/tape.h"
#include "rill/autodiff/transforms.h"
#include "rill/autodiff/vmap.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"
#include "rill/ops/ops.h"
#include "rill/tensor/stream.h"
#include "rill/trace/control_flow.h"
#include "rill/trace/export.h"
#include "rill/trace/function.h"
#include "rill/trace/graph_run.h"
#include "rill/trace/graph_text.h"
#include "rill/trace/jit.h"
#include "rill/trace/profile.h"
