// What librill_parquet gives: C alone, for it is made with the headers of another library and opened at run time.
#pragma once
#include <cstdint>

#pragma GCC visibility push(default)

extern "C" {

extern const char rill_parquet_version[];  // of rill: the library that opens this one is of the same

// Of the columns named, or all. Never null; rill_parquet_error() is "" where it could be opened.
void* rill_parquet_open(const char* path, const char* const* columns, int count, int64_t batch_rows);
void rill_parquet_close(void* file);
const char* rill_parquet_error(void* file);
int rill_parquet_groups(void* file);
int64_t rill_parquet_rows(void* file, int group);
// The batches of a group from its first: 1, or -1 with an error.
int rill_parquet_begin(void* file, int group);
// The next batch as an Arrow stream, whose bytes live until the next call: 1, 0 at the end, -1 with an error.
int rill_parquet_next(void* file, const char** bytes, int64_t* size);
}

#pragma GCC visibility pop
