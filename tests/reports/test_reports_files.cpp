// Reports about files: CSV, .npy, .safetensors, and ONNX operators, whose models are written here byte by byte.
#include <cstring>

#include "io_helpers.h"
#include "messages.h"
#include "reports.h"
#include "rill/serialize.h"

using namespace reports;

namespace {

using Texts = std::vector<std::string>;
using Wholes = std::vector<int64_t>;

Table table_of(const std::string& text) {
  Folder out;
  put_file(out / "t.csv", text);
  return read_csv(out / "t.csv");
}

// The tensor in a .npy file with this version, header and bytes.
Tensor npy(int version, const std::string& header, const std::string& elements) {
  Folder out;
  std::string bytes = "\x93NUMPY";
  bytes += char(version);
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) bytes += char(header.size() >> (8 * i));
  put_file(out / "x.npy", bytes + header + elements);
  return load(out / "x.npy").at("");
}
template <class T>
std::string bytes_of(const std::vector<T>& x) {
  return std::string(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(T));
}
std::string safetensors(const std::string& header, const std::string& elements) {
  const uint64_t n = header.size();
  return std::string(reinterpret_cast<const char*>(&n), 8) + header + elements;
}

// --- A protobuf message, field by field ------------------------------------------------------------------------------

std::string varint(uint64_t x) {
  std::string out;
  for (; x >= 128; x >>= 7) out += char(x | 128);
  return out + char(x);
}
std::string field(int number, uint64_t x) { return varint(uint64_t(number) << 3) + varint(x); }
std::string field(int number, const std::string& x) { return varint(uint64_t(number) << 3 | 2) + varint(x.size()) + x; }

std::string attribute(const std::string& name, int64_t i) {
  return field(5, field(1, name) + field(3, uint64_t(i)) + field(20, 2));
}
std::string attribute(const std::string& name, const std::string& s) {
  return field(5, field(1, name) + field(4, s) + field(20, 3));
}

// onnx.proto's TensorProto of a tensor of f32, i64, bool or u8.
std::string tensor_proto(const std::string& name, const Tensor& t) {
  const int type = t.dtype() == f32 ? 1 : t.dtype() == u8 ? 2 : t.dtype() == i64 ? 7 : 9;
  std::string out;
  for (int64_t i = 0; i < t.ndim(); ++i) out += field(1, uint64_t(int64_t(t.dim(i))));
  out += field(2, uint64_t(type)) + field(8, name);
  if (t.dtype() == f32) return out + field(9, bytes_of(t.to_vector<float>()));
  if (t.dtype() == i64) return out + field(9, bytes_of(t.to_vector<int64_t>()));
  return out + field(9, bytes_of(t.astype(u8).to_vector<uint8_t>()));
}

// What a model of one node gives: its inputs are constants of the file but the first, which is fed.
Tensor run_node(const std::string& op, int opset, const Values& in, const std::string& attributes = "") {
  std::string node = "", initializers = "";
  for (size_t i = 0; i < in.size(); ++i) {
    const std::string name = in[i].defined() ? "i" + std::to_string(i) : "";
    node += field(1, name);
    if (i > 0 && in[i].defined()) initializers += field(5, tensor_proto(name, in[i]));
  }
  node += field(2, std::string("y")) + field(4, op) + attributes;
  std::string dims;
  for (int64_t i = 0; i < in[0].ndim(); ++i) dims += field(1, field(1, uint64_t(int64_t(in[0].dim(i)))));
  const int type = in[0].dtype() == f32 ? 1 : in[0].dtype() == u8 ? 2 : in[0].dtype() == i64 ? 7 : 9;
  const std::string fed = field(1, std::string("i0")) + field(2, field(1, field(1, uint64_t(type)) + field(2, dims)));
  const std::string graph = field(1, node) + field(2, std::string("g")) + initializers + field(11, fed) +
                            field(12, field(1, std::string("y")));
  Folder out;
  put_file(out / "m.onnx", field(1, 8) + field(8, field(2, uint64_t(opset))) + field(7, graph));
  return import_model(out / "m.onnx")({{"i0", in[0]}}).at("y");
}

}  // namespace

// --- CSV -------------------------------------------------------------------------------------------------------------

