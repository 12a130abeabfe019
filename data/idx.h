// IDX, the format of the MNIST files: a magic number, the sizes, then the elements, all big-endian; often gzipped.
// The description is at the end of http://yann.lecun.com/exdb/mnist/.
#pragma once
#include <string>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill::data {

// The one array of an IDX file, gzipped or plain, on the default device: u8, i8, i16, i32, f32 or f64, of any number of
// dimensions. Throws rill::Error, naming the file and what was expected, where it is missing, is no IDX file, is
// truncated, has bytes left over, or is a gzip file that is damaged.
Tensor read_idx(const std::string& path, Where where = Where::current());

struct Mnist {
  Tensor train_images, test_images;  // u8[n,height,width], 0 to 255
  Tensor train_labels, test_labels;  // i32[n], 0 to 9
};

// The four files of `folder`: {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte, with .gz or without.
// On the default device. Throws as read_idx does, and where images and labels differ in number, a label is not below
// 10, or the images of the two sets differ in size.
Mnist load_mnist(const std::string& folder, Where where = Where::current());

}  // namespace rill::data

#pragma GCC visibility pop
