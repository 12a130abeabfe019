// WebP in a build without the webp feature; see codecs.h.
#include "rill/data/images/codec.h"

namespace rill::images {

Tensor decode_webp(const Bytes&, const DecodeOptions&, Where where) {
  fail_no_feature("decode_webp", "webp", "libwebp with its headers (libwebp-dev)", where);
}
Tensor encode_webp(const Tensor&, const WebpOptions&, Where where) {
  fail_no_feature("encode_webp", "webp", "libwebp with its headers (libwebp-dev)", where);
}

}  // namespace rill::images
