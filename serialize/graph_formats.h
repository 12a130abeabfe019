// A traced graph as text or bytes, one function a format. export_graph (trace/export.h) writes them to files.
#pragma once
#include <string>

#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

// Graphviz's DOT language: name scopes are clusters, edges carry dtypes and shapes.
std::string to_dot(const Graph& g);
// Model Explorer's JSON: one graph, nested by name scope, with attributes, shapes and source lines.
std::string to_model_explorer(const Graph& g);
// The bytes of a TensorFlow GraphDef. Ops bear TensorFlow's names where their record has one, else rill's: it is made
// to be looked at, not to be run there.
std::string to_graph_def(const Graph& g);

// One HTML page that needs nothing else: search, scopes that open and close, shapes on edges, memory as heat, source
// lines.
std::string to_html(const Graph& g);

}  // namespace rill

#pragma GCC visibility pop