TEST_CASE("a column of large integers keeps its digits beside a gap (pandas-dev/pandas#48170)") {
  const Table t = table_of("col1,col2\n,1\n1234567890123456789,\n");
  CHECK(t.at("col1").to_vector<std::string>()[1] == "1234567890123456789");
}
TEST_CASE("an integer of 19 digits after an empty line (pandas-dev/pandas#5697)") {
  CHECK(table_of("x\n1111111111111111111\n").at("x").to_vector<int64_t>() == Wholes{1111111111111111111});
}
TEST_CASE("numbers of 16 digits with a point (pandas-dev/pandas#12340)") {
  const Table t = table_of("id,n\n6144039378640938.000000,71\n6144053114071082.000000,8\n6145000614093866.0,0\n");
  CHECK(t.at("id").to_vector<double>() == Numbers{6144039378640938.0, 6144053114071082.0, 6145000614093866.0});
}
TEST_CASE("one number with an exponent costs the others no digits (pandas-dev/pandas#2697)") {
  const Table t = table_of("a,c\n99999999999,99999999999\n123456789012345,123456789012345\n1234E+0,1234\n");
  CHECK(t.at("a").to_vector<double>() == Numbers{99999999999.0, 123456789012345.0, 1234});
  CHECK(t.at("c").to_vector<int64_t>() == Wholes{99999999999, 123456789012345, 1234});
}
TEST_CASE("times of the largest u64 (pandas-dev/pandas#15950, pandas-dev/pandas#11440)") {
  const Table t = table_of("t\n6369116884441\n9636911691583032832\n18446744073709551615\n");
  CHECK(t.at("t").dtype() == u64);
  CHECK(t.at("t").to_vector<uint64_t>() ==
        std::vector<uint64_t>{6369116884441u, 9636911691583032832u, 18446744073709551615u});
}
TEST_CASE("fractions of 17 digits are read to the nearest f64 (NVIDIA/cudf#1109)") {
  const Table t =
      table_of("s\n0.41718530654907227\n4.13114070892334\n64.53478860855103\n0.1\n1e23\n8.98846567431158e307\n");
  CHECK(t.at("s").to_vector<double>() ==
        Numbers{0.41718530654907227, 4.13114070892334, 64.53478860855103, 0.1, 1e23, 8.98846567431158e307});
}

// --- .npy and .safetensors -------------------------------------------------------------------------------------------

TEST_CASE("Fortran order is read as its header says (rogersce/cnpy#7, sonos/tract#655)") {
  const std::string elements = bytes_of(std::vector<double>{1, 2, 3, 4, 5, 6});
  const Tensor columns = npy(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }\n", elements);
  CHECK(columns.to_vector<double>() == Numbers{1, 3, 5, 2, 4, 6});
  const Tensor rows = npy(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }\n", elements);
  CHECK(rows.to_vector<double>() == Numbers{1, 2, 3, 4, 5, 6});
  CHECK(npy(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (6,), }\n", elements).to_vector<double>() ==
        Numbers{1, 2, 3, 4, 5, 6});
}
TEST_CASE("a header of version 2 that is not aligned, with a comma behind its sizes (fortran-lang/stdlib#581)") {
  const Tensor x = npy(2, "{'descr': '<f8', 'fortran_order': True, 'shape': (2,2,), }         \n",
                       bytes_of(std::vector<double>{1, 2, 3, 4}));
  CHECK(x.to_vector<double>() == Numbers{1, 3, 2, 4});
}
TEST_CASE("bytes in the other order are turned around (safetensors/safetensors#193)") {
  CHECK(
      npy(1, "{'descr': '>i4', 'fortran_order': False, 'shape': (2,), }\n", std::string("\0\0\0\1\xff\xff\xff\xfe", 8))
          .to_vector<int64_t>() == Wholes{1, -2});
}
TEST_CASE("a file that does not begin as a .npy file is none (deeplearning4j/deeplearning4j#7647)") {
  Folder out;
  save(out / "x.npy", arange(12, f32));
  std::string bytes = contents(out / "x.npy");
  for (size_t i : {0u, 3u, 6u}) {
    std::string damaged = bytes;
    damaged[i] = 0;
    put_file(out / "bad.npy", damaged);
    CHECK_THROWS_AS(load(out / "bad.npy"), Error);
  }
}
TEST_CASE("what is no .safetensors file is an error, not a large allocation (safetensors/safetensors#414)") {
  Folder out;
  put_file(out / "x.safetensors", "PK\x03\x04 a file of another program, of some length");
  CHECK_THROWS_AS(load(out / "x.safetensors"), Error);
}
TEST_CASE("a .safetensors header that is longer than its limit is told so (safetensors/safetensors#668)") {
  Folder out;
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const auto padded = [&](size_t size) {
    return safetensors(header + std::string(size - header.size(), ' '), bytes_of(std::vector<float>{1, 2}));
  };
  put_file(out / "x.safetensors", padded(99'000'000));
  CHECK(load(out / "x.safetensors").at("a").to_vector<double>() == Numbers{1, 2});
  put_file(out / "y.safetensors", padded(132'095'296));
  CHECK(has(message_of([&] { load(out / "y.safetensors"); }), "at most 100 MB, and it is 132095296"));
}

// --- ONNX ------------------------------------------------------------------------------------------------------------

