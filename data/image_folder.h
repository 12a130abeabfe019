// Pictures in folders, a folder a class: what image_dataset_from_directory() and torchvision's ImageFolder read.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rill/data/dataset.h"
#include "rill/data/images/geometry.h"

#pragma GCC visibility push(default)

namespace rill::data {

enum class Subset : uint8_t { training, validation };

struct ImageFolderOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  Dims size = {};           // {height, width}; empty: each as it is
  int channels = 3;         // 1 (grey), 3 or 4
  DType dtype = DType::u8;  // or a floating one: from 0 to 1
  images::ResizeMethod method = images::ResizeMethod::bilinear;
  bool antialias = true;
  bool crop_to_aspect_ratio = false;  // cuts off what has not the proportions of `size`, and stretches nothing
  // Reads large JPEGs at 1/2, 1/4 or 1/8 of their size, where that is at least `size`: faster, with other bits.
  bool fast_jpeg = false;
  std::vector<std::string> extensions = {".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp"};  // in lower case
  bool shuffle = false;               // in a new order each epoch; otherwise by class and name
  std::optional<uint64_t> seed = {};  // of that order, as in ShuffleOptions, and of the split (0 where there is none)
  // This part of the files is for validation: which, `seed` and their names decide, so that both subsets are made with
  // the same seed.
  double validation = 0;
  Subset subset = Subset::training;
  int threads = 1;  // that read and decode, as in MapOptions
};

// Pairs of an image [height, width, channels] and the number of its class.
class ImageFolder : public Dataset<std::pair<Tensor, int64_t>> {
 public:
  ImageFolder(const Dataset<std::pair<Tensor, int64_t>>& images, std::vector<std::string> classes,
              std::vector<std::string> paths)
      : Dataset(images), classes_(std::move(classes)), paths_(std::move(paths)) {}
  // As of a Dataset, a move is a copy.
  ImageFolder(const ImageFolder&) = default;
  ImageFolder& operator=(const ImageFolder&) = default;
  // The names of the classes' folders, sorted: label i is classes()[i].
  const std::vector<std::string>& classes() const& { return classes_; }
  // The files of this subset, by class and name.
  const std::vector<std::string>& paths() const& { return paths_; }
  // Of a temporary these are copies, for it may be gone when they are looked at.
  std::vector<std::string> classes() const&& { return classes_; }
  std::vector<std::string> paths() const&& { return paths_; }

 private:
  std::vector<std::string> classes_, paths_;
};

// The pictures below each folder in `folder`, read on demand (needs librill_io). For animations the first frame. Throws
// if there is no folder or no picture; a file that cannot be read is an error when it is reached, which names it
// (ignore_errors() drops it).
ImageFolder image_folder(const std::string& folder, const ImageFolderOptions& options = {},
                         Where where = Where::current());

}  // namespace rill::data

#pragma GCC visibility pop
