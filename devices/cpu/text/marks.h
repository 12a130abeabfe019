// Finds where the fields and rows of delimited text (CSV) end, 64 bytes at a time (marks.cpp). Delimiters and line ends
// between quotes are text; two quotes in a row are one in the text. This is right for text whose quotes are only at the
// ends of fields, or doubled inside them: the reader of the marks checks that.
#pragma once
#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)

namespace rill::cpu {

struct RowScan {
  size_t bytes = 0;   // in complete rows including their line ends
  int64_t rows = 0;   // lines that are not empty
  int64_t lines = 0;  // the '\n' in these bytes, and each '\r' outside quotes without a '\n' after it
};
// The first `most` rows of the n bytes at `text`, which start with a row; rows end with '\n', '\r' or both. A row that
// ends with a '\r' as the last byte is left out, because a '\n' may follow.
RowScan scan_rows(const char* text, size_t n, char quote, int64_t most);

// Writes the positions of all quotes, and of delimiters and line ends outside quotes, and returns their number. Room
// for n + mark_room is needed; n < 2^32.
inline constexpr size_t mark_room = 64;
size_t find_marks(const char* text, size_t n, char delimiter, char quote, uint32_t* positions);

}  // namespace rill::cpu

#pragma GCC visibility pop