TEST_CASE("an exclusive CumSum along a negative axis of size 1 (microsoft/onnxruntime#13165)") {
  const Tensor x = tensor({{1.f, 2.f}});
  CHECK(run_node("CumSum", 14, {x, i64s({-2})(0)}, attribute("exclusive", 1)).to_vector<double>() == Numbers{0, 0});
  CHECK(run_node("CumSum", 14, {x, i64s({1})(0)}, attribute("exclusive", 1)).to_vector<double>() == Numbers{0, 1});
}
TEST_CASE("CumSum from the end (NVIDIA/TensorRT#4513)") {
  const Tensor x = f32s({1, 2, 4});
  CHECK(run_node("CumSum", 14, {x, i64s({0})(0)}, attribute("reverse", 1)).to_vector<double>() == Numbers{7, 6, 4});
  CHECK(run_node("CumSum", 14, {x, i64s({0})(0)}).to_vector<double>() == Numbers{1, 3, 7});
  CHECK(run_node("CumSum", 14, {x, i64s({0})(0)}, attribute("reverse", 1) + attribute("exclusive", 1))
            .to_vector<double>() == Numbers{6, 4, 0});
}
TEST_CASE("ReduceL1 of a negative number along an axis of size 1 (microsoft/onnxruntime#10542)") {
  CHECK(run_node("ReduceL1", 18, {tensor({{-1.f}})}).to_vector<double>() == Numbers{1});
}
TEST_CASE("OneHot of indices with fractions cuts them off (microsoft/onnxruntime#14285)") {
  const Tensor y =
      run_node("OneHot", 11, {f32s({1.7640524, 0.4001572, 0.978738, 2.2408931}), i64s({3})(0), i64s({0, 1})});
  CHECK(y.to_vector<double>() == Numbers{0, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1});
}
TEST_CASE("ONNX's negative indices count from the end (apache/tvm#20217)") {
  const Tensor x = arange(12, f32).reshape({3, 4});
  CHECK(run_node("GatherElements", 13, {x, full({3, 2}, -1, i64)}, attribute("axis", 1)).to_vector<double>() ==
        Numbers{3, 3, 7, 7, 11, 11});
  CHECK(run_node("GatherND", 13, {x, tensor({{int64_t(-1), int64_t(-1)}, {int64_t(0), int64_t(-2)}})})
            .to_vector<double>() == Numbers{11, 2});
  CHECK(run_node("ScatterND", 16, {x, i64s({-1, 0}).reshape({2, 1}), -ones({2, 4})})(2, 3).item<double>() == -1);
  CHECK(run_node("OneHot", 11, {i64s({0, -1}), i64s({3})(0), i64s({0, 1})}).to_vector<double>() ==
        Numbers{1, 0, 0, 0, 0, 1});
}
TEST_CASE("ScatterND that names a place twice keeps the last update (onnx/onnx#5353)") {
  const Tensor x = bools({0, 1}), at = tensor({{int64_t(0)}, {int64_t(0)}});
  CHECK(run_node("ScatterND", 13, {x, at, bools({0, 1})}).to_vector<int64_t>() == Wholes{1, 1});
  CHECK(run_node("ScatterND", 13, {x, at, bools({1, 0})}).to_vector<int64_t>() == Wholes{0, 1});
}
TEST_CASE("ScatterND of one element of a vector (microsoft/onnxruntime#9411)") {
  CHECK(run_node("ScatterND", 13, {f32s({1, 2, 3}), tensor({{int64_t(1)}}), f32s({5})}).to_vector<double>() ==
        Numbers{1, 5, 3});
}
TEST_CASE("LayerNormalization of large numbers that are close (microsoft/onnxruntime#28463)") {
  const Tensor y = run_node("LayerNormalization", 17, {f32s({80000, 80001, 80002, 80003}), ones({4}), zeros({4})});
  CHECK(within(y.to_vector<double>(),
               {-1.3416354199689269826, -0.44721180665630899419, 0.44721180665630899419, 1.3416354199689269826}, 1e-6));
}
TEST_CASE("a cubic Resize of bytes does not wrap around where it overshoots (onnx/onnx#7105)") {
  const Tensor x = tensor({0, 0, 0, 255, 255, 255}, u8).reshape({1, 1, 1, 6});
  const Tensor y = run_node("Resize", 13, {x, Tensor(), f32s({1, 1, 1, 2})}, attribute("mode", std::string("cubic")));
  const Numbers n = y.to_vector<double>();
  REQUIRE(n.size() == 12);
  for (size_t i = 0; i + 1 < n.size(); ++i) CHECK(n[i] <= n[i + 1]);  // it rises from 0 to 255 and stays there
  CHECK(n[0] == 0);
  CHECK(n[11] == 255);
}
