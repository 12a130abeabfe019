// Record files that grow while they are read, that a full disk interrupts, that come through a pipe, and Examples that
// are too large.
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "catch.h"
#include "io_helpers.h"
#include "rill/rill.h"
#include "rill/serialize.h"

using namespace rill;

namespace {
using Texts = std::vector<std::string>;

void append(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::app).write(bytes.data(), std::streamsize(bytes.size()));
}
Texts rest_of(RecordReader& in) {
  Texts records;
  for (std::string r; in.next(r);) records.push_back(r);
  return records;
}
}  // namespace

TEST_CASE("A reader goes on where a file ended, once it has grown") {
  Folder out;
  const std::string path = out / "r", second = record("second"), third = record(std::string(300'000, 'x'));
  put_file(path, "");
  RecordReader in(path, {.cut_end = true}), strict(path);
  CHECK(rest_of(in).empty());
  append(path, record("first").substr(0, 7));  // of whose start nothing can be told yet
  CHECK(rest_of(in).empty());
  append(path, record("first").substr(7));
  CHECK(rest_of(in) == Texts{"first"});
  CHECK(rest_of(strict) == Texts{"first"});
  // In the middle of a length, of the bytes, of the last sum; each at the end of what is there.
  size_t begin = 0;
  for (size_t end : {5u, 14u, 20u}) {
    append(path, second.substr(begin, end - begin));
    begin = end;
    CHECK(rest_of(in).empty());
    CHECK(has(message_of([&] { rest_of(strict); }), "record 1 is cut short"));
  }
  append(path, second.substr(begin));
  CHECK(rest_of(in) == Texts{"second"});
  append(path, third);
  CHECK(rest_of(in) == Texts{std::string(300'000, 'x')});
  CHECK(rest_of(strict) == Texts{"second", std::string(300'000, 'x')});
}

TEST_CASE("A reader follows a packed file that is written") {
  for (Compression c : {Compression::zlib, Compression::gzip}) {
    Folder out;
    RecordWriter log(out / "r", {.compression = c});
    log.write("first");
    log.flush();
    RecordReader in(out / "r", {.cut_end = true});
    CHECK(rest_of(in) == Texts{"first"});
    CHECK(rest_of(in).empty());
    log.write("second");
    log.flush();
    CHECK(rest_of(in) == Texts{"second"});
    log.write("third");
    log.close();
    CHECK(rest_of(in) == Texts{"third"});
    // Another stream behind it, as `cat` makes it.
    RecordWriter more(out / "more", {.compression = c});
    more.write("fourth");
    more.close();
    append(out / "r", contents(out / "more"));
    CHECK(rest_of(in) == Texts{"fourth"});
  }
}

TEST_CASE("A record that a full disk refuses is written once, when it is given again") {
  for (Compression c : {Compression::none, Compression::gzip}) {
    Folder out;
    Texts records;
    for (int i = 0; i < 12; ++i) {
      std::string r(100'000, '\0');
      uint32_t state = uint32_t(i) + 1;
      for (char& byte : r) byte = char((state = state * 1664525u + 1013904223u) >> 24);  // which no packing makes small
      records.push_back(r);
    }
    RecordWriter log(out / "r", {.compression = c});
    rlimit old;
    getrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, SIG_IGN);  // no file may be larger: what writing meets is what it meets on a full disk
    rlimit small{450'000, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    int refused = 0;
    Texts messages;
    for (const std::string& r : records)
      for (bool again = true; again;) {
        const std::string message = message_of([&] { log.write(r); });
        again = !message.empty();
        if (!again) continue;
        messages.push_back(message);
        if (++refused == 3) setrlimit(RLIMIT_FSIZE, &old);  // somebody has made room
      }
    setrlimit(RLIMIT_FSIZE, &old);
    log.close();
    REQUIRE(refused == 3);
    CHECK(has(messages[0], "cannot write"));
    RecordReader in(out / "r");
    CHECK(rest_of(in) == records);
  }
}

TEST_CASE("Records come through a pipe") {
  Folder out;
  REQUIRE(mkfifo((out / "pipe").c_str(), 0600) == 0);
  std::thread writer([&] { append(out / "pipe", record("first") + record(std::string(500'000, 'y'))); });
  {
    RecordReader in(out / "pipe");
    CHECK(rest_of(in) == Texts{"first", std::string(500'000, 'y')});
    writer.join();
  }  // while this end is open, the next writer would wait for no reader, and its words go with this one
  std::thread table([&] { append(out / "pipe", "a,b\n1,2\n"); });
  CHECK(read_csv(out / "pipe").at("b").to_vector<int64_t>() == std::vector<int64_t>{2});
  table.join();
  CHECK(has(message_of([&] { RecordReader folder(out.path()); }), "Is a directory"));
}

TEST_CASE("Places that are none, and lengths below 0, are refused") {
  Folder out;
  put_file(out / "a.tfrecord", record("first"));
  RecordReader in(out / "a.tfrecord");
  says([&] { in.go_to({-1, 0}); }, {"[RecordReader]", "record -1 at byte 0 is no place in a file"});
  says([&] { in.go_to({0, -5}); }, {"record 0 at byte -5 is no place"});
  says([&] { in.go_to({1, 1000}); }, {"'" + (out / "a.tfrecord") + "'", "byte 1000, and it has 21"});
  CHECK(rest_of(in) == Texts{"first"});
  says([&] { RecordReader(out / "a.tfrecord", {.largest = -1}); }, {"[RecordReader]", "-1 bytes: 0 or more"});
}

TEST_CASE("An Example of more than 2 GiB is refused before memory is taken for it") {
  const Tensor large = broadcast_to(tensor({1.5f}), {1 << 28});  // of 1 GiB, had it elements of its own
  reset_peak_memory(Device());
  const size_t before = memory_stats(Device()).in_use;
  const std::string message = message_of([&] { make_example({{"a", large}, {"b", large}, {"c", large}}); });
  CHECK(has(message, "[make_example] 3221225472 bytes are too many for one message"));
  CHECK(has(message, "test_record_streams.cpp"));
  CHECK(has(message_of([&] { make_sequence_example({{"a", large}}, {{"b", {large, large}}}); }),
            "make_sequence_example"));
  CHECK(memory_stats(Device()).peak - before < 1 << 20);
}
