// Small messages; see messages.h.
#include "rill/serialize/messages.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#if __has_include(<google/protobuf/stubs/logging.h>)  // later versions log by Abseil
#include <google/protobuf/stubs/logging.h>
#define RILL_PROTOBUF_LOGS 1
#endif

#include <bit>
#include <chrono>

namespace rill {

static_assert(std::endian::native == std::endian::little, "tensor_content is little-endian");

proto::DataType to_proto(DType dtype) {
  switch (dtype) {
    case DType::boolean: return proto::DT_BOOL;
    case DType::i8: return proto::DT_INT8;
    case DType::i16: return proto::DT_INT16;
    case DType::i32: return proto::DT_INT32;
    case DType::i64: return proto::DT_INT64;
    case DType::u8: return proto::DT_UINT8;
    case DType::u16: return proto::DT_UINT16;
    case DType::u32: return proto::DT_UINT32;
    case DType::u64: return proto::DT_UINT64;
    case DType::f16: return proto::DT_HALF;
    case DType::bf16: return proto::DT_BFLOAT16;
    case DType::f32: return proto::DT_FLOAT;
    case DType::f64: return proto::DT_DOUBLE;
    case DType::c64: return proto::DT_COMPLEX64;
    case DType::c128: return proto::DT_COMPLEX128;
    case DType::string: return proto::DT_STRING;
    case DType::f8_e4m3fn: return proto::DT_FLOAT8_E4M3FN;
    case DType::f8_e5m2: return proto::DT_FLOAT8_E5M2;
  }
  return proto::DT_INVALID;
}

proto::TensorShapeProto to_proto(const Shape& shape) {
  proto::TensorShapeProto p;
  for (int64_t size : shape) p.add_dim()->set_size(size);
  return p;
}

proto::TensorProto to_proto(const Tensor& t) {
  proto::TensorProto p;
  p.set_dtype(to_proto(t.dtype()));
  *p.mutable_tensor_shape() = to_proto(t.shape());
  if (t.dtype() == DType::string) {
    for (std::string& s : t.to_vector<std::string>()) p.add_string_val(std::move(s));
    return p;
  }
  Tensor host = t.to(Device()).contiguous();
  p.set_tensor_content(host.rep()->data, size_t(host.size()) * size_of(host.dtype()));
  return p;
}

proto::Event event_now(int64_t step) {
  proto::Event event;
  event.set_wall_time(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  event.set_step(step);
  return event;
}

std::string version_event() {
  proto::Event event = event_now(0);
  event.set_file_version("brain.Event:2");
  return bytes_of(event);
}

void check_message_size(uint64_t bytes, std::string_view op, const Where& where) {
  if (bytes > uint64_t(INT32_MAX))
    fail(op,
         std::to_string(bytes) +
             " bytes are too many for one message of protobuf's, which has 2 GiB at most. write "
             "several, or keep tensors apart with save()",
         where);
}

bool parse(std::string_view bytes, google::protobuf::MessageLite& message) {
#ifdef RILL_PROTOBUF_LOGS
  const google::protobuf::LogSilencer silent;
#endif
  return bytes.size() <= INT32_MAX && message.ParseFromArray(bytes.data(), int(bytes.size()));
}

std::string bytes_of(const google::protobuf::MessageLite& message, std::string_view op, const Where& where) {
  check_message_size(message.ByteSizeLong(), op, where);
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }  // the streams write what they still hold
  return bytes;
}

}  // namespace rill
