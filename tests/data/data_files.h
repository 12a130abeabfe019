// What tests of sources that read files share: packed files, and passes that are resumed.
#pragma once
#include <zlib.h>

#include <string>
#include <vector>

#include "catch.h"
#include "rill/data.h"

using Texts = std::vector<std::string>;

inline Texts texts_of(const rill::data::Dataset<rill::Tensor>& ds) {
  Texts all;
  for (const rill::Tensor& t : ds) all.push_back(t.item<std::string>());
  return all;
}

inline std::string gzipped(const std::string& bytes) {
  z_stream s = {};
  deflateInit2(&s, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(bytes.size() + 1000, '\0');
  s.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data())), s.avail_in = uInt(bytes.size());
  s.next_out = reinterpret_cast<Bytef*>(out.data()), s.avail_out = uInt(out.size());
  deflate(&s, Z_FINISH);
  out.resize(s.total_out);
  deflateEnd(&s);
  return out;
}
// Frames of zstd that hold the bytes as they are: blocks of kind "raw" (RFC 8878, 3.1.1.2).
inline std::string zstd_of(const std::string& bytes) {
  std::string out("\x28\xB5\x2F\xFD\x00\x58", 6);  // a window of 2 MiB
  constexpr size_t block = 100000;
  for (size_t at = 0; at == 0 || at < bytes.size(); at += block) {
    const size_t n = std::min(block, bytes.size() - at);
    const uint32_t head = uint32_t(n) << 3 | (at + n == bytes.size());
    for (int i = 0; i < 3; ++i) out += char(head >> 8 * i & 0xFF);
    out.append(bytes, at, n);
  }
  return out;
}

// Two passes give the same elements: one from the beginning, and one that is saved and restored at each element.
template <class T, class Same>
void check_resumes(const rill::data::Dataset<T>& ds, Same same) {
  const std::vector<T> all = ds.collect();
  auto it = ds.iterator();
  const size_t step = 1 + all.size() / 50;
  for (size_t i = 0; i <= all.size(); ++i) {
    INFO("after element " << i);
    if (i % step == 0) {
      const std::string state = it.save();
      CHECK(state.size() < 4000);
      auto other = ds.iterator();
      if (i % 3 == 0) other.next();
      other.restore(state);
      for (size_t k = i; k < all.size() && k < i + 40; ++k) {
        const auto x = other.next();
        REQUIRE(x);
        REQUIRE(same(*x, all[k]));
      }
      auto far = ds.iterator();
      far.restore(state);
      auto skipped = ds.skip(int64_t(i)).iterator();
      const auto x = far.next(), y = skipped.next();
      REQUIRE(bool(x) == (i < all.size()));
      REQUIRE(bool(y) == (i < all.size()));
      if (x) REQUIRE((same(*x, *y) && same(*x, all[i])));
    }
    const auto x = it.next();
    REQUIRE(bool(x) == (i < all.size()));
    if (x) REQUIRE(same(*x, all[i]));
  }
}
