// JPEG in a build without the jpeg feature; see codecs.h.
#include "rill/data/images/codec.h"

namespace rill::images {

Tensor decode_jpeg(const Bytes&, const DecodeOptions&, Where where) {
  fail_no_feature("decode_jpeg", "jpeg", "libjpeg-turbo with its TurboJPEG header (libturbojpeg0-dev)", where);
}
Tensor encode_jpeg(const Tensor&, const JpegOptions&, Where where) {
  fail_no_feature("encode_jpeg", "jpeg", "libjpeg-turbo with its TurboJPEG header (libturbojpeg0-dev)", where);
}

}  // namespace rill::images
