// What `rill inspect` prints of files that hold no named tensors.
#pragma once
#include <string>

namespace command {

// An event file, or those of a folder: each tag with its steps and, of scalars, the last value.
void show_events(const std::string& path);
// A TFRecord file: how many records, and the features of the first where that is a tf.Example.
void show_records(const std::string& path);
// A table: its columns.
void show_table(const std::string& path);

}  // namespace command
