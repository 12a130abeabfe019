// TensorFlow's messages made from rill's things: shapes, dtypes, tensors, graphs, events. Only the sources of this
// folder include it, for it brings protobuf's headers.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "event.pb.h"
#include "graph.pb.h"
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

proto::DataType to_proto(DType dtype);
// Open sizes become -1, TensorFlow's unknown.
proto::TensorShapeProto to_proto(const Shape& shape);
// With its elements, which are copied to the host. Throws on a symbolic tensor.
proto::TensorProto to_proto(const Tensor& t);
// In viewers/graph_def.cpp.
proto::GraphDef to_proto(const Graph& g);

// An event of this moment, still without content.
proto::Event event_now(int64_t step);
// The first event of every file, encoded.
std::string version_event();

// Whether `bytes` encode a message of that kind, which `message` then is. Says nothing else: protobuf would print what
// is wrong with them.
bool parse(std::string_view bytes, google::protobuf::MessageLite& message);
// The encoded message, the same bytes for the same message (protobuf writes maps in any order unless told not to).
// Throws rill::Error, under the name of `op`, where it would have more than 2 GiB, which protobuf cannot encode.
std::string bytes_of(const google::protobuf::MessageLite& message, std::string_view op = "protobuf",
                     const Where& where = Where::current());
// Throws that where `bytes` is too many.
void check_message_size(uint64_t bytes, std::string_view op, const Where& where);

}  // namespace rill

#pragma GCC visibility pop
