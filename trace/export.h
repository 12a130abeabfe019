// export_graph: what was traced, as a file that a viewer opens. Declared here, with the graph, so that rill.h brings
// it; defined in librill_io (serialize/viewers/export_graph.cpp), which alone loads protobuf and JSON.
//
// Both libraries are on the link line that rill.pc, the CMake package and rill_dep give, under --as-needed: a program
// that calls export_graph loads librill_io, one that does not never sees it. That is why nothing is opened at run time
// here: the linker already chooses. A build without the io feature has a definition that throws (no_export.cpp).
#pragma once
#include <string>

#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

// Writes `g` without running it, in the format that `path` asks for:
//
//   mlp.html          a page for any browser, which loads nothing else: search, scopes that open, memory as heat
//   mlp.dot, mlp.gv   Graphviz: name scopes are clusters, edges carry dtypes and shapes
//   mlp.json          Model Explorer: nested by name scope, with attributes and source lines
//   mlp.pb            a TensorFlow GraphDef
//   logs/mlp          (no extension, or a folder that exists) a folder that TensorBoard reads: an event file is added
//
// Makes the folders that are missing. A file is complete or absent: it is written under another name and then moved,
// and one of that name is replaced. Throws rill::Error for another extension and where the file cannot be written.
void export_graph(const Graph& g, const std::string& path, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
