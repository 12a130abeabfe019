// Observers of new traces: `function` notifies each of every graph that it records, so that the code that writes graphs
// to files (serialize/tensorboard/summary.cpp) stays out of the tracer.
#pragma once
#include <functional>

#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

// Called on the thread that traced, after the trace has ended. What it throws reaches the caller of the function.
using TraceObserver = std::function<void(const Graph&)>;

// Adds an observer and returns the number by which it is removed. Both are safe from any thread; an observer that
// another thread is running while it is removed finishes that run.
int add_trace_observer(TraceObserver observer);
void remove_trace_observer(int number);

// Notifies all observers, in the order in which they were added. One relaxed load if there is none.
void notify_traced(const Graph& g);

}  // namespace rill

#pragma GCC visibility pop
