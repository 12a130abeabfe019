// `rill inspect` for files without named tensors.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace command {

struct DataSettings {
  bool stats = false;  // smallest and largest number, mean, missing values
  int64_t head = 0;    // how many of the first elements are printed
};

// An event file, or those of a folder: each tag with its steps and, for scalars, the last value.
void show_events(const std::string& path);
// Each record of a file; an incomplete last one, as of a program that is still writing, is the end.
void each_record(const std::string& path, const std::function<void(const std::string&)>& take);
// A TFRecord file: the number of records, and the features of the first if that is a tf.Example; of all for statistics.
void show_records(const std::string& path, const DataSettings& s);
// A table: its columns. Rows that cannot be parsed are counted.
void show_table(const std::string& path, const DataSettings& s);
void show_idx(const std::string& path, const DataSettings& s);
void show_audio(const std::string& path, const DataSettings& s);
// A folder of pictures, and its subfolders: how many each has.
bool holds_pictures(const std::string& folder);
void show_pictures(const std::string& folder, const DataSettings& s);

}  // namespace command
