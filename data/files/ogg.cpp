// Ogg files, before libsndfile sees them. libogg passes over what is damaged, which would be missing from the sound, and
// libvorbis takes memory for all entries that a codebook claims, of which a few bytes may claim 2^24. Pages as in
// https://www.rfc-editor.org/rfc/rfc3533, codebooks as in https://xiph.org/vorbis/doc/Vorbis_I_spec.html, section 3. See
// sound.h.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <string>

#include "rill/data/files/sound.h"
#include "rill/serialize/tensors/elements.h"

namespace rill::data::detail {
namespace {

// --- Packets ---------------------------------------------------------------------------------------------------------

constexpr size_t page_head = 27, checksum_at = 22;

uint32_t page_checksum(std::string_view page) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < t.size(); ++i) {
      t[i] = i << 24;
      for (int k = 0; k < 8; ++k) t[i] = t[i] << 1 ^ (t[i] >> 31 ? 0x04C11DB7u : 0u);
    }
    return t;
  }();
  uint32_t sum = 0;
  for (size_t i = 0; i < page.size(); ++i) {
    const bool own = i >= checksum_at && i < checksum_at + 4;  // counts as 0
    sum = sum << 8 ^ table[sum >> 24 ^ (own ? 0 : uint8_t(page[i]))];
  }
  return sum;
}

// The page at `at`, which must be a sound one: what libogg passes over is missing from the sound.
std::string_view page_at(std::string_view bytes, size_t at, const SoundFile& file) {
  const std::string_view rest = bytes.substr(at);
  const size_t segments = rest.size() < page_head ? 0 : uint8_t(rest[page_head - 1]);
  size_t size = page_head + segments;
  for (size_t i = 0; i < segments && page_head + i < rest.size(); ++i) size += uint8_t(rest[page_head + i]);
  if (rest.size() < size)
    file.reject(at, fmt::format("a page of Ogg of {} bytes, and {} are left. the file is cut", size, rest.size()));
  const std::string_view page = rest.substr(0, size);
  if (page_checksum(page) != little_endian<uint32_t>(&page[checksum_at]))
    file.reject(at, "the checksum of a page of Ogg is wrong. the file is damaged");
  return page;
}

struct Stream {
  uint32_t pages = 0;   // the number of the next
  std::string part;     // of a packet that goes on in it
  int64_t packets = 0;  // complete ones
  bool vorbis = false;
};

// Calls take(stream, packet, byte of its last page) for each packet of each of the streams that lie in turns in a file.
template <class Take>
void each_packet(std::string_view bytes, const SoundFile& file, Take&& take) {
  std::map<uint32_t, Stream> streams;
  size_t at = 0;
  for (std::string_view page; at < bytes.size(); at += page.size()) {
    if (!bytes.substr(at).starts_with("OggS")) {
      const size_t next = bytes.find("OggS", at);
      if (next == bytes.npos) break;  // tags of some program
      file.reject(at, fmt::format("{} bytes between two pages of Ogg. the file is damaged", next - at));
    }
    page = page_at(bytes, at, file);
    const auto number = little_endian<uint32_t>(&page[18]);
    const auto [found, is_new] = streams.try_emplace(little_endian<uint32_t>(&page[14]));
    Stream& s = found->second;
    if (!is_new && number != s.pages)
      file.reject(at, fmt::format("page {} of a stream where page {} belongs. the file is damaged", number, s.pages));
    s.pages = number + 1;
    if (const bool continued = page[5] & 1; !continued) s.part.clear();
    const size_t segments = uint8_t(page[page_head - 1]);
    size_t from = page_head + segments;
    for (size_t i = 0; i < segments; ++i) {
      const size_t n = uint8_t(page[page_head + i]);
      s.part += page.substr(from, n);
      from += n;
      if (n == 255) continue;
      take(s, std::string_view(s.part), at);
      ++s.packets;
      s.part.clear();
    }
  }
  for (const auto& [serial, s] : streams)
    if (s.vorbis && s.packets < 3) file.reject(bytes.size(), "ends within the headers of Vorbis. the file is cut");
}

// --- Codebooks -------------------------------------------------------------------------------------------------------

class Bits {
 public:
  explicit Bits(std::string_view bytes) : bytes_(bytes) {}
  // The next n, at most 32, the lowest first; 0 beyond the end.
  uint32_t next(int n) {
    uint32_t x = 0;
    for (int i = 0; i < n; ++i, ++at_)
      if (!ended()) x |= uint32_t(uint8_t(bytes_[at_ / 8]) >> (at_ % 8) & 1) << i;
    return x;
  }
  bool ended() const { return at_ / 8 >= bytes_.size(); }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

// The largest n with n^dimensions <= entries.
uint32_t values_of_grid(uint32_t entries, uint32_t dimensions) {
  if (dimensions == 0) return 0;
  const auto fits = [&](uint32_t n) {
    double all = 1;
    for (uint32_t d = 0; d < dimensions && n > 1 && all <= entries; ++d) all *= n;
    return n == 0 || all <= entries;
  };
  auto n = uint32_t(std::pow(double(entries), 1.0 / dimensions));
  while (!fits(n)) --n;
  while (fits(n + 1)) ++n;
  return n;
}

// How many numbers the next codebook makes: its entries, and the values of each. Moves `in` past it.
uint64_t pass_codebook(Bits& in) {
  in.next(24);  // "BCV"
  const uint32_t dimensions = in.next(16), entries = in.next(24);
  if (in.next(1)) {  // entries by increasing length
    in.next(5);
    for (uint32_t i = 0; i < entries && !in.ended();) i += in.next(int(std::bit_width(entries - i)));
  } else {
    const bool sparse = in.next(1);
    for (uint32_t i = 0; i < entries && !in.ended(); ++i)
      if (!sparse || in.next(1)) in.next(5);
  }
  const uint32_t lookup = in.next(4);
  if (lookup == 1 || lookup == 2) {
    in.next(32), in.next(32);
    const int width = int(in.next(4)) + 1;
    in.next(1);
    const uint64_t values =
        lookup == 1 ? values_of_grid(entries, dimensions) : uint64_t(entries) * uint64_t(dimensions);
    for (uint64_t i = 0; i < values && !in.ended(); ++i) in.next(width);
  }
  return uint64_t(entries) * (uint64_t(dimensions) + 1);
}

}  // namespace

void check_ogg(std::string_view bytes, const SoundFile& file) {
  // Encoders write some 100,000 for all codebooks of a stream. libvorbis takes up to about 40 bytes for each.
  constexpr uint64_t most_numbers = uint64_t(1) << 21;
  if (!bytes.starts_with("OggS")) return;
  each_packet(bytes, file, [&](Stream& s, std::string_view packet, size_t at) {
    if (s.packets == 0) s.vorbis = packet.starts_with("\x01vorbis");
    if (!packet.starts_with("\x05vorbis")) return;
    Bits in(packet.substr(7));
    const uint32_t books = in.next(8) + 1;
    uint64_t numbers = 0;
    for (uint32_t i = 0; i < books && !in.ended(); ++i)
      if (numbers += pass_codebook(in); numbers > most_numbers)
        file.reject(at, fmt::format("the codebooks of Vorbis make {} numbers or more, and {} are allowed. the file is "
                                    "damaged, or made to fill the memory",
                                    numbers, most_numbers));
  });
}

}  // namespace rill::data::detail
