// The projector's files: vectors, what is known of them, pictures, and projector_config.pbtxt, which lists them.
#pragma once
#include <map>
#include <mutex>
#include <string>

#include "rill/serialize/summary.h"

namespace rill::summary {

class EmbeddingFiles {
 public:
  explicit EmbeddingFiles(std::string folder) : folder_(std::move(folder)) {}
  // `vectors` has a real dtype, and options.sprites, if there are any, [n,h,w,c].
  void write(const std::string& name, const Tensor& vectors, const EmbeddingOptions& options, const Where& where);

 private:
  std::string folder_;
  std::mutex mutex_;
  std::string folder_of(const std::string& name);
  std::map<std::string, std::string> entries_, folders_;  // by name: of the configuration; of the files
};

}  // namespace rill::summary
