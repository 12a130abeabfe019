// A program that follows its user's language, setlocale(LC_ALL, ""), writes and reads the same numbers: a decimal comma
// changes no file and no result.
#include "catch.h"

#include <rill/rill.h>
#include <rill/serialize.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>

#include "io_helpers.h"

using namespace rill;

namespace {
// Takes a locale of our own with a decimal comma, made in `folder`: few machines have one. False where that cannot be
// done.
bool set_comma(const Folder& folder) {
  put_file(folder / "comma.txt",
           "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n");
  const std::string place = "'" + folder.path() + "/comma";
  if (std::system(("localedef -c -i " + place + ".txt' " + place + "' >/dev/null 2>&1").c_str()) < 0) return false;
  setenv("LOCPATH", folder.path().c_str(), 1);
  return std::setlocale(LC_ALL, "comma") && std::string(std::localeconv()->decimal_point) == ",";
}

// What the program below writes and reads, as text.
std::string everything(const std::string& folder) {
  std::string out;
  for (DType d : {DType::f16, DType::bf16, DType::f32, DType::f64})
    out += to_string(tensor({0.1, 1234.5, 1e-3}).astype(d)) + "\n";
  Variable v(ones({2}), "v");
  CheckpointManager manager(Checkpoint{{"v", v}}, folder, {.max_to_keep = 1, .keep_every_hours = 1.5});
  manager.save(1);
  manager.save(2);
  CheckpointManager again(Checkpoint{{"v", v}}, folder);
  out += again.all().at(0) + "\n";
  put_file(folder + "/x.csv", "a,b\n1.5,1.25e400\n-2.5,1e-999\n");
  const Table t = read_csv(folder + "/x.csv");
  for (const char* name : {"a", "b"}) out += to_string(t.at(name)) + "\n";
  write_csv(folder + "/y.csv", t);
  out += contents(folder + "/y.csv");
  save(folder + "/z.npy", t.at("a"));
  out += contents(folder + "/z.npy");
  out += message_of([] { huber_loss(ones({2}), ones({2}), -0.5); });
  return out;
}
}  // namespace

TEST_CASE("numbers are the same in every locale") {
  Folder folder;
  const std::string before = everything(folder / "a");
  CHECK(has(before, "ckpt-2"));
  if (!set_comma(folder)) return skip_case("localedef makes no locale with a decimal comma here");
  char text[8];
  std::snprintf(text, sizeof text, "%.1f", 0.5);
  CHECK(std::string(text) == "0,5");  // what the C library makes of it
  std::string after;
  const std::string message = message_of([&] { after = everything(folder / "a"); });
  std::setlocale(LC_ALL, "C");
  CHECK(message.empty());
  CHECK(after == before);
}
