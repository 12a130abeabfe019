// Files of tensors in every way in which they can be bad: each is an error that names the file and the place.
// fuzz_files.cpp finds what nobody thinks of.
#include <sys/stat.h>

#include <cstring>

#include "catch.h"
#include "tensor_files.h"

using namespace rill;
using namespace std::string_literals;

namespace {

template <class T>
std::string little(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
std::string npy(const std::string& header, const std::string& elements = "", int version = 1) {
  std::string text = "\x93NUMPY"s + char(version) + '\0';
  text += version == 1 ? little(uint16_t(header.size())) : little(uint32_t(header.size()));
  return text + header + elements;
}
std::string npy_of(const std::string& descr, const std::string& shape, const std::string& elements = "") {
  return npy("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n", elements);
}
std::string safe(const std::string& header, const std::string& elements = "") {
  return little(uint64_t(header.size())) + header + elements;
}

// A member of a zip file, and what the file says of it where that is not the truth.
struct ZipMember {
  std::string name, data;
  uint16_t method = 0;
  uint32_t size = uint32_t(data.size()), crc = crc_of(data);
  uint16_t flags = 0;
  bool again = false;  // has no data of its own, but those of the first

  static uint32_t crc_of(const std::string& bytes) {
    uint32_t crc = ~0u;
    for (char c : bytes) {
      crc ^= uint8_t(c);
      for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    return ~crc;
  }
};
std::string zip_of(const std::vector<ZipMember>& members) {
  std::string out, directory;
  for (const ZipMember& m : members) {
    const std::string facts = little(m.flags) + little(m.method) + little(0u) + little(m.crc) +
                              little(uint32_t(m.data.size())) + little(m.size) + little(uint16_t(m.name.size())) +
                              little(uint16_t(0));
    directory += "PK\1\2" + little(uint16_t(20)) + little(uint16_t(20)) + facts + std::string(10, '\0') +
                 little(uint32_t(m.again ? 0 : out.size())) + m.name;
    if (!m.again) out += "PK\3\4" + little(uint16_t(20)) + facts + m.name + m.data;
  }
  const auto n = little(uint16_t(members.size()));
  return out + directory + "PK\5\6" + little(0u) + n + n + little(uint32_t(directory.size())) +
         little(uint32_t(out.size())) + little(uint16_t(0));
}

// A file with these bytes.
struct Bad : Folder {
  std::string error(const std::string& name, const std::string& bytes, LoadOptions options = {}) const {
    put_file(*this / name, bytes);
    const std::string text = message_of([&] { load(*this / name, options); });
    CHECK(text.find("test_bad_tensor_files.cpp:") == 0);
    CHECK(has(text, "[load] '" + *this / name + "'"));
    return text;
  }
};

}  // namespace

TEST_CASE("What is no file") {
  Folder out;
  CHECK(has(message_of([&] { load(out / "x.npy"); }), "No such file"));
  std::filesystem::create_directory(out / "d.npz");
  CHECK(has(message_of([&] { load(out / "d.npz"); }), "Is a directory"));
  mkfifo((out / "p.npy").c_str(), 0600);
  CHECK(has(message_of([&] { load(out / "p.npy"); }), "device or a pipe"));
  CHECK(has(message_of([&] { load("/dev/zero.npy"); }), "No such file"));
  CHECK(has(message_of([&] { load(out / "x.pt"); }), "use .npy, .npz or .safetensors, or .gguf"));
  CHECK(has(message_of([&] { save(out / "d.npz", NamedTensors{{"x", arange(2)}}); }), "Is a directory"));
  put_file(out / "file", "x");
  CHECK(has(message_of([&] { save(out / "file/x.npy", arange(2)); }), "cannot make the folder"));
}

TEST_CASE("Bad .npy files") {
  Bad f;
  const std::string six(24, '\1');
  auto error = [&](const std::string& bytes) { return f.error("x.npy", bytes); };
  CHECK(has(error(""), "at byte 0: expected \"\\x93NUMPY\""));
  CHECK(has(error("PK\3\4 something else"), "at byte 0: expected \"\\x93NUMPY\""));
  CHECK(has(error("\x93NUMPY"), "at byte 6: expected a header"));
  CHECK(has(error("\x93NUMPY\4\0\0\0"s), "at byte 6: expected version 1.0, 2.0 or 3.0"));
  CHECK(has(error("\x93NUMPY\1\1\0\0"s), "at byte 6: expected version"));
  CHECK(has(error("\x93NUMPY\2\0\xff\xff\xff\xff"s),
            "at byte 12: expected a header of 4294967295 bytes, and 0 are left"));
  CHECK(has(error("\x93NUMPY\2\0\xff\xff"s), "at byte 10: expected a header"));
  CHECK(has(error(npy("")), "expected '{'"));
  CHECK(has(error(npy("{}")), "expected the keys"));
  CHECK(has(error(npy("{'descr': '<f4', 'shape': (2,)}")), "expected the keys"));
  CHECK(has(error(npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "1234")), "twice"));
  CHECK(has(error(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", "1234")), "it has 'x'"));
  CHECK(has(error(npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "1234")), "expected True or False"));
  CHECK(has(error(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} + 1", "1234")), "nothing behind"));
  CHECK(has(error(npy("{'descr': __import__('os'), 'fortran_order': False, 'shape': (1,)}", "1234")), "structure"));
  CHECK(has(error(npy("{'descr': '<f4")), "expected a string that ends"));
  for (const char* shape :
       {"(-1,)", "(6)", "6", "[6]", "(2, 3", "(2 3)", "(99999999999999999999,)", "(1e3,)", "(True,)", "(,)", "(6,,)"})
    CHECK(has(error(npy_of("<f4", shape, six)), "in numpy's header, expected"));
  for (const char* type : {"", "<", "f", "<f", "<f3", "<f16", "<c32", "x4", "<f4x", "O", "|O8", "|V4", "<M8[ns]",
                           "<i4, <f4", "f4,f4", "<U99999999999", "S-1"})
    CHECK(has(error(npy_of(type, "(6,)", six)), "the dtype"));
  CHECK(has(error(npy_of("<f4", "(6,)", six + "x")), "expected 24 bytes of elements of f32[6], and 25 are left"));
  CHECK(has(error(npy_of("<f4", "(6,)", six.substr(1))), "and 23 are left. the file is truncated"));
  for (const char* shape : {"(4611686018427387904, 4)", "(9223372036854775807,)", "(140737488355329,)",
                            "(0, 9223372036854775807, 9223372036854775807)"})
    CHECK(has(error(npy_of("<f4", shape, six)), "expected far too many bytes"));
  CHECK(has(error(npy_of("<U1073741823", "(1000000, 1000000)", six)), "bytes of elements"));
  CHECK(has(error(npy_of("<U0", "(1099511627776,)")), "strings of no length"));
  CHECK(has(error(npy_of("<U1", "(1,)", "\xff\xff\xff\xff")), "expected a character of Unicode"));
  CHECK(has(error(npy_of("<U1", "(1,)", "\0\xd8\0\0"s)), "expected a character of Unicode"));
  std::string axes = "(";
  for (int i = 0; i < 65; ++i) axes += "1, ";
  CHECK(has(error(npy_of("|u1", axes + ")", "1")), "at most 64 axes"));
  CHECK(same(load((put_file(f / "y.npy", npy_of("?", "(3,)", "\0\1\x7f"s)), f / "y.npy"), {.mapped = true}).at(""),
             tensor({false, true, true})));
  // Every truncation of a good file.
  const std::string good = contents(fixture("plain.npy"));
  for (size_t n = 0; n < good.size(); ++n) CHECK(!error(good.substr(0, n)).empty());
}

TEST_CASE("Bad .npz files") {
  Bad f;
  auto error = [&](const std::string& bytes, LoadOptions options = {}) { return f.error("x.npz", bytes, options); };
  const std::string array = npy_of("<f4", "(2,)", little(1.f) + little(2.f));
  put_file(f / "good.npz",
           zip_of({{"x.npy", array}, {"../../up.npy", array}, {"/root.npy", array}, {"folder/", ""}, {"bare", array}}));
  NamedTensors good = load(f / "good.npz");
  CHECK((good.size() == 4 && good.count("x") && good.count("../../up") && good.count("/root") && good.count("bare")));
  CHECK(has(error(""), "expected a zip file of .npy files"));
  CHECK(has(error(array), "expected a zip file of .npy files"));
  CHECK(has(error(zip_of({{"x.npy", array}, {"x.npy", array}})), "a second array of the name 'x'"));
  CHECK(has(error(zip_of({{"x.npy", array}, {"x", array}})), "a second array of the name 'x'"));
  CHECK(has(error(zip_of({{.name = "x.npy", .data = array, .crc = 1}})), "member 'x.npy': CRC error"));
  CHECK(has(error(zip_of({{"x.npy", array + "1"}})), "expected 8 bytes of elements"));
  CHECK(has(error(zip_of({{"x.npy", array.substr(0, array.size() - 1)}})), "expected 8 bytes of elements"));
  CHECK(has(error(zip_of({{.name = "x.npy", .data = array, .size = 1}})), "cannot hold the 1"));
  CHECK(has(error(zip_of({{.name = "x.npy", .data = array, .method = 8, .size = 0xfffffff0}})),
            "cannot hold the 4294967280"));
  CHECK(has(error(zip_of({{.name = "x.npy", .data = array, .method = 8}})), "member 'x.npy'"));
  CHECK(has(error(zip_of({{.name = "x.npy", .data = array, .method = 77}})), "ompression method not supported"));
  CHECK(has(error(zip_of({{.name = "x.npy", .data = array, .flags = 1}})), "member 'x.npy'"));
  CHECK(has(error(zip_of({{"x.npy", array}, {"notes.txt", "text"}})),
            "member 'notes.txt': at byte 0: expected \"\\x93NUMPY\""));
  put_file(f / "notes.npz", zip_of({{"x.npy", array}, {"notes.txt", "text"}}));
  CHECK(load(f / "notes.npz", {.names = {"x"}}).size() == 1);
  // Many members that share the bytes of one.
  const std::string large = npy_of("|u1", "(1000,)", std::string(1000, 'x'));
  std::vector<ZipMember> shared = {{"x.npy", large}};
  for (int i = 0; i < 40; ++i) shared.push_back({.name = std::to_string(i), .data = large, .again = true});
  CHECK(has(error(zip_of(shared)), "expected members that do not overlap"));
  // Directories that say they have more members than there is room for, in 16 bits and in 64.
  std::string many = zip_of({{"x.npy", array}});
  many.replace(many.size() - 12, 4, "\xfe\xff\xfe\xff");
  CHECK(has(error(many), "members does not fit into"));
  std::string more = zip_of({{"x.npy", array}});
  const std::string end = more.substr(more.size() - 22, 10) + "\xff\xff\xff\xff" + std::string(8, '\xff');
  more.resize(more.size() - 22);
  const uint64_t at = more.size(), members = uint64_t(1) << 40;
  more += "PK\6\6" + little(uint64_t(44)) + little(uint16_t(45)) + little(uint16_t(45)) + little(uint64_t(0)) +
          little(members) + little(members) + little(members * 46) + little(uint64_t(0));
  more += "PK\6\7" + little(0u) + little(at) + little(1u) + end + little(uint16_t(0));
  CHECK(has(error(more), "members does not fit into"));
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const std::string bytes = contents(fixture(name));
    for (size_t n = 0; n < bytes.size(); n += 3) CHECK(!error(bytes.substr(0, n)).empty());
  }
}

TEST_CASE("Bad .safetensors files") {
  Bad f;
  auto error = [&](const std::string& bytes) { return f.error("x.safetensors", bytes); };
  auto tensor_at = [](const std::string& name, const std::string& type, const std::string& shape,
                      const std::string& offsets) {
    return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
  };
  const std::string x = tensor_at("x", "U8", "[2]", "[0,2]");
  put_file(f / "good.safetensors", safe("{" + x + "}   \n", "ab"));
  CHECK(load(f / "good.safetensors").at("x").to_vector<int>() == std::vector<int>{97, 98});
  put_file(f / "good.safetensors", safe("{\"__metadata__\":null," + x + "}", "ab"));
  CHECK(load(f / "good.safetensors").size() == 1);
  CHECK(has(error(""), "at byte 0: expected the length of a header of 8 bytes, and 0 are left"));
  CHECK(has(error("1234567"), "and 7 are left"));
  CHECK(has(error(little(uint64_t(-1)) + "{}"), "at byte 0: expected the length of a header, at most 100 MB"));
  CHECK(has(error(little(uint64_t(100)) + "{}"), "at byte 8: expected a header of 100 bytes, and 2 are left"));
  CHECK(has(error(safe("")), "expected '{'"));
  CHECK(has(error(safe(" {}")), "expected '{'"));
  CHECK(has(error(safe("{")), "expected JSON"));
  CHECK(has(error(safe("{} x")), "expected JSON"));
  CHECK(has(error(safe("{\"\xff\":1}")), "expected JSON"));
  CHECK(has(error(safe("{" + x + "," + x + "}", "ab")), "two tensors are named 'x'"));
  CHECK(has(error(safe("{" + x + "}", "a")), "truncated"));
  CHECK(has(error(safe("{" + x + "}", "abc")), "1 bytes belong to no tensor"));
  CHECK(has(error(safe("{" + x + "," + tensor_at("y", "U8", "[2]", "[1,3]") + "}", "abc")), "where 2 is next"));
  CHECK(has(error(safe("{" + x + "," + tensor_at("y", "U8", "[2]", "[0,2]") + "}", "ab")), "where 2 is next"));
  CHECK(has(error(safe("{" + x + "," + tensor_at("y", "U8", "[2]", "[3,5]") + "}", "abcde")), "where 2 is next"));
  CHECK(has(error(safe("{" + tensor_at("x", "U8", "[2]", "[2,0]") + "}", "ab")), "the offsets 2 to 0"));
  CHECK(has(error(safe("{" + tensor_at("x", "U8", "[2]", "[0,18446744073709551615]") + "}", "ab")), "offsets"));
  CHECK(has(error(safe("{" + tensor_at("x", "U8", "[2]", "[0,18446744073709551616]") + "}", "ab")), "expected no"));
  CHECK(has(error(safe("{" + tensor_at("x", "U8", "[2]", "[0]") + "}", "ab")), "expected two numbers"));
  CHECK(has(error(safe("{" + tensor_at("x", "U8", "[2]", "[0,2,2]") + "}", "ab")), "expected two numbers"));
  CHECK(has(error(safe("{" + tensor_at("x", "U8", "[-2]", "[0,2]") + "}", "ab")), "expected no -2"));
  CHECK(has(error(safe("{" + tensor_at("x", "U8", "[2.0]", "[0,2]") + "}", "ab")), "expected no 2.0"));
  CHECK(has(error(safe("{" + tensor_at("x", "U8", "[[2]]", "[0,2]") + "}", "ab")), "expected no list"));
  CHECK(has(error(safe("{" + tensor_at("x", "U8", "{\"a\":1}", "[0,2]") + "}", "ab")), "expected no object"));
  CHECK(has(error(safe("{" + tensor_at("x", "U8", "[1]", "[0,2]") + "}", "ab")), "expected the elements of u8[1]"));
  CHECK(has(error(safe("{" + tensor_at("x", "F99", "[1]", "[0,2]") + "}", "ab")), "the dtype F99"));
  CHECK(has(error(safe("{" + tensor_at("x", "U8", "[4294967296,4294967296,4294967296]", "[0,2]") + "}", "ab")),
            "elements of"));
  CHECK(has(error(safe("{" + tensor_at("x", "F32", "[0,140737488355328,140737488355328]", "[0,0]") + "}")),
            "elements of"));
  CHECK(has(error(safe("{\"x\":{\"dtype\":\"U8\",\"shape\":[2]}}", "ab")), "expected dtype, shape and data_offsets"));
  CHECK(has(error(safe("{\"x\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", "ab")), "twice"));
  CHECK(has(error(safe("{\"x\":{\"stride\":[2]}}", "ab")), "expected dtype, shape and data_offsets"));
  for (const char* value : {"1", "-1", "1.5", "\"a\"", "null", "true", "[]"})
    CHECK(has(error(safe("{\"x\":"s + value + "}")), "'x': expected no"));
  CHECK(has(error(safe("{\"__metadata__\":{\"a\":1}}")), "expected no"));
  CHECK(has(error(safe("{\"__metadata__\":{\"a\":{}}}")), "expected no"));
  CHECK(has(error(safe("{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}}")), "twice"));
  CHECK(has(error(safe("{\"__metadata__\":{},\"__metadata__\":{}}")), "twice"));
  CHECK(has(error(safe("{\"a\":" + std::string(1 << 20, '[') + "}")), "expected no list"));
  const std::string good = contents(fixture("several.safetensors"));
  for (size_t n = 0; n < good.size(); ++n) CHECK(!error(good.substr(0, n)).empty());
}

TEST_CASE("Bad .gguf files") {
  Bad f;
  auto error = [&](const std::string& bytes) { return f.error("x.gguf", bytes); };
  auto head = [](uint64_t tensors, uint64_t values) { return "GGUF" + little(3u) + little(tensors) + little(values); };
  auto text = [](const std::string& s) { return little(uint64_t(s.size())) + s; };
  auto tensor_at = [&](const std::string& name, uint64_t n, uint32_t type, uint64_t offset) {
    return text(name) + little(1u) + little(n) + little(type) + little(offset);
  };
  CHECK(has(error(""), "expected \"GGUF\""));
  CHECK(has(error("GGML1234"), "at byte 0: expected \"GGUF\""));
  CHECK(has(error("GGUF" + little(1u)), "at byte 4: expected version 2 or 3"));
  CHECK(has(error(head(uint64_t(-1), 0)), "expected the name of a tensor"));
  CHECK(has(error(head(0, uint64_t(-1))), "expected a key"));
  CHECK(has(error(head(0, 1) + little(uint64_t(-8)) + "abc"), "expected a key of 18446744073709551608 bytes"));
  CHECK(has(error(head(0, 1) + text("k") + little(99u)), "expected a type of a value"));
  CHECK(has(error(head(0, 1) + text("k") + little(9u) + little(0u) + little(uint64_t(1) << 60)), "does not fit"));
  CHECK(has(error(head(0, 1) + text("k") + little(9u) + little(8u) + little(uint64_t(1) << 60)), "expected a text"));
  CHECK(has(error(head(0, 1) + text("k") + little(9u) + little(9u) + little(uint64_t(1))), "no list of lists"));
  CHECK(has(error(head(0, 1) + text("general.alignment") + little(4u) + little(24u)), "power of two"));
  CHECK(has(error(head(0, 1) + text("general.alignment") + little(4u) + little(0u)), "power of two"));
  const std::string elements(64, 'x');
  auto padded = [](std::string s) { return s.append((32 - s.size() % 32) % 32, '\0'); };
  put_file(f / "good.gguf", padded(head(1, 0) + tensor_at("x", 16, 24, 0)) + elements);
  CHECK(load(f / "good.gguf").at("x").shape() == Shape{16});
  CHECK(has(error(padded(head(1, 0) + tensor_at("x", 65, 24, 0)) + elements), "and 64 are left"));
  CHECK(has(error(padded(head(1, 0) + tensor_at("x", 16, 24, uint64_t(-32))) + elements), "behind the end"));
  CHECK(has(error(padded(head(1, 0) + tensor_at("x", uint64_t(-1), 24, 0)) + elements), "expected a size"));
  CHECK(has(error(padded(head(1, 0) + tensor_at("x", 20, 8, 0)) + elements), "whole blocks"));
  CHECK(has(error(padded(head(1, 0) + tensor_at("x", 32, 16, 0)) + elements), "the type 16, which rill does not read"));
  CHECK(has(error(padded(head(2, 0) + tensor_at("x", 33, 24, 0) + tensor_at("y", 1, 24, 32)) + elements), "overlaps"));
  CHECK(has(error(padded(head(2, 0) + tensor_at("x", 1, 24, 0) + tensor_at("x", 1, 24, 32)) + elements),
            "two tensors are named 'x'"));
  const std::string good = contents(fixture("several.gguf"));
  for (size_t n = 0; n + 32 < good.size(); n += n < 512 ? 1 : 37)  // it ends with padding
    CHECK(!error(good.substr(0, n)).empty());
}
