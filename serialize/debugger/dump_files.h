// The files of a dump, as they are written: events of graphs, places in the user's program, calls and values. Not for
// several threads at once.
#pragma once
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "debug_event.pb.h"
#include "rill/serialize/debugger.h"
#include "rill/serialize/messages.h"
#include "rill/serialize/records.h"
#include "rill/trace/graph/graph_names.h"

namespace rill::debug {

// A graph that was written.
struct KnownGraph {
  std::string id;
  std::vector<NodeName> names;
  std::vector<int64_t> ids;  // of the first output of each node
};

class DumpFiles {
 public:
  enum Kind { metadata, source_files, stack_frames, graphs, execution, traces };

  // Makes the folder; a dump that it holds is taken away.
  DumpFiles(const std::string& folder, std::vector<std::string> sources, const Where& where);

  // Writes the graph where it is new. `outer`, which may be null, has it inside of its node `inside`.
  const KnownGraph& known(const Graph& g, const KnownGraph* outer, int32_t inside);
  // "train.cpp:12" as frames of a stack; `where` helps to find the file.
  proto::CodeLocation place(const std::string& place, const std::string& function, const Where& where);
  int device(Device d);
  int64_t next_call() { return calls_++; }
  // A file of its own; gives its name in the folder.
  std::string write_tensor(const Tensor& t);

  proto::DebugEvent event(int64_t step, int64_t call, proto::Execution e);
  proto::DebugEvent event(int64_t step, int64_t call, proto::GraphExecutionTrace t);
  void write(Kind kind, std::string_view bytes) { files_[kind].write(bytes, where_); }
  void write(Kind kind, const proto::DebugEvent& event) { write(kind, bytes_of(event, "debug::dump", where_)); }
  // Returns when readers see all of it.
  void flush();

 private:
  void write_graph(const Graph& g, const KnownGraph& known, const KnownGraph* outer, int32_t inside);
  int source(const std::string& file, const Where& where);

  std::string folder_, prefix_, host_;
  std::vector<std::string> sources_;
  Where where_;
  std::vector<RecordWriter> files_;  // by Kind
  struct Written {
    std::string name;
    size_t nodes;
    KnownGraph known;
  };
  std::map<const Graph*, std::vector<Written>> graphs_;  // an address may be another graph's later
  std::map<std::string, int> files_known_, devices_;
  std::map<std::tuple<int, int64_t, std::string>, std::string> frames_;
  int64_t calls_ = 0, next_id_ = 1, tensors_ = 0, graph_count_ = 0;
};

void fill_health(proto::RillHealth& p, const Tensor& t, const Health& h);
// FULL_HEALTH; of strings SHAPE. Gives which.
proto::TensorDebugMode fill_summary(proto::TensorProto& p, const Tensor& t, const Health& h, int64_t id, int device);

}  // namespace rill::debug
