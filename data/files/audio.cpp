// See audio.h.
#include "rill/data/files/audio.h"

#include <fmt/format.h>

#include "rill/data/files/blocks.h"
#include "rill/data/files/sound.h"
#include "rill/devices/registry.h"
#include "rill/serialize/files.h"

namespace rill {
namespace data::detail {

void SoundFile::reject(size_t at, const std::string& what) const {
  fail(op, fmt::format("{}{}at byte {}: {}", name, name.empty() ? "" : " ", at, what), where);
}
void SoundFile::reject(const std::string& what) const { fail(op, name.empty() ? what : name + ": " + what, where); }

namespace {

std::pair<Tensor, int64_t> decode_sound(std::string_view bytes, const SoundFile& file) {
  if (bytes.empty()) file.reject("is empty");
  std::optional<Sound> sound = read_wav(bytes, file);
  if (!sound) sound = read_by_library(bytes, file);
  return {column_tensor(sound->samples), sound->rate};
}
std::pair<Tensor, int64_t> read_sound(const std::string& path, const std::string& op, const Where& where) {
  if (path == "-") begin_standard_input(op, where);
  const std::string bytes = read_file(path, op, where, Accepts::streams);
  return decode_sound(bytes, {op, "'" + path + "'", where});
}

}  // namespace
}  // namespace data::detail

std::pair<Tensor, int64_t> decode_audio(const Tensor& bytes, Where where) {
  const CallerScope caller(where);
  if (!bytes.defined() || bytes.dtype() != DType::string || bytes.size() != 1)
    fail("decode_audio",
         "takes one string, a file's bytes" + (bytes.defined() ? ". got " + to_string(bytes.spec()) : std::string()),
         where);
  return data::detail::decode_sound(bytes.item<std::string>(where), {"decode_audio", "", where});
}
std::pair<Tensor, int64_t> read_audio(const std::string& path, Where where) {
  const CallerScope caller(where);
  return data::detail::read_sound(path, "read_audio", where);
}

namespace data {

Dataset<std::pair<Tensor, int64_t>> audio(const Paths& paths, Where where) {
  const Where at = caller_or(where);
  const std::vector<std::string> files = paths.files("data::audio", at);
  return Dataset<std::pair<Tensor, int64_t>>(stages::indexed(
      "audio", int64_t(files.size()),
      [files, at](int64_t i) { return Item::of(detail::read_sound(files[size_t(i)], "data::audio", at)); }, at));
}

}  // namespace data
}  // namespace rill
