// The files of a dump, while they are written: events of graphs, source locations of the user's program, calls and
// values. Not thread-safe.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "debug_event.pb.h"
#include "rill/serialize/debugger.h"
#include "rill/serialize/messages.h"
#include "rill/trace/graph/graph_names.h"

namespace rill::debug {

// A graph that has been written.
struct KnownGraph {
  std::string id;
  std::vector<NodeName> names;
  std::vector<int64_t> ids;  // of the first output of each node
};

// A file of records that grows while others read it. Nothing waits for the disk: a step would take as long as the disk
// needs for six files, and a program that is killed does not lose what the system has buffered.
class DumpFile {
 public:
  DumpFile(std::string path, const Where& where);
  ~DumpFile();
  DumpFile(const DumpFile&) = delete;
  void add(std::string_view bytes);
  // Passes the new records to the system.
  void flush();
  bool is_long() const { return waiting_.size() > (size_t(1) << 20); }

 private:
  std::string path_, waiting_;
  Where where_;
  int fd_ = -1;
};

class DumpFiles {
 public:
  enum Kind { metadata, source_files, stack_frames, graphs, execution, traces };

  // Creates the folder; an existing dump in it is removed.
  DumpFiles(const std::string& folder, std::vector<std::string> sources, const Where& where);

  // Writes the graph if it is new. `outer`, which may be null, has it inside its node `inside`.
  const KnownGraph& known(const Graph& g, const KnownGraph* outer, int32_t inside);
  // "train.cpp:12" as frames of a stack; `where` helps to find the file.
  proto::CodeLocation place(const std::string& place, const std::string& function, const Where& where);
  int device(Device d);
  int64_t next_call() { return calls_++; }
  // Writes a file of its own; returns its name in the folder.
  std::string write_tensor(const Tensor& t);

  proto::DebugEvent event(int64_t step, int64_t call, proto::Execution e);
  proto::DebugEvent event(int64_t step, int64_t call, proto::GraphExecutionTrace t);
  void write(Kind kind, std::string_view bytes) {
    files_[kind].add(bytes);
    if (files_[kind].is_long()) flush();
  }
  void write(Kind kind, const proto::DebugEvent& event) { write(kind, bytes_of(event, "debug::dump", where_)); }
  // Returns when readers see everything.
  void flush();

 private:
  void write_graph(const Graph& g, const KnownGraph& known, const KnownGraph* outer, int32_t inside);
  int source(const std::string& file, const Where& where);

  std::string folder_, prefix_, host_;
  std::vector<std::string> sources_;
  Where where_;
  std::deque<DumpFile> files_;  // by Kind
  struct Written {
    std::string name;
    uint32_t trace;
    size_t nodes;
    KnownGraph known;
  };
  // Another graph may later have the same address. References that were returned stay valid.
  std::map<const Graph*, std::deque<Written>> graphs_;
  std::map<std::string, int> files_known_, devices_;
  std::map<std::tuple<int, int64_t, std::string>, std::string> frames_;
  int64_t calls_ = 0, next_id_ = 1, tensors_ = 0, graph_count_ = 0;
};

void fill_health(proto::RillHealth& p, const Tensor& t, const Health& h);
// FULL_HEALTH; for strings SHAPE. Returns the mode.
proto::TensorDebugMode fill_summary(proto::TensorProto& p, const Tensor& t, const Health& h, int64_t id, int device);

}  // namespace rill::debug
