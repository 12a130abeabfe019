// Where the fields and rows of delimited text (CSV) end, 64 bytes at a time (marks.cpp). Between quotes, of which two in a
// row are one of the text's, delimiters and line ends are text. The words are right for text in which a quote stands at
// the ends of fields alone, or doubled within them: who reads the marks sees whether that is so.
#pragma once
#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)

namespace rill::cpu {

struct RowScan {
  size_t bytes = 0;   // of whole rows with the ends of their lines
  int64_t rows = 0;   // lines that are not empty
  int64_t lines = 0;  // the '\n' in these bytes, and each '\r' outside quotes that none follows
};
// The first `most` rows of the n bytes at `text`, which begin with a row; rows end with '\n', '\r' or both, and one that
// ends with the last byte and a '\r' is left, for a '\n' may follow.
RowScan scan_rows(const char* text, size_t n, char quote, int64_t most);

// Writes the places of all quotes, and of delimiters and line ends outside quotes, and gives how many there are. Room for
// n + mark_room is needed; n < 2^32.
inline constexpr size_t mark_room = 64;
size_t find_marks(const char* text, size_t n, char delimiter, char quote, uint32_t* places);

}  // namespace rill::cpu

#pragma GCC visibility pop
